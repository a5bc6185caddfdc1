"""Do 95 % intervals hold the exact value in 95 % of independent runs? 400 runs at each of six settings.

Run ``python benchmarks/coverage.py [runs]``, ten minutes for 400; all lengths are the defaults.
"""

import sys
import time

from lbcore.chance import laws
from lbcore.simulate import markov, policies, slotted, workload

BATCH, OFFER = laws.discrete([0, 4], [0.5, 0.5]), laws.discrete([0, 2], [0.5, 0.5])


def jiq_two_servers(load):
    """Return the mean number of jobs under JIQ, N = 2, Poisson and exponential: generator on n^2 and ij."""
    return 2 * load * (1 + load) / ((1 - load) * (1 + 2 * load))


def pollaczek_khinchine(load, cv2):
    """Return the mean number of jobs in M/G/1."""
    return load + load**2 * (1 + cv2) / (2 * (1 - load))


def settings():
    """Yield (name, function of the seed that runs it, exact mean number of jobs)."""
    options = {"progress": False}

    def chain(n, load, policy):
        return lambda seed: markov.simulate_markov(n, load, policy, seed=seed, **options)

    def one_queue(load, law):
        return lambda seed: workload.simulate_workload(1, load, policies.random(), law, seed=seed, **options)

    yield "M/M/1, load 0.5", chain(1, 0.5, policies.random()), 1.0
    yield "M/M/1, load 0.98", chain(1, 0.98, policies.random()), 49.0
    yield "JIQ, N = 2, load 0.9", chain(2, 0.9, policies.jiq()), jiq_two_servers(0.9)
    yield "JIQ, N = 2, load 0.98", chain(2, 0.98, policies.jiq()), jiq_two_servers(0.98)
    yield "M/G/1, Erlang(2), load 0.9", one_queue(0.9, laws.erlang(2)), pollaczek_khinchine(0.9, 0.5)
    # 78.67535650564: the chain of both queues solved on 330 x 330 states
    run = slotted.simulate_slotted
    yield (
        "slotted JBT(1), N = 2, epsilon 0.05",
        lambda seed: run(2, 0.05, policies.jbt(1), BATCH, OFFER, seed=seed, **options),
        78.67535650564,
    )


def main(runs):
    hits_in_all = trials = 0
    print(f"{'setting':38}{'covered':>9}{'believed':>10}{'half-width':>12}{'s a run':>9}")
    for name, run, exact in settings():
        start, hits, believed, width = time.perf_counter(), 0, 0, 0.0
        for seed in range(1000, 1000 + runs):
            result = run(seed)
            hits += result.mean_total.low <= exact <= result.mean_total.high
            believed += result.believable
            width += result.mean_total.half_width / exact / runs
        seconds = (time.perf_counter() - start) / runs
        print(f"{name:38}{hits / runs:9.3f}{believed / runs:10.3f}{width:12.2%}{seconds:9.2f}", flush=True)
        hits_in_all, trials = hits_in_all + hits, trials + runs
    print(f"{'all':38}{hits_in_all / trials:9.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
