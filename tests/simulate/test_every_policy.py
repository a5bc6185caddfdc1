"""Every policy in every simulator against solved chains: a policy added in policies.py alone is right, or refused."""

import dataclasses
import inspect
import math
from functools import cache

import naive
import numpy as np
import pytest

from lbcore.chance import laws, streams
from lbcore.simulate import policies
from lbcore.simulate.markov import simulate_markov
from lbcore.simulate.slotted import simulate_slotted
from lbcore.simulate.workload import simulate_workload

RATES = [1.2, 1.0, 0.8]
COIN = laws.discrete([0, 1], [0.5, 0.5])


@policies.policy
def first_below_two(queues, rates, stream):
    for i in range(queues.size):
        if queues[i] < 2:
            return i
    return streams.below(stream, queues.size)


def first_choice(queues, rates):
    first = next((i for i, q in enumerate(queues) if q < 2), None)
    return naive.random_choice(queues) if first is None else np.arange(len(queues)) == first


# by the function that makes it: arguments, and the probabilities of the servers (of queues and rates; turn)
EXAMPLES = {
    "random": [
        ({}, lambda q, rates: naive.random_choice(q)),
        ({"by_rate": True}, naive.random_choice),
    ],
    "round_robin": [({}, lambda q, rates, turn: np.arange(len(q)) == turn)],
    "jsq": [({}, lambda q, rates: naive.shortest_choice(q))],
    "jsq_d": [
        ({"d": 2}, lambda q, rates: naive.sampled_choice(q, 2, False)),
        ({"d": 1}, lambda q, rates: naive.random_choice(q)),
        ({"d": 2, "replacement": True}, lambda q, rates: naive.sampled_choice(q, 2, True)),
    ],
    "jbt": [
        ({"r": 2}, lambda q, rates: naive.below_choice(q, 2)),
        ({"r": 3, "by_rate": True}, lambda q, rates: naive.below_choice(q, 3, rates)),
        ({"r": math.inf}, lambda q, rates: naive.random_choice(q)),
    ],
    "jiq": [
        ({}, lambda q, rates: naive.below_choice(q, 1)),
        ({"by_rate": True}, lambda q, rates: naive.below_choice(q, 1, rates)),
    ],
    "idle_one_first": [({}, lambda q, rates: naive.idle_one_choice(q))],
}
MAKERS = {name: make for name, make in policies.FACTORIES.items() if name != "policy"}
CASES = [(MAKERS[name](**options), choice) for name, cases in EXAMPLES.items() for options, choice in cases]
CASES.append((first_below_two, first_choice))
BUILT_IN = [policy for policy, _ in CASES if policy.function is None]
every_policy = pytest.mark.parametrize(("policy", "choice"), CASES, ids=[repr(policy) for policy, _ in CASES])


def test_every_policy_has_an_example():
    assert set(MAKERS) == set(EXAMPLES)


def with_rates(choice, rates):
    """Return the choice as a function of queues, and of the turn where it takes one; and the number of turns."""
    turns = len(rates) if len(inspect.signature(choice).parameters) == 3 else 1
    return (lambda queues, *turn: choice(queues, rates, *turn)), turns


@cache
def solved(choice, load, rates):
    bound, turns = with_rates(choice, rates)
    return naive.solve_chain(3, load, bound, 11 if turns > 1 else 14, rates, turns)


def assert_agrees(result, exact, *names):
    for name in names:
        found = getattr(result, name)
        assert abs(found.value - exact[name]) <= 2.5 * found.half_width + 2e-5, (name, found, exact[name])


@every_policy
@pytest.mark.parametrize("rates", [None, RATES], ids=["equal", "unequal"])
def test_markov(policy, choice, rates):
    load = 0.4 if rates is None else 0.3
    result = simulate_markov(3, load, policy, rates=rates, events=10**6, seed=1, progress=False)
    exact = solved(choice, load, tuple(rates or (1.0, 1.0, 1.0)))
    assert_agrees(result, exact, "mean_total", "mean_wait", "wait_probability", "all_busy")


@every_policy
def test_workload(policy, choice):
    result = simulate_workload(3, 0.4, policy, laws.exponential(), arrivals=5 * 10**5, seed=1, progress=False)
    assert_agrees(result, solved(choice, 0.4, (1.0, 1.0, 1.0)), "mean_total", "mean_wait", "wait_probability")


@every_policy
@pytest.mark.parametrize("offers", [(0.5, 0.5), (0.6, 0.4)], ids=["equal", "unequal"])
def test_slotted(policy, choice, offers):
    services = [laws.discrete([0, 1], [1 - p, p]) for p in offers]
    result = simulate_slotted(
        2, 0.5, policy, laws.discrete([0, 2], [0.5, 0.5]), services, slots=10**6, seed=1, progress=False
    )
    bound, turns = with_rates(choice, offers)
    exact = {"mean_total": naive.two_server_mean(2, 0.5, bound, 20 if turns > 1 else 28, offers, turns)}
    assert_agrees(result, exact, "mean_total")


@pytest.mark.parametrize("policy", BUILT_IN, ids=repr)
@pytest.mark.parametrize("simulator", ["markov", "markov with rates", "workload", "workload with buffers", "slotted"])
def test_an_unknown_policy_is_refused(simulator, policy):
    unknown, options = dataclasses.replace(policy, code=99), {"replications": 2, "seed": 1, "progress": False}
    run = {
        "markov": lambda: simulate_markov(3, 0.4, unknown, events=100, **options),
        "markov with rates": lambda: simulate_markov(3, 0.4, unknown, rates=RATES, events=100, **options),
        "workload": lambda: simulate_workload(3, 0.4, unknown, laws.exponential(), arrivals=100, **options),
        "workload with buffers": lambda: simulate_workload(
            3, 0.4, unknown, laws.exponential(), buffers=3, arrivals=100, **options
        ),
        "slotted": lambda: simulate_slotted(
            3, 0.4, unknown, laws.discrete([0, 3], [0.5, 0.5]), COIN, slots=100, **options
        ),
    }
    with pytest.raises(ValueError, match=r"policy .* chose server -1; servers are numbered 0 to 2"):
        run[simulator]()
