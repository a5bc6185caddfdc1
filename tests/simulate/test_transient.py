"""JIQ in time, and its profile, against plain simulation, Pollaczek and Khinchine, and the start it is given."""

import math

import naive
import numpy as np
import pytest

import lbcore as lb
from lbcore import theory
from lbcore.chance import laws
from lbcore.simulate import idle_or_busy, transient


def test_simulated_path_against_a_plain_simulation():
    n, rng, law = 40, np.random.default_rng(2), laws.uniform()
    times, levels, work = np.array([0.5, 2.0]), np.array([0.0, 0.5, 1.5]), np.linspace(0, 1.2, 40)
    found = transient.simulate_path(work, law, 0.9, times, levels, seed=5, replications=2000)
    for row, t in enumerate(times):
        plain = [
            np.mean(naive.jiq_work(work, lambda r: r.uniform(0, 2), 0.9 * n, t, rng)[:, None] > levels, axis=0)
            for _ in range(500)
        ]
        error = 4 * np.std(plain, axis=0) / math.sqrt(500) + found.half_width[row] + 1 / n * 0.05
        assert np.all(abs(found.value[row] - np.mean(plain, axis=0)) <= error)


@pytest.mark.kernel
def test_simulate_path_small():
    found = transient.simulate_path([0.0, 1.0, 2.0], laws.deterministic(), 0.5, [0.5, 1.5], [0.0, 1.0], seed=1)
    assert found.value.shape == (2, 2)
    assert np.all((found.value >= 0) & (found.value <= 1))


@pytest.mark.parametrize("law", [laws.uniform(mean=3.0), laws.lognormal(2), laws.pareto(2.5)], ids=str)
@pytest.mark.parametrize(("n", "load"), [(3, 0.6), (20, 0.8)])
def test_profile_from_the_waits_agrees_with_looking_at_the_servers(law, n, load):
    w = law.mean * np.array([0.3, 0.5, 1.0, 2.5])
    found = lb.simulate_workload(n, load, lb.jiq(), law, work=w, arrivals=10**6, seed=2, progress=False)
    systems = transient._systems(n, law, load, 8, 3)
    times = np.arange(50, 50 + 15_000 // n)
    seen = transient._over_replications(
        np.array([np.mean([system.profile(t, w / law.mean) for t in times], axis=0) for system in systems])
    )
    assert np.all(abs(found.profile.value - seen.value) <= 1.5 * (found.profile.half_width + seen.half_width))
    assert found.profile.value == pytest.approx(theory.fixed_point(law, load, w) + found.excess.value)
    assert np.all(found.excess.high <= load * found.wait_probability.high)


@pytest.mark.kernel
def test_looks_between_two_arrivals_and_past_the_clock_that_is_set_back():
    """One server works off what it has; much later it is busy a fraction `load` of the time."""
    law, far = laws.deterministic(), 3.3 * idle_or_busy.LATE
    system = next(transient._systems(1, law, 1e-5, 2, 2, np.array([2.5])))
    assert [float(system.profile(t, 0.5)) for t in (0.0, 1.0, 1.9, 2.1, 3.0)] == [1.0, 1.0, 1.0, 0.0, 0.0]
    system = next(transient._systems(1, law, 0.5, 2, 2))
    assert np.mean([system.profile(far + t, 0.0) for t in range(4000)]) == pytest.approx(0.5, abs=0.06)


def test_runs_start_in_the_equilibrium_of_infinitely_many_servers():
    law, n, w = laws.pareto(1.5, mean=2.0), 100_000, np.array([0.0, 0.3, 2.0, 30.0])
    work = next(transient._systems(n, law, 0.6, 2, 1)).state.empty_at
    share = np.mean(work[:, None] > w / law.mean, axis=0)
    assert share == pytest.approx(theory.fixed_point(law, 0.6, w), abs=4 / math.sqrt(n))


def test_bad_arguments_say_what_is_wrong():
    law = laws.exponential()
    for wrong, words in (
        (lambda: transient.simulate_path([1.0], law, 0.5, [1.0, 0.5], [0.0]), "times must be increasing, not 1 before"),
        (lambda: transient.simulate_path([-1.0], law, 0.5, [1.0], [0.0]), "work must be numbers of at least 0, not -1"),
        (lambda: transient.simulate_path([1.0], law, 1.0, [1.0], [0.0]), "load must be a number above 0 and below 1"),
        (lambda: transient.pair_excess(1, law, 0.5, [0.0]), "n_servers must be a whole number of at least 2, not 1"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    with pytest.raises(TypeError, match="service must be made by"):
        transient.pair_excess(2, "exponential", 0.5, [0.0])
