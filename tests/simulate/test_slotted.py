import itertools
import math
import subprocess
import sys

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbcore.chance import laws, streams
from lbcore.simulate import policies, pooled, slotted

BATCH, OFFER = laws.discrete([0, 4], [0.5, 0.5]), laws.discrete([0, 2], [0.5, 0.5])
ODD_BATCH, ODD_OFFER = laws.discrete([0, 1, 5, 17], [0.1, 0.1, 0.3, 0.5]), laws.discrete([1, 3], [0.3, 0.7])


def run(n=2, epsilon=0.2, policy=None, arrivals=BATCH, services=OFFER, **options):
    policy = policy or policies.jbt(1)
    options = {"seed": 1, "progress": False, **options}
    return slotted.simulate_slotted(n, epsilon, policy, arrivals, services, **options)


def close(found, exact):
    """Whether the exact value lies within 1.6 half-widths, as it should 998 times in 1000."""
    return abs(found.value - exact) <= 1.6 * found.half_width


def model_and_state(seed=1, **options):
    begun = run(slots=1, replications=1, seed=seed, live=True, **options)
    return begun._model, begun._groups[0].states[0]


def columns(out):
    """Split sums by column."""
    ends = np.cumsum(list(slotted._COLUMNS.values()))
    parts = np.split(out, ends[:-1])
    return {name: part if part.size > 1 else part[0] for name, part in zip(slotted._COLUMNS, parts, strict=True)}


def next_bits(stream):
    bits, stream[:] = streams.take_uint64(tuple(stream))
    return int(bits)


def same_draws(model, state, slots):
    """Return batches, offers and a choice function that draw what the kernel will draw from `state`."""
    table, cumulative, values, which = model.tables
    stream = state.stream.copy()

    def draw(law, byte):
        value = table[law, byte]
        if value < 0:
            value, words = slotted._resolve(byte, cumulative[law], values[law], tuple(stream))
            stream[:] = words
        return int(value)

    batches, offers = [], []
    for _ in range(slots):
        batches.append(draw(len(table) - 1, next_bits(stream) & 255))
        offer = []
        for n in range(len(which)):
            if n % 8 == 0:
                bits = next_bits(stream)
            offer.append(draw(which[n], (bits >> (8 * (n % 8))) & 255))
        offers.append(offer)
    policy, own, memory = model.policy, state.own.copy(), model.policy.new_memory(model.n)

    def choose(queues):
        arguments = np.array(queues), model.setting.rates, model.setting.cumulative, memory, own
        return int(policies.choose(policy.code, policy.parameter, *arguments))

    return batches, offers, choose


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("n", "policy", "arrivals", "services", "threshold"),
    [
        (2, policies.jbt(2), BATCH, OFFER, None),
        (1, policies.jiq(), ODD_BATCH, ODD_OFFER, None),
        (11, policies.jbt(3), laws.discrete([0, 5, 90], [0.3, 0.3, 0.4]), ODD_OFFER, None),
        (3, policies.random(), ODD_BATCH, [ODD_OFFER, laws.discrete([1, 2, 3], [0.2, 0.3, 0.5]), ODD_OFFER], 2),
        (3, policies.jbt(2, by_rate=True), ODD_BATCH, [OFFER, ODD_OFFER, OFFER], None),
        (9, policies.jsq(), laws.discrete([0, 40], [0.5, 0.5]), OFFER, 1),
        (4, policies.jsq_d(2), ODD_BATCH, OFFER, 3),
        (4, policies.round_robin(), ODD_BATCH, OFFER, 3),
    ],
)
def test_every_sum_is_that_of_a_plain_simulation_on_the_same_draws(n, policy, arrivals, services, threshold):
    slots = 400
    model, state = model_and_state(
        n=n, epsilon=0.3, policy=policy, arrivals=arrivals, services=services, threshold=threshold
    )
    path = list(naive.slotted_path(*same_draws(model, state, slots), model.setting.threshold, policy.parameter))
    out = np.zeros(sum(model.columns.values()))
    model.advance(state, slots, out)
    for name, found in columns(out).items():
        assert found == pytest.approx(np.sum([slot[name] for slot in path], axis=0), rel=1e-12), name
    assert list(state.queues) == path[-1]["queues"]


