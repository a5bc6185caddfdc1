"""Poisson arrivals, exponential service: the occupancy-count chain and the per-server chain.

Both simulate the embedded jump chain: one random number picks the next event, and the state before it weighs
1/(its total rate), so no exponential times are drawn (discrete-time conversion: Hordijk, Iglehart and
Schassberger 1976, Adv. Appl. Probab. 8). Under a policy that treats equal servers alike, the counts
``counts[i]`` of servers with at least i jobs are a Markov chain, and an event costs the same for any number
of servers. Unequal rates, round robin and a user's own policy need the jobs of every server.

Three stationary identities narrow the intervals as control variates. With n jobs in all, arrival rate a,
R the total rate of the busy servers and q_s the jobs at server s, the drifts of n, n^2 and sum q_s^2 give

    E[R] = a,   E[n (R - a)] = a,   E[n - a J] = 0 at unit rates,

J = expected length, itself included, of the queue that an arrival joins. The first two hold for every policy.
"""

import math

import numpy as np

from lbcore import checks, draws, estimate, lanes, policies, streams
from lbcore.compiled import kernel
from lbcore.results import Estimate

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
_OCCUPANCY = len(_COLUMNS) - 1  # where that column starts
_SHORTEST, _BELOW, _SAMPLED = lanes.SHORTEST, lanes.BELOW, lanes.SAMPLED
_RULES = {  # of the occupancy chain, for equal servers; every other policy runs with the jobs of every server
    policies.RANDOM: _BELOW,  # with a threshold that no queue reaches
    policies.RANDOM_BY_RATE: _BELOW,
    policies.JBT: _BELOW,
    policies.JBT_BY_RATE: _BELOW,
    policies.JSQ: _SHORTEST,
    policies.JSQ_D: _SAMPLED,
    policies.JSQ_D_WITH_REPLACEMENT: _SAMPLED,
}
_UNSTABLE = "from 1 on the queues grow for ever under every policy"
_RESOLUTION = 2.0**-30  # no interval is narrower than this, see the notes of :func:`_occupancy_kernel`
_LOW32, _U32 = np.uint64(2**32 - 1), np.uint64(32)


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
            out[7] += area
        elif i == threshold + 1:
            out[7] -= area
    out[0] += time
    out[1] += total


@kernel
def _occupancy_kernel(setting, counts, areas, place, stream, steps, out):
    """Run the occupancy-count chain for at most `steps` events; return how many were run.

    Fewer than `steps` are run if the longest queue has reached the end of `counts`, which must then grow.

    Parameters
    ----------
    setting : tuple
        rule (``_SHORTEST``, ``_BELOW`` or ``_SAMPLED``), threshold of ``_BELOW``, number of servers n; and, by number
        of busy servers, shape (n + 1,): mean time to the next event, 2^64 P(it is an arrival) - 1 (uint64); and
        for ``_SAMPLED``, by q, 2^32 P(all sampled servers are among q given ones) (int64).
    counts : ndarray of int64, shape (capacity + 2,)
        Servers with at least i jobs; entry 0 is not used.
    areas : ndarray of float64, shape (capacity + 2,)
        Zeros, see :func:`_flush`.
    place : ndarray of int64, shape (4,)
        Lowest level that is not full, jobs in all, jobs below the threshold, sum of ``accept[counts[i]]``.
    stream : ndarray of uint64, shape (4,)
    out : ndarray of float64
        Sums, as in ``_COLUMNS``.

    Notes
    -----
    The upper bits of one random word decide arrival or departure, the lower 32 which server: probabilities
    are met to 2^-32.
    """
    rule, threshold, n, weight, arrive, accept = setting
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
    out[3] += rate_total
    out[4] += all_busy
    out[5] += joined
    busy_before, waiting_before = out[_OCCUPANCY], out[_OCCUPANCY + 1]
    _flush(counts, areas, time, r, out)
    out[2] += out[_OCCUPANCY] - busy_before  # all rates are 1
    out[6] += out[_OCCUPANCY + 1] - waiting_before
    return done


