"""Quantiles: limits from the weighted distribution function, and what is said where they cannot be had."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.crossfitted import CrossfittedErrors
from fbar.estimation.draws import Draws, WeightedAverage
from fbar.estimation.posterior import Posterior
from fbar.question.outcomes import Seen
from fbar.question.targets.quantiles import Inverted, Sides

pytestmark = pytest.mark.slow

LINE = fbar.Problem.bernoulli(fbar.Prior(x=stats.uniform()), lambda t: np.ones(t.rows))
LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)


def quantiles(*levels):
    return [fbar.quantile("x", level) for level in levels or LEVELS]


def weighted(x, w=None):
    """The posterior of accepted draws x with importance weights w, as many rejected."""
    x = np.asarray(x, dtype=np.float64)
    log_w = np.zeros(x.size) if w is None else np.log(w)
    n, zeros = 2 * x.size, np.zeros(x.size, dtype=np.int64)
    points = fbar.Points({"x": x})
    draws = Draws(LINE, points, np.ones(x.size), log_w, n, "independent", np.array([n]), zeros, None, Seen())
    return WeightedAverage()(draws)


# ---------------------------------------------------------------- coverage


def held(runs, make, exact, levels=LEVELS):
    """For each level: how many trusted intervals held the quantile, and how many were trusted."""
    found = np.zeros((len(levels), 2), dtype=int)
    for _ in range(runs):
        for row, estimate, truth in zip(found, make().expect(quantiles(*levels)), exact, strict=True):
            low, high = estimate.interval()
            row += (estimate.trusted and low <= truth <= high, estimate.trusted)
    return found


def test_intervals_hold_in_both_tails_of_a_skewed_distribution():
    """200 equally weighted draws: exact but for the interpolation between two of them.

    400 runs of 95%: fewer than 358 or more than 396 with a probability below 1 in 10⁵ for each of five levels.
    """
    rng = np.random.default_rng(1)
    exact = stats.expon.ppf(LEVELS)
    found = held(400, lambda: weighted(rng.exponential(size=200)), exact)
    assert (found[:, 1] == 400).all()
    assert (found[:, 0] >= 358).all(), found
    assert (found[:, 0] <= 396).all(), found


def test_intervals_hold_with_unequal_weights():
    """400 draws of q = Exp(1.2) for p = Exp(1), so that the upper tail is seen seldom, by weights that grow there.

    300 runs of 95%: fewer than 266 with a probability below 1 in 10⁵ for each of four levels.
    """
    rng = np.random.default_rng(2)

    def make():
        x = rng.exponential(1 / 1.2, 400)
        return weighted(x, np.exp(0.2 * x) / 1.2)

    levels = (0.025, 0.1, 0.5, 0.9)
    found = held(300, make, stats.expon.ppf(levels), levels)
    assert (found[:, 1] >= 285).all(), found
    assert (found[:, 0] >= 266 - (300 - found[:, 1])).all(), found


def test_tails_of_learned_proposals_are_flagged_or_right():
    """400 draws of a proposal that is too narrow, Exp(1.6) for Exp(1), with the errors of cross-fitted runs.

    Of 200 runs more than 24 with a trusted interval that is wrong, at 5%: 2 in 10⁵ for each of five levels. An error
    bar by the density at the quantile, which collapses where the weight beyond is one draw's, had 37 at the outermost.
    """
    rng = np.random.default_rng(1)

    def make():
        x = rng.exponential(1 / 1.6, 400)
        plain, group = weighted(x, np.exp(0.6 * x)), np.arange(400) % 4
        draws = replace(plain.errors.draws, stratum=group, stratum_sizes=np.full(4, 200))
        errors = CrossfittedErrors(draws, plain.weights, group, 4)
        return Posterior(plain.points, plain.weights, errors, plain.simulations, plain.accepted)

    found = held(200, make, stats.expon.ppf(LEVELS))
    assert (found[:, 1] - found[:, 0] <= 24).all(), found
    assert found[2, 1] >= 195
    assert found[4, 1] < 10


@pytest.mark.parametrize("n", [40, 150, 1000])
def test_the_levels_are_those_of_order_statistics(n):
    """P(X_(k) ≤ Q) = P(Bin(n, α) ≥ k): at whole k the binomial distribution itself."""
    from fbar.question.targets.quantiles import order_rank

    for k in (1, 3, n // 2):
        for level in (0.02, 0.1, 0.4):
            probability = stats.binom.sf(k - 1, n, level)
            if 1e-6 < probability < 1 - 1e-6:
                assert order_rank(n, level, probability) == pytest.approx(k, abs=1e-5)


def test_degrees_of_freedom_are_those_of_the_weights():
    """Against brute force: the spread of V̂ over runs, for weights that are Gamma-distributed on each side."""
    below = np.arange(300) < 60
    equal = Sides(np.full(300, 1 / 300), below)
    assert (equal.df, equal.carried) == (299, "")
    assert equal.unseen < 1e-15
    n = below.size
    rng, variances, found = np.random.default_rng(3), [], []
    for _ in range(2000):
        w = rng.gamma(0.5, size=n)
        p = 0.2  # by the definition of the quantile each side has its weight
        w[below] *= p / w[below].sum()
        w[~below] *= (1 - p) / w[~below].sum()
        variances.append(((w * np.where(below, 1 - p, -p)) ** 2).sum())
        found.append(Sides(w, below).df)
    real = 2 * np.mean(variances) ** 2 / np.var(variances)
    assert np.median(found) == pytest.approx(real, rel=0.35)


# ---------------------------------------------------------------- errors that belong together


def test_the_standard_error_belongs_to_the_interval_and_the_covariance():
    rng = np.random.default_rng(4)
    posterior = weighted(rng.exponential(size=2000))
    estimates = posterior.expect([*quantiles(), fbar.mean("x")])
    errors = np.sqrt(np.diagonal(estimates.covariance))
    for estimate, error in zip(estimates, errors, strict=True):
        low, high = estimate.interval()
        assert estimate.standard_error == pytest.approx(error)
        assert (high - low) / 2 / stats.t(estimate.df).ppf(0.975) == pytest.approx(error)
        assert low < estimate.value < high
    inner, outer = estimates[-2].interval(0.5), estimates[-2].interval(0.99)
    assert outer[0] < inner[0] < inner[1] < outer[1]
    # F̂ at two levels a < b has the correlation √(a(1−b)/(b(1−a))).
    correlation = estimates.covariance / np.outer(errors, errors)
    assert correlation[1, 2] == pytest.approx(math.sqrt(0.1 * 0.5 / (0.5 * 0.9)), abs=0.03)
    assert correlation[0, 4] == pytest.approx(0.025 / 0.975, abs=0.03)


def test_a_difference_of_quantiles_has_the_right_error():
    """The width from 10% to 90% of exponential draws: 300 runs, their spread known to 4%: within 5 of these."""
    rng, values, errors = np.random.default_rng(5), [], []
    for _ in range(300):
        width = (
            weighted(rng.exponential(size=500))
            .expect(quantiles(0.1, 0.9))
            .difference("quantile:x,0.9", "quantile:x,0.1")
        )
        values.append(width.value)
        errors.append(width.standard_error)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=5 * 0.041)


def test_an_estimate_can_be_sent_elsewhere():
    estimate = weighted(np.random.default_rng(6).random(100)).expect(fbar.quantile("x", 0.5))
    again = pickle.loads(pickle.dumps(estimate))
    assert again.interval(0.8) == estimate.interval(0.8)


# ---------------------------------------------------------------- too little beyond


def test_where_too_few_lie_beyond_there_is_no_limit_and_no_trust():
    """With 100 draws P(none above the 97.5% quantile) = 8%: no draw can be an upper limit."""
    posterior = weighted(np.random.default_rng(7).random(100))
    high = posterior.expect(fbar.quantile("x", 0.975))
    assert not high.trusted
    assert high.interval()[1] == math.inf
    assert math.isfinite(high.interval()[0])
    assert "too few simulations lie beyond the quantile for an interval: effectively 2.5 above it" in high.warnings
    assert "(?)" in str(high)
    low = posterior.expect(fbar.quantile("x", 0.025))
    assert low.interval()[0] == -math.inf
    assert "2.5 below it" in " ".join(low.warnings)
    assert posterior.expect(fbar.quantile("x", 0.9)).trusted
    both = posterior.expect(quantiles(0.5, 0.975))
    assert not both.difference("quantile:x,0.975", "quantile:x,0.5").trusted
    assert weighted(np.random.default_rng(7).random(200)).expect(fbar.quantile("x", 0.975)).trusted


def test_a_run_to_a_precision_waits_for_both_sides():
    """However small the error bar seems: ten effective simulations beyond the quantile, and no forecast below that."""
    problem = fbar.Problem(fbar.Prior(x=stats.norm()), lambda t, rng: t["x"] + rng.standard_normal(t.rows), observed=0)
    target = fbar.quantile("x", 0.975)
    for seed in range(3):
        result = fbar.infer(
            problem, target, method=fbar.Rejection(tolerance=1), precision={target.name: 10.0}, seed=seed
        )
        assert result.estimates[0].inverted.beyond >= 10
    started = fbar.Rejection(tolerance=1).start(problem, target, 1, limit=600)
    fbar.drive(started)
    rule = fbar.StandardError(target.name, 10.0)
    assert started.posterior().accepted >= 50
    assert not rule.holds(started)
    forecast = rule.forecast(started)
    assert forecast is None or forecast.more > 0


# ---------------------------------------------------------------- discrete variables


def counts(rng, n):
    return rng.poisson(4.0, n).astype(np.float64)


def test_a_quantile_of_a_discrete_variable_is_one_of_its_values_and_says_so():
    posterior = weighted(counts(np.random.default_rng(8), 500))
    for estimate in posterior.expect(quantiles()):
        assert estimate.value == int(estimate.value)
        low, high = estimate.interval()
        assert low == int(low)
        assert high == int(high)
        assert any("takes only" in text and "values" in text for text in estimate.warnings)
        assert estimate.trusted
    assert not weighted(np.random.default_rng(8).random(500)).expect(fbar.quantile("x", 0.5)).warnings


def test_its_intervals_hold_at_least_as_often_as_they_say():
    """150 runs, of 95%: fewer than 129 with a probability below 1 in 10⁵ for each of five levels."""
    rng = np.random.default_rng(9)
    found = held(150, lambda: weighted(counts(rng, 600)), stats.poisson(4.0).ppf(LEVELS))
    assert (found[:, 0] >= 129 - (150 - found[:, 1])).all(), found
    assert (found[:, 1] >= 140).all()


def test_an_atom_that_holds_the_quantile_is_known_exactly():
    x = np.repeat([0.0, 1.0], [700, 300])
    estimate = weighted(x).expect(fbar.quantile("x", 0.9))
    assert (estimate.value, estimate.standard_error, estimate.interval()) == (1.0, 0.0, (1.0, 1.0))
    unsure = weighted(x).expect(fbar.quantile("x", 0.69))
    assert unsure.interval() == (0.0, 1.0)
    assert unsure.standard_error > 0
    same = weighted(np.ones(100)).expect(fbar.quantile("x", 0.5))
    assert not same.trusted


def test_a_value_between_two_atoms_is_none():
    """The weight of each half is ½ up to half a draw: interpolation would say 0.5."""
    x = np.repeat([0.0, 1.0], [50, 50])
    assert weighted(x).expect(fbar.quantile("x", 0.5)).value in (0.0, 1.0)


def test_one_draw_that_carries_a_side_is_a_reason_for_doubt():
    rng = np.random.default_rng(10)
    x, w = rng.random(400), np.ones(400)
    w[np.argmax(x)] = 12.0
    high, middle = weighted(x, w).expect(quantiles(0.9, 0.5))
    assert "one accepted simulation contributes more than 20% of the weight beyond the quantile" in high.warnings
    assert not high.trusted
    assert middle.trusted


def test_a_recorded_count_has_a_quantile_with_a_note():
    def simulate(theta, rng):
        peak = rng.poisson(theta["rate"])
        return {"x": peak + rng.standard_normal(theta.rows), "peak": peak.astype(float)}

    problem = fbar.Problem(fbar.Prior(rate=stats.uniform(1, 9)), simulate, observed=4.0, records=["peak"])
    result = fbar.infer(problem, fbar.quantile("peak", 0.9), method=fbar.Rejection(tolerance=1), budget=4000, seed=1)
    assert "this variable takes only" in str(result)
    assert result["quantile:peak,0.9"].trusted


# ---------------------------------------------------------------- other posteriors


def test_adjusted_and_extrapolated_quantiles_know_when_there_is_too_little():
    problem = fbar.Problem(
        fbar.Prior(x=stats.norm()), lambda t, rng: t["x"] + 0.5 * rng.standard_normal(t.rows), observed=0.5
    )
    result = fbar.infer(problem, quantiles(0.5, 0.99), method=fbar.Rejection(tolerance=0.5), budget=700, seed=1)
    for other in (result, result.adjusted(), result.extrapolated()):
        middle, tail = other.estimates
        assert middle.trusted
        assert not tail.trusted
        assert "too few simulations lie beyond" in " ".join(tail.warnings)


def test_the_distribution_function_of_points_that_have_the_parameter():
    x, w = np.array([3.0, 1.0, 2.0, 4.0]), np.full(4, 0.25)
    found = Inverted.of(x, w, 0.5)
    assert found.value == 2.5
    assert found.share == 0.5
    assert found.effective == pytest.approx(4)
    assert math.isnan(Inverted.of(np.zeros(0), np.zeros(0), 0.5).value)
