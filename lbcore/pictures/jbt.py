"""The pictures of notebook 01: Join-Below-Threshold in heavy traffic (paper A)."""

import math
import time
from functools import lru_cache

import numpy as np

from lbcore import explore, jbt, laws, policies, slotted
from lbcore.figures import SCREEN, Board, nice

_DRAWING = 1e-6  # tolerance of the exact chain in drawings, at least four digits of the mean
_EPSILONS = np.geomspace(0.5, 0.02, 8)


def _whole(x):
    return max(1, math.ceil(x - 1e-9))


RULES = {  # of two servers: threshold by epsilon and a parameter
    "r constant": lambda epsilon, r: r,
    "r = K log(1/ε)": lambda epsilon, k: _whole(k * math.log(1 / epsilon)),
    "r = ½ log₂(1/ε)": lambda epsilon, _: _whole(math.log2(1 / epsilon) / 2),
    "r = ε^(−1/2)": lambda epsilon, _: _whole(epsilon**-0.5),
    "r = ε^(−3/2)": lambda epsilon, _: _whole(epsilon**-1.5),
    "random routing": lambda epsilon, _: math.inf,
}


@lru_cache(maxsize=64)
def _curve(rule, parameter=None):
    """Return scaled means and Eq. (7), a (2, m) array over `_EPSILONS`, of the exact two-server chain."""
    rows = []
    for epsilon in _EPSILONS:
        if rule == "JSQ":
            mean, condition = jbt.two_server_jsq(epsilon)
        else:
            law = jbt.two_server_law(epsilon, RULES[rule](epsilon, parameter), tolerance=_DRAWING)
            mean, condition = law.mean_total, law.condition
        rows.append((epsilon * mean, condition))
    return np.array(rows).T


def _family(rule, parameters):
    """Return several curves as one, with gaps."""
    gap = np.full((2, 1), math.nan)
    return np.hstack([part for p in parameters for part in (_curve(rule, p), gap)])


_FIXED = {
    "r = 1, 2, 4": ("r constant", (1, 2, 4), {"role": "exact", "linewidth": 0.8}),
    "K = ¼, 1, 3": ("r = K log(1/ε)", (0.25, 1.0, 3.0), {"role": "simulation", "linewidth": 0.8}),
    "r = ½ log₂(1/ε)": ("r = ½ log₂(1/ε)", (None,), {"role": "second"}),
    "r = ε^(−1/2)": ("r = ε^(−1/2)", (None,), {"role": "third"}),
    "r = ε^(−3/2)": ("r = ε^(−3/2)", (None,), {"role": "other"}),
    "random routing": ("random routing", (None,), {"role": "wall"}),
    "JSQ": ("JSQ", (None,), {"role": "wall", "color": "black", "linestyle": (0, (1, 1))}),
}


def _thresholds(r, k, own=()):
    """Return what `draw_thresholds` draws.

    `own` are points of policies of your own, rows (name, epsilons, epsilon E[Q1 + Q2], half-widths).
    """
    curves = {name: _family(rule, parameters) for name, (rule, parameters, _) in _FIXED.items()}
    moving = {"r curve": _curve("r constant", r), "k curve": _curve("r = K log(1/ε)", k)}
    return {"r": r, "k": k, "own": own} | moving | curves


def draw_thresholds(board, result):
    """Draw epsilon E[Q1 + Q2] and Eq. (7) against epsilon: a constant and a logarithmic rule among all the others."""
    r, k = result["r"], result["k"]
    for row, (name, title, label, top) in enumerate((
        ("mean", "Theorems 1 and 2, two servers, exact", "$\\varepsilon\\,E[Q_1+Q_2]$", 7.5),
        ("condition", "Eq. (7): delay optimal where this vanishes", "$E[\\|Q\\|\\,\\|U\\|]$", 2.5),
    )):  # fmt: skip
        panel = board[name]
        panel.describe(title, "$\\varepsilon$", label, xscale="log")
        panel.line("r constant (slider)", _EPSILONS, result["r curve"][row], "exact")
        panel.line("r = K log(1/ε) (slider)", _EPSILONS, result["k curve"][row], "simulation")
        for curve, (_, parameters, look) in _FIXED.items():
            x = np.tile(np.append(_EPSILONS, math.nan), len(parameters))
            panel.line(curve, x, result[curve][row], **look)
        panel.limits(x=(_EPSILONS[0], _EPSILONS[-1]), y=(0.0, top))
    panel = board["mean"]
    limit = jbt.heavy_traffic_limit(2, r)
    lines = [v for y in (2.0, limit, 4.0) for v in (y, y, math.nan)]
    ends = [_EPSILONS[0], _EPSILONS[-1], math.nan]
    panel.line("limits (of constant r: new)", ends * 3, lines, "limit")
    for name, *points in result["own"]:
        panel.points(f"{name} (simulated)", *points, "third")
    panel.note(f"r = {r}: limit {limit:.5g};  K = {k:.3g}", x=0.97, y=0.03)
    panel.legend("upper left", columns=2)


