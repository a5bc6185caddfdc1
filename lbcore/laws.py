"""Service and interarrival laws: moments, tail, residual (equilibrium) tail, sampling.

A law is a frozen record made by one of the functions below, with mean 1 unless `mean` says otherwise::

    law = laws.lognormal(cv2=4)
    law.mean, law.variance, law.cv2, law.tail(3.0), law.residual_tail(3.0), law.sample(rng, 10)

``tail(w)`` is P(S > w); ``residual_tail(w)`` is (1 / E S) times the integral of the tail from w on: the
law of the remaining service that a random instant finds, Phi^c of Foss and Stolyar (2017). Both are
evaluated without cancellation, so that they keep their relative precision far out in the tail.
"""

import math
import numbers
import operator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbcore import draws


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """Law of a nonnegative random variable.

    Attributes
    ----------
    name : str
        The call that makes it.
    mean : float
        Positive and finite.
    variance : float
        May be infinite.
    packed : ndarray of float64
        What the jitted :func:`lbcore.draws.fill` draws from.
    fourth_moment_finite : bool
        Whether normal intervals for a mean wait are honest: in a FIFO queue the time average of the waits
        has a finite asymptotic variance only if E S^4 is finite.
    decreasing_hazard_rate : bool
        Whether the law is known to have a decreasing hazard rate, the class for which reference [11] of
        Foss and Stolyar proves their limit at every load below 1.
    """

    name: str
    mean: float
    variance: float
    packed: np.ndarray
    fourth_moment_finite: bool = True
    decreasing_hazard_rate: bool = False

    def __post_init__(self):
        self.packed.setflags(write=False)

    def __repr__(self):
        return self.name

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation, variance / mean^2."""
        return self.variance / self.mean**2

    @property
    def _p(self):
        return self.packed[2 : draws.HEADER]

    def tail(self, w):
        """Return P(S > w), a float or an array of the shape of `w` >= 0."""
        return self._evaluate(self._tail, w)

    def residual_tail(self, w):
        """Return (1 / mean) times the integral of the tail over (w, infinity), shaped like `w` >= 0."""
        return self._evaluate(self._residual_tail, w)

    def _evaluate(self, function, w):
        w = np.asarray(w, dtype=np.float64)
        if not np.all(w >= 0.0):
            raise ValueError(f"w must be >= 0, not {w[~(w >= 0.0)].flat[0]}")
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
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy Generator such as numpy.random.default_rng(1), not {rng!r}")
        out = np.empty(size)
        draws.fill(self.packed, rng.integers(0, 2**64, 4, dtype=np.uint64), out.reshape(-1))
        return out

    def stretched(self, factor) -> "Law":
        """Return the law of `factor` times the variable, for a positive finite factor."""
        factor = number(factor, "factor", 0.0, "a positive finite number")
        packed = self.packed.copy()
        packed[1] *= factor
        name = self.name if factor == 1.0 else f"{factor:g} x {self.name}"
        return replace(self, name=name, mean=self.mean * factor, variance=self.variance * factor**2, packed=packed)


def number(value, name, low, allowed) -> float:
    """Return `value` as a finite float above `low`, or raise with the sentence "`name` must be `allowed`"."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {allowed}, not {value!r}")
    if not low < value < math.inf:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return float(value)


def vector(values, name, allowed="finite numbers >= 0") -> np.ndarray:
    """Return `values` as a nonempty 1-d float array of finite numbers >= 0, or say what is wrong."""
    try:
        array = np.array(values)
    except ValueError:
        raise TypeError(f"{name} must be {allowed}, not rows of different lengths") from None
    if array.dtype.kind not in "biuf":
        bad = next((v for v in array.flat if not isinstance(v, int | float | np.number)), values)
        raise TypeError(f"{name} must be {allowed}; found {str(bad)!r}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be {allowed}, at least one, in one dimension; got shape {array.shape}")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must be {allowed}; {wrong.sum()} of {array.size} are not, first {array[k]} at index {k}"
        )
    return array.astype(np.float64)


