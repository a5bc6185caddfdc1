r"""The mean profile x_w, the fraction of servers with more than w unfinished work, from the jobs that wait.

A job of length S that joins a server with work V adds ``min(S, (V + S - w)^+)`` to the time that this server has more
than w to do. S is independent of V and of whether the job is taken, under every policy that does not look at S, with
any weights, buffers and renewal arrivals. With `a` jobs taken in a mean service time per server, R of the residual law
and ``Phi^c`` its tail, conservation of that time over a long run gives

    E x_w = a E Phi^c((w - V)^+) = a P(V + R > w),

V being what a job taken finds: for every n, law and policy, whatever the start. Where nothing is lost, a = load, this
is the fixed point ``x*_w = load Phi^c(w)``, plus ``load E[Phi^c((w - V)^+) - Phi^c(w); V > 0]``: only jobs that wait
bring an excess, between 0 and 1 each, so ``0 <= E x_w - x*_w <= load P(wait)``. (Not in the paper.)

Waits are counted at edges, `PER_OCTAVE` in each doubling, each wait shared between the two edges around it. What one
brings is a function of V whose slope is the tail of S at w - V, 0 from w on. A chord over a cell of width h, on which
the slope lies within d, is wrong by at most ``h d s (1 - s)`` at the part s of the cell: summed up, a proved bound.
"""

import math

import numpy as np

from lbcore.compiled import kernel

PER_OCTAVE = 64  # a power of 2: edges are dyadic numbers, where lattice laws and round levels have their kinks
_MOST_OCTAVES = 24


class Levels:
    """The levels of a profile, and what a wait at each edge brings to them.

    Parameters
    ----------
    service : Law
    work : ndarray of float, shape (m,)
        In the law's unit of time.

    Attributes
    ----------
    scale : float
        Of a wait in mean service times, so that the first edge beyond 0 is 1.
    gain, resolution : ndarray, shape (edges, m)
        Excess that a wait at an edge brings, and bound on its error for a wait in the cell that begins there, less the
        factor ``s (1 - s)``.
    residual : ndarray, shape (m,)
        Tail of the residual law at the levels.
    """

    def __init__(self, service, work):
        self.residual = service.residual_tail(work)
        w = work / service.mean
        highest = math.ceil(math.log2(max(w[-1], 1e-300)))
        lowest = max(math.floor(math.log2(w[w > 0.0].min(initial=2.0**highest))) - 5, highest - _MOST_OCTAVES)
        steps = np.arange((highest - lowest) * PER_OCTAVE + 1)
        self.scale = 2.0**-lowest
        self.edges = np.append(0.0, 2.0 ** (lowest + steps // PER_OCTAVE) * (1.0 + steps % PER_OCTAVE / PER_OCTAVE))
        begin, end = self.edges[:-1, None], self.edges[1:, None]

        def tail(u):
            return service.tail(service.mean * np.maximum(u, 0.0))

        self.gain = service.residual_tail(service.mean * np.maximum(w - self.edges[:, None], 0.0)) - self.residual
        slopes = np.where(begin < w, tail(w - end), 0.0) - np.where(end <= w, tail(w - begin), 0.0)
        self.resolution = np.vstack([(end - begin) * slopes, np.zeros(w.size)])

    def new_counts(self):
        """Return the counts of waits, float64 (2, edges): by edge; and the sums of ``s (1 - s)`` of each cell."""
        return np.zeros((2, self.edges.size))


@kernel
def count(wait, scale, counts):
    """Count a wait, in mean service times, at the two edges around it, each the more the nearer it is."""
    place = wait * scale
    if place >= 1.0:
        mantissa, exponent = math.frexp(place)
        place = 1.0 + PER_OCTAVE * (2.0 * mantissa + exponent - 2.0)
    place = min(place, counts.shape[1] - 1.0)
    k = np.int64(place)
    share = place - k
    counts[0, k] += 1.0 - share
    if share > 0.0:
        counts[0, k + 1] += share
        counts[1, k] += share * (1.0 - share)


@kernel
def fold(counts, gain, resolution, out):
    """Add what the waits counted bring to the levels, and the bounds on its error, to the end of `out`; forget them."""
    m = gain.shape[1]
    first = out.size - 2 * m
    for k in range(counts.shape[1]):
        if counts[0, k] > 0.0:
            for j in range(m):
                out[first + j] += counts[0, k] * gain[k, j]
        if counts[1, k] > 0.0:
            for j in range(m):
                out[first + m + j] += counts[1, k] * resolution[k, j]
    counts[:] = 0.0
