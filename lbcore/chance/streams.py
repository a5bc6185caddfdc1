"""Reproducible random streams: one xoshiro256++ generator per replication.

A stream is a ``uint64[4]`` array that the kernels below advance in place. A hot loop may instead
keep the four words in local variables: ``words = load(state)``, then ``value, words = take_*(words)``,
and ``store(state, words)`` at the end. Both forms draw the same numbers.

Sources: Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47 (2021);
Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019);
Marsaglia and Tsang, "The ziggurat method", J. Stat. Softw. 5 (2000), with the full 53 bits as in
Doornik, "An improved ziggurat method to generate normal random samples" (2005).
"""

import math

import numba
import numpy as np

from lbcore import checks
from lbcore.compiled import kernel

_U8, _U11, _U12, _U17, _U19, _U23, _U32, _U41, _U45 = (np.uint64(k) for k in (8, 11, 12, 17, 19, 23, 32, 41, 45))
_ONE, _BYTE, _LOW32, _TWO32 = np.uint64(1), np.uint64(255), np.uint64(2**32 - 1), np.uint64(2**32)


def resolve_seed(seed) -> int:
    """Return a seed that can be written down: `seed` itself, an int >= 0, or a fresh one for None."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return checks.whole(seed, "seed", least=0)


def states(seed, count) -> np.ndarray:
    """Return the initial states of `count` independent streams.

    Stream k depends on `seed` and k alone, so more replications leave the first ones as they were.

    Parameters
    ----------
    seed : int >= 0 or None
        None takes fresh entropy from the system.
    count : int >= 1

    Returns
    -------
    ndarray of uint64, shape (count, 4)
    """
    count = checks.whole(count, "count")
    children = np.random.SeedSequence(resolve_seed(seed)).spawn(count)
    return np.array([child.generate_state(4, np.uint64) for child in children])


def _ziggurat(right, area, density, inverse) -> np.ndarray:
    """Return rows (edge, density at the edge) of 256 layers of equal area, from the base outwards in."""
    edge = np.zeros(257)
    edge[0], edge[1] = area / density(right), right
    for i in range(2, 256):
        edge[i] = inverse(area / edge[i - 1] + density(edge[i - 1]))
    return np.array([edge, [density(x) for x in edge]])


_EXP_X, _EXP_F = _ziggurat(
    7.69711747013104972, 0.0039496598225815571993, lambda x: math.exp(-x), lambda y: -math.log(y)
)
_NOR_X, _NOR_F = _ziggurat(
    3.6541528853610088,
    0.00492867323399,
    lambda x: math.exp(-0.5 * x * x),
    lambda y: math.sqrt(-2.0 * math.log(y)),
)


def _wrapping_kernel(function):
    """Compile a kernel whose 64-bit arithmetic wraps round; interpreted, numpy is told not to warn of it."""
    return np.errstate(over="ignore")(function) if numba.config.DISABLE_JIT else kernel(function)


@kernel
def load(state):
    """Return the four words of a stream as a tuple, to be kept in local variables."""
    return state[0], state[1], state[2], state[3]


@kernel
def store(state, words):
    """Put the four words back into the stream."""
    state[0], state[1], state[2], state[3] = words


@_wrapping_kernel
def take_uint64(words):
    """Return (64 random bits, words), by one step of xoshiro256++."""
    s0, s1, s2, s3 = words
    total = s0 + s3
    result = ((total << _U23) | (total >> _U41)) + s0
    shifted = s1 << _U17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << _U45) | (s3 >> _U19)
    return result, (s0, s1, s2, s3)


@kernel
def take_uniform(words):
    """Return (uniform number strictly between 0 and 1, words): a midpoint of one of 2^52 cells."""
    bits, words = take_uint64(words)
    return (np.float64(np.int64(bits >> _U12)) + 0.5) * 2.0**-52, words


@_wrapping_kernel
def take_below(words, n):
    """Return (uniform int64 in 0 .. n - 1, words) for 1 <= n < 2^32, without bias (Lemire 2019)."""
    bound = np.uint64(n)
    bits, words = take_uint64(words)
    product = (bits >> _U32) * bound
    if product & _LOW32 < bound:
        threshold = (_TWO32 - bound) % bound
        while product & _LOW32 < threshold:
            bits, words = take_uint64(words)
            product = (bits >> _U32) * bound
    return np.int64(product >> _U32), words


@kernel
def take_exponential(words):
    """Return (exponential number of mean 1, words)."""
    while True:
        bits, words = take_uint64(words)
        i = np.int64(bits & _BYTE)
        x = np.float64(np.int64(bits >> _U11)) * 2.0**-53 * _EXP_X[i]
        if x < _EXP_X[i + 1]:
            return x, words
        u, words = take_uniform(words)
        if i == 0:
            return _EXP_X[1] - math.log(u), words
        if _EXP_F[i] + (_EXP_F[i + 1] - _EXP_F[i]) * u < math.exp(-x):
            return x, words


@kernel
def take_normal(words):
    """Return (standard normal number, words)."""
    while True:
        bits, words = take_uint64(words)
        i = np.int64(bits & _BYTE)
        sign = 1.0 - 2.0 * np.float64(np.int64((bits >> _U8) & _ONE))
        x = np.float64(np.int64(bits >> _U11)) * 2.0**-53 * _NOR_X[i]
        if x < _NOR_X[i + 1]:
            return sign * x, words
        u, words = take_uniform(words)
        if i == 0:
            while True:
                v, words = take_uniform(words)
                a = -math.log(u) / _NOR_X[1]
                if -2.0 * math.log(v) >= a * a:
                    return sign * (_NOR_X[1] + a), words
                u, words = take_uniform(words)
        if _NOR_F[i] + (_NOR_F[i + 1] - _NOR_F[i]) * u < math.exp(-0.5 * x * x):
            return sign * x, words


@kernel
def _drawn(state, taken):
    """Return the value of the pair (value, words) and put the words back into the stream."""
    value, words = taken
    store(state, words)
    return value


@kernel
def uniform(state):
    """Return a uniform number strictly between 0 and 1 and advance the stream."""
    return _drawn(state, take_uniform(load(state)))


@kernel
def below(state, n):
    """Return a uniform int64 in 0 .. n - 1 (1 <= n < 2^32) and advance the stream."""
    return _drawn(state, take_below(load(state), n))


@kernel
def exponential(state):
    """Return an exponential number of mean 1 and advance the stream."""
    return _drawn(state, take_exponential(load(state)))


@kernel
def normal(state):
    """Return a standard normal number and advance the stream."""
    return _drawn(state, take_normal(load(state)))
