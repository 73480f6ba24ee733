"""S_d_f over trials, sampling scores and the coverage of error bars."""

import math

import numpy as np
import pytest

import fbar
from fbar import problems
from fbar.errors import InputError
from fbar.question.problem import Problem
from fbar.scores import (
    Approximation,
    Given,
    Scene,
    as_approximation,
    as_score,
    posterior_deviation,
    summarise,
    trial_errors,
)
from fbar.scores.calibration import holds
from fbar.scores.spending import kish, relative_efficiency

MEAN = fbar.mean("theta")


def test_the_summary_of_independent_draws_is_what_theory_says():
    rng = np.random.default_rng(1)
    n, sd, trials = 25, 3.0, 4000
    s = summarise(rng.normal(0, sd, (trials, n)).mean(axis=1), deviation=sd)
    assert abs(s.mse - sd**2 / n) < 5 * s.mse_error
    assert s.mse_error == pytest.approx(sd**2 / n * math.sqrt(2 / trials), rel=0.15)  # χ²: its own scatter is 5%
    assert s.draws == pytest.approx(1 / s.b2)
    assert abs(s.draws - n) < 5 * s.draws_error


def test_bias_and_variance_are_unbiased_and_sum_to_the_score():
    rng = np.random.default_rng(2)
    errors = rng.normal(0.2, 1.0, (10, 20_000))  # twenty thousand studies of ten trials
    s = summarise(errors)
    assert s.bias2 + s.variance == pytest.approx(s.mse)
    assert (s.bias2 < 0).mean() > 0.3
    z = (s.bias2.mean() - 0.04) / (s.bias2.std(ddof=1) / math.sqrt(20_000))
    assert abs(z) < 5
    naive = errors.mean(axis=0) ** 2
    assert abs(naive.mean() - 0.04) / (naive.std() / math.sqrt(20_000)) > 20  # mean² alone would be caught


def test_the_truths_own_error_is_subtracted_or_refused():
    rng = np.random.default_rng(3)
    mse = []
    for _ in range(2000):
        truth = rng.normal(0, 0.05)  # each study has a truth that is itself wrong
        mse.append(summarise(rng.normal(0, 1.0, 30) - truth, truth_error=0.05).mse)
    z = (np.mean(mse) - 1) / (np.std(mse, ddof=1) / math.sqrt(2000))
    assert abs(z) < 5
    with pytest.raises(InputError, match="over 1%"):
        summarise([1.0, -1.0, 1.0], truth_error=0.11)
    assert summarise([1.0, -1.0, 1.0], truth_error=0.09).mse == pytest.approx(1 - 0.0081)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1],), "at least 2 trials"),
        (([0.1, math.nan],), "trial 1 is NaN"),
        (([0.1, 0.2], -1.0), "at least 0"),
        (([0.1, 0.2], 0.0, 0.0), "greater than 0"),
    ],
)
def test_bad_summaries(arguments, message):
    with pytest.raises(InputError, match=message):
        summarise(*arguments)


def test_trial_errors_hold_what_the_algorithm_claimed():
    problem = problems.load("ramp")
    scene = Scene(problem, (MEAN,))
    item = trial_errors(Approximation(None, None, 9, given={"mean:theta": Given(0.7, 0.01, 12.0)}), scene)["mean:theta"]
    assert (item.estimate, item.standard_error, item.df) == (0.7, 0.01, 12.0)
    assert item.error == pytest.approx(0.7 - 2 / 3)
    assert item.z == pytest.approx(item.error / 0.01)
    assert item.squared_error == pytest.approx(item.error**2)


def test_mse_of_a_trial_subtracts_the_truths_error():
    problem = Problem(fbar.Prior(theta=fbar.Density(np.ones_like, 0, 1)), lambda t, r: t["theta"], 0.5,
                      truth={"mean:theta": (0.5, 0.1)})  # fmt: skip
    given = Approximation(None, None, 1, given={"mean:theta": Given(0.8)})
    assert as_score("mse").compute(given, Scene(problem, (MEAN,)))["mean:theta"] == pytest.approx(0.09 - 0.01)


def test_posterior_deviations_from_whatever_is_known():
    gaussian = Scene(problems.load("gaussian-linear"), (), truth_size=20_000)
    assert posterior_deviation(fbar.mean("theta3"), gaussian) == pytest.approx(math.sqrt(0.05))
    # Not stored: by draws. sd of (θ−m)² is √2 v; its own error over 20 000 draws with kurtosis 15 is below 2%.
    assert posterior_deviation(fbar.variance("theta3"), gaussian) == pytest.approx(math.sqrt(2) * 0.05, rel=0.1)
    ramp = Scene(problems.load("ramp"), ())
    assert posterior_deviation(MEAN, ramp) == pytest.approx(math.sqrt(1 / 18))
    below = fbar.probability("theta < 0.5")
    assert posterior_deviation(below, ramp) == pytest.approx(math.sqrt(3) / 4)
    # (α − 1(θ ≤ Q))/π(Q) at the median √½ of the density 2θ
    assert posterior_deviation(fbar.quantile("theta", 0.5), ramp) == pytest.approx(0.25 / math.sqrt(0.5))
    with pytest.raises(InputError, match="not known"):
        posterior_deviation(fbar.variance("theta1"), Scene(problems.load("nested-models"), ()))
    two = problems.load("two-hypotheses")
    p = two.reference.weights[0]
    assert posterior_deviation(fbar.probability("theta == 1"), Scene(two, ())) == pytest.approx(math.sqrt(p * (1 - p)))


