import _thread
import inspect
import itertools
import math
import subprocess
import sys
import threading
import time

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbcore.chance import streams
from lbcore.compiled import kernel
from lbcore.simulate import estimate
from lbcore.simulate.intervals import Sample, mser, warm_up
from lbcore.simulate.results import Estimate, Simulation


@kernel
def _mm1_kernel(queue, stream, steps, up, out):
    jobs, words = queue[0], streams.load(stream)
    for _ in range(steps):
        out[0] += jobs if jobs else 0.0
        out[1] += 1.0 if jobs else 1.0 / up
        u, words = streams.take_uniform(words)
        jobs += 1 if jobs == 0 or u < up else -1
    queue[0] = jobs
    streams.store(stream, words)


class MM1:
    """Jump chain of the queue M/M/1, each state weighing its mean time."""

    columns, level, unit, notes = {"total": 1, "time": 1}, ("total", "time"), "events", ()
    chunk_steps, bytes_per_replication = 50_000, 100

    def __init__(self, load):
        self.load, self.up = load, load / (1 + load)
        self.relaxation_steps = 2.0 * load / (1 - math.sqrt(load)) ** 2

    def start(self, stream):
        return np.zeros(1, np.int64), stream.copy()

    def advance(self, state, steps, out):
        _mm1_kernel(*state, steps, self.up, out)

    def report(self, sample):
        return {"mean_total": sample.ratio("total", "time")}


def run(load=0.8, **options):
    return estimate.run(MM1(load), {"load": load}, **{"seed": 1, "progress": False, **options})


# ---- the driver ----


def test_same_bits_on_any_number_of_threads_live_or_not():
    for options in ({"steps": 10**7 + 13}, {"rel_precision": 0.02}, {"steps": 300, "replications": 3}):
        one, two = (run(threads=threads, **options) for threads in (1, 2))
        *_, live = run(live=True, **options)
        values = {(r.mean_total.value, r.mean_total.half_width, r.steps, r.warm_up) for r in (one, two, live)}
        assert len(values) == 1
        assert one.complete and live.complete


def test_same_bits_in_another_process():
    code = "from test_estimate import run; print(run(steps=10**6).mean_total.value.hex())"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert printed.stdout.strip() == run(steps=10**6).mean_total.value.hex()


def test_other_seed_other_bits_and_a_drawn_seed_is_recorded():
    assert run(steps=10**5).mean_total.value != run(steps=10**5, seed=2).mean_total.value
    drawn = run(steps=10**5, seed=None)
    assert run(steps=10**5, seed=drawn.seed).mean_total.value == drawn.mean_total.value


def test_replications_are_uncorrelated():
    begun = run(steps=4 * 10**6, replications=16, live=True)
    list(begun)
    cells = begun._grid[0][:, : begun._grid[1]]
    means = (cells[:, :, 0] / cells[:, :, 1])[:, 8:]
    correlations = np.corrcoef(means)[np.triu_indices(16, 1)]
    assert np.abs(correlations).max() < 4.5 / math.sqrt(means.shape[1])
    assert abs(correlations.mean()) < 4 / math.sqrt(correlations.size * means.shape[1])


def test_steps_are_shared_and_exact():
    assert run(steps=10**6, replications=8).steps == 10**6
    assert run(steps=1e6, replications=7).steps == 7 * math.ceil(10**6 / 7)


@pytest.mark.kernel
def test_every_step_is_run_once():
    begun = run(steps=5 * 333, replications=5, live=True, threads=2)
    list(begun)
    assert begun._grid[3] == 333
    state, out = begun._model.start(streams.states(1, 5)[2]), np.zeros(2)
    begun._model.advance(state, 333, out)
    assert begun._grid[0][2].sum(axis=0) == pytest.approx(out, rel=1e-12)


def test_live_results_get_better():
    results = list(run(steps=6 * 10**7, threads=1, live=True))
    assert len(results) > 2
    assert [r.complete for r in results] == [False] * (len(results) - 1) + [True]
    assert results[-1].mean_total.half_width < results[0].mean_total.half_width
    assert all(a.steps < b.steps for a, b in itertools.pairwise(results))


def test_stop_is_answered_at_once():
    run(steps=1000)
    begun = run(steps=10**13, live=True)
    for count, result in enumerate(begun):
        assert not result.complete
        if count == 1:
            stopped = time.perf_counter()
            threading.Thread(target=begun.stop).start()
    assert time.perf_counter() - stopped < 0.3
    assert not result.complete and result.mean_total.value > 0


def test_interrupt_returns_what_was_gathered():
    run(steps=1000)
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    start = time.perf_counter()
    result = run(steps=10**13)
    assert 0.4 < time.perf_counter() - start < 0.9
    assert not result.complete and result.steps > 10**6
    assert result.mean_total.low < 4 < result.mean_total.high


def test_a_run_stopped_before_it_began_has_no_result():
    begun = run(steps=10**9, live=True)
    begun.stop()
    with pytest.raises(RuntimeError, match="nothing to return"):
        begun.result(progress=False)
    with pytest.raises(RuntimeError, match="once"):
        next(iter(begun))


