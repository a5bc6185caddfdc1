"""The explorers of notebook 02: load and servers dragged to both ends, service laws switched."""

import nbformat
import pytest
from test_sliders import PANEL, Notebook, differ

from lbcore.gallery_jiq import FAMILIES

pytestmark = pytest.mark.browser


def opened(lab, page, explorer):
    """Return a notebook that holds one explorer."""
    folder, address = lab
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(f"import lbcore as lb\nlb.gallery_jiq.{explorer}.explore()")]
    name = f"jiq_{explorer}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / name)
    return Notebook(page, address(name))


def still(notebook):
    """Stop the simulation, so that only what is done next can change the picture; return its pixels."""
    notebook.button("stop").click()
    return notebook.settled()


def changes(notebook, action, least=500):
    """Whether an action changes at least so many pixels, and shows no error."""
    before, source = still(notebook), notebook.source
    action()
    notebook.changed(source, 20_000)
    assert notebook.errors() == []
    return differ(before, still(notebook)) >= least


def drag(notebook, label, end):
    """Drag the handle of a slider past the left end (0) or the right one (1)."""
    slider, mouse = notebook.slider(label), notebook.page.mouse
    grip = slider.locator('[role="slider"]').bounding_box()
    track = slider.locator(".noUi-base, .slider-container").first.bounding_box()
    middle = grip["y"] + grip["height"] / 2
    mouse.move(grip["x"] + grip["width"] / 2, middle)
    mouse.down()
    mouse.move(track["x"] + end * track["width"] + (40 * end - 20), middle, steps=12)
    mouse.up()
    mouse.move(track["x"], 5)


@pytest.mark.parametrize(
    ("explorer", "ends"),
    [
        ("fixed_point", {"load λ": ("0.0200", "0.980"), "servers n": ("1.00", "1.00e+6")}),
        ("convergence", {"load λ": ("0.0200", "0.980")}),
        ("fluid", {"load λ": ("0.0200", "0.980")}),
    ],
)
def test_both_ends_of_the_sliders(lab, page, explorer, ends):
    notebook = opened(lab, page, explorer)
    for label, shown in ends.items():
        for end in (1, 0):
            assert changes(notebook, lambda label=label, end=end: drag(notebook, label, end)), (label, end)
            assert notebook.slider(label).locator(".widget-readout").inner_text() == shown[end]


@pytest.mark.parametrize(("explorer", "laws"), [("fixed_point", list(FAMILIES)), ("fluid", list(FAMILIES)[:3])])
def test_every_law(lab, page, explorer, laws):
    notebook = opened(lab, page, explorer)
    choice = notebook.cell.locator(".widget-dropdown", has_text="service law").locator("select")
    for law in [*laws[1:], laws[0]]:
        assert changes(notebook, lambda law=law: choice.select_option(law)), law


def test_a_failing_explorer_and_an_idle_one_are_told(lab, page):
    """The checks above see an error sentence, and a picture that stays the same."""
    notebook = opened(lab, page, "fixed_point")
    before = still(notebook)
    assert differ(before, notebook.settled()) == 0
    page.locator(f"{PANEL} .lbcore-error").evaluate("e => { e.style.display = 'block'; e.textContent = 'wrong'; }")
    assert notebook.errors() == ["wrong"]
