"""Exact mean hitting times: limits, scalings of Lemmas 4.1 to 4.3, paths, and a chain solved directly."""

import itertools
import math

import naive
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

from lbcore.simulate import paths
from lbcore.theory import hitting
from lbcore.theory.diffusion import diffusion_law


@pytest.mark.parametrize(
    ("beta", "level", "top"), [(1.0, 0.5, 4.0), (3.0, 1.5, 6.0), (0.5, 0.5, 3.0), (1.0, 0.05, 1.0)]
)
def test_fall_times_against_paths(beta, level, top):
    exact = hitting.fall_times(beta, level, top).from_wall[-1]
    found = paths.mean_first_time(beta, (0.0, top), level=level, step=0.01, paths=40_000, seed=1)
    assert abs(found.value - exact) < 1.5 * found.half_width + 0.003 * exact


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_fall_times_against_a_chain_that_knows_no_excursions(beta):
    exact, rows = hitting.fall_times(beta, 0.5, 2.0), []
    for h in (0.1, 0.05, 0.025):
        rows.append(naive.jsq_diffusion_fall(beta, h, 0.5, 2.0, depth=beta + 5.5, height=10.0))
    first = 2 * rows[1] - rows[0], 2 * rows[2] - rows[1]
    limit = (4 * first[1] - first[0]) / 3
    assert exact.from_wall[-1] == pytest.approx(limit, rel=3e-3)


def between(times, level):
    """Return the mean times from the wall at levels that lie between those of the march."""
    return CubicSpline(np.log(times.top / times.levels), times.from_wall)(np.log(times.top / level))


def test_one_march_serves_all_levels():
    long, short = hitting.fall_times(1.3, 0.02, 3.0), hitting.fall_times(1.3, 0.5, 3.0)
    assert between(long, 0.5) == pytest.approx(short.from_wall[-1], rel=1e-6)
    assert (np.diff(long.levels) < 0).all() and (np.diff(long.from_wall) > 0).all() and (np.diff(long.cycle) > 0).all()
    assert (long.from_typical < long.from_wall).all() and long.levels[[0, -1]] == pytest.approx([3.0, 0.02])
    assert "level         0.02" in repr(long)


@pytest.mark.parametrize(
    ("beta", "level", "top"), [(0.3, 0.2, 12.0), (1.0, 1e-6, 0.25), (4.0, 1e-8, 1.0), (5.0, 2.5, 12.0)]
)
def test_a_finer_grid_changes_nothing(beta, level, top, monkeypatch):
    coarse = hitting.fall_times(beta, level, top)
    steps = hitting._step_sizes
    monkeypatch.setattr(hitting, "_NODES", 64)
    monkeypatch.setattr(hitting, "_FIRST", 1e-9)
    monkeypatch.setattr(hitting, "_step_sizes", lambda a, b: np.repeat(steps(a, b) / 2, 2))
    fine, rel = hitting._cached_fall.__wrapped__(beta, level, top), 1e-5 if beta > 4 else 1e-6
    assert fine.cycle[-1] == pytest.approx(coarse.cycle[-1], rel=1e-3 if beta > 4 else 1e-6)
    for name in ("from_wall", "from_typical"):
        assert getattr(fine, name)[-1] == pytest.approx(getattr(coarse, name)[-1], rel=rel)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_the_wall_time_with_a_finer_grid(beta, monkeypatch):
    coarse = [hitting.wall_time(beta, -beta - 1, y) for y in (0.5, 8.0)]
    monkeypatch.setattr(hitting, "_NODES", 64)
    assert [hitting.wall_time(beta, -beta - 1, y) for y in (0.5, 8.0)] == pytest.approx(coarse, rel=1e-5)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_lemma_47_mean_cycle_length_against_paths(beta):
    """Between regenerations: from (0, 2/beta) down to 1/beta and up again."""
    exact = hitting.fall_times(beta, 1 / beta, 2 / beta).cycle[-1]
    ends = [paths.sample_path(beta, 20_000.0, step=0.01, seed=k).regenerations for k in range(8)]
    lengths = np.concatenate([np.diff(times) for times in ends])
    assert abs(lengths.mean() - exact) < 1.5 * 1.96 * lengths.std() / math.sqrt(len(lengths)) + 0.01 * exact


