"""Laws against quadrature, scipy.stats, exact sums and their own samples."""

import dataclasses
import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lbcore.chance import draws, laws, streams

SMOOTH = {
    "exponential": (laws.exponential(), stats.expon()),
    "erlang 1": (laws.erlang(1), stats.expon()),
    "erlang 4": (laws.erlang(4), stats.gamma(4, scale=1 / 4)),
    "erlang 100": (laws.erlang(100), stats.gamma(100, scale=1 / 100)),
    "gamma 4": (laws.gamma(4), stats.gamma(0.25, scale=4)),
    "gamma 1": (laws.gamma(1), stats.expon()),
    "gamma 0.3": (laws.gamma(0.3, mean=2.0), stats.gamma(1 / 0.3, scale=0.6)),
    "hyperexponential 4": (laws.hyperexponential(4), None),
    "hyperexponential 1": (laws.hyperexponential(1), stats.expon()),
    "hyperexponential 1e6": (laws.hyperexponential(1e6), None),
    "lognormal 4": (laws.lognormal(4), stats.lognorm(s=math.sqrt(math.log(5)), scale=5**-0.5)),
    "lognormal 0.01": (laws.lognormal(0.01), stats.lognorm(s=math.sqrt(math.log(1.01)), scale=1.01**-0.5)),
    "weibull 0.5": (laws.weibull(0.5), stats.weibull_min(0.5, scale=0.5)),
    "weibull 3": (laws.weibull(3), stats.weibull_min(3, scale=1 / math.gamma(4 / 3))),
    "weibull 36": (laws.weibull(36), None),
    "uniform": (laws.uniform(), stats.uniform(0, 2)),
    "pareto 1.5": (laws.pareto(1.5), stats.pareto(1.5, scale=1 / 3)),
    "pareto 2.5": (laws.pareto(2.5), stats.pareto(2.5, scale=0.6)),
    "lomax 1.5": (laws.lomax(1.5), stats.lomax(1.5, scale=0.5)),
    "lomax 6": (laws.lomax(6), stats.lomax(6, scale=5.0)),
    "pareto 5": (laws.pareto(5), stats.pareto(5, scale=0.8)),
    "exponential 3": (laws.exponential(mean=3.0), stats.expon(scale=3.0)),
    "mixture": (laws.mixture([0.3, 0.7], [laws.exponential(mean=2.0), laws.lognormal(1)], mean=0.8), None),
}
STEPS = {
    "deterministic": (laws.deterministic(mean=2.0), [2.0], [1.0]),
    "discrete": (laws.discrete([5, 1, 2, 1], [0.2, 0.25, 0.3, 0.25]), [1, 2, 5], [0.5, 0.3, 0.2]),
    "discrete mean 1": (laws.discrete([0, 4], [0.5, 0.5], mean=1), [0, 2], [0.5, 0.5]),
    "discrete possible": (laws.discrete([0, 2, 4, 9], [0.25, 0.25, 0.5, 0.0]), [0, 2, 4], [0.25, 0.25, 0.5]),
    "bernoulli": (laws.bernoulli(0.25, 4), [0, 4], [0.75, 0.25]),
    "empirical": (laws.empirical([3, 1, 1, 3, 1, 1, 3, 3]), [0.5, 1.5], [0.5, 0.5]),
    "mixture": (
        laws.mixture([0.5, 0.5], [laws.discrete([0, 2], [0.5, 0.5]), laws.empirical([1, 2], mean=None)], mean=None),
        [0, 1, 2],
        [0.25, 0.25, 0.5],
    ),
    "discrete stretched": (laws.discrete([1, 3], [0.5, 0.5], mean=1).stretched(3.0), [1.5, 4.5], [0.5, 0.5]),
}
ALL = {f"smooth {k}": v[0] for k, v in SMOOTH.items()} | {f"steps {k}": v[0] for k, v in STEPS.items()}
FACTORIES = {
    name
    for name, found in vars(laws).items()
    if inspect.isfunction(found) and found.__module__ == laws.__name__ and name[0] != "_"
} - {"number", "vector"}


