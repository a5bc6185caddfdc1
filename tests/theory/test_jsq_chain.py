"""The exact chain at N servers against a direct solve that knows no recursion, identities, and its limit."""

import itertools
import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import lbcore as lb
from lbcore.theory import jsq_chain
from lbcore.theory.diffusion import diffusion_law


@pytest.mark.kernel
@pytest.mark.parametrize(("n", "beta"), [(1, 0.5), (2, 1.0), (7, 2.5), (12, 0.01)])
def test_small_systems_against_a_direct_solve(n, beta):
    agree(n, beta)


@pytest.mark.parametrize(("n", "beta"), [(30, 0.01), (30, 1.0), (30, 3.0), (30, 5.4), (25, 0.3)])
def test_up_to_thirty_servers_against_a_direct_solve(n, beta):
    agree(n, beta)


def agree(n, beta):
    pi, law = naive.jsq_chain(n, beta), jsq_chain.finite_law(n, beta)
    i, root = np.arange(n + 1), math.sqrt(n)
    assert law.mean_q1 == pytest.approx(pi.sum(1) @ (i - n) / root, abs=1e-10)
    assert law.mean_q2 == pytest.approx(pi.sum(0) @ i / root, rel=1e-10, abs=1e-12)
    assert law.mean_q1_squared == pytest.approx(pi.sum(1) @ (i - n) ** 2 / n, rel=1e-10)
    assert law.mean_q2_squared == pytest.approx(pi.sum(0) @ i**2 / n, rel=1e-10, abs=1e-12)
    assert law.wait_probability == pytest.approx(pi[n].sum(), rel=1e-10, abs=1e-12)
    assert law.blocking == pytest.approx(pi[n, n], rel=1e-10, abs=1e-13)
    assert law.q2_weights == pytest.approx(pi.sum(0)[: len(law.q2_weights)], abs=1e-10)
    assert law.idle_weights == pytest.approx(pi.sum(1)[::-1][: len(law.idle_weights)], abs=1e-10)


@given(st.integers(1, 3000), st.floats(0.01, 6.0))
@settings(max_examples=60, deadline=None)
def test_identities_hold_and_truncation_is_small(n, beta):
    if beta >= 0.999 * math.sqrt(n):
        return
    law = jsq_chain.finite_law(n, beta)
    assert max(map(abs, law.identities)) < 1e-10
    assert 0 <= law.truncation < 1e-20
    assert law.q2_weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert law.idle_weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_the_cuts_change_nothing():
    law = jsq_chain.finite_law(3000, 0.7)
    two, idle, *_ = jsq_chain._levels(3000, 3000 - 0.7 * math.sqrt(3000), jsq_chain._widths(3000, 0.7, 3000, 90.0))
    size = len(law.q2_weights), len(law.idle_weights)
    assert law.q2_weights == pytest.approx((two / two.sum())[: size[0]], rel=1e-9, abs=1e-22)
    assert law.idle_weights == pytest.approx((idle / idle.sum())[: size[1]], rel=1e-9, abs=1e-22)


@pytest.mark.parametrize("beta", [0.2, 0.5, 1.0, 2.0, 3.0])
def test_extrapolated_in_one_over_root_n_it_is_the_diffusion(beta):
    laws = [jsq_chain.finite_law(10_000 * 4**k, beta) for k in range(4)]
    diffusion = diffusion_law(beta)
    for name in ("mean_q2", "mean_q2_squared", "mean_q1_squared"):
        values = [getattr(law, name) for law in laws]
        assert extrapolated(values) == pytest.approx(getattr(diffusion, name), rel=5e-5)
    waits = [law.wait_probability * math.sqrt(law.n_servers) for law in laws]
    assert extrapolated(waits) == pytest.approx(diffusion.mean_q2, rel=5e-5)  # sqrt(N) P(wait) -> E Q2


def extrapolated(values):
    """Return the limit of a series in ``h, h^2, ...`` whose ``h`` is halved each time."""
    for k in range(1, len(values)):
        values = [(2**k * b - a) / (2**k - 1) for a, b in itertools.pairwise(values)]
    return values[0]


