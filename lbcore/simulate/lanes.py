"""The occupancy-count chain of 16 replications at once, in the vector lanes of the processor.

The same chain, driven by the same random words, as :func:`markov._occupancy_kernel`, written without branches in
loops over lanes that LLVM turns into vector code. Level by level: with a mark k, an arrival joins the first level
i with ``counts[i] <= k`` and a departure leaves the last level with ``counts[i] > k``, so either changes
``counts[i]`` by ``(side > k) - (counts[i] > k)``, ``side`` being the level below for an arrival, above for a departure.
Twelve levels are kept; a block of steps in which some queue outgrows them is undone and left to the scalar kernel.
"""

import math

import numpy as np

from lbcore.chance import streams
from lbcore.compiled import kernel

LANES, LEVELS = 16, 12
SHORTEST, BELOW, SAMPLED = range(3)
_BLOCK = 64
# Rows of 16 numbers: sums, the state, counts of levels 0 .. 13 (always n, and 0), their time integrals
TIME, RATE_TOTAL, ALL_BUSY, JOINED, TOTAL, FIRST, LOW = range(7)
COUNTS = 7
AREAS = COUNTS + LEVELS + 2
ROWS = AREAS + LEVELS + 1
_LOW32, _U11 = np.uint64(2**32 - 1), np.uint64(11)


@kernel
def _level(rule, rows, i, lane, event, below):
    """Update level i of a lane: `event` is what happens, `below` what the levels below have handed up."""
    n, r, mark, arrival, w = event
    left, count, full, squares, at_r, low = below
    right = rows[(COUNTS + i + 1) * LANES + lane]
    side = left if arrival else right
    rows[(AREAS + i) * LANES + lane] += w * count
    after = count + ((1.0 if side > mark else 0.0) - (1.0 if count > mark else 0.0))
    rows[(COUNTS + i) * LANES + lane] = after
    if rule == SHORTEST:
        full += 1.0 if count == n else 0.0
    elif rule == BELOW:
        at_r = after if i == r else at_r
        low += after if i < r else 0.0
    else:
        squares += count * count
    return count, right, full, squares, at_r, low


@kernel
def _four_levels(rule, rows, i, lane, event, below):
    """Update levels i .. i + 3; written out, since LLVM would not unroll a loop here before it vectorises."""
    below = _level(rule, rows, i, lane, event, below)
    below = _level(rule, rows, i + 1, lane, event, below)
    below = _level(rule, rows, i + 2, lane, event, below)
    return _level(rule, rows, i + 3, lane, event, below)


@kernel
def _step(rule, r, n, arrival_rate, a, b, c, words, rows):
    """Run one event in every lane; `rule` is a constant of the caller."""
    for lane in range(LANES):
        old = words[lane], words[LANES + lane], words[2 * LANES + lane], words[3 * LANES + lane]
        bits, new = streams.take_uint64(old)
        words[lane], words[LANES + lane], words[2 * LANES + lane], words[3 * LANES + lane] = new
        words[4 * LANES + lane] = bits
    for lane in range(LANES):
        bits = words[4 * LANES + lane]
        u = np.float64(bits & _LOW32) * 2.0**-32
        busy, total = rows[(COUNTS + 1) * LANES + lane], rows[TOTAL * LANES + lane]
        whole = arrival_rate + busy
        w = 1.0 / whole
        arrival = np.float64(bits >> _U11) * 2.0**-53 * whole < arrival_rate
        rows[TIME * LANES + lane] += w
        rows[RATE_TOTAL * LANES + lane] += w * (busy * total)
        rows[ALL_BUSY * LANES + lane] += w if busy == n else 0.0
        rows[TOTAL * LANES + lane] = total + (1.0 if arrival else -1.0)
        joined, mark = 1.0, n - 0.5
        if rule == BELOW:
            first, low = rows[FIRST * LANES + lane], rows[LOW * LANES + lane]
            jobs = low - (r - 1.0) * first if first < n else total
            first = first if first < n else 0.0
            joined = 1.0 + jobs / (n - first)
            mark = first + u * (n - first)
        elif rule == SAMPLED:
            mark = a + math.sqrt(b + u * c)
        event = n, r, mark if arrival else u * busy, arrival, w
        chain = n, busy, 0.0, 0.0, 0.0, 0.0
        chain = _four_levels(rule, rows, 1, lane, event, chain)
        chain = _four_levels(rule, rows, 5, lane, event, chain)
        if LEVELS > 8:
            chain = _four_levels(rule, rows, 9, lane, event, chain)
        _, _, full, squares, at_r, low = chain
        if rule == SHORTEST:
            joined += full
        elif rule == BELOW:
            rows[FIRST * LANES + lane], rows[LOW * LANES + lane] = at_r, low
        else:
            joined += (squares - 2.0 * a * total) / c
        rows[JOINED * LANES + lane] += w * joined


