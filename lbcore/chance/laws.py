"""Service and interarrival laws: moments, tail, residual (equilibrium) tail, sampling.

A law is a frozen record made by one of the functions below, with mean 1 unless `mean` says otherwise::

    law = laws.lognormal(cv2=4)
    law.mean, law.variance, law.cv2, law.tail(3.0), law.residual_tail(3.0), law.sample(rng, 10)

``tail(w)`` is P(S > w); ``residual_tail(w)`` is (1 / E S) times the integral of the tail from w on: the
law of the remaining service that a random instant finds, Phi^c of Foss and Stolyar (2017). Both are
evaluated without cancellation, so that they keep their relative precision far out in the tail.

Each function states its law in one place: both tails, and a sampler of :mod:`lbcore.chance.draws` with its parameters.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbcore import checks
from lbcore.chance import draws


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Law:
    """Law of a nonnegative random variable."""

    name: str  # the call that makes it
    mean: float  # positive and finite
    variance: float  # may be infinite
    own_tail: Callable  # of finite arrays, before the law is stretched
    own_residual_tail: Callable
    packed: np.ndarray  # of float64: what the jitted `draws.fill` draws from
    # Whether normal intervals for a mean wait are honest: in a FIFO queue the time average of the waits has a finite
    # asymptotic variance only if E S^4 is finite
    fourth_moment_finite: bool = True
    # whether known, the class for which reference [11] of Foss and Stolyar proves their limit at every load below 1
    decreasing_hazard_rate: bool = False
    components: tuple = ()  # the laws of a mixture

    def __post_init__(self):
        if self.packed[0] not in draws.CODES:
            raise ValueError(f"the sampler of {self.name} must be one of lbcore.draws, not number {self.packed[0]:g}")
        self.packed.setflags(write=False)

    def __repr__(self):
        return self.name

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation, variance / mean^2."""
        return self.variance / self.mean**2

    def tail(self, w):
        """Return P(S > w), a float or an array of the shape of `w` >= 0."""
        return self._evaluate(self.own_tail, w)

    def residual_tail(self, w):
        """Return (1 / mean) times the integral of the tail over (w, infinity), shaped like `w` >= 0."""
        return self._evaluate(self.own_residual_tail, w)

    def _evaluate(self, function, w):
        w = checks.array(w, "w", least=0.0)
        far = np.isinf(w)
        with np.errstate(all="ignore"):  # log 0, and powers that leave the doubles, are meant
            values = np.where(far, 0.0, np.minimum(function(np.where(far, 1.0, w) / self.packed[1]), 1.0))
        return values if values.ndim else float(values)

    def sample(self, rng, size):
        """Return independent draws, ndarray of float64 of shape `size`, by the sampler the kernels use.

        Parameters
        ----------
        rng : numpy.random.Generator
            Gives the seed of the stream the draws come from.
        size : int or tuple of int
        """
        checks.made_by(rng, "rng", np.random.Generator, "numpy.random.default_rng(seed)")
        out = np.empty(size)
        draws.fill(self.packed, rng.integers(0, 2**64, 4, dtype=np.uint64), out.reshape(-1))
        return out

    def stretched(self, factor) -> "Law":
        """Return the law of `factor` times the variable, for a positive finite factor."""
        factor = checks.real(factor, "factor", above=0.0)
        packed = self.packed.copy()
        packed[1] *= factor
        name = self.name if factor == 1.0 else f"{factor:g} x {self.name}"
        return replace(self, name=name, mean=self.mean * factor, variance=self.variance * factor**2, packed=packed)


# ---- families, each given by its form of mean 1 ------------------------------------------------------------


def _family(name, given, mean, cv2, sampler, tail, residual_tail, **properties) -> Law:
    """Return the law ``name(*given)``, stretched to `mean`; `sampler` is a code of draws and its parameters."""
    mean = checks.real(mean, "mean", above=0.0)
    shown = [f"{a:g}" for a in given] + [f"mean={mean:g}"] * (mean != 1.0)
    name = f"{name}({', '.join(shown)})"
    if math.isinf(cv2 * mean**2) and not math.isinf(cv2):
        raise ValueError(f"{name} has a variance beyond the doubles")
    code, *parameters = sampler
    packed = np.zeros(draws.HEADER)
    packed[: 2 + len(parameters)] = [code, mean, *parameters]
    return Law(
        name=name, mean=mean, variance=cv2 * mean**2, own_tail=tail, own_residual_tail=residual_tail, packed=packed,
        **properties,
    )  # fmt: skip


def exponential(mean=1.0) -> Law:
    """Exponential law."""
    tails = [lambda w: np.exp(-w)] * 2
    return _family("exponential", [], mean, 1.0, [draws.EXPONENTIAL], *tails, decreasing_hazard_rate=True)


