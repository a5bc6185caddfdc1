"""The stationary law of the JSQ diffusion against check values, identities, limits and an independent chain."""

import itertools
import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import pbdv
from scipy.stats import norm

from lbcore.theory import diffusion, march

law_of = diffusion.diffusion_law
betas = st.floats(0.01, 6.0)


@pytest.mark.parametrize(
    ("beta", "q2", "q22", "q11", "kappa"),
    [
        (0.1, 19.36294082, 576.4011092, 0.04185295879, 0.922157083),
        (0.5, 2.843612012, 15.25861455, 0.5390969971, 0.6488354865),
        (1.0, 0.8140596635, 1.820468375, 1.592970168, 0.3882382947),
        (2.0, 0.08305033648, 0.06578410257, 4.916949664, 0.09727459586),
        (3.0, 0.005228640611, 0.002222576738, 9.992157039, 0.01160570365),
    ],
)
def test_published_digits(beta, q2, q22, q11, kappa):
    """Values computed independently for this project with another discretisation, to 8 significant digits."""
    law = law_of(beta)
    found = (law.mean_q2, law.mean_q2_squared, law.mean_q1_squared, law.kappa)
    assert found == pytest.approx((q2, q22, q11, kappa), rel=5e-9)


@pytest.mark.parametrize("beta", np.geomspace(0.02, 6, 20))
def test_identities_the_march_does_not_impose(beta):
    law = law_of(float(beta))
    assert law.mean_q1 == pytest.approx(-beta, abs=1e-8)
    second = law.mean_q1_squared + law.mean_q1_q2 + beta * (law.mean_q1 + law.mean_q2)
    assert second == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("beta", np.geomspace(0.01, 6.0, 9))
def test_error_estimate_is_small_where_the_law_is_certified_and_covers_a_finer_solution(beta):
    law, fine = law_of(float(beta)), diffusion._solve(float(beta), 68, 0.1)
    assert 0 < law.error < (2e-8 if beta < 4 else 2e-6)
    for name in ("mean_q2", "mean_q2_squared", "mean_q1_squared", "kappa"):
        assert getattr(law, name) == pytest.approx(getattr(fine, name), rel=3 * law.error)


def richardson(values):
    """Extrapolate a first-order sequence with halved steps; return the limit and the last change."""
    k = 1
    while len(values) > 1:
        last = values[-1]
        values = [(2**k * b - a) / (2**k - 1) for a, b in itertools.pairwise(values)]
        k += 1
    return values[0], abs(values[0] - last)


@pytest.mark.parametrize(("beta", "depth", "height"), [(1.0, 6.5, 17.0), (2.0, 7.5, 9.0)])
def test_against_a_chain_that_knows_no_reduction(beta, depth, height):
    law, rows = law_of(beta), []
    levels = np.array([0.4, 1.0, 2.0])
    for h in (0.2, 0.1, 0.05, 0.025):
        pi = naive.jsq_diffusion_chain(beta, h, depth, height)
        x, y = -h * np.arange(pi.shape[0]), h * np.arange(pi.shape[1])
        at = np.rint(levels / h).astype(int)
        wall = pi[0, at] / pi[:, at].sum(axis=0) / h  # phi(0; y)
        rows.append(np.array([pi.sum(0) @ y, pi.sum(0) @ y**2, pi.sum(1) @ x**2, *wall]))
    expected = [law.mean_q2, law.mean_q2_squared, law.mean_q1_squared, *levels]  # phi(0; y) = y
    for got, want in zip(np.transpose(rows), expected, strict=True):
        limit, change = richardson(list(got))
        assert abs(limit - want) < 2 * change < 1e-3 * want


def test_profile_far_up_is_one_over_y_exponential_and_touches_the_wall_at_y():
    top = march.HighLevels(1.5)
    for y in (25.0, 60.0, 1e6):
        assert top.profile(np.array(0.0), y) == pytest.approx(y, rel=1e-12)
        mass = quad(lambda x, y=y: float(top.profile(np.array(x), y)), -30 / y, 0, epsabs=1e-13, limit=200)[0]
        assert mass == pytest.approx(1.0, abs=1e-10)
        mean = quad(lambda x, y=y: x * float(top.profile(np.array(x), y)), -40 / y, 0, limit=200)[0]
        assert mean == pytest.approx(float(top.moment(1)(y)), rel=1e-9)
    # Q2 falls through y as often as it climbs: E Q1 given Q2 = y is -1/y to leading order
    assert top.moment(1)(1e6) == pytest.approx(-1e-6, rel=1e-6)


