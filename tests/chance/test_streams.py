"""Random streams: the generator itself, the laws drawn, reproducibility."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lbcore.chance import streams
from lbcore.compiled import kernel

JITTED = hasattr(streams.uniform, "py_func")
COUNT = 200_000 if JITTED else 500
MASK = 2**64 - 1


def xoshiro256pp(words):
    """The generator in plain integers, as published by Blackman and Vigna."""
    s0, s1, s2, s3 = words

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & MASK

    result = (rotated((s0 + s3) & MASK, 23) + s0) & MASK
    t = (s1 << 17) & MASK
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    return result, (s0, s1, s2, rotated(s3, 45))


@kernel
def fill(which, n, state, out):
    for i in range(out.size):
        if which == 0:
            out[i] = streams.uniform(state)
        elif which == 1:
            out[i] = streams.exponential(state)
        elif which == 2:
            out[i] = streams.normal(state)
        else:
            out[i] = streams.below(state, n)


@kernel
def fill_from_words(which, n, state, out):
    words = streams.load(state)
    for i in range(out.size):
        if which == 0:
            out[i], words = streams.take_uniform(words)
        elif which == 1:
            out[i], words = streams.take_exponential(words)
        elif which == 2:
            out[i], words = streams.take_normal(words)
        else:
            out[i], words = streams.take_below(words, n)
    streams.store(state, words)


def drawn(which, n=1, seed=1, count=COUNT):
    out = np.empty(count)
    fill(which, n, streams.states(seed, 1)[0], out)
    return out


@settings(deadline=None)
@given(st.tuples(*[st.integers(0, MASK)] * 4))
def test_bits_are_those_of_the_published_generator(words):
    state = np.array(words, dtype=np.uint64)
    for _ in range(5):
        expected, words = xoshiro256pp(words)
        bits, state[:] = streams.take_uint64(tuple(state))
        assert int(bits) == expected
        assert tuple(int(w) for w in state) == words


@pytest.mark.parametrize(
    ("which", "law"),
    [(0, stats.uniform()), (1, stats.expon()), (2, stats.norm())],
    ids=["uniform", "exp", "normal"],
)
def test_laws(which, law):
    sample = drawn(which)
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3
    for order in (1, 2, 3, 4):
        moment, spread = law.moment(order), np.sqrt(law.moment(2 * order) - law.moment(order) ** 2)
        assert abs(np.mean(sample**order) - moment) < 5.0 * spread / np.sqrt(sample.size)


@pytest.mark.skipif(not JITTED, reason="needs many draws")
@pytest.mark.parametrize(("which", "law", "far"), [(1, stats.expon(), 8.0), (2, stats.norm(), 3.8)])
def test_tails_beyond_the_ziggurat(which, law, far):
    sample = drawn(which, seed=2, count=4_000_000)
    expected = sample.size * law.sf(far)
    assert abs(np.sum(sample > far) - expected) < 5.0 * np.sqrt(expected)
    beyond = sample[sample > far]
    assert stats.kstest(beyond, lambda x: 1.0 - law.sf(x) / law.sf(far)).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_below_is_uniform(n):
    sample = drawn(3, n).astype(int)
    assert sample.min() >= 0 and sample.max() < n
    if n > 1:
        assert stats.chisquare(np.bincount(sample % 100, minlength=min(n, 100))).pvalue > 1e-3


def test_below_rejects_what_would_be_biased():
    """With n = 3 * 2^30 a quarter of the words must be redrawn; without that, every third value is twice as likely."""
    n = 3 * 2**30
    sample = drawn(3, n)
    assert sample.max() < n
    assert stats.chisquare(np.bincount((sample % 3).astype(int), minlength=3)).pvalue > 1e-3


@pytest.mark.parametrize("which", range(4))
def test_words_in_locals_draw_the_same_numbers(which):
    a, b = streams.states(5, 1)[0], streams.states(5, 1)[0]
    one, other = np.empty(1000), np.empty(1000)
    fill(which, 10, a, one)
    fill_from_words(which, 10, b, other)
    assert np.array_equal(one, other) and np.array_equal(a, b)


def test_uniform_stays_inside():
    sample = drawn(0)
    assert sample.min() > 0.0 and sample.max() < 1.0


def test_streams_depend_on_seed_and_number_only():
    assert np.array_equal(streams.states(3, 2), streams.states(3, 5)[:2])
    assert not np.array_equal(streams.states(3, 2), streams.states(4, 2))
    assert not np.array_equal(streams.states(None, 1), streams.states(None, 1))


def test_streams_are_not_correlated():
    states = streams.states(1, 40)
    draws = np.empty((40, COUNT // 40))
    for state, row in zip(states, draws, strict=True):
        fill(0, 1, state, row)
    correlation = np.corrcoef(draws)[np.triu_indices(40, 1)]
    assert abs(correlation).max() < 5.0 / np.sqrt(draws.shape[1])
    assert abs(np.mean(correlation)) < 5.0 / np.sqrt(draws.shape[1] * correlation.size)


def test_seed_that_can_be_written_down():
    assert streams.resolve_seed(np.int64(7)) == streams.resolve_seed(7.0) == 7
    assert streams.resolve_seed(2**128 - 1) == 2**128 - 1
    fresh = streams.resolve_seed(None)
    assert isinstance(fresh, int) and fresh != streams.resolve_seed(None)
    assert streams.resolve_seed(fresh) == fresh


@pytest.mark.parametrize("seed", [-1, 1.5, "1", [1], True])
def test_bad_seed(seed):
    with pytest.raises((TypeError, ValueError), match="seed must be a whole number of at least 0, not "):
        streams.states(seed, 1)


@pytest.mark.parametrize("count", [0, -1, 1.5, None])
def test_bad_count(count):
    with pytest.raises((TypeError, ValueError), match="count must be a whole number of at least 1, not "):
        streams.states(1, count)
