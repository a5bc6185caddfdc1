"""One rule for input: checks.py by itself, then every public function of the package held to it."""

import importlib
import inspect
import math
import pkgutil
import re
from fractions import Fraction

import numpy as np
import pytest

import lbcore as lb
from lbcore import checks

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    "good", [3, 3.0, np.int64(3), np.float64(3), np.float32(3), np.uint8(3), Fraction(3)], ids=repr
)
def test_numbers_of_every_kind(good):
    assert checks.real(good, "x", least=3, most=3) == checks.whole(good, "x") == 3
    assert type(checks.real(good, "x")) is float and type(checks.whole(good, "x")) is int


def test_whole_numbers_keep_every_digit():
    assert checks.whole(2**64 - 1, "seed") == 2**64 - 1
    assert checks.whole(1e6, "events") == 10**6


@pytest.mark.parametrize(
    "check, error, words",
    [
        (lambda: checks.real("0.5", "load", above=0, below=1), TypeError, "a number above 0 and below 1, not '0.5'"),
        (lambda: checks.real(1.2, "load", least=0, most=1), ValueError, "of at least 0 and at most 1, not 1.2"),
        (lambda: checks.real(np.float64(2), "load", below=1, why="queues grow"), ValueError, "not 2.0; queues grow"),
        (lambda: checks.real(True, "load"), TypeError, "load must be a number, not True"),
        (lambda: checks.real(np.True_, "load"), TypeError, "load must be a number, not True"),
        (lambda: checks.real(None, "load"), TypeError, "load must be a number, not None"),
        (lambda: checks.real(1j, "load"), TypeError, "load must be a number, not 1j"),
        (lambda: checks.real(np.ones(2), "load"), TypeError, "not an array of shape \\(2,\\)"),
        (lambda: checks.real(NAN, "load"), ValueError, "load must be a number, not nan"),
        (lambda: checks.real(-INF, "load"), ValueError, "load must be a number, not -inf"),
        (lambda: checks.real(10**400, "load"), ValueError, "load must be a number, not 10{56}\\.\\.\\."),
        (lambda: checks.whole(3.5, "n"), ValueError, "n must be a whole number of at least 1, not 3.5"),
        (lambda: checks.whole(0, "n"), ValueError, "n must be a whole number of at least 1, not 0"),
        (lambda: checks.whole(9, "n", least=2, most=8), ValueError, "of at least 2 and at most 8, not 9"),
        (lambda: checks.whole(INF, "n"), ValueError, "n must be a whole number of at least 1, not inf"),
        (lambda: checks.whole("3", "n"), TypeError, "n must be a whole number of at least 1, not '3'"),
        (lambda: checks.flag(1, "live"), TypeError, "live must be True or False, not 1"),
        (lambda: checks.one_of("x", "scale", ("a", "b")), ValueError, "scale must be one of 'a', 'b', not 'x'"),
        (lambda: checks.one_of(1, "scale", ("a", "b")), TypeError, "scale must be one of 'a', 'b', not 1"),
        (lambda: checks.made_by("x", "law", Fraction, "lb.laws"), TypeError, "law must be made by lb.laws, not 'x'"),
        (lambda: checks.array(-1.0, "w", least=0), ValueError, "w must be numbers of at least 0, not -1.0$"),
        (lambda: checks.array([[1, NAN], [NAN, 1]], "w"), ValueError, "not nan \\(at index 1; 2 of 4\\)"),
        (lambda: checks.array([1, "2"], "w"), TypeError, "w must be numbers, not '1'"),
        (lambda: checks.vector([[1, 2], [3]], "w"), TypeError, "w must be numbers, not rows of different lengths"),
        (lambda: checks.vector([1, True, None], "w"), TypeError, "w must be numbers, not True"),
        (lambda: checks.vector([True, False], "w"), TypeError, "w must be numbers, not True"),
        (lambda: checks.vector([1, 2], "w", size=3), ValueError, "numbers, 3 of them, in one dimension"),
        (lambda: checks.vector([], "w"), ValueError, "at least one, in one dimension, not an array of shape \\(0,\\)"),
        (lambda: checks.vector([[1, 2]], "w"), ValueError, "at least one, in one dimension, not an array of shape"),
        (lambda: checks.vector([0, 1, 9, INF], "w", above=0), ValueError, "above 0, not 0.0 \\(at index 0; 2 of 4\\)"),
        (lambda: checks.vector([1, 3, 3], "w", increasing=True), ValueError, "w must be increasing, not 3 before 3"),
    ],
)  # fmt: skip
def test_sentences(check, error, words):
    with pytest.raises(error, match=f" must be .*{words}|^{words}"):
        check()


def test_what_passes_comes_back_as_it_is_used():
    assert checks.flag(np.True_, "live") is True and checks.one_of("a", "scale", "ab") == "a"
    assert checks.made_by(law := lb.laws.uniform(), "law", lb.laws.Law, "lb.laws") is law
    given = np.array([1, 2])
    assert checks.vector(given, "w").dtype == np.float64 and checks.vector(2, "w").shape == (1,)
    assert checks.array(2, "w").shape == () and checks.array([[INF]], "w").shape == (1, 1)
    checks.vector(floats := np.ones(2), "w")[0] = 5.0
    assert floats[0] == 1.0


