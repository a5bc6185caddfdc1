"""The Markov simulators against exact laws, against each other, and their bookkeeping."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbcore.chance import streams
from lbcore.simulate import lanes, markov, policies
from lbcore.simulate.markov import simulate_markov

JITTED = hasattr(policies.choose, "py_func")
needs_speed = pytest.mark.skipif(not JITTED, reason="needs many events")
ALL = [
    policies.random(),
    policies.jsq(),
    policies.jsq_d(2),
    policies.jsq_d(2, replacement=True),
    policies.jiq(),
    policies.jbt(3),
    policies.random(by_rate=True),
    policies.jiq(by_rate=True),
    policies.jbt(2, by_rate=True),
    policies.round_robin(),
]
EXCHANGEABLE = [p for p in ALL if p.code in markov._RULES]


@policies.policy
def shortest_by_hand(queues, rates, stream):
    best, ties = 0, 1
    for i in range(1, queues.size):
        if queues[i] < queues[best]:
            best, ties = i, 1
        elif queues[i] == queues[best]:
            ties += 1
            if streams.below(stream, ties) == 0:
                best = i
    return best


def run(n, load, policy, events=3_000_000, seed=1, **options):
    return simulate_markov(n, load, policy, events=events, seed=seed, progress=False, **options)


def assert_agrees(estimate, exact, slack=0.0):
    """Within 2.5 half-widths, about 5 standard errors: a false alarm once in 10^6 numbers."""
    assert np.all(abs(estimate.value - exact) <= 2.5 * np.asarray(estimate.half_width) + slack), (
        estimate.value,
        exact,
        estimate.half_width,
    )


@needs_speed
@pytest.mark.parametrize(
    ("n", "load", "policy", "mean_wait"),
    [
        (2, 0.9, policies.jiq(), 2 * 0.9**2 / (0.1 * 2.8)),
        (2, 0.98, policies.jiq(), 2 * 0.98**2 / (0.02 * 2.96)),
        (2, 0.9, policies.jbt(2), 5.05602),
        (2, 0.9, policies.jbt(3), 4.92430),
        (2, 0.9, policies.jbt(5), 5.13548),
        (2, 0.9, policies.jsq(), 4.47491282),
        (2, 0.5, policies.jsq(), 0.42632075),
        (3, 0.9, policies.jsq(), 2.98242199),
        (2, 0.9, policies.jsq_d(2), 4.47491282),
        (1, 0.9, policies.jsq(), 9.0),
        (7, 0.8, policies.random(), 4.0),
        (7, 0.8, policies.jbt(math.inf), 4.0),
        (3, 0.7, policies.jsq_d(1), 7.0 / 3.0),
    ],
    ids=repr,
)
def test_exact_mean_waits(n, load, policy, mean_wait):
    result = run(n, load, policy)
    assert_agrees(result.mean_wait, mean_wait, slack=5e-6)
    assert_agrees(result.mean_total, load * n * (1.0 + mean_wait), slack=5e-6 * n)
    assert result.mean_wait.half_width < 0.15 * mean_wait


ORACLES = [
    (2, 0.7, policies.jsq(), naive.shortest_choice, 35, None),
    (3, 0.6, policies.jsq_d(2), lambda q: naive.sampled_choice(q, 2, False), 16, None),
    (3, 0.6, policies.jsq_d(2, replacement=True), lambda q: naive.sampled_choice(q, 2, True), 16, None),
    (3, 0.6, policies.jbt(2), lambda q: naive.below_choice(q, 2), 20, None),
    (2, 0.7, policies.jsq(), naive.shortest_choice, 35, [3.0, 0.5]),
    (
        2,
        0.6,
        policies.jsq_d(2, replacement=True),
        lambda q: naive.sampled_choice(q, 2, True),
        40,
        [1.2, 0.8],
    ),
    (2, 0.6, policies.jiq(), lambda q: naive.below_choice(q, 1), 40, [1.5, 1.0]),
    (2, 0.6, policies.jbt(2, by_rate=True), lambda q: naive.below_choice(q, 2, [3.0, 0.5]), 40, [3.0, 0.5]),
    (2, 0.5, policies.random(by_rate=True), lambda q: naive.random_choice(q, [2.0, 1.0]), 40, [2.0, 1.0]),
    (3, 0.6, shortest_by_hand, naive.shortest_choice, 16, None),
]


@needs_speed
@pytest.mark.parametrize(
    ("n", "load", "policy", "choice", "longest", "rates"),
    ORACLES,
    ids=lambda value: "" if callable(value) else repr(value),
)
def test_against_the_solved_chain(n, load, policy, choice, longest, rates):
    exact = naive.solve_chain(n, load, choice, longest, rates)
    result = run(n, load, policy, rates=rates)
    for name in ("mean_total", "mean_wait", "wait_probability", "all_busy"):
        assert_agrees(getattr(result, name), exact[name], slack=1e-5)
    assert_agrees(
        type(result.occupancy)(result.occupancy.value[:longest], result.occupancy.half_width[:longest]),
        exact["occupancy"],
        slack=2e-5,
    )


@needs_speed
@pytest.mark.parametrize(("n", "published", "error"), [(10, 1.21930, 0.00028), (100, 1.13874, 0.00022)])
def test_published_simulations_of_two_choices(n, published, error):
    """Gast and Van Houdt: JSQ(2) sampled with replacement, load 0.7, jobs per server."""
    jobs = run(n, 0.7, policies.jsq_d(2, replacement=True), events=10**7).mean_total
    assert abs(jobs.value / n - published) < math.hypot(error, jobs.half_width / n) * 1.5


@needs_speed
@pytest.mark.parametrize("d", [2, 3])
def test_many_servers_follow_the_fixed_point_of_d_choices(d):
    n, load = 20_000, 0.8
    occupancy = run(n, load, policies.jsq_d(d), events=2 * 10**7, replications=10).occupancy
    level = np.arange(1, 65)
    assert_agrees(occupancy, load ** ((float(d) ** level - 1.0) / (d - 1)), slack=3.0 / n)


@needs_speed
def test_both_chains_agree():
    for policy in EXCHANGEABLE:
        a = run(5, 0.8, policy, events=10**6)
        b = run(5, 0.8, policy, events=10**6, seed=2, rates=np.ones(5))
        for name in ("mean_total", "wait_probability", "all_busy"):
            one, other = getattr(a, name), getattr(b, name)
            assert abs(one.value - other.value) < 2.5 * math.hypot(one.half_width, other.half_width)


@needs_speed
def test_round_robin_lies_between_random_and_shortest():
    waits = [
        run(4, 0.8, p, events=10**6).mean_wait for p in (policies.jsq(), policies.round_robin(), policies.random())
    ]
    assert waits[0].high < waits[1].low and waits[1].high < waits[2].low


@needs_speed
def test_identities_narrow_the_interval():
    """The factor against the plain mean of the same sums, a matter of the model, not of luck."""

    class Plain(markov._OccupancyChain):
        identities = property(lambda self: 0, lambda self, value: None)

    for n, load, policy, factor in [(2, 0.9, policies.jsq(), 20.0), (10, 0.9, policies.jsq_d(2), 5.0)]:
        options = {"steps": 3_000_000, "seed": 1, "progress": False}
        sharp = markov.estimate.run(markov._OccupancyChain(n, load, policy), {}, **options).mean_total
        plain = markov.estimate.run(Plain(n, load, policy), {}, **options).mean_total
        assert plain.half_width > factor * sharp.half_width
        assert abs(plain.value - sharp.value) < 1.5 * plain.half_width


@needs_speed
@pytest.mark.parametrize(("seeds", "least"), [(60, 0.86), pytest.param(400, 0.91, marks=pytest.mark.long)])
def test_intervals_cover_the_exact_values(seeds, least):
    """95 % intervals, control variates included, cover in at least 91 % of 400 runs each quantity."""
    exact = naive.solve_chain(2, 0.7, naive.shortest_choice, 40)
    names, hits = ("mean_total", "mean_wait", "wait_probability", "all_busy"), np.zeros(4)
    for seed in range(seeds):
        result = run(2, 0.7, policies.jsq(), events=100_000, seed=seed, threads=1)
        hits += [getattr(result, k).low <= exact[k] <= getattr(result, k).high for k in names]
    assert np.all(hits >= least * seeds), hits / seeds


@needs_speed
def test_what_was_never_seen_has_an_upper_limit():
    result = run(10**4, 0.8, policies.jsq(), events=10**7)
    for estimate in (result.wait_probability, result.mean_wait, result.all_busy):
        assert estimate.value == pytest.approx(0.0, abs=1e-12) and 1e-7 < estimate.half_width < 1e-2
    assert result.mean_total.half_width > 0.0 and result.occupancy.half_width[1] > 0.0


@needs_speed
def test_messages():
    result = run(3, 0.8, policies.jiq())
    assert_agrees(result.messages, 1.0 - result.wait_probability.value, slack=2.5 * result.wait_probability.half_width)
    again = run(3, 0.8, policies.jiq(), rates=np.ones(3))
    assert_agrees(again.messages, result.messages.value, slack=2.5 * result.messages.half_width)
    assert run(3, 0.8, policies.jsq_d(2), events=10**5).messages.value == 4.0


@pytest.mark.parametrize("policy", [policies.jsq(), policies.round_robin()], ids=repr)
def test_same_seed_same_bits(policy):
    events = 10**6 if JITTED else 640
    one = run(6, 0.8, policy, events=events, threads=1)
    two = run(6, 0.8, policy, events=events, threads=2)
    other = run(6, 0.8, policy, events=events, seed=2)
    assert one.mean_total == two.mean_total or one.mean_total.value == two.mean_total.value
    assert np.array_equal(one.occupancy.value, two.occupancy.value)
    assert one.mean_total.half_width == two.mean_total.half_width
    assert one.mean_total.value != other.mean_total.value


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 2), (9, 9), (40, 7)])
def test_chance_that_all_samples_are_among_some(n, d):
    exact = [math.comb(q, d) / math.comb(n, d) for q in range(n + 1)]
    assert lanes.all_among(n, d, False) == pytest.approx(exact, rel=1e-12)
    assert lanes.all_among(n, d, True) == pytest.approx([(q / n) ** d for q in range(n + 1)], rel=1e-12)


def chain(n, load, policy, rates=None):
    if rates is None and policy.code in markov._RULES:
        return markov._OccupancyChain(n, load, policy)
    return markov._ServersChain(np.ones(n) if rates is None else np.asarray(rates, float), load, policy)


def advanced(model, pieces, seed=1):
    state, out = model.start(streams.states(seed, 1)[0]), np.zeros(sum(model.columns.values()))
    for steps in pieces:
        model.advance(state, steps, out)
    return state, out


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6),
    st.floats(0.05, 0.99),
    st.sampled_from(ALL),
    st.integers(0, 10**6),
    st.integers(1, 400),
    st.booleans(),
)
def test_books_are_in_order(n, load, policy, seed, steps, unequal):
    if policy.code == policies.JSQ_D and n < 2:
        n = 2
    rates = 0.5 + np.arange(n) if unequal else None
    model = chain(n, load, policy, rates)
    rates_used = np.ones(n) if rates is None else rates
    state, out = advanced(model, [steps], seed)
    counts = state.arrays.counts
    assert np.all(np.diff(counts[1:]) <= 0) and 0 <= counts[1] <= n and counts[-1] == 0
    assert np.all(state.arrays.areas == 0.0)
    assert state.arrays.place[0 if state.arrays.queues is not None else 1] == counts[1:].sum()
    if state.arrays.queues is not None:
        assert np.array_equal(counts[1:8], [(state.arrays.queues >= i).sum() for i in range(1, 8)])
        assert state.arrays.busy_rate[0] == pytest.approx(rates_used[state.arrays.queues > 0].sum(), abs=1e-9)
    else:
        filling, _, below, accepted = state.arrays.place
        assert filling == 1 + np.sum(counts[1:] == n)
        if model.rule == markov._BELOW:
            assert below == counts[1 : min(model.threshold, counts.size)].sum()
        if model.rule == markov._SAMPLED:
            assert accepted == model.accept[counts[1:]].sum()
    sums = dict(zip(list(model.columns)[:-1], out, strict=False))
    assert 0.0 <= sums["all_busy"] <= sums["time"] * (1.0 + 1e-12)
    assert sums["total"] == pytest.approx(out[markov._OCCUPANCY :].sum())  # queues are shorter than 64 here


@pytest.mark.parametrize("policy", ALL, ids=repr)
def test_pieces_make_the_whole(policy):
    """Also when the longest queue outgrows the first 64 levels, wherever a piece ends."""
    model = chain(2, 0.999, policy)
    steps = 30_000 if JITTED else 300
    whole, sums = advanced(model, [steps])
    parts, again = advanced(model, [1] * (steps // 10) + [steps - steps // 10])
    size = min(whole.arrays.counts.size, parts.arrays.counts.size)
    assert np.array_equal(whole.arrays.counts[:size], parts.arrays.counts[:size])
    assert np.array_equal(whole.arrays.stream, parts.arrays.stream) and np.array_equal(
        whole.arrays.place, parts.arrays.place
    )
    assert sums == pytest.approx(again, rel=1e-9, abs=1e-6)


def test_levels_grow_at_the_end_of_a_piece():
    model = chain(1, 0.999, policies.random())
    out = np.zeros(sum(model.columns.values()))
    for seed in range(20):
        state = model.start(streams.states(seed, 1)[0])
        state.arrays.counts[1:64], state.arrays.place[:] = 1, [64, 63, 63, 0]
        model.advance(state, 1, out)  # 64 jobs or 62
        if state.arrays.place[1] == 64:
            break
    assert state.arrays.counts.size > 66 and state.arrays.counts[1:].sum() == 64


def test_events_are_counted_exactly():
    model = chain(3, 0.5, policies.jsq())
    state, out = advanced(model, [1])
    assert out[0] == pytest.approx(1.0 / 1.5) and out[1] == 0.0 and state.arrays.place[1] == 1
    result = simulate_markov(3, 0.5, policies.jsq(), events=640, replications=4, seed=1, progress=False)
    assert result.steps == 640 and result.asked["n_servers"] == 3 and result.asked["load"] == 0.5


def test_a_short_run_says_so():
    assert "Too short" in run(2, 0.99, policies.jsq(), events=10_000 if JITTED else 640).notes[0]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((0, 0.5, policies.jsq()), {}, "n_servers must be a whole number of at least 1"),
        ((2.5, 0.5, policies.jsq()), {}, "n_servers must be a whole number of at least 1"),
        ((2, 1.0, policies.jsq()), {}, "load must be a number above 0 and below 1, not 1.*grow for ever"),
        ((2, 0.0, policies.jsq()), {}, "load must be a number above 0 and below 1"),
        ((2, math.nan, policies.jsq()), {}, "load must be a number above 0 and below 1"),
        ((2, "a", policies.jsq()), {}, "load must be a number"),
        ((2, 0.5, "jsq"), {}, "policy must be made by"),
        ((2, 0.5, policies.jsq), {}, "policy must be made by"),
        ((2, 0.5, policies.jsq_d(3)), {}, "d must be at most the number of servers"),
        ((2, 0.5, policies.jsq()), {"rates": [1.0]}, "rates must be numbers above 0, 2 of them"),
        ((2, 0.5, policies.jsq()), {"rates": [1.0, -1.0]}, "rates must be numbers above 0, not -1.0"),
        ((2, 0.5, policies.jsq()), {"rates": [1.0, math.inf]}, "rates must be numbers above 0, not inf"),
        ((2, 0.5, policies.jsq()), {"rates": "ab"}, "rates must be numbers above 0, not 'ab'"),
        ((2, 0.5, policies.random()), {"rates": [3.0, 1.0]}, "random is not stable with these rates"),
        ((2, 0.9, policies.round_robin()), {"rates": [2.0, 1.0]}, "round robin is not stable"),
        ((3, 0.95, policies.jsq_d(2)), {"rates": [8.0, 1.0, 1.0]}, "slowest 2 alone get jobs at rate"),
        ((2, 0.5, policies.jsq()), {"events": 0}, "events"),
        ((2, 0.5, policies.jsq()), {"rel_precision": 2.0}, "rel_precision"),
        ((10**12, 0.5, policies.jsq()), {}, "memory"),
    ],
)
def test_bad_input(arguments, options, sentence):
    with pytest.raises((TypeError, ValueError, MemoryError), match=sentence):
        simulate_markov(*arguments, progress=False, **options)


@policies.policy(memory=[0])
def wanders(queues, rates, stream, memory):
    memory[0] += 1
    return 7 if memory[0] == 200 else 0


def test_a_server_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="policy wanders chose server 7; servers are numbered 0 to 1"):
        run(2, 0.4, wanders, events=10**5 if JITTED else 32 * 1000)
