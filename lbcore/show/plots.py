"""A picture as data: a function from slider values to rows of plots, or a generator of ever better ones.

Nothing here draws. `lbcore.show.figures` turns the data into figures and files, `lbcore.show.explore` adds sliders::

    @picture("factor-two", beta=log_slider("slack β", 0.5, 0.03, 5.0))
    def factor_two(beta):
        t, law = np.linspace(0.0, 8.0, 201)[1:], jsq.diffusion_law(beta)
        marks = [
            line("exact", t, law.q2_tail(t / beta), "jsq"),
            line("Gamma(2): β → 0", t, (1 + t) * np.exp(-t), "limit"),
            line("M/M/N", t, np.exp(-t), "pooled"),
        ]
        return [[Plot("Law of βQ₂", "t", "P(βQ₂ > t)", marks, x=(0.0, 8.0), y=(0.0, 1.02))]]

    factor_two.explore()          # sliders
    factor_two.figure(beta=0.1)   # a figure, to be shown or saved
    factor_two.plots(beta=0.1)    # the data
    factor_two.text(beta=0.1)     # alternative text

Each mark (`line`, `marker`, `band`, `points`, `heat`, `arrows`, `bars`, `guide`) has a name, says `who` is shown and by
what `kind` of knowledge. Who sets its colour: ``jsq``, ``jiq``, ``jbt``, ``jsq_d``, ``random``, ``pooled`` (one
shared queue, M/M/N), ``own`` (a policy of the reader's), ``limit`` (of fluid or diffusion), ``bound``, ``guide``. Kind
sets its line: ``exact``, ``limit`` (or theorem), ``simulated``, ``heuristic`` (or conjecture), ``bound``, ``fitted``,
``guide``.
Left out, kind follows from who for ``limit``, ``bound`` and ``guide``, is ``simulated`` for points and bands and
``exact`` for all else. Several marks of the same who and kind are told apart by shade, in the order of the plot.

Every mark also takes ``status`` (words such as "new"), ``error`` (proved, of exact values), ``believable`` (False, or
False at some points: not drawn, and the panel says so), ``named=False`` (kept out of the legend) and keywords of
matplotlib in place of the style. A plot of no marks and a note is a sentence in its panel. Titles, labels, ticks and
scales cost a full redraw where they change with a slider, as names of marks do; notes and data cost nothing.
"""

import math
import re
from dataclasses import dataclass, field, replace

import numpy as np

_SIGNS = {
    "\\beta": "β", "\\kappa": "κ", "\\varepsilon": "ε", "\\rho": "ρ", "\\lambda": "λ", "\\propto": "∝", "\\leq": "≤",
    "\\geq": "≥", "\\to": "→", "\\sim": "~", "\\sum": "Σ", "\\sqrt": "√", "\\,": " ",
}  # fmt: skip
_KIND_OF = {"limit": "limit", "bound": "bound", "guide": "guide"}


@dataclass(frozen=True, eq=False)
class Mark:
    """One thing drawn: `columns` of equal lengths by name (x, y, low, high, ...) are what is drawn and saved."""

    form: str
    name: str
    who: str
    kind: str
    columns: dict
    status: str = ""
    error: float | None = None
    believable: bool = True
    named: bool = True
    look: dict = field(default_factory=dict)


def _mark(form, name, who, kind, columns, *, status="", error=None, believable=True, named=True, **look):
    columns = {key: np.atleast_1d(np.asarray(values, float)) for key, values in columns.items()}
    if not np.all(believable):
        keep = np.broadcast_to(believable, next(iter(columns.values())).shape)
        columns = {key: values[keep] for key, values in columns.items()}
    return Mark(form, name, who, kind, columns, status, error, bool(np.all(believable)), named, look)


def line(name, x, y, who, kind="", **more):
    """A curve through the points ``x``, ``y``; NaN makes a gap."""
    return _mark("line", name, who, kind or _KIND_OF.get(who, "exact"), {"x": x, "y": y}, **more)


def marker(name, x, y, who, kind="", **more):
    """One point, where the sliders are."""
    return _mark("marker", name, who, kind or _KIND_OF.get(who, "exact"), {"x": x, "y": y}, **more)


def band(name, x, low, high, who, kind="simulated", **more):
    """The 95 % band of the curve of the same name."""
    return _mark("band", name, who, kind, {"x": x, "low": low, "high": high}, **more)


def points(name, x, y, half_width, who, kind="simulated", **more):
    """Points with 95 % intervals, of half-width None or 0 without; one whose `y` is NaN is left out."""
    y, half = np.atleast_1d(np.asarray(y, float)), 0.0 if half_width is None else np.asarray(half_width, float)
    mark = _mark("points", name, who, kind, {"x": x, "y": y, "low": y - half, "high": y + half}, **more)
    known = ~np.isnan(mark.columns["y"])
    return replace(mark, columns={key: values[known] for key, values in mark.columns.items()})


