"""The pictures of notebook 02: Join-Idle-Queue with general service (paper B)."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from zlib import crc32

import numpy as np
from scipy.stats import gamma, poisson

from lbcore import simulate, theory
from lbcore.chance import laws
from lbcore.pictures.law_menu import CLASSES, LAW, LAWS, chosen_law, proved_by
from lbcore.show.picture import figure, picture
from lbcore.show.plots import Plot, band, choice, guide, heat, line, log_slider, player, points, real_slider
from lbcore.simulate import policies
from lbcore.simulate.results import Estimate

_LOAD = real_slider("load λ", 0.8, 0.02, 0.98)
_LINEAR = np.linspace(0.0, 6.0, 61)
_WORK = np.union1d(_LINEAR, np.geomspace(0.02, 1000.0, 70))
_START = {True: "infinite-server", False: "empty"}  # the first only of JIQ with infinite buffers
_LIMIT = {"marker": "v", "markersize": 4.5, "markerfacecolor": "white"}  # upper limits


@lru_cache(maxsize=64)
def _theory(law, load):
    """Return x* and x** (and its proved error) at `_WORK`."""
    tail = theory.workload_tail(law, load, _WORK, tolerance=1e-3)
    return theory.fixed_point(law, load, _WORK), *(part / (load * (1 - load)) for part in (tail.tail, tail.error))


def _number(estimate):
    value, half, high = estimate.value, estimate.half_width, estimate.high
    return f"{value:.3g} ± {half:.1g}" if value else f"0 seen, < {high:.1g}"


def _mean(name, x, estimate, chosen=..., who="jiq"):
    """Return the curve of an Estimate and its band; None, and what is not known, leave room for it."""
    value, half = np.full((2, len(x)), math.nan)
    if estimate is not None:
        value, half = estimate.value[chosen], np.minimum(estimate.half_width[chosen], 1.0)
    curve = line(name, x, np.where(value > 0.0, value, math.nan), who, "simulated")
    return [curve, band(name, x, np.maximum(value - half, 1e-12), value + half, who)]


# ---- the fixed point ---------------------------------------------------------------------------------------

ARRIVALS = {
    "Poisson": None, "renewal, Erlang(4)": laws.erlang(4), "renewal, hyperexponential(4)": laws.hyperexponential(4),
}  # fmt: skip
BUFFERS = {  # functions of which servers are in the first half
    "infinite": lambda first: None,
    "2 jobs at every server": lambda first: 2,
    "1 at half, infinite at half": lambda first: np.where(first, 1, 1 << 30),
}
BIAS = {
    "none": lambda first: None,
    "half of the servers chosen 3 times as often": lambda first: np.where(first, 3.0, 1.0),
}


@picture(
    "jiq-fixed-point", panels=(2,), load=_LOAD, n=log_slider("servers n", 10, 1, 1_000_000), **LAW,
    arrivals=choice("arrivals (§6)", ARRIVALS), buffers=choice("buffers (§6)", BUFFERS), bias=choice("bias (§6)", BIAS),
)  # fmt: skip
def fixed_point(load, n, family, parameter, arrivals, buffers, bias):
    """x*, the bound x** and the simulated mean profile with its band, on linear and on logarithmic axes."""
    law, n = chosen_law(family, parameter), round(n)
    first, infinite = np.arange(n) < (n + 1) // 2, buffers == "infinite"
    proved = infinite and arrivals == "Poisson"
    yield _profiles(law, load, n, proved, None)
    for simulation in simulate.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK, seed=1, live=True,
        arrivals=3_000_000 + 40 * n, replications=16 if n <= 10_000 else 4, interarrival=ARRIVALS[arrivals],
        buffers=BUFFERS[buffers](first), weights=BIAS[bias](first), start=_START[infinite],
    ):  # fmt: skip
        yield _profiles(law, load, n, proved, simulation)


def _profiles(law, load, n, proved, simulation):
    """Return both plots of the fixed point; x** is `proved` to be a bound or not."""
    star, bound, error = _theory(law, load)
    wait, lost = "simulating ...", ""
    if simulation is not None:
        wait = f"P(wait) = {_number(simulation.wait_probability)}{'' if simulation.believable else '; short run'}"
        lost = f"; lost {_number(simulation.lost)}" if "lost" in simulation.estimates else ""
    status = f"bound drawn within {error.max():.1g}" if proved else "bound not proved here"

    def plot(title, chosen, **axes):
        w = _WORK[chosen]
        marks = [
            line("$x^{**}_w$: bound for every n (Lemma 4)", w, bound[chosen], "bound", error=error.max()),
            *_mean("mean of $x^n_w$, simulated (95 %)", w, simulation and simulation.profile, chosen),
            line("$x^*_w$: limit, n → ∞", w, star[chosen], "limit"),
        ]
        return Plot(title, "$w$ (mean service times)", "fraction of servers with work $> w$", marks, now="xy", **axes)

    about = f"{law}, λ = {load:.3g}, n = {n}\n{proved_by(law, load)}\n{wait}\n{status}{lost}"
    near, high = np.isin(_WORK, _LINEAR), 1.4 if load > 0.5 else 0.7
    linear = plot("Fixed point, bound, simulation", near, x=(0, 6), y=(0, high), legend="", note=about, at=(0.97, 0.98))
    return [[linear, plot("The same, tails", _WORK > 0.0, x=(0.02, 1000), y=(1e-7, 30), log="xy")]]


# ---- convergence -------------------------------------------------------------------------------------------

SIX = ("exponential", "hyperexp.(8)", "deterministic", "lognormal(4)", "Pareto(1.5)", "lattice on 0, 1, 5")
LOADS = {0.3: "#0072B2", 0.45: "#009E73", 0.6: "#E69F00", 0.8: "#D55E00", 0.95: "#CC79A7"}  # and colours
SIZES = (1, 2, 10, 30, 100, 300, 1000, 10_000, 100_000, 1_000_000)
QUANTITIES = {  # with title, label and range
    "wait": ("P(wait)", "P(arrival waits)", (1e-6, 2.0)),
    "distance": ("Distance of the mean profile", "largest $E x^n_w - x^*_w$", (1e-6, 2.0)),
    "mean": ("Mean wait", "mean wait (mean service times)", (1e-6, 100.0)),
}
_EXACT = {"color": "black", "marker": "D", "markersize": 6.5, "markerfacecolor": "none"}
_MANY = np.unique(np.geomspace(1, 2_000_000, 120).round())


@lru_cache(maxsize=1024)
def measured(law, load, n, arrivals=300_000):
    """Return P(wait), distance and mean wait, rows of (value, low, high), of JIQ with `n` servers, simulated.

    Each case has its own seed, so that errors of neighbouring points are independent. The distance is the largest of
    ``E x^n_w - x*_w``, over the levels `_WORK`. Its interval ends at the largest ends of theirs: exact for a long run,
    as these levels move together near the largest.
    """
    replications = 8 if n < 100_000 else 2
    found = simulate.simulate_workload(
        n, load, policies.jiq(), law, work=_WORK, start="infinite-server", replications=replications, threads=1,
        arrivals=int(max(replications * load * n, (1 + 1 / n) * arrivals)), progress=False,
        seed=crc32(f"{law}, {load}, {n}".encode()),
    )  # fmt: skip
    unseen = found.excess.half_width[0] / load  # at w = 0: what waits not seen may amount to
    rows = (found.wait_probability, unseen), (found.excess, 0.0), (found.mean_wait, unseen)
    rows = [(e.value, np.maximum(e.half_width, least)) for e, least in rows]
    return np.array([[np.max(part) for part in (value, value - half, value + half)] for value, half in rows])


@lru_cache(maxsize=64)
def exact_points(law, load):
    """Return what is known exactly, by n: (P(wait), distance, mean wait).

    One server is M/G/1 (Pollaczek and Khinchine). The law of two with exponential service was solved in notebook 01;
    a server with k jobs has Erlang(k) work.
    """
    star, bound, _ = _theory(law, load)
    away = load * (1 - load) * bound - star
    known = {1: (load, float(away.max()), load * (1 + law.cv2) / (2 * (1 - load)))}
    if law.name == "exponential()":
        two = theory.two_server_law(2 - 2 * load, 1, tolerance=1e-9)
        queue = two.marginals[1:]
        away = queue @ gamma.sf(_LINEAR, np.arange(1, queue.size + 1)[:, None]) - load * np.exp(-_LINEAR)
        both = 1 - 2 * two.marginals[0] + two.empty_row[0]
        known[2] = (float(both), float(away.max()), two.mean_wait)
    return known


def loss_formula(load, n):
    """Return Erlang's loss formula for arrays `n`: P(wait) comes down to it from above as n grows, unproved.

    While nobody waits the number of busy servers is that of infinitely many, for every law; conditioned to be at
    most n it is that of Erlang's loss system. What waits adds to it, the less the rarer.
    """
    return np.exp(poisson.logpmf(n, load * n) - poisson.logcdf(n, load * n))


def _against_n(name, law, load, rows, which, color, **legend):
    """Return marks of what is `measured`, in `rows` by n, with upper limits where the interval reaches 0."""
    k, n = list(QUANTITIES).index(which), np.array(list(rows), float)
    unknown = math.nan if which == "mean" and math.isinf(law.cv2) else 1.0
    value, low, high = unknown * np.array([row[k] for row in rows.values()]).T
    known, exact = zip(*((size, unknown * row[k]) for size, row in exact_points(law, load).items()), strict=True)
    seen = low > 1e-3 * value  # below, the interval reaches 0 for all that can be seen
    look = {"color": color, "linestyle": CLASSES[proved_by(law, load)], "marker": "o", "markersize": 3.5}
    return [
        line(name, n[seen], value[seen], "jiq", "simulated", **look),
        band(name, n[seen], low[seen], high[seen], "guide"),
        points(f"{name}, upper limit", n[~seen], high[~seen], None, "jiq", color=color, **_LIMIT, **legend),
        points(f"{name}, exact" if legend else "exact", known, exact, None, "jiq", "exact", **_EXACT, **legend),
    ]


def _erlang(name="Erlang's loss formula (heuristic)", load=None, **more):
    """Return the curve of Erlang's loss formula; without a load, its entry in a legend."""
    curve = ([], []) if load is None else (_MANY, loss_formula(load, _MANY))
    return line(name, *curve, "limit", "heuristic", linestyle="-", linewidth=0.7, **more)