def _probabilities(weights, name, count) -> np.ndarray:
    array = vector(weights, name)
    if array.size != count:
        raise ValueError(f"{name} must be as many as what they belong to: {array.size} given for {count}")
    if abs(array.sum() - 1.0) > 1e-9:
        raise ValueError(f"{name} must sum to 1, not to {array.sum()}")
    return array / array.sum()


def _family(cls, name, mean, cv2, code, *parameters, **properties) -> Law:
    """Return a law of a family given by its form of mean 1, stretched to `mean`."""
    mean = number(mean, "mean", 0.0, "a positive finite number")
    if math.isinf(cv2 * mean**2) and not math.isinf(cv2):
        raise ValueError(f"{name} with mean {mean} has a variance beyond the doubles")
    if mean != 1.0:
        name = f"{name[:-1]}{'' if name.endswith('()') else ', '}mean={mean:g})"
    packed = np.zeros(draws.HEADER)
    packed[: 2 + len(parameters)] = [code, mean, *parameters]
    return cls(name, mean, cv2 * mean**2, packed, **properties)


# ---- families: _tail and _residual_tail are those of the form with mean 1 ----------------------------------


class _Exponential(Law):
    def _tail(self, w):
        return np.exp(-w)

    _residual_tail = _tail


def exponential(mean=1.0) -> Law:
    """Exponential law."""
    return _family(_Exponential, "exponential()", mean, 1.0, draws.EXPONENTIAL, decreasing_hazard_rate=True)


class _Deterministic(Law):
    def _tail(self, w):
        return np.where(w < 1.0, 1.0, 0.0)

    def _residual_tail(self, w):
        return np.maximum(1.0 - w, 0.0)


def deterministic(mean=1.0) -> Law:
    """Constant `mean`."""
    return _family(_Deterministic, "deterministic()", mean, 0.0, draws.DETERMINISTIC)


class _Erlang(Law):
    def _tail(self, w):
        return self._poisson_sum(w, lambda j, k: 1.0)

    def _residual_tail(self, w):  # Erlang(i) with i uniform on 1 .. k: phase j counts in k - j of them
        return self._poisson_sum(w, lambda j, k: (k - j) / k)

    def _poisson_sum(self, w, factor):
        k = round(self._p[1] + 1 / 3)
        terms = (factor(j, k) * np.exp(special.xlogy(j, k * w) - k * w - special.gammaln(j + 1)) for j in range(k))
        return sum(terms)


def erlang(k, mean=1.0) -> Law:
    """Sum of k independent exponentials, 1 <= k <= 1000; its squared coefficient of variation is 1/k."""
    try:
        k = operator.index(k)
    except TypeError:
        raise TypeError(f"k must be an integer from 1 to 1000, not {k!r}") from None
    if not 1 <= k <= 1000:
        raise ValueError(f"k must be an integer from 1 to 1000, not {k}")
    parameters = [1 / k, k - 1 / 3, 1 / math.sqrt(9 * k - 3)]
    return _family(_Erlang, f"erlang({k})", mean, 1 / k, draws.ERLANG, *parameters, decreasing_hazard_rate=k == 1)


class _Hyperexponential(Law):
    def _tail(self, w):
        q, m1, m2 = self._p
        return (1 - q) * np.exp(-w / m1) + q * np.exp(-w / m2)

    def _residual_tail(self, w):
        return (np.exp(-w / self._p[1]) + np.exp(-w / self._p[2])) / 2


