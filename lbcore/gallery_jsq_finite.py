"""More pictures of notebook 03: finite systems, the central queue beside them, paths, hitting times (paper C)."""

import math
from functools import lru_cache

import numpy as np

from lbcore import explore, hitting, jsq, markov, mmn, paths, policies
from lbcore.figures import Board, nice

_ECONOMICS = [["wait", "chance"], ["ratio", "idle"]]
_LOADS = 41


@lru_cache(maxsize=64)
def _economics(n):
    """Return slacks and, for each, P(wait), mean wait and idle servers under JSQ, P(wait) and mean wait by Erlang.

    The exact chain loses jobs that find two at every server. Under true JSQ they would wait; simulations show that the
    mean wait then differs by a relative ``blocking / (wait (1 - load))``, about: values are left out where that is
    above 2 %.
    """
    high = min(5.8, 0.98 * math.sqrt(n))
    slacks = np.geomspace(0.02, high, _LOADS)
    rows = []
    for beta in slacks:
        law, load = jsq.finite_law(n, beta), 1 - beta / math.sqrt(n)
        trusted = law.blocking < 0.02 * law.mean_wait * (1 - load)
        ours = law.wait_probability, law.mean_wait, -law.mean_q1 * math.sqrt(n)
        rows.append((*(ours if trusted else (math.nan,) * 3), *mmn.erlang_wait(n, load)))
    return slacks, *np.array(rows).T


@lru_cache
def _limit_ratio():
    slacks = np.geomspace(0.02, 5.8, _LOADS)
    return slacks, np.array([jsq.diffusion_law(b).mean_q2 / mmn.halfin_whitt_law(b).mean_queue for b in slacks])


def draw_economics(board, result):
    """Draw waits and idle servers of JSQ and of the central queue against the load, and their ratio against beta."""
    n, load = result["n"], result["load"]
    slacks, chances, waits, idle, central_chances, central_waits = _economics(n)
    loads, root = 1 - slacks / math.sqrt(n), math.sqrt(n)
    beta = (1 - load) * root
    for name, title, label, ours, theirs in (
        ("wait", "Mean wait", "mean service times", waits, central_waits),
        ("chance", "Chance to wait", "P(wait)", chances, central_chances),
    ):
        panel = board[name]
        panel.describe(f"{title}: N servers at load ρ, exact", "$\\rho$", label, yscale="log")
        panel.line("JSQ (at most two jobs a server)", loads, ours)
        panel.line("M/M/N (Erlang)", loads, theirs, "other")
        here = [np.exp(np.interp(beta, slacks, np.log(v + 1e-300), math.nan, math.nan)) for v in (ours, theirs)]
        panel.line("this ρ", [load, load], [1e-12, 1e6], "wall")
        known = not math.isnan(here[0])
        shown = f"JSQ {here[0]:.3g},  M/M/N {here[1]:.3g}" if known else "two jobs a server do not suffice"
        panel.note(f"N = {n}, ρ = {load:.3f}:  {shown}", x=0.03, y=0.97)
        panel.limits(x=(0.3, 1.0), y=(1e-6, 1e3))
        panel.legend((0.02, 0.62))
    panel = board["ratio"]
    panel.describe(
        "Waiting jobs, JSQ over M/M/N   (Remark 3: 2)", "$\\beta$", "ratio of mean waiting jobs", xscale="log"
    )
    panel.line("this N (slider)", slacks, waits / np.maximum(central_waits, 1e-300), "third")
    panel.line("N = ∞, exact", *_limit_ratio())
    panel.line("2: β → 0", [0.02, 6.0], [2.0, 2.0], "limit")
    panel.line("this β", [beta, beta], [0.0, 6.0], "wall")
    panel.limits(x=(0.02, 6.0), y=(0.0, 6.0))
    panel.legend("upper left")
    panel = board["idle"]
    panel.describe("Idle servers: the same mean under both", "$\\rho$", "mean number of idle servers", yscale="log")
    panel.line("JSQ", loads, idle)
    panel.line("M/M/N: N(1 − ρ)", loads, n * (1 - loads), "other")
    panel.line("this ρ", [load, load], [0.0, 1e6], "wall")
    panel.note(f"β = {beta:.3g}:  {n * (1 - load):.3g} idle on average", x=0.97, y=0.97)
    panel.limits(x=(0.3, 1.0), y=(0.1, 1e3))
    panel.legend("lower left")


def economics_figure(n=100, load=0.9):
    """Return the static figure of `draw_economics`."""
    return Board(_ECONOMICS).draw(draw_economics, {"n": n, "load": load})


