"""What a reader does: open a notebook in JupyterLab, run it, move sliders by keyboard, by typing and by dragging."""

import base64
import io
import statistics
import time

import nbformat
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.browser

PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
ERRORS = (
    f'{PANEL} [data-mime-type="application/vnd.jupyter.error"], '
    f'{PANEL} [data-mime-type="application/vnd.jupyter.stderr"], '
    f"{PANEL} .lbcore-error:visible"
)
RUN_FINISHED = f"""() => {{
    const prompts = [...document.querySelectorAll('{PANEL} .jp-CodeCell .jp-InputPrompt')];
    return prompts.length > 0 && prompts.every(p => /^\\[\\d+\\]:$/.test(p.textContent.trim()));
}}"""


class Notebook:
    """A notebook open in the page, all cells run, and one of its explorers: the one that `code` makes, if any."""

    def __init__(self, page, address, code="explore"):
        self.page = page
        page.goto(address)
        page.locator(f"{PANEL} .jp-KernelName", has_text="Python 3").wait_for(timeout=60_000)
        page.locator(f'{PANEL} .jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(timeout=60_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.locator(".lm-Menu-item").get_by_text("Run All Cells", exact=True).click()
        page.wait_for_function(RUN_FINISHED, timeout=120_000)
        if code is not None:
            self.show(code)

    def show(self, code):
        """Turn to the explorer that a cell with `code` has made."""
        self.cell = self.page.locator(f"{PANEL} .jp-CodeCell", has_text=code).first
        self.cell.scroll_into_view_if_needed()
        self.picture = self.cell.locator(".jupyter-widgets.widget-image").first
        self.picture.wait_for()

    @property
    def source(self):
        return self.picture.evaluate("e => e.src")

    def pixels(self):
        """Return the picture as the reader sees it."""
        self.page.wait_for_function("e => e.complete && e.naturalWidth > 0", arg=self.picture.element_handle())
        data = self.picture.evaluate(
            """async e => { const b = await (await fetch(e.src)).blob(); const r = new FileReader();
            return new Promise(done => { r.onload = () => done(r.result); r.readAsDataURL(b); }); }"""
        )
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.split(",")[1]))).convert("RGB"), dtype=int)

    def changed(self, before, timeout=10_000):
        """Wait until the browser has decoded another picture than `before`."""
        self.page.wait_for_function(
            "([e, old]) => e.src !== old && e.complete && e.naturalWidth > 0",
            arg=[self.picture.element_handle(), before],
            timeout=timeout,
        )

    def after(self, action, seconds=0.8):
        """Do something that must change the picture; return its pixels once it has stopped changing."""
        before = self.source
        action()
        self.changed(before, 20_000)
        return self.settled(seconds)

    def settled(self, seconds=0.8):
        """Wait until the picture has not changed for some time; return its pixels."""
        last, since = self.source, time.monotonic()
        while time.monotonic() - since < seconds:
            self.page.wait_for_timeout(50)
            if (now := self.source) != last:
                last, since = now, time.monotonic()
        return self.pixels()

    def press(self, key, times):
        """Press a key that changes the picture; print and return the median time until it has, in milliseconds."""
        delays = []
        for _ in range(times):
            before, pressed = self.source, time.perf_counter()
            self.page.keyboard.press(key)
            self.changed(before)
            delays.append(1000 * (time.perf_counter() - pressed))
            self.page.wait_for_timeout(60)
        median = statistics.median(delays)
        print(f"key to pixels: median {median:.0f} ms, all {[round(d) for d in delays]}")
        return median

    def slider(self, label):
        found = self.cell.locator(".widget-slider", has=self.page.locator(f'.widget-label:text-is("{label}")')).first
        found.scroll_into_view_if_needed()
        return found

    def button(self, label):
        return self.cell.locator("button", has_text=label).first

    def errors(self):
        return self.page.locator(ERRORS).all_inner_texts()


def differ(a, b):
    """Return how many pixels differ; both pictures must have the same size."""
    assert a.shape == b.shape
    return int((a != b).any(axis=2).sum())


def test_law_explorer_by_keyboard_typing_and_dragging(lab, page):
    notebook = Notebook(page, lab[1]("03_jsq_halfin_whitt.ipynb"), "stationary_law.explore")
    assert notebook.errors() == []
    slider = notebook.slider("slack β")
    handle, readout = slider.locator('[role="slider"]'), slider.locator(".widget-readout")
    assert readout.inner_text() == "1.00"
    start = notebook.settled()

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


def test_levels_slider_and_saving(lab, page):
    folder, address = lab
    notebook = Notebook(page, address("03_jsq_halfin_whitt.ipynb"), "stationary_law.explore")
    before = notebook.settled()
    handles = notebook.slider("levels y shown").locator('[role="slider"]')
    for index, key in ((1, "End"), (0, "End"), (0, "Home")):
        handles.nth(index).focus()
        assert differ(before, notebook.after(lambda key=key: page.keyboard.press(key))) > 500
    saved = folder / "saved"
    for button, files in (("save figure", 2), ("save data", 3), ("save figure", 5)):
        notebook.button(button).click()
        deadline = time.monotonic() + 20
        while (not saved.is_dir() or len(list(saved.iterdir())) < files) and time.monotonic() < deadline:
            page.wait_for_timeout(100)
    names = sorted(path.name for path in saved.iterdir())
    stem = "jsq-law_beta=1_y=0-200"
    assert names == sorted([f"{stem}.pdf", f"{stem}.png", f"{stem}.csv", f"{stem}_2.pdf", f"{stem}_2.png"])
    assert notebook.errors() == []


def test_start_notebook_shows_its_explorer(lab, page):
    notebook = Notebook(page, lab[1]("00_start_here.ipynb"))
    before = notebook.settled()
    notebook.slider("slack β").locator('[role="slider"]').focus()
    assert differ(before, notebook.after(lambda: page.keyboard.press("End"))) > 500
    assert notebook.errors() == []


FAILING = """
from lbcore.pictures import jsq
from lbcore.show.picture import log_slider, picture

@picture("failing", scale=0.6, beta=log_slider("slack β", 1.0, 0.1, 5.0))
def failing(beta):
    if beta > 1.2:
        raise ValueError("this picture refuses beta > 1.2")
    return jsq.factor_two.plots(beta=beta)

failing.explore()
"""


def test_negative_control_a_raising_callback_is_seen_and_recovered_from(lab, page):
    folder, address = lab
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(FAILING)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "failing.ipynb")
    notebook = Notebook(page, address("failing.ipynb"))
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


@pytest.mark.parametrize("name", ["01_jbt_thresholds", "02_jiq_fixed_point"])
def test_other_notebooks_run(lab, page, name):
    notebook = Notebook(page, lab[1](f"{name}.ipynb"), None)
    assert notebook.errors() == []
