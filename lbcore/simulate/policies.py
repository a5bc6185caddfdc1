"""Dispatching policies: small frozen records, and the kernels that choose a server.

A built-in policy is an integer code and a parameter, read by :func:`choose`, so that one cached kernel
serves them all. A user's own policy is a jitted function (see :func:`policy`). Either way a simulator calls
``pick(record.chooser, record.code, record.parameter, queues, rates, cumulative, memory, stream)``.
Every policy sees all jobs at a server, the one in service included.

To add a policy: a code, its branch in :func:`choose` and a function that makes its record, all in this file. What
the record does not say of it counts as unknown, and simulators then assume the worst. Kernels that do one policy
faster are no part of what it is: a simulator lists the codes that it has such a kernel for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numba
import numpy as np

from lbcore import checks
from lbcore.chance import streams
from lbcore.compiled import fresh, inlined, kernel

RANDOM, RANDOM_BY_RATE, ROUND_ROBIN, JSQ, JSQ_D, JSQ_D_WITH_REPLACEMENT = range(6)
JBT, JBT_BY_RATE, IDLE_ONE_FIRST, USER = range(6, 10)
MAKERS = "lb.jsq(), lb.jbt(r), lb.random(), ... or lb.policy(function)"
_NO_THRESHOLD = 2**62  # longer than any queue


@inlined
def first_above(cumulative, target):
    """Return the first place in an increasing array with more than `target`, the last if there is none."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def choose_random(rates, cumulative, by_rate, stream):
    """Return a server, uniform or with probability proportional to its rate."""
    n = rates.size
    if not by_rate:
        return streams.below(stream, n)
    return first_above(cumulative, streams.uniform(stream) * cumulative[n - 1])


@kernel
def choose_shortest(queues, stream):
    """Return a server with the fewest jobs, ties uniform."""
    shortest, ties, chosen = queues[0], 1, 0
    for i in range(1, queues.size):
        if queues[i] < shortest:
            shortest, ties, chosen = queues[i], 1, i
        elif queues[i] == shortest:
            ties += 1
    if ties == 1:
        return chosen
    skip = streams.below(stream, ties)
    for i in range(chosen, queues.size):
        if queues[i] == shortest:
            if skip == 0:
                return i
            skip -= 1
    return chosen


@kernel
def choose_below(queues, threshold, rates, cumulative, by_rate, stream):
    """Return a random server with fewer than `threshold` jobs, or a random one if there is none."""
    n = queues.size
    if by_rate:
        weight = 0.0
        for i in range(n):
            if queues[i] < threshold:
                weight += rates[i]
        if weight > 0.0:
            target, chosen = streams.uniform(stream) * weight, 0
            for i in range(n):
                if queues[i] < threshold:
                    chosen = i
                    target -= rates[i]
                    if target < 0.0:
                        break
            return chosen
    else:
        count = 0
        for i in range(n):
            count += queues[i] < threshold
        if count > 0:
            skip = streams.below(stream, count)
            for i in range(n):
                if queues[i] < threshold:
                    if skip == 0:
                        return i
                    skip -= 1
    return choose_random(rates, cumulative, by_rate, stream)


@kernel
def choose_sampled(queues, d, replacement, memory, stream):
    """Return the shortest of `d` servers sampled uniformly, ties uniform among the samples.

    Without replacement `memory` holds a permutation of the servers, shuffled a little further each time.
    """
    n, chosen, shortest = queues.size, 0, -1
    for k in range(d):
        if replacement:
            i = streams.below(stream, n)
        else:
            j = k + streams.below(stream, n - k)
            i = memory[j]
            memory[j] = memory[k]
            memory[k] = i
        if shortest < 0 or queues[i] < shortest:
            chosen, shortest = i, queues[i]
    return chosen