def explore_economics():
    """Explore what JSQ costs against one central queue, for N servers at load rho."""

    def compute(n, load):
        _economics(n := round(n))
        return {"n": n, "load": load}

    controls = {
        "n": explore.log_slider("servers N", 100, 10, 1000),
        "load": explore.real_slider("load ρ", 0.9, 0.3, 0.995, 0.005),
    }
    return explore.Explorer("jsq-economics", controls, compute, draw_economics, _ECONOMICS)


_FINITE = [["mean", "error"]]
_SIZES = np.array([10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000])


def draw_finite(board, result):
    """Draw exact laws at N servers against the diffusion, and their relative errors with slope -1/2."""
    beta, law = result["beta"], jsq.diffusion_law(result["beta"])
    n = np.array([finite.n_servers for finite in result["laws"]])
    means = {
        "E Q₂": (np.array([f.mean_q2 for f in result["laws"]]), law.mean_q2, "exact"),
        "√N P(wait)": (
            np.array([f.wait_probability * math.sqrt(f.n_servers) for f in result["laws"]]),
            law.mean_q2,
            "limit",
        ),
        "E Q₁²": (np.array([f.mean_q1_squared for f in result["laws"]]), law.mean_q1_squared, "other"),
    }
    panel, errors = board["mean"], board["error"]
    panel.describe("Exact chain over the diffusion", "$N$", "ratio", xscale="log")
    errors.describe("Relative error", "$N$", "|ratio − 1|", xscale="log", yscale="log")
    for name, (values, limit, role) in means.items():
        panel.line(name, n, values / limit, role)
        errors.line(name, n, abs(values / limit - 1), role)
    panel.line("1", [10, 1e6], [1, 1], "wall")
    last = abs(means["E Q₂"][0][-1] / law.mean_q2 - 1)
    errors.line("slope −1/2", [10, 1e6], last * np.sqrt(n[-1] / np.array([10, 1e6])), "wall")
    panel.note(f"β = {beta:.3g};  N ≤ {n[-1]};  cut at {max(f.truncation for f in result['laws']):.0e}")
    panel.limits(x=(10, 1e6), y=(0.0, 1.6))
    errors.limits(x=(10, 1e6), y=(1e-4, 2.0))
    panel.legend("upper left", columns=2)
    errors.legend("lower left")


def _finite(beta):
    """Yield exact laws at more and more servers."""
    laws = []
    for n in _SIZES:
        if beta < 0.9 * math.sqrt(n):
            laws.append(jsq.finite_law(int(n), beta))
        if n >= 10_000:
            yield {"beta": beta, "laws": tuple(laws)}


def finite_figure(beta=1.0):
    """Return the static figure of `draw_finite`."""
    *_, result = _finite(beta)
    return Board(_FINITE).draw(draw_finite, result)


def explore_finite():
    """Explore how fast N servers come close to the diffusion; large N are added while the slider rests."""
    controls = {"beta": explore.log_slider("slack β", 1.0, 0.05, 2.8)}
    return explore.Explorer("jsq-finite", controls, _finite, draw_finite, _FINITE)


_SCHEMES = {
    "JSQ": lambda n: policies.jsq(),
    "JIQ": lambda n: policies.jiq(),
    "JSQ(⌈√N log N⌉)": lambda n: policies.jsq_d(min(n, math.ceil(math.sqrt(n) * math.log(n)))),
    "JSQ(2)": lambda n: policies.jsq_d(2),
}
_ROLES = ("simulation", "third", "other", "exact")
_SIMULATED = (10, 100, 1000, 10_000)


def draw_schemes(board, result):
    """Draw simulated scaled Q2 and Q3 of several rules beside the exact chain and the diffusion."""
    beta, law, chain = result["beta"], jsq.diffusion_law(result["beta"]), result["chain"]
    for name, row, title, label in (
        ("two", 1, "Servers with two jobs or more", "$E\\,Q_2/\\sqrt{N}$"),
        ("three", 2, "Servers with three jobs or more", "$E\\,Q_3/\\sqrt{N}$"),
    ):
        panel = board[name]
        panel.describe(title, "$N$", label, xscale="log", yscale="log")
        if row == 1:
            panel.line("exact chain, at most two jobs", [f.n_servers for f in chain], [f.mean_q2 for f in chain])
            panel.line("diffusion", [5, 2e4], [law.mean_q2] * 2, "wall")
        for k, (rule, role) in enumerate(zip(_SCHEMES, _ROLES, strict=True)):
            shift = 1 + 0.06 * (k - 1.5)
            n = shift * np.array([size for size, _, _ in result[rule]])
            value = np.array([v[row] for _, v, _ in result[rule]])
            half = np.array([h[row] for _, _, h in result[rule]])
            shown = value > 0
            panel.points(rule, n[shown], value[shown], np.minimum(half, 0.9 * value)[shown], role)
        panel.limits(x=(5, 2e4), y=(1e-6, 1e3))
        panel.legend("lower left")
    board["two"].note(f"β = {beta:.3g};  {result['events']:.0e} events a point, 95 %", x=0.97, y=0.97)


