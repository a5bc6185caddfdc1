"""Every notebook runs, and every explorer in it: each slider dragged to both ends by mouse, each list run through."""

import json
import re
from pathlib import Path

import pytest
from reader import differ

import lbcore as lb

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SOURCES = {
    path.stem: "".join("".join(cell["source"]) + "\n" for cell in json.loads(path.read_text())["cells"])
    for path in sorted((Path(__file__).parent.parent.parent / "notebooks").glob("*.ipynb"))
}
CASES = [
    (notebook, *found)
    for notebook, source in SOURCES.items()
    for found in re.findall(r"pictures\.(\w+)\.(\w+)\.explore\(", source)
]


def test_every_picture_is_explored_in_a_notebook():
    assert {case[0] for case in CASES} == set(SOURCES)
    assert {case[1:] for case in CASES} == {
        (page, name)
        for page in dir(lb.pictures)
        for name, thing in vars(getattr(lb.pictures, page)).items()
        if isinstance(thing, lb.show.picture.Picture)
    }


def still(notebook):
    """Stop a simulation, so that only what is done next can change the picture; return the pixels."""
    if notebook.button("stop").count():
        notebook.button("stop").click()
    return notebook.settled(0.4)


def drag(notebook, slider, handle, right):
    """Drag a handle past an end of its slider; return what it says of its place there, and before."""
    mouse = notebook.page.mouse
    before = handle.get_attribute("aria-valuenow")
    grip = handle.bounding_box()
    rail = slider.locator(".noUi-base, .slider-container").first.bounding_box()
    middle = grip["y"] + grip["height"] / 2
    mouse.move(grip["x"] + grip["width"] / 2, middle)
    mouse.down()
    mouse.move(rail["x"] + (rail["width"] + 20 if right else -20), middle, steps=5)
    mouse.up()
    mouse.move(rail["x"], 5)
    return handle.get_attribute("aria-valuenow"), before


@pytest.mark.parametrize(("notebook", "page", "name"), CASES)
def test_every_slider_at_both_ends_and_every_choice(opened, notebook, page, name):
    notebook = opened(notebook).show(f"{page}.{name}.explore(")
    notebook.button("reset").click()
    for choice in notebook.cell.locator("select").all():
        options = [text.replace("\xa0", " ") for text in choice.locator("option").all_text_contents()]
        if "one column" in options:  # of saved figures
            continue
        count = 3 if len(options) > 8 else len(options)  # of many laws: the tests of pictures run through all
        for k in [*range(1, count), 0]:
            before = still(notebook)
            choice.select_option(index=k)
            assert notebook.becomes_another(before, 100), options[k]
            assert notebook.errors() == []
        for k, option in enumerate(options):
            if option.startswith("lognormal"):  # a law that has a parameter, for the sliders
                choice.select_option(index=k)
    sliders = notebook.cell.locator(".widget-slider")
    for slider in sliders.all():
        label, handle = slider.locator(".widget-label").inner_text(), slider.locator('[role="slider"]').first
        if slider.locator('[role="slider"]').count() == 2:  # the range of an axis, see test_levels_slider_and_saving
            continue
        if label != "speed":  # seen once the film plays
            still(notebook)
            handle.focus()
            print(f"{name}, {label}: ", end="")
            notebook.press("ArrowRight", 1)
        for right in (True, False):
            before, source = still(notebook), notebook.source
            now, then = drag(notebook, slider, handle, right)
            assert now == handle.get_attribute("aria-valuemax" if right else "aria-valuemin"), label
            if now != then and label != "speed":
                notebook.changed(source, 20_000)
                assert differ(before, notebook.pixels()) > 20, label
            assert notebook.errors() == []
    still(notebook)
