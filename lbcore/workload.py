"""General service, first come first served, equal servers: any policy, Poisson or renewal arrivals.

Policies that look at nothing but which servers are idle run in :mod:`lbcore.calendar_queue`, at the same cost
per arrival for any number of servers; all others, and finite buffers, in :mod:`lbcore.departures`.
"""

import math

import numpy as np

from lbcore import calendar_queue, checks, departures, draws, estimate, laws, policies
from lbcore.results import Estimate


def equilibrium_work(n, load, service, stream):
    """Return the work of `n` servers, in mean service times, as if there were infinitely many.

    A Poisson number of them, of mean ``load n`` but `n` at most, has an independent residual service time to do.
    """
    rng, work = np.random.default_rng([*stream, 1]), np.zeros(n)
    scale, busy = np.append(0.0, np.geomspace(1e-6, 1e12, 20_000)), min(n, rng.poisson(load * n))
    sums = rng.standard_exponential(busy + 1).cumsum()  # over their total: uniform and in order, which is faster
    work[:busy] = np.interp(-sums[:busy] / sums[-1], -service.residual_tail(service.mean * scale), scale)[::-1]
    return work


class _Servers:
    """What the driver needs to know, see :class:`estimate.Model`; times are in mean service times.

    Parameters
    ----------
    n, load, policy, service, interarrival, shares, buffers, work, filled
        As :func:`simulate_workload` has checked them; `shares`, normalised, are the bias.
    """

    level = ("level", "served")
    unit = "arrivals"
    chunk_steps = 1 << 15

    def __init__(self, n, load, policy, service, interarrival, shares, buffers, work, filled=False):
        self.n, self.load, self.policy, self.rate = n, load, policy, load * n
        self.mean, self.bounded, self.work = service.mean, buffers.size > 0, work
        self._service, self._filled = service, filled
        self.columns = dict.fromkeys(calendar_queue.COLUMNS, 1)
        if work.size:
            self.columns["profile"] = work.size
        self.poisson = interarrival.packed[0] == draws.EXPONENTIAL
        self._laws = interarrival.stretched(1.0 / (self.rate * interarrival.mean)), service.stretched(1.0 / self.mean)
        slots, levels, bias = calendar_queue.slots_per_unit(n), work / self.mean, np.empty(0)
        if shares.size:
            threshold, other = draws.alias_table(shares)
            bias = np.concatenate([threshold, np.arange(n), other])
        if self._in_calendar:
            self._settings = self._rule, self.rate, slots, bias, levels, np.empty(0)
        else:
            ones = np.ones(n if policy.function else 0)
            self._settings = self._rule, policy.parameter, self.rate, slots, bias, buffers, ones, levels
        spread = min(service.cv2, 100.0) / 2 + min(interarrival.cv2, 100.0) / 2
        self.relaxation_steps = self.rate * self._relaxation(max(spread, 0.1), min(service.cv2, 100.0))
        self.bytes_per_replication = 4096 + (48 if self._in_calendar else 110) * n
        # the pooled queue with Poisson arrivals is M/G/1; for one server it is the queue itself, a circle
        exact = self.poisson and service.fourth_moment_finite and load < 1.0 and not self.bounded
        self._pooled_work = load * (1.0 + service.cv2) / (2 * n * (1.0 - load)) if exact and n > 1 else None
        self.notes = tuple(_moment_notes(service, interarrival))
        if shares.size and not policy.oblivious and not self.bounded and self.rate * shares.max() >= 1.0:
            self.notes += (
                f"bias sends {shares.max():.3g} of the jobs that find no short queue to one server, more than it can "
                "serve: whether the queues are stable is not known.",
            )

    @property
    def _in_calendar(self):
        return self.policy.sees_idle_only and not self.bounded

    def _relaxation(self, spread, cv2):
        """Return about how many mean service times the slowest quantity needs to forget its start."""
        load = min(self.load, 0.99) if self.bounded else self.load
        alone = spread / (1.0 - math.sqrt(load)) ** 2  # one queue by itself, in heavy traffic
        if self.policy.oblivious:
            slowest = alone
        elif self.policy.uses_threshold:
            slowest = min(alone, float(self.policy.parameter) ** 2)
        else:
            slowest = 1.0 if self.policy.code == policies.JSQ else 1.0 / (1.0 - load)
        return max(slowest, alone / self.n, (1.0 + cv2) / 2)

    def start(self, stream):
        if self._in_calendar:
            work = equilibrium_work(self.n, self.load, self._service, stream) if self._filled else None
            return calendar_queue.new_state(self.n, stream, work)
        memory = self.policy.new_memory(self.n)
        return departures.new_state(self.n, stream, self._rule, self.policy.parameter, memory)

    @property
    def _rule(self):
        policy = self.policy
        if policy.code == policies.ROUND_ROBIN:
            return calendar_queue.IN_TURN if self._in_calendar else departures.IN_TURN
        if policy.oblivious:
            return calendar_queue.RANDOM if self._in_calendar else departures.RANDOM
        if self._in_calendar:
            return calendar_queue.IDLE_FIRST
        if policy.uses_threshold:
            return departures.BELOW
        rules = {
            policies.JSQ: departures.SHORTEST,
            policies.JSQ_D: departures.SAMPLED,
            policies.JSQ_D_WITH_REPLACEMENT: departures.SAMPLED_TWICE,
        }
        return rules.get(policy.code, departures.CHOOSER)

    def advance(self, state, steps, out):
        laws_of = (self.poisson, *(law.packed for law in self._laws))
        if self._in_calendar:
            calendar_queue.idle_or_busy_kernel(steps, *laws_of, self._settings, state, out)
            return
        while steps > 0:
            arguments = steps, *laws_of, self._settings, tuple(state), out
            if self.policy.function is None:
                done, server = departures.queues_kernel(*arguments)
            else:
                done, server = departures.any_chooser_kernel(self.policy.chooser, *arguments)
            if not 0 <= server < self.n:
                raise ValueError(f"policy {self.policy} chose server {server}; servers are numbered 0 to {self.n - 1}")
            steps -= done
            if steps > 0:
                departures.grow(state)

    def report(self, sample):
        """Return the estimates, the mean number of jobs first."""
        served, lost, time, instants = (sample.sum(name) for name in ("served", "lost", "time", "instants"))
        arrivals, wait, excess = served + lost, sample.sum("wait"), sample.sum("excess")
        controls = [] if self.bounded else [(excess, instants, 0.0)]
        if self._pooled_work is not None:
            controls.append(("pooled", arrivals, self._pooled_work))
        waited = sample.probability("waited", served)
        mean_wait = sample.ratio(wait, served, controls)
        # where no wait was seen: as if those not seen took a mean service time each
        least = waited.half_width if waited.value == 0.0 else 0.0
        jobs = sample.ratio(wait + served, arrivals, controls)
        centre = excess.sum() / instants.sum() if self.bounded else 0.0
        around = sample.sum("excess_squared") - 2.0 * centre * excess + centre**2 * instants
        busy = sample.ratio(excess, instants)
        estimates = {
            "mean_total": _scaled(jobs, self.rate, least),
            "mean_wait": _scaled(mean_wait, self.mean, least),
            "wait_probability": waited,
            "all_busy": sample.probability("all_busy", arrivals),
            "busy_fraction": Estimate(self.load + busy.value / self.n, busy.half_width / self.n),
            "busy_variance": _scaled(sample.ratio(around, instants), 1.0 / self.n**2),
            "two_or_more": sample.probability(sample.sum("second") / self.n, time),
        }
        if self.bounded:
            estimates["lost"] = sample.probability(lost, arrivals)
        if self.work.size:
            estimates["profile"] = sample.probability(sample.sum("profile").reshape(len(time), -1), "profiles")
        return estimates


