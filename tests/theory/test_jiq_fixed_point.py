"""Paper B: fixed point, cycle bound and fluid paths against quadrature, closed forms, brackets and simulation."""

import itertools
import math
from decimal import Decimal, getcontext

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import lbcore as lb
from lbcore import theory
from lbcore.chance import laws
from lbcore.simulate import transient

LAWS = [
    laws.exponential(),
    laws.deterministic(),
    laws.erlang(4),
    laws.hyperexponential(8),
    laws.lognormal(4),
    laws.weibull(0.5),
    laws.weibull(3),
    laws.uniform(),
    laws.pareto(1.5),
    laws.pareto(3),
    laws.lomax(1.5),
    laws.discrete([0, 1, 5], [0.3, 0.5, 0.2], mean=1),
    laws.empirical(np.random.default_rng(5).lognormal(size=50)),
    laws.mixture([0.8, 0.2], [laws.deterministic(), laws.pareto(1.5, mean=3.0)]),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=str)


def kinks(law):
    """Levels at which the tail of the law jumps or bends."""
    if hasattr(law, "values"):
        return [float(v) for v in law.values]
    return [float(w) for w in (1 / 3, 2 / 3, 1.0, 2.0)] + [
        float(c.mean / law.mean) for c in getattr(law, "components", ())
    ]


@every_law
@pytest.mark.parametrize("w", [0.0, 0.3, 1.0, 2.5, 7.0])
def test_fixed_point_against_quadrature_of_the_tail(law, w):
    edges = sorted({0.0, w, *(k for k in kinks(law) if k < w)})
    edges = [e for e in edges if e <= w]
    covered = sum(quad(law.tail, a, b, epsabs=1e-13, epsrel=1e-13, limit=400)[0] for a, b in itertools.pairwise(edges))
    assert theory.fixed_point(law, 0.7, w) == pytest.approx(0.7 * (1 - covered), abs=1e-10)


def md1_tail(w, load):
    """Erlang's alternating sum for M/D/1, in 80 digits."""
    getcontext().prec = 80
    load, w = Decimal(load), Decimal(w)
    terms = (
        (load * (w - k)).exp() * ((-load * (w - k)) ** k if k else 1) / math.factorial(k) for k in range(int(w) + 1)
    )
    return float(1 - (1 - load) * sum(terms))


@pytest.mark.parametrize("load", [0.05, 0.3, 0.5, 0.8, 0.95, 0.99])
def test_cycle_bound_closed_forms(load):
    w = np.array([0.0, 0.01, 0.3, 0.9999, 1.0, 1.37, 2.0, 3.14, 7.5, 16.0, 16.5, 40.0])
    exponential = load * np.exp(-(1 - load) * w) / (load * (1 - load))
    assert theory.cycle_bound(laws.exponential(), load, w) == pytest.approx(exponential, abs=1e-10)
    deterministic = np.array([md1_tail(x, load) for x in w]) / (load * (1 - load))
    assert theory.cycle_bound(laws.deterministic(), load, w) == pytest.approx(deterministic, abs=1e-8)
    assert theory.cycle_bound(laws.exponential(), load, 0.0) == pytest.approx(1 / (1 - load), rel=1e-12)


def test_two_exponentials_by_partial_fractions():
    """Hyperexponential service: the transform of the workload is rational."""
    law, load, w = laws.hyperexponential(4), 0.8, np.linspace(0, 30, 50)
    q = (1 - 0.6**0.5) / 2
    m1, m2 = 0.5 / (1 - q), 0.5 / q
    # Z(w) = sum a_i e^(-s_i w): poles of load (R^ ) / (1 - load r^), residual law half and half
    poles = np.roots([m1 * m2, (m1 + m2) - load * ((1 - q) * m1 * m2 + q * m1 * m2), 1 - load])
    density = lambda s: (1 - q) * m1 / (1 + m1 * s) + q * m2 / (1 + m2 * s)  # noqa: E731
    slope = lambda s: -load * (-(1 - q) * m1**2 / (1 + m1 * s) ** 2 - q * m2**2 / (1 + m2 * s) ** 2)  # noqa: E731
    # E e^(-sW) = (1 - load) / (1 - load r^(s)); Z^ = (1 - E e^(-sW)) / s
    residues = [-(1 - load) / (s * slope(s)) for s in poles]
    assert all(abs(1 - load * density(s)) < 1e-9 for s in poles)
    closed = sum(r * np.exp(s * w) for r, s in zip(residues, poles, strict=True))
    assert theory.workload_tail(law, load, w).tail == pytest.approx(closed, abs=1e-9)


