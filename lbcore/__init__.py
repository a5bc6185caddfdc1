"""Load-balancing theorems, exact and simulated: a small numba core behind research notebooks.

============== ================================================================================
compiled       how kernels are compiled and cached
checks         input checks that say what is allowed
streams, draws reproducible random streams, draws from laws inside kernels
policies       dispatching rules: random, round robin, JSQ, JSQ(d), JIQ, JBT(r), idle-one-first, your own
laws           service, interarrival and slotted laws
results        what a simulation returns: estimates with intervals
intervals      warm-up, confidence intervals, control variates
estimate       replications, stop rules, live refinement
markov, lanes  Poisson arrivals, exponential service
workload       general service; idle_or_busy, queue_lengths and profile do the work; transient, paths in time
slotted        the slotted model of paper A; pooled, its resource-pooled queue
jbt            paper A: Join-Below-Threshold in heavy traffic, limits and the exact two-server chain
jiq            paper B: JIQ with general service, fixed point, bound, fluid paths
jsq            paper C: JSQ in the Halfin-Whitt regime, exact stationary law of the diffusion
finite         the exact chain at N servers, as lb.jsq.finite_law
paths, hitting paths of the diffusion; its exact mean hitting times
mmn            the centralised queue beside it: Halfin-Whitt limit, Erlang
figures        results in, pictures out (imports matplotlib)
explore        sliders (imports ipywidgets)
gallery_jbt    the pictures of notebook 01
gallery_jiq    the pictures of notebook 02
gallery_jsq    the pictures of notebooks 00 and 03; gallery_jsq_finite, those on N servers, paths and hitting times
============== ================================================================================

``lb.simulate_markov``, ``lb.simulate_workload`` and ``lb.simulate_slotted`` run a policy: ``lb.random()``,
``lb.round_robin()``, ``lb.jsq()``, ``lb.jsq_d(d)``, ``lb.jiq()``, ``lb.jbt(r)``, ``lb.idle_one_first()`` or
``lb.policy(function)``.
"""

import importlib

__version__ = "0.1.0"

_MODULES = (
    "checks", "compiled", "draws", "estimate", "explore", "figures", "finite",
    "gallery_jbt", "gallery_jiq", "gallery_jsq", "gallery_jsq_finite", "hitting", "intervals", "jbt",
    "jiq", "jsq", "laws", "markov", "mmn", "paths", "policies",
    "pooled", "profile", "results", "slotted", "streams", "transient", "workload",
)  # fmt: skip
_NAMES = {
    "simulate_markov": "markov",
    "simulate_workload": "workload",
    "simulate_slotted": "slotted",
} | dict.fromkeys(("random", "round_robin", "jsq_d", "idle_one_first", "policy"), "policies")

__all__ = [*_MODULES, *_NAMES]


def __getattr__(name):
    # modules are imported when first used, so that `import lbcore` is quick and needs no widgets
    if name in _NAMES:
        return getattr(importlib.import_module(f"lbcore.{_NAMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"lbcore.{name}")
    raise AttributeError(f"module 'lbcore' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
