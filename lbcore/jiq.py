r"""Paper B: Join-Idle-Queue with any service law (Foss and Stolyar, 2017, arXiv 1605.05968).

With ``n`` servers and Poisson arrivals at rate ``load n`` (mean service time 1), let ``x_w`` be the fraction of
servers with more than ``w`` unfinished work. As ``n`` grows the stationary profile tends to the fixed point
``x*_w = load Phi^c(w)``, ``Phi^c`` the tail of the residual service time: Theorem 2, for ``load < 1/2``. For every
``n`` its mean is below the bound ``x**_w`` of Lemma 4, a busy cycle of M/GI/1. Fluid paths, the limits of whole
trajectories, are beyond the paper except from an empty system (Lemma 5): see :func:`fluid_path`.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import stdtrit

from lbcore import calendar_queue, checks, laws, policies, streams, workload
from lbcore.results import Estimate

_MOST_CELLS = 1 << 18  # of the grid for the workload


def fixed_point(service, load, w):
    """Return the equilibrium profile ``x*_w = load * service.residual_tail(w)``.

    Source: Foss and Stolyar (2017), Section 2; ``x*_0 = load``.

    Parameters
    ----------
    service : Law
    load : float in (0, 1)
        Arrival rate per server times mean service time.
    w : float >= 0 or array_like
        Unfinished work, in the service law's unit of time.

    Returns
    -------
    float, or ndarray of the shape of `w`

    Raises
    ------
    TypeError, ValueError
        `service` is no law, `load` not between 0 and 1, or an element of `w` negative or NaN.
    """
    return _checked(service, load) * service.residual_tail(w)


def infinite_server_path(service, load, t, w):
    """Return ``x^_w(t) = load (residual_tail(w) - residual_tail(w + t))``, the fluid path from an empty system.

    Source: Lemma 5; `t` and `w` >= 0 broadcast. While a fraction above `load` of the servers starts idle, the new
    work follows this path whatever the other servers do (Lemma 6).
    """
    load, t, w = _checked(service, load), np.asarray(t, float), np.asarray(w, float)
    return load * (service.residual_tail(w) - service.residual_tail(w + t))


@dataclass(frozen=True)
class WorkloadTail:
    """Stationary workload of M/GI/1 at some levels.

    Attributes
    ----------
    w, tail, error : ndarray of one shape
        Levels, ``P(W > w)``, and a proved bound on its absolute error (rounding apart, about 1e-14).
    """

    w: np.ndarray = field(repr=False)
    tail: np.ndarray = field(repr=False)
    error: np.ndarray = field(repr=False)

    def __repr__(self):
        return f"WorkloadTail at {self.w.size} levels, P(W > w) from {np.max(self.tail):.6g} down to " + (
            f"{np.min(self.tail):.3g}, errors <= {np.max(self.error):.2g}"
        )


def workload_tail(service, load, w, tolerance=1e-7):
    r"""Return the tail of the stationary workload of M/GI/1, for any service law with a finite mean.

    Parameters
    ----------
    service, load, w
        As in :func:`fixed_point`.
    tolerance : float > 0
        Proved error to aim at. Levels beyond some hundreds may not reach it: the record says what they reach.

    Returns
    -------
    WorkloadTail

    Notes
    -----
    By Pollaczek and Khinchine ``Z(w) = P(W > w)`` solves, with mean service time 1 and ``r = F^c``,

        Z(w) = load R(w) + load \int_0^w r(u) Z(w - u) du,    R(w) = \int_w^\infty r.

    On a grid of step ``h`` the integral over a cell is replaced by the exact mass ``R(jh) - R(jh + h)`` times the
    mean of ``Z`` at the cell's ends, and the triangular system is solved as a quotient of power series. Every tail
    ``r`` decreases from 1 to 0, so it has variation 1, and the density ``g`` of W is at most ``load`` with variation at
    most ``load (1 + load)``. A cell errs by at most ``h^2/8`` times the variations in it of ``g`` and of ``load r``;
    summed, and divided by ``1 - load``, the error is below ``load^2 (2 + load) h^2 / (8 (1 - load))`` for any law,
    lattices and infinite variances included. (Not in the paper.) The values come from two grids by Richardson's
    rule, and between grid points from a cubic for ``Z - load (1 - load) R``, whose second derivative is at most
    ``load^2``; on smooth laws the error is far smaller than the one stated.
    """
    load, levels = _checked(service, load), np.asarray(w, float)
    if not 0.0 < tolerance < math.inf:
        raise ValueError(f"tolerance must be a positive finite number, not {tolerance!r}")
    first = load * np.atleast_1d(service.residual_tail(levels)).ravel()  # checks the levels
    tail, error = np.zeros_like(first), np.zeros_like(first)
    u = np.atleast_1d(levels).ravel() / service.mean
    window = np.ceil(np.log(np.maximum(u, 16.0) / 16.0) / math.log(8.0))  # each has a grid of its own
    for number in np.unique(window[np.isfinite(u)]):
        here = window == number
        tail[here], error[here] = _workload_upto(service, load, tolerance, u[here])
    return WorkloadTail(levels, tail.reshape(levels.shape), error.reshape(levels.shape))


def cycle_bound(service, load, w):
    """Return the bound ``x**_w = P(W > w) / (load (1 - load))`` on the mean stationary profile of every finite system.

    Source: Lemma 4; ``W`` is the stationary workload of M/GI/1, ``x**_0 = 1 / (1 - load)``: mean time above `w` in a
    busy cycle, over a mean cycle of at least one service. Parameters as in :func:`fixed_point`. The error is proved
    to be below some 1e-7 near the origin; far out it is what :func:`workload_tail`, whence the tail comes, states.

    Returns
    -------
    float, or ndarray of the shape of `w`
    """
    cycle = _checked(service, load) * (1 - load)
    found = workload_tail(service, load, w, 1e-7 * cycle).tail / cycle
    return found if found.ndim else float(found)


def _checked(service, load):
    """Return `load` as a float, or say what is wrong with it or with `service`."""
    if not isinstance(service, laws.Law):
        raise TypeError(f"service must be a law such as lb.laws.lognormal(cv2=4), not {service!r}")
    try:
        number = float(load)
    except (TypeError, ValueError):
        raise TypeError(f"load must be a number between 0 and 1, not {load!r}") from None
    if not 0.0 < number < 1.0:
        raise ValueError(f"load must be a number between 0 and 1, not {number:g}: from 1 on there is no equilibrium")
    return number


def _workload_upto(service, load, tolerance, u):
    """Return ``P(W > u)`` for levels `u` in mean service times, and the bound on its error."""
    high = max(float(u.max()), 1.0)
    solving, between = load**2 * (2 + load) / (8 * (1 - load)), load**2 / 4
    h = 2.0 ** math.floor(math.log2(math.sqrt(tolerance / (solving / 4 + between))))
    h = max(h, 2.0 ** math.ceil(math.log2(high / _MOST_CELLS)))
    coarse, fine = _workload_grid(service, load, high, h), _workload_grid(service, load, high, h / 2)[::2]
    coarse = coarse[: fine.size]
    value = (4 * fine - coarse) / 3
    error = np.max(np.abs(value - fine)) + (solving / 4 + between) * h * h
    smooth = value - load * (1 - load) * service.residual_tail(service.mean * h * np.arange(value.size))
    k = np.clip(np.floor(u / h).astype(int) - 1, 0, value.size - 4)
    s = u / h - k
    weights = (-(s - 1) * (s - 2) * (s - 3) / 6, s * (s - 2) * (s - 3) / 2,
               -s * (s - 1) * (s - 3) / 2, s * (s - 1) * (s - 2) / 6)  # fmt: skip
    found = sum(weight * smooth[k + i] for i, weight in enumerate(weights))
    found += load * (1 - load) * service.residual_tail(service.mean * u)
    return np.clip(found, 0.0, load), min(error, load)


@lru_cache(maxsize=16)
def _workload_grid(service, load, high, h):
    """Return the discrete solution ``Z(0), Z(h), ...`` beyond `high`."""
    count = math.ceil(high / h) + 4
    residual = service.residual_tail(service.mean * h * np.arange(count + 1))
    mass = residual[:-1] - residual[1:]
    mean_of_ends = np.append(mass[0], mass[1:] + mass[:-1]) / 2
    right = load * (residual[:-1] - load * mass / 2)
    return scipy.signal.fftconvolve(right, _one_over_one_minus(load * mean_of_ends))[:count]


def _one_over_one_minus(c):
    """Return the power series ``1 / (1 - c(x))`` to as many terms as `c` has, by Newton's iteration."""
    series = np.array([1.0 / (1.0 - c[0])])
    while series.size < c.size:
        size = min(2 * series.size, c.size)
        residual = scipy.signal.fftconvolve(c[:size], series)[:size]
        residual[: series.size] -= series
        residual[0] += 1.0  # 1 - (1 - c) series
        series = np.pad(series, (0, size - series.size)) + scipy.signal.fftconvolve(series, residual)[:size]
    return series


