"""The pictures of notebook 01: Join-Below-Threshold in heavy traffic (paper A)."""

import math
import time
from functools import lru_cache

import numpy as np

from lbcore import theory
from lbcore.chance import laws
from lbcore.show.picture import figure, picture
from lbcore.show.plots import (
    Plot,
    arrows,
    bars,
    choice,
    guide,
    heat,
    line,
    log_slider,
    nice,
    player,
    points,
    whole_slider,
)
from lbcore.simulate import policies, slotted

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
            mean, condition = theory.two_server_jsq(epsilon)
        else:
            law = theory.two_server_law(epsilon, RULES[rule](epsilon, parameter), tolerance=_DRAWING)
            mean, condition = law.mean_total, law.condition
        rows.append((epsilon * mean, condition))
    return np.array(rows).T


def _family(rule, parameters):
    """Return several curves as one, with gaps."""
    gap = np.full((2, 1), math.nan)
    return np.hstack([part for p in parameters for part in (_curve(rule, p), gap)])


_FIXED = {  # by name: rule, parameters, whose curve, look
    "r = 1, 2, 4": ("r constant", (1, 2, 4), "jbt", {"linewidth": 0.8}),
    "K = ¼, 1, 3": ("r = K log(1/ε)", (0.25, 1.0, 3.0), "jbt", {"linewidth": 0.8}),
    "r = ½ log₂(1/ε)": ("r = ½ log₂(1/ε)", (None,), "jbt", {"linestyle": (0, (7, 1))}),
    "r = ε^(−1/2)": ("r = ε^(−1/2)", (None,), "jbt", {"linestyle": (0, (5, 1, 1, 1))}),
    "r = ε^(−3/2)": ("r = ε^(−3/2)", (None,), "jbt", {"linestyle": (0, (1, 1))}),
    "random routing": ("random routing", (None,), "random", {}),
    "JSQ": ("JSQ", (None,), "jsq", {}),
}


@picture(
    "jbt-thresholds", panels=(2,),
    r=whole_slider("constant r", 1, 1, 12), k=log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0),
)  # fmt: skip
def thresholds(r, k, own=()):
    """The scaled mean epsilon E[Q1 + Q2] and Eq. (7): a constant and a logarithmic rule among all the others.

    `own` are points of policies of your own, rows (name, epsilons, epsilon E[Q1 + Q2], half-widths).
    """
    moving = _curve("r constant", r), _curve("r = K log(1/ε)", k)
    mean, condition = (
        [
            line("r constant (slider)", _EPSILONS, moving[0][row], "jbt"),
            line("r = K log(1/ε) (slider)", _EPSILONS, moving[1][row], "jbt"),
        ] + [
            line(name, np.tile([*_EPSILONS, math.nan], len(parameters)), _family(rule, parameters)[row], who, **look)
            for name, (rule, parameters, who, look) in _FIXED.items()
        ] for row in (0, 1)
    )  # fmt: skip
    limit = theory.heavy_traffic_limit(2, r)
    mean.append(guide("limits (of constant r: new)", y=[2.0, limit, 4.0], who="limit"))
    mean += [points(f"{name} (simulated)", *found, "own") for name, *found in own]
    axes = {"x": (_EPSILONS[0], _EPSILONS[-1]), "log": "x"}
    return [[
        Plot(
            "Theorems 1 and 2, two servers, exact", "$\\varepsilon$", "$\\varepsilon\\,E[Q_1+Q_2]$", mean, y=(0.0, 7.5),
            legend="upper left", columns=2, note=f"r = {r}: limit {limit:.5g};  K = {k:.3g}", at=(0.97, 0.03), **axes,
        ),
        Plot(
            "Eq. (7): delay optimal where this vanishes", "$\\varepsilon$", "$E[\\|Q\\|\\,\\|U\\|]$", condition,
            y=(0.0, 2.5), legend="", **axes,
        ),
    ]]  # fmt: skip