@pytest.mark.parametrize("beta", [0.05, 0.5, 2.0, 4.0])
def test_kappa_is_the_killed_ornstein_uhlenbeck_eigenvalue(beta):
    """The eigenfunction that stays polynomial at -infinity is a parabolic cylinder function, zero at the wall."""
    guess = law_of(beta).kappa
    root = brentq(lambda k: pbdv(k, -beta)[0], 0.7 * guess, min(1.3 * guess, 0.99999), xtol=1e-14)
    assert guess == pytest.approx(root, rel=1e-8)


def test_moments_agree_with_the_laws():
    for beta in (0.1, 1.0, 3.0):
        law = law_of(beta)
        edges = np.concatenate([[0.0], np.geomspace(1e-8, 60 / beta, 60)])
        mean = sum(quad(law.q2_tail, a, b)[0] for a, b in itertools.pairwise(edges))
        assert mean == pytest.approx(law.mean_q2, rel=1e-7)
        edges = np.concatenate([[0.0], np.geomspace(1e-3, beta + 9, 40)])
        pieces = list(itertools.pairwise(edges))
        assert sum(quad(law.q1_tail, a, b)[0] for a, b in pieces) == pytest.approx(beta, rel=1e-8)
        assert sum(quad(lambda x: law.q1_density(-x), a, b)[0] for a, b in pieces) == pytest.approx(1.0, rel=1e-8)  # noqa: B023
        assert law.q1_density(0.0) == pytest.approx(law.mean_q2, rel=1e-8)  # both are the rate of the local time


def test_tails_right_down_to_where_doubles_end():
    law = law_of(4.0)
    assert law.q2_log_tail(1e8) == pytest.approx(-4e8, rel=1e-6)
    deep = law.q2_log_cdf(log_y=np.array([-2000.0, -1000.0]))
    assert np.diff(deep) == pytest.approx(1000 * law.kappa, rel=1e-12)
    assert law.q2_tail(log_y=-2000.0) == pytest.approx(-math.expm1(deep[0]), rel=1e-12)
    assert law.q1_log_tail(1000.0) == pytest.approx(-(996.0**2) / 2, rel=1e-4)
    assert law_of(0.03).q2_log_tail(1e300) == pytest.approx(-0.03e300)


@pytest.mark.parametrize("beta", [0.02, 0.3, 1.0, 3.0, 5.0])
def test_log_tails_against_a_finer_solution(beta):
    law, fine = law_of(beta), diffusion._solve(beta, 68, 0.07)
    log_y = np.linspace(-38, 4, 300)
    assert law.q2_log_tail(log_y=log_y) == pytest.approx(fine.q2_log_tail(log_y=log_y), rel=3e-7, abs=3e-7)
    assert law.q2_log_cdf(log_y=log_y) == pytest.approx(fine.q2_log_cdf(log_y=log_y), rel=3e-7, abs=3e-7)
    x = np.linspace(0, beta + 7, 200)
    assert law.q1_log_tail(x) == pytest.approx(fine.q1_log_tail(x), rel=1e-7, abs=1e-7)


def test_tail_constant():
    for beta in (0.1, 1.0, 4.0):
        law, y = law_of(beta), 2000.0 / beta
        ratio = law.q2_log_tail(y) - (math.log(law.tail_constant * y) - beta * y)
        assert ratio == pytest.approx(math.log1p(1 / (beta * y)) + 2 * beta / y, abs=50 / y**2)


def test_small_slack_limits():
    """Theorems 2.5 and 2.7; Lomax for -Q1/beta is not in the paper."""
    t = np.array([0.3, 1.0, 3.0])
    errors = []
    for beta in (0.08, 0.04, 0.02):
        law = law_of(beta)
        errors.append(
            [
                abs(beta * law.mean_q2 - 2),
                np.max(abs(law.q2_tail(t / beta) - (1 + t) * np.exp(-t))),
                np.max(abs(law.q1_tail(beta * t) - (1 + t) ** -2)),
            ]
        )
    errors = np.array(errors)
    assert (errors[-1] < 0.01).all()
    assert (errors[1:] < 0.6 * errors[:-1]).all()


