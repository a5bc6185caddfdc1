"""Paper A: limits, the exact two-server chain, and what ties them together."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbcore import jbt


def jiq_mean(epsilon):
    """Two servers under JIQ, every load: proved in the notebook (generator on n^2 and on ij)."""
    rho = 1 - epsilon / 2
    return 2 * rho * (1 + rho) / ((1 - rho) * (1 + 2 * rho))


@pytest.mark.parametrize("epsilon", [0.5, 0.2, 0.1, 0.05, 0.02, 0.01])
def test_jiq_closed_form_to_ten_digits(epsilon):
    law = jbt.two_server_law(epsilon, 1)
    assert law.mean_total == pytest.approx(jiq_mean(epsilon), rel=1e-10)
    assert law.error < 1e-9
    assert law.truncated < 1e-12


@pytest.mark.parametrize(
    ("epsilon", "threshold", "size"),
    [(0.6, 2, 90), (0.4, 3, 110), (0.4, 7, 110), (0.3, 4, 150), (0.15, 2, 300), (0.15, 6, 300)],
)
def test_against_a_plain_sparse_solve(epsilon, threshold, size):
    law, pi = jbt.two_server_law(epsilon, threshold), naive.two_server_chain(epsilon, threshold, size)
    assert law.mean_total == pytest.approx(2 * pi.sum(axis=1) @ np.arange(size), rel=1e-10)
    assert law.marginals[:60] == pytest.approx(pi.sum(axis=1)[:60], abs=1e-13)
    assert law.empty_row[:60] == pytest.approx(pi[0, :60], abs=1e-13)
    assert law.joint(60) == pytest.approx(pi[:60, :60], abs=1e-13)


@pytest.mark.parametrize(("epsilon", "size"), [(1.5, 30), (0.6, 60), (0.3, 120)])
def test_jsq_against_a_plain_sparse_solve(epsilon, size):
    pi, jobs = naive.two_server_chain(epsilon, 0, size), np.arange(size)
    mean, condition = jbt.two_server_jsq(epsilon)
    assert mean == pytest.approx(2 * pi.sum(axis=1) @ jobs, rel=1e-10)
    assert condition == pytest.approx(2 * pi[0] @ jobs, rel=1e-10)


@pytest.mark.parametrize("epsilon", [1.99, 0.5, 0.05, 0.005, 0.002])
def test_jsq_obeys_the_identity_of_symmetric_policies(epsilon):
    """E[Q1 + Q2] = rho / (1 - rho) + E[Q2 | Q1 = 0]: generator on (i + j)^2."""
    (mean, condition), rho = jbt.two_server_jsq(epsilon), 1 - epsilon / 2
    assert mean == pytest.approx((rho + condition / 2) / (1 - rho), rel=1e-9)
    assert mean > 2 * rho / (1 - rho**2) * (1 - 1e-12)  # M/M/2, which lets no server idle beside a queue
    with pytest.raises(ValueError, match="distance to capacity"):
        jbt.two_server_jsq(2.0)


def test_published_value():
    assert jbt.two_server_jsq(0.2)[0] / 1.8 - 1 == pytest.approx(4.47491282, abs=5e-9)
    assert jbt.two_server_jsq(1.0)[0] - 1 == pytest.approx(0.42632075, abs=5e-9)
    assert jbt.two_server_law(0.02, 3).mean_total == pytest.approx(106.6676397577, rel=1e-11)
    waits = {1: 5.78571, 2: 5.05602, 3: 4.92430, 5: 5.13548}
    for threshold, wait in waits.items():
        assert jbt.two_server_law(0.2, threshold).mean_wait == pytest.approx(wait, abs=5e-6)


@pytest.mark.parametrize("threshold", [1, 4, 30])
def test_laws_are_laws(threshold):
    law = jbt.two_server_law(0.05, threshold)
    assert law.marginals.sum() == pytest.approx(1.0, abs=1e-10)
    assert law.marginals[0] == pytest.approx(0.025, rel=1e-10)  # utilisation law
    assert (law.marginals[:400] > 0).all()
    assert 2 * law.marginals @ np.arange(len(law.marginals)) == pytest.approx(law.mean_total, rel=1e-9)


def test_large_thresholds_are_random_routing_and_join_smoothly():
    rho = 0.9
    closed = jbt.two_server_law(0.2, math.inf)
    assert closed.mean_total == pytest.approx(2 * rho / (1 - rho))
    assert closed == jbt.two_server_law(0.2, math.inf)
    assert closed.joint(300).sum() == pytest.approx(1.0)
    assert jbt.two_server_law(0.2, 10**9).mean_total == closed.mean_total
    solved = jbt.two_server_law(0.2, 250)
    assert solved.iterations > 0
    assert solved.mean_total == pytest.approx(closed.mean_total, rel=1e-6)


def test_drawing_accuracy_is_what_it_says():
    for epsilon, threshold in ((0.1, 1), (0.02, 6), (0.01, 20)):
        rough = jbt.two_server_law(epsilon, threshold, tolerance=1e-6)
        assert rough.mean_total == pytest.approx(jbt.two_server_law(epsilon, threshold).mean_total, rel=1e-4)


def test_best_threshold_is_log_two_of_one_over_epsilon():
    for epsilon, best in ((0.1, 4), (0.05, 5), (0.02, 6), (0.01, 7)):
        means = [jbt.two_server_law(epsilon, r).mean_total for r in range(1, 12)]
        assert 1 + np.argmin(means) == best == math.ceil(math.log2(1 / epsilon))


@pytest.mark.parametrize("threshold", [1, 2, 3, 4, 5, 6])
def test_limit_is_what_the_exact_chain_extrapolates_to(threshold):
    """Two servers: the error has a term in epsilon and one in epsilon^(2 - a), the time near the corner."""
    epsilons = np.array([0.08, 0.04, 0.02, 0.01, 0.005])
    scaled = np.array([e * jbt.two_server_law(e, threshold, tolerance=1e-10).mean_total for e in epsilons])
    limit = jbt.heavy_traffic_limit(2, threshold)
    order = 2 - 4 / math.pi * math.atan(jbt.push_share(2, threshold))
    design = np.stack([np.ones(5), epsilons, epsilons**order, epsilons**2], axis=1)
    fitted = np.linalg.lstsq(design, scaled, rcond=None)[0][0]
    assert fitted == pytest.approx(limit, rel=1e-4)


def eq_8(queues, r):
    return math.sqrt(min(sum(max(q - r, 0) ** 2 for q in queues), sum(max(r - q, 0) ** 2 for q in queues)))


@pytest.mark.kernel
@given(st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=1, max_size=5), st.integers(1, 20))
def test_distance_is_that_to_the_region(queues, r):
    found = jbt.distance(queues, r)
    assert found == pytest.approx([eq_8(row, r) for row in queues])
    for row, d in zip(queues, found, strict=True):
        assert (d == 0) == (max(row) <= r or min(row) >= r)


@pytest.mark.parametrize(("epsilon", "r"), [(0.6, 1), (0.6, 3), (0.4, 6)])
def test_distance_tail_and_moments_are_those_of_the_joint_law(epsilon, r):
    size = 110
    pi = naive.two_server_chain(epsilon, r, size)
    d = jbt.distance(np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1), r)
    law = jbt.two_server_law(epsilon, r)
    assert law.distance_tail() == pytest.approx([pi[d >= k].sum() for k in range(r + 1)], abs=1e-12)
    assert law.distance_moments() == pytest.approx([(pi * d**k).sum() for k in (1, 2, 3, 4)], rel=1e-9)
    lone = epsilon / 2 * (1 - epsilon / 2) ** np.arange(size)
    product = np.multiply.outer(lone, lone)
    free = jbt.two_server_law(epsilon, math.inf)
    assert free.distance_moments(r) == pytest.approx([(product * d**k).sum() for k in (1, 2, 3, 4)], rel=1e-8)
    with pytest.raises(ValueError, match="for random routing"):
        free.distance_tail()
    with pytest.raises(ValueError, match="its own"):
        law.distance_tail(r + 1)
    with pytest.raises(ValueError, match="distances 2 to 6"):
        free.decay_rate()


def test_condition_of_equation_seven_ties_to_the_mean():
    for threshold in (1, 4, math.inf):
        law = jbt.two_server_law(0.1, threshold)
        assert 0.1 * law.mean_total == pytest.approx(1.9 + law.condition, rel=1e-9)  # identity: generator on (i + j)^2


def test_bound_of_theorem_two_is_above_the_exact_mean_and_touches_it():
    r = np.arange(1, 13)
    bound = jbt.theorem_two_bound(0.05, r)
    means = [jbt.two_server_law(0.05, int(t), tolerance=1e-6).mean_total for t in r]
    assert (bound >= np.array(means) * (1 - 1e-9)).all()
    assert min(bound / means) == pytest.approx(1.0, abs=1e-6)


def test_price_of_a_threshold_is_what_the_exact_chain_extrapolates_to():
    """The slope of E[Q1 + Q2] in r, extrapolated in epsilon at two r, then in 1 / r^2."""
    slopes = {}
    for low, high in ((24, 28), (34, 40)):
        near, far = (
            np.subtract(*(jbt.two_server_law(e, r, tolerance=1e-11).mean_total for r in (high, low))) / (high - low)
            for e in (0.004, 0.008)
        )
        slopes[(low + high) / 2] = 2 * near - far
    a, b = slopes
    assert (b**2 * slopes[b] - a**2 * slopes[a]) / (b**2 - a**2) == pytest.approx(jbt.threshold_price(), abs=1e-4)
    draws = np.random.default_rng(1)
    share = np.mean(draws.beta(0.25, 0.25, 10**6) < draws.beta(0.5, 0.75, 10**6))
    assert share == pytest.approx(jbt.threshold_price(), abs=0.002)


def test_limits_in_continuous_time():
    for n in (1, 2, 5, 50):
        pooled = jbt.pooled_limit(n)
        assert pooled == n
        assert jbt.heavy_traffic_limit(n, math.inf) == pytest.approx(n * n)
        assert jbt.heavy_traffic_limit(n, 1) == pytest.approx(pooled * 2 * n / (n + 1))
        for r in (1, 2, 5, 20):
            closed = pooled * (1 + (n - 2) * n**-r) / (1 - n ** -(r + 1)) if n > 1 else 1.0
            assert jbt.heavy_traffic_limit(n, r) == pytest.approx(closed)
    ordered = [jbt.heavy_traffic_limit(4, r) for r in (*range(1, 30), 100)]
    assert (np.diff(ordered) <= 1e-12).all()


@pytest.mark.parametrize(
    ("epsilon", "threshold", "error", "words"),
    [
        (0.0, 1, ValueError, "distance to capacity"), (2.0, 1, ValueError, "total service rate"),
        (math.nan, 1, ValueError, "certified"), ("a", 1, TypeError, "certified"), (0.1, 0, ValueError, "r must be"),
        (0.1, 1.5, ValueError, "r must be"), (0.1, "3", TypeError, "r must be"), (0.1, -math.inf, ValueError, "r must"),
    ],
)  # fmt: skip
def test_bad_input(epsilon, threshold, error, words):
    with pytest.raises(error, match=words):
        jbt.two_server_law(epsilon, threshold)


@pytest.mark.kernel
def test_small_chain_runs_with_and_without_the_jit():
    assert jbt.two_server_law(1.0, 2, tolerance=1e-8).mean_total == pytest.approx(
        2 * naive.two_server_chain(1.0, 2, 40).sum(axis=1) @ np.arange(40), rel=1e-6
    )