@kernel
def run(rule, r, n, arrival_rate, a, b, c, words, rows, steps):
    """Run at most `steps` events in each lane; return how many, fewer if a queue outgrew the levels.

    Parameters
    ----------
    rule, r : int
        How arrivals choose, and the threshold of ``BELOW``.
    n, arrival_rate : float
    a, b, c : float
        ``SAMPLED``, two servers: P(both are among q) = (q - 2 a) q / c, b = a^2.
    words : ndarray of uint64, shape (5 * 16,)
        The four words of the 16 streams; the last row is scratch.
    rows : ndarray of float64, shape (ROWS * 16,)
    """
    done = 0
    words_before, rows_before = words.copy(), rows.copy()
    while done < steps:
        block = min(_BLOCK, steps - done)
        words_before[:], rows_before[:] = words, rows
        for _ in range(block):
            if rule == SHORTEST:
                _step(SHORTEST, r, n, arrival_rate, a, b, c, words, rows)
            elif rule == BELOW:
                _step(BELOW, r, n, arrival_rate, a, b, c, words, rows)
            else:
                _step(SAMPLED, r, n, arrival_rate, a, b, c, words, rows)
        missing = 0.0
        for lane in range(LANES):
            missing += rows[TOTAL * LANES + lane]
            for i in range(1, LEVELS + 1):
                missing -= rows[(COUNTS + i) * LANES + lane]
        if missing > 0.0:
            words[:], rows[:] = words_before, rows_before
            break
        done += block
    return done


def advance(rule, r, n, arrival_rate, pair, states, steps):
    """Pack 16 states into lanes, run them and unpack; return (steps run, sums, counts).

    Parameters
    ----------
    rule, r, n, arrival_rate, pair, steps
        As in :func:`run`, `pair` being (a, b, c).
    states : list of 16 :class:`markov._Arrays`
        With no queue longer than ``LEVELS``; all but the last of `place` is brought up to date.

    Returns
    -------
    done : int
    sums : ndarray, shape (16, 8 + LEVELS)
        In the order of the columns of :mod:`lbcore.simulate.markov`.
    counts : ndarray of int64, shape (LEVELS, 16)
    """
    first, last = COUNTS + 1, COUNTS + 1 + LEVELS
    rows, words = np.zeros((ROWS, LANES)), np.zeros((5, LANES), np.uint64)
    rows[COUNTS] = n
    for lane, state in enumerate(states):
        rows[first:last, lane] = state.counts[1 : LEVELS + 1]
        rows[TOTAL, lane], rows[LOW, lane] = state.place[1:3]
        words[:4, lane] = state.stream
    rows[FIRST] = rows[COUNTS + r]
    done = run(rule, r, float(n), arrival_rate, *pair, words.reshape(-1), rows.reshape(-1), steps)
    counts, areas = rows[first:last].astype(np.int64), rows[AREAS + 1 :]
    for lane, state in enumerate(states):
        state.counts[1 : LEVELS + 1] = counts[:, lane]
        state.stream[:] = words[:4, lane]
        state.place[:3] = 1 + (counts[:, lane] == n).sum(), rows[TOTAL, lane], rows[LOW, lane]
    crossing = areas[r - 1] - areas[r] if rule == BELOW else np.zeros(LANES)
    sums = rows[TIME], areas.sum(axis=0), areas[0], rows[RATE_TOTAL], rows[ALL_BUSY], rows[JOINED], areas[1], crossing
    return done, np.vstack([*sums, areas]).T, counts


def advance_group(model, states, steps, outs):
    """Advance 16 replications of :class:`markov._OccupancyChain`, with a row of `outs` each, as one by one but faster.

    In lanes as long as no queue outgrows them, then for a while one by one.
    """
    r, alone = model.threshold if model.rule == BELOW else 1, 256
    while steps > 0:
        done, arrays = 0, [state.arrays for state in states]
        if all(a.counts[LEVELS + 1] == 0 for a in arrays):
            done, sums, counts = advance(model.rule, r, model.n, model.arrival_rate, model.pair, arrays, steps)
            outs[:, : sums.shape[1]] += sums
            if model.rule == SAMPLED:
                for a, accepted in zip(arrays, model.accept[counts].sum(axis=0), strict=True):
                    a.place[3] = accepted
            steps -= done
        alone = min(2 * alone, 1 << 14) if done < 1024 else 256
        stretch = min(steps, alone)
        for state, out in zip(states, outs, strict=True):
            model.advance(state, stretch, out)
        steps -= stretch


def all_among(n, d, replacement):
    """Return P(all of d sampled servers are among q given ones of n), shape (n + 1,), for q = 0 .. n."""
    q = np.arange(n + 1.0)
    if replacement:
        return (q / n) ** d
    steps = ((q[1:] - d) / q[1:]).clip(0.0)  # P(q - 1) / P(q)
    return np.append(np.cumprod(steps[::-1])[::-1], 1.0)
