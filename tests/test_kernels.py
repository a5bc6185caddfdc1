"""Every kernel of the simulators, on runs of a few thousand steps.

The suite runs this file once more with ``NUMBA_DISABLE_JIT=1``, see `test_kernel_coverage`.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import lbcore as lb

POLICIES = {
    "random": lb.random,
    "random by rate": lambda: lb.random(by_rate=True),
    "round robin": lb.round_robin,
    "jsq": lb.jsq,
    "jsq_d": lambda: lb.jsq_d(2),
    "jsq_d replaced": lambda: lb.jsq_d(3, replacement=True),
    "jiq": lb.jiq,
    "jbt": lambda: lb.jbt(2),
    "idle one first": lb.idle_one_first,
    "jbt by rate": lambda: lb.jbt(3, by_rate=True),
}
LAWS = {
    "exponential": lb.laws.exponential(),
    "deterministic": lb.laws.deterministic(),
    "erlang": lb.laws.erlang(3),
    "hyperexponential": lb.laws.hyperexponential(4),
    "lognormal": lb.laws.lognormal(2),
    "weibull": lb.laws.weibull(0.7),
    "uniform": lb.laws.uniform(),
    "pareto": lb.laws.pareto(2.5),
    "gamma": lb.laws.gamma(4),
    "lattice": lb.laws.discrete([0.5, 1, 3], [0.5, 0.3, 0.2], mean=1),
    "empirical": lb.laws.empirical([1.0, 2.0, 5.0]),
    "mixture": lb.laws.mixture(
        [0.5, 0.3, 0.2], [lb.laws.erlang(2), lb.laws.bernoulli(0.5, 3), lb.laws.empirical([1, 4])]
    ),
}
SHORT = {"replications": 2, "seed": 3, "progress": False}


def own(queues, rates, stream):
    return int(lb.streams.uniform(stream) * queues.size)


def numbers():
    """Run everything once; return the mean numbers of jobs by name."""
    found, batch, offer = {}, lb.laws.discrete([0, 3, 7], [0.5, 0.3, 0.2]), lb.laws.discrete([0, 1, 2], [0.3, 0.4, 0.3])
    for name, make in POLICIES.items():
        runs = {
            "occupancy or servers": lb.simulate_markov(4, 0.7, make(), events=3000, **SHORT),
            "servers": lb.simulate_markov(4, 0.7, make(), rates=[1, 1, 1.2, 1.3], events=2000, **SHORT),
            "workload": lb.simulate_workload(4, 0.7, make(), lb.laws.exponential(), arrivals=1000, **SHORT),
            "buffers": lb.simulate_workload(4, 0.7, make(), lb.laws.erlang(2), buffers=2, arrivals=1000, **SHORT),
            "slotted": lb.simulate_slotted(4, 0.5, make(), batch, offer, slots=600, **SHORT),
        }
        found |= {f"{name}, {kind}": run.mean_total.value for kind, run in runs.items()}
    for name, law in LAWS.items():
        run = lb.simulate_workload(3, 0.6, lb.jiq(), law, work=[0.0, 0.5, 2.0], arrivals=1200, **SHORT)
        found[f"JIQ, {name}"] = run.mean_wait.value
    lanes = lb.simulate_markov(8, 0.5, lb.jsq(), events=16 * 300, replications=16, seed=1, progress=False)
    found["lanes, JSQ"] = lanes.mean_total.value
    for policy in (lb.jbt(2), lb.jsq_d(2)):
        run = lb.simulate_markov(8, 0.5, policy, events=16 * 200, replications=16, seed=1, progress=False)
        found[f"lanes, {policy}"] = run.mean_total.value
    long = lb.simulate_markov(1, 0.97, lb.jsq(), events=3000, **SHORT)
    found["own"] = lb.simulate_markov(3, 0.7, lb.policy(own), events=2000, **SHORT).mean_total.value
    return found | {"one server": long.mean_total.value}


@pytest.mark.kernel
def test_all_kernels_run_and_give_numbers():
    found = numbers()
    assert all(np.isfinite(value) and value >= 0 for value in found.values()), found
    if "NUMBERS_FILE" in os.environ:
        Path(os.environ["NUMBERS_FILE"]).write_text(json.dumps(found))
