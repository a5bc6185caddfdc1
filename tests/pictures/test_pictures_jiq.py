"""The pictures of notebook 02: the first explorer under every law."""

import numpy as np
import pytest

from lbcore import gallery_jiq
from lbcore.chance import laws
from lbcore.simulate import transient


def first_pictures(explorer, count=2):
    """Compute and draw the first results at the present values, stop there; return the error sentence shown."""
    results = explorer._compute(**explorer.values)
    for _, result in zip(range(count), results, strict=False):
        explorer.board.draw(explorer._draw, result)
    results.close()
    assert len(explorer.board.png()) > 5000


@pytest.mark.parametrize("family", gallery_jiq.FAMILIES)
def test_fixed_point_draws_every_law_and_switch(family):
    explorer = gallery_jiq.fixed_point.explore()
    values = explorer.values | {"family": family, "n": 10.0}
    for change in (
        {},
        {"n": 1.0},
        {"arrivals": "renewal, hyperexponential(4)", "bias": list(gallery_jiq.BIAS)[1]},
        *({"buffers": name} for name in list(gallery_jiq.BUFFERS)[1:]),
    ):
        results = explorer._compute(**(values | change))
        next(results)
        explorer.board.draw(gallery_jiq.draw_fixed_point, next(results))
        results.close()
    assert explorer.wait(60)
    assert explorer.message.layout.display == "none"


def test_classes_and_lemmas():
    assert gallery_jiq.proved_by(laws.pareto(1.5), 0.49) == "Theorem 2"
    assert gallery_jiq.proved_by(laws.exponential(), 0.5).startswith("proved")
    assert gallery_jiq.proved_by(laws.deterministic(), 0.5) == "conjecture"
    assert "Lemma 6" in gallery_jiq.lemmas("empty", 0.9)
    assert "Lemma 8" in gallery_jiq.lemmas("all busy, equal work 2", 0.45)
    assert "conjecture" in gallery_jiq.lemmas("all busy, equal work 2", 0.5)


def test_initial_profiles():
    w = np.linspace(0, 9, 37)
    exact = 1.0 * (w < 2), 0.5 * (w < 0.5) + 0.5 * (w < 8), 0.9 * (w < 8), np.maximum(1 - w / 4, 0), 0 * w
    for state, profile in zip(gallery_jiq.STATES, exact, strict=True):
        assert gallery_jiq.initial_profile(state)(w) == pytest.approx(profile, abs=1e-4)
        assert np.mean(gallery_jiq.initial_work(state, 1000) > 1.0) == pytest.approx(profile[4], abs=1e-3)


def test_measured_points_hit_the_exact_ones():
    """n = 1 is M/G/1; n = 2 with exponential service is solved: within 1.5 times the 95 % bands."""
    for law in (laws.exponential(), laws.lognormal(4), gallery_jiq.LAWS["lattice on 0, 1, 5"]):
        exact = gallery_jiq.exact_points(law, 0.8)
        assert set(exact) == ({1, 2} if law.name == "exponential()" else {1})
        for n, values in exact.items():
            found = gallery_jiq.measured(law, 0.8, n)
            assert np.all(np.abs(found[:, 0] - values) <= 1.5 * (found[:, 2] - found[:, 0])), (law, n)
    load, n = 0.8, 2
    assert gallery_jiq.exact_points(laws.exponential(), load)[n][2] == pytest.approx(2 * load**2 / (0.2 * 2.6))


def test_loss_formula_by_its_recursion_and_below_what_is_measured():
    blocked = 1.0  # B(k) = a B(k - 1) / (k + a B(k - 1))
    for k in range(1, 101):
        blocked = 80 * blocked / (k + 80 * blocked)
    assert gallery_jiq.loss_formula(0.8, np.array([100]))[0] == pytest.approx(blocked)
    found = gallery_jiq.measured(laws.uniform(), 0.8, 100, 2_000_000)[0]
    assert blocked <= found[2]
    assert found[1] <= 1.5 * blocked


def test_convergence_figure_keeps_three_classes_apart():
    board = gallery_jiq.convergence_figure("distance", sizes=(10, 1000))
    styles = {"λ = 0.45": "-", "λ = 0.6": {True: "--", False: ":"}, "λ = 0.95": {True: "--", False: ":"}}
    for panel, name in zip(board.panels.values(), gallery_jiq.SIX, strict=True):
        lines = {line.get_label(): line for line in panel.axes.get_lines()}
        for label, style in styles.items():
            dhr = gallery_jiq.LAWS[name].decreasing_hazard_rate
            assert lines[label].get_linestyle() == (style if isinstance(style, str) else style[dhr])
        assert 1000 in panel.data["λ = 0.3, upper limit"]["x"]
        assert panel.data["λ = 0.3, upper limit"]["y"].min() > 0
        assert len(panel.data["λ = 0.8, exact"]["x"]) == 1 + (name == "exponential")
    assert len(board.png()) > 20_000


def test_static_figures_show_the_last_result():
    law = laws.empirical([1.0, 2.0, 6.0])
    board = gallery_jiq.fluid.figure(family=law, load=0.8, row=8)
    simulated = board["profile"].data["simulated mean, n = 10⁴ (95 %)"]
    assert simulated["y"][:5] == pytest.approx(board["profile"].data["fluid path"]["y"][:5], abs=0.02)
    board = gallery_jiq.fixed_point.figure(family=law, load=0.5, n=2)
    assert "empirical" in board["linear"]._artists["note"].get_text()


def test_two_servers_depend_and_less_with_more_servers():
    few, many = (transient.pair_excess(n, laws.exponential(), 0.6, [0.0, 1.0], seed=1) for n in (10, 1000))
    assert few.low[0, 0] > many.high[0, 0] > 0
    assert few.value == pytest.approx(few.value.T)
