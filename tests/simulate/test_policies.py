"""Policies: which server is chosen how often, records, and a user's own function."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbcore.chance import streams
from lbcore.compiled import kernel
from lbcore.simulate import policies

COUNT = 20_000 if hasattr(policies.choose, "py_func") else 300
RATES = np.array([1.0, 2.0, 4.0, 1.0, 0.5, 1.5])
BUILT_IN = [
    (policies.random(), lambda q: naive.random_choice(q)),
    (policies.random(by_rate=True), lambda q: naive.random_choice(q, RATES)),
    (policies.jsq(), naive.shortest_choice),
    (policies.jsq_d(2), lambda q: naive.sampled_choice(q, 2, False)),
    (policies.jsq_d(3, replacement=True), lambda q: naive.sampled_choice(q, 3, True)),
    (policies.jsq_d(6), naive.shortest_choice),
    (policies.jiq(), lambda q: naive.below_choice(q, 1)),
    (policies.jiq(by_rate=True), lambda q: naive.below_choice(q, 1, RATES)),
    (policies.jbt(2), lambda q: naive.below_choice(q, 2)),
    (policies.jbt(3, by_rate=True), lambda q: naive.below_choice(q, 3, RATES)),
    (policies.jbt(math.inf), lambda q: naive.random_choice(q)),
    (policies.idle_one_first(), naive.idle_one_choice),
]


@kernel
def tally(code, parameter, queues, rates, cumulative, memory, stream, out):
    for _ in range(out[-1]):
        out[policies.choose(code, parameter, queues, rates, cumulative, memory, stream)] += 1


def frequencies(policy, queues, count=COUNT):
    queues, out = np.array(queues), np.zeros(len(queues) + 1, np.int64)
    out[-1] = count
    memory = policy.new_memory(queues.size)
    stream = streams.states(1, 1)[0]
    tally(policy.code, policy.parameter, queues, RATES, np.cumsum(RATES), memory, stream, out)
    return out[:-1] / count


@pytest.mark.parametrize("queues", [[0, 0, 0, 0, 0, 0], [2, 1, 0, 3, 0, 1], [5, 4, 4, 3, 3, 9], [2, 2, 1, 2, 2, 2]])
@pytest.mark.parametrize(("policy", "law"), BUILT_IN, ids=[repr(p) for p, _ in BUILT_IN])
def test_choices_have_their_law(policy, law, queues):
    expected, seen = law(queues), frequencies(policy, queues)
    assert np.all(seen[expected == 0.0] == 0.0)
    assert np.all(abs(seen - expected) <= 4.5 * np.sqrt(expected * (1.0 - expected) / COUNT) + 1e-12)


def test_round_robin_takes_turns():
    policy, queues, stream = policies.round_robin(), np.zeros(3, np.int64), streams.states(1, 1)[0]
    memory, rates = policy.new_memory(3), np.ones(3)
    turns = [policies.choose(policy.code, 0, queues, rates, np.cumsum(rates), memory, stream) for _ in range(7)]
    assert turns == [0, 1, 2, 0, 1, 2, 0]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.sampled_from([p for p, _ in BUILT_IN if p.code not in (policies.JSQ_D,)] + [policies.jsq_d(1)]),
    st.integers(0, 2**32),
)
def test_choice_is_a_server_and_memory_a_permutation(queues, policy, seed):
    n = len(queues)
    memory, stream = policy.new_memory(n), streams.states(seed, 1)[0]
    rates = np.ones(n)
    for _ in range(5):
        server = policies.choose(
            policy.code, policy.parameter, np.array(queues), rates, np.cumsum(rates), memory, stream
        )
        assert 0 <= server < n
    if policy.code == policies.JSQ_D:
        assert sorted(memory) == list(range(n))


def test_records_are_readable_and_comparable():
    names = [repr(p) for p, _ in BUILT_IN]
    assert names[2:5] == ["JSQ", "JSQ(2)", "JSQ(3) with replacement"] and names[9] == "JBT(3) by rate"
    assert policies.jbt(3) == policies.jbt(3) != policies.jbt(4)
    assert len({p for p, _ in BUILT_IN}) == len(BUILT_IN)
    with pytest.raises(AttributeError):
        policies.jsq().code = 1


def test_what_policies_look_at():
    only_idle = [p for p, _ in BUILT_IN if p.sees_idle_only]
    assert {repr(p) for p in only_idle} == {"random", "random by rate", "JIQ", "JIQ by rate", "JBT(inf)"}
    oblivious = {repr(p) for p, _ in BUILT_IN if p.oblivious}
    assert oblivious == {"random", "random by rate", "JBT(inf)"}
    assert policies.round_robin().oblivious and policies.round_robin().sees_idle_only


def test_what_a_record_does_not_say_counts_as_unknown():
    unknown = policies.Policy("new", 99)
    assert not (unknown.oblivious or unknown.sees_idle_only or unknown.uses_threshold)
    assert unknown.messages(5) is None and unknown.imbalance(0.9, 400.0) == 400.0 and unknown.unpooled(5) == 5.0
    queues = np.zeros(3, np.int64)
    assert policies.choose(99, 0, queues, RATES[:3], RATES[:3], queues, streams.states(1, 1)[0]) == -1


def test_messages():
    assert policies.jsq().messages(10) == 20.0 and policies.jsq_d(3).messages(10) == 6.0
    assert policies.random().messages(10) == 0.0 and policies.jbt(2).messages(10) is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: policies.jbt(0), "r must be a whole number of at least 1, not 0; it is the threshold of JBT"),
        (lambda: policies.jbt(1.5), "r must be a whole number of at least 1, not 1.5"),
        (lambda: policies.jbt(math.nan), "r must be a whole number of at least 1, not nan"),
        (lambda: policies.jsq_d(0), "d must be a whole number of at least 1, not 0; it is the number of sampled"),
        (lambda: policies.jsq_d(2, replacement=1), "replacement must be True or False"),
        (lambda: policies.random(by_rate=None), "by_rate must be True or False"),
        (lambda: policies.jsq_d(4).check(3), "d must be at most the number of servers"),
        (lambda: policies.policy(3), r"function must be one of \(queues, rates, stream\), not 3"),
        (lambda: policies.policy(max, memory="a"), "memory must be an array of numbers, not 'a'"),
    ],
)
def test_bad_parameters(make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


def test_sampling_more_often_than_there_are_servers():
    policies.jsq_d(4, replacement=True).check(3)


@policies.policy
def neighbours(queues, rates, stream):
    i = streams.below(stream, queues.size)
    j = (i + 1) % queues.size
    return i if queues[i] <= queues[j] else j


@policies.policy(memory=[0])
def in_turn(queues, rates, stream, memory):
    memory[0] = (memory[0] + 1) % queues.size
    return memory[0]


def test_a_policy_of_your_own():
    neighbours.check(6)
    assert repr(neighbours) == "neighbours"
    stream, rates = streams.states(1, 1)[0], np.ones(3)
    queues, memory = np.array([0, 4, 1]), in_turn.new_memory(3)
    in_turn.check(3)
    turns = [in_turn.chooser(in_turn.code, 0, queues, rates, np.cumsum(rates), memory, stream) for _ in range(4)]
    assert turns == [1, 2, 0, 1] and in_turn.new_memory(3)[0] == 0
    seen = {neighbours.chooser(policies.USER, 0, queues, rates, np.cumsum(rates), memory, stream) for _ in range(50)}
    assert seen == {0, 2}


def too_large(queues, rates, stream):
    return queues.size


def negative(queues, rates, stream):
    return -1


def not_whole(queues, rates, stream):
    return 0.5


def nothing(queues, rates, stream):
    return None


def reads_beyond(queues, rates, stream):
    return queues[queues.size]


def meddles(queues, rates, stream):
    queues[0] += 1
    return 0


def raises(queues, rates, stream):
    if queues[0] > 0:
        raise ValueError("no")
    return 0


def two_arguments(queues, rates):
    return 0


@pytest.mark.parametrize(
    ("function", "error", "sentence"),
    [
        (too_large, ValueError, "chose server 4 .*; servers are numbered 0 to 3"),
        (negative, ValueError, "chose server -1"),
        (not_whole, TypeError, "an integer, not 0.5"),
        (nothing, TypeError, "an integer, not None"),
        (reads_beyond, ValueError, "IndexError"),
        (meddles, ValueError, "may only read"),
        (raises, ValueError, "failed on queues .*ValueError: no"),
        (two_arguments, (TypeError, ValueError), "two_arguments"),
    ],
)
def test_faults_of_a_users_function_are_named(function, error, sentence):
    with pytest.raises(error, match=sentence):
        policies.policy(function).check(4)
