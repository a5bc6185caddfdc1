"""Sliders: the only file that imports ipywidgets.

An explorer is three small pieces: *controls* (widgets by name), *compute* (their values in, a result out) and *draw*
(board and result, see `lbcore.figures`). `Explorer` connects them with one mechanism for the whole collection: a
worker thread computes the newest values only, a result that is no longer wanted is never shown, and the picture is
one image of fixed size, so nothing flickers or jumps.
"""

import inspect
import itertools
import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import ipywidgets as widgets

from lbcore import figures

FOLDER = Path("saved")  # where "save" puts files, beside the notebook
_SETTLE = 0.3  # seconds without a change after which a dragged slider counts as released
_WIDE = {"style": {"description_width": "120px"}, "layout": widgets.Layout(width="480px")}


def log_slider(label, value, low, high):
    """Return a slider on a logarithmic scale from `low` to `high`, both rounded outwards to hundredths of a decade."""
    start = 10 ** round(math.log10(value), 2)  # the browser would round it to a step as well
    exponents = {"min": math.floor(100 * math.log10(low)) / 100, "max": math.ceil(100 * math.log10(high)) / 100}
    return widgets.FloatLogSlider(start, description=label, readout_format=".3g", step=0.01, **exponents, **_WIDE)


def whole_slider(label, value, low, high):
    """Return a slider on whole numbers."""
    return widgets.IntSlider(value, low, high, description=label, **_WIDE)


def choice(label, options):
    """Return a drop-down list; `options` are names, or pairs of name and value."""
    return widgets.Dropdown(options=options, description=label, **_WIDE)


