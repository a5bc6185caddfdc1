"""Slow, plain oracles that import nothing from lbcore."""

import itertools
import math
from collections import deque

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import spsolve


def jsq_diffusion_generator(beta, h, depth, height):
    """Return a grid chain's generator for the JSQ diffusion, state ``i n + j`` at ``x = -i h``, ``y = j h``, and n.

    Q1 walks with steps ``h``, its drift fitted exponentially; a step up from the wall raises Q2 by ``h`` instead; Q2
    drains by ``h`` at rate ``j``. It knows no reduction. Error O(h).
    """
    m, n = round(depth / h) + 1, round(height / h) + 1
    i, j = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    state = i * n + j
    lean = h * (-beta + h * (i + j)) + 1e-9  # drift over a step, never exactly 0
    down = lean / np.expm1(lean) / h**2
    up = down * np.exp(lean)
    moves = [
        (state[1:], state[:-1], up[1:]),
        (state[0, :-1], state[0, 1:], up[0, :-1]),
        (state[:-1], state[1:], down[:-1]),
        (state[:, 1:], state[:, :-1], j[:, 1:].astype(float)),
    ]
    source = np.concatenate([np.ravel(a) for a, _, _ in moves])
    target = np.concatenate([np.ravel(b) for _, b, _ in moves])
    rate = np.concatenate([np.ravel(r) for _, _, r in moves])
    size = m * n
    rates = coo_matrix((rate, (source, target)), shape=(size, size)).tocsr()
    return rates - diags(np.asarray(rates.sum(axis=1)).ravel()), n


def jsq_diffusion_chain(beta, h, depth, height):
    """Return that chain's stationary law as a matrix ``pi[i, j]``."""
    generator, n = jsq_diffusion_generator(beta, h, depth, height)
    balance = generator.T.tocsr()
    # pi of state 0 set to 1, its balance equation dropped
    inner = spsolve(balance[1:, 1:].tocsc(), -balance[1:, 0].toarray().ravel())
    pi = np.concatenate([[1.0], inner]).reshape(-1, n)
    return pi / pi.sum()


def jsq_diffusion_fall(beta, h, level, top, depth, height):
    """Return that chain's mean time from ``(0, top)`` until Q2 is at `level`."""
    generator, n = jsq_diffusion_generator(beta, h, depth, height)
    above = np.flatnonzero(np.arange(generator.shape[0]) % n > round(level / h))
    times = spsolve(generator[above][:, above].tocsc(), -np.ones(len(above)))
    return times[np.flatnonzero(above == round(top / h))[0]]


