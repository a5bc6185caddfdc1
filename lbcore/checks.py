"""Input checks that several modules share: each says in one sentence what is allowed."""

import math
import numbers

import numpy as np


def real(value, name, low, high, *, allowed):
    """Return `value` as a float in ``[low, high]``.

    Raises
    ------
    TypeError
        If `value` is not a real number (a string, an array, a bool).
    ValueError
        If `value` is NaN, infinite or outside the range; the message ends in `allowed`.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a single real number, not {_describe(value)}; {allowed}")
    value = float(value)
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name} = {value:g} is outside the range; {allowed}")
    return value


def _describe(value):
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"{type(value).__name__} {value!r:.40}"


def whole(value, name, low, *, allowed):
    """Return `value` as an int of at least `low`; raises like `real`."""
    number = real(value, name, low, math.inf, allowed=allowed)
    if number != int(number):
        raise ValueError(f"{name} = {value} is no whole number; {allowed}")
    return int(number)
