"""The centralised queue: closed forms against each other and against a chain solved directly."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from lbcore import jsq, mmn


@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0, 3.0, 30.0, 60.0])
def test_limit(beta):
    law = mmn.halfin_whitt_law(beta)
    assert law.wait_probability == jsq.wait_probability_mmn(beta)
    assert law.queue_tail(0.0) + law.idle_tail(0.0) == pytest.approx(1.0)
    assert quad(law.queue_tail, 0, 60 / beta)[0] == pytest.approx(law.mean_queue, rel=1e-7, abs=1e-300)
    assert quad(law.idle_tail, 0, beta + 12, points=[beta])[0] == pytest.approx(beta, rel=1e-7)


def test_check_value():
    assert mmn.halfin_whitt_law(1.0).wait_probability == pytest.approx(0.223361, abs=5e-7)


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
    with pytest.raises(ValueError, match="positive"):
        mmn.halfin_whitt_law(beta)


@pytest.mark.parametrize(("n", "load"), [(0, 0.5), (1.5, 0.5), (3, 1.0), (3, 0.0), (3, math.nan)])
def test_bad_queue(n, load):
    with pytest.raises(ValueError, match="must be"):
        mmn.erlang_wait(n, load)
