r"""Paper C: paths of the JSQ diffusion, sampled with exact reflection and weak order two.

Over a step of length ``h``, centred at 0, ``(X, Y) = e^t (Q1, Q2)`` knows no decay, ``dX = sqrt(2) e^t dW +
(Y - beta e^t) dt - dL'``, ``dY = dL'``: a reflected Brownian motion by the clock ``sinh h``, exact as long as the wall
is not met. With ``Y`` fixed, the increment and, given it, the maximum of the Brownian bridge are drawn exactly; they
give the local time ``l`` and the end point ``-b`` of a path from ``-a``. What the fixed drift misses is put in as its
mean given ``(a, l, b)``. Those means are short, for ``a + l + b = c`` is a level that a Brownian motion first reaches
at the end of the step, and of that time the parts ``a, l, b`` of the way take the shares ``a/c, l/c, b/c`` on average:
the gain of ``Y`` goes on for the time ``T = h l / c`` at the wall, so ``l`` becomes ``l (e^T - 1) / T`` and ``b``
becomes ``b e^-T``; and as the clock runs faster at the end of the step, both gain about ``Y h^2 (a + l) b / c^2``.
Measured at ``step = 0.1``, ``beta`` = 0.5, 1, 2: E Q2, E Q2^2 and E Q1^2 are off by at most 0.5 %, and errors fall
by four when the step is halved.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from lbcore import checks, estimate, streams
from lbcore.compiled import kernel
from lbcore.finite import check_start
from lbcore.results import Estimate
from lbcore.streams import load, store, take_exponential, take_normal

_MOST_POINTS = 10**7


@kernel
def _move(x, y, beta, step, words):
    """Return (Q1, Q2, local time gained, words) after one step from ``(x, y)``."""
    normal, words = take_normal(words)
    height, words = take_exponential(words)
    decay, clock = math.exp(-0.5 * step), math.sinh(step)
    y *= decay
    a = -x * decay
    d = y * step - 2 * beta * math.sinh(0.5 * step) + math.sqrt(2 * clock) * normal
    gained = max(0.0, 0.5 * (d + math.sqrt(d * d + 4 * clock * height)) - a)
    b = max(0.0, a - d + gained)
    if gained > 0:
        c = a + gained + b
        at_wall = step * gained / c
        late = y * step * step * (a + gained) * b / (c * c)
        b = b * math.exp(-at_wall) + late
        gained = gained * math.expm1(at_wall) / at_wall + late
    return -b * decay, (y + gained) * decay, gained, words


@kernel
def _run(state, beta, step, steps, stream, out):
    """Move ``state = [Q1, Q2]`` by `steps` steps and add up time, Q2, Q2^2, Q1, Q1^2 and local time."""
    words = load(stream)
    x, y = state[0], state[1]
    for _ in range(steps):
        x, y, gained, words = _move(x, y, beta, step, words)
        out[0] += step
        out[1] += y * step
        out[2] += y * y * step
        out[3] += x * step
        out[4] += x * x * step
        out[5] += gained
    state[0], state[1] = x, y
    store(stream, words)


@kernel
def _record(x, y, beta, step, stream, path):
    """Fill the rows (Q1, Q2, L) of `path`, shape (points, 3), from ``(x, y, 0)`` on."""
    words, local = load(stream), 0.0
    path[0] = x, y, 0.0
    for k in range(1, len(path)):
        x, y, gained, words = _move(x, y, beta, step, words)
        local += gained
        path[k] = x, y, local
    store(stream, words)


@kernel
def _first_time(x, y, level, beta, step, stream, horizon):
    """Return when Q2 first is at `level` or below, or if `level` is negative when Q1 first is at 0."""
    words, t = load(stream), 0.0
    while t < horizon:
        before = y
        x, y, gained, words = _move(x, y, beta, step, words)
        if level < 0 and gained > 0:
            t += 0.5 * step
            break
        if y <= level:
            t += step * math.log(before / level) / math.log(before / y)
            break
        t += step
    store(stream, words)
    return t


@kernel
def _first_times(x, y, level, beta, step, stream, horizon, times):
    for k in range(len(times)):
        times[k] = _first_time(x, y, level, beta, step, stream, horizon)


@kernel
def _states(x, y, beta, times, step, stream, found):
    """Fill `found`, shape (paths, times, 2), with (Q1, Q2) at the times, each gap cut into equal steps."""
    words = load(stream)
    for path in range(len(found)):
        at, q1, q2 = 0.0, x, y
        for k in range(len(times)):
            steps = math.ceil((times[k] - at) / step)
            even = (times[k] - at) / max(steps, 1)
            for _ in range(steps):
                q1, q2, _, words = _move(q1, q2, beta, even, words)
            at = times[k]
            found[path, k] = q1, q2
    store(stream, words)


@dataclass(frozen=True, eq=False, repr=False)
class DiffusionPath:
    """A path of the JSQ diffusion at equal time steps. Made by `sample_path`.

    Attributes
    ----------
    beta, step : float
    seed : int
    times, q1, q2, local_time : (points,) arrays
    regenerations : (cycles,) array
        Times at which Q2 climbs to ``2 / beta`` after having been at ``1 / beta`` or below: Q2 climbs only at the wall,
        so the path starts afresh from ``(0, 2 / beta)`` there (Section 3 of the paper).
    """

    beta: float
    step: float
    seed: int
    times: np.ndarray = field(compare=False)
    q1: np.ndarray = field(compare=False)
    q2: np.ndarray = field(compare=False)
    local_time: np.ndarray = field(compare=False)
    regenerations: np.ndarray = field(compare=False)

    def __repr__(self):
        return (
            f"DiffusionPath(beta={self.beta:g}, {len(self.times)} points of step {self.step:g}, seed {self.seed}: "
            f"{len(self.regenerations)} regeneration times)"
        )


def sample_path(beta, duration, *, step=0.01, start=None, seed=None):
    """Return one path of the JSQ diffusion.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, positive.
    duration : float
        Length of the path, in mean service times; at most 10^7 steps.
    step : float
        Time step, at most 1; see the head of this module for the weak error.
    start : (float, float)
        ``(Q1, Q2)`` at time 0 with ``Q1 <= 0 <= Q2``; ``(0, 2 / beta)`` if not given.
    seed : int or None

    Returns
    -------
    DiffusionPath

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range, or the start is outside the state space.
    """
    beta, step = _beta(beta), _step(step)
    allowed = "the duration must be positive and at most 10^7 steps"
    points = math.ceil(checks.real(duration, "duration", step, _MOST_POINTS * step, allowed=allowed) / step) + 1
    x, y = check_start((0.0, 2 / beta) if start is None else start)
    seed = streams.resolve_seed(seed)
    path = np.empty((points, 3))
    _record(x, y, beta, step, streams.states(seed, 1)[0], path)
    times = step * np.arange(points)
    return DiffusionPath(beta, step, seed, times, *path.T, times[regenerations(path[:, 1], 1 / beta, 2 / beta)])


def regenerations(q2, low, high):
    """Return the indices at which `q2` first reaches `high` after having been at `low` or below, again and again."""
    side = np.where(q2 >= high, 1, np.where(q2 <= low, -1, 0))
    at = np.flatnonzero(side)
    turns = np.flatnonzero((side[at[1:]] == 1) & (side[at[:-1]] == -1)) + 1
    return at[turns]


def simulate_diffusion(
    beta, *, step=0.03, steps=None, rel_precision=None, replications=None, seed=None, threads=None, progress=True,
    live=False,
):  # fmt: skip
    """Estimate the stationary moments of the JSQ diffusion by paths.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, positive.
    step : float
        Time step; it leaves a bias that the intervals do not contain, see the head of this module.
    steps, rel_precision, replications, seed, threads, progress, live
        As in `lbcore.simulate_markov`; `steps` are time steps, all replications together.

    Returns
    -------
    Simulation
        With the estimates ``mean_q2, mean_q2_squared, mean_q1, mean_q1_squared, local_time_rate``. In this scheme the
        last equals the first by construction, up to a factor ``1 + step^2 / 24``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range.
    """
    model = _Diffusion(_beta(beta), _step(step))
    return estimate.run(
        model, {"beta": model.beta, "step": model.step}, steps=steps, rel_precision=rel_precision,
        replications=replications, seed=seed, threads=threads, progress=progress, live=live,
    )  # fmt: skip


class _Diffusion:
    """The model behind `simulate_diffusion`, see `lbcore.estimate.Model`."""

    columns = dict.fromkeys(("time", "q2", "q2_squared", "q1", "q1_squared", "local"), 1)
    level, unit, chunk_steps, bytes_per_replication, notes = ("q2", "time"), "steps", 40_000, 4096, ()

    def __init__(self, beta, step):
        self.beta, self.step = beta, step
        self.relaxation_steps = (4 + 4 / beta**2) / step  # Q2 from 1/beta to 0 and back, as a Brownian motion

    def start(self, stream):
        return np.array([-self.beta, 1 / self.beta]), stream

    def advance(self, state, steps, out):
        _run(state[0], self.beta, self.step, steps, state[1], out)

    def report(self, sample):
        return {
            "mean_q2": sample.ratio("q2", "time"),
            "mean_q2_squared": sample.ratio("q2_squared", "time"),
            "mean_q1": sample.ratio("q1", "time"),
            "mean_q1_squared": sample.ratio("q1_squared", "time"),
            "local_time_rate": sample.ratio("local", "time"),
        }


def sample_states(beta, start, times, *, step=0.05, paths=10_000, seed=None):
    """Sample the transient law: independent paths of the diffusion from one start, seen at given times.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, positive.
    start : (float, float)
        ``(Q1, Q2)`` at time 0 with ``Q1 <= 0 <= Q2``.
    times : (k,) array_like
        Increasing, not negative, in mean service times.
    step : float
        Longest time step.
    paths : int
    seed : int or None

    Returns
    -------
    (paths, k, 2) array
        ``(Q1, Q2)`` of each path at each time.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range.
    """
    beta, step, (x, y) = _beta(beta), _step(step), check_start(start)
    paths = checks.whole(paths, "paths", 1, allowed="there must be at least one path")
    times = np.atleast_1d(np.asarray(times, float))
    if not (np.isfinite(times).all() and (np.diff(times, prepend=0.0) >= 0).all()):
        raise ValueError("times must be finite, not negative and increasing")
    found = np.empty((paths, len(times), 2))
    _states(x, y, beta, times, step, streams.states(seed, 1)[0], found)
    return found


def mean_first_time(beta, start, *, level=None, step=0.01, paths=1000, horizon=1e5, seed=None):
    """Estimate a mean hitting time by paths: of a level by Q2, or of the wall by Q1.

    Parameters
    ----------
    beta : float
    start : (float, float)
        ``(Q1, Q2)``.
    level : float or None
        Level below the start at which Q2 is awaited; None waits for ``Q1 = 0``.
    step : float
    paths : int, at least 2
    horizon : float
        A path that takes longer is an error, for its time would be cut.
    seed : int or None

    Returns
    -------
    Estimate
        The mean with a normal 95 % interval; the bias of the time step is not in it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range, or a path outlasts the horizon.
    """
    beta, step, (x, y) = _beta(beta), _step(step), check_start(start)
    if level is not None:
        level = checks.real(level, "level", math.ulp(0.0), y, allowed="the level must be positive, not above the start")
    paths = checks.whole(paths, "paths", 2, allowed="there must be at least two paths")
    times = np.empty(paths)
    _first_times(x, y, -1.0 if level is None else level, beta, step, streams.states(seed, 1)[0], horizon, times)
    if times.max() >= horizon:
        raise ValueError(f"a path took longer than horizon = {horizon:g}; raise it")
    return Estimate(float(times.mean()), float(1.96 * times.std(ddof=1) / math.sqrt(paths)))


def _beta(beta):
    return checks.real(beta, "beta", math.ulp(0.0), math.inf, allowed="beta must be positive")


def _step(step):
    return checks.real(step, "step", math.ulp(0.0), 1.0, allowed="the time step must be positive and at most 1")
