"""Slow oracles for the Markov simulators: the whole truncated chain, solved. Imports nothing from lbcore."""

import itertools

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve


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


def solve_chain(n_servers, load, choice, longest, rates=None):
    """Return the stationary means of the chain with at most `longest` jobs at each server.

    `choice(queues)` gives the probabilities of the servers; a job sent to a full server is lost.
    Returns a dict: mean_total, mean_wait, wait_probability, all_busy, occupancy (fractions with >= i jobs).
    """
    rates = np.ones(n_servers) if rates is None else np.asarray(rates, float)
    arrival_rate = load * rates.sum()
    shape = (longest + 1,) * n_servers
    states = list(itertools.product(range(longest + 1), repeat=n_servers))
    rows, columns, values = [], [], []
    chances = np.array([choice(q) for q in states])
    for index, queues in enumerate(states):
        for s in range(n_servers):
            for change, rate in ((1, arrival_rate * chances[index, s]), (-1, rates[s])):
                if rate > 0.0 and 0 <= queues[s] + change <= longest:
                    target = list(queues)
                    target[s] += change
                    rows += [np.ravel_multi_index(target, shape), index]
                    columns += [index, index]
                    values += [rate, -rate]
    size = len(states)
    balance = coo_matrix((values, (rows, columns)), shape=(size, size)).tolil()
    balance[0, :] = 1.0
    law = spsolve(balance.tocsc(), np.eye(size, 1).ravel())
    queues = np.array(states)
    total = law @ queues.sum(axis=1)
    in_service = law @ (queues > 0).sum(axis=1)
    return {
        "mean_total": total,
        "mean_wait": (total - in_service) / arrival_rate,
        "wait_probability": law @ (chances * (queues > 0)).sum(axis=1),
        "all_busy": law @ (queues > 0).all(axis=1),
        "occupancy": np.array([law @ (queues >= i).mean(axis=1) for i in range(1, longest + 1)]),
    }
