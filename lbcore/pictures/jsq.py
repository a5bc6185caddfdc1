"""The pictures of notebooks 00 and 03: join the shortest queue in the Halfin-Whitt regime (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from lbcore import theory
from lbcore.show.picture import picture
from lbcore.show.plots import Plot, guide, line, log_slider, marker, nice, range_slider


@lru_cache
def _over_slacks(low, high, count):
    """Return slacks, E Q2 and kappa over a geometric grid."""
    betas = np.geomspace(low, high, count)
    laws = [theory.diffusion_law(beta) for beta in betas]
    return betas, np.array([law.mean_q2 for law in laws]), np.array([law.kappa for law in laws])


def _scaled(law):
    """The law of beta Q2 against Gamma(2) and the centralised queue (Theorem 2.7, Remark 3)."""
    t = np.linspace(0.0, 8.0, 201)[1:]
    marks = [
        line("exact", t, law.q2_tail(t / law.beta), "jsq"),
        line("Gamma(2): β → 0", t, (1 + t) * np.exp(-t), "limit"),
        line("M/M/N queue given a wait: Exp(1)", t, np.exp(-t), "pooled"),
    ]
    return Plot(
        "Law of $\\beta Q_2$   (Thm 2.7; Remark 3: twice M/M/N)", "$t$", "$P(\\beta Q_2 > t)$", marks,
        x=(0.0, 8.0), y=(0.0, 1.02), legend="upper right",
    )  # fmt: skip


def _mean(law, betas, means, y):
    """E Q2 over the range of slacks with both limits (Theorem 2.5, Corollary 2.2) and a marker at `law`."""
    marks = [
        line("exact", betas, means, "jsq"),
        line("2/β: β → 0", betas, 2 / betas, "limit"),
        line("φ(β): β → ∞", betas, norm.pdf(betas), "limit"),
        marker("this β", law.beta, law.mean_q2, "jsq"),
    ]
    return Plot(
        "$E\\,Q_2$ against β   (Thm 2.5, Cor. 2.2)", "$\\beta$", "$E\\,Q_2$", marks,
        x=(betas[0], betas[-1]), y=y, note=f"β = {law.beta:.4g},  E Q₂ = {law.mean_q2:.6g}", log="xy",
    )  # fmt: skip


@picture("factor-two", scale=0.6, beta=log_slider("slack β", 0.5, 0.03, 5.0))
def factor_two(beta):
    """JSQ is a factor 2 worse than one shared queue."""
    return [[_scaled(theory.diffusion_law(beta))]]


@picture(
    "jsq-law", panels=(2, 2),
    beta=log_slider("slack β", 1.0, 0.03, 5.0), y=range_slider("levels y shown", (0, 20), 0, 200),
)  # fmt: skip
def stationary_law(beta, y):
    """The stationary law of the JSQ diffusion: Q1, Q2, beta Q2 and E Q2."""
    law, (low, high) = theory.diffusion_law(beta), y
    left = -nice(beta + 4.0 if beta > 0.2 else 20 * beta)
    x, y = left * np.linspace(1.0, 0.0, 240) ** 2, np.linspace(low, high, 241)[1:]
    density, tail = law.q1_density(x), law.q2_log_tail(y) / math.log(10)
    asymptote = (math.log(law.tail_constant) + np.log(y) - beta * y) / math.log(10)
    bottom = -nice(max(-tail[-1], 1.0))
    q1 = [
        line("exact", x, density, "jsq"),
        line("N(−β, 1): β → ∞", x, norm.pdf(x, -beta), "limit"),
        guide("wall at 0", x=0.0),
    ]
    q2 = [line("exact", y, tail, "jsq"), line("$c\\,y\\,e^{-\\beta y}$: y → ∞", y, asymptote, "limit")]
    return [
        [
            Plot(
                "Law of $Q_1$   (Thm 2.4: N(−β, 1) as β → ∞)", "$x$", "density", q1,
                x=(left, -0.04 * left), y=(0.0, nice(1.05 * max(density.max(), 0.4))), legend="upper left",
            ),
            Plot(
                "Tail of $Q_2$   (Thm 2.1; factor y: beyond the paper)", "$y$", "$\\log_{10} P(Q_2>y)$", q2,
                x=(low, high), y=(bottom, -0.05 * bottom), legend="upper right", now="x",
            ),
        ],
        [_scaled(law), _mean(law, *_over_slacks(0.03, 5.0, 41)[:2], y=(1e-6, 200.0))],
    ]  # fmt: skip


def normal_distance(law):
    """Return the largest difference between the cdfs of ``Q1 + beta`` and N(0, 1), on a grid of step 0.01."""
    z = np.append(np.arange(-6.0, law.beta, 0.01), law.beta)
    return float(np.max(abs(law.q1_tail(law.beta - z) - norm.cdf(z))))


@picture("jsq-large", panels=(2, 2), beta=log_slider("slack β", 3.0, 1.0, 5.88))
def large_slack(beta):
    """Large slack: the exponent of E Q2, the law of Q1 + beta, and the intermittency of Q2."""
    law, (betas, means, kappas) = theory.diffusion_law(beta), _over_slacks(1.0, 6.0, 26)
    z, x = np.linspace(-4.0, 4.0, 401), np.linspace(-1.0, 9.0, 301)
    exponent = [
        line("exact", betas**2, np.log(means), "jsq"),
        line("log φ(β): slope −1/2", betas**2, norm.logpdf(betas), "limit"),
        marker("this β", beta**2, math.log(law.mean_q2), "jsq"),
    ]
    normal = [line("exact", z, law.q1_density(z - beta), "jsq"), line("N(0, 1)", z, norm.pdf(z), "limit")]
    intermittency = [
        line("exact", x, law.q2_cdf(log_y=-(10.0**x)), "jsq"),
        line("exp(−κ log(1/y))", x, np.exp(-law.kappa * 10.0**x), "limit"),
        guide("log(1/y) = 745: below, y is no double", x=math.log10(745)),
    ]
    kappa = [
        line("exact", betas**2, np.log(kappas), "jsq"),
        marker("this β", beta**2, math.log(law.kappa), "jsq"),
        line("log βφ(β): slope −1/2", betas**2, np.log(betas) + norm.logpdf(betas), "limit"),
    ]
    return [
        [
            Plot(
                "Exponent of $E\\,Q_2$   (Cor. 2.2; constant 1/2: new)", "$\\beta^2$", "$\\log E\\,Q_2$", exponent,
                x=(0.0, 37.0), y=(-20.0, 1.0),
                note=f"β = {beta:.4g},  E Q₂ / φ(β) = {law.mean_q2 / norm.pdf(beta):.5f}",
            ),
            Plot(
                "Law of $Q_1+\\beta$   (Theorem 2.4)", "$z$", "density", normal,
                x=(-4.0, 4.0), y=(0.0, 0.62), legend="lower center",
                note=f"distance of the cdfs {normal_distance(law):.2e}", at=(0.03, 0.95),
            ),
        ],
        [
            Plot(
                "Remark 1, sharp (new): $\\kappa\\,\\log(1/Q_2)$ against Exp(1)", "$\\log_{10}\\log(1/y)$",
                "$P(Q_2\\leq y)$", intermittency, x=(-1.0, 9.0), y=(0.0, 1.7), legend="upper right",
                note=f"median of Q₂ about exp(−10^{math.log10(math.log(2) / law.kappa):.2f})", at=(0.97, 0.73),
            ),
            Plot(
                "The rate of intermittency (new)", "$\\beta^2$", "$\\log\\kappa$", kappa,
                x=(0.0, 37.0), y=(-19.0, 1.0), note=f"κ = {law.kappa:.6g}",
            ),
        ],
    ]  # fmt: skip


def mixture(law, x):
    """Return ``log P(-Q1 > x)``, ``e^(-x / sqrt(beta))`` and the least weight of ``e^(-x^2 / 2)`` that covers the rest.

    Theorem 2.6 bounds the tail by a mixture of a Gaussian and an exponential with mean ``sqrt(beta)``, with constants
    it does not give: the constant of the exponential is taken as 1, that of the Gaussian is fitted to the exact law.
    """
    tail, exponential = law.q1_log_tail(x), np.exp(-x / math.sqrt(law.beta))
    return tail, exponential, float(np.max((np.exp(tail) - exponential) * np.exp(x * x / 2)))


@picture("jsq-small", panels=(2, 2), beta=log_slider("slack β", 0.05, 0.01, 1.0))
def small_slack(beta):
    """Small slack: beta E Q2, beta Q2, -Q1 / beta and the mixture of Theorem 2.6."""
    law, (betas, means, _) = theory.diffusion_law(beta), _over_slacks(0.01, 1.0, 21)
    t, x = np.geomspace(1.0, 1e3, 201) - 1, np.linspace(0.0, 6.0, 241)
    tail, exponential, weight = mixture(law, x)
    both, heuristic = exponential + weight * np.exp(-x * x / 2), 2 * np.log1p(x / beta) + x * x / 2
    mean = [
        line("exact", betas, betas * means, "jsq"),
        guide("2: β → 0", y=2.0, who="limit"),
        marker("this β", beta, beta * law.mean_q2, "jsq"),
    ]
    lomax = [
        line("exact", 1 + t, np.maximum(law.q1_tail(beta * t), 1e-30), "jsq"),
        line("$(1+t)^{-2}$: β → 0", 1 + t, (1 + t) ** -2.0, "limit"),
    ]
    gauss = [
        line("exact", x, tail / math.log(10), "jsq"),
        line("exponential, mean √β, + Gaussian (fitted)", x, np.log10(both), "bound", "fitted"),
        line("exponential alone", x, np.log10(exponential), "bound"),
        line("$(1+x/\\beta)^{-2}e^{-x^2/2}$ (heuristic, new)", x, -heuristic / math.log(10), "jsq", "heuristic"),
    ]
    return [
        [
            Plot(
                "$\\beta\\,E\\,Q_2$   (Theorem 2.5; constant 2: Thm 2.7)", "$\\beta$", "$\\beta\\,E\\,Q_2$", mean,
                x=(0.01, 1.0), y=(0.0, 2.2), log="x",
                note=f"β = {beta:.4g},  β E Q₂ = {beta * law.mean_q2:.6g}", at=(0.03, 0.25),
            ),
            _scaled(law),
        ],
        [
            Plot(
                "Law of $-Q_1/\\beta$   (Thm 2.7: $Q_1\\to0$; Lomax: new)", "$1+t$", "$P(-Q_1/\\beta>t)$", lomax,
                x=(1.0, 1e3), y=(1e-7, 1.5), log="xy",
            ),
            Plot(
                "Tail of $-Q_1$   (Theorem 2.6)", "$x$", "$\\log_{10}P(-Q_1>x)$", gauss,
                x=(0.0, 6.0), y=(-14.0, 5.5), legend="upper right",
                note=f"Gaussian weight, fitted: {weight:.2e}", at=(0.03, 0.05),
            ),
        ],
    ]  # fmt: skip


@lru_cache
def _waits(n):
    """Return slacks and ``sqrt(N) P(wait)``."""
    slacks = np.geomspace(0.01, 6.0, 31)
    return slacks, math.sqrt(n) * np.array([theory.finite_law(n, beta).wait_probability for beta in slacks])


@picture("jsq-sensitivity", panels=(2, 2), beta=log_slider("slack β", 1.0, 0.01, 5.88))
def sensitivity(beta):
    """Where the behaviour turns: E Q2, its elasticity, sqrt(N) P(wait) at finite N, and kappa, over the slack."""
    law, wait = theory.diffusion_law(beta), theory.finite_law(10_000, beta).wait_probability
    betas, means, kappas = _over_slacks(0.01, 6.0, 61)
    slope = -np.gradient(np.log(means), np.log(betas), edge_order=2)
    here = float(np.interp(math.log(beta), np.log(betas), slope))
    elasticity = [
        line("exact", betas, slope, "jsq"),
        guide("1: β → 0", y=1.0, who="limit"),
        line("β²: β → ∞", betas, betas**2, "limit"),
        marker("this β", beta, here, "jsq"),
    ]
    waits = [
        line("N = ∞: E Q₂", betas, means, "jsq"),
        line("N = 100", *_waits(100), "jsq"),
        line("N = 1000", *_waits(1000), "jsq"),
        marker("N = 10000, this β", beta, wait * 100, "jsq"),
    ]
    kappa = [
        line("exact", betas, kappas, "jsq"),
        guide("1: β → 0", y=1.0, who="limit"),
        line("βφ(β): β → ∞", betas, betas * norm.pdf(betas), "limit"),
        marker("this β", beta, law.kappa, "jsq"),
    ]
    axes = {"x": (0.01, 6.0), "log": "xy"}
    return [
        [
            _mean(law, betas, means, y=(1e-9, 1e3)),
            Plot(
                "Where the regime turns", "$\\beta$", "$-\\mathrm{d}\\log E\\,Q_2\\,/\\,\\mathrm{d}\\log\\beta$",
                elasticity, y=(0.5, 50.0), legend="upper left",
                note=f"E Q₂ falls by {here:.3g} % per 1 % of β", at=(0.03, 0.6), **axes,
            ),
        ],
        [
            Plot(
                "$\\sqrt{N}\\,P(\\mathrm{wait})$, JSQ, exact chain", "$\\beta$", "$\\sqrt{N}\\,P(Q_1=N)$", waits,
                y=(1e-9, 1e3), note=f"P(wait) = {wait:.3g} at N = 10 000", at=(0.03, 0.35), **axes,
            ),
            Plot(
                "$\\kappa$: $P(Q_2\\leq y)\\sim C\\,y^\\kappa$   (new)", "$\\beta$", "$\\kappa$", kappa,
                y=(1e-8, 5.0), note=f"κ = {law.kappa:.6g}", at=(0.03, 0.6), **axes,
            ),
        ],
    ]  # fmt: skip