@kernel
def choose(code, parameter, queues, rates, cumulative, memory, stream):
    """Return the server that a built-in policy sends the next job to, -1 if there is no such policy.

    Parameters
    ----------
    code, parameter : int
        As in the :class:`Policy` record.
    queues : ndarray of int, shape (n,)
        Jobs at each server, the one in service included.
    rates, cumulative : ndarray of float, shape (n,)
        Service rates and their running sums; read only by policies that choose by rate.
    memory : ndarray
        ``record.new_memory(n)``, kept from call to call.
    stream : ndarray of uint64, shape (4,)

    Returns
    -------
    int
        Index of the server.
    """
    if code == JSQ:
        return choose_shortest(queues, stream)
    if code == IDLE_ONE_FIRST:
        parameter = 2
        for q in queues:
            if q == 0:
                parameter = 1
    if code in (JBT, JBT_BY_RATE, IDLE_ONE_FIRST):
        return choose_below(queues, parameter, rates, cumulative, code == JBT_BY_RATE, stream)
    if code in (JSQ_D, JSQ_D_WITH_REPLACEMENT):
        return choose_sampled(queues, parameter, code == JSQ_D_WITH_REPLACEMENT, memory, stream)
    if code == ROUND_ROBIN:
        turn = memory[0]
        memory[0] = turn + 1 if turn + 1 < queues.size else 0
        return turn
    if code in (RANDOM, RANDOM_BY_RATE):
        return choose_random(rates, cumulative, code == RANDOM_BY_RATE, stream)
    return -1


@inlined
def pick(chooser, code, parameter, queues, rates, cumulative, memory, stream):
    """Return what a user's `chooser` chooses, or :func:`choose` where `chooser` is None."""
    if chooser is None:
        return np.int64(choose(code, parameter, queues, rates, cumulative, memory, stream))
    return np.int64(chooser(code, parameter, queues, rates, cumulative, memory, stream))


@dataclass(frozen=True, repr=False)
class Policy:
    """A dispatching policy: made by :func:`random`, :func:`jsq`, ... or :func:`policy`.

    What a maker leaves out is not known of its policy.
    """

    name: str  # as printed, for instance JBT(3)
    code: int  # the rule that `choose` applies, or USER
    parameter: int = 0  # number of sampled servers d, or threshold r
    asks: float | None = None  # queue lengths asked for at each arrival, math.inf for all; None if servers report
    uses_threshold: bool = False  # whether this is JBT(r), JIQ included
    distinct: bool = False  # whether it needs `parameter` different servers, and remembers a permutation of all
    function: Callable | None = None  # a user's own
    memory: np.ndarray | None = field(default=None, compare=False)  # of a user's function, at the start
    chooser: Callable | None = field(default=None, compare=False)  # that function with the signature of `choose`

    def __repr__(self):
        return self.name

    @property
    def oblivious(self) -> bool:
        """Whether the policy looks at no queue at all."""
        return self.asks == 0

    @property
    def sees_idle_only(self) -> bool:
        """Whether the policy looks at nothing but which servers are idle."""
        return self.oblivious or (self.uses_threshold and self.parameter == 1)

    def messages(self, n_servers) -> float | None:
        """Return the messages per arrival between dispatcher and servers, None if they must be counted.

        A queue length asked for is two messages, question and answer. Under JBT(r) a server reports when it
        falls below r jobs, at most once per arrival. Of a user's policy nothing is known.
        """
        return None if self.asks is None else 2.0 * (n_servers if self.asks == math.inf else self.asks)

    def imbalance(self, load, alone) -> float:
        """Return about how many mean service times it takes to forget that queues differ.

        `alone` is the relaxation time of one queue by itself, the longest there is: that of a policy not known.
        """
        if self.oblivious:
            return alone
        if self.uses_threshold:
            return min(alone, float(self.parameter) ** 2)
        if self.asks == math.inf:
            return 1.0
        return 1.0 / (1.0 - load) if self.asks or self.function else alone

    def unpooled(self, n_servers) -> float:
        """Return how many times longer than one pooled server `n_servers` queues remember, from 1 to `n_servers`.

        As their means do: queues that share no work, or of a policy not known, `n_servers` times; under JBT by the
        limit for a constant threshold (Zhou, Tan and Shroff 2018).
        """
        n = float(n_servers)
        if self.uses_threshold and n > 1 and not self.oblivious:
            far = n ** -min(self.parameter, 1000)
            return min(n, (1.0 + (n - 2.0) * far) / (1.0 - far / n))
        return 1.0 if self.asks else n

    def refuse(self, server, n_servers):
        """Raise ValueError: the policy has chosen `server`, which is none."""
        raise ValueError(f"policy {self} chose server {server}; servers are numbered 0 to {n_servers - 1}")

    def new_memory(self, n_servers) -> np.ndarray:
        """Return the memory that one replication starts with."""
        if self.memory is not None:
            return self.memory.copy()
        return np.arange(n_servers if self.distinct else 1)

    def check(self, n_servers, rates=None) -> None:
        """Refuse a policy that cannot work with `n_servers` servers; try out a user's function.

        A user's function is called on some 50 queue vectors with every array access checked: it must compile, return
        the number of a server and leave the queues alone.
        """
        if self.distinct and self.parameter > n_servers:
            raise ValueError(
                f"{self.name} samples d = {self.parameter} different servers, but there are only {n_servers}; "
                "d must be at most the number of servers"
            )
        if self.code == USER:
            _try_out(self, n_servers, np.ones(n_servers) if rates is None else np.asarray(rates, float))


