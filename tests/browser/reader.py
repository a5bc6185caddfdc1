"""A reader of notebooks in a real browser: opens and runs them, looks at pictures, presses keys and buttons."""

import base64
import io
import statistics
import time

import numpy as np
from PIL import Image

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
    """A notebook open in the page, and one of its explorers: that of the cell shown last."""

    def __init__(self, page, address):
        self.page, self.token = page, address.split("token=")[1].split("&")[0]
        page.goto(address)
        page.locator(f"{PANEL} .jp-KernelName", has_text="Python 3").wait_for(timeout=60_000)
        page.locator(f'{PANEL} .jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(timeout=60_000)

    def run_all(self):
        """Run all cells and wait for the last; return the notebook."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.locator(".lm-Menu-item").get_by_text("Run All Cells", exact=True).click()
        self.page.wait_for_function(RUN_FINISHED, timeout=300_000)
        return self

    def close(self):
        """Close the page and end its kernel."""
        self.page.evaluate(
            """async token => { const kernels = await (await fetch(`/api/kernels?token=${token}`)).json();
            for (const kernel of kernels) await fetch(`/api/kernels/${kernel.id}?token=${token}`, {method: 'DELETE',
                headers: {'X-XSRFToken': (document.cookie.match(/_xsrf=([^;]*)/) || [])[1] || ''}}); }""",
            self.token,
        )
        self.page.close()

    def show(self, code):
        """Turn to the explorer that a cell with `code` has made; return the notebook."""
        self.cell = self.page.locator(f"{PANEL} .jp-CodeCell", has_text=code).first
        self.cell.scroll_into_view_if_needed()
        self.picture = self.cell.locator(".jupyter-widgets.widget-image").first
        self.picture.wait_for()
        return self

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

    def becomes(self, true, seconds=20):
        """Wait until the picture is one of which a function of its pixels is true; return whether it is."""
        deadline = time.monotonic() + seconds
        while not (found := true(self.pixels())) and time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
        return found

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
