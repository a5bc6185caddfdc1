"""The slider mechanism, without a browser."""

import threading
import time

import pytest

from lbcore import theory
from lbcore.pictures.jsq import _scaled
from lbcore.show import explore
from lbcore.show.picture import picture
from lbcore.show.plots import Plot, choice, log_slider, player, points, range_slider, real_slider, whole_slider


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scaled(function=theory.diffusion_law):
    @picture("test", beta=log_slider("β", 1.0, 0.03, 5.0))
    def shown(beta):
        return [[_scaled(function(beta))]]

    return shown.explore()


def test_latest_works_the_newest_value_and_lags_by_one_at_most():
    seen, gate, started = [], threading.Event(), threading.Event()

    def work(value, dragging):
        if dragging:
            started.set()
            gate.wait(10)
        seen.append((value, dragging))

    latest = explore.Latest(work)
    latest.submit(0)
    started.wait(10)
    for value in range(1, 50):  # all of these arrive while 0 is being worked
        latest.submit(value)
    gate.set()
    assert latest.wait(10)
    assert seen == [(0, True), (49, True), (49, False)]


def test_latest_never_settles_on_an_old_value():
    seen = []
    latest = explore.Latest(lambda value, dragging: seen.append((value, dragging)))
    for value in range(30):
        latest.submit(value)
        time.sleep(0.005)
    assert latest.wait(10)
    assert [value for value, dragging in seen if not dragging] == [29]
    assert [value for value, _ in seen] == sorted(value for value, _ in seen)
    latest.submit(30)
    assert latest.wait(10)
    assert seen[-1] == (30, False)


def test_picture_follows_the_slider_and_reset_restores_it_to_the_bit():
    explorer = scaled()
    start = explorer.image.value
    explorer.controls["beta"].value = 0.1
    assert explorer.wait()
    assert explorer.image.value != start
    explorer.reset()
    assert explorer.wait()
    assert explorer.image.value == start


def test_an_error_stands_in_place_of_the_picture_until_the_next_good_value():
    def compute(beta):
        if beta > 2:
            raise ValueError("beta > 2 is <refused>")
        return theory.diffusion_law(beta)

    explorer = scaled(compute)
    explorer.controls["beta"].value = 3.0
    assert explorer.wait()
    assert explorer.image.layout.display == "none"
    assert explorer.message.layout.display is None
    assert "beta &gt; 2 is &lt;refused&gt;" in explorer.message.value
    explorer._guarded(explorer.save_figure)
    assert "no picture to save" in explorer.status.value
    explorer.controls["beta"].value = 1.0
    assert explorer.wait()
    assert explorer.image.layout.display is None
    assert explorer.message.layout.display == "none"


def test_saving_never_overwrites(tmp_path):
    explorer = scaled()
    explorer.save_figure()
    explorer.save_figure()
    explorer.save_data()
    explorer.save_data()
    names = sorted(path.name for path in (tmp_path / "saved").iterdir())
    stem = "test_beta=1"
    assert names == sorted(f"{stem}{n}.{s}" for n in ("", "_2") for s in ("pdf", "png", "csv"))
    assert f"{stem}_2.csv" in explorer.status.value


@pytest.mark.parametrize(("value", "low", "high"), [(1.0, 0.03, 5.0), (0.5, 0.1, 3.0)])
def test_log_slider_covers_its_range_on_a_grid_the_browser_keeps(value, low, high):
    slider = explore.widget(log_slider("β", value, low, high))
    assert 10**slider.min <= low < high <= 10**slider.max
    steps = (round(100 * e) for e in (slider.min, slider.max))
    assert all(abs(e - s / 100) < 1e-9 for e, s in zip((slider.min, slider.max), steps, strict=True))
    assert slider.value == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("control", "value", "end"),
    [
        (real_slider("x", 0.9, 0.3, 0.995, 0.005), 0.9, 0.995),
        (whole_slider("n", 3, 1, 9), 3, 9),
        (range_slider("y", (0, 20), 0, 200), (0, 20), (0, 200)),
        (player("t", 30), 0, 29),
        (choice("law", ["a", "b"]), "a", "b"),
        (choice("r", [("one", 1), ("none", 0)]), 1, 0),
    ],
)
def test_controls_become_widgets_that_start_and_end_where_they_say(control, value, end):
    slider = explore.widget(control)
    assert slider.value == control.start == value
    slider.value = control.ends[1]
    assert slider.value == end
    assert slider.description == control.label
    assert hasattr(slider, "companions") == (control.form == "player")


def test_a_refining_explorer_shows_its_first_result_soon_and_stops_at_once():
    @picture("steps", n=whole_slider("n", 1, 0, 9))
    def steps(n):
        for step in range(10**6):
            time.sleep(0.01)
            yield [[Plot("steps", "", "", [points("step", [0.0], [float(step)], None, "own")])]]

    explorer = steps.explore()
    deadline = time.monotonic() + 10
    while explorer._shown is None and time.monotonic() < deadline:
        time.sleep(0.01)
    explorer.controls["n"].value = 5  # a newer value ends the older run
    while explorer._shown[0] != {"n": 5} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert explorer._shown[0] == {"n": 5}
    assert explorer.status.value.startswith("refining: picture ")
    explorer.stop()
    assert explorer.wait(5)
    assert explorer.status.value.startswith("stopped after ")
    kept = explorer._shown[1]
    time.sleep(0.1)
    assert explorer._shown[1] is kept
    assert kept[0][0].marks[0].columns["y"][0] < 10**6 - 1
