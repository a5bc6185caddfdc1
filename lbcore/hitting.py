r"""Paper C: exact mean hitting times of the JSQ diffusion (Lemmas 4.1 to 4.3).

Let ``u(x, y)`` be the mean time until Q2 is at ``level``, from ``(x, y)`` above it. Away from the wall
``y u_y = u_xx + (y - beta - x) u_x + 1``, and ``u(x, level) = 0``: a parabolic equation marched *upwards* in ``y``.
At the wall Q2 starts an excursion above ``y``. Each such excursion ends at level ``y`` with Q1 distributed as
``phi(.; y)``, the stationary law of Q1 given ``Q2 = y`` (down-crossings of ``y`` are seen in equilibrium with density
``y p(x, y)``, and each follows one excursion from the wall), and its mean length is the share of time above ``y`` over
the flux through it, ``R(y) = P(Q2 > y) / F(y)``. Hence

    u(0, y) = R(y) + int phi(x; y) u(x, y) dx,

a mean over a probability law: the march is stable. It runs on the grid of `lbcore.jsq`. Not in the paper, which has
orders of magnitude.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import BarycentricInterpolator, CubicSpline

from lbcore import checks, jsq
from lbcore.compiled import kernel

_NODES, _STAGES = 48, 3  # small systems; the tests compare with finer ones
LEVELS = (1e-15, 20.0)
BETA_RANGE = (0.01, 5.0)  # beyond, cancellation in the wall's condition costs more than four digits
_ALLOWED = f"levels of Q2 must satisfy {LEVELS[0]:g} <= level < top <= {LEVELS[1]:g}"


@dataclass(frozen=True, eq=False, repr=False)
class FallTimes:
    """Mean times for Q2 to fall to `level`. Made by `fall_times`.

    Attributes
    ----------
    beta, level, top : float
    heights : (k,) array
        Levels of Q2 between `level` and `top`.
    from_wall : (k,) array
        Mean time to fall from ``(0, height)``.
    from_typical : (k,) array
        Mean time to fall from ``Q2 = height`` and Q1 as in equilibrium given that, `from_wall` less one excursion.
    """

    beta: float
    level: float
    top: float
    heights: np.ndarray
    from_wall: np.ndarray
    from_typical: np.ndarray

    def __call__(self, height):
        """Return the mean time to fall from ``(0, height)``, for heights from `level` to `top`, interpolated (1e-5)."""
        height = np.asarray(height, float)
        if not ((height >= self.level) & (height <= self.top * (1 + 1e-12))).all():
            raise ValueError(f"heights must lie between level = {self.level:g} and top = {self.top:g}")
        return self._curve(np.log(height / self.level))[()]

    @property
    def _curve(self):
        return CubicSpline(np.log(self.heights / self.level), self.from_wall)

    def __repr__(self):
        return (
            f"FallTimes(beta={self.beta:g}: from (0, {self.top:g}) to Q2 = {self.level:g} "
            f"in {self.from_wall[-1]:.6g} on average)"
        )


def fall_times(beta, level, top):
    """Return exact mean times for Q2 to fall to `level` from all heights up to `top`.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 5``.
    level, top : float
        ``1e-15 <= level < top <= 20``.

    Returns
    -------
    FallTimes

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range.

    Notes
    -----
    Good to about 1e-6 relative for ``beta <= 4`` and 1e-5 at ``beta = 5`` (compared with finer grids).
    Lemma 4.1: about ``y / beta`` from ``y`` to a level of order beta. Lemma 4.3: ``O(log(beta / level))``; the exact
    time from a typical state at ``Q2 = z`` follows ``((z / level)^kappa - 1) / kappa / P(Q2 <= z)`` as both become
    small, which is a logarithm only while ``kappa log(1 / level)`` is small.
    """
    low, high = BETA_RANGE
    beta = checks.real(beta, "beta", low, high, allowed=f"fall times are certified for {low:g} <= beta <= {high:g}")
    level = checks.real(level, "level", *LEVELS, allowed=_ALLOWED)
    top = checks.real(top, "top", math.nextafter(level, math.inf), LEVELS[1], allowed=_ALLOWED)
    return _cached_fall(beta, level, top)


@lru_cache(maxsize=64)
def _cached_fall(beta, level, top):
    sizes = _step_sizes(level, top)
    nodes, matrix = jsq._radau(_STAGES)
    s = -math.log(level) - np.concatenate([[0.0], np.cumsum(sizes)])  # falls from step to step
    grid, profiles, excess = _profiles(beta, s, nodes)
    from_wall = _climb(
        grid.x, grid.first, grid.second, beta, sizes, level, nodes, matrix, grid.weights * profiles[1:], excess[1:],
        np.zeros(len(grid.x)),
    )  # fmt: skip
    from_wall, mean_excursion = np.append(excess[0, 0], from_wall), np.append(excess[0, 0], excess[1:, -1])
    return FallTimes(beta, level, top, np.exp(-s), from_wall, from_wall - mean_excursion)


def _step_sizes(level, top):
    """Return steps in ``log y``: short at the level, where ``u`` jumps, then 0.2, or 0.8 deep down."""
    sizes, h, y = [], 1e-4, level
    while y < top:
        sizes.append(min(h, 0.2 if y > 0.02 else 0.8))
        y *= math.exp(sizes[-1])
        h *= 2
    return np.array(sizes) * math.log(top / level) / sum(sizes)


def wall_time(beta, q1, q2=0.0):
    """Return the exact mean time until Q1 is at the wall, from ``(q1, q2)``.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 6``.
    q1 : float
        Start of Q1, from ``-beta - 8`` to 0.
    q2 : float
        Start of Q2, from 0 to 20; it decays freely until the wall is reached.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range.

    Notes
    -----
    Lemma 4.2 has ``e^(c beta^2)``; from ``(-beta, 0)`` it is ``sqrt(2 pi) e^(beta^2 / 2) / beta`` to leading order.
    """
    beta = jsq.diffusion_law(beta).beta
    allowed = "a start satisfies -beta - 8 <= Q1 <= 0 <= Q2 <= 20"
    q1 = checks.real(q1, "Q1", -beta - 8, 0.0, allowed=allowed)
    q2 = checks.real(q2, "Q2", 0.0, LEVELS[1], allowed=allowed)
    grid = jsq._Grid.build(beta, _NODES)
    operator = grid.second + (-beta - grid.x)[:, None] * grid.first  # Q2 = 0: an Ornstein-Uhlenbeck process
    u = np.append(0.0, np.linalg.solve(operator[1:, 1:], -np.ones(_NODES)))
    y = min(1e-8, q2)  # below this level Q2 makes no difference
    sizes = _step_sizes(y, q2) if q2 > y else np.empty(0)
    none = np.zeros((len(sizes), _STAGES, _NODES + 1))
    _climb(grid.x, grid.first, grid.second, beta, sizes, y, *jsq._radau(_STAGES), none, none[:, :, 0], u)
    return float(BarycentricInterpolator(grid.zeta, u)(grid.locate(q1)))


@kernel
def _climb(x, first, second, beta, sizes, y, nodes, matrix, laws, excess, u):
    """March ``y u_y = u_xx + (y - beta - x) u_x + 1`` upwards, ``u(0, y) = excess + laws @ u``.

    Parameters
    ----------
    x, first, second : arrays of a `lbcore.jsq._Grid` with ``n + 1`` points
    beta : float
    sizes : (k,) array of steps in ``log y``
    y : float, where the march starts
    nodes, matrix : (m,), (m, m) arrays, the Radau rule
    laws, excess : (k, m, n + 1), (k, m) arrays, the condition at the wall at each stage
    u : (n + 1,) array, the values at the start; overwritten by those at the end

    Returns
    -------
    (k,) array, ``u(0, y)`` at the ends of the steps
    """
    n, m = x.size - 1, nodes.size
    at_wall = np.empty(sizes.size)
    system, right = np.empty((m * n, m * n)).T, np.empty(m * n)  # column-major, as LAPACK wants it
    rate = np.empty((n, n))
    for step in range(sizes.size):
        h = sizes[step]
        for i in range(m):
            right[i * n : (i + 1) * n] = u[1:]
        for j in range(m):
            height = y * math.exp(nodes[j] * h)
            own = 1.0 - laws[step, j, 0]
            for a in range(n):
                drift = height - beta - x[a + 1]
                wall = (second[a + 1, 0] + drift * first[a + 1, 0]) / own
                for b in range(n):
                    rate[a, b] = second[a + 1, b + 1] + drift * first[a + 1, b + 1] + wall * laws[step, j, b + 1]
                for i in range(m):
                    right[i * n + a] += h * matrix[i, j] * (1.0 + wall * excess[step, j])
            for b in range(n):
                for i in range(m):
                    for a in range(n):
                        system[i * n + a, j * n + b] = -h * matrix[i, j] * rate[a, b]
        for i in range(m * n):
            system[i, i] += 1.0
        solution = np.linalg.solve(system, right)
        total = excess[step, m - 1]
        for b in range(n):
            u[b + 1] = solution[(m - 1) * n + b]
            total += laws[step, m - 1, b + 1] * u[b + 1]
        u[0] = at_wall[step] = total / (1.0 - laws[step, m - 1, 0])
        y *= math.exp(h)
    return at_wall


def _profiles(beta, s, nodes):
    """Return the grid, ``u / F`` of the stationary march and ``P(Q2 > y) / F(y)`` at the stages of an upward march.

    Row 0 is for the start ``s[0]``; row k + 1 for the step from ``s[k]`` to ``s[k + 1] < s[k]``. The stationary march
    goes the other way, so its stages stand elsewhere: a polynomial through them and the start of the step is used.
    """
    law = jsq.diffusion_law(beta)
    grid, top = jsq._Grid.build(beta, _NODES), law._top
    start = -math.log(jsq._Y_TOP)
    lead = np.diff(np.linspace(start, s[-1], max(2, math.ceil((s[-1] - start) / 0.1) + 1)))
    sizes = np.concatenate([lead, -np.diff(s)[::-1]])
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        first = top.profile(grid.x, jsq._Y_TOP) * np.exp(-jsq._log_gauss(grid.x, beta))
    first[grid.x * jsq._Y_TOP < -42] = 0.0
    first /= grid.weights @ first
    rule, matrix = jsq._radau(4)
    log_flux, _, profiles = jsq._march(
        grid.x, grid.first, grid.second, grid.weights, beta, rule, matrix, sizes, start, first, top.slope(jsq._Y_TOP)
    )
    k = len(lead)
    places = np.concatenate([[0.0], rule])
    wanted = 1 - nodes
    weights = np.array([[np.prod([(w - q) / (p - q) for q in places if q != p]) for p in places] for w in wanted])
    both = np.concatenate([profiles, log_flux[:, :, None]], axis=2)
    with_start = np.concatenate([both[k - 1 : -1, -1:], both[k:]], axis=1)
    at = np.einsum("wp,kpn->kwn", weights, with_start)[::-1]
    at = np.concatenate([np.repeat(both[-1:, -1:], len(nodes), axis=1), at])
    y_log = np.concatenate([np.full((1, len(nodes)), -s[0]), -s[:-1, None] - np.outer(np.diff(s), nodes)])
    log_flux = at[:, :, -1] + top.log_flux(jsq._Y_TOP) - law._log_scale
    excess = np.exp(law.q2_log_tail(log_y=y_log) - log_flux)
    return grid, at[:, :, :-1], excess
