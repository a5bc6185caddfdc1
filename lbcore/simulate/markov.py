"""Poisson arrivals, exponential service: the occupancy-count chain and the per-server chain.

Both simulate the embedded jump chain: one random number picks the next event, and the state before it weighs
1/(its total rate), so no exponential times are drawn (discrete-time conversion: Hordijk, Iglehart and
Schassberger 1976, Adv. Appl. Probab. 8). Under random routing, JSQ, JSQ(d) and JBT the counts ``counts[i]`` of equal
servers with at least i jobs are a Markov chain, and an event costs the same for any number of servers. Unequal rates
and all other policies need the jobs of every server.

Three stationary identities narrow the intervals as control variates. With n jobs in all, arrival rate a,
R the total rate of the busy servers and q_s the jobs at server s, the drifts of n, n^2 and sum q_s^2 give

    E[R] = a,   E[n (R - a)] = a,   E[n - a J] = 0 at unit rates,

J = expected length, itself included, of the queue that an arrival joins. The first two hold for every policy.
"""

import math
from typing import NamedTuple

import numpy as np

from lbcore import checks
from lbcore.chance import draws, streams
from lbcore.compiled import kernel
from lbcore.simulate import estimate, lanes, policies
from lbcore.simulate.results import Estimate

LEVELS = 64  # the occupancy is reported for 1 .. LEVELS jobs
_COLUMNS = {
    "time": 1,
    "total": 1,  # jobs in system
    "rate": 1,  # total service rate of the busy servers
    "rate_total": 1,  # its product with the jobs in system
    "all_busy": 1,
    "joined": 1,  # expected length of the queue an arrival would join, itself included
    "waited": 1,  # arrivals that wait, or the servers with two jobs or more: the same mean
    "crossing": 1,  # servers with as many jobs as the threshold: each falls below it at its rate
    "occupancy": LEVELS,  # servers with at least 1, 2, ... jobs
}
_TIME, _TOTAL, _RATE, _RATE_TOTAL, _ALL_BUSY, _JOINED, _WAITED, _CROSSING, _OCCUPANCY = range(len(_COLUMNS))
_SHORTEST, _BELOW, _SAMPLED = lanes.SHORTEST, lanes.BELOW, lanes.SAMPLED
_RULES = {  # of the occupancy chain, for equal servers; every other policy runs with the jobs of every server
    policies.RANDOM: _BELOW, policies.RANDOM_BY_RATE: _BELOW,  # with a threshold that no queue reaches
    policies.JBT: _BELOW, policies.JBT_BY_RATE: _BELOW, policies.JSQ: _SHORTEST,
    policies.JSQ_D: _SAMPLED, policies.JSQ_D_WITH_REPLACEMENT: _SAMPLED,
}  # fmt: skip
_RESOLUTION = 2.0**-30  # no interval is narrower than this, see the notes of :func:`_occupancy_kernel`
_LOW32, _U32 = np.uint64(2**32 - 1), np.uint64(32)


class _Occupancy(NamedTuple):
    """Setting of :func:`_occupancy_kernel`; arrays by number of busy servers, `accept` by any number q of servers."""

    rule: int  # of _RULES
    threshold: int  # of _BELOW
    n: int  # servers
    weight: np.ndarray  # float64: mean time to the next event
    arrive: np.ndarray  # uint64: 2^64 P(it is an arrival) - 1
    accept: np.ndarray  # int64: 2^32 P(all servers that _SAMPLED samples are among q given ones)


class _Servers(NamedTuple):
    """Setting of :func:`_servers_kernel`; arrays by server."""

    code: int  # of the policy, as `parameter`
    parameter: int
    counted: int  # queue length whose ends are counted
    arrival_rate: float
    rates: np.ndarray  # of service
    cumulative: np.ndarray  # their running sums
    keep: np.ndarray  # their alias table, see draws.alias_table
    other: np.ndarray


