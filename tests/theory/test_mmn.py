"""The centralised queue: closed forms against each other and against a chain solved directly."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from lbcore.theory import mmn


@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0, 3.0, 30.0, 60.0])
def test_limit(beta):
    """Means by the tails: exponential, given a queue; normal cut at 0, given idle servers."""
    law = mmn.halfin_whitt_law(beta)
    alpha = law.wait_probability
    assert quad(lambda y: alpha * math.exp(-beta * y), 0, 60 / beta)[0] == pytest.approx(
        law.mean_queue, rel=1e-7, abs=1e-300
    )
    idle = quad(lambda x: math.exp(log_ndtr(beta - x) - log_ndtr(beta)), 0, beta + 12, points=[beta])[0]
    assert (1 - alpha) * idle == pytest.approx(law.mean_idle, rel=1e-7)


def test_check_value():
    assert mmn.halfin_whitt_law(1.0).wait_probability == pytest.approx(0.223361, abs=5e-7)
    assert mmn.halfin_whitt_law(100.0).wait_probability == 0.0


@pytest.mark.parametrize(("n", "load"), [(1, 0.5), (2, 0.9), (10, 0.7), (40, 0.99)])
def test_erlang_against_the_birth_and_death_chain(n, load):
    rates = np.minimum(np.arange(1, 8000), n)
    weights = np.exp(np.concatenate([[0.0], np.cumsum(np.log(n * load / rates))]))
    weights /= weights.sum()
    wait, mean = mmn.erlang_wait(n, load)
    assert wait == pytest.approx(weights[n:].sum(), rel=1e-10)
    queue = weights @ np.maximum(np.arange(8000) - n, 0)
    assert mean == pytest.approx(queue / (n * load), rel=1e-8)


def test_erlang_tends_to_the_limit():
    for beta in (0.3, 1.0, 2.0):
        wait, _ = mmn.erlang_wait(10**6, 1 - beta / 1e3)
        assert wait == pytest.approx(mmn.halfin_whitt_law(beta).wait_probability, rel=5e-3)
    assert mmn.erlang_wait(3000, 0.1) == (0.0, 0.0)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_bad_slack(beta):
    with pytest.raises(ValueError, match="beta must be a number above 0"):
        mmn.halfin_whitt_law(beta)


@pytest.mark.parametrize(("n", "load"), [(0, 0.5), (1.5, 0.5), (3, 1.0), (3, 0.0), (3, math.nan)])
def test_bad_queue(n, load):
    with pytest.raises(ValueError, match=r"(n_servers|load) must be"):
        mmn.erlang_wait(n, load)
