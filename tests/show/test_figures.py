"""Boards: what is drawn is what is saved, and a live board draws the same picture as a fresh one."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

import lbcore as lb
from lbcore.pictures import jsq as pictures
from lbcore.show import figures
from lbcore.show.picture import figure
from lbcore.show.plots import Plot, band, bars, guide, heat, line, marker, nice, plain, points


def rows(beta):
    return pictures.stationary_law.plots(beta=beta)


def board(**options):
    return figures.Board((2, 2), **options)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def plot(*marks, **more):
    return Plot("title", "x", "y", list(marks), **({"x": (0, 3), "y": (0, 3)} | more))


@pytest.mark.parametrize("beta", [0.03, 0.5, 5.0])
def test_live_board_ends_at_the_same_picture_however_it_got_there(beta):
    moved, fresh = (board(live=True).draw(rows(1.0)) for _ in range(2))
    layouts = [one.png() for one in (moved, fresh)]  # fixed by the first picture
    assert layouts[0] == layouts[1]
    for other in (0.05, 4.0):
        moved.draw(rows(other), dragging=True).png()
    moved.draw(rows(beta), dragging=True).png()
    a = pixels(moved.draw(rows(beta)).png())
    b = pixels(fresh.draw(rows(beta)).png())
    assert a.shape == b.shape
    assert (a == b).all()
    for one, other in zip(moved.panels, fresh.panels, strict=True):
        assert one.axes.get_xlim() == other.axes.get_xlim()
        assert one.axes.get_ylim() == other.axes.get_ylim()


def test_axes_hold_still_while_dragging():
    live = board(live=True).draw(rows(1.0))
    live.png()
    before = [panel.axes.get_ylim() for panel in live.panels]
    live.draw(rows(0.1), dragging=True)
    assert not live.stale
    assert before == [panel.axes.get_ylim() for panel in live.panels]
    live.draw(rows(0.1))
    assert live.stale


def test_the_first_picture_has_its_axes_even_in_a_drag():
    live = figures.Board((1,), live=True).draw([[plot(line("a", [0, 3], [1, 2], "jsq"))]], dragging=True)
    assert live[0].axes.get_xlim() == live[0].axes.get_ylim() == (0, 3)


def test_curves_are_the_law():
    law = lb.theory.diffusion_law(0.7)
    q1, _, scaled, mean = pictures.stationary_law.figure(beta=0.7).panels
    curve = scaled.data["exact"]
    assert curve["y"] == pytest.approx(law.q2_tail(curve["x"] / 0.7))
    assert mean.data["this β"]["y"] == law.mean_q2
    density = q1.data["exact"]
    assert np.trapezoid(density["y"], density["x"]) == pytest.approx(1.0, abs=2e-3)


def test_a_curve_whose_name_is_gone_leaves_no_ghost():
    x = [0.0, 1.0, 2.0]
    one = [[plot(line("old", x, [3, 2, 1], "jsq"), points("p", x, x, x, "jbt"), heat("h", np.eye(3), 0, 1, "jsq"))]]
    two = [[plot(line("new", x, [1, 1, 1], "jsq"))]]
    moved, fresh = (figures.Board((1,), live=True) for _ in range(2))
    moved.draw(one).png()
    moved.draw(two)
    fresh.draw(two)
    axes = moved[0].axes
    assert len(axes.lines) == 1
    assert not axes.images
    assert len(moved.figure.axes) == 1  # the bar of colours is gone too
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["new"]
    for one in (moved, fresh):
        one.figure.set_layout_engine("constrained")
    assert (pixels(moved.png()) == pixels(fresh.png())).all()


def test_what_is_not_believable_is_not_drawn_and_the_panel_says_so():
    marks = [
        points("a short run", [1, 2, 3], [1, 2, np.nan], 0.1, "jiq", believable=[True, False, True]),
        line("another", [0, 1], [0, 1], "own", "simulated", believable=False),
        line("a long run", [0, 1], [0, 1], "jiq", "simulated"),
    ]
    panel = figure([[plot(*marks)]])[0]
    assert panel.data["a short run"]["x"].tolist() == [1.0]
    assert panel.data["another"]["x"].size == 0
    texts = [text.get_text() for text in panel.axes.texts]
    assert "not enough simulated yet: a short run, another" in texts
    panel = figure([[plot(marks[2])]])[0]
    assert not any("not enough" in text.get_text() for text in panel.axes.texts)


def test_a_plot_of_no_marks_is_a_sentence():
    panel = figure([[plot(note="nothing is computed for this law")]])[0]
    assert panel.data == {}
    assert panel.axes.get_legend() is None
    assert panel.axes.texts[0].get_text() == "nothing is computed for this law"


def test_two_curves_of_one_name_are_refused():
    with pytest.raises(ValueError, match="twice here: \\['a'\\]"):
        plot(line("a", [0], [1], "jsq"), line("a", [0], [2], "jsq"))


def test_every_who_and_kind_has_a_style_and_marks_alike_are_told_apart():
    marks = [line(f"{who}, {kind}", [0, 1], [0, 1], who, kind) for who in figures.WHO for kind in figures.KIND]
    looks = {(str(a.get_color()), str(a.get_linestyle()), a.get_linewidth()) for a in artists(marks)}
    assert len(looks) == 9 * 6  # colours: random routing and bounds are grey; lines: bounds and guides are thin
    alike = [line(str(k), [0, 1], [0, 1], "jbt") for k in range(6)]
    assert len({a.get_color() for a in artists(alike)}) == 6
    shade = [
        line("a", [0, 1], [0, 1], "jsq"),
        line("b", [0, 1], [0, 1], "jsq"),
        band("b", [0, 1], [0, 0], [1, 1], "jsq"),
    ]
    assert figures._ranks(shade)[:2] == [0, 1]
    with pytest.raises(KeyError):
        artists([line("unknown", [0, 1], [0, 1], "jsq", "guessed")])


def artists(marks):
    return figure([[plot(*marks)]])[0].axes.get_lines()


def test_names_stand_at_the_ends_of_curves_apart():
    x = np.linspace(0, 3, 9)
    marks = [line(str(k), x, 1 + 0.01 * k + 0 * x, "jsq") for k in range(4)]
    panel = figure([[plot(*marks, legend="curves")]])[0]
    heights = {text.get_text(): text.get_position()[1] for text in panel.axes.texts if text.get_text()}
    assert list(heights) == ["0", "1", "2", "3"]
    assert min(np.diff(list(heights.values()))) > 0.02
    assert panel.axes.get_legend() is None


def test_guides_cross_the_panel_and_bars_say_what_is_lit():
    marks = [guide("up", x=1.0), guide("level", y=[1.0, 2.0], who="limit"), bars("b", [1, 2], "jbt", lit=[True, False])]
    panel = figure([[plot(*marks, marker("m", 1, 2, "jsq"))]])[0]
    up, level, _ = panel.axes.get_lines()
    assert up.get_xydata()[:2].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert level.get_ydata()[[0, 1, 3, 4]].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert panel.data["b"]["lit"].tolist() == [1.0, 0.0]


def test_ranges_left_open_hold_the_data():
    panel = figure([[Plot("t", "x", "y", [points("a", [1, 10], [2.0, 5.0], [1.0, 1.0], "jsq")], log="x")]])[0]
    assert panel.axes.get_xlim() == pytest.approx((1 / 1.2, 12))
    low, high = panel.axes.get_ylim()
    assert 0.5 < low < 1 < 6 < high < 6.5


@pytest.mark.parametrize("width", figures.WIDTHS.values())
def test_saved_files_carry_parameters_version_and_alternative_text(tmp_path, width):
    pdf, png = (
        board(width=width, font=8)
        .draw(rows(1.0), text="four panels")
        .save_figure(tmp_path / "a=1.5", "title", {"beta": 1.0})
    )
    assert pdf.name == "a=1.5.pdf"
    text = pdf.read_bytes()
    for part in (b"beta = 1.0", f"lbcore {lb.__version__}".encode(), b"four panels"):
        assert part in text
    assert b"/Type3" not in text  # journals refuse Type 3 fonts
    image = Image.open(png)
    assert image.text["Description"] == "beta = 1.0"
    assert image.text["Comment"] == "four panels"
    assert image.size[0] == round(300 * width)


def test_saved_data_holds_every_curve_exactly(tmp_path):
    drawn = pictures.stationary_law.figure()
    path = drawn.save_data(tmp_path / "data", "title", {"beta": 1.0, "y": (0, 20)})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[:4] == ["# title", f"# lbcore {lb.__version__}", "# beta = 1.0", "# y = (0, 20)"]
    found = list(csv.DictReader(lines[4:]))
    marks = [mark for panel in drawn.panels for mark in panel.plot.marks]
    assert len(found) == sum(len(next(iter(mark.columns.values()))) for mark in marks)
    tail = plain(drawn[1].plot.title)
    assert tail.startswith("Tail of Q_2")
    exact = [row for row in found if (row["panel"], row["curve"]) == (tail, "exact")]
    assert [float(row["y"]) for row in exact] == list(drawn[1].data["exact"]["y"])
    assert {(row["who"], row["kind"]) for row in exact} == {("jsq", "exact")}
    with pytest.raises(FileExistsError):
        drawn.save_data(tmp_path / "data", "title", {})


def test_a_notebook_gets_the_alternative_text():
    data, about = pictures.factor_two.figure(beta=0.5)._repr_mimebundle_()
    assert data["text/plain"] == about["image/png"]["alt"] == pictures.factor_two.text(beta=0.5)
    assert "slack β 0.5" in data["text/plain"]


@pytest.mark.parametrize(("value", "expected"), [(1.0, 1), (1.1, 2), (2.0, 2), (4.9, 5), (0.03, 0.05), (70, 100)])
def test_nice(value, expected):
    assert nice(value) == pytest.approx(expected)