def deterministic(mean=1.0) -> Law:
    """Constant `mean`."""
    tails = (lambda w: np.where(w < 1.0, 1.0, 0.0)), (lambda w: np.maximum(1.0 - w, 0.0))
    return _family("deterministic", [], mean, 0.0, [draws.DETERMINISTIC], *tails)


def erlang(k, mean=1.0) -> Law:
    """Sum of k independent exponentials, 1 <= k <= 1000; its squared coefficient of variation is 1/k."""
    k = checks.whole(k, "k", most=1000)

    def phases(w, weight):
        return sum(weight(j) * np.exp(special.xlogy(j, k * w) - k * w - special.gammaln(j + 1)) for j in range(k))

    # the residual law is Erlang(i) with i uniform on 1 .. k: phase j counts in k - j of them
    tails = (lambda w: phases(w, lambda j: 1.0)), (lambda w: phases(w, lambda j: (k - j) / k))
    return _family("erlang", [k], mean, 1 / k, _gamma(k), *tails, decreasing_hazard_rate=k == 1)


def gamma(cv2, mean=1.0) -> Law:
    """Gamma law of shape 1/cv2, 0.001 <= cv2 <= 1000; decreasing hazard rate from 1 on."""
    cv2 = checks.real(cv2, "cv2", least=1e-3, most=1e3)
    shape = 1 / cv2

    def tail(w):
        return special.gammaincc(shape, shape * w)

    def residual_tail(w):
        # E(S - w)^+ cancels far out; there it is the tail times the mean excess, by Legendre's continued fraction
        near, x, fraction = special.gammaincc(shape + 1, shape * w) - w * tail(w), shape * w, 0.0
        for j in range(100, 0, -1):
            fraction = j * (j - shape) / (x + 2 * j + 1 - shape - fraction)
        return np.where(x > shape + 1 + math.sqrt(shape), tail(w) * (1.0 - fraction) / shape, near)

    return _family("gamma", [cv2], mean, cv2, _gamma(shape), tail, residual_tail, decreasing_hazard_rate=cv2 >= 1)


def _gamma(shape):
    """Return the sampler of the gamma law of mean 1."""
    raised = shape if shape >= 1 else shape + 1
    code = draws.GAMMA if shape >= 1 else draws.GAMMA_BELOW_1
    return [code, 1 / shape, raised - 1 / 3, 1 / math.sqrt(9 * raised - 3)]


def hyperexponential(cv2, mean=1.0) -> Law:
    """One of two exponentials with balanced means, p1 m1 = p2 m2; variance cv2 mean^2, cv2 >= 1."""
    cv2 = checks.real(cv2, "cv2", least=1.0, why="erlang(k) has 1/k")
    q = 1.0 / ((cv2 + 1.0) * (1.0 + math.sqrt((cv2 - 1.0) / (cv2 + 1.0))))
    m1, m2 = 0.5 / (1.0 - q), 0.5 / q
    tails = (
        lambda w: (1 - q) * np.exp(-w / m1) + q * np.exp(-w / m2),
        lambda w: (np.exp(-w / m1) + np.exp(-w / m2)) / 2,
    )
    sampler = [draws.HYPEREXPONENTIAL, q, m1, m2]
    return _family("hyperexponential", [cv2], mean, cv2, sampler, *tails, decreasing_hazard_rate=True)


def lognormal(cv2, mean=1.0) -> Law:
    """Exponential of a normal variable; variance cv2 mean^2, cv2 > 0."""
    cv2 = checks.real(cv2, "cv2", above=0.0)
    s2 = math.log1p(cv2)
    mu, sigma = -s2 / 2, math.sqrt(s2)

    def tail(w):
        return special.ndtr((mu - np.log(w)) / sigma)

    def residual_tail(w):
        # E(S - w)^+ = Phi(sigma - z) - w Phi(-z) cancels for large z; as phi(z - sigma) = w phi(z) it is
        # also w phi(z) (R(z - sigma) - R(z)), R the Mills ratio
        z = (np.log(w) - mu) / sigma
        near = special.ndtr(sigma - z) - w * special.ndtr(-z)
        mills = special.erfcx((z - sigma) / math.sqrt(2)) - special.erfcx(z / math.sqrt(2))
        return np.where(z > 0.0, w * np.exp(-z * z / 2) * mills / 2, near)

    return _family("lognormal", [cv2], mean, cv2, [draws.LOGNORMAL, mu, sigma], tail, residual_tail)


