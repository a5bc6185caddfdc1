"""The pictures of the notebooks, a file for each; `law_menu` is the list of laws they offer."""

from lbcore import lazy

__getattr__, __dir__ = lazy(__name__, {name: name for name in ("jbt", "jiq", "jsq", "jsq_finite", "law_menu")})