thresholds = explore.Picture(
    "jbt-thresholds",
    _thresholds,
    draw_thresholds,
    [["mean", "condition"]],
    lambda: {
        "r": explore.whole_slider("constant r", 1, 1, 12), "k": explore.log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0)
    },
)  # fmt: skip


def draw_u_shape(board, result):
    """Draw the mean number of jobs against the threshold, with the best one and log_N(1/epsilon)."""
    panel, (n, epsilon) = board["u"], (result["n"], result["epsilon"])
    title = "two servers, exact" if n == 2 else f"{n} servers, slotted, simulated (95 % intervals)"
    panel.describe("Mean number of jobs against the threshold", "$r$", "$E[\\sum Q]$ / pooled mean")
    panel.points("JBT(r)", result["r"], result["mean"], result["half_width"], "exact")
    best = result["r"][int(np.argmin(np.nan_to_num(result["mean"], nan=math.inf)))]
    panel.line("bound of Thm 2, θ*, C₁ fitted", result["r"], result["bound"], "third")
    panel.line("limit's excess + s r: heuristic (new)", result["r"], result["heuristic"], "simulation")
    panel.line("best r shown", [best, best], [0, 1e9], "other")
    panel.line("⌈log_N(1/ε)⌉", [result["log"]] * 2, [0, 1e9], "limit")
    panel.note(f"{title}\nε = {epsilon:.3g}:  best r = {best},  ⌈log(1/ε)/log N⌉ = {result['log']}", x=0.97, y=0.95)
    top = nice(1.02 * np.nanmax(np.append(result["mean"], 1.0)))
    panel.limits(x=(0, result["r"][-1] + 1), y=(0.6, top))
    panel.legend("lower right")


def _u_shape(n, epsilon):
    log = _whole(math.log(1 / epsilon) / math.log(n))
    r = np.arange(1, 17) if n == 2 else np.array([1, 2, 3, 4, 6, 8, 12, 16, 24])
    unknown = np.full(len(r), math.nan)
    found = {"n": n, "epsilon": epsilon, "log": log, "r": r, "bound": unknown, "heuristic": unknown}
    if n > 2:
        for means, half_widths in _refined([(n, epsilon, policies.jbt(int(t))) for t in r], *_SYSTEMS[_FAIR](n)):
            yield found | {"mean": means, "half_width": half_widths}
        return
    pooled, means = (2 - epsilon) / epsilon, unknown.copy()
    excess = np.array([jbt.heavy_traffic_limit(2, int(t)) for t in r]) - 2
    found["heuristic"] = 1 + (excess / epsilon + jbt.threshold_price() * r) / pooled
    near = [t for t in r if t in (1, 2, 16) or abs(t - log) <= 1]  # enough for a first picture
    for some in (near, r):
        for t in some:
            means[t - 1] = jbt.two_server_law(epsilon, int(t), tolerance=1e-5).mean_total / pooled
        yield found | {"mean": means.copy(), "half_width": np.zeros(len(r))}
    bound = jbt.theorem_two_bound(epsilon, r, 1e-5) / pooled
    yield found | {"mean": means, "half_width": np.zeros(len(r)), "bound": bound}


_FAIR = "services 0 or 2, batches 0 or 2N"
_SYSTEMS = {  # number of servers -> law of the batch at capacity, and of the services, equal or one for each server
    _FAIR: lambda n: (laws.pmf([0, 2 * n], [0.5, 0.5]), laws.pmf([0, 2], [0.5, 0.5])),
    "service 1, batches 0, N or 5N": lambda n: (laws.pmf([0, n, 5 * n], [0.6, 0.25, 0.15]), laws.pmf([1], [1.0])),
    "services 0, 1 or 3, batches 0 or 4N": lambda n: (
        laws.pmf([0, 4 * n], [0.7, 0.3]), laws.pmf([0, 1, 3], [0.4, 0.3, 0.3]),
    ),
    "servers of rates 0.6 and 1.4, choice by rate": lambda n: (
        laws.pmf([0, 2 * n], [0.5, 0.5]), [laws.bernoulli((0.3, 0.7)[i % 2], 2) for i in range(n)],
    ),
}  # fmt: skip