def weibull(shape, mean=1.0) -> Law:
    """Weibull law, tail exp(-(w/scale)^shape), 0.02 <= shape <= 1000; decreasing hazard rate up to 1."""
    shape = checks.real(shape, "shape", least=0.02, most=1000.0)
    cv2 = math.expm1(math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape))
    scale, inverse = 1 / math.gamma(1 + 1 / shape), 1 / shape

    def tail(w):
        return np.exp(-((w / scale) ** (1 / inverse)))

    def residual_tail(w):
        x = (w / scale) ** (1 / inverse)
        return np.where(x < 1e-17, 1.0 - w, special.gammaincc(inverse, x))  # x may underflow while w counts

    sampler = [draws.WEIBULL, scale, inverse]
    return _family("weibull", [shape], mean, cv2, sampler, tail, residual_tail, decreasing_hazard_rate=shape <= 1)


def uniform(mean=1.0) -> Law:
    """Uniform law on (0, 2 mean)."""
    tails = (lambda w: np.maximum(1.0 - w / 2, 0.0)), (lambda w: np.maximum(1.0 - w / 2, 0.0) ** 2)
    return _family("uniform", [], mean, 1 / 3, [draws.UNIFORM], *tails)


def pareto(shape, mean=1.0) -> Law:
    """Pareto law, tail (smallest/w)^shape beyond its smallest value, shape > 1; no variance up to 2."""
    shape = checks.real(shape, "shape", above=1.0, why="its mean would be infinite")
    cv2 = 1 / (shape * (shape - 2)) if shape > 2 else math.inf
    smallest, inverse = (shape - 1) / shape, 1 / shape

    def tail(w):
        return (smallest / np.maximum(w, smallest)) ** (1 / inverse)

    def residual_tail(w):
        beyond = inverse * (smallest / np.maximum(w, smallest)) ** (1 / inverse - 1)
        return np.where(w < smallest, 1.0 - w, beyond)

    sampler = [draws.PARETO, smallest, inverse]
    return _family("pareto", [shape], mean, cv2, sampler, tail, residual_tail, fourth_moment_finite=shape > 4)


def lomax(shape, mean=1.0) -> Law:
    """Lomax law, a Pareto law that starts from 0: tail (1 + w/scale)^-shape, shape > 1; decreasing hazard rate."""
    shape = checks.real(shape, "shape", above=1.0, why="its mean would be infinite")
    cv2 = shape / (shape - 2) if shape > 2 else math.inf
    scale, inverse = shape - 1, 1 / shape
    sampler = [draws.PARETO, scale, inverse, scale]
    tails = (lambda w: (1.0 + w / scale) ** (-1 / inverse)), (lambda w: (1.0 + w / scale) ** (1 - 1 / inverse))
    known = {"decreasing_hazard_rate": True, "fourth_moment_finite": shape > 4}
    return _family("lomax", [shape], mean, cv2, sampler, *tails, **known)