def test_every_law_and_every_sampler_stands_in_the_examples():
    assert {name.split()[1] for name in ALL} == FACTORIES
    assert {law.packed[0] for law in ALL.values()} == set(draws.CODES)


@pytest.mark.kernel
def test_unknown_samplers_are_refused_and_never_drawn_from():
    law = laws.uniform()
    for code in (-1.0, 0.5, float(len(draws.CODES)), math.nan):
        packed = np.append(code, law.packed[1:])
        with pytest.raises(ValueError, match=r"the sampler of uniform.* must be one of lbcore.draws, not number"):
            dataclasses.replace(law, packed=packed)
    out = np.zeros(3)
    mixed = laws.mixture([0.5, 0.5], [law, law]).packed.copy()
    mixed[draws.HEADER + 6 :: draws.ROW] = 99.0  # the codes of both components
    for packed in (np.array([42.0, 1.0, 0.0, 0.0, 0.0]), mixed):
        draws.fill(packed, streams.states(1, 1)[0], out)
        assert np.isnan(out).all()


def test_names_of_the_first_house_say_so_once():
    with pytest.warns(FutureWarning, match="^laws.pmf is called laws.discrete now$"):
        assert laws.pmf([0, 2], [0.5, 0.5]).mean == 1.0
    with pytest.warns(FutureWarning, match="^laws.lattice is called laws.discrete now$"):
        assert laws.lattice([1, 3], [0.5, 0.5]).mean == 1.0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = laws.nothing


@pytest.mark.parametrize("name", [name for name, (_, reference) in SMOOTH.items() if reference])
def test_tail_and_moments_agree_with_scipy(name):
    law, reference = SMOOTH[name]
    w = np.concatenate([[0.0], np.geomspace(1e-6, 600.0, 300)])
    w = w[reference.sf(w) > 1e-300]
    np.testing.assert_allclose(law.tail(w), reference.sf(w), rtol=2e-12)
    assert law.mean == pytest.approx(reference.mean(), rel=1e-13)
    assert law.variance == pytest.approx(reference.var(), rel=1e-12)
    assert law.cv2 == pytest.approx(reference.var() / reference.mean() ** 2, rel=1e-12)


KINKS = (1 / 3, 0.6, 0.8, 2.0)  # smallest values of the Pareto laws, end of the uniform law


def tail_integral(law, w, power=0):
    """Return the integral of u^power P(S > u) over (w, infinity): Gauss rule on panels in log(u - w)."""
    breaks = np.sort([*np.arange(-40.0, 160.0, 0.1), *(math.log(k - w) for k in KINKS if k > w)])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    y = breaks[:-1, None] + np.diff(breaks)[:, None] * (nodes + 1) / 2
    u = w + np.exp(y)
    return float(np.diff(breaks) @ ((u**power * law.tail(u) * np.exp(y)) @ weights) / 2)


@pytest.mark.parametrize("name", SMOOTH)
def test_residual_tail_is_the_integral_of_the_tail(name):
    law, _ = SMOOTH[name]
    for w in (0.0, 1e-9, 0.05, 0.3, 1.0, 1.7, 1.99, 3.0, 12.0, 40.0, 300.0):
        if law.tail(w) > 1e-290:
            assert law.residual_tail(w) == pytest.approx(tail_integral(law, w) / law.mean, rel=2e-12), w


