"""Every input check of the package, and the one rule behind them.

A number is an int, a float or a numpy scalar: finite, and no bool, string, array or complex. A whole number may also be
a float without a fraction, so ``events=1e6`` is a million. What is not of the kind raises TypeError, what is out of
range ValueError, before any work starts and always in the same words: "load must be a number above 0 and below 1, not
1.2". Docstrings name only the errors that go beyond this rule.

`above` and `below` exclude their ends, `least` and `most` do not; `why` says more where there is more to say.
"""

import math
import numbers
import operator

import numpy as np

_BOUNDS = {  # keyword: how it reads, what it means
    "above": ("above", operator.gt),
    "least": ("of at least", operator.ge),
    "below": ("below", operator.lt),
    "most": ("at most", operator.le),
}


def real(value, name, *, why="", **bounds):
    """Return `value` as a float within the bounds."""
    allowed = _allowed("a number", bounds)
    return _within(_number(value, name, allowed, why), value, name, allowed, why, bounds)


def whole(value, name, *, why="", least=1, **bounds):
    """Return `value` as an int within the bounds."""
    allowed = _allowed("a whole number", bounds := {"least": least, **bounds})
    number = _number(value, name, allowed, why)
    if not number.is_integer():
        raise ValueError(_sentence(name, allowed, value, why))
    _within(number, value, name, allowed, why, bounds)
    return int(value)


def flag(value, name):
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(_sentence(name, "True or False", value, ""))
    return bool(value)


def one_of(value, name, options):
    """Return `value` if it is one of the strings `options`."""
    if not (isinstance(value, str) and value in options):
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(_sentence(name, "one of " + ", ".join(map(repr, options)), value, ""))
    return value


def made_by(value, name, kind, makers):
    """Return `value` if it is of the class `kind`; `makers` says how one gets such a thing."""
    if not isinstance(value, kind):
        raise TypeError(_sentence(name, f"made by {makers}", value, ""))
    return value


def array(values, name, *, why="", **bounds):
    """Return `values` as a float array of any shape, each within the bounds; infinities are numbers here."""
    found = _floats(values, name, allowed := _allowed("numbers", bounds), why)
    return _each_within(found, np.isnan(found), name, allowed, why, bounds)


def vector(values, name, *, why="", size=None, increasing=False, **bounds):
    """Return `values` as a float array of one dimension, not empty, each within the bounds; a number counts as one.

    `size` is how many there must be; `increasing` asks for each to be larger than the one before.
    """
    allowed = _allowed("numbers", bounds)
    found = np.atleast_1d(_floats(values, name, allowed, why))
    if found.ndim != 1 or found.size == 0 or (size is not None and found.size != size):
        many = "at least one" if size is None else f"{size} of them"
        raise ValueError(_sentence(name, f"{allowed}, {many}, in one dimension", found, why))
    _each_within(found, ~np.isfinite(found), name, allowed, why, bounds)
    if increasing and not (rising := np.diff(found) > 0.0).all():
        k = int(np.argmin(rising))
        raise ValueError(f"{name} must be increasing, not {found[k]:g} before {found[k + 1]:g}")
    return found


def start(value):
    """Return `value`, a state of the diffusion of paper C, as floats ``(Q1, Q2)``."""
    try:
        q1, q2 = value
    except (TypeError, ValueError):
        raise TypeError(_sentence("start", "a pair (Q1, Q2)", value, "")) from None
    return real(q1, "Q1 of the start", most=0.0), real(q2, "Q2 of the start", least=0.0)


def _floats(values, name, allowed, why):
    """Return a new float array of numbers of the kind described at the head of the file."""
    try:
        found = np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be {allowed}, not rows of different lengths") from None
    if found.dtype.kind not in "iuf":
        odd = (v for v in found.flat if isinstance(v, bool | np.bool_) or not isinstance(v, numbers.Real))
        raise TypeError(_sentence(name, allowed, next(odd, values), why))
    return found.astype(np.float64)


def _each_within(found, wrong, name, allowed, why, bounds):
    for word, bound in bounds.items():
        wrong |= ~_BOUNDS[word][1](found, bound)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        where = f" (at index {k}; {wrong.sum()} of {found.size})" if found.ndim else ""
        raise ValueError(_sentence(name, allowed, found.flat[k], why) + where)
    return found


def _number(value, name, allowed, why):
    """Return a number of the kind described at the head of the file as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(_sentence(name, allowed, value, why))
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _within(number, value, name, allowed, why, bounds):
    if not (math.isfinite(number) and all(_BOUNDS[word][1](number, bound) for word, bound in bounds.items())):
        raise ValueError(_sentence(name, allowed, value, why))
    return number


def _allowed(kind, bounds):
    """Return what is allowed in words: "a number above 0 and below 1"."""
    return f"{kind} {' and '.join(f'{_BOUNDS[word][0]} {bound:.10g}' for word, bound in bounds.items())}".rstrip()


def _sentence(name, allowed, value, why):
    if isinstance(value, np.ndarray) and value.ndim:
        shown = f"an array of shape {value.shape}"
    else:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return f"{name} must be {allowed}, not {shown}{'; ' + why if why else ''}"