def _schemes(beta):
    """Yield occupancies of the rules at several N, with ever more events."""
    sizes = [n for n in _SIMULATED if beta < 0.9 * math.sqrt(n)]
    result = {"beta": beta, "chain": tuple(jsq.finite_law(n, beta) for n in sizes)} | {rule: [] for rule in _SCHEMES}
    for events in (30_000, 300_000, 3_000_000, 30_000_000):
        result = result | {"events": events}
        for rule in _SCHEMES:
            found = []
            for n in sizes:
                policy = _SCHEMES[rule](n)
                run = markov.simulate_markov(
                    n, 1 - beta / math.sqrt(n), policy, events=events, replications=16, seed=1, progress=False
                )
                scaled = math.sqrt(n) * run.occupancy.value[:3], math.sqrt(n) * run.occupancy.half_width[:3]
                found.append((n, *scaled))
            result = result | {rule: found}
            if events > 30_000 or rule == "JSQ(2)":
                yield result


def explore_schemes():
    """Explore which simpler rules share the limit of JSQ, by simulation beside the exact chain."""
    controls = {"beta": explore.log_slider("slack β", 1.0, 0.2, 2.5)}
    return explore.Explorer("jsq-schemes", controls, _schemes, draw_schemes, [["two", "three"]])


_PATH = [["time"], ["plane"]]
_PATH_STEP, _FRAMES = 0.02, 300


@lru_cache(maxsize=32)
def _path(beta, seed):
    return paths.sample_path(beta, 1600.0, step=_PATH_STEP, seed=seed)


