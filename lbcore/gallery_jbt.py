"""The pictures of notebook 01: Join-Below-Threshold in heavy traffic (paper A)."""

import math
from functools import lru_cache

import numpy as np

from lbcore import explore, jbt, laws, policies, slotted
from lbcore.figures import Board, nice

_DRAWING = 1e-6  # tolerance of the exact chain in drawings, at least four digits of the mean
_EPSILONS = np.geomspace(0.5, 0.02, 8)
# batch and service of a slot: every server offers 0 or 2, the batch is 0 or twice the capacity
_SERVICE = laws.pmf([0, 2], [0.5, 0.5])


@lru_cache(maxsize=64)
def _curve(rule, parameter):
    """Return scaled means and Eq. (7) of the exact two-server chain over `_EPSILONS`, thresholds by a rule."""
    rows = []
    for epsilon in _EPSILONS:
        law = jbt.two_server_law(epsilon, RULES[rule](epsilon, parameter), tolerance=_DRAWING)
        rows.append((epsilon * law.mean_total, 2 * law.empty_row @ np.arange(len(law.empty_row))))
    return np.array(rows).T


def _whole(x):
    return max(1, math.ceil(x - 1e-9))


RULES = {
    "r constant": lambda epsilon, r: r,
    "r = K log(1/ε)": lambda epsilon, k: _whole(k * math.log(1 / epsilon)),
    "r = ½ log₂(1/ε)": lambda epsilon, _: _whole(math.log2(1 / epsilon) / 2),
    "r = ε^(−1/2)": lambda epsilon, _: _whole(epsilon**-0.5),
    "r = ε^(−3/2)": lambda epsilon, _: _whole(epsilon**-1.5),
    "random routing": lambda epsilon, _: math.inf,
}


def draw_thresholds(board, result):
    """Draw epsilon E[Q1 + Q2] and Eq. (7) against epsilon for one constant and one logarithmic rule, and the others."""
    r, k = result["r"], result["k"]
    for name, row, title, label in (
        ("mean", 0, "Theorems 1 and 2, two servers, exact", "$\\varepsilon\\,E[Q_1+Q_2]$"),
        ("condition", 1, "Eq. (7): delay optimal where this vanishes", "$E[\\|Q\\|\\,\\|U\\|]$"),
    ):
        panel = board[name]
        panel.describe(title, "$\\varepsilon$", label, xscale="log")
        panel.line("r constant (slider)", _EPSILONS, _curve("r constant", r)[row], "exact")
        panel.line("r = K log(1/ε) (slider)", _EPSILONS, _curve("r = K log(1/ε)", k)[row], "simulation")
        for rule, role in (
            ("r = ½ log₂(1/ε)", "second"),
            ("r = ε^(−1/2)", "third"),
            ("r = ε^(−3/2)", "other"),
            ("random routing", "wall"),
        ):
            panel.line(rule, _EPSILONS, _curve(rule, None)[row], role)
        panel.limits(x=(_EPSILONS[0], _EPSILONS[-1]), y=(0.0, 6.0 if row == 0 else 3.0))
    panel = board["mean"]
    limit = jbt.heavy_traffic_limit(2, r)
    ends = [_EPSILONS[0], _EPSILONS[-1]]
    panel.line("limits: pooled, constant r (new)", [*ends, math.nan, *ends], [2, 2, math.nan, limit, limit], "limit")
    panel.note(f"r = {r}: limit {limit:.5g};  K = {k:.3g}", x=0.97, y=0.03)
    for panel in board.panels.values():
        panel.legend("upper left", columns=2)


def thresholds_figure(r=1, k=1.5):
    """Return the static figure of `draw_thresholds`."""
    return Board([["mean", "condition"]]).draw(draw_thresholds, {"r": r, "k": k})


def explore_thresholds():
    """Explore which thresholds are delay optimal, by the exact two-server chain."""
    return explore.Explorer(
        "jbt-thresholds",
        {"r": explore.whole_slider("constant r", 1, 1, 12), "k": explore.log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0)},
        lambda r, k: {"r": r, "k": k, "curves": (_curve("r constant", r), _curve("r = K log(1/ε)", k))},
        draw_thresholds,
        [["mean", "condition"]],
    )