@kernel
def _servers_kernel(chooser, setting, state, steps, out):
    """Run the per-server chain for at most `steps` events; return how many were run.

    Fewer than `steps` are run if the longest queue has reached the end of `counts`; -1 is returned, with what was
    chosen in ``place[1]``, if that is none of the servers.

    Parameters
    ----------
    chooser : None or jitted function
        See :func:`policies.pick`.
    setting : tuple
        code and parameter of the policy, level whose crossings are counted, arrival rate; and, shape (n,): service
        rates, their running sums, their alias table (two arrays, see :func:`draws.alias_table`).
    state : tuple
        queues (int64[n]), counts and areas as in :func:`_occupancy_kernel`, memory of the policy,
        place (int64[2]: jobs in all, server chosen last), rate of the busy servers (float64[1]), stream.
    out : ndarray of float64
        Sums, as in ``_COLUMNS``.
    """
    code, parameter, threshold, arrival_rate, rates, cumulative, keep, other = setting
    queues, counts, areas, memory, place, busy_rate, stream = state
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
                done = -1
                break
            level = queues[server] + 1
            queues[server] = level
            counts[level] += 1
            areas[level] -= time
            total += 1
            if level == 1:
                rate += rates[server]
            else:
                out[6] += 1.0
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
            if level == threshold:
                out[7] += 1.0
    place[0], busy_rate[0] = total, rate
    _flush(counts, areas, time, -1, out)
    out[2] += rate_time
    out[3] += rate_total
    out[4] += all_busy
    return done


class _Chain:
    """What both chains tell the driver, see :class:`estimate.Model`."""

    columns = _COLUMNS
    level = ("total", "time")
    unit = "events"
    notes = ()
    chunk_steps = 1 << 17

    def __init__(self, n_servers, load, policy, total_rate):
        self.n, self.policy, self.arrival_rate = n_servers, policy, load * total_rate
        alone = 1.0 / (1.0 - math.sqrt(load)) ** 2  # relaxation time of one server by itself
        self.relaxation_steps = 2.0 * load * n_servers * max(policy.imbalance(load, alone), alone / n_servers)

    def report(self, sample):
        """Return the estimates, the mean number of jobs first."""
        time, total, occupancy = sample.sum("time"), sample.sum("total"), sample.sum("occupancy")
        rate = self.arrival_rate
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
        messages = self.policy.messages(self.n)
        if messages is not None:
            estimates["messages"] = Estimate(messages, 0.0)
        elif self.policy.uses_threshold:
            estimates["messages"] = _probability(sample, sample.sum("crossing"), rate * time, controls)
        return estimates


def _probability(sample, top, bottom, controls):
    """Estimate probabilities; with control variates where these at least halve the interval."""
    plain, sharp = sample.probability(top, bottom), sample.ratio(top, bottom, controls)
    sharper = (2.0 * sharp.half_width < plain.half_width) & (np.abs(plain.value - 0.5) < 0.5)
    value = np.where(sharper, sharp.value, plain.value)
    half_width = np.where(sharper, np.maximum(sharp.half_width, _RESOLUTION), plain.half_width)
    return Estimate(value[()], half_width[()])


class _State:
    """One replication: arrays that the kernels change in place, the levels growing as needed."""

    def __init__(self, stream, place, queues=None, memory=None):
        self.stream, self.place, self.queues, self.memory = stream.copy(), np.array(place), queues, memory
        self.busy_rate = np.zeros(1)
        self.counts, self.areas = np.zeros(66, np.int64), np.zeros(66)

    def arrays(self):
        """Return what the per-server chain works on, see :func:`_servers_body`."""
        return self.queues, self.counts, self.areas, self.memory, self.place, self.busy_rate, self.stream

    def grow_if_full(self):
        """Double the levels if the longest queue has reached the last one but one, where the kernels stop."""
        if self.counts[-2] > 0:
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
            self.areas = np.zeros(self.counts.size)


