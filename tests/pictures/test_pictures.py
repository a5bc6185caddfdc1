"""Every picture of every notebook, found by themselves: sound data, a text, drawn at both ends of all sliders."""

import importlib
import inspect
import pkgutil
import time

import numpy as np
import pytest
from chromium import CHROMIUM

import lbcore.pictures
from lbcore.show import figures
from lbcore.show.picture import Picture, figure

MODULES = [importlib.import_module(f"lbcore.pictures.{m.name}") for m in pkgutil.iter_modules(lbcore.pictures.__path__)]
PICTURES = [found for module in MODULES for found in vars(module).values() if isinstance(found, Picture)]
AT_ONCE = [picture for picture in PICTURES if not inspect.isgeneratorfunction(picture.function)]


def ids(picture):
    return picture.name


def sound(picture, rows):
    """Check the data of a picture."""
    assert tuple(map(len, rows)) == picture.panels
    for plot in (plot for row in rows for plot in row):
        for mark in plot.marks:
            lengths = {column.shape for column in mark.columns.values()}
            assert len(lengths) == 1, mark.name
            assert len(lengths.pop()) == 1, mark.name
            assert not any(np.isinf(column).any() for column in mark.columns.values()), mark.name
            assert mark.who in figures.WHO
            assert mark.kind in figures.KIND
            if mark.form not in ("line", "band"):  # where NaN is a gap
                assert all(np.isfinite(column).all() for column in mark.columns.values()), mark.name
        for limits in (plot.x, plot.y):
            assert limits is None or (np.isfinite(limits).all() and limits[0] != limits[1]), plot.title


def test_all_pictures_are_found():
    names = [picture.name for picture in PICTURES]
    assert len(set(names)) == len(names) >= 11
    assert all(picture.function.__doc__ for picture in PICTURES)


@pytest.mark.parametrize("picture", PICTURES, ids=ids)
def test_start_is_sound_and_told_in_words(picture):
    rows = picture.plots(refinements=1)
    sound(picture, rows)
    text = picture.describe(rows, {})
    assert all(control.label in text for control in picture.controls.values())
    assert "$" not in text
    assert len(text) > 100


@pytest.mark.parametrize("picture", AT_ONCE, ids=ids)
def test_both_ends_of_every_slider_are_sound(picture):
    for name, control in picture.controls.items():
        for end in control.ends:
            sound(picture, picture.plots(**{name: end}))


@pytest.mark.parametrize("picture", PICTURES, ids=ids)
def test_all_sliders_at_their_upper_ends_are_sound_and_drawn(picture):
    """The browser tests leave all at their lower ends."""
    rows = picture.plots(refinements=1, **{name: control.ends[1] for name, control in picture.controls.items()})
    sound(picture, rows)
    assert len(figure(rows).png()) > 5000


@pytest.mark.skipif(CHROMIUM is not None, reason="the browser tests do the same by mouse")
@pytest.mark.parametrize("picture", PICTURES, ids=ids)
def test_explorers_draw_at_both_ends_of_all_sliders(picture):
    explorer = picture.explore()
    for end in (0, 1):
        before = explorer.image.value
        for name, control in explorer.controls.items():
            control.value = picture.controls[name].ends[end]
        deadline = time.monotonic() + 60
        while explorer.image.value == before and explorer._latest.busy and time.monotonic() < deadline:
            time.sleep(0.02)
        explorer.stop()
        assert explorer.wait(60)
        assert explorer.message.layout.display == "none", explorer.message.value
        assert explorer.image.value


def test_old_keyword_warns_in_one_line():
    picture = next(picture for picture in PICTURES if picture.name == "factor-two")
    with pytest.warns(FutureWarning, match="refinements="):
        picture.figure(pictures=1)
