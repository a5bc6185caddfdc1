"""Paper B: Join-Idle-Queue with any service law: equilibrium, bound, fluid paths, and simulations that judge them."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from lbcore import calendar_queue, laws, policies, streams, workload
from lbcore.fixed_point import checked_load as _checked
from lbcore.fixed_point import cycle_bound as cycle_bound
from lbcore.fixed_point import fixed_point as fixed_point
from lbcore.fixed_point import workload_tail as workload_tail
from lbcore.fluid import fluid_path as fluid_path
from lbcore.fluid import infinite_server_path as infinite_server_path
from lbcore.results import Estimate

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
    load, n = _checked(service, load), policies.whole(n_servers, "n_servers")
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
    load, n = _checked(service, load), policies.whole(n_servers, "n_servers", 2)
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
    replications = policies.whole(replications, "replications", 2)
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
