"""Slow, plain oracles that import nothing from lbcore."""

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve


def jsq_diffusion_chain(beta, h, depth, height):
    """Return a grid chain's stationary law of the JSQ diffusion, ``pi[i, j]`` at ``x = -i h``, ``y = j h``.

    Q1 walks with steps ``h``, its drift fitted exponentially; a step up from the wall raises Q2 by ``h`` instead; Q2
    drains by ``h`` at rate ``j``. The sparse balance equations are solved directly. It knows no reduction. Error O(h).
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
    balance = coo_matrix((rate, (target, source)), shape=(size, size)) - coo_matrix(
        (rate, (source, source)), shape=(size, size)
    )
    balance = balance.tocsr()
    # pi of state 0 set to 1, its balance equation dropped
    inner = spsolve(balance[1:, 1:].tocsc(), -balance[1:, 0].toarray().ravel())
    pi = np.concatenate([[1.0], inner]).reshape(m, n)
    return pi / pi.sum()