@pytest.mark.parametrize("name", [name for name, (law, _) in SMOOTH.items() if law.variance < math.inf])
def test_variance_by_quadrature(name):
    law, _ = SMOOTH[name]
    second = 2 * tail_integral(law, 0.0, power=1)
    assert law.variance == pytest.approx(second - law.mean**2, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("name", STEPS)
def test_laws_with_steps_against_exact_sums(name):
    law, values, probabilities = STEPS[name]
    mean = np.dot(values, probabilities)
    assert law.mean == pytest.approx(mean, rel=1e-15)
    assert law.variance == pytest.approx(np.dot(np.square(values), probabilities) - mean**2, rel=1e-14)
    w = np.array([0.0, 0.3, 0.5, 1.0, 1.4999, 1.5, 1.9, 2.0, 2.1, 3.9, 4.0, 4.5, 5.0, 6.0, 7.0])
    above = np.array(values) > w[:, None]
    np.testing.assert_allclose(law.tail(w), above @ probabilities, rtol=1e-15)
    excess = np.maximum(np.array(values) - w[:, None], 0.0) @ probabilities
    np.testing.assert_allclose(law.residual_tail(w), excess / mean, rtol=1e-14)


def test_erlang_tails_against_rational_arithmetic():
    k, x = 7, Fraction(123)  # w = x / k, far out
    law, exponential = laws.erlang(k), Fraction(math.exp(-123.0))
    terms = [x**j / math.factorial(j) for j in range(k)]
    assert law.tail(123 / 7) == pytest.approx(float(sum(terms) * exponential), rel=1e-12)
    residual = sum((k - j) * term for j, term in enumerate(terms)) * exponential / k
    assert law.residual_tail(123 / 7) == pytest.approx(float(residual), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 30, 1000])
def test_gamma_law_of_whole_shape_is_erlang(k):
    gamma, erlang = laws.gamma(1 / k), laws.erlang(k)
    w = np.concatenate([np.linspace(0.0, 3.0, 61), np.geomspace(3.0, 600.0, 30)])
    w = w[erlang.tail(w) > 1e-290]
    np.testing.assert_allclose(gamma.tail(w), erlang.tail(w), rtol=2e-12)
    np.testing.assert_allclose(gamma.residual_tail(w), erlang.residual_tail(w), rtol=2e-12)
    np.testing.assert_array_equal(*(law.sample(np.random.default_rng(1), 9) for law in (gamma, erlang)))


def test_shape_of_the_answer_and_range_of_the_argument():
    law = laws.lognormal(2)
    assert isinstance(law.tail(1.0), float) and isinstance(law.residual_tail(0), float)
    assert law.tail(np.ones((2, 3))).shape == law.residual_tail(np.ones((2, 3))).shape == (2, 3)
    for law in ALL.values():
        assert law.tail(math.inf) == law.residual_tail(math.inf) == 0.0
        assert law.residual_tail(0.0) == pytest.approx(1.0, rel=1e-14)
        for bad in (-1e-9, math.nan):
            with pytest.raises(ValueError, match="w must be numbers of at least 0"):
                law.tail([0.0, bad])


@pytest.mark.parametrize("name", ALL)
def test_samples_follow_the_tail(name):
    law = ALL[name]
    x = law.sample(np.random.default_rng(20240611), 200_000)
    assert x.min() >= 0.0
    if name.startswith("smooth"):
        assert stats.kstest(x, lambda w: 1.0 - law.tail(w)).pvalue > 1e-3
    else:
        _, values, probabilities = STEPS[name.removeprefix("steps ")]
        counts = np.isclose(x[:, None], values).sum(axis=0)
        assert counts.sum() == len(x)
        assert not stats.chisquare(counts, len(x) * np.array(probabilities)).pvalue < 1e-3
    if law.fourth_moment_finite and law.cv2 < 100:
        assert x.mean() == pytest.approx(law.mean, abs=4 * math.sqrt(law.variance / len(x)) + 1e-12)
        spread = np.std((x - law.mean) ** 2) / math.sqrt(len(x))
        assert x.var() == pytest.approx(law.variance, abs=4 * spread + 1e-12 + 20 * law.variance / len(x))


@pytest.mark.kernel
@pytest.mark.parametrize("name", ALL)
def test_filling_in_parts_is_filling_at_once(name):
    first, second = streams.states(5, 1)[0], streams.states(5, 1)[0]
    whole, parts = np.empty(50), np.empty(50)
    draws.fill(ALL[name].packed, first, whole)
    for part in (parts[:1], parts[1:20], parts[20:20], parts[20:]):
        draws.fill(ALL[name].packed, second, part)
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(first, second)


