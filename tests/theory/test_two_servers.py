"""Paper A: the exact law of two servers against closed forms, plain solves and identities."""

import math

import naive
import numpy as np
import pytest

from lbcore.theory import two_servers


def jiq_mean(epsilon):
    """Two servers under JIQ, every load: proved in the notebook (generator on n^2 and on ij)."""
    rho = 1 - epsilon / 2
    return 2 * rho * (1 + rho) / ((1 - rho) * (1 + 2 * rho))


@pytest.mark.parametrize("epsilon", [0.5, 0.2, 0.1, 0.05, 0.02, 0.01])
def test_jiq_closed_form_to_ten_digits(epsilon):
    law = two_servers.two_server_law(epsilon, 1)
    assert law.mean_total == pytest.approx(jiq_mean(epsilon), rel=1e-10)
    assert law.error < 1e-9
    assert law.truncation < 1e-12


@pytest.mark.parametrize(
    ("epsilon", "threshold", "size"),
    [(0.6, 2, 90), (0.4, 3, 110), (0.4, 7, 110), (0.3, 4, 150), (0.15, 2, 300), (0.15, 6, 300)],
)
def test_against_a_plain_sparse_solve(epsilon, threshold, size):
    law, pi = two_servers.two_server_law(epsilon, threshold), naive.two_server_chain(epsilon, threshold, size)
    assert law.mean_total == pytest.approx(2 * pi.sum(axis=1) @ np.arange(size), rel=1e-10)
    assert law.marginals[:60] == pytest.approx(pi.sum(axis=1)[:60], abs=1e-13)
    assert law.empty_row[:60] == pytest.approx(pi[0, :60], abs=1e-13)
    assert law.joint(60) == pytest.approx(pi[:60, :60], abs=1e-13)


@pytest.mark.parametrize(("epsilon", "size"), [(1.5, 30), (0.6, 60), (0.3, 120)])
def test_jsq_against_a_plain_sparse_solve(epsilon, size):
    pi, jobs = naive.two_server_chain(epsilon, 0, size), np.arange(size)
    mean, condition = two_servers.two_server_jsq(epsilon)
    assert mean == pytest.approx(2 * pi.sum(axis=1) @ jobs, rel=1e-10)
    assert condition == pytest.approx(2 * pi[0] @ jobs, rel=1e-10)


@pytest.mark.parametrize("epsilon", [1.99, 0.5, 0.05, 0.005, 0.002])
def test_jsq_obeys_the_identity_of_symmetric_policies(epsilon):
    """E[Q1 + Q2] = rho / (1 - rho) + E[Q2 | Q1 = 0]: generator on (i + j)^2."""
    (mean, condition), rho = two_servers.two_server_jsq(epsilon), 1 - epsilon / 2
    assert mean == pytest.approx((rho + condition / 2) / (1 - rho), rel=1e-9)
    assert mean > 2 * rho / (1 - rho**2) * (1 - 1e-12)  # M/M/2, which lets no server idle beside a queue
    with pytest.raises(ValueError, match="distance to capacity"):
        two_servers.two_server_jsq(2.0)


def test_published_value():
    assert two_servers.two_server_jsq(0.2)[0] / 1.8 - 1 == pytest.approx(4.47491282, abs=5e-9)
    assert two_servers.two_server_jsq(1.0)[0] - 1 == pytest.approx(0.42632075, abs=5e-9)
    assert two_servers.two_server_law(0.02, 3).mean_total == pytest.approx(106.6676397577, rel=1e-11)
    waits = {1: 5.78571, 2: 5.05602, 3: 4.92430, 5: 5.13548}
    for threshold, wait in waits.items():
        assert two_servers.two_server_law(0.2, threshold).mean_wait == pytest.approx(wait, abs=5e-6)


@pytest.mark.parametrize("threshold", [1, 4, 30])
def test_laws_are_laws(threshold):
    law = two_servers.two_server_law(0.05, threshold)
    assert law.marginals.sum() == pytest.approx(1.0, abs=1e-10)
    assert law.marginals[0] == pytest.approx(0.025, rel=1e-10)  # utilisation law
    assert (law.marginals[:400] > 0).all()
    assert 2 * law.marginals @ np.arange(len(law.marginals)) == pytest.approx(law.mean_total, rel=1e-9)


