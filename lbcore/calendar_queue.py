"""Servers as the times at which they will be empty: the kernel for policies that see only who is idle.

There are no departure events. A calendar of time slots holds each busy server under a lower bound of the time
at which it will be empty; when its slot comes and the server is still busy it is filed again, later (Brown
1988, Comm. ACM 31, 1220-1227, with keys increased lazily). An arrival costs the same for any number of servers.

The unit of time is the mean service time. Interarrival times, service times and choices have a stream each,
so that policies can be compared on the same arrivals.
"""

import numba
import numpy as np

from lbcore import draws
from lbcore.compiled import kernel
from lbcore.streams import load, store, take_below, take_uniform

COLUMNS = (
    "level",  # an observation of the jobs in system at each arrival: busy servers + arrival rate x wait
    "served",  # arrivals not lost
    "waited",
    "wait",
    "all_busy",  # arrivals that find no idle server
    "second",  # time integral of the number of servers with two jobs or more
    "time",
    "pooled",  # work that each arrival would find if all servers were one, as fast as all of them
    "lost",
    "instants",  # weights of the instants looked at
    "excess",  # busy servers less their mean number without losses, at these instants
    "excess_squared",
    "profiles",  # weights of the instants at which the work of every server was looked at
)
BLOCK = 512  # arrivals drawn at once
LATE = 65536.0  # when the clock is set back, so that times keep their precision
FAR = 2.0**62  # no slot is later
IDLE_FIRST, RANDOM, IN_TURN = range(3)

# Forced inline: their array arguments would cost more than they do.
inlined = numba.njit(nogil=True, error_model="numpy", forceinline=True)


def new_state(n, stream, work=None):
    """Return the state of n servers, empty or with `work` to do: the arrays (states, clock, place, times, links, head).

    - states, uint64 (3, 4): the streams of interarrival times, service times, choices;
    - clock, float64 (2,): time; work in the pooled server;
    - place, int64 (4,): slot, number of idle servers, whose turn it is, instants until the next profile;
    - times, float64 (2, n): when each server will be empty; until when it has two jobs or more (or a time past);
    - links, int32 (2, n): server filed next in the same slot, -1 after the last; the idle servers, in any order;
    - head, int32 (a power of 2,): server filed first in each slot, or -1.
    """
    slots = slots_per_unit(n)
    links, times = np.zeros((2, n), np.int32), np.zeros((2, n))
    links[1] = np.arange(n)
    head, place = np.full(max(64, 8 * int(slots)), -1, np.int32), np.array([0, n, 0, 1])
    if work is not None:
        times[0] = work
        free = np.flatnonzero(times[0] == 0.0)
        links[1, : free.size], place[1] = free, free.size
        _file_all(times[0], slots, links[0], head)
    return split(stream), np.zeros(2), place, times, links, head


def slots_per_unit(n) -> float:
    """Return the slots of the calendar in a mean service time, a power of 2 near n / 4."""
    return 2.0 ** max(2, round(np.log2(n / 4)))


def split(stream):
    """Return the three streams of a replication, uint64 (3, 4), made from its one."""
    return np.random.SeedSequence(stream.tolist()).generate_state(12, np.uint64).reshape(3, 4)


@kernel
def add_profile(now, weight, empty_at, levels, out):
    """Add `weight` times the fraction of servers with more work than each of the increasing `levels`."""
    first = out.size - levels.size
    out[first - 1] += weight
    share = weight / empty_at.size
    for i in range(empty_at.size):
        k = 0
        while k < levels.size and empty_at[i] - now > levels[k]:
            out[first + k] += share
            k += 1


