"""The slotted model of the JBT paper: whole batches, per-slot services, every quantity its theorems speak of.

Model (Zhou, Tan and Shroff 2018, arXiv 1808.06911). In slot t a batch of A(t) tasks goes, whole, to one
server, chosen by the policy from the queues Q(t); server n offers S_n(t) services; with U_n unused services,
``Q_n(t+1) = Q_n(t) + A_n(t) - S_n(t) + U_n(t)``. Slots are independent, all laws bounded.

The mean number of tasks comes from the drift of ``(sum Q)^2``, exact for every policy. With
``|Q| = sum_n Q_n(t+1)``, ``|U| = sum_n U_n(t)`` and X = A - sum S_n, of mean -epsilon::

    epsilon E|Q| = (Var X + epsilon^2) / 2 - E|U|^2 / 2 + E[|Q| |U|]

and the last term is Eq. (7) of the paper: it vanishes as epsilon does exactly when delay is optimal.
"""

import math
from typing import NamedTuple

import numpy as np

from lbcore import checks
from lbcore.chance import streams
from lbcore.compiled import kernel
from lbcore.simulate import estimate, policies, pooled
from lbcore.simulate.results import Estimate

LEVELS = 64  # the tail of the distance is reported at 1 .. LEVELS
_RESOLUTION = 1e-9  # no interval of the mean is relatively narrower: so well is the pooled mean known
_FAR = 2**30  # thresholds beyond this are as good as none
_COLUMNS = {
    "slots": 1,
    "total": 1,  # |Q|
    "unused": 1,  # |U|
    "unused_squared": 1,
    "condition": 1,  # |Q| |U|
    "pooled": 1,  # the resource-pooled queue, same arrivals and services
    "pooled_unused_squared": 1,
    "crossing": 1,  # servers that rise to JBT's threshold, as many as fall below it
    "total_moments": 3,  # |Q|^2, |Q|^3, |Q|^4
    "distance_moments": 4,  # d, d^2, d^3, d^4
    "distance": LEVELS + 1,  # slots with floor(d) = 0, 1, ..., LEVELS or more
}
_SLOTS, _TOTAL, _UNUSED, _UNUSED_SQUARED, _CONDITION, _POOLED, _POOLED_UNUSED_SQUARED, _CROSSING, _MOMENTS = range(9)
_DISTANCE = sum(_COLUMNS.values()) - LEVELS - 1
_BYTE, _EIGHT = np.uint64(255), np.uint64(8)


class _Laws(NamedTuple):
    """The laws of the offers, then that of the batches; padded with what is never drawn."""

    table: np.ndarray  # int64 (laws, 256): the value if a uniform number in [b, b + 1) / 256 settles it, else -1
    cumulative: np.ndarray  # float64 (laws, m): settles it
    values: np.ndarray  # int64 (laws, m)
    which: np.ndarray  # int64 (n,): law of each server's offers


class _Setting(NamedTuple):
    code: int  # of the policy, as `parameter`
    parameter: int
    threshold: int  # r of the region R^(r) that distances are measured to
    rates: np.ndarray  # float64 (n,): mean services of each server
    cumulative: np.ndarray  # their running sums


class _State(NamedTuple):
    """One replication; the kernel changes its arrays."""

    queues: np.ndarray  # int64 (n,)
    offers: np.ndarray  # int64 (n,): services of the slot
    memory: np.ndarray  # of the policy
    place: np.ndarray  # int64 (2,): pooled queue, server chosen last if it is none
    own: np.ndarray  # stream of the policy
    stream: np.ndarray  # of arrivals and services


def _tables(services, arrivals, which):
    """Return the laws, given as (values, probabilities), as :class:`_Laws`."""
    laws = [*services, arrivals]
    m, edges = max(len(values) for values, _ in laws), np.arange(257) / 256.0
    table = np.empty((len(laws), 256), np.int64)
    cumulative, padded = np.ones((len(laws), m)), np.zeros((len(laws), m), np.int64)
    for k, (values, probabilities) in enumerate(laws):
        cumulative[k, : len(values) - 1] = np.cumsum(probabilities)[:-1]
        padded[k, : len(values)] = values
        first = np.searchsorted(cumulative[k], edges[:-1], side="right")
        last = np.searchsorted(cumulative[k], edges[1:], side="left")
        table[k] = np.where(first == last, padded[k][first], -1)
    return _Laws(table, cumulative, padded, which)