def convergence_figure(which="wait", sizes=SIZES):
    """Return a static figure of one of `QUANTITIES` against n: one panel a law, one colour a load."""
    cases = [(LAWS[law], load, n) for n in sizes[::-1] for law in SIX for load in LOADS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: measured(*case), cases))
    plots = [_all_loads(name, which, sizes) for name in SIX]
    return figure([plots[:3], plots[3:]], aspect=0.9, text=f"{QUANTITIES[which][0]} against n for six laws")


def _all_loads(name, which, sizes):
    (_, ylabel, y), law, marks, loss = QUANTITIES[which], LAWS[name], [], which == "wait"
    about = ", DHR" if law.decreasing_hazard_rate else ", infinite variance" if math.isinf(law.cv2) else ""
    for load, color in LOADS.items():
        marks += [_erlang(f"λ = {load}, Erlang", load, color=color, named=False)] * loss
        rows = {n: measured(law, load, n) for n in sizes}
        marks += _against_n(f"λ = {load}", law, load, rows, which, color, named=False)
    marks += [line(of, [], [], "guide", linestyle=style, color="black") for of, style in CLASSES.items()]
    marks += [points("upper limit (95 %)", [], [], None, "jiq", color="black", **_LIMIT)]
    marks += [points("exact (n = 1, 2)", [], [], None, "jiq", "exact", **_EXACT), *[_erlang()] * loss]
    return Plot(name + about, "$n$", ylabel, marks, (0.7, 2e6), y, legend="below", columns=5, log="xy")