class _Arrays(NamedTuple):
    """What the kernels change of one replication."""

    counts: np.ndarray  # int64 (capacity + 2,): servers with at least i jobs; entry 0 is not used
    areas: np.ndarray  # float64 (capacity + 2,): zeros, see _flush
    place: np.ndarray  # int64: see the kernels
    stream: np.ndarray
    queues: np.ndarray | None  # int64 (n,), as the rest not used by the occupancy chain
    memory: np.ndarray | None  # of the policy
    busy_rate: np.ndarray | None  # float64 (1,): total rate of the busy servers


@kernel
def _flush(counts, areas, time, threshold, out):
    """Add the time integrals of the counts to `out` and reset `areas`.

    Between flushes an event at time t that changes ``counts[i]`` by d only subtracts ``d t`` from ``areas[i]``.
    """
    total = 0.0
    for i in range(1, counts.size):
        area = areas[i] + counts[i] * time
        areas[i] = 0.0
        total += area
        if i <= LEVELS:
            out[_OCCUPANCY + i - 1] += area
        if i == threshold:
            out[_CROSSING] += area
        elif i == threshold + 1:
            out[_CROSSING] -= area
    out[_TIME] += time
    out[_TOTAL] += total


@kernel
def _occupancy_kernel(setting, state, steps, out):
    """Run the occupancy-count chain for at most `steps` events; return how many were run.

    Fewer than `steps` are run if the longest queue has reached the end of `counts`, which must then grow. `place` holds
    the lowest level that is not full, jobs in all, jobs below the threshold, the sum of ``accept[counts[i]]``; `out`
    takes the sums, as in ``_COLUMNS``.

    The upper bits of one random word decide arrival or departure, the lower 32 which server: probabilities are met to
    2^-32.
    """
    rule, threshold, n, weight, arrive, accept = setting
    counts, areas, place, stream = state.counts, state.areas, state.place, state.stream
    words = streams.load(stream)
    filling, total, below, accepted = place[0], place[1], place[2], place[3]
    capacity = counts.size - 2
    r = min(threshold, capacity + 1)
    time, rate_total, all_busy, joined = 0.0, 0.0, 0.0, 0.0
    done = steps
    for step in range(steps):
        busy = counts[1]
        bits, words = streams.take_uint64(words)
        low = bits & _LOW32
        w = weight[busy]
        time += w
        rate_total += w * np.float64(busy * total)
        if busy == n:
            all_busy += w
        first, pool = 0, n  # _BELOW: the servers to choose from are the last `pool`, the longest queues first
        if rule == _SHORTEST:
            joined += w * filling
        elif rule == _BELOW:
            jobs = total
            if counts[r] < n:
                first = counts[r]
                pool = n - first
                jobs = below - (r - 1) * first
            joined += w * (1.0 + jobs / pool)
        else:
            joined += w * (1.0 + accepted * 2.0**-32)
        if bits <= arrive[busy]:
            level = filling
            if rule == _BELOW:
                k = first + np.int64((low * np.uint64(pool)) >> _U32)
                while counts[level] > k:
                    level += 1
                below += level < r
            elif rule == _SAMPLED:
                k = np.int64(low)
                while k < accept[counts[level]]:
                    level += 1
                accepted += accept[counts[level] + 1] - accept[counts[level]]
            count = counts[level] + 1
            counts[level] = count
            areas[level] -= time
            total += 1
            if count == n:
                filling += 1
            if count == 1 and level == capacity:
                done = step + 1
                break
        else:
            k = np.int64((low * np.uint64(busy)) >> _U32)
            level = max(filling - 1, 1)
            while counts[level + 1] > k:
                level += 1
            if rule == _BELOW:
                below -= level < r
            elif rule == _SAMPLED:
                accepted += accept[counts[level] - 1] - accept[counts[level]]
            counts[level] -= 1
            areas[level] += time
            total -= 1
            filling = min(filling, level)
    streams.store(stream, words)
    place[0], place[1], place[2], place[3] = filling, total, below, accepted
    out[_RATE_TOTAL] += rate_total
    out[_ALL_BUSY] += all_busy
    out[_JOINED] += joined
    busy_before, waiting_before = out[_OCCUPANCY], out[_OCCUPANCY + 1]
    _flush(counts, areas, time, r, out)
    out[_RATE] += out[_OCCUPANCY] - busy_before  # all rates are 1
    out[_WAITED] += out[_OCCUPANCY + 1] - waiting_before
    return done


