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

from lbcore import laws, policies

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


policies.share_name(__name__)