_FAIR = "services 0 or 2, batches 0 or 2N"
_SYSTEMS = {  # number of servers -> law of the batch at capacity, and of the services, equal or one for each server
    _FAIR: lambda n: (laws.discrete([0, 2 * n], [0.5, 0.5]), laws.discrete([0, 2], [0.5, 0.5])),
    "service 1, batches 0, N or 5N": lambda n: (
        laws.discrete([0, n, 5 * n], [0.6, 0.25, 0.15]), laws.discrete([1], [1.0])
    ),
    "services 0, 1 or 3, batches 0 or 4N": lambda n: (
        laws.discrete([0, 4 * n], [0.7, 0.3]), laws.discrete([0, 1, 3], [0.4, 0.3, 0.3]),
    ),
    "servers of rates 0.6 and 1.4, choice by rate": lambda n: (
        laws.discrete([0, 2 * n], [0.5, 0.5]), [laws.bernoulli((0.3, 0.7)[i % 2], 2) for i in range(n)],
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


@picture("jbt-u-shape", scale=0.75, n=whole_slider("servers N", 2, 2, 20), epsilon=log_slider("gap ε", 0.05, 0.01, 0.5))
def u_shape(n, epsilon):
    """The mean number of jobs against the threshold, with the best one and log_N(1/epsilon)."""
    log, pooled = _whole(math.log(1 / epsilon) / math.log(n)), (2 - epsilon) / epsilon
    if n > 2:
        r = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24])
        for means, half in _refined([(n, epsilon, policies.jbt(int(t))) for t in r], *_SYSTEMS[_FAIR](n)):
            known = np.isfinite(means)
            yield _u(n, epsilon, log, r, points("JBT(r)", r, means, half, "jbt", believable=known), [])
        return
    r, means = np.arange(1, 17), np.full(16, math.nan)
    excess = np.array([theory.heavy_traffic_limit(2, int(t)) for t in r]) - 2
    heuristic = 1 + (excess / epsilon + theory.threshold_price() * r) / pooled
    beside = [line("limit's excess + s r: heuristic (new)", r, heuristic, "jbt", "heuristic")]
    near = [t for t in r if t in (1, 2, 16) or abs(t - log) <= 1]  # enough for a first picture
    for some in (near, r):
        for t in some:
            means[t - 1] = theory.two_server_law(epsilon, int(t), tolerance=1e-5).mean_total / pooled
        exact = points("JBT(r)", some, means[np.array(some) - 1], None, "jbt", "exact")
        yield _u(n, epsilon, log, r, exact, beside)
    bound = theory.theorem_two_bound(epsilon, r, 1e-5) / pooled
    yield _u(n, epsilon, log, r, exact, [line("bound of Thm 2, θ*, C₁ fitted", r, bound, "bound", "fitted"), *beside])


