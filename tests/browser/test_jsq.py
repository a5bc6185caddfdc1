"""The explorers of notebook 03: sliders dragged by mouse to both ends."""

import time

import nbformat
import pytest
from test_sliders import Notebook, differ

pytestmark = pytest.mark.browser


def drag(notebook, label, right):
    """Drag a slider's handle beyond one end; return what its readout shows and the picture, once it is another."""
    before = notebook.pixels()
    page, slider = notebook.page, notebook.slider(label)
    rail = slider.locator(".noUi-base, .slider-container").first.bounding_box()
    grip = slider.locator('[role="slider"]').bounding_box()
    end, y = rail["x"] + (rail["width"] + 20 if right else -20), rail["y"] + rail["height"] / 2

    page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
    page.mouse.down()
    page.mouse.move(end, y, steps=10)
    page.mouse.up()
    deadline = time.monotonic() + 20  # one that simulates may show a refinement of the old value first, little changed
    while differ(before, notebook.pixels()) < 500:
        assert time.monotonic() < deadline, "the picture did not change"
        page.wait_for_timeout(100)
    return slider.locator(".widget-readout").inner_text()


@pytest.mark.parametrize(
    ("call", "sliders"),
    [
        ("gallery_jsq.large_slack", {"slack β": ("1.00", "5.89")}),
        ("gallery_jsq.small_slack", {"slack β": ("0.0100", "1.00")}),
        ("gallery_jsq.sensitivity", {"slack β": ("0.0100", "5.89")}),
        ("gallery_jsq_finite.economics", {"servers N": ("10.0", "1.00e+3"), "load ρ": ("0.300", "0.995")}),
        ("gallery_jsq_finite.finite_servers", {"slack β": ("0.0490", "2.82")}),
        ("gallery_jsq_finite.schemes", {"slack β": ("0.200", "2.51")}),
        ("gallery_jsq_finite.sample_path", {"slack β": ("0.200", "4.07")}),
        ("gallery_jsq_finite.transient", {"slack β": ("0.100", "4.07"), "servers N": ("49.0", "162")}),
        ("gallery_jsq_finite.hitting_times", {"slack β": ("0.490", "4.90")}),
    ],
)
def test_both_ends(lab, page, call, sliders):
    folder, address = lab
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    name = call.rpartition(".")[2]
    cells = [nbformat.v4.new_code_cell(f"import lbcore as lb\nlb.{call}.explore()")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / f"{name}.ipynb")
    notebook = Notebook(page, address(f"{name}.ipynb"))
    for label, ends in sliders.items():
        assert tuple(drag(notebook, label, right) for right in (False, True)) == ends
        assert notebook.errors() == []
