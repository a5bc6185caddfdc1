"""Plots in, pictures out: the only file that imports matplotlib.

A `Board` draws rows of `lbcore.show.plots.Plot`. The first drawing creates the artists, every later one moves their
data and removes those whose marks are gone, so the same data serve a static figure, a file for a paper and a slider.
A board needs no pyplot state and no particular thread.
"""

import csv
import io
import itertools
import math
import threading

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from PIL import Image

from lbcore import __version__
from lbcore.show.plots import plain

# colour says who (Okabe and Ito's palette, safe for colour-blind readers), line says how we know
WHO = {
    "jsq": "#0072B2", "jiq": "#009E73", "jbt": "#E69F00", "jsq_d": "#56B4E9", "random": "0.55", "pooled": "#D55E00",
    "own": "#CC79A7", "limit": "black", "bound": "0.55", "guide": "0.4",
}  # fmt: skip
KIND = {
    "exact": {"linestyle": "-", "linewidth": 2.0},
    "limit": {"linestyle": "--", "linewidth": 1.6},
    "simulated": {"linestyle": "-", "linewidth": 1.2},
    "heuristic": {"linestyle": ":", "linewidth": 1.4},
    "bound": {"linestyle": "-", "linewidth": 1.0},
    "fitted": {"linestyle": (0, (5, 1, 1, 1)), "linewidth": 1.4},
    "guide": {"linestyle": "-", "linewidth": 1.0},
}
SHADES, MARKERS = (0.0, 0.45, -0.35, 0.62, -0.6, 0.22), "os^Dv"  # of marks of the same who and kind
SCREEN = {"width": 9.6, "dpi": 96, "font": 9.5}
WIDTHS = {"one column": 3.4, "two columns": 7.0}  # inches, as journals set them


def colour(who, rank=0):
    """Return the colour of a system, lighter or darker for the second, third, ... mark of the same kind."""
    shade, base = SHADES[rank % len(SHADES)], np.array(to_rgb(WHO[who]))
    towards = 0.0 if shade < 0 and base.any() else 1.0
    return tuple((base + (towards - base) * abs(shade)).tolist())


def _ranks(marks):
    """Return for each mark its place among those of the same who and kind; a band has that of its line."""
    names, ranks = {}, []
    for mark in marks:
        form = "line" if mark.form in ("band", "guide") else mark.form
        group = names.setdefault((form, mark.who, mark.kind), [])
        if mark.name not in group:
            group.append(mark.name)
        ranks.append(group.index(mark.name))
    return ranks


