"""Results in, pictures out: the only file that imports matplotlib.

A picture is drawn by a plain function ``draw(board, result)`` that names panels and curves. The first call creates
the artists, every later one only moves their data, so the same function serves a static figure, a file for a paper
and a slider. A `Board` needs no pyplot state and no particular thread.
"""

import csv
import io
import math
import threading

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm

from lbcore import __version__

# Okabe and Ito's palette, safe for colour-blind readers; each role has a dash pattern of its own as well
STYLE = {
    "exact": {"color": "#0072B2", "linewidth": 2.0},
    "limit": {"color": "#D55E00", "linewidth": 1.6, "linestyle": "--"},
    "other": {"color": "#009E73", "linewidth": 1.6, "linestyle": ":"},
    "wall": {"color": "0.4", "linewidth": 1.0},
    "simulation": {"color": "#CC79A7", "linewidth": 1.4, "linestyle": "-."},
}
SCREEN = {"width": 9.6, "dpi": 96, "font": 9.5}
WIDTHS = {"one column": 3.4, "two columns": 7.0}  # inches, as journals set them


class Panel:
    """One set of axes of a board; curves are known by their labels."""

    def __init__(self, board, axes):
        self._board, self.axes = board, axes
        self.data = {}  # label -> columns of what is drawn, for the CSV
        self._artists = {}

    def describe(self, title, xlabel, ylabel, **scales):
        """Set title, axis labels and, for logarithmic axes, ``xscale`` and ``yscale``; only the first call counts."""
        if self.axes.get_title():
            return
        axes, size = self.axes, self._board.font
        axes.set(**scales)
        axes.set_title(title, size=size)
        axes.set_xlabel(xlabel, size=size)
        axes.set_ylabel(ylabel, size=size)
        axes.tick_params(labelsize=0.9 * size)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)

    def line(self, label, x, y, role="exact"):
        """Draw or move the curve `label` through the points ``x``, ``y`` (equal lengths)."""
        self.data[label] = {"x": np.asarray(x), "y": np.asarray(y)}
        if label not in self._artists:
            self._add(label, self.axes.plot([], [], label=label, **STYLE[role])[0])
        self._artists[label].set_data(x, y)

    def marker(self, label, x, y, role="exact"):
        """Draw or move one point, with `label` in the legend."""
        self.data[label] = {"x": np.atleast_1d(x), "y": np.atleast_1d(y)}
        if label not in self._artists:
            style = {"color": STYLE[role]["color"], "marker": "o", "markersize": 7, "linestyle": "none"}
            self._add(label, self.axes.plot([], [], label=label, markeredgecolor="black", **style)[0])
        self._artists[label].set_data([x], [y])

    def note(self, text, x=0.97, y=0.05):
        """Write a line of text into a corner of the panel (axes coordinates)."""
        if "note" not in self._artists:
            right = {"ha": "right" if x > 0.5 else "left", "va": "bottom" if y < 0.5 else "top"}
            self._add("note", self.axes.text(x, y, "", transform=self.axes.transAxes, size=self._board.font, **right))
        self._artists["note"].set_text(text)

    def limits(self, x=None, y=None, *, now=False):
        """Ask for axis limits; while a slider is dragged they wait for its release, unless `now`."""
        for name, wanted in (("xlim", x), ("ylim", y)):
            if wanted is None or (self._board.dragging and not now):
                continue
            if tuple(getattr(self.axes, f"get_{name}")()) != tuple(wanted):
                self.axes.set(**{name: wanted})
                self._board.stale = True

    def legend(self, location="best"):
        """Show the legend, once."""
        if self.axes.get_legend() is None:
            self.axes.legend(loc=location, frameon=False, handlelength=2.6, fontsize=0.9 * self._board.font)

    def _add(self, label, artist):
        artist.set_animated(self._board.live)
        self._artists[label] = artist
        self._board.stale = True