def draw_u_shape(board, result):
    """Draw the mean number of jobs against the threshold, with the best one and log_N(1/epsilon)."""
    panel, (n, epsilon) = board["u"], (result["n"], result["epsilon"])
    title = "two servers, exact" if n == 2 else f"{n} servers, slotted, simulated (95 % intervals)"
    panel.describe("Mean number of jobs against the threshold", "$r$", "$E[\\sum Q]$ / pooled mean")
    panel.points("JBT(r)", result["r"], result["mean"], result["half_width"], "exact")
    best = result["r"][int(np.argmin(np.nan_to_num(result["mean"], nan=math.inf)))]
    known = "bound" in result
    panel.line("bound of Thm 2, θ*, C₁ fitted", result["r"] if known else [], result["bound"] if known else [], "third")
    panel.line("best r shown", [best, best], [0, 1e9], "other")
    panel.line("⌈log_N(1/ε)⌉", [result["log"]] * 2, [0, 1e9], "limit")
    panel.note(f"{title}\nε = {epsilon:.3g}:  best r = {best},  ⌈log(1/ε)/log N⌉ = {result['log']}", x=0.97, y=0.95)
    top = nice(1.02 * np.nanmax(np.append(result["mean"], 1.0)))
    panel.limits(x=(0, result["r"][-1] + 1), y=(0.6, top))
    panel.legend("lower right")


def _u_shape(n, epsilon):
    found = {"n": n, "epsilon": epsilon, "log": _whole(math.log(1 / epsilon) / math.log(n))}
    if n == 2:
        r, pooled = np.arange(1, 17), (2 - epsilon) / epsilon
        found_laws = [jbt.two_server_law(epsilon, int(t), tolerance=1e-5) for t in r]
        means = np.array([law.mean_total / pooled for law in found_laws])
        yield (
            found
            | {"r": r, "mean": means, "half_width": np.zeros(len(r))}
            | _theorem_two(epsilon, r, found_laws, pooled)
        )
        return
    r = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24])
    for means, half_widths in _refined([(n, epsilon, policies.jbt(int(t))) for t in r]):
        yield found | {"r": r, "mean": means, "half_width": half_widths}


def _theorem_two(epsilon, r, found, pooled):
    """Return the bound at the end of the paper on ``E[Q2 U1]``, in units of the mean, its two constants fitted.

    theta is the decay rate of the distance to R^(8); C_1 the least constant for which the bound holds at all ``r``.
    """
    d, tail = distance_tail(found[7].joint(int(8 / epsilon) + 60), 8)
    theta = -np.polyfit(d[2:7], np.log(tail[2:7]), 1)[0]
    wasted = np.array([law.empty_row @ np.arange(len(law.empty_row)) for law in found])
    constant = np.max(np.maximum(wasted - 2 * r * epsilon, 0.0) * epsilon**2 * np.exp(theta * r))
    bound = 2 * r * epsilon + constant * epsilon**-2 * np.exp(-theta * r)
    return {"bound": 1 + 2 / epsilon * bound / pooled, "theta": theta}


def _refined(cases, services=_SERVICE):
    """Yield means over the pooled mean and half-widths of slotted systems ``(n, epsilon, policy)``, ever better."""
    means, half_widths = np.full(len(cases), math.nan), np.full(len(cases), math.nan)
    for slots in 40_000 * 3 ** np.arange(7):
        for k, (n, epsilon, policy) in enumerate(cases):
            batch = laws.bernoulli(0.5, 2 * n)
            found = slotted.simulate_slotted(
                n, epsilon, policy, batch, services, slots=int(slots), replications=16, seed=1, progress=False
            )
            if found.believable:  # a run too short to have forgotten its start is not shown
                means[k] = found.mean_total.value / found.pooled_exact
                half_widths[k] = found.mean_total.half_width / found.pooled_exact
            yield means.copy(), half_widths.copy()


