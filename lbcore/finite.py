r"""Paper C at a finite number of servers: the exact chain of (Q1, Q2), at most two jobs in a server.

Let ``pi_j(i)`` be the stationary probability of ``i`` busy servers, ``j`` of them with two jobs. A second job is made
only where all are busy, so level ``j`` is entered from below in the one state ``i = N``. What goes up through a cut
between levels comes down through it, ``lambda pi_j(N) = (j + 1) sum_i pi_{j+1}(i)``; this fixes ``pi_j(N)``, and
``pi_j(i)`` for ``i < N`` solves one tridiagonal system with ``(j + 1) pi_{j+1}`` as its source. Levels are solved from
the top down, with sums, products and quotients of positive numbers only (as in Grassmann, Taksar and Heyman 1985).
The method is the discrete twin of the march in `lbcore.jsq`; it is not in the paper.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, xlogy

from lbcore import checks
from lbcore.compiled import kernel

BETA_RANGE = (0.01, 6.0)
N_MAX = 10**7
_ALLOWED = f"the exact chain is certified for {BETA_RANGE[0]:g} <= beta <= {BETA_RANGE[1]:g} with beta < sqrt(N)"

_DROPPED = 45.0  # phases and levels less likely than about e^-45 relative to their neighbours are cut


@kernel
def _widths(n, beta, top, dropped):
    """Return how many idle servers are kept at each level 0 .. `top`: where ``(y - beta) x + x^2/2`` is `dropped`."""
    root = math.sqrt(n)
    widths = np.empty(top + 1, np.int64)
    for j in range(top + 1):
        lean = j / root - beta
        x = 2 * dropped / (lean + math.sqrt(lean * lean + 2 * dropped))
        widths[j] = min(n - j, int(root * x) + 20)
    return widths


@kernel
def _levels(n, rate, widths):
    """Solve the chain from the top level down; sums are not normalised.

    Parameters
    ----------
    n : int, servers
    rate : float, arrivals per mean service time
    widths : (top + 1,) array of int, idle servers kept at each level; it may not increase

    Returns
    -------
    two : (top + 1,) array, weight of the levels of Q2
    idle : (widths[0] + 1,) array, weight of the numbers of idle servers
    all_busy, product, edge : float
        Weight of ``Q1 = N``; mean of idle servers times Q2; weight of the states at which phases were cut.
    """
    top = widths.size - 1
    two, idle = np.zeros(top + 1), np.zeros(widths[0] + 1)
    now, inverse = np.zeros(widths[0] + 1), np.empty(widths[0] + 1)
    now[0] = 1.0  # indexed by idle servers; at the top level it stands for the source of that level
    total, all_busy, product, edge = 1.0, 0.0, 0.0, 0.0
    for j in range(top, -1, -1):
        last, down = widths[j], float(j)
        if j == top:
            at_wall, source = 1.0, 0.0
        else:
            at_wall, source = (j + 1) * total / rate, j + 1.0
        # eliminate from the most idle state upwards: `killed` is the rate of leaving the level from those eliminated
        killed, carried = down, source * now[last]
        for k in range(last, 0, -1):
            inverse[k] = 1.0 / (rate + killed)
            now[k] = carried * inverse[k]
            carried = source * now[k - 1] + rate * now[k]
            killed = down + (n - k + 1 - j) * killed * inverse[k]
        now[0] = at_wall
        total = moment = 0.0
        for k in range(1, last + 1):
            now[k] += (n - k + 1 - j) * inverse[k] * now[k - 1]
            total += now[k]
            moment += k * now[k]
            idle[k] += now[k]
        idle[0] += at_wall
        total += at_wall
        two[j] = total
        all_busy += at_wall
        product += j * moment
        if last < n - j:
            edge += now[last]
    return two, idle, all_busy, product, edge


@dataclass(frozen=True, eq=False, repr=False)
class FiniteLaw:
    """The stationary law of `n_servers` servers under JSQ, at most two jobs in each. Made by `finite_law`.

    Scaled means: ``q1 = (Q1 - N) / sqrt(N)``, ``q2 = Q2 / sqrt(N)``.

    Attributes
    ----------
    n_servers : int
    beta : float
        Slack: the arrival rate is ``N - beta sqrt(N)`` per mean service time.
    mean_q1, mean_q2, mean_q1_squared, mean_q2_squared : float
    wait_probability : float
        ``P(Q1 = N)``: all servers busy, the blocked state included.
    mean_wait : float
        Of an accepted job, in mean service times, by Little's law.
    blocking : float
        ``P(Q1 = Q2 = N)``: arrivals are lost there.
    truncation : float
        Probability of the states at which phases and levels were cut: bounds, by order of magnitude, what is missing.
    identities : tuple of float
        What is left of the balances of the number of jobs and of its square (for the diffusion: ``E Q1 = -beta`` and
        ``E[(Q1 + Q2)(Q1 + beta)] = 1``), which the recursion does not impose; both are 0 up to rounding and truncation.
    q2_weights : (levels,) array
        ``P(Q2 = j)``.
    idle_weights : (phases,) array
        ``P(N - Q1 = k)``.
    """

    n_servers: int
    beta: float
    mean_q1: float
    mean_q2: float
    mean_q1_squared: float
    mean_q2_squared: float
    wait_probability: float
    mean_wait: float
    blocking: float
    truncation: float
    identities: tuple
    q2_weights: np.ndarray = field(compare=False)
    idle_weights: np.ndarray = field(compare=False)

    def __repr__(self):
        return (
            f"FiniteLaw(N={self.n_servers}, beta={self.beta:g}: E q1 = {self.mean_q1:.8g}, E q2 = {self.mean_q2:.8g}, "
            f"P(wait) = {self.wait_probability:.6g}, truncated at probability {self.truncation:.0e})"
        )


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
        Scaled moments, waiting, blocking and the error by truncation. The last 128 laws are kept.

    Raises
    ------
    TypeError
        If `n_servers` is not an integer or `beta` not a real number.
    ValueError
        If one of them is outside its range.

    Notes
    -----
    Phases and levels whose probability is below about e^-45 relative to the likeliest are cut, `FiniteLaw.truncation`
    tells. Method: see the head of this module; it is not in the paper.
    """
    return _cached_law(*_checked(n_servers, beta, N_MAX))