def test_large_thresholds_are_random_routing_and_join_smoothly():
    rho = 0.9
    closed = two_servers.two_server_law(0.2, math.inf)
    assert closed.mean_total == pytest.approx(2 * rho / (1 - rho))
    assert closed == two_servers.two_server_law(0.2, math.inf)
    assert closed.joint(300).sum() == pytest.approx(1.0)
    assert two_servers.two_server_law(0.2, 10**9).mean_total == closed.mean_total
    solved = two_servers.two_server_law(0.2, 250)
    assert solved.iterations > 0
    assert solved.mean_total == pytest.approx(closed.mean_total, rel=1e-6)


def test_drawing_accuracy_is_what_it_says():
    for epsilon, threshold in ((0.1, 1), (0.02, 6), (0.01, 20)):
        rough = two_servers.two_server_law(epsilon, threshold, tolerance=1e-6)
        assert rough.mean_total == pytest.approx(two_servers.two_server_law(epsilon, threshold).mean_total, rel=1e-4)


def test_best_threshold_is_log_two_of_one_over_epsilon():
    for epsilon, best in ((0.1, 4), (0.05, 5), (0.02, 6), (0.01, 7)):
        thresholds = np.arange(1, 12) if epsilon > 0.01 else np.arange(best - 2, best + 3)
        means = [two_servers.two_server_law(epsilon, int(r)).mean_total for r in thresholds]
        assert thresholds[np.argmin(means)] == best == math.ceil(math.log2(1 / epsilon))


def distances(size, r):
    """Return the distances, Eq. (8), of all states of two servers with fewer than `size` jobs."""
    return np.array([[naive.distance((i, j), r) for j in range(size)] for i in range(size)])


@pytest.mark.parametrize(("epsilon", "r"), [(0.6, 1), (0.6, 3), (0.4, 6)])
def test_distance_tail_and_moments_are_those_of_the_joint_law(epsilon, r):
    size = 110
    pi = naive.two_server_chain(epsilon, r, size)
    d = distances(size, r)
    law = two_servers.two_server_law(epsilon, r)
    assert law.distance_tail() == pytest.approx([pi[d >= k].sum() for k in range(r + 1)], abs=1e-12)
    assert law.distance_moments() == pytest.approx([(pi * d**k).sum() for k in (1, 2, 3, 4)], rel=1e-9)
    lone = epsilon / 2 * (1 - epsilon / 2) ** np.arange(size)
    product = np.multiply.outer(lone, lone)
    free = two_servers.two_server_law(epsilon, math.inf)
    assert free.distance_moments(r) == pytest.approx([(product * d**k).sum() for k in (1, 2, 3, 4)], rel=1e-8)
    with pytest.raises(ValueError, match="for random routing"):
        free.distance_tail()
    with pytest.raises(ValueError, match="its own"):
        law.distance_tail(r + 1)
    with pytest.raises(ValueError, match="distances 2 to 6"):
        free.decay_rate()


def test_condition_of_equation_seven_ties_to_the_mean():
    for threshold in (1, 4, math.inf):
        law = two_servers.two_server_law(0.1, threshold)
        assert 0.1 * law.mean_total == pytest.approx(1.9 + law.condition, rel=1e-9)  # identity: generator on (i + j)^2


def test_bound_of_theorem_two_is_above_the_exact_mean_and_touches_it():
    r = np.arange(1, 13)
    bound = two_servers.theorem_two_bound(0.05, r)
    means = [two_servers.two_server_law(0.05, int(t), tolerance=1e-6).mean_total for t in r]
    assert (bound >= np.array(means) * (1 - 1e-9)).all()
    assert min(bound / means) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "threshold", "error", "words"),
    [
        (0.0, 1, ValueError, "distance to capacity"), (2.0, 1, ValueError, "at most 1.99"),
        (math.nan, 1, ValueError, "certified"), ("a", 1, TypeError, "certified"),
        (0.1, 0, ValueError, "threshold must be a whole number of at least 1, not 0"),
        (0.1, 1.5, ValueError, "threshold must"), (0.1, "3", TypeError, "threshold must"),
        (0.1, -math.inf, ValueError, "threshold must"), (0.1, np.array([1, 2]), TypeError, "threshold must"),
    ],
)  # fmt: skip
def test_bad_input(epsilon, threshold, error, words):
    with pytest.raises(error, match=words):
        two_servers.two_server_law(epsilon, threshold)


@pytest.mark.kernel
def test_small_chain_runs_with_and_without_the_jit():
    assert two_servers.two_server_law(1.0, 2, tolerance=1e-8).mean_total == pytest.approx(
        2 * naive.two_server_chain(1.0, 2, 40).sum(axis=1) @ np.arange(40), rel=1e-6
    )
