"""What a tolerance may leave of bias, as results tell it: against the posterior at the tolerance by quadrature."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import fbar

NOISE, DATA, TOLERANCE = 0.6, 2.0, 1.5


def simulate(theta, rng):
    return theta["a"] + NOISE * rng.standard_normal(theta.rows)


def problem(**options):
    return fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=DATA, **options)


def moment(tolerance, power):
    """E[a^power] of ABC's posterior: p(a) P(|x − data| ≤ ε | a); at ε = 0 the posterior itself."""

    def density(a):
        if tolerance == 0:
            return stats.norm.pdf(a) * stats.norm.pdf(DATA, a, NOISE)
        return stats.norm.pdf(a) * (
            stats.norm.cdf(DATA + tolerance, a, NOISE) - stats.norm.cdf(DATA - tolerance, a, NOISE)
        )

    parts = [integrate.quad(lambda a, k=k: a**k * density(a), -6, 8, limit=200)[0] for k in (power, 0)]
    return parts[0] / parts[1]


CHOSEN = fbar.Targeted(tolerance="chosen")
TARGETS = [fbar.mean("a"), fbar.second_moment("a")]
METHODS = {
    "rejection": fbar.Rejection(tolerance=TOLERANCE),
    "smc": fbar.SMC([6, 3, TOLERANCE], accepted=500),
    "targeted": fbar.Targeted(tolerance=TOLERANCE),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_bias_is_that_of_the_extrapolation(method):
    """f̂_ε less its extrapolation, whose expectation quadrature gives for the run's own c; |z| < 4.5, twice."""
    result = fbar.infer(problem(), TARGETS, method=METHODS[method], budget=40_000, seed=3)
    bias = result.bias
    assert bias is not None
    c = result.run.bias().ratio
    assert 1 < c <= 2
    for power, estimate in enumerate(bias, start=1):
        expected = c**2 / (c**2 - 1) * (moment(TOLERANCE, power) - moment(TOLERANCE / c, power))
        assert abs(estimate.value - expected) < 4.5 * estimate.standard_error
        assert estimate.standard_error < 0.6 * abs(expected)  # so that half of it, or the other sign, would be noticed
        real = moment(TOLERANCE, power) - moment(0, power)
        assert expected == pytest.approx(real, rel=0.35)  # the parabola is not exact at such a tolerance


def test_a_bias_beyond_the_error_bar_is_warned_of():
    result = fbar.infer(problem(), TARGETS, method=METHODS["targeted"], budget=40_000, seed=3)
    printed = str(result)
    assert "about ABC's posterior at tolerance 1.5; estimate minus posterior: mean:a -0." in printed
    assert "warning: the tolerance biases mean:a, second_moment:a by more than the error bar" in printed
    assert any("by more than the error bar" in text for text in result.warnings)
    stored = result.as_dict()
    assert stored["tolerance"] == TOLERANCE
    assert stored["about"] in printed
    assert stored["warnings"] == list(result.warnings)
    assert stored["bias"]["mean:a"]["value"] == pytest.approx(result.bias["mean:a"].value)
    for power, estimate in enumerate(result.estimates, start=1):
        real = moment(TOLERANCE, power) - moment(0, power)
        assert abs(estimate.difference.value - real) < 4.5 * estimate.difference.standard_error
        assert estimate.difference.standard_error < 0.1 * abs(real)


def test_a_small_tolerance_warns_of_nothing():
    printed = str(fbar.infer(problem(), TARGETS, tolerance=0.1, budget=20_000, seed=3))
    assert "about ABC's posterior at tolerance 0.1; estimate minus posterior: mean:a" in printed
    assert "more than the error bar" not in printed


def test_a_bias_that_cannot_be_estimated_is_not_zero():
    """Whole numbers: within 1.5 and within 1.1 of the data are the same simulations. Too few show no posterior."""
    counts = fbar.Problem(fbar.Prior(a=stats.uniform(1, 9)), lambda t, rng: rng.poisson(t["a"]), observed=4)
    few = fbar.infer(counts, fbar.mean("a"), method="rejection", tolerance=1.5, budget=15, seed=1)
    assert few.bias is few["mean:a"].difference is None
    assert "tolerance 1.5; how far it is from the posterior cannot be estimated from these simulations" in str(few)


def test_a_budget_too_small_for_a_tolerance_warns():
    def raw(theta, rng):
        return theta["a"][:, None] + rng.standard_normal((theta.rows, 20))

    many = fbar.Problem(fbar.Prior(a=stats.norm(0, 3)), raw, observed=np.linspace(-1, 3, 20))
    result = fbar.infer(many, fbar.variance("a"), method=CHOSEN, budget=3000, seed=1)
    assert any("the budget ended before a tolerance was found" in text for text in result.warnings)
    assert ", chosen from the budget" in str(result)
    never = fbar.Problem(fbar.Prior(a=stats.norm(0, 3)), lambda t, rng: np.zeros(t.rows), observed=1.0)
    told = str(fbar.infer(never, fbar.mean("a"), method=CHOSEN, budget=3000, seed=1))
    assert "no simulation came closer to the data than 1" in told


def test_where_there_is_no_tolerance_there_is_no_bias():
    known = fbar.Problem.bernoulli(fbar.Prior(a=stats.norm(0, 1)), lambda t: np.exp(-(t["a"] ** 2)))
    result = fbar.infer(known, fbar.mean("a"), budget=2000, seed=1)
    assert result.bias is None
    assert "bias" not in str(result)
    whole = fbar.Problem(
        fbar.Prior(a=stats.uniform(1, 9)), lambda t, rng: rng.poisson(t["a"]), observed=4
    )  # matched exactly
    assert fbar.infer(whole, fbar.mean("a"), tolerance=0, budget=2000, seed=1).bias is None


@pytest.mark.parametrize("method", ["targeted", "rejection", "smc"])
def test_an_answer_at_the_data_has_no_tolerance(method):
    result = fbar.infer(problem(), TARGETS, method=method, budget=1500, seed=1)
    assert result.run.at_data
    assert result.run.reported_tolerance is None
    assert result.tolerance is None
    assert [item.standard_error for item in result.bias] == [estimate.bias for estimate in result.estimates]
    for power, estimate in enumerate(result.estimates, start=1):
        assert estimate.about == "the posterior"
        assert abs(estimate.value - moment(0, power)) < 4.5 * estimate.standard_error
    for way in (result.extrapolated, result.adjusted):
        with pytest.raises(fbar.InputError, match="it has no tolerance"):
            way()


@pytest.mark.slow
def test_the_chosen_tolerance_balances_bias_and_error():
    """Over 12 runs of 4,000: the squared bias at the chosen tolerances, by quadrature, is of the order of the variance.

    The balance is bias²/variance = d/4 = ¼; the tolerances are chosen on estimates, so only the order is tested. A run
    that took its first tolerance would have a ratio of over 100.
    """
    ratios = []
    for seed in range(12):
        result = fbar.infer(problem(), fbar.mean("a"), method=CHOSEN, budget=4000, seed=seed)
        at = result.run.tolerance
        assert 0 < at < 2
        bias = moment(at, 1) - moment(0, 1)
        ratios.append(bias**2 / result["mean:a"].variance)
    assert math.exp(np.mean(np.log(ratios))) < 3
