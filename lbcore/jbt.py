r"""Paper A: Join-Below-Threshold in heavy traffic (Zhou, Tan and Shroff, 2018, arXiv:1808.06911).

Limits of ``epsilon E[sum Q]`` as the arrival rate approaches the capacity, and the exact law of two servers with
Poisson arrivals and exponential service, the setting of Kelly and Laws. Neither the limit for a constant threshold
nor the reduction of the two-server chain is in the paper.

Two servers, threshold r, per-server load rho. Only what happens near the axes has to be solved for. Where both
queues are at least r they are independent walks until one falls below r: diagonal in sine modes. Where one is below
r the longer one only drains: one tridiagonal solve a level. Where both are below r there are r^2 states. The unknown
is the flow from r - 1 to r by the length of the other queue; a Krylov method finds the one that reproduces itself.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy
from scipy.fft import dst, next_fast_len
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.special import beta, betainc

from lbcore import checks, policies
from lbcore.compiled import kernel

_EPSILON_RANGE = (0.002, 1.99)
_ALLOWED = (
    "the exact two-server chain is certified for 0.002 <= epsilon <= 1.99, where epsilon = 2 - lambda is the distance "
    "to capacity (it must lie below mu_Sigma = 2, the paper's total service rate)"
)


def heavy_traffic_limit(n_servers, threshold, arrivals=None, services=None):
    r"""Return ``lim epsilon E[sum Q]`` for equal servers under JBT with a constant threshold.

    Parameters
    ----------
    n_servers : int
        ``N >= 1``.
    threshold : int or math.inf
        ``r >= 1``; 1 is JIQ, infinity random routing.
    arrivals, services : laws on whole numbers (`laws.discrete`), or None
        The batch of a slot at capacity, ``E[A] = N E[S]``, and the service that one server offers in a slot. None for
        both: Poisson arrivals and exponential service at rate 1, in continuous time.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If a number is out of range, only one law is given, or the batch does not match the capacity.

    Notes
    -----
    Not in the paper: Theorem 1 says only that the limit lies strictly between that of the pooled queue, Eq. (2), and
    that of random routing. In the limit the queues are a Brownian motion reflected in the orthant; the push at one axis
    takes `push_share` ``c`` from each of the other queues. With ``g`` and ``h`` the variance of a queue's noise and the
    covariance of two, the basic adjoint relation of two symmetric quadratics closes and gives

        ``lim epsilon E[sum Q] = N^2 (g (1 - c (N - 2)) + c (N - 1) h) / (2 (1 + c))``.

    For ``N >= 3`` the interchange of limits is a heuristic with checked values; at fixed epsilon the error is of order
    ``epsilon^(1 - a)``, ``a = (4 / pi) arctan c``.
    """
    n, threshold, laws = _limit_arguments(n_servers, threshold, arrivals, services)
    c = _push_share(n, threshold, laws)
    g, h = _noise(n, laws)
    return n * n * (g * (1 - c * (n - 2)) + c * (n - 1) * h) / (2 * (1 + c))


def pooled_limit(n_servers, arrivals=None, services=None):
    """Return the least ``lim epsilon E[sum Q]`` of any stabilising policy: zeta / 2 of Eq. (2). Arguments as above."""
    n, _, laws = _limit_arguments(n_servers, math.inf, arrivals, services)
    g, h = _noise(n, laws)
    return n * (g + (n - 1) * h) / 2


def push_share(n_servers, threshold, arrivals=None, services=None):
    """Return ``c``, what the push at one axis takes from each other queue; arguments as in `heavy_traffic_limit`.

    ``1 / (N - 1)`` pools the servers, 0 is random routing. Not in the paper. In continuous time
    ``c = (1 - N^-r) / (N - 1)``; in slotted time from the invariant measure of one queue at capacity, which gets the
    whole batch while below the threshold and the batch with probability ``1/N`` above it.
    """
    return _push_share(*_limit_arguments(n_servers, threshold, arrivals, services))


def _limit_arguments(n_servers, threshold, arrivals, services):
    n = checks.whole(n_servers, "n_servers", 1, allowed="the number of servers must be a whole number >= 1")
    threshold = check_threshold(threshold)
    if arrivals is None and services is None:
        return n, threshold, None
    if arrivals is None or services is None:
        raise TypeError("give both laws, of the batch and of the service in a slot, or neither")
    for law, name in ((arrivals, "arrivals"), (services, "services")):
        if not hasattr(law, "probabilities") or (law.values != np.rint(law.values)).any():
            raise TypeError(
                f"{name} must be a law on finitely many whole numbers, such as laws.discrete(values, probabilities): "
                f"the paper assumes bounded batches and services; {law!r} is not"
            )
    if abs(arrivals.mean - n * services.mean) > 1e-9 * arrivals.mean:
        raise ValueError(
            f"at capacity the mean batch equals the total service, E[A] = N E[S]; here {arrivals.mean:g} against "
            f"{n * services.mean:g}"
        )
    return n, threshold, (arrivals, services)


def _noise(n, laws):
    """Return variance and covariance, per unit time, of what a queue gains under random routing at capacity."""
    if laws is None:
        return 2.0, 0.0
    arrivals, services = laws
    mu = services.mean
    second = arrivals.variance + arrivals.mean**2
    return second / n - mu**2 + services.variance, -(mu**2)


def _push_share(n, threshold, laws):
    if threshold == math.inf or n == 1:
        return 0.0
    if laws is None:
        return (1 - float(n) ** -threshold) / (n - 1)
    services = laws[1]
    step = math.gcd(*(int(v) for law in laws for v in law.values))
    batch, offer = (np.bincount((law.values / step).astype(int), law.probabilities) for law in laws)
    below = -(-threshold // step)  # levels under the threshold, in steps
    thinned = batch / n
    thinned[0] += 1 - 1 / n
    share, change = None, math.inf
    margin = 4 * (len(batch) + len(offer))
    while change > 1e-13:  # the measure becomes constant geometrically fast above the threshold
        measure, unused = _boundary_measure(batch, thinned, offer, below, margin)
        mass = measure[:below].sum() * services.mean / step
        new = mass / ((n - 1) * mass + unused)
        change = math.inf if share is None else abs(new - share)
        share, margin = new, 2 * margin
    return float(share)


def _boundary_measure(batch, thinned, offer, below, margin):
    """Return the invariant measure of one queue at capacity, 1 far up, and the mean unused service under it."""
    levels = below + margin
    low, high = len(offer) - 1, len(batch) - 1
    start, end = np.meshgrid(np.arange(levels + low), np.arange(-low, levels), indexing="ij")
    move = end - start
    inside = (move >= -low) & (move <= high)
    steps = np.where(
        start < below, np.convolve(batch, offer[::-1])[np.where(inside, move + low, 0)],
        np.convolve(thinned, offer[::-1])[np.where(inside, move + low, 0)],
    ) * inside  # fmt: skip
    idle = steps[:, :low] @ np.arange(low, 0, -1)  # mean unused service, by start
    kernel_matrix = steps[:, low:].copy()
    kernel_matrix[:, 0] += steps[:, :low].sum(axis=1)
    measure = np.linalg.solve(np.eye(levels) - kernel_matrix[:levels].T, kernel_matrix[levels:].sum(axis=0))
    return measure, measure @ idle[:levels]


@dataclass(frozen=True, repr=False)
class TwoServerLaw:
    """The stationary law of two servers under JBT, Poisson arrivals and exponential service. See `two_server_law`.

    Attributes
    ----------
    epsilon : float
        Distance to capacity, ``lambda = 2 - epsilon``.
    threshold : int or math.inf
    mean_total : float
        ``E[Q1 + Q2]``.
    mean_wait : float
        Mean time before service begins, in mean service times.
    marginals : (m,) array
        ``P(Q1 = i)`` for ``i < m``; beyond, the mass is below `truncated`.
    empty_row : (m,) array
        ``P(Q1 = 0, Q2 = j)``: the states that cost delay, Eq. (7).
    truncated : float
        Estimated probability beyond the last level kept.
    error : float
        Relative difference between `mean_total`, from the identity ``E[Q1 + Q2] = rho/(1 - rho) + E[Q2 | Q1 = 0]``,
        and twice the mean of `marginals`, from the balance of cuts.
    iterations : int
        Of the Krylov method; 0 for random routing, which is a product.
    """

    epsilon: float
    threshold: float
    mean_total: float
    mean_wait: float
    marginals: np.ndarray = field(compare=False)
    empty_row: np.ndarray = field(compare=False)
    truncated: float
    error: float
    iterations: int
    _chain: object = field(compare=False, default=None)
    _flow: np.ndarray = field(compare=False, default=None)

    def joint(self, size):
        """Return ``P(Q1 = i, Q2 = j)`` for ``i, j < size``, a (size, size) array."""
        size = checks.whole(size, "size", 1, allowed="size must be a whole number >= 1")
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
            raise ValueError(
                f"the decay rate is fitted over distances 2 to 6, which r = {self.threshold} does not have"
            )
        return float(-np.polyfit(np.arange(2, 7), np.log(self.distance_tail()[2:7]), 1)[0])

    def __repr__(self):
        return (
            f"TwoServerLaw(epsilon={self.epsilon:g}, threshold={self.threshold}: E[Q1 + Q2] = {self.mean_total:.10g}, "
            f"relative error about {self.error:.0e}, {self.truncated:.0e} of the mass cut off)"
        )


def two_server_law(epsilon, threshold, *, tolerance=1e-13):
    """Return the exact law of two servers under JBT(r), Poisson(2 - epsilon) arrivals, exponential(1) service.

    Parameters
    ----------
    epsilon : float
        Distance to capacity, ``0.002 <= epsilon <= 1.99``.
    threshold : int or math.inf
        ``r >= 1``. 1 is JIQ, infinity random routing.
    tolerance : float
        Probability that may be cut off, and accuracy of the solution; 1e-6 is enough for a drawing.

    Returns
    -------
    TwoServerLaw

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its range; the message names the assumption.

    Notes
    -----
    Model: Zhou, Tan and Shroff (2018), in continuous time as in Kelly and Laws. Method: the head of this module.
    """
    epsilon = checks.real(epsilon, "epsilon", *_EPSILON_RANGE, allowed=_ALLOWED)
    tolerance = checks.real(tolerance, "tolerance", 1e-15, 1e-2, allowed="tolerance must lie between 1e-15 and 0.01")
    return _cached_law(epsilon, check_threshold(threshold), tolerance)


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

    Raises
    ------
    TypeError, ValueError
        If `epsilon` is out of range.

    Notes
    -----
    The shorter queue is the level and the difference the phase of a quasi-birth-death chain. Differences fall off
    faster than ``3^-n`` and are cut at 40; the rest is cyclic reduction, quadratically convergent.
    """
    rho = 1 - checks.real(epsilon, "epsilon", *_EPSILON_RANGE, allowed=_ALLOWED) / 2
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
    theta = two_server_law(epsilon, 8, tolerance=tolerance).decay_rate()
    laws, r = [two_server_law(epsilon, int(r), tolerance=tolerance) for r in thresholds], np.asarray(thresholds)
    wasted = np.array([law.condition / 2 for law in laws])  # E[Q2; Q1 = 0]
    constant = np.max(np.maximum(wasted - 2 * r * epsilon, 0.0) * epsilon**2 * np.exp(theta * r))
    return (2 - epsilon) / epsilon + 2 / epsilon * (2 * r * epsilon + constant * epsilon**-2 * np.exp(-theta * r))


