"""Replications in, a result out: the driver behind every simulator.

A simulator hands over a *model* (see :class:`Model`) and what the user asked for::

    @estimate.passes_run_options
    def simulate_markov(n_servers, load, policy, *, rates=None, events=None, **run):
        ...
        return estimate.run(model, {"policy": policy, ...}, steps=events, **run)

``model.report(sample)`` turns sums into a dict of named estimates with the methods ``sum``, ``ratio`` and
``probability`` of :class:`lbcore.simulate.intervals.Sample`; the first is the one that `rel_precision` refers to.
`steps` is the total over all replications, so that the cost of a run does not depend on how it is cut.

Each replication starts from an empty system, on its own stream, and is cut into 64 to 128 equal *cells*: when
128 are full, neighbours are added up and cells double. Cells depend on what was asked alone, never on time or
threads: same seed, same bits. How warm-up and intervals are found stands in :mod:`lbcore.simulate.intervals`.
"""

import inspect
import math
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, Protocol

import numpy as np
from tqdm.auto import tqdm

from lbcore import __version__, checks
from lbcore.chance import streams
from lbcore.simulate.intervals import Sample, column_slices, linearised, neighbour_correlation, warm_up
from lbcore.simulate.results import Simulation

_CELLS = 128  # cells kept of each replication, at most
_LOOKS = (96, 128)  # numbers of cells at which `rel_precision` may end a run
_YIELD_SECONDS = 0.05
_LEAST_TIMES, _LEAST_TIMES_IN_ALL = 10, 200  # relaxation times: one replication, all together
_MOST_CORRELATION = 0.4  # of neighbouring sixteenths: about what 10 relaxation times of one queue give


class Model(Protocol):
    """What a simulator gives to the driver."""

    columns: Mapping[str, int]  # name and width of each column of sums, in the order they stand in `out`
    level: tuple[str, str]  # (numerator, denominator): scalar columns whose ratio shows the warm-up
    unit: str  # what a step is, in the plural and as the user's argument is called: "events", "slots", ...
    chunk_steps: int  # steps that take about 2 ms: `advance` is never asked for more at once
    relaxation_steps: float  # steps in which a replication forgets its start; for one queue at load rho,
    # those of 1 / (1 - sqrt(rho))^2, about 4 / (1 - rho)^2, mean service times
    bytes_per_replication: int  # memory of one state
    notes: tuple[str, ...]  # sentences to go with every result
    # optional: group, the replications that ``advance_group(states, steps, outs)`` advances together

    def start(self, stream) -> Any:
        """Return the state of one replication, empty at time 0, that draws from `stream` (uint64[4])."""

    def advance(self, state, steps, out) -> None:
        """Run exactly `steps` steps with the GIL released and add the sums to `out` (float64[k])."""

    def report(self, sample) -> dict[str, Any]:
        """Return the named estimates, the main one first."""


def require_memory(needed, what):
    """Raise MemoryError if `needed` bytes are more than the machine has; `what` says what they are for."""
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.9 * have:
        raise MemoryError(
            f"{what} would take {needed / 2**30:.3g} GiB of memory, this machine has {have / 2**30:.3g} GiB: "
            "ask for fewer servers or fewer replications"
        )


