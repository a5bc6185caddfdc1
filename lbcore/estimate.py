"""Replications in, estimates with honest errors out: the driver behind every simulator.

What a simulator hands over
---------------------------
A *model*, any object with the attributes and methods of :class:`Model`; then one call::

    return estimate.run(model, asked, steps=..., rel_precision=..., replications=..., seed=...,
                        threads=..., progress=..., live=...)

`asked` is a dict of what the user asked for (``{"policy": ..., "n_servers": ...}``); its entries and the
estimates become attributes of the :class:`Simulation` returned. **`steps` is the total over all
replications** (each runs ``ceil(steps / replications)``), so the cost of a run does not depend on how it is cut.
``model.report(sample)`` turns sums into named estimates with :meth:`Sample.ratio` (a ratio of two linear
combinations of columns, with optional control variates) and :meth:`Sample.probability`. The first estimate
named is the one that `rel_precision` refers to. With ``live=True`` the call returns a :class:`Run`: iterate
over it for ever better results, call ``.stop()`` from anywhere, ``.result()`` to wait for the last one.

How the numbers come about
--------------------------
Each replication starts from an empty system on its own stream and is cut into 64 to 128 equal *cells*; when
128 are full, neighbours are added up and the cells double. Cells depend on what was asked alone, never on
time or threads, so the same seed gives the same bits on any number of threads.
Warm-up: MSER on the cell means averaged over the replications (White 1997, Simulation 69, 323-334; White,
Cobb and Spratt 2000, WSC), the rule known as MSER-5 with cells in place of its batches of five, at most half
of the run; at least the first tenth is dropped too, since MSER can stop early by chance.
Intervals: ratio estimator over replications, linearised, Student t; with fewer than 10 replications each is
cut into long batches and the variance raised for their first-order correlation (as in Skart: Tafazzoli,
Wilson, Lada and Steiger 2011, INFORMS J. Comput. 23). Control variates: Lavenberg and Welch 1981,
Manag. Sci. 27.
"""

import math
import operator
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

import numpy as np
from scipy.special import stdtrit

from . import streams

LEVEL = 0.95
_CELLS = 128  # cells kept for each replication, at most
_GROUPS = 32  # batches the intervals rest on when there are few replications
_YIELD_SECONDS = 0.05