# ---- fluid paths -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FluidPath:
    """A fluid path of JIQ; ``np.asarray(path)`` is its profile.

    Attributes
    ----------
    times : ndarray, shape (k,)
    w : ndarray, shape (m,)
    profile : ndarray, shape (k, m)
        ``x_w(t)``, extrapolated from two grids.
    error : float
        Largest difference between the grids: an estimate, mostly far too large, and no bound.
    """

    times: np.ndarray = field(repr=False)
    w: np.ndarray = field(repr=False)
    profile: np.ndarray = field(repr=False)
    error: float

    def __array__(self, dtype=None, copy=None):
        return np.array(self.profile, dtype=dtype)


def fluid_path(service, load, initial, times, w, *, step=1 / 64):
    r"""Return the fluid path from any initial profile. Beyond the paper: a heuristic, judged by simulation.

    Parameters
    ----------
    service, load
        As in :func:`fixed_point`.
    initial : callable, or array_like of the shape of `w`, or float
        Profile ``x_w`` at time 0: nonincreasing, between 0 and 1, right continuous; a callable takes arrays. Values
        at `w` are joined by straight lines and stay constant beyond the last; ``0`` is the empty system.
    times : array_like of float >= 0, shape (k,)
        In the service law's unit of time, as `w` is.
    w : array_like of float >= 0, shape (m,)
        Increasing.
    step : float > 0
        Of the coarser of the two grids, in mean service times.

    Returns
    -------
    FluidPath

    Raises
    ------
    TypeError, ValueError
        An argument is not of this form; the message says what is wrong.

    Notes
    -----
    In a time ``dt`` all work drains by ``dt``. The servers that were idle, and those that empty meanwhile, take the
    new jobs, ``load dt`` of them, as long as there are such servers; what is left over lands on busy servers, each
    as likely as the other, and moves the profile by ``\int_0^w F^c(w-u)(-dx_u)``. Put this way the rule holds for
    measures: an atom of equal work makes its servers empty together, which is more than ``load dt``, and leaves all
    but ``load dt`` of them idle. Where servers empty at a rate ``delta < load`` it is the rule
    ``delta F^c(w) + (load - delta) \int_0^w F^c(w-u)(-dx_u)``.

    On a grid of one step for time and work, with the service law split between neighbouring points so that its mean
    stays, draining is a shift and, while servers are idle, every step is exact; only jobs for busy servers bring an
    error, O(step), which two grids extrapolate away. Mass is conserved exactly, work as well. Atoms that are no
    multiple of `step` move by up to that much.
    """
    load, times, w = _checked(service, load), laws.vector(times, "times"), laws.vector(w, "w")
    step = laws.number(step, "step", 0.0, "a positive number of mean service times")
    if np.any(np.diff(w) <= 0.0):
        raise ValueError("w must be increasing amounts of unfinished work")
    start = _profile(initial, w)
    coarse, fine = (_fluid(service, load, start, times, w, h) for h in (step, step / 2))
    profile = np.minimum.accumulate(np.clip(2 * fine - coarse, 0.0, 1.0), axis=1)
    return FluidPath(times, w, profile, float(np.max(np.abs(fine - coarse))))


