"""More pictures of notebook 03: finite systems, the central queue beside them, paths, hitting times (paper C)."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expi

from lbcore import theory
from lbcore.show.picture import picture
from lbcore.show.plots import Plot, guide, line, log_slider, marker, nice, player, points, real_slider, whole_slider
from lbcore.simulate import markov, paths, policies
from lbcore.theory import hitting, mmn

# ---- JSQ beside the central queue --------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _waits(n):
    """Return slacks and, for each, P(wait), mean wait and idle servers under JSQ, P(wait) and mean wait by Erlang.

    The exact chain loses jobs that find two at every server. Under true JSQ they would wait; simulations show that the
    mean wait then differs by a relative ``blocking / (wait (1 - load))``, about: values are left out where that is
    above 2 %.
    """
    slacks, rows = np.geomspace(0.02, min(5.8, 0.98 * math.sqrt(n)), 41), []
    for beta in slacks:
        law, load = theory.finite_law(n, beta), 1 - beta / math.sqrt(n)
        trusted = law.blocking < 0.02 * law.mean_wait * (1 - load)
        ours = law.wait_probability, law.mean_wait, -law.mean_q1 * math.sqrt(n)
        rows.append((*(ours if trusted else (math.nan,) * 3), *mmn.erlang_wait(n, load)))
    return slacks, *np.array(rows).T


@lru_cache
def _limit_ratio():
    slacks = np.geomspace(0.02, 5.8, 41)
    return slacks, np.array([theory.diffusion_law(b).mean_q2 / mmn.halfin_whitt_law(b).mean_queue for b in slacks])


@picture(
    "jsq-economics", panels=(2, 2),
    n=log_slider("servers N", 100, 10, 1000), load=real_slider("load ρ", 0.9, 0.3, 0.995, 0.005),
)  # fmt: skip
def economics(n, load):
    """Waits and idle servers of JSQ and of the central queue against the load, and their ratio against the slack."""
    n = round(n)
    slacks, chances, waits, idle, central_chances, central_waits = _waits(n)
    loads, beta, here = 1 - slacks / math.sqrt(n), (1 - load) * math.sqrt(n), guide("this ρ", x=load)

    def against_load(title, ylabel, ours, theirs):
        now = [np.exp(np.interp(beta, slacks, np.log(v + 1e-300), math.nan, math.nan)) for v in (ours, theirs)]
        shown = "two jobs a server do not suffice" if math.isnan(now[0]) else f"JSQ {now[0]:.3g},  M/M/N {now[1]:.3g}"
        return Plot(
            f"{title}: N servers at load ρ, exact", "$\\rho$", ylabel,
            [
                line("JSQ (at most two jobs a server)", loads, ours, "jsq"),
                line("M/M/N (Erlang)", loads, theirs, "pooled"), here,
            ],
            x=(0.3, 1.0), y=(1e-6, 1e3), legend=(0.02, 0.62), note=f"N = {n}, ρ = {load:.3f}:  {shown}",
            at=(0.03, 0.97), log="y",
        )  # fmt: skip

    wait = against_load("Mean wait", "mean service times", waits, central_waits)
    chance = against_load("Chance to wait", "P(wait)", chances, central_chances)
    ratio = Plot(
        "Waiting jobs, JSQ over M/M/N   (Remark 3: 2)", "$\\beta$", "ratio of mean waiting jobs",
        [
            line("this N (slider)", slacks, waits / np.maximum(central_waits, 1e-300), "jsq"),
            line("N = ∞, exact", *_limit_ratio(), "limit", "exact"), guide("2: β → 0", y=2.0, who="limit"),
            guide("this β", x=beta),
        ],
        x=(0.02, 6.0), y=(0.0, 6.0), legend="upper left", log="x",
    )  # fmt: skip
    servers = Plot(
        "Idle servers: the same mean under both", "$\\rho$", "mean number of idle servers",
        [line("JSQ", loads, idle, "jsq"), line("M/M/N: N(1 − ρ)", loads, n * (1 - loads), "pooled"), here],
        x=(0.3, 1.0), y=(0.1, 1e3), note=f"β = {beta:.3g}:  {n * (1 - load):.3g} idle on average", at=(0.97, 0.97),
        log="y",
    )  # fmt: skip
    return [[wait, chance], [ratio, servers]]


# ---- finite N ----------------------------------------------------------------------------------------------

_SIZES = np.array([10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000])


@picture("jsq-finite", panels=(2,), beta=log_slider("slack β", 1.0, 0.05, 2.8))
def finite_servers(beta):
    """Exact laws at more and more servers against the diffusion, and their relative errors with slope -1/2."""
    law, chains = theory.diffusion_law(beta), []
    for n in _SIZES:
        if beta < 0.9 * math.sqrt(n):
            chains.append(theory.finite_law(int(n), beta))
        if n >= 10_000:
            yield [_against_diffusion(law, chains)]


def _against_diffusion(law, chains):
    n, ends = np.array([chain.n_servers for chain in chains]), (10, 1e6)
    ratios = {
        "E Q₂": np.array([c.mean_q2 for c in chains]) / law.mean_q2,
        "√N P(wait)": np.array([c.wait_probability for c in chains]) * np.sqrt(n) / law.mean_q2,
        "E Q₁²": np.array([c.mean_q1_squared for c in chains]) / law.mean_q1_squared,
    }
    slope = abs(ratios["E Q₂"][-1] - 1) * np.sqrt(n[-1] / np.array(ends))
    return [
        Plot(
            "Exact chain over the diffusion", "$N$", "ratio",
            [*(line(name, n, ratio, "jsq") for name, ratio in ratios.items()), guide("1", y=1.0)],
            x=ends, y=(0.0, 1.6), legend="upper left", at=(0.97, 0.05), log="x",
            note=f"β = {law.beta:.3g};  N ≤ {n[-1]};  cut at {max(c.truncation for c in chains):.0e}",
        ),
        Plot(
            "Relative error", "$N$", "|ratio − 1|",
            [
                *(line(name, n, abs(ratio - 1), "jsq") for name, ratio in ratios.items()),
                line("slope −1/2", ends, slope, "guide"),
            ],
            x=ends, y=(1e-4, 2.0), log="xy",
        ),
    ]  # fmt: skip


# ---- several rules, simulated ------------------------------------------------------------------------------

_SCHEMES = {  # and whose colours they have
    "JSQ": (lambda n: policies.jsq(), "jsq"),
    "JIQ": (lambda n: policies.jiq(), "jiq"),
    "JSQ(⌈√N log N⌉)": (lambda n: policies.jsq_d(min(n, math.ceil(math.sqrt(n) * math.log(n)))), "jsq_d"),
    "JSQ(2)": (lambda n: policies.jsq_d(2), "jsq_d"),
}


@picture("jsq-schemes", panels=(2,), beta=log_slider("slack β", 1.0, 0.2, 2.5))
def schemes(beta):
    """Scaled Q2 and Q3 of several rules, simulated with ever more events, beside the exact chain and the diffusion."""
    sizes, found = [n for n in (10, 100, 1000, 10_000) if beta < 0.9 * math.sqrt(n)], {}
    known = [
        line("exact chain, at most two jobs", sizes, [theory.finite_law(n, beta).mean_q2 for n in sizes], "jsq"),
        line("diffusion", [5, 2e4], [theory.diffusion_law(beta).mean_q2] * 2, "limit"),
    ]
    for events in (30_000, 300_000, 3_000_000, 30_000_000):
        for rule, (policy, _) in _SCHEMES.items():
            found[rule] = np.array([_occupancy(n, beta, policy(n), events) for n in sizes])
            if events > 30_000 or rule == "JSQ(2)":
                note = f"β = {beta:.3g};  {events:.0e} events a point, 95 %"
                yield [[_crowded(2, sizes, found, known, note), _crowded(3, sizes, found)]]


def _occupancy(n, beta, policy, events):
    """Return value and half-width of sqrt(n) times the fractions of servers with at least 1, 2, 3 jobs."""
    run = markov.simulate_markov(
        n, 1 - beta / math.sqrt(n), policy, events=events, replications=16, seed=1, progress=False
    )
    return math.sqrt(n) * run.occupancy.value[:3], math.sqrt(n) * run.occupancy.half_width[:3]


def _crowded(jobs, sizes, found, known=(), note=""):
    marks = []
    for k, (rule, scaled) in enumerate(found.items()):
        n, (value, half) = (1 + 0.06 * (k - 1.5)) * np.array(sizes), scaled[:, :, jobs - 1].T
        seen = value > 0
        marks.append(points(rule, n[seen], value[seen], np.minimum(half, 0.9 * value)[seen], _SCHEMES[rule][1]))
    return Plot(
        f"Servers with {('two', 'three')[jobs - 2]} jobs or more", "$N$", f"$E\\,Q_{jobs}/\\sqrt{{N}}$",
        [*known, *marks], x=(5, 2e4), y=(1e-6, 1e3), note=note, at=(0.97, 0.97), log="xy",
    )  # fmt: skip


# ---- a path, watched ---------------------------------------------------------------------------------------

_PATH_STEP, _FRAMES = 0.02, 300
_Q1, _Q2, _LOCAL = {"color": "#0072B2"}, {"color": "#D55E00", "linestyle": "--"}, {"color": "#009E73", "linestyle": ":"}


@lru_cache(maxsize=32)
def _path(beta, seed):
    return paths.sample_path(beta, 1600.0, step=_PATH_STEP, seed=seed)


@picture(
    "jsq-path", panels=(1, 1), aspect=0.34,  # speed: mean service times a second, at five frames
    beta=log_slider("slack β", 1.0, 0.2, 4.0), speed=whole_slider("speed", 5, 1, 25),
    seed=whole_slider("seed", 1, 1, 50), frame=player("play", _FRAMES),
)  # fmt: skip
def sample_path(beta, speed, seed, frame):
    """A path up to a moment: Q1, Q2 and L with the regeneration times, and where it has been in the plane."""
    path, width = _path(beta, seed), int(30 / _PATH_STEP)
    end = min(len(path.times) - 1, width + round(frame * speed / 5 / _PATH_STEP))
    now, part = path.times[end], slice(end - width, end + 1, max(1, width // 2500))
    t, local = path.times[part] - now, path.local_time[part] - path.local_time[end - width]
    left, top = nice(-path.q1.min()), nice(path.q2.max())
    times = path.regenerations - now
    times = times[(times >= t[0]) & (times <= 0)]
    cycles, exact = np.diff(path.regenerations), hitting.fall_times(beta, 1 / beta, 2 / beta).cycle[-1]
    mean = "too few seen"
    if len(cycles) > 9:
        mean = f"{cycles.mean():.3g} ± {1.96 * cycles.std() / math.sqrt(len(cycles)):.2g}"
    history = Plot(
        "A path of the diffusion, with its regeneration times", "mean service times from now", "level",
        [
            points("regeneration: Q₂ climbs to 2/β", times, np.full(times.shape, 2 / beta), None, "own"),
            line("$Q_1$", t, path.q1[part], "limit", "simulated", **_Q1),
            line("$Q_2$", t, path.q2[part], "limit", "simulated", **_Q2),
            line("$L$, gained in this window, / 10", t, local / 10, "limit", "simulated", **_LOCAL),
            guide("levels 1/β, 2/β", y=[1 / beta, 2 / beta]),
        ],
        x=(-width * path.step, 0.0), y=(-left, max(top, 0.5 * left)), now="y", legend="upper right", columns=3,
        note=f"now: {now:.0f}", at=(0.03, 0.95),
    )  # fmt: skip
    plane = Plot(
        "The same in the plane: Q₂ climbs only at the wall", "$Q_1$", "$Q_2$",
        [
            line("path", path.q1[part], path.q2[part], "limit", "simulated", color="#56B4E9"),
            marker("now", path.q1[end], path.q2[end], "jsq"), guide("wall", x=0.0),
        ],
        x=(-left, 0.04 * left), y=(0, top), now="xy", legend="",
        note=f"β = {beta:.3g}:  mean cycle {mean}, exact {exact:.4g}", at=(0.03, 0.95),
    )  # fmt: skip
    return [[history], [plane]]


# ---- from a start ------------------------------------------------------------------------------------------

_TIMES = np.linspace(0.0, 5.0, 26)


@picture(
    "jsq-transient", panels=(2, 2),
    beta=log_slider("slack β", 1.0, 0.1, 4.0), n=log_slider("servers N", 100, 50, 160),
    q1=real_slider("start Q₁", -2.0, -4.0, 0.0, 0.1), q2=real_slider("start Q₂", 2.0, 0.0, 3.0, 0.1),
    t=real_slider("time t", 1.0, 0.2, 5.0, 0.2),
)  # fmt: skip
def transient(beta, n, q1, q2, t):
    """Means of Q1 and Q2 from a start, and their laws at one time: N servers exact, the diffusion by paths."""
    chain, law = theory.transient_law(round(n), beta, (q1, q2), _TIMES), theory.diffusion_law(beta)
    now, sample = int(np.argmin(abs(_TIMES - t))), np.empty((0, len(_TIMES), 2))
    spacing = 1 / math.sqrt(chain.n_servers)
    about = {"note": f"N = {chain.n_servers}, cut at {chain.truncation:.0e}", "at": (0.97, 0.3)}
    for seed, count in enumerate([300, 2700] + 18 * [5000]):
        sample = np.append(sample, paths.sample_states(beta, (q1, q2), _TIMES, paths=count, seed=seed), axis=0)
        below, above = -sample[:, now, 0], sample[:, now, 1]
        low, high = -nice(max(-chain.mean_q1.min(), beta)), nice(1.1 * max(chain.mean_q2.max(), law.mean_q2))
        yield [
            [
                _mean("Q_1", sample[:, :, 0], chain.mean_q1, -beta, now, y=(low, 0.0), legend="lower right"),
                _mean("Q_2", sample[:, :, 1], chain.mean_q2, law.mean_q2, now, y=(0.0, high), legend="upper right"),
            ],
            [
                _law("-Q_1", below, spacing, chain.idle_weights[now], law.q1_tail, 4.0 if beta < 2 else 8.0),
                _law("Q_2", above, spacing, chain.q2_weights[now], law.q2_tail, 8.0, **about),
            ],
        ]


def _mean(symbol, sample, exact, end, now, **more):
    """The mean of a coordinate against time, `end` being its limit."""
    mean, half = sample.mean(axis=0), 1.96 * sample.std(axis=0) / math.sqrt(len(sample))
    return Plot(
        f"$E\\,{symbol}(t)$ from the start", "$t$", f"$E\\,{symbol}(t)$",
        [
            points("diffusion, paths, 95 %", _TIMES[1::3], mean[1::3], half[1::3], "limit"),
            line("N servers, exact", _TIMES, exact, "jsq"), guide("diffusion, t → ∞", y=end, who="limit"),
            guide("time of the laws below", x=_TIMES[now]),
        ],
        x=(0, 5), **more,
    )  # fmt: skip


def _law(symbol, sample, spacing, weights, limit, right, **more):
    """The law of a coordinate at the time chosen; `weights` are those of N servers, at multiples of `spacing`."""
    tail = np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)
    grid, seen = np.linspace(0, right, 161), np.linspace(0, right, 21)[1:]
    share = np.mean(sample[:, None] > seen, axis=0)
    half = 1.96 * np.sqrt(share * (1 - share) / len(sample))
    return Plot(
        f"Law of ${symbol}(t)$ at the time chosen", "$u$", f"$P({symbol}(t)>u)$",
        [
            points("diffusion, paths, 95 %", seen, share, half, "limit"),
            line("N servers, exact", spacing * np.arange(len(weights)), tail, "jsq"),
            line("diffusion, t → ∞", grid, limit(grid), "limit"),
        ],
        x=(0, right), y=(0, 1.02), legend="upper right", **more,
    )  # fmt: skip


# ---- hitting times -----------------------------------------------------------------------------------------

_CORNER = {"legend": "upper left", "at": (0.97, 0.05)}


@lru_cache
def _over_slacks():
    """Return slacks, mean times from (-beta, 0) to the wall, and mean cycle lengths."""
    betas = np.geomspace(0.1, 5.0, 24)
    cycles = [hitting.fall_times(b, 1 / b, 2 / b).cycle[-1] for b in betas]
    return betas, np.array([hitting.wall_time(b, -b) for b in betas]), np.array(cycles)


@picture("jsq-hitting", panels=(2, 2, 2), beta=log_slider("slack β", 2.0, 0.5, 4.89))
def hitting_times(beta):
    """The exact times of Lemmas 4.1 to 4.7 with their scalings, and ever more paths beside the first."""
    law, falls = theory.diffusion_law(beta), hitting.fall_times(beta, beta / 2, 12.0)
    cycle, levels, found = hitting.fall_times(beta, 1 / beta, 2 / beta), (9.0, 6.0, beta / 2), []
    wall, power, start, above, length = _to_wall(beta), _down(law), _excursion(beta), _above(law, cycle), _cycle(cycle)
    yield [[_fall(falls, beta), wall], [power, start], [above, length]]
    for seed in range(40):  # in short pieces, so that a newer value need not wait
        times = [paths.mean_first_time(beta, (0.0, 12.0), level=y, step=0.05, paths=500, seed=seed) for y in levels]
        found.append([(t.value, t.half_width**2) for t in times])
        value, square = np.mean(found, axis=0).T
        fall = _fall(falls, beta, levels, value, np.sqrt(square / len(found)))
        yield [[fall, wall], [power, start], [above, length]]


def _fall(falls, beta, levels=(), value=(), half=()):
    fallen = falls.top - falls.levels
    return Plot(
        "Lemma 4.1: $Q_2$ from (0, 12) down to $y$", "$12-y$", "mean time",
        [
            points("paths, 95 %", falls.top - np.array(levels), value, half, "limit"),
            line("exact", fallen, falls.from_wall, "jsq"), line("slope 1/β", fallen, fallen / beta, "limit"),
        ],
        x=(0, 12), y=(0, nice(1.05 * falls.from_wall[-1])), note=f"β = {beta:.3g}", **_CORNER,
    )  # fmt: skip


def _to_wall(beta):
    (betas, times, _), here = _over_slacks(), hitting.wall_time(beta, -beta)
    sharp = math.log(2 * math.pi) / 2 + betas**2 / 2 - np.log(betas)
    return Plot(
        "Lemma 4.2: $Q_1$ to 0 from (−β, 0)", "$\\beta^2$", "log mean time",
        [
            line("exact", betas**2, np.log(times), "jsq"), marker("this β", beta**2, math.log(here), "jsq"),
            line("log √(2π) + β²/2 − log β (constant: new)", betas**2, sharp, "limit", status="new"),
        ],
        x=(0, 25), y=(-2, 14), note=f"{here:.5g}", **_CORNER,
    )  # fmt: skip


def _down(law):
    kappa, deep = law.kappa, hitting.fall_times(law.beta, 1e-12 * law.beta / 4, law.beta / 4)
    z, y = deep.top, deep.levels
    decades, power = -np.log10(y / z), np.expm1(kappa * np.log(z / y)) / kappa
    return Plot(
        "Lemma 4.3: $Q_2$ from $z$ = β/4 to $y$", "$\\log_{10}(z/y)$", "mean time",
        [
            line("exact", decades, deep.from_typical, "jsq"), line("log(z/y)", decades, np.log(z / y), "limit"),
            line("((z/y)^κ − 1)/κ", decades, power, "limit"),
            line("the same / P(Q₂ ≤ z) (new)", decades, power / law.q2_cdf(z), "limit", status="new"),
            guide("κ log(z/y) = 1", x=1 / (kappa * math.log(10))),
        ],
        x=(0, 12), y=(0.1, nice(100 * deep.from_typical[-1])), note=f"κ = {kappa:.3g}", log="y", **_CORNER,
    )  # fmt: skip


def _scales(beta):
    """Return levels of Q2 over 13 decades, their decades in units of 1 / beta, and which lie below 1 / beta."""
    y = np.geomspace(1e-12, 9, 200) / beta
    return y, np.log10(beta * y), y < 1 / beta


def _excursion(beta):
    y, decades, low = _scales(beta)
    excursions = hitting.excursion_time(beta, y)
    return Plot(
        "Lemma 4.4: what a start at the wall adds", "$\\log_{10}(\\beta z)$", "mean time",
        [
            line("one excursion above z, exact", decades, excursions, "jsq"),
            line("log(1/(βz)): z ≪ 1/β", decades[low], -np.log(beta * y[low]), "limit"), guide("z = 1/β", x=0.0),
        ],
        x=(-12, 1), y=(1e-4, nice(2 * excursions[0])), log="y",
    )  # fmt: skip


def _above(law, cycle):
    y, decades, low = _scales(law.beta)
    above, fall = cycle.cycle[-1] * law.q2_tail(y), cycle.from_wall[-1]
    asymptote = cycle.cycle[-1] * law.tail_constant * (y * np.exp(-law.beta * y))
    return Plot(
        "Lemmas 4.5, 4.6: time above $y$ in a cycle", "$\\log_{10}(\\beta y)$", "mean time",
        [
            line("in a cycle, exact", decades, above, "jsq"),
            line("before 2/β is reached", decades[low], above[low] - fall, "jsq"),
            line("log(1/(βy)): y ≪ 1/β", decades[low], -np.log(law.beta * y[low]), "limit"),
            line("$\\propto y\\,e^{-\\beta y}$: y → ∞", decades[~low], asymptote[~low], "limit"),
        ],
        x=(-12, 1), y=(0.01, nice(300 * above[0])), legend="upper right", log="y",
    )  # fmt: skip


def _cycle(cycle):
    (betas, _, cycles), here = _over_slacks(), cycle.cycle[-1]
    small = math.log(expi(2) - expi(1)) - 2 * np.log(betas)
    large = 2 + math.log(2 * math.pi) / 2 + betas**2 / 2 - np.log(betas)
    new = {"who": "limit", "kind": "heuristic", "status": "new"}
    return Plot(
        "Lemma 4.7: mean cycle from (0, 2/β)", "$\\beta$", "log mean time",
        [
            line("exact", betas, np.log(cycles), "jsq"), marker("this β", cycle.beta, math.log(here), "jsq"),
            line("log(e²√(2π)/β) + β²/2: β → ∞ (heuristic, new)", betas, large, **new),
            line("log((Ei(2) − Ei(1))/β²): β → 0 (heuristic, new)", betas, small, **new),
        ],
        x=(0.1, 5.0), y=(-1, 18), log="x", note=f"{here:.5g}", **_CORNER,
    )  # fmt: skip