class _OccupancyChain(_Chain):
    """Equal servers of rate 1 under one of the policies in ``_RULES``."""

    def __init__(self, n_servers, load, policy):
        super().__init__(n_servers, load, policy, float(n_servers))
        n, code, d = n_servers, policy.code, policy.parameter
        busy = np.arange(n + 1.0)
        weight = 1.0 / (self.arrival_rate + busy)
        arrive = np.minimum(self.arrival_rate * weight * 2.0**64, 2.0**64 - 2048.0).astype(np.uint64)
        arrive[0] = np.uint64(2**64 - 1)
        self.rule, self.accept = _RULES[code], np.zeros(1, np.int64)
        replacement = code == policies.JSQ_D_WITH_REPLACEMENT
        if self.rule == _SAMPLED:
            self.accept = np.ceil(_all_among(n, d, replacement) * 2.0**32).astype(np.int64)
        self.threshold = d if policy.uses_threshold else 2**62  # random routing: no queue is too long
        self.setting = self.rule, self.threshold, n, weight, arrive, self.accept
        # where all three identities would give the mean without a simulation, one or two are left out
        alone = n == 1 or policy.oblivious or (self.rule == _SAMPLED and d == 1)
        self.identities = 1 if alone else 2 if n == 2 and policy.sees_idle_only else 3
        self.bytes_per_replication = 4096
        self.pair = (0.0, 0.0, n * float(n)) if replacement else (0.5, 0.25, n * (n - 1.0))  # see lanes.run
        self.group = lanes.LANES if (True, self.threshold < lanes.LEVELS, d == 2)[self.rule] else 1

    def start(self, stream):
        return _State(stream, [1, 0, 0, 0])

    def advance(self, state, steps, out):
        while steps > 0:
            steps -= _occupancy_kernel(self.setting, state.counts, state.areas, state.place, state.stream, steps, out)
            state.grow_if_full()

    def advance_group(self, states, steps, outs):
        """Advance `group` replications together; `outs` has a row for each. The same as one by one, but faster."""
        alone = 256
        while steps > 0:
            done = 0
            if all(state.counts[lanes.LEVELS + 1] == 0 for state in states):
                done = self._run_lanes(states, steps, outs)
                steps -= done
            alone = min(2 * alone, 1 << 14) if done < 1024 else 256
            stretch = min(steps, alone)
            for state, out in zip(states, outs, strict=True):
                self.advance(state, stretch, out)
            steps -= stretch

    def _run_lanes(self, states, steps, outs):
        """Pack the states into lanes, run until done or a queue outgrows them, and unpack; return the steps."""
        first, last = lanes.COUNTS + 1, lanes.COUNTS + 1 + lanes.LEVELS
        r = self.threshold if self.rule == _BELOW else 1
        rows, words = np.zeros((lanes.ROWS, lanes.LANES)), np.zeros((5, lanes.LANES), np.uint64)
        rows[lanes.COUNTS] = self.n
        for lane, state in enumerate(states):
            rows[first:last, lane] = state.counts[1 : lanes.LEVELS + 1]
            rows[lanes.TOTAL, lane], rows[lanes.LOW, lane] = state.place[1:3]
            words[:4, lane] = state.stream
        rows[lanes.FIRST] = rows[lanes.COUNTS + r]
        n, rate = float(self.n), self.arrival_rate
        done = lanes.run(self.rule, r, n, rate, *self.pair, words.reshape(-1), rows.reshape(-1), steps)
        counts, areas = rows[first:last].astype(np.int64), rows[lanes.AREAS + 1 :]
        accepted = self.accept[counts].sum(axis=0) if self.rule == _SAMPLED else np.zeros(len(states), int)
        for lane, state in enumerate(states):
            state.counts[1 : lanes.LEVELS + 1] = counts[:, lane]
            state.stream[:] = words[:4, lane]
            state.place[1:] = rows[lanes.TOTAL, lane], rows[lanes.LOW, lane], accepted[lane]
        for lane, filling in enumerate(1 + (counts == self.n).sum(axis=0)):
            states[lane].place[0] = filling
        sums = [rows[lanes.TIME], areas.sum(axis=0), areas[0], rows[lanes.RATE_TOTAL], rows[lanes.ALL_BUSY]]
        crossing = areas[r - 1] - areas[r] if self.rule == _BELOW else np.zeros(len(states))
        outs += np.pad(
            np.vstack([*sums, rows[lanes.JOINED], areas[1], crossing, areas]).T,
            ((0, 0), (0, LEVELS - lanes.LEVELS)),
        )
        return done


class _ServersChain(_Chain):
    """Servers of any rates under any policy."""

    def __init__(self, rates, load, policy):
        super().__init__(rates.size, load, policy, float(rates.sum()))
        self.relaxation_steps *= rates.mean() / rates.min()
        self.identities = 1 if rates.size == 1 else 2
        code, parameter = policy.code, policy.parameter
        counted = parameter if policy.uses_threshold else -1
        alias = draws.alias_table(rates / rates.sum())
        self.setting = code, parameter, counted, self.arrival_rate, rates, np.cumsum(rates), *alias
        self.bytes_per_replication = 4096 + 8 * rates.size + policy.new_memory(rates.size).nbytes

    def start(self, stream):
        return _State(stream, [0, 0], np.zeros(self.n, np.int64), self.policy.new_memory(self.n))

    def advance(self, state, steps, out):
        while steps > 0:
            done = _servers_kernel(self.policy.chooser, self.setting, state.arrays(), steps, out)
            if done < 0:
                self.policy.refuse(state.place[1], self.n)
            steps -= done
            state.grow_if_full()


