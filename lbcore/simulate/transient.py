"""JIQ looked at in time: whole paths from given work, to judge fluid paths, and pairs of servers (Corollary 3)."""

import math

import numpy as np
from scipy.special import stdtrit

from lbcore import checks
from lbcore.chance import laws, streams
from lbcore.simulate import idle_or_busy, workload
from lbcore.simulate.results import Estimate


def simulate_path(work, service, load, times, w, *, replications=4, seed=None):
    """Simulate JIQ from given unfinished work, to judge a fluid path.

    Parameters
    ----------
    work : array_like of float >= 0, shape (n,)
        Unfinished work of each server at time 0.
    service : Law
    load : float in (0, 1)
        Arrival rate per server times mean service time.
    times, w : array_like of float >= 0, shapes (k,) and (m,)
        Increasing times, amounts of unfinished work; in the service law's unit of time, as `work` is.
    replications : int >= 2
    seed : int >= 0 or None

    Returns
    -------
    Estimate
        Mean of ``x^n_w(t)``, shape (k, m), with its 95 % half-width (Student).
    """
    load, mean = checks.real(load, "load", above=0, below=1), _checked_service(service).mean
    work, w = checks.vector(work, "work", least=0) / mean, checks.vector(w, "w", least=0) / mean
    times = checks.vector(times, "times", least=0, increasing=True) / mean
    systems = _systems(work.size, service, load, replications, seed, work)
    return _over_replications(np.array([[system.profile(t, w) for t in times] for system in systems]))


def pair_excess(n_servers, service, load, w, *, replications=16, seed=None):
    """Estimate how far two tagged servers are from independent (Corollary 3): joint tail minus product.

    Parameters
    ----------
    n_servers : int >= 2
    service, load, w, replications, seed
        As in :func:`simulate_path`. Each replication starts in the equilibrium of infinitely many servers and is looked
        at once in each of 60 mean service times, after as many, or after those a pooled queue needs to settle.

    Returns
    -------
    Estimate
        ``P(W1 > w_i, W2 > w_j) - P(W1 > w_i) P(W2 > w_j)``, shape (m, m), with its 95 % half-width (Student). As
        servers are exchangeable all ordered pairs count: ``(n E[x_a x_b] - E x_max(a,b)) / (n - 1)`` is the joint tail.
    """
    n, load = checks.whole(n_servers, "n_servers", least=2), checks.real(load, "load", above=0, below=1)
    w = checks.vector(w, "w", least=0) / _checked_service(service).mean
    settled = max(60.0, 60.0 / (n * (1.0 - load) ** 2))
    systems = _systems(n, service, load, replications, seed)
    x = np.array([[system.profile(settled + t, w) for t in range(60)] for system in systems])
    tails, later = x.mean(axis=1), np.maximum.outer(np.arange(w.size), np.arange(w.size))
    joints = (n * np.swapaxes(x, 1, 2) @ x / 60 - tails[:, later]) / (n - 1)
    mean = tails.mean(axis=0)
    away = joints - tails[:, :, None] * mean - mean[:, None] * tails[:, None, :]  # linear in each replication
    return Estimate(joints.mean(axis=0) - np.outer(mean, mean), _over_replications(away).half_width)


def _checked_service(service):
    return checks.made_by(service, "service", laws.Law, workload.LAWS)


def _over_replications(values):
    """Return the mean over the first axis as an Estimate, with Student's half-width."""
    spread = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return Estimate(values.mean(axis=0), stdtrit(len(values) - 1, 0.975) * spread)


def _systems(n, service, load, replications, seed, start=None):
    """Return an iterator over replications, from work in mean service times, by default that of many servers."""
    seeds = streams.states(streams.resolve_seed(seed), checks.whole(replications, "replications", least=2))
    packed = service.stretched(1 / service.mean).packed
    for stream in seeds:
        work = workload.equilibrium_work(n, load, service, stream) if start is None else start
        yield _System(work, packed, load * n, stream)


class _System:
    """One replication of JIQ, started from given work."""

    def __init__(self, work, service, rate, stream):
        self.state = idle_or_busy.new_state(work.size, stream, np.empty((2, 0)), work)
        slots = idle_or_busy.slots_per_unit(work.size)
        settings = idle_or_busy.Settings(idle_or_busy.IDLE_FIRST, rate, slots, np.empty(0), 1.0)
        self._given = True, laws.exponential(1 / rate).packed, service, settings
        self._rate, self._sums = rate, np.zeros(len(idle_or_busy.Sums._fields))
        self._set_back, self._before = 0.0, work  # the clock so far; when servers are empty, the last arrival apart

    def serve(self, arrivals):
        """Serve some arrivals, in far less time than that after which the clock is set back."""
        clock = self.state.clock[idle_or_busy.NOW]
        idle_or_busy.idle_or_busy_kernel(arrivals, *self._given, self.state, self._sums)
        self._set_back += idle_or_busy.LATE * (self.state.clock[idle_or_busy.NOW] < clock)

    def profile(self, time, w):
        """Serve all arrivals up to a time; return the fraction of servers with more work than each of `w` then."""
        while (left := time - self._set_back - self.state.clock[idle_or_busy.NOW]) > 0.0:
            expected = min(left, idle_or_busy.LATE / 2) * self._rate
            self.serve(max(0, int(expected - 6 * math.sqrt(expected)) - 1))
            self._before = self.state.empty_at + self._set_back
            self.serve(1)
        return 1.0 - np.searchsorted(np.sort(self._before - time), w, side="right") / self._before.size
