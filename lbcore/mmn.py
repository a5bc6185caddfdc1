"""The centralised queue beside paper C: M/M/N, its Halfin-Whitt limit and Erlang's exact formula."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from lbcore import checks


@dataclass(frozen=True)
class CentralLaw:
    """Halfin-Whitt limit of the M/M/N queue at slack `beta` (Halfin and Whitt 1981). Made by `halfin_whitt_law`.

    Attributes
    ----------
    beta : float
    wait_probability : float
        ``alpha = 1 / (1 + beta Phi(beta) / phi(beta))``.
    mean_queue : float
        ``alpha / beta``, waiting jobs over ``sqrt(N)``: exponential with rate `beta`, given that there is a queue.
    mean_idle : float
        Idle servers over ``sqrt(N)``: `beta`, as under any work-conserving rule.
    """

    beta: float
    wait_probability: float
    mean_queue: float
    mean_idle: float

    def queue_tail(self, y):
        """Return ``P(queue / sqrt(N) > y)`` for array_like ``y >= 0``."""
        return self.wait_probability * np.exp(-self.beta * np.asarray(y, float))

    def idle_tail(self, x):
        """Return ``P(idle / sqrt(N) > x)`` for array_like ``x >= 0``: a normal law cut at 0, given idle servers."""
        x = np.asarray(x, float)
        return (1 - self.wait_probability) * np.exp(log_ndtr(self.beta - x) - log_ndtr(self.beta))


def halfin_whitt_law(beta):
    """Return the Halfin-Whitt limit of the M/M/N queue.

    Parameters
    ----------
    beta : float
        Positive slack: the load is ``1 - beta / sqrt(N)``.

    Raises
    ------
    TypeError, ValueError
        If `beta` is no positive real number.
    """
    beta = checks.real(beta, "beta", math.ulp(0.0), math.inf, allowed="beta must be positive")
    log_ratio = log_ndtr(beta) + beta * beta / 2 + math.log(2 * math.pi) / 2
    alpha = 1 / (1 + beta * math.exp(log_ratio)) if log_ratio < 700 else 0.0
    return CentralLaw(beta, alpha, alpha / beta, beta)


def erlang_wait(n_servers, load):
    """Return ``(P(wait), mean wait)`` of M/M/N, the wait in mean service times (Erlang's C formula).

    Parameters
    ----------
    n_servers : int, at least 1
    load : float
        Arrival rate per server over its service rate, ``0 < load < 1``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number of its range.
    """
    n = checks.whole(n_servers, "n_servers", 1, allowed="the number of servers must be a whole number >= 1")
    load = checks.real(load, "load", math.ulp(0.0), math.nextafter(1, 0), allowed="the load must be between 0 and 1")
    offered, inverse = n * load, 1.0
    for k in range(1, n + 1):  # 1 / Erlang B
        inverse = 1 + inverse * k / offered
        if inverse > 1e300:
            return 0.0, 0.0
    wait = 1 / (load + (1 - load) * inverse)
    return wait, wait / (n * (1 - load))