def _profile(initial, w):
    """Return the initial profile as a function of arrays of work."""
    if not callable(initial):
        values = np.broadcast_to(
            laws.vector(np.atleast_1d(initial), "initial", "a profile x_w between 0 and 1"), w.shape
        )
        return _profile(lambda u: np.interp(u, w, values), w)

    def checked(u):
        x = np.broadcast_to(np.asarray(initial(u), float), u.shape)
        if not (np.all((x >= 0.0) & (x <= 1.0)) and np.all(np.diff(x) <= 0.0)):
            raise ValueError("initial must be a profile x_w: between 0 and 1, and never increasing in w")
        return x

    return checked


def _fluid(service, load, start, times, w, h):
    """Return the profile, shape (k, m), on a grid of step `h` mean service times."""
    unit = service.mean
    t, u = times / unit, w / unit
    steps = np.floor(t / h + 1e-9).astype(int)
    size = int((u[-1] + t.max()) / h) + 3
    residual = service.residual_tail(unit * h * np.arange(size + 1))
    tail = (residual[:-1] - residual[1:]) / h  # of a service time, averaged over a cell
    random = _random_servers(tail)
    x = start(unit * h * np.arange(size))
    profile, levels = np.empty((t.size, u.size)), h * np.arange(size)
    began, known = x, np.append(0.0, np.cumsum(tail)) * h

    def alone(work, time):
        """What initial work and jobs that all find idle servers would give, known between grid points as well."""
        return start(unit * (work + time)) + infinite_server_path(service, load, unit * time, unit * work)

    for k in range(steps.max() + 1):
        left = size - k
        for row in np.flatnonzero(steps == k):
            change = x - began[k:] - load * (known[k : k + left] - known[:left])
            rest, at = t[row] - k * h, u + (t[row] - k * h)
            here = alone(levels[:left], t[row])
            y = here + np.interp(levels[:left] + rest, levels[:left], change)
            if y[0] > 1.0 + 1e-12:  # the last part of a step finds too few idle servers
                refused = (y[0] - 1.0) / tail[0]
                change, at = random(y - refused * tail[:left], refused) - here, u
            profile[row] = alone(u, t[row]) + np.interp(at, levels[:left], change)
        x = x[1:]
        taken = min(load * h, (1.0 - x[0]) / tail[0])
        x = x + taken * tail[: x.size]
        if taken < load * h:
            x = random(x, load * h - taken)
    return profile