@kernel
def _resolve(byte, cumulative, values, words):
    """Return (value, words): the byte of a uniform number being known, draw the rest of it."""
    u, words = streams.take_uniform(words)
    return values[policies.first_above(cumulative, (byte + u) / 256.0)], words


@kernel
def _slots_kernel(chooser, setting, laws, state, steps, out):
    """Run slots and add their sums to `out`; return -1, before the end, if what was chosen is none of the servers.

    `chooser`: see :func:`policies.pick`. The squared Euclidean distances to {x <= r} and {x >= r} are
    sum ((x_n - r)^+)^2 and sum ((r - x_n)^+)^2.
    """
    code, parameter, threshold, rates, cumulative_rates = setting
    table, cumulative, values, which = laws
    queues, offers, memory, place, own, stream = state
    n, batch = queues.size, table.shape[0] - 1
    words, pooled_queue, short = streams.load(stream), place[0], 0
    for i in range(n):
        short += queues[i] < parameter
    total_sum, unused_sum, unused_squared, condition, pooled_sum, pooled_unused_squared, crossing = 0, 0, 0, 0, 0, 0, 0
    total_2, total_3, total_4, d_1, d_2, d_3, d_4, inside = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for _ in range(steps):
        # === a batch, and the server it joins ===
        bits, words = streams.take_uint64(words)
        byte = np.int64(bits & _BYTE)
        arriving = table[batch, byte]
        if arriving < 0:
            arriving, words = _resolve(byte, cumulative[batch], values[batch], words)
        if code == policies.JBT or code == policies.RANDOM:  # the latter with parameter 0: no queue is short
            if short == 0:
                server = streams.below(own, n)
            else:
                skip = streams.below(own, short)
                server = 0
                while queues[server] >= parameter or skip > 0:
                    skip -= queues[server] < parameter
                    server += 1
        else:
            server = policies.pick(chooser, code, parameter, queues, rates, cumulative_rates, memory, own)
            if server < 0 or server >= n:
                place[1] = server
                return -1
        before = queues[server]
        queues[server] = before + arriving
        # === services: one random word for eight servers, a byte each ===
        left = 0
        for i in range(n):
            if left == 0:
                bits, words = streams.take_uint64(words)
                left = 8
            byte = np.int64(bits & _BYTE)
            bits >>= _EIGHT
            left -= 1
            offer = table[which[i], byte]
            if offer < 0:
                offer, words = _resolve(byte, cumulative[which[i]], values[which[i]], words)
            offers[i] = offer
        total, unused, capacity, above, below, short = 0, 0, 0, 0, 0, 0
        for i in range(n):  # in vector lanes
            capacity += offers[i]
            q = queues[i] - offers[i]
            unused -= min(q, 0)
            q = max(q, 0)
            queues[i] = q
            total += q
            short += q < parameter
            above += max(q - threshold, 0) ** 2
            below += min(q - threshold, 0) ** 2
        # === sums ===
        pooled_queue += arriving - capacity
        pooled_unused_squared += min(pooled_queue, 0) ** 2
        pooled_queue = max(pooled_queue, 0)
        pooled_sum += pooled_queue
        total_sum += total
        unused_sum += unused
        unused_squared += unused * unused
        condition += total * unused
        crossing += before < parameter and queues[server] >= parameter
        square = float(total) * total
        total_2 += square
        total_3 += square * total
        total_4 += square * square
        if above > 0 and below > 0:
            square = float(min(above, below))
            distance = math.sqrt(square)
            d_1 += distance
            d_2 += square
            d_3 += square * distance
            d_4 += square * square
            out[_DISTANCE + min(int(distance), LEVELS)] += 1.0
        else:
            inside += 1
    streams.store(stream, words)
    place[0] = pooled_queue
    out[_SLOTS] += steps
    out[_TOTAL] += total_sum
    out[_UNUSED] += unused_sum
    out[_UNUSED_SQUARED] += unused_squared
    out[_CONDITION] += condition
    out[_POOLED] += pooled_sum
    out[_POOLED_UNUSED_SQUARED] += pooled_unused_squared
    out[_CROSSING] += crossing
    for k, value in enumerate((total_2, total_3, total_4, d_1, d_2, d_3, d_4)):
        out[_MOMENTS + k] += value
    out[_DISTANCE] += inside
    return steps