def _refined(cases, batch, services):
    """Yield means over the pooled mean and half-widths of slotted systems ``(n, epsilon, policy)``, ever better."""
    means, half_widths, shown = np.full(len(cases), math.nan), np.full(len(cases), math.nan), time.monotonic()
    for slots in 40_000 * 3 ** np.arange(7):
        for k, (n, epsilon, policy) in enumerate(cases):
            found = slotted.simulate_slotted(
                n, epsilon, policy, batch, services, slots=int(slots), replications=16, seed=1, progress=False
            )
            if found.believable:  # a run too short to have forgotten its start is not shown
                means[k] = found.mean_total.value / found.pooled_exact
                half_widths[k] = found.mean_total.half_width / found.pooled_exact
            if time.monotonic() - shown > 0.15 or k == len(cases) - 1:
                yield means.copy(), half_widths.copy()
                shown = time.monotonic()


u_shape = explore.Picture(
    "jbt-u-shape",
    _u_shape,
    draw_u_shape,
    [["u"]],
    lambda: {"n": explore.whole_slider("servers N", 2, 2, 20), "epsilon": explore.log_slider("gap ε", 0.05, 0.01, 0.5)},
    scale=0.75,
)


def rate_series(n_servers, threshold=1, system=_FAIR, epsilons=(0.2, 0.14, 0.1, 0.07, 0.05, 0.035), effort=5e5):
    """Simulate a series in epsilon and fit its limit: how slowly a constant threshold reaches it.

    Parameters
    ----------
    n_servers, threshold : int
    system : str
        One of the laws that `slotted_systems` offers for equal servers.
    epsilons : sequence of m floats
    effort : float
        Slots simulated at gap epsilon are ``effort / epsilon``.

    Returns
    -------
    dict
        ``scaled`` and ``half_width``, (m,): epsilon E[sum Q]. ``limit``: `jbt.heavy_traffic_limit`. ``power``: p below.
        ``fit``, (3,), of ``M + b epsilon^p + d epsilon`` by weighted least squares, ``p = 1 - a``, for two servers
        ``2 - a``. ``fit_half_width``: 95 %, of M. ``misfit``: chi-square over its degrees of freedom, m - 3.
    """
    batch, service = _SYSTEMS[system](n_servers)
    epsilons, found = np.array(epsilons), []
    for epsilon in epsilons:
        run = slotted.simulate_slotted(
            n_servers, epsilon, policies.jbt(threshold), batch, service, slots=int(effort / epsilon), replications=32,
            seed=3, progress=False,
        )  # fmt: skip
        found.append((epsilon * run.mean_total.value, epsilon * run.mean_total.half_width))
    scaled, half_width = np.array(found).T
    a = 4 / math.pi * math.atan(jbt.push_share(n_servers, threshold, batch, service))
    power, error = (2 if n_servers == 2 else 1) - a, half_width / 1.96
    design = np.stack([np.ones(len(epsilons)), epsilons**power, epsilons], axis=1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    fit = covariance @ design.T @ (scaled / error)
    return {
        "n": n_servers, "epsilons": epsilons, "scaled": scaled, "half_width": half_width, "power": power, "fit": fit,
        "limit": jbt.heavy_traffic_limit(n_servers, threshold, batch, service),
        "fit_half_width": 1.96 * math.sqrt(covariance[0, 0]),
        "misfit": float(np.sum((scaled / error - design @ fit) ** 2) / (len(epsilons) - 3)),
    }  # fmt: skip


def rates_figure(series):
    """Return a figure of several results of `rate_series`: the points over the limit, and the fitted curves."""
    board = Board([["rate"]], width=0.75 * SCREEN["width"])
    panel = board["rate"]
    panel.describe(
        "Slotted JIQ, simulated (95 % intervals), over the limit (new)", "$\\varepsilon$",
        "$\\varepsilon\\,E[\\sum Q]$ / limit",
    )  # fmt: skip
    fine = np.linspace(0.0, 0.21, 200)
    for found, role in zip(series, ("exact", "simulation", "other"), strict=False):
        label, (m, b, d), limit = f"N = {found['n']}", found["fit"], found["limit"]
        panel.points(label, found["epsilons"], found["scaled"] / limit, found["half_width"] / limit, role)
        curve = (m + b * fine ** found["power"] + d * fine) / limit
        error = found["fit_half_width"] / limit
        panel.line(
            f"at 0: {m / limit:.3f} ± {error:.3f}, terms ε^{found['power']:.2f}, ε", fine, curve, role, linewidth=1.0
        )
    panel.line("limit", [0, 0.21], [1, 1], "limit")
    panel.limits(x=(0, 0.21), y=(0.9, 1.17))
    panel.legend("upper left", columns=2)
    return board


def draw_slotted(board, result):
    """Draw simulated means over the pooled mean against epsilon, with the limits where they are known."""
    n, r, gaps = result["n"], result["r"], result["gaps"]
    panel = board["ratio"]
    panel.describe(
        "Slotted model, simulated (95 % intervals)", "$\\varepsilon$", "$E[\\sum Q]$ / pooled mean", xscale="log",
        yscale="log",
    )  # fmt: skip
    names = {"JBT(r)": "exact", "JBT(K log(1/ε))": "simulation", "JSQ": "other", "JSQ(2)": "second", "random": "third"}
    for k, (name, role) in enumerate(names.items()):
        at = slice(k * len(gaps), (k + 1) * len(gaps))
        panel.points(name, gaps * 1.02 ** (k - 2), result["mean"][at], result["half_width"][at], role)
    limit, worst = result["limits"]
    known = f"limit of JBT({r}) {limit:.4g}, of random routing {worst:.4g}" if worst > 0 else "no limit is known"
    panel.note(f"N = {n}: {known}", x=0.97, y=0.03)
    ends = [gaps[0], gaps[-1], math.nan]
    lines = [v for y in (1.0, limit, worst) for v in (y, y, math.nan)]
    panel.line("limits: pooled, JBT(r), random (new)", ends * 3, lines, "limit")
    panel.limits(x=(1.2 * gaps[0], gaps[-1] / 1.2), y=(0.7, 3 * nice(np.nanmax(np.append(result["mean"], 2.0)))))
    panel.legend("upper left", columns=2)


def _slotted(n, r, k, system):
    batch, services = _SYSTEMS[system](n)
    equal, gaps = not isinstance(services, list), n * np.array([0.08, 0.04, 0.02, 0.01])
    rules = [
        lambda e: policies.jbt(r, by_rate=not equal),
        lambda e: policies.jbt(_whole(k * math.log(1 / e)), by_rate=not equal),
        lambda e: policies.jsq(),
        lambda e: policies.jsq_d(2),
        lambda e: policies.random(by_rate=not equal),
    ]
    limits = (math.nan, math.nan)
    if equal:
        pooled = jbt.pooled_limit(n, batch, services)
        limits = [jbt.heavy_traffic_limit(n, t, batch, services) / pooled for t in (r, math.inf)]
    for means, half_widths in _refined([(n, e, rule(e)) for rule in rules for e in gaps], batch, services):
        yield {"n": n, "r": r, "gaps": gaps, "limits": limits, "mean": means, "half_width": half_widths}


slotted_systems = explore.Picture(
    "jbt-slotted",
    _slotted,
    draw_slotted,
    [["ratio"]],
    lambda: {
        "n": explore.whole_slider("servers N", 5, 2, 50),
        "r": explore.whole_slider("constant r", 2, 1, 20),
        "k": explore.log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0),
        "system": explore.choice("laws", list(_SYSTEMS)),
    },
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
        tail = result[f"{name} tail"]
        panel.line(label, np.arange(r + 1), np.log10(np.maximum(tail, 1e-300)), role)
    panel.limits(x=(0, 25), y=(-12, 0.2))
    panel.legend("lower left")
    panel.note(f"r = {r}\nJBT: E d = {result['mean distance']:.3g}", x=0.97, y=0.55)


def _collapse(r, epsilon):
    found = {"r": r, "epsilon": epsilon}
    for name, threshold in (("jbt", r), ("random", math.inf)):
        law = jbt.two_server_law(epsilon, threshold, tolerance=_DRAWING)
        found[name], found[f"{name} tail"] = law.joint(60), law.distance_tail(r if name == "random" else None)
    found["mean distance"] = float(found["jbt tail"][1:].sum())
    return found


def collapse_figure(epsilons=(0.2, 0.1, 0.05), r=(2, 4, 8, 12, 16, 24)):
    """Return the static figure of Proposition 1: moments of the distance as r grows, for several epsilon; its tail."""
    board = Board([["moments", "tail"]])
    board["moments"].describe("Moments of the distance, exact", "$r$", "$E\\,d^k$", yscale="log")
    board["moments"].note("from below: k = 1, 2, 4", x=0.97, y=0.03)
    board["tail"].describe(
        f"Its tail, $\\varepsilon$ = {epsilons[-1]:g}", "$d$", "$P(\\mathrm{distance} \\geq d)$", yscale="log"
    )
    for name, dashes in (("JBT(r)", "-"), ("random", (0, (2, 2)))):
        free, look = name == "random", {"linewidth": 1.4, "linestyle": dashes}
        laws_of = {(e, t): jbt.two_server_law(e, math.inf if free else t, tolerance=1e-8) for e in epsilons for t in r}
        for epsilon, role in zip(epsilons, ("exact", "second", "simulation"), strict=True):
            found = [laws_of[epsilon, t].distance_moments(t if free else None)[[0, 1, 3]] for t in r]
            x, y = np.tile([*r, math.nan], 3), np.vstack([found, np.full(3, math.nan)]).T.ravel()
            board["moments"].line(f"{name}, ε = {epsilon:g}", x, y, role, **look)
        for t, role in zip(r[1::2], ("exact", "simulation", "other"), strict=True):
            tail = laws_of[epsilons[-1], t].distance_tail(t if free else None)
            board["tail"].line(f"{name}, r = {t}", np.arange(t + 1), tail, role, **look)
    board["moments"].limits(x=(0, max(r) + 1), y=(1e-4, 1e9))
    board["tail"].limits(x=(0, max(r)), y=(1e-12, 3))
    board["moments"].legend("upper left", columns=2)
    board["tail"].legend("lower left")
    return board


collapse = explore.Picture(
    "jbt-collapse",
    _collapse,
    draw_collapse,
    [["jbt", "random", "tail"]],
    lambda: {
        "r": explore.whole_slider("threshold r", 8, 1, 25),
        "epsilon": explore.log_slider("gap ε", 0.1, 0.05, 0.5),
    },
    aspect=0.95,
)


def draw_kelly_laws(board, result):
    """Draw the excess over the pooled mean for ``r = ceil(K log(1/epsilon))``, against the power K ln 2 of epsilon."""
    panel, k, price = board["excess"], result["k"], jbt.threshold_price()
    panel.describe(
        "Kelly and Laws: two servers, exact, r = ⌈K log(1/ε)⌉", "$\\varepsilon$",
        "$\\varepsilon\\,E[Q_1+Q_2]$ − pooled", xscale="log", yscale="log",
    )  # fmt: skip
    epsilons = result["epsilons"]
    panel.line("exact (steps: r is whole)", epsilons, result["excess"], "exact")
    power = k * math.log(2)
    shape = epsilons**power + price * epsilons * k * np.log(1 / epsilons)
    panel.line("ε^(K ln 2) + s ε r: heuristic (new)", epsilons, shape, "limit")
    panel.limits(x=(epsilons[0], epsilons[-1]), y=(0.005, 3.0))
    panel.note(
        f"K = {k:.3g}: ε^{power:.3g} here, any K > 0 will do;  s = {price:.4f} jobs per unit of r\n"
        f"Theorem 2 asks for K > {2 / result['theta']:.3g} (= 2/θ*, θ* = {result['theta']:.3g} fitted)",
        x=0.03, y=0.05,
    )  # fmt: skip
    panel.legend("upper right")


def _excess(k, smallest=0.01, count=12):
    excess, epsilons = [], np.geomspace(0.4, smallest, count)
    for epsilon in epsilons:
        law = jbt.two_server_law(epsilon, _whole(k * math.log(1 / epsilon)), tolerance=1e-5)
        excess.append(epsilon * law.mean_total - (2 - epsilon))
    theta = jbt.two_server_law(0.05, 8, tolerance=1e-9).decay_rate()
    return {"k": k, "epsilons": epsilons, "excess": np.array(excess), "theta": theta}


kelly_laws = explore.Picture(
    "jbt-kelly-laws",
    _excess,
    draw_kelly_laws,
    [["excess"]],
    lambda: {"k": explore.log_slider("K", 1.0, 0.1, 3.0)},
    scale=0.75,
)


_FRAMES = 400
_BESIDE = {"JIQ: r = 1": 1, "random routing: r = ∞": math.inf, "join the shortest queue": 0}


@lru_cache(maxsize=8)
def _films(left, r, n, epsilon):
    """Return the paths under two policies and of the pooled queue on the same arrivals and services, slot by slot.

    For each policy (queues, server chosen, servers in memory), arrays of shape (slots, n), (slots,), (slots, n).
    """
    rng = np.random.default_rng(7)
    warm, slots = 2000, 2000 + _FRAMES
    full = rng.random(slots) < (n - epsilon) / (2 * n)  # whole batches of 2 n tasks
    offers = 2 * (rng.random((slots, n)) < 0.5)
    pick = rng.random(slots)
    films = []
    for threshold in (left, r):
        now, queues = np.zeros(n, int), np.zeros((slots, n), int)
        chosen, memory = np.full(slots, -1), np.zeros((slots, n), bool)
        for t in range(slots):
            memory[t] = now < threshold if threshold else now == now.min()
            among = np.flatnonzero(memory[t]) if memory[t].any() else np.arange(n)
            server = among[int(pick[t] * len(among))]
            queues[t], chosen[t] = now, server if full[t] else -1
            now[server] += 2 * n * full[t]
            now = np.maximum(now - offers[t], 0)
        films.append((queues[warm:], chosen[warm:], memory[warm:]))
    pooled, level = np.zeros(slots, int), 0
    for t in range(slots):
        pooled[t] = level
        level = max(level + 2 * n * full[t] - offers[t].sum(), 0)
    return films, pooled[warm:]


def draw_watch(board, result):
    """Draw the queues in one slot, the chosen server marked and those in the dispatcher's memory lit; sums below."""
    slot, (films, pooled), thresholds = result["slot"], result["films"], (result["left"], result["r"])
    top = 1.3 * max(result["r"], *(queues.max() for queues, _, _ in films))
    for name, (queues, chosen, memory), r in zip(("left", "right"), films, thresholds, strict=True):
        panel, now, target = board[name], queues[slot], chosen[slot]
        title = "The policy chosen in the menu" if name == "left" else "JBT(r)"
        panel.describe(title, "server (orange: in the dispatcher's memory)", "jobs")
        panel.bars("queues", now, np.where(memory[slot], "#E69F00", "#56B4E9"))
        panel.line("threshold r", [-0.5, len(now) - 0.5], [r if 0 < r < math.inf else math.nan] * 2, "limit")
        panel.points("batch goes here", [target], [now[target] + 0.04 * top] if target >= 0 else [-top])
        panel.note(f"ΣQ = {now.sum()}", x=0.97, y=0.95)
        panel.limits(x=(-0.6, len(now) - 0.4), y=(0, top))
        panel.legend("upper left")
    panel, t, sums = board["sum"], np.arange(_FRAMES), [queues.sum(axis=1) for queues, _, _ in films]
    panel.describe("the same batches and services under all three", "slot", "$\\sum Q$")
    panel.line("left", t, sums[0], "simulation")
    panel.line("right: JBT(r)", t, sums[1], "exact")
    panel.line("pooled queue", t, pooled, "limit")
    panel.line("now", [slot, slot], [0, 1e9], "wall")
    panel.limits(x=(0, _FRAMES), y=(0, 1.3 * max(map(np.max, sums))))
    panel.legend("upper left", columns=4)


watch = explore.Picture(
    "jbt-watch",
    lambda left, r, n, epsilon, slot: {"left": left, "r": r, "slot": slot, "films": _films(left, r, n, epsilon)},
    draw_watch,
    [["left", "right"], ["sum", "sum"]],
    lambda: {
        "left": explore.choice("on the left", list(_BESIDE.items())),
        "r": explore.whole_slider("threshold r", 8, 1, 60),
        "n": explore.whole_slider("servers N", 5, 2, 12),
        "epsilon": explore.log_slider("gap ε", 0.3, 0.02, 0.5),
        "slot": explore.player("slot", _FRAMES),
    },
    aspect=0.5,
)
