r"""Paper C: join the shortest queue in the Halfin-Whitt regime, the exact stationary law of the diffusion.

With ``N`` servers and arrival rate ``N - beta sqrt(N)`` the scaled occupancies ``((Q1 - N)/sqrt(N), Q2/sqrt(N))``
converge to the diffusion of Eschenfeldt and Gamarnik (2018),

    dQ1 = sqrt(2) dW - beta dt + (Q2 - Q1) dt - dL,   Q1 <= 0,   L grows only at Q1 = 0,
    dQ2 = dL - Q2 dt,                                 Q2 >= 0,

whose stationary law Banerjee and Mukherjee (2020) bound. Here it is computed, by a reduction that is not in the
paper. Let ``p(x, y)`` be the stationary density and ``F(y) = int y p(x, y) dx`` the flux of Q2 down through level
``y``. Partial integration of the adjoint equation shows that local time is spent at level ``y`` with density
``p(0, y)``; what goes down through ``y`` must have come up through it, so ``p(0, y) = F(y)``. With ``s = -log y``
and ``g = y p`` this leaves one linear parabolic equation, marched from ``y = infinity`` down to 0:

    dg/ds = d2g/dx2 - d/dx[(y - beta - x) g],   g(0, s) = y F(s),   F(s) = int g(x, s) dx.

For ``y`` above 25, ``g = y F e^(yx)`` times a series in ``1/y`` (`HighLevels`); below, the equation is marched by
Chebyshev collocation in ``x`` and Radau IIA in ``s`` (`march`); as ``y -> 0`` the flux falls like ``y^kappa``.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss

from lbcore import checks
from lbcore.records import Record
from lbcore.theory.march import (
    FAR_LEFT,
    STAGES,
    Y_TOP,
    Grid,
    HighLevels,
    log_gauss,
    march,
    radau,
    step_sizes,
    stretched,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DiffusionLaw(Record):
    """The stationary law of ``(Q1, Q2)``, the JSQ diffusion at slack `beta`. Made by `diffusion_law`."""

    beta: float  # Halfin-Whitt slack, lambda(N) = N - beta sqrt(N)
    mean_q1: float
    mean_q2: float  # also the rate of the local time
    mean_q1_squared: float
    mean_q2_squared: float
    mean_q1_q2: float
    # P(Q2 <= y) ~ C y^kappa as y -> 0: the relaxation rate of the Ornstein-Uhlenbeck process centred at -beta and
    # killed at 0 (not in the paper, which has the double exponent of Remark 1)
    kappa: float
    # c in P(Q2 > y) ~ c y e^(-beta y) (exponential tail: Banerjee and Mukherjee, 2019; factor y: new)
    tail_constant: float
    # what is left of E Q1 + beta = 0 and E[(Q1 + Q2)(Q1 + beta)] = 1, which the march does not impose
    identities: tuple
    steps: int  # of the march
    nodes: int  # of its grid in x
    _top: HighLevels
    _grid: Grid
    _occupation: np.ndarray  # int u ds at the grid points, normalised
    _log_scale: float  # log of the normalising constant of `_top`
    _levels: np.ndarray  # s at the ends of the steps
    _log_tail: np.ndarray  # log P(Q2 > y) there, with two derivatives in s
    _log_cdf: np.ndarray  # log P(Q2 <= y) likewise

    _also = ("error",)

    @cached_property
    def error(self):
        """Estimated relative error of the moments and of `kappa`: the law is solved again on a coarser grid.

        Rounding alone makes up to about 2e-9 (in E Q1^2 at small `beta`), so less is never claimed.
        """
        other = _solve(self.beta, self.nodes - 8, 0.25)
        names = ("mean_q2", "mean_q2_squared", "mean_q1_squared", "kappa")
        changes = [abs(getattr(other, name) / getattr(self, name) - 1) for name in names]
        return max(2e-9, *changes, *(abs(residual) for residual in self.identities))

    def q2_log_tail(self, y=None, *, log_y=None):
        """Return ``log P(Q2 > y)`` at levels `y`, or at their logarithms `log_y` where they are no doubles."""
        return self._q2_logs(_log_level(y, log_y))[0][()]

    def q2_log_cdf(self, y=None, *, log_y=None):
        """Return ``log P(Q2 <= y)``; arguments as in `q2_log_tail`."""
        return self._q2_logs(_log_level(y, log_y))[1][()]

    def q2_tail(self, y=None, *, log_y=None):
        """Return ``P(Q2 > y)``; arguments as in `q2_log_tail`."""
        return np.exp(self.q2_log_tail(y, log_y=log_y))

    def q2_cdf(self, y=None, *, log_y=None):
        """Return ``P(Q2 <= y)``; arguments as in `q2_log_tail`."""
        return np.exp(self.q2_log_cdf(y, log_y=log_y))

    def _q2_logs(self, log_y):
        s = -log_y
        tail, cdf = np.full(s.shape, -np.inf), np.zeros(s.shape)  # y = infinity
        start, end = self._levels[[0, -1]]
        above, below = (s < start) & (s > -np.inf), s > end
        middle = (s >= start) & ~below
        tail[above] = self._top.log_tail(np.exp(-s[above])) - self._log_scale
        cdf[below] = self._log_cdf[-1, 0] - self.kappa * (s[below] - end)
        log_tail, log_cdf = self._q2_curves
        median = self._levels[min(np.sum(self._log_tail[:, 0] < math.log(0.5)), len(self._levels) - 1)]
        upper, lower = middle & (s < median), middle & (s >= median)
        tail[upper], cdf[lower] = log_tail(s[upper]), log_cdf(s[lower])
        from_tail, from_cdf = above | upper, below | lower
        cdf[from_tail] = _log_complement(tail[from_tail])
        tail[from_cdf] = _log_complement(cdf[from_cdf])
        return tail, cdf

    @cached_property
    def _q2_curves(self):
        return tuple(scipy.interpolate.BPoly.from_derivatives(self._levels, d) for d in (self._log_tail, self._log_cdf))

    def q1_density(self, x):
        """Return the density of Q1 at `x` (array_like, any sign; 0 above the wall at 0)."""
        return np.exp(self._q1_log_density(checks.array(x, "x")))[()]

    def q1_log_tail(self, x):
        """Return ``log P(-Q1 > x)``; beyond ``beta + 7.5`` the power law times Gaussian seen there is continued."""
        x = -checks.array(x, "x")
        edge, power, _ = self._far_left
        log_tail = np.zeros(x.shape)
        inside = (x <= 0) & (x >= edge)
        log_tail[inside] = np.minimum(self._q1_curve(self._grid.locate(x[inside])), 0.0)
        far = x < edge
        log_tail[far] = self._q1_log_density(x[far]) + _log_mills(x[far] + self.beta, power)
        return log_tail[()]

    def q1_tail(self, x):
        """Return ``P(-Q1 > x)`` for array_like `x`."""
        return np.exp(self.q1_log_tail(x))

    def _q1_log_density(self, x):
        log_density = np.full(x.shape, -np.inf)
        edge, power, at_edge = self._far_left
        inside = (x <= 0) & (x >= edge)
        log_density[inside] = np.log(self._q1_inside(x[inside]))
        far = (x < edge) & (x > -np.inf)
        ratio = (x[far] + self.beta) / (edge + self.beta)
        log_density[far] = at_edge + log_gauss(x[far], self.beta) - log_gauss(edge, self.beta) + power * np.log(ratio)
        return log_density

    def _q1_inside(self, x):
        """Return the density of Q1 at points of the grid's range."""
        smooth = self._occupation_curve(self._grid.locate(x))[:, 0]
        density = np.exp(log_gauss(x, self.beta)) * smooth
        near = x > -1.5  # above Y_TOP the profile is e^(yx): nothing is left of it further out
        if near.any():
            z, rate = x[near], self.beta - x[near]
            y = Y_TOP + np.divide.outer(self._top.tau, rate)
            flux = np.exp(self._top.log_flux(y) - self._log_scale)
            density[near] += self._top.weights @ (self._top.profile(z, y) / y * flux) / rate
        return density

    @cached_property
    def _occupation_curve(self):
        slope = self._grid.first @ self._occupation
        return scipy.interpolate.BarycentricInterpolator(self._grid.zeta, np.column_stack([self._occupation, slope]))

    @cached_property
    def _far_left(self):
        """Return the last point at which the grid is trusted, and there: the power of ``|z|`` in ``u``, log density."""
        edge = np.array(0.5 - self.beta - FAR_LEFT)
        value, slope = self._occupation_curve(self._grid.locate(edge))
        return edge, (edge + self.beta) * slope / value, log_gauss(edge, self.beta) + math.log(value)

    @cached_property
    def _q1_curve(self):
        """The curve of ``log P(Q1 < x)`` in the Chebyshev variable, summed from the left so that it is exact there."""
        grid, (edge, power, at_edge) = self._grid, self._far_left
        zeta = np.linspace(grid.locate(edge), 0.0, 401)
        nodes, gauss = leggauss(6)
        inner = zeta[:-1, None] + np.diff(zeta)[:, None] * (nodes + 1) / 2
        x, jacobian = stretched(inner, grid.stretch, grid.left)
        mass = (self._q1_inside(x.ravel()).reshape(x.shape) * jacobian) @ gauss * -np.diff(zeta) / 2
        first = math.exp(at_edge + _log_mills(edge + self.beta, power))
        tail = first + np.concatenate([[0.0], np.cumsum(mass)])
        edges, jacobian = stretched(zeta, grid.stretch, grid.left)
        pieces = np.column_stack([np.log(tail), -jacobian * self._q1_inside(edges) / tail])
        return scipy.interpolate.BPoly.from_derivatives(zeta[::-1], pieces[::-1])