def test_an_error_in_a_thread_reaches_the_caller():
    class Broken(MM1):
        def advance(self, state, steps, out):
            raise ZeroDivisionError("broken model")

    with pytest.raises(ZeroDivisionError, match="broken model"):
        estimate.run(Broken(0.5), {}, steps=10**6, seed=1, progress=False)


def test_rel_precision_is_reached_or_said_not_to_be():
    result = run(rel_precision=0.01)
    assert result.mean_total.half_width <= 0.01 * result.mean_total.value and result.complete
    assert run(rel_precision=0.005).steps > result.steps
    capped = run(rel_precision=1e-4, steps=10**6)
    assert capped.steps == 10**6 and "not reached" in capped.notes[-1] and capped.believable


def test_short_runs_say_so():
    by_time = run(0.9, steps=50_000)
    assert not by_time.believable and "relaxation times" in by_time.notes[0]

    class Unaware(MM1):
        def __init__(self, load):
            super().__init__(load)
            self.relaxation_steps = 1.0

    by_correlation = estimate.run(Unaware(0.95), {}, steps=200_000, seed=1, progress=False)
    assert not by_correlation.believable and "correlated" in by_correlation.notes[0]
    assert run(0.9, steps=10**7).notes == ()


def test_default_length_and_replications():
    result = run(0.9)
    assert result.replications == 32 and result.believable
    assert result.steps >= 100 * 32 * MM1(0.9).relaxation_steps

    class Large(MM1):
        bytes_per_replication = 2**23

    assert estimate.run(Large(0.5), {}, steps=1000, seed=1, progress=False).replications == 16


def test_bad_numbers_are_refused_before_any_work():
    for options, word in (
        ({"steps": 0}, "events must be a whole number of at least 32, not 0; one for each of the 32 replications"),
        ({"steps": -5}, "events"),
        ({"steps": 31}, "events must be a whole number of at least 32"),
        ({"steps": 1000, "replications": 0}, "replications"),
        ({"steps": 1000, "threads": 0}, "threads"),
        ({"rel_precision": 0.0}, "rel_precision"),
        ({"rel_precision": 1.5}, "rel_precision"),
        ({"rel_precision": math.nan}, "rel_precision"),
        ({"steps": 100.5}, "events"),
        ({"steps": 1000, "replications": 2.5}, "replications"),
        ({"steps": 1000, "seed": -1}, "seed"),
    ):
        with pytest.raises(ValueError, match=word):
            run(**options)
    for options in (
        {"steps": "many"},
        {"rel_precision": "0.1"},
        {"steps": 1000, "replications": True},
        {"steps": 1000, "seed": "x"},
    ):
        with pytest.raises(TypeError):
            run(**options)

    class Huge(MM1):
        bytes_per_replication = 10**15

        def start(self, stream):
            raise AssertionError("work has begun")

    with pytest.raises(MemoryError, match="GiB"):
        estimate.run(Huge(0.5), {}, steps=1000, seed=1)


def test_options_of_a_run_pass_through_by_name():
    @estimate.passes_run_options
    def simulate(load, *, events=None, **run):
        return estimate.run(MM1(load), {"load": load}, steps=events, **run)

    names = ["load", "events", "rel_precision", "replications", "seed", "threads", "progress", "live"]
    assert list(inspect.signature(simulate).parameters) == names
    direct, passed = run(0.5, steps=10**5), simulate(0.5, events=10**5, seed=1, progress=False)
    assert passed.mean_total.value == direct.mean_total.value
    with pytest.raises(TypeError, match=r"simulate\(\) got an unexpected keyword argument 'steps'"):
        simulate(0.5, steps=10**5)


