"""Model probabilities by a local logistic regression: closed forms, and errors against those of replications."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

import fbar
from fbar.estimation.at_data.local import local
from fbar.estimation.at_data.model_shares import ModelShares, model_shares
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.prepared import prepare
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

SLOPES = {2: np.array([[0.0, 0.0], [0.7, 2.0]]), 3: np.array([[0.0, 0.0], [0.7, 2.0], [-0.5, -1.5]])}
"""Intercept and slope of the log odds of each model, of which the first is the reference."""


def drawn(rng, models, n=400):
    """Rows x, weights that differ by a factor of ten, and models whose log odds are linear in x."""
    x = np.column_stack([np.ones(n), rng.normal(0.3, 1, n)])
    omega = rng.uniform(0.1, 1, n)
    probabilities = softmax(x @ SLOPES[models].T, axis=1)
    model = (rng.uniform(size=n)[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    return x, omega / omega.sum(), np.minimum(model, models - 1)


@pytest.mark.parametrize("models", [2, 3])
def test_probabilities_and_errors_are_those_of_replications(models):
    """400 replications: means within 4.5 standard errors of the truth (one alarm in 40,000 for 3 numbers), and
    the mean of Σz² within 30% of the variance, which is known to 7%."""
    truth = softmax(SLOPES[models][:, 0])
    values, variances = [], []
    for seed in range(400):
        found = model_shares(*_with_ridge(*drawn(np.random.default_rng([models, seed]), models)))
        values.append(found.value)
        variances.append((found.influence**2).sum(axis=0))
        assert found.value.sum() == pytest.approx(1)
        np.testing.assert_allclose(found.influence.sum(axis=1), 0, atol=1e-12)
    observed = np.var(values, axis=0, ddof=1)
    assert (np.abs(np.mean(values, axis=0) - truth) < 4.5 * np.sqrt(observed / 400)).all()
    np.testing.assert_allclose(np.mean(variances, axis=0), observed, rtol=0.3)


def _with_ridge(x, omega, model, ridge=1e-6):
    return x, omega, np.array([0.0, *[ridge] * (x.shape[1] - 1)]), model


def test_influence_values_are_derivatives():
    """By central differences of the weight of single rows; what a row has in its own fit apart."""
    x, omega, model = drawn(np.random.default_rng(3), 3, n=200)
    found = model_shares(*_with_ridge(x, omega, model))
    for row in range(0, 200, 20):
        values = []
        for sign in (1, -1):
            other = omega.copy()
            other[row] *= 1 + sign * 1e-4
            values.append(model_shares(*_with_ridge(x, other, model)).value)
        derivative = (values[0] - values[1]) / 2e-4
        np.testing.assert_allclose(found.influence[row], derivative, rtol=0.15, atol=1e-5)


def test_models_that_are_apart_have_a_finite_answer():
    x = np.column_stack([np.ones(60), np.linspace(-1, 2, 60)])
    model = (x[:, 1] > 0.5).astype(int)  # the data are at 0, among the first model's
    found = model_shares(x, np.full(60, 1 / 60), np.array([0.0, 1e-3]), model)
    assert found.value[0] > 0.95
    assert np.isfinite(found.influence).all()
    assert model_shares(x, np.full(60, 1 / 60), np.array([0.0, 1e-3]), np.zeros(60, dtype=int)) is None


def test_three_models_far_from_the_data_have_no_negative_probability():
    rng = np.random.default_rng(5)
    for _ in range(40):
        model = rng.integers(3, size=200)
        x = np.column_stack([np.ones(200), 12 + 4 * model + rng.standard_normal(200)])
        found = model_shares(*_with_ridge(x, np.full(200, 1 / 200), model, ridge=1e-3))
        if found is not None:
            assert found.value.min() >= 0
            assert np.isfinite(found.means(found.given(np.full(200, 1 / 200), np.full(200, 1 / 200)), x)).all()


def test_weights_that_cancel_within_a_model_are_replaced():
    """Of signed weights whose sum is almost 0, the mean within the model would be anything."""
    found = ModelShares(np.array([0, 0, 1, 1]), np.array([0.7, 0.3]), np.zeros((4, 2)))
    signed, positive = np.array([0.6, 0.4, 1.0, -0.999]), np.full(4, 0.25)
    weights = found.given(signed, positive)
    np.testing.assert_allclose(weights, [0.42, 0.28, 0.15, 0.15])
    np.testing.assert_allclose(found.means(weights, np.array([[1.0], [1.0], [2.0], [4.0]])), [[1.0], [3.0]])


def test_numbers_that_depend_on_the_model_only_have_the_error_of_its_probability():
    """ψ = 5 in the second model and 3 in the first: its error is 2 times that of the probability of the second."""
    rng = np.random.default_rng(6)
    prior = fbar.ModelChoice({"first": fbar.Prior(a=stats.norm(0, 1)), "second": fbar.Prior(a=stats.norm(1, 1))})
    theta = prior.sample(800, rng=rng)
    second = theta["model"] == "second"
    s = np.column_stack([theta["a"] + second, theta["a"]]) + rng.standard_normal((800, 2))
    moved = move(prepare(portion(prior, theta, s, [0.3, 0.2])), 0.8, 1)
    weights = local(moved, 0.7)
    assert weights.models is not None
    np.testing.assert_allclose(weights.ell.sum(), 1)
    psi = np.where(second[moved.prepared.rows[moved.rows[weights.at]]], 5.0, 3.0)[:, None]
    np.testing.assert_allclose(weights.ell @ psi, 3 + 2 * weights.models.value[1])
    np.testing.assert_allclose(weights.residuals(psi)[:, 0], 2 * weights.models.influence[:, 1], atol=1e-12)


@pytest.mark.slow
def test_the_probability_of_a_model_whose_odds_change_fast():
    """Two normal models a distance apart: log odds are linear in s, and P(second | s*) is 0.119 by Bayes' theorem.

    24 runs; intervals hold in at least 18 (one alarm in 7,000 if they hold in 95%), and the mean is within four of its
    standard errors and 0.01, which is left for the bias that the errors allow for.
    """
    models = {"first": fbar.Prior(a=stats.norm(0, 0.1)), "second": fbar.Prior(b=stats.norm(2, 0.1))}
    prior = fbar.ModelChoice(models)

    def simulate(theta, rng):
        return np.where(np.isnan(theta["a"]), theta["b"], theta["a"]) + rng.standard_normal(theta.rows)

    problem = fbar.Problem(prior, simulate, observed=0.0)
    variance = 1.01
    truth = 1 / (1 + np.exp(2**2 / (2 * variance)))
    asked, method = fbar.model_probability("second"), fbar.Rejection()
    estimates = [
        fbar.infer(problem, asked, method=method, budget=1500, seed=seed, progress=False).estimates[0]
        for seed in range(24)
    ]
    values = np.array([float(estimate.value) for estimate in estimates])
    assert sum(low <= truth <= high for low, high in (estimate.interval() for estimate in estimates)) >= 18
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(24) + 0.01