class Board:
    """A figure of named panels.

    Parameters
    ----------
    mosaic : list of lists of str
        Names of the panels, row by row.
    width : float
        Inches. The height follows from the number of rows.
    live : bool
        Keep the background and redraw only what moves, for sliders.
    """

    def __init__(self, mosaic, *, width=SCREEN["width"], dpi=SCREEN["dpi"], font=SCREEN["font"], live=False):
        self.live, self.dragging, self.stale, self.font = live, False, True, font
        if width < 5:  # one column of a journal: panels below each other
            mosaic = [[name] for row in mosaic for name in row]
        columns, rows = len(mosaic[0]), len(mosaic)
        height = width / columns * rows * (0.66 if columns > 1 else 0.62)
        self.figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
        self._canvas = FigureCanvasAgg(self.figure)
        self.panels = {name: Panel(self, axes) for name, axes in self.figure.subplot_mosaic(mosaic).items()}
        self._lock = threading.RLock()

    def __getitem__(self, name):
        return self.panels[name]

    def draw(self, draw, result, *, dragging=False):
        """Call ``draw(board, result)``; return the board."""
        with self._lock:
            self.dragging = dragging
            draw(self, result)
            return self

    def png(self):
        """Return the picture as PNG bytes; on a live board only moving artists are drawn anew."""
        with self._lock:
            if self.stale or not self.live:
                self._canvas.draw()
                self.figure.set_layout_engine("none")  # so that nothing jumps later
                self._background = self._canvas.copy_from_bbox(self.figure.bbox)
                self.stale = False
            self._canvas.restore_region(self._background)
            if self.live:
                for panel in self.panels.values():
                    for artist in panel._artists.values():
                        panel.axes.draw_artist(artist)
            buffer = io.BytesIO()
            pixels = np.asarray(self._canvas.buffer_rgba())[..., :3]
            Image.fromarray(pixels).save(buffer, "png", compress_level=1)
            return buffer.getvalue()

    @property
    def size(self):
        """Width and height in pixels."""
        return self._canvas.get_width_height()

    def _repr_mimebundle_(self, include=None, exclude=None):
        """Show the board in a notebook, sharp on any screen."""
        with self._lock:
            buffer = io.BytesIO()
            self.figure.savefig(buffer, format="png", dpi=2 * SCREEN["dpi"])
        width, height = self.size
        return {"image/png": buffer.getvalue()}, {"image/png": {"width": width, "height": height}}

    def save_figure(self, path, title, parameters):
        """Write the figure as ``path.pdf`` and ``path.png`` (300 dpi), parameters and version inside; return both."""
        about = "; ".join(f"{name} = {value}" for name, value in parameters.items())
        creator = f"lbcore {__version__}"
        pdf, png = path.with_name(path.name + ".pdf"), path.with_name(path.name + ".png")
        with self._lock, matplotlib.rc_context({"pdf.fonttype": 42}):  # TrueType, as journals ask
            self.figure.savefig(pdf, metadata={"Title": title, "Subject": about, "Creator": creator})
            self.figure.savefig(png, dpi=300, metadata={"Title": title, "Description": about, "Software": creator})
        return pdf, png

    def save_data(self, path, title, parameters):
        """Write every curve as ``path.csv``: title, version and parameters as comments, then panel, curve, columns."""
        path = path.with_name(path.name + ".csv")
        columns = list(dict.fromkeys(c for p in self.panels.values() for d in p.data.values() for c in d))
        with path.open("x", newline="", encoding="utf-8") as file:
            file.write(f"# {title}\n# lbcore {__version__}\n")
            file.writelines(f"# {name} = {value}\n" for name, value in parameters.items())
            writer = csv.writer(file)
            writer.writerow(["panel", "curve", *columns])
            for name, panel in self.panels.items():
                for label, data in panel.data.items():
                    blank = [""] * len(next(iter(data.values())))
                    for row in zip(*(data.get(c, blank) for c in columns), strict=True):
                        writer.writerow([name, label, *(v if isinstance(v, str) else repr(float(v)) for v in row)])
        return path


