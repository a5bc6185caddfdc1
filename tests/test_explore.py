"""The slider mechanism, without a browser."""

import threading
import time

import pytest

from lbcore import explore, gallery_jbt, gallery_jiq, gallery_jsq, gallery_jsq_finite, jsq


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scaled(compute=jsq.diffusion_law):
    def draw(board, law):
        gallery_jsq.draw_scaled(board["scaled"], law)

    return explore.Explorer("test", {"beta": explore.log_slider("β", 1.0, 0.03, 5.0)}, compute, draw, [["scaled"]])


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
        return jsq.diffusion_law(beta)

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
    slider = explore.log_slider("β", value, low, high)
    assert 10**slider.min <= low < high <= 10**slider.max
    steps = (round(100 * e) for e in (slider.min, slider.max))
    assert all(abs(e - s / 100) < 1e-9 for e, s in zip((slider.min, slider.max), steps, strict=True))
    assert slider.value == pytest.approx(value, rel=0.006)


PICTURES = [
    picture
    for module in (gallery_jbt, gallery_jiq, gallery_jsq, gallery_jsq_finite)
    for picture in vars(module).values()
    if isinstance(picture, explore.Picture)
]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_explorers_draw_at_both_ends_of_all_sliders(picture):
    explorer = picture.explore()
    for end in (0, -1):
        before = explorer.image.value
        for control in explorer.controls.values():
            if hasattr(control, "options"):
                control.value = [value for _, value in control._options_full][end]
            elif hasattr(control, "base"):
                control.value = (10**control.min, 10**control.max)[end]
            elif isinstance(control.value, tuple):
                control.value = ((control.min, control.min + 1), (control.min, control.max))[end]
            else:
                control.value = (control.min, control.max)[end]
        deadline = time.monotonic() + 60
        while explorer.image.value == before and explorer._latest.busy and time.monotonic() < deadline:
            time.sleep(0.02)
        explorer.stop()
        assert explorer.wait(60)
        assert explorer.message.layout.display == "none", explorer.message.value
        assert explorer.image.value


def test_a_refining_explorer_shows_its_first_result_soon_and_stops_at_once():
    def compute(n):
        for step in range(10**6):
            time.sleep(0.01)
            yield step

    def draw(board, step):
        board["a"].points("step", [0.0], [float(step)])

    explorer = explore.Explorer("steps", {"n": explore.whole_slider("n", 1, 0, 9)}, compute, draw, [["a"]])
    deadline = time.monotonic() + 10
    while explorer._result is None and time.monotonic() < deadline:
        time.sleep(0.01)
    explorer.controls["n"].value = 5  # a newer value ends the older run
    while explorer._result[0] != {"n": 5} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert explorer._result[0] == {"n": 5}
    assert explorer.status.value.startswith("refining: picture ")
    explorer.stop()
    assert explorer.wait(5)
    assert explorer.status.value.startswith("stopped after ")
    kept = explorer._result[1]
    time.sleep(0.1)
    assert explorer._result[1] == kept < 10**6 - 1
