"""What every problem with a truth for any data promises: precise truths, densities and draws, no data that cannot be.

Random comparisons hold |z| < 5; a test of m of them raises a false alarm with a probability below m · 6·10⁻⁷.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from catalogue_references import CONTINUOUS, NAMES, columns, reference
from fbar.problems import catalogue
from fbar.problems.models import counts, g_and_k, lotka_volterra, mg1, sir
from fbar.question.points import Points

pytestmark = pytest.mark.arithmetic

# ------------------------------------------------------------ likelihoods in another way


def sir_likelihood(x, theta):
    share = np.exp(sir.log_infected(*theta.T))
    return stats.binom.logpmf(x, 1000, share).sum(axis=1)


def lotka_volterra_likelihood(x, theta):
    return stats.lognorm.logpdf(x, 0.1, scale=np.exp(lotka_volterra.log_states(theta))).sum(axis=1)


def g_and_k_likelihood(x, theta):
    """z by bisection of the quantile function itself, and the derivative of its product form."""
    low, high = np.full((len(theta), x.size), -9.0), np.full((len(theta), x.size), 9.0)
    for _ in range(56):
        middle = (low + high) / 2
        below = g_and_k.quantile(middle, theta) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    z = (low + high) / 2
    _, b, g, k = (theta[:, j, None] for j in range(4))
    t = np.tanh(g * z / 2)
    inner = (1 + 0.8 * t) * (1 + (2 * k + 1) * z**2) / (1 + z**2) + 0.4 * g * z * (1 - t**2)
    return (stats.norm.logpdf(z) - np.log(b * (1 + z**2) ** k * inner)).sum(axis=1)


def ma2_likelihood(x, theta):
    """From the covariance matrices themselves."""
    result = []
    for a, b in theta:
        rows = np.zeros((100, 102))
        for lag, weight in ((2, 1.0), (1, a), (0, b)):
            rows[np.arange(100), np.arange(100) + lag] = weight
        covariance = rows @ rows.T
        sign, log_det = np.linalg.slogdet(covariance)
        assert sign > 0
        result.append(-(x @ np.linalg.solve(covariance, x) + log_det + 100 * math.log(2 * math.pi)) / 2)
    return np.array(result)


LIKELIHOODS = {
    "sir": sir_likelihood,
    "lotka-volterra": lotka_volterra_likelihood,
    "g-and-k": g_and_k_likelihood,
    "ma2": ma2_likelihood,
    "mg1": mg1.log_likelihood,  # held against simulations below
    "filippi": lambda y, theta: stats.norm.logpdf(y, (theta[:, 0] - 2 * theta[:, 1]) ** 2 + (theta[:, 1] - 4) ** 2),
}
SIZES = {"sir": 10_000, "lotka-volterra": 6_000, "g-and-k": 3_000, "ma2": 800, "mg1": 20_000, "filippi": 50_000}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS)
def test_truth_and_density_agree_with_plain_importance_sampling(name):
    """From a Student t of all parameters, with the prior's own density and a likelihood computed in another way."""
    rng = np.random.default_rng(7)
    ref, recipe = reference(name), catalogue.recipe(name)
    data = 3.0 if name == "filippi" else catalogue.load(name, 10).data
    draws = columns(ref.sample(2000, rng))
    proposal = stats.multivariate_t(draws.mean(axis=0), 1.3 * np.cov(draws.T), df=5, seed=rng)
    theta = proposal.rvs(SIZES[name])
    points = Points(dict(zip(recipe.prior.names, theta.T, strict=True)))
    log_prior = recipe.prior.logpdf(points)
    log_w = np.full(len(theta), -np.inf)
    inside = np.isfinite(log_prior)
    log_w[inside] = log_prior[inside] + LIKELIHOODS[name](data, theta[inside])
    log_w -= proposal.logpdf(theta)

    w = np.exp(log_w - ref.log_evidence)  # the evidence, and with it the density's integral
    assert abs(w.mean() - 1) < 5 * w.std() / math.sqrt(w.size)
    assert w.sum() ** 2 / (w**2).sum() > 300
    density = np.exp(ref.log_density(points) - proposal.logpdf(theta))
    np.testing.assert_allclose(density, w, rtol=1e-5, atol=1e-12)
    for item in ref.truth().values():
        kind, parameter = item.name.split(":")
        f = points[parameter] ** (2 if kind == "second_moment" else 1)
        value = (w * f).sum() / w.sum()
        error = math.hypot(math.sqrt((w**2 * (f - value) ** 2).sum()) / w.sum(), item.standard_error)
        assert abs(value - item.value) < 5 * error, item
        square = (f - value) ** 2
        variance = (w * square).sum() / w.sum()
        error = math.sqrt((w**2 * (square - variance) ** 2).sum()) / w.sum()
        assert abs(item.deviation**2 - variance) < 5 * error, item


