"""Where there is no browser to run them in: every notebook runs, and no widget holds an error afterwards."""

from pathlib import Path

import nbclient
import nbformat
import pytest
from chromium import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is not None, reason="run in the browser instead")
NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def run(notebook, folder):
    """Execute a notebook in `folder`; return every error sentence that a widget shows, and every stderr text."""
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    problems = [out.text for out in outputs if out.output_type == "stream" and out.name == "stderr"]
    for state in client.widget_state.values():
        if "lbcore-error" in state.get("_dom_classes", []):
            problems += [state["value"]] if state["value"] else []
        problems += [out["ename"] for out in state.get("outputs", []) if out["output_type"] == "error"]
    return problems


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_without_errors(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert run(notebook, tmp_path) == []
    pictures = [out for c in notebook.cells for out in c.get("outputs", []) if "image/png" in out.get("data", {})]
    widgets = [
        out
        for c in notebook.cells
        for out in c.get("outputs", [])
        if "application/vnd.jupyter.widget-view+json" in out.get("data", {})
    ]
    assert pictures or widgets


def test_negative_control_an_explorer_that_raises_is_caught(tmp_path):
    code = (
        "from lbcore.show.picture import log_slider, picture\n"
        "picture('bad', x=log_slider('x', 1.0, 0.1, 5.0))(lambda x: 1 / 0).explore()"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    assert ["ZeroDivisionError" in problem for problem in run(notebook, tmp_path)] == [True]