@pytest.mark.kernel
def test_the_drift_identity_telescopes_on_every_path():
    model, state = model_and_state(n=3, epsilon=0.3, policy=policies.jbt(2), services=ODD_OFFER, arrivals=ODD_BATCH)
    path = list(naive.slotted_path(*same_draws(model, state, 500), 2, 2))
    before = [0] + [slot["total"] for slot in path[:-1]]
    gain = sum(
        2 * total * slot["net"] + slot["net"] ** 2 + 2 * slot["condition"] - slot["unused_squared"]
        for total, slot in zip(before, path, strict=True)
    )
    assert gain == path[-1]["total"] ** 2


@pytest.mark.kernel
def test_one_chunk_or_several_same_bits():
    model, state = model_and_state(n=10, policy=policies.jbt(3), arrivals=laws.discrete([0, 20], [0.5, 0.5]))
    at_once = np.zeros(sum(model.columns.values()))
    model.advance(state, 600, at_once)
    model, state = model_and_state(n=10, policy=policies.jbt(3), arrivals=laws.discrete([0, 20], [0.5, 0.5]))
    in_parts = np.zeros_like(at_once)
    for steps in (1, 99, 500):
        model.advance(state, steps, in_parts)
    exact = np.r_[:11, 12, 14 : len(at_once)]  # sums of whole numbers
    assert np.array_equal(at_once[exact], in_parts[exact])
    assert at_once == pytest.approx(in_parts, rel=1e-13)


def test_same_bits_on_any_number_of_threads_and_in_another_process():
    one, two = (run(slots=10**6, threads=threads) for threads in (1, 2))
    assert one.mean_total.value == two.mean_total.value
    assert np.array_equal(one.distance_tail.half_width, two.distance_tail.half_width)
    code = "from test_slotted import run; print(run(slots=10**6).mean_total.value.hex())"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert printed.stdout.strip() == one.mean_total.value.hex()


@pytest.mark.kernel
def test_all_policies_meet_the_same_arrivals_and_services():
    sums = []
    for policy in (policies.jbt(1), policies.random(), policies.jsq()):
        model, state = model_and_state(policy=policy)
        out = np.zeros(sum(model.columns.values()))
        model.advance(state, 1000, out)
        sums.append(columns(out))
    assert len({found["pooled"] for found in sums}) == 1
    assert len({found["total"] for found in sums}) == 3
    assert all(found["total"] >= found["pooled"] for found in sums)


# ---- the pooled queue ----


@pytest.mark.parametrize(
    ("arrivals", "services", "n", "epsilon"),
    [
        (BATCH, OFFER, 2, 0.5),
        (BATCH, OFFER, 1, 0.1),
        (ODD_BATCH, [OFFER, ODD_OFFER], 2, 1.2),
        (laws.discrete([0, 6, 9], [0.2, 0.5, 0.3]), laws.discrete([3], [1.0]), 2, 0.5),
        (laws.discrete([2, 3], [0.5, 0.5]), laws.discrete([1, 4], [0.4, 0.6]), 1, None),
    ],
)
def test_pooled_mean_is_that_of_the_solved_chain(arrivals, services, n, epsilon):
    checked = pooled.slot_laws(arrivals, services, n, epsilon)

    def as_dict(law):
        return dict(zip((int(v) for v in law[0]), law[1], strict=True))

    offers = [as_dict(checked.services[k]) for k in checked.which]
    exact = naive.pooled_mean(as_dict(checked.arrivals), offers, 900)
    assert pooled.pooled_mean(arrivals, services, n, epsilon) == pytest.approx(exact, rel=1e-9)


def test_pooled_mean_tends_to_half_the_noise_over_epsilon():
    for epsilon, error in ((1e-3, 2e-3), (1e-5, 2e-5), (1e-7, 2e-6)):
        assert epsilon * pooled.pooled_mean(BATCH, OFFER, 2, epsilon) == pytest.approx(3.0, rel=error)
    many = pooled.slot_laws(laws.discrete([0, 2000], [0.5, 0.5]), OFFER, 1000, 1.0)
    assert pooled.solve_pooled_mean(many) == pytest.approx(many.noise / 2, rel=2e-3)


def test_pooled_mean_is_zero_where_nothing_can_wait():
    assert pooled.pooled_mean(laws.discrete([0, 2], [0.5, 0.5]), laws.discrete([1], [1.0]), 3, 2.5) == 0.0


