"""Servers with their queue lengths, one departure after the other: the kernel for all other policies.

First come first served makes the departure time of a job known when it arrives; until then the job lies in a
calendar of time slots. The servers are kept sorted by queue length as far as the policy asks (below its
threshold or not; or completely, for JSQ), so that a choice costs the same for any number of servers.
"""

import numba
import numpy as np

from lbcore import draws, policies, streams
from lbcore.calendar_queue import BLOCK, LATE, add_profile, file, inlined, slots_per_unit, split
from lbcore.compiled import kernel

SHORTEST, BELOW, SAMPLED, SAMPLED_TWICE, IN_TURN, RANDOM, CHOOSER = range(7)


def new_state(n, stream, rule, threshold, memory):
    """Return the state of n empty servers, a list of arrays.

    - states, uint64 (3, 4): the streams of interarrival times, service times, choices;
    - clock, float64 (2,): time; work in the pooled server;
    - place, int64 (6,): slot, number of busy servers, whose turn it is, instants until the next profile, first
      free entry of the jobs, number of free ones;
    - times, float64 (2, n): when each server will be empty; until when it has two jobs or more (or a time past);
    - queues, int64 (n,): jobs at each server;
    - groups, int32 (2, n): the servers by queue length, and the place of each server among them;
    - first, int64 (levels,): how many servers have at most threshold - 1, threshold, ... jobs;
    - due, float64 (jobs,): departure times; their number grows as needed;
    - links, int32 (2, jobs): job filed next in the same slot (or next free entry), -1 after the last; its server;
    - head, int32 (a power of 2,): job filed first in each slot, or -1;
    - memory: of the policy.
    """
    n_jobs = 2 * n + 2 * BLOCK
    links = np.zeros((2, n_jobs), np.int32)
    links[0] = np.arange(1, n_jobs + 1)
    levels = {SHORTEST: 2 * BLOCK, BELOW: 1}.get(rule, 0)
    return [
        split(stream),
        np.zeros(2),
        np.array([0, 0, 0, 1, 0, n_jobs]),
        np.zeros((2, n)),
        np.zeros(n, np.int64),
        np.tile(np.arange(n, dtype=np.int32), (2, 1)),
        np.full(levels, n),
        np.zeros(n_jobs),
        links,
        np.full(max(64, 8 * int(slots_per_unit(n))), -1, np.int32),
        memory,
    ]


def grow(state):
    """Double the entries for jobs, or the levels of queue length, whichever is short."""
    place, queues, first, due, links = state[2], state[4], state[6], state[7], state[8]
    if place[5] >= BLOCK:
        state[6] = np.concatenate([first, np.full(first.size, queues.size)])
        return
    more = due.size
    state[7] = np.concatenate([due, np.zeros(more)])
    state[8] = np.concatenate([links, np.zeros((2, more), np.int32)], axis=1)
    state[8][0, more:] = np.arange(more + 1, 2 * more + 1)
    state[8][0, -1] = place[4]
    place[4], place[5] = more, place[5] + more


@inlined
def _move(i, level, step, groups, first):
    """Move server i out of (step -1) or into (step 0) those with at most as many jobs as the level says."""
    if 0 <= level < first.size:
        border = first[level] + step
        other, here = groups[0, border], groups[1, i]
        groups[0, border], groups[0, here] = i, other
        groups[1, i], groups[1, other] = border, here
        first[level] = border if step < 0 else border + 1


@inlined
def _depart(now, slots, threshold, place, queues, groups, first, due, following, server, head):
    """Let all jobs go that are due by now."""
    last, mask, slot = np.int64(now * slots), head.size - 1, place[0]
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
                        place[1] -= 1
                    _move(i, queues[i] - threshold + 1, 0, groups, first)
                    following[job] = place[4]
                    place[4] = job
                    place[5] += 1
                else:
                    file(job, due[job], slots, following, head)
                job = next_job
        if slot >= last:
            place[0] = slot
            return
        slot += 1


@inlined
def _set_back(times, due):
    """Set all times back by ``LATE``."""
    for i in range(times.shape[1]):
        times[0, i] -= LATE
        times[1, i] -= LATE
    for job in range(due.size):
        due[job] -= LATE


