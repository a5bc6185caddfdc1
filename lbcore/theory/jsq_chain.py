r"""Paper C at a finite number of servers: the exact chain of (Q1, Q2), at most two jobs in a server.

Let ``pi_j(i)`` be the stationary probability of ``i`` busy servers, ``j`` of them with two jobs. A second job is made
only where all are busy, so level ``j`` is entered from below in the one state ``i = N``. What goes up through a cut
between levels comes down through it, ``lambda pi_j(N) = (j + 1) sum_i pi_{j+1}(i)``; this fixes ``pi_j(N)``, and
``pi_j(i)`` for ``i < N`` solves one tridiagonal system with ``(j + 1) pi_{j+1}`` as its source. Levels are solved from
the top down, with sums, products and quotients of positive numbers only (as in Grassmann, Taksar and Heyman 1985).
The method is the discrete twin of the march in `lbcore.theory.march`; it is not in the paper.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, xlogy

from lbcore import checks
from lbcore.compiled import kernel
from lbcore.records import Record

_DROPPED = 45.0  # phases and levels less likely than about e^-45 relative to their neighbours are cut


@kernel
def _widths(n, beta, top, dropped):
    """Return how many idle servers are kept at each level 0 .. `top`: where ``(y - beta) x + x^2/2`` is `dropped`."""
    root = math.sqrt(n)
    widths = np.empty(top + 1, np.int64)
    for j in range(top + 1):
        drift = j / root - beta
        x = 2 * dropped / (drift + math.sqrt(drift * drift + 2 * dropped))
        widths[j] = min(n - j, int(root * x) + 20)
    return widths


@kernel
def _levels(n, rate, widths):
    """Solve the chain from the top level down; `widths` may not increase.

    Return weights, not normalised: of the levels of Q2, (top + 1,), of the numbers of idle servers,
    (widths[0] + 1,), and of ``Q1 = N``; the mean of idle servers times Q2; the weight of the states at which phases
    were cut.
    """
    top = widths.size - 1
    two, idle = np.zeros(top + 1), np.zeros(widths[0] + 1)
    weight, inverse = np.zeros(widths[0] + 1), np.empty(widths[0] + 1)
    weight[0] = 1.0  # indexed by idle servers; at the top level it stands for the source of that level
    total, all_busy, product, edge = 1.0, 0.0, 0.0, 0.0
    for j in range(top, -1, -1):
        last, down = widths[j], float(j)
        at_wall, source = ((j + 1) * total / rate, j + 1.0) if j < top else (1.0, 0.0)
        # eliminate from the most idle state upwards: `leaving` is the rate at which those eliminated leave the level
        leaving, carried = down, source * weight[last]
        for k in range(last, 0, -1):
            inverse[k] = 1.0 / (rate + leaving)
            weight[k] = carried * inverse[k]
            carried = source * weight[k - 1] + rate * weight[k]
            leaving = down + (n - k + 1 - j) * leaving * inverse[k]
        weight[0] = at_wall
        total = moment = 0.0
        for k in range(1, last + 1):
            weight[k] += (n - k + 1 - j) * inverse[k] * weight[k - 1]
            total += weight[k]
            moment += k * weight[k]
            idle[k] += weight[k]
        idle[0] += at_wall
        total += at_wall
        two[j] = total
        all_busy += at_wall
        product += j * moment
        if last < n - j:
            edge += weight[last]
    return two, idle, all_busy, product, edge


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FiniteLaw(Record):
    """The stationary law of N servers under JSQ, at most two jobs in each. Made by `finite_law`.

    Moments are those of ``q1 = (Q1 - N) / sqrt(N)`` and ``q2 = Q2 / sqrt(N)``.
    """

    n_servers: int
    beta: float  # slack: arrivals come at rate N - beta sqrt(N) per mean service time
    mean_q1: float
    mean_q2: float
    mean_q1_squared: float
    mean_q2_squared: float
    wait_probability: float  # P(Q1 = N): all servers busy, the blocked state included
    mean_wait: float  # of an accepted job, in mean service times, by Little's law
    blocking: float  # P(Q1 = Q2 = N): arrivals are lost there
    truncation: float  # probability of the states at which the chain was cut: bounds, roughly, what is missing
    # what is left of the balances of the number of jobs and of its square (for the diffusion: E Q1 = -beta and
    # E[(Q1 + Q2)(Q1 + beta)] = 1), which the recursion does not impose; both are 0 up to rounding and truncation
    identities: tuple
    q2_weights: np.ndarray  # (levels,), P(Q2 = j)
    idle_weights: np.ndarray  # (phases,), P(N - Q1 = k)


def finite_law(n_servers, beta):
    """Return the exact stationary law of (Q1, Q2) under JSQ with a finite number of servers.

    Servers hold at most two jobs: an arrival that finds all of them with two is lost.

    Parameters
    ----------
    n_servers : int
        ``1 <= N <= 10^7``; 10^6 takes seconds, the work is linear in N.
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 6`` and ``beta < sqrt(N)``; arrivals come at rate ``N - beta sqrt(N)``.

    Returns
    -------
    FiniteLaw
        The last 128 laws are kept.

    Notes
    -----
    Phases and levels whose probability is below about e^-45 relative to the likeliest are cut.
    """
    return _cached_law(*_checked(n_servers, beta, 10**7))


def _checked(n_servers, beta, most):
    n = checks.whole(n_servers, "n_servers", most=most)
    below = math.sqrt(n) * (1 - 1e-12)  # or there are no arrivals
    return n, checks.real(beta, "beta", least=0.01, most=6.0, below=below, why="the exact chain is certified there")


@lru_cache(maxsize=128)
def _cached_law(n, beta):
    root = math.sqrt(n)
    rate = n - beta * root
    top = min(n, math.ceil((_DROPPED + 10) / -math.log1p(-beta / root)))
    two, idle, all_busy, product, edge = _levels(n, rate, _widths(n, beta, top, _DROPPED))
    scale = two.sum()
    two, idle = two / scale, idle / scale
    levels, phases = np.arange(len(two)), np.arange(len(idle))
    j, jj, k, kk, kj = two @ levels, two @ levels**2.0, idle @ phases, idle @ phases**2.0, product / scale
    full, cut = (two[n], 0.0) if top == n else (0.0, two[top])
    accepted = rate * (1 - full)
    # of the number of jobs n = N - k + j and of its square: what comes in equals what goes out
    first = (k - beta * root) / root - rate * full / root
    second = (accepted + n - k) / (2 * n) + k - beta * root + beta * (k - j) / root + (kj - kk) / n - 2 * rate * full
    return FiniteLaw(
        n_servers=n, beta=beta, mean_q1=-k / root, mean_q2=j / root, mean_q1_squared=kk / n, mean_q2_squared=jj / n,
        wait_probability=all_busy / scale, mean_wait=j / accepted, blocking=full, truncation=edge / scale + cut,
        identities=(first, second), q2_weights=two, idle_weights=idle,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TransientLaw(Record):
    """The law of (Q1, Q2) of N servers at some times, in the units of `FiniteLaw`. Made by `transient_law`."""

    n_servers: int
    beta: float
    times: np.ndarray  # (k,)
    mean_q1: np.ndarray  # (k,)
    mean_q2: np.ndarray  # (k,)
    truncation: float  # bounds, over the times, the probability that left the states kept
    q2_weights: np.ndarray  # (k, levels), P(Q2(t) = j)
    idle_weights: np.ndarray  # (k, phases), P(N - Q1(t) = i)


def transient_law(n_servers, beta, start, times):
    """Return the exact law of (Q1, Q2) at given times from one start, by uniformisation of the chain of `finite_law`.

    Parameters
    ----------
    n_servers : int
        ``1 <= N <= 1000``; the work grows like ``N^2`` times the last time.
    beta : float
        As for `finite_law`.
    start : (float, float)
        Scaled ``((Q1 - N)/sqrt(N), Q2/sqrt(N))``, rounded to a state ``0 <= Q2 <= Q1 <= N``.
    times : (k,) array_like
        Not negative, at most 100 mean service times.

    Returns
    -------
    TransientLaw
    """
    n, beta = _checked(n_servers, beta, 1000)
    (q1, q2), root = checks.start(start), math.sqrt(n)
    times = checks.vector(times, "times", least=0.0, most=100.0)
    idle, two = round(-root * q1), round(root * q2)
    if idle + two > n:
        raise ValueError(f"the start is no state; with {n} servers a start satisfies Q2 <= sqrt(N) + Q1")
    rate, last = n - beta * root, times.max()
    kept = min(n, math.ceil(max(idle, beta * root) + 6 * root)) + 1
    top = min(n, math.ceil(two + root * min(5 * math.sqrt(2 * last), 25 / beta)) + 1) + 1
    i, j = np.ogrid[:kept, :top]
    one, down = np.maximum(n - i - j, 0) / (rate + n), j / (rate + n)
    up = rate / (rate + n)
    stay = 1 - up - one - down
    if top > n:
        stay[0, n] += up  # blocked
    p = np.zeros((kept, top))
    p[idle, two] = 1.0
    mean = (rate + n) * times[:, None]  # events so far, Poisson
    steps = math.ceil(mean.max() + 8 * math.sqrt(mean.max()) + 30)
    phases, levels = np.empty((steps, kept)), np.empty((steps, top))
    for step in range(steps):
        phases[step], levels[step] = p.sum(axis=1), p.sum(axis=0)
        moved = stay * p
        moved[:-1] += up * p[1:]
        moved[0, 1:] += up * p[0, :-1]
        moved[1:] += (one * p)[:-1]
        moved[:, :-1] += (down * p)[:, 1:]
        p = moved
    k = np.arange(steps)
    weights = np.exp(xlogy(k, mean) - mean - gammaln(k + 1))
    phases, levels = weights @ phases, weights @ levels
    return TransientLaw(
        n_servers=n, beta=beta, times=times, mean_q1=-(phases @ np.arange(kept)) / root,
        mean_q2=levels @ np.arange(top) / root, truncation=max(0.0, 1 - float(phases.sum(axis=1).min())),
        q2_weights=levels, idle_weights=phases,
    )  # fmt: skip