@kernel
def _servers_kernel(chooser, setting, state, steps, out):
    """Run the per-server chain for at most `steps` events; return how many were run.

    Fewer than `steps` are run if the longest queue has reached the end of `counts`; -1 is returned if what was chosen
    is none of the servers. `place` holds the jobs in all and the server chosen last; `out` takes the sums, as in
    ``_COLUMNS``. `chooser`: see :func:`policies.pick`.
    """
    code, parameter, counted, arrival_rate, rates, cumulative, keep, other = setting
    counts, areas, place, stream, queues, memory, busy_rate = state
    n, capacity = queues.size, counts.size - 2
    total, rate = place[0], busy_rate[0]
    time, rate_time, rate_total, all_busy = 0.0, 0.0, 0.0, 0.0
    done = steps
    for step in range(steps):
        whole = arrival_rate + rate
        w = 1.0 / whole
        time += w
        rate_time += w * rate
        rate_total += w * rate * total
        if counts[1] == n:
            all_busy += w
        if streams.uniform(stream) * whole < arrival_rate or total == 0:
            server = policies.pick(chooser, code, parameter, queues, rates, cumulative, memory, stream)
            if server < 0 or server >= n:
                place[1] = server
                return -1
            level = queues[server] + 1
            queues[server] = level
            counts[level] += 1
            areas[level] -= time
            total += 1
            if level == 1:
                rate += rates[server]
            else:
                out[_WAITED] += 1.0
            if level == capacity:
                done = step + 1
                break
        else:
            server = -1
            while server < 0 or queues[server] == 0:  # fewer than 1 / load tries an event, on average
                column = streams.uniform(stream) * n
                server = np.int64(column)
                if column - server >= keep[server]:
                    server = np.int64(other[server])
            level = queues[server]
            queues[server] = level - 1
            counts[level] -= 1
            areas[level] += time
            total -= 1
            if level == 1:
                rate = rate - rates[server] if total > 0 else 0.0
            if level == counted:
                out[_CROSSING] += 1.0
    place[0], busy_rate[0] = total, rate
    _flush(counts, areas, time, -1, out)
    out[_RATE] += rate_time
    out[_RATE_TOTAL] += rate_total
    out[_ALL_BUSY] += all_busy
    return done


class _Chain:
    """What both chains tell the driver, see :class:`estimate.Model`."""

    columns, level, unit, notes = _COLUMNS, ("total", "time"), "events", ()
    chunk_steps, bytes_per_replication = 1 << 17, 4096

    def __init__(self, n_servers, load, policy, total_rate):
        self.n, self.policy, self.arrival_rate = n_servers, policy, load * total_rate
        alone = 1.0 / (1.0 - math.sqrt(load)) ** 2  # relaxation time of one server by itself
        self.relaxation_steps = 2.0 * load * n_servers * max(policy.imbalance(load, alone), alone / n_servers)

    def report(self, sample):
        """Return the estimates, the mean number of jobs first."""
        rate, (time, total, occupancy) = self.arrival_rate, map(sample.sum, ("time", "total", "occupancy"))
        controls = [
            (sample.sum("rate"), time, rate),
            (sample.sum("rate_total") - rate * total, time, rate),
            (total - rate * sample.sum("joined"), time, 0.0),
        ][: self.identities]
        waited = _probability(sample, sample.sum("waited"), rate * time, controls)
        least = waited.half_width if waited.value == 0.0 else 0.0  # as if those not seen wait one service
        mean_wait = sample.ratio(total - occupancy[:, 0], rate * time, controls)
        least = max(least, _RESOLUTION * (1.0 + mean_wait.value))
        mean_total = sample.ratio(total, time, controls)
        estimates = {
            "mean_total": Estimate(mean_total.value, max(mean_total.half_width, rate * least)),
            "mean_wait": Estimate(mean_wait.value, max(mean_wait.half_width, least)),
            "wait_probability": waited,
            "all_busy": _probability(sample, sample.sum("all_busy"), time, controls),
            "occupancy": _probability(sample, occupancy / self.n, time, controls),
        }
        if (messages := self.policy.messages(self.n)) is not None:
            estimates["messages"] = Estimate(messages, 0.0)
        elif self.policy.uses_threshold:
            estimates["messages"] = _probability(sample, sample.sum("crossing"), rate * time, controls)
        return estimates


