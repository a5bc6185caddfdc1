"""The pictures of notebook 03: join the shortest queue in the Halfin-Whitt regime (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from lbcore import explore, jsq
from lbcore.figures import nice

_LOG = {"xscale": "log", "yscale": "log"}


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
    law, (low, high) = result["law"], result["y"]
    left = -nice(law.beta + 4.0 if law.beta > 0.2 else 20 * law.beta)
    x = left * np.linspace(1.0, 0.0, 240) ** 2
    density = law.q1_density(x)
    curves(
        board["q1"], "Law of $Q_1$   (Thm 2.4: N(−β, 1) as β → ∞)", "$x$", "density",
        {
            "exact": (x, density, "exact"), "N(−β, 1): β → ∞": (x, norm.pdf(x, -law.beta), "limit"),
            "wall at 0": ([0.0, 0.0], [0.0, 1e3], "wall"),
        },
        x=(left, -0.04 * left), y=(0.0, nice(1.05 * max(density.max(), 0.4))), legend="upper left",
    )  # fmt: skip
    y = np.linspace(low, high, 241)[1:]
    tail = law.q2_log_tail(y) / math.log(10)
    asymptote = (math.log(law.tail_constant) + np.log(y) - law.beta * y) / math.log(10)
    bottom = -nice(max(-tail[-1], 1.0))
    board["q2"].limits(x=(low, high), now=True)
    curves(
        board["q2"], "Tail of $Q_2$   (Thm 2.1; factor y: beyond the paper)", "$y$", "$\\log_{10} P(Q_2>y)$",
        {"exact": (y, tail, "exact"), "$c\\,y\\,e^{-\\beta y}$: y → ∞": (y, asymptote, "limit")},
        x=(low, high), y=(bottom, -0.05 * bottom), legend="upper right",
    )  # fmt: skip
    draw_scaled(board["scaled"], law)
    draw_mean(board["mean"], law, *result["curve"], y=(1e-6, 200.0))


def draw_scaled(panel, law):
    """Draw the law of beta Q2 against Gamma(2) and the centralised queue (Theorem 2.7, Remark 3)."""
    t = np.linspace(0.0, 8.0, 201)[1:]
    curves(
        panel, "Law of $\\beta Q_2$   (Thm 2.7; Remark 3: twice M/M/N)", "$t$", "$P(\\beta Q_2 > t)$",
        {
            "exact": (t, law.q2_tail(t / law.beta), "exact"), "Gamma(2): β → 0": (t, (1 + t) * np.exp(-t), "limit"),
            "M/M/N queue given a wait: Exp(1)": (t, np.exp(-t), "other"),
        },
        x=(0.0, 8.0), y=(0.0, 1.02), legend="upper right",
    )  # fmt: skip


def draw_mean(panel, law, betas, means, y):
    """Draw E Q2 over the range of slacks with both limits (Theorem 2.5, Corollary 2.2) and a marker at `law`."""
    curves(
        panel, "$E\\,Q_2$ against β   (Thm 2.5, Cor. 2.2)", "$\\beta$", "$E\\,Q_2$",
        {
            "exact": (betas, means, "exact"), "2/β: β → 0": (betas, 2 / betas, "limit"),
            "φ(β): β → ∞": (betas, norm.pdf(betas), "other"), "this β": (law.beta, law.mean_q2, "exact"),
        },
        x=(betas[0], betas[-1]), y=y, note=f"β = {law.beta:.4g},  E Q₂ = {law.mean_q2:.6g}", **_LOG,
    )  # fmt: skip


@lru_cache
def _over_slacks(low, high, count):
    """Return slacks, E Q2 and kappa over a geometric grid."""
    betas = np.geomspace(low, high, count)
    laws = [jsq.diffusion_law(beta) for beta in betas]
    return betas, np.array([law.mean_q2 for law in laws]), np.array([law.kappa for law in laws])


def _stationary_law(beta, y):
    return {"law": jsq.diffusion_law(beta), "y": y, "curve": _over_slacks(0.03, 5.0, 41)[:2]}


stationary_law = explore.Picture(
    "jsq-law",
    _stationary_law,
    draw_law,
    [["q1", "q2"], ["scaled", "mean"]],
    lambda: {
        "beta": explore.log_slider("slack β", 1.0, 0.03, 5.0),
        "y": explore.range_slider("levels y shown", (0, 20), 0, 200),
    },
)
factor_two = explore.Picture(
    "factor-two",
    jsq.diffusion_law,
    lambda board, law: draw_scaled(board["scaled"], law),
    [["scaled"]],
    lambda: {"beta": explore.log_slider("slack β", 0.5, 0.03, 5.0)},
    scale=0.6,
)


def draw_large(board, law):
    """Draw the regime of large slack: the exponent of E Q2, the law of Q1 + beta, and the intermittency of Q2."""
    beta, kappa = law.beta, law.kappa
    betas, means, kappas = _over_slacks(1.0, 6.0, 26)
    curves(
        board["exponent"], "Exponent of $E\\,Q_2$   (Cor. 2.2; constant 1/2: new)", "$\\beta^2$", "$\\log E\\,Q_2$",
        {
            "exact": (betas**2, np.log(means), "exact"),
            "log φ(β): slope −1/2": (betas**2, norm.logpdf(betas), "limit"),
            "this β": (beta**2, math.log(law.mean_q2), "exact"),
        },
        x=(0.0, 37.0), y=(-20.0, 1.0), note=f"β = {beta:.4g},  E Q₂ / φ(β) = {law.mean_q2 / norm.pdf(beta):.5f}",
    )  # fmt: skip
    z = np.linspace(-4.0, 4.0, 401)
    curves(
        board["normal"], "Law of $Q_1+\\beta$   (Theorem 2.4)", "$z$", "density",
        {"exact": (z, law.q1_density(z - beta), "exact"), "N(0, 1)": (z, norm.pdf(z), "limit")},
        x=(-4.0, 4.0), y=(0.0, 0.62), legend="lower center", note=f"distance of the cdfs {normal_distance(law):.2e}",
        at=(0.03, 0.95),
    )  # fmt: skip
    x = np.linspace(-1.0, 9.0, 301)
    curves(
        board["intermittency"], "Remark 1, sharp (new): $\\kappa\\,\\log(1/Q_2)$ against Exp(1)",
        "$\\log_{10}\\log(1/y)$", "$P(Q_2\\leq y)$",
        {
            "exact": (x, law.q2_cdf(log_y=-(10.0**x)), "exact"),
            "exp(−κ log(1/y))": (x, np.exp(-kappa * 10.0**x), "limit"),
            "log(1/y) = 745: below, y is no double": ([math.log10(745)] * 2, [0.0, 1.0], "wall"),
        },
        x=(-1.0, 9.0), y=(0.0, 1.7), legend="upper right", at=(0.97, 0.73),
        note=f"median of Q₂ about exp(−10^{math.log10(math.log(2) / kappa):.2f})",
    )  # fmt: skip
    curves(
        board["kappa"], "The rate of intermittency (new)", "$\\beta^2$", "$\\log\\kappa$",
        {
            "exact": (betas**2, np.log(kappas), "exact"), "this β": (beta**2, math.log(kappa), "exact"),
            "log βφ(β): slope −1/2": (betas**2, np.log(betas) + norm.logpdf(betas), "limit"),
        },
        x=(0.0, 37.0), y=(-19.0, 1.0), note=f"κ = {kappa:.6g}",
    )  # fmt: skip


def normal_distance(law):
    """Return the largest difference between the cdfs of ``Q1 + beta`` and N(0, 1), on a grid of step 0.01."""
    z = np.append(np.arange(-6.0, law.beta, 0.01), law.beta)
    return float(np.max(abs(law.q1_tail(law.beta - z) - norm.cdf(z))))


large_slack = explore.Picture(
    "jsq-large",
    jsq.diffusion_law,
    draw_large,
    [["exponent", "normal"], ["intermittency", "kappa"]],
    lambda: {"beta": explore.log_slider("slack β", 3.0, 1.0, 5.88)},
)


def draw_small(board, law):
    """Draw the regime of small slack: beta E Q2, beta Q2, -Q1 / beta and the mixture of Theorem 2.6."""
    beta = law.beta
    betas, means, _ = _over_slacks(0.01, 1.0, 21)
    curves(
        board["mean"], "$\\beta\\,E\\,Q_2$   (Theorem 2.5; constant 2: Thm 2.7)", "$\\beta$", "$\\beta\\,E\\,Q_2$",
        {
            "exact": (betas, betas * means, "exact"), "2: β → 0": ([0.01, 1.0], [2.0, 2.0], "limit"),
            "this β": (beta, beta * law.mean_q2, "exact"),
        },
        x=(0.01, 1.0), y=(0.0, 2.2), note=f"β = {beta:.4g},  β E Q₂ = {beta * law.mean_q2:.6g}", at=(0.03, 0.25),
        xscale="log",
    )  # fmt: skip
    draw_scaled(board["scaled"], law)
    t = np.geomspace(1.0, 1e3, 201) - 1
    curves(
        board["lomax"], "Law of $-Q_1/\\beta$   (Thm 2.7: $Q_1\\to0$; Lomax: new)", "$1+t$", "$P(-Q_1/\\beta>t)$",
        {
            "exact": (1 + t, np.maximum(law.q1_tail(beta * t), 1e-30), "exact"),
            "$(1+t)^{-2}$: β → 0": (1 + t, (1 + t) ** -2.0, "limit"),
        },
        x=(1.0, 1e3), y=(1e-7, 1.5), **_LOG,
    )  # fmt: skip
    x = np.linspace(0.0, 6.0, 241)
    tail, exponential, weight = mixture(law, x)
    both, heuristic = exponential + weight * np.exp(-x * x / 2), 2 * np.log1p(x / beta) + x * x / 2
    curves(
        board["mixture"], "Tail of $-Q_1$   (Theorem 2.6)", "$x$", "$\\log_{10}P(-Q_1>x)$",
        {
            "exact": (x, tail / math.log(10), "exact"),
            "exponential, mean √β, + Gaussian (fitted)": (x, np.log10(both), "limit"),
            "exponential alone": (x, np.log10(exponential), "other"),
            "$(1+x/\\beta)^{-2}e^{-x^2/2}$ (heuristic, new)": (x, -heuristic / math.log(10), "third"),
        },
        x=(0.0, 6.0), y=(-14.0, 5.5), legend="upper right", note=f"Gaussian weight, fitted: {weight:.2e}",
        at=(0.03, 0.05),
    )  # fmt: skip


def mixture(law, x):
    """Return ``log P(-Q1 > x)``, ``e^(-x / sqrt(beta))`` and the least weight of ``e^(-x^2 / 2)`` that covers the rest.

    Theorem 2.6 bounds the tail by a mixture of a Gaussian and an exponential with mean ``sqrt(beta)``, with constants
    it does not give: the constant of the exponential is taken as 1, that of the Gaussian is fitted to the exact law.
    """
    tail, exponential = law.q1_log_tail(x), np.exp(-x / math.sqrt(law.beta))
    return tail, exponential, float(np.max((np.exp(tail) - exponential) * np.exp(x * x / 2)))


small_slack = explore.Picture(
    "jsq-small",
    jsq.diffusion_law,
    draw_small,
    [["mean", "scaled"], ["lomax", "mixture"]],
    lambda: {"beta": explore.log_slider("slack β", 0.05, 0.01, 1.0)},
)


def draw_sensitivity(board, result):
    """Draw where the behaviour turns: E Q2, its elasticity, sqrt(N) P(wait) at finite N, and kappa, over the slack."""
    law, wait = result["law"], result["finite"].wait_probability
    betas, means, kappas = _over_slacks(0.01, 6.0, 61)
    one, span = np.ones_like(betas), (0.01, 6.0)
    draw_mean(board["mean"], law, betas, means, y=(1e-9, 1e3))
    slope = -np.gradient(np.log(means), np.log(betas), edge_order=2)
    here = float(np.interp(math.log(law.beta), np.log(betas), slope))
    curves(
        board["slope"], "Where the regime turns", "$\\beta$",
        "$-\\mathrm{d}\\log E\\,Q_2\\,/\\,\\mathrm{d}\\log\\beta$",
        {
            "exact": (betas, slope, "exact"), "1: β → 0": (betas, one, "limit"),
            "β²: β → ∞": (betas, betas**2, "other"), "this β": (law.beta, here, "exact"),
        },
        x=span, y=(0.5, 50.0), legend="upper left", note=f"E Q₂ falls by {here:.3g} % per 1 % of β", at=(0.03, 0.6),
        **_LOG,
    )  # fmt: skip
    curves(
        board["wait"], "$\\sqrt{N}\\,P(\\mathrm{wait})$, JSQ, exact chain", "$\\beta$", "$\\sqrt{N}\\,P(Q_1=N)$",
        {
            "N = 100": (*_waits(100), "third"), "N = 1000": (*_waits(1000), "second"),
            "N = ∞: E Q₂": (betas, means, "exact"), "N = 10000, this β": (law.beta, wait * 100, "exact"),
        },
        x=span, y=(1e-9, 1e3), note=f"P(wait) = {wait:.3g} at N = 10 000", at=(0.03, 0.35), **_LOG,
    )  # fmt: skip
    curves(
        board["kappa"], "$\\kappa$: $P(Q_2\\leq y)\\sim C\\,y^\\kappa$   (new)", "$\\beta$", "$\\kappa$",
        {
            "exact": (betas, kappas, "exact"), "1: β → 0": (betas, one, "limit"),
            "βφ(β): β → ∞": (betas, betas * norm.pdf(betas), "other"), "this β": (law.beta, law.kappa, "exact"),
        },
        x=span, y=(1e-8, 5.0), note=f"κ = {law.kappa:.6g}", at=(0.03, 0.6), **_LOG,
    )  # fmt: skip


@lru_cache
def _waits(n):
    """Return slacks and ``sqrt(N) P(wait)``."""
    slacks = np.geomspace(0.01, 6.0, 31)
    return slacks, math.sqrt(n) * np.array([jsq.finite_law(n, beta).wait_probability for beta in slacks])


sensitivity = explore.Picture(
    "jsq-sensitivity",
    lambda beta: {"law": jsq.diffusion_law(beta), "finite": jsq.finite_law(10_000, beta)},
    draw_sensitivity,
    [["mean", "slope"], ["wait", "kappa"]],
    lambda: {"beta": explore.log_slider("slack β", 1.0, 0.01, 5.88)},
)