def threshold_price():
    """Return s = 0.438900: for two servers ``E[Q1 + Q2]`` grows by s jobs per unit of a large threshold.

    As epsilon and ``r epsilon`` tend to 0 and r to infinity. Not in the paper; derived, as a heuristic, in notebook 01:
    ``s = P(X < Y)`` for independent ``X ~ Beta(1/4, 1/4)`` and ``Y ~ Beta(1/2, 3/4)``.
    """

    def below(u):  # Y = sin(u^2)^2 takes the singularities away
        return 4 * u * math.sqrt(math.cos(u * u)) * betainc(0.25, 0.25, math.sin(u * u) ** 2)

    return scipy.integrate.quad(below, 0.0, math.sqrt(math.pi / 2), epsabs=1e-12)[0] / beta(0.5, 0.75)


def distance(queues, threshold):
    """Return the Euclidean distance of queue lengths to the region R^(r), Eq. (8) of the paper.

    Parameters
    ----------
    queues : array_like, shape (..., N)
        Jobs at each of N servers; R^(r) holds the states in which all are at most r or all are at least r.
    threshold : int
        ``r >= 1``.

    Returns
    -------
    ndarray of float, shape (...)
    """
    queues = np.asarray(queues, dtype=float)
    threshold = checks.whole(threshold, "threshold", 1, allowed="r must be a whole number >= 1")
    return _distances(queues.reshape(-1, queues.shape[-1]), float(threshold)).reshape(queues.shape[:-1])