def _probability(sample, top, bottom, controls):
    """Estimate probabilities; with control variates where these at least halve the interval."""
    plain, sharp = sample.probability(top, bottom), sample.ratio(top, bottom, controls)
    sharper = (2.0 * sharp.half_width < plain.half_width) & (np.abs(plain.value - 0.5) < 0.5)
    half_width = np.where(sharper, np.maximum(sharp.half_width, _RESOLUTION), plain.half_width)
    return Estimate(np.where(sharper, sharp.value, plain.value)[()], half_width[()])


class _State:
    """One replication, the levels growing as needed."""

    def __init__(self, stream, place, queues=None, memory=None, busy_rate=None):
        counts, areas = np.zeros(66, np.int64), np.zeros(66)
        self.arrays = _Arrays(counts, areas, np.array(place), stream.copy(), queues, memory, busy_rate)

    def grow_if_full(self):
        """Double the levels if the longest queue has reached the last one but one, where the kernels stop."""
        counts = self.arrays.counts
        if counts[-2] > 0:
            counts = np.concatenate([counts, np.zeros_like(counts)])
            self.arrays = self.arrays._replace(counts=counts, areas=np.zeros(counts.size))


class _OccupancyChain(_Chain):
    """Equal servers of rate 1 under one of the policies in ``_RULES``."""

    def __init__(self, n_servers, load, policy):
        super().__init__(n_servers, load, policy, float(n_servers))
        n, d = n_servers, policy.parameter
        weight = 1.0 / (self.arrival_rate + np.arange(n + 1.0))
        arrive = np.minimum(self.arrival_rate * weight * 2.0**64, 2.0**64 - 2048.0).astype(np.uint64)
        arrive[0] = np.uint64(2**64 - 1)
        self.rule, replacement = _RULES[policy.code], policy.code == policies.JSQ_D_WITH_REPLACEMENT
        among = lanes.all_among(n, d, replacement) if self.rule == _SAMPLED else np.zeros(1)
        self.accept = np.ceil(among * 2.0**32).astype(np.int64)
        self.threshold = d if policy.uses_threshold else 2**62  # random routing: no queue is too long
        self.setting = _Occupancy(self.rule, self.threshold, n, weight, arrive, self.accept)
        # where all three identities would give the mean without a simulation, one or two are left out
        alone = n == 1 or policy.oblivious or (self.rule == _SAMPLED and d == 1)
        self.identities = 1 if alone else 2 if n == 2 and policy.sees_idle_only else 3
        self.pair = (0.0, 0.0, n * float(n)) if replacement else (0.5, 0.25, n * (n - 1.0))  # see lanes.run
        self.group = lanes.LANES if (True, self.threshold < lanes.LEVELS, d == 2)[self.rule] else 1

    def start(self, stream):
        return _State(stream, [1, 0, 0, 0])

    def advance(self, state, steps, out):
        while steps > 0:
            steps -= _occupancy_kernel(self.setting, state.arrays, steps, out)
            state.grow_if_full()

    def advance_group(self, states, steps, outs):
        lanes.advance_group(self, states, steps, outs)


