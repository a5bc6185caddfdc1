"""General service, first come first served, equal servers: any policy, Poisson or renewal arrivals.

Policies that look at nothing but which servers are idle run in :mod:`lbcore.simulate.idle_or_busy`, at the same cost
per arrival for any number of servers; all others, and finite buffers, in :mod:`lbcore.simulate.queue_lengths`.
"""

import math
import warnings

import numpy as np

from lbcore import checks
from lbcore.chance import draws, laws
from lbcore.simulate import estimate, idle_or_busy, policies, queue_lengths
from lbcore.simulate.profile import Levels, fold
from lbcore.simulate.results import Estimate

_STARTS = ("empty", "infinite-server")
LAWS = "lb.laws.exponential(), lb.laws.lognormal(cv2=4), ..."


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

    The two kinds below differ in how a replication starts and advances. `rule` is that of the kernel, `shares` are the
    weights, normalised, `filled` starts from the equilibrium of infinitely many servers; the rest is as
    :func:`simulate_workload` has checked it.
    """

    level, unit, chunk_steps = ("level", "served"), "arrivals", 1 << 15

    def __init__(
        self, rule, n, load, policy, service, *, interarrival=None, shares=None, buffers=None, work=None, filled=False
    ):
        gaps = laws.exponential() if interarrival is None else interarrival
        self.n, self.load, self.policy, self.rate, self.mean = n, load, policy, load * n, service.mean
        self.bounded, self._service, self._filled = buffers is not None, service, filled
        self.columns = dict.fromkeys(idle_or_busy.Sums._fields, 1)
        self._levels = None if work is None else Levels(service, work)
        if work is not None:
            self.columns |= {"gain": work.size, "resolution": work.size}
        scale, table = 1.0 if work is None else self._levels.scale, np.empty(0)
        if shares is not None:
            threshold, other = draws.alias_table(shares)
            table = np.concatenate([threshold, np.arange(n), other])
        self._settings = idle_or_busy.Settings(rule, self.rate, idle_or_busy.slots_per_unit(n), table, scale)
        self.poisson = gaps.packed[0] == draws.EXPONENTIAL
        self.interarrival = gaps.stretched(1.0 / (self.rate * gaps.mean))
        self.service = service.stretched(1 / self.mean)
        cv2 = min(service.cv2, 100.0)
        self.relaxation_steps = self.rate * self._relaxation(max(cv2 / 2 + min(gaps.cv2, 100.0) / 2, 0.1), cv2)
        self.bytes_per_replication = 4096 + self.bytes_per_server * n
        # the pooled queue with Poisson arrivals is M/G/1; for one server it is the queue itself, a circle
        exact = self.poisson and service.fourth_moment_finite and load < 1.0 and not self.bounded
        self._pooled_work = load * (1.0 + service.cv2) / (2 * n * (1.0 - load)) if exact and n > 1 else None
        self.notes = tuple(_moment_notes(service, gaps))
        if shares is not None and not policy.oblivious and not self.bounded and self.rate * shares.max() >= 1.0:
            self.notes += (
                f"The weights send {shares.max():.3g} of the jobs that find no short queue to one server, more than it "
                "can serve: whether the queues are stable is not known.",
            )

    def _relaxation(self, spread, cv2):
        """Return about how many mean service times the slowest quantity needs to forget its start."""
        load = min(self.load, 0.99) if self.bounded else self.load
        alone = spread / (1.0 - math.sqrt(load)) ** 2  # one queue by itself, in heavy traffic
        return max(self.policy.imbalance(load, alone), alone / self.n, (1.0 + cv2) / 2)

    def _counts(self):
        return np.empty((2, 0)) if self._levels is None else self._levels.new_counts()

    def advance(self, state, steps, out):
        """Serve `steps` arrivals, and add what those that waited bring to the profile."""
        self._serve(state, steps, (self.poisson, self.interarrival.packed, self.service.packed), out)
        if self._levels is not None:
            fold(state[0].counts, self._levels.gain, self._levels.resolution, out)

    def report(self, sample):
        """Return the estimates, the mean number of jobs first."""
        served, lost, time, instants = map(sample.sum, ("served", "lost", "time", "instants"))
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
        return estimates if self._levels is None else estimates | self._profile(sample, arrivals, lost, controls)

    def _profile(self, sample, arrivals, lost, controls):
        """Return the mean profile and its excess over the fixed point, see :mod:`lbcore.simulate.profile`.

        Waits come in clusters of about ``1 / (1 - load)``: an all-busy spell of many servers is that of a random walk
        with rates `load` and 1. So the half-width is at least the 97.5 % limit where none of them was seen.
        """
        load, residual = self.load, self._levels.residual
        gain, resolution = (sample.sum(name).reshape(len(lost), -1) for name in ("gain", "resolution"))
        excess = sample.ratio(load * (gain - lost[:, None] * residual), arrivals, controls)
        least = load * 3.7 / ((1.0 - min(load, 0.99)) * arrivals.sum())
        half_width = np.maximum(excess.half_width, least) + load * resolution.sum(axis=0) / arrivals.sum()
        profile = load * residual + excess.value
        return {"profile": Estimate(profile, half_width), "excess": Estimate(excess.value, half_width)}


class _IdleOrBusy(_Servers):
    """For policies that look at nothing but which servers are idle."""

    bytes_per_server = 48

    def start(self, stream):
        work = equilibrium_work(self.n, self.load, self._service, stream) if self._filled else None
        return [idle_or_busy.new_state(self.n, stream, self._counts(), work)]

    def _serve(self, states, steps, given, out):
        idle_or_busy.idle_or_busy_kernel(steps, *given, self._settings, states[0], out)


class _QueueLengths(_Servers):
    """For all others, and for finite buffers."""

    bytes_per_server = 110

    def __init__(self, rule, n, load, policy, service, *, buffers=None, **given):
        super().__init__(rule, n, load, policy, service, buffers=buffers, **given)
        rates = np.ones(n if rule == queue_lengths.CHOOSER else 0)
        limits = np.empty(0, np.int64) if buffers is None else buffers
        self._settings = queue_lengths.Settings(
            self._settings, policy.code, policy.parameter, limits, rates, rates.cumsum()
        )

    def start(self, stream):
        memory = self.policy.new_memory(self.n)
        return [queue_lengths.new_state(self.n, stream, self._settings.common.rule, memory, self._counts())]

    def _serve(self, states, steps, given, out):
        while steps > 0:
            done, server = queue_lengths.queue_lengths_kernel(
                self.policy.chooser, steps, *given, self._settings, states[0], out
            )
            if not 0 <= server < self.n:
                self.policy.refuse(server, self.n)
            steps -= done
            if steps > 0:
                states[0] = queue_lengths.grown(states[0])


# by which rule each kernel follows a policy without a look at every queue; all other policies choose by themselves
_RULES = {
    policies.JSQ: (None, queue_lengths.SHORTEST),
    policies.JBT: (idle_or_busy.IDLE_FIRST, queue_lengths.BELOW),
    policies.JBT_BY_RATE: (idle_or_busy.IDLE_FIRST, queue_lengths.BELOW),
    policies.JSQ_D: (None, queue_lengths.SAMPLED),
    policies.JSQ_D_WITH_REPLACEMENT: (None, queue_lengths.SAMPLED_WITH_REPLACEMENT),
    policies.ROUND_ROBIN: (idle_or_busy.IN_TURN, queue_lengths.IN_TURN),
    policies.RANDOM: (idle_or_busy.RANDOM, queue_lengths.RANDOM),
    policies.RANDOM_BY_RATE: (idle_or_busy.RANDOM, queue_lengths.RANDOM),
}


def _model(n, load, policy, service, *, buffers=None, **given):
    """Return the model of the kernel that is faster."""
    no_threshold = policy.code in (policies.JBT, policies.JBT_BY_RATE) and policy.oblivious  # JBT(inf)
    code = policies.RANDOM if no_threshold else policy.code
    idle_rule, queue_rule = _RULES.get(code, (None, queue_lengths.CHOOSER))
    if idle_rule is not None and policy.sees_idle_only and buffers is None:
        return _IdleOrBusy(idle_rule, n, load, policy, service, **given)
    return _QueueLengths(queue_rule, n, load, policy, service, buffers=buffers, **given)


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


@estimate.passes_run_options
def simulate_workload(
    n_servers, load, policy, service, *, interarrival=None, buffers=None, weights=None, work=None, start="empty",
    arrivals=None, bias=None, filled=False, **run,
):  # fmt: skip
    """Simulate equal first-come-first-served servers with general service times.

    Parameters
    ----------
    n_servers : int >= 1
    load : float > 0
        Arrival rate per server times mean service time; below 1 unless every buffer is finite.
    policy : Policy
        ``lb.jiq()``, ``lb.random()``, ``lb.jsq()``, ... or your own, see :func:`lbcore.simulate.policies.policy`.
    service : Law
        As ``lb.laws.lognormal(cv2=4)``. Waits and `work` are in its unit of time.
    interarrival : Law, optional
        Of the times between arrivals (renewal arrivals), stretched to the mean that `load` asks for; exponential
        by default (Poisson arrivals).
    buffers : int >= 1, or array_like of int, shape (n_servers,), optional
        Most jobs at each server, the one in service included. A job that the policy sends to a full server is
        lost. By default there is no limit.
    weights : array_like of float >= 0, shape (n_servers,), optional
        Of the servers, to be normalised, in the choices at random among *all* servers: of random routing always,
        of JIQ when all servers are busy, of JBT(r) when none has fewer than r jobs. Equal by default.
    work : array_like of float >= 0, shape (m,), optional
        Increasing amounts of unfinished work w at which `profile` and `excess` are wanted.
    start : "empty" or "infinite-server"
        The latter is the equilibrium of infinitely many servers, for JIQ with infinite buffers only. An empty system
        fills slowly if service is heavy-tailed: at time t it is still ``load * residual_tail(t)`` short of its load.
    arrivals : int >= 1, optional
        Arrivals to simulate, in all replications together.
    bias, filled
        Names of an earlier version for `weights` and ``start="infinite-server"``.
    rel_precision, replications, seed, threads, progress, live
        See :func:`lbcore.simulate.estimate.run`.

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
        - ``profile``, shape (m,), with `work`: mean fraction x_w of the servers with more than w unfinished work;
        - ``excess``, shape (m,), with `work`: how far that is above ``load * service.residual_tail(work)``.

    Notes
    -----
    Foss and Stolyar (2017), arXiv 1605.05968: JIQ with any service law; renewal arrivals, finite buffers and weights
    are the generalisations they name. Time averages are taken at arrivals if these are Poisson, otherwise at a
    uniform instant of each interarrival time. The interval of a mean wait is honest only if E S^4 is finite; the
    result says so where it is not.

    With Poisson arrivals the queue with all servers pooled into one, fed by the same jobs, is a control variate
    for the mean wait: it is M/G/1, with mean work ``load (1 + cv2) / (2 n (1 - load))`` (Pollaczek and Khinchine);
    so is the number of busy servers. The profile is found from the waits with both, see `lbcore.simulate.profile`.

    Examples
    --------
    >>> lb.simulate_workload(1000, 0.9, lb.jiq(), lb.laws.lognormal(cv2=4), arrivals=10**7, seed=1).wait_probability
    """
    if bias is not None:
        weights = _renamed("bias=", "weights=", bias)
    if filled:
        start = _renamed("filled=True", 'start="infinite-server"', _STARTS[1])
    n = checks.whole(n_servers, "n_servers")
    checks.made_by(policy, "policy", policies.Policy, policies.MAKERS)
    checks.made_by(service, "service", laws.Law, LAWS)
    if interarrival is not None:
        checks.made_by(interarrival, "interarrival", laws.Law, LAWS)
    estimate.require_memory(110.0 * n, f"{n} servers")
    limits = None if buffers is None else _checked_buffers(buffers, n)
    load = _checked_load(load, limits is not None)
    shares = None if weights is None else _checked_weights(weights, n, policy)
    if shares is not None and policy.oblivious and limits is None and load * n * shares.max() >= 1.0:
        raise ValueError(
            f"weights must not overload a server: they send {shares.max():.4g} of all jobs to one, which makes its "
            f"load {load * n * shares.max():.4g}; it must be below 1"
        )
    if run.get("rel_precision") is not None and arrivals is None and math.isinf(service.variance):
        raise ValueError(f"rel_precision is that of mean_total, infinite for {service}; give arrivals instead")
    work = None if work is None else checks.vector(work, "work", least=0.0, increasing=True)
    filled = checks.one_of(start, "start", _STARTS) != "empty"
    if filled and (limits is not None or policy.oblivious or not policy.sees_idle_only):
        kind = f"{policy}{', finite' if limits is not None else ''}"
        raise ValueError(f"start 'infinite-server' is for JIQ with infinite buffers, not for {kind}")
    policy.check(n)
    asked = {"n_servers": n, "load": load, "policy": policy, "service": service, "interarrival": interarrival}
    asked |= {"buffers": buffers, "weights": weights, "work": work, "start": start if filled else None}
    model = _model(
        n, load, policy, service, interarrival=interarrival, shares=shares, buffers=limits, work=work, filled=filled
    )
    asked = {name: value for name, value in asked.items() if value is not None}
    return estimate.run(model, asked, steps=arrivals, **run)


def _renamed(old, new, value):
    """Return a value given under the name of an earlier version, with a warning to whoever calls the simulator."""
    warnings.warn(f"{old} is now {new}; the old name goes with the next version", FutureWarning, stacklevel=4)
    return value


def _checked_load(load, bounded):
    why = "from 1 on the queues grow for ever under every policy, unless buffers are finite"
    return checks.real(load, "load", above=0.0, **({} if bounded else {"below": 1.0, "why": why}))


def _checked_buffers(buffers, n):
    if np.ndim(buffers) == 0:
        return np.full(n, checks.whole(buffers, "buffers", why="the job in service is one"))
    array = checks.vector(buffers, "buffers", size=n, least=1, why="the job in service is one")
    if np.any(array % 1.0):
        raise ValueError("buffers must be whole numbers")
    return array.astype(np.int64)


def _checked_weights(weights, n, policy):
    if not (policy.uses_threshold or policy.code in (policies.RANDOM, policies.RANDOM_BY_RATE)):
        why = "random routing, JIQ and JBT, which choose at random among all"
        raise ValueError(f"weights are for {why}; not for {policy}")
    array = checks.vector(weights, "weights", size=n, least=0.0)
    if array.sum() == 0.0:
        raise ValueError("weights must not be 0 for all servers")
    return array / array.sum()
