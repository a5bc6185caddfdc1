"""Slow oracles that import nothing from lbcore: warm-up rule, slotted path, pooled queue, two servers."""

import itertools
import math

import numpy as np


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


def slotted_path(batches, offers, choose, r):
    """Yield what each slot adds; `offers` are rows of services, `choose(queues)` gives the server."""
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
            "crossing": sum(b < r <= q for b, q in zip(before, queues, strict=True)),
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


def two_server_mean(batch, epsilon, r, length):
    """E[Q1 + Q2], S in {0, 1} fair, A in {0, batch} of mean 1 - epsilon, JBT(r), queues cut at length - 1."""
    some = (1 - epsilon) / batch

    def moves(state):
        queues = divmod(state, length)
        short = [n for n in (0, 1) if queues[n] < r] or [0, 1]
        for server, size in itertools.product(short, (0, batch)):
            weight = (some if size else 1 - some) / len(short)
            for offer in itertools.product((0, 1), (0, 1)):
                new = [q + size * (n == server) - s for n, (q, s) in enumerate(zip(queues, offer, strict=True))]
                a, b = (min(max(q, 0), length - 1) for q in new)
                yield a * length + b, weight / 4

    law = _stationary(length**2, moves)
    return sum(p * sum(divmod(state, length)) for state, p in enumerate(law))


def _stationary(states, moves):
    """Stationary law of a finite chain; `moves(state)` gives pairs (new state, probability)."""
    matrix = np.zeros((states, states))
    for state in range(states):
        for new, p in moves(state):
            matrix[min(new, states - 1), state] += p
    matrix -= np.eye(states)
    matrix[0] = 1.0
    return np.linalg.solve(matrix, np.eye(states)[0])