class Panel:
    """One set of axes of a board; it remembers the artists of each mark."""

    def __init__(self, board, axes):
        self._board, self.axes = board, axes
        self.plot, self._artists, self._texts, self._ranges = None, {}, {}, set()

    @property
    def data(self):
        """The columns that are drawn, by name; those of a band by its name and ", band"."""
        return {_label(mark): mark.columns for mark in self.plot.marks}

    @property
    def artists(self):
        """All that moves, in the order in which matplotlib draws."""
        parts = itertools.chain(*self._artists.values(), self._texts.values())
        return sorted(parts, key=lambda artist: artist.get_zorder())

    def draw(self, plot):
        """Draw or move everything; what was drawn and is no longer there goes."""
        self._describe(plot, self.plot)
        self.plot, wanted, old = plot, {}, self._artists
        for mark, rank in zip(plot.marks, _ranks(plot.marks), strict=True):
            key = (mark.form, mark.name, mark.who, mark.kind, rank, str(mark.look))
            wanted[key] = old.get(key) or self._add(mark, rank)
            _FORMS[mark.form][1](wanted[key], **mark.columns)
        for key in old.keys() - wanted.keys():
            for artist in old[key]:
                _remove(artist)
        self._artists = wanted
        self._limits("x", plot)
        self._limits("y", plot)
        unknown = ", ".join(dict.fromkeys(mark.name for mark in plot.marks if not mark.believable))
        self._write("note", plot.note, *plot.at)
        self._write("unknown", unknown and f"not enough simulated yet: {unknown}", 0.5, 0.5, ha="center")
        if plot.legend == "curves":
            self._name_curves(plot)
        elif wanted.keys() != old.keys():
            self._legend(plot)
        self._board.stale |= wanted.keys() != old.keys()

    def _describe(self, plot, before):
        words = ("title", "xlabel", "ylabel", "log", "ticks")
        if before is not None and all(getattr(plot, word) == getattr(before, word) for word in words):
            return
        axes, size, self._board.stale = self.axes, self._board.font, True
        axes.set(**{f"{axis}scale": "log" if axis in plot.log else "linear" for axis in "xy"})
        axes.set_title(plot.title, size=size)
        axes.set_xlabel(plot.xlabel, size=size)
        axes.set_ylabel(plot.ylabel, size=size)
        if plot.ticks:
            axes.set_xticks(range(len(plot.ticks)), plot.ticks, rotation=60, ha="right")
        axes.tick_params(labelsize=0.9 * size)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
        axes.set_autoscale_on(False)
        axes.spines[["top", "right"]].set_visible(False)

    def _add(self, mark, rank):
        style = KIND[mark.kind] | {"color": colour(mark.who, rank)} | mark.look
        artists = _FORMS[mark.form][0](self.axes, mark, style, MARKERS[rank % len(MARKERS)])
        for artist in artists:
            artist.set_animated(self._board.live)
        if mark.form == "heat":
            bar = self._board.figure.colorbar(artists[0], ax=self.axes)
            bar.set_label(mark.name, size=self._board.font)
            bar.ax.tick_params(labelsize=0.9 * self._board.font)
        return artists

    def _limits(self, axis, plot):
        """Set the range of an axis; while a slider is dragged it waits for the release, unless it is to move now."""
        if self._board.dragging and axis in self._ranges and axis not in plot.now:
            return
        wanted = getattr(plot, axis) or _span(plot, axis)
        self._ranges.add(axis)
        if tuple(getattr(self.axes, f"get_{axis}lim")()) != tuple(wanted):
            self.axes.set(**{f"{axis}lim": wanted})
            self._board.stale = True
            ruler = getattr(self.axes, f"{axis}axis")
            if axis in plot.log and max(wanted) < 1000 * min(wanted):  # label 1, 2, 5 in short ranges
                ruler.set_major_locator(LogLocator(subs=(1, 2, 5)))
                ruler.set_major_formatter("{x:g}")
                ruler.set_minor_formatter("")

    def _write(self, key, text, x, y, **look):
        """Write a text at a place in parts of the panel, the same text object as before."""
        if key not in self._texts:
            place = {"ha": "right" if x > 0.5 else "left", "va": "bottom" if y < 0.5 else "top"} | look
            fixed = {"transform": self.axes.transAxes, "size": self._board.font, "animated": self._board.live}
            self._texts[key] = self.axes.text(x, y, "", **fixed, **place)
        self._texts[key].set(text=text, position=(x, y))

    def _legend(self, plot):
        named = [(artists[-1], mark) for artists, mark in zip(self._artists.values(), plot.marks, strict=True)]
        named = {mark.name: artist for artist, mark in named if mark.named and mark.form in _NAMED}
        look = {"frameon": False, "handlelength": 2.6, "fontsize": 0.85 * self._board.font, "ncols": plot.columns}
        if self.axes.get_legend() is not None:
            self.axes.get_legend().remove()
        if plot.legend == "below" and named:
            self._board.figure.legends.clear()
            self._board.figure.legend(named.values(), named.keys(), loc="outside lower center", **look)
        elif plot.legend and named:
            self.axes.legend(named.values(), named.keys(), loc=plot.legend, **look)

    def _name_curves(self, plot):
        """Write the names of curves at their right ends, moved apart."""
        to_panel, ends = self.axes.transData + self.axes.transAxes.inverted(), []
        for mark in plot.marks:
            if mark.form == "line" and mark.named:
                x, y = to_panel.transform(np.column_stack([mark.columns["x"], mark.columns["y"]])).T
                seen = np.flatnonzero(np.isfinite(x + y) & (x <= 1.0))
                ends += [(min(max(y[k], 0.0), 1.0), x[k], mark) for k in seen[-1:]]
        step = 1.3 * self._board.font / 72 / (self.axes.get_position().height * self.axes.figure.get_figheight())
        floor = -math.inf
        for y, x, mark in sorted(ends, key=lambda end: end[0]):
            floor = max(y, floor + step)
            self._write(("name", mark.name), mark.name, x + 0.01, floor, ha="left", va="center", color=colour(mark.who))
        for key in self._texts.keys() - {"note", "unknown", *(("name", mark.name) for *_, mark in ends)}:
            self._texts[key].set_text("")