def random(by_rate=False) -> Policy:
    """Random routing: each server with equal probability, or in proportion to its service rate."""
    if checks.flag(by_rate, "by_rate"):
        return Policy("random by rate", RANDOM_BY_RATE, asks=0)
    return Policy("random", RANDOM, asks=0)


def round_robin() -> Policy:
    """Round robin: servers 0, 1, ..., n - 1, 0, ... in turn."""
    return Policy("round robin", ROUND_ROBIN, asks=0)


def jsq() -> Policy:
    """Join-Shortest-Queue: a server with the fewest jobs, the one in service counted; ties uniform."""
    return Policy("JSQ", JSQ, asks=math.inf)


def jsq_d(d, replacement=False) -> Policy:
    """JSQ(d), "power of d choices": the shortest of `d` servers sampled uniformly; ties uniform.

    Parameters
    ----------
    d : int >= 1
        At most the number of servers, unless sampled with replacement.
    replacement : bool
        Whether the same server may be sampled twice.
    """
    d = checks.whole(d, "d", why="it is the number of sampled servers")
    if checks.flag(replacement, "replacement"):
        return Policy(f"JSQ({d}) with replacement", JSQ_D_WITH_REPLACEMENT, d, asks=d)
    return Policy(f"JSQ({d})", JSQ_D, d, asks=d, distinct=True)


def jbt(r, by_rate=False) -> Policy:
    """Join-Below-Threshold: a random server among those with fewer than `r` jobs, else among all.

    Zhou, Tan and Shroff (2018), arXiv 1808.06911. ``jbt(1)`` is JIQ, ``jbt(math.inf)`` is random routing.

    Parameters
    ----------
    r : int >= 1, or math.inf
        Threshold, in jobs.
    by_rate : bool
        Random in proportion to the service rates instead of uniformly.
    """
    never = isinstance(r, float) and r == math.inf
    if not never:
        r = checks.whole(r, "r", why="it is the threshold of JBT; math.inf makes it random routing")
    return _below(f"JBT({r})", _NO_THRESHOLD if never else min(r, _NO_THRESHOLD), by_rate)


def jiq(by_rate=False) -> Policy:
    """Join-Idle-Queue: a random idle server if there is one, else a random server; the same as JBT(1)."""
    return _below("JIQ", 1, by_rate)


def _below(name, threshold, by_rate):
    """Return JBT with any threshold, under a name."""
    by_rate = checks.flag(by_rate, "by_rate")
    return Policy(
        name + " by rate" * by_rate,
        JBT_BY_RATE if by_rate else JBT,
        threshold,
        asks=0 if threshold == _NO_THRESHOLD else None,
        uses_threshold=True,
    )


def idle_one_first() -> Policy:
    """Idle-One-First: a random idle server, else a random one with exactly one job, else a random one.

    Gupta and Walton (2019), Oper. Res. 67.
    """
    return Policy("I1F", IDLE_ONE_FIRST)