def draw_path(board, result):
    """Draw a path up to a moment: Q1, Q2 and L with the regeneration times, and where it has been in the plane."""
    path, end, width = result["path"], result["end"], result["width"]
    first = max(0, end - width)
    part = slice(first, end + 1, max(1, width // 2500))
    t, local = path.times[part], path.local_time - path.local_time[first]
    panel = board["time"]
    panel.describe("A path of the diffusion, with its regeneration times", "time, in mean service times", "level")
    panel.line("$Q_1$", t, path.q1[part])
    panel.line("$Q_2$", t, path.q2[part], "limit")
    panel.line("$L$, gained in this window, / 10", t, local[part] / 10, "other")
    times = path.regenerations[(path.regenerations >= path.times[first]) & (path.regenerations <= path.times[end])]
    panel.points("regeneration: Q₂ climbs to 2/β", times, np.full(times.shape, 2 / path.beta))
    panel.line("levels 1/β, 2/β", [0, 1e9, math.nan, 0, 1e9], np.array([1, 1, math.nan, 2, 2]) / path.beta, "wall")
    left, top = nice(-path.q1.min()), nice(path.q2.max())
    panel.limits(
        x=(path.times[first], path.times[first] + width * path.step), y=(-left, max(top, 0.5 * left)), now=True
    )
    panel.legend("upper right", columns=3)
    panel = board["plane"]
    panel.describe("The same in the plane: Q₂ climbs only at the wall", "$Q_1$", "$Q_2$")
    panel.line("path", path.q1[part], path.q2[part], "second")
    panel.marker("now", path.q1[end], path.q2[end])
    panel.line("wall", [0, 0], [0, 1e6], "wall")
    cycles = np.diff(path.regenerations)
    mean = (
        f"{cycles.mean():.3g} ± {1.96 * cycles.std() / math.sqrt(len(cycles)):.2g}"
        if len(cycles) > 9
        else "too few seen"
    )
    panel.note(f"β = {path.beta:.3g}:  mean cycle {mean}", x=0.03, y=0.95)
    panel.limits(x=(-left, 0.04 * left), y=(0, top), now=True)


def _watch(beta, speed, seed, frame):
    path = _path(beta, seed)
    width = int(30 / _PATH_STEP)
    return {
        "path": path,
        "end": min(len(path.times) - 1, width + round(frame * speed / 5 / _PATH_STEP)),
        "width": width,
    }


def explore_path():
    """Watch a path of the diffusion; speed is in mean service times a second (five frames)."""
    controls = {
        "beta": explore.log_slider("slack β", 1.0, 0.2, 4.0),
        "speed": explore.whole_slider("speed", 5, 1, 25),
        "seed": explore.whole_slider("seed", 1, 1, 50),
        "frame": explore.player("play", _FRAMES),
    }
    return explore.Explorer("jsq-path", controls, _watch, draw_path, _PATH, aspect=0.34)


_HITTING = [["fall", "wall"], ["power", "check"]]


def draw_hitting(board, result):
    """Draw the exact hitting times of Lemmas 4.1, 4.2 and 4.3 with their scalings, and paths beside the first."""
    beta, falls, deep, law = result["beta"], result["falls"], result["deep"], jsq.diffusion_law(result["beta"])
    panel = board["fall"]
    panel.describe("Lemma 4.1: $Q_2$ from $y$ to β/2, from the wall", "$y$", "mean time")
    panel.line("exact", falls.heights, falls.from_wall)
    line = falls.from_wall[-1] + (falls.heights - falls.heights[-1]) / beta
    panel.line("slope 1/β, through the last point", falls.heights, line, "limit")
    panel.limits(x=(0, falls.top), y=(0, nice(1.05 * falls.from_wall[-1])))
    if len(result["paths"]):
        y, value, half = np.array(result["paths"]).T
        panel.points("paths, 95 %", y, value, half)
    panel.legend("lower right")
    panel = board["wall"]
    panel.describe("Lemma 4.2: $Q_1$ to 0 from (−β, 0)", "$\\beta^2$", "log mean time")
    betas, times = _wall_times()
    panel.line("exact", betas**2, np.log(times))
    panel.line(
        "log √(2π) + β²/2 − log β (new constant)",
        betas**2,
        math.log(2 * math.pi) / 2 + betas**2 / 2 - np.log(betas),
        "limit",
    )
    here = hitting.wall_time(beta, -beta)
    panel.marker("this β", beta**2, math.log(here))
    panel.note(f"β = {beta:.3g}:  {here:.5g}", x=0.97, y=0.05)
    panel.limits(x=(0, 36), y=(-2, 20))
    panel.legend("upper left")
    panel = board["power"]
    panel.describe("Lemma 4.3: $Q_2$ from β/4 to $y$", "$\\log_{10}(1/y)$", "mean time", yscale="log")
    y, times = deep
    z = beta / 4
    panel.line("exact", -np.log10(y), times)
    below = law.q2_cdf(z)
    panel.line("log(z/y)", -np.log10(y), np.log(z / y), "other")
    power = np.expm1(law.kappa * np.log(z / y)) / law.kappa
    panel.line("((z/y)^κ − 1)/κ", -np.log10(y), power, "third")
    panel.line("the same / P(Q₂ ≤ z) (new)", -np.log10(y), power / below, "limit")
    panel.note(f"κ = {law.kappa:.3g},  z = β/4", x=0.97, y=0.05)
    panel.limits(x=(0, 12), y=(0.1, nice(2 * times[-1])))
    panel.legend("upper left")
    panel = board["check"]
    panel.describe("Slope of the exact time in $y$, times β", "$y$", "$\\beta\\,\\mathrm{d}/\\mathrm{d}y$")
    slopes = beta * np.gradient(falls.from_wall, falls.heights)
    panel.line("exact", falls.heights[8:], slopes[8:])
    panel.line("1: y → ∞", [0, 20], [1, 1], "limit")
    panel.limits(x=(0, falls.top), y=(0, 4))
    panel.legend("upper right")


@lru_cache
def _wall_times():
    betas = np.linspace(0.3, 6.0, 20)
    return betas, np.array([hitting.wall_time(float(b), float(-b)) for b in betas])


@lru_cache(maxsize=32)
def _deep(beta):
    """Return levels below beta / 4 and the mean times to fall to each from beta / 4, Q1 typical there."""
    levels = beta / 4 * 10.0 ** -np.array([0.3, 1.5, 4, 7.5, 11])
    return levels, np.array([hitting.fall_times(beta, float(y), beta / 4).from_typical[-1] for y in levels])


def _hitting(beta):
    """Yield the exact times, then with paths beside them, ever more."""
    result = {"beta": beta, "falls": hitting.fall_times(beta, beta / 2, 12.0), "deep": _deep(beta), "paths": []}
    yield result
    for count in (200, 2000, 20_000):
        found = []
        for y in (beta / 2 + 1, beta / 2 + 3, 9.0):
            time = paths.mean_first_time(beta, (0.0, y), level=beta / 2, step=0.02, paths=count, seed=1)
            found.append((y, time.value, time.half_width))
        yield result | {"paths": found}


def hitting_figure(beta=2.0):
    """Return the static figure of `draw_hitting`, with 2000 paths at each point."""
    results = _hitting(beta)
    result = [next(results) for _ in range(3)][-1]
    return Board(_HITTING).draw(draw_hitting, result)


def explore_hitting():
    """Explore the mean hitting times of Lemmas 4.1 to 4.3, exact and by paths."""
    controls = {"beta": explore.log_slider("slack β", 2.0, 0.5, 4.89)}
    return explore.Explorer("jsq-hitting", controls, _hitting, draw_hitting, _HITTING)