@every_law
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_workload_lies_between_rigorous_bounds(law, load):
    h, count = 1 / 64, 640
    low, high = naive.workload_bracket(law.residual_tail, load, h, count)
    tail = theory.workload_tail(law, load, h * np.arange(count)).tail
    assert np.all(low - 1e-12 <= tail)
    assert np.all(tail <= high + 1e-12)


@every_law
def test_proved_error_holds_against_a_finer_solution(law):
    w = np.geomspace(0.01, 300, 40)
    rough, fine = theory.workload_tail(law, 0.8, w, tolerance=1e-3), theory.workload_tail(law, 0.8, w, tolerance=1e-7)
    assert np.all(abs(rough.tail - fine.tail) <= rough.error + fine.error)
    assert rough.error[0] > fine.error[0] > 0
    assert fine.error[0] <= 2e-7


@every_law
def test_workload_mean_is_that_of_pollaczek_and_khinchine(law):
    if law.cv2 > 20:
        pytest.skip("the integral over the tail converges too slowly")
    w = np.concatenate([np.linspace(0, 16, 1601), np.linspace(16, 400, 3841)[1:]])
    mean = np.trapezoid(theory.workload_tail(law, 0.5, w, tolerance=1e-6).tail, w)
    assert mean == pytest.approx(0.5 * (1 + law.cv2) / (2 * 0.5), rel=2e-3)


def test_heavy_tail_far_out():
    """Subexponential service: P(W > w) ~ load / (1 - load) residual tail (Pakes, Veraverbeke)."""
    law, w = laws.pareto(1.5), np.array([1e4, 1e5, 1e6])
    found = theory.workload_tail(law, 0.3, w)
    ratio = found.tail / (0.3 / 0.7 * law.residual_tail(w))
    assert ratio == pytest.approx(1.0, abs=0.02)
    assert np.all(np.diff(abs(ratio - 1)) < 0)
    assert "error  array of shape (3,)" in repr(found)


def test_everything_scales_with_the_mean():
    short, long = laws.lognormal(2), laws.lognormal(2, mean=5.0)
    w = np.array([0.0, 0.5, 3.0])
    assert theory.cycle_bound(long, 0.6, 5 * w) == pytest.approx(theory.cycle_bound(short, 0.6, w), abs=1e-12)
    assert theory.fixed_point(long, 0.6, 5 * w) == pytest.approx(theory.fixed_point(short, 0.6, w), abs=1e-14)
    start, times = lambda u: 1.0 * (u < 1), np.array([0.4, 1.0, 3.0])
    one = theory.fluid_path(short, 0.6, start, times, w)
    five = theory.fluid_path(long, 0.6, lambda u: start(u / 5), 5 * times, 5 * w)
    assert np.asarray(five) == pytest.approx(np.asarray(one), abs=1e-9)
    work = np.ones(50)
    one = transient.simulate_path(work, short, 0.6, times, w, seed=3)
    five = transient.simulate_path(5 * work, long, 0.6, 5 * times, 5 * w, seed=3)
    assert five.value == pytest.approx(one.value)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(LAWS), st.floats(0.02, 0.98), st.floats(0, 60))
def test_bound_is_above_the_fixed_point_and_decreases(law, load, w):
    """A cycle spends at least as long above w as its first job alone would: ``x**_w >= residual_tail(w)``."""
    levels = np.array([w, 1.1 * w + 0.01])
    bound = theory.cycle_bound(law, load, levels)
    assert np.all(bound >= law.residual_tail(levels) - 1e-6 / (load * (1 - load)))
    assert bound[1] <= bound[0] + 1e-9
    assert 0 <= bound[1] <= 1 / (1 - load) + 1e-9


