"""The pictures of notebook 03: join the shortest queue in the Halfin-Whitt regime (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from lbcore import explore, jsq
from lbcore.figures import Board, nice


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
def _mean_curve(low, high, count):
    betas = np.geomspace(low, high, count)
    return betas, np.array([jsq.diffusion_law(beta).mean_q2 for beta in betas])


def explore_law():
    """Explore the exact stationary law of the JSQ diffusion over the Halfin-Whitt slack."""
    return explore.Explorer(
        "jsq-law",
        {
            "beta": explore.log_slider("slack β", 1.0, 0.03, 5.0),
            "y": explore.range_slider("levels y shown", (0, 20), 0, 200),
        },
        lambda beta, y: {"law": jsq.diffusion_law(beta), "y": y, "curve": _mean_curve(0.03, 5.0, 41)},
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
