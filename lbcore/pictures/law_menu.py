"""The service laws of the pictures: a menu of families with a slider, a list, and what is proved for them."""

import inspect
from functools import lru_cache

from lbcore.chance import laws
from lbcore.show.plots import choice, log_slider

_MEANINGS = {  # what the slider "its parameter" is to a law that asks for this; the parameter itself if not here
    "k": ("k = parameter", lambda p: max(1, round(p))),
    "cv2": ("cv² = parameter", float),
    "hyperexponential": ("cv² = parameter ≥ 1", lambda p: max(1.0, p)),
    "pareto": ("exponent = 1 + parameter", lambda p: 1.0 + p),
    "lomax": ("exponent = 1 + parameter", lambda p: 1.0 + p),
}
LATTICE = laws.discrete([0, 1, 5], [0.3, 0.5, 0.2], mean=1)


def _families():
    """Return the laws that ask for one number at most, beside the mean, as functions of the slider's parameter."""
    families = {}
    for name, make in vars(laws).items():  # in the order of the file
        asked = list(inspect.signature(make).parameters) if inspect.isfunction(make) else []
        if asked == ["mean"]:
            families[name] = lambda p, make=make: make()
        elif asked[1:] == ["mean"] and name != "empirical":
            meaning, of = _MEANINGS.get(name) or _MEANINGS.get(asked[0], (f"{asked[0]} = parameter", float))
            shown = name.capitalize() if name in ("erlang", "weibull", "pareto", "lomax") else name
            families[f"{shown}, {meaning}"] = lambda p, make=make, of=of: make(of(p))
    return families


FAMILIES = _families() | {
    "lattice on 0, 1, 5": lambda p: LATTICE,
    "mixture: 90 % constant, 10 % lognormal, cv² = parameter": lambda p: laws.mixture(
        [0.9, 0.1], [laws.deterministic(), laws.lognormal(p, mean=5.0)]
    ),
}
LAWS = {  # of mean 1, as all that is drawn here
    "deterministic": laws.deterministic(), "Erlang(4)": laws.erlang(4), "uniform": laws.uniform(),
    "exponential": laws.exponential(), "lattice on 0, 1, 5": LATTICE, "Weibull(½)": laws.weibull(0.5),
    "lognormal(4)": laws.lognormal(4), "hyperexp.(8)": laws.hyperexponential(8), "Lomax(2.5)": laws.lomax(2.5),
    "Pareto(1.5)": laws.pareto(1.5),
}  # fmt: skip
CLASSES = {"Theorem 2": "-", "proved for DHR laws [11]": "--", "conjecture": ":"}  # of proof, and their lines
LAW = {"family": choice("service law", FAMILIES), "parameter": log_slider("its parameter", 2.0, 0.3, 20.0)}


@lru_cache(maxsize=64)
def chosen_law(family, parameter):
    """Return a law of `FAMILIES`, or one that is a law already, stretched to mean 1."""
    return family.stretched(1 / family.mean) if isinstance(family, laws.Law) else FAMILIES[family](parameter)


def proved_by(law, load):
    """Return which of the three classes a law and a load belong to: a key of `CLASSES`."""
    if load < 0.5:
        return "Theorem 2"
    return "proved for DHR laws [11]" if law.decreasing_hazard_rate else "conjecture"