def test_lemma_4_holds_in_simulation_and_is_exact_pollaczek_khinchine_for_one_server():
    law, w = laws.lognormal(2), np.array([0.0, 0.5, 1.0, 3.0, 8.0])
    for n in (1, 2, 10):
        found = lb.simulate_workload(n, 0.8, lb.jiq(), law, work=w, arrivals=10**6, seed=4, progress=False)
        assert np.all(found.profile.low <= theory.cycle_bound(law, 0.8, w))
        if n == 1:
            exact = theory.workload_tail(law, 0.8, w).tail
            assert np.all(abs(found.profile.value - exact) <= 2 * found.profile.half_width)


# ---- fluid paths

TIMES = np.array([0.0, 0.3, 1.0, 1.7, 3.0, 6.0])
LEVELS = np.linspace(0, 9, 61)


@every_law
@pytest.mark.parametrize("load", [0.2, 0.99])
def test_fluid_path_from_empty_is_the_infinite_server_path(law, load):
    exact = theory.infinite_server_path(law, load, TIMES[:, None], LEVELS)
    for empty in (0, np.zeros_like(LEVELS), np.zeros_like):
        path = theory.fluid_path(law, load, empty, TIMES, LEVELS)
        assert path.profile == pytest.approx(exact, abs=1e-12)
        assert path.error < 1e-12
    direct = [load * quad(lambda s: law.tail(1.5 + s), 0, t, limit=500)[0] for t in TIMES]
    assert theory.infinite_server_path(law, load, TIMES, 1.5) == pytest.approx(direct, abs=5e-4)


@every_law
def test_fixed_point_is_fixed(law):
    path = theory.fluid_path(law, 0.7, lambda w: theory.fixed_point(law, 0.7, w), TIMES, LEVELS)
    assert path.profile == pytest.approx(np.tile(theory.fixed_point(law, 0.7, LEVELS), (len(TIMES), 1)), abs=1e-12)


def test_lemma_6_idle_servers_above_the_load_make_the_path_explicit():
    """Half of the servers have much work: the others never run out at load 0.4."""
    law = laws.erlang(2)
    path = theory.fluid_path(law, 0.4, lambda w: 0.5 * (w < 4), TIMES, LEVELS)
    exact = 0.5 * (TIMES[:, None] + LEVELS < 4) + theory.infinite_server_path(law, 0.4, TIMES[:, None], LEVELS)
    assert path.profile == pytest.approx(exact, abs=1e-12)


def test_equal_work_empties_at_one_instant():
    """All busy with work 2: until then jobs land at random, so a fraction e^(-2 load) is idle at time 2 exactly."""
    for law in (laws.exponential(), laws.discrete([1, 3], [0.5, 0.5], mean=1)):
        times = np.array([1.0, 2 - 1 / 32, 2.0, 2 + 1 / 32])
        x0 = theory.fluid_path(law, 0.8, lambda w: 1.0 * (w < 2), times, LEVELS).profile[:, 0]
        assert x0[:2] == pytest.approx(1.0)
        assert x0[2] == pytest.approx(1 - math.exp(-1.6), abs=1e-4)
        assert x0[3] > x0[2]


@every_law
def test_work_is_balanced_and_profiles_stay_profiles(law):
    """d/dt of the work in all is ``load - x_0``: no work is lost or made, up to the levels looked at."""
    times, w = np.linspace(0, 4, 513), np.linspace(0, 9, 577)
    path = theory.fluid_path(law, 0.9, lambda u: np.clip(2 - u, 0, 1), times, w)
    x = path.profile
    assert np.all((x >= 0) & (x <= 1))
    assert np.all(np.diff(x, axis=1) <= 0)
    held = np.trapezoid(x, w, axis=1)
    beyond = 0.9 * quad(lambda s: min(s, 4.0) * law.tail(9 + s), 0, 2000, limit=900)[0]
    lost = held[0] + 0.9 * 4 - np.trapezoid(x[:, 0], times) - held[-1]
    assert -0.02 <= lost <= 4 * beyond + 0.02  # work above level 9 is not in `held`