def _u(n, epsilon, log, r, found, beside):
    title = "two servers, exact" if n == 2 else f"{n} servers, slotted, simulated (95 % intervals)"
    shown, means = found.columns["x"], found.columns["y"]
    best = shown[[np.argmin(means)]] if means.size else shown
    marks = [
        found,
        *beside,
        guide("best r shown", x=best, who="jbt", kind="guide"),
        guide("⌈log_N(1/ε)⌉", x=log, who="limit"),
    ]
    words = "".join(f"  best r = {b:.0f}," for b in best)
    return [[Plot(
        "Mean number of jobs against the threshold", "$r$", "$E[\\sum Q]$ / pooled mean", marks,
        x=(0, r[-1] + 1), y=(0.6, nice(1.02 * np.max(means, initial=1.0))), legend="lower right",
        note=f"{title}\nε = {epsilon:.3g}:{words}  ⌈log(1/ε)/log N⌉ = {log}",
    )]]  # fmt: skip


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
        ``scaled`` and ``half_width``, (m,): epsilon E[sum Q]. ``limit``: the theory's. ``power``: p below.
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
    a = 4 / math.pi * math.atan(theory.push_share(n_servers, threshold, batch, service))
    power, error = (2 if n_servers == 2 else 1) - a, half_width / 1.96
    design = np.stack([np.ones(len(epsilons)), epsilons**power, epsilons], axis=1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    fit = covariance @ design.T @ (scaled / error)
    return {
        "n": n_servers, "epsilons": epsilons, "scaled": scaled, "half_width": half_width, "power": power, "fit": fit,
        "limit": theory.heavy_traffic_limit(n_servers, threshold, batch, service),
        "fit_half_width": 1.96 * math.sqrt(covariance[0, 0]),
        "misfit": float(np.sum((scaled / error - design @ fit) ** 2) / (len(epsilons) - 3)),
    }  # fmt: skip


def rates_figure(series):
    """Return a figure of several results of `rate_series`: the points over the limit, and the fitted curves."""
    fine, marks = np.linspace(0.0, 0.21, 200), []
    for found in series:
        (m, b, d), limit, power = found["fit"], found["limit"], found["power"]
        curve, error = (m + b * fine**power + d * fine) / limit, found["fit_half_width"] / limit
        label = f"at 0: {m / limit:.3f} ± {error:.3f}, terms ε^{power:.2f}, ε"
        scaled, half_width = found["scaled"] / limit, found["half_width"] / limit
        marks += [
            points(f"N = {found['n']}", found["epsilons"], scaled, half_width, "jiq"),
            line(label, fine, curve, "jiq", "fitted"),
        ]
    marks.append(guide("limit", y=1.0, who="limit"))
    return figure([[Plot(
        "Slotted JIQ, simulated (95 % intervals), over the limit (new)", "$\\varepsilon$",
        "$\\varepsilon\\,E[\\sum Q]$ / limit", marks, x=(0, 0.21), y=(0.9, 1.17), legend="upper left", columns=2,
    )]], scale=0.75)  # fmt: skip


@picture(
    "jbt-slotted", scale=0.8, n=whole_slider("servers N", 5, 2, 50), r=whole_slider("constant r", 2, 1, 20),
    k=log_slider("K of K log(1/ε)", 1.5, 0.1, 3.0), system=choice("laws", list(_SYSTEMS)),
)  # fmt: skip
def slotted_systems(n, r, k, system):
    """Simulated means over the pooled mean against epsilon, with the limits where they are known."""
    batch, services = _SYSTEMS[system](n)
    equal, gaps = not isinstance(services, list), n * np.array([0.08, 0.04, 0.02, 0.01])
    rules = {
        "JBT(r)": ("jbt", lambda e: policies.jbt(r, by_rate=not equal)),
        "JBT(K log(1/ε))": ("jbt", lambda e: policies.jbt(_whole(k * math.log(1 / e)), by_rate=not equal)),
        "JSQ": ("jsq", lambda e: policies.jsq()),
        "JSQ(2)": ("jsq_d", lambda e: policies.jsq_d(2)),
        "random": ("random", lambda e: policies.random(by_rate=not equal)),
    }
    limits, known = [1.0], "no limit is known"
    if equal:
        pooled = theory.pooled_limit(n, batch, services)
        limits += [theory.heavy_traffic_limit(n, t, batch, services) / pooled for t in (r, math.inf)]
        known = f"limit of JBT({r}) {limits[1]:.4g}, of random routing {limits[2]:.4g}"
    level = guide("limits: pooled, JBT(r), random (new)", y=limits, who="limit")
    for found in _refined([(n, e, rule(e)) for _, rule in rules.values() for e in gaps], batch, services):
        rows = zip(rules.items(), *(part.reshape(-1, len(gaps)) for part in found), strict=True)
        marks = [
            points(name, gaps * 1.02 ** (i - 2), means, half, who, believable=np.isfinite(means))
            for i, ((name, (who, _)), means, half) in enumerate(rows)
        ]
        yield [[Plot(
            "Slotted model, simulated (95 % intervals)", "$\\varepsilon$", "$E[\\sum Q]$ / pooled mean",
            [*marks, level], x=(1.2 * gaps[0], gaps[-1] / 1.2), log="xy",
            y=(0.7, 3 * nice(np.nanmax(np.append(found[0], 2.0)))),
            legend="upper left", columns=2, note=f"N = {n}: {known}", at=(0.97, 0.03),
        )]]  # fmt: skip


@picture(
    "jbt-collapse", panels=(3,), aspect=0.95,
    r=whole_slider("threshold r", 8, 1, 25), epsilon=log_slider("gap ε", 0.1, 0.05, 0.5),
)  # fmt: skip
def collapse(r, epsilon):
    """The joint law over R^(r) with its drift, random routing beside it, and the tail of the distance to R^(r)."""
    ours, blind = (theory.two_server_law(epsilon, t, tolerance=_DRAWING) for t in (r, math.inf))
    tails = ours.distance_tail(), blind.distance_tail(r)
    tail = [
        line(label, np.arange(r + 1), np.log10(np.maximum(found, 1e-300)), who)
        for label, found, who in zip(("JBT(r)", "random routing"), tails, ("jbt", "random"), strict=True)
    ]
    note = f"r = {r}\nJBT: E d = {float(tails[0][1:].sum()):.3g}"
    return [[
        _joint("JBT(r)", "jbt", ours.joint(60), r, epsilon),
        _joint("random routing", "random", blind.joint(60), r, epsilon),
        Plot(
            "Distance to $R^{(r)}$  (Prop. 1)", "$d$", "$\\log_{10}P(\\mathrm{distance} \\geq d)$", tail,
            x=(0, 25), y=(-12, 0.2), note=note, at=(0.97, 0.55),
        ),
    ]]  # fmt: skip


def _joint(label, who, joint, r, epsilon):
    """The joint law of two queues in colours, the edges of R^(r) and the drift."""
    size, rate = len(joint), 2 - epsilon
    region = np.array([[0, r, r, 0, math.nan, r, r, size], [r, r, 0, 0, math.nan, size, r, r]], float)
    at = np.arange(2, size, max(2, size // 12))
    x, y = np.meshgrid(at, at)
    share = np.full(x.shape, 0.5)
    if who == "jbt":
        share[(x < r) & (y >= r)], share[(y < r) & (x >= r)] = 1.0, 0.0
    marks = [
        heat("log₁₀ probability", np.log10(np.maximum(joint, 1e-300)), -10, 0, who),
        line("edges of $R^{(r)}$", *region, "guide", linestyle="--", color="#D55E00"),
        arrows("drift", x, y, rate * share - 1, rate * (1 - share) - 1, who),
    ]
    span = (-0.5, size - 0.5)
    return Plot(
        f"{label}:  $\\log_{{10}}P(Q_1=i, Q_2=j)$", "$Q_1$", "$Q_2$", marks, x=span, y=span, now="xy", legend=""
    )


def collapse_figure(epsilons=(0.2, 0.1, 0.05), r=(2, 4, 8, 12, 16, 24)):
    """Return the static figure of Proposition 1: moments of the distance as r grows, for several epsilon; its tail."""
    moments, tails = [], []
    for name, who, dashes in (("JBT(r)", "jbt", "-"), ("random", "random", (0, (2, 2)))):
        free, look = name == "random", {"linewidth": 1.4, "linestyle": dashes}
        laws_of = {
            (e, t): theory.two_server_law(e, math.inf if free else t, tolerance=1e-8) for e in epsilons for t in r
        }
        for epsilon in epsilons:
            found = [laws_of[epsilon, t].distance_moments(t if free else None)[[0, 1, 3]] for t in r]
            x, y = np.tile([*r, math.nan], 3), np.vstack([found, np.full(3, math.nan)]).T.ravel()
            moments.append(line(f"{name}, ε = {epsilon:g}", x, y, who, **look))
        for t in r[1::2]:
            tail = laws_of[epsilons[-1], t].distance_tail(t if free else None)
            tails.append(line(f"{name}, r = {t}", np.arange(t + 1), tail, who, **look))
    return figure([[
        Plot(
            "Moments of the distance, exact", "$r$", "$E\\,d^k$", moments, x=(0, max(r) + 1), y=(1e-4, 1e9), log="y",
            legend="upper left", columns=2, note="from below: k = 1, 2, 4", at=(0.97, 0.03),
        ),
        Plot(
            f"Its tail, $\\varepsilon$ = {epsilons[-1]:g}", "$d$", "$P(\\mathrm{distance} \\geq d)$", tails,
            x=(0, max(r)), y=(1e-12, 3), log="y",
        ),
    ]])  # fmt: skip


@picture("jbt-kelly-laws", scale=0.75, k=log_slider("K", 1.0, 0.1, 3.0))
def kelly_laws(k, smallest=0.01, count=12):
    """The excess over the pooled mean for ``r = ceil(K log(1/epsilon))``, against the power K ln 2 of epsilon."""
    excess, epsilons = [], np.geomspace(0.4, smallest, count)
    for epsilon in epsilons:
        law = theory.two_server_law(epsilon, _whole(k * math.log(1 / epsilon)), tolerance=1e-5)
        excess.append(epsilon * law.mean_total - (2 - epsilon))
    theta, price = theory.two_server_law(0.05, 8, tolerance=1e-9).decay_rate(), theory.threshold_price()
    power = k * math.log(2)
    shape = epsilons**power + price * epsilons * k * np.log(1 / epsilons)
    marks = [
        line("exact (steps: r is whole)", epsilons, excess, "jbt"),
        line("ε^(K ln 2) + s ε r: heuristic (new)", epsilons, shape, "jbt", "heuristic"),
    ]
    return [[Plot(
        "Kelly and Laws: two servers, exact, r = ⌈K log(1/ε)⌉", "$\\varepsilon$",
        "$\\varepsilon\\,E[Q_1+Q_2]$ − pooled", marks,
        x=(epsilons[0], epsilons[-1]), y=(0.005, 3.0), legend="upper right", log="xy", at=(0.03, 0.05),
        note=f"K = {k:.3g}: ε^{power:.3g} here, any K > 0 will do;  s = {price:.4f} jobs per unit of r\n"
        f"Theorem 2 asks for K > {2 / theta:.3g} (= 2/θ*, θ* = {theta:.3g} fitted)",
    )]]  # fmt: skip


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


@picture(
    "jbt-watch", panels=(2, 1), aspect=0.5, left=choice("on the left", list(_BESIDE.items())),
    r=whole_slider("threshold r", 8, 1, 60), n=whole_slider("servers N", 5, 2, 12),
    epsilon=log_slider("gap ε", 0.3, 0.02, 0.5), slot=player("slot", _FRAMES),
)  # fmt: skip
def watch(left, r, n, epsilon, slot):
    """The queues in one slot, the chosen server marked and those in the dispatcher's memory lit; sums below."""
    films, pooled = _films(left, r, n, epsilon)
    who = {1: "jiq", math.inf: "random", 0: "jsq"}[left]
    top = 1.3 * max(r, *(queues.max() for queues, _, _ in films))
    sums = [queues.sum(axis=1) for queues, _, _ in films]
    t, y = np.arange(_FRAMES), (0, 1.3 * max(map(np.max, sums)))
    below = [
        line("left", t, sums[0], who, "simulated"),
        line("right: JBT(r)", t, sums[1], "jbt", "simulated"),
        line("pooled queue", t, pooled, "pooled", "simulated"),
        guide("now", x=slot),
    ]
    return [
        [
            _queues("The policy chosen in the menu", who, *(part[slot] for part in films[0]), left, top),
            _queues("JBT(r)", "jbt", *(part[slot] for part in films[1]), r, top),
        ],
        [Plot(
            "the same batches and services under all three", "slot", "$\\sum Q$", below,
            x=(0, _FRAMES), y=y, legend="upper left", columns=4,
        )],
    ]  # fmt: skip


def _queues(title, who, now, target, memory, r, top):
    """The queues in one slot, the server marked that a batch goes to."""
    at = [target] if target >= 0 else []
    marks = [bars("queues", now, "jbt", "simulated", lit=memory)]
    if 0 < r < math.inf:
        marks.append(guide("threshold r", y=r, who="limit"))
    marks.append(points("batch goes here", at, now[at] + 0.04 * top, None, who))
    return Plot(
        title, "server (orange: in the dispatcher's memory)", "jobs", marks, x=(-0.6, len(now) - 0.4), y=(0, top),
        legend="upper left", note=f"ΣQ = {now.sum()}", at=(0.97, 0.95),
    )  # fmt: skip
