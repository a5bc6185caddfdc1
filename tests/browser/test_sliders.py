"""What a reader does with sliders: by keyboard, by typing and by dragging."""

import time

import nbformat
import numpy as np
import pytest
from reader import PANEL, Notebook, differ

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def test_law_explorer_by_keyboard_typing_and_dragging(opened):
    notebook = opened("03_jsq_halfin_whitt").show("stationary_law.explore")
    page = notebook.page
    notebook.button("reset").click()
    slider = notebook.slider("slack β")
    handle, readout = slider.locator('[role="slider"]'), slider.locator(".widget-readout")
    start = notebook.settled()
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
    end = notebook.settled()
    print(f"pictures seen in a drag of 40 moves: {len(seen)}")
    assert len(seen) > 5
    assert readout.inner_text() == "5.01"
    page.mouse.move(grip["x"], 5)
    for key, shown in (("Home", "0.0295"), ("End", "5.01")):
        handle.focus()
        picture = notebook.after(lambda key=key: page.keyboard.press(key))
        assert readout.inner_text() == shown
        assert (differ(end, picture) == 0) == (key == "End")  # the same value gives the same picture again

    assert differ(start, notebook.after(notebook.button("reset").click)) == 0
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
    notebook = Notebook(page, address("failing.ipynb")).show("explore")
    good = notebook.settled()
    assert notebook.errors() == []
    notebook.slider("slack β").locator('[role="slider"]').focus()
    page.keyboard.press("End")
    page.locator(f"{PANEL} .lbcore-error:visible").wait_for(timeout=10_000)
    assert notebook.errors() == ["ValueError: this picture refuses beta > 1.2"]
    notebook.button("reset").click()
    page.locator(f"{PANEL} .lbcore-error:visible").wait_for(state="detached", timeout=10_000)
    assert differ(good, notebook.settled()) == 0
    assert notebook.errors() == []
