"""The march that solves the equation at the head of `lbcore.theory.diffusion`.

Above ``Y_TOP`` its solution is a series in ``1/y`` (`HighLevels`); from there it is marched down by Chebyshev
collocation in ``x`` (`Grid`) and Radau IIA in ``s = -log y`` (`march`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.laguerre import laggauss
from numpy.polynomial.polynomial import polyval2d
from scipy.linalg.lapack import dgesv

Y_TOP = 25.0  # above this level of Q2 the series in 1/y is used
FAR_LEFT = 8.0  # the grid in x ends this many standard deviations below the mean -beta
STAGES = 4  # Radau IIA of order 7
_S_END = 37.0  # below y = exp(-37) only the slowest mode is left


class HighLevels:
    r"""The solution above ``Y_TOP``: ``g = y F(y) psi(y x; y)``,
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
        self.tau, weights = _laguerre()
        self.weights = weights * np.exp(self.tau)

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

    def integral(self, function, rate):
        """Return ``int_Y_TOP^inf function(y) F(y) dy``, where ``function`` times ``F`` decays like ``e^(-rate y)``."""
        y = Y_TOP + self.tau / rate
        return (function(y) * np.exp(self.log_flux(y))) @ self.weights / rate

    def moment(self, power):
        """Return the function ``y -> int x^power phi(x; y) dx``."""
        series = Polynomial(self._q @ _exponential_moments(self._TERMS, power))
        return lambda y: y**-power * series(1 / y)

    def log_tail(self, y):
        """Return ``log int_y^inf F(z)/z dz`` for an array of ``y >= Y_TOP``, however far out."""
        z = np.add.outer(y, self.tau / self.beta)
        change = self._series(1 / z) - self._series(1 / y)[:, None] - self.tau
        ratio = z / y[:, None] * np.exp(change)  # F(z) y / (F(y) z)
        return self.log_flux(y) - np.log(y) + np.log(ratio @ self.weights / self.beta)


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
class Grid:
    """Collocation in ``x`` on ``[-left, 0]``, Chebyshev points crowding towards the wall at scale ``1/Y_TOP``.

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
        """Return the grid of ``n + 1`` points, `n` even, for a slack."""
        left = beta + FAR_LEFT
        stretch = math.log(left * Y_TOP / 2)
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
        x, jacobian = stretched(zeta, stretch, left)
        speed = -jacobian  # dx/dzeta, negative
        first = d1 / speed[:, None]
        second = (d2 - stretch * d1) / speed[:, None] ** 2
        weights = _clenshaw_curtis(n) * jacobian * np.exp(log_gauss(x, beta))
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


def stretched(zeta, stretch, left):
    """Return ``x`` and ``-dx/dzeta`` for the exponentially stretched variable."""
    scale = left / np.expm1(stretch)
    return -scale * np.expm1(stretch * zeta), scale * stretch * np.exp(stretch * zeta)


def _zero_row_sums(matrix):
    """Set the diagonal so that constants are differentiated to zero to the last bit."""
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))


def log_gauss(x, beta):
    """Return ``log w``: the Ornstein-Uhlenbeck density centred at ``-beta``, scaled to 1 at the wall."""
    return -x * (beta + x / 2)


@lru_cache
def radau(stages):
    """Return nodes and matrix of the Radau IIA rule (Hairer and Wanner, Solving ODEs II, IV.5)."""
    roots = (Legendre.basis(stages) - Legendre.basis(stages - 1)).roots().real
    nodes = (np.sort(roots) + 1) / 2
    nodes[-1] = 1.0
    powers = np.arange(stages)
    integrals = np.power.outer(nodes, powers + 1) / (powers + 1)
    return nodes, np.linalg.solve(np.power.outer(nodes, powers).T, integrals.T).T


def step_sizes(first):
    """Return step sizes in ``s``: even while the profile changes shape, then growing."""
    sizes, s = [], -math.log(Y_TOP)
    while s < _S_END:
        sizes.append(first if s < 1.0 else min(1.2 * sizes[-1], 2.0))
        s += sizes[-1]
    return np.array(sizes)


def march(top, grid, sizes):
    """March ``du/ds = u_xx - (x + beta + y) u_x + y (x + beta) u``, ``u(0) = y F``, from ``Y_TOP`` down.

    Return, at the m stages of k steps of these `sizes` in ``s``, ``log F`` as `top` scales it and ``d log F / ds``,
    each (k, m), and ``u / F`` on the grid, (k, m, n + 1).
    """
    beta, weights, (nodes, matrix) = top.beta, grid.weights, radau(STAGES)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        u = top.profile(grid.x, Y_TOP) * np.exp(-log_gauss(grid.x, beta))
    u[grid.x * Y_TOP < -42] = 0.0  # 1e-18 of what is at the wall
    u /= weights @ u
    s, log_start, slope = -math.log(Y_TOP), top.log_flux(Y_TOP), top.slope(Y_TOP)
    log_flux, slopes = np.empty((2, len(sizes), STAGES))
    profiles = np.empty((len(sizes), STAGES, len(u)))
    restoring, first, inner = grid.x[1:] + beta, grid.first[1:, 1:], np.arange(len(u) - 1)
    for step, h in enumerate(sizes):
        y_start, y = math.exp(-s), np.exp(-s - h * nodes)
        # u at the wall, u_0 = y weights @ u, as a combination of the other points
        own, drift = 1.0 - y * weights[0], restoring + y[:, None]
        wall = (y / own)[:, None] * weights[1:]
        at_wall = grid.second[1:, 0] - drift * grid.first[1:, 0]
        rates = grid.second[1:, 1:] - drift[:, :, None] * first + at_wall[:, :, None] * wall[:, None, :]
        # the growth of F over the step, roughly, is divided out of u
        rates[:, inner, inner] += y[:, None] * restoring - (slope + beta * (y - y_start))[:, None]
        stages = radau_step(rates, h * matrix, u[1:])
        flux = stages @ weights[1:] / own
        log_flux[step] = log_start + (slope - beta * y_start) * nodes * h + beta * (y_start - y) + np.log(flux)
        profiles[step] = np.column_stack([y, stages / flux[:, None]])
        slopes[step] = profiles[step] @ grid.first[0] - y * y
        s, log_start, slope, u = s + h, log_flux[step, -1], slopes[step, -1], profiles[step, -1]
    return log_flux, slopes, profiles


def radau_step(rates, matrix, u, source=0.0):
    """Return the (m, n) stages of one Radau step for ``u' = rates u + source``; `rates` (m, n, n), `matrix` times h."""
    m, n = rates.shape[:2]
    transposed = matrix.T[:, None, :, None] * -np.ascontiguousarray(rates.transpose(0, 2, 1))[:, :, None, :]
    transposed.reshape(-1)[:: m * n + 1] += 1.0
    right = (u + source * matrix.sum(axis=1)[:, None]).ravel()
    return dgesv(transposed.reshape(m * n, m * n).T, right, overwrite_a=True)[2].reshape(m, n)