def _all_among(n, d, replacement):
    """Return P(all of d sampled servers are among q given ones of n), shape (n + 1,), for q = 0 .. n."""
    q = np.arange(n + 1.0)
    if replacement:
        return (q / n) ** d
    steps = ((q[1:] - d) / q[1:]).clip(0.0)  # P(q - 1) / P(q)
    return np.append(np.cumprod(steps[::-1])[::-1], 1.0)


def _check_stable(policy, rates, load):
    """Refuse a policy that overloads the slowest of unequal servers, where that is known exactly."""
    n, arrival_rate = rates.size, load * rates.sum()
    if policy.code in (policies.RANDOM, policies.ROUND_ROBIN):
        share = np.array([1.0 / n])  # of all jobs, that go to the slowest 1, 2, ... servers whatever the queues
    elif policy.code in (policies.JSQ_D, policies.JSQ_D_WITH_REPLACEMENT):
        share = _all_among(n, policy.parameter, policy.code == policies.JSQ_D_WITH_REPLACEMENT)[1:]
    else:
        return
    served = np.cumsum(np.sort(rates))[: share.size]
    over = arrival_rate * share >= served * (1.0 - 1e-12)
    if over.any():
        worst = int(np.argmax(over)) + 1
        raise ValueError(
            f"{policy} is not stable with these rates at load {load}: the slowest {worst} alone get jobs at rate "
            f"{arrival_rate * share[worst - 1]:.4g} and serve at rate {served[worst - 1]:.4g}; lower the load, or "
            "choose a policy that goes by rate or looks at all queues"
        )


@estimate.passes_run_options
def simulate_markov(
    n_servers,
    load,
    policy,
    *,
    rates=None,
    events=None,
    **run,
):
    """Simulate servers with Poisson arrivals and exponential service.

    Parameters
    ----------
    n_servers : int >= 1
    load : float in (0, 1)
        Total arrival rate over total service rate.
    policy : Policy
        ``lb.random()``, ``lb.jsq()``, ``lb.jsq_d(2)``, ``lb.jiq()``, ``lb.jbt(3)``, ``lb.round_robin()``, or
        your own, see :func:`lbcore.policies.policy`.
    rates : array_like, shape (n_servers,), optional
        Service rates, > 0; all 1 by default.
    events : int >= 1, optional
        Arrivals and departures to simulate, in all replications together.
    **run
        rel_precision, replications, seed, threads, progress, live: see :func:`lbcore.estimate.run`.

    Returns
    -------
    Simulation, or Run with ``live=True``
        With the estimates

        - ``mean_total``: jobs in system, all servers;
        - ``mean_wait``: time before service begins, by Little's law;
        - ``wait_probability``: arrivals that wait;
        - ``all_busy``: fraction of time with no idle server;
        - ``occupancy``, shape (64,): fraction of servers with at least 1, 2, ... jobs;
        - ``messages``: between dispatcher and servers, per arrival, where the policy defines it
          (:meth:`lbcore.policies.Policy.messages`).

    Raises
    ------
    ValueError
        The policy does not fit the servers, or is known not to be stable.
    MemoryError
        More servers or replications than the machine can hold.

    Notes
    -----
    ``mean_total`` and ``mean_wait`` use the stationary identities in the docstring of the module as control
    variates, save where these alone would give the answer (one server; random routing; JIQ for two servers).

    Examples
    --------
    >>> lb.simulate_markov(2, 0.9, lb.jsq(), events=10**7, seed=1).mean_wait
    """
    n = checks.whole(n_servers, "n_servers")
    load = checks.real(load, "load", above=0, below=1, why=_UNSTABLE)
    checks.made_by(policy, "policy", policies.Policy, policies.MAKERS)
    estimate.require_memory(100.0 * n, f"{n} servers")
    asked = {"n_servers": n, "load": load, "policy": policy}
    if rates is None and policy.code in _RULES:
        policy.check(n)
        model = _OccupancyChain(n, load, policy)
    else:
        if rates is not None:
            asked["rates"] = rates = checks.vector(rates, "rates", size=n, above=0)
        else:
            rates = np.ones(n)
        policy.check(n, rates)
        _check_stable(policy, rates, load)
        model = _ServersChain(rates, load, policy)
    return estimate.run(model, asked, steps=events, **run)