def test_the_first_value_is_one_excursion():
    """From (0, top) to just below the top the time is the mean excursion above the level, P(Q2 > y) / F(y)."""
    law, y, d = diffusion_law(1.0), 0.7, 1e-4
    density = (law.q2_cdf(y + d) - law.q2_cdf(y - d)) / (2 * d)
    assert hitting.fall_times(1.0, 0.1, y).from_wall[0] == pytest.approx(law.q2_tail(y) / (y * density), rel=1e-6)


@pytest.mark.parametrize("beta", [1.0, 2.0, 3.0])
def test_lemma_41_slope_one_over_beta(beta):
    times = hitting.fall_times(beta, beta / 2, 20.0)
    slopes = -beta * np.diff(between(times, np.array([4.0, 8.0, 12.0, 16.0, 20.0]))) / 4
    assert (slopes > 1).all() and (np.diff(slopes)[:-1] < 0).all()
    assert slopes[2] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0, 5.0])
def test_lemma_42_closed_form_at_an_empty_second_level(beta):
    for q1 in (-beta, -beta / 3, -beta - 2):
        exact = quad(lambda t: math.exp(log_ndtr(beta + t) + (beta + t) ** 2 / 2), q1, 0, epsrel=1e-11)[0]
        assert hitting.wall_time(beta, q1) == pytest.approx(math.sqrt(2 * math.pi) * exact, rel=1e-7)
    assert hitting.wall_time(beta, 0.0) == pytest.approx(0.0, abs=1e-9)


def test_lemma_42_sharp_constant():
    ratios = [
        hitting.wall_time(b, -b) * b / (math.sqrt(2 * math.pi) * math.exp(b * b / 2)) for b in (3.0, 4.0, 5.0, 6.0)
    ]
    distance = [abs(r - 1) for r in ratios]
    assert all(a > b for a, b in itertools.pairwise(distance)) and distance[-1] < 0.04


def test_the_wall_is_reached_sooner_from_a_higher_second_level():
    times = [hitting.wall_time(2.0, -2.0, y) for y in (0.0, 1e-9, 0.1, 0.5, 2.0, 8.0)]
    assert times[1] == pytest.approx(times[0], rel=1e-7)
    assert all(a > b for a, b in itertools.pairwise(times[1:]))
    found = paths.mean_first_time(2.0, (-2.0, 0.5), step=0.005, paths=40_000, seed=2)
    assert abs(found.value - hitting.wall_time(2.0, -2.0, 0.5)) < 1.5 * found.half_width


@pytest.mark.parametrize("beta", [1.0, 2.0, 3.0])
def test_lemma_43_power_instead_of_a_logarithm(beta):
    """From a typical state at z to y the time is ((z/y)^kappa - 1) / kappa / P(Q2 <= z), as y and z become small."""
    law, z, y = diffusion_law(beta), 1e-4, 1e-12
    formula = math.expm1(law.kappa * math.log(z / y)) / law.kappa / law.q2_cdf(z)
    assert hitting.fall_times(beta, y, z).from_typical[-1] == pytest.approx(formula, rel=2e-3)
    if beta == 3.0:  # kappa log(z/y) = 0.2: nearly a logarithm, times 1 / P(Q2 <= z)
        assert formula == pytest.approx(math.log(z / y) / law.q2_cdf(z), rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1.0, 2.0, 1.0), ValueError), ((1.0, 1.0, 1.0), ValueError), ((1.0, 0.0, 1.0), ValueError),
        ((1.0, 0.5, 50.0), ValueError), ((5.5, 0.5, 1.0), ValueError), ((1.0, "a", 1.0), TypeError),
    ],
)  # fmt: skip
def test_bad_levels(arguments, error):
    with pytest.raises(error, match=r"(level|top|beta) must be"):
        hitting.fall_times(*arguments)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1.0, 0.5), "q1 must be"), ((1.0, -20.0), "q1 must be a number of at least -9 and at most 0"),
        ((1.0, -1.0, -0.1), "q2 must be"), ((1.0, -1.0, 30.0), "q2 must be"), ((7.0, -1.0), "certified"),
    ],
)  # fmt: skip
def test_bad_starts(arguments, match):
    with pytest.raises(ValueError, match=match):
        hitting.wall_time(*arguments)


@pytest.mark.parametrize("y", [0.0, [1.0, 21.0], math.nan])
def test_bad_levels_of_excursions(y):
    with pytest.raises(ValueError, match="y must be numbers of at least 1e-15 and at most 20"):
        hitting.excursion_time(1.0, y)