# ------------------------------------------------------------ the contract


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_truth_is_precise_and_complete(name):
    for observation in range(1, 11):
        problem = catalogue.load(name, observation)
        truth = problem.truth()
        wanted = {f"{kind}:{p}" for p in problem.prior.names if p != "model" for kind in ("mean", "second_moment")}
        if name == "poisson-or-geometric":
            wanted |= {"model_probability:poisson", "model_probability:geometric"}
        assert set(truth) == wanted
        for item in truth.values():
            assert item.standard_error <= 3e-4 * item.deviation, item
        assert truth.how
        theta, data = problem.recipe.draw(observation)
        np.testing.assert_allclose(problem.data, data, rtol=1e-6)
        assert problem.true_parameters is not None
        for parameter, value in problem.true_parameters.items():
            assert theta[parameter][0] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9))
        assert 0 <= problem.tolerances[1e-3] <= problem.tolerances[1e-2]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_draws_agree_with_the_truth(name):
    ref = counts.CountsPosterior(np.arange(20.0) % 4) if name == "poisson-or-geometric" else reference(name)
    draws = ref.sample(4000, np.random.default_rng(3))
    for item in ref.truth().values():
        kind, parameter = item.name.split(":")
        if kind == "model_probability":
            f, rows = (draws["model"] == parameter).astype(float), 4000
        else:
            there = draws.present(parameter)
            f, rows = draws[parameter][there] ** (2 if kind == "second_moment" else 1), 4000
        assert abs(f.mean() - item.value) < 5 * math.hypot(item.deviation / math.sqrt(rows), item.standard_error), item
    for parameter in draws:
        if parameter != "model":
            values = draws[parameter][draws.present(parameter)]
            assert np.unique(values).size > 0.95 * values.size  # continuous


@pytest.mark.parametrize("name", NAMES)
def test_data_of_a_wrong_length_are_refused(name):
    with pytest.raises(fbar.InputError, match=f"the data of {name} are") as caught:
        catalogue.load(name).with_observed([1.0, 2.0, 3.0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("sir", -1.0, "whole numbers from 0 to 1000; got -1"),
        ("sir", 0.5, "whole numbers from 0 to 1000; got 0.5"),
        ("sir", 1001.0, "whole numbers from 0 to 1000; got 1001"),
        ("lotka-volterra", 0.0, "greater than 0; got 0"),
        ("mg1", -2.0, "greater than 0; got -2"),
        ("poisson-or-geometric", 1.5, "whole numbers from 0 to 1e15; got 1.5"),
        ("ma2", math.nan, "finite"),
    ],
)
def test_data_that_the_simulator_cannot_give_are_refused(name, bad, message):
    data = np.ones(catalogue.recipe(name).shape)
    data[3] = bad
    with pytest.raises(fbar.InputError, match=message):
        catalogue.load(name).with_observed(data)


def test_g_and_k_is_defined_at_the_edges_of_its_prior():
    theta = np.array(
        [[a, b, g, k] for a in (1e-9, 10) for b in (1e-200, 1e-9, 10) for g in (1e-9, 10) for k in (0, 10)]
    )
    value = g_and_k.log_likelihood(np.linspace(-1e6, 1e6, 100), theta)
    assert not np.isnan(value).any()
    assert (value < -1000).all()


def test_repeated_values_are_no_data_of_g_and_k():
    with pytest.raises(fbar.InputError, match="got 1 distinct values"):
        catalogue.load("g-and-k").with_observed(np.ones(100))


@pytest.mark.parametrize("name", NAMES)
def test_the_prior_s_tails_are_simulated_without_a_warning(name):
    recipe = catalogue.recipe(name)
    ends = np.array([1e-14, 0.5, 1 - 1e-14])
    unit = np.array(np.meshgrid(*[ends] * recipe.prior.dimension)).reshape(recipe.prior.dimension, -1).T
    theta = recipe.prior.from_unit(unit)
    x = np.asarray(recipe.simulate(theta, np.random.default_rng(1)))
    assert x.shape == (theta.rows, *recipe.shape)
    assert np.isfinite(x).all()
    if recipe.summary is not None:
        assert np.isfinite(recipe.summary(x)).all()