def _span(plot, axis):
    """Return the range of the data on an axis, with some room."""
    names = {"x": ("x",), "y": ("y", "low", "high")}[axis]
    values = np.concatenate([m.columns[c] for m in plot.marks for c in names if c in m.columns] or [[0.0, 1.0]])
    values = values[np.isfinite(values) & ((values > 0) | (axis not in plot.log))]
    values = values if values.size else np.ones(1)
    if axis in plot.log:
        return (values.min() / 1.2, values.max() * 1.2)
    room = 0.04 * (np.ptp(values) or 1.0)
    return (values.min() - room, values.max() + room)


def _label(mark):
    return f"{mark.name}, band" if mark.form == "band" else mark.name


def _remove(artist):
    if getattr(artist, "colorbar", None) is not None:
        artist.colorbar.remove()
    artist.remove()


def _make_line(axes, mark, style, marker):
    return axes.plot([], [], **style)


def _make_marker(axes, mark, style, marker):
    dot = {"color": style["color"], "marker": "o", "markersize": 7, "markeredgecolor": "black"}
    return axes.plot([], [], linestyle="none", **dot | mark.look)


def _make_band(axes, mark, style, marker):
    return [axes.fill_between(*mark.columns.values(), color=style["color"], alpha=0.25, linewidth=0)]


def _make_points(axes, mark, style, marker):
    dots = {"color": style["color"], "linestyle": "none", "marker": marker, "markersize": 5} | mark.look
    return [*axes.plot([], [], color=dots["color"], linewidth=1.5), *axes.plot([], [], **dots)]


def _make_heat(axes, mark, style, marker):
    look = {"origin": "lower", "cmap": "cividis", "aspect": "auto", "interpolation": "nearest"}
    return [axes.imshow([[0.0]], **look | mark.look)]


def _make_arrows(axes, mark, style, marker):
    look = {"color": "white", "width": 0.004, "scale": 28, "pivot": "tail"}
    return [axes.quiver(*mark.columns.values(), **look | mark.look)]


def _make_bars(axes, mark, style, marker):
    bars = PolyCollection([], cmap=ListedColormap(["0.8", style["color"]]), **mark.look)
    bars.set_clim(0, 1)
    return [axes.add_collection(bars)]


def _make_guide(axes, mark, style, marker):
    return axes.plot([], [], transform=getattr(axes, f"get_{next(iter(mark.columns))}axis_transform")(), **style)


def _move_curve(artists, x, y):
    artists[0].set_data(x, y)


def _move_band(artists, x, low, high):
    artists[0].set_data(x, low, high)


def _move_points(artists, x, y, low, high):
    artists[0].set_data(np.repeat(x, 3), np.stack([low, high, np.full_like(y, math.nan)], axis=1).ravel())
    artists[1].set_data(x, y)


def _move_heat(artists, x, y, value):
    rows, columns = int(y[-1]) + 1, int(x[-1]) + 1
    artists[0].set(data=value.reshape(rows, columns), extent=(-0.5, columns - 0.5, -0.5, rows - 0.5))


def _move_arrows(artists, x, y, u, v):
    artists[0].set_offsets(np.stack([x, y], axis=1))
    artists[0].set_UVC(u, v)


def _move_bars(artists, x, y, lit):
    left, right, zero = x - 0.4, x + 0.4, np.zeros(len(x))
    corners = [(left, zero), (left, y), (right, y), (right, zero)]
    artists[0].set(verts=np.transpose(corners, (2, 0, 1)), array=lit)