STATES = {
    "equal work": (lambda w: 1.0 * (w < 2), lambda n: np.full(n, 2.0)),
    "half overloaded": (
        lambda w: np.where(w < 0.5, 1.0, 0.5 * (w < 5.5)),
        lambda n: np.repeat([0.5, 5.5], n // 2),
    ),
    "uniform work": (lambda w: np.maximum(1 - w / 3, 0), lambda n: 3 * (np.arange(n) + 0.5) / n),
}


@pytest.mark.parametrize("law", [laws.exponential(), laws.deterministic(), laws.pareto(1.5), laws.uniform()], ids=str)
@pytest.mark.parametrize("load", [0.45, 0.9])
@pytest.mark.parametrize("state", STATES)
def test_fluid_path_agrees_with_simulation_at_a_hundred_thousand_servers(law, load, state):
    """Within twice the 95 % band, the discretisation error and 1.5 / sqrt(n); levels avoid the jumps."""
    profile, work = STATES[state]
    n, times, levels = 100_000, np.array([0.4, 1.2, 2.1, 3.3, 7.1]), np.linspace(0, 8, 33) + 0.03
    path = theory.fluid_path(law, load, profile, times, levels)
    found = transient.simulate_path(work(n), law, load, times, levels, seed=7, replications=6)
    assert np.all(abs(path.profile - found.value) <= 2 * found.half_width + 1.5 / math.sqrt(n))
    assert path.error < 0.01


def test_fluid_path_converges_to_the_fixed_point():
    """Lemma 8 (load + delta < 1/2); at load 0.8 a conjecture, seen."""
    law = laws.lognormal(1)
    for load in (0.45, 0.8):
        path = theory.fluid_path(law, load, STATES["equal work"][0], np.array([1.0, 10.0, 40.0]), LEVELS)
        distance = np.max(abs(path.profile - theory.fixed_point(law, load, LEVELS)), axis=1)
        assert distance[0] > distance[1] > distance[2]
        assert distance[2] < 1e-3


# ---- bad input


def test_module_and_policy_share_a_name():
    assert repr(lb.jiq()) == "JIQ"
    assert lb.theory.fixed_point(laws.exponential(), 0.3, 0.0) == 0.3


@pytest.mark.parametrize("function", [theory.fixed_point, theory.cycle_bound, theory.workload_tail])
def test_bad_arguments_say_what_is_wrong(function):
    law = laws.exponential()
    for load in (1.0, 1.5, 0.0, -1, math.nan):
        with pytest.raises(ValueError, match="load must be a number above 0 and below 1"):
            function(law, load, 1.0)
    with pytest.raises(TypeError, match="load must be a number"):
        function(law, "high", 1.0)
    with pytest.raises(TypeError, match="service must be made by"):
        function("exponential", 0.5, 1.0)
    for w in (-1.0, [0.0, -1.0], math.nan):
        with pytest.raises(ValueError, match="w must be numbers of at least 0"):
            function(law, 0.5, w)
    with pytest.raises(ValueError, match="tolerance"):
        theory.workload_tail(law, 0.5, 1.0, tolerance=0)


def test_bad_fluid_arguments_say_what_is_wrong():
    law, good = laws.exponential(), (0, [1.0], [0.0, 1.0])
    for change, message in (
        ((2.0, *good[1:]), "initial must be numbers of at least 0 and at most 1"),
        ((lambda w: w, *good[1:]), "never increasing"),
        (([0.2, 0.5], *good[1:]), "never increasing"),
        ((0, [-1.0], good[2]), "times must be"),
        ((0, [1.0], [1.0, 0.5]), "w must be increasing"),
    ):
        with pytest.raises(ValueError, match=message):
            theory.fluid_path(law, 0.5, *change)
    with pytest.raises(ValueError, match="step must be a number above 0"):
        theory.fluid_path(law, 0.5, *good, step=0)
    with pytest.raises(ValueError, match="broadcast"):
        theory.fluid_path(law, 0.5, [1.0, 0.5, 0.1], [1.0], [0.0, 1.0])
