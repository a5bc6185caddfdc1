"""Load-balancing theorems, exact and simulated: a small numba core behind research notebooks.

=========== ===================================================================================
compiled    how kernels are compiled and cached
checks      every input check, and the rule they follow
records     what all results have in common
chance      random streams, draws and laws of service and interarrival times
simulate    policies, three simulators with honest intervals, paths of the diffusion
theory      the three papers: exact solutions and limits
show        pictures as data, drawn with and without sliders
pictures    the pictures of the notebooks, one file a notebook
=========== ===================================================================================

``lb.simulate_markov``, ``lb.simulate_workload`` and ``lb.simulate_slotted`` run a policy: ``lb.random()``,
``lb.round_robin()``, ``lb.jsq()``, ``lb.jsq_d(d)``, ``lb.jiq()``, ``lb.jbt(r)``, ``lb.idle_one_first()`` or
``lb.policy(function)``. ``lb.theory.diffusion_law(beta)`` and its like need no simulation.
"""

import functools
import importlib
import warnings

__version__ = "0.2.0"


def lazy(package, names):
    """Return the ``__getattr__`` and the ``__dir__`` of a package whose names are imported when first used.

    Parameters
    ----------
    package : str
    names : dict of str to str
        The module of the package in which each name stands, or which it is.
    """

    def find(name):
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place = names[name]
        module = importlib.import_module(f"{package}.{place}")
        return module if place.rpartition(".")[2] == name else getattr(module, name)

    return find, lambda: sorted(names)


_NAMES = {wing: wing for wing in ("chance", "checks", "compiled", "pictures", "records", "show", "simulate", "theory")}
_NAMES |= {name: f"chance.{name}" for name in ("laws", "streams")}
_NAMES |= {f"simulate_{model}": f"simulate.{model}" for model in ("markov", "workload", "slotted")}
_NAMES |= dict.fromkeys(("read_service_times", "describe_law"), "chance.service_data")
_find, _ = lazy(__name__, _NAMES)
# a paper goes by the name of its policy; of what stands in it, these names are here to stay
_PAPERS = {
    "jbt": ("heavy_traffic_limit", "two_server_law"),
    "jiq": ("cycle_bound", "fixed_point", "fluid_path"),
    "jsq": ("diffusion_law", "finite_law"),
}
_RENAMED = {
    "gallery_jbt": "pictures.jbt",
    "gallery_jiq": "pictures.jiq",
    "gallery_jsq": "pictures.jsq",
    "gallery_jsq_finite": "pictures.jsq_finite",
    "hitting": "theory",
    "mmn": "theory",
    "paths": "simulate",
}


class _PolicyAndPaper:
    """``lb.jsq()`` is the policy, ``lb.jsq.diffusion_law`` a result of the paper on it."""

    def __init__(self, policy):
        functools.update_wrapper(self, policy)

    def __call__(self, *arguments, **options):
        return self.__wrapped__(*arguments, **options)

    def __getattr__(self, name):
        for wing in ("theory", "simulate"):
            home = importlib.import_module(f"lbcore.{wing}")
            if name in dir(home):
                if name not in _PAPERS[self.__name__]:
                    _warn(f"{self.__name__}.{name}", f"{wing}.{name}")
                return getattr(home, name)
        raise AttributeError(f"lb.{self.__name__} has no {name!r}")

    def __dir__(self):
        return [*object.__dir__(self), *_PAPERS[self.__name__]]


def _warn(old, new):
    warnings.warn(f"lb.{old} is called lb.{new} now; the old name goes with the next version", FutureWarning, 3)


def __getattr__(name):
    if name in _RENAMED:
        _warn(name, _RENAMED[name])
        return importlib.import_module(f"lbcore.{_RENAMED[name]}")
    if name in _NAMES or name.startswith("_"):
        return _find(name)
    policies = importlib.import_module("lbcore.simulate.policies")
    if name not in policies.FACTORIES:  # so that a new policy is known without a word here
        raise AttributeError(f"module 'lbcore' has no attribute {name!r}")
    made = policies.FACTORIES[name]
    return globals().setdefault(name, _PolicyAndPaper(made) if name in _PAPERS else made)


def __dir__():
    return sorted(["__version__", *_NAMES, *importlib.import_module("lbcore.simulate.policies").FACTORIES])
