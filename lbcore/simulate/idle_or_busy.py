"""Servers as the times at which they will be empty: the kernel for policies that see only who is idle.

There are no departure events. A calendar of time slots holds each busy server under a lower bound of the time
at which it will be empty; when its slot comes and the server is still busy it is filed again, later (Brown
1988, Comm. ACM 31, 1220-1227, with keys increased lazily). An arrival costs the same for any number of servers.

The unit of time is the mean service time. Interarrival times, service times and choices have a stream each,
so that policies can be compared on the same arrivals.
"""

from typing import NamedTuple

import numpy as np

from lbcore.chance import draws
from lbcore.chance.streams import load, store, take_below, take_uniform
from lbcore.compiled import fresh, inlined, kernel
from lbcore.simulate.profile import count

BLOCK = 512  # arrivals drawn at once
LATE = 65536.0  # when the clock is set back, so that times keep their precision
FAR = 2.0**62  # no slot is later
IDLE_FIRST, RANDOM, IN_TURN = range(3)  # the first at random if none is idle
NOW, POOLED = range(2)  # of the clock
SLOT, IDLE, TURN = range(3)  # of the place


class Sums(NamedTuple):
    """What is added up."""

    level: float  # an observation of the jobs in system at each arrival: busy servers + arrival rate x wait
    served: float  # arrivals not lost
    waited: float
    wait: float
    all_busy: float  # arrivals that find no idle server
    second: float  # time integral of the number of servers with two jobs or more
    time: float
    pooled: float  # work that each arrival would find if all servers were one, as fast as all of them
    lost: float
    instants: float  # weights of the instants looked at
    excess: float  # busy servers less their mean number without losses, at these instants
    excess_squared: float


class Settings(NamedTuple):
    """What a run does not change."""

    rule: int  # IDLE_FIRST, RANDOM or IN_TURN
    rate: float  # arrivals in a unit of time
    slots: float  # of the calendar in a unit of time
    shares: np.ndarray  # float64 (3 n,): alias table of choices at random among all servers; (0,) for equal shares
    scale: float  # of the waits counted


class State(NamedTuple):
    """Changed in place."""

    streams: np.ndarray  # uint64 (3, 4): of interarrival times, service times, choices
    clock: np.ndarray  # float64 (2,): time; work in the pooled server
    place: np.ndarray  # int64 (3,): slot, number of idle servers, whose turn it is
    empty_at: np.ndarray  # float64 (n,): when each server will be empty
    second_until: np.ndarray  # float64 (n,): until when it has two jobs or more, or a time past
    following: np.ndarray  # int32 (n,): server filed next in the same slot, -1 after the last
    idle: np.ndarray  # int32 (n,): the idle servers, in any order
    head: np.ndarray  # int32 (a power of 2,): server filed first in each slot, or -1
    counts: np.ndarray  # float64 (2, edges): of waits, see lbcore.simulate.profile; (2, 0) where they are not counted


def new_state(n, stream, counts, work=None):
    """Return the state of n servers, empty or with `work` to do."""
    # pairs of rows: arrays that begin at the same place of a page would push each other out of the processor's cache
    empty_at, second_until = np.zeros((2, n))
    following, idle = np.zeros((2, n), np.int32)
    idle[:] = np.arange(n)
    head, place = new_calendar(n), np.array([0, n, 0])
    if work is not None:
        empty_at[:] = work
        free = np.flatnonzero(work == 0.0)
        idle[: free.size], place[IDLE] = free, free.size
        _file_all(empty_at, slots_per_unit(n), following, head)
    return State(split(stream), np.zeros(2), place, empty_at, second_until, following, idle, head, counts)


def slots_per_unit(n) -> float:
    """Return the slots of the calendar in a mean service time, a power of 2 near n / 4."""
    return 2.0 ** max(2, round(np.log2(n / 4)))


def new_calendar(n):
    """Return the heads of an empty calendar."""
    return np.full(max(64, 8 * int(slots_per_unit(n))), -1, np.int32)


def split(stream):
    """Return the three streams of a replication, uint64 (3, 4), made from its one."""
    return np.random.SeedSequence(stream.tolist()).generate_state(12, np.uint64).reshape(3, 4)


@inlined
def file(i, time, slots, following, head):
    """File i in the calendar under a time."""
    k = np.int64(min(time * slots, FAR)) & (head.size - 1)
    following[i] = head[k]
    head[k] = i


@kernel
def _file_all(empty_at, slots, following, head):
    """File every server that has work in the calendar."""
    for i in range(empty_at.size):
        if empty_at[i] > 0.0:
            file(i, empty_at[i], slots, following, head)


