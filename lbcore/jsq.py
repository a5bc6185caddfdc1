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

For ``y`` above 25, ``g = y F e^(yx)`` times a series in ``1/y`` (`_Top`); below, the equation is marched by
Chebyshev collocation in ``x`` and Radau IIA in ``s`` (`_march`); as ``y -> 0`` the flux falls like ``y^kappa``.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.laguerre import laggauss
from numpy.polynomial.legendre import leggauss
from numpy.polynomial.polynomial import polyval2d
from scipy.linalg.lapack import dgesv

from lbcore import checks, mmn, policies
from lbcore.finite import finite_law as finite_law
from lbcore.finite import transient_law as transient_law

BETA_RANGE = (0.01, 6.0)
_ALLOWED = f"the exact law is certified for {BETA_RANGE[0]:g} <= beta <= {BETA_RANGE[1]:g}"

_Y_TOP = 25.0  # above this level of Q2 the series in 1/y is used
_S_END = 37.0  # below y = exp(-37) only the slowest mode is left
_FAR_LEFT = 8.0  # the grid in x ends this many standard deviations below the mean -beta
_STAGES = 4  # Radau IIA of order 7


class _Top:
    r"""The solution above ``_Y_TOP``: ``g = y F(y) psi(y x; y)``,
    ``psi(xi; y) = e^xi sum_k q_k(xi) y^-k``.

    Put into the equation, with ``y F'(y) / F(y) = sum_k h_k y^(1-k)`` and ``psi(0) = int psi = 1``, each polynomial
    ``q_k`` follows from the earlier ones, and the condition ``int psi = 1`` fixes ``h_(k-1)``. The first terms give
    ``F(y) ~ y^2 e^(-beta y)``.
    """

    _TERMS = 18

    def __init__(self, beta):
        terms = self._TERMS
        q = np.zeros((terms + 1, terms + 1))  # q[k, i]: the coefficient of xi^i in q_k, of degree k at most
        h = np.zeros(terms)
        q[0, 0], h[0] = 1.0, -beta
        degree = np.arange(terms + 1)
        moments = _exponential_moments(terms + 1)
        for k in range(1, terms + 1):
            # q_k'' + q_k' = right, collected from (y^2 psi'' - y^2 psi' + beta y psi' + ... = 0) at order y^(2-k)
            right = -beta * (q[k - 1] + _derivative(q[k - 1]))
            if k >= 2:
                right -= 2 * (1 + degree) * q[k - 2] + 2 * np.append(0.0, q[k - 2, :-1]) - (k - 2) * q[k - 2]
            known = max(1, k - 1)
            right -= h[:known] @ q[k - known : k][::-1]
            slope = np.zeros(terms + 1)
            for i in range(k, -1, -1):
                slope[i] = right[i] - ((i + 1) * slope[i + 1] if i < terms else 0.0)
            q[k, 1:] = slope[:-1] / degree[1:]
            if k >= 2:  # h_(k-1) multiplies q_0 = 1, which adds -h_(k-1) xi; int e^xi q_k = 0 fixes it
                h[k - 1] = -(q[k] @ moments)
                q[k, 1] -= h[k - 1]
        self.beta, self._q = beta, q[:terms, :terms]
        self._slope = Polynomial(h)  # y F'/F = y _slope(1/y)
        self._series = Polynomial(np.concatenate([[0.0], -h[2:] / degree[1 : terms - 1]]))
        self._tau, weights = _laguerre()
        self._weights = weights * np.exp(self._tau)

    def log_flux(self, y):
        """Return ``log F(y)``, up to a constant that the normalisation fixes."""
        return -self.beta * y + 2 * np.log(y) + self._series(1 / y)

    def slope(self, y):
        """Return ``d log F / ds = -y F'(y) / F(y)``."""
        return -y * self._slope(1 / y)

    def profile(self, x, y):
        """Return ``phi(x; y) = y psi(y x; y)``, the law of Q1 given ``Q2 = y``; arguments broadcast."""
        xi = x * y
        return y * np.exp(xi) * polyval2d(1 / (y + 0 * x), xi, self._q)

    def integral(self, function, above, rate):
        """Return ``int_above^inf function(y) F(y) dy``, where ``function`` times ``F`` decays like ``e^(-rate y)``."""
        y = np.add.outer(above, self._tau / rate)
        return (function(y) * np.exp(self.log_flux(y))) @ self._weights / rate

    def moment(self, power):
        """Return the function ``y -> int x^power phi(x; y) dx``."""
        series = Polynomial(self._q @ _exponential_moments(self._TERMS, power))
        return lambda y: y**-power * series(1 / y)

    def log_tail(self, y):
        """Return ``log int_y^inf F(z)/z dz`` for an array of ``y >= _Y_TOP``, however far out."""
        z = np.add.outer(y, self._tau / self.beta)
        change = self._series(1 / z) - self._series(1 / y)[:, None] - self._tau
        ratio = z / y[:, None] * np.exp(change)  # F(z) y / (F(y) z)
        return self.log_flux(y) - np.log(y) + np.log(ratio @ self._weights / self.beta)


