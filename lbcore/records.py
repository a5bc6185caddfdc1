"""The base of all results: one look for the eye, one plain view for other programs."""

import dataclasses
from html import escape

import numpy as np

_ROUGH = {"error", "truncation", "identities"}  # two digits tell all there is to tell


class Record:
    """A frozen dataclass that shows what was asked, the answer and its error, a line each.

    Fields that begin with an underscore are private: neither shown nor in `dict`.
    """

    _also = ()  # names of properties that are shown beside the fields

    def dict(self):
        """Return the public fields by name, in order, arrays as they are."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if not f.name.startswith("_")}

    def _rows(self):
        """Yield names and texts."""
        for name in (*self.dict(), *self._also):
            yield name, _text(getattr(self, name), 2 if name in _ROUGH else 10)

    def __repr__(self):
        width = max(len(name) for name, _ in self._rows())
        return "\n".join([type(self).__name__, *(f"  {name:<{width}}  {text}" for name, text in self._rows())])

    def _repr_html_(self):
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._rows())
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"


def _text(value, digits):
    if isinstance(value, tuple):
        return f"({', '.join(_text(v, digits) for v in value)})"
    if isinstance(value, np.ndarray) and value.ndim:
        ends = f", from {value.min():.3g} to {value.max():.3g}" if value.size else ""
        return f"array of shape {value.shape}{ends}"
    return f"{value:.{digits}g}" if isinstance(value, float | np.ndarray) else str(value)