def _random_servers(tail):
    """Return a function that sends an amount of jobs to random servers, all of them busy."""
    length = next_fast_len(2 * tail.size, real=True)
    transform = rfft(np.append(1.0, tail[:-1]) - tail, length)  # of the service law on the grid

    def gain(x):
        return tail[: x.size] + irfft(transform * rfft(x, length), length)[: x.size] - x

    return lambda x, jobs: x + jobs * gain(x + jobs / 2 * gain(x))


# ---- simulation --------------------------------------------------------------------------------------------

# where waits are counted, in mean service times; read linearly between, the bins are too narrow to matter
_EDGES = np.append(0.0, np.geomspace(1e-3, 1e6, 600))


def simulate_path(work, service, load, times, w, *, replications=4, seed=None):
    """Simulate JIQ from given unfinished work, to judge a fluid path.

    Parameters
    ----------
    work : array_like of float >= 0, shape (n,)
        Unfinished work of each server at time 0.
    service, load, times, w
        As in :func:`fluid_path`; `times` increasing.
    replications : int >= 2
    seed : int >= 0 or None

    Returns
    -------
    Estimate
        Mean of ``x^n_w(t)``, shape (k, m), with its 95 % half-width (Student).
    """
    load, work = _checked(service, load), laws.vector(work, "work") / service.mean
    times, w = laws.vector(times, "times") / service.mean, laws.vector(w, "w") / service.mean
    if np.any(np.diff(times) <= 0.0):
        raise ValueError("times must be increasing")
    systems = _systems(work.size, service, load, replications, seed, work)
    return _over_replications(np.array([[system.profile(t, w) for t in times] for system in systems]))


