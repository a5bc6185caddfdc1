"""Every notebook runs, and every explorer in it: each slider dragged to both ends by mouse, each list run through.

One file, so that tests run side by side use one browser.
"""

import json
import re
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest
from reader import PANEL, Notebook, differ

import lbcore as lb

pytestmark = pytest.mark.browser

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
            assert notebook.becomes(lambda now, before=before: differ(before, now) > 100), options[k]
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


def test_law_explorer_by_keyboard_typing_and_dragging(opened):
    notebook = opened("03_jsq_halfin_whitt").show("stationary_law.explore")
    page = notebook.page
    notebook.button("reset").click()
    slider = notebook.slider("slack β")
    handle, readout = slider.locator('[role="slider"]'), slider.locator(".widget-readout")
    start = notebook.settled(2.0)
    assert readout.inner_text() == "1.00"

    handle.focus()
    notebook.press("ArrowRight", 15)
    assert readout.inner_text() == f"{10 ** (15 * 0.01):.3g}"
    assert differ(start, notebook.settled()) > 500

    readout.click()
    page.keyboard.press("Control+A")
    page.keyboard.type("0.1")
    typed = notebook.after(lambda: page.keyboard.press("Enter"))
    assert readout.inner_text() == "0.100"
    assert differ(start, typed) > 2000

    box = slider.locator(".noUi-base, .slider-container").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    grip = handle.bounding_box()
    page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
    page.mouse.down()
    seen = set()
    for x in np.linspace(grip["x"], box["x"] + box["width"] + 20, 40):
        page.mouse.move(x, middle)
        page.wait_for_timeout(25)
        seen.add(notebook.source)
    page.mouse.up()
    print(f"pictures seen in a drag of 40 moves: {len(seen)}")
    assert len(seen) > 5
    assert readout.inner_text() == "5.01"
    page.mouse.move(grip["x"], 5)
    end = notebook.settled(2.0)
    handle.focus()
    assert differ(end, notebook.after(lambda: page.keyboard.press("Home"))) > 2000
    assert readout.inner_text() == "0.0295"
    page.keyboard.press("End")
    assert notebook.becomes(lambda now: differ(end, now) == 0)  # the same value gives the same picture again
    assert readout.inner_text() == "5.01"

    notebook.button("reset").click()
    assert notebook.becomes(lambda now: differ(start, now) == 0)
    assert readout.inner_text() == "1.00"
    assert notebook.errors() == []


def test_levels_slider_and_saving(lab, opened):
    notebook = opened("03_jsq_halfin_whitt").show("stationary_law.explore")
    notebook.button("reset").click()
    before = notebook.settled()
    handles = notebook.slider("levels y shown").locator('[role="slider"]')
    for index, key in ((1, "End"), (0, "End"), (0, "Home")):
        handles.nth(index).focus()
        assert differ(before, notebook.after(lambda key=key: notebook.page.keyboard.press(key))) > 500
    saved = lab[0] / "saved"
    for button, files in (("save figure", 2), ("save data", 3), ("save figure", 5)):
        notebook.button(button).click()
        deadline = time.monotonic() + 20
        while (not saved.is_dir() or len(list(saved.iterdir())) < files) and time.monotonic() < deadline:
            notebook.page.wait_for_timeout(100)
    names = sorted(path.name for path in saved.iterdir())
    stem = "jsq-law_beta=1_y=0-200"
    assert names == sorted([f"{stem}.pdf", f"{stem}.png", f"{stem}.csv", f"{stem}_2.pdf", f"{stem}_2.png"])
    assert notebook.errors() == []


FAILING = """
from lbcore.pictures import jsq
from lbcore.show.picture import picture
from lbcore.show.plots import log_slider

@picture("failing", scale=0.6, beta=log_slider("slack β", 1.0, 0.1, 5.0))
def failing(beta):
    if beta > 1.2:
        raise ValueError("this picture refuses beta > 1.2")
    return jsq.factor_two.plots(beta=beta)

failing.explore()
"""


def test_negative_control_a_raising_callback_is_seen_and_recovered_from(lab, chromium):
    folder, address = lab
    page = chromium.new_page(viewport={"width": 1400, "height": 1100})
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(FAILING)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "failing.ipynb")
    notebook = Notebook(page, address("failing.ipynb")).run_all().show("explore")
    good = notebook.settled()
    assert notebook.errors() == []
    notebook.slider("slack β").locator('[role="slider"]').focus()
    page.keyboard.press("End")
    page.locator(f"{PANEL} .lbcore-error:visible").wait_for(timeout=10_000)
    assert notebook.errors() == ["ValueError: this picture refuses beta > 1.2"]
    notebook.button("reset").click()
    page.locator(f"{PANEL} .lbcore-error:visible").wait_for(state="detached", timeout=10_000)
    assert notebook.becomes(lambda now: differ(good, now) == 0)
    assert notebook.errors() == []
