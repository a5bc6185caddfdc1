"""Paper B: the equilibrium of Join-Idle-Queue under any service law (Foss and Stolyar, 2017, arXiv 1605.05968).

With ``n`` servers and Poisson arrivals at rate ``load n`` (mean service time 1), let ``x_w`` be the fraction of
servers with more than ``w`` unfinished work. As ``n`` grows the stationary profile tends to the fixed point
``x*_w = load Phi^c(w)``, ``Phi^c`` the tail of the residual service time: Theorem 2, for ``load < 1/2``. For every
``n`` its mean is below the bound ``x**_w`` of Lemma 4, a busy cycle of M/GI/1.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from lbcore import checks
from lbcore.chance import laws
from lbcore.records import Record

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
    """
    return checked_load(service, load) * service.residual_tail(checks.array(w, "w", least=0.0))


def checked_load(service, load):
    """Return `load` as a float, or say what is wrong with it or with `service`."""
    checks.made_by(service, "service", laws.Law, "lb.laws, such as lb.laws.lognormal(cv2=4)")
    return checks.real(load, "load", above=0.0, below=1.0, why="from 1 on there is no equilibrium")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WorkloadTail(Record):
    """Stationary workload of M/GI/1 at some levels."""

    w: np.ndarray  # the levels
    tail: np.ndarray  # P(W > w), of the shape of `w`, as is the next
    error: np.ndarray  # a proved bound on the absolute error, rounding (about 1e-14) apart


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
    load, levels = checked_load(service, load), checks.array(w, "w", least=0.0)
    tolerance = checks.real(tolerance, "tolerance", above=0.0)
    first = load * np.atleast_1d(service.residual_tail(levels)).ravel()
    tail, error = np.zeros_like(first), np.zeros_like(first)
    u = np.atleast_1d(levels).ravel() / service.mean
    window = np.ceil(np.log(np.maximum(u, 16.0) / 16.0) / math.log(8.0))  # each has a grid of its own
    for number in np.unique(window[np.isfinite(u)]):
        here = window == number
        tail[here], error[here] = _workload_upto(service, load, tolerance, u[here])
    return WorkloadTail(w=levels, tail=tail.reshape(levels.shape), error=error.reshape(levels.shape))


def cycle_bound(service, load, w):
    """Return the bound ``x**_w = P(W > w) / (load (1 - load))`` on the mean stationary profile of every finite system.

    Source: Lemma 4; ``W`` is the stationary workload of M/GI/1, ``x**_0 = 1 / (1 - load)``: mean time above `w` in a
    busy cycle, over a mean cycle of at least one service. Parameters as in :func:`fixed_point`. The error is proved
    to be below some 1e-7 near the origin; far out it is what :func:`workload_tail`, whence the tail comes, states.

    Returns
    -------
    float, or ndarray of the shape of `w`
    """
    cycle = checked_load(service, load) * (1 - load)
    found = workload_tail(service, load, w, 1e-7 * cycle).tail / cycle
    return found if found.ndim else float(found)


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