def _scaled(estimate, factor, least=0.0):
    """Return an estimate times a factor, its half-width being `least` x factor at least."""
    return Estimate(factor * estimate.value, factor * max(estimate.half_width, least))


def _moment_notes(service, interarrival):
    """Yield what a law without moments does to the numbers."""
    if math.isinf(service.variance):
        yield (
            f"{service} has infinite variance: under random routing and JIQ the mean wait is infinite, and whatever "
            "a finite run shows for mean_wait and mean_total, and their intervals, means nothing; the probabilities, "
            "busy_variance and profile do, though they settle slowly."
        )
    elif not service.fourth_moment_finite:
        yield (
            f"{service} has an infinite fourth moment, so the wait has no variance that a normal interval could rest "
            "on: the intervals of mean_wait and mean_total are too short."
        )
    if not interarrival.fourth_moment_finite:
        yield f"Interarrival times, {interarrival}, have an infinite fourth moment: all intervals may be too short."


def simulate_workload(
    n_servers,
    load,
    policy,
    service,
    *,
    interarrival=None,
    buffers=None,
    bias=None,
    work=None,
    filled=False,
    arrivals=None,
    rel_precision=None,
    replications=None,
    seed=None,
    threads=None,
    progress=True,
    live=False,
):
    """Simulate equal first-come-first-served servers with general service times.

    Parameters
    ----------
    n_servers : int >= 1
    load : float > 0
        Arrival rate per server times mean service time; below 1 unless every buffer is finite.
    policy : Policy
        ``lb.jiq()``, ``lb.random()``, ``lb.jsq()``, ... or your own, see :func:`lbcore.policies.policy`.
    service : Law
        As ``lb.laws.lognormal(cv2=4)``. Waits and `work` are in its unit of time.
    interarrival : Law, optional
        Of the times between arrivals (renewal arrivals), stretched to the mean that `load` asks for; exponential
        by default (Poisson arrivals).
    buffers : int >= 1, or array_like of int, shape (n_servers,), optional
        Most jobs at each server, the one in service included. A job that the policy sends to a full server is
        lost. By default there is no limit.
    bias : array_like of float >= 0, shape (n_servers,), optional
        Weights, to be normalised, of the servers in the choices at random among *all* servers: of random routing
        always, of JIQ when all servers are busy, of JBT(r) when none has fewer than r jobs. Equal by default.
    work : array_like of float >= 0, shape (m,), optional
        Increasing amounts of unfinished work w at which ``profile`` is wanted.
    filled : bool
        Start from the equilibrium of infinitely many servers: under JIQ with infinite buffers only. An empty system
        fills slowly if service is heavy-tailed: at time t it is still ``load * residual_tail(t)`` short of its load.
    arrivals : int >= 1, optional
        Arrivals to simulate, in all replications together.
    rel_precision, replications, seed, threads, progress, live
        See :func:`lbcore.estimate.run`.

    Returns
    -------
    Simulation, or Run with ``live=True``
        With the estimates

        - ``mean_total``: jobs in system, all servers, from the mean wait by Little's law;
        - ``mean_wait``: time from arrival to service, of the jobs not lost;
        - ``wait_probability``: jobs that wait, of those not lost;
        - ``all_busy``: arrivals that find no idle server;
        - ``busy_fraction``, ``busy_variance``: mean and variance of the fraction x_0 of busy servers; without
          losses the mean is `load` exactly, and its estimate a check;
        - ``two_or_more``: mean fraction of the servers with two jobs or more;
        - ``lost``: arrivals that are lost, with finite buffers;
        - ``profile``, shape (m,), with `work`: mean fraction x_w of the servers with more than w unfinished work.

    Raises
    ------
    TypeError, ValueError
        A number out of its range; a law or policy that is none, or does not fit the rest.
    MemoryError
        More servers or replications than the machine can hold.

    Notes
    -----
    Foss and Stolyar (2017), arXiv 1605.05968: JIQ with any service law; renewal arrivals, finite buffers and bias
    are the generalisations they name. Time averages are taken at arrivals if these are Poisson, otherwise at a
    uniform instant of each interarrival time. The interval of a mean wait is honest only if E S^4 is finite; the
    result says so where it is not.

    With Poisson arrivals the queue with all servers pooled into one, fed by the same jobs, is a control variate
    for the mean wait: it is M/G/1, with mean work ``load (1 + cv2) / (2 n (1 - load))`` (Pollaczek and Khinchine);
    so is the number of busy servers.

    Examples
    --------
    >>> lb.simulate_workload(1000, 0.9, lb.jiq(), lb.laws.lognormal(cv2=4), arrivals=10**7, seed=1).wait_probability
    """
    n = checks.whole(n_servers, "n_servers")
    if not isinstance(policy, policies.Policy):
        raise TypeError(f"policy must be one made by lb.jiq(), lb.random(), lb.jsq(), ... or lb.policy, not {policy!r}")
    gaps = laws.exponential() if interarrival is None else interarrival
    for name, law in (("service", service), ("interarrival", gaps)):
        if not isinstance(law, laws.Law):
            raise TypeError(f"{name} must be a law such as lb.laws.exponential(), not {law!r}")
    estimate.require_memory(110.0 * n, f"{n} servers")
    limits = np.empty(0, np.int64) if buffers is None else _checked_buffers(buffers, n)
    load = _checked_load(load, limits.size > 0)
    shares = np.empty(0) if bias is None else _checked_bias(bias, n, policy)
    if shares.size and policy.oblivious and not limits.size and load * n * shares.max() >= 1.0:
        raise ValueError(
            f"bias sends {shares.max():.4g} of all jobs to one server, which makes its load "
            f"{load * n * shares.max():.4g}; it must be below 1"
        )
    if rel_precision is not None and arrivals is None and math.isinf(service.variance):
        raise ValueError(f"rel_precision is that of mean_total, infinite for {service}; give arrivals instead")
    work = np.empty(0) if work is None else _checked_work(work)
    if filled and (limits.size or policy.oblivious or not policy.sees_idle_only):
        raise ValueError(
            f"filled is for JIQ with infinite buffers, not for {policy}{', finite' if limits.size else ''}"
        )
    policy.check(n)
    asked = {"n_servers": n, "load": load, "policy": policy, "service": service}
    given = {"interarrival": interarrival, "buffers": buffers, "bias": bias, "work": work if work.size else None}
    given["filled"] = filled or None
    return estimate.run(
        _Servers(n, load, policy, service, gaps, shares, limits, work, filled),
        asked | {name: value for name, value in given.items() if value is not None},
        steps=arrivals,
        rel_precision=rel_precision,
        replications=replications,
        seed=seed,
        threads=threads,
        progress=progress,
        live=live,
    )


