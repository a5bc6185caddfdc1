"""Load-balancing theorems, exact and simulated: a small numba core behind research notebooks.

========== ==================================================================================
compiled   how kernels are compiled and cached
checks     input checks that say what is allowed
jsq        paper C: JSQ in the Halfin-Whitt regime, exact stationary law of the diffusion
figures    results in, pictures out (imports matplotlib)
explore    sliders (imports ipywidgets)
========== ==================================================================================
"""

import importlib

__version__ = "0.1.0"

_MODULES = ("checks", "compiled", "explore", "figures", "jsq")

__all__ = [*_MODULES]


def __getattr__(name):
    # modules are imported when first used, so that `import lbcore` is quick and needs no widgets
    if name in _MODULES:
        return importlib.import_module(f"lbcore.{name}")
    raise AttributeError(f"module 'lbcore' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_MODULES])
