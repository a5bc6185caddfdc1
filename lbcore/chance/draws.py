"""Jitted draws from the laws of ``laws.py``.

A law reaches a kernel as one array, never as a function, so that kernels stay cached on disk. It holds the
family's code, a factor that stretches every draw, three parameters p0, p1, p2 (their meaning stands beside
each branch below) and, from ``HEADER`` on, the family's table.

Sources: Walker, "An efficient method for generating discrete random variables with general
distributions", ACM TOMS 3 (1977), set up as in Vose, IEEE Trans. Softw. Eng. 17 (1991);
Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
"""

import math

import numpy as np

from lbcore.chance.streams import load, store, take_below, take_exponential, take_normal, take_uniform
from lbcore.compiled import kernel

# a law with any other code is refused where it is made, and would be drawn as nan
EXPONENTIAL, DETERMINISTIC, GAMMA, HYPEREXPONENTIAL, LOGNORMAL, WEIBULL, UNIFORM, PARETO = range(8)
DISCRETE, EMPIRICAL, MIXTURE, GAMMA_BELOW_1 = 8, 9, 10, 11
CODES = range(12)
HEADER = 5
ROW = HEADER + 2  # of a mixture's component: its header, the place of its table among all, the table's size


@kernel
def alias_table(probabilities):
    """Return (threshold, other), both float64 (m,): Walker's alias table of m probabilities that sum to 1.

    A uniform column k is kept with probability ``threshold[k]`` and replaced by ``other[k]`` otherwise.
    """
    m = len(probabilities)
    threshold = probabilities * m
    other = np.arange(m).astype(np.float64)
    small, large = np.empty(m, np.int64), np.empty(m, np.int64)
    n_small, n_large = 0, 0
    for k in range(m):
        if threshold[k] < 1.0:
            small[n_small] = k
            n_small += 1
        else:
            large[n_large] = k
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        other[low] = high
        threshold[high] -= 1.0 - threshold[low]
        if threshold[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    for k in range(n_small):  # left over by rounding alone: their mass is 1 up to a few ulp
        threshold[small[k]] = 1.0
    for k in range(n_large):
        threshold[large[k]] = 1.0
    return threshold, other


@kernel
def take_alias(table, start, m, words):
    """Return (value, words) from m thresholds, m own values and m other values that begin at `start`."""
    u, words = take_uniform(words)
    column = u * m
    k = np.int64(column)
    return table[start + (k + m if column - k < table[start + k] else k + 2 * m)], words


@kernel
def _take_gamma(d, c, words):
    """Return (gamma number of shape d + 1/3 >= 1, words), c = 1/sqrt(9 d) (Marsaglia and Tsang 2000)."""
    while True:
        x, words = take_normal(words)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u, words = take_uniform(words)
            if u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v, words


@kernel
def _take_plain(code, p0, p1, p2, words):
    """Return (value, words) from a law that needs no table, before stretching."""
    if code == EXPONENTIAL:
        return take_exponential(words)
    if code == DETERMINISTIC:
        return 1.0, words
    if code == LOGNORMAL:  # mean and standard deviation of the logarithm
        x, words = take_normal(words)
        return math.exp(p0 + p1 * x), words
    if code == PARETO:  # scale, 1 / shape, shift to the left
        x, words = take_exponential(words)
        return p0 * math.exp(p1 * x) - p2, words
    if code == GAMMA:  # 1 / shape, shape - 1/3, 1 / sqrt(9 shape - 3)
        x, words = _take_gamma(p1, p2, words)
        return p0 * x, words
    if code == HYPEREXPONENTIAL:  # probability of the second branch, means of the first and second
        u, words = take_uniform(words)
        x, words = take_exponential(words)
        return (p2 if u < p0 else p1) * x, words
    if code == WEIBULL:  # scale, 1 / shape
        x, words = take_exponential(words)
        return p0 * x**p1, words
    if code == UNIFORM:
        u, words = take_uniform(words)
        return 2.0 * u, words
    if code == GAMMA_BELOW_1:  # 1 / shape, then as GAMMA with shape + 1, which a power of a uniform number brings down
        x, words = _take_gamma(p1, p2, words)
        boost, words = take_exponential(words)
        return p0 * x * math.exp(-p0 * boost), words
    return math.nan, words


@kernel
def _take_component(row, table, words):
    """Return (value, words) from the component of a mixture whose row begins at `row` of the table."""
    code, start, size = np.int64(table[row]), np.int64(table[row + 5]), np.int64(table[row + 6])
    if code == DISCRETE:
        value, words = take_alias(table, start, size // 3, words)
    elif code == EMPIRICAL:
        k, words = take_below(words, size)
        value = table[start + k]
    else:
        value, words = _take_plain(code, table[row + 2], table[row + 3], table[row + 4], words)
    return table[row + 1] * value, words


@kernel
def fill(law, stream, out):
    """Fill an array with independent draws from a law and advance the stream.

    An array filled part by part gets the same numbers as one filled at once.

    Parameters
    ----------
    law : ndarray of float64, shape (HEADER + any,)
        ``packed`` of a :class:`lbcore.chance.laws.Law`.
    stream : ndarray of uint64, shape (4,)
        Advanced in place.
    out : ndarray of float64, shape (m,)
    """
    code, scale, p0, p1, p2, table = np.int64(law[0]), law[1], law[2], law[3], law[4], law[HEADER:]
    words, size = load(stream), len(out)
    if code == EXPONENTIAL:  # the laws used most have loops of their own: half the time
        for i in range(size):
            x, words = _take_plain(EXPONENTIAL, p0, p1, p2, words)
            out[i] = scale * x
    elif code == LOGNORMAL:
        for i in range(size):
            x, words = _take_plain(LOGNORMAL, p0, p1, p2, words)
            out[i] = scale * x
    elif code == PARETO:
        for i in range(size):
            x, words = _take_plain(PARETO, p0, p1, p2, words)
            out[i] = scale * x
    elif code == DISCRETE:  # an alias table
        m = len(table) // 3
        for i in range(size):
            x, words = take_alias(table, 0, m, words)
            out[i] = scale * x
    elif code == EMPIRICAL:  # the samples
        m = len(table)
        for i in range(size):
            k, words = take_below(words, m)
            out[i] = scale * table[k]
    elif code == MIXTURE:  # p0 components: an alias table, a row for each component, their tables
        m = np.int64(p0)
        for i in range(size):
            component, words = take_alias(table, 0, m, words)
            x, words = _take_component(3 * m + ROW * np.int64(component), table, words)
            out[i] = scale * x
    else:
        for i in range(size):
            x, words = _take_plain(code, p0, p1, p2, words)
            out[i] = scale * x
    store(stream, words)
