"""Load-balancing theorems, exact and simulated: a small numba core behind research notebooks.

============== ================================================================================
compiled       how kernels are compiled and cached
checks         input checks that say what is allowed
streams, draws reproducible random streams, draws from laws inside kernels
policies       dispatching rules: random, round robin, JSQ, JSQ(d), JIQ, JBT(r), your own
laws           service, interarrival and slotted laws; service_data, those of measured service times
records        what a simulation returns: estimates with intervals
intervals      warm-up, confidence intervals, control variates
estimate       replications, stop rules, live refinement
markov, lanes  Poisson arrivals, exponential service
workload       general service; calendar_queue and departures do the work
slotted        the slotted model of paper A; pooled, its resource-pooled queue
jbt            paper A: Join-Below-Threshold in heavy traffic, limits and the exact two-server chain
jiq            paper B: JIQ with general service, fixed point, bound, fluid paths
jsq            paper C: JSQ in the Halfin-Whitt regime, exact stationary law of the diffusion
finite         the exact chain at N servers, as lb.jsq.finite_law
paths, hitting paths of the diffusion; its exact mean hitting times
mmn            the centralised queue beside it: Halfin-Whitt limit, Erlang
show           pictures as data, figures (imports matplotlib), explore (sliders, imports ipywidgets)
pictures       the pictures of the notebooks: jbt of 01, jiq of 02, jsq and jsq_finite of 00 and 03
============== ================================================================================

``lb.simulate_markov``, ``lb.simulate_workload`` and ``lb.simulate_slotted`` run a policy: ``lb.random()``,
``lb.round_robin()``, ``lb.jsq()``, ``lb.jsq_d(d)``, ``lb.jiq()``, ``lb.jbt(r)`` or ``lb.policy(function)``.
"""

import importlib

__version__ = "0.1.0"

_MODULES = (
    "checks", "compiled", "draws", "estimate", "finite", "hitting", "intervals", "jbt", "jiq", "jsq", "laws",
    "markov", "mmn", "paths", "pictures", "policies", "pooled", "records", "service_data", "show", "slotted",
    "streams", "workload",
)  # fmt: skip
_NAMES = {
    "simulate_markov": "markov",
    "simulate_workload": "workload",
    "simulate_slotted": "slotted",
} | dict.fromkeys(("random", "round_robin", "jsq_d", "policy"), "policies")

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