def _checked_load(load, bounded):
    if bounded:
        return laws.number(load, "load", 0.0, "a finite number > 0")
    allowed = (
        "a number between 0 and 1 (from 1 on the queues grow for ever under every policy, unless buffers are finite)"
    )
    if laws.number(load, "load", 0.0, allowed) >= 1.0:
        raise ValueError(f"load must be {allowed}, not {load!r}")
    return float(load)


def _checked_buffers(buffers, n):
    array = np.asarray(buffers)
    if array.dtype.kind not in "iu":
        raise TypeError(f"buffers must be an integer >= 1, or one for each server, not {buffers!r}")
    if array.shape not in ((), (n,)):
        raise ValueError(f"buffers must be one integer or one for each of the {n} servers, not of shape {array.shape}")
    if array.min() < 1:
        raise ValueError(f"buffers must be >= 1, the job in service included, not {array.min()}")
    return np.ascontiguousarray(np.broadcast_to(array, (n,)), np.int64)


def _checked_bias(bias, n, policy):
    if not (policy.uses_threshold or policy.code in (policies.RANDOM, policies.RANDOM_BY_RATE)):
        raise ValueError(f"bias is for random routing, JIQ and JBT, which choose at random among all; not for {policy}")
    array = laws.vector(bias, "bias")
    if array.size != n:
        raise ValueError(f"bias must hold one weight for each of the {n} servers, not {array.size}")
    if array.sum() == 0.0:
        raise ValueError("bias must not be 0 for all servers")
    return array / array.sum()


def _checked_work(work):
    array = laws.vector(work, "work")
    if np.any(np.diff(array) <= 0.0):
        raise ValueError("work must be an increasing array of amounts of unfinished work")
    return array
