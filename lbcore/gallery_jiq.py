"""The pictures of notebook 02: Join-Idle-Queue with general service (paper B)."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from zlib import crc32

import numpy as np
from scipy.stats import gamma, poisson

from lbcore import explore, jbt, jiq, laws, policies, transient, workload
from lbcore.figures import Board
from lbcore.results import Estimate

_LATTICE = laws.lattice([0, 1, 5], [0.3, 0.5, 0.2])
# what the slider "parameter" makes of each family
FAMILIES = {
    "exponential": lambda p: laws.exponential(),
    "deterministic": lambda p: laws.deterministic(),
    "Erlang, k = parameter": lambda p: laws.erlang(max(1, round(p))),
    "hyperexponential, cv² = parameter ≥ 1": lambda p: laws.hyperexponential(max(1.0, p)),
    "lognormal, cv² = parameter": laws.lognormal,
    "Weibull, shape = parameter": laws.weibull,
    "uniform": lambda p: laws.uniform(),
    "Pareto, exponent = 1 + parameter": lambda p: laws.pareto(1.0 + p),
    "Lomax, exponent = 1 + parameter": lambda p: laws.lomax(1.0 + p),
    "lattice on 0, 1, 5": lambda p: _LATTICE,
    "mixture: 90 % constant, 10 % lognormal, cv² = parameter": lambda p: laws.mixture(
        [0.9, 0.1], [laws.deterministic(), laws.lognormal(p, mean=5.0)]
    ),
}
LAWS = {
    "deterministic": laws.deterministic(),
    "Erlang(4)": laws.erlang(4),
    "uniform": laws.uniform(),
    "exponential": laws.exponential(),
    "lattice on 0, 1, 5": _LATTICE,
    "Weibull(½)": laws.weibull(0.5),
    "lognormal(4)": laws.lognormal(4),
    "hyperexp.(8)": laws.hyperexponential(8),
    "Lomax(2.5)": laws.lomax(2.5),
    "Pareto(1.5)": laws.pareto(1.5),
}
SIX = ("exponential", "hyperexp.(8)", "deterministic", "lognormal(4)", "Pareto(1.5)", "lattice on 0, 1, 5")
LOADS = (0.3, 0.45, 0.6, 0.8, 0.95)
SIZES = (1, 2, 10, 30, 100, 300, 1000, 10_000, 100_000, 1_000_000)
_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9")
_CLASSES = {"Theorem 2": "-", "proved for DHR laws [11]": "--", "conjecture": ":"}
_LIMIT = {"marker": "v", "markersize": 4.5, "markerfacecolor": "white"}
_EXACT = {"color": "black", "marker": "D", "markersize": 6.5, "markerfacecolor": "none"}
_ERLANG = "Erlang's loss formula (heuristic)"
_LOSS = {"linestyle": "-", "linewidth": 0.7}
_MANY = np.unique(np.geomspace(1, 2_000_000, 120).round())
_LINEAR = np.linspace(0.0, 6.0, 61)
_WORK = np.union1d(_LINEAR, np.geomspace(0.02, 1000.0, 70))


@lru_cache(maxsize=64)
def _law(family, parameter):
    """Return a law of `FAMILIES`; one that is a law already stays."""
    return family if isinstance(family, laws.Law) else FAMILIES[family](parameter)


def proved_by(law, load):
    """Return which of the three classes a law and a load belong to: a key of ``_CLASSES``."""
    if load < 0.5:
        return "Theorem 2"
    return "proved for DHR laws [11]" if law.decreasing_hazard_rate else "conjecture"


@lru_cache(maxsize=64)
def _theory(law, load):
    """Return x* and x** (and its proved error) at `_WORK`."""
    tail = jiq.workload_tail(law, load, _WORK * law.mean, tolerance=1e-3)
    cycle = load * (1 - load)
    return jiq.fixed_point(law, load, _WORK * law.mean), tail.tail / cycle, tail.error / cycle


def _controls(load=0.8, n=None, law=True, **more):
    """Return sliders for the load, for n (start, lowest, highest), for the law, and `more`."""
    controls = {"load": explore.real_slider("load λ", load, 0.02, 0.98)}
    if n:
        controls["n"] = explore.log_slider("servers n", *n)
    if law:
        controls["family"] = explore.choice("service law", list(FAMILIES))
        controls["parameter"] = explore.log_slider("its parameter", 2.0, 0.3, 20.0)
    return controls | more


def _axes(panel, title, xlabel, ylabel, x, y, log=""):
    """Describe a panel; `x` and `y` are its limits, `log` names its logarithmic axes."""
    panel.describe(title, xlabel, ylabel, **{f"{axis}scale": "log" for axis in log})
    panel.axes.set_autoscale_on(False)
    panel.limits(x, y, now=True)


def _curve(panel, label, x, estimate, chosen=..., role="simulation"):
    """Draw an Estimate with its band; None, and what is not known, leaves room for it."""
    value, half = np.full((2, len(x)), math.nan)
    if estimate is not None:
        value, half = estimate.value[chosen], np.minimum(estimate.half_width[chosen], 1.0)
    panel.line(label, x, np.where(value > 0.0, value, math.nan), role)
    panel.band(label, x, np.maximum(value - half, 1e-12), value + half, role)


def _number(estimate):
    if estimate.value == 0.0:
        return f"0 seen, < {estimate.high:.1g}"
    return f"{estimate.value:.3g} ± {estimate.half_width:.1g}"


# ---- the fixed point ---------------------------------------------------------------------------------------

ARRIVALS = {
    "Poisson": None,
    "renewal, Erlang(4)": laws.erlang(4),
    "renewal, hyperexponential(4)": laws.hyperexponential(4),
}
BUFFERS = ("infinite", "2 jobs at every server", "1 at half, infinite at half")
BIAS = ("none", "half of the servers chosen 3 times as often")


def _fixed_point(load, n, family, parameter, arrivals, buffers, bias):
    law, n = _law(family, parameter), round(n)
    plain = (arrivals, buffers) == ("Poisson", BUFFERS[0])
    found = {"law": law, "load": load, "n": n, "theory": _theory(law, load), "plain": plain, "simulation": None}
    yield found
    first = np.arange(n) < (n + 1) // 2
    for simulation in workload.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK * law.mean, seed=1, live=True,
        arrivals=3_000_000 + 40 * n, replications=16 if n <= 10_000 else 4, interarrival=ARRIVALS[arrivals],
        buffers=(None, 2, np.where(first, 1, 1 << 30))[BUFFERS.index(buffers)],
        weights=(None, np.where(first, 3.0, 1.0))[BIAS.index(bias)],
        start="infinite-server" if buffers == BUFFERS[0] else "empty",
    ):  # fmt: skip
        yield found | {"simulation": simulation}


def draw_fixed_point(board, result):
    """Draw x*, the bound x** and the simulated mean profile with its band, on linear and on logarithmic axes."""
    law, load, n, simulation = (result[name] for name in ("law", "load", "n", "simulation"))
    star, bound, error = result["theory"]
    for name, title, x, y, log, chosen in (
        ("linear", "Fixed point, bound, simulation", (0, 6), (0, 1.4 if load > 0.5 else 0.7), "",
         np.isin(_WORK, _LINEAR)),
        ("tail", "The same, tails", (0.02, 1000), (1e-7, 30), "xy", _WORK > 0.0),
    ):  # fmt: skip
        panel, w = board[name], _WORK[chosen]
        _axes(panel, title, "$w$ (mean service times)", "fraction of servers with work $> w$", x, y, log)
        panel.line("$x^{**}_w$: bound for every n (Lemma 4)", w, bound[chosen], "other")
        _curve(panel, "mean of $x^n_w$, simulated (95 %)", w, simulation and simulation.profile, chosen)
        panel.line("$x^*_w$: limit, n → ∞", w, star[chosen], "limit")
    board["tail"].legend("lower left")
    wait, lost = "simulating ...", ""
    if simulation is not None:
        wait = f"P(wait) = {_number(simulation.wait_probability)}{'' if simulation.believable else '; short run'}"
        lost = f"; lost {_number(simulation.lost)}" if "lost" in simulation.estimates else ""
    status = f"bound drawn within {error.max():.1g}" if result["plain"] else "bound not proved here"
    about = f"{law}, λ = {load:.3g}, n = {n}\n{proved_by(law, load)}\n{wait}\n{status}{lost}"
    board["linear"].note(about, x=0.97, y=0.98)


fixed_point = explore.Picture(
    "jiq-fixed-point", _fixed_point, draw_fixed_point, [["linear", "tail"]],
    lambda: _controls(
        n=(10, 1, 1_000_000), arrivals=explore.choice("arrivals (§6)", list(ARRIVALS)),
        buffers=explore.choice("buffers (§6)", BUFFERS), bias=explore.choice("bias (§6)", BIAS),
    ),
)  # fmt: skip


# ---- convergence -------------------------------------------------------------------------------------------

QUANTITIES = {
    "wait": ("P(arrival waits)", (1e-6, 2.0)),
    "distance": ("largest $E x^n_w - x^*_w$", (1e-6, 2.0)),
    "mean": ("mean wait (mean service times)", (1e-6, 100.0)),
}


@lru_cache(maxsize=1024)
def measured(law, load, n, arrivals=600_000):
    """Return P(wait), distance and mean wait, rows of (value, low, high), of JIQ with `n` servers, simulated.

    Each case has its own seed, so that errors of neighbouring points are independent. The distance is the largest of
    ``E x^n_w - x*_w``, over the levels `_WORK`. Its interval ends at the largest ends of theirs: exact for a long run,
    as these levels move together near the largest.
    """
    replications = 8 if n < 100_000 else 2
    found = workload.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK * law.mean, start="infinite-server", replications=replications,
        arrivals=int(max(replications * load * n, (1 + 1 / n) * arrivals)), threads=1, progress=False,
        seed=crc32(f"{law}, {load}, {n}".encode()),
    )  # fmt: skip
    unseen = found.excess.half_width[0] / load  # at w = 0: what waits not seen may amount to
    rows = ((found.wait_probability, unseen), (found.excess, 0.0), (found.mean_wait, law.mean * unseen))
    halves = [(e.value, np.maximum(e.half_width, least)) for e, least in rows]
    return np.array([[np.max(part) for part in (value, value - half, value + half)] for value, half in halves])


@lru_cache(maxsize=64)
def exact_points(law, load):
    """Return what is known exactly, by n: (P(wait), distance, mean wait).

    One server is M/G/1 (Pollaczek and Khinchine). The law of two with exponential service was solved in notebook 01;
    a server with k jobs has Erlang(k) work.
    """
    star, bound, _ = _theory(law, load)
    away = load * (1 - load) * bound - star
    points = {1: (load, float(away.max()), load * (1 + law.cv2) / (2 * (1 - load)))}
    if law.name == "exponential()":
        two = jbt.two_server_law(2 - 2 * load, 1, tolerance=1e-9)
        queue = two.marginals[1:]
        away = queue @ gamma.sf(_LINEAR, np.arange(1, queue.size + 1)[:, None]) - load * np.exp(-_LINEAR)
        both = 1 - 2 * two.marginals[0] + two.empty_row[0]
        points[2] = (float(both), float(away.max()), two.mean_wait)
    return points


def loss_formula(load, n):
    """Return Erlang's loss formula for arrays `n`: P(wait) comes down to it from above as n grows, unproved.

    While nobody waits the number of busy servers is that of infinitely many, for every law; conditioned to be at
    most n it is that of Erlang's loss system. What waits adds to it, the less the rarer.
    """
    return np.exp(poisson.logpmf(n, load * n) - poisson.logcdf(n, load * n))


def _draw_series(panel, label, n, rows, **look):
    """Draw values as a line, and the upper limits where the interval reaches 0."""
    n, (value, low, high) = np.array(n, float), np.array(rows).T
    seen = low > 1e-3 * value  # below, the interval reaches 0 for all that can be seen
    panel.line(label, n[seen], value[seen], marker="o", markersize=3.5, linewidth=1.4, **look)
    panel.band(label, n[seen], low[seen], high[seen], "wall")
    panel.points(f"{label}, upper limit", n[~seen], high[~seen], color=look["color"], **_LIMIT)


def convergence_figure(which="wait", sizes=SIZES):
    """Return a static figure of one of `QUANTITIES` against n: one panel a law, one colour a load."""
    board = Board([["0", "1", "2"], ["3", "4", "5"]], aspect=0.9)
    cases = [(LAWS[law], load, n) for n in sizes[::-1] for law in SIX for load in LOADS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: measured(*case), cases))
    k, (ylabel, y) = list(QUANTITIES).index(which), QUANTITIES[which]
    for panel, name in zip(board.panels.values(), SIX, strict=True):
        law = LAWS[name]
        about = ", DHR" if law.decreasing_hazard_rate else ", infinite variance" if math.isinf(law.cv2) else ""
        _axes(panel, name + about, "$n$", ylabel, (0.7, 2e6), y, "xy")
        for load, colour in zip(LOADS, _COLOURS, strict=False):
            style = _CLASSES[proved_by(law, load)]
            rows = [measured(law, load, n)[k] for n in sizes]
            if which == "wait":
                panel.line(f"λ = {load}, Erlang", _MANY, loss_formula(load, _MANY), color=colour, **_LOSS)
            _draw_series(panel, f"λ = {load}", sizes, rows, color=colour, linestyle=style)
            points = exact_points(law, load)
            panel.points(f"λ = {load}, exact", list(points), [p[k] for p in points.values()], **_EXACT)
    for name, style in _CLASSES.items():
        panel.line(name, [], [], "wall", linestyle=style, color="black")
    panel.points("upper limit (95 %)", [], [], color="black", **_LIMIT)
    panel.points("exact (n = 1, 2)", [], [], **_EXACT)
    panel.line(_ERLANG, [], [], color="black", **_LOSS)
    shown = {text: line for line, text in zip(*panel.axes.get_legend_handles_labels(), strict=True)}
    names = [*(f"λ = {load}" for load in LOADS), *_CLASSES, "upper limit (95 %)", "exact (n = 1, 2)"]
    names += [_ERLANG] * (which == "wait")
    look = {"ncols": 5, "frameon": False, "fontsize": 0.85 * board.font}
    board.figure.legend([shown[name] for name in names], names, loc="outside lower center", **look)
    return board


def _convergence(load, family, parameter):
    law, rows = _law(family, parameter), {}
    found = {"law": law, "load": load, "exact": exact_points(law, load)}
    for arrivals in (60_000, 600_000):
        for n in SIZES:
            if n <= 1000 or arrivals > 60_000:
                rows[n] = measured(law, load, n, arrivals)
                yield found | {"rows": dict(rows)}


def draw_convergence(board, result):
    """Draw P(wait), the sup distance and the mean wait against n, with exact points for one and two servers."""
    law, load, exact = result["law"], result["load"], result["exact"]
    style = _CLASSES[proved_by(law, load)]
    for k, (name, (ylabel, y)) in enumerate(QUANTITIES.items()):
        panel = board[name]
        title = ("P(wait)", "Distance of the mean profile", "Mean wait")[k]
        _axes(panel, title, "$n$", ylabel, (0.7, 2e6), (1e-2 * y[0], y[1]), "xy")
        unknown = math.nan if name == "mean" and math.isinf(law.cv2) else 1.0
        rows = [unknown * row[k] for row in result["rows"].values()]
        _draw_series(panel, "simulated", list(result["rows"]), rows, color=_COLOURS[4], linestyle=style)
        panel.points("exact", list(exact), [unknown * p[k] for p in exact.values()], **_EXACT)
    board["wait"].line(_ERLANG, _MANY, loss_formula(load, _MANY), "limit", **_LOSS)
    board["mean"].line(_ERLANG, [], [], "limit", **_LOSS)  # for the legend, where nothing lies behind it
    board["mean"].legend("lower left")
    board["distance"].note(f"{law}\nλ = {load:.3g}\n{proved_by(law, load)}", x=0.97, y=0.95)
    board["mean"].note("infinite for every n: not shown" if math.isinf(law.cv2) else "", x=0.97, y=0.95)


convergence = explore.Picture(
    "jiq-convergence", _convergence, draw_convergence, [list(QUANTITIES)], _controls, aspect=0.9
)


# ---- fluid paths -------------------------------------------------------------------------------------------

STATES = {  # the work of servers at the places p, between 0 and 1
    "all busy, equal work 2": lambda p: 2.0 + 0.0 * p,
    "half overloaded: 0.5 and 8": lambda p: np.where(p < 0.5, 0.5, 8.0),
    "90 % overloaded: idle and 8": lambda p: np.where(p < 0.1, 0.0, 8.0),
    "all busy, work spread over 0 to 4": lambda p: 4.0 * p,
    "empty": lambda p: 0.0 * p,
}
_TIMES = np.linspace(0.0, 16.0, 129)
_LEVELS = np.linspace(0.0, 8.5, 137)


def initial_work(state, n):
    """Return the work of each of `n` servers in one of `STATES`, in increasing order."""
    return STATES[state]((np.arange(n) + 0.5) / n)


def initial_profile(state):
    """Return the profile ``x_w`` of 10^4 servers in one of `STATES`, as a function of arrays."""
    work = initial_work(state, 10_000)
    return lambda w: 1.0 - np.searchsorted(work, w, side="right") / work.size


def lemmas(state, load):
    """Say which lemma of the paper proves convergence from a state, and under what condition."""
    idle = 1.0 - float(initial_profile(state)(np.zeros(1))[0])
    if idle > load:
        return f"Lemma 6 proves it: idle fraction {idle:.2g} > λ"
    if load < 0.5:
        return "Lemma 8 proves it: work ≤ b in all\nservers (δ = 0) and λ + δ < 1/2"
    return "conjecture: λ ≥ 1/2 and idle ≤ λ"


@lru_cache(maxsize=64)
def _fluid(law, load, state):
    return jiq.fluid_path(law, load, initial_profile(state), _TIMES, _LEVELS, step=1 / 32)


@lru_cache(maxsize=64)
def _simulated_path(law, load, state, replications):
    work = initial_work(state, 10_000)
    return transient.simulate_path(work, law, load, _TIMES[1:], _LEVELS, replications=replications, seed=1)


def _fluid_result(load, family, parameter, state, row):
    law = _law(family, parameter)
    found = {"law": law, "load": load, "state": state, "row": row, "path": _fluid(law, load, state)}
    yield found | {"simulated": None}
    for replications in (4, 16):
        yield found | {"simulated": _simulated_path(law, load, state, replications)}


def draw_fluid(board, result):
    """Draw the distance to x* and the busy fraction against time, and the profile at one time."""
    law, load, path, row, simulated = (result[name] for name in ("law", "load", "path", "row", "simulated"))
    star, label = jiq.fixed_point(law, load, _LEVELS), "simulated mean, n = 10⁴ (95 %)"
    if simulated is not None:  # time 0 is known
        simulated = Estimate(*(np.insert(a, 0, np.nan, axis=0) for a in (simulated.value, simulated.half_width)))
    panel = board["distance"]
    _axes(panel, "Distance to the fixed point", "$t$", "largest $|x_w(t) - x^*_w|$", (0, 16), (1e-4, 200), "y")
    away = np.max(abs(path.profile - star), axis=1)
    panel.line("fluid path (heuristic)", _TIMES, np.maximum(away, 1e-12))
    away = np.full(len(_TIMES), math.nan) if simulated is None else np.max(abs(simulated.value - star), axis=1)
    panel.line("simulated mean, n = 10⁴", _TIMES, away, "simulation")
    panel.line("time of the slider", [_TIMES[row]] * 2, [1e-9, 3.0], "wall")
    panel = board["busy"]
    _axes(panel, "Busy fraction", "$t$", "$x_0(t)$", (0, 16), (0, 1.6))
    panel.line("fluid path", _TIMES, path.profile[:, 0])
    _curve(panel, label, _TIMES, simulated, np.s_[:, 0])
    panel.line("λ", _TIMES, load + 0 * _TIMES, "limit")
    panel.note(lemmas(result["state"], load), x=0.97, y=0.02)
    panel = board["profile"]
    _axes(panel, "Profile at the time of the slider", "$w$", "$x_w(t)$", (0, 8.5), (0, 1.6))
    panel.line("fluid path", _LEVELS, path.profile[row])
    _curve(panel, label, _LEVELS, simulated, row)
    panel.line("$x^*$", _LEVELS, star, "limit")
    panel.note(f"{law}, λ = {load:.3g}\nt = {_TIMES[row]:.4g}\ngrid error ≲ {path.error:.1g}", x=0.97, y=0.6)
    for panel in board.panels.values():
        panel.legend("upper right")


fluid = explore.Picture(
    "jiq-fluid", _fluid_result, draw_fluid, [["distance", "busy", "profile"]],
    lambda: _controls(
        0.45, state=explore.choice("start", list(STATES)), row=explore.player("time t × 8", len(_TIMES))
    ), aspect=0.9,
)  # fmt: skip


# ---- insensitivity and its price ---------------------------------------------------------------------------


def _runs(load, n, cases, **options):
    """Yield the simulations of several cases, pairs of policy and law by name, ever better."""
    runs, n = {}, round(n)
    for arrivals in (30_000, 300_000, 3_000_000):
        for name, (policy, law) in cases.items():
            runs[name] = workload.simulate_workload(
                n, load, policy, law, arrivals=arrivals + 4 * n, replications=8, seed=1, progress=False,
                start="infinite-server" if policy.uses_threshold else "empty", **options,
            )  # fmt: skip
            if len(runs) == len(cases):
                yield {"load": load, "n": n, "runs": dict(runs)}


def _insensitivity(load, n):
    yield from _runs(load, n, {name: (policies.jiq(), law) for name, law in LAWS.items()})


def draw_insensitivity(board, result):
    """Draw P(wait), the variance of the busy fraction and the fraction with two or more jobs for all laws."""
    load, n, x = result["load"], result["n"], np.arange(len(LAWS))
    for name, estimate, title, y, scale in (
        ("wait", "wait_probability", f"P(wait), λ = {load:.3g}, n = {n}", (1e-6, 2), 1),
        ("variance", "busy_variance", "$n$ Var of the busy fraction", (0.01, 5), n),
        ("two", "two_or_more", "Fraction with two or more jobs", (1e-7, 2), 1),
    ):
        panel = board[name]
        if not panel.axes.get_title():
            panel.axes.set_xticks(x, LAWS, rotation=60, ha="right")
        _axes(panel, title.split(",")[0], "", "", (-0.6, len(x) - 0.4), y, "y")
        estimates = [getattr(run, estimate) for run in result["runs"].values()]
        value, low, high = (
            scale * np.array([getattr(e, part) for e in estimates]) for part in ("value", "low", "high")
        )
        seen = low > 0.0
        panel.points("simulated (95 %)", x[seen], value[seen], (high - value)[seen], marker="o")
        panel.points("upper limit", x[~seen], high[~seen], color="black", **_LIMIT)
        if name == "variance":
            panel.line("λ: infinitely many servers", x[[0, -1]], [load] * 2, "limit")
        panel.legend("lower left")
    board["wait"].note(f"λ = {load:.3g}, n = {n}", x=0.97, y=0.95)


insensitivity = explore.Picture(
    "jiq-insensitivity", _insensitivity, draw_insensitivity, [["wait", "variance", "two"]],
    lambda: _controls(n=(100, 1, 10_000), law=False), aspect=1.0,
)  # fmt: skip


# ---- JIQ, JSQ(2), random -----------------------------------------------------------------------------------

_POLICIES = {  # with the roles of their curves
    "JIQ": (policies.jiq(), "exact"),
    "JSQ(2)": (policies.jsq_d(2, replacement=True), "third"),
    "random": (policies.random(), "second"),
}


def messages(name, simulation):
    """Return the messages per arrival of a policy.

    Under JIQ a server reports when it becomes idle. In equilibrium that happens as often as an arrival goes to an
    idle server: ``1 - P(arrival finds no idle server)`` messages per arrival, at most one. Under JSQ(d) the
    dispatcher asks d servers and hears d answers.
    """
    return 1.0 - simulation.all_busy.value if name == "JIQ" else _POLICIES[name][0].messages(simulation.n_servers)


def _comparison(load, n, family, parameter):
    law = _law(family, parameter)
    cases = {name: (policy, law) for name, (policy, _) in _POLICIES.items()}
    for found in _runs(load, n, cases, work=_WORK * law.mean):
        yield found | {"law": law}


def draw_comparison(board, result):
    """Draw the profiles under three policies at one load, and the waits beside the messages they cost."""
    law, load, runs, chosen = result["law"], result["load"], result["runs"], _WORK > 0.0
    panel, costs = board["profile"], board["messages"]
    title = "Mean profile (95 %)"
    _axes(panel, title, "$w$", "fraction of servers with work $> w$", (0.02, 200), (1e-5, 1.5), "xy")
    _axes(costs, "P(wait) against messages", "messages per arrival", "P(arrival waits)", (-0.3, 4.3), (1e-7, 2), "y")
    for name, (_, role) in _POLICIES.items():
        _curve(panel, name, _WORK[chosen], runs[name].profile, chosen, role)
        wait, x = runs[name].wait_probability, [messages(name, runs[name])]
        seen = wait.low > 0.0
        costs.points(name, x, [wait.value if seen else math.nan], [wait.half_width], role, markersize=8)
        costs.points(f"{name}, upper limit", x, [math.nan if seen else wait.high], None, role, **_LIMIT)
    panel.line("$x^*$", _WORK[chosen], _theory(law, load)[0][chosen], "limit")
    panel.legend("lower left")
    panel.note(f"{law}\nλ = {load:.3g}, n = {result['n']}", x=0.97, y=0.95)
    costs.legend("lower right")


comparison = explore.Picture(
    "jiq-comparison", _comparison, draw_comparison, [["profile", "messages"]], lambda: _controls(n=(500, 2, 5000))
)


# ---- independence ------------------------------------------------------------------------------------------

_PAIR = np.linspace(0.0, 2.9, 30)
_PAIR_SIZES = (10, 30, 100, 300, 1000, 3000)


@lru_cache(maxsize=256)
def _pair(law, load, n, replications):
    return transient.pair_excess(n, law, load, _PAIR * law.mean, replications=replications, seed=1)


def _independence(load, n, family, parameter):
    law, n, rows = _law(family, parameter), round(n), {}
    for replications in (4, 16):
        pair = _pair(law, load, n, replications)
        for size in (None, *_PAIR_SIZES):
            if size:
                rows[size] = _pair(law, load, size, replications)
            yield {"law": law, "load": load, "n": n, "pair": pair, "rows": dict(rows)}


def draw_independence(board, result):
    """Draw joint tail minus product for two tagged servers, and its largest value against n."""
    n, pair, panel = result["n"], result["pair"], board["joint"]
    title = "$n\\,[P(W_1>a, W_2>b) - P(W_1>a)P(W_2>b)]$"
    _axes(panel, title, "$10a$ (mean service times)", "$10b$", (-0.5, 29.5), (-0.5, 29.5))
    panel.heat("n × (joint − product)", n * pair.value, -0.5, 0.5)
    panel = board["sizes"]
    _axes(panel, "Corollary 3: joint law → product", "$n$", "largest |joint − product|", (8, 4000), (1e-5, 1), "xy")
    for label, runs, look in (
        ("simulated (95 % at the largest)", result["rows"], {"marker": "o"}),
        ("n of the slider", {n: pair}, {"role": "exact", "markersize": 7}),
    ):
        places = [np.unravel_index(np.argmax(abs(e.value)), e.value.shape) for e in runs.values()]
        at = list(zip(runs.values(), places, strict=True))
        panel.points(label, list(runs), [abs(e.value[k]) for e, k in at], [e.half_width[k] for e, k in at], **look)
    panel.line("0.3/n, for the eye", np.array([8.0, 4000.0]), 0.3 / np.array([8.0, 4000.0]), "wall")
    panel.legend("lower left")
    origin = _number(Estimate(pair.value[0, 0], pair.half_width[0, 0]))
    about = f"{result['law']}, λ = {result['load']:.3g}, n = {n}\nP(W₁>0, W₂>0) − λ² = {origin}"
    panel.note(about, x=0.97, y=0.95)


independence = explore.Picture(
    "jiq-independence", _independence, draw_independence, [["joint", "sizes"]],
    lambda: _controls(0.6, n=(100, 10, 3000)),
)  # fmt: skip


# ---- your own data -----------------------------------------------------------------------------------------


def read_service_times(path):
    """Return the empirical law, stretched to mean 1, of the service times in the first column of a CSV file.

    Parameters
    ----------
    path : str or Path
        One number >= 0 a row, an optional heading, further columns ignored; at most some million rows.

    Returns
    -------
    DiscreteLaw

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is empty, or a row is no number, negative, infinite or NaN; the message names the row.
    """
    numbers = []
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for row, line in enumerate(file, 1):
            cell = line.split(",", 1)[0].strip().strip('"')
            try:
                number = float(cell)
            except ValueError:
                if not cell or row == 1:
                    continue
                number = math.nan
            if not 0.0 <= number < math.inf:
                raise ValueError(f"row {row} of {path} holds {cell!r}; a service time must be a finite number >= 0")
            numbers.append(number)
    if not numbers:
        raise ValueError(f"{path} holds no service times; it must have one number >= 0 in each row")
    return laws.empirical(numbers)


def describe_law(law):
    """Return sentences about an empirical law, in the units of its file: mean, cv², tail. Nothing is fitted."""
    values, weights = law.points, law.probabilities
    mean, upto = values @ weights, np.cumsum(weights)
    quantiles = [values[min(np.searchsorted(upto, q), values.size - 1)] for q in (0.5, 0.9, 0.99)]
    top = 1.0 - upto < 0.01
    return (
        f"{law}, {values.size} different values: mean {mean:.6g}, cv² = {law.cv2:.4g}; stretched to mean 1 from here.\n"
        f"Median {quantiles[0]:.4g}, 90 % below {quantiles[1]:.4g}, 99 % below {quantiles[2]:.4g}, "
        f"largest {values[-1]:.4g}.\n"
        f"The largest hundredth of the jobs brings {100 * values[top] @ weights[top] / mean:.3g} % of the work. Beyond "
        "the largest value this law has no tail: what a heavier tail would do, the data cannot say."
    )