class Model(Protocol):
    """What a simulator gives to the driver.

    Attributes
    ----------
    columns : dict of str to int
        Name and width of each column of sums, in the order they stand in `out`; a scalar has width 1.
    level : tuple of str
        Names (numerator, denominator) of the scalar columns whose ratio shows the warm-up, say
        ``("total", "time")``.
    unit : str
        What a step is, in the plural: "events", "arrivals", "slots".
    chunk_steps : int
        Steps that take a few milliseconds: `advance` is never asked for more at once.
    relaxation_steps : float
        Steps of one replication in which the slowest quantity forgets its start, about 1/eps^2.
    bytes_per_replication : int
        Memory of one state.
    """

    columns: Mapping[str, int]
    level: tuple[str, str]
    unit: str
    chunk_steps: int
    relaxation_steps: float
    bytes_per_replication: int

    def start(self, stream) -> Any:
        """Return the state of one replication, empty at time 0, that draws from `stream` (uint64[4])."""

    def advance(self, state, steps, out) -> None:
        """Run exactly `steps` steps with the GIL released and add the sums to `out` (float64[k])."""

    def report(self, sample) -> dict[str, "Estimate"]:
        """Return the named estimates, the main one first."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """A number, or an array of numbers, with its 95 % confidence interval (pointwise for an array).

    Attributes
    ----------
    value, half_width : float, or ndarray of one shape
    """

    value: Any
    half_width: Any

    @property
    def low(self):
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self):
        """Upper end of the interval."""
        return self.value + self.half_width

    def __repr__(self):
        if np.ndim(self.value):
            width = np.max(self.half_width, initial=0.0)
            return f"{np.size(self.value)} values, half-widths up to {width:.2g} (95 %)"
        if not (math.isfinite(self.half_width) and self.half_width > 0.0):
            return f"{self.value:.6g} ± {self.half_width:.2g} (95 %)"
        digits = max(0, 1 - math.floor(math.log10(self.half_width)))
        return f"{self.value:.{digits}f} ± {self.half_width:.{digits}f} (95 %)"


@dataclass(frozen=True, repr=False)
class Simulation:
    """Result of a simulation: what was asked, the estimates, and how they were reached.

    Entries of `asked` and of `estimates` are attributes too: ``result.policy``, ``result.mean_total``.

    Attributes
    ----------
    asked : dict
        What the user asked for, seed and number of replications included.
    estimates : dict of str to Estimate
    steps : int
        Steps run and kept, all replications together, warm-up included; `unit` says what a step is.
    unit : str
    warm_up : int
        Steps dropped at the start of each replication (MSER, see the module's docstring).
    complete : bool
        False for a result on the way, or one that was stopped.
    seconds : float
        Wall-clock time since the start of the run.
    version : str
    notes : tuple of str
        Warnings, as sentences: read them before the numbers.
    """

    asked: dict
    estimates: dict
    steps: int
    unit: str
    warm_up: int
    complete: bool
    seconds: float
    version: str
    notes: tuple = field(default=())

    def __getattr__(self, name):
        for entries in ("estimates", "asked"):
            if name in self.__dict__.get(entries, ()):
                return self.__dict__[entries][name]
        raise AttributeError(f"this simulation has no {name!r}; it has {', '.join(self._names())}")

    def __dir__(self):
        return [*super().__dir__(), *self._names()]

    def _names(self):
        return [*self.__dict__.get("estimates", ()), *self.__dict__.get("asked", ())]

    def _rows(self):
        yield "asked", ", ".join(f"{name} = {value}" for name, value in self.asked.items())
        yield from self.estimates.items()
        state = "complete" if self.complete else "not complete"
        yield (
            "run",
            f"{self.steps} {self.unit}, warm-up {self.warm_up} per replication, {self.seconds:.2f} s, {state}",
        )
        yield from (("note", note) for note in self.notes)

    def __repr__(self):
        rows = list(self._rows())
        width = max(len(name) for name, _ in rows)
        return "\n".join(["Simulation", *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self):
        from html import escape

        cells = (
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in self._rows()
        )
        return f"<table>{''.join(cells)}</table>"


class Sample:
    """Sums after the warm-up, one row for each group (a replication, or a long batch of one).

    Parameters
    ----------
    cells : ndarray, shape (replications, cells, k)
        Sums after the warm-up.
    columns : dict of str to int
    """

    def __init__(self, cells, columns):
        replications, count, width = cells.shape
        self.batches = 1 if replications >= 10 else min(count, -(-_GROUPS // replications))
        edges = np.arange(self.batches) * count // self.batches
        self._sums = np.add.reduceat(cells, edges, axis=1).reshape(replications * self.batches, width)
        self._at, start = {}, 0
        for name, size in columns.items():
            self._at[name] = start if size == 1 else slice(start, start + size)
            start += size

    def sum(self, name):
        """Return the sums of one column: shape (groups,), or (groups, width) for a vector."""
        return self._sums[:, self._at[name]]

    def ratio(self, numerator, denominator, controls=()):
        """Estimate E[numerator] / E[denominator] (per step).

        Parameters
        ----------
        numerator : str or ndarray, shape (groups,) or (groups, m)
            A column's name, or a linear combination of columns made with :meth:`sum`.
        denominator : str or ndarray, shape (groups,)
        controls : sequence of (numerator, denominator, exact)
            Scalar ratios whose exact value is known and which move with the estimate.

        Returns
        -------
        Estimate
            With value nan and half-width inf where the denominator was never seen.

        Notes
        -----
        The ratio v of the sums is linearised, y_g = v + (N_g - v D_g) / mean(D); with controls x_g, centred at
        their exact values, the estimate is the intercept of the regression of y on x.
        """
        top, bottom = self._column(numerator), self._column(denominator)
        shape = top.shape[1:]
        top = top.reshape(len(top), -1)
        if not bottom.sum() > 0.0:
            return _estimate(np.full(top.shape[1], np.nan), np.full(top.shape[1], np.inf), shape)
        y = _pseudo_values(top, bottom)
        design = [np.ones(len(y))]
        for c_top, c_bottom, exact in controls:
            c_bottom = self._column(c_bottom)
            x = _pseudo_values(self._column(c_top)[:, None], c_bottom)[:, 0] - exact
            if np.ptp(x) > 0.0:
                design.append(x)
        design = np.stack(design, axis=1)
        freedom = len(y) - design.shape[1]
        if freedom < 1:
            return _estimate(y.mean(axis=0), np.full(y.shape[1], np.inf), shape)
        solution = np.linalg.pinv(design)
        coefficients = solution @ y
        residuals = y - design @ coefficients
        variance = (residuals**2).sum(axis=0) / freedom * (solution[0] ** 2).sum()
        if self.batches > 1:
            correlation = _lag_one(residuals.reshape(-1, self.batches, y.shape[1]))
            variance = variance * (1.0 + correlation) / (1.0 - correlation)
        half_width = stdtrit(freedom, 0.5 + LEVEL / 2) * np.sqrt(variance)
        return _estimate(coefficients[0], half_width, shape)

    def probability(self, numerator, denominator):
        """Estimate a probability as a ratio; where no case was seen the half-width is an upper limit.

        That limit, -log(0.05) / trials (the "rule of three"), takes the trials as independent.
        """
        plain = self.ratio(numerator, denominator)
        trials = self._column(denominator).sum()
        if not trials > 0.0:
            return plain
        unseen = np.equal(plain.value, 0.0)
        half_width = np.where(unseen, -math.log(1.0 - LEVEL) / trials, plain.half_width)
        return _estimate(np.ravel(plain.value), np.ravel(half_width), np.shape(plain.value))

    def _column(self, column):
        return self.sum(column) if isinstance(column, str) else np.asarray(column)


def _estimate(value, half_width, shape):
    """Return an Estimate of the given shape, of plain floats if it is a scalar."""
    if shape == ():
        return Estimate(float(value[0]), float(half_width[0]))
    return Estimate(value.reshape(shape), half_width.reshape(shape))


def _pseudo_values(top, bottom):
    """Return the linearised values of the ratio of sums, shape (groups, m); their mean is the ratio."""
    ratio = top.sum(axis=0) / bottom.sum()
    return ratio + (top - ratio * bottom[:, None]) / bottom.mean()


def _lag_one(deviations):
    """Return the correlation of neighbours along axis 1, pooled over axis 0, cut to [0, 0.9]."""
    square = (deviations**2).sum(axis=(0, 1))
    product = (deviations[:, 1:] * deviations[:, :-1]).sum(axis=(0, 1))
    safe = np.where(square > 0.0, square, 1.0)
    return np.clip(product / safe, 0.0, 0.9)


def mser(series) -> int:
    """Return how many leading values of a series to drop: the MSER rule of White (1997).

    The number d, at most half of the series, that minimises ``sum_{i >= d} (x_i - mean)^2 / (n - d)^2``.

    Parameters
    ----------
    series : array_like, shape (n,)
    """
    x = np.asarray(series, dtype=float)
    x = x - x.mean()
    left = np.arange(len(x), 0, -1)
    total, square = np.cumsum(x[::-1])[::-1], np.cumsum(x[::-1] ** 2)[::-1]
    score = (square - total**2 / left) / left.astype(float) ** 2
    return int(np.argmin(score[: len(x) // 2 + 1]))


def require_memory(needed, what):
    """Raise MemoryError if `needed` bytes are more than the machine has.

    Parameters
    ----------
    needed : float
        Bytes.
    what : str
        What they are for, as in "32 replications of 1000000 servers".
    """
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.9 * have:
        raise MemoryError(
            f"{what} would take {needed / 2**30:.3g} GiB of memory and this machine has {have / 2**30:.3g} GiB: "
            "ask for fewer servers or replications"
        )


def _count(value, name, least):
    """Return `value` as an int >= `least`, or raise."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e6 is a natural way to write a number of steps
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer >= {least}, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")
    return number


def run(
    model,
    asked,
    *,
    steps=None,
    rel_precision=None,
    replications=None,
    seed=None,
    threads=None,
    progress=True,
    live=False,
):
    """Run the replications of a model and return a Simulation, or a Run to iterate over.

    Parameters
    ----------
    model : Model
    asked : dict
    steps : int >= 1, optional
        Steps of all replications together; with `rel_precision`, the most that may be spent.
        Without either, 200 relaxation times for each replication, but 10^6 to 10^9 steps.
    rel_precision : float in (0, 1), optional
        Go on until the half-width of the first estimate is at most this fraction of its value.
    replications : int >= 1, optional
        32 by default, fewer (at least 4) where their states would take more than 64 MiB.
    seed : int >= 0 or None
    threads : int >= 1, optional
        All cores by default. The result does not depend on it.
    progress : bool
        Show a progress bar once the run has taken a second.
    live : bool
        Return the Run itself.

    Raises
    ------
    TypeError, ValueError
        A number outside its range.
    MemoryError
        The states would not fit into the machine.
    """
    unit = model.unit
    steps = None if steps is None else _count(steps, unit, 1)
    if rel_precision is not None and not 0.0 < rel_precision < 1.0:
        raise ValueError(f"rel_precision must be between 0 and 1, not {rel_precision!r}")
    if replications is None:
        replications = int(min(32, max(4, 2**26 // max(1, model.bytes_per_replication))))
    replications = _count(replications, "replications", 1)
    if steps is not None and steps < replications:
        raise ValueError(f"{unit} ({steps}) must be at least the number of replications ({replications})")
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(_count(threads, "threads", 1), replications)
    if steps is None and rel_precision is None:
        steps = int(min(1e9, max(1e6, 200.0 * model.relaxation_steps * replications)))
    width = sum(model.columns.values())
    require_memory(
        replications * (model.bytes_per_replication + 8.0 * _CELLS * width),
        f"{replications} replications of this model",
    )
    seed = streams.resolve_seed(seed)
    asked = {**asked, "replications": replications, "seed": seed}
    begun = Run(model, asked, steps, rel_precision, replications, seed, threads)
    return begun if live else begun.result(progress)


class Run:
    """A simulation under way. Iterate over it for ever better results; the last one is complete.

    A result is yielded about every 50 ms; what the last one says does not depend on how many came before.
    Made by the simulators with ``live=True``.
    """

    def __init__(self, model, asked, steps, rel_precision, replications, seed, threads):
        self._model, self._asked, self._threads = model, asked, threads
        self._rel_precision = rel_precision
        self._length = math.inf if steps is None else -(-steps // replications)
        self._streams = streams.states(seed, replications)
        self._cells = np.zeros((replications, _CELLS, sum(model.columns.values())))
        self._filled = self._done = 0
        self._cell = self._first_cell()
        self._schedule = []
        self._fresh = [[] for _ in range(replications)]
        self._finished = [0] * replications
        self._busy = [False] * replications
        self._states = [None] * replications
        self._change = threading.Condition()
        self._stopping, self._merged = False, 0
        self._begun = 0.0

    def stop(self):
        """Stop the run: the iterator ends, within a chunk, with what was gathered."""
        with self._change:
            self._stopping = True
            self._change.notify_all()

    def result(self, progress=True):
        """Run to the end and return the last Simulation; an interrupt returns what was gathered."""
        from tqdm.auto import tqdm

        total = None if self._length == math.inf else self._length * len(self._streams)
        last = None
        try:
            with tqdm(
                total=total, unit=f" {self._model.unit}", unit_scale=True, delay=1, disable=not progress
            ) as bar:
                for last in self:
                    bar.update(last.steps - bar.n)
        except KeyboardInterrupt:
            self.stop()
            if not self._filled:
                raise
            last = self._snapshot(complete=False)
        if last is None:
            raise RuntimeError("the run was stopped before its first chunk was over, so there is no result")
        return last

    def __iter__(self):
        """Yield Simulation records, ever better; the last one is complete unless the run was stopped."""
        if self._begun:
            raise RuntimeError("this run has been iterated over before; start a new one")
        self._begun = shown = time.perf_counter()
        pool = ThreadPoolExecutor(self._threads)
        workers = [pool.submit(self._work) for _ in range(self._threads)]
        try:
            finished = False
            while not finished and self._gather(workers):
                finished = self._done >= self._length
                if self._filled in (64, 96) and self._rel_precision and not finished:
                    finished = self._precise()
                if not finished and time.perf_counter() - shown > _YIELD_SECONDS:
                    yield self._snapshot(complete=False)
                    shown = time.perf_counter()
            if self._filled:
                yield self._snapshot(complete=finished)
        finally:
            self.stop()
            pool.shutdown(wait=False)

    def _first_cell(self):
        """Return the length of the first cells: small, and such that the last ones fit the run."""
        chunk = max(1, self._model.chunk_steps)
        if self._length == math.inf:
            return max(1, chunk // 16)
        doublings = max(0, math.ceil(math.log2(self._length / (_CELLS * chunk))))
        return max(1, math.ceil(self._length / (_CELLS * 2**doublings)))

    def _unit(self, index):
        """Return the lengths of the cells of work unit `index`: several short cells, or one long one."""
        while len(self._schedule) <= index:
            if not self._schedule:
                self._planned = [0, 0, self._cell]  # cells of the present length, steps, length
            filled, steps, length = self._planned
            if filled == _CELLS:
                filled, length = _CELLS // 2, 2 * length
            cells = 1 << min(5, max(0, int(math.log2(max(1.0, self._model.chunk_steps / length)))))
            lengths = [int(min(length, self._length - steps - i * length)) for i in range(cells)]
            lengths = [n for n in lengths if n > 0]
            self._schedule.append(lengths)
            self._planned = [filled + cells, steps + sum(lengths), length]
        return self._schedule[index]

    def _work(self):
        """Thread body: advance the replication that is furthest behind, again and again."""
        while (chosen := self._choose()) is not None:
            replication, lengths = chosen
            sums = self._advance(replication, lengths)
            if sums is None:
                break
            with self._change:
                self._busy[replication] = False
                self._fresh[replication].append(sums)
                self._finished[replication] += 1
                self._change.notify_all()

    def _choose(self):
        """Wait for work and return (replication, lengths of its next cells), or None when all is over."""
        with self._change:
            while not self._stopping:
                chosen = self._next()
                if chosen is not None:
                    self._busy[chosen[0]] = True
                    return chosen
                self._change.wait()
        return None

    def _next(self):
        """Return (replication, lengths of its next cells), or None if all are busy or far enough ahead."""
        idle = [r for r, busy in enumerate(self._busy) if not busy]
        if not idle:
            return None
        replication = min(idle, key=self._finished.__getitem__)
        unit = self._finished[replication]
        if unit > self._merged + 1:
            return None
        lengths = self._unit(unit)
        return (replication, lengths) if lengths else None

    def _advance(self, replication, lengths):
        """Return the sums of the cells, shape (cells, k), or None if the run was stopped meanwhile."""
        if self._states[replication] is None:
            self._states[replication] = self._model.start(self._streams[replication])
        state, chunk = self._states[replication], self._model.chunk_steps
        sums = np.zeros((len(lengths), self._cells.shape[2]))
        for out, length in zip(sums, lengths, strict=True):
            for begin in range(0, length, chunk):
                if self._stopping:
                    return None
                self._model.advance(state, min(chunk, length - begin), out)
        return sums

    def _gather(self, workers):
        """Wait until all replications have finished their next unit and take it in; False if stopped."""
        with self._change:
            while not all(self._fresh):
                for worker in workers:
                    if worker.done():
                        worker.result()  # raises what went wrong in the thread
                if self._stopping:
                    return False
                self._change.wait(0.1)
            sums = np.stack([fresh.pop(0) for fresh in self._fresh])
            lengths = self._unit(self._merged)
            self._merged += 1
            self._change.notify_all()
        if self._filled == _CELLS:
            half = _CELLS // 2
            self._cells[:, :half] = self._cells[:, 0::2] + self._cells[:, 1::2]
            self._filled, self._cell = half, 2 * self._cell
        self._cells[:, self._filled : self._filled + len(lengths)] = sums
        self._filled += len(lengths)
        self._done += sum(lengths)
        return True

    def _precise(self):
        """Return whether the first estimate is as precise as asked, and the run long enough to believe it."""
        latest = self._snapshot(complete=True)
        first = next(iter(latest.estimates.values()))
        return first.half_width <= self._rel_precision * abs(first.value) and not latest.notes

    def _snapshot(self, complete):
        """Return the Simulation that the cells gathered so far give."""
        cells, notes = self._cells[:, : self._filled], []
        level = Sample(cells.reshape(1, -1, cells.shape[2]), self._model.columns)._at
        top, bottom = (cells[:, :, level[name]] for name in self._model.level)
        found = mser(top.sum(axis=0) / bottom.sum(axis=0))
        dropped = max(found, math.ceil(self._filled / 10)) if self._filled > 1 else 0
        sample = Sample(cells[:, dropped:], self._model.columns)
        run_times = self._done / self._model.relaxation_steps
        if run_times < 20.0:
            notes.append(
                f"Too short to be believed: each replication ran {self._done} {self._model.unit}, "
                f"{run_times:.2g} relaxation times of about {self._model.relaxation_steps:.2g}; "
                "20 are the least for the start to be forgotten."
            )
        return Simulation(
            asked=self._asked,
            estimates=self._model.report(sample),
            steps=self._done * len(cells),
            unit=self._model.unit,
            warm_up=int(min(dropped * self._cell, self._done)),
            complete=complete,
            seconds=time.perf_counter() - self._begun,
            version=_version(),
            notes=tuple(notes),
        )


def _version():
    """Return the version of the installed package."""
    try:
        return metadata.version("lbcore")
    except metadata.PackageNotFoundError:
        return "not installed"
