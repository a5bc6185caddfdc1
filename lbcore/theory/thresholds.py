r"""Paper A: what a threshold costs in heavy traffic (Zhou, Tan and Shroff, 2018, arXiv:1808.06911).

Limits of ``epsilon E[sum Q]`` under Join-Below-Threshold as the arrival rate approaches the capacity. The limit for a
constant threshold is not in the paper: Theorem 1 says only that it lies strictly between that of the pooled queue,
Eq. (2), and that of random routing.
"""

import math

import numpy as np
import scipy
from scipy.special import beta, betainc

from lbcore import checks


def heavy_traffic_limit(n_servers, threshold, arrivals=None, services=None):
    r"""Return ``lim epsilon E[sum Q]`` for equal servers under JBT with a constant threshold.

    Parameters
    ----------
    n_servers : int
    threshold : int or math.inf
        1 is JIQ, infinity random routing.
    arrivals, services : laws on whole numbers (`laws.discrete`), or None
        The batch of a slot at capacity, ``E[A] = N E[S]``, and the service that one server offers in a slot. None for
        both: Poisson arrivals and exponential service at rate 1, in continuous time.

    Returns
    -------
    float

    Notes
    -----
    In the limit the queues are a Brownian motion reflected in the orthant; the push at one axis takes `push_share`
    ``c`` from each of the other queues. With ``g`` and ``h`` the variance of a queue's noise and the covariance of
    two, the basic adjoint relation of two symmetric quadratics closes and gives

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
    n, threshold = checks.whole(n_servers, "n_servers"), check_threshold(threshold)
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


def threshold_price():
    """Return s = 0.438900: for two servers ``E[Q1 + Q2]`` grows by s jobs per unit of a large threshold.

    As epsilon and ``r epsilon`` tend to 0 and r to infinity. Not in the paper; derived, as a heuristic, in notebook 01:
    ``s = P(X < Y)`` for independent ``X ~ Beta(1/4, 1/4)`` and ``Y ~ Beta(1/2, 3/4)``.
    """

    def below(u):  # Y = sin(u^2)^2 takes the singularities away
        return 4 * u * math.sqrt(math.cos(u * u)) * betainc(0.25, 0.25, math.sin(u * u) ** 2)

    return scipy.integrate.quad(below, 0.0, math.sqrt(math.pi / 2), epsabs=1e-12)[0] / beta(0.5, 0.75)


def check_threshold(threshold):
    """Return a threshold, a whole number of at least 1 or infinity, or raise."""
    if isinstance(threshold, float) and threshold == math.inf:
        return math.inf
    return checks.whole(threshold, "threshold", why="math.inf stands for random routing")
