"""Paper A: limits and prices of a threshold against closed forms and what the exact chain extrapolates to."""

import math

import numpy as np
import pytest

from lbcore.chance import laws
from lbcore.theory import thresholds
from lbcore.theory.two_servers import two_server_law


@pytest.mark.parametrize("threshold", [1, 2, 3, 4, 5, 6])
def test_limit_is_what_the_exact_chain_extrapolates_to(threshold):
    """Two servers: the error has a term in epsilon and one in epsilon^(2 - a), the time near the corner."""
    epsilons = np.array([0.08, 0.04, 0.02, 0.01, 0.005])
    scaled = np.array([e * two_server_law(e, threshold, tolerance=1e-10).mean_total for e in epsilons])
    limit = thresholds.heavy_traffic_limit(2, threshold)
    order = 2 - 4 / math.pi * math.atan(thresholds.push_share(2, threshold))
    design = np.stack([np.ones(5), epsilons, epsilons**order, epsilons**2], axis=1)
    fitted = np.linalg.lstsq(design, scaled, rcond=None)[0][0]
    assert fitted == pytest.approx(limit, rel=1e-4)


def test_price_of_a_threshold_is_what_the_exact_chain_extrapolates_to():
    """The slope of E[Q1 + Q2] in r, extrapolated in epsilon at two r, then in 1 / r^2."""
    slopes = {}
    for low, high in ((24, 28), (34, 40)):
        near, far = (
            np.subtract(*(two_server_law(e, r, tolerance=1e-11).mean_total for r in (high, low))) / (high - low)
            for e in (0.004, 0.008)
        )
        slopes[(low + high) / 2] = 2 * near - far
    a, b = slopes
    assert (b**2 * slopes[b] - a**2 * slopes[a]) / (b**2 - a**2) == pytest.approx(
        thresholds.threshold_price(), abs=1e-4
    )
    draws = np.random.default_rng(1)
    share = np.mean(draws.beta(0.25, 0.25, 10**6) < draws.beta(0.5, 0.75, 10**6))
    assert share == pytest.approx(thresholds.threshold_price(), abs=0.002)


def test_limits_in_continuous_time():
    for n in (1, 2, 5, 50):
        pooled = thresholds.pooled_limit(n)
        assert pooled == n
        assert thresholds.heavy_traffic_limit(n, math.inf) == pytest.approx(n * n)
        assert thresholds.heavy_traffic_limit(n, 1) == pytest.approx(pooled * 2 * n / (n + 1))
        for r in (1, 2, 5, 20):
            closed = pooled * (1 + (n - 2) * n**-r) / (1 - n ** -(r + 1)) if n > 1 else 1.0
            assert thresholds.heavy_traffic_limit(n, r) == pytest.approx(closed)
    ordered = [thresholds.heavy_traffic_limit(4, r) for r in (*range(1, 30), 100)]
    assert (np.diff(ordered) <= 1e-12).all()


def test_laws_must_fit_the_capacity():
    batch, service = laws.discrete([0, 4], [0.5, 0.5]), laws.discrete([0, 1], [0.5, 0.5])
    assert thresholds.pooled_limit(4, batch, service) < thresholds.heavy_traffic_limit(4, 1, batch, service)
    with pytest.raises(TypeError, match="give both laws"):
        thresholds.pooled_limit(4, batch)
    with pytest.raises(TypeError, match="whole numbers"):
        thresholds.pooled_limit(4, batch, laws.exponential())
    with pytest.raises(ValueError, match="at capacity"):
        thresholds.pooled_limit(5, batch, service)
    with pytest.raises(ValueError, match="n_servers must be a whole number of at least 1"):
        thresholds.push_share(0, 3)
