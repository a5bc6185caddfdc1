"""Nanoseconds per event of the occupancy-count chain, beside the hand-tuned C program, in one pinned run.

    python benchmarks/markov.py path/to/jsq_ctmc.c

Each line: servers, policy, nanoseconds per event of one chain, of 16 chains in vector lanes (where the policy can),
of the C program's two variants of JSQ, and the ratios of ours to its `branchy` variant. CPU time, best of three, load
0.9, every chain warmed up first.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lbcore.chance import streams
from lbcore.simulate import markov, policies

LOAD, EVENTS = 0.9, 10_000_000
POLICIES = [
    policies.jsq(),
    policies.jiq(),
    policies.jsq_d(2),
    policies.jsq_d(2, replacement=True),
    policies.jbt(3),
    policies.random(),
]


def nanoseconds(n_servers, policy, rates=None, events=EVENTS):
    """Return the CPU time of one event."""
    if rates is None:
        model = markov._OccupancyChain(n_servers, LOAD, policy)
    else:
        model = markov._ServersChain(rates, LOAD, policy)
    state, out = model.start(streams.states(1, 1)[0]), np.zeros(sum(model.columns.values()))
    chunk, best = model.chunk_steps, np.inf
    for _ in range(max(1, events // 4 // chunk)):
        model.advance(state, chunk, out)
    for _ in range(3):
        begin = time.thread_time()
        for _ in range(events // 3 // chunk):
            model.advance(state, chunk, out)
        best = min(best, (time.thread_time() - begin) / (events // 3 // chunk * chunk))
    return 1e9 * best


def lane_nanoseconds(n_servers, policy, events=EVENTS):
    """Return the CPU time of one event in one of 16 lanes, nan for a policy that cannot."""
    model = markov._OccupancyChain(n_servers, LOAD, policy)
    if model.group == 1:
        return np.nan
    states = [model.start(s) for s in streams.states(1, model.group)]
    outs, steps = np.zeros((model.group, sum(model.columns.values()))), events // 4 // model.group
    best = np.inf
    for _ in range(4):
        begin = time.thread_time()
        model.advance_group(states, steps, outs)
        best = min(best, (time.thread_time() - begin) / (steps * model.group))
    return 1e9 * best


def c_nanoseconds(program, n_servers):
    """Return the C program's (branchy, single) times, best of three."""
    runs = []
    for _ in range(3):
        shown = subprocess.run(
            [program, str(n_servers), str(LOAD), str(EVENTS)], capture_output=True, text=True, check=True
        ).stdout
        runs.append([float(x) for x in re.findall(r"ns/event=([\d.]+)", shown)])
    return np.min(runs, axis=0)


def main(source):
    """Print the table."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "jsq_ctmc")
        subprocess.run(["gcc", "-O3", "-march=native", "-o", program, source], check=True)
        print("  servers  policy                      chain   lanes  C branchy  C single   ratio  ratio of lanes")
        for n in (10, 100, 10**4, 10**6):
            branchy, single = c_nanoseconds(program, n)
            for policy in POLICIES:
                chain, lanes = nanoseconds(n, policy), lane_nanoseconds(n, policy)
                print(
                    f"{n:>9}  {policy!r:<24} {chain:>8.2f} {lanes:>7.2f} {branchy:>10.2f} {single:>9.2f} "
                    f"{chain / branchy:>7.2f} {lanes / branchy:>15.2f}"
                )
    print("\nPer-server chain, unequal rates")
    for n in (10, 100, 10**3):
        for policy in (
            policies.jsq(),
            policies.jbt(3),
            policies.round_robin(),
            policies.random(by_rate=True),
        ):
            spread = np.linspace(0.5, 1.5, n)
            if policy.code == policies.ROUND_ROBIN:  # stable only near equal rates
                spread = np.linspace(0.95, 1.05, n)
            print(f"{n:>9}  {policy!r:<24} {nanoseconds(n, policy, spread, 3_000_000):>9.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