def explore_u_shape():
    """Explore the best threshold: exact for two servers, simulated and refining for more."""
    return explore.Explorer(
        "jbt-u-shape",
        {"n": explore.whole_slider("servers N", 2, 2, 20), "epsilon": explore.log_slider("gap ε", 0.05, 0.01, 0.5)},
        _u_shape,
        draw_u_shape,
        [["u"]],
        scale=0.75,
    )


def draw_slotted(board, result):
    """Draw simulated means over the pooled mean against epsilon, with the limits where they are known."""
    n, r = result["n"], result["r"]
    panel = board["ratio"]
    panel.describe(
        "Slotted model, simulated (95 % intervals)",
        "$\\varepsilon$",
        "$E[\\sum Q]$ / pooled mean",
        xscale="log",
        yscale="log",
    )
    for k, (name, role) in enumerate(
        (("JBT(r)", "exact"), ("JBT(K log(1/ε))", "simulation"), ("JSQ", "other"), ("random routing", "third"))
    ):
        at = slice(k * len(_GAPS), (k + 1) * len(_GAPS))
        shift = 1 + 0.02 * (k - 1.5)
        panel.points(name, np.array(_GAPS) * shift, result["mean"][at], result["half_width"][at], role)
    if result["equal"]:
        batch = laws.bernoulli(0.5, 2 * n)
        pooled = jbt.pooled_limit(n, batch, _SERVICE)
        limit, worst = (jbt.heavy_traffic_limit(n, t, batch, _SERVICE) / pooled for t in (r, math.inf))
        panel.note(f"N = {n}: limit of JBT({r}) {limit:.4g}, of random routing {worst:.4g}", x=0.97, y=0.03)
    else:
        limit = worst = math.nan
        panel.note(f"N = {n}, unequal servers: no limit is known", x=0.97, y=0.03)
    ends = [_GAPS[0], _GAPS[-1]]
    lines = [v for y in (1.0, limit, worst) for v in (y, y, math.nan)]
    panel.line("limits: pooled, JBT(r), random (new)", [*ends, math.nan] * 3, lines, "limit")
    panel.limits(x=(1.2 * _GAPS[0], _GAPS[-1] / 1.2), y=(0.7, 4 * nice(np.nanmax(np.append(result["mean"], 2.0)))))
    panel.legend("upper left", columns=2)


_GAPS = (0.4, 0.2, 0.1, 0.05)


def _slotted(n, r, k, servers):
    equal = servers == "equal"
    rules = [
        lambda e: policies.jbt(r, by_rate=not equal),
        lambda e: policies.jbt(_whole(k * math.log(1 / e)), by_rate=not equal),
        lambda e: policies.jsq(),
        lambda e: policies.random(by_rate=not equal),
    ]
    cases = [(n, e, rule(e)) for rule in rules for e in _GAPS]
    offers = _SERVICE if equal else [laws.bernoulli((0.3, 0.7)[i % 2], 2) for i in range(n)]
    for means, half_widths in _refined(cases, offers):
        yield {"n": n, "r": r, "equal": equal, "mean": means, "half_width": half_widths}


def explore_slotted():
    """Explore the slotted model of the paper for up to 50 servers, equal or not."""
    return explore.Explorer(
        "jbt-slotted",
        {
            "n": explore.whole_slider("servers N", 5, 2, 50),
            "r": explore.whole_slider("constant r", 2, 1, 20),
            "k": explore.log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0),
            "servers": explore.choice("servers", ["equal", "unequal, choice by rate"]),
        },
        _slotted,
        draw_slotted,
        [["ratio"]],
        scale=0.8,
    )