def hyperexponential(cv2, mean=1.0) -> Law:
    """One of two exponentials with balanced means, p1 m1 = p2 m2; variance cv2 mean^2, cv2 >= 1."""
    cv2 = number(cv2, "cv2", -math.inf, "a finite number >= 1")
    if cv2 < 1.0:
        raise ValueError(f"cv2 of a hyperexponential law must be >= 1, not {cv2}; erlang(k) has 1/k")
    q = 1.0 / ((cv2 + 1.0) * (1.0 + math.sqrt((cv2 - 1.0) / (cv2 + 1.0))))
    parameters = [q, 0.5 / (1.0 - q), 0.5 / q]
    name = f"hyperexponential({cv2:g})"
    return _family(_Hyperexponential, name, mean, cv2, draws.HYPEREXPONENTIAL, *parameters, decreasing_hazard_rate=True)


class _Lognormal(Law):
    def _tail(self, w):
        return special.ndtr((self._p[0] - np.log(w)) / self._p[1])

    def _residual_tail(self, w):
        # E(S - w)^+ = Phi(sigma - z) - w Phi(-z) cancels for large z; as phi(z - sigma) = w phi(z) it is
        # also w phi(z) (R(z - sigma) - R(z)), R the Mills ratio
        mu, sigma, _ = self._p
        z = (np.log(w) - mu) / sigma
        near = special.ndtr(sigma - z) - w * special.ndtr(-z)
        mills = special.erfcx((z - sigma) / math.sqrt(2)) - special.erfcx(z / math.sqrt(2))
        return np.where(z > 0.0, w * np.exp(-z * z / 2) * mills / 2, near)


def lognormal(cv2, mean=1.0) -> Law:
    """Exponential of a normal variable; variance cv2 mean^2, cv2 > 0."""
    cv2 = number(cv2, "cv2", 0.0, "a positive finite number")
    s2 = math.log1p(cv2)
    return _family(_Lognormal, f"lognormal({cv2:g})", mean, cv2, draws.LOGNORMAL, -s2 / 2, math.sqrt(s2))


class _Weibull(Law):
    def _tail(self, w):
        return np.exp(-((w / self._p[0]) ** (1 / self._p[1])))

    def _residual_tail(self, w):
        x = (w / self._p[0]) ** (1 / self._p[1])
        return np.where(x < 1e-17, 1.0 - w, special.gammaincc(self._p[1], x))  # x may underflow while w counts


def weibull(shape, mean=1.0) -> Law:
    """Weibull law, tail exp(-(w/scale)^shape), 0.02 <= shape <= 1000; decreasing hazard rate up to 1."""
    shape = number(shape, "shape", 0.0, "a positive finite number")
    if not 0.02 <= shape <= 1000.0:
        raise ValueError(f"shape of a weibull law must be from 0.02 to 1000, not {shape}")
    cv2 = math.expm1(math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape))
    parameters = [1 / math.gamma(1 + 1 / shape), 1 / shape]
    name = f"weibull({shape:g})"
    return _family(_Weibull, name, mean, cv2, draws.WEIBULL, *parameters, decreasing_hazard_rate=shape <= 1)


class _Uniform(Law):
    def _tail(self, w):
        return np.maximum(1.0 - w / 2, 0.0)

    def _residual_tail(self, w):
        return self._tail(w) ** 2


def uniform(mean=1.0) -> Law:
    """Uniform law on (0, 2 mean)."""
    return _family(_Uniform, "uniform()", mean, 1 / 3, draws.UNIFORM)


class _Pareto(Law):
    def _tail(self, w):
        smallest, inverse_shape, _ = self._p
        return (smallest / np.maximum(w, smallest)) ** (1 / inverse_shape)

    def _residual_tail(self, w):
        smallest, inverse_shape, _ = self._p
        beyond = inverse_shape * (smallest / np.maximum(w, smallest)) ** (1 / inverse_shape - 1)
        return np.where(w < smallest, 1.0 - w, beyond)


def pareto(shape, mean=1.0) -> Law:
    """Pareto law, tail (smallest/w)^shape beyond its smallest value, shape > 1; no variance up to 2."""
    shape = number(shape, "shape", -math.inf, "a finite number > 1")
    if shape <= 1.0:
        raise ValueError(f"shape of a pareto law must be > 1, not {shape}: its mean would be infinite")
    cv2 = 1 / (shape * (shape - 2)) if shape > 2 else math.inf
    parameters = [(shape - 1) / shape, 1 / shape]
    return _family(_Pareto, f"pareto({shape:g})", mean, cv2, draws.PARETO, *parameters, fourth_moment_finite=shape > 4)


