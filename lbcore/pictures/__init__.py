"""The pictures of the notebooks, a file for each; `law_menu` is the list of laws they offer."""

import importlib

__all__ = ["jbt", "jiq", "jsq", "jsq_finite", "law_menu"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