# ---- discrete laws, samples, mixtures ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DiscreteLaw(Law):
    """Law on finitely many points: `values` increase, `probabilities` are positive and sum to 1."""

    points: np.ndarray  # the values before stretching
    probabilities: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The points, shape (m,)."""
        return self.points * self.packed[1]


def _shares(weights, name, size):
    array = checks.vector(weights, name, size=size, least=0.0)
    if abs(array.sum() - 1.0) > 1e-9:
        raise ValueError(f"{name} must sum to 1, not to {array.sum()}")
    return array / array.sum()


def _factor(name, mean, own_mean):
    """Return what stretches `own_mean` to `mean`, 1 for None."""
    if own_mean == 0.0:
        raise ValueError(f"{name} is always 0; a law must have a positive mean")
    return 1.0 if mean is None else checks.real(mean, "mean", above=0.0) / own_mean


def _discrete(name, values, probabilities, mean, samples=None) -> DiscreteLaw:
    points, index = np.unique(values, return_inverse=True)
    probabilities = np.bincount(index, probabilities)
    points, probabilities = points[probabilities > 0.0], probabilities[probabilities > 0.0]
    own_mean = float(points @ probabilities)
    factor = _factor(name, mean, own_mean)
    mean = own_mean * factor
    if samples is None:
        threshold, other = draws.alias_table(probabilities)
        code, table = draws.DISCRETE, [threshold, points, points[other.astype(np.int64)]]
    else:
        code, table = draws.EMPIRICAL, [samples]
    above = np.append(np.cumsum(probabilities[::-1])[::-1], 0.0)  # P(S >= points[k]), k = 0 .. m
    steps = above[1:-1] * np.diff(points)
    beyond = np.append(np.cumsum(steps[::-1])[::-1], [0.0, 0.0])  # the integral of the tail from there on

    def tail(w):
        return above[np.searchsorted(points, w, side="right")]

    def residual_tail(w):
        k = np.searchsorted(points, w, side="right")  # the next point above w
        return (beyond[k] + above[k] * (np.append(points, 0.0)[k] - w)) * factor / mean

    return DiscreteLaw(
        name=name, mean=mean, variance=float((points - own_mean) ** 2 @ probabilities) * factor**2, own_tail=tail,
        own_residual_tail=residual_tail, packed=np.concatenate([[code, factor, 0.0, 0.0, 0.0], *table]),
        points=points, probabilities=probabilities,
    )  # fmt: skip


def discrete(values, probabilities, mean=None) -> DiscreteLaw:
    """Law on finitely many points; the batches and offers of slotted time are whole numbers.

    Parameters
    ----------
    values : array_like of float >= 0, shape (m,)
    probabilities : array_like of float >= 0, shape (m,)
        Sum to 1.
    mean : float > 0 or None
        The values are stretched to this mean; None keeps them as they are.
    """
    values = checks.vector(values, "values", least=0.0)
    probabilities = _shares(probabilities, "probabilities", values.size)
    return _discrete(f"discrete law on {values.size} values", values, probabilities, mean)


def bernoulli(probability, value=1) -> DiscreteLaw:
    """The whole number `value` >= 1 with this probability in (0, 1], otherwise 0."""
    probability = checks.real(probability, "probability", above=0.0, most=1.0)
    return discrete([0, checks.whole(value, "value")], [1.0 - probability, probability])


def empirical(samples, mean=1.0) -> DiscreteLaw:
    """Law of the user's own data: each sample >= 0 with the same probability; `mean` as in :func:`discrete`.

    Read a CSV file with ``numpy.loadtxt`` or ``numpy.genfromtxt``.
    """
    samples = checks.vector(samples, "samples", least=0.0)
    weights = np.full(len(samples), 1.0 / len(samples))
    return _discrete(f"empirical law of {len(samples)} samples", samples, weights, mean, samples)


def mixture(weights, laws, mean=1.0) -> Law:
    """Law drawn from one of several laws, whose means count: ``mixture([.9, .1], [erlang(3), uniform(20)])``.

    Parameters
    ----------
    weights : array_like of float >= 0, shape (m,)
        Sum to 1.
    laws : sequence of m Law
        Not mixtures themselves.
    mean : float > 0 or None
        The mixture is stretched to this mean; None keeps it as it is.
    """
    for law in (laws := np.atleast_1d(np.array(laws, object))):
        if not isinstance(law, Law) or law.components:
            raise TypeError(f"laws must be made by the functions of lbcore.laws, mixture excepted, not {law!r}")
    weights = _shares(weights, "weights", len(laws))
    laws, weights = tuple(laws[weights > 0.0]), weights[weights > 0.0]
    name = f"mixture of {', '.join(map(str, laws))}"
    means = np.array([law.mean for law in laws])
    own_mean = float(weights @ means)
    factor = _factor(name, mean, own_mean)
    variance = float(weights @ ([law.variance for law in laws] + (means - own_mean) ** 2)) * factor**2
    tables = [law.packed[draws.HEADER :] for law in laws]
    sizes = np.array([len(table) for table in tables])
    starts = (3 + draws.ROW) * len(laws) + np.cumsum(sizes) - sizes
    rows = [[*law.packed[: draws.HEADER], *place] for law, *place in zip(laws, starts, sizes, strict=True)]
    threshold, other = draws.alias_table(weights)
    header = [draws.MIXTURE, factor, len(laws), 0.0, 0.0]

    def tail(w):
        return sum(p * law.tail(w) for p, law in zip(weights, laws, strict=True))

    def residual_tail(w):
        shares = [p * law.mean for p, law in zip(weights, laws, strict=True)]
        return sum(a * law.residual_tail(w) for a, law in zip(shares, laws, strict=True)) / sum(shares)

    return Law(
        name=name, mean=own_mean * factor, variance=variance, own_tail=tail, own_residual_tail=residual_tail,
        packed=np.concatenate([header, threshold, np.arange(len(laws)), other, *rows, *tables]), components=laws,
        fourth_moment_finite=all(law.fourth_moment_finite for law in laws),
        decreasing_hazard_rate=all(law.decreasing_hazard_rate for law in laws),  # closed under mixing (Proschan 1963)
    )  # fmt: skip


def __getattr__(name):  # names of the first house
    old = {"pmf": discrete, "lattice": lambda values, probabilities, mean=1.0: discrete(values, probabilities, mean)}
    if name not in old:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"laws.{name} is called laws.discrete now", FutureWarning, stacklevel=2)
    return old[name]
