"""Errors of rare probabilities, and intervals that stay within what is possible."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.posterior import Posterior
from fbar.estimation.rare import least_error

PRIOR = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))


def simulate(theta, rng):
    return np.stack([theta["a"], theta["b"]], axis=1) + 0.3 * rng.standard_normal((theta.rows, 2))


@pytest.fixture(scope="module", params=[None, 0.3], ids=["at the data", "at a tolerance"])
def result(request):
    problem = fbar.Problem(PRIOR, simulate, [0.1, 0.2])
    method = None if request.param is None else "rejection"
    return fbar.infer(problem, fbar.mean("a"), tolerance=request.param, method=method, budget=3000, seed=1)


@pytest.mark.parametrize("asked", ["a > 1.8", "a < 1.8", "a > 3"])
def test_the_error_of_a_rare_probability_is_that_of_none_of_n(result, asked):
    found = result.expect(fbar.probability(asked))
    assert found.reliability == "unreliable"
    assert found.standard_error >= 0.99 * least_error(result.posterior.ess)
    assert found.standard_error < 5 / result.posterior.ess
    low, high = found.interval()
    assert 0 <= low <= found.value <= high <= 1
    assert high - low == pytest.approx(3 / result.posterior.ess, rel=0.9)


def test_the_rule_of_three():
    """95% of a Beta(1, n + 1) is below about 3/n, and so is the interval; its root mean square is the error."""
    n = 200
    beta = stats.beta(1, n + 1)
    assert least_error(n) == pytest.approx(math.sqrt(beta.moment(2)))
    assert stats.norm.ppf(0.975) * least_error(n) == pytest.approx(beta.ppf(0.95), rel=0.08)


def test_intervals_end_where_values_do():
    """With few simulations, symmetric intervals would leave the range of a probability, an sd and a correlation."""
    prior = fbar.Prior(a=stats.norm(0, 1))
    problem = fbar.Problem(
        prior, lambda t, rng: t["a"] + rng.standard_normal(t.rows), 0.0, derived={"nearly": lambda t: t["a"] ** 3}
    )
    targets = [fbar.probability("a > -1.3"), fbar.sd("a"), fbar.variance("a"), fbar.correlation("a", "nearly")]
    ran = fbar.infer(problem, targets, tolerance=0.1, method="rejection", budget=200, seed=2)
    for estimate, (least, most) in zip(ran.estimates, [(0, 1), (0, math.inf), (0, math.inf), (-1, 1)], strict=True):
        low, high = estimate.interval(0.9999)
        assert low == max(least, low)
        assert high == min(most, high)
        assert low < estimate.value < high or estimate.value in (least, most)
    assert ran["probability:a > -1.3"].interval(0.9999)[1] == 1
    assert ran["variance:a"].interval(0.9999)[0] == 0


def test_a_rare_event_that_was_sampled_keeps_its_error():
    """Many simulations of small weight show a small probability: its error is not that of no simulation."""
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] * 0, 0.0)
    proposal = fbar.Prior(a=stats.norm(0, 3))
    method = fbar.Importance(proposal, tolerance=1)
    found = fbar.infer(problem, fbar.probability("a > 4"), method=method, budget=4000, seed=1)["probability:a > 4"]
    assert found.value == pytest.approx(stats.norm.sf(4), abs=5 * found.standard_error)
    assert found.standard_error < 1e-5


def test_limits_of_a_correlation_hold_with_few_simulations():
    """300 samples of 25 pairs of log-normal variables, of correlation 0.85.

    Fisher's limits hold it in 91%, symmetric ones in 83%. Fewer than 255 (85%) of Fisher's have a probability below
    1e-3 if they hold it in 91%."""
    rng = np.random.default_rng(1)
    rho, held = 0.9, {"fisher": 0, "symmetric": 0}
    exact = (math.exp(0.49 * rho) - 1) / (math.exp(0.49) - 1)
    problem = fbar.Problem(fbar.Prior(a=stats.norm()), lambda t, rng: t["a"] * 0, 0.0, derived={"b": lambda t: t["a"]})
    draws = fbar.infer(problem, fbar.mean("a"), method="rejection", tolerance=1.0, budget=25, seed=1).posterior
    for _ in range(300):
        a = rng.standard_normal(25)
        b = rho * a + math.sqrt(1 - rho**2) * rng.standard_normal(25)
        pairs = fbar.Points({"a": np.exp(0.7 * a), "b": np.exp(0.7 * b)})
        found = Posterior(pairs, draws.weights, draws.errors, 25, 25).expect(fbar.correlation("a", "b"))
        low, high = found.interval()
        held["fisher"] += low <= exact <= high
        half = stats.t.ppf(0.975, found.df) * found.standard_error
        held["symmetric"] += abs(found.value - exact) <= half
        assert -1 < low < found.value < high < 1
    assert held["fisher"] >= 255
    assert held["fisher"] > held["symmetric"] + 10
