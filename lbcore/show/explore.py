"""Sliders: the only file that imports ipywidgets.

`Explorer` connects the sliders of a `lbcore.show.picture.Picture` with its picture by one mechanism for the whole
collection: a worker thread computes the newest values only, a result that is no longer wanted is never shown, and the
picture is one image of fixed size, so nothing flickers or jumps.
"""

import inspect
import math
import re
import threading
import time
from html import escape
from pathlib import Path

import ipywidgets as widgets

from lbcore.show import figures
from lbcore.show.plots import short

FOLDER = Path("saved")  # where "save" puts files, beside the notebook
_SETTLE = 0.3  # seconds without a change after which a dragged slider counts as released


def widget(control):
    """Return the widget of a `lbcore.show.plots.Control`."""
    look = {"style": {"description_width": "120px"}, "layout": widgets.Layout(width="480px")}
    look |= {"description": control.label}
    if control.form == "choice":
        return widgets.Dropdown(options=control.options, value=control.start, **look)
    span = {"value": control.start, "min": control.low, "max": control.high}
    if control.form == "log":
        exponents = {end: round(math.log10(span[end]), 2) for end in ("min", "max")}
        return widgets.FloatLogSlider(readout_format=".3g", step=control.step, **span | exponents, **look)
    if control.form == "real":
        return widgets.FloatSlider(readout_format=".3g", step=control.step, **span, **look)
    if control.form == "range":
        return widgets.FloatRangeSlider(readout_format=".0f", step=control.step, **span, **look)
    slider = widgets.IntSlider(**span, **look)
    if control.form == "player":
        slider.companions = _player(slider)
    return slider


def _player(slider):
    """Return what stands beside a slider over frames: play, pause and stop, and a speed of 1 to 20 frames a second."""
    play = widgets.Play(min=slider.min, max=slider.max, interval=200, show_repeat=False)
    widgets.jslink((play, "value"), (slider, "value"))
    speed = widgets.BoundedIntText(5, min=1, max=20, description="per second", layout=widgets.Layout(width="160px"))
    widgets.dlink((speed, "value"), (play, "interval"), lambda n: 1000 // n)
    return play, speed


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
    """The sliders of a `Picture`, the live picture, reset and save buttons; a stop button if it refines."""

    def __init__(self, picture):
        self.picture = picture
        self.controls = {name: widget(control) for name, control in picture.controls.items()}
        self.board = self._board(width=picture.scale * figures.SCREEN["width"], live=True)
        width, height = self.board.size
        size = {"width": f"{width}px", "max_width": "100%"}  # a narrow window shrinks the picture
        # white at first: a picture that follows an empty one while its cell is out of sight is not always shown
        self.image = widgets.Image(value=self.board.blank(), layout=widgets.Layout(**size, height="auto"))
        self.message = widgets.HTML(layout=widgets.Layout(**size, height=f"{height}px", display="none"))
        self.message.add_class("lbcore-error")  # where browser tests look
        self.status = widgets.HTML()
        self._print_width = widgets.Dropdown(options=list(figures.WIDTHS), layout=widgets.Layout(width="120px"))
        refines = inspect.isgeneratorfunction(picture.function)
        buttons = [
            self._button("reset", "undo", self.reset),
            self._button("save figure", "image", self.save_figure),
            self._print_width,
            self._button("save data", "table", self.save_data),
        ]
        if refines:
            buttons.append(self._button("stop", "stop", self.stop))
        buttons.append(self.status)
        self._shown, self._stopped = None, False
        self._latest = Latest(self._show)
        for control in self.controls.values():
            control.observe(lambda change: self._latest.submit(self.values), "value")
        rows = [widgets.HBox([c, *c.companions]) if hasattr(c, "companions") else c for c in self.controls.values()]
        super().__init__([*rows, widgets.HBox(buttons), self.image, self.message])
        if refines:
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
        for name, value in self.picture.start.items():
            self.controls[name].value = value

    def stop(self):
        """Keep what a simulation has gathered so far; the next change of a control starts it anew."""
        self._stopped = True

    def save_figure(self):
        """Save what is shown as PDF and PNG at the chosen width; never overwrites."""
        board, values = self._drawn(width=figures.WIDTHS[self._print_width.value], font=8)
        paths = board.save_figure(self._free_path(values, ".pdf", ".png"), self.picture.name, values)
        self.status.value = f"saved {escape(str(paths[0]))} and .png"

    def save_data(self):
        """Save every curve shown as CSV; never overwrites."""
        board, values = self._drawn()
        path = board.save_data(self._free_path(values, ".csv"), self.picture.name, values)
        self.status.value = f"saved {escape(str(path))}"

    def _board(self, **size):
        return figures.Board(self.picture.panels, aspect=self.picture.aspect, **size)

    def _drawn(self, **size):
        """Return what is shown on a board of its own, and at which values."""
        if self._shown is None:
            raise ValueError("there is no picture to save; move a slider to values that can be shown")
        values, rows = self._shown
        return self._board(**size).draw(rows, text=self.picture.describe(rows, values)), values

    def _free_path(self, values, *suffixes):
        """Return a path, named after the values, at which no file with one of the suffixes exists yet."""
        FOLDER.mkdir(exist_ok=True)
        words = "_".join(f"{key}={short(value)}" for key, value in values.items())
        stem, number = re.sub(r"[^\w.=+-]+", "-", f"{self.picture.name}_{words}"), 1
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
        """Compute and draw `values`; when a drag has ended, the plots are there already and only the axes change.

        A picture that refines is drawn at each step until newer values come or *stop* is pressed.
        """
        begun = time.monotonic()
        self._stopped = False
        try:
            shown, known = self._shown or (None, None)
            found = known if shown == values else self.picture.function(**values)
            refining = hasattr(found, "__next__")
            for count, rows in enumerate(found if refining else [found], 1):
                moving = dragging and time.monotonic() - begun < _SETTLE
                self._publish(values, rows, self.board.draw(rows, dragging=moving).png())
                if refining:
                    self.status.value = f"refining: picture {count}, {time.monotonic() - begun:.1f} s"
                if self._latest.pending or self._stopped:
                    break
            if refining:
                found.close()
                words = "stopped" if self._stopped else "interrupted" if self._latest.pending else "finished"
                self.status.value = f"{words} after {count} pictures, {time.monotonic() - begun:.1f} s"
        except Exception as error:  # shown to the reader in place of the picture
            self._shown = None
            self.message.value = _sentence(error)
            self.image.layout.display, self.message.layout.display = "none", None

    def _publish(self, values, rows, picture):
        self._shown = (values, rows)
        self.image.value = picture
        if self.message.layout.display != "none":
            self.image.layout.display, self.message.layout.display = None, "none"


def _sentence(error):
    return f"<b style='color:#B00020'>{escape(f'{type(error).__name__}: {error}')}</b>"