def jsq_generator(n, beta):
    """Return a dense generator, and the numbers of states (i busy, j with two jobs, at most two each)."""
    rate = n - beta * np.sqrt(n)
    states = [(i, j) for i in range(n + 1) for j in range(i + 1)]
    number = {state: k for k, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for (i, j), k in number.items():
        arrival = (i + 1, j) if i < n else (i, j + 1)
        for target, speed in ((arrival, rate), ((i - 1, j), i - j), ((i, j - 1), j)):
            if target in number and speed > 0:
                generator[k, number[target]] += speed
                generator[k, k] -= speed
    return generator, number


def jsq_chain(n, beta):
    """Return that chain's stationary law ``pi[i, j]``, by one sparse solve."""
    generator, number = jsq_generator(n, beta)
    balance = generator.T.copy()
    balance[0] = 1.0  # sums to 1
    right = np.zeros(len(number))
    right[0] = 1.0
    solution = spsolve(coo_matrix(balance).tocsc(), right)
    pi = np.zeros((n + 1, n + 1))
    for (i, j), k in number.items():
        pi[i, j] = solution[k]
    return pi


def random_choice(queues, weights=None):
    weights = np.ones(len(queues)) if weights is None else np.asarray(weights, float)
    return weights / weights.sum()


def shortest_choice(queues):
    shortest = np.equal(queues, min(queues))
    return shortest / shortest.sum()


def below_choice(queues, r, weights=None):
    weights = np.ones(len(queues)) if weights is None else np.asarray(weights, float)
    below = weights * np.less(queues, r)
    return random_choice(queues, below if below.any() else weights)


def idle_one_choice(queues):
    return below_choice(queues, 1 if 0 in list(queues) else 2)


def sampled_choice(queues, d, replacement):
    """Average over all samples of d servers, ties shared among the samples."""
    n = len(queues)
    samples = itertools.product(range(n), repeat=d) if replacement else itertools.combinations(range(n), d)
    chances = np.zeros(n)
    for sample in samples:
        best = [s for s in sample if queues[s] == min(queues[t] for t in sample)]
        for s in best:
            chances[s] += 1.0 / len(best)
    return chances / chances.sum()


def solve_chain(n_servers, load, choice, longest, rates=None, turns=1):
    """Return the stationary means of the chain with at most `longest` jobs at each server.

    `choice(queues)` gives the probabilities of the servers; a job sent to a full server is lost. A choice that goes by
    the number of the arrival, modulo `turns`, is `choice(queues, turn)`.
    Returns a dict: mean_total, mean_wait, wait_probability, all_busy, occupancy (fractions with >= i jobs).
    """
    rates = np.ones(n_servers) if rates is None else np.asarray(rates, float)
    arrival_rate = load * rates.sum()
    shape = (turns,) + (longest + 1,) * n_servers
    states = list(itertools.product(*map(range, shape)))
    rows, columns, values = [], [], []
    chances = np.array([choice(q) if turns == 1 else choice(q, turn) for turn, *q in states])
    for index, (turn, *queues) in enumerate(states):
        for s in range(n_servers):
            for change, rate in ((1, arrival_rate * chances[index, s]), (-1, rates[s])):
                if rate > 0.0 and 0 <= queues[s] + change <= longest:
                    target = [(turn + (change > 0)) % turns, *queues]
                    target[1 + s] += change
                    rows += [np.ravel_multi_index(target, shape), index]
                    columns += [index, index]
                    values += [rate, -rate]
    size = len(states)
    balance = coo_matrix((values, (rows, columns)), shape=(size, size)).tolil()
    balance[0, :] = 1.0
    law = spsolve(balance.tocsc(), np.eye(size, 1).ravel())
    queues = np.array(states)[:, 1:]
    total = law @ queues.sum(axis=1)
    in_service = law @ (queues > 0).sum(axis=1)
    return {
        "mean_total": total,
        "mean_wait": (total - in_service) / arrival_rate,
        "wait_probability": law @ (chances * (queues > 0)).sum(axis=1),
        "all_busy": law @ (queues > 0).all(axis=1),
        "occupancy": np.array([law @ (queues >= i).mean(axis=1) for i in range(1, longest + 1)]),
    }


def serve(gaps, services, choices, n, buffers=None, levels=()):
    """Replay given arrivals with given choices of servers, first come first served.

    Parameters
    ----------
    gaps, services : sequence of float, length m
        Interarrival and service times.
    choices : sequence of int, length m
        Server that each job is sent to.
    n : int
        Servers.
    buffers : sequence of int, length n, optional
        Most jobs at each server.
    levels : sequence of float
        Amounts of work for the profile.

    Returns
    -------
    dict
        ``waits`` (by job; None if lost), ``queues`` and ``profile`` as each arrival finds them, ``second``:
        integral, until all are gone, of the number of servers with two jobs or more.
    """
    queues = [deque() for _ in range(n)]  # of job numbers, the one in service first
    ends = [None] * n  # of the service under way at each server
    waits, arrived = [None] * len(gaps), []
    seen, profiles, second, now = [], [], 0.0, 0.0

    def start(server, time):
        job = queues[server][0]
        waits[job] = time - arrived[job]
        ends[server] = time + services[job]

    def run_until(time):
        nonlocal second, now
        while True:
            busy = [(ends[s], s) for s in range(n) if ends[s] is not None and ends[s] <= time]
            moment, server = min(busy) if busy else (time, None)
            second += (moment - now) * sum(len(queue) > 1 for queue in queues)
            now = moment
            if server is None:
                return
            queues[server].popleft()
            ends[server] = None
            if queues[server]:
                start(server, now)

    clock = 0.0
    for job, (gap, server) in enumerate(zip(gaps, choices, strict=True)):
        clock += gap
        arrived.append(clock)
        run_until(clock)
        seen.append([len(queue) for queue in queues])
        work = [(ends[s] - now + sum(services[j] for j in list(queues[s])[1:]) if queues[s] else 0.0) for s in range(n)]
        profiles.append([sum(w > level for w in work) / n for level in levels])
        if buffers is not None and len(queues[server]) >= buffers[server]:
            continue
        queues[server].append(job)
        if len(queues[server]) == 1:
            start(server, now)
    while any(queues):
        run_until(min(end for end in ends if end is not None))
    return {"waits": waits, "queues": seen, "profile": profiles, "second": second}


def mser(series):
    """Number of leading values to drop, straight from the definition."""
    best, score = 0, math.inf
    for d in range(len(series) // 2 + 1):
        kept = series[d:]
        mean = sum(kept) / len(kept)
        candidate = sum((x - mean) ** 2 for x in kept) / len(kept) ** 2
        if candidate < score * (1 - 1e-12):
            best, score = d, candidate
    return best


def distance(queues, r):
    """Euclidean distance to {all <= r} united with {all >= r}, by projecting on each."""
    lower = math.dist(queues, [min(q, r) for q in queues])
    upper = math.dist(queues, [max(q, r) for q in queues])
    return min(lower, upper)


def slotted_path(batches, offers, choose, r, level):
    """Yield what each slot adds; `offers` are rows of services, `choose(queues)` gives the server.

    Distances are to R^(r); counted are the servers that rise to `level`.
    """
    queues, pooled = [0] * len(offers[0]), 0
    for batch, offer in zip(batches, offers, strict=True):
        server = choose(queues)
        before = list(queues)
        queues[server] += batch
        unused = [max(s - q, 0) for q, s in zip(queues, offer, strict=True)]
        queues = [max(q - s, 0) for q, s in zip(queues, offer, strict=True)]
        net = pooled + batch - sum(offer)
        pooled = max(net, 0)
        total, idle, d = sum(queues), sum(unused), distance(queues, r)
        yield {
            "slots": 1,
            "total": total,
            "unused": idle,
            "unused_squared": idle**2,
            "condition": total * idle,
            "pooled": pooled,
            "pooled_unused_squared": min(net, 0) ** 2,
            "crossing": sum(b < level <= q for b, q in zip(before, queues, strict=True)),
            "total_moments": [total**k for k in (2, 3, 4)],
            "distance_moments": [d**k for k in (1, 2, 3, 4)],
            "distance": [int(min(int(d), 64) == k) for k in range(65)],
            "net": batch - sum(offer),
            "queues": list(queues),
        }


def pooled_mean(arrivals, services, length):
    """E[P] of P+ = (P + A - sum S)^+ on 0 .. length - 1, laws as dicts from value to probability."""
    step = {}
    for values in itertools.product(arrivals.items(), *(law.items() for law in services)):
        net = values[0][0] - sum(v for v, _ in values[1:])
        step[net] = step.get(net, 0.0) + math.prod(p for _, p in values)
    return float(_stationary(length, lambda p: [(max(p + x, 0), q) for x, q in step.items()]) @ np.arange(length))


def two_server_mean(batch, epsilon, choice, length, offers=(0.5, 0.5), turns=1):
    """E[Q1 + Q2], S in {0, 1} of means `offers`, A in {0, batch} of mean sum(offers) - epsilon, queues below `length`.

    `choice` as in :func:`solve_chain`.
    """
    some = (sum(offers) - epsilon) / batch

    def moves(state):
        turn, queues = state // length**2, divmod(state % length**2, length)
        chances = choice(queues) if turns == 1 else choice(queues, turn)
        for server, size in itertools.product((0, 1), (0, batch)):
            weight = (some if size else 1 - some) * chances[server]
            for offer in itertools.product((0, 1), (0, 1)):
                new = [q + size * (n == server) - s for n, (q, s) in enumerate(zip(queues, offer, strict=True))]
                a, b = (min(max(q, 0), length - 1) for q in new)
                likely = math.prod(p if s else 1 - p for p, s in zip(offers, offer, strict=True))
                yield (turn + 1) % turns * length**2 + a * length + b, weight * likely

    law = _stationary(turns * length**2, moves)
    return sum(p * sum(divmod(state % length**2, length)) for state, p in enumerate(law))


def _stationary(states, moves):
    """Stationary law of a finite chain; `moves(state)` gives pairs (new state, probability)."""
    matrix = np.zeros((states, states))
    for state in range(states):
        for new, p in moves(state):
            matrix[min(new, states - 1), state] += p
    matrix -= np.eye(states)
    matrix[0] = 1.0
    return np.linalg.solve(matrix, np.eye(states)[0])


def two_server_chain(epsilon, threshold, size):
    """Return ``pi[i, j]``, two servers under JBT(threshold), arrivals at rate ``2 - epsilon``, cut off at `size`.

    Threshold 0 stands for JSQ. Plain sparse balance equations of the truncated square: arrivals to a queue of the last
    length are lost.
    """
    i, j = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    state, rate = i * size + j, 2 - epsilon
    first, second = (i < threshold, j < threshold) if threshold else (i <= j, j <= i)
    to_first = np.where(first == second, 0.5, first.astype(float))
    moves = [
        (state[:-1], state[1:], rate * to_first[:-1]),
        (state[:, :-1], state[:, 1:], rate * (1 - to_first[:, :-1])),
        (state[1:], state[:-1], np.ones((size - 1, size))),
        (state[:, 1:], state[:, :-1], np.ones((size, size - 1))),
    ]
    source, target, speed = (np.concatenate([np.ravel(m[k]) for m in moves]) for k in range(3))
    shape = (size * size, size * size)
    balance = (coo_matrix((speed, (target, source)), shape) - coo_matrix((speed, (source, source)), shape)).tocsr()
    inner = spsolve(balance[1:, 1:].tocsc(), -balance[1:, 0].toarray().ravel())
    pi = np.concatenate([[1.0], inner]).reshape(size, size)
    return pi / pi.sum()


def workload_bracket(residual_tail, load, h, count):
    """Return lower and upper bounds of ``P(W > k h)``, ``k < count``, in M/GI/1 with mean service time 1.

    W is a geometric sum of residual service times (Pollaczek, Khinchine); these are rounded to a grid, down for the
    lower bound and up for the upper one, and summed by Panjer's recursion. Works for any law.
    """
    steps = -np.diff([residual_tail(k * h) for k in range(count + 1)])
    bounds = []
    for f in (steps, np.append(0.0, steps[:-1])):
        g = np.zeros(count)
        g[0] = (1 - load) / (1 - load * f[0])
        for j in range(1, count):
            g[j] = load / (1 - load * f[0]) * (f[1 : j + 1] @ g[j - 1 :: -1])
        bounds.append(1 - np.cumsum(g))
    return bounds


def jiq_work(work, draw_service, rate, time, rng):
    """Return the unfinished work of each server under JIQ at `time`, one arrival after the other."""
    work, now = np.array(work, float), 0.0
    while True:
        gap = rng.exponential(1 / rate)
        work = np.maximum(work - min(gap, time - now), 0.0)
        now += gap
        if now > time:
            return work
        idle = np.flatnonzero(work == 0.0)
        work[rng.choice(idle) if idle.size else rng.integers(work.size)] += draw_service(rng)