def test_a_posteriors_own_estimate_and_error_are_used_whatever_its_kind():
    problem = problems.load("ramp")
    for method in (fbar.Rejection(), fbar.Importance("prior", estimator=fbar.KernelRegression())):
        result = fbar.infer(problem, MEAN, method=method, budget=1000, seed=1)
        found = as_approximation(result.posterior, problem, 1000).estimate(MEAN)
        assert found.value == result["mean:theta"].value
        assert found.standard_error == result["mean:theta"].standard_error


def test_a_vector_target_is_refused():
    problem = problems.load("two-hypotheses")
    scene = Scene(problem, (fbar.probabilities(problem.points),))
    with pytest.raises(InputError, match="posterior-mse"):
        as_score("mse").compute(Approximation(problem.points, np.ones(2), 1), scene)


# ---------------------------------------------------------------- sampling


def test_acceptance_rate_and_ess_of_rejection_are_the_accepted_simulations():
    problem = problems.load("ten-values")
    result = fbar.infer(problem, MEAN, method=fbar.Rejection(), budget=2000, seed=1)
    given, scene = as_approximation(result.posterior, problem, 2000), Scene(problem, (MEAN,))
    accepted = float(result.accepted)
    assert 300 < accepted < 400
    assert as_score("acceptance-rate").compute(given, scene) == {"": accepted / 2000}
    ess = as_score("ess").compute(given, scene)
    assert ess[""] == pytest.approx(accepted, rel=0.05)  # post-stratified: nearly, and not the ten cells
    assert ess["per-simulation"] == ess[""] / 2000


def test_kish_by_hand():
    assert kish([1, 1, 1, 0, 0]) == pytest.approx(3)
    assert kish([3, 1]) == pytest.approx(16 / 10)
    assert kish([300, 100]) == pytest.approx(16 / 10)


def test_relative_efficiency_by_the_error_bar():
    problem = problems.load("ramp")
    scene = Scene(problem, (MEAN,))
    given = Approximation(None, None, 9, given={"mean:theta": Given(0.7, 0.01)})
    assert as_score("relative-efficiency").compute(given, scene)["mean:theta"] == pytest.approx(1e4 / 18)
    silent = Approximation(None, None, 9, given={"mean:theta": Given(0.7)})
    assert math.isnan(as_score("relative-efficiency").compute(silent, scene)["mean:theta"])
    assert relative_efficiency(2.0, 0.5) == 16


def test_relative_efficiency_of_rejection_is_its_accepted_simulations():
    problem = problems.load("ramp")
    result = fbar.infer(problem, MEAN, method=fbar.Rejection(), budget=4000, seed=5)
    given, scene = as_approximation(result.posterior, problem, 4000), Scene(problem, (MEAN,))
    found = as_score("relative-efficiency").compute(given, scene)["mean:theta"]
    n, kurtosis = float(result.accepted), 2.4  # of Beta(2, 1)
    assert abs(found / n - 1) < 5 * math.sqrt((kurtosis - 1) / n)


def test_not_defined():
    problem = problems.load("ramp")
    scene = Scene(problem, (MEAN,))
    alone = Approximation(None, None, 9, given={"mean:theta": Given(0.7)})
    with pytest.raises(InputError, match="does not accept"):
        as_score("acceptance-rate").compute(alone, scene)
    with pytest.raises(InputError, match="needs weighted points"):
        as_score("ess").compute(alone, scene)
    given = Approximation(None, None, 9, given={"mean:phi": Given(0.7)})
    with pytest.raises(InputError, match="truth of 'mean:phi' is not known"):
        as_score("mse").compute(given, Scene(problem, (fbar.mean("phi"),)))


# ---------------------------------------------------------------- error bars


def test_coverage_and_z_of_students_intervals():
    rng = np.random.default_rng(7)
    problem = problems.load("ramp")
    scene, trials, n = Scene(problem, (MEAN,)), 2000, 5
    x = rng.normal(2 / 3, 1.0, (trials, n))
    value, error = x.mean(axis=1), x.std(axis=1, ddof=1) / math.sqrt(n)

    def share(df):
        given = [
            Approximation(None, None, 1, given={"mean:theta": Given(v, e, df)})
            for v, e in zip(value, error, strict=True)
        ]
        return np.mean([as_score("coverage").compute(item, scene)["mean:theta"] for item in given])

    limit = 5 * math.sqrt(0.95 * 0.05 / trials)
    assert abs(share(n - 1) - 0.95) < limit
    assert share(np.inf) < 0.95 - limit  # normal quantiles would be caught
    found = as_score("z-score").compute(
        Approximation(None, None, 1, given={"mean:theta": Given(2 / 3 + 0.2, 0.1)}), scene
    )
    assert found["mean:theta"] == pytest.approx(2.0)


def test_no_error_bar_no_coverage():
    scene = Scene(problems.load("ramp"), (MEAN,))
    silent = Approximation(None, None, 1, given={"mean:theta": Given(0.7)})
    for name in ("coverage", "z-score"):
        assert math.isnan(as_score(name).compute(silent, scene)["mean:theta"])
    sure = trial_errors(Approximation(None, None, 1, given={"mean:theta": Given(0.7, 0.0)}), scene)["mean:theta"]
    assert holds(sure) == 0.0
    assert sure.z == math.inf
