"""Paper B: fluid paths of Join-Idle-Queue, the limits of whole trajectories (Foss and Stolyar, 2017).

They are beyond the paper except from an empty system (Lemma 5): see :func:`fluid_path`. Notation as in
`lbcore.theory.jiq_fixed_point`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from lbcore import checks
from lbcore.records import Record
from lbcore.theory.jiq_fixed_point import checked_load


def infinite_server_path(service, load, t, w):
    """Return ``x^_w(t) = load (residual_tail(w) - residual_tail(w + t))``, the fluid path from an empty system.

    Source: Lemma 5; `t` and `w` >= 0 broadcast. While a fraction above `load` of the servers starts idle, the new
    work follows this path whatever the other servers do (Lemma 6).
    """
    load = checked_load(service, load)
    t, w = checks.array(t, "t", least=0.0), checks.array(w, "w", least=0.0)
    return load * (service.residual_tail(w) - service.residual_tail(w + t))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FluidPath(Record):
    """A fluid path of JIQ; ``np.asarray(path)`` is its profile. Made by `fluid_path`."""

    times: np.ndarray  # (k,)
    w: np.ndarray  # (m,)
    profile: np.ndarray  # (k, m), x_w(t), extrapolated from two grids
    error: float  # largest difference between the grids: an estimate, mostly far too large, and no bound

    def __array__(self, dtype=None, copy=None):
        return np.array(self.profile, dtype=dtype)


def fluid_path(service, load, initial, times, w, *, step=1 / 64):
    r"""Return the fluid path from any initial profile. Beyond the paper: a heuristic, judged by simulation.

    Parameters
    ----------
    service, load
        As in :func:`~lbcore.theory.jiq_fixed_point.fixed_point`.
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
    load, step = checked_load(service, load), checks.real(step, "step", above=0.0)
    times, w = checks.vector(times, "times", least=0.0), checks.vector(w, "w", least=0.0, increasing=True)
    start = _profile(initial, w)
    coarse, fine = (_fluid(service, load, start, times, w, h) for h in (step, step / 2))
    profile = np.minimum.accumulate(np.clip(2 * fine - coarse, 0.0, 1.0), axis=1)
    return FluidPath(times=times, w=w, profile=profile, error=float(np.max(np.abs(fine - coarse))))


def _profile(initial, w):
    """Return the initial profile as a function of arrays of work."""
    if not callable(initial):
        values = np.broadcast_to(checks.vector(initial, "initial", least=0.0, most=1.0), w.shape)
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
    to_random = _random_servers(tail)
    x = start(unit * h * np.arange(size))
    profile, levels = np.empty((t.size, u.size)), h * np.arange(size)
    began, known = x, np.append(0.0, np.cumsum(tail)) * h

    def explicit(work, time):
        """What initial work and jobs that all find idle servers would give, known between grid points as well."""
        new = service.residual_tail(unit * work) - service.residual_tail(unit * work + unit * time)
        return start(unit * (work + time)) + load * new

    for k in range(steps.max() + 1):
        left = size - k
        for row in np.flatnonzero(steps == k):
            change = x - began[k:] - load * (known[k : k + left] - known[:left])
            rest, at = t[row] - k * h, u + (t[row] - k * h)
            here = explicit(levels[:left], t[row])
            y = here + np.interp(levels[:left] + rest, levels[:left], change)
            if y[0] > 1.0 + 1e-12:  # the last part of a step finds too few idle servers
                refused = (y[0] - 1.0) / tail[0]
                change, at = to_random(y - refused * tail[:left], refused) - here, u
            profile[row] = explicit(u, t[row]) + np.interp(at, levels[:left], change)
        x = x[1:]
        taken = min(load * h, (1.0 - x[0]) / tail[0])
        x = x + taken * tail[: x.size]
        if taken < load * h:
            x = to_random(x, load * h - taken)
    return profile


def _random_servers(tail):
    """Return a function that sends an amount of jobs to random servers, all of them busy."""
    length = next_fast_len(2 * tail.size, real=True)
    transform = rfft(np.append(1.0, tail[:-1]) - tail, length)  # of the service law on the grid

    def gain(x):
        return tail[: x.size] + irfft(transform * rfft(x, length), length)[: x.size] - x

    return lambda x, jobs: x + jobs * gain(x + jobs / 2 * gain(x))