def player(label, frames):
    """Return a slider over frames with buttons to play, pause and stop, and a speed of 1 to 20 frames a second.

    Arrow keys on the slider step by one.
    """
    play = widgets.Play(min=0, max=frames - 1, interval=200, show_repeat=False)
    slider = whole_slider(label, 0, 0, frames - 1)
    widgets.jslink((play, "value"), (slider, "value"))
    speed = widgets.BoundedIntText(5, min=1, max=20, description="per second", layout=widgets.Layout(width="160px"))
    widgets.dlink((speed, "value"), (play, "interval"), lambda n: 1000 // n)
    slider.companions = play, speed  # shown beside it
    return slider


def real_slider(label, value, low, high, step=0.01):
    """Return a slider on an even grid of real numbers."""
    return widgets.FloatSlider(value, min=low, max=high, step=step, description=label, readout_format=".3g", **_WIDE)


def range_slider(label, value, low, high):
    """Return a slider with two handles on whole numbers, for the range of an axis."""
    return widgets.FloatRangeSlider(
        value=value, min=low, max=high, step=1, description=label, readout_format=".0f", **_WIDE
    )


class Latest:
    """Run ``work(value, dragging)`` on one worker thread, in order, for the newest value only.

    `submit` returns at once. Values that come while one is being worked wait, and only the newest of them is worked
    next, so the picture lags a drag by one value at most and an older result never follows a newer one. When nothing
    has come for `_SETTLE` seconds, the last value is worked once more with ``dragging=False``.
    """

    def __init__(self, work):
        self._work = work
        self._changed = threading.Condition()
        self._value, self._pending, self._busy, self._thread = None, False, False, None

    def submit(self, value):
        """Ask for `value`; whatever was asked before is dropped."""
        with self._changed:
            self._value, self._pending = value, True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="explorer")
                self._thread.start()
            self._changed.notify_all()

    @property
    def pending(self):
        """Whether a newer value is waiting."""
        return self._pending

    @property
    def busy(self):
        """Whether a value is waiting or being worked."""
        return self._pending or self._busy

    def wait(self, timeout=30.0):
        """Wait until the newest value has been worked and settled; return whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._busy, timeout)

    def _run(self):
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._pending, timeout=20.0):
                    self._thread = None  # idle threads go; the next value starts a new one
                    return
                self._busy, self._pending, value = True, False, self._value
            self._work(value, True)
            with self._changed:
                settled = not self._changed.wait_for(lambda: self._pending, timeout=_SETTLE)
            if settled:
                self._work(value, False)
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class Explorer(widgets.VBox):
    """Controls, a live picture, reset and save buttons.

    Parameters
    ----------
    name : str
        Names the saved files.
    controls : dict of widgets
        Keyed by the arguments of `compute`.
    compute : callable
        ``compute(**values)`` returns a result, or yields ever better ones; a stop button comes with the latter.
    draw : callable
        ``draw(board, result)`` draws it; called on a worker thread, with no pyplot state.
    panels : list of lists of str
        Mosaic of the board's panels.
    scale : float
        Width of the picture, 1 for the full width of a notebook.
    aspect : float
        Height of a panel over its width.
    """

    def __init__(self, name, controls, compute, draw, panels, *, scale=1.0, aspect=0.66):
        self.name, self.controls = name, controls
        self._compute, self._draw, self._panels = compute, draw, {"mosaic": panels, "aspect": aspect}
        self._start = self.values
        self.board = figures.Board(**self._panels, width=scale * figures.SCREEN["width"], live=True)
        width, height = self.board.size
        size = {"width": f"{width}px", "max_width": "100%"}  # a narrow window shrinks the picture
        # white at first: a picture that follows an empty one while its cell is out of sight is not always shown
        self.image = widgets.Image(value=self.board.blank(), layout=widgets.Layout(**size, height="auto"))
        self.message = widgets.HTML(layout=widgets.Layout(**size, height=f"{height}px", display="none"))
        self.message.add_class("lbcore-error")  # where browser tests look
        self.status = widgets.HTML()
        self._print_width = widgets.Dropdown(options=list(figures.WIDTHS), layout=widgets.Layout(width="120px"))
        buttons = [
            self._button("reset", "undo", self.reset),
            self._button("save figure", "image", self.save_figure),
            self._print_width,
            self._button("save data", "table", self.save_data),
        ]
        if inspect.isgeneratorfunction(compute):
            buttons.append(self._button("stop", "stop", self.stop))
        buttons.append(self.status)
        self._result, self._stopped = None, False
        self._latest = Latest(self._show)
        for control in controls.values():
            control.observe(lambda change: self._latest.submit(self.values), "value")
        rows = [widgets.HBox([c, *c.companions]) if hasattr(c, "companions") else c for c in controls.values()]
        super().__init__([*rows, widgets.HBox(buttons), self.image, self.message])
        if inspect.isgeneratorfunction(compute):
            self._latest.submit(self.values)
        else:
            self._show(self.values, False)

    @property
    def values(self):
        """The values of all controls, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def wait(self, timeout=30.0):
        """Wait until the picture shows the newest values; return whether it does."""
        return self._latest.wait(timeout)

    def reset(self):
        """Put every control back to where it started."""
        for name, value in self._start.items():
            self.controls[name].value = value

    def stop(self):
        """Keep what a simulation has gathered so far; the next change of a control starts it anew."""
        self._stopped = True

    def save_figure(self):
        """Save what is shown as PDF and PNG at the chosen width; never overwrites."""
        values, result = self._shown()
        board = figures.Board(**self._panels, width=figures.WIDTHS[self._print_width.value], font=8)
        board.draw(self._draw, result)
        paths = board.save_figure(self._free_path(values, ".pdf", ".png"), self.name, values)
        self.status.value = f"saved {escape(str(paths[0]))} and .png"

    def save_data(self):
        """Save every curve shown as CSV; never overwrites."""
        values, result = self._shown()
        board = figures.Board(**self._panels).draw(self._draw, result)
        path = board.save_data(self._free_path(values, ".csv"), self.name, values)
        self.status.value = f"saved {escape(str(path))}"

    def _shown(self):
        if self._result is None:
            raise ValueError("there is no picture to save; move a slider to values that can be shown")
        return self._result

    def _free_path(self, values, *suffixes):
        """Return a path, named after the values, at which no file with one of the suffixes exists yet."""
        FOLDER.mkdir(exist_ok=True)
        words = "_".join(f"{key}={_short(value)}" for key, value in values.items())
        stem, number = re.sub(r"[^\w.=+-]+", "-", f"{self.name}_{words}"), 1
        path = FOLDER / stem
        while any(path.with_name(path.name + suffix).exists() for suffix in suffixes):
            number += 1
            path = FOLDER / f"{stem}_{number}"
        return path

    def _button(self, label, icon, action):
        button = widgets.Button(description=label, icon=icon, layout=widgets.Layout(width="120px"))
        button.on_click(lambda _: self._guarded(action))
        return button

    def _guarded(self, action):
        """Run `action`; show an error as a sentence."""
        try:
            action()
        except Exception as error:  # shown to the reader, whatever it is
            self.status.value = _sentence(error)

    def _show(self, values, dragging):
        """Compute and draw `values`; when a drag has ended, the result is there already and only the axes change.

        A compute that yields ever better results is drawn at each until newer values come or *stop* is pressed.
        """
        begun = time.monotonic()
        self._stopped = False
        try:
            shown, known = self._result or (None, None)
            results = known if shown == values else self._compute(**values)
            refining = hasattr(results, "__next__")
            for count, result in enumerate(results if refining else [results], 1):
                moving = dragging and time.monotonic() - begun < _SETTLE
                self._publish(values, result, self.board.draw(self._draw, result, dragging=moving).png())
                if refining:
                    self.status.value = f"refining: picture {count}, {time.monotonic() - begun:.1f} s"
                if self._latest.pending or self._stopped:
                    break
            if refining:
                results.close()
                words = "stopped" if self._stopped else "interrupted" if self._latest.pending else "finished"
                self.status.value = f"{words} after {count} pictures, {time.monotonic() - begun:.1f} s"
        except Exception as error:  # shown to the reader in place of the picture
            self._result = None
            self.message.value = _sentence(error)
            self.image.layout.display, self.message.layout.display = "none", None

    def _publish(self, values, result, picture):
        self._result = (values, result)
        self.image.value = picture
        if self.message.layout.display != "none":
            self.image.layout.display, self.message.layout.display = None, "none"


@dataclass(frozen=True)
class Picture:
    """A figure with and without sliders: what `Explorer` needs, `controls` being a function that makes them."""

    name: str
    compute: Callable
    draw: Callable
    panels: list
    controls: Callable
    scale: float = 1.0
    aspect: float = 0.66

    def explore(self):
        """Return the figure with sliders."""
        size = {"scale": self.scale, "aspect": self.aspect}
        return Explorer(self.name, self.controls(), self.compute, self.draw, self.panels, **size)

    def figure(self, *, pictures=None, **values):
        """Return the static figure; `values` replace those at which the sliders start, and need not be on them.

        Of one that refines the last picture, or the one after so many `pictures`.
        """
        start = {name: control.value for name, control in self.controls().items()}
        result = self.compute(**start | values)
        if hasattr(result, "__next__"):
            *_, result = itertools.islice(result, pictures)
        board = figures.Board(self.panels, width=self.scale * figures.SCREEN["width"], aspect=self.aspect)
        return board.draw(self.draw, result)


def _sentence(error):
    return f"<b style='color:#B00020'>{escape(f'{type(error).__name__}: {error}')}</b>"


def _short(value):
    if isinstance(value, tuple):
        return "-".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