def heat(name, values, low, high, who, kind="exact", **more):
    """A matrix of colours between `low` and `high`; column x, row y are whole numbers from 0 on; one per plot."""
    y, x = (place.ravel() for place in np.indices(values.shape))
    return _mark("heat", name, who, kind, {"x": x, "y": y, "value": values.ravel()}, vmin=low, vmax=high, **more)


def arrows(name, x, y, u, v, who, kind="exact", **more):
    """A field of arrows ``(u, v)`` at fixed places."""
    columns = {"x": np.ravel(x), "y": np.ravel(y), "u": np.ravel(u), "v": np.ravel(v)}
    return _mark("arrows", name, who, kind, columns, **{"named": False} | more)


def bars(name, heights, who, kind="exact", lit=True, **more):
    """One bar for each height, at 0, 1, ...; those not `lit` are grey."""
    lit = np.broadcast_to(lit, np.shape(heights))
    return _mark("bars", name, who, kind, {"x": np.arange(len(heights)), "y": heights, "lit": lit}, **more)


def guide(name, *, x=None, y=None, who="guide", kind="", **more):
    """Lines across the whole panel: upright at each `x`, or level at each `y`."""
    columns = {"y": y} if x is None else {"x": x}
    return _mark("guide", name, who, kind or _KIND_OF.get(who, "exact"), columns, **more)


@dataclass(frozen=True, eq=False)
class Plot:
    """What one panel shows; texts may hold TeX between dollars."""

    title: str
    xlabel: str
    ylabel: str
    marks: list
    x: tuple | None = None  # range of the axis, as for y
    y: tuple | None = None
    legend: object = "lower left"  # a place; "" for none, "curves": names at the ends of lines, "below": of the figure
    columns: int = 1  # of the legend
    note: str = ""
    at: tuple = (0.97, 0.95)  # where the note stands, in parts of the panel
    log: str = ""  # the logarithmic axes
    now: str = ""  # the axes whose range moves during a drag, not only at its end
    ticks: tuple = ()  # names at x = 0, 1, ...

    def __post_init__(self):
        names = [(mark.form, mark.name) for mark in self.marks]
        if twice := {name for form, name in names if names.count((form, name)) > 1}:
            raise ValueError(f"marks of one form in one plot must have different names; twice here: {sorted(twice)}")


@dataclass(frozen=True)
class Control:
    """A slider, list or player as data: where it starts and ends."""

    form: str
    label: str
    start: object
    low: object = None
    high: object = None
    step: float = 1
    options: tuple = ()  # of a choice: pairs of name and value

    @property
    def ends(self):
        """The two extreme values."""
        if self.form == "choice":
            return self.options[0][1], self.options[-1][1]
        return ((self.low, self.low + 1), (self.low, self.high)) if self.form == "range" else (self.low, self.high)


def log_slider(label, value, low, high):
    """A slider on a logarithmic scale from `low` to `high`, both rounded outwards to hundredths of a decade."""
    start = 10 ** round(math.log10(value), 2)  # the browser would round it to a step as well
    ends = math.floor(100 * math.log10(low)) / 100, math.ceil(100 * math.log10(high)) / 100
    return Control("log", label, start, *(10**end for end in ends), 0.01)


def real_slider(label, value, low, high, step=0.01):
    """A slider on an even grid of real numbers."""
    return Control("real", label, value, low, high, step)


def whole_slider(label, value, low, high):
    """A slider on whole numbers."""
    return Control("whole", label, value, low, high)


def range_slider(label, value, low, high):
    """A slider with two handles on whole numbers, for the range of an axis."""
    return Control("range", label, value, low, high)


def player(label, frames):
    """A slider over frames 0, 1, ... with buttons to play, pause and stop, and a speed."""
    return Control("player", label, 0, 0, frames - 1)


def choice(label, options):
    """A list to choose from; `options` are names, or pairs of name and value; the first is where it starts."""
    pairs = tuple(option if isinstance(option, tuple) else (option, option) for option in options)
    return Control("choice", label, pairs[0][1], options=pairs)


def nice(value, floor=0.0):
    """Return the next of 1, 2, 5, 10, ... at or above `value`, so that axes seldom change."""
    value = max(value, floor)
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def plain(text):
    """Return a text without its TeX."""
    for tex, sign in _SIGNS.items():
        text = text.replace(tex, sign)
    return re.sub(r"\s+", " ", re.sub(r"\\mathrm|[${}\\]", "", text)).strip()


def short(value):
    """Return a slider's value as a few characters."""
    if isinstance(value, tuple):
        return "-".join(map(short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
