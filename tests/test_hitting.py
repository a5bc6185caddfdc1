"""Exact mean hitting times: limits, scalings of Lemmas 4.1 to 4.3, paths, and a chain solved directly."""

import itertools
import math

import naive
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from lbcore import hitting, jsq, paths


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


def test_fall_times_do_not_depend_on_the_top():
    low, high = hitting.fall_times(1.3, 0.2, 3.0), hitting.fall_times(1.3, 0.2, 12.0)
    heights = np.array([0.25, 0.5, 1.0, 2.9])
    assert low(heights) == pytest.approx(high(heights), rel=2e-5)
    assert (np.diff(high.from_wall) > 0).all()
    assert (high.from_typical < high.from_wall).all()
    assert "Q2 = 0.2" in repr(high)


@pytest.mark.parametrize(
    ("beta", "level", "top"), [(0.3, 0.2, 12.0), (1.0, 1e-6, 0.25), (4.0, 1e-8, 1.0), (5.0, 2.5, 12.0)]
)
def test_a_finer_grid_changes_nothing(beta, level, top, monkeypatch):
    coarse = hitting.fall_times(beta, level, top).from_wall[-1]
    monkeypatch.setattr(hitting, "_NODES", 64)
    monkeypatch.setattr(hitting, "_STAGES", 4)
    steps = hitting._step_sizes
    monkeypatch.setattr(hitting, "_step_sizes", lambda a, b: np.repeat(steps(a, b) / 2, 2))
    assert hitting._cached_fall.__wrapped__(beta, level, top).from_wall[-1] == pytest.approx(
        coarse, rel=1e-5 if beta > 4 else 1e-6
    )


@pytest.mark.kernel
def test_climb_solves_the_equation_of_a_lone_decay():
    """With ``u(0, y) = log(y / level)`` at the wall the time is that of free decay, everywhere."""
    grid, y = jsq._Grid.build(1.0, 12), 0.5
    nodes, matrix = jsq._radau(2)
    sizes, u = np.array([0.1, 0.2]), np.zeros(13)
    starts = np.array([0.0, 0.1])
    excess = starts[:, None] + np.outer(sizes, nodes)
    laws = np.zeros((2, 2, 13))
    at_wall = hitting._climb(grid.x, grid.first, grid.second, 1.0, sizes, y, nodes, matrix, laws, excess, u)
    assert at_wall == pytest.approx([0.1, 0.3])
    assert u == pytest.approx(np.full(13, 0.3))


def test_the_first_value_is_one_excursion():
    """From (0, level) the time is the mean excursion above the level, P(Q2 > y) / F(y)."""
    law, y, d = jsq.diffusion_law(1.0), 0.7, 1e-4
    density = (law.q2_cdf(y + d) - law.q2_cdf(y - d)) / (2 * d)
    assert hitting.fall_times(1.0, y, 2.0).from_wall[0] == pytest.approx(law.q2_tail(y) / (y * density), rel=1e-6)


@pytest.mark.parametrize("beta", [1.0, 2.0, 3.0])
def test_lemma_41_slope_one_over_beta(beta):
    times = hitting.fall_times(beta, beta / 2, 20.0)
    slopes = beta * np.diff(times(np.array([4.0, 8.0, 12.0, 16.0, 20.0]))) / 4
    assert (slopes > 1).all() and (np.diff(slopes) < 0).all()
    assert slopes[-1] == pytest.approx(1.0, abs=0.06)


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
    law, z, y = jsq.diffusion_law(beta), 1e-4, 1e-12
    times = hitting.fall_times(beta, y, 1.0)
    at = np.argmin(abs(np.log(times.heights / z)))
    z = times.heights[at]
    formula = math.expm1(law.kappa * math.log(z / y)) / law.kappa / law.q2_cdf(z)
    assert times.from_typical[at] == pytest.approx(formula, rel=2e-3)
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
    with pytest.raises(error, match=r"level|certified"):
        hitting.fall_times(*arguments)


@pytest.mark.parametrize("arguments", [(1.0, 0.5), (1.0, -20.0), (1.0, -1.0, -0.1), (1.0, -1.0, 30.0), (7.0, -1.0)])
def test_bad_starts(arguments):
    with pytest.raises(ValueError, match=r"start|certified"):
        hitting.wall_time(*arguments)
    with pytest.raises(ValueError, match="heights"):
        hitting.fall_times(1.0, 0.5, 2.0)(3.0)
