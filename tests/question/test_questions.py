"""Standard deviations, correlations, credible intervals and Bayes factors as targets."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.question.targets import OneModel, parse, within
from fbar.question.targets.highest_density import Shortest
from fbar.testing import TargetConformance, influence_by_differences


class TestSd(TargetConformance):
    target = fbar.sd("a")


class TestCorrelation(TargetConformance):
    target = fbar.correlation("a", "b")


POINTS = fbar.Points({"model": np.array(["x", "y", "x", "z", "y"]), "a": [0.5, 1.0, 3.0, 2.0, 0.7]})
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.25, 0.15])


class TestBayesFactor(TargetConformance):
    points = POINTS
    target = fbar.bayes_factor("x", "y", prior_odds=1.0)

    def test_the_target_is_read_from_its_name(self):
        assert parse(self.target.name) == fbar.bayes_factor("x", "y")  # whose odds the prior gives


@pytest.mark.parametrize("target", [fbar.mean("a"), fbar.sd("a"), fbar.probability("a > 0.8"), fbar.variance("a")])
def test_a_target_within_a_model_has_the_influence_function_of_its_own_points(target):
    inside = within(target, OneModel("model", "x"))
    alone = POINTS.take([0, 2])
    assert inside.value(POINTS, WEIGHTS) == pytest.approx(target.value(alone, np.array([0.25, 0.75])))
    assert np.allclose(
        inside.influence(POINTS, WEIGHTS), influence_by_differences(inside, POINTS, WEIGHTS), rtol=1e-5, atol=1e-6
    )


def test_quantiles_and_intervals_within_a_model_use_its_points_only():
    rng = np.random.default_rng(1)
    points = fbar.Points({"model": np.where(rng.random(4000) < 0.5, "x", "y"), "a": rng.standard_normal(4000)})
    weights, rows = np.full(4000, 1 / 4000), np.flatnonzero(points["model"] == "x")
    for target in (fbar.quantile("a", 0.3), fbar.credible_interval("a", 0.8), fbar.hdi("a", 0.8)):
        inside = within(target, OneModel("model", "x"))
        alone = target.value(points.take(rows), np.full(rows.size, 1 / rows.size))
        assert inside.value(points, weights) == pytest.approx(alone)
        psi = inside.influence(points, weights)
        assert not psi[points["model"] == "y"].any()
        assert psi[rows].any(axis=0).all()


# ---------------------------------------------------------------- against closed forms


def test_an_equal_tailed_interval_has_the_quantiles_as_its_ends():
    rng = np.random.default_rng(2)
    points, weights = fbar.Points({"a": rng.gamma(3, size=500)}), np.full(500, 1 / 500)
    ends = fbar.credible_interval("a", 0.9).value(points, weights)
    quantiles = [fbar.quantile("a", level).value(points, weights)[0] for level in (0.05, 0.95)]
    assert ends == pytest.approx(quantiles)


def shortest_of(distribution, level):
    """The exact ends, by the length of intervals on a fine grid."""
    start = np.linspace(0, 1 - level, 200_001)[1:-1]
    low, high = distribution.ppf(start), distribution.ppf(start + level)
    k = int(np.argmin(high - low))
    return low[k], high[k]


def equal_draws(distribution, n):
    return distribution.ppf((np.arange(n) + 0.5) / n), np.full(n, 1 / n)


@pytest.mark.parametrize("distribution", [stats.norm(2, 3), stats.gamma(2), stats.gamma(6), stats.expon()])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_highest_density_is_the_shortest(distribution, level):
    """Of evenly spaced quantiles, which have no noise: what is left is the bias of smoothing."""
    x, w = equal_draws(distribution, 5000)
    found = Shortest.of(x, w, level)
    low, high = shortest_of(distribution, level)
    assert found.ends == pytest.approx((low, high), abs=0.03 * distribution.std())
    assert found.doubts("a") == found.remarks("a") == ()


def test_the_influence_of_the_ends_is_the_derivative():
    """A shift of a normal distribution, in the direction x·φ(x), shifts both ends as much; its spread, in the direction
    (x² − 1)·φ(x), moves them apart by z each."""
    x, w = equal_draws(stats.norm(), 20_000)
    psi = Shortest.of(x, w, 0.9).influence()(x)
    assert (x[:, None] * psi).mean(axis=0) == pytest.approx([1, 1], rel=0.02)
    z = stats.norm.ppf(0.95)
    assert ((x**2 - 1)[:, None] * psi).mean(axis=0) == pytest.approx([-z, z], rel=0.02)


def two_modes(n):
    return np.sort(np.concatenate([equal_draws(stats.norm(m, 1), n // 2)[0] for m in (-4, 4)]))


def test_several_modes_are_reported():
    x = two_modes(2000)
    found = Shortest.of(x, np.full(x.size, 1 / x.size), 0.95)
    assert "several modes" in found.remarks("a")[0]
    half = Shortest.of(x, np.full(x.size, 1 / x.size), 0.45)
    assert any("as short" in text for text in half.doubts("a"))


def test_a_flat_density_has_no_shortest_interval():
    rng = np.random.default_rng(3)
    found = [Shortest.of(rng.random(1000), np.full(1000, 1e-3), 0.95).doubts("a") for _ in range(20)]
    assert all(any("hardly falls" in text for text in doubts) for doubts in found)


def test_too_few_draws_show_no_interval():
    rng = np.random.default_rng(4)
    assert "too few" in " ".join(Shortest.of(rng.standard_normal(50), np.full(50, 0.02), 0.95).doubts("a"))


@pytest.mark.slow
def test_the_ends_of_highest_density_lie_within_their_error_bars():
    """200 samples of 400: 95% intervals that hold in 93% do so in fewer than 170 with a probability of 3·10⁻⁵."""
    rng = np.random.default_rng(5)
    distribution, level = stats.gamma(3), 0.9
    truth, held = np.array(shortest_of(distribution, level)), np.zeros(2)
    for _ in range(200):
        found = Shortest.of(distribution.rvs(400, random_state=rng), np.full(400, 1 / 400), level)
        error = np.sqrt(((found.influence()(found.x) / 400) ** 2).sum(axis=0))
        held += np.abs(np.array(found.ends) - truth) <= 1.97 * error
    assert (held >= 170).all(), held


# ---------------------------------------------------------------- posteriors that are known


@pytest.fixture(scope="module")
def pair():
    """Two normal parameters and two numbers that see the first, and the sum."""

    def simulate(theta, rng):
        seen = np.stack([theta["a"], theta["a"] + theta["b"]], axis=1)
        return seen + rng.standard_normal(seen.shape)

    return fbar.Problem(fbar.Prior(a=stats.norm(0, 2), b=stats.norm(0, 2)), simulate, observed=[1.0, 2.0])


TARGETS = [fbar.sd("a"), fbar.correlation("a", "b"), fbar.credible_interval("a", 0.9), fbar.hdi("b", 0.9)]


def truths():
    inverse = np.eye(2) / 4 + np.array([[2.0, 1.0], [1.0, 1.0]])
    covariance = np.linalg.inv(inverse)
    mean, sd = covariance @ [3.0, 2.0], np.sqrt(np.diag(covariance))
    z = stats.norm.ppf(0.95)
    interval = [[m - z * s, m + z * s] for m, s in zip(mean, sd, strict=True)]
    return [[sd[0]], [covariance[0, 1] / sd.prod()], interval[0], interval[1]]


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [None, 0.3])
def test_answers_are_within_four_errors_of_the_truth(pair, tolerance):
    """A false alarm in about 5 of 10,000 for the six numbers, at a tolerance with the difference that it causes."""
    result = fbar.infer(pair, TARGETS, budget=20_000, tolerance=tolerance, seed=3)
    for target, truth in zip(TARGETS, truths(), strict=True):
        found = result[target.name]
        error = np.atleast_1d(found.standard_error)
        if tolerance is not None:
            assert found.difference is not None
            error = np.hypot(error, np.abs(np.atleast_1d(found.difference.value)))
        assert np.all(np.abs(np.atleast_1d(found.value) - truth) < 4 * error), target.name
        low, high = (np.atleast_1d(end) for end in found.interval(0.9))
        assert np.all(low < np.atleast_1d(found.value))
        assert np.all(np.atleast_1d(found.value) < high)
        assert result.expect(parse(target.name)).value == pytest.approx(found.value)


# ---------------------------------------------------------------- Bayes factors


@pytest.fixture(scope="module")
def coins():
    """Ten throws: a fair coin, or one of unknown bias; the Bayes factor is known."""

    def fair(theta, rng):
        return rng.binomial(10, 0.5, theta.rows)

    def biased(theta, rng):
        return rng.binomial(10, theta["p"])

    models = {"fair": fbar.Model(fair), "biased": fbar.Model(biased, fbar.Prior(p=stats.uniform()))}
    problem = fbar.Problem.models(models, observed=3, probabilities=[0.2, 0.8])
    targets = [fbar.bayes_factor("fair", "biased"), fbar.model_probability("fair")]
    return fbar.infer(problem, targets, tolerance=0, method="rejection", budget=20_000, seed=1)


def test_a_bayes_factor_is_posterior_odds_over_prior_odds(coins):
    exact = stats.binom(10, 0.5).pmf(3) / (1 / 11)
    found = coins["bayes_factor:fair,biased"]
    assert found.value == pytest.approx(exact, abs=4 * found.standard_error)
    chance = coins["model_probability:fair"].value
    assert found.value == pytest.approx(chance / (1 - chance) / (0.2 / 0.8))
    low, high = found.interval()
    assert low * high == pytest.approx(found.value**2)  # symmetric on the logarithmic scale
    assert low < exact < high
    assert coins.expect(parse("bayes_factor:biased,fair")).value == pytest.approx(1 / found.value)


def test_a_model_that_nothing_accepts_has_no_finite_bayes_factor():
    target = fbar.bayes_factor("x", "q", prior_odds=1.0)
    assert math.isinf(target.value(POINTS, WEIGHTS)[0])
    assert "no simulation of model q" in target.doubts(POINTS, WEIGHTS)[0]
    assert not target.influence(POINTS, WEIGHTS).any()


def test_what_is_wrong_is_refused(coins, pair):
    with pytest.raises(fbar.InputError, match="there is no model 'other'; known: fair, biased"):
        fbar.infer(coins.run.problem, fbar.bayes_factor("fair", "other"), tolerance=0, budget=100, method="rejection")
    with pytest.raises(fbar.InputError, match="compares models of an"):
        fbar.infer(pair, fbar.bayes_factor("x", "y"), budget=100)
    with pytest.raises(fbar.InputError, match="needs the prior odds"):
        coins.posterior.expect(fbar.bayes_factor("fair", "biased"))
    with pytest.raises(fbar.InputError, match="two different models"):
        fbar.bayes_factor("a", "a")
    with pytest.raises(fbar.InputError, match="two different parameters"):
        fbar.correlation("a", "a")
    with pytest.raises(fbar.InputError, match="must lie between 0 and 1; got 95"):
        fbar.credible_interval("a", 95)
    with pytest.raises(fbar.InputError, match="kind of credible interval"):
        fbar.credible_interval("a", kind="shortest")