class _Slots:
    """What the slotted model tells the driver, see :class:`estimate.Model`."""

    columns, level, unit = _COLUMNS, ("total", "slots"), "slots"

    def __init__(self, laws, policy, threshold, notes):
        self.laws, self.policy, self.notes = laws, policy, notes
        rates = laws.service_rates
        self.setting = _Setting(policy.code, policy.parameter, threshold, rates, np.cumsum(rates))
        self.n = n = rates.size
        self.noise, self.epsilon = laws.noise, laws.capacity - laws.rate
        self.pooled_mean = pooled.solve_pooled_mean(laws)
        self.tables = _tables(laws.services, laws.arrivals, laws.which)
        self.chunk_steps = max(1, int(2e6 / (20.0 + 2.0 * n)))
        self.bytes_per_replication = 4096 + 16 * n + policy.new_memory(n).nbytes
        # a queue with drift -epsilon and noise zeta forgets in 2 zeta / epsilon^2 slots
        self.relaxation_steps = policy.unpooled(n) * 2.0 * self.noise / self.epsilon**2

    def start(self, stream):
        """Return the state; arrivals and services draw from `stream`, the policy from a stream of its own."""
        queues, offers, place = (np.zeros(size, np.int64) for size in (self.n, self.n, 2))
        own = np.random.SeedSequence([int(word) for word in stream]).generate_state(4, np.uint64)
        return _State(queues, offers, self.policy.new_memory(self.n), place, own, stream.copy())

    def advance(self, state, steps, out):
        """Run `steps` slots and add their sums to `out`."""
        if _slots_kernel(self.policy.chooser, self.setting, self.tables, state, steps, out) < 0:
            self.policy.refuse(state.place[1], self.n)

    def report(self, sample):
        """Return the estimates, the mean number of tasks first."""
        slots, epsilon = sample.sum("slots"), self.epsilon
        drift = (self.noise + epsilon**2) / 2.0 * slots - sample.sum("unused_squared") / 2.0 + sample.sum("condition")
        controls = [("unused", slots, epsilon)]
        if self.n > 1:  # else the pooled queue is the queue itself
            controls.append(("pooled", slots, self.pooled_mean))
        found, scale = sample.ratio(drift / epsilon, slots, controls), self.laws.rate
        mean_total = Estimate(found.value, max(found.half_width, _RESOLUTION * found.value))
        batches = slots * (1.0 - self.laws.arrivals[1][self.laws.arrivals[0] == 0].sum())
        tail = np.cumsum(sample.sum("distance")[:, :0:-1], axis=1)[:, ::-1]
        estimates = {
            "mean_total": mean_total,
            "mean_delay": Estimate(mean_total.value / scale, mean_total.half_width / scale),
            "raw_mean_total": sample.ratio("total", slots),
            "excess": Estimate(mean_total.value - self.pooled_mean, mean_total.half_width),
            "condition": sample.ratio("condition", slots, controls),
            "mean_unused": sample.ratio("unused", slots),
            "mean_unused_squared": sample.ratio("unused_squared", slots),
            "total_moments": sample.ratio("total_moments", slots),
            "distance_moments": sample.ratio("distance_moments", slots),
            "distance_tail": sample.probability(tail, slots),
            "pooled": sample.ratio("pooled", slots),
            "pooled_exact": self.pooled_mean,
        }
        if (messages := self.policy.messages(self.n)) is not None:
            estimates["messages"] = Estimate(messages, 0.0)
        elif self.policy.uses_threshold:
            estimates["messages"] = sample.ratio("crossing", batches)
        return estimates


