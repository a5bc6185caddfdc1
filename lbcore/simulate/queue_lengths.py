"""Servers with their queue lengths, one departure after the other: the kernel for all other policies.

First come first served makes the departure time of a job known when it arrives; until then the job lies in a
calendar of time slots. The servers are kept sorted by queue length as far as the policy asks (below its
threshold or not; or completely, for JSQ), so that a choice costs the same for any number of servers.
"""

from typing import NamedTuple

import numpy as np

from lbcore.chance import draws, streams
from lbcore.compiled import fresh, inlined, kernel
from lbcore.simulate import idle_or_busy, policies
from lbcore.simulate.idle_or_busy import BLOCK, LATE, NOW, POOLED, Sums, file, new_calendar, split
from lbcore.simulate.profile import count

SHORTEST, BELOW, SAMPLED, SAMPLED_WITH_REPLACEMENT, IN_TURN, RANDOM, CHOOSER = range(7)
SLOT, BUSY, TURN, FREE, N_FREE = range(5)  # of the place


class Settings(NamedTuple):
    """What a run does not change."""

    common: idle_or_busy.Settings  # with a rule from SHORTEST to CHOOSER; under the last a function chooses
    code: int  # of the policy, and its parameter
    parameter: int
    buffers: np.ndarray  # int64 (n,): most jobs at each server, a job sent to a full one being lost; (0,) for no limit
    rates: np.ndarray  # float64 (n,): ones, for the function that chooses, and their running sums
    cumulative: np.ndarray


class State(NamedTuple):
    """Changed in place; what is not named here as in :mod:`lbcore.simulate.idle_or_busy`."""

    streams: np.ndarray
    clock: np.ndarray
    place: np.ndarray  # int64 (5,): slot, busy servers, whose turn it is, first free entry of the jobs, free entries
    empty_at: np.ndarray
    second_until: np.ndarray
    queues: np.ndarray  # int64 (n,): jobs at each server
    order: np.ndarray  # int32 (n,): the servers by queue length
    rank: np.ndarray  # int32 (n,): the place of each server among them
    first: np.ndarray  # int64 (levels,): how many servers have at most threshold - 1, threshold, ... jobs
    due: np.ndarray  # float64 (jobs,): departure times; their number grows as needed
    following: np.ndarray  # int32 (jobs,): job filed next in the same slot, or next free entry; -1 after the last
    server: np.ndarray  # int32 (jobs,): where each job is
    head: np.ndarray  # int32 (a power of 2,): job filed first in each slot, or -1
    memory: np.ndarray  # of the policy
    counts: np.ndarray


def new_state(n, stream, rule, memory, counts):
    """Return the state of n empty servers."""
    jobs = 2 * n + 2 * BLOCK
    empty_at, second_until = np.zeros((2, n))  # pairs of rows as in lbcore.simulate.idle_or_busy
    order, rank = np.tile(np.arange(n, dtype=np.int32), (2, 1))
    following, server = np.zeros((2, jobs), np.int32)
    following[:] = np.arange(1, jobs + 1)
    return State(
        streams=split(stream), clock=np.zeros(2), place=np.array([0, 0, 0, 0, jobs]), empty_at=empty_at,
        second_until=second_until, queues=np.zeros(n, np.int64), order=order, rank=rank,
        first=np.full({SHORTEST: 2 * BLOCK, BELOW: 1}.get(rule, 0), n), due=np.zeros(jobs), following=following,
        server=server, head=new_calendar(n), memory=memory, counts=counts,
    )  # fmt: skip


def grown(state):
    """Return a state with twice the entries for jobs, or levels of queue length, whichever is short."""
    place, more = state.place, state.due.size
    if place[N_FREE] >= BLOCK:
        return state._replace(first=np.concatenate([state.first, np.full(state.first.size, state.queues.size)]))
    free = np.arange(more + 1, 2 * more + 1, dtype=np.int32)
    free[-1] = place[FREE]
    place[FREE], place[N_FREE] = more, place[N_FREE] + more
    return state._replace(
        due=np.concatenate([state.due, np.zeros(more)]),
        following=np.concatenate([state.following, free]),
        server=np.concatenate([state.server, np.zeros(more, np.int32)]),
    )


@inlined
def _move(i, level, step, order, rank, first):
    """Move server i out of (step -1) or into (step 0) those with at most as many jobs as the level says."""
    if 0 <= level < first.size:
        border = first[level] + step
        other, here = order[border], rank[i]
        order[border], order[here] = i, other
        rank[i], rank[other] = border, here
        first[level] = border if step < 0 else border + 1


@inlined
def _depart(now, slots, threshold, place, queues, order, rank, first, due, following, server, head):
    """Let all jobs go that are due by now."""
    last, mask, slot = np.int64(now * slots), head.size - 1, place[SLOT]
    while True:
        job = np.int64(head[slot & mask])
        if job >= 0:
            head[slot & mask] = -1
            while job >= 0:
                next_job = np.int64(following[job])
                if due[job] <= now:
                    i = server[job]
                    queues[i] -= 1
                    if queues[i] == 0:
                        place[BUSY] -= 1
                    _move(i, queues[i] - threshold + 1, 0, order, rank, first)
                    following[job] = place[FREE]
                    place[FREE] = job
                    place[N_FREE] += 1
                else:
                    file(job, due[job], slots, following, head)
                job = next_job
        if slot >= last:
            place[SLOT] = slot
            return
        slot += 1


