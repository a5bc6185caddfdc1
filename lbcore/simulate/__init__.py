"""Policies, the three simulators, and what turns sums into numbers with honest intervals."""

from lbcore import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "simulate_markov": "markov",
        "simulate_workload": "workload",
        "simulate_slotted": "slotted",
        "pooled_mean": "pooled",
        "simulate_path": "transient",
        "pair_excess": "transient",
        "simulate_diffusion": "paths",
        "sample_path": "paths",
        "sample_states": "paths",
        "mean_first_time": "paths",
    },
)
