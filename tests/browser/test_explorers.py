"""Every explorer of every gallery: each slider dragged to both ends by mouse, each list run through."""

import nbformat
import pytest
from test_sliders import Notebook, differ

from lbcore import explore, gallery_jbt, gallery_jiq, gallery_jsq, gallery_jsq_finite

pytestmark = pytest.mark.browser

GALLERIES = (gallery_jbt, gallery_jiq, gallery_jsq, gallery_jsq_finite)
CASES = [
    (gallery.__name__, name)
    for gallery in GALLERIES
    for name, picture in vars(gallery).items()
    if isinstance(picture, explore.Picture)
]


@pytest.fixture(scope="module")
def opened(lab, chromium):
    """Return a function from a gallery to a notebook, open in the browser, with a cell for each of its explorers."""
    folder, address = lab
    pages = {}

    def open_gallery(gallery):
        if gallery not in pages:
            kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
            calls = [f"lb.{gallery.removeprefix('lbcore.')}.{name}.explore()" for of, name in CASES if of == gallery]
            cells = [nbformat.v4.new_code_cell(code) for code in ["import lbcore as lb", *calls]]
            nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / f"{gallery}.ipynb")
            page = chromium.new_page(viewport={"width": 1400, "height": 1100})
            pages[gallery] = Notebook(page, address(f"{gallery}.ipynb"), None)
        return pages[gallery]

    return open_gallery


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


@pytest.mark.parametrize(("gallery", "name"), CASES)
def test_every_slider_at_both_ends_and_every_choice(opened, gallery, name):
    notebook = opened(gallery)
    notebook.show(f".{name}.explore()")
    for choice in notebook.cell.locator("select").all():
        options = [text.replace("\xa0", " ") for text in choice.locator("option").all_text_contents()]
        if "one column" in options:  # of saved figures
            continue
        count = 3 if len(options) > 8 and name != "fixed_point" else len(options)  # that one runs through all laws
        for k in [*range(1, count), 0]:
            before = still(notebook)
            after = notebook.after(lambda c=choice, k=k: c.select_option(index=k), 0.3)
            assert differ(before, after) > 100, options[k]
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
