"""Slotted arrivals and services at distance epsilon to capacity, and the resource-pooled queue they feed.

The pooled queue ``P(t+1) = (P(t) + A(t) - S_1(t) - ... - S_N(t))^+`` is the single server of Zhou, Tan and
Shroff (2018), arXiv 1808.06911, Eq. (2): no policy can have fewer tasks in the mean.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lbcore import checks
from lbcore.chance.laws import DiscreteLaw, Law

GAP = "it is the total service rate less the arrival rate; at 0 or less the queues grow for ever under every policy"
_LARGEST_VALUE = 10**6  # of a batch or an offer
_LARGEST_STEP = 10**7  # arrivals and services of a slot in units of their common divisor


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """Checked laws of one slot; each is a pair of arrays, values (int64) and probabilities."""

    arrivals: tuple  # of the batch; its mean is `rate`
    services: list  # the different laws of the servers' offers
    which: np.ndarray  # int64 (n_servers,): which of them each server has

    @property
    def service_rates(self):
        """Mean services per slot, shape (n_servers,)."""
        return np.array([_mean(law) for law in self.services])[self.which]

    @property
    def capacity(self):
        """Mean services per slot, all servers."""
        return float(sum(c * _mean(law) for law, c in self.counted))

    @property
    def rate(self):
        """Mean arrivals per slot."""
        return _mean(self.arrivals)

    @property
    def noise(self):
        """Variance of the batch plus those of all services: zeta of the paper."""
        return _variance(self.arrivals) + sum(c * _variance(law) for law, c in self.counted)

    @property
    def counted(self):
        """Pairs (law, number of servers that have it)."""
        counts = np.bincount(self.which, minlength=len(self.services)).tolist()
        return list(zip(self.services, counts, strict=True))


def _mean(law):
    values, probabilities = law
    return float((values * probabilities).sum())


def _variance(law):
    values, probabilities = law
    return float(((values - _mean(law)) ** 2 * probabilities).sum())


def slot_laws(arrivals, services, n_servers, epsilon=None) -> SlotLaws:
    """Check the laws of a slot and set the arrival rate, see :func:`pooled_mean` for the arguments."""
    n = checks.whole(n_servers, "n_servers")
    if not isinstance(services, Iterable):
        distinct, which = [services], np.zeros(n, np.int64)
    else:
        services = list(services)
        if len(services) != n:
            raise ValueError(f"services must be one law, or one for each of the {n} servers, not {len(services)} laws")
        distinct = list({id(law): law for law in services}.values())
        place = {id(law): k for k, law in enumerate(distinct)}
        which = np.array([place[id(law)] for law in services])
    laws = SlotLaws(_points(arrivals, "arrivals"), [_points(law, "services") for law in distinct], which)
    capacity = laws.capacity
    if epsilon is None:
        if not laws.rate < capacity:
            raise ValueError(f"arrivals, {laws.rate:g} a slot in the mean, must be fewer than services, {capacity:g}")
        return laws
    gap = checks.real(epsilon, "epsilon", above=0, below=capacity, why=GAP)
    values, probabilities = laws.arrivals
    positive = values > 0
    some = float((capacity - gap) / (values * probabilities).sum() * probabilities[positive].sum())
    if some > 1.0 + 1e-12:
        raise ValueError(
            f"arrivals cannot reach the mean {capacity - gap:g}, the total service rate less epsilon: a nonempty batch "
            f"in every slot gives {(capacity - gap) / some:g}, and epsilon only sets the probability of an empty one"
        )
    batch = probabilities[positive] / probabilities[positive].sum() * some
    values, batch = np.append(0, values[positive]), np.append(max(0.0, 1.0 - some), batch)
    return SlotLaws((values, batch), laws.services, laws.which)


def _points(law, name):
    """Return (values as int64, probabilities) of a law on finitely many whole numbers, or raise."""
    if not isinstance(law, Law):
        raise TypeError(f"{name} must be a law on whole numbers, as lb.laws.discrete([0, 4], [0.5, 0.5]), not {law!r}")
    if not isinstance(law, DiscreteLaw):
        raise ValueError(
            f"{name} = {law!r} will not do: the paper (Zhou, Tan and Shroff 2018) assumes arrivals and services of a "
            "slot to be bounded whole numbers: lb.laws.discrete(values, probabilities) makes such laws"
        )
    values = np.rint(law.values)
    if np.any(values != law.values):
        raise ValueError(f"{name} of a slot must be whole numbers, not {law.values[values != law.values][0]}")
    if values[-1] > _LARGEST_VALUE:
        raise ValueError(f"{name} of a slot must be whole numbers of at most 10^6, not {values[-1]:.10g}")
    return values.astype(np.int64), law.probabilities


def pooled_mean(arrivals, services, n_servers, epsilon=None) -> float:
    """Return the stationary mean of the resource-pooled queue, E[P], to about 9 digits.

    Parameters
    ----------
    arrivals : Law
        Batch of one slot: whole numbers with their probabilities (``lb.laws.discrete``).
    services : Law, or sequence of n_servers Laws
        Services offered by each server in one slot; one law if all servers are equal.
    n_servers : int >= 1
    epsilon : float, optional
        If given, the probability of an empty batch is set so that the mean batch is the total service rate
        less epsilon; the law of a nonempty batch stays.

    Raises
    ------
    ValueError
        A law is not on finitely many whole numbers, or the queue would not be stable.

    Notes
    -----
    With X = arrivals less services and phi its generating function, Spitzer's series (1956, Trans. Am. Math.
    Soc. 82) ``E[P] = sum_k E[(X_1 + ... + X_k)^+] / k``, summed under Cauchy's integral, is that of Pollaczek
    (Abate, Choudhury and Whitt 1993, Queueing Syst. 14)::

        E[P] = (1 / 2 pi i) integral of -log(1 - phi(z)) / (z - 1)^2 dz

    over a circle of radius between 1 and z0, phi(z0) = 1; by Gauss-Legendre rules on intervals of the angle
    that double away from 0.
    """
    return solve_pooled_mean(slot_laws(arrivals, services, n_servers, epsilon))


def solve_pooled_mean(laws) -> float:
    """Return E[P] for checked laws, see :func:`pooled_mean`."""
    parts = [(*laws.arrivals, 1)]
    parts += [(-values, p, count) for (values, p), count in laws.counted]
    highest = sum(int(v.max()) * count for v, _, count in parts)
    if highest <= 0:
        return 0.0
    unit = math.gcd(*(int(v) for values, _, _ in parts for v in values))
    parts = [(values / unit, p, count) for values, p, count in parts]
    reach = sum(np.abs(values).max() * count for values, _, count in parts)
    if reach > _LARGEST_STEP:
        most = f"{_LARGEST_STEP:.0e} is the most"
        raise ValueError(f"arrivals and services of a slot add up to {reach:.3g} times their common divisor; {most}")

    def log_phi(s):
        """Logarithm of the generating function at z = e^s."""
        return sum(count * _log_mean_exp(np.multiply.outer(s, values), p) for values, p, count in parts)

    high = 1e-12
    while log_phi(high).real < 0.0:
        high *= 2.0
    delta = high / 3.0  # log z0 lies between high / 2 and high
    widest = 3.0 / reach
    edges = [0.0, min(delta, widest)]  # of the intervals of the angle
    while edges[-1] < min(widest, math.pi):
        edges.append(2.0 * edges[-1])
    edges = np.append(edges, np.arange(edges[-1] + widest, math.pi + widest, widest)).clip(max=math.pi)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total, block = 0.0, max(10, 10**4 // sum(len(values) for values, _, _ in parts))
    for k in range(0, len(edges) - 1, block):  # to save memory
        part = edges[k : k + block + 1]
        matters = log_phi(delta + 1j * part).real > -60.0  # many servers: the rest is as good as 0
        kept = matters[:-1] | matters[1:]
        half = np.diff(part)[kept, None] / 2.0
        s = delta + 1j * (part[:-1][kept, None] + half * (1.0 + nodes))
        step = np.expm1(s)
        integrand = -np.log(-np.expm1(log_phi(s))) * (1.0 + step) / step**2
        total += float((integrand.real * half * weights).sum())
    return total / math.pi * unit


def _log_mean_exp(exponents, probabilities):
    """Return log sum_k p_k e^(x_k), exponents x along the last axis; accurate for small ones, no overflow."""
    largest = exponents.real.max(axis=-1)
    w = (np.expm1(exponents - largest[..., None]) * probabilities).sum(axis=-1)
    # numpy's log1p is not accurate for small complex numbers
    return largest + 0.5 * np.log1p(w.real * (2.0 + w.real) + w.imag**2) + 1j * np.arctan2(w.imag, 1.0 + w.real)