@lru_cache
def _laguerre():
    return laggauss(40)


def _derivative(coefficients):
    """Return the derivative of a polynomial, as an array of the same length."""
    return np.append(np.arange(1, len(coefficients)) * coefficients[1:], 0.0)


def _exponential_moments(count, power=0):
    """Return the integrals of ``e^xi xi^(i + power)`` over the negative half-line for ``i < count``."""
    return np.array([(-1.0) ** (i + power) * math.factorial(i + power) for i in range(count)])


@dataclass(frozen=True)
class _Grid:
    """Collocation in ``x`` on ``[-left, 0]``, Chebyshev points crowding towards the wall at scale ``1/_Y_TOP``.

    The unknown is ``u = g / w`` with the Gaussian ``w(x) = exp(-beta x - x^2/2)``: smooth and of moderate size over
    the whole grid once ``y`` is small, which keeps *relative* accuracy far down the tail of Q1.
    """

    x: np.ndarray  # (n + 1,), from 0 down to -left
    first: np.ndarray  # (n + 1, n + 1), d/dx
    second: np.ndarray  # (n + 1, n + 1), d2/dx2
    weights: np.ndarray  # (n + 1,), int g dx = weights @ u
    zeta: np.ndarray  # (n + 1,), the Chebyshev variable in [0, 1] of each x
    stretch: float
    left: float

    @classmethod
    def build(cls, beta, n):
        left = beta + _FAR_LEFT
        stretch = math.log(left * _Y_TOP / 2)
        angle = np.pi * np.arange(n + 1) / n
        zeta = (1 - np.cos(angle)) / 2
        difference = np.sin(np.add.outer(angle, angle) / 2) * np.sin(np.subtract.outer(angle, angle) / 2)
        np.fill_diagonal(difference, 1.0)  # zeta_i - zeta_j, without cancellation
        sign = (-1.0) ** np.arange(n + 1)
        sign[[0, -1]] *= 2
        d1 = np.divide.outer(sign, sign) / difference
        _zero_row_sums(d1)
        d2 = 2 * d1 * (np.diag(d1)[:, None] - 1 / difference)
        _zero_row_sums(d2)
        x, jacobian = _stretched(zeta, stretch, left)
        speed = -jacobian  # dx/dzeta, negative
        first = d1 / speed[:, None]
        second = (d2 - stretch * d1) / speed[:, None] ** 2
        weights = _clenshaw_curtis(n) * jacobian * np.exp(_log_gauss(x, beta))
        return cls(x, first, second, weights, zeta, stretch, left)

    def locate(self, x):
        """Return the Chebyshev variable of points ``x`` in ``[-left, 0]``."""
        return np.log1p(-x / self.left * np.expm1(self.stretch)) / self.stretch