@picture("jiq-convergence", panels=(3,), aspect=0.9, load=_LOAD, **LAW)
def convergence(load, family, parameter):
    """P(wait), distance of the mean profile and mean wait against n, simulated, with exact points for n = 1, 2."""
    law, rows = chosen_law(family, parameter), {}
    about = {  # further marks and the note; the legend stands with the mean, where nothing lies behind it
        "wait": ([_erlang(load=load)], ""),
        "distance": ([], f"{law}\nλ = {load:.3g}\n{proved_by(law, load)}"),
        "mean": ([_erlang()], "infinite for every n: not shown" if math.isinf(law.cv2) else ""),
    }
    for arrivals in (60_000, 300_000):
        for n in SIZES:
            if n <= 1000 or arrivals > 60_000:
                rows[n] = measured(law, load, n, arrivals)
                yield [[_one_load(law, load, rows, which, *more) for which, more in about.items()]]


def _one_load(law, load, rows, which, more, note):
    title, ylabel, (low, high) = QUANTITIES[which]
    marks = [*_against_n("simulated", law, load, rows, which, "#CC79A7"), *more]
    legend = "lower left" if which == "mean" else ""
    return Plot(title, "$n$", ylabel, marks, (0.7, 2e6), (1e-2 * low, high), legend=legend, note=note, log="xy")