@inlined
def _count(wait, edges, first, out):
    """Count a wait at the two `edges` around it, each the more the nearer it is."""
    k = min(np.int64(np.searchsorted(edges, wait, side="right")), edges.size - 1)
    share = min(1.0, (wait - edges[k - 1]) / (edges[k] - edges[k - 1]))
    out[first + k - 1] += 1.0 - share
    out[first + k] += share


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
        rule, rate, slots, bias, levels, edges = settings
        states, clock, place, times, links, head = state
        words = load(states[2])
        now, pooled, slot, n_idle, turn, due = clock[0], clock[1], place[0], place[1], place[2], place[3]
        empty_at, second_until, following, idle = times[0], times[1], links[0], links[1]
        n = empty_at.size
        share, period = 1.0 / n, max(n, 16)
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
            due -= 1
            if due == 0:
                due = period
                if levels.size > 0:
                    add_profile(moment, weight, empty_at, levels, out)
            if not poisson:
                slot, n_idle = _empty(now, slots, slot, n_idle, empty_at, following, idle, head)
            pooled = max(pooled - gaps[e], 0.0)
            pools += pooled
            pooled += services[e] * share
            if n_idle == 0:
                all_busy += 1.0
            if rule == IDLE_FIRST and n_idle > 0:
                k, words = take_below(words, n_idle)
                i = np.int64(idle[k])
                idle[k] = idle[n_idle - 1]
            elif rule == IN_TURN:
                i = turn
                turn = turn + 1 if turn + 1 < n else 0
            elif bias.size > 0:
                x, words = draws.take_alias(bias, 0, n, words)
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
                if edges.size > 0:
                    _count(empties - now, edges, out.size - edges.size, out)
                second += empties - max(now, second_until[i])
                second_until[i] = empties
                empty_at[i] = empties + services[e]
            if now >= LATE:
                now -= LATE
                slot -= np.int64(LATE * slots)
                for i in range(n):
                    empty_at[i] -= LATE
                    second_until[i] -= LATE
        store(states[2], words)
        clock[0], clock[1] = now, pooled
        place[0], place[1], place[2], place[3] = slot, n_idle, turn, due
        jobs, time = np.float64(gaps.size), gaps.sum()
        instants, busy = (jobs, excesses) if poisson else (time, rate * excesses)
        level = busy + rate * (jobs + waits)
        sums = (level, jobs, waited, waits, all_busy, second, time, pools, 0.0, instants, excesses, squares)
        for k in range(len(sums)):
            out[k] += sums[k]

    return numba.njit(nogil=True, error_model="numpy")(serve)


_serve_poisson, _serve_others = _serving(True), _serving(False)


@kernel
def idle_or_busy_kernel(steps, poisson, interarrival, service, settings, state, out):
    """Serve `steps` arrivals.

    Parameters
    ----------
    steps : int
    poisson : bool
        Whether arrivals are Poisson and so see time averages (Wolff 1982, Oper. Res. 30, 223-231). If not,
        the servers are looked at in one uniform instant of each interarrival time, weighted by its length.
    interarrival, service : ndarray of float64
        Packed laws.
    settings : tuple
        - rule: ``IDLE_FIRST``, at random if none is idle; ``RANDOM``; ``IN_TURN``;
        - rate: arrivals in a unit of time;
        - slots: :func:`slots_per_unit`;
        - bias, float64 (3 n,) or (0,): alias table of the servers' shares in choices at random among all, empty
          for equal shares;
        - levels, float64 (g,): increasing amounts of work, for the profile;
        - edges, float64 (h,), h = 0 or h > 1: increasing from 0, to count the positive waits at.
    state : tuple of ndarray
        As :func:`new_state` returns it; changed in place.
    out : ndarray of float64, shape (len(COLUMNS) + g + h,)
        Sums are added to it; then the profile, for which g or h must be 0, or the counts of waits.
    """
    gaps, services = np.empty(BLOCK), np.empty(BLOCK)
    while steps > 0:
        m = min(steps, BLOCK)
        draws.fill(interarrival, state[0][0], gaps[:m])
        draws.fill(service, state[0][1], services[:m])
        if poisson:
            _serve_poisson(settings, gaps[:m], services[:m], state, out)
        else:
            _serve_others(settings, gaps[:m], services[:m], state, out)
        steps -= m