@inlined
def _empty(now, slots, slot, n_idle, empty_at, following, idle, head):
    """Move the servers that are empty by now from the calendar to the idle ones; return (slot, n_idle)."""
    last, mask = np.int64(now * slots), head.size - 1
    while True:
        i = np.int64(head[slot & mask])
        if i >= 0:
            head[slot & mask] = -1
            while i >= 0:
                following_i = np.int64(following[i])
                if empty_at[i] <= now:
                    idle[n_idle] = i
                    n_idle += 1
                else:
                    file(i, empty_at[i], slots, following, head)
                i = following_i
        if slot >= last:
            return slot, n_idle
        slot += 1


def _serving(poisson):
    """Compile the heart of :func:`idle_or_busy_kernel` for Poisson or for other arrivals."""

    def serve(settings, gaps, services, state, out):
        """Serve as many arrivals as there are `gaps`."""
        rule, rate, slots, shares, scale = settings
        streams, clock, place, empty_at, second_until, following, idle, head, counts = state
        words = load(streams[2])
        now, pooled = clock[NOW], clock[POOLED]
        slot, n_idle, turn = place[SLOT], place[IDLE], place[TURN]
        n = empty_at.size
        part = 1.0 / n
        waited, waits, all_busy, second, pools, excesses, squares = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for e in range(gaps.size):
            moment, weight = now + gaps[e], 1.0  # the instant looked at: an arrival, or one before it
            if not poisson:
                u, words = take_uniform(words)
                moment, weight = now + u * gaps[e], gaps[e]
            now += gaps[e]
            slot, n_idle = _empty(moment, slots, slot, n_idle, empty_at, following, idle, head)
            excess = np.float64(n - n_idle) - rate
            excesses += weight * excess
            squares += weight * excess * excess
            if not poisson:
                slot, n_idle = _empty(now, slots, slot, n_idle, empty_at, following, idle, head)
            pooled = max(pooled - gaps[e], 0.0)
            pools += pooled
            pooled += services[e] * part
            if n_idle == 0:
                all_busy += 1.0
            if rule == IDLE_FIRST and n_idle > 0:
                k, words = take_below(words, n_idle)
                i = np.int64(idle[k])
                idle[k] = idle[n_idle - 1]
            elif rule == IN_TURN:
                i = turn
                turn = turn + 1 if turn + 1 < n else 0
            elif shares.size > 0:
                x, words = draws.take_alias(shares, 0, n, words)
                i = np.int64(x)
            else:
                i, words = take_below(words, n)
            empties = empty_at[i]
            if empties <= now:
                n_idle -= 1
                empties = now + services[e]
                empty_at[i] = empties
                file(i, empties, slots, following, head)
            else:
                waited += 1.0
                waits += empties - now
                if counts.size > 0:
                    count(empties - now, scale, counts)
                second += empties - max(now, second_until[i])
                second_until[i] = empties
                empty_at[i] = empties + services[e]
            if now >= LATE:
                now -= LATE
                slot -= np.int64(LATE * slots)
                for i in range(n):
                    empty_at[i] -= LATE
                    second_until[i] -= LATE
        store(streams[2], words)
        clock[NOW], clock[POOLED] = now, pooled
        place[SLOT], place[IDLE], place[TURN] = slot, n_idle, turn
        jobs, time = np.float64(gaps.size), gaps.sum()
        instants, busy = (jobs, excesses) if poisson else (time, rate * excesses)
        sums = Sums(
            level=busy + rate * (jobs + waits), served=jobs, waited=waited, wait=waits, all_busy=all_busy,
            second=second, time=time, pooled=pools, lost=0.0, instants=instants, excess=excesses,
            excess_squared=squares,
        )  # fmt: skip
        for k in range(len(sums)):
            out[k] += sums[k]

    return fresh(serve)


_serve_poisson, _serve_others = _serving(True), _serving(False)


@kernel
def idle_or_busy_kernel(steps, poisson, interarrival, service, settings, state, out):
    """Serve `steps` arrivals.

    If they are `poisson` they see time averages (Wolff 1982, Oper. Res. 30, 223-231). If not, the servers are looked
    at in one uniform instant of each interarrival time, weighted by its length. `interarrival` and `service` are packed
    laws; :class:`Sums` are added to the beginning of `out`.
    """
    gaps, services = np.empty(BLOCK), np.empty(BLOCK)
    while steps > 0:
        m = min(steps, BLOCK)
        draws.fill(interarrival, state.streams[0], gaps[:m])
        draws.fill(service, state.streams[1], services[:m])
        if poisson:
            _serve_poisson(settings, gaps[:m], services[:m], state, out)
        else:
            _serve_others(settings, gaps[:m], services[:m], state, out)
        steps -= m