@estimate.passes_run_options
def simulate_slotted(n_servers, epsilon, policy, arrivals, services, *, threshold=None, slots=None, **run):
    """Simulate the slotted model of Zhou, Tan and Shroff (2018), arXiv 1808.06911, exactly.

    Parameters
    ----------
    n_servers : int >= 1
    epsilon : float
        Total service rate less arrival rate, tasks per slot; between 0 and the total service rate. The
        probability of an empty batch is set to give this arrival rate; the law of a nonempty batch stays.
    policy : Policy
        Choosing at random in proportion to the mean services needs ``by_rate=True``.
    arrivals : Law
        Batch of one slot: whole numbers with their probabilities, as ``lb.laws.discrete([0, 4], [0.5, 0.5])``.
    services : Law, or sequence of n_servers Laws
        Services that each server offers in a slot; one law if all are equal.
    threshold : int >= 1, optional
        r of the region R^(r) that distances are measured to; by default JBT's own, else log2(1 / epsilon).
    slots : int >= 1, optional
        Slots to simulate, in all replications together.
    **run
        rel_precision, replications, seed, threads, progress, live: see :func:`lbcore.simulate.estimate.run`.

    Returns
    -------
    Simulation, or Run with ``live=True``
        With the estimates, all of the state after a slot,

        - ``mean_total``: E|Q|, tasks in all queues, from the drift identity in the docstring of the module,
          with |U| and the pooled queue as control variates; ``raw_mean_total``: the plain mean;
        - ``mean_delay``: slots from arrival on, by Little's law;
        - ``excess``: ``mean_total`` less ``pooled_exact``, the mean of the resource-pooled queue
          (:func:`lbcore.simulate.pooled.pooled_mean`); ``pooled``: its plain mean on the same arrivals and services;
        - ``condition``: E[|Q| |U|], which Eq. (7) lets vanish; ``mean_unused``, ``mean_unused_squared``;
        - ``total_moments``, shape (3,): E|Q|^2, E|Q|^3, E|Q|^4;
        - ``distance_moments``, shape (4,): E d, ..., E d^4, d the Euclidean distance to R^(r), Eq. (8);
        - ``distance_tail``, shape (64,): P(d >= 1), ..., P(d >= 64);
        - ``messages``: per batch, where the policy defines it (:meth:`lbcore.simulate.policies.Policy.messages`).

    Raises
    ------
    ValueError
        Laws not on finitely many whole numbers, which the paper assumes; a policy known not to be stable.

    Notes
    -----
    The same seed gives the same arrivals and services under every policy.

    Examples
    --------
    >>> batch, offer = lb.laws.discrete([0, 4], [0.5, 0.5]), lb.laws.discrete([0, 2], [0.5, 0.5])
    >>> lb.simulate_slotted(2, 0.05, lb.jbt(4), batch, offer, slots=10**7, seed=1).excess
    """
    checks.made_by(policy, "policy", policies.Policy, policies.MAKERS)
    n, epsilon = checks.whole(n_servers, "n_servers"), checks.real(epsilon, "epsilon", above=0, why=pooled.GAP)
    estimate.require_memory(24.0 * n, f"{n} servers")
    laws = pooled.slot_laws(arrivals, services, n, epsilon)
    rates = laws.service_rates
    policy.check(n, rates)
    notes = ()
    if np.ptp(rates) > 0.0:
        if policy.code in (policies.RANDOM, policies.ROUND_ROBIN) and laws.rate / n >= rates.min():
            raise ValueError(
                f"{policy} is not stable here: every server gets {laws.rate / n:.4g} tasks a slot, but the "
                f"slowest serves {rates.min():.4g}; raise epsilon, or route by rate"
            )
        if policy.code == policies.JBT:
            notes = ("The servers differ: stability is proved for JBT that chooses by rate (by_rate=True).",)
    if threshold is None:
        threshold = policy.parameter if policy.uses_threshold else max(1, math.ceil(-math.log2(epsilon)))
    threshold = checks.whole(threshold, "threshold")
    asked = {"n_servers": n, "epsilon": epsilon, "policy": policy}
    asked |= {"arrivals": arrivals, "services": services, "threshold": threshold}
    return estimate.run(_Slots(laws, policy, min(threshold, _FAR), notes), asked, steps=slots, **run)