@given(st.integers(1, 10**9) | st.just(math.inf), st.integers(1, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_plan_adds_up_and_cells_are_equal(total, chunk):
    filled = steps = 0
    length = None
    for lengths in estimate._plan(total, chunk):
        length = length or lengths[0]
        if filled == 128:
            filled, length = 64, 2 * length
        assert 128 % len(lengths) == 0 or steps + sum(lengths) == total
        steps += sum(lengths)
        assert all(n == length for n in lengths[:-1]) and (lengths[-1] == length or steps == total)
        filled += len(lengths)
        assert filled <= 128
        if steps > min(total, 3000 * chunk) and total == math.inf:
            return
        if length > chunk and total < math.inf and steps + 200 * length < total:
            return  # long runs go on in the same way
    assert steps == total


# ---- the intervals ----


@pytest.mark.parametrize(("seeds", "least"), [(60, 0.86), pytest.param(300, 0.92, marks=pytest.mark.long)])
def test_coverage_for_the_hard_queue(seeds, least):
    exact, hits = 9.0, 0
    for seed in range(seeds):
        result = run(0.9, seed=seed, threads=1)
        assert result.believable
        hits += result.mean_total.low <= exact <= result.mean_total.high
    assert hits >= least * seeds


def test_ratio_is_the_textbook_interval_for_symmetric_data():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    cells = np.stack([values, np.ones(10)], axis=1)[:, None, :]
    found = Sample(cells, {"x": 1, "steps": 1}).ratio("x", "steps")
    assert found.value == pytest.approx(5.5)
    assert found.half_width == pytest.approx(2.2621571628 * values.std(ddof=1) / math.sqrt(10))


def test_skewness_widens_and_nothing_seen_is_no_zero():
    cells = np.zeros((16, 4, 2))
    cells[:, :, 1] = 25.0
    sample = Sample(cells, {"seen": 1, "trials": 1})
    assert sample.ratio("seen", "trials").half_width == 0.0
    assert sample.probability("seen", "trials").high == pytest.approx(3.0 / 1600, rel=0.01)
    cells[3, 2, 0] = 1.0  # one case in 1600: the exact upper limit is 5.6 / 1600
    once = Sample(cells, {"seen": 1, "trials": 1}).probability("seen", "trials")
    assert 4.0 / 1600 < once.high < 9.0 / 1600


def test_nothing_observed_is_nan_with_infinite_width():
    found = Sample(np.zeros((12, 4, 2)), {"x": 1, "steps": 1}).ratio("x", "steps")
    assert math.isnan(found.value) and found.half_width == math.inf


def test_control_variates_use_what_is_known():
    draw = np.random.default_rng(5)
    noise, other = draw.normal(size=(2, 20))
    cells = np.stack([3.0 + 2.0 * noise, 7.0 + noise, 3.0 + other, np.ones(20)], axis=1)[:, None, :]
    sample = Sample(cells, {"x": 1, "c": 1, "y": 1, "n": 1})
    perfect = sample.ratio("x", "n", [("c", "n", 7.0)])
    assert perfect.value == pytest.approx(3.0) and perfect.half_width < 1e-9
    useless = sample.ratio("y", "n", [("c", "n", 7.0)])
    assert abs(useless.value - 3.0) < 1.5 * useless.half_width
    both = sample.ratio(np.stack([sample.sum("x"), sample.sum("y")], axis=1), "n", [("c", "n", 7.0)])
    assert both.value == pytest.approx([perfect.value, useless.value])
    assert both.half_width == pytest.approx([perfect.half_width, useless.half_width], abs=1e-9)


def test_replications_are_cut_into_batches():
    for replications, groups in ((1, 32), (3, 96), (16, 512), (32, 512), (100, 500)):
        sample = Sample(np.ones((replications, 80, 1)), {"x": 1}, cuts=(8, 16))
        assert sample.sum("x").shape == (groups,)
        assert sample.sum("x").sum() == sum(80 - (8, 16)[r % 2] for r in range(replications))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=60))
@settings(max_examples=100, deadline=None)
def test_mser_is_its_definition(series):
    found, expected = mser(series), naive.mser(series)

    def score(d):
        return np.var(series[d:]) / len(series[d:])

    assert found <= len(series) // 2
    assert score(found) == pytest.approx(score(expected), rel=1e-6, abs=1e-9)


def test_warm_up_is_found_by_the_other_half():
    draw = np.random.default_rng(3)
    top = draw.normal(10.0, 1.0, (8, 100))
    top[1::2, :30] -= 50.0  # a start that only the odd replications show
    even, odd = warm_up(top, np.ones_like(top))
    assert 29 <= even <= 32 and odd == 10
    assert warm_up(top[:1], np.ones((1, 100))) == (20, 20)


# ---- the records ----


def test_records_read_well():
    result = run(steps=10**5)
    assert "mean_total" in repr(result) and "Too short" in run(0.95, steps=1000)._repr_html_()
    assert "<script>" not in estimate.run(MM1(0.5), {"policy": "<script>"}, steps=1000, progress=False)._repr_html_()
    assert result.load == 0.8 and "mean_total" in dir(result)
    with pytest.raises(AttributeError, match="mean_total"):
        result.mean_totals  # noqa: B018
    with pytest.raises(AttributeError):
        result.steps = 3
    assert isinstance(result, Simulation)


def test_results_are_plain_dicts_on_demand():
    result = run(steps=10**5)
    plain = result.dict()
    assert plain["asked"]["load"] == 0.8 and plain["asked"]["seed"] == 1
    assert plain["estimates"]["mean_total"] == {
        "value": result.mean_total.value,
        "half_width": result.mean_total.half_width,
    }
    assert plain["run"]["steps"] == result.steps and plain["run"]["notes"] == result.notes


def test_estimates_read_well():
    number = Estimate(1.23456, 0.0123)
    assert repr(number) == "1.235 ± 0.012 (95 %)"
    assert number.low == pytest.approx(1.22226) and number.high == pytest.approx(1.24686)
    assert "shape (2,)" in repr(Estimate(np.ones(2), np.ones(2)))
    assert repr(Estimate(math.nan, math.inf)) == "nan ± inf (95 %)"
    assert repr(Estimate(123456.0, 2345.0)) == "123456 ± 2.3e+03 (95 %)"