def test_pooled_mean_of_rare_batches_is_their_draining():
    # a batch of 90 once in 10^5 slots drains by one a slot: E[P] = (1e-5) (89 + 88 + ... + 1), a bit more for overlaps
    mean = pooled.pooled_mean(laws.discrete([0, 90], [0.5, 0.5]), laws.discrete([1], [1.0]), 1, 1.0 - 90e-5)
    assert mean == pytest.approx(1e-5 * 89 * 90 / 2, rel=2e-3)


@given(
    st.integers(1, 3),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    st.floats(0.05, 0.9),
)
@settings(max_examples=30, deadline=None)
def test_pooled_mean_for_any_small_laws(n, offers, slack):
    if max(offers) == 0:
        return
    service = laws.discrete(offers, np.full(len(offers), 1 / len(offers)))
    arrivals = laws.discrete([0, 2, 3 * 5 * n], [0.2, 0.1, 0.7])
    epsilon = slack * n * service.mean
    checked = pooled.slot_laws(arrivals, service, n, epsilon)
    assert checked.rate == pytest.approx(n * service.mean - epsilon)
    as_dict = {int(v): p for v, p in zip(*checked.arrivals, strict=True)}
    offer = {int(v): p for v, p in zip(service.values, service.probabilities, strict=True)}
    if pooled.solve_pooled_mean(checked) < 15:
        exact = naive.pooled_mean(as_dict, [offer] * n, 900)
        assert pooled.solve_pooled_mean(checked) == pytest.approx(exact, rel=1e-8, abs=1e-9)


# ---- truth ----


def test_one_server_is_the_pooled_queue():
    for arrivals, services in ((BATCH, OFFER), (ODD_BATCH, ODD_OFFER)):
        result = run(1, 0.3, arrivals=arrivals, services=services, slots=4 * 10**6)
        assert close(result.raw_mean_total, result.pooled_exact)
        assert close(result.mean_total, result.pooled_exact)
        assert result.mean_total.half_width < result.raw_mean_total.half_width / 10
        assert result.condition.value == 0.0


@pytest.mark.parametrize("r", [1, 3])
def test_two_servers_are_the_solved_chain(r):
    exact = naive.two_server_mean(2, 0.35, lambda q: naive.below_choice(q, r), 36)
    batch, offer = laws.discrete([0, 2], [0.5, 0.5]), laws.discrete([0, 1], [0.5, 0.5])
    result = run(2, 0.35, policies.jbt(r), batch, offer, slots=2 * 10**7)
    assert close(result.mean_total, exact)
    assert close(result.raw_mean_total, exact)
    assert result.mean_total.half_width < 0.01 * exact


def test_gap_to_the_pooled_queue_at_the_value_of_the_solved_chain():
    result = run(2, 0.05, policies.jbt(1), slots=10**8)
    assert close(result.mean_total, 78.675357)
    assert close(result.excess, 1.00504 / 0.05)
    assert 0.05 * result.excess.half_width < 0.02
    assert 0.05 * result.mean_total.value == pytest.approx(4.0, rel=0.03)  # the limit for r = 1


@pytest.mark.parametrize(("r", "factor"), [(1, 5), (4, 10)])
def test_identity_narrows_the_interval(r, factor):
    ratios = []
    for seed in range(4):
        result = run(2, 0.05, policies.jbt(r), slots=4 * 10**7, seed=seed)
        ratios.append(result.raw_mean_total.half_width / result.mean_total.half_width)
        gap = abs(result.raw_mean_total.value - result.mean_total.value)
        assert gap < 1.5 * result.raw_mean_total.half_width
    assert np.mean(ratios) > factor


def test_pooled_then_jsq_then_jbt_then_random():
    means = [
        run(4, 0.4, policy, laws.discrete([0, 8], [0.5, 0.5]), OFFER, slots=4 * 10**6)
        for policy in (policies.jsq(), policies.jbt(2), policies.random())
    ]
    assert means[0].pooled_exact < means[0].mean_total.low
    for better, worse in itertools.pairwise(means):
        assert better.mean_total.high < worse.mean_total.low
        assert better.condition.high < worse.condition.low


def test_random_routing_is_one_queue_with_thinned_batches():
    n, epsilon = 3, 0.6
    some = (n - epsilon) / 6 / n
    alone = pooled.pooled_mean(laws.discrete([0, 6], [1 - some, some]), OFFER, 1)
    arrivals = laws.discrete([0, 6], [0.5, 0.5])
    for policy in (
        policies.random(),
        policies.jbt(math.inf),
        policies.random(by_rate=True),
        policies.jsq_d(1),
    ):
        result = run(n, epsilon, policy, arrivals, OFFER, slots=4 * 10**6)
        assert close(result.mean_total, n * alone), policy


