"""Boards: what is drawn is what is saved, and a live board draws the same picture as a fresh one."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

import lbcore as lb
from lbcore import figures, gallery_jsq

PANELS = [["q1", "q2"], ["scaled", "mean"]]


def result(beta):
    betas = np.geomspace(0.03, 5, 9)
    means = np.array([lb.jsq.diffusion_law(b).mean_q2 for b in betas])
    return {"law": lb.jsq.diffusion_law(beta), "y": (0.0, 20.0), "curve": (betas, means)}


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.mark.parametrize("beta", [0.03, 0.5, 5.0])
def test_live_board_ends_at_the_same_picture_however_it_got_there(beta):
    moved, fresh = (figures.Board(PANELS, live=True).draw(gallery_jsq.draw_law, result(1.0)) for _ in range(2))
    layouts = [board.png() for board in (moved, fresh)]  # fixed by the first picture
    assert layouts[0] == layouts[1]
    for other in (0.05, 4.0):
        moved.draw(gallery_jsq.draw_law, result(other), dragging=True).png()
    moved.draw(gallery_jsq.draw_law, result(beta), dragging=True).png()
    a = pixels(moved.draw(gallery_jsq.draw_law, result(beta)).png())
    b = pixels(fresh.draw(gallery_jsq.draw_law, result(beta)).png())
    assert a.shape == b.shape
    assert (a == b).all()
    for name in moved.panels:
        assert moved[name].axes.get_xlim() == fresh[name].axes.get_xlim()
        assert moved[name].axes.get_ylim() == fresh[name].axes.get_ylim()


def test_axes_hold_still_while_dragging():
    board = figures.Board(PANELS, live=True).draw(gallery_jsq.draw_law, result(1.0))
    board.png()
    before = [panel.axes.get_ylim() for panel in board.panels.values()]
    board.draw(gallery_jsq.draw_law, result(0.1), dragging=True)
    assert not board.stale
    assert before == [panel.axes.get_ylim() for panel in board.panels.values()]
    board.draw(gallery_jsq.draw_law, result(0.1))
    assert board.stale


def test_curves_are_the_law():
    law = lb.jsq.diffusion_law(0.7)
    board = gallery_jsq.stationary_law.figure(beta=0.7)
    line = board["scaled"].data["exact"]
    assert line["y"] == pytest.approx(law.q2_tail(line["x"] / 0.7))
    assert board["mean"].data["this β"]["y"] == law.mean_q2
    density = board["q1"].data["exact"]
    assert np.trapezoid(density["y"], density["x"]) == pytest.approx(1.0, abs=2e-3)
    for panel in board.panels.values():
        assert panel.axes.get_title()
        assert panel.axes.get_xlabel()
        assert panel.axes.get_ylabel()
        assert panel.axes.get_legend()


@pytest.mark.parametrize("width", figures.WIDTHS.values())
def test_saved_files_carry_parameters_and_version(tmp_path, width):
    board = figures.Board(PANELS, width=width, font=8).draw(gallery_jsq.draw_law, result(1.0))
    pdf, png = board.save_figure(tmp_path / "a=1.5", "title", {"beta": 1.0})
    assert pdf.name == "a=1.5.pdf"
    text = pdf.read_bytes()
    assert b"beta = 1.0" in text
    assert f"lbcore {lb.__version__}".encode() in text
    assert b"/Type3" not in text  # journals refuse Type 3 fonts
    image = Image.open(png)
    assert image.text["Description"] == "beta = 1.0"
    assert image.size[0] == round(300 * width)


def test_saved_data_holds_every_curve_exactly(tmp_path):
    board = gallery_jsq.stationary_law.figure()
    path = board.save_data(tmp_path / "data", "title", {"beta": 1.0, "y": (0, 20)})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[:4] == ["# title", f"# lbcore {lb.__version__}", "# beta = 1.0", "# y = (0, 20)"]
    rows = list(csv.DictReader(lines[4:]))
    assert len(rows) == sum(len(d["x"]) for p in board.panels.values() for d in p.data.values())
    found = [float(r["y"]) for r in rows if (r["panel"], r["curve"]) == ("q2", "exact")]
    assert found == list(board["q2"].data["exact"]["y"])
    with pytest.raises(FileExistsError):
        board.save_data(tmp_path / "data", "title", {})


@pytest.mark.parametrize(("value", "expected"), [(1.0, 1), (1.1, 2), (2.0, 2), (4.9, 5), (0.03, 0.05), (70, 100)])
def test_nice(value, expected):
    assert figures.nice(value) == pytest.approx(expected)
