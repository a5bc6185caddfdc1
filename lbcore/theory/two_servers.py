r"""Paper A: the exact law of two servers under Join-Below-Threshold, the setting of Kelly and Laws.

Poisson arrivals, exponential service, threshold r, per-server load rho. Only what happens near the axes has to be
solved for. Where both queues are at least r they are independent walks until one falls below r: diagonal in sine
modes. Where one is below r the longer one only drains: one tridiagonal solve a level. Where both are below r there are
r^2 states. The unknown is the flow from r - 1 to r by the length of the other queue; a Krylov method finds the one
that reproduces itself. This reduction is not in the paper (Zhou, Tan and Shroff, 2018).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import dst, next_fast_len
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, gmres

from lbcore import checks
from lbcore.compiled import kernel
from lbcore.records import Record
from lbcore.theory.thresholds import check_threshold


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TwoServerLaw(Record):
    """The stationary law of two servers under JBT. Made by `two_server_law`."""

    epsilon: float  # distance to capacity, lambda = 2 - epsilon
    threshold: float  # an int, or infinity
    mean_total: float  # E[Q1 + Q2]
    mean_wait: float  # before service begins, in mean service times
    marginals: np.ndarray  # (m,), P(Q1 = i); beyond, the mass is below `truncation`
    empty_row: np.ndarray  # (m,), P(Q1 = 0, Q2 = j): the states that cost delay, Eq. (7)
    truncation: float  # estimated probability beyond the last level kept
    # Relative difference between `mean_total`, from the identity E[Q1 + Q2] = rho/(1 - rho) + E[Q2 | Q1 = 0], and
    # twice the mean of `marginals`, from the balance of cuts:
    error: float
    iterations: int  # of the Krylov method; 0 for random routing, which is a product
    _chain: object = None
    _flow: np.ndarray = None

    def joint(self, size):
        """Return ``P(Q1 = i, Q2 = j)`` for ``i, j < size``, a (size, size) array."""
        size = checks.whole(size, "size")
        if self._chain is None:
            lone = self.epsilon / 2 * (1 - self.epsilon / 2) ** np.arange(size)
            return np.multiply.outer(lone, lone)
        return self._chain.joint(self._flow, size)

    @property
    def condition(self):
        """``E[|Q| |U|]`` of Eq. (7), which vanishes as epsilon does exactly where delay is optimal."""
        return float(2 * self.empty_row @ np.arange(len(self.empty_row)))

    def distance_tail(self, region=None):
        """Return ``P(distance to R^(r) >= d)`` for ``d = 0 ... r``, Eq. (8); shape (r + 1,).

        r is the law's own threshold; random routing has none and asks for `region`.
        """
        r = self.threshold if region is None else check_threshold(region)
        if r == math.inf or (self._chain is not None and r != self.threshold):
            raise ValueError("give the region r for random routing, and for it alone: JBT(r) is measured to its own")
        if self._chain is None:
            side = np.multiply.outer(self.marginals[r:], self.marginals[:r])
        else:
            side = self._chain.levels(self._flow)[0]
        d = np.minimum.outer(np.arange(len(side)), r - np.arange(r))
        mass = 2 * np.bincount(d.ravel(), side.ravel(), minlength=r + 1)
        mass[0] = 1 - mass[1:].sum()
        return np.cumsum(mass[::-1])[::-1]

    def distance_moments(self, region=None):
        """Return ``E d^k``, k = 1 ... 4, of the distance to R^(r); shape (4,). Proposition 1 bounds them."""
        tail = self.distance_tail(region)
        d = np.arange(len(tail))
        return np.array([(d[1:] ** k - d[:-1] ** k) @ tail[1:] for k in (1, 2, 3, 4)])

    def decay_rate(self):
        """Return theta*, the rate at which the tail of the distance falls off, fitted over 2 ... 6 (threshold >= 6)."""
        if not 6 <= self.threshold < math.inf:
            raise ValueError(f"the decay rate is fitted over distances 2 to 6, not there at r = {self.threshold}")
        return float(-np.polyfit(np.arange(2, 7), np.log(self.distance_tail()[2:7]), 1)[0])


def two_server_law(epsilon, threshold, *, tolerance=1e-13):
    """Return the exact law of two servers under JBT(r), Poisson(2 - epsilon) arrivals, exponential(1) service.

    Parameters
    ----------
    epsilon : float
        Distance to capacity, ``0.002 <= epsilon <= 1.99``.
    threshold : int or math.inf
        1 is JIQ, infinity random routing.
    tolerance : float
        Probability that may be cut off, and accuracy of the solution, 1e-15 to 0.01; 1e-6 is enough for a drawing.

    Returns
    -------
    TwoServerLaw
    """
    tolerance = checks.real(tolerance, "tolerance", least=1e-15, most=0.01)
    return _cached_law(_epsilon(epsilon), check_threshold(threshold), tolerance)


def _epsilon(epsilon):
    why = "the exact two-server chain is certified there, epsilon = 2 - lambda being the distance to capacity"
    return checks.real(epsilon, "epsilon", least=0.002, most=1.99, why=why)


def two_server_jsq(epsilon):
    """Return ``(mean_total, condition)`` of two servers under JSQ, the contrast to `two_server_law`.

    Parameters
    ----------
    epsilon : float
        Distance to capacity, ``0.002 <= epsilon <= 1.99``; Poisson(2 - epsilon) arrivals, exponential(1) service.

    Returns
    -------
    mean_total : float
        ``E[Q1 + Q2]``, to 10 digits.
    condition : float
        ``E[|Q| |U|]`` of Eq. (7): jobs present per service that an empty server wastes, times their rate.

    Notes
    -----
    The shorter queue is the level and the difference the phase of a quasi-birth-death chain. Differences fall off
    faster than ``3^-n`` and are cut at 40; the rest is cyclic reduction, quadratically convergent.
    """
    rho = 1 - _epsilon(epsilon) / 2
    n = np.arange(41)
    up, local, down = np.diag(np.full(40, 2 * rho), -1), np.diag(np.ones(40), -1), np.diag(np.ones(40), 1)
    local[0, 1], down[0, 1] = 2 * rho, 2.0
    bottom = local - np.diag(up.sum(1) + local.sum(1))
    local -= np.diag(up.sum(1) + local.sum(1) + down.sum(1))
    inverse = np.linalg.inv(-local)
    rise, fall = inverse @ up, inverse @ down
    first, product = fall.copy(), rise.copy()  # first passage one level down (logarithmic reduction)
    while np.abs(product).max() > 1e-16:
        inverse = np.linalg.inv(np.eye(41) - rise @ fall - fall @ rise)
        rise, fall = inverse @ rise @ rise, inverse @ fall @ fall
        first, product = first + product @ fall, product @ rise
    rate = up @ np.linalg.inv(-(local + up @ first))
    higher = np.linalg.inv(np.eye(41) - rate)
    balance = bottom + rate @ down
    balance[:, -1] = higher.sum(1)  # in place of one redundant equation: the probabilities add up to 1
    ground = np.linalg.solve(balance.T, n == 40)
    mean = ground @ higher @ n + 2 * (ground @ rate @ higher @ higher).sum()
    return float(mean), float(ground @ n)


def theorem_two_bound(epsilon, thresholds, tolerance=1e-6):
    """Return the bound at the end of the paper on ``E[Q1 + Q2]``, at each of the `thresholds` (an array).

    ``(2 - epsilon)/epsilon + (2/epsilon) (2 r epsilon + C_1 epsilon^-2 e^(-theta* r))``. The paper gives neither
    constant: theta* is fitted to the exact law at r = 8 and C_1 is the least that makes the bound hold at all the
    thresholds given.
    """
    r = checks.vector(thresholds, "thresholds", least=1)
    theta = two_server_law(epsilon, 8, tolerance=tolerance).decay_rate()
    laws = [two_server_law(epsilon, t, tolerance=tolerance) for t in r]
    wasted = np.array([law.condition / 2 for law in laws])  # E[Q2; Q1 = 0]
    constant = np.max(np.maximum(wasted - 2 * r * epsilon, 0.0) * epsilon**2 * np.exp(theta * r))
    return (2 - epsilon) / epsilon + 2 / epsilon * (2 * r * epsilon + constant * epsilon**-2 * np.exp(-theta * r))


@lru_cache(maxsize=512)
def _cached_law(epsilon, threshold, tolerance):
    rho = 1 - epsilon / 2
    levels = next_fast_len(int(0.75 * math.log(tolerance) / math.log(rho)) + 20, real=True) - 1
    if threshold >= 3 * levels:  # a queue that long has no probability left
        marginals, mean = (1 - rho) * rho ** np.arange(2 * levels), 2 * rho / (1 - rho)
        return TwoServerLaw(
            epsilon=epsilon, threshold=threshold, mean_total=mean, mean_wait=mean / (2 * rho) - 1,
            marginals=marginals, empty_row=(1 - rho) * marginals, truncation=rho ** (2 * levels), error=0.0,
            iterations=0,
        )  # fmt: skip
    return _solve(epsilon, threshold, tolerance, rho, levels)


class _Chain:
    """The two-server chain, cut up along level r; `m` levels above r are kept."""

    def __init__(self, rho, r, m, tolerance):
        self.rho, self.r, self.m, self.rate = rho, r, m, 2 * rho
        # Both queues >= r: walks killed below r, symmetric after division by rho^(b/2), diagonal in sines
        angle = np.pi * np.arange(1, m + 1) / (m + 1)
        self._exit = 1 + rho - 2 * math.sqrt(rho) * np.cos(angle)
        self._at_edge = math.sqrt(2 / (m + 1)) * np.sin(angle)
        both = self._exit + 1 + rho
        self._own = (both - np.sqrt(both**2 - 4 * rho)) / (2 * rho)
        decay, self._weight = _exponential_sum(2 * self._exit[0], 2 * self._exit[-1], tolerance)
        self._modes = np.exp(-np.multiply.outer(decay, self._exit)) * self._at_edge
        self.tilt = rho ** (np.arange(m) / 2)
        # Both below r, driven by the flow down from level r; then level r itself, which the two share
        self.corner = _Corner(r, rho)
        level = np.diag(self.rate + 1.0 + (np.arange(r) > 0))
        level -= np.diag(np.full(r - 1, self.rate), -1) + np.diag(np.ones(r - 1), 1)
        self._bottom = np.linalg.inv(level - rho * self.corner.edge())
        self._pivot = np.empty(r)
        for i in range(r):
            self._pivot[i] = 1 / (level[i, i] - (self.rate * self._pivot[i - 1] if i else 0.0))

    def levels(self, flow, keep=True):
        """Return ``P(i, r + b)``, as `_drain` does, given the flow from ``r - 1`` to ``r``, and the flow it causes."""
        source = dst(flow / self.tilt, type=1, norm="ortho")
        edge = dst(self._own * source + _across(self._weight, self._modes, source), type=1, norm="ortho")
        return _drain(edge * self.tilt, self._pivot, self.rate, self._bottom, keep)

    def solve(self, tolerance):
        """Return the flow that reproduces itself, up to a factor, and the iterations it took."""
        start = (1 - self.rho) * self.rho ** np.arange(self.m)

        def residual(scaled):
            flow = scaled * self.tilt
            return (flow - self.levels(flow, False)[1] + start * flow.sum()) / self.tilt

        calls = []
        scaled, failed = gmres(
            LinearOperator((self.m, self.m), matvec=residual, dtype=float), start / self.tilt, rtol=tolerance, atol=0.0,
            restart=120, maxiter=40, callback=lambda _: calls.append(1), callback_type="pr_norm",
        )  # fmt: skip
        if failed:
            raise ArithmeticError(f"the two-server chain did not converge at load {self.rho:g}, r = {self.r}")
        return scaled * self.tilt, len(calls)

    def joint(self, flow, size):
        """Return ``P(i, j)`` for ``i, j < size``, given the normalised flow."""
        r = self.r
        side = self.levels(flow)[0]
        pi, above = np.zeros((max(size, r + self.m),) * 2), slice(r, r + self.m)
        pi[:r, :r] = self.corner.inside(side[0])
        pi[above, :r], pi[:r, above] = side, side.T
        source = np.multiply.outer(dst(flow / self.tilt, type=1, norm="ortho"), self._at_edge)
        modes = (source + source.T) / np.add.outer(self._exit, self._exit)
        both = dst(dst(modes, type=1, norm="ortho", axis=0), type=1, norm="ortho", axis=1)
        pi[above, above] = both * np.multiply.outer(self.tilt, self.tilt)
        return pi[:size, :size]


def _solve(epsilon, r, tolerance, rho, m):
    chain = _Chain(rho, r, m, tolerance)
    flow, iterations = chain.solve(tolerance)
    side = chain.levels(flow)[0]
    inner = chain.corner.inside(side[0])
    row = np.concatenate([inner[0], side[:, 0]])
    scale = (1 - rho) / row.sum()
    row, flow, side, inner = row * scale, flow * scale, side * scale, inner * scale
    marginals = np.empty(r + m)
    marginals[:r] = inner.sum(axis=1) + side.sum(axis=0)
    up = chain.rate * side[:, -1].sum() + rho * inner[-1].sum()
    for i, below in enumerate(side.sum(axis=1), start=r):  # what crosses i - 1 -> i in both directions balances
        marginals[i] = up
        up = rho * (up - below)
    mean = (rho + row @ np.arange(len(row))) / (1 - rho)
    other = 2 * (marginals @ np.arange(len(marginals)))
    return TwoServerLaw(
        epsilon=epsilon, threshold=r, mean_total=float(mean), mean_wait=float(mean) / chain.rate - 1,
        marginals=marginals, empty_row=row, truncation=float(abs(up) / (1 - rho)),
        error=float(abs(other / mean - 1)), iterations=iterations, _chain=chain, _flow=flow,
    )  # fmt: skip


def _exponential_sum(low, high, tolerance):
    """Return nodes and weights with ``1/x = sum weight e^(-node x)`` on ``[low, high]`` (trapezoidal rule in log t)."""
    step = 0.9 * math.pi**2 / (math.log(1 / tolerance) + 3)
    t = np.exp(np.arange(math.log(tolerance / high) - 1, math.log(-math.log(tolerance) / low) + 1, step))
    return t, step * t


class _Corner:
    """Both queues below r: two independent walks until one climbs to r, diagonal in the modes of a single walk."""

    def __init__(self, r, rho):
        self._tilt = rho ** (np.arange(r) / 2)
        diagonal = np.full(r, 1 + rho)
        diagonal[0] = rho
        rates, self._modes = eigh_tridiagonal(diagonal, np.full(r - 1, -math.sqrt(rho)))
        self._rates = np.add.outer(rates, rates)

    def edge(self):
        """Return ``P(i, r - 1)`` per unit ``P(k, r)``, whose flow enters at ``(k, r - 1)`` and at ``(r - 1, k)``."""
        v, last = self._modes, self._modes[-1]
        same = (v * (last**2 / self._rates).sum(axis=1)) @ v.T
        other = (v * last) @ (1 / self._rates) @ (v * last).T
        return (same + other) * np.divide.outer(self._tilt, self._tilt)

    def inside(self, last):
        """Return ``P(i, j)`` for ``i, j < r``, given ``last = P(., r)``."""
        source, v = np.zeros((len(last), len(last))), self._modes
        source[:, -1] += last
        source[-1] += last
        weight = np.multiply.outer(self._tilt, self._tilt)
        return v @ (v.T @ (source / weight) @ v / self._rates) @ v.T * weight


@kernel
def _across(weight, modes, source):
    """Return ``modes.T @ (weight * (modes @ source))``: from sources on one edge to the other edge."""
    out = np.zeros(source.size)
    for k in range(weight.size):
        total = 0.0
        for a in range(source.size):
            total += modes[k, a] * source[a]
        total *= weight[k]
        for a in range(source.size):
            out[a] += total * modes[k, a]
    return out


@kernel
def _drain(edge, pivot, rate, bottom, keep):
    """March the states with one queue below r down the other queue's length; arrivals at `rate` join the shorter one.

    `edge`, (m,), is ``P(r, r + b)``, whose flow comes in at ``i = r - 1``; `pivot`, (r,), has the inverse pivots of a
    level's tridiagonal matrix; `bottom`, (r, r), is the inverse for the lowest level, the corner included.

    Return ``P(i, r + b)``, (m, r), or (1, r) unless `keep`, and the flow from ``r - 1`` to ``r`` at each level, (m,).
    """
    m, r = edge.size, pivot.size
    levels, flow, p = np.empty((m if keep else 1, r)), np.empty(m), np.zeros(r)
    for b in range(m - 1, -1, -1):
        p[r - 1] += edge[b]
        if b == 0:
            p = bottom @ p
        else:
            for i in range(1, r):
                p[i] += rate * pivot[i - 1] * p[i - 1]
            p[r - 1] *= pivot[r - 1]
            for i in range(r - 2, -1, -1):
                p[i] = (p[i] + p[i + 1]) * pivot[i]
        flow[b] = rate * p[r - 1]
        if keep or b == 0:
            levels[b] = p
    return levels, flow