# ---- fluid paths -------------------------------------------------------------------------------------------

STATES = {  # the work of servers at the places p, between 0 and 1
    "all busy, equal work 2": lambda p: 2.0 + 0.0 * p,
    "half overloaded: 0.5 and 8": lambda p: np.where(p < 0.5, 0.5, 8.0),
    "90 % overloaded: idle and 8": lambda p: np.where(p < 0.1, 0.0, 8.0),
    "all busy, work spread over 0 to 4": lambda p: 4.0 * p,
    "empty": lambda p: 0.0 * p,
}
_TIMES, _LEVELS = np.linspace(0.0, 16.0, 129), np.linspace(0.0, 8.5, 137)


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
    return theory.fluid_path(law, load, initial_profile(state), _TIMES, _LEVELS, step=1 / 32)


@lru_cache(maxsize=64)
def _simulated_path(law, load, state, replications):
    """Return the mean profiles of 10^4 servers at `_TIMES`; nothing at time 0, which is known."""
    work = initial_work(state, 10_000)
    found = simulate.simulate_path(work, law, load, _TIMES[1:], _LEVELS, replications=replications, seed=1)
    return Estimate(*(np.insert(part, 0, np.nan, axis=0) for part in (found.value, found.half_width)))


@picture(
    "jiq-fluid", panels=(3,), aspect=0.9, load=real_slider("load λ", 0.45, 0.02, 0.98), **LAW,
    state=choice("start", STATES), row=player("time t × 8", len(_TIMES)),
)  # fmt: skip
def fluid(load, family, parameter, state, row):
    """Distance to x* and busy fraction against time, and the profile at one time: fluid path and simulation."""
    law = chosen_law(family, parameter)
    for replications in (0, 4, 16):
        simulated = replications and _simulated_path(law, load, state, replications)
        yield [_fluid_plots(law, load, state, row, simulated or None)]