class _ServersChain(_Chain):
    """Servers of any rates under any policy."""

    def __init__(self, rates, load, policy):
        super().__init__(rates.size, load, policy, float(rates.sum()))
        self.relaxation_steps *= rates.mean() / rates.min()
        self.identities = 1 if rates.size == 1 else 2
        counted = policy.parameter if policy.uses_threshold else -1
        alias, cumulative = draws.alias_table(rates / rates.sum()), np.cumsum(rates)
        self.setting = _Servers(policy.code, policy.parameter, counted, self.arrival_rate, rates, cumulative, *alias)
        self.bytes_per_replication += 8 * rates.size + policy.new_memory(rates.size).nbytes

    def start(self, stream):
        return _State(stream, [0, 0], np.zeros(self.n, np.int64), self.policy.new_memory(self.n), np.zeros(1))

    def advance(self, state, steps, out):
        while steps > 0:
            done = _servers_kernel(self.policy.chooser, self.setting, state.arrays, steps, out)
            if done < 0:
                self.policy.refuse(state.arrays.place[1], self.n)
            steps -= done
            state.grow_if_full()


def _check_stable(policy, rates, load):
    """Refuse a policy that overloads the slowest of unequal servers, where that is known exactly."""
    n = rates.size
    if policy.code in (policies.RANDOM, policies.ROUND_ROBIN):
        share = np.array([1.0 / n])  # of all jobs, that go to the slowest 1, 2, ... servers whatever the queues
    elif policy.code in (policies.JSQ_D, policies.JSQ_D_WITH_REPLACEMENT):
        share = lanes.all_among(n, policy.parameter, policy.code == policies.JSQ_D_WITH_REPLACEMENT)[1:]
    else:
        return
    jobs, served = load * rates.sum() * share, np.cumsum(np.sort(rates))[: share.size]
    over = jobs >= served * (1.0 - 1e-12)
    if over.any():
        k = int(np.argmax(over))
        raise ValueError(
            f"{policy} is not stable with these rates at load {load}: the slowest {k + 1} alone get jobs at rate "
            f"{jobs[k]:.4g} and serve at rate {served[k]:.4g}; lower the load, or choose a policy that goes by rate or "
            "looks at all queues"
        )


@estimate.passes_run_options
def simulate_markov(n_servers, load, policy, *, rates=None, events=None, **run):
    """Simulate servers with Poisson arrivals and exponential service.

    Parameters
    ----------
    n_servers : int >= 1
    load : float in (0, 1)
        Total arrival rate over total service rate.
    policy : Policy
        Built-in, as ``lb.jsq()``, or your own, see :func:`lbcore.simulate.policies.policy`.
    rates : array_like, shape (n_servers,), optional
        Service rates, > 0; all 1 by default.
    events : int >= 1, optional
        Arrivals and departures to simulate, in all replications together.
    **run
        rel_precision, replications, seed, threads, progress, live: see :func:`lbcore.simulate.estimate.run`.

    Returns
    -------
    Simulation, or Run with ``live=True``
        With the estimates

        - ``mean_total``: jobs in system, all servers;
        - ``mean_wait``: time before service begins, by Little's law;
        - ``wait_probability``: arrivals that wait;
        - ``all_busy``: fraction of time with no idle server;
        - ``occupancy``, shape (64,): fraction of servers with at least 1, 2, ... jobs;
        - ``messages``: per arrival, where known (:meth:`lbcore.simulate.policies.Policy.messages`).

    Notes
    -----
    The stationary identities in the docstring of the module are control variates, save where these alone would give
    the answer (one server; random routing; JIQ for two servers).

    Examples
    --------
    >>> lb.simulate_markov(2, 0.9, lb.jsq(), events=10**7, seed=1).mean_wait
    """
    n = checks.whole(n_servers, "n_servers")
    load = checks.real(load, "load", above=0, below=1, why="from 1 on the queues grow for ever under every policy")
    checks.made_by(policy, "policy", policies.Policy, policies.MAKERS)
    estimate.require_memory(100.0 * n, f"{n} servers")
    asked = {"n_servers": n, "load": load, "policy": policy}
    if rates is not None:
        asked["rates"] = rates = checks.vector(rates, "rates", size=n, above=0)
    policy.check(n, rates)
    if rates is None and policy.code in _RULES:
        model = _OccupancyChain(n, load, policy)
    else:
        rates = np.ones(n) if rates is None else rates
        _check_stable(policy, rates, load)
        model = _ServersChain(rates, load, policy)
    return estimate.run(model, asked, steps=events, **run)