def run(
    model, asked, *, steps=None, rel_precision=None, replications=None, seed=None, threads=None, progress=True,
    live=False,
):  # fmt: skip
    """Run the replications of a model; return a Simulation, or with `live` a Run to iterate over.

    Parameters
    ----------
    model : Model
    asked : dict
        What to record of the user's wishes, besides the number of replications and the seed.
    steps : int >= 1, optional
        Steps of all replications together; with `rel_precision`, the most to be spent. Without either,
        100 relaxation times for each replication, but 10^6 steps at least and 10^9 at most.
    rel_precision : float in (0, 1), optional
        Go on until the half-width of the first estimate is at most this fraction of its value and the run
        is long enough to be believed.
    replications : int >= 1, optional
        32 by default, fewer (at least 2) where their states would take more than 128 MiB.
    seed : int >= 0 or None
    threads : int >= 1, optional
        All cores by default. The result does not depend on it.
    progress : bool
        Show a progress bar once the run has taken a second.
    live : bool

    Raises
    ------
    MemoryError
        The states would not fit into the machine.
    """
    progress, live = checks.flag(progress, "progress"), checks.flag(live, "live")
    if replications is None:
        replications = min(32, max(2, 2**27 // max(1, int(model.bytes_per_replication))))
    replications = checks.whole(replications, "replications")
    if rel_precision is not None:
        rel_precision = checks.real(rel_precision, "rel_precision", above=0, below=1)
    if steps is None and rel_precision is None:
        steps = max(10**6, replications, min(10**9, math.ceil(100 * model.relaxation_steps * replications)))
    elif steps is not None:
        why = f"one for each of the {replications} replications"
        steps = checks.whole(steps, model.unit, least=replications, why=why)
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(checks.whole(threads, "threads"), replications)
    needed = model.bytes_per_replication + 8.0 * _CELLS * sum(model.columns.values())
    require_memory(replications * needed, f"{replications} replications")
    seed = streams.resolve_seed(seed)
    asked = {**asked, "replications": replications, "seed": seed}
    begun = Run(model, asked, steps, rel_precision, streams.states(seed, replications), threads)
    return begun if live else begun.result(progress)


def passes_run_options(simulate):
    """Let a simulator take the options of :func:`run` as ``**run``, and its signature name them."""
    signature, options = inspect.signature(simulate), inspect.signature(run).parameters
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    passed = [p for name, p in options.items() if p.kind is p.KEYWORD_ONLY and name != "steps"]
    shown = signature.replace(parameters=own + passed)

    @wraps(simulate)
    def simulator(*arguments, **options):
        for name in options.keys() - shown.parameters.keys():
            raise TypeError(f"{simulate.__name__}() got an unexpected keyword argument {name!r}")
        return simulate(*arguments, **options)

    simulator.__signature__ = shown
    return simulator


class Run:
    """A simulation under way, made by the simulators with ``live=True``.

    Iterate over it for ever better results, one about every 50 ms, or wait for the last one with
    :meth:`result`. The last one does not depend on how many came before.
    """

    def __init__(self, model, asked, steps, rel_precision, states, threads):
        self._model, self._asked, self._rel_precision, self._threads = model, asked, rel_precision, threads
        self._length = math.inf if steps is None else -(-steps // len(states))
        self._chunk = max(1, int(model.chunk_steps))
        groups = ([model.start(stream) for stream in group] for group in _groups(model, states))
        self._groups = [_Group(group, _plan(self._length, self._chunk)) for group in groups]
        width = sum(model.columns.values())
        self._grid = np.zeros((len(states), _CELLS, width)), 0, 0, 0  # cells, how many, length of one, steps
        self._change = threading.Condition()
        self._stopping = False
        self._begun = None

    def stop(self):
        """Stop the run, from any thread: the iteration ends at once with what was gathered."""
        with self._change:
            self._stopping = True
            self._change.notify_all()

    def result(self, progress=True):
        """Run to the end and return the last Simulation; an interrupt returns what was gathered so far."""
        last, unit = None, f" {self._model.unit}"
        total = None if self._length == math.inf else self._length * len(self._grid[0])
        try:
            with tqdm(total=total, unit=unit, unit_scale=True, delay=1, leave=False, disable=not progress) as bar:
                for last in self:
                    bar.update(last.steps - bar.n)
        except KeyboardInterrupt:
            self.stop()
            if self._grid[1] == 0:
                raise
            last = self._snapshot(complete=False)
        if last is None:
            raise RuntimeError("the run was stopped before any of it was done: there is nothing to return")
        return last

    def __iter__(self):
        """Yield Simulation records, ever better; the last one is complete unless the run was stopped."""
        if self._begun is not None:
            raise RuntimeError("a run can be iterated over once; start a new one")
        self._begun = shown = time.perf_counter()
        pool = ThreadPoolExecutor(self._threads)
        workers = [pool.submit(self._work) for _ in range(self._threads)]
        try:
            finished = False
            while not finished and self._gather(workers):
                _, filled, _, steps = self._grid
                finished = steps == self._length
                if self._rel_precision is not None and filled in _LOOKS and not finished:
                    finished = self._enough()
                if not finished and time.perf_counter() - shown > _YIELD_SECONDS:
                    yield self._snapshot(complete=False)
                    shown = time.perf_counter()
            if self._grid[1] > 0:
                yield self._snapshot(complete=finished)
        finally:
            self.stop()
            pool.shutdown(wait=False)

    def _work(self):
        """Advance the group that is furthest behind, again and again, until the run is over."""
        while (group := self._choose()) is not None:
            sums = self._advance(group)
            if sums is None:
                return
            with self._change:
                group.finish(sums)
                self._change.notify_all()

    def _choose(self):
        """Wait for work and return a group, none of them ever more than two units ahead; None when the run is over."""
        with self._change:
            while not self._stopping:
                free = (g for g in self._groups if g.lengths and not g.busy and len(g.fresh) < 2)
                group = min(free, key=lambda g: len(g.fresh), default=None)
                if group is not None:
                    group.busy = True
                    return group
                self._change.wait()
        return None

    def _advance(self, group):
        """Return the sums of the next cells, shape (states, cells, k), or None if the run was stopped meanwhile."""
        states, lengths = group.states, group.lengths
        sums = np.zeros((len(states), len(lengths), self._grid[0].shape[2]))
        for cell, length in enumerate(lengths):
            for begin in range(0, length, self._chunk):
                if self._stopping:
                    return None
                steps = min(self._chunk, length - begin)
                if len(states) > 1:
                    self._model.advance_group(states, steps, sums[:, cell])
                else:
                    self._model.advance(states[0], steps, sums[0, cell])
        return sums

    def _gather(self, workers):
        """Wait until all replications have finished their next unit and take it in; False if stopped."""
        with self._change:
            while not all(group.fresh for group in self._groups):
                for worker in workers:
                    if worker.done():
                        worker.result()  # raises what went wrong in the thread
                if self._stopping:
                    return False
                self._change.wait(0.1)
            sums, (lengths, *_) = zip(*(group.fresh.popleft() for group in self._groups), strict=True)
            self._change.notify_all()
        cells, filled, length, steps = self._grid
        if filled == _CELLS:
            cells, filled = np.zeros_like(cells), filled // 2
            cells[:, :filled] = self._grid[0][:, 0::2] + self._grid[0][:, 1::2]
        cells[:, filled : filled + len(lengths)] = np.concatenate(sums)
        # one assignment: an interrupt finds the grid either as it was or as it will be
        self._grid = cells, filled + len(lengths), max(length, lengths[0]), steps + sum(lengths)
        return True

    def _enough(self):
        """Return whether the first estimate is as precise as asked and the run long enough to be believed."""
        latest = self._snapshot(complete=False)
        return latest.believable and self._precise(latest.estimates)

    def _snapshot(self, complete):
        """Return the Simulation that the cells gathered so far give."""
        model = self._model
        cells, filled, length, steps = self._grid
        cells, at = cells[:, :filled], column_slices(model.columns)
        level = np.concatenate([cells[:, :, at[name]] for name in model.level], axis=2)
        cuts = warm_up(level[:, :, 0], level[:, :, 1])
        doubts = self._doubts(level, cuts, steps)
        estimates = model.report(Sample(cells, model.columns, cuts))
        notes = [*doubts, *model.notes]
        if complete and self._rel_precision is not None and not self._precise(estimates):
            notes.append(f"The relative precision {self._rel_precision:g} was not reached in these {model.unit}.")
        return Simulation(
            asked=self._asked, estimates=estimates, steps=steps * len(cells), unit=model.unit,
            warm_up=max(cuts) * length, complete=complete, believable=not doubts,
            seconds=time.perf_counter() - self._begun, version=__version__, notes=tuple(notes),
        )  # fmt: skip

    def _precise(self, estimates):
        """Return whether the first estimate is as precise as asked."""
        first = next(iter(estimates.values()))
        return first.half_width <= self._rel_precision * abs(first.value)

    def _doubts(self, level, cuts, steps):
        """Return, as sentences, why the run is too short to be believed; none if it is long enough."""
        unit, relaxation, replications = self._model.unit, self._model.relaxation_steps, len(level)
        times = steps / relaxation
        if times < _LEAST_TIMES or times * replications < _LEAST_TIMES_IN_ALL:
            return [
                f"Too short to be believed: {replications} replications of {times:.2g} relaxation times each, "
                f"of about {relaxation:.2g} {unit}; {_LEAST_TIMES} each and {_LEAST_TIMES_IN_ALL} in all are needed."
            ]
        parts = Sample(level, {"top": 1, "bottom": 1}, cuts, batches=16)
        top, bottom = parts.sum("top"), parts.sum("bottom")
        deviations = linearised(top[:, None], bottom) - top.sum() / bottom.sum()
        correlation = neighbour_correlation(deviations.reshape(replications, -1, 1))[0]
        if correlation <= _MOST_CORRELATION:
            return []
        return [
            "Too short to be believed: neighbouring sixteenths of a replication are correlated "
            f"({correlation:.2f}), so it has hardly forgotten its start; ask for more {unit}."
        ]


class _Group:
    """Replications that are advanced together."""

    def __init__(self, states, plan):
        self.states, self.busy, self._plan = states, False, plan
        self.lengths = next(plan)  # of the next cells, None after the end
        self.fresh = deque()  # (sums, lengths) of finished units, not yet taken in

    def finish(self, sums):
        """Note a finished unit."""
        self.fresh.append((sums, self.lengths))
        self.lengths, self.busy = next(self._plan, None), False


def _groups(model, states):
    """Return the streams in full groups of ``model.group``, if there is one, and what is left one by one."""
    size = getattr(model, "group", 1)
    full = len(states) // size * size
    return [states[i : i + size] for i in range(0, full, size)] + [states[i : i + 1] for i in range(full, len(states))]


def _plan(total, chunk):
    """Yield the work units of one replication: lists of lengths of cells that add up to `total` steps.

    The first 128 cells are short, the next 64 twice as long, and so on. A unit is one cell, or as many short
    ones as make a chunk.
    """
    if total == math.inf:
        length = max(1, chunk // 16)
    else:
        doublings = max(0, math.ceil(math.log2(total / (_CELLS * chunk))))
        length = math.ceil(total / (_CELLS * 2**doublings))
    filled, left = 0, total
    while left > 0:
        if filled == _CELLS:
            filled, length = _CELLS // 2, 2 * length
        cells = min(32, 1 << max(0, int(math.log2(max(1.0, chunk / length)))))
        lengths = [int(min(length, left - i * length)) for i in range(cells) if left > i * length]
        yield lengths
        filled += cells
        left -= sum(lengths)