@inlined
def _set_back(empty_at, second_until, due):
    """Set all times back by ``LATE``."""
    for i in range(empty_at.size):
        empty_at[i] -= LATE
        second_until[i] -= LATE
    for job in range(due.size):
        due[job] -= LATE


@fresh
def _serve(chooser, poisson, settings, gaps, services, state, out):
    """Serve as many arrivals as there are `gaps`; return the server chosen last, and stop if there is none such."""
    common, code, parameter, buffers, rates, cumulative = settings
    rule, rate, slots, shares, scale = common
    place, empty_at, second_until, queues = state.place, state.empty_at, state.second_until, state.queues
    order, rank, first, due = state.order, state.rank, state.first, state.due
    following, server, head, counts = state.following, state.server, state.head, state.counts
    clock, choices, memory, n = state.clock, state.streams[2], state.memory, queues.size
    threshold = parameter if rule == BELOW else 1
    now, pooled, i = clock[NOW], clock[POOLED], 0
    level, served, waited, waits, all_busy, second, pools, lost = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    instants, excesses, squares = 0.0, 0.0, 0.0
    for e in range(gaps.size):
        moment, weight = now + gaps[e], 1.0
        if not poisson:
            moment, weight = now + streams.uniform(choices) * gaps[e], gaps[e]
        now += gaps[e]
        _depart(moment, slots, threshold, place, queues, order, rank, first, due, following, server, head)
        excess = place[BUSY] - rate
        instants += weight
        excesses += weight * excess
        squares += weight * excess * excess
        if moment < now:
            _depart(now, slots, threshold, place, queues, order, rank, first, due, following, server, head)
        pooled = max(pooled - gaps[e], 0.0)
        pools += pooled
        pooled += services[e] / n
        level += place[BUSY]
        if place[BUSY] == n:
            all_busy += 1.0
        short = 0
        if rule == SHORTEST:
            short = first[queues[order[0]]]
        elif rule == BELOW:
            short = first[0]
        if short > 0:
            i = np.int64(order[streams.below(choices, short)])
        elif rule in (SAMPLED, SAMPLED_WITH_REPLACEMENT):
            i = policies.choose_sampled(queues, parameter, rule == SAMPLED_WITH_REPLACEMENT, memory, choices)
        elif rule == IN_TURN:
            i = place[TURN]
            place[TURN] = i + 1 if i + 1 < n else 0
        elif rule == CHOOSER:
            i = policies.pick(chooser, code, parameter, queues, rates, cumulative, memory, choices)
            if i < 0 or i >= n:
                break
        elif shares.size > 0:
            x, words = draws.take_alias(shares, 0, n, streams.load(choices))
            streams.store(choices, words)
            i = np.int64(x)
        else:
            i = streams.below(choices, n)
        q = queues[i]
        if buffers.size > 0 and q >= buffers[i]:
            lost += 1.0
        else:
            empties = now
            if q == 0:
                place[BUSY] += 1
            else:
                empties = empty_at[i]
                waited += 1.0
                waits += empties - now
                if counts.size > 0:
                    count(empties - now, scale, counts)
                second += empties - max(now, second_until[i])
                second_until[i] = empties
            empty_at[i] = empties + services[e]
            served += 1.0
            queues[i] = q + 1
            _move(i, q - threshold + 1, -1, order, rank, first)
            job = place[FREE]
            place[FREE] = following[job]
            place[N_FREE] -= 1
            due[job], server[job] = empty_at[i], i
            file(job, empty_at[i], slots, following, head)
        if now >= LATE:
            now -= LATE
            place[SLOT] -= np.int64(LATE * slots)
            _set_back(empty_at, second_until, due)
    clock[NOW], clock[POOLED] = now, pooled
    sums = Sums(
        level=level + rate * waits, served=served, waited=waited, wait=waits, all_busy=all_busy, second=second,
        time=gaps.sum(), pooled=pools, lost=lost, instants=instants, excess=excesses, excess_squared=squares,
    )  # fmt: skip
    for k in range(len(sums)):
        out[k] += sums[k]
    return i


@kernel
def queue_lengths_kernel(chooser, steps, poisson, interarrival, service, settings, state, out):
    """Serve at most `steps` arrivals; return how many, and the server chosen last.

    Fewer are served when the state must be :func:`grown`, or when the server chosen last is none. Parameters as those
    of :func:`lbcore.simulate.idle_or_busy.idle_or_busy_kernel`, after `chooser`, see `policies.pick`.
    """
    queues, gaps, services = state.queues, np.empty(BLOCK), np.empty(BLOCK)
    done, last = 0, 0
    while done < steps and 0 <= last < queues.size:
        m = min(steps - done, BLOCK)
        short_of_levels = settings.common.rule == SHORTEST and queues[state.order[0]] + m >= state.first.size
        if state.place[N_FREE] < m or short_of_levels:
            break
        draws.fill(interarrival, state.streams[0], gaps[:m])
        draws.fill(service, state.streams[1], services[:m])
        last = _serve(chooser, poisson, settings, gaps[:m], services[:m], state, out)
        done += m
    return done, last
