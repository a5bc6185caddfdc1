"""How things are shown: pictures as data, the one renderer, sliders."""

import importlib

__all__ = ["explore", "figures", "picture"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
