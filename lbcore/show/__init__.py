"""How things are shown: pictures as data, the one renderer, sliders."""

from lbcore import lazy

__getattr__, __dir__ = lazy(__name__, {name: name for name in ("explore", "figures", "picture", "plots")})
