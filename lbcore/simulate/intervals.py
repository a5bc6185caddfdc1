"""Sums in, numbers with honest 95 % intervals out: warm-up, confidence intervals, control variates.

Warm-up: the rule MSER-5 (White 1997, Simulation 69, 323-334; White, Cobb and Spratt 2000, WSC), with cells in
place of its batches of five, at least a tenth and at most half of the run. MSER likes to drop busy periods,
which biases what is left; so the even replications are cut where the mean of the odd ones says and the other
way round, and a single replication at a fifth.

Intervals: Student t, of the linearised ratio, over batches of the replications, up to 32 of each and about 512
in all, the variance raised for their first-order correlation. Queues being skew, the half-width is the longer
arm of the skewness-adjusted interval (both as in Skart: Tafazzoli, Wilson, Lada and Steiger 2011, INFORMS J.
Comput. 23, 298-314). Control variates: Lavenberg and Welch (1981), Manag. Sci. 27.
"""

import math

import numpy as np
from scipy.special import stdtrit

from lbcore.simulate.results import Estimate


class Sample:
    """Sums after the warm-up, one row for each group: a replication, or a batch of one.

    Parameters
    ----------
    cells : ndarray, shape (replications, cells, k)
    columns : dict of str to int
    cuts : tuple of two ints
        Cells to drop at the start of the even replications, and of the odd ones.
    batches : int, optional
        Groups to make of each replication; by default up to 32, about 512 in all.
    """

    def __init__(self, cells, columns, cuts=(0, 0), batches=None):
        replications, count, width = cells.shape
        if batches is None:
            batches = max(1, min(32, 512 // replications))
        self.batches = min(batches, count - max(cuts))
        self._sums = np.empty((replications, self.batches, width))
        for half, cut in enumerate(cuts):
            edges = cut + np.arange(self.batches) * (count - cut) // self.batches
            self._sums[half::2] = np.add.reduceat(cells[half::2], edges, axis=1)
        self._slices = column_slices(columns)

    def sum(self, name):
        """Return the sums of a column: shape (groups,), or (groups, width) for one wider than 1."""
        sums = self._sums[:, :, self._slices[name]].reshape(-1, *self._sums[0, 0, self._slices[name]].shape)
        return sums[:, 0] if sums.shape[1] == 1 else sums

    def ratio(self, numerator, denominator, controls=()):
        """Estimate E[numerator] / E[denominator] (both per step).

        Parameters
        ----------
        numerator : str or ndarray, shape (groups,) or (groups, m)
            A column's name, or a linear combination of columns made with :meth:`sum`.
        denominator : str or ndarray, shape (groups,)
        controls : sequence of (numerator, denominator, exact)
            Scalar ratios whose exact value is known and which move with the estimate.

        Returns
        -------
        Estimate
            nan, with infinite half-width, where the denominator is 0.

        Notes
        -----
        The ratio v is linearised, ``y_g = v + (N_g - v D_g) / mean(D)``; the estimate is the intercept of the
        regression of y on the controls, likewise linearised and centred at their exact values.
        """
        top, bottom = self._column(numerator), self._column(denominator)
        shape = top.shape[1:]
        y = linearised(top.reshape(len(top), -1), bottom)
        if y is None:
            return _estimate(np.full(shape, math.nan), np.full(shape, math.inf))
        xs = [linearised(self._column(c)[:, None], self._column(d)) - exact for c, d, exact in controls]
        value, residuals, factor, freedom = _intercept(y, xs)
        if freedom < 1:
            return _estimate(value.reshape(shape), np.full(shape, math.inf))
        variance = (residuals**2).sum(axis=0) / freedom * factor
        correlation = np.clip(neighbour_correlation(residuals.reshape(-1, self.batches, y.shape[1])), 0.0, 0.9)
        variance *= (1.0 + correlation) / (1.0 - correlation)
        half_width = _longer_arm(residuals, freedom) * np.sqrt(variance)
        return _estimate(value.reshape(shape), half_width.reshape(shape))

    def probability(self, numerator, denominator):
        """Estimate a probability by a ratio; where all or none of the trials succeeded, by an upper limit.

        There the half-width is -log(0.05) / trials (the "rule of three"), as if the trials were independent.
        """
        plain = self.ratio(numerator, denominator)
        trials = self._column(denominator).sum()
        limit = -math.log(0.05) / trials if trials > 0.0 else math.inf
        return _estimate(plain.value, np.where(np.isin(plain.value, (0.0, 1.0)), limit, plain.half_width))

    def _column(self, column):
        return self.sum(column) if isinstance(column, str) else np.asarray(column)


def _estimate(value, half_width):
    """Return an Estimate, of plain floats if it is a scalar."""
    return Estimate(float(value), float(half_width)) if np.ndim(value) == 0 else Estimate(value, half_width)


def column_slices(columns):
    """Return where each column stands in a row of sums, from the widths: a dict of str to slice."""
    ends = np.cumsum(list(columns.values()))
    return {name: slice(end - columns[name], end) for name, end in zip(columns, ends, strict=True)}


def linearised(top, bottom):
    """Return values whose mean is the ratio of sums, shape (groups, m); None if the denominator is 0."""
    if not bottom.sum() > 0.0:
        return None
    ratio = top.sum(axis=0) / bottom.sum()
    return ratio + (top - ratio * bottom[:, None]) / bottom.mean()


def _intercept(y, xs):
    """Regress y on xs; return (intercept, residuals, variance of the intercept over that of y, freedom).

    By Gram and Schmidt, in plain sums: the same bits in every process, which LAPACK does not promise.

    Parameters
    ----------
    y : ndarray, shape (n, m)
    xs : list of ndarray, shape (n, 1)
        One that is a combination of those before is left out.
    """
    value, residuals = y.mean(axis=0), y - y.mean(axis=0)
    factor, freedom, used = 1.0 / len(y), len(y) - 1, []
    for x in xs:
        mean = x.mean()
        x = x - mean
        square = (x**2).sum()
        for other, other_mean, other_square in used:
            share = (x * other).sum() / other_square
            x = x - share * other
            mean -= share * other_mean
        if (x**2).sum() > 1e-18 * square:
            square = (x**2).sum()
            slope = (x * residuals).sum(axis=0) / square
            value, residuals = value - slope * mean, residuals - x * slope
            factor, freedom = factor + mean**2 / square, freedom - 1
            used.append((x, mean, square))
    return value, residuals, factor, freedom


def neighbour_correlation(deviations):
    """Return the correlation of neighbours along axis 1, shape (m,); 0 where there are none."""
    pairs = deviations.shape[1] - 1
    square = (deviations**2).mean(axis=(0, 1))
    if pairs < 1:
        return np.zeros_like(square)
    product = (deviations[:, 1:] * deviations[:, :-1]).mean(axis=(0, 1))
    return np.divide(product, square, out=np.zeros_like(square), where=square > 0.0)


def _longer_arm(residuals, freedom):
    """Return the 97.5 % point of Student's t, lengthened for the skewness of the residuals (Skart, step 6).

    G(t) = ((1 + 6 b (t - b))^(1/3) - 1) / (2 b), b = skewness / (6 sqrt(n)); the longer of G(t) and -G(-t).
    """
    n = len(residuals)
    t = stdtrit(freedom, 0.975)
    if n < 3:
        return np.full(residuals.shape[1], t)
    spread = np.sqrt((residuals**2).sum(axis=0) / freedom)
    third = (residuals**3).sum(axis=0) * n / ((n - 1) * (n - 2))
    b = np.divide(np.abs(third), spread**3, out=np.zeros_like(third), where=spread > 1e-100) / (6.0 * math.sqrt(n))
    safe = np.maximum(b, 1e-6)
    return np.where(b > 1e-6, (1.0 - np.cbrt(1.0 - 6.0 * safe * (t + safe))) / (2.0 * safe), t)


def mser(series) -> int:
    """Return how many leading values to drop: the rule MSER of White (1997).

    The number d, at most half of them, that minimises ``sum_{i >= d} (x_i - mean)^2 / (n - d)^2``.

    Parameters
    ----------
    series : array_like of float, shape (n,)
    """
    x = np.asarray(series, dtype=float)
    x = x - x.mean()
    left = np.arange(len(x), 0, -1.0)
    total, square = np.cumsum(x[::-1])[::-1], np.cumsum(x[::-1] ** 2)[::-1]
    return int(np.argmin(((square - total**2 / left) / left**2)[: len(x) // 2 + 1]))


def warm_up(top, bottom):
    """Return the cells to drop of the even and of the odd replications, from arrays (replications, cells)."""
    count = top.shape[1]
    if len(top) == 1:
        return (count // 5, count // 5)
    found = (mser(top[half::2].sum(axis=0) / bottom[half::2].sum(axis=0)) for half in (1, 0))
    return tuple(max(cut, count // 10) for cut in found)