def simulate_near_fixed_point(n_servers, service, load, w, *, duration, replications=8, seed=None):
    r"""Simulate JIQ from the equilibrium of infinitely many servers, and tell how far it gets from ``x*``.

    An empty system fills slowly: after a time ``t`` it is still ``load * residual_tail(w + t)`` short of ``x*``
    (Lemma 5). Here a Poisson number of servers starts busy, with residual service times as work: as long as no job
    waits, this is the equilibrium.

    Parameters
    ----------
    n_servers : int >= 1
    service, load, w
        As in :func:`fluid_path`.
    duration : float > 0
        Mean service times to run; the first half is dropped.
    replications : int >= 2
    seed : int >= 0 or None

    Returns
    -------
    dict
        ``wait_probability``, ``mean_wait`` and ``excess``, Estimates with 95 % half-widths (Student); the last is
        ``E x^n_w - x*_w``, shape (m,).

    Notes
    -----
    A job of length S that joins a server with work V adds ``min(S, (V + S - w)^+)`` to the time that this server has
    more than w to do. Jobs come at rate ``load`` per server and S is independent of V, so in equilibrium

        E x^n_w = load E min(S, (V + S - w)^+) = load P(V + R > w),

    R having the residual law: ``x*_w``, plus ``load E[Phi^c((w - V)^+) - Phi^c(w); V > 0]``. Only jobs that wait
    bring an excess, between 0 and 1 each whatever the law. So ``0 <= E x^n_w - x*_w <= load P(wait)``, for every n,
    law and policy that does not look at S. (Not in the paper.)

    The half-width of ``wait_probability`` is at least ``3.7 / ((1 - load) arrivals)``, its upper limit where no wait
    was seen: an all-busy spell of many servers is that of a random walk with rates ``load`` and 1, so waits come in
    clusters of about ``1 / (1 - load)``, and the limit holds at 97.5 % if clusters are independent; in runs of few
    service times they are not. That of ``excess`` is at least ``load`` times, and that of ``mean_wait`` at least as
    much, as if a wait not seen took a mean service time.
    """
    load, n = _checked(service, load), checks.whole(n_servers, "n_servers")
    w = laws.vector(w, "w")
    if not 0.0 < duration < math.inf:
        raise ValueError(f"duration must be a positive finite number, not {duration!r}")
    half, sums, counts = max(1, int(duration * load * n / 2)), [], []
    for system in _systems(n, service, load, replications, seed):
        system.serve(half)
        system.sums[:] = 0.0
        system.serve(half)
        sums.append([system.sums[calendar_queue.COLUMNS.index(name)] for name in ("waited", "wait")])
        counts.append(system.sums[-_EDGES.size :] / half)
    waited, wait = np.array(sums).T / half
    least = 3.7 / ((1.0 - load) * half * len(waited))
    return {
        "wait_probability": _over_replications(waited, least),
        "mean_wait": _over_replications(service.mean * wait, service.mean * least),
        "excess": _over_replications(load * np.array(counts) @ _excess(service, w.tobytes()), load * least),
    }


@lru_cache(maxsize=32)
def _excess(service, w):
    """Return ``Phi^c((w - V)^+) - Phi^c(w)``, one row for each V of `_EDGES`."""
    w = np.frombuffer(w)
    return service.residual_tail(np.maximum(w - service.mean * _EDGES[:, None], 0.0)) - service.residual_tail(w)


