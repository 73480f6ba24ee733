"""Methods whose draws are worth a number a with E[a|θ] ∝ p(x*|θ): the contract, and synthetic likelihood."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.worth.gaussian import NormalFit
from fbar.methods.worth.replicates import ReplicatedValuation
from fbar.methods.worth.valuation import Replicates, Valued
from fbar.question.worth import Measured
from fbar.testing import MethodConformance, finish


def simulate_moments(theta, rng):
    """Mean and log variance of thirty normal numbers: about normal at each θ."""
    x = theta["theta"][:, None] + rng.normal(size=(theta.rows, 30))
    return np.stack([x.mean(axis=1), np.log(x.var(axis=1, ddof=1))], axis=1)


def normal_problem(**options):
    """The variance of the data does not depend on θ, so the posterior is that of their mean: N(30/31, 1/31)."""
    truth = {"mean:theta": 30 / 31, "variance:theta": 1 / 31}
    return fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), simulate_moments, [1.0, 0.1], truth=truth, **options)


class TestSyntheticLikelihood(MethodConformance):
    method = fbar.SyntheticLikelihood()
    budget = 1000

    @property
    def problem(self):
        return normal_problem()

    known = problem


def fits(rng, *, d, each, n):
    """NormalFit of n sets of draws from a normal distribution with correlated numbers, and its density at the data."""
    root = np.linalg.cholesky(0.5 * np.eye(d) + 0.5)
    observed = np.linspace(1.8, 1.0, d)
    x = rng.normal(size=(n, each, d)) @ root.T
    truth = stats.multivariate_normal(np.zeros(d), root @ root.T).logpdf(observed)
    return NormalFit.of(x, np.zeros((n, each), dtype=bool), observed), float(truth), observed


@pytest.mark.parametrize(("d", "each"), [(1, 5), (2, 7), (4, 12)])
def test_the_unbiased_estimate_has_the_density_for_its_mean(d, each):
    """Four standard errors: a false alarm in 16,000."""
    found, truth, _ = fits(np.random.default_rng(d), d=d, each=each, n=40_000)
    ratio = np.exp(found.log_unbiased - truth)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(ratio.size)
    plugged_in = np.exp(found.log_plugged_in - truth)
    assert abs(plugged_in.mean() - 1) > 4 * plugged_in.std() / math.sqrt(ratio.size)  # else nothing was shown


def test_the_variance_of_the_log_density_is_as_derived():
    """(d + δ⁴)/(2R) to first order; with R = 400 within a tenth."""
    d, each = 3, 400
    found, _, _ = fits(np.random.default_rng(1), d=d, each=each, n=5000)
    assert found.log_plugged_in.var() == pytest.approx(found.log_variance.mean(), rel=0.1)


def test_failed_simulations_are_left_out_and_lower_the_likelihood():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1, 20, 2))
    failed = np.zeros((1, 20), dtype=bool)
    failed[0, 15:] = True
    broken = np.where(failed[:, :, None], np.nan, x)
    alone = NormalFit.of(x[:, :15], failed[:, :15], np.zeros(2))
    assert NormalFit.of(broken, failed, np.zeros(2)).log_unbiased == pytest.approx(alone.log_unbiased)


def test_a_singular_covariance_is_worth_nothing():
    x = np.random.default_rng(3).normal(size=(2, 30, 2))
    x[0, :, 1] = x[0, :, 0]
    x[1, :, 1] = 4.0
    found = NormalFit.of(x, np.zeros((2, 30), dtype=bool), np.zeros(2))
    assert np.isneginf(found.log_unbiased).all()
    assert np.isneginf(found.log_plugged_in).all()


def test_summaries_that_are_constant_are_named_as_the_reason():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda t, rng: np.stack([t["theta"] + rng.normal(size=t.rows), np.ones(t.rows)], axis=1),
        [0.5, 1.0],
    )
    with pytest.raises(fbar.NoPosterior, match="covariance of the summaries is singular at nearly every draw"):
        fbar.infer(problem, fbar.mean("theta"), budget=500, method="synthetic-likelihood", seed=1, progress=False)


def test_shrinkage_makes_a_singular_covariance_regular():
    x = np.random.default_rng(4).normal(size=(1, 6, 10))
    failed = np.zeros((1, 6), dtype=bool)
    assert np.isneginf(NormalFit.of(x, failed, np.zeros(10)).log_plugged_in).all()
    assert np.isfinite(NormalFit.of(x, failed, np.zeros(10), shrinkage=0.5).log_plugged_in).all()


def test_the_power_of_a_worth_flattens_it():
    columns = {"log |a|": np.log([1.0, 0.01]), "sign of a": np.array([1.0, -1.0])}
    assert Measured(0.0).of(columns) == pytest.approx([1.0, -0.01])
    assert Measured(0.0, power=0.5).of(columns) == pytest.approx([1.0, 0.1])
    nothing = {"log |a|": np.array([-np.inf, -3.0]), "sign of a": np.ones(2)}
    for power in (0.0, 0.5, 1.0):  # the flattest one too leaves out what is worth nothing
        assert Measured(0.0, power=power).of(nothing) == pytest.approx([0.0, np.exp(-3 * power)])


def test_the_number_of_simulations_makes_the_log_variance_one():
    many = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda t, rng: t["theta"][:, None] + rng.normal(size=(t.rows, 8)),
        [1.0, -1.0] * 4,
    )
    run = fbar.SyntheticLikelihood().start(many, fbar.mean("theta"), 1, 20_000)
    finish(run)
    chosen = run.valuation.replicates
    assert 20 < chosen < 80  # (d + δ⁴)/2 = 36 with δ² = 8


class OfKnownVariance(ReplicatedValuation):
    """Draws whose log a has the variance 12 / R at the first of two, and 60 / R at the second."""

    about = "nothing"

    def value(self, waves):
        return Valued.positive(np.zeros(2), np.array([12.0, 60.0]) / waves[0].each)


@pytest.mark.parametrize("each", [5, 30])
def test_the_weighted_variance_of_log_a_is_the_number_of_simulations(each):
    """R e^(v/R) is least at R = v, here 0.75 · 12 + 0.25 · 60, whatever the number was that it was seen with."""
    valuation = OfKnownVariance(None, least=2, first=each)
    nothing = np.zeros((2, each))
    wave = Replicates(nothing[:, :, None], nothing, nothing > 0, {}, {})
    assert valuation.learn([[wave]], np.array([0.75, 0.25]), math.inf)
    assert valuation.replicates == 24
    numbers = np.arange(2, 200)
    assert numbers[np.argmin(numbers * np.exp(24 / numbers))] == 24
    valuation.learn([[wave]], np.array([0.75, 0.25]), 600)  # sixty draws of what is left
    assert valuation.replicates == 10


def test_skewed_summaries_are_noticed():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0.5, 2)),
        lambda t, rng: t["theta"][:, None] * rng.exponential(size=(t.rows, 1)) ** 2,
        [1.0],
    )
    result = fbar.infer(
        problem, fbar.mean("theta"), budget=5000, method=fbar.SyntheticLikelihood(replicates=40), seed=1, progress=False
    )
    assert not result.estimates[0].trusted
    assert "not normal" in result.estimates[0].warnings[0]


@pytest.mark.parametrize(
    ("method", "budget", "message"),
    [
        (fbar.SyntheticLikelihood(replicates=4), 1000, "at least 6 simulations; got replicates=4"),
        (fbar.SyntheticLikelihood(), 20, "raise the budget to at least 48"),
    ],
)
def test_too_few_simulations_are_refused(method, budget, message):
    with pytest.raises(fbar.InputError, match=message):
        method.start(normal_problem(), fbar.mean("theta"), 1, budget)


def test_settings_are_checked():
    with pytest.raises(fbar.InputError, match="shrinkage must lie between 0 and 1"):
        fbar.SyntheticLikelihood("gaussian", shrinkage=2.0)
    with pytest.raises(fbar.InputError, match="kind='gaussian' with shrinkage"):
        fbar.SyntheticLikelihood(shrinkage=0.5)


def test_a_recorded_run_is_extended(tmp_path):
    first = fbar.infer(
        normal_problem(),
        fbar.mean("theta"),
        budget=1000,
        method="synthetic-likelihood",
        seed=1,
        run=tmp_path / "r",
        progress=False,
    )
    more = fbar.extend(tmp_path / "r", normal_problem(), budget=3000, progress=False)
    assert more.estimates[0].standard_error < first.estimates[0].standard_error
    assert more.run.simulations > 2900
