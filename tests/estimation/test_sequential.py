"""The posterior of one run as the prior of the next: a normal mean with normal data, where all is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.sequential import PosteriorAsPrior
from fbar.testing import finish

PRIOR = fbar.Prior(mu=stats.norm(0, 1))
FIRST, SECOND = 1.0, 0.2
MU = fbar.mean("mu")


def simulate(theta, rng):
    """One observation of a normal variable with mean mu and variance 1."""
    return theta["mu"] + rng.standard_normal(theta.rows)


def posterior(prior, observed, seed, tolerance, budget):
    problem = fbar.Problem(prior, simulate, observed=observed)
    return finish(fbar.Rejection(tolerance=tolerance).start(problem, MU, seed, budget))


def first_as_prior(seed=1, budget=3000):
    return PosteriorAsPrior(posterior(PRIOR, FIRST, seed, 0.2, budget), PRIOR)


def test_the_fit_is_a_distribution_with_the_moments_of_the_sample():
    base = fbar.Prior(a=stats.expon(scale=3), b=stats.norm(0, 5))
    problem = fbar.Problem(base, lambda t, rng: np.stack([t["a"], t["b"]], axis=1), observed=[3.0, 3.0])
    ran = fbar.infer(problem, fbar.mean("a"), method="rejection", tolerance=4.0, budget=20_000, seed=1)
    prior = ran.as_prior()
    u = np.random.default_rng(5).uniform(0.02, 0.98, (200, 2))
    points = prior.from_unit(u)
    again = fbar.Points({name: points[name] for name in points})
    assert np.allclose(prior.to_unit(again), u, atol=1e-9)
    slopes = np.ones(len(u))
    for j, name in enumerate(("a", "b")):  # triangular: a does not depend on the second coordinate
        h = np.zeros(2)
        h[j] = 1e-6
        slopes *= (prior.from_unit(u + h)[name] - prior.from_unit(u - h)[name]) / 2e-6
    assert np.median(np.abs(np.exp(prior.logpdf(again)) * slopes - 1)) < 1e-4  # a knot lies between few of the pairs
    drawn = prior.sample(40_000, rng=np.random.default_rng(2))
    points, weights = ran.posterior.points, ran.posterior.weights
    for name in ("a", "b"):
        mean = float(weights @ points[name])
        spread = math.sqrt(float(weights @ (points[name] - mean) ** 2))
        assert drawn[name].mean() == pytest.approx(mean, abs=0.05 * spread)
        assert drawn[name].std() == pytest.approx(spread, rel=0.1)
    assert (drawn["a"] > 0).all()  # the support of the first prior
    assert np.isneginf(prior.logpdf(fbar.Points({"a": [-1.0], "b": [0.0]}))).all()


def test_the_error_of_the_first_sample_is_that_of_the_product_of_the_weights():
    """Of n draws from π₁ = N(½, ½), with r = π₂/π₁: n⁻¹ ∫ π₂²/π₁ (μ − m₂)²."""
    prior = first_as_prior(budget=20_000)
    second = posterior(prior, SECOND, 2, 0.1, 20_000).expect(MU)
    grid = np.linspace(-6, 7, 20_001)
    one, two = stats.norm(0.5, math.sqrt(0.5)), stats.norm(0.4, math.sqrt(1 / 3))
    variance = float((two.pdf(grid) ** 2 / one.pdf(grid) * (grid - 0.4) ** 2).sum() * (grid[1] - grid[0]))
    assert second.bias == pytest.approx(math.sqrt(variance / prior.effective_size), rel=0.15)
    assert second.standard_error > second.bias
    assert second.trusted


@pytest.mark.slow
def test_intervals_after_two_data_sets_hold_the_posterior_given_both():
    """Of 60 intervals at 95%, 12 or more miss with a probability of 3·10⁻⁵; without the first error 40% do."""
    truth, misses, naive = (FIRST + SECOND) / 3, 0, 0
    for seed in range(60):
        found = posterior(first_as_prior(seed), SECOND, seed + 1000, 0.1, 10_000).expect(MU)
        low, high = found.interval(0.95)
        misses += not low <= truth <= high
        naive += abs(found.value - truth) > 2 * math.sqrt(found.standard_error**2 - found.bias**2)
    assert misses < 12
    assert naive > 12


def test_data_that_contradict_the_first_sample_are_reported():
    prior = first_as_prior()
    assert 200 < prior.effective_size < 400
    with pytest.raises(fbar.InputError, match="too few for a prior"):
        first_as_prior(budget=100)
    found = posterior(prior, 6.0, 3, 1.5, 40_000).expect(MU)
    assert not found.trusted
    assert any("of which the new data leave" in text for text in found.warnings)


def test_quantiles_and_probabilities_know_of_it_and_a_third_run_knows_of_both():
    prior = first_as_prior()
    problem = fbar.Problem(prior, simulate, observed=SECOND)
    targets = [MU, fbar.quantile("mu", 0.9), fbar.probability("mu > 0.5"), fbar.variance("mu")]
    result = fbar.infer(problem, targets, method="rejection", tolerance=0.1, budget=10_000, seed=1)
    both = stats.norm((FIRST + SECOND) / 3, math.sqrt(1 / 3))
    for estimate, truth in zip(result.estimates, (both.mean(), both.ppf(0.9), both.sf(0.5), both.var()), strict=True):
        assert abs(estimate.value - truth) < 4.5 * estimate.standard_error
        assert 0 < estimate.bias < estimate.standard_error
    low, high = result["quantile:mu,0.9"].interval()
    assert high - low > 2 * 1.9 * result["quantile:mu,0.9"].bias
    assert any("the prior is the posterior of an earlier run: " in text for text in result.all_remarks)
    covariance = result.estimates.covariance
    assert np.allclose(np.sqrt(np.diagonal(covariance)), [estimate.standard_error for estimate in result.estimates])
    third = fbar.Problem(result.as_prior(), simulate, observed=1.8)
    found = fbar.infer(third, MU, method="rejection", tolerance=0.1, budget=10_000, seed=1)["mean:mu"]
    assert abs(found.value - 3.0 / 4) < 4.5 * found.standard_error
    assert found.bias > 0.5 * result["mean:mu"].bias


@pytest.mark.slow
def test_two_parameters_at_the_data_and_what_a_simulator_records():
    """First a + b is observed, then a alone: the first posterior is correlated."""

    def total(theta, rng):
        return theta["a"] + theta["b"] + 0.5 * rng.standard_normal(theta.rows)

    def alone(theta, rng):
        x = theta["a"] + 0.5 * rng.standard_normal(theta.rows)
        return {"x": x, "next": theta["b"] + 0.1 * rng.standard_normal(theta.rows)}

    prior = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))
    first = fbar.infer(fbar.Problem(prior, total, observed=1.5), fbar.mean("a"), budget=1500, seed=1)
    problem = fbar.Problem(first.as_prior(), alone, observed=1.0, records=["next"])
    result = fbar.infer(problem, [fbar.mean("a"), fbar.mean("b"), fbar.mean("next")], budget=1500, seed=2)
    design = np.array([[1.0, 1.0], [1.0, 0.0]])
    precision = np.eye(2) + design.T @ design / 0.25
    a, b = np.linalg.solve(precision, design.T @ [1.5, 1.0] / 0.25)
    for name, truth in (("a", a), ("b", b), ("next", b)):
        estimate = result[f"mean:{name}"]
        assert abs(estimate.value - truth) < 4.5 * estimate.standard_error
        assert estimate.standard_error < 0.5


@pytest.mark.slow
def test_recorded_runs_of_such_a_prior_load_and_resume(tmp_path):
    problem, options = fbar.Problem(PRIOR, simulate, observed=FIRST), {"method": "rejection", "tolerance": 0.2}
    fbar.infer(problem, MU, budget=1000, seed=1, run=tmp_path / "first", **options)
    second = fbar.Problem(fbar.load(tmp_path / "first", problem).as_prior(), simulate, observed=SECOND)
    made = fbar.infer(second, MU, budget=2000, seed=2, run=tmp_path / "second", **options)
    again = fbar.Problem(fbar.load(tmp_path / "first", problem).as_prior(), simulate, observed=SECOND)
    loaded = fbar.load(tmp_path / "second", again)
    assert loaded["mean:mu"].value == made["mean:mu"].value
    assert loaded["mean:mu"].standard_error == made["mean:mu"].standard_error
    assert fbar.extend(tmp_path / "second", again, budget=3000).simulations == 3000
    other = fbar.infer(problem, MU, budget=1000, seed=9, **options).as_prior()
    with pytest.raises(fbar.InputError, match=r"problem\.prior"):
        fbar.load(tmp_path / "second", fbar.Problem(other, simulate, observed=SECOND))


def ran(prior, function=lambda t, rng: t["a"] + rng.standard_normal(t.rows)):
    problem = fbar.Problem(prior, function, observed=1.0)
    return fbar.infer(problem, fbar.mean("a"), method="rejection", tolerance=1.0, budget=300, seed=1)


def test_what_cannot_be_a_prior_is_refused_in_one_line():
    square = fbar.truncate(fbar.Prior(a=stats.uniform(0, 1), b=stats.uniform(0, 1)), where="a + b < 1")
    for prior, text in (
        (fbar.Prior(a=stats.poisson(3)), "'a' takes single values"),
        (fbar.Prior(a=stats.norm(), kind=fbar.Categorical([1, 2])), "'kind' takes single values"),
        (square, "has no coordinates in the unit cube"),
    ):
        with pytest.raises(fbar.InputError, match=text) as caught:
            ran(prior).as_prior()
        assert "\n" not in str(caught.value)
    as_prior = ran(fbar.Prior(a=stats.norm())).as_prior()
    with pytest.raises(fbar.InputError, match="in a choice of models that is not supported"):
        fbar.Problem.models({"one": fbar.Model(simulate, as_prior)}, 1.0)
    with pytest.raises(fbar.InputError, match="restrict the prior of that run"):
        fbar.truncate(as_prior, where="a > 0")


@pytest.mark.parametrize("tolerance", [None, 0.5])
def test_parts_of_the_error_of_a_quantile_add_up(tolerance):
    """The total error has the bias in it once: the rest is the Monte Carlo error, which is not 0."""
    first = fbar.infer(fbar.Problem(PRIOR, simulate, FIRST), MU, budget=2000, seed=1)
    targets = [MU, fbar.credible_interval("mu", 0.9), fbar.quantile("mu", 0.8)]
    problem = fbar.Problem(first.as_prior(), simulate, SECOND)
    for estimate in fbar.infer(problem, targets, tolerance=tolerance, budget=2000, seed=2).estimates:
        assert (np.asarray(estimate.bias) < estimate.standard_error).all()
        monte_carlo = np.sqrt(np.square(estimate.standard_error) - np.square(estimate.bias))
        assert (monte_carlo > 0.05 * np.asarray(estimate.standard_error)).all()