def _clenshaw_curtis(n):
    """Return the interpolatory quadrature weights at the ``n + 1`` Chebyshev points of ``[0, 1]``, ``n`` even."""
    j = np.arange(n // 2 + 1)
    factor = np.where((j == 0) | (j == n // 2), 1.0, 2.0) / (1.0 - 4.0 * j * j)
    weights = np.cos(2 * np.pi / n * np.multiply.outer(np.arange(n + 1), j)) @ factor / n
    weights[[0, -1]] /= 2
    return weights


def _stretched(zeta, stretch, left):
    """Return ``x`` and ``-dx/dzeta`` for the exponentially stretched variable."""
    scale = left / np.expm1(stretch)
    return -scale * np.expm1(stretch * zeta), scale * stretch * np.exp(stretch * zeta)


def _zero_row_sums(matrix):
    """Set the diagonal so that constants are differentiated to zero to the last bit."""
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))


def _log_gauss(x, beta):
    """Return ``log w``: the Ornstein-Uhlenbeck density centred at ``-beta``, scaled to 1 at the wall."""
    return -x * (beta + x / 2)


@lru_cache
def _radau(stages):
    """Return nodes and matrix of the Radau IIA rule (Hairer and Wanner, Solving ODEs II, IV.5)."""
    roots = (Legendre.basis(stages) - Legendre.basis(stages - 1)).roots().real
    nodes = (np.sort(roots) + 1) / 2
    nodes[-1] = 1.0
    powers = np.arange(stages)
    vandermonde = np.power.outer(nodes, powers)
    integrals = np.power.outer(nodes, powers + 1) / (powers + 1)
    return nodes, np.linalg.solve(vandermonde.T, integrals.T).T


def _steps(first):
    """Return step sizes in ``s``: even while the profile changes shape, then growing."""
    sizes, s = [], -math.log(_Y_TOP)
    while s < _S_END:
        sizes.append(first if s < 1.0 else min(1.2 * sizes[-1], 2.0))
        s += sizes[-1]
    return np.array(sizes)


def _march(top, grid, sizes):
    """March ``du/ds = u_xx - (x + beta + y) u_x + y (x + beta) u``, ``u(0) = y F``, from ``_Y_TOP`` down.

    Parameters
    ----------
    top : _Top
    grid : _Grid with ``n + 1`` points
    sizes : (k,) array of step sizes in ``s``

    Returns
    -------
    log_flux, slopes : (k, m) arrays, ``log F`` (scaled as `top` has it) and ``d log F / ds`` at each stage
    profiles : (k, m, n + 1) array, ``u / F`` at each stage
    """
    beta, weights, (nodes, matrix) = top.beta, grid.weights, _radau(_STAGES)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        u = top.profile(grid.x, _Y_TOP) * np.exp(-_log_gauss(grid.x, beta))
    u[grid.x * _Y_TOP < -42] = 0.0  # 1e-18 of what is at the wall
    u /= weights @ u
    s, log_start, slope = -math.log(_Y_TOP), top.log_flux(_Y_TOP), top.slope(_Y_TOP)
    log_flux, slopes = np.empty((2, len(sizes), _STAGES))
    profiles = np.empty((len(sizes), _STAGES, len(u)))
    lean, first, inner = grid.x[1:] + beta, grid.first[1:, 1:], np.arange(len(u) - 1)
    for step, h in enumerate(sizes):
        y_start, y = math.exp(-s), np.exp(-s - h * nodes)
        # u at the wall, u_0 = y weights @ u, as a combination of the other points
        own, drift = 1.0 - y * weights[0], lean + y[:, None]
        wall = (y / own)[:, None] * weights[1:]
        at_wall = grid.second[1:, 0] - drift * grid.first[1:, 0]
        rates = grid.second[1:, 1:] - drift[:, :, None] * first + at_wall[:, :, None] * wall[:, None, :]
        # the growth of F over the step, roughly, is divided out of u
        rates[:, inner, inner] += y[:, None] * lean - (slope + beta * (y - y_start))[:, None]
        stages = _radau_step(rates, h * matrix, u[1:])
        flux = stages @ weights[1:] / own
        log_flux[step] = log_start + (slope - beta * y_start) * nodes * h + beta * (y_start - y) + np.log(flux)
        profiles[step] = np.column_stack([y, stages / flux[:, None]])
        slopes[step] = profiles[step] @ grid.first[0] - y * y
        s, log_start, slope, u = s + h, log_flux[step, -1], slopes[step, -1], profiles[step, -1]
    return log_flux, slopes, profiles


def _radau_step(rates, matrix, u, source=0.0):
    """Return the (m, n) stages of one Radau step for ``u' = rates u + source``; `rates` (m, n, n), `matrix` times h."""
    m, n = rates.shape[:2]
    transposed = matrix.T[:, None, :, None] * -np.ascontiguousarray(rates.transpose(0, 2, 1))[:, :, None, :]
    transposed.reshape(-1)[:: m * n + 1] += 1.0
    right = (u + source * matrix.sum(axis=1)[:, None]).ravel()
    return dgesv(transposed.reshape(m * n, m * n).T, right, overwrite_a=True)[2].reshape(m, n)


@dataclass(frozen=True, repr=False)
class DiffusionLaw:
    """The stationary law of ``(Q1, Q2)``, the JSQ diffusion at slack `beta`. Made by `diffusion_law`.

    Attributes
    ----------
    beta : float
        Halfin-Whitt slack, ``lambda(N) = N - beta sqrt(N)``.
    mean_q1, mean_q2, mean_q1_squared, mean_q2_squared, mean_q1_q2 : float
        Stationary moments; `mean_q2` is also the rate of the local time.
    kappa : float
        ``P(Q2 <= y) ~ C y^kappa`` as ``y -> 0``: the relaxation rate of the Ornstein-Uhlenbeck process centred at
        ``-beta`` and killed at 0 (not in the paper, which has the double exponent of Remark 1).
    tail_constant : float
        ``c`` in ``P(Q2 > y) ~ c y e^(-beta y)`` (exponential tail: Banerjee and Mukherjee, 2019; factor ``y``: new).
    identities : tuple of float
        What is left of ``E Q1 + beta = 0`` and ``E[(Q1 + Q2)(Q1 + beta)] = 1``, which the march does not impose.
    """

    beta: float
    mean_q1: float
    mean_q2: float
    mean_q1_squared: float
    mean_q2_squared: float
    mean_q1_q2: float
    kappa: float
    tail_constant: float
    identities: tuple
    steps: int
    nodes: int
    _top: _Top = field(compare=False)
    _grid: _Grid = field(compare=False)
    _occupation: np.ndarray = field(compare=False)  # int u ds at the grid points, normalised
    _log_scale: float = field(compare=False)  # log of the normalising constant of `_top`
    _levels: np.ndarray = field(compare=False)  # s at the ends of the steps
    _log_tail: np.ndarray = field(compare=False)  # log P(Q2 > y) there, with two derivatives in s
    _log_cdf: np.ndarray = field(compare=False)  # log P(Q2 <= y) likewise

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
        """Return ``log P(Q2 > y)``.

        Parameters
        ----------
        y : array_like
            Levels of Q2; or `log_y`, their logarithms, for levels that are no doubles.

        Raises
        ------
        TypeError
            If not exactly one of `y` and `log_y` is given.
        ValueError
            If a level is NaN.
        """
        log_y = _log_level(y, log_y)
        return self._q2_logs(log_y)[0][()]

    def q2_log_cdf(self, y=None, *, log_y=None):
        """Return ``log P(Q2 <= y)``; arguments as in `q2_log_tail`."""
        log_y = _log_level(y, log_y)
        return self._q2_logs(log_y)[1][()]

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
        small_tail, small_cdf = self._q2_curves
        upper = middle & (s < self._median_level)
        tail[upper] = small_tail(s[upper])
        lower = middle & ~upper
        cdf[lower] = small_cdf(s[lower])
        from_tail, from_cdf = above | upper, below | lower
        cdf[from_tail] = _log_complement(tail[from_tail])
        tail[from_cdf] = _log_complement(cdf[from_cdf])
        return tail, cdf

    @cached_property
    def _q2_curves(self):
        return tuple(scipy.interpolate.BPoly.from_derivatives(self._levels, d) for d in (self._log_tail, self._log_cdf))

    @cached_property
    def _median_level(self):
        return self._levels[min(np.sum(self._log_tail[:, 0] < math.log(0.5)), len(self._levels) - 1)]

    def q1_density(self, x):
        """Return the density of Q1 at `x` (array_like, any sign; 0 above the wall at 0)."""
        return np.exp(self._q1_log_density(_level(x, "x")))[()]

    def q1_log_tail(self, x):
        """Return ``log P(-Q1 > x)``; beyond ``beta + 7.5`` the power law times Gaussian seen there is continued."""
        x = -_level(x, "x")
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
        log_density[far] = at_edge + _log_gauss(x[far], self.beta) - _log_gauss(edge, self.beta) + power * np.log(ratio)
        return log_density

    def _q1_inside(self, x):
        """Return the density of Q1 at points of the grid's range."""
        smooth = self._occupation_curve(self._grid.locate(x))[:, 0]
        density = np.exp(_log_gauss(x, self.beta)) * smooth
        near = x > -1.5  # above _Y_TOP the profile is e^(yx): nothing is left of it further out
        if near.any():
            z = x[near]
            rate = self.beta - z
            y = _Y_TOP + np.divide.outer(self._top._tau, rate)
            flux = np.exp(self._top.log_flux(y) - self._log_scale)
            density[near] += self._top._weights @ (self._top.profile(z, y) / y * flux) / rate
        return density

    @cached_property
    def _occupation_curve(self):
        slope = self._grid.first @ self._occupation
        return scipy.interpolate.BarycentricInterpolator(self._grid.zeta, np.column_stack([self._occupation, slope]))

    @cached_property
    def _far_left(self):
        """Return the last point at which the grid is trusted, and there: the power of ``|z|`` in ``u``, log density."""
        edge = np.array(0.5 - self.beta - _FAR_LEFT)
        value, slope = self._occupation_curve(self._grid.locate(edge))
        return edge, (edge + self.beta) * slope / value, _log_gauss(edge, self.beta) + math.log(value)

    @cached_property
    def _q1_curve(self):
        """The curve of ``log P(Q1 < x)`` in the Chebyshev variable, summed from the left so that it is exact there."""
        grid, (edge, power, at_edge) = self._grid, self._far_left
        zeta = np.linspace(grid.locate(edge), 0.0, 401)
        nodes, gauss = leggauss(6)
        inner = zeta[:-1, None] + np.diff(zeta)[:, None] * (nodes + 1) / 2
        x, jacobian = _stretched(inner, grid.stretch, grid.left)
        mass = (self._q1_inside(x.ravel()).reshape(x.shape) * jacobian) @ gauss * -np.diff(zeta) / 2
        first = math.exp(at_edge + _log_mills(edge + self.beta, power))
        tail = first + np.concatenate([[0.0], np.cumsum(mass)])
        edges, jacobian = _stretched(zeta, grid.stretch, grid.left)
        pieces = np.column_stack([np.log(tail), -jacobian * self._q1_inside(edges) / tail])
        return scipy.interpolate.BPoly.from_derivatives(zeta[::-1], pieces[::-1])

    def __repr__(self):
        return (
            f"DiffusionLaw(beta={self.beta:g}: E Q1 = {self.mean_q1:.8g}, E Q2 = {self.mean_q2:.8g}, "
            f"kappa = {self.kappa:.8g}, relative error about {self.error:.0e})"
        )

    def _repr_html_(self):
        rows = [
            ("E Q1", self.mean_q1),
            ("E Q2", self.mean_q2),
            ("E Q1²", self.mean_q1_squared),
            ("E Q2²", self.mean_q2_squared),
            ("κ", self.kappa),
        ]
        cells = "".join(f"<tr><td>{name}</td><td>{value:.10g}</td></tr>" for name, value in rows)
        return (
            f"<table><caption>Stationary law of the JSQ diffusion, β = {self.beta:g}<br>relative error about "
            f"{self.error:.0e} (solved twice)</caption>{cells}</table>"
        )


def diffusion_law(beta):
    """Return the exact stationary law of the JSQ diffusion in the Halfin-Whitt regime.

    Parameters
    ----------
    beta : float
        Halfin-Whitt slack, ``0.01 <= beta <= 6``.

    Returns
    -------
    DiffusionLaw
        Moments, tails (also as logarithms) and an error estimate. The last 256 laws are kept.

    Raises
    ------
    TypeError
        If `beta` is not a single real number.
    ValueError
        If `beta` is NaN or outside the range in which the error estimate holds.

    Notes
    -----
    Diffusion: Banerjee and Mukherjee (2020), Eq. (1.1). Method: see the head of this module; it is not in the paper.
    The moments are good to about 1e-8 for ``beta <= 4`` and 1e-6 at ``beta = 6``; `DiffusionLaw.error` tells.
    """
    return _cached_law(checks.real(beta, "beta", *BETA_RANGE, allowed=_ALLOWED))


@lru_cache(maxsize=256)
def _cached_law(beta):
    law = _solve(beta, 64, 0.2)
    if not max(map(abs, law.identities)) < 1e-6:
        raise ArithmeticError(f"the march failed its identities at beta = {beta:g}: {law.identities}")
    return law


def _solve(beta, n, first_step):
    top, grid = _Top(beta), _Grid.build(beta, n)
    nodes, matrix = _radau(_STAGES)
    sizes = _steps(first_step)
    start = -math.log(_Y_TOP)
    log_flux, slopes, profiles = _march(top, grid, sizes)
    ends = start + np.cumsum(sizes)
    y = np.exp(-(ends - sizes)[:, None] - np.multiply.outer(sizes, nodes))
    kappa = -slopes[-1, -1]
    # probability of each step of the march, below it and above it
    flux = np.exp(log_flux)
    weight = np.multiply.outer(sizes, matrix[-1]) * flux
    below = flux[-1, -1] / kappa
    log_above = top.log_tail(np.array([_Y_TOP]))[0]
    scale = weight.sum() + below + math.exp(log_above)
    weight /= scale
    below /= scale
    log_scale = math.log(scale)
    occupation = np.einsum("km,kmn->n", weight, profiles) + below * profiles[-1, -1]

    def mean(power_x, power_y):
        """Return ``E[Q1^power_x Q2^power_y]``."""
        inner = np.einsum("kmn,n->km", profiles, grid.weights * grid.x**power_x)
        marched = np.sum(weight * y**power_y * inner)
        if power_y == 0:
            marched += below * inner[-1, -1]
        given = top.moment(power_x)
        far = top.integral(lambda z: z ** (power_y - 1) * given(z), _Y_TOP, beta) / scale
        return float(marched + far)

    q1, q2, q11, q22, q12 = mean(1, 0), mean(0, 1), mean(2, 0), mean(0, 2), mean(1, 1)
    levels = np.concatenate([[start], ends])
    end_flux = np.concatenate([[math.exp(top.log_flux(_Y_TOP))], flux[:, -1]]) / scale
    end_slope = np.concatenate([[top.slope(_Y_TOP)], slopes[:, -1]])
    hazard = _tail_over_flux(math.exp(log_above - top.log_flux(_Y_TOP)), slopes, sizes, matrix)
    log_tail = np.column_stack(
        [np.log(end_flux * hazard), 1 / hazard, (end_slope * hazard - 1) / hazard**2],
    )
    cdf = below + np.concatenate([np.cumsum(weight.sum(axis=1)[::-1])[::-1], [0.0]])
    rate = end_flux / cdf
    log_cdf = np.column_stack([np.log(cdf), -rate, -rate * (end_slope + rate)])
    return DiffusionLaw(
        beta, q1, q2, q11, q22, q12, float(kappa), math.exp(-log_scale) / beta,
        (q1 + beta, q11 + q12 + beta * (q1 + q2) - 1), len(sizes), n,
        top, grid, occupation, log_scale, levels, log_tail, log_cdf,
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


def _level(x, name):
    x = np.asarray(x, dtype=float)
    if np.isnan(x).any():
        raise ValueError(f"{name} holds NaN; levels must be numbers")
    return x


def _log_level(y, log_y):
    if (y is None) == (log_y is None):
        raise TypeError("give either y or log_y")
    if log_y is not None:
        return _level(log_y, "log_y")
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(_level(y, "y"), 0.0))


def wait_probability_mmn(beta):
    """Return the Halfin-Whitt limit of P(wait) in the centralised M/M/N queue, ``1 / (1 + beta Phi / phi)``.

    Source: Halfin and Whitt (1981). Given a wait, ``queue / sqrt(N)`` is exponential with rate `beta` there.
    """
    return mmn.halfin_whitt_law(beta).wait_probability


policies.share_name(__name__)