def test_a_user_policy_runs_like_a_built_in():
    @policies.policy
    def uniform(queues, rates, stream):
        return streams.below(stream, queues.size)

    own, built_in = run(policy=uniform, slots=10**5), run(policy=policies.random(), slots=10**5)
    assert own.raw_mean_total.value == built_in.raw_mean_total.value


def test_a_user_policy_that_chooses_no_server_is_an_error():
    @policies.policy
    def wrong(queues, rates, stream):
        return 2 if queues[0] > 150 else 0

    with pytest.raises(ValueError, match="server 2"):
        run(2, 0.05, policy=wrong, slots=10**6)


def test_unequal_servers_by_rate():
    services = [laws.discrete([0, 2], [0.5, 0.5]), laws.discrete([0, 6], [0.5, 0.5])]
    result = run(2, 0.5, policies.jbt(4, by_rate=True), laws.discrete([0, 8], [0.5, 0.5]), services, slots=10**7)
    assert result.notes == () and close(result.mean_unused, 0.5)
    assert abs(result.raw_mean_total.value - result.mean_total.value) < 1.3 * result.raw_mean_total.half_width
    uniform = run(2, 0.5, policies.jbt(4), laws.discrete([0, 8], [0.5, 0.5]), services, slots=10**6)
    assert "by_rate" in uniform.notes[-1]
    with pytest.raises(ValueError, match="not stable"):
        run(2, 0.5, policies.random(), laws.discrete([0, 8], [0.5, 0.5]), services)


def test_messages_of_jbt_are_at_most_one_per_batch():
    for r in (1, 2, 6):
        assert 0.0 < run(3, 0.3, policies.jbt(r), slots=10**6).messages.value < 1.0
    assert run(3, 0.3, policies.jsq(), slots=10**5).messages.value == 6.0
    assert run(3, 0.3, policies.random(), slots=10**5).messages.value == 0.0


def test_distance_is_bounded_in_epsilon_for_jbt_and_not_for_random():
    def moment(policy, epsilon):
        return run(2, epsilon, policy, slots=4 * 10**6, threshold=4).distance_moments.value[0]

    assert moment(policies.jbt(4), 0.05) < moment(policies.jbt(4), 0.4) + 0.1
    result = run(2, 0.1, policies.jbt(4), slots=10**6)
    assert np.all(np.diff(result.distance_tail.value) <= 0.0)
    assert result.distance_tail.value[0] <= 1.0 and result.threshold == 4
    far = run(2, 0.02, policies.random(), slots=4 * 10**6, threshold=20).distance_moments.value[0]
    assert far > 2 * run(2, 0.02, policies.jbt(20), slots=4 * 10**6).distance_moments.value[0]


# ---- bad input ----


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"n": 0}, ValueError, "n_servers"),
        ({"n": 2.5}, ValueError, "n_servers"),
        ({"epsilon": 0.0}, ValueError, "grow for ever"),
        (
            {"epsilon": 2.0},
            ValueError,
            "epsilon must be a number above 0 and below 2, not 2.0; it is the total service rate",
        ),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
        ({"epsilon": "small"}, TypeError, "epsilon"),
        ({"policy": "jbt"}, TypeError, "policy must be"),
        ({"policy": policies.jsq_d(3)}, ValueError, "d must be"),
        ({"arrivals": laws.exponential()}, ValueError, "bounded whole numbers"),
        ({"services": laws.pareto(2.5)}, ValueError, "bounded whole numbers"),
        ({"services": laws.discrete([0, 1.5], [0.5, 0.5])}, ValueError, "whole numbers"),
        ({"arrivals": 4}, TypeError, "arrivals must be a law"),
        ({"services": [OFFER]}, ValueError, "one for each of the 2 servers"),
        ({"services": 4}, TypeError, "services must be a law"),
        ({"arrivals": laws.discrete([1], [1.0])}, ValueError, "cannot reach"),
        ({"slots": 0}, ValueError, "slots"),
        ({"threshold": 0}, ValueError, "threshold"),
        ({"n": 10**13}, MemoryError, "GiB"),
    ],
)
def test_bad_input_is_explained(change, error, word):
    with pytest.raises(error, match=word):
        run(**{"slots": 1000, **change})