def pair_excess(n_servers, service, load, w, *, replications=16, seed=None):
    """Estimate how far two tagged servers are from independent (Corollary 3): joint tail minus product.

    Parameters
    ----------
    n_servers : int >= 2
    service, load, w
        As in :func:`fluid_path`; `w` of shape (m,).
    replications : int >= 2
        Each starts as in :func:`simulate_near_fixed_point` and is looked at once in each of 60 mean service times,
        after as many, or after those a pooled queue needs to settle.
    seed : int >= 0 or None

    Returns
    -------
    Estimate
        ``P(W1 > w_i, W2 > w_j) - P(W1 > w_i) P(W2 > w_j)``, shape (m, m), with its 95 % half-width (Student). As
        servers are exchangeable all ordered pairs count: ``(n E[x_a x_b] - E x_max(a,b)) / (n - 1)`` is the joint tail.
    """
    load, n = _checked(service, load), checks.whole(n_servers, "n_servers", least=2)
    w, settled = laws.vector(w, "w") / service.mean, max(60.0, 60.0 / (n * (1.0 - load) ** 2))
    joints, tails = [], []
    for system in _systems(n, service, load, replications, seed):
        x = np.array([system.profile(settled + t, w) for t in range(60)])
        mean, which = x.mean(axis=0), np.maximum.outer(np.arange(w.size), np.arange(w.size))
        joints.append((n * x.T @ x / len(x) - mean[which]) / (n - 1))
        tails.append(mean)
    joints, tails = np.array(joints), np.array(tails)
    mean = tails.mean(axis=0)
    away = joints - tails[:, :, None] * mean - mean[:, None] * tails[:, None, :]  # linear in each replication
    return Estimate(joints.mean(axis=0) - np.outer(mean, mean), _over_replications(away).half_width)


def _over_replications(values, least=0.0):
    """Return the mean over the first axis as an Estimate, Student's half-width being `least` at least."""
    spread = stdtrit(len(values) - 1, 0.975) / math.sqrt(len(values)) * values.std(axis=0, ddof=1)
    value, half_width = values.mean(axis=0), np.maximum(spread, least)
    return Estimate(value, half_width) if np.ndim(value) else Estimate(float(value), float(half_width))


def _systems(n, service, load, replications, seed, start=None):
    """Yield replications that start from work in mean service times, by default that of infinitely many servers."""
    replications = checks.whole(replications, "replications", least=2)
    packed, seeds = service.stretched(1 / service.mean).packed, streams.states(streams.resolve_seed(seed), replications)
    for stream in seeds:
        work = workload.equilibrium_work(n, load, service, stream) if start is None else start
        yield _System(work, packed, load * n, stream)


class _System:
    """One replication of JIQ, started from given work."""

    def __init__(self, work, service, rate, stream):
        self._state = calendar_queue.new_state(work.size, stream, work)
        self._clock, self._empty_at = self._state[1], self._state[3][0]
        slots, none = calendar_queue.slots_per_unit(work.size), np.empty(0)
        self._settings = calendar_queue.IDLE_FIRST, rate, slots, none, none, _EDGES
        self._laws = True, laws.exponential(1 / rate).packed, service
        self._rate, self.sums = rate, np.zeros(len(calendar_queue.COLUMNS) + _EDGES.size)

    def serve(self, arrivals):
        """Serve some arrivals."""
        calendar_queue.idle_or_busy_kernel(arrivals, *self._laws, self._settings, self._state, self.sums)

    def profile(self, time, w):
        """Serve all arrivals up to a time; return the fraction of servers with more work than each of `w` then."""
        before = self._empty_at.copy()
        while self._clock[0] < time:
            expected = (time - self._clock[0]) * self._rate
            self.serve(max(0, int(expected - 6 * math.sqrt(expected)) - 1))
            before = self._empty_at.copy()
            self.serve(1)
        return 1.0 - np.searchsorted(np.sort(before - time), w, side="right") / before.size


policies.share_name(__name__)