def policy(function=None, *, memory=None) -> Policy:
    """Make a policy of your own function; also usable as a decorator.

    Parameters
    ----------
    function : callable
        ``function(queues, rates, stream)`` or, with `memory`, ``function(queues, rates, stream, memory)``,
        in what numba compiles, returning the index of the server that the next job joins. `queues` (int64)
        are the jobs at each server and must not be changed, `rates` (float64) the service rates, `stream`
        is for ``streams.below(stream, n)``, ``streams.uniform(stream)``, ...
    memory : array_like or None
        What the function remembers between calls; a copy of it starts every replication.

    Returns
    -------
    Policy
        Tried out when a simulation starts, see :meth:`Policy.check`.

    Examples
    --------
    >>> @lb.policy
    ... def shorter_of_neighbours(queues, rates, stream):
    ...     i = lb.streams.below(stream, queues.size)
    ...     j = (i + 1) % queues.size
    ...     return i if queues[i] <= queues[j] else j
    >>> lb.simulate_markov(10, 0.9, shorter_of_neighbours, events=10**6, replications=8, seed=1)
    """
    if function is None:
        return lambda f: policy(f, memory=memory)
    python = getattr(function, "py_func", function)
    if not callable(python):
        raise TypeError(f"function must be one of (queues, rates, stream), not {function!r}")
    if memory is not None:
        given = memory
        try:
            memory = np.array(given)
        except ValueError:
            raise TypeError("memory must be an array of numbers, not rows of different lengths") from None
        if memory.dtype.kind not in "iuf" or memory.ndim == 0:
            raise TypeError(f"memory must be an array of numbers, not {given!r}")
    chooser = _chooser(python, memory is not None)
    return Policy(python.__name__, USER, function=python, memory=memory, chooser=chooser)


def _chooser(python, remembers, **options):
    """Compile a user's function, and give it the signature of :func:`choose`."""
    function = fresh(python, **options)
    if remembers:

        def chooser(code, parameter, queues, rates, cumulative, memory, stream):
            return function(queues, rates, stream, memory)
    else:

        def chooser(code, parameter, queues, rates, cumulative, memory, stream):
            return function(queues, rates, stream)

    return fresh(chooser, **options)


def _try_out(record, n_servers, rates) -> None:
    """Call a user's function on easy and odd queue vectors, with bounds checks on."""
    trial = _chooser(record.function, record.memory is not None, boundscheck=True)
    stream = streams.states(0, 1)[0]
    memory, cumulative = record.new_memory(n_servers), np.cumsum(rates)
    draw = np.random.default_rng(0)
    cases = [np.zeros(n_servers, np.int64), np.ones(n_servers, np.int64)]
    cases += [draw.integers(0, high, n_servers) for high in (2, 2, 3, 4, 10, 100) for _ in range(8)]
    for queues in cases:
        before = queues.copy()
        try:
            server = trial(USER, 0, queues, rates, cumulative, memory, stream)
        except numba.core.errors.NumbaError as error:
            raise TypeError(
                f"policy {record.name} must be a function of (queues, rates, stream"
                f"{', memory' if record.memory is not None else ''}) that numba can compile: {error}"
            ) from None
        except Exception as error:
            raise ValueError(
                f"policy {record.name} failed on queues {_shown(before)}: {type(error).__name__}: {error}"
            ) from error
        if isinstance(server, bool) or not isinstance(server, int | np.integer):
            raise TypeError(f"policy {record.name} must return the index of a server, an integer, not {server!r}")
        if not 0 <= server < n_servers:
            raise ValueError(
                f"policy {record.name} chose server {server} for queues {_shown(before)}; "
                f"servers are numbered 0 to {n_servers - 1}"
            )
        if not np.array_equal(queues, before):
            raise ValueError(f"policy {record.name} changes the queues it is given; it may only read them")


def _shown(queues) -> str:
    return np.array2string(queues, threshold=20, edgeitems=8, separator=", ")


FACTORIES = {
    name: made for name, made in list(vars().items()) if getattr(made, "__annotations__", {}).get("return") is Policy
}
