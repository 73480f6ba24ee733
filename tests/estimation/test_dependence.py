"""How strongly numbers depend on one another, whatever their scales: concordances and correlations of groups."""

import numpy as np
import pytest

from fbar.estimation.at_data.basis import UNCUT, Basis, Numbers
from fbar.estimation.at_data.dependence import Dependence
from fbar.estimation.at_data.learned_summaries import learn

pytestmark = pytest.mark.arithmetic


def groups(n):
    return np.arange(n) % 4


def pairs(n, distractors, seed=1):
    """Four pairs of normal numbers of correlation tanh v, whose scales vary by orders of magnitude, among others."""
    rng = np.random.default_rng(seed)
    v = rng.uniform(-3, 3, n)
    z, scale = rng.standard_normal((2, n, 4)), np.exp(1.5 * rng.standard_normal((2, n, 1)))
    first, second = z[0] * scale[0], (np.tanh(v)[:, None] * z[0] + z[1] / np.cosh(v)[:, None]) * scale[1]
    middle = rng.standard_normal((2, n, 1)) * 3
    others = rng.standard_normal((n, distractors))
    return np.column_stack([middle[0], v]), np.hstack([first + middle[0], second + middle[1], others])


@pytest.mark.parametrize("distractors", [0, 20])
def test_a_correlation_is_learned_whatever_the_scales_are(distractors):
    v, x = pairs(4000, distractors)
    found = learn(x, pairs(1, distractors, seed=8)[1][0], v, groups(len(x)))
    of_correlation = next(function for function in found.functions if (function.of, function.kind) == (1, "mean"))
    assert len(found.near.basis.dependence.concordant) >= 6
    assert len(found.near.basis.dependence.matched) >= 1
    inside = found.place(x, groups(len(x))).inside
    fisher = np.arctanh(np.clip([np.corrcoef(row[:4], row[4:8])[0, 1] for row in x[inside]], -0.999, 0.999))
    explained = np.corrcoef(fisher, v[inside, 1])[0, 1] ** 2
    assert of_correlation.explained > (0.75 if distractors else 0.9) * explained  # by products only: 0.15


@pytest.mark.parametrize("sign", [1, -1])
def test_the_correlation_of_two_groups_is_that_of_the_pairs(sign):
    """In any order of the numbers; a parameter that falls with it is shown by its negative."""
    v, x = pairs(3000, 0)
    place = np.array([3, 0, 6, 1, 7, 2, 5, 4])
    shuffled = np.empty_like(x)
    shuffled[:, place] = x
    found = Dependence.among(shuffled, np.arange(8), sign * v[:, 1:])
    assert [len(each) for each in found.matched] == [6]
    values = found.correlations(shuffled)
    known = np.array([np.corrcoef(row[:4], row[4:])[0, 1] for row in x])
    np.testing.assert_allclose(values[:, 0], sign * np.arctanh(np.clip(known, -0.999, 0.999)), atol=1e-9)
    x[:, 4:] *= 10.0 ** np.random.default_rng(2).uniform(-3, 3, (3000, 1))
    shuffled[:, place] = x
    np.testing.assert_allclose(found.correlations(shuffled), values, atol=1e-6)


def test_correlations_of_constant_and_of_huge_numbers_are_numbers():
    v, x = pairs(1000, 0)
    found = Dependence.among(x, np.arange(8), v)
    assert not found.correlations(np.ones((2, 8))).any()
    assert np.isfinite(found.correlations(1e300 * np.sign(x))).all()


def test_concordances_are_those_of_the_definition():
    v, x = pairs(1000, 20, seed=3)
    numbers, star = Numbers.of(x), Numbers.of(x[:1])
    basis = Basis.near(numbers, star, v, dependence=True)
    columns = basis(numbers)[:, basis.columns()["concordances"]]
    assert columns.shape[1] == len(basis.dependence.concordant) > 0
    for column, (i, j, k, m) in zip(columns.T, basis.dependence.concordant, strict=True):
        agree = np.sign(x[:, i] - x[:, j]) * np.sign(x[:, k] - x[:, m])
        np.testing.assert_array_equal(column, agree - agree[0])
        found = np.corrcoef(agree, np.hstack([v, v**2]).T)[0, 1:]
        assert np.abs(found).max() > 5 / np.sqrt(1000)
    bent = Basis.near(Numbers.of(np.exp(x / 50)), Numbers.of(np.exp(x[:1] / 50)), v, dependence=True)
    assert len(bent.dependence.concordant) > 0
    assert Basis.near(numbers, star, v).dependence.concordant.size == 0


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5])
def test_the_mean_concordance_of_normal_pairs_is_known_for_all_scales(rho):
    rng = np.random.default_rng(6)
    z, scale = rng.standard_normal((2, 40_000, 2)), np.exp(2 * rng.standard_normal((2, 40_000, 1)))
    x = np.hstack([3 + scale[0] * z[0], scale[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])])
    star = Numbers(np.array([[0.0, 1.0, 0.0, 1.0]]), np.zeros((1, 0)))
    basis = Basis(star, np.ones(4), np.zeros(0), np.arange(4), Dependence(np.array([[0, 1, 2, 3]])), UNCUT)
    columns = basis(Numbers(x, np.zeros((len(x), 0))))[:, basis.columns()["concordances"]]
    assert columns.mean() + 1 == pytest.approx(2 / np.pi * np.arcsin(rho), abs=5 / np.sqrt(40_000))


def test_noise_has_no_concordances():
    rng = np.random.default_rng(4)
    x, v = rng.standard_normal((2000, 20)), rng.standard_normal((2000, 2))
    assert Basis.near(Numbers.of(x), Numbers.of(x[:1]), v, dependence=True).dependence.concordant.size == 0