class _Lomax(Law):
    def _tail(self, w):
        return (1.0 + w / self._p[0]) ** (-1 / self._p[1])

    def _residual_tail(self, w):
        return (1.0 + w / self._p[0]) ** (1 - 1 / self._p[1])


def lomax(shape, mean=1.0) -> Law:
    """Lomax law, a Pareto law that starts from 0: tail (1 + w/scale)^-shape, shape > 1; decreasing hazard rate."""
    shape = number(shape, "shape", -math.inf, "a finite number > 1")
    if shape <= 1.0:
        raise ValueError(f"shape of a lomax law must be > 1, not {shape}: its mean would be infinite")
    cv2 = shape / (shape - 2) if shape > 2 else math.inf
    parameters, moments = [shape - 1, 1 / shape, shape - 1], {"fourth_moment_finite": shape > 4}
    return _family(
        _Lomax, f"lomax({shape:g})", mean, cv2, draws.PARETO, *parameters, decreasing_hazard_rate=True, **moments
    )


# ---- discrete laws, samples, mixtures ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteLaw(Law):
    """Law on finitely many points: `values` increase, `probabilities` are positive and sum to 1."""

    points: np.ndarray = None  # the values before stretching
    probabilities: np.ndarray = None

    @property
    def values(self) -> np.ndarray:
        """The points, shape (m,)."""
        return self.points * self.packed[1]

    def _tail(self, w):
        return self._suffix()[0][np.searchsorted(self.points, w, side="right")]

    def _residual_tail(self, w):
        tail, integral = self._suffix()
        k = np.searchsorted(self.points, w, side="right")  # the next point above w
        return (integral[k] + tail[k] * (np.append(self.points, 0.0)[k] - w)) * self.packed[1] / self.mean

    def _suffix(self):
        """Return P(S >= points[k]) and the integral of the tail from points[k] on, k = 0 .. m."""
        tail = np.append(np.cumsum(self.probabilities[::-1])[::-1], 0.0)
        steps = tail[1:-1] * np.diff(self.points)
        return tail, np.append(np.cumsum(steps[::-1])[::-1], [0.0, 0.0])


def _factor(name, mean, own_mean) -> float:
    """Return what stretches `own_mean` to `mean`, 1 for None."""
    if own_mean == 0.0:
        raise ValueError(f"{name} is always 0; a law must have a positive mean")
    return 1.0 if mean is None else number(mean, "mean", 0.0, "a positive finite number or None") / own_mean


def _discrete(name, values, probabilities, mean, samples=None) -> DiscreteLaw:
    points, index = np.unique(values, return_inverse=True)
    probabilities = np.bincount(index, probabilities)
    points, probabilities = points[probabilities > 0.0], probabilities[probabilities > 0.0]
    own_mean = float(points @ probabilities)
    factor = _factor(name, mean, own_mean)
    variance = float((points - own_mean) ** 2 @ probabilities) * factor**2
    if samples is None:
        threshold, other = draws.alias_table(probabilities)
        code, table = draws.DISCRETE, [threshold, points, points[other.astype(np.int64)]]
    else:
        code, table = draws.EMPIRICAL, [samples]
    packed = np.concatenate([[code, factor, 0.0, 0.0, 0.0], *table])
    return DiscreteLaw(name, own_mean * factor, variance, packed, points=points, probabilities=probabilities)