def _move_guide(artists, x=None, y=None):
    at = np.repeat(y if x is None else x, 3)
    across = np.tile([0.0, 1.0, math.nan], len(at) // 3)
    artists[0].set_data(*((across, at) if x is None else (at, across)))


_FORMS = {  # form of mark -> how its artists are made and moved
    "line": (_make_line, _move_curve), "marker": (_make_marker, _move_curve), "band": (_make_band, _move_band),
    "points": (_make_points, _move_points), "heat": (_make_heat, _move_heat), "arrows": (_make_arrows, _move_arrows),
    "bars": (_make_bars, _move_bars), "guide": (_make_guide, _move_guide),
}  # fmt: skip
_NAMED = ("line", "marker", "points", "guide")  # what a legend shows


class Board:
    """A figure of panels.

    Parameters
    ----------
    panels : sequence of int
        How many panels stand in each row.
    width : float
        Inches. The height follows from the number of rows.
    aspect : float
        Height of a panel over its width.
    live : bool
        Keep the background and redraw only what moves, for sliders.
    """

    def __init__(self, panels, *, width=SCREEN["width"], font=SCREEN["font"], aspect=0.66, live=False):
        self.live, self.dragging, self.stale, self.font, self.text = live, False, True, font, ""
        if width < 5:  # one column of a journal: panels below each other
            panels = [1] * sum(panels)
        numbers, columns = itertools.count(), math.lcm(*panels)
        mosaic = [list(np.repeat([next(numbers) for _ in range(n)], columns // n)) for n in panels]
        size = (width, width / max(panels) * len(panels) * aspect)
        self.figure = Figure(figsize=size, dpi=SCREEN["dpi"], layout="constrained")
        self._canvas = FigureCanvasAgg(self.figure)
        self.panels = [Panel(self, axes) for _, axes in sorted(self.figure.subplot_mosaic(mosaic).items())]
        self._lock = threading.RLock()

    def __getitem__(self, index):
        return self.panels[index]

    def draw(self, rows, *, dragging=False, text=""):
        """Draw rows of `Plot`, `text` being their alternative text; return the board."""
        with self._lock:
            self.dragging, self.text = dragging, text
            for panel, plot in zip(self.panels, itertools.chain(*rows), strict=True):
                panel.draw(plot)
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
                for panel in self.panels:
                    for artist in panel.artists:
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
        """Show the board in a notebook, sharp on any screen, with its alternative text."""
        with self._lock:
            buffer = io.BytesIO()
            self.figure.savefig(buffer, format="png", dpi=2 * SCREEN["dpi"])
        width, height = self.size
        about = {"width": width, "height": height, "alt": self.text}
        return {"image/png": buffer.getvalue(), "text/plain": self.text}, {"image/png": about}

    def save_figure(self, path, title, parameters):
        """Write the figure as ``path.pdf`` and ``path.png`` (300 dpi), parameters and version inside; return both."""
        about = "; ".join(f"{name} = {value}" for name, value in parameters.items())
        creator = f"lbcore {__version__}"
        pdf, png = path.with_name(path.name + ".pdf"), path.with_name(path.name + ".png")
        for_pdf = {"Title": title, "Subject": about, "Keywords": self.text, "Creator": creator}
        for_png = {"Title": title, "Description": about, "Comment": self.text, "Software": creator}
        with self._lock, matplotlib.rc_context({"pdf.fonttype": 42}):  # TrueType, as journals ask
            self.figure.savefig(pdf, metadata=for_pdf)
            self.figure.savefig(png, dpi=300, metadata=for_png)
        return pdf, png

    def save_data(self, path, title, parameters):
        """Write every mark as ``path.csv``: title, version and parameters as comments, then a row a point."""
        path = path.with_name(path.name + ".csv")
        marks = [(plain(panel.plot.title), mark) for panel in self.panels for mark in panel.plot.marks]
        columns = list(dict.fromkeys(c for _, mark in marks for c in mark.columns))
        with path.open("x", newline="", encoding="utf-8") as file:
            file.write(f"# {title}\n# lbcore {__version__}\n")
            file.writelines(f"# {name} = {value}\n" for name, value in parameters.items())
            writer = csv.writer(file)
            writer.writerow(["panel", "curve", "who", "kind", "status", *columns])
            for panel, mark in marks:
                about = panel, _label(mark), mark.who, mark.kind, mark.status
                for row in zip(*mark.columns.values(), strict=True):
                    found = dict(zip(mark.columns, row, strict=True))
                    writer.writerow([*about, *(repr(float(found[c])) if c in found else "" for c in columns)])
        return path
