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
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from PIL import Image

from lbcore import __version__

# Okabe and Ito's palette, safe for colour-blind readers; each role has a dash pattern of its own as well
STYLE = {
    "exact": {"color": "#0072B2", "linewidth": 2.0},
    "limit": {"color": "#D55E00", "linewidth": 1.6, "linestyle": "--"},
    "other": {"color": "#009E73", "linewidth": 1.6, "linestyle": ":"},
    "second": {"color": "#56B4E9", "linewidth": 1.6, "linestyle": "-"},
    "third": {"color": "#E69F00", "linewidth": 1.6, "linestyle": (0, (5, 1, 1, 1))},
    "wall": {"color": "0.4", "linewidth": 1.0},
    "simulation": {"color": "#CC79A7", "linewidth": 1.4, "linestyle": "-."},
}
MARKER = {"exact": "o", "limit": "_", "other": "D", "second": "s", "third": "^", "simulation": "v"}
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

    def line(self, label, x, y, role="exact", **look):
        """Draw or move the curve `label` through the points ``x``, ``y`` (equal lengths); `look` overrides the role."""
        self.data[label] = {"x": np.asarray(x), "y": np.asarray(y)}
        if label not in self._artists:
            self._add(label, self.axes.plot([], [], label=label, **(STYLE[role] | look))[0])
        self._artists[label].set_data(x, y)

    def marker(self, label, x, y, role="exact"):
        """Draw or move one point, with `label` in the legend."""
        self.data[label] = {"x": np.atleast_1d(x), "y": np.atleast_1d(y)}
        if label not in self._artists:
            style = {"color": STYLE[role]["color"], "marker": "o", "markersize": 7, "linestyle": "none"}
            self._add(label, self.axes.plot([], [], label=label, markeredgecolor="black", **style)[0])
        self._artists[label].set_data([x], [y])

    def band(self, label, x, low, high, role="simulation"):
        """Draw or move the 95 % band of the curve `label` between `low` and `high`."""
        self.data[f"{label}, band"] = {"x": np.asarray(x), "low": np.asarray(low), "high": np.asarray(high)}
        if f"{label}, band" not in self._artists:
            shade = {"color": STYLE[role]["color"], "alpha": 0.25, "linewidth": 0}
            self._add(f"{label}, band", self.axes.fill_between(x, low, high, **shade))
        self._artists[f"{label}, band"].set_data(x, low, high)

    def points(self, label, x, y, half_width=None, role="simulation", **look):
        """Draw or move points with their 95 % intervals; `look` overrides the role."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        half_width = np.zeros_like(y) if half_width is None else np.asarray(half_width, float)
        self.data[label] = {"x": x, "y": y, "low": y - half_width, "high": y + half_width}
        if label not in self._artists:
            dots = {"color": STYLE[role]["color"], "linestyle": "none", "marker": MARKER[role], "markersize": 5} | look
            self._add(f"{label}, bars", self.axes.plot([], [], color=dots["color"], linewidth=1.5)[0])
            self._add(label, self.axes.plot([], [], label=label, **dots)[0])
        self._artists[label].set_data(x, y)
        ends = np.stack([y - half_width, y + half_width, np.full_like(y, math.nan)], axis=1)
        self._artists[f"{label}, bars"].set_data(np.repeat(x, 3), ends.ravel())

    def heat(self, label, values, low, high):
        """Draw or change a matrix of colours between `low` and `high`; column x, row y are whole numbers from 0 on."""
        rows, columns = values.shape
        x, y = (grid.ravel() for grid in np.meshgrid(np.arange(columns), np.arange(rows)))
        self.data[label] = {"x": x, "y": y, "value": values.ravel()}
        if label not in self._artists:
            image = self.axes.imshow(values, origin="lower", cmap="cividis", aspect="auto", interpolation="nearest")
            self._add(label, image)
            bar = self._board.figure.colorbar(image, ax=self.axes)
            bar.set_label(label, size=self._board.font)
            bar.ax.tick_params(labelsize=0.9 * self._board.font)
        image = self._artists[label]
        image.set(data=values, extent=(-0.5, columns - 0.5, -0.5, rows - 0.5))
        image.set_clim(low, high)

    def arrows(self, x, y, u, v):
        """Draw or change a field of arrows at fixed places."""
        if "arrows" not in self._artists:
            self._add("arrows", self.axes.quiver(x, y, u, v, color="white", width=0.004, scale=28, pivot="tail"))
        self._artists["arrows"].set_UVC(u, v)

    def bars(self, label, heights, colours):
        """Draw or move one bar for each height, at 0, 1, ..."""
        x, heights = np.arange(len(heights)), np.asarray(heights)
        self.data[label] = {"x": x, "y": heights}
        if label not in self._artists:
            self._add(label, self.axes.add_collection(PolyCollection([])))
        left, right, zero = x - 0.4, x + 0.4, np.zeros(len(x))
        corners = [(left, zero), (left, heights), (right, heights), (right, zero)]
        self._artists[label].set(verts=np.transpose(corners, (2, 0, 1)), facecolor=colours)

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
                axis = getattr(self.axes, f"{name[0]}axis")
                if axis.get_scale() == "log" and max(wanted) < 1000 * min(wanted):  # label 1, 2, 5 in short ranges
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                    axis.set_major_formatter("{x:g}")
                    axis.set_minor_formatter("")

    def legend(self, location="best", columns=1):
        """Show the legend, once."""
        if self.axes.get_legend() is None:
            look = {"frameon": False, "handlelength": 2.6, "fontsize": 0.85 * self._board.font}
            self.axes.legend(loc=location, ncols=columns, **look)

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
    aspect : float
        Height of a panel over its width.
    live : bool
        Keep the background and redraw only what moves, for sliders.
    """

    def __init__(self, mosaic, *, width=SCREEN["width"], font=SCREEN["font"], aspect=0.66, live=False):
        self.live, self.dragging, self.stale, self.font = live, False, True, font
        if width < 5:  # one column of a journal: panels below each other
            mosaic = [[name] for row in mosaic for name in row]
        columns, rows = len(mosaic[0]), len(mosaic)
        size = (width, width / columns * rows * aspect)
        self.figure = Figure(figsize=size, dpi=SCREEN["dpi"], layout="constrained")
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
                if self.figure.get_layout_engine() is not None:
                    self._canvas.draw()  # the labels of logarithmic axes settle in the second pass
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

    def blank(self):
        """Return a white picture of the board's size as PNG bytes."""
        buffer = io.BytesIO()
        Image.new("RGB", self.size, "white").save(buffer, "png")
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