def test_a_million_servers():
    law, diffusion = lb.theory.finite_law(10**6, 1.0), lb.theory.diffusion_law(1.0)
    assert law.mean_q2 == pytest.approx(diffusion.mean_q2, rel=4e-3)
    assert law.mean_wait == pytest.approx(law.mean_q2 * 1e3 / (1e6 - 1e3))
    assert "n_servers         1000000" in repr(law)


@pytest.mark.parametrize(
    ("n", "beta", "error"),
    [
        (0, 0.5, ValueError), (2.5, 0.5, ValueError), ("ten", 0.5, TypeError), (10**8, 1.0, ValueError),
        (100, math.nan, ValueError), (100, -1.0, ValueError), (100, 6.5, ValueError), (4, 2.0, ValueError),
        (100, None, TypeError),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(n, beta, error):
    with pytest.raises(error, match=r"(n_servers|beta) must be"):
        jsq_chain.finite_law(n, beta)


@pytest.mark.parametrize(("n", "beta"), [(100, 1.0), (10_000, 1.0)])
def test_simulated_jsq_agrees_up_to_the_third_job(n, beta):
    """True JSQ has servers with three jobs: 1e-4 sqrt(N) of them at N = 100, none seen at N = 10 000."""
    law, root = jsq_chain.finite_law(n, beta), math.sqrt(n)
    found = lb.simulate_markov(n, 1 - beta / root, lb.jsq(), events=3e7, replications=16, seed=1, progress=False)
    third = root * found.occupancy.value[2]
    assert third < 3e-4
    for got, width, want in (
        (root * found.occupancy.value[1], root * found.occupancy.half_width[1], law.mean_q2),
        (found.all_busy.value, found.all_busy.half_width, law.wait_probability),
    ):
        assert abs(got - want) < 1.5 * width + 5 * third


def test_transient_law_against_a_matrix_exponential_and_in_the_long_run():
    law = jsq_chain.transient_law(6, 0.8, (-2 / math.sqrt(6), 3 / math.sqrt(6)), [0.0, 0.7, 80.0])
    generator, number = naive.jsq_generator(6, 0.8)
    pi = np.zeros((7, 7))
    pi[tuple(np.array(list(number)).T)] = expm(0.7 * generator.T)[:, number[4, 3]]
    assert law.idle_weights[1] == pytest.approx(pi.sum(1)[::-1], abs=1e-12)
    assert law.q2_weights[1] == pytest.approx(pi.sum(0), abs=1e-12)
    assert (law.mean_q1[0], law.mean_q2[0]) == pytest.approx((-2 / math.sqrt(6), 3 / math.sqrt(6)))
    end = jsq_chain.finite_law(6, 0.8)
    assert (law.mean_q1[2], law.mean_q2[2]) == pytest.approx((end.mean_q1, end.mean_q2), abs=1e-9)
    assert law.truncation < 1e-11


@pytest.mark.parametrize("beta", [0.1, 1.0, 4.0])
def test_transient_law_keeps_its_mass(beta):
    assert jsq_chain.transient_law(150, beta, (-3.0, 4.0), [1.0, 6.0]).truncation < 1e-7


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_servers": 0}, "servers"), ({"n_servers": 2000}, "servers"), ({"start": (0.1, 1.0)}, "start"),
        ({"start": (-9.0, 2.0)}, "start"), ({"start": (0.0, -1.0)}, "start"), ({"start": 5}, "pair"),
        ({"times": [-1.0]}, "times"), ({"times": [math.nan]}, "times"), ({"beta": 11.0}, "certified"),
        ({"times": [101.0]}, "times"),
    ],
)  # fmt: skip
def test_transient_law_refuses_bad_input(change, match):
    with pytest.raises((TypeError, ValueError), match=match):
        jsq_chain.transient_law(**{"n_servers": 100, "beta": 1.0, "start": (-1.0, 1.0), "times": [1.0]} | change)
