"""Priors, points, expressions, seeds, estimates: the small parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fbar
from fbar.estimation.estimate import Estimate, shorthand
from fbar.question.distances import euclidean
from fbar.question.expressions import Expression
from fbar.seeds import Purpose, Seeds


def test_a_finite_prior_samples_what_its_logpdf_says():
    prior = fbar.Finite(model=["a", "b", "c"], probabilities=[0.2, 0.0, 0.8])
    sample = prior.sample(100_000, rng=np.random.default_rng(1))["model"]
    share = (sample == "a").mean()
    assert abs(share - 0.2) < 5 * np.sqrt(0.16 / 100_000)
    assert not (sample == "b").any()
    unknown = fbar.Points({"model": ["a", "b", "z"]})
    assert np.allclose(np.exp(prior.logpdf(unknown)), [0.2, 0, 0])
    assert isinstance(prior, fbar.Distribution)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.floats(0, 1, exclude_max=True))
def test_from_unit_is_the_inverse_of_the_distribution_function(weights, u):
    p = np.array(weights) / sum(weights)
    prior = fbar.Finite(theta=np.arange(len(p)), probabilities=p)
    row = int(prior.from_unit([u])["theta"][0])
    cumulative = np.concatenate([[0], np.cumsum(p)])
    assert cumulative[row] <= u + 1e-12
    assert u <= cumulative[row + 1] + 1e-12


def test_expressions():
    columns = {"a": np.array([1.0, 2.0, 3.0]), "m": np.array(["x", "y", "x"])}
    assert Expression("1 < a < 3")(columns).tolist() == [False, True, False]
    assert Expression("not (a > 1) or m == 'x'")(columns).tolist() == [True, False, True]
    assert Expression("(a > 1) & (sqrt(a**2) / 2 < 1.2)")(columns).tolist() == [False, True, False]
    assert Expression("-a + 4 == maximum(a, 2)")(columns).tolist() == [False, True, False]


def test_streams_of_different_keys_differ_and_the_same_key_repeats():
    seeds = Seeds.of(7)
    keys = [(p, r, b, i) for p in Purpose for r in range(3) for b in range(3) for i in range(3)]
    first = [seeds.generator(*key).random() for key in keys]
    assert len(set(first)) == len(keys)
    assert first == [Seeds.of(7).generator(*key).random() for key in keys]
    trials = {seeds.trial(i).entropy for i in range(1000)}
    assert len(trials) == 1000
    assert Seeds.of(None) != Seeds.of(None)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (8.00312, 0.0123, "8.003(12)"),
        (8.00312, 0.0996, "8.00(10)"),
        (1234.5, 67.0, "1234(67)"),
        (1234.5, 670.0, "1230(670)"),
        (3.14159, 1.2, "3.1(1.2)"),
        (0.5, float("nan"), "0.5(?)"),
        (0.5, float("inf"), "0.5(?)"),
        (0.5, 0.0, "0.5(0)"),
        (-0.00123, 0.00045, "-0.00123(45)"),
        (float("nan"), 0.1, "nan"),
    ],
)
def test_shorthand(value, error, text):
    assert shorthand(value, error) == text


def test_intervals_widen_with_few_degrees_of_freedom():
    few = Estimate("a", 1.0, 0.1, 3.0, 10, 5)
    many = Estimate("a", 1.0, 0.1, 1e6, 10, 5)
    assert few.interval()[1] - 1 == pytest.approx(0.318, abs=1e-3)
    assert many.interval()[1] - 1 == pytest.approx(0.196, abs=1e-4)
    with pytest.raises(fbar.InputError, match="level must lie between 0 and 1"):
        few.interval(95)


def test_distances_of_numbers_whose_squares_are_too_large():
    far = euclidean(np.array([[3e200, 4e200], [3.0, 4.0], [np.inf, 1.0]]), np.zeros(2))
    np.testing.assert_allclose(far, [5e200, 5.0, np.inf])
