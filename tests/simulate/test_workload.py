"""General service against an event-by-event oracle, exact formulas, and solved chains."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse, stats
from scipy.sparse import linalg

from lbcore import theory
from lbcore.chance import draws, laws, streams
from lbcore.simulate import idle_or_busy, policies, queue_lengths, workload
from lbcore.simulate.workload import simulate_workload

WITH_FOURTH_MOMENT = [
    laws.exponential(),
    laws.deterministic(),
    laws.erlang(3),
    laws.hyperexponential(4),
    laws.lognormal(1),
    laws.weibull(0.7),
    laws.uniform(),
    laws.pareto(6),
    laws.discrete([0, 1, 4], [0.2, 0.6, 0.2], mean=1),
    laws.empirical(np.random.default_rng(3).gamma(2.0, size=100)),
    laws.mixture([0.9, 0.1], [laws.erlang(2), laws.uniform(mean=5.0)]),
]
NAMES = {name: place for place, name in enumerate(idle_or_busy.Sums._fields)}


def run(n, load, policy, service=None, arrivals=300_000, seed=1, **options):
    service = laws.exponential() if service is None else service
    return simulate_workload(n, load, policy, service, arrivals=arrivals, seed=seed, progress=False, **options)


def near(estimate, exact, widths=2.0):
    """Whether the exact value lies within twice the 95 % interval: all but 1 in 10^4 times."""
    return abs(estimate.value - exact) <= widths * estimate.half_width


# ---- the oracle ---------------------------------------------------------------------------------------------


def model_of(n, load, policy, service, **given):
    return workload._model(n, load, policy, service, **{name: as_given(value) for name, value in given.items()})


def as_given(value):
    return np.array(value) if isinstance(value, list) else value


def replay(model, arrivals, seed):
    """Advance one arrival at a time; return what each did, and the arrivals and services that were drawn."""
    state = model.start(streams.states(seed, 1)[0])
    gaps, services = np.empty(arrivals), np.empty(arrivals)
    draws.fill(model.interarrival.packed, state[0].streams[0].copy(), gaps)
    draws.fill(model.service.packed, state[0].streams[1].copy(), services)
    width = sum(model.columns.values())
    sums, choices = np.zeros((arrivals, width)), []
    for k in range(arrivals):
        before = state[0].empty_at.copy()
        model.advance(state, 1, sums[k])
        change = state[0].empty_at - before
        changed = np.flatnonzero(np.abs(change + idle_or_busy.LATE * (change < -1.0)) > 1e-9)
        assert len(changed) == (sums[k, NAMES["lost"]] == 0.0)
        choices.append(int(changed[0]) if len(changed) else None)
    return gaps, services, choices, sums


POLICIES = {
    "random": policies.random(),
    "round robin": policies.round_robin(),
    "JIQ": policies.jiq(),
    "JBT(3)": policies.jbt(3),
    "JSQ": policies.jsq(),
    "JSQ(2)": policies.jsq_d(2),
    "JSQ(2) replaced": policies.jsq_d(2, replacement=True),
}


def legal(name, queues, choice, k, n, parameter=0):
    """Whether the policy may choose so, given the queues that the arrival finds."""
    if name == "round robin":
        return choice == k % n
    if name == "JIQ":
        return queues[choice] == 0 or min(queues) > 0
    if name.startswith("JBT"):
        return queues[choice] < 3 or min(queues) >= 3
    if name == "JSQ":
        return queues[choice] == min(queues)
    if name == "JSQ(2)":
        return queues[choice] < max(queues) or sorted(queues)[-2:] == [max(queues)] * 2
    return True


def check_against_oracle(model, name, arrivals, seed, buffers=None):
    gaps, services, choices, sums = replay(model, arrivals, seed)
    sent = []  # a lost job leaves no trace of the server it was sent to: any full one will do
    for k, choice in enumerate(choices):
        if choice is None:
            seen = naive.serve(gaps[: k + 1], services[: k + 1], [*sent, 0], model.n, buffers)["queues"][-1]
            choice = next(s for s in range(model.n) if seen[s] >= buffers[s])
        sent.append(choice)
    oracle = naive.serve(gaps, services, sent, model.n, buffers)
    for k in range(arrivals):
        queues = oracle["queues"][k]
        wait = oracle["waits"][k]
        row = {column: sums[k, place] for column, place in NAMES.items()}
        assert row["all_busy"] == (min(queues) > 0)
        assert (wait is None) == (row["lost"] == 1.0)
        if wait is not None:
            assert row["wait"] == pytest.approx(wait, abs=1e-9)
            assert row["waited"] == (wait > 0.0)
            assert legal(name, queues, choices[k], k, model.n), (name, queues, choices[k])
        if model.poisson:
            assert row["excess"] == pytest.approx(sum(q > 0 for q in queues) - model.rate)
            assert row["excess_squared"] == pytest.approx(row["excess"] ** 2)
    assert sums[:, NAMES["second"]].sum() == pytest.approx(oracle["second"], abs=1e-8)
    return oracle, sums


@pytest.mark.kernel
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", POLICIES)
def test_waits_are_those_of_the_oracle(name, n):
    if POLICIES[name].code == policies.JSQ_D and n == 1:
        pytest.skip("two different servers out of one")
    for seed, service in enumerate((laws.lognormal(2), laws.discrete([0.5, 2.0], [0.7, 0.3], mean=1))):
        model = model_of(n, 0.8, POLICIES[name], service)
        check_against_oracle(model, name, 150, seed)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["random", "round robin", "JIQ", "JBT(3)", "JSQ"])
def test_lost_jobs_are_those_of_the_oracle(name):
    buffers = [2, 1, 3]
    model = model_of(3, 1.3, POLICIES[name], laws.erlang(2), buffers=buffers)
    _, sums = check_against_oracle(model, name, 100, 4, buffers)
    assert 5 < sums[:, NAMES["lost"]].sum() < 60


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["JIQ", "round robin", "JSQ"])
def test_renewal_arrivals_against_the_oracle(name):
    model = model_of(3, 0.8, POLICIES[name], laws.uniform(), interarrival=laws.hyperexponential(5))
    _, sums = check_against_oracle(model, name, 150, 2)
    np.testing.assert_allclose(sums[:, NAMES["instants"]], sums[:, NAMES["time"]])


@pytest.mark.kernel
@pytest.mark.parametrize("name, short", [("JIQ", 1), ("JBT(3)", 3), ("random", 0)])
def test_weights_against_the_oracle(name, short):
    """A server of share 0 gets a job only if it is short."""
    model = model_of(3, 0.9, POLICIES[name], laws.lognormal(2), shares=[0.3, 0.0, 0.7])
    _, _, choices, _ = replay(model, 200, 3)
    oracle, _ = check_against_oracle(model, name, 200, 3)
    sent = [(queues[1], choice) for queues, choice in zip(oracle["queues"], choices, strict=True)]
    assert all(jobs < short for jobs, choice in sent if choice == 1)
    assert {choice for _, choice in sent} == ({0, 1, 2} if short else {0, 2})


@pytest.mark.kernel
def test_own_policy_against_the_oracle():
    @policies.policy
    def last_idle(queues, rates, stream):
        for i in range(queues.size - 1, 0, -1):
            if queues[i] == 0:
                return i
        return 0

    model = model_of(3, 0.9, last_idle, laws.lognormal(2))
    oracle, _ = check_against_oracle(model, "own", 100, 3)
    _, _, choices, _ = replay(model, 100, 3)
    for queues, choice in zip(oracle["queues"], choices, strict=True):
        assert choice == max([i for i in (1, 2) if queues[i] == 0], default=0)

    @policies.policy
    def wrong(queues, rates, stream):
        return 0 if queues[0] == 0 else -1

    model = model_of(3, 0.9, wrong, laws.lognormal(2))
    with pytest.raises(ValueError, match="policy wrong chose server -1; servers are numbered 0 to 2"):
        model.advance(model.start(streams.states(1, 1)[0]), 100, np.zeros(len(NAMES)))


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["JIQ", "JSQ"])
@pytest.mark.parametrize("law", [laws.lognormal(2, mean=3.0), laws.discrete([0.25, 1, 5], [0.3, 0.5, 0.2], 1)], ids=str)
def test_gain_of_the_waits_is_that_of_the_oracle_within_its_bound(name, law):
    work = law.mean * np.array([0.0, 0.3, 1.0, 2.0, 40.0])
    model = model_of(3, 0.9, POLICIES[name], law, work=work)
    gaps, services, choices, sums = replay(model, 200, 9)
    waits = law.mean * np.array(naive.serve(gaps, services, choices, 3)["waits"])[:, None]
    gain = law.residual_tail(np.maximum(work - waits, 0.0)) - law.residual_tail(work)
    error = np.abs(sums[:, -10:-5] - gain)
    assert np.all(error <= sums[:, -5:] + 1e-12)
    assert np.all(sums[:, -5:] <= 0.01) and (error.max() > 1e-7 or "discrete" in law.name)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["JIQ", "JSQ"])
def test_clock_can_be_set_back(name):
    model = model_of(2, 1e-4, POLICIES[name], laws.pareto(1.05))  # gaps of 5000: set back every 13 arrivals
    check_against_oracle(model, name, 60, 3)


# ---- invariants ---------------------------------------------------------------------------------------------

SOME_LAW = st.sampled_from([*WITH_FOURTH_MOMENT, laws.pareto(1.2), laws.lognormal(50)])


@pytest.mark.kernel
@given(st.integers(1, 40), st.floats(0.05, 0.99), SOME_LAW, SOME_LAW, st.sampled_from(list(POLICIES)), st.integers(0))
@settings(max_examples=40, deadline=None)
def test_states_are_consistent_and_independent_of_chunks(n, load, service, interarrival, name, seed):
    policy = POLICIES[name]
    if policy.code == policies.JSQ_D and n == 1:
        return
    model = model_of(n, load, policy, service, interarrival=interarrival, work=[0.5, 1.0])
    one, two = (model.start(streams.states(seed, 1)[0]) for _ in range(2))
    first, second = np.zeros((2, sum(model.columns.values())))
    model.advance(one, 300, first)
    for steps in (1, 7, 192, 100):
        model.advance(two, steps, second)
    for a, b in zip(one[0], two[0], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)
    assert first[NAMES["served"]] == 300
    one = one[0]
    if isinstance(model, workload._IdleOrBusy):
        busy, n_idle = np.array(listed(one.head, one.following), int), one.place[idle_or_busy.IDLE]
        assert len(set(busy)) == len(busy) == n - n_idle
        idle = np.setdiff1d(np.arange(n), busy)
        assert np.all(one.empty_at[idle] <= one.clock[idle_or_busy.NOW])
        if policy.code == policies.JBT:
            np.testing.assert_array_equal(np.sort(one.idle[:n_idle]), idle)
    else:
        queues, jobs = one.queues, listed(one.head, one.following)
        np.testing.assert_array_equal(np.bincount(one.server[jobs], minlength=n), queues)
        assert one.place[queue_lengths.N_FREE] == len(one.due) - queues.sum()
        assert one.place[queue_lengths.BUSY] == np.count_nonzero(queues)
        busy = queues > 0
        latest = np.zeros(n)
        np.maximum.at(latest, one.server[jobs], one.due[jobs])
        np.testing.assert_array_equal(latest[busy], one.empty_at[busy])
        np.testing.assert_array_equal(one.rank[one.order], np.arange(n))
        base = policy.parameter - 1 if policy.uses_threshold else 0
        for level, count in enumerate(one.first[:50]):
            assert count == np.count_nonzero(queues <= base + level)
            assert np.all(queues[one.order[:count]] <= base + level)


def listed(head, following):
    """Return all entries of the lists that begin in `head`."""
    found = []
    for entry in head:
        while entry >= 0:
            found.append(int(entry))
            entry = following[entry]
    return found


@pytest.mark.kernel
def test_jobs_and_levels_grow_without_a_trace():
    """An overloaded server under JSQ needs thousands of jobs and levels; the workload form needs neither."""
    sums = {}
    for policy in (policies.jsq(), policies.random()):
        model = model_of(1, 5.0, policy, laws.exponential())
        state = model.start(streams.states(1, 1)[0])
        sums[policy.name] = np.zeros(len(NAMES))
        model.advance(state, 5000, sums[policy.name])
        if policy.name == "JSQ":
            assert state[0].queues[0] > 3000 and len(state[0].first) > 3000 and len(state[0].due) > 3000
    same = [NAMES[name] for name in ("served", "waited", "wait", "all_busy", "second", "time")]
    np.testing.assert_allclose(sums["JSQ"][same], sums["random"][same], rtol=1e-12)


@pytest.mark.parametrize("policy", [policies.jiq(), policies.random(), policies.jsq()])
def test_same_seed_same_bits(policy):
    results = [run(10, 0.8, policy, laws.lognormal(2), 60_000, seed=5, threads=k, work=[0.0, 1.0]) for k in (1, 2, 2)]
    other = run(10, 0.8, policy, laws.lognormal(2), 60_000, seed=6)
    for result in results[1:]:
        assert repr(result.estimates) == repr(results[0].estimates)
        for name, estimate in result.estimates.items():
            np.testing.assert_array_equal(estimate.value, results[0].estimates[name].value)
            np.testing.assert_array_equal(estimate.half_width, results[0].estimates[name].half_width)
    assert other.mean_wait.value != results[0].mean_wait.value


# ---- exact values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", WITH_FOURTH_MOMENT, ids=str)
def test_one_server_is_pollaczek_khinchine(law):
    for load, arrivals in ((0.3, 200_000), (0.8, 800_000)):
        result = run(1, load, policies.jiq(), law, arrivals)
        exact = load * (1.0 + law.cv2) / (2.0 * (1.0 - load))
        assert near(result.mean_wait, exact) and result.mean_wait.half_width < 0.12 * exact
        assert result.mean_total.value == pytest.approx(load * (1.0 + result.mean_wait.value))
        assert near(result.wait_probability, load) or law.tail(0.0) < 1.0
        assert near(result.busy_variance, load * (1.0 - load))
        assert result.notes == ()


def test_unit_of_time_is_that_of_the_law():
    result = run(1, 0.6, policies.jiq(), laws.lognormal(1, mean=5.0), 400_000, work=[0.0, 10.0])
    scaled = run(1, 0.6, policies.jiq(), laws.lognormal(1), 400_000, work=[0.0, 2.0])
    assert result.mean_wait.value == pytest.approx(5.0 * scaled.mean_wait.value, rel=1e-9)
    assert result.mean_total.value == pytest.approx(scaled.mean_total.value, rel=1e-9)
    np.testing.assert_allclose(result.profile.value, scaled.profile.value, rtol=1e-9)
    assert near(result.mean_wait, 0.6 * 2 / (2 * 0.4) * 5.0)


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_two_servers_under_jiq(load):
    result = run(2, load, policies.jiq(), arrivals=2_000_000)
    exact = 2 * load**2 / ((1 - load) * (1 + 2 * load))  # 5.78571 at 0.9
    assert near(result.mean_wait, exact) and result.mean_wait.half_width < 0.02 * exact
    assert near(result.busy_fraction, load)


@pytest.mark.parametrize(
    "n, policy, exact",
    [
        (2, policies.jsq(), 4.47491282),
        (2, policies.jsq_d(2), 4.47491282),
        (2, policies.jbt(2), 5.05602),
        (2, policies.jbt(3), 4.92430),
        (2, policies.jbt(5), 5.13548),
        (3, policies.jsq(), 2.98242199),
    ],
    ids=str,
)
def test_exponential_service_under_other_policies(n, policy, exact):
    result = run(n, 0.9, policy, arrivals=1_500_000)
    assert near(result.mean_wait, exact) and result.mean_wait.half_width < 0.02 * exact
    assert near(result.busy_fraction, 0.9)


def test_users_own_policy():
    @policies.policy
    def shorter(queues, rates, stream):
        i = streams.below(stream, queues.size)
        return i if queues[i] <= queues[1 - i] else 1 - i

    assert near(run(2, 0.9, shorter, arrivals=500_000).mean_wait, 4.47491282)

    @policies.policy
    def out_of_range_when_long(queues, rates, stream):
        return 0 if queues[0] < 150 else queues.size

    with pytest.raises(ValueError, match="chose server 2; servers are numbered 0 to 1"):
        run(2, 0.9, out_of_range_when_long, arrivals=100_000)


@pytest.mark.parametrize("law", [laws.uniform(), laws.lognormal(2)], ids=str)
def test_random_routing_is_a_single_queue_at_each_server(law):
    for n in (2, 50):
        result = run(n, 0.7, policies.random(), law, 1_500_000)
        assert near(result.mean_wait, 0.7 * (1.0 + law.cv2) / 0.6)
        assert near(result.busy_fraction, 0.7)
        assert near(result.busy_variance, 0.7 * 0.3 / n)
        assert near(result.wait_probability, 0.7)
        assert near(result.all_busy, 0.7**n)


def test_weighted_random_routing():
    weights, load = np.array([1.0, 3.0, 2.0]), 0.6
    shares = weights / weights.sum()
    result = run(3, load, policies.random(), laws.erlang(2), 800_000, weights=weights)
    loads = 3 * load * shares
    assert near(result.mean_wait, shares @ (loads * 1.5 / (2 * (1 - loads))))
    assert near(result.busy_fraction, load)


@pytest.mark.parametrize("policy, r", [(policies.jiq(), 1), (policies.jbt(2), 2)], ids=str)
def test_weights_when_no_server_is_short(policy, r):
    """Two exponential servers, truncated chain solved."""
    load, share, size = 0.6, 0.75, 60
    result = run(2, load, policy, arrivals=1_000_000, weights=[share, 1 - share])
    index = np.arange(size * size).reshape(size, size)
    rows, columns, rates = [], [], []

    def jump(i, j, k, m, rate):
        if 0 <= k < size and 0 <= m < size and rate > 0.0:
            rows.append(index[i, j]), columns.append(index[k, m]), rates.append(rate)

    for i, j in itertools.product(range(size), repeat=2):
        first = 0.5 if (i < r and j < r) else 1.0 if i < r else 0.0 if j < r else share
        jump(i, j, i + 1, j, 2 * load * first)
        jump(i, j, i, j + 1, 2 * load * (1 - first))
        jump(i, j, i - 1, j, 1.0)
        jump(i, j, i, j - 1, 1.0)
    flow = sparse.csc_matrix((rates, (columns, rows)), shape=(size**2, size**2))
    generator = (flow - sparse.diags(np.asarray(flow.sum(axis=0)).ravel())).tolil()
    generator[0, :] = 1.0
    law = linalg.spsolve(generator.tocsc(), np.eye(1, size**2).ravel()).reshape(size, size)
    total = (law * np.add.outer(np.arange(size), np.arange(size))).sum()
    assert near(result.mean_total, total) and result.mean_total.half_width < 0.02 * total
    jobs = np.arange(size)
    assert near(result.two_or_more, ((law.sum(axis=1) + law.sum(axis=0)) @ (jobs > 1)) / 2)


@pytest.mark.parametrize("interarrival", [laws.deterministic(), laws.erlang(3), laws.hyperexponential(4)], ids=str)
def test_renewal_arrivals_at_one_exponential_server(interarrival):
    """GI/M/1: an arrival waits with probability s, the root of s = E exp(-(1 - s) gap)."""
    load = 0.7
    q = (1 - 0.6**0.5) / 2  # probability of the longer mean, 1 / (2 q)
    transforms = {
        "deterministic()": lambda u: math.exp(-u / load),
        "erlang(3)": lambda u: (1 + u / load / 3) ** -3,
        "hyperexponential(4)": lambda u: (1 - q) / (1 + u / (2 - 2 * q) / load) + q / (1 + u / (2 * q) / load),
    }
    transform = transforms[str(interarrival)]
    s = optimize.brentq(lambda v: v - transform(1 - v), 1e-9, 1 - 1e-3)
    work = np.array([0.0, 0.5, 3.0])
    for policy in (policies.jiq(), policies.jsq()):
        result = run(1, load, policy, arrivals=600_000, interarrival=interarrival, work=work)
        assert near(result.wait_probability, s) and near(result.all_busy, s)
        assert near(result.mean_wait, s / (1 - s))
        assert near(result.busy_fraction, load) and near(result.busy_variance, load * (1 - load))
        expected = load * np.exp(-(1 - s) * work)
        assert np.all(np.abs(result.profile.value - expected) <= 2 * result.profile.half_width)
        assert near(result.two_or_more, load * s)


def test_round_robin_is_erlang_arrivals_at_each_server():
    load, n = 0.8, 4
    s = optimize.brentq(lambda v: v - (1 + (1 - v) / load / n) ** -n, 1e-9, 1 - 1e-3)
    result = run(n, load, policies.round_robin(), arrivals=1_000_000)
    assert near(result.mean_wait, s / (1 - s)) and near(result.wait_probability, s)


@pytest.mark.parametrize("load", [0.5, 1.5])
def test_room_for_one_job_is_erlangs_loss_system(load):
    n = 5
    loss = 1.0
    for k in range(1, n + 1):
        loss = load * n * loss / (k + load * n * loss)
    for policy in (policies.jiq(), policies.jsq(), policies.jbt(1)):
        result = run(n, load, policy, laws.lognormal(1), 400_000, buffers=1)
        assert near(result.lost, loss) and result.mean_wait.value == 0.0
        assert near(result.mean_total, load * n * (1 - loss))
        assert near(result.busy_fraction, load * (1 - loss))
        k = np.arange(n + 1)
        law = np.array([(load * n) ** j / math.factorial(j) for j in k])
        law /= law.sum()
        assert near(result.busy_variance, ((k - law @ k) ** 2 @ law) / n**2)


def test_room_for_some_jobs_at_one_server():
    load, room = 1.2, 4
    law = load ** np.arange(room + 1.0)
    law /= law.sum()
    result = run(1, load, policies.random(), arrivals=500_000, buffers=room)
    assert near(result.lost, law[-1]) and near(result.mean_total, law @ np.arange(room + 1))
    assert near(result.mean_wait, law[1:-1] @ np.arange(1, room) / (1 - law[-1]))


def test_start_in_the_equilibrium_of_infinitely_many_servers():
    """From empty, the busy fraction falls short by ``load * residual_tail(t)`` at time t; the profile knows better."""
    law, options = laws.pareto(1.5, mean=3.0), {"arrivals": 2_000_000, "work": [0.0, 6.0]}
    empty, filled = (run(1000, 0.8, policies.jiq(), law, start=s, **options) for s in ("empty", "infinite-server"))
    exact = 0.8 * law.residual_tail([0.0, 6.0])
    for found in (empty, filled):
        assert np.all(abs(found.profile.value - exact) <= 2 * found.profile.half_width)
    assert near(filled.busy_fraction, 0.8) and empty.busy_fraction.high < 0.8 - 0.02
    assert filled.start == "infinite-server" and "start" not in dir(empty)
    for policy, more in ((policies.random(), {}), (policies.jsq(), {}), (policies.jiq(), {"buffers": 2})):
        with pytest.raises(ValueError, match="start 'infinite-server' is for JIQ with infinite buffers"):
            run(10, 0.8, policy, start="infinite-server", **more)


def test_names_of_an_earlier_version_still_work_with_a_warning():
    for old, new in (({"bias": [1, 2]}, {"weights": [1, 2]}), ({"filled": True}, {"start": "infinite-server"})):
        with pytest.warns(FutureWarning, match=f"{next(iter(old))}=.* is now {next(iter(new))}=") as caught:
            found = run(2, 0.5, policies.jiq(), arrivals=2000, **old)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert found.mean_wait.value == run(2, 0.5, policies.jiq(), arrivals=2000, **new).mean_wait.value


@pytest.mark.parametrize("law", [*WITH_FOURTH_MOMENT, laws.lomax(2.5)], ids=str)
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_profile_of_one_server_is_that_of_pollaczek_and_khinchine(law, load):
    w = law.mean * np.array([0.0, 0.2, 0.7, 1.5, 4.0, 11.0])
    found = run(1, load, policies.jiq(), law, 1_000_000, seed=3, work=w)
    exact = theory.workload_tail(law, load, w)
    assert found.excess.value[0] == 0.0
    assert np.all(abs(found.profile.value - exact.tail) <= 2 * found.profile.half_width + exact.error)
    assert found.profile.value == pytest.approx(load * law.residual_tail(w) + found.excess.value)


def test_profile_of_two_exponential_servers():
    """A server with k jobs has Erlang(k) work."""
    w, queue = np.array([0.1, 0.5, 2.0, 8.0]), theory.two_server_law(0.4, 1, tolerance=1e-9).marginals[1:]
    found = run(2, 0.8, policies.jiq(), arrivals=1_000_000, work=w)
    exact = queue @ stats.gamma.sf(w, np.arange(1, queue.size + 1)[:, None])
    assert np.all(abs(found.profile.value - exact) <= 2 * found.profile.half_width)
    assert found.profile.half_width[1] < 4e-4


@pytest.mark.parametrize(
    "name, given",
    [
        ("JSQ", {}),
        ("JSQ(2)", {}),
        ("JIQ", {"buffers": [1, 2, 30], "load": 1.2}),
        ("JBT(3)", {"shares": [0.6, 0.3, 0.1]}),
        ("round robin", {}),
    ],
)
def test_profile_from_the_waits_is_the_one_that_arrivals_find(name, given):
    """Poisson arrivals see time averages; each is let in alone, and the servers looked at before it joins."""
    law, w, load = laws.lognormal(2, mean=2.0), np.array([0.5, 1.0, 5.0]), given.get("load", 0.8)
    options = {key: value for key, value in given.items() if key != "load"}
    model, looks = model_of(3, load, POLICIES[name], law, **options), []
    state, sums = model.start(streams.states(4, 1)[0]), np.zeros(len(NAMES))
    for _ in range(31_000):
        before = state[0].empty_at.copy()
        model.advance(state, 1, sums)
        late = idle_or_busy.LATE * (state[0].empty_at.max() < before.max() - 1e3)
        looks.append(np.mean(before[:, None] - late - state[0].clock[0] > w / law.mean, axis=0))
    batches = np.reshape(looks[2000:], (29, 1000, 3)).mean(axis=1)
    public = {"weights" if key == "shares" else key: value for key, value in options.items()}
    found = run(3, load, POLICIES[name], law, 1_000_000, work=w, **public).profile
    error = np.hypot(2.0 * batches.std(axis=0) / math.sqrt(29), found.half_width)
    assert np.all(abs(found.value - batches.mean(axis=0)) <= 2.0 * error)


def test_upper_limits_where_nobody_waits():
    law, options = laws.pareto(1.5, mean=2.0), {"work": [0.0, 1.0], "start": "infinite-server"}
    found = run(1000, 0.5, policies.jiq(), law, 400_000, **options)
    assert found.wait_probability.value == 0.0 and np.all(found.excess.value == 0.0)
    assert np.all(found.excess.high >= 0.5 * 3.7 / (0.5 * 400_000))
    assert np.all(found.excess.high <= 0.5 * 3.7 / (0.5 * 200_000))


@pytest.mark.parametrize("law", [laws.lognormal(2), laws.deterministic(), laws.pareto(2.5)], ids=str)
def test_profile_of_many_servers_is_the_fixed_point(law):
    """Foss and Stolyar (2017), Theorem 2: x*_w = load x residual tail, at load < 1/2 for any law."""
    work = np.array([0.0, 0.25, 0.9, 2.0])
    result = run(1000, 0.4, policies.jiq(), law, 1_000_000, work=work)
    error = np.abs(result.profile.value - 0.4 * law.residual_tail(work))
    assert np.all(error <= 2 * result.profile.half_width + 2e-3)
    assert result.wait_probability.value == 0.0 and result.wait_probability.half_width < 1e-5
    assert result.mean_wait.value == 0.0 and result.mean_wait.half_width > 0.0
    assert near(result.busy_variance, 0.4 / 1000)  # M/G/infinity: busy servers are Poisson


def test_pooled_queue_narrows_the_interval():
    plain = run(4, 0.95, policies.jiq(), arrivals=1_000_000, buffers=10**9)  # no control variate there
    result = run(4, 0.95, policies.jiq(), arrivals=1_000_000)
    assert result.mean_wait.half_width < 0.6 * plain.mean_wait.half_width


# ---- moments, memory, refusals ------------------------------------------------------------------------------


def test_result_says_when_moments_are_missing():
    assert run(2, 0.5, policies.jiq(), laws.pareto(4.5), 10_000).notes[1:] == ()
    (note,) = (n for n in run(2, 0.5, policies.jiq(), laws.pareto(3), 10_000).notes if "fourth" in n)
    assert "pareto(3) has an infinite fourth moment" in note and "too short" in note
    notes = run(2, 0.5, policies.jiq(), laws.pareto(1.5), 10_000).notes
    assert any("infinite variance" in note and "mean wait is infinite" in note for note in notes)
    notes = run(2, 0.6, policies.jiq(), weights=[9, 1], arrivals=10_000).notes
    assert any("stable is not known" in note for note in notes)
    notes = run(2, 0.5, policies.jiq(), interarrival=laws.pareto(3), arrivals=10_000).notes
    assert any("Interarrival times" in note for note in notes)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_a_million_servers_fit_into_300_megabytes():
    code = (
        "from lbcore.chance import laws\n"
        "from lbcore.simulate import policies, workload\n"
        "jiq, law = policies.jiq(), laws.exponential()\n"
        "workload.simulate_workload(10**6, .9, jiq, law, arrivals=10**6, seed=1, progress=False)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    for _ in range(2):  # the first may have to compile
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300 * 1024


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"n_servers": 0}, ValueError, "n_servers must be a whole number of at least 1, not 0"),
        ({"n_servers": 2.5}, ValueError, "n_servers must be a whole number of at least 1, not 2.5"),
        ({"n_servers": 10**12}, MemoryError, "GiB"),
        ({"load": 1.0}, ValueError, "load must be a number above 0 and below 1, not 1.0; from 1 on the queues grow"),
        ({"load": math.nan}, ValueError, "load must be a number above 0 and below 1, not nan"),
        ({"load": "high"}, TypeError, "load must be a number above 0 and below 1, not 'high'"),
        ({"load": math.inf, "buffers": 3}, ValueError, "load must be a number above 0, not inf"),
        ({"policy": "jiq"}, TypeError, "policy must be made by lb.jsq"),
        ({"policy": policies.jsq_d(3)}, ValueError, "d must be at most the number of servers"),
        ({"service": 1.0}, TypeError, "service must be made by lb.laws.exponential"),
        ({"interarrival": "poisson"}, TypeError, "interarrival must be made by lb.laws.exponential"),
        ({"buffers": 0}, ValueError, "buffers must be a whole number of at least 1, not 0; the job in service is one"),
        ({"buffers": 1.5}, ValueError, "buffers must be a whole number of at least 1, not 1.5"),
        ({"buffers": [1, 1.5]}, ValueError, "buffers must be whole numbers"),
        ({"buffers": [1, 2, 3]}, ValueError, "buffers must be numbers of at least 1, 2 of them"),
        ({"weights": [1.0]}, ValueError, "weights must be numbers of at least 0, 2 of them"),
        ({"weights": [1.0, -1.0]}, ValueError, "weights must be numbers of at least 0, not -1.0"),
        ({"weights": [0.0, 0.0]}, ValueError, "weights must not be 0 for all servers"),
        ({"weights": [1, 1], "policy": policies.jsq()}, ValueError, "weights are for random routing, JIQ and JBT"),
        ({"weights": [9, 1], "policy": policies.random(), "load": 0.6}, ValueError, "send 0.9 of all jobs to one"),
        ({"work": [1.0, 0.5]}, ValueError, "work must be increasing, not 1 before 0.5"),
        ({"work": [math.nan]}, ValueError, "work must be numbers of at least 0, not nan"),
        ({"start": "full"}, ValueError, "start must be one of 'empty', 'infinite-server', not 'full'"),
        ({"arrivals": 0}, ValueError, "arrivals must be a whole number of at least 32, not 0"),
        ({"arrivals": None, "rel_precision": 0.1, "service": laws.pareto(1.5)}, ValueError, "infinite for pareto"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(change, error, words):
    given = {"n_servers": 2, "load": 0.5, "policy": policies.jiq(), "service": laws.uniform(), "arrivals": 1000}
    with pytest.raises(error, match=words):
        simulate_workload(progress=False, **given | change)