def draw_collapse(board, result):
    """Draw the joint law over R^(r) with its drift, random routing beside it, and the tail of the distance."""
    r, size = result["r"], len(result["jbt"])
    region = np.array([[0, r, r, 0, math.nan, r, r, size], [r, r, 0, 0, math.nan, size, r, r]], float)
    for name, label in (("jbt", "JBT(r)"), ("random", "random routing")):
        panel = board[name]
        panel.describe(f"{label}:  $\\log_{{10}}P(Q_1=i, Q_2=j)$", "$Q_1$", "$Q_2$")
        panel.heat("log₁₀ probability", np.log10(np.maximum(result[name], 1e-300)), -10, 0)
        panel.line("edges of $R^{(r)}$", *region, "limit")
        at = np.arange(2, size, max(2, size // 12))
        x, y = np.meshgrid(at, at)
        short_x, short_y = (x < r) & (y >= r), (y < r) & (x >= r)
        share = np.where(short_x, 1.0, np.where(short_y, 0.0, 0.5)) if name == "jbt" else np.full(x.shape, 0.5)
        rate = 2 - result["epsilon"]
        panel.arrows(x, y, rate * share - 1, rate * (1 - share) - 1)
        panel.limits(x=(-0.5, size - 0.5), y=(-0.5, size - 0.5), now=True)
    panel = board["tail"]
    panel.describe("Distance to $R^{(r)}$  (Prop. 1)", "$d$", "$\\log_{10}P(\\mathrm{distance} \\geq d)$")
    for name, label, role in (("jbt", "JBT(r)", "exact"), ("random", "random routing", "wall")):
        d, tail = result[f"{name} tail"]
        panel.line(label, d, np.log10(np.maximum(tail, 1e-300)), role)
    panel.limits(x=(0, r), y=(-12, 0.2), now=True)
    panel.legend("lower left")
    panel.note(f"JBT: E d = {result['mean distance']:.3g}", x=0.97, y=0.6)


def distance_tail(pi, r):
    """Return levels d and P(distance to R^(r) >= d): two servers, Eq. (8)."""
    i = np.arange(len(pi))
    low, high = np.minimum.outer(i, i), np.maximum.outer(i, i)
    distance = np.where((low < r) & (high > r), np.minimum(r - low, high - r), 0)
    mass = np.bincount(distance.ravel(), pi.ravel(), minlength=r + 1)
    return np.arange(r + 1), np.append(np.cumsum(mass[::-1])[::-1], 0.0)[: r + 1]


def _collapse(r, epsilon):
    wide = max(60, int(16 / epsilon) + r)
    found = {"r": r, "epsilon": epsilon}
    for name, threshold in (("jbt", r), ("random", math.inf)):
        pi = jbt.two_server_law(epsilon, threshold, tolerance=_DRAWING).joint(wide)
        found[name], found[f"{name} tail"] = pi[:60, :60], distance_tail(pi, r)
    found["mean distance"] = float(found["jbt tail"][1][1:].sum())
    return found


def explore_collapse():
    """Explore state-space collapse: where two queues are under JBT(r), exactly, and under random routing."""
    return explore.Explorer(
        "jbt-collapse",
        {"r": explore.whole_slider("threshold r", 8, 1, 25), "epsilon": explore.log_slider("gap ε", 0.1, 0.05, 0.5)},
        _collapse,
        draw_collapse,
        [["jbt", "random", "tail"]],
        aspect=0.95,
    )


def draw_kelly_laws(board, result):
    """Draw the excess over the pooled mean for ``r = ceil(K log(1/epsilon))``, against the power K ln 2 of epsilon."""
    panel, k = board["excess"], result["k"]
    panel.describe(
        "Kelly and Laws: two servers, exact, r = ⌈K log(1/ε)⌉", "$\\varepsilon$",
        "$\\varepsilon\\,E[Q_1+Q_2]$ − pooled", xscale="log", yscale="log",
    )  # fmt: skip
    epsilons, excess = result["epsilons"], result["excess"]
    panel.line("exact (steps: r is whole)", epsilons, excess, "exact")
    power = k * math.log(2)
    panel.line(
        "ε^(K ln 2) + 0.43 ε r (new)", epsilons, epsilons**power + 0.43 * epsilons * k * np.log(1 / epsilons), "limit"
    )
    panel.limits(x=(epsilons[-1], epsilons[0]), y=(0.005, 2.0))
    panel.note(f"K = {k:.3g}: any K > 0 will do;  K ln 2 = {power:.3g}", x=0.97, y=0.05)
    panel.legend("upper left")


@lru_cache(maxsize=64)
def _excess(k):
    epsilons = np.geomspace(0.4, 0.005, 25)
    found = []
    for epsilon in epsilons:
        law = jbt.two_server_law(epsilon, _whole(k * math.log(1 / epsilon)), tolerance=1e-5)
        found.append(epsilon * law.mean_total - (2 - epsilon))
    return {"k": k, "epsilons": epsilons, "excess": np.array(found)}


def explore_kelly_laws():
    """Explore the conjecture of Kelly and Laws: how large K must be in r = K log(1/epsilon)."""
    return explore.Explorer(
        "jbt-kelly-laws",
        {"k": explore.log_slider("K", 1.0, 0.1, 3.0)},
        _excess,
        draw_kelly_laws,
        [["excess"]],
        scale=0.75,
    )


_FRAMES = 400


@lru_cache(maxsize=8)
def _films(r, n, epsilon):
    """Return the paths of two JBT systems and of the pooled queue on the same arrivals and services, slot by slot."""
    rng = np.random.default_rng(7)
    warm, slots = 2000, 2000 + _FRAMES
    full = rng.random(slots) < (n - epsilon) / (2 * n)  # whole batches of 2 n tasks
    offers = 2 * (rng.random((slots, n)) < 0.5)
    pick = rng.random(slots)
    films = {}
    for name, threshold in (("r", r), ("1", 1)):
        queues, film = np.zeros(n, int), []
        for t in range(slots):
            short = np.flatnonzero(queues < threshold)
            among = short if len(short) else np.arange(n)
            server = among[int(pick[t] * len(among))]
            film.append((queues.copy(), server if full[t] else -1))
            queues[server] += 2 * n * full[t]
            queues = np.maximum(queues - offers[t], 0)
        films[name] = film[warm:]
    pooled, level = [], 0
    for t in range(slots):
        pooled.append(level)
        level = max(level + 2 * n * full[t] - offers[t].sum(), 0)
    return films, pooled[warm:]


def draw_watch(board, result):
    """Draw the queues in one slot: lit where the dispatcher's memory holds the server, marked where the batch goes."""
    top = result["top"]
    for name, r in (("left", 1), ("right", result["r"])):
        queues, target = result[name]
        panel = board[name]
        panel.describe(
            f"{'JIQ: r = 1' if name == 'left' else 'JBT(r)'}", "server (orange: in the dispatcher's memory)", "jobs"
        )
        lit = np.where(queues < r, "#E69F00", "#56B4E9")
        panel.bars("queues", queues, lit)
        panel.line("threshold r", [-0.5, len(queues) - 0.5], [r, r], "limit")
        panel.points("batch goes here", [target], [queues[target] + 0.04 * top] if target >= 0 else [-top])
        panel.note(f"ΣQ = {queues.sum()},  pooled {result['pooled']}", x=0.97, y=0.95)
        panel.limits(x=(-0.6, len(queues) - 0.4), y=(0, top), now=True)
        panel.legend("upper left")


def _watch(r, n, epsilon, slot):
    films, pooled = _films(r, n, epsilon)
    top = max(nice(max(q.max() for q, _ in films[name])) for name in films)
    return {"r": r, "left": films["1"][slot], "right": films["r"][slot], "pooled": pooled[slot], "top": max(top, r + 1)}


def explore_watch():
    """Watch JIQ and JBT(r) side by side on the same arrivals and services, slot by slot."""
    return explore.Explorer(
        "jbt-watch",
        {
            "r": explore.whole_slider("threshold r", 8, 1, 60),
            "n": explore.whole_slider("servers N", 5, 2, 12),
            "epsilon": explore.log_slider("gap ε", 0.1, 0.02, 0.5),
            "slot": explore.player("slot", _FRAMES),
        },
        _watch,
        draw_watch,
        [["left", "right"]],
    )