def nice(value, floor=0.0):
    """Return the next of 1, 2, 5, 10, ... at or above `value`, so that axes seldom change."""
    value = max(value, floor)
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def draw_law(board, result):
    """Draw the stationary law of the JSQ diffusion: panels q1, q2, scaled, mean.

    `result` has ``law`` (a `DiffusionLaw`), ``y`` (the range of levels shown) and ``curve`` (slacks and means).
    """
    law = result["law"]
    draw_q1(board["q1"], law)
    draw_q2(board["q2"], law, *result["y"])
    draw_scaled(board["scaled"], law)
    draw_mean(board["mean"], law, *result["curve"])


def law_figure(result):
    """Return the static figure of `draw_law`."""
    return Board([["q1", "q2"], ["scaled", "mean"]]).draw(draw_law, result)


def draw_q1(panel, law):
    """Draw the density of Q1 and its limit for large slack (Theorem 2.4)."""
    panel.describe("Law of $Q_1$   (Thm 2.4: N(−β, 1) as β → ∞)", "$x$", "density")
    left = -nice(law.beta + 4.0 if law.beta > 0.2 else 20 * law.beta)
    x = left * np.linspace(1.0, 0.0, 240) ** 2
    density = law.q1_density(x)
    panel.line("exact", x, density)
    panel.line("N(−β, 1): β → ∞", x, norm.pdf(x, -law.beta), "limit")
    panel.line("wall at 0", [0.0, 0.0], [0.0, 1e3], "wall")
    panel.limits(x=(left, -0.04 * left), y=(0.0, nice(1.05 * max(density.max(), 0.4))))
    panel.legend("upper left")


def draw_q2(panel, law, low, high):
    """Draw the tail of Q2 from `low` to `high` and its asymptote (Theorem 2.1; the factor y is not in the paper)."""
    panel.describe("Tail of $Q_2$   (Thm 2.1; factor y: beyond the paper)", "$y$", "$\\log_{10} P(Q_2>y)$")
    y = np.linspace(low, high, 241)[1:]
    tail = law.q2_log_tail(y) / math.log(10)
    asymptote = (math.log(law.tail_constant) + np.log(y) - law.beta * y) / math.log(10)
    panel.line("exact", y, tail)
    panel.line("$c\\,y\\,e^{-\\beta y}$: y → ∞", y, asymptote, "limit")
    bottom = -nice(max(-tail[-1], 1.0))
    panel.limits(x=(low, high), now=True)
    panel.limits(y=(bottom, -0.05 * bottom))
    panel.legend("upper right")


def draw_scaled(panel, law):
    """Draw the law of beta Q2 against Gamma(2) and the centralised queue (Theorem 2.7, Remark 3)."""
    panel.describe("Law of $\\beta Q_2$   (Thm 2.7; Remark 3: twice M/M/N)", "$t$", "$P(\\beta Q_2 > t)$")
    t = np.linspace(0.0, 8.0, 201)[1:]
    panel.line("exact", t, law.q2_tail(t / law.beta))
    panel.line("Gamma(2): β → 0", t, (1 + t) * np.exp(-t), "limit")
    panel.line("M/M/N queue given a wait: Exp(1)", t, np.exp(-t), "other")
    panel.limits(x=(0.0, 8.0), y=(0.0, 1.02))
    panel.legend("upper right")


def draw_mean(panel, law, betas, means):
    """Draw E Q2 over the range of slacks with both limits (Theorem 2.5, Corollary 2.2) and a marker at `law`."""
    panel.describe("$E\\,Q_2$ against β   (Thm 2.5, Cor. 2.2)", "$\\beta$", "$E\\,Q_2$", xscale="log", yscale="log")
    panel.line("exact", betas, means)
    panel.line("2/β: β → 0", betas, 2 / betas, "limit")
    panel.line("φ(β): β → ∞", betas, norm.pdf(betas), "other")
    panel.marker("this β", law.beta, law.mean_q2)
    panel.limits(x=(betas[0], betas[-1]), y=(1e-6, 200.0))
    panel.note(f"β = {law.beta:.4g},  E Q₂ = {law.mean_q2:.6g}", x=0.97, y=0.95)
    panel.legend("lower left")