def diffusion_law(beta):
    """Return the exact stationary law of the JSQ diffusion in the Halfin-Whitt regime.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 6``.

    Returns
    -------
    DiffusionLaw
        The last 256 laws are kept.

    Notes
    -----
    Diffusion: Banerjee and Mukherjee (2020), Eq. (1.1). Method: see the head of this module; it is not in the paper.
    The moments are good to about 1e-8 for ``beta <= 4`` and 1e-6 at ``beta = 6``; `DiffusionLaw.error` tells.
    """
    return _cached_law(checks.real(beta, "beta", least=0.01, most=6.0, why="the exact law is certified there"))


@lru_cache(maxsize=256)
def _cached_law(beta):
    law = _solve(beta, 64, 0.2)
    if not max(map(abs, law.identities)) < 1e-6:
        raise ArithmeticError(f"the march failed its identities at beta = {beta:g}: {law.identities}")
    return law


def _solve(beta, n, first_step):
    top, grid = HighLevels(beta), Grid.build(beta, n)
    nodes, matrix = radau(STAGES)
    sizes = step_sizes(first_step)
    start = -math.log(Y_TOP)
    log_flux, slopes, profiles = march(top, grid, sizes)
    ends = start + np.cumsum(sizes)
    y = np.exp(-(ends - sizes)[:, None] - np.multiply.outer(sizes, nodes))
    kappa = -slopes[-1, -1]
    # probability of each step of the march, below it and above it
    flux = np.exp(log_flux)
    weight = np.multiply.outer(sizes, matrix[-1]) * flux
    below = flux[-1, -1] / kappa
    log_above = top.log_tail(np.array([Y_TOP]))[0]
    scale = weight.sum() + below + math.exp(log_above)
    weight, below, log_scale = weight / scale, below / scale, math.log(scale)
    occupation = np.einsum("km,kmn->n", weight, profiles) + below * profiles[-1, -1]

    def mean(power_x, power_y):
        """Return ``E[Q1^power_x Q2^power_y]``."""
        inner = np.einsum("kmn,n->km", profiles, grid.weights * grid.x**power_x)
        marched = np.sum(weight * y**power_y * inner)
        if power_y == 0:
            marched += below * inner[-1, -1]
        given = top.moment(power_x)
        far = top.integral(lambda z: z ** (power_y - 1) * given(z), beta) / scale
        return float(marched + far)

    q1, q2, q11, q22, q12 = mean(1, 0), mean(0, 1), mean(2, 0), mean(0, 2), mean(1, 1)
    levels = np.concatenate([[start], ends])
    end_flux = np.concatenate([[math.exp(top.log_flux(Y_TOP))], flux[:, -1]]) / scale
    end_slope = np.concatenate([[top.slope(Y_TOP)], slopes[:, -1]])
    hazard = _tail_over_flux(math.exp(log_above - top.log_flux(Y_TOP)), slopes, sizes, matrix)
    log_tail = np.column_stack([np.log(end_flux * hazard), 1 / hazard, (end_slope * hazard - 1) / hazard**2])
    cdf = below + np.concatenate([np.cumsum(weight.sum(axis=1)[::-1])[::-1], [0.0]])
    rate = end_flux / cdf
    log_cdf = np.column_stack([np.log(cdf), -rate, -rate * (end_slope + rate)])
    return DiffusionLaw(
        beta=beta, mean_q1=q1, mean_q2=q2, mean_q1_squared=q11, mean_q2_squared=q22, mean_q1_q2=q12,
        kappa=float(kappa), tail_constant=math.exp(-log_scale) / beta,
        identities=(q1 + beta, q11 + q12 + beta * (q1 + q2) - 1), steps=len(sizes), nodes=n,
        _top=top, _grid=grid, _occupation=occupation, _log_scale=log_scale,
        _levels=levels, _log_tail=log_tail, _log_cdf=log_cdf,
    )  # fmt: skip


def _tail_over_flux(first, slopes, sizes, matrix):
    """Return ``P(Q2 > y) / F(y)`` at the ends of the steps: ``R' = 1 - R d(log F)/ds``, by the same Radau rule."""
    values, unit = [first], np.eye(len(matrix))
    for slope, h in zip(slopes, sizes, strict=True):
        stages = np.linalg.solve(unit + h * matrix * slope, values[-1] + h * matrix.sum(axis=1))
        values.append(stages[-1])
    return np.array(values)


def _log_complement(log_p):
    """Return ``log(1 - e^log_p)``."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(np.minimum(log_p, 0.0)))


def _log_mills(z, power):
    """Return log of ``int_(-inf)^z`` over the integrand at ``z`` for ``e^(-t^2/2) |t|^power`` (asymptotic)."""
    z2 = np.square(z)
    a, b, c = power - 1, (power - 1) * (power - 3), (power - 1) * (power - 3) * (power - 5)
    return np.log1p(a / z2 + b / z2**2 + c / z2**3) - np.log(-z)


def _log_level(y, log_y):
    if (y is None) == (log_y is None):
        raise TypeError("give either y or log_y")
    if log_y is not None:
        return checks.array(log_y, "log_y")
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(checks.array(y, "y"), 0.0))