def lattice(values, probabilities, mean=1.0) -> DiscreteLaw:
    """Law on finitely many points.

    Parameters
    ----------
    values : array_like of float >= 0, shape (m,)
    probabilities : array_like of float >= 0, shape (m,)
        Sum to 1.
    mean : float > 0 or None
        The values are stretched to this mean; None keeps them as they are.

    Raises
    ------
    TypeError, ValueError
        An argument is not of this form; the message says what is wrong.
    """
    values = vector(values, "values")
    probabilities = _probabilities(probabilities, "probabilities", len(values))
    return _discrete(f"lattice law of {len(values)} points", values, probabilities, mean)


def pmf(values, probabilities) -> DiscreteLaw:
    """Law of the arrivals or services in one slot: integers from 0 to 10^6, never stretched."""
    allowed = "integers from 0 to 10^6"
    values = vector(values, "values", allowed)
    if np.any(values != np.round(values)) or values.max() > 1e6:
        raise ValueError(f"values of a slotted law must be {allowed}")
    probabilities = _probabilities(probabilities, "probabilities", len(values))
    return _discrete(f"slotted law on {len(values)} values", values, probabilities, None)


def bernoulli(probability, value=1) -> DiscreteLaw:
    """Slotted law: the integer `value` >= 1 with this probability in (0, 1], otherwise 0."""
    probability = number(probability, "probability", 0.0, "a number in (0, 1]")
    if probability > 1.0:
        raise ValueError(f"probability must be a number in (0, 1], not {probability}")
    return pmf([0, value], [1.0 - probability, probability])


def empirical(samples, mean=1.0) -> DiscreteLaw:
    """Law of the user's own data: each sample with the same probability.

    Parameters
    ----------
    samples : array_like of float >= 0, shape (m,)
        Read a CSV file with ``numpy.loadtxt`` or ``numpy.genfromtxt``.
    mean : float > 0 or None
        The samples are stretched to this mean; None keeps them as they are.

    Raises
    ------
    TypeError, ValueError
        The samples are empty, negative, not finite, not numbers, or all 0; the message says which.
    """
    samples = vector(samples, "samples")
    weights = np.full(len(samples), 1.0 / len(samples))
    return _discrete(f"empirical law of {len(samples)} samples", samples, weights, mean, samples)


@dataclass(frozen=True, eq=False, repr=False)
class MixtureLaw(Law):
    """Law drawn from `components` with probabilities `weights`, before stretching."""

    weights: np.ndarray = None
    components: tuple = ()

    def _tail(self, w):
        return sum(p * law.tail(w) for p, law in zip(self.weights, self.components, strict=True))

    def _residual_tail(self, w):
        shares = [p * law.mean for p, law in zip(self.weights, self.components, strict=True)]
        parts = (a * law.residual_tail(w) for a, law in zip(shares, self.components, strict=True))
        return sum(parts) / sum(shares)


def mixture(weights, laws, mean=1.0) -> MixtureLaw:
    """Law drawn from one of several laws, whose means count: ``mixture([.9, .1], [erlang(3), uniform(20)])``.

    Parameters
    ----------
    weights : array_like of float >= 0, shape (m,)
        Sum to 1.
    laws : sequence of m Law
        Not mixtures themselves.
    mean : float > 0 or None
        The mixture is stretched to this mean; None keeps it as it is.

    Raises
    ------
    TypeError, ValueError
        `laws` are not laws, or are mixtures, or `weights` do not fit; the message says which.
    """
    laws = tuple(laws)
    for law in laws:
        if not isinstance(law, Law) or isinstance(law, MixtureLaw):
            raise TypeError(f"laws must be laws of this module other than mixtures, not {law!r}")
    weights = _probabilities(weights, "weights", len(laws))
    laws = tuple(law for law, p in zip(laws, weights, strict=True) if p > 0.0)
    weights = weights[weights > 0.0]
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
    return MixtureLaw(
        name,
        own_mean * factor,
        variance,
        np.concatenate([header, threshold, np.arange(len(laws)), other, *rows, *tables]),
        all(law.fourth_moment_finite for law in laws),
        all(law.decreasing_hazard_rate for law in laws),  # closed under mixing (Proschan 1963)
        weights=weights,
        components=laws,
    )
