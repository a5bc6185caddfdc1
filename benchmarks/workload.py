"""Nanoseconds per arrival with general service, beside the hand-tuned C program, in one pinned run.

    python benchmarks/workload.py path/to/jiq_general.c

First JIQ against C, then the other policies, all at load 0.9: CPU time, best of five, every system warmed up first.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lbcore.chance import laws, streams
from lbcore.simulate import policies, workload

LOAD, ARRIVALS, REPEATS = 0.9, 4_000_000, 5
LAWS = {"exp": laws.exponential(), "lognormal 4": laws.lognormal(4), "pareto 2.5": laws.pareto(2.5)}


def started(n_servers, policy, service, **options):
    """Return a function that runs arrivals of a warm system and returns the CPU time of one in nanoseconds."""
    model = workload._model(n_servers, LOAD, policy, service, **options)
    state, out = model.start(streams.states(1, 1)[0]), np.zeros(sum(model.columns.values()))

    def run(arrivals=ARRIVALS):
        begin = time.thread_time()
        for _ in range(arrivals // model.chunk_steps):
            model.advance(state, model.chunk_steps, out)
        return 1e9 * (time.thread_time() - begin) / (arrivals // model.chunk_steps * model.chunk_steps)

    run(max(ARRIVALS // 4, 2 * n_servers))
    return run


def c_nanoseconds(program, n_servers, law):
    """Return the C program's time of one arrival."""
    command = [program, str(n_servers), str(LOAD), str(ARRIVALS), *law.split()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"ns/arrival=([\d.]+)", shown)[1])


def main(source):
    """Print the tables."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "jiq_general")
        subprocess.run(["gcc", "-O3", "-march=native", "-ffast-math", "-o", program, source, "-lm"], check=True)
        print("JIQ\n  servers  service          ns per arrival        C    ratio")
        for n in (1000, 10**5, 10**6):
            for name, law in LAWS.items():
                run = started(n, policies.jiq(), law)
                pairs = [(run(), c_nanoseconds(program, n, name)) for _ in range(REPEATS)]  # turn about
                ours, theirs = np.min(pairs, axis=0)
                print(f"{n:>9}  {law!r:<15} {ours:>15.1f} {theirs:>8.1f} {ours / theirs:>8.2f}", flush=True)
    print("\nExponential service\n  servers  policy                             ns per arrival")
    cases = [
        (policies.random(), {}),
        (policies.round_robin(), {}),
        (policies.jsq(), {}),
        (policies.jbt(3), {}),
        (policies.jsq_d(2), {}),
        (policies.jiq(), {"interarrival": laws.erlang(2)}),
        (policies.jiq(), {"work": np.linspace(0.0, 5.0, 51)}),
    ]
    for n in (10, 1000, 10**5):
        for policy, options in cases:
            run = started(n, policy, laws.exponential(), **options)
            best = min(run(ARRIVALS // 4) for _ in range(3))
            name = f"{policy}{''.join(f', with {key}' for key in options)}"
            print(f"{n:>9}  {name:<35} {best:>13.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
