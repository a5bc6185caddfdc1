r"""Paper C: exact mean hitting times of the JSQ diffusion (Lemmas 4.1 to 4.7).

Let Q2 fall from ``top``, Q1 starting as in equilibrium given ``Q2 = top``, and let ``q(x, y)`` be the law of Q1 when
Q2 first is at level ``y``. While Q1 is off the wall, Q2 slides down by itself, ``y = e^-s``. At the wall Q2 starts an
excursion above ``y``, and each such excursion ends at ``y`` with Q1 distributed as ``phi(.; y)``, the stationary law
of Q1 given ``Q2 = y`` (down-crossings of ``y`` are seen in equilibrium with density ``y p(x, y)``, and each ends one
excursion from the wall). So ``q`` solves the equation of `lbcore.theory.diffusion` with another condition at the wall,

    dq/ds = d2q/dx2 - d/dx[(y - beta - x) q] + n phi,   q(0, s) = 0,   n(s) = -dq/dx(0, s),

where ``n ds`` excursions are begun while ``s`` grows by ``ds``. One march tells what any of them cost on average: time,
``R(y) = P(Q2 > y) / F(y)`` each, the share of time above ``y`` over the flux through it; or visits to ``top``,
``F(top) / F(y)`` each. Not in the paper, which has orders of magnitude.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import BarycentricInterpolator

from lbcore import checks
from lbcore.records import Record
from lbcore.theory.diffusion import diffusion_law
from lbcore.theory.march import Y_TOP, Grid, march, radau, radau_step

_NODES = 44  # small systems; the tests compare with finer ones
_FIRST = 1e-6  # the first step in s: the march starts with a layer at the wall
_LOWEST, _HIGHEST = 1e-15, 20.0  # levels of Q2


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FallTimes(Record):
    """Mean times for Q2 to fall from `top`. Made by `fall_times`."""

    beta: float
    level: float
    top: float
    levels: np.ndarray  # (k,), of Q2, from `top` down to `level`
    from_wall: np.ndarray  # (k,), mean time to fall there from (0, top)
    # (k,), mean time to fall there from Q2 = top and Q1 as in equilibrium given that: `from_wall` less one excursion
    from_typical: np.ndarray
    # (k,), mean time from (0, top) down to the level and up to (0, top) again. Each cycle visits (0, top) from below a
    # number of times, in all at rate F(top); the mean of that number over the rate is the mean length.
    cycle: np.ndarray


def fall_times(beta, level, top):
    """Return exact mean times for Q2 to fall from `top` to all levels down to `level`.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 5``.
    level, top : float
        ``1e-15 <= level < top <= 20``.

    Returns
    -------
    FallTimes

    Notes
    -----
    Good to about 1e-6 relative for ``beta <= 4`` and 1e-5 at ``beta = 5`` (compared with finer grids).
    Lemma 4.1: about ``y / beta`` from ``y`` to a level of order beta. Lemma 4.3: ``O(log(beta / level))``; the exact
    time from a typical state at ``Q2 = z`` follows ``((z / level)^kappa - 1) / kappa / P(Q2 <= z)`` as both become
    small, which is a logarithm only while ``kappa log(z / level)`` is small. Lemma 4.7: `FallTimes.cycle` from
    ``2 / beta`` to ``1 / beta`` is the mean time between regenerations.
    """
    beta = checks.real(beta, "beta", least=0.01, most=5.0, why="fall times are certified there")
    level = checks.real(level, "level", least=_LOWEST, below=_HIGHEST)
    top = checks.real(top, "top", above=level, most=_HIGHEST)
    return _cached_fall(beta, level, top)


@lru_cache(maxsize=64)
def _cached_fall(beta, level, top):
    law, grid, (rule, matrix) = diffusion_law(beta), Grid.build(beta, _NODES), radau(4)
    height = math.log(Y_TOP / top)
    lead, sizes = np.full(math.ceil(10 * height), height / math.ceil(10 * height)), _step_sizes(level, top)
    log_flux, _, profiles = march(law._top, grid, np.append(lead, sizes))
    flux, laws = np.exp(log_flux - law._log_scale), profiles[len(lead) :, :, 1:]  # phi / w
    flux_top, flux, q = flux[len(lead) - 1, -1], flux[len(lead) :], profiles[len(lead) - 1, -1, 1:]
    ends = -math.log(top) + np.concatenate([[0.0], np.cumsum(sizes)])
    s = ends[:-1, None] + np.outer(sizes, rule)
    wall_rate, slope, drift, unit = np.empty(s.shape), -grid.first[0, 1:], grid.x[1:] + beta, np.eye(_NODES)
    at_zero = grid.second[1:, 1:] - drift[:, None] * grid.first[1:, 1:]
    for step, h in enumerate(sizes):
        y = np.exp(-s[step])[:, None, None]
        rates = at_zero + y * (drift * unit - grid.first[1:, 1:]) + laws[step][:, :, None] * slope
        stages = radau_step(rates, h * matrix, q)
        wall_rate[step], q = stages @ slope, stages[-1]
    excursion = np.exp(law.q2_log_tail(log_y=-s)) / flux
    weights = np.outer(sizes, matrix[-1])
    time, visits = (
        np.concatenate([[0.0], np.cumsum(np.sum(weights * rate, axis=1))])
        for rate in (1 + excursion * wall_rate, wall_rate / flux)
    )
    first = law.q2_tail(top) / flux_top
    return FallTimes(
        beta=beta, level=level, top=top, levels=np.exp(-ends), from_wall=first + time, from_typical=time,
        cycle=visits + 1 / flux_top,
    )  # fmt: skip


def excursion_time(beta, y):
    """Return ``R(y) = P(Q2 > y) / F(y)``, the exact mean length of an excursion of Q2 above `y`, from the wall.

    Parameters
    ----------
    beta : float
        ``0.01 <= beta <= 6``.
    y : array_like
        From 1e-15 to 20.
    """
    law, y = diffusion_law(beta), checks.array(y, "y", least=_LOWEST, most=_HIGHEST)
    above, below = (curve.derivative()(-np.log(y)) for curve in law._q2_curves)  # F/P(Q2 > y), -F/P(Q2 <= y)
    return np.where(law.q2_cdf(y) > 0.5, 1 / above, -np.expm1(-law.q2_log_cdf(y)) / below)[()]


def _step_sizes(level, top):
    """Return steps in ``s``: short at first, then 0.2, then growing once the profile changes little."""
    sizes, s, end = [_FIRST], _FIRST, math.log(top / level)
    while s < end:
        y = top * math.exp(-s)
        sizes.append(min(3 * sizes[-1], 0.2) if y > 0.2 or sizes[-1] < 0.1 else min(1.6 * sizes[-1], 2.0))
        s += sizes[-1]
    return np.array(sizes) * end / s


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

    Notes
    -----
    Lemma 4.2 has ``e^(c beta^2)``; from ``(-beta, 0)`` it is ``sqrt(2 pi) e^(beta^2 / 2) / beta`` to leading order.
    The mean time ``u`` solves ``y u_y = u_xx + (y - beta - x) u_x + 1``, ``u(0, y) = 0``, marched upwards in ``y``.
    """
    beta = diffusion_law(beta).beta
    q1 = checks.real(q1, "q1", least=-beta - 8, most=0.0)
    q2 = checks.real(q2, "q2", least=0.0, most=_HIGHEST)
    grid, (rule, matrix) = Grid.build(beta, _NODES), radau(3)
    first, second, restoring = grid.first[1:, 1:], grid.second[1:, 1:], -(beta + grid.x[1:, None])
    u = np.linalg.solve(second + restoring * first, -np.ones(_NODES))  # Q2 = 0: an Ornstein-Uhlenbeck process
    span = math.log(max(q2, 1e-8) / 1e-8)  # below 1e-8 Q2 makes no difference
    count = math.ceil(8 * span)
    for k in range(count, 0, -1):
        h = span / count
        heights = q2 * np.exp(h * (rule - k))[:, None, None]
        u = radau_step(second + (heights + restoring) * first, h * matrix, u, 1.0)[-1]
    return float(BarycentricInterpolator(grid.zeta, np.append(0.0, u))(grid.locate(q1)))