def test_sampling_depends_on_the_generator_alone():
    law = laws.weibull(0.7)
    one, two = (law.sample(np.random.default_rng(3), (4, 5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    rng = np.random.default_rng(3)
    assert not np.array_equal(law.sample(rng, 5), law.sample(rng, 5))
    with pytest.raises(TypeError, match=r"rng must be made by numpy.random.default_rng"):
        law.sample(3, 5)


@pytest.mark.kernel
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40).filter(lambda p: sum(p) > 1e-3))
@settings(max_examples=100, deadline=None)
def test_alias_table_gives_back_the_probabilities(weights):
    p = np.array(weights) / sum(weights)
    threshold, other = draws.alias_table(p)
    assert np.all((threshold >= 0.0) & (threshold <= 1.0 + 1e-12))
    back = threshold.copy()
    np.add.at(back, other.astype(int), 1.0 - threshold)
    np.testing.assert_allclose(back / len(p), p, atol=1e-14)


RANDOM_LAW = st.one_of(
    st.floats(1.0, 1e3).map(laws.hyperexponential),
    st.floats(1e-2, 1e3).map(laws.lognormal),
    st.floats(1e-3, 1e3).map(laws.gamma),
    st.floats(0.1, 50.0).map(laws.weibull),
    st.floats(1.01, 20.0).map(laws.pareto),
    st.integers(1, 60).map(laws.erlang),
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20).map(laws.empirical),
)


@given(RANDOM_LAW, st.floats(0.0, 30.0), st.floats(1e-3, 3.0))
@settings(max_examples=200, deadline=None)
def test_residual_tail_falls_and_is_convex_with_slope_tail(law, w, step):
    assert law.mean == pytest.approx(1.0, rel=1e-12)
    tail = law.tail([w, w + step])
    residual = law.residual_tail([w, w + step])
    drop = residual[0] - residual[1]
    assert 0.0 <= tail[1] <= tail[0] + 1e-12 and max(*tail, *residual) <= 1.0
    assert step * tail[1] - 1e-12 <= drop <= step * tail[0] + 1e-12


