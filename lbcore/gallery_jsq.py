"""The pictures of notebook 03: join the shortest queue in the Halfin-Whitt regime (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from lbcore import explore, jsq
from lbcore.figures import Board, nice


def curves(panel, title, xlabel, ylabel, lines, *, x, y, legend="lower left", note=None, at=(0.97, 0.95), **scales):
    """Draw a whole panel: `lines` maps labels to ``(x, y, role)``; `x`, `y` are limits, `at` is where the note goes."""
    panel.describe(title, xlabel, ylabel, **scales)
    for label, (abscissa, values, role) in lines.items():
        if np.ndim(abscissa):
            panel.line(label, abscissa, values, role)
        else:
            panel.marker(label, abscissa, values, role)
    if note:
        panel.note(note, *at)
    panel.limits(x=x, y=y)
    panel.legend(legend)


def draw_law(board, result):
    """Draw the stationary law of the JSQ diffusion: panels q1, q2, scaled, mean.

    `result` has ``law`` (a `DiffusionLaw`), ``y`` (the range of levels shown) and ``curve`` (slacks and means).
    """
    law = result["law"]
    draw_q1(board["q1"], law)
    draw_q2(board["q2"], law, *result["y"])
    draw_scaled(board["scaled"], law)
    draw_mean(board["mean"], law, *result["curve"])


def law_figure(result):
    """Return the static figure of `draw_law`."""
    return Board([["q1", "q2"], ["scaled", "mean"]]).draw(draw_law, result)


def draw_q1(panel, law):
    """Draw the density of Q1 and its limit for large slack (Theorem 2.4)."""
    panel.describe("Law of $Q_1$   (Thm 2.4: N(−β, 1) as β → ∞)", "$x$", "density")
    left = -nice(law.beta + 4.0 if law.beta > 0.2 else 20 * law.beta)
    x = left * np.linspace(1.0, 0.0, 240) ** 2
    density = law.q1_density(x)
    panel.line("exact", x, density)
    panel.line("N(−β, 1): β → ∞", x, norm.pdf(x, -law.beta), "limit")
    panel.line("wall at 0", [0.0, 0.0], [0.0, 1e3], "wall")
    panel.limits(x=(left, -0.04 * left), y=(0.0, nice(1.05 * max(density.max(), 0.4))))
    panel.legend("upper left")


def draw_q2(panel, law, low, high):
    """Draw the tail of Q2 from `low` to `high` and its asymptote (Theorem 2.1; the factor y is not in the paper)."""
    panel.describe("Tail of $Q_2$   (Thm 2.1; factor y: beyond the paper)", "$y$", "$\\log_{10} P(Q_2>y)$")
    y = np.linspace(low, high, 241)[1:]
    tail = law.q2_log_tail(y) / math.log(10)
    asymptote = (math.log(law.tail_constant) + np.log(y) - law.beta * y) / math.log(10)
    panel.line("exact", y, tail)
    panel.line("$c\\,y\\,e^{-\\beta y}$: y → ∞", y, asymptote, "limit")
    bottom = -nice(max(-tail[-1], 1.0))
    panel.limits(x=(low, high), now=True)
    panel.limits(y=(bottom, -0.05 * bottom))
    panel.legend("upper right")


def draw_scaled(panel, law):
    """Draw the law of beta Q2 against Gamma(2) and the centralised queue (Theorem 2.7, Remark 3)."""
    panel.describe("Law of $\\beta Q_2$   (Thm 2.7; Remark 3: twice M/M/N)", "$t$", "$P(\\beta Q_2 > t)$")
    t = np.linspace(0.0, 8.0, 201)[1:]
    panel.line("exact", t, law.q2_tail(t / law.beta))
    panel.line("Gamma(2): β → 0", t, (1 + t) * np.exp(-t), "limit")
    panel.line("M/M/N queue given a wait: Exp(1)", t, np.exp(-t), "other")
    panel.limits(x=(0.0, 8.0), y=(0.0, 1.02))
    panel.legend("upper right")


def draw_mean(panel, law, betas, means):
    """Draw E Q2 over the range of slacks with both limits (Theorem 2.5, Corollary 2.2) and a marker at `law`."""
    panel.describe("$E\\,Q_2$ against β   (Thm 2.5, Cor. 2.2)", "$\\beta$", "$E\\,Q_2$", xscale="log", yscale="log")
    panel.line("exact", betas, means)
    panel.line("2/β: β → 0", betas, 2 / betas, "limit")
    panel.line("φ(β): β → ∞", betas, norm.pdf(betas), "other")
    panel.marker("this β", law.beta, law.mean_q2)
    panel.limits(x=(betas[0], betas[-1]), y=(1e-6, 200.0))
    panel.note(f"β = {law.beta:.4g},  E Q₂ = {law.mean_q2:.6g}", x=0.97, y=0.95)
    panel.legend("lower left")


@lru_cache
def _over_slacks(low, high, count):
    """Return slacks, E Q2 and kappa over a geometric grid."""
    betas = np.geomspace(low, high, count)
    laws = [jsq.diffusion_law(beta) for beta in betas]
    return betas, np.array([law.mean_q2 for law in laws]), np.array([law.kappa for law in laws])


def explore_law():
    """Explore the exact stationary law of the JSQ diffusion over the Halfin-Whitt slack."""
    return explore.Explorer(
        "jsq-law",
        {
            "beta": explore.log_slider("slack β", 1.0, 0.03, 5.0),
            "y": explore.range_slider("levels y shown", (0, 20), 0, 200),
        },
        lambda beta, y: {"law": jsq.diffusion_law(beta), "y": y, "curve": _over_slacks(0.03, 5.0, 41)[:2]},
        draw_law,
        [["q1", "q2"], ["scaled", "mean"]],
    )


def explore_factor_two():
    """Explore how the law of beta Q2 turns into Gamma(2) as the slack shrinks: the small explorer of notebook 00."""
    return explore.Explorer(
        "factor-two",
        {"beta": explore.log_slider("slack β", 0.5, 0.03, 5.0)},
        lambda beta: jsq.diffusion_law(beta),
        lambda board, law: draw_scaled(board["scaled"], law),
        [["scaled"]],
        scale=0.6,
    )


def draw_large(board, law):
    """Draw the regime of large slack: the exponent of E Q2, the law of Q1 + beta, and the intermittency of Q2."""
    betas, means, _ = _over_slacks(1.0, 6.0, 26)
    panel = board["exponent"]
    panel.describe("Exponent of $E\\,Q_2$   (Cor. 2.2; constant 1/2: new)", "$\\beta^2$", "$\\log E\\,Q_2$")
    panel.line("exact", betas**2, np.log(means))
    panel.line("log φ(β): slope −1/2", betas**2, norm.logpdf(betas), "limit")
    panel.marker("this β", law.beta**2, math.log(law.mean_q2))
    panel.note(f"β = {law.beta:.4g},  E Q₂ / φ(β) = {law.mean_q2 / norm.pdf(law.beta):.5f}", x=0.97, y=0.95)
    panel.limits(x=(0.0, 37.0), y=(-20.0, 1.0))
    panel.legend("lower left")
    panel = board["normal"]
    panel.describe("Law of $Q_1+\\beta$   (Theorem 2.4)", "$z$", "density")
    z = np.linspace(-4.0, 4.0, 401)
    panel.line("exact", z, law.q1_density(z - law.beta))
    panel.line("N(0, 1)", z, norm.pdf(z), "limit")
    panel.note(f"distance of the cdfs {normal_distance(law):.2e}", x=0.03, y=0.95)
    panel.limits(x=(-4.0, 4.0), y=(0.0, 0.62))
    panel.legend("lower center")
    panel = board["intermittency"]
    panel.describe(
        "Remark 1, sharp (new): $\\kappa\\,\\log(1/Q_2)$ against Exp(1)", "$\\log_{10}\\log(1/y)$", "$P(Q_2\\leq y)$"
    )
    x = np.linspace(-1.0, 9.0, 301)
    panel.line("exact", x, law.q2_cdf(log_y=-(10.0**x)))
    panel.line("exp(−κ log(1/y))", x, np.exp(-law.kappa * 10.0**x), "limit")
    panel.line("log(1/y) = 745: below, y is no double", [math.log10(745)] * 2, [0.0, 1.0], "wall")
    middle = math.log10(math.log(2) / law.kappa)
    panel.note(f"median of Q₂ about exp(−10^{middle:.2f})", x=0.97, y=0.73)
    panel.limits(x=(-1.0, 9.0), y=(0.0, 1.7))
    panel.legend("upper right")
    panel = board["kappa"]
    panel.describe("The rate of intermittency (new)", "$\\beta^2$", "$\\log\\kappa$")
    kappas = _over_slacks(1.0, 6.0, 26)[2]
    panel.line("exact", betas**2, np.log(kappas))
    panel.line("log βφ(β): slope −1/2", betas**2, np.log(betas) + norm.logpdf(betas), "limit")
    panel.marker("this β", law.beta**2, math.log(law.kappa))
    panel.note(f"κ = {law.kappa:.6g}", x=0.97, y=0.95)
    panel.limits(x=(0.0, 37.0), y=(-19.0, 1.0))
    panel.legend("lower left")


def normal_distance(law):
    """Return the largest difference between the cdfs of ``Q1 + beta`` and N(0, 1), on a grid of step 0.01."""
    z = np.append(np.arange(-6.0, law.beta, 0.01), law.beta)
    return float(np.max(abs(law.q1_tail(law.beta - z) - norm.cdf(z))))


_LARGE = [["exponent", "normal"], ["intermittency", "kappa"]]
_SMALL = [["mean", "scaled"], ["lomax", "mixture"]]
_SENSITIVITY = [["mean", "slope"], ["wait", "kappa"]]


def large_figure(beta=3.0):
    """Return the static figure of `draw_large`."""
    return Board(_LARGE).draw(draw_large, jsq.diffusion_law(beta))


def explore_large():
    """Explore the regime of large slack."""
    controls = {"beta": explore.log_slider("slack β", 3.0, 1.0, 5.88)}
    return explore.Explorer("jsq-large", controls, jsq.diffusion_law, draw_large, _LARGE)


def draw_small(board, law):
    """Draw the regime of small slack: beta E Q2, beta Q2, -Q1 / beta and the mixture of Theorem 2.6."""
    beta = law.beta
    betas, means, _ = _over_slacks(0.01, 1.0, 21)
    panel = board["mean"]
    panel.describe(
        "$\\beta\\,E\\,Q_2$   (Theorem 2.5; constant 2: Thm 2.7)", "$\\beta$", "$\\beta\\,E\\,Q_2$", xscale="log"
    )
    panel.line("exact", betas, betas * means)
    panel.line("2: β → 0", [0.01, 1.0], [2.0, 2.0], "limit")
    panel.marker("this β", beta, beta * law.mean_q2)
    panel.note(f"β = {beta:.4g},  β E Q₂ = {beta * law.mean_q2:.6g}", x=0.03, y=0.25)
    panel.limits(x=(0.01, 1.0), y=(0.0, 2.2))
    panel.legend("lower left")
    draw_scaled(board["scaled"], law)
    panel = board["lomax"]
    panel.describe(
        "Law of $-Q_1/\\beta$   (Thm 2.7: $Q_1\\to0$; Lomax: new)",
        "$1+t$",
        "$P(-Q_1/\\beta>t)$",
        xscale="log",
        yscale="log",
    )
    t = np.geomspace(1.0, 1e3, 201) - 1
    panel.line("exact", 1 + t, np.maximum(law.q1_tail(beta * t), 1e-30))
    panel.line("$(1+t)^{-2}$: β → 0", 1 + t, (1 + t) ** -2.0, "limit")
    panel.limits(x=(1.0, 1e3), y=(1e-7, 1.5))
    panel.legend("lower left")
    panel = board["mixture"]
    panel.describe("Tail of $-Q_1$   (Theorem 2.6)", "$x$", "$\\log_{10}P(-Q_1>x)$")
    x = np.linspace(0.0, 6.0, 241)
    tail, exponential, weight = mixture(law, x)
    panel.line("exact", x, tail / math.log(10))
    panel.line(
        "exponential, mean √β, + Gaussian (fitted)", x, np.log10(exponential + weight * np.exp(-x * x / 2)), "limit"
    )
    panel.line("exponential alone", x, np.log10(exponential), "other")
    panel.line(
        "$(1+x/\\beta)^{-2}e^{-x^2/2}$ (heuristic, new)",
        x,
        -(2 * np.log1p(x / beta) + x * x / 2) / math.log(10),
        "third",
    )
    panel.note(f"Gaussian weight, fitted: {weight:.2e}", x=0.03, y=0.05)
    panel.limits(x=(0.0, 6.0), y=(-14.0, 5.5))
    panel.legend("upper right")


def mixture(law, x):
    """Return ``log P(-Q1 > x)``, ``e^(-x / sqrt(beta))`` and the least weight of ``e^(-x^2 / 2)`` that covers the rest.

    Theorem 2.6 bounds the tail by a mixture of a Gaussian and an exponential with mean ``sqrt(beta)``, with constants
    it does not give: the constant of the exponential is taken as 1, that of the Gaussian is fitted to the exact law.
    """
    tail, exponential = law.q1_log_tail(x), np.exp(-x / math.sqrt(law.beta))
    return tail, exponential, float(np.max((np.exp(tail) - exponential) * np.exp(x * x / 2)))


def small_figure(beta=0.05):
    """Return the static figure of `draw_small`."""
    return Board(_SMALL).draw(draw_small, jsq.diffusion_law(beta))


def explore_small():
    """Explore the regime of small slack."""
    controls = {"beta": explore.log_slider("slack β", 0.05, 0.01, 1.0)}
    return explore.Explorer("jsq-small", controls, jsq.diffusion_law, draw_small, _SMALL)


def draw_sensitivity(board, result):
    """Draw where the behaviour turns: E Q2, its elasticity, sqrt(N) P(wait) at finite N, and kappa, over the slack."""
    law, finite = result["law"], result["finite"]
    betas, means, kappas = _over_slacks(0.01, 6.0, 61)
    panel = board["mean"]
    draw_mean(panel, law, betas, means)
    panel.limits(x=(0.01, 6.0), y=(1e-9, 1e3))
    panel = board["slope"]
    panel.describe(
        "Where the regime turns",
        "$\\beta$",
        "$-\\mathrm{d}\\log E\\,Q_2\\,/\\,\\mathrm{d}\\log\\beta$",
        xscale="log",
        yscale="log",
    )
    slope = -np.gradient(np.log(means), np.log(betas), edge_order=2)
    panel.line("exact", betas, slope)
    panel.line("1: β → 0", betas, np.ones_like(betas), "limit")
    panel.line("β²: β → ∞", betas, betas**2, "other")
    here = float(np.interp(math.log(law.beta), np.log(betas), slope))
    panel.marker("this β", law.beta, here)
    panel.note(f"E Q₂ falls by {here:.3g} % per 1 % of β", x=0.03, y=0.6)
    panel.limits(x=(0.01, 6.0), y=(0.5, 50.0))
    panel.legend("upper left")
    panel = board["wait"]
    panel.describe(
        "$\\sqrt{N}\\,P(\\mathrm{wait})$, JSQ, exact chain",
        "$\\beta$",
        "$\\sqrt{N}\\,P(Q_1=N)$",
        xscale="log",
        yscale="log",
    )
    for (n, slacks, waits), role in zip(_waits(), ("third", "second"), strict=True):
        panel.line(f"N = {n}", slacks, waits, role)
    panel.line("N = ∞: E Q₂", betas, means)
    panel.marker("N = 10000, this β", law.beta, finite.wait_probability * 100)
    panel.note(f"P(wait) = {finite.wait_probability:.3g} at N = 10 000", x=0.03, y=0.35)
    panel.limits(x=(0.01, 6.0), y=(1e-9, 1e3))
    panel.legend("lower left")
    panel = board["kappa"]
    panel.describe(
        "$\\kappa$: $P(Q_2\\leq y)\\sim C\\,y^\\kappa$   (new)", "$\\beta$", "$\\kappa$", xscale="log", yscale="log"
    )
    panel.line("exact", betas, kappas)
    panel.line("1: β → 0", betas, np.ones_like(betas), "limit")
    panel.line("βφ(β): β → ∞", betas, betas * norm.pdf(betas), "other")
    panel.marker("this β", law.beta, law.kappa)
    panel.note(f"κ = {law.kappa:.6g}", x=0.03, y=0.6)
    panel.limits(x=(0.01, 6.0), y=(1e-8, 5.0))
    panel.legend("lower left")


@lru_cache
def _waits():
    """Return ``(N, slacks, sqrt(N) P(wait))`` for two numbers of servers."""
    found = []
    for n in (100, 1000):
        slacks = np.geomspace(0.01, 6.0, 31)
        found.append((n, slacks, math.sqrt(n) * np.array([jsq.finite_law(n, b).wait_probability for b in slacks])))
    return found


def _sensitivity(beta):
    return {"law": jsq.diffusion_law(beta), "finite": jsq.finite_law(10_000, beta)}


def sensitivity_figure(beta=1.0):
    """Return the static figure of `draw_sensitivity`."""
    return Board(_SENSITIVITY).draw(draw_sensitivity, _sensitivity(beta))


def explore_sensitivity():
    """Explore where the behaviour turns between small and large slack."""
    controls = {"beta": explore.log_slider("slack β", 1.0, 0.01, 5.88)}
    return explore.Explorer("jsq-sensitivity", controls, _sensitivity, draw_sensitivity, _SENSITIVITY)
