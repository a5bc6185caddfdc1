"""What the pictures of notebook 01 are computed from."""

import math

import numpy as np
import pytest

from lbcore.pictures import jbt as pictures

EQUAL = [name for name in pictures._SYSTEMS if "rates" not in name]


@pytest.mark.parametrize("n_servers", [2, 5, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("system", EQUAL)
def test_limit_is_what_slotted_simulations_extrapolate_to(n_servers, system):
    """M + b epsilon^p + d epsilon, p = 1 - a (two servers: 2 - a), fitted to six gaps; one gap alone would not do."""
    found = pictures.rate_series(n_servers, system=system, effort=2e6)
    assert abs(found["fit"][0] - found["limit"]) < 1.4 * found["fit_half_width"]  # 9 fits, so 99.4 % intervals
    assert found["fit_half_width"] < 0.05 * found["limit"]
    assert found["misfit"] < 4
    if n_servers != 3:  # which happens to be flat: here the extrapolation is tested, not a single point
        assert max(abs(found["scaled"] / found["limit"] - 1)) > 0.02


def test_three_pairs_of_laws_are_at_capacity():
    assert len(EQUAL) == 3
    for n in (2, 5, 50):
        for name in EQUAL:
            batch, service = pictures._SYSTEMS[name](n)
            assert batch.mean == pytest.approx(n * service.mean)


def test_u_shape_shows_a_first_picture_that_holds_the_best_threshold():
    first, *_, last = ({m.name: m.columns for m in rows[0][0].marks} for rows in pictures.u_shape.function(2, 0.05))
    assert first["best r shown"]["x"] == last["best r shown"]["x"] == 5
    bound = "bound of Thm 2, θ*, C₁ fitted"
    assert bound not in first
    assert (last[bound]["y"] >= last["JBT(r)"]["y"] - 1e-9).all()


def test_u_shape_names_no_best_threshold_before_any_run_is_believable():
    plot = next(pictures.u_shape.function(20, 0.01))[0][0]
    found = {mark.name: mark for mark in plot.marks}
    assert not found["JBT(r)"].believable
    assert found["JBT(r)"].columns["x"].size == found["best r shown"].columns["x"].size == 0
    assert "best r" not in plot.note


@pytest.mark.parametrize("left", [1, math.inf, 0])
def test_films_are_the_slotted_model(left):
    """Batches go whole to one server, services are 0 or 2, and no total is below the pooled queue's."""
    (films, pooled), n = pictures._films(left, 5, 4, 0.3), 4
    for (queues, chosen, memory), threshold in zip(films, (left, 5), strict=True):
        arriving = np.zeros_like(queues)
        arriving[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]] = 2 * n
        served = queues[:-1] + arriving[:-1] - queues[1:]
        assert ((served == 0) | (served == 1) | (served == 2)).all()
        assert (queues.sum(axis=1) >= pooled).all()
        lit = queues < threshold if threshold else queues == queues.min(axis=1, keepdims=True)
        assert (memory == lit).all()
        for slot in np.flatnonzero((chosen >= 0) & memory.any(axis=1)):
            assert memory[slot, chosen[slot]]