def _fluid_plots(law, load, state, row, simulated):
    path, star = _fluid(law, load, state), theory.fixed_point(law, load, _LEVELS)
    fluid, seen, away = ("limit", "heuristic"), "simulated mean, n = 10⁴ (95 %)", np.full(len(_TIMES), math.nan)
    if simulated is not None:
        away = np.max(abs(simulated.value - star), axis=1)
    distance = [
        line("fluid path (heuristic)", _TIMES, np.maximum(np.max(abs(path.profile - star), axis=1), 1e-12), *fluid),
        line("simulated mean, n = 10⁴", _TIMES, away, "jiq", "simulated"), guide("time of the slider", x=_TIMES[row]),
    ]  # fmt: skip
    busy = [
        line("fluid path", _TIMES, path.profile[:, 0], *fluid), *_mean(seen, _TIMES, simulated, np.s_[:, 0]),
        guide("λ", y=load, who="limit"),
    ]  # fmt: skip
    profile = [
        line("fluid path", _LEVELS, path.profile[row], *fluid), *_mean(seen, _LEVELS, simulated, row),
        line("$x^*$", _LEVELS, star, "limit"),
    ]  # fmt: skip
    about = f"{law}, λ = {load:.3g}\nt = {_TIMES[row]:.4g}\ngrid error ≲ {path.error:.1g}"
    more = {"legend": "upper right", "now": "xy"}
    return [
        Plot("Distance to the fixed point", "$t$", "largest $|x_w(t) - x^*_w|$", distance, (0, 16), (1e-4, 200),
             log="y", **more),
        Plot("Busy fraction", "$t$", "$x_0(t)$", busy, (0, 16), (0, 1.6), note=lemmas(state, load), at=(0.97, 0.02),
             **more),
        Plot("Profile at the time of the slider", "$w$", "$x_w(t)$", profile, (0, 8.5), (0, 1.6), note=about,
             at=(0.97, 0.6), **more),
    ]  # fmt: skip


# ---- insensitivity and its price ---------------------------------------------------------------------------


def _runs(load, n, cases, **options):
    """Yield the simulations of several cases, pairs of policy and law by name, ever better."""
    runs = {}
    for arrivals in (30_000, 300_000, 3_000_000):
        for name, (policy, law) in cases.items():
            runs[name] = simulate.simulate_workload(
                n, load, policy, law, arrivals=arrivals + 4 * n, replications=8, seed=1, progress=False,
                start=_START[policy.uses_threshold], **options,
            )  # fmt: skip
            if len(runs) == len(cases):
                yield dict(runs)


@picture("jiq-insensitivity", panels=(3,), aspect=1.0, load=_LOAD, n=log_slider("servers n", 100, 1, 10_000))
def insensitivity(load, n):
    """P(wait), the variance of the busy fraction and the fraction with two or more jobs, for all laws."""
    n = round(n)
    about, limit = f"λ = {load:.3g}, n = {n}", guide("λ: infinitely many servers", y=load, who="limit")
    for runs in _runs(load, n, {name: (policies.jiq(), law) for name, law in LAWS.items()}):
        names = ("wait_probability", "busy_variance", "two_or_more")
        wait, variance, two = ([getattr(run, name) for run in runs.values()] for name in names)
        yield [[
            _all_laws("P(wait)", wait, y=(1e-6, 2), note=about),
            _all_laws("$n$ Var of the busy fraction", variance, n, limit, y=(0.01, 5)),
            _all_laws("Fraction with two or more jobs", two, y=(1e-7, 2)),
        ]]  # fmt: skip


def _all_laws(title, estimates, scale=1, *more, **axes):
    value, low, high = (scale * np.array([getattr(e, part) for e in estimates]) for part in ("value", "low", "high"))
    x, seen = np.arange(len(LAWS)), low > 0.0
    marks = [
        points("simulated (95 %)", x[seen], value[seen], (high - value)[seen], "jiq"),
        points("upper limit", x[~seen], high[~seen], None, "jiq", color="black", **_LIMIT),
    ]
    return Plot(title, "", "", [*marks, *more], (-0.6, len(x) - 0.4), log="y", ticks=tuple(LAWS), **axes)


# ---- JIQ, JSQ(2), random -----------------------------------------------------------------------------------

_POLICIES = {  # and whose colours they have
    "JIQ": (policies.jiq(), "jiq"),
    "JSQ(2)": (policies.jsq_d(2, replacement=True), "jsq_d"),
    "random": (policies.random(), "random"),
}


def messages(name, simulation):
    """Return the messages per arrival of a policy; under JIQ a server reports when it becomes idle.

    In equilibrium that happens as often as an arrival goes to an idle server: at most once per arrival.
    """
    return 1.0 - simulation.all_busy.value if name == "JIQ" else _POLICIES[name][0].messages(simulation.n_servers)