def _checked(n_servers, beta, most):
    allowed = f"the number of servers must be a whole number from 1 to {most}"
    n = checks.whole(checks.real(n_servers, "n_servers", 1, most, allowed=allowed), "n_servers", 1, allowed=allowed)
    beta = checks.real(beta, "beta", *BETA_RANGE, allowed=_ALLOWED)
    if beta * math.sqrt(n) >= n:
        raise ValueError(f"beta = {beta:g} leaves no arrivals to {n} servers; {_ALLOWED}")
    return n, beta


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
        n, beta, -k / root, j / root, kk / n, jj / n, all_busy / scale, j / accepted, full, edge / scale + cut,
        (first, second), two, idle,
    )  # fmt: skip


def check_start(start):
    """Return ``start = (Q1, Q2)`` as floats if it is in the state space ``Q1 <= 0 <= Q2``; raise if not."""
    allowed = "a start is a pair (Q1, Q2) with Q1 <= 0 <= Q2"
    try:
        x, y = start
    except (TypeError, ValueError):
        raise TypeError(f"start = {start!r} is no pair; {allowed}") from None
    low, high = -math.inf, math.inf
    return checks.real(x, "Q1", low, 0.0, allowed=allowed), checks.real(y, "Q2", 0.0, high, allowed=allowed)


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

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range, or the start is no state.
    """
    n, beta = _checked(n_servers, beta, 1000)
    root = math.sqrt(n)
    q1, q2 = check_start(start)
    idle, two = round(-root * q1), round(root * q2)
    if idle + two > n:
        raise ValueError(f"the start is no state; with {n} servers a start satisfies Q2 <= sqrt(N) + Q1")
    times = np.atleast_1d(np.asarray(times, float))
    if not ((times >= 0) & (times <= 100)).all():
        raise ValueError("times must be from 0 to 100 mean service times")
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
        n, beta, times, -(phases @ np.arange(kept)) / root, levels @ np.arange(top) / root,
        max(0.0, 1 - float(phases.sum(axis=1).min())), levels, phases,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TransientLaw:
    """The law of (Q1, Q2) of `n_servers` servers at `times`. Made by `transient_law`.

    Attributes
    ----------
    n_servers, beta, times
        As given.
    mean_q1, mean_q2 : (k,) arrays
        In the scaled units of `FiniteLaw`.
    truncation : float
        Probability that left the states kept, at most, over the times: a bound on what is missing from each law.
    q2_weights, idle_weights : (k, levels), (k, phases) arrays
        ``P(Q2(t) = j)`` and ``P(N - Q1(t) = i)``.
    """

    n_servers: int
    beta: float
    times: np.ndarray
    mean_q1: np.ndarray
    mean_q2: np.ndarray
    truncation: float
    q2_weights: np.ndarray = field(repr=False)
    idle_weights: np.ndarray = field(repr=False)
