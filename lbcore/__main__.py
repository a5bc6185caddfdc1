"""Compile all kernels ahead: ``python -m lbcore``, what `make lab` runs before it opens the notebooks."""

import time

from lbcore import __version__, compiled, theory
from lbcore.chance import laws
from lbcore.simulate import policies, transient
from lbcore.simulate.markov import simulate_markov
from lbcore.simulate.slotted import simulate_slotted
from lbcore.simulate.workload import simulate_workload


def main():
    """Run each kernel once, so that it is compiled and cached, and remove the kernels of earlier sources."""
    start = time.perf_counter()
    removed = compiled.remove_stale()
    theory.diffusion_law(1.0)
    theory.two_server_law(0.5, 2)
    transient.simulate_path([0.0, 1.0], laws.exponential(), 0.5, [1.0], [0.0], seed=1)
    theory.finite_law(100, 1.0)
    short = {"replications": 16, "seed": 1, "progress": False}
    batch, offer = laws.bernoulli(0.5, 6), laws.bernoulli(0.5, 2)
    for policy in (policies.jsq(), policies.jsq_d(2), policies.jbt(2), policies.jiq(), policies.random(),
                   policies.round_robin()):  # fmt: skip
        simulate_markov(3, 0.5, policy, events=16_000, **short)
        simulate_markov(3, 0.5, policy, rates=[1.0, 1.0, 1.1], events=16_000, **short)
        simulate_workload(3, 0.5, policy, laws.exponential(), arrivals=16_000, **short)
        simulate_slotted(3, 0.5, policy, batch, offer, slots=16_000, **short)
    seconds = time.perf_counter() - start
    print(f"lbcore {__version__}: kernels ready in {compiled.FOLDER} ({seconds:.1f} s, {removed} old folders removed)")


if __name__ == "__main__":
    main()