def test_known_properties():
    assert laws.hyperexponential(9).cv2 == 9 and laws.erlang(5).cv2 == 0.2 and laws.lognormal(0.3).cv2 == 0.3
    assert laws.hyperexponential(1e12).tail(0.0) == 1.0
    decreasing = {name for name, law in ALL.items() if law.decreasing_hazard_rate}
    expected = "exponential", "erlang 1", "hyperexponential 4", "hyperexponential 1", "hyperexponential 1e6"
    expected = *expected, "weibull 0.5", "lomax 1.5", "lomax 6"
    assert decreasing == {f"smooth {name}" for name in (*expected, "exponential 3", "gamma 4", "gamma 1")}
    assert laws.mixture([0.5, 0.5], [laws.exponential(), laws.weibull(0.5)]).decreasing_hazard_rate
    assert [laws.pareto(a).fourth_moment_finite for a in (1.5, 3.0, 4.0, 4.1)] == [False, False, False, True]
    assert not laws.mixture([0.9, 0.1], [laws.exponential(), laws.pareto(3)]).fourth_moment_finite
    assert laws.pareto(2).variance == laws.mixture([1, 0], [laws.pareto(2), laws.uniform()]).variance == math.inf
    assert laws.mixture([1, 0], [laws.uniform(), laws.pareto(2)]).variance == pytest.approx(1 / 3)
    assert repr(laws.lognormal(4)) == "lognormal(4)"
    assert repr(laws.erlang(2, mean=3)) == "erlang(2, mean=3)" and repr(laws.uniform(2)) == "uniform(mean=2)"


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: laws.exponential(NAN), ValueError, "mean must be a number above 0, not nan"),
        (lambda: laws.exponential(-1), ValueError, "mean must be a number above 0, not -1"),
        (lambda: laws.deterministic(INF), ValueError, "mean must be a number above 0, not inf"),
        (lambda: laws.uniform("2 s"), TypeError, "mean must be a number above 0, not '2 s'"),
        (lambda: laws.pareto(1), ValueError, "shape must be a number above 1, not 1; its mean would be infinite"),
        (lambda: laws.lomax(1), ValueError, "shape must be a number above 1, not 1; its mean would be infinite"),
        (lambda: laws.pareto(NAN), ValueError, "shape must be a number above 1, not nan"),
        (lambda: laws.hyperexponential(0.5), ValueError, "cv2 must be a number of at least 1, not 0.5; erlang"),
        (lambda: laws.lognormal("4"), TypeError, "cv2 must be a number above 0, not '4'"),
        (lambda: laws.weibull(True), TypeError, "shape must be a number of at least 0.02 and at most 1000, not True"),
        (lambda: laws.lognormal(0), ValueError, "cv2 must be a number above 0, not 0"),
        (lambda: laws.weibull(1e-3), ValueError, "of at least 0.02 and at most 1000, not 0.001"),
        (lambda: laws.gamma(2000), ValueError, "cv2 must be a number of at least 0.001 and at most 1000, not 2000"),
        (lambda: laws.erlang(0), ValueError, "k must be a whole number of at least 1 and at most 1000, not 0"),
        (lambda: laws.erlang(2.5), ValueError, "k must be a whole number of at least 1 and at most 1000, not 2.5"),
        (lambda: laws.lognormal(1e300, mean=1e10), ValueError, "has a variance beyond the doubles"),
        (lambda: laws.empirical([]), ValueError, "at least one, in one dimension, not an array of shape \\(0,\\)"),
        (lambda: laws.empirical([[1, 2], [3, 4]]), ValueError, "in one dimension, not an array of shape \\(2, 2\\)"),
        (lambda: laws.empirical([[1, 2], [3]]), TypeError, "rows of different lengths"),
        (lambda: laws.empirical([1.0, -2.0, 3.0]), ValueError, "not -2.0 \\(at index 1; 1 of 3\\)"),
        (lambda: laws.empirical([1.0, 2.0, NAN, NAN]), ValueError, "not nan \\(at index 2; 2 of 4\\)"),
        (lambda: laws.empirical(["1", "b"]), TypeError, "samples must be numbers of at least 0, not '1'"),
        (lambda: laws.empirical([1, None]), TypeError, "samples must be numbers of at least 0, not None"),
        (lambda: laws.empirical([1 + 2j]), TypeError, "samples must be numbers of at least 0, not \\(1\\+2j\\)"),
        (lambda: laws.empirical([0.0, 0.0]), ValueError, "always 0"),
        (lambda: laws.discrete([1, 2], [0.5, 0.4]), ValueError, "probabilities must sum to 1, not to 0.9"),
        (lambda: laws.discrete([1, 2], [1.5, -0.5]), ValueError, "probabilities must be numbers of at least 0"),
        (lambda: laws.discrete([1, 2], [1.0]), ValueError, "probabilities must be .* 2 of them"),
        (lambda: laws.bernoulli(1.5), ValueError, "probability must be a number above 0 and at most 1, not 1.5"),
        (lambda: laws.bernoulli(0.5, 1.5), ValueError, "value must be a whole number of at least 1, not 1.5"),
        (lambda: laws.mixture([1], [3.0]), TypeError, "laws must be made by the functions of lbcore.laws"),
        (lambda: laws.mixture([1], [laws.mixture([1], [laws.uniform()])]), TypeError, "mixture excepted, not mixture"),
        (lambda: laws.mixture([0.5, 0.6], [laws.uniform()] * 2), ValueError, "weights must sum to 1"),
        (lambda: laws.uniform().stretched(0), ValueError, "factor must be a number above 0, not 0"),
        (lambda: laws.uniform().tail("0.5"), TypeError, "w must be numbers of at least 0, not '0.5'"),
        (lambda: laws.uniform().sample(3, 5), TypeError, "rng must be made by numpy.random.default_rng"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(make, error, words):
    with pytest.raises(error, match=words):
        make()
