"""Sixteen replications at once are the same sixteen replications, event by event."""

import numpy as np
import pytest

from lbcore.chance import streams
from lbcore.simulate import lanes, markov, policies

JITTED = hasattr(policies.choose, "py_func")
SETTINGS = [
    (10, 0.9, policies.jsq()),
    (100, 0.95, policies.jsq()),
    (30, 0.7, policies.jiq()),
    (30, 0.7, policies.jbt(3)),
    (50, 0.9, policies.jsq_d(2)),
    (50, 0.9, policies.jsq_d(2, replacement=True)),
    (2, 0.95, policies.jsq()),  # outgrows the levels again and again
    (2, 0.9, policies.jiq()),
    (1, 0.5, policies.jsq()),
]


@pytest.mark.parametrize(("n", "load", "policy"), SETTINGS, ids=repr)
def test_lanes_run_the_same_chains(n, load, policy):
    model = markov._OccupancyChain(n, load, policy)
    assert model.group == lanes.LANES
    steps = 20_000 if JITTED else 100
    together = [model.start(s) for s in streams.states(1, lanes.LANES)]
    apart = [model.start(s) for s in streams.states(1, lanes.LANES)]
    outs, sums = np.zeros((2, lanes.LANES, sum(model.columns.values())))
    for piece in (steps // 3, 1, steps - steps // 3 - 1):
        model.advance_group(together, piece, outs)
    for state, out in zip(apart, sums, strict=True):
        model.advance(state, steps, out)
    for one, other in zip(together, apart, strict=True):
        size = min(one.arrays.counts.size, other.arrays.counts.size)
        assert np.array_equal(one.arrays.counts[:size], other.arrays.counts[:size])
        assert np.array_equal(one.arrays.place, other.arrays.place) and np.array_equal(
            one.arrays.stream, other.arrays.stream
        )
    assert outs == pytest.approx(sums, rel=1e-8, abs=1e-8)


def test_a_block_that_outgrows_the_levels_is_undone():
    """From a full house an arrival leaves the twelve levels; the lanes then stop before that block."""
    n, rows, words = 2.0, np.zeros((lanes.ROWS, lanes.LANES)), np.zeros((5, lanes.LANES), np.uint64)
    words[:4] = streams.states(1, lanes.LANES).T
    rows[lanes.COUNTS : lanes.COUNTS + lanes.LEVELS + 1] = n
    rows[lanes.TOTAL] = n * lanes.LEVELS
    before = rows.copy(), words.copy()
    done = lanes.run(lanes.SHORTEST, 1, n, 1.9, 0.0, 0.0, 1.0, words.reshape(-1), rows.reshape(-1), 200)
    assert done == 0 and np.array_equal(rows, before[0]) and np.array_equal(words, before[1])


def test_only_rules_that_fit_are_run_in_lanes():
    groups = [
        markov._OccupancyChain(50, 0.5, p).group
        for p in (
            policies.random(),
            policies.jbt(lanes.LEVELS),
            policies.jbt(lanes.LEVELS - 1),
            policies.jsq_d(3),
        )
    ]
    assert groups == [1, 1, lanes.LANES, 1]
