"""More pictures of notebook 03: finite systems, the central queue beside them, paths, hitting times (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expi

from lbcore import explore, hitting, jsq, markov, mmn, paths, policies
from lbcore.figures import nice
from lbcore.gallery_jsq import curves

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
    loads, beta = 1 - slacks / math.sqrt(n), (1 - load) * math.sqrt(n)
    here = {"this ρ": ([load, load], [1e-12, 1e6], "wall")}
    for name, title, label, ours, theirs in (
        ("wait", "Mean wait", "mean service times", waits, central_waits),
        ("chance", "Chance to wait", "P(wait)", chances, central_chances),
    ):
        now = [np.exp(np.interp(beta, slacks, np.log(v + 1e-300), math.nan, math.nan)) for v in (ours, theirs)]
        shown = "two jobs a server do not suffice" if math.isnan(now[0]) else f"JSQ {now[0]:.3g},  M/M/N {now[1]:.3g}"
        curves(
            board[name], f"{title}: N servers at load ρ, exact", "$\\rho$", label,
            {
                "JSQ (at most two jobs a server)": (loads, ours, "exact"),
                "M/M/N (Erlang)": (loads, theirs, "other"),
            } | here,
            x=(0.3, 1.0), y=(1e-6, 1e3), legend=(0.02, 0.62), note=f"N = {n}, ρ = {load:.3f}:  {shown}",
            at=(0.03, 0.97), yscale="log",
        )  # fmt: skip
    curves(
        board["ratio"], "Waiting jobs, JSQ over M/M/N   (Remark 3: 2)", "$\\beta$", "ratio of mean waiting jobs",
        {
            "this N (slider)": (slacks, waits / np.maximum(central_waits, 1e-300), "third"),
            "N = ∞, exact": (*_limit_ratio(), "exact"), "2: β → 0": ([0.02, 6.0], [2.0, 2.0], "limit"),
            "this β": ([beta, beta], [0.0, 6.0], "wall"),
        },
        x=(0.02, 6.0), y=(0.0, 6.0), legend="upper left", xscale="log",
    )  # fmt: skip
    central = n * (1 - loads)
    curves(
        board["idle"], "Idle servers: the same mean under both", "$\\rho$", "mean number of idle servers",
        {"JSQ": (loads, idle, "exact"), "M/M/N: N(1 − ρ)": (loads, central, "other")} | here,
        x=(0.3, 1.0), y=(0.1, 1e3), note=f"β = {beta:.3g}:  {n * (1 - load):.3g} idle on average", at=(0.97, 0.97),
        yscale="log",
    )  # fmt: skip


def _at_load(n, load):
    _economics(n := round(n))
    return {"n": n, "load": load}


economics = explore.Picture(
    "jsq-economics",
    _at_load,
    draw_economics,
    [["wait", "chance"], ["ratio", "idle"]],
    lambda: {
        "n": explore.log_slider("servers N", 100, 10, 1000),
        "load": explore.real_slider("load ρ", 0.9, 0.3, 0.995, 0.005),
    },
)


_SIZES = np.array([10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000])


def draw_finite(board, result):
    """Draw exact laws at N servers against the diffusion, and their relative errors with slope -1/2."""
    beta, law, chains = result["beta"], jsq.diffusion_law(result["beta"]), result["laws"]
    n, ends = np.array([chain.n_servers for chain in chains]), np.array([10, 1e6])
    ratios = {
        "E Q₂": (n, np.array([c.mean_q2 for c in chains]) / law.mean_q2, "exact"),
        "√N P(wait)": (n, np.array([c.wait_probability for c in chains]) * np.sqrt(n) / law.mean_q2, "limit"),
        "E Q₁²": (n, np.array([c.mean_q1_squared for c in chains]) / law.mean_q1_squared, "other"),
    }
    curves(
        board["mean"], "Exact chain over the diffusion", "$N$", "ratio", ratios | {"1": (ends, [1, 1], "wall")},
        x=ends, y=(0.0, 1.6), legend="upper left", at=(0.97, 0.05), xscale="log",
        note=f"β = {beta:.3g};  N ≤ {n[-1]};  cut at {max(c.truncation for c in chains):.0e}",
    )  # fmt: skip
    errors = {name: (n, abs(ratio - 1), role) for name, (_, ratio, role) in ratios.items()}
    slope = abs(ratios["E Q₂"][1][-1] - 1) * np.sqrt(n[-1] / ends)
    curves(
        board["error"], "Relative error", "$N$", "|ratio − 1|", errors | {"slope −1/2": (ends, slope, "wall")},
        x=ends, y=(1e-4, 2.0), xscale="log", yscale="log",
    )  # fmt: skip


def _finite(beta):
    """Yield exact laws at more and more servers."""
    laws = []
    for n in _SIZES:
        if beta < 0.9 * math.sqrt(n):
            laws.append(jsq.finite_law(int(n), beta))
        if n >= 10_000:
            yield {"beta": beta, "laws": tuple(laws)}


finite_servers = explore.Picture(
    "jsq-finite",
    _finite,
    draw_finite,
    [["mean", "error"]],
    lambda: {"beta": explore.log_slider("slack β", 1.0, 0.05, 2.8)},
)


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


schemes = explore.Picture(
    "jsq-schemes",
    _schemes,
    draw_schemes,
    [["two", "three"]],
    lambda: {"beta": explore.log_slider("slack β", 1.0, 0.2, 2.5)},
)


_PATH_STEP, _FRAMES = 0.02, 300


@lru_cache(maxsize=32)
def _path(beta, seed):
    return paths.sample_path(beta, 1600.0, step=_PATH_STEP, seed=seed)


def draw_path(board, result):
    """Draw a path up to a moment: Q1, Q2 and L with the regeneration times, and where it has been in the plane."""
    path, end, width = result["path"], result["end"], result["width"]
    first, now = max(0, end - width), path.times[end]
    part = slice(first, end + 1, max(1, width // 2500))
    t, local = path.times[part] - now, path.local_time - path.local_time[first]
    left, top = nice(-path.q1.min()), nice(path.q2.max())
    panel, times = board["time"], path.regenerations - now
    times = times[(times >= t[0]) & (times <= 0)]
    panel.limits(y=(-left, max(top, 0.5 * left)), now=True)
    panel.points("regeneration: Q₂ climbs to 2/β", times, np.full(times.shape, 2 / path.beta))
    levels = np.array([1, 1, math.nan, 2, 2]) / path.beta
    panel.describe("A path of the diffusion, with its regeneration times", "mean service times from now", "level")
    for label, x, y, role in (
        ("$Q_1$", t, path.q1[part], "exact"),
        ("$Q_2$", t, path.q2[part], "limit"),
        ("$L$, gained in this window, / 10", t, local[part] / 10, "other"),
        ("levels 1/β, 2/β", [-1e9, 0, math.nan, -1e9, 0], levels, "wall"),
    ):
        panel.line(label, x, y, role)
    panel.note(f"now: {now:.0f}", x=0.03, y=0.95)
    panel.limits(x=(-width * path.step, 0.0))
    panel.legend("upper right", columns=3)
    panel = board["plane"]
    panel.describe("The same in the plane: Q₂ climbs only at the wall", "$Q_1$", "$Q_2$")
    panel.line("path", path.q1[part], path.q2[part], "second")
    panel.marker("now", path.q1[end], path.q2[end])
    panel.line("wall", [0, 0], [0, 1e6], "wall")
    cycles = np.diff(path.regenerations)
    mean, exact = "too few seen", hitting.fall_times(path.beta, 1 / path.beta, 2 / path.beta).cycle[-1]
    if len(cycles) > 9:
        mean = f"{cycles.mean():.3g} ± {1.96 * cycles.std() / math.sqrt(len(cycles)):.2g}"
    panel.note(f"β = {path.beta:.3g}:  mean cycle {mean}, exact {exact:.4g}", x=0.03, y=0.95)
    panel.limits(x=(-left, 0.04 * left), y=(0, top), now=True)


def _watch(beta, speed, seed, frame):
    path = _path(beta, seed)
    width = int(30 / _PATH_STEP)
    return {
        "path": path,
        "end": min(len(path.times) - 1, width + round(frame * speed / 5 / _PATH_STEP)),
        "width": width,
    }


sample_path = explore.Picture(  # speed: mean service times a second, at five frames
    "jsq-path",
    _watch,
    draw_path,
    [["time"], ["plane"]],
    lambda: {
        "beta": explore.log_slider("slack β", 1.0, 0.2, 4.0),
        "speed": explore.whole_slider("speed", 5, 1, 25),
        "seed": explore.whole_slider("seed", 1, 1, 50),
        "frame": explore.player("play", _FRAMES),
    },
    aspect=0.34,
)


_TIMES = np.linspace(0.0, 5.0, 26)


def draw_transient(board, result):
    """Draw the means of Q1 and Q2 from a start, and their laws at one time: N servers exact, the diffusion by paths."""
    chain, sample, stationary = result["chain"], result["sample"], jsq.diffusion_law(result["beta"])
    root, now = math.sqrt(chain.n_servers), result["now"]
    for k, (exact, end) in enumerate(((chain.mean_q1, -result["beta"]), (chain.mean_q2, stationary.mean_q2))):
        panel, symbol = board[f"mean{k + 1}"], f"$E\\,Q_{k + 1}(t)$"
        low, high = (-nice(max(-exact.min(), -end)), 0.0) if k == 0 else (0.0, nice(1.1 * max(exact.max(), end)))
        half = 1.96 * sample[:, 1::3, k].std(axis=0) / math.sqrt(len(sample))
        panel.points("diffusion, paths, 95 %", _TIMES[1::3], sample[:, 1::3, k].mean(axis=0), half)
        lines = {
            "N servers, exact": (_TIMES, exact, "exact"),
            "diffusion, t → ∞": (_TIMES, np.full_like(_TIMES, end), "limit"),
            "time of the laws below": ([_TIMES[now]] * 2, [-100, 100], "wall"),
        }
        place = ("lower right", "upper right")[k]
        curves(panel, symbol + " from the start", "$t$", symbol, lines, x=(0, 5), y=(low, high), legend=place)
    board["law2"].note(f"N = {chain.n_servers}, cut at {chain.truncation:.0e}", 0.97, 0.3)
    for k, weights in enumerate((chain.idle_weights[now], chain.q2_weights[now])):
        levels = np.arange(len(weights)) / root
        tail = np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)
        right = 4.0 if k == 0 and result["beta"] < 2 else 8.0
        grid, seen = np.linspace(0, right, 161), np.linspace(0, right, 21)[1:]
        share = np.mean(sample[:, now, k, None] * (-1) ** (k + 1) > seen, axis=0)
        half = 1.96 * np.sqrt(share * (1 - share) / len(sample))
        panel, symbol = board[f"law{k + 1}"], ("-Q_1" if k == 0 else "Q_2")
        panel.points("diffusion, paths, 95 %", seen, share, half)
        limit = stationary.q1_tail(grid) if k == 0 else stationary.q2_tail(grid)
        curves(
            panel, f"Law of ${symbol}(t)$ at the time chosen", "$u$", f"$P({symbol}(t)>u)$",
            {"N servers, exact": (levels, tail, "exact"), "diffusion, t → ∞": (grid, limit, "limit")},
            x=(0, right), y=(0, 1.02), legend="upper right",
        )  # fmt: skip


def _transient(beta, n, q1, q2, t):
    """Yield the exact law of N servers, and ever more paths of the diffusion from the same start."""
    chain = jsq.transient_law(round(n), beta, (q1, q2), _TIMES)
    sample = np.empty((0, len(_TIMES), 2))
    for seed, count in enumerate([300, 2700] + 18 * [5000]):
        sample = np.append(sample, paths.sample_states(beta, (q1, q2), _TIMES, paths=count, seed=seed), axis=0)
        yield {"beta": beta, "chain": chain, "now": int(np.argmin(abs(_TIMES - t))), "sample": sample}


transient = explore.Picture(
    "jsq-transient",
    _transient,
    draw_transient,
    [["mean1", "mean2"], ["law1", "law2"]],
    lambda: {
        "beta": explore.log_slider("slack β", 1.0, 0.1, 4.0),
        "n": explore.log_slider("servers N", 100, 50, 160),
        "q1": explore.real_slider("start Q₁", -2.0, -4.0, 0.0, 0.1),
        "q2": explore.real_slider("start Q₂", 2.0, 0.0, 3.0, 0.1),
        "t": explore.real_slider("time t", 1.0, 0.2, 5.0, 0.2),
    },
)


def draw_hitting(board, result):
    """Draw the exact times of Lemmas 4.1 to 4.7 with their scalings, and paths beside the first."""
    beta, falls, deep, law = result["beta"], result["falls"], result["deep"], jsq.diffusion_law(result["beta"])
    fallen, kappa, z = falls.top - falls.levels, law.kappa, deep.top
    y, value, half = np.array(result["paths"]).reshape(-1, 3).T
    board["fall"].points("paths, 95 %", falls.top - y, value, half)
    curves(
        board["fall"], "Lemma 4.1: $Q_2$ from (0, 12) down to $y$", "$12-y$", "mean time",
        {"exact": (fallen, falls.from_wall, "exact"), "slope 1/β": (fallen, fallen / beta, "limit")},
        x=(0, 12), y=(0, nice(1.05 * falls.from_wall[-1])), legend="upper left", note=f"β = {beta:.3g}",
        at=(0.97, 0.05),
    )  # fmt: skip
    betas, times, cycles = _over_slacks()
    here = hitting.wall_time(beta, -beta)
    sharp = math.log(2 * math.pi) / 2 + betas**2 / 2 - np.log(betas)
    curves(
        board["wall"], "Lemma 4.2: $Q_1$ to 0 from (−β, 0)", "$\\beta^2$", "log mean time",
        {
            "exact": (betas**2, np.log(times), "exact"), "this β": (beta**2, math.log(here), "exact"),
            "log √(2π) + β²/2 − log β (constant: new)": (betas**2, sharp, "limit"),
        },
        x=(0, 25), y=(-2, 14), legend="upper left", note=f"{here:.5g}", at=(0.97, 0.05),
    )  # fmt: skip
    decades, power = -np.log10(deep.levels / z), np.expm1(kappa * np.log(z / deep.levels)) / kappa
    curves(
        board["power"], "Lemma 4.3: $Q_2$ from $z$ = β/4 to $y$", "$\\log_{10}(z/y)$", "mean time",
        {
            "exact": (decades, deep.from_typical, "exact"), "log(z/y)": (decades, np.log(z / deep.levels), "other"),
            "((z/y)^κ − 1)/κ": (decades, power, "third"),
            "the same / P(Q₂ ≤ z) (new)": (decades, power / law.q2_cdf(z), "limit"),
            "κ log(z/y) = 1": (np.full(2, 1 / (kappa * math.log(10))), [1e-2, 1e30], "wall"),
        },
        x=(0, 12), y=(0.1, nice(100 * deep.from_typical[-1])), legend="upper left", note=f"κ = {kappa:.3g}",
        at=(0.97, 0.05), yscale="log",
    )  # fmt: skip
    y = np.geomspace(1e-12, 9, 200) / beta
    decades, excursions = np.log10(beta * y), hitting.excursion_time(beta, y)
    curves(
        board["start"], "Lemma 4.4: what a start at the wall adds", "$\\log_{10}(\\beta z)$", "mean time",
        {
            "one excursion above z, exact": (decades, excursions, "exact"),
            "log(1/(βz)): z ≪ 1/β": (decades[y < 1 / beta], -np.log(beta * y[y < 1 / beta]), "other"),
            "z = 1/β": ([0, 0], [1e-3, 1e30], "wall"),
        },
        x=(-12, 1), y=(1e-4, nice(2 * excursions[0])), yscale="log",
    )  # fmt: skip
    cycle = result["cycle"]
    above, fall = cycle.cycle[-1] * law.q2_tail(y), cycle.from_wall[-1]
    low = y < 1 / beta
    curves(
        board["above"], "Lemmas 4.5, 4.6: time above $y$ in a cycle", "$\\log_{10}(\\beta y)$", "mean time",
        {
            "in a cycle, exact": (decades, above, "exact"),
            "before 2/β is reached": (decades[low], above[low] - fall, "second"),
            "log(1/(βy)): y ≪ 1/β": (decades[low], -np.log(beta * y[low]), "other"),
            "$\\propto y\\,e^{-\\beta y}$: y → ∞": (
                decades[~low], cycle.cycle[-1] * law.tail_constant * (y * np.exp(-beta * y))[~low], "limit"
            ),
        },
        x=(-12, 1), y=(0.01, nice(300 * above[0])), legend="upper right", yscale="log",
    )  # fmt: skip
    small, large = expi(2) - expi(1), 2 + math.log(2 * math.pi) / 2
    curves(
        board["cycle"], "Lemma 4.7: mean cycle from (0, 2/β)", "$\\beta$", "log mean time",
        {
            "exact": (betas, np.log(cycles), "exact"), "this β": (beta, math.log(cycle.cycle[-1]), "exact"),
            "log(e²√(2π)/β) + β²/2: β → ∞ (heuristic, new)": (betas, large + betas**2 / 2 - np.log(betas), "limit"),
            "log((Ei(2) − Ei(1))/β²): β → 0 (heuristic, new)": (betas, math.log(small) - 2 * np.log(betas), "other"),
        },
        x=(0.1, 5.0), y=(-1, 18), legend="upper left", xscale="log", note=f"{cycle.cycle[-1]:.5g}", at=(0.97, 0.05),
    )  # fmt: skip


@lru_cache
def _over_slacks():
    """Return slacks, mean times from (-beta, 0) to the wall, and mean cycle lengths."""
    betas = np.geomspace(0.1, 5.0, 24)
    cycles = [hitting.fall_times(b, 1 / b, 2 / b).cycle[-1] for b in betas]
    return betas, np.array([hitting.wall_time(b, -b) for b in betas]), np.array(cycles)


def _hitting(beta):
    """Yield the exact times, then with paths beside them, ever more."""
    result = {
        "beta": beta, "falls": hitting.fall_times(beta, beta / 2, 12.0), "paths": [],
        "deep": hitting.fall_times(beta, 1e-12 * beta / 4, beta / 4),
        "cycle": hitting.fall_times(beta, 1 / beta, 2 / beta),
    }  # fmt: skip
    yield result
    levels, found = (9.0, 6.0, beta / 2), []
    for seed in range(40):  # in short pieces, so that a newer value need not wait
        times = [paths.mean_first_time(beta, (0.0, 12.0), level=y, step=0.05, paths=500, seed=seed) for y in levels]
        found.append([(t.value, t.half_width**2) for t in times])
        value, square = np.mean(found, axis=0).T
        yield result | {"paths": np.column_stack([levels, value, np.sqrt(square / len(found))])}


hitting_times = explore.Picture(
    "jsq-hitting",
    _hitting,
    draw_hitting,
    [["fall", "wall"], ["power", "start"], ["above", "cycle"]],
    lambda: {"beta": explore.log_slider("slack β", 2.0, 0.5, 4.89)},
)