@picture("jiq-comparison", panels=(2,), load=_LOAD, n=log_slider("servers n", 500, 2, 5000), **LAW)
def comparison(load, n, family, parameter):
    """The profiles under three policies at one load, and the waits beside the messages they cost."""
    law, n, far = chosen_law(family, parameter), round(n), _WORK > 0.0
    limit = line("$x^*$", _WORK[far], _theory(law, load)[0][far], "limit")
    cases = {name: (policy, law) for name, (policy, _) in _POLICIES.items()}
    for runs in _runs(load, n, cases, work=_WORK):
        profiles, costs = [], []
        for name, (_, who) in _POLICIES.items():
            profiles += _mean(name, _WORK[far], runs[name].profile, far, who)
            x, wait = messages(name, runs[name]), runs[name].wait_probability
            seen = wait.low > 0.0
            costs += [
                points(name, x, wait.value if seen else math.nan, wait.half_width, who, markersize=8),
                points(f"{name}, upper limit", x, math.nan if seen else wait.high, None, who, **_LIMIT),
            ]
        yield [[
            Plot(
                "Mean profile (95 %)", "$w$", "fraction of servers with work $> w$", [*profiles, limit],
                x=(0.02, 200), y=(1e-5, 1.5), log="xy", note=f"{law}\nλ = {load:.3g}, n = {n}"),
            Plot(
                "P(wait) against messages", "messages per arrival", "P(arrival waits)", costs,
                x=(-0.3, 4.3), y=(1e-7, 2), legend="lower right", log="y"),
        ]]  # fmt: skip


# ---- independence ------------------------------------------------------------------------------------------

_PAIR = np.linspace(0.0, 2.9, 30)


@lru_cache(maxsize=256)
def _pair(law, load, n, replications):
    return simulate.pair_excess(n, law, load, _PAIR, replications=replications, seed=1)


@picture(
    "jiq-independence", panels=(2,), load=real_slider("load λ", 0.6, 0.02, 0.98),
    n=log_slider("servers n", 100, 10, 3000), **LAW,
)  # fmt: skip
def independence(load, n, family, parameter):
    """Joint tail minus product for two tagged servers, and its largest value against n."""
    law, n, found = chosen_law(family, parameter), round(n), {}
    for replications in (4, 16):
        pair = _pair(law, load, n, replications)
        yield _dependence(law, load, n, pair, found)
        for size in (10, 30, 100, 300, 1000, 3000):
            found[size] = _pair(law, load, size, replications)
            yield _dependence(law, load, n, pair, found)


def _dependence(law, load, n, pair, found):
    ends, origin = np.array([8.0, 4000.0]), _number(Estimate(pair.value[0, 0], pair.half_width[0, 0]))
    about = f"{law}, λ = {load:.3g}, n = {n}\nP(W₁>0, W₂>0) − λ² = {origin}"
    return [[
        Plot(
            "$n\\,[P(W_1>a, W_2>b) - P(W_1>a)P(W_2>b)]$", "$10a$ (mean service times)", "$10b$",
            [heat("n × (joint − product)", n * pair.value, -0.5, 0.5, "jiq", "simulated")],
            x=(-0.5, 29.5), y=(-0.5, 29.5)),
        Plot(
            "Corollary 3: joint law → product", "$n$", "largest |joint − product|",
            [_largest("simulated (95 % at the largest)", found), _largest("n of the slider", {n: pair}, markersize=7),
             line("0.3/n, for the eye", ends, 0.3 / ends, "guide")],
            x=tuple(ends), y=(1e-5, 1), log="xy", note=about),
    ]]  # fmt: skip


def _largest(name, found, **look):
    """Return points of the largest dependence of each number of servers, with its interval."""
    places = [(e, np.unravel_index(np.argmax(abs(e.value)), e.value.shape)) for e in found.values()]
    values, half = [abs(e.value[k]) for e, k in places], [e.half_width[k] for e, k in places]
    return points(name, list(found), values, half, "jiq", **look)