@kernel
def _distances(queues, threshold):
    """Return the distance to R^(r) of each row."""
    found = np.empty(queues.shape[0])
    for k in range(queues.shape[0]):
        above, below = 0.0, 0.0
        for q in queues[k]:
            above += max(q - threshold, 0.0) ** 2
            below += min(q - threshold, 0.0) ** 2
        found[k] = math.sqrt(min(above, below))
    return found


def check_threshold(threshold):
    """Return a threshold, a whole number of at least 1 or infinity, or raise."""
    if threshold == math.inf:
        return math.inf
    return checks.whole(
        threshold, "threshold", 1, allowed="r must be a whole number >= 1, or math.inf for random routing"
    )


@lru_cache(maxsize=512)
def _cached_law(epsilon, threshold, tolerance):
    rho = 1 - epsilon / 2
    levels = next_fast_len(int(0.75 * math.log(tolerance) / math.log(rho)) + 20, real=True) - 1
    if threshold >= 3 * levels:  # a queue that long has no probability left
        marginals = (1 - rho) * rho ** np.arange(2 * levels)
        mean, row = 2 * rho / (1 - rho), (1 - rho) * marginals
        return TwoServerLaw(epsilon, threshold, mean, mean / (2 * rho) - 1, marginals, row, rho ** (2 * levels), 0.0, 0)
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
        """Return ``P(i, r + b)``, an (m, r) array, given the flow from ``r - 1`` to ``r``, and the flow it causes.

        Unless `keep`, only ``b = 0`` is returned.
        """
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
        pi = np.zeros((max(size, r + self.m),) * 2)
        pi[:r, :r] = self.corner.inside(side[0])
        above = slice(r, r + self.m)
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
        epsilon, r, float(mean), float(mean) / chain.rate - 1, marginals, row, float(abs(up) / (1 - rho)),
        float(abs(other / mean - 1)), iterations, chain, flow,
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
        source = np.zeros((len(last), len(last)))
        source[:, -1] += last
        source[-1] += last
        weight = np.multiply.outer(self._tilt, self._tilt)
        return self._modes @ (self._modes.T @ (source / weight) @ self._modes / self._rates) @ self._modes.T * weight


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
    """March the states with one queue below r down the other queue's length.

    Parameters
    ----------
    edge : (m,) array, ``P(r, r + b)``, whose flow comes in at ``i = r - 1``
    pivot : (r,) array, inverse pivots of the tridiagonal matrix of a level
    rate : float, arrivals, all of which join the shorter queue
    bottom : (r, r) array, the inverse for the lowest level, the exchange with the corner included
    keep : bool, whether to keep all levels or the lowest alone

    Returns
    -------
    levels : (m, r) array, or (1, r) unless `keep`, ``P(i, r + b)``
    flow : (m,) array, from ``r - 1`` to ``r`` at each level
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


policies.share_name(__name__)