def _serve_body(chooser, poisson, settings, gaps, services, state, out):
    """Serve as many arrivals as there are `gaps`; return the server chosen last, and stop if there is none such."""
    rule, parameter, rate, slots, bias, buffers, rates, levels = settings
    states, clock, place, times, queues, groups, first, due, links, head, memory = state
    empty_at, second_until, following, server = times[0], times[1], links[0], links[1]
    choices, n = states[2], queues.size
    threshold = parameter if rule == BELOW else 1
    now, pooled, i = clock[0], clock[1], 0
    level, served, waited, waits, all_busy, second, pools, lost = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    instants, excesses, squares = 0.0, 0.0, 0.0
    for e in range(gaps.size):
        moment, weight = now + gaps[e], 1.0
        if not poisson:
            moment, weight = now + streams.uniform(choices) * gaps[e], gaps[e]
        now += gaps[e]
        _depart(moment, slots, threshold, place, queues, groups, first, due, following, server, head)
        excess = place[1] - rate
        instants += weight
        excesses += weight * excess
        squares += weight * excess * excess
        place[3] -= 1
        if place[3] == 0:
            place[3] = max(n, 16)
            add_profile(moment, weight, empty_at, levels, out)
        if moment < now:
            _depart(now, slots, threshold, place, queues, groups, first, due, following, server, head)
        pooled = max(pooled - gaps[e], 0.0)
        pools += pooled
        pooled += services[e] / n
        level += place[1]
        if place[1] == n:
            all_busy += 1.0
        count = 0
        if rule == SHORTEST:
            count = first[queues[groups[0, 0]]]
        elif rule == BELOW:
            count = first[0]
        if count > 0:
            i = np.int64(groups[0, streams.below(choices, count)])
        elif rule in (SAMPLED, SAMPLED_TWICE):
            i = policies.choose_sampled(queues, parameter, rule == SAMPLED_TWICE, memory, choices)
        elif rule == IN_TURN:
            i = place[2]
            place[2] = i + 1 if i + 1 < n else 0
        elif rule == CHOOSER:
            i = np.int64(chooser(policies.USER, parameter, queues, rates, rates, memory, choices))
            if i < 0 or i >= n:
                break
        elif bias.size > 0:
            x, words = draws.take_alias(bias, 0, n, streams.load(choices))
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
                place[1] += 1
            else:
                empties = empty_at[i]
                waited += 1.0
                waits += empties - now
                second += empties - max(now, second_until[i])
                second_until[i] = empties
            served += 1.0
            empty_at[i] = empties + services[e]
            queues[i] = q + 1
            _move(i, q - threshold + 1, -1, groups, first)
            job = place[4]
            place[4] = following[job]
            place[5] -= 1
            due[job], server[job] = empty_at[i], i
            file(job, due[job], slots, following, head)
        if now >= LATE:
            now -= LATE
            place[0] -= np.int64(LATE * slots)
            _set_back(times, due)
    clock[0], clock[1] = now, pooled
    level += rate * waits
    sums = (level, served, waited, waits, all_busy, second, gaps.sum(), pools, lost, instants, excesses, squares)
    for k in range(len(sums)):
        out[k] += sums[k]
    return i


_serve = numba.njit(nogil=True, error_model="numpy")(_serve_body)


def _body(chooser, steps, poisson, interarrival, service, settings, state, out):
    """Serve at most `steps` arrivals; return how many, and the server chosen last.

    Fewer are served when :func:`grow` is needed, or when the server chosen last is none.

    Parameters
    ----------
    chooser : jitted function
        With the signature of :func:`policies.choose`; called under ``CHOOSER`` only.
    steps : int
    poisson : bool
    interarrival, service : ndarray of float64
        As in :func:`lbcore.calendar_queue.idle_or_busy_kernel`.
    settings : tuple
        - rule: ``SHORTEST``, ``BELOW``, ... or ``CHOOSER``, and the parameter of the policy;
        - rate, slots, bias: as in :func:`lbcore.calendar_queue.idle_or_busy_kernel`;
        - buffers, int64 (n,) or (0,): most jobs at each server, a job sent to a full one being lost;
        - rates, float64 (n,): ones, for a user's function;
        - levels: as there.
    state : tuple of ndarray
        As :func:`new_state` returns it; changed in place.
    out : ndarray of float64
        As there.
    """
    rule, states, place, queues, groups, first = settings[0], state[0], state[2], state[4], state[5], state[6]
    gaps, services = np.empty(BLOCK), np.empty(BLOCK)
    done, last = 0, 0
    while done < steps and 0 <= last < queues.size:
        m = min(steps - done, BLOCK)
        if place[5] < m or (rule == SHORTEST and queues[groups[0, 0]] + m >= first.size):
            break
        draws.fill(interarrival, states[0], gaps[:m])
        draws.fill(service, states[1], services[:m])
        last = _serve(chooser, poisson, settings, gaps[:m], services[:m], state, out)
        done += m
    return done, last


any_chooser_kernel = numba.njit(nogil=True, error_model="numpy")(_body)  # compiled anew for a user's policy


@kernel
def queues_kernel(steps, poisson, interarrival, service, settings, state, out):
    """Serve arrivals under a built-in policy, see :func:`_body`."""
    return any_chooser_kernel(policies.choose, steps, poisson, interarrival, service, settings, state, out)
