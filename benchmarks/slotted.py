"""Time per server and slot of the slotted model, on one pinned core, and what a second thread brings.

Run ``taskset -c 1 python benchmarks/slotted.py``; the last lines, on two threads, unpin themselves.
"""

import os
import time

from lbcore.chance import laws, streams
from lbcore.simulate import estimate, policies, slotted


def seconds(n_servers, policy, slots, threads):
    """Return the wall-clock time of a run, kernels compiled."""
    batch, offer = laws.discrete([0, 2 * n_servers], [0.5, 0.5]), laws.discrete([0, 2], [0.5, 0.5])

    def run(slots):
        return slotted.simulate_slotted(
            n_servers, 0.025 * n_servers, policy, batch, offer,
            slots=slots, replications=4, seed=1, threads=threads, progress=False,
        ).seconds  # fmt: skip

    run(1000)
    return min(run(slots) for _ in range(3))


def single_chain(n_servers, policy, slots):
    """Return ns per slot of one chain, without the driver."""
    batch, offer = laws.discrete([0, 2 * n_servers], [0.5, 0.5]), laws.discrete([0, 2], [0.5, 0.5])
    run = slotted.simulate_slotted(
        n_servers, 0.025 * n_servers, policy, batch, offer, replications=1, seed=1, slots=1, live=True
    )
    model = run._model
    state = model.start(streams.states(1, 1)[0])
    out = estimate.np.zeros(sum(model.columns.values()))
    model.advance(state, 1000, out)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        model.advance(state, slots, out)
        best = min(best, time.perf_counter() - start)
    return 1e9 * best / slots


def main():
    print("ns per slot (and per server and slot), one core")
    for policy in (policies.jbt(1), policies.jbt(2), policies.random(), policies.jsq(), policies.jsq_d(2)):
        cells = []
        for n in (2, 10, 100, 1000):
            nanoseconds = single_chain(n, policy, 4 * 10**6 // (n + 10))
            cells.append(f"N = {n}: {nanoseconds:8.1f} ({nanoseconds / n:5.2f})")
        print(f"  {policy!r:8}", "  ".join(cells))
    everywhere = set(range(os.cpu_count()))
    os.sched_setaffinity(0, everywhere)
    for n in (10, 100):
        one, two = (seconds(n, policies.jbt(2), 2 * 10**8 // n, threads) for threads in (1, 2))
        print(f"JBT(2), N = {n}: two threads {one / two:.2f} times as fast as one")


if __name__ == "__main__":
    main()
