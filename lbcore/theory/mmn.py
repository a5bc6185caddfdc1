"""The centralised queue beside paper C: M/M/N, its Halfin-Whitt limit and Erlang's exact formula."""

import math
from dataclasses import dataclass

from scipy.special import log_ndtr

from lbcore import checks
from lbcore.records import Record


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CentralLaw(Record):
    """Halfin-Whitt limit of the M/M/N queue at slack `beta` (Halfin and Whitt 1981). Made by `halfin_whitt_law`."""

    beta: float
    wait_probability: float  # alpha = 1 / (1 + beta Phi(beta) / phi(beta))
    mean_queue: float  # waiting jobs over sqrt(N): alpha / beta, exponential with rate beta given that there is a queue
    mean_idle: float  # idle servers over sqrt(N): beta, as under any work-conserving rule


def halfin_whitt_law(beta):
    """Return the Halfin-Whitt limit of the M/M/N queue.

    Parameters
    ----------
    beta : float
        Positive slack: the load is ``1 - beta / sqrt(N)``.
    """
    beta = checks.real(beta, "beta", above=0.0)
    log_ratio = log_ndtr(beta) + beta * beta / 2 + math.log(2 * math.pi) / 2
    alpha = 1 / (1 + beta * math.exp(log_ratio)) if log_ratio < 700 else 0.0
    return CentralLaw(beta=beta, wait_probability=alpha, mean_queue=alpha / beta, mean_idle=beta)


def erlang_wait(n_servers, load):
    """Return ``(P(wait), mean wait)`` of M/M/N, the wait in mean service times (Erlang's C formula).

    Parameters
    ----------
    n_servers : int, at least 1
    load : float
        Arrival rate per server over its service rate, ``0 < load < 1``.
    """
    n, load = checks.whole(n_servers, "n_servers"), checks.real(load, "load", above=0.0, below=1.0)
    offered, inverse = n * load, 1.0
    for k in range(1, n + 1):  # 1 / Erlang B
        inverse = 1 + inverse * k / offered
        if inverse > 1e300:
            return 0.0, 0.0
    wait = 1 / (load + (1 - load) * inverse)
    return wait, wait / (n * (1 - load))
