"""Divergences, posterior and likelihood errors, against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

import fbar
from fbar import problems, theory
from fbar.errors import InputError
from fbar.scores import Approximation, Scene, as_approximation, as_score, divergences, metrics
from fbar.scores.density import kernel_density

pytestmark = pytest.mark.arithmetic

P_HAT, P = np.array([0.2, 0.5, 0.3]), np.array([0.25, 0.25, 0.5])
SHIFT, DIMENSION, VARIANCE = 0.6, 10, 0.05


def test_finite_divergences_by_hand():
    assert divergences.kl(P_HAT, P) == pytest.approx(stats.entropy(P_HAT, P))
    assert divergences.kl([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert divergences.kl([0.5, 0.5], [1.0, 0.0]) == np.inf
    assert divergences.chi2(P_HAT, P) == pytest.approx(0.05**2 / 0.25 + 0.25**2 / 0.25 + 0.2**2 / 0.5)
    assert divergences.chi2([0.5, 0.5, 0], [1.0, 0, 0]) == np.inf
    assert divergences.hellinger(P_HAT, P) == pytest.approx(math.sqrt(1 - np.sqrt(P_HAT * P).sum()))
    assert divergences.hellinger([1, 0], [0, 1]) == pytest.approx(1.0)
    assert divergences.jensen_shannon(P_HAT, P) == pytest.approx(jensenshannon(P_HAT, P) ** 2)
    assert divergences.jensen_shannon([1, 0], [0, 1]) == pytest.approx(math.log(2))
    assert divergences.posterior_mse(P_HAT, P) == pytest.approx(0.05**2 + 0.25**2 + 0.2**2)


@pytest.mark.parametrize(
    ("phi", "function"),
    [
        (divergences.phi_kl, divergences.kl),
        (divergences.phi_reverse_kl, lambda a, b: divergences.kl(b, a)),
        (divergences.phi_chi2, divergences.chi2),
        (divergences.phi_hellinger, lambda a, b: divergences.hellinger(a, b) ** 2),
        (divergences.phi_jensen_shannon, divergences.jensen_shannon),
    ],
)
def test_each_phi_is_that_of_its_divergence(phi, function):
    assert (P * phi(P_HAT / P)).sum() == pytest.approx(float(function(P_HAT, P)))
    t = np.linspace(0.01, 5, 200)
    assert (phi(t) >= -1e-15).all()


def test_smooth_divergences_are_the_papers_leading_term_in_both_directions():
    p_hat = P + np.array([1e-4, -2e-4, 1e-4])
    leading = theory.phi_divergence_approximation(p_hat, P)  # with curvature 1
    for value, curvature in (
        (divergences.kl(p_hat, P), 1),
        (divergences.kl(P, p_hat), 1),
        (divergences.chi2(p_hat, P), 2),
        (divergences.hellinger(p_hat, P) ** 2, 0.25),
        (divergences.jensen_shannon(p_hat, P), 0.25),
    ):
        assert value == pytest.approx(curvature * float(leading), rel=2e-3)


CLOSED = {
    "kl": SHIFT**2 / 2,
    "reverse-kl": SHIFT**2 / 2,
    "chi2": math.expm1(SHIFT**2),
    "hellinger": math.sqrt(-math.expm1(-(SHIFT**2) / 8)),
    "jensen-shannon": None,
    "tv": 2 * stats.norm.cdf(SHIFT / 2) - 1,
    "posterior-mse": 2 * (4 * math.pi * VARIANCE) ** (-DIMENSION / 2) * -math.expm1(-(SHIFT**2) / 4),
}


def gaussian(seed, size=2000):
    problem = problems.load("gaussian-linear")
    scene = Scene(problem, (), seed=seed, truth_size=size)

    def density(points):
        shifted = {name: points[name] for name in points}
        shifted["theta1"] = shifted["theta1"] - SHIFT * math.sqrt(VARIANCE)
        return problem.reference.log_density(fbar.Points(shifted))

    return Approximation(None, None, 1, density=density), scene


@pytest.mark.parametrize("name", CLOSED)
def test_gaussian_densities_have_their_closed_form(name):
    truth = CLOSED[name]
    if truth is None:  # one integral over the shifted coordinate
        x = np.linspace(-12, 12, 20_001)
        p, q = stats.norm.pdf(x), stats.norm.pdf(x, SHIFT)
        m = (p + q) / 2
        truth = ((p * np.log(p / m) + q * np.log(q / m)) / 2).sum() * (x[1] - x[0])
    found = np.array([as_score(name).compute(*gaussian(seed))[""] for seed in range(12)])
    if name == "hellinger":
        found, truth = found**2, truth**2  # the root of a mean is not unbiased
    z = (found.mean() - truth) / (found.std(ddof=1) / math.sqrt(12))
    assert abs(z) < 6  # eleven degrees of freedom
    assert found.std(ddof=1) < 0.3 * truth


def test_the_density_estimate_is_a_density_and_has_scotts_bandwidth():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(50) * 1000, rng.random(50)
    at = np.linspace(-9000, 9000, 4001)
    density = np.exp(kernel_density(x, w)(at[:, None]))
    assert density.sum() * (at[1] - at[0]) == pytest.approx(1.0, rel=1e-6)
    w = w / w.sum()
    spread = (w @ (x - w @ x) ** 2) / (1 - (w**2).sum())
    variance = (density * (at - w @ x) ** 2).sum() * (at[1] - at[0])
    expected = w @ (x - w @ x) ** 2 + spread * (1 / (w**2).sum()) ** (-2 / 5)
    assert variance == pytest.approx(expected, rel=1e-4)


def test_the_density_estimate_is_scipys_in_any_units(monkeypatch):
    rng = np.random.default_rng(4)
    mixing = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.1, -1.0, 0.3]])
    x, at, w = rng.standard_normal((70, 3)) @ mixing + 50, rng.standard_normal((40, 3)) @ mixing + 50, rng.random(70)
    for bandwidth in ("scott", "silverman"):
        expected = stats.gaussian_kde(x.T, bandwidth, weights=w).logpdf(at.T)
        monkeypatch.setattr("fbar.scores.density.PAIRS", 2**21)
        assert kernel_density(x, w, bandwidth)(at) == pytest.approx(expected, rel=1e-9)
        monkeypatch.setattr("fbar.scores.density.PAIRS", 200)  # a few rows at a time
        assert kernel_density(x, w, bandwidth)(at) == pytest.approx(expected, rel=1e-9)
        unit = np.array([1e-6, 1.0, 1e6])
        scaled = kernel_density(x * unit, w, bandwidth)(at * unit)
        assert scaled == pytest.approx(expected, rel=1e-7)  # the units' product is 1


def test_samples_are_scored_by_the_density_estimate():
    problem = fbar.problems.load("gaussian-linear")
    scene = Scene(problem, (), truth_size=500)
    points = problem.reference.sample(400, np.random.default_rng(1))
    near = Approximation(points, np.full(400, 1 / 400), 400)
    far = Approximation(
        fbar.Points({name: points[name] + (name == "theta1") * 1.0 for name in points}), near.weights, 400
    )
    for name in ("tv", "kl", "reverse-kl", "hellinger", "jensen-shannon"):
        assert as_score(name).compute(far, scene)[""] > 1.1 * as_score(name).compute(near, scene)[""] > 0
    assert metrics.TotalVariation("silverman").compute(near, scene) != metrics.TotalVariation().compute(near, scene)


def test_a_density_estimate_needs_points_that_span_the_space():
    with pytest.raises(InputError, match="at least 4 distinct"):
        kernel_density(np.zeros((9, 2)))
    line = np.linspace(0, 1, 20)
    with pytest.raises(InputError, match="fewer dimensions"):
        kernel_density(np.column_stack([line, np.zeros(20)]))


# ---------------------------------------------------------------- likelihoods of a finite prior


def finite_run(method, budget, seed=1):
    problem = problems.load("ten-values")
    result = fbar.infer(problem, fbar.mean("theta"), method=method, budget=budget, seed=seed)
    return result, Scene(problem, (fbar.mean("theta"),)), as_approximation(result.posterior, problem, budget)


def test_an_allocation_carries_its_likelihoods():
    result, scene, approximation = finite_run(fbar.Allocation("prior"), 2000)
    cells = result.posterior.errors.cells
    p_hat = cells.hits / cells.counts
    expected = (0.1**2 * (p_hat - scene.problem.p_star) ** 2).sum()
    assert as_score("unnormalised-mse").compute(approximation, scene)[""] == pytest.approx(expected)
    assert as_score("log-likelihood").compute(approximation, scene)[""] == np.inf  # θ = 1 matches once in 6·10⁸


def test_importance_sampling_carries_its_likelihoods_too():
    result, scene, approximation = finite_run(fbar.Importance("max-ess"), 4000)
    prior, z = scene.problem.finite.probabilities, approximation.posterior.likelihood
    assert theory.posterior(prior, z) == pytest.approx(result.posterior.weights)
    assert as_score("unnormalised-mse").compute(approximation, scene)[""] < 1e-4


def test_the_unnormalised_error_is_the_papers_variance():
    rng = np.random.default_rng(2)
    prior, p, n = np.array([0.5, 0.5]), np.array([0.3, 0.05]), np.array([40, 60])
    found = divergences.unnormalised_mse(prior, rng.binomial(n, p, (4000, 2)) / n, p)
    z = (found.mean() - theory.unnormalised_variance(prior, p, n)) / (found.std(ddof=1) / math.sqrt(4000))
    assert abs(z) < 5


def test_log_likelihood_takes_unbiased_estimates_where_there_are_any():
    problem = problems.load("two-hypotheses")
    scene = Scene(problem, ())
    started = fbar.InverseBinomial(20).start(problem, fbar.mean("theta"), 3)
    fbar.drive(started)
    own = started.log_likelihood().value
    posterior = started.posterior()
    given = Approximation(posterior.points, posterior.weights, 1, posterior=posterior, likelihood=own)
    expected = (0.5 * (own - np.log(problem.p_star)) ** 2).sum()
    assert as_score("log-likelihood").compute(given, scene)[""] == pytest.approx(expected)
    without = as_approximation(posterior, problem, 1)
    assert as_score("log-likelihood").compute(without, scene)[""] != pytest.approx(expected, rel=1e-3)
    # For the likelihood itself it is the other way round: exp of an unbiased logarithm is biased.
    unnormalised = (0.25 * (posterior.likelihood - problem.p_star) ** 2).sum()
    assert as_score("unnormalised-mse").compute(given, scene)[""] == pytest.approx(unnormalised)


def test_log_likelihood_of_values_never_matched():
    prior = [0.5, 0.5]
    assert divergences.log_likelihood_mse(prior, [math.log(0.2), -np.inf], [0.2, 0.1]) == np.inf
    assert divergences.log_likelihood_mse(prior, [math.log(0.2), math.nan], [0.2, 0.1]) == np.inf
    assert divergences.log_likelihood_mse(prior, [math.log(0.2), -np.inf], [0.2, 0.0]) == pytest.approx(0.0)
    assert divergences.log_likelihood_mse([1.0, 0.0], [math.log(0.4), -np.inf], [0.2, 0.1]) == pytest.approx(
        math.log(2) ** 2
    )


def test_weights_alone_hold_no_likelihood():
    problem = problems.load("two-hypotheses")
    given = Approximation(problem.points, np.array([0.5, 0.5]), 10)
    for name in ("log-likelihood", "unnormalised-mse"):
        with pytest.raises(InputError, match="no estimates of the likelihood"):
            as_score(name).compute(given, Scene(problem, ()))
        with pytest.raises(InputError, match="finitely many values"):
            as_score(name).compute(given, Scene(problems.load("ramp"), ()))


def test_points_of_a_finite_prior_are_counted_into_its_values():
    problem = problems.load("two-hypotheses")
    draws = Approximation(fbar.Points({"theta": [1, 2, 1, 1]}), np.full(4, 0.25), 9)
    p = problem.reference.weights
    assert as_score("posterior-mse").compute(draws, Scene(problem, ()))[""] == pytest.approx(2 * (0.75 - p[0]) ** 2)
    with pytest.raises(InputError, match="theta=3 is not a value"):
        as_score("kl").compute(Approximation(fbar.Points({"theta": [1, 3]}), np.ones(2), 9), Scene(problem, ()))


def test_the_two_directions_are_not_exchanged():
    problem = problems.load("two-hypotheses")
    sure = Approximation(problem.points, np.array([1.0, 0.0]), 1)
    assert as_score("kl").compute(sure, Scene(problem, ()))[""] == pytest.approx(
        -math.log(problem.reference.weights[0])
    )
    assert as_score("reverse-kl").compute(sure, Scene(problem, ()))[""] == np.inf

    gaussian_problem = problems.load("gaussian-linear")
    centre, sd = gaussian_problem.reference.centre[0], math.sqrt(VARIANCE)

    def narrow(points):  # the first parameter with half its standard deviation
        x = points["theta1"]
        moved = stats.norm.logpdf(x, centre, sd / 2) - stats.norm.logpdf(x, centre, sd)
        return gaussian_problem.reference.log_density(points) + moved

    given = Approximation(None, None, 1, density=narrow)
    scenes = [Scene(gaussian_problem, (), seed=seed, truth_size=2000) for seed in range(12)]
    closed = {"kl": math.log(2) + (1 / 4 - 1) / 2, "reverse-kl": -math.log(2) + (4 - 1) / 2}
    for name, truth in closed.items():
        found = np.array([as_score(name).compute(given, scene)[""] for scene in scenes])
        assert abs(found.mean() - truth) < 6 * found.std(ddof=1) / math.sqrt(12)
        assert found.std(ddof=1) < 0.1 * truth
