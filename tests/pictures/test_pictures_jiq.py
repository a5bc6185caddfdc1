"""The pictures of notebook 02: every law and switch, what is measured against what is known, classes kept apart."""

import itertools

import numpy as np
import pytest

import lbcore as lb
from lbcore import simulate
from lbcore.chance import laws
from lbcore.pictures import jiq, law_menu


def data(plot, form="line"):
    """Return the columns of the marks of a form, by name."""
    return {mark.name: mark.columns for mark in plot.marks if mark.form == form}


SWITCHES = (
    {"n": 1.0},
    {"arrivals": "renewal, hyperexponential(4)", "bias": list(jiq.BIAS)[1]},
    *({"buffers": buffers} for buffers in list(jiq.BUFFERS)[1:]),
)


@pytest.mark.parametrize(("k", "family"), list(enumerate(law_menu.FAMILIES)))
def test_fixed_point_shows_every_law_and_switch(k, family):
    name = "mean of $x^n_w$, simulated (95 %)"
    for change in ({}, SWITCHES[k % len(SWITCHES)]):  # each switch with several laws
        values = jiq.fixed_point.start | {"family": family, "n": 10.0} | change
        results = jiq.fixed_point.function(**values)
        waiting, first = itertools.islice(results, 2)
        results.close()
        assert "simulating" in waiting[0][0].note
        assert np.isnan(data(waiting[0][0])[name]["y"]).all()
        linear, tails = first[0]
        assert "P(wait)" in linear.note
        assert ("lost" in linear.note) == ("buffers" in change)
        assert ("bound not proved" in linear.note) == ("buffers" in change or "arrivals" in change)
        simulated, star = data(linear)[name]["y"], data(linear)["$x^*_w$: limit, n → ∞"]["y"]
        assert simulated[0] == pytest.approx(star[0], abs=0.3)
        assert np.nanmin(data(tails)[name]["y"]) > 0
        assert len(lb.show.picture.figure(first).png()) > 5000


def test_menu_knows_all_families_and_keeps_the_readers_law():
    shown = " ".join(law_menu.FAMILIES)
    for family in ("exponential", "gamma", "Weibull", "hyperexponential", "Pareto", "lattice", "mixture"):
        assert family in shown
    assert all(law_menu.chosen_law(family, 2.0).mean == pytest.approx(1.0) for family in law_menu.FAMILIES)
    mine = laws.empirical([1.0, 2.0, 6.0], mean=3.0)
    assert law_menu.chosen_law(mine, 2.0).mean == 1.0
    assert law_menu.chosen_law(mine, 2.0).cv2 == pytest.approx(mine.cv2)


def test_classes_and_lemmas():
    assert jiq.proved_by(laws.pareto(1.5), 0.49) == "Theorem 2"
    assert jiq.proved_by(laws.exponential(), 0.5).startswith("proved")
    assert jiq.proved_by(laws.deterministic(), 0.5) == "conjecture"
    assert "Lemma 6" in jiq.lemmas("empty", 0.9)
    assert "Lemma 8" in jiq.lemmas("all busy, equal work 2", 0.45)
    assert "conjecture" in jiq.lemmas("all busy, equal work 2", 0.5)


def test_initial_profiles():
    w = np.linspace(0, 9, 37)
    exact = 1.0 * (w < 2), 0.5 * (w < 0.5) + 0.5 * (w < 8), 0.9 * (w < 8), np.maximum(1 - w / 4, 0), 0 * w
    for state, profile in zip(jiq.STATES, exact, strict=True):
        assert jiq.initial_profile(state)(w) == pytest.approx(profile, abs=1e-4)
        assert np.mean(jiq.initial_work(state, 1000) > 1.0) == pytest.approx(profile[4], abs=1e-3)


def test_measured_points_hit_the_exact_ones():
    """n = 1 is M/G/1; n = 2 with exponential service is solved: within 1.5 times the 95 % bands."""
    for law in (laws.exponential(), laws.lognormal(4), jiq.LAWS["lattice on 0, 1, 5"]):
        exact = jiq.exact_points(law, 0.8)
        assert set(exact) == ({1, 2} if law.name == "exponential()" else {1})
        for n, values in exact.items():
            found = jiq.measured(law, 0.8, n)
            assert np.all(np.abs(found[:, 0] - values) <= 1.5 * (found[:, 2] - found[:, 0])), (law, n)
    load, n = 0.8, 2
    assert jiq.exact_points(laws.exponential(), load)[n][2] == pytest.approx(2 * load**2 / (0.2 * 2.6))


def test_loss_formula_by_its_recursion_and_below_what_is_measured():
    blocked = 1.0  # B(k) = a B(k - 1) / (k + a B(k - 1))
    for k in range(1, 101):
        blocked = 80 * blocked / (k + 80 * blocked)
    assert jiq.loss_formula(0.8, np.array([100]))[0] == pytest.approx(blocked)
    found = jiq.measured(laws.uniform(), 0.8, 100, 2_000_000)[0]
    assert blocked <= found[2]
    assert found[1] <= 1.5 * blocked


def test_convergence_figure_keeps_three_classes_apart():
    board = jiq.convergence_figure("distance", sizes=(10, 1000))
    styles = {"λ = 0.45": "-", "λ = 0.6": {True: "--", False: ":"}, "λ = 0.95": {True: "--", False: ":"}}
    for panel, name in zip(board.panels, jiq.SIX, strict=True):
        looks = {mark.name: mark.look for mark in panel.plot.marks if mark.form == "line"}
        drawn = [line.get_linestyle() for line in panel.axes.get_lines()]
        for label, style in styles.items():
            dhr = jiq.LAWS[name].decreasing_hazard_rate
            assert looks[label]["linestyle"] == (style if isinstance(style, str) else style[dhr])
            assert looks[label]["linestyle"] in drawn
        assert 1000 in panel.data["λ = 0.3, upper limit"]["x"]
        assert panel.data["λ = 0.3, upper limit"]["y"].min() > 0
        assert len(panel.data["λ = 0.8, exact"]["x"]) == 1 + (name == "exponential")
    assert len(board.png()) > 20_000


def test_last_result_and_the_readers_own_law():
    law = laws.empirical([1.0, 2.0, 6.0])
    ((_, _, profile),) = jiq.fluid.plots(family=law, load=0.8, row=8)
    simulated = data(profile)["simulated mean, n = 10⁴ (95 %)"]
    assert simulated["y"][:5] == pytest.approx(data(profile)["fluid path"]["y"][:5], abs=0.02)
    ((linear, _),) = jiq.fixed_point.plots(family=law, load=0.5, n=2)
    assert "empirical" in linear.note
    assert "short run" not in linear.note


def test_two_servers_depend_and_less_with_more_servers():
    few, many = (simulate.pair_excess(n, laws.exponential(), 0.6, [0.0, 1.0], seed=1) for n in (10, 1000))
    assert few.low[0, 0] > many.high[0, 0] > 0
    assert few.value == pytest.approx(few.value.T)
