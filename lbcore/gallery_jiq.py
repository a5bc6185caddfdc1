"""The pictures of notebook 02: Join-Idle-Queue with general service (paper B)."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import t as student

from lbcore import explore, jiq, laws, policies, workload
from lbcore.figures import Board
from lbcore.records import Estimate

# what the slider "parameter" makes of each family
FAMILIES = {
    "exponential": lambda p: laws.exponential(),
    "deterministic": lambda p: laws.deterministic(),
    "Erlang, k = parameter": lambda p: laws.erlang(max(1, round(p))),
    "hyperexponential, cv² = parameter ≥ 1": lambda p: laws.hyperexponential(max(1.0, p)),
    "lognormal, cv² = parameter": lambda p: laws.lognormal(p),
    "Weibull, shape = parameter": lambda p: laws.weibull(p),
    "uniform": lambda p: laws.uniform(),
    "Pareto, exponent = 1 + parameter": lambda p: laws.pareto(1.0 + p),
    "lattice on 0, 1, 5": lambda p: laws.lattice([0, 1, 5], [0.3, 0.5, 0.2]),
    "mixture: 90 % constant, 10 % lognormal, cv² = parameter": lambda p: laws.mixture(
        [0.9, 0.1], [laws.deterministic(), laws.lognormal(p, mean=5.0)]
    ),
}
SIX = (
    laws.exponential(),
    laws.hyperexponential(8),
    laws.deterministic(),
    laws.lognormal(4),
    laws.pareto(1.5),
    laws.lattice([0, 1, 5], [0.3, 0.5, 0.2]),
)
LOADS = (0.3, 0.45, 0.6, 0.8, 0.95)
_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9")
_CLASSES = {"Theorem 2": "-", "proved for DHR laws [11]": "--", "conjecture": ":"}
_LINEAR = np.linspace(0.0, 6.0, 61)
_LOG = np.geomspace(0.02, 1000.0, 70)
_WORK = np.union1d(_LINEAR, _LOG)
_FEW = np.array([0, 0.1, 0.3, 0.6, 1, 1.5, 2, 3, 4, 6, 9, 14, 20, 30, 60])  # levels for the sup distance
_SIZES = (10, 100, 1000, 10_000, 100_000, 1_000_000)


def proved_by(law, load):
    """Return which of the three classes a law and a load belong to: a key of ``_CLASSES``."""
    if load < 0.5:
        return "Theorem 2"
    return "proved for DHR laws [11]" if law.decreasing_hazard_rate else "conjecture"


@lru_cache(maxsize=64)
def _law(family, parameter):
    return FAMILIES[family](parameter)


def _law_controls():
    return {
        "family": explore.choice("service law", list(FAMILIES)),
        "parameter": explore.log_slider("its parameter", 2.0, 0.3, 20.0),
    }


@lru_cache(maxsize=32)
def _theory(law, load):
    """Return x* and x** (and its proved error) at `_WORK`."""
    tail = jiq.workload_tail(law, load, _WORK * law.mean, tolerance=1e-5)
    cycle = load * (1 - load)
    return jiq.fixed_point(law, load, _WORK * law.mean), tail.tail / cycle, tail.error / cycle


# ---- the fixed point ---------------------------------------------------------------------------------------

ARRIVALS = {
    "Poisson": None,
    "renewal, Erlang(4)": laws.erlang(4),
    "renewal, hyperexponential(4)": laws.hyperexponential(4),
}
BUFFERS = {"infinite": None, "2 jobs at every server": 2, "1 at half, infinite at half": "half"}
BIAS = {"none": None, "half of the servers chosen 3 times as often": "half"}


def _switched(n, arrivals, buffers, bias):
    """Return the options of simulate_workload for the generalisations of Section 6."""
    first = np.arange(n) < (n + 1) // 2
    limits = {None: None, 2: 2, "half": np.where(first, 1, 1 << 30)}[BUFFERS[buffers]]
    return {
        "interarrival": ARRIVALS[arrivals],
        "buffers": limits,
        "bias": None if BIAS[bias] is None else np.where(first, 3.0, 1.0),
    }


def _profiles(law, load, n, **options):
    """Yield simulations of JIQ with the profile at `_WORK`, ever better."""
    arrivals = 3_000_000 + 40 * n
    replications = 16 if n <= 10_000 else 4
    run = workload.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK * law.mean, arrivals=arrivals, replications=replications, seed=1,
        live=True, **options,
    )  # fmt: skip
    yield from run


def _fixed_point(load, n, family, parameter, arrivals, buffers, bias):
    law, n = _law(family, parameter), round(n)
    found = {"law": law, "load": load, "n": n, "theory": _theory(law, load), "plain": buffers == "infinite"}
    found["plain"] &= arrivals == "Poisson"
    yield found | {"simulation": None}
    for simulation in _profiles(law, load, n, **_switched(n, arrivals, buffers, bias)):
        yield found | {"simulation": simulation}


def draw_fixed_point(board, result):
    """Draw x*, the bound x** and the simulated mean profile with its band, on linear and on logarithmic axes."""
    law, load, n, simulation = (result[name] for name in ("law", "load", "n", "simulation"))
    star, bound, _ = result["theory"]
    for name, title, scales, chosen in (
        ("linear", "Fixed point, bound, simulation", {}, np.isin(_WORK, _LINEAR)),
        ("tail", "The same, tails", {"xscale": "log", "yscale": "log"}, _WORK > 0.0),
    ):
        panel, w = board[name], _WORK[chosen]
        panel.describe(title, "$w$ (mean service times)", "fraction of servers with work $> w$", **scales)
        panel.line("$x^{**}_w$: bound for every n (Lemma 4)", w, bound[chosen], "other")
        profile, half_width = _shown(simulation, chosen)
        panel.line("mean of $x^n_w$, simulated (95 %)", w, profile, "simulation")
        low, high = np.maximum(profile - half_width, 1e-12), profile + half_width
        panel.band("mean of $x^n_w$, simulated (95 %)", w, low, high)
        panel.line("$x^*_w$: limit, n → ∞", w, star[chosen], "limit")
    board["linear"].limits(x=(0.0, 6.0), y=(0.0, 1.0 if load > 0.5 else 0.6), now=True)
    board["tail"].limits(x=(_LOG[0], _LOG[-1]), y=(1e-7, 30.0), now=True)
    board["linear"].legend("upper right")
    about = "simulating ..." if simulation is None else f"P(wait) = {_number(simulation.wait_probability)}"
    if simulation is not None and not simulation.believable:
        about += "; short run"
    board["linear"].note(f"{law}, λ = {load:.3g}, n = {n}\n{proved_by(law, load)}\n{about}", x=0.97, y=0.45)
    lost = getattr(simulation, "lost", None) if simulation is not None else None
    board["tail"].note("" if result["plain"] else "bound not proved here" + (f"; lost {_number(lost)}" if lost else ""))


def _number(estimate):
    if estimate.value == 0.0:
        return f"0 seen, < {estimate.high:.1g}"
    return f"{estimate.value:.3g} ± {estimate.half_width:.1g}"


def _shown(simulation, chosen):
    if simulation is None:
        return np.full(chosen.sum(), math.nan), np.full(chosen.sum(), math.nan)
    return simulation.profile.value[chosen], np.minimum(simulation.profile.half_width[chosen], 1.0)


def fixed_point_figure(law, load=0.8, n=10, **options):
    """Return the static figure of `draw_fixed_point`."""
    simulation = workload.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK * law.mean, arrivals=2_000_000, seed=1, progress=False, **options
    )
    result = {"law": law, "load": load, "n": n, "theory": _theory(law, load), "plain": True, "simulation": simulation}
    return Board([["linear", "tail"]]).draw(draw_fixed_point, result)


def explore_fixed_point():
    """Explore fixed point, bound and simulated profile, with the switches of Section 6."""
    return explore.Explorer(
        "jiq-fixed-point",
        {
            "load": explore.real_slider("load λ", 0.8, 0.02, 0.98),
            "n": explore.log_slider("servers n", 10, 1, 1_000_000),
            **_law_controls(),
            "arrivals": explore.choice("arrivals (§6)", list(ARRIVALS)),
            "buffers": explore.choice("buffers (§6)", list(BUFFERS)),
            "bias": explore.choice("bias if all busy (§6)", list(BIAS)),
        },
        _fixed_point,
        draw_fixed_point,
        [["linear", "tail"]],
    )


# ---- convergence -------------------------------------------------------------------------------------------


def sup_distance(law, load, profile, replications):
    """Return value, low and high of the sup distance of a mean profile from x*, over the levels `_FEW`.

    The intervals of the levels are widened to hold together (Bonferroni), as a supremum is taken.
    """
    together = student.ppf(1 - 0.025 / len(_FEW), replications - 1) / student.ppf(0.975, replications - 1)
    away, half_width = abs(profile.value - jiq.fixed_point(law, load, _FEW * law.mean)), together * profile.half_width
    return float(away.max()), float(np.max(np.maximum(away - half_width, 0.0))), float(np.max(away + half_width))


@lru_cache(maxsize=1024)
def measured(law, load, n, arrivals=2_000_000):
    """Return P(wait), distance and mean wait, rows of (value, low, high), of JIQ with `n` servers, simulated.

    Runs start from independent servers of law x*, last at least 3 service times, and drop their first half.
    """
    replications = 8
    found = jiq.simulate_near_fixed_point(
        n, law, load, _FEW * law.mean, seed=1, replications=replications,
        duration=max(3.0, arrivals / (replications * load * n)), snapshots=int(np.clip(20_000 / n, 8, 400)),
    )  # fmt: skip
    waits = [(e.value, max(e.low, 0.0), e.high) for e in (found["wait_probability"], found["mean_wait"])]
    return np.array([waits[0], sup_distance(law, load, found["profile"], replications), waits[1]])


def exact_points(law, load):
    """Return what is known exactly, by n: (P(wait), distance, mean wait), nan where unknown.

    One server is M/G/1 (Pollaczek, Khinchine); for two servers and exponential service the mean wait has a closed
    form, proved in notebook 01 and not in the paper.
    """
    away = jiq.workload_tail(law, load, _WORK * law.mean, tolerance=1e-6).tail - jiq.fixed_point(
        law, load, _WORK * law.mean
    )
    points = {1: (load, float(np.max(abs(away))), load * (1 + law.cv2) / (2 * (1 - load)))}
    if str(law) == "exponential()":
        points[2] = (math.nan, math.nan, 2 * load**2 / ((1 - load) * (1 + 2 * load)))
    return points


def _draw_series(panel, label, n, rows, colour, style):
    """Draw values as a line, and the upper limits where the interval reaches 0."""
    value, low, high = np.array(rows).T
    seen = low > 1e-3 * value  # below, the interval reaches 0 for all that can be seen
    x = np.array(n, float)
    panel.line(label, x[seen], value[seen], color=colour, linestyle=style, marker="o", markersize=3.5, linewidth=1.4)
    panel.band(label, x[seen], low[seen], high[seen], "wall")
    panel.points(
        f"{label}, upper limit",
        x[~seen],
        high[~seen],
        color=colour,
        marker="v",
        markersize=4.5,
        markerfacecolor="white",
    )


def draw_convergence(board, result):
    """Draw one quantity against n for six laws and five loads: one panel a law, one colour a load."""
    which = ("wait", "distance").index(result["which"])
    ylabel = ("P(arrival waits)", "largest $|E x^n_w - x^*_w|$")[which]
    for k, law in enumerate(SIX):
        panel = board[str(k)]
        name = "lattice on 0, 1, 5" if k == 5 else str(law)
        panel.describe(
            f"{name}{', DHR' if law.decreasing_hazard_rate else ''}", "$n$", ylabel, xscale="log", yscale="log"
        )
        for load, colour in zip(LOADS, _COLOURS, strict=False):
            rows = [measured(law, load, n)[which] for n in result["sizes"]]
            _draw_series(panel, f"λ = {load}", result["sizes"], rows, colour, _CLASSES[proved_by(law, load)])
            exact = exact_points(law, load)[1][which]
            panel.points(f"exact, n = 1, λ = {load}", [1], [exact], color=colour, marker="D", markersize=4)
        panel.limits(x=(0.7, 1.6 * result["sizes"][-1]), y=((1e-7, 2.0), (1e-4, 2.0))[which], now=True)
    _key(board)


def _key(board):
    """Put one legend below all panels: the loads, the three classes, the kinds of points."""
    panel = board["0"]
    for name, style in _CLASSES.items():
        panel.line(name, [], [], "wall", linestyle=style, color="black")
    panel.points("upper limit (95 %)", [], [], color="black", marker="v", markerfacecolor="white")
    panel.points("exact, n = 1", [], [], color="black", marker="D", markersize=4)
    names = [*(f"λ = {load}" for load in LOADS), *_CLASSES, "upper limit (95 %)", "exact, n = 1"]
    handles = [panel._artists[name] for name in names]
    board.figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False, fontsize=0.85 * board.font)


def convergence_figure(which="wait", sizes=_SIZES[:-1]):
    """Return a static figure: ``which`` is "wait" or "distance"."""
    board = Board([["0", "1", "2"], ["3", "4", "5"]], aspect=0.9)
    return board.draw(draw_convergence, {"which": which, "sizes": sizes})


def _convergence(load, family, parameter):
    law = _law(family, parameter)
    found = {"law": law, "load": load, "exact": exact_points(law, load)}
    sizes, rows = [], []
    for arrivals in (60_000, 2_000_000):
        for n in (1, 2, *_SIZES):
            if n > 10_000 and arrivals < 2_000_000:
                continue
            row = measured(law, load, n, arrivals)
            if n in sizes:
                rows[sizes.index(n)] = row
            else:
                sizes.append(n)
                rows.append(row)
            yield found | {"sizes": tuple(sizes), "rows": np.array(rows)}


def draw_one_convergence(board, result):
    """Draw P(wait), the sup distance and the mean wait against n, with exact points for one and two servers."""
    law, load = result["law"], result["load"]
    style, exact = _CLASSES[proved_by(law, load)], result["exact"]
    for k, (name, title, ylabel) in enumerate((
        ("wait", "P(wait)", "P(arrival waits)"),
        ("distance", "Distance of the mean profile", "largest $|E x^n_w - x^*_w|$"),
        ("mean", "Mean wait", "mean service times"),
    )):  # fmt: skip
        panel = board[name]
        panel.describe(title, "$n$", ylabel, xscale="log", yscale="log")
        rows = result["rows"][:, k]
        if name == "mean" and math.isinf(law.cv2):
            rows = np.full_like(rows, math.nan)
        _draw_series(panel, "simulated", result["sizes"], rows, _COLOURS[4], style)
        known = [(n, row[k]) for n, row in exact.items() if math.isfinite(row[k])]
        x, y = np.array(known).reshape(-1, 2).T
        panel.points(
            "exact",
            x,
            y,
            color=_COLOURS[0],
            marker="D",
            markersize=7,
            markerfacecolor="none",
        )
        panel.limits(x=(0.7, 2e6), y=((1e-10, 2.0), (1e-5, 2.0), (1e-10, 100.0))[k], now=True)
    board["wait"].legend("lower left")
    board["distance"].note(f"{law}, λ = {load:.3g}\n{proved_by(law, load)}", x=0.97, y=0.95)
    board["mean"].note("infinite for every n: not shown" if math.isinf(law.cv2) else "", x=0.97, y=0.95)


def explore_convergence():
    """Explore how fast a finite system gets close to the fixed point, for one law and load."""
    return explore.Explorer(
        "jiq-convergence",
        {"load": explore.real_slider("load λ", 0.8, 0.02, 0.98), **_law_controls()},
        _convergence,
        draw_one_convergence,
        [["wait", "distance", "mean"]],
        aspect=0.9,
    )


# ---- fluid paths -------------------------------------------------------------------------------------------

# name -> fractions of servers and their work
STATES = {
    "all busy, equal work 2": [(1.0, 2.0)],
    "half overloaded: 0.5 and 8": [(0.5, 0.5), (0.5, 8.0)],
    "90 % overloaded: idle and 8": [(0.1, 0.0), (0.9, 8.0)],
    "all busy, work spread over 0 to 4": None,
    "empty": [(1.0, 0.0)],
}
_TIMES = np.linspace(0.0, 16.0, 129)
_LEVELS = np.linspace(0.0, 8.5, 137)


def initial_profile(state):
    """Return the profile ``x_w`` of one of `STATES`, as a function of arrays."""
    atoms = STATES[state]
    if atoms is None:
        return lambda w: np.maximum(1.0 - w / 4.0, 0.0)
    return lambda w: sum(share * (w < work) for share, work in atoms) + 0.0 * w


def initial_work(state, n):
    """Return the work of each of `n` servers in one of `STATES`."""
    places = (np.arange(n) + 0.5) / n
    atoms = STATES[state]
    if atoms is None:
        return 4.0 * places
    ends = np.cumsum([share for share, _ in atoms])
    return np.array([work for _, work in atoms])[np.searchsorted(ends, places)]


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
    return jiq.fluid_path(law, load, initial_profile(state), _TIMES, _LEVELS)


def _fluid_result(load, family, parameter, state, row):
    law = _law(family, parameter)
    found = {"law": law, "load": load, "state": state, "row": row, "path": _fluid(law, load, state), "simulated": None}
    yield found
    for replications in (4, 16):
        yield found | {"simulated": _simulated_path(law, load, state, replications)}


@lru_cache(maxsize=64)
def _simulated_path(law, load, state, replications):
    work = initial_work(state, 10_000)
    return jiq.simulate_path(work, law, load, _TIMES[1:], _LEVELS, replications=replications, seed=1)


def draw_fluid(board, result):
    """Draw the distance to x* and the busy fraction against time, and the profile at one time."""
    law, load, path, row, simulated = (result[name] for name in ("law", "load", "path", "row", "simulated"))
    star = jiq.fixed_point(law, load, _LEVELS)
    blank = np.full((len(_TIMES), len(_LEVELS)), math.nan)
    value, half_width = blank.copy(), blank.copy()
    if simulated is not None:
        value[1:], half_width[1:] = simulated.value, simulated.half_width
    panel = board["distance"]
    panel.describe("Distance to the fixed point", "$t$", "largest $|x_w(t) - x^*_w|$", yscale="log")
    away, noisy = np.max(abs(path.profile - star), axis=1), np.max(abs(value - star), axis=1)
    panel.line("mean of simulated paths, n = 10⁴", _TIMES, noisy, "simulation")
    panel.line("fluid path (beyond the paper)", _TIMES, np.maximum(away, 1e-12), "exact")
    panel.line("this time", [_TIMES[row]] * 2, [1e-9, 10.0], "wall")
    panel.limits(x=(0.0, _TIMES[-1]), y=(1e-4, 200.0), now=True)
    panel = board["busy"]
    panel.describe("Busy fraction", "$t$", "$x_0(t)$")
    panel.line("mean of $x^n_0$, n = 10⁴ (95 %)", _TIMES, value[:, 0], "simulation")
    panel.band(
        "mean of $x^n_0$, n = 10⁴ (95 %)", _TIMES, value[:, 0] - half_width[:, 0], value[:, 0] + half_width[:, 0]
    )
    panel.line("fluid path", _TIMES, path.profile[:, 0], "exact")
    panel.line("λ", _TIMES, load + 0 * _TIMES, "limit")
    panel.limits(x=(0.0, _TIMES[-1]), y=(0.0, 1.6), now=True)
    panel = board["profile"]
    panel.describe("Profile at the time of the slider", "$w$", "$x_w(t)$")
    panel.line("simulated, n = 10⁴ (95 %)", _LEVELS, value[row], "simulation")
    panel.band("simulated, n = 10⁴ (95 %)", _LEVELS, value[row] - half_width[row], value[row] + half_width[row])
    panel.line("fluid path", _LEVELS, path.profile[row], "exact")
    panel.line("$x^*$", _LEVELS, star, "limit")
    panel.limits(x=(0.0, _LEVELS[-1]), y=(0.0, 1.6), now=True)
    panel.note(f"t = {_TIMES[row]:.4g}\ngrid error ≲ {path.error:.1g}", x=0.97, y=0.55)
    board["busy"].note(lemmas(result["state"], load), x=0.97, y=0.02)
    for name in ("distance", "busy", "profile"):
        board[name].legend("upper right")


def fluid_figure(law, load, state, time=1.0):
    """Return the static figure of `draw_fluid`."""
    row = int(np.argmin(abs(_TIMES - time)))
    found = {"law": law, "load": load, "state": state, "row": row, "path": _fluid(law, load, state)}
    found["simulated"] = _simulated_path(law, load, state, 4)
    return Board([["distance", "busy", "profile"]], aspect=0.9).draw(draw_fluid, found)


def explore_fluid():
    """Explore fluid paths from bad states, with simulated ones."""
    return explore.Explorer(
        "jiq-fluid",
        {
            "load": explore.real_slider("load λ", 0.45, 0.02, 0.98),
            **_law_controls(),
            "state": explore.choice("start", list(STATES)),
            "row": explore.player("time t × 8", len(_TIMES)),
        },
        _fluid_result,
        draw_fluid,
        [["distance", "busy", "profile"]],
        aspect=0.9,
    )


# ---- insensitivity and its price ---------------------------------------------------------------------------

_FAMILY_OF_LAWS = (
    *SIX[2:3], laws.erlang(4), laws.uniform(), SIX[0], SIX[5], laws.weibull(0.5), *SIX[3:4], *SIX[1:2], SIX[4],
)  # fmt: skip
_NAMES = ("const.", "Erlang(4)", "uniform", "exp.", "lattice", "Weibull(½)", "lognorm.(4)", "hyper(8)", "Pareto(1.5)")


def _insensitivity(load, n):
    found, n = {}, round(n)
    for arrivals in (30_000, 300_000, 3_000_000):
        for k, law in enumerate(_FAMILY_OF_LAWS):
            run = workload.simulate_workload(
                n, load, policies.jiq(), law, arrivals=arrivals + 4 * n, replications=8, seed=1, progress=False
            )
            found[k] = [run.wait_probability, run.busy_variance, run.two_or_more]
            if k == len(_FAMILY_OF_LAWS) - 1 or arrivals > 30_000:
                yield {"load": load, "n": n, "estimates": [found[j] for j in range(len(_FAMILY_OF_LAWS))]}


def draw_insensitivity(board, result):
    """Draw P(wait), the variance of the busy fraction and the fraction with two or more jobs for all laws."""
    load, n, x = result["load"], result["n"], np.arange(len(_NAMES))
    for k, (name, title, reference) in enumerate((
        ("wait", "P(wait)", None),
        ("variance", "$n$ Var of the busy fraction", load),
        ("two", "Fraction with two or more jobs", None),
    )):  # fmt: skip
        panel, scale = board[name], n if name == "variance" else 1
        if not panel.axes.get_title():
            panel.axes.set_xticks(x, _NAMES, rotation=60, ha="right")
        panel.describe(title, "", "", yscale="log")
        estimates = [row[k] for row in result["estimates"]]
        value, high = (scale * np.array([getattr(e, part) for e in estimates]) for part in ("value", "high"))
        seen = np.array([e.low > 0.0 for e in estimates])
        panel.points("simulated (95 %)", x[seen], value[seen], (high - value)[seen], marker="o")
        panel.points("upper limit", x[~seen], high[~seen], color="black", marker="v", markerfacecolor="white")
        if reference:
            panel.line("λ: Poisson, infinitely many servers", x[[0, -1]], [reference] * 2, "limit")
        panel.limits(x=(-0.6, len(x) - 0.4), y=((1e-6, 2.0), (0.01, 5.0), (1e-7, 2.0))[k], now=True)
        panel.legend("lower left")
    board["wait"].note(f"λ = {load:.3g}, n = {n}", x=0.97, y=0.95)


def explore_insensitivity():
    """Explore what the service law changes at finite n; the mean busy fraction is the load for all of them."""
    return explore.Explorer(
        "jiq-insensitivity",
        {"load": explore.real_slider("load λ", 0.8, 0.02, 0.98), "n": explore.log_slider("servers n", 100, 1, 10_000)},
        _insensitivity,
        draw_insensitivity,
        [["wait", "variance", "two"]],
        aspect=1.0,
    )


# ---- JIQ, JSQ(2), random -----------------------------------------------------------------------------------

_POLICIES = {"JIQ": policies.jiq(), "JSQ(2)": policies.jsq_d(2, replacement=True), "random": policies.random()}
_ROLES = {"JIQ": "exact", "JSQ(2)": "third", "random": "second"}


def messages(name, simulation):
    """Return the messages per arrival of a policy.

    Under JIQ a server reports when it becomes idle. In equilibrium that happens as often as an arrival goes to an
    idle server: ``1 - P(arrival finds no idle server)`` messages per arrival, at most one. Under JSQ(d) the
    dispatcher asks d servers and hears d answers.
    """
    if name == "JIQ":
        return 1.0 - simulation.all_busy.value
    return _POLICIES[name].messages(simulation.n_servers)


def _comparison(load, family, parameter):
    law, found = _law(family, parameter), {}
    for arrivals in (60_000, 600_000, 3_000_000):
        for name, policy in _POLICIES.items():
            found[name] = workload.simulate_workload(
                500, load, policy, law, work=_WORK * law.mean, arrivals=arrivals, replications=8, seed=1, progress=False
            )
        yield {"law": law, "load": load, "simulations": dict(found)}


def draw_comparison(board, result):
    """Draw the profiles under three policies at one load, and the waits beside the messages they cost."""
    law, load, simulations = result["law"], result["load"], result["simulations"]
    panel, chosen = board["profile"], _WORK > 0.0
    panel.describe("500 servers", "$w$", "fraction of servers with work $> w$", xscale="log", yscale="log")
    for name, simulation in simulations.items():
        value, half_width = simulation.profile.value[chosen], simulation.profile.half_width[chosen]
        panel.line(name, _WORK[chosen], value, _ROLES[name])
        panel.band(name, _WORK[chosen], np.maximum(value - half_width, 1e-12), value + half_width, _ROLES[name])
    panel.line("$x^*$", _WORK[chosen], jiq.fixed_point(law, load, _WORK[chosen] * law.mean), "limit")
    panel.limits(x=(0.02, 200.0), y=(1e-5, 1.5), now=True)
    panel.legend("lower left")
    panel.note(f"{law}, λ = {load:.3g}", x=0.97, y=0.95)
    panel = board["messages"]
    panel.describe("P(wait) against messages", "messages per arrival", "P(arrival waits)", yscale="log")
    for name, simulation in simulations.items():
        wait = simulation.wait_probability
        look = {"color": {"JIQ": _COLOURS[0], "JSQ(2)": _COLOURS[2], "random": _COLOURS[5]}[name], "markersize": 8}
        limit = wait.low <= 0.0
        look |= {"marker": "v", "markerfacecolor": "white"} if limit else {"marker": "o"}
        half = 0.0 if limit else wait.half_width
        panel.points(name, [messages(name, simulation)], [wait.high if limit else wait.value], [half], **look)
    panel.limits(x=(-0.3, 4.3), y=(1e-7, 2.0), now=True)
    panel.legend("lower right")


def explore_comparison():
    """Explore JIQ against JSQ(2) and random routing, with the messages of each."""
    return explore.Explorer(
        "jiq-comparison",
        {"load": explore.real_slider("load λ", 0.8, 0.02, 0.98), **_law_controls()},
        _comparison,
        draw_comparison,
        [["profile", "messages"]],
    )


# ---- independence ------------------------------------------------------------------------------------------

_PAIR = np.linspace(0.0, 2.9, 30)


@lru_cache(maxsize=256)
def _pair(law, load, n, replications):
    return jiq.pair_excess(n, law, load, _PAIR * law.mean, replications=replications, seed=1)


def _independence(load, n, family, parameter):
    law, n, sizes = _law(family, parameter), round(n), (10, 30, 100, 300, 1000, 3000)
    for replications in (8, 32, 64):
        chosen = _pair(law, load, n, replications)
        rows = [_pair(law, load, size, min(replications, 32)) for size in sizes]
        yield {"law": law, "load": load, "n": n, "sizes": sizes, "rows": rows, "pair": chosen}


def draw_independence(board, result):
    """Draw joint tail minus product for two tagged servers, and its largest value against n."""
    n, pair = result["n"], result["pair"]
    panel = board["joint"]
    panel.describe("$n\\,[P(W_1>a, W_2>b) - P(W_1>a)P(W_2>b)]$", "$10a$ (mean service times)", "$10b$")
    panel.heat("n × (joint − product)", n * pair.value, -0.5, 0.5)
    panel.limits(x=(-0.5, 29.5), y=(-0.5, 29.5), now=True)
    panel = board["sizes"]
    panel.describe("Corollary 3: joint law → product", "$n$", "largest |joint − product|", xscale="log", yscale="log")
    sizes = np.array([*result["sizes"], n])
    estimates = [*result["rows"], pair]
    largest = np.array([np.max(abs(e.value)) for e in estimates])
    half = np.array([e.half_width.flat[np.argmax(abs(e.value))] for e in estimates])
    panel.points("simulated (95 % at the largest)", sizes[:-1], largest[:-1], half[:-1], marker="o")
    panel.points("n of the slider", sizes[-1:], largest[-1:], half[-1:], "exact", markersize=7)
    panel.line("1/n, for the eye", np.array([8.0, 4000.0]), 0.3 / np.array([8.0, 4000.0]), "wall")
    panel.limits(x=(8.0, 4000.0), y=(1e-5, 1.0), now=True)
    panel.legend("lower left")
    panel.note(
        f"{result['law']}, λ = {result['load']:.3g}, n = {n}\nP(W₁>0, W₂>0) − λ² = {_number(_first(pair))}",
        x=0.97,
        y=0.95,
    )


def _first(estimate):
    return Estimate(estimate.value[0, 0], estimate.half_width[0, 0])


def explore_independence():
    """Explore how nearly independent two tagged servers are."""
    return explore.Explorer(
        "jiq-independence",
        {
            "load": explore.real_slider("load λ", 0.6, 0.02, 0.9),
            "n": explore.log_slider("servers n", 100, 10, 3000),
            **_law_controls(),
        },
        _independence,
        draw_independence,
        [["joint", "sizes"]],
    )


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
    with open(path, encoding="utf-8-sig") as file:
        cells = [line.split(",", 1)[0].strip().strip('"') for line in file]
    heading = bool(cells) and not _is_number(cells[0])
    numbers = [(row, cell) for row, cell in enumerate(cells, 1) if cell and not (heading and row == 1)]
    if not numbers:
        raise ValueError(f"{path} holds no service times; it must have one number >= 0 in each row")
    for row, cell in numbers:
        if not _is_number(cell) or not 0.0 <= float(cell) < math.inf:
            raise ValueError(f"row {row} of {path} holds {cell!r}; a service time must be a finite number >= 0")
    return laws.empirical([float(cell) for _, cell in numbers])


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def describe_law(law):
    """Return sentences about an empirical law: mean, cv², tail. Nothing is fitted."""
    values, weights = law.values, law.probabilities
    upto = np.cumsum(weights)
    quantiles = [values[min(np.searchsorted(upto, q), values.size - 1)] for q in (0.5, 0.9, 0.99)]
    top = 1.0 - upto < 0.01
    work = float(values[top] @ weights[top]) / law.mean
    return (
        f"{law}: {values.size} different values, stretched to mean {law.mean:.6g}; cv² = {law.cv2:.4g}.\n"
        f"Median {quantiles[0]:.4g}, 90 % below {quantiles[1]:.4g}, 99 % below {quantiles[2]:.4g}, "
        f"largest {values[-1]:.4g}.\n"
        f"The largest hundredth of the jobs brings {100 * work:.3g} % of the work. Beyond the largest value this law "
        "has no tail: what a heavier tail would do, the data cannot say."
    )