# ---- every public function of the package ------------------------------------------------------------------

# modules that users don't call, or that draw pictures
INNER_MODULES = {
    "checks", "compiled", "records", "results", "draws", "idle_or_busy", "queue_lengths", "lanes", "profile",
    "estimate", "intervals", "march", "show", "pictures", "service_data", "__main__",
}  # fmt: skip
# functions that get checked input, or check it for others
INNER = {"check_threshold", "checked_load", "equilibrium_work", "slot_laws", "solve_pooled_mean"}

LAW, BATCH, OFFER = lb.laws.exponential(), lb.laws.bernoulli(0.5, 4), lb.laws.bernoulli(0.5, 2)
RUN = {"replications": 2, "seed": 1, "threads": 1, "progress": False, "live": False}
PATHS = {"beta": 1.0, "start": (-0.5, 1.0), "step": 0.1, "paths": 2, "seed": 1}
SLOTTED = {"n_servers": 2, "epsilon": 0.5, "policy": lb.jsq(), "arrivals": BATCH, "services": OFFER}
MARKOV = {"n_servers": 2, "load": 0.5, "policy": lb.jsq()}
LIMIT = {"n_servers": 2, "threshold": 2, "arrivals": BATCH, "services": OFFER.stretched(1.0)}

# a valid call or several, which name every argument between them: an int stands for a whole number, a float for
# any number, a list for an array, a tuple for a pair
CALLS = {
    **{name: [{"mean": 1.0}] for name in ("exponential", "deterministic", "uniform")},
    **{name: [{"cv2": 2.5, "mean": 2.0}] for name in ("gamma", "hyperexponential", "lognormal")},
    **{name: [{"shape": 2.5, "mean": 2.0}] for name in ("weibull", "pareto", "lomax")},
    "erlang": [{"k": 3, "mean": 2.0}],
    "discrete": [{"values": [1.0, 3.0], "probabilities": [0.5, 0.5], "mean": 2.0}],
    "bernoulli": [{"probability": 0.5, "value": 2}],
    "empirical": [{"samples": [1.0, 3.0], "mean": 2.0}],
    "mixture": [{"weights": [0.5, 0.5], "laws": [LAW, OFFER], "mean": 2.0}],
    "resolve_seed": [{"seed": 1}],
    "states": [{"seed": 1, "count": 2}],
    **{name: [{}] for name in ("jsq", "round_robin", "idle_one_first", "threshold_price")},
    **{name: [{"by_rate": False}] for name in ("random", "jiq")},
    "jsq_d": [{"d": 2, "replacement": False}],
    "jbt": [{"r": 2, "by_rate": False}],
    "policy": [{"function": lambda queues, rates, stream, memory: 0, "memory": [1.0, 2.0]}],
    "simulate_markov": [MARKOV | {"rates": [1.0, 1.5], "events": 100} | RUN, MARKOV | {"rel_precision": 0.9} | RUN],
    "simulate_workload": [
        MARKOV | {"policy": lb.jiq(), "service": LAW, "arrivals": 10**4} | options | RUN
        for options in (
            {"interarrival": LAW, "buffers": 2, "weights": [1.0, 2.0], "work": [0.0, 1.0], "rel_precision": None},
            {"start": "infinite-server"}, {"arrivals": None, "rel_precision": 0.9},
        )
    ],
    "simulate_slotted": [
        SLOTTED | {"threshold": 2, "slots": 100} | RUN,
        SLOTTED | {"rel_precision": 0.9} | RUN,
    ],
    "pooled_mean": [{"arrivals": BATCH, "services": OFFER, "n_servers": 3, "epsilon": 0.5}],
    "heavy_traffic_limit": [LIMIT],
    "push_share": [LIMIT],
    "pooled_limit": [{"n_servers": 2, "arrivals": BATCH, "services": OFFER}],
    "two_server_law": [{"epsilon": 0.5, "threshold": 2, "tolerance": 1e-6}],
    "two_server_jsq": [{"epsilon": 0.5}],
    "theorem_two_bound": [{"epsilon": 0.5, "thresholds": [1.0, 2.0], "tolerance": 1e-3}],
    "fixed_point": [{"service": LAW, "load": 0.5, "w": [0.0, 1.0]}],
    "cycle_bound": [{"service": LAW, "load": 0.5, "w": [0.0, 1.0]}],
    "workload_tail": [{"service": LAW, "load": 0.5, "w": [0.0, 1.0], "tolerance": 1e-3}],
    "infinite_server_path": [{"service": LAW, "load": 0.5, "t": [1.0], "w": [0.0, 1.0]}],
    "fluid_path": [
        {"service": LAW, "load": 0.5, "initial": [0.5, 0.2], "times": [1.0], "w": [0.0, 1.0], "step": 0.25}
    ],
    "simulate_path": [
        {"work": [0.0, 1.0], "service": LAW, "load": 0.5, "times": [1.0], "w": [0.0], "replications": 2, "seed": 1}
    ],
    "pair_excess": [{"n_servers": 2, "service": LAW, "load": 0.5, "w": [0.0, 1.0], "replications": 2, "seed": 1}],
    "diffusion_law": [{"beta": 1.0}],
    "finite_law": [{"n_servers": 4, "beta": 1.0}],
    "transient_law": [{"n_servers": 4, "beta": 1.0, "start": (-0.5, 0.5), "times": [0.0, 1.0]}],
    "halfin_whitt_law": [{"beta": 1.0}],
    "erlang_wait": [{"n_servers": 4, "load": 0.5}],
    "fall_times": [{"beta": 1.0, "level": 0.5, "top": 1.0}],
    "excursion_time": [{"beta": 1.0, "y": [1.0, 2.0]}],
    "wall_time": [{"beta": 1.0, "q1": -0.5, "q2": 0.5}],
    "sample_path": [{"beta": 1.0, "duration": 1.0, "step": 0.1, "start": (-0.5, 1.0), "seed": 1}],
    "simulate_diffusion": [{"beta": 1.0, "step": 0.1, "steps": 100} | RUN, {"beta": 1.0, "rel_precision": 0.9} | RUN],
    "sample_states": [PATHS | {"times": [0.5, 1.0]}],
    "mean_first_time": [PATHS | {"level": 0.5, "horizon": 1e5}],
}  # fmt: skip
# what else these arguments may be
ALSO = {name: [INF] for name in ("threshold", "r", "w", "t")} | {
    "seed": [None],
    "q1": [-1.0],
    "memory": [-1.0, INF, NAN],
}
ALSO |= {"empirical.mean": [None], "mixture.mean": [None], "buffers": [np.array([1.0, 2.0])]}
OLD = {"bias", "filled"}  # arguments that have a new name
BAD_NUMBERS = ["0.5", True, NAN, INF, -1.0, 1j, np.array([1.0, 2.0]), None]
BAD = {
    bool: ["yes", 1, 0.0, None],
    int: [*BAD_NUMBERS, 3.5],
    float: BAD_NUMBERS,
    list: ["0.5", True, [True], [NAN], [INF], [-1.0], [1j], [None], [[1.0], [2.0, 3.0]], None],
    str: ["nonsense", 3.5, True],
}