def test_large_slack_limits():
    """Theorem 2.4, Corollary 2.2; the sharp constants are not in the paper."""
    for beta in (4.0, 5.0, 6.0):
        law = law_of(beta)
        x = np.linspace(0, 2 * beta, 50)
        assert law.q1_tail(x) == pytest.approx(norm.cdf(-x, -beta), abs=4 * norm.pdf(beta))
        assert law.mean_q2 / norm.pdf(beta) == pytest.approx(1 + beta**-2, abs=10 * beta**-4)
        assert law.kappa / (beta * norm.pdf(beta)) == pytest.approx(1 - beta**-2, abs=10 * beta**-4)
        assert law.q2_log_cdf(log_y=-3 / law.kappa) == pytest.approx(-3.0, abs=0.002)  # kappa log(1/Q2) => Exp(1)


@settings(max_examples=25, deadline=None)
@given(beta=betas, seed=st.integers(0, 2**32))
def test_laws_are_laws(beta, seed):
    law = law_of(beta)
    rng = np.random.default_rng(seed)
    log_y = np.sort(rng.uniform(-60, 6, 40))
    tail, cdf = law.q2_log_tail(log_y=log_y), law.q2_log_cdf(log_y=log_y)
    assert (np.diff(tail) <= 1e-12).all()
    assert (np.diff(cdf) >= -1e-12).all()
    assert np.logaddexp(tail, cdf) == pytest.approx(np.zeros(40), abs=1e-12)
    assert law.q2_tail(np.exp(log_y)) == pytest.approx(np.exp(tail), rel=1e-9)
    x = np.sort(rng.uniform(-1, 30, 40))
    assert (np.diff(law.q1_log_tail(x)) <= 1e-12).all()
    assert (law.q1_density(-x) >= 0).all()


def test_edges_and_shapes():
    law = law_of(1.0)
    assert law.q2_tail(0.0) == 1.0
    assert law.q2_cdf(0.0) == 0.0
    assert law.q2_tail(-1.0) == 1.0
    assert law.q2_tail(math.inf) == 0.0
    assert law.q1_tail([0.0, -1.0, math.inf]) == pytest.approx([1.0, 1.0, 0.0])
    assert law.q1_density([[0.1, math.inf], [-math.inf, 3.0]]).tolist() == [[0, 0], [0, 0]]
    assert law.q2_tail(np.ones((2, 3))).shape == (2, 3)
    assert np.ndim(law.q1_tail(1.0)) == 0
    assert law_of(1) is law_of(1.0) is law_of(np.float64(1.0))


@pytest.mark.parametrize(
    ("beta", "error"),
    [
        (0.0, ValueError), (-1.0, ValueError), (math.nan, ValueError), (math.inf, ValueError), (1e-3, ValueError),
        (7.0, ValueError), ("1", TypeError), (np.array([1.0]), TypeError), ([1.0], TypeError), (None, TypeError),
        (1j, TypeError), (True, TypeError),
    ],
)  # fmt: skip
def test_bad_slack_is_refused_at_once_with_the_allowed_range(beta, error):
    with pytest.raises(error, match=r"of at least 0.01 and at most 6, not .*; the exact law is certified there"):
        law_of(beta)


def test_bad_levels():
    law = law_of(1.0)
    with pytest.raises(TypeError, match="either y or log_y"):
        law.q2_tail()
    with pytest.raises(TypeError, match="either y or log_y"):
        law.q2_tail(1.0, log_y=0.0)
    for level in ([1.0, math.nan], math.nan):
        with pytest.raises(ValueError, match="y must be numbers, not nan"):
            law.q2_tail(level)
        with pytest.raises(ValueError, match="x must be numbers, not nan"):
            law.q1_tail(level)
    for level in ("1", [True], [None], 1j):
        with pytest.raises(TypeError, match="log_y must be numbers, not"):
            law.q2_tail(log_y=level)
        with pytest.raises(TypeError, match="x must be numbers, not"):
            law.q1_density(level)


def test_the_law_reads_well():
    law = law_of(1.0)
    assert "mean_q2          0.81405966" in repr(law)
    assert f"error            {law.error:.2g}" in repr(law)
    assert "<th>mean_q2</th><td>0.81405966" in law._repr_html_()


def test_a_coarse_march_is_near():
    law = diffusion._solve(1.0, 16, 1.0)
    assert law.mean_q2 == pytest.approx(0.8140596635, rel=2e-2)