def public_functions():
    """Return the functions of the package by name, except of the modules and the functions named above."""
    found = {}
    for module in pkgutil.walk_packages(lb.__path__, "lbcore."):
        if INNER_MODULES.isdisjoint(module.name.split(".")):
            for name, function in vars(importlib.import_module(module.name)).items():
                plain = inspect.isfunction(function) and function.__module__ == module.name
                if plain and not name.startswith("_") and name not in INNER:
                    assert name not in found, f"{name} stands in {module.name} and in {found[name].__module__}"
                    found[name] = function
    return found


FUNCTIONS = public_functions()
ARGUMENTS = [
    pytest.param(name, call, argument, id=f"{name}-{argument}")
    for name in FUNCTIONS
    for argument, call in {a: call for call in CALLS.get(name, [])[::-1] for a in call if call[a] is not None}.items()
]


def refusal(name, call):
    """Return what the function says to a call, or None if it takes it."""
    try:
        FUNCTIONS[name](**call)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_and_every_argument_has_a_valid_call(name):
    assert name in CALLS, f"{name} is public: give it a valid call in CALLS, or name it in INNER"
    named = set().union(*CALLS[name])
    assert set(inspect.signature(FUNCTIONS[name]).parameters) - OLD == named
    for call in CALLS[name]:
        assert refusal(name, call) is None


@pytest.mark.parametrize("name, call, argument", ARGUMENTS)
def test_bad_values_are_refused_in_the_same_words(name, call, argument):
    optional = inspect.signature(FUNCTIONS[name]).parameters[argument].default is None
    also = [*ALSO.get(argument, []), *ALSO.get(f"{name}.{argument}", []), *[None] * optional]
    taken = {*map(repr, also), *(repr([value]) for value in also)}
    for bad in BAD.get(type(call[argument]), ["nonsense", 3.5, None]):
        if repr(bad) not in taken:
            said = refusal(name, call | {argument: bad})
            assert said is not None, f"{name} takes {argument} = {bad!r}"
            assert re.search(rf"\b{argument}\b.* must be ", said), f"{name}, {argument} = {bad!r}: {said}"


def with_kinds(call, whole, real, array):
    kinds = {int: whole, float: real, list: array}
    return {a: kinds[type(v)](v) if type(v) in kinds and a != "laws" else v for a, v in call.items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_and_arrays_of_every_kind_are_taken(name):
    for call in CALLS.get(name, []):
        assert refusal(name, with_kinds(call, np.int64, np.float64, np.array)) is None
        assert refusal(name, with_kinds(call, float, float, tuple)) is None
        assert refusal(name, with_kinds(call, np.float64, Fraction, np.array)) is None
