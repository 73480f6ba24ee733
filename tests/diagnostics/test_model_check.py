"""Is the model wrong? False alarms are as rare as stated, data that the model cannot make are found and named."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.model_check import FALSE_ALARM
from fbar.diagnostics.predictive_weights import Usable
from fbar.diagnostics.rank_p_values import RankPValues
from fbar.estimation.posterior import Posterior

PRIOR = fbar.Prior(rate=stats.uniform(1, 19))


def counts(theta, rng):
    return rng.poisson(theta["rate"][:, None], (theta.rows, 20)).astype(float)


def summary(x):
    return {"mean": x.mean(axis=1), "variance": x.var(axis=1)}


def poisson(observed):
    return fbar.Problem(PRIOR, counts, observed, summary=summary)


# ---------------------------------------------------------------- p-values


def correlated(rng, size):
    """Summaries with correlations, a skew one, one with ties and one that is mostly zero."""
    x = rng.standard_normal((size, 3))
    return np.stack(
        [x[:, 0], x[:, 0] + 0.1 * x[:, 1], np.exp(x[:, 2]), np.rint(x[:, 1]), rng.random(size) < 0.03], axis=1
    )


def test_p_values_of_exchangeable_data_are_not_too_small():
    """2,000 data sets, each among 99 simulations like it. P(p ≤ α) ≤ α exactly, so that the number of p ≤ 0.05 is at
    most binomial(2000, 0.05): above 138 with probability 1e-4; likewise 0.2, at most 466. And they are not useless."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(2000):
        y = correlated(rng, 100)
        unusual = RankPValues.of(y[0], y[1:], np.ones(99))
        found.append((unusual.p_value, unusual.of_distance, unusual.of_largest_deviation, unusual.of_summaries.min()))
    p = np.array(found)
    assert ((p <= 0.05).sum(axis=0) <= 138).all()
    assert ((p <= 0.2).sum(axis=0) <= 466).all()
    assert ((p <= 0.2).sum(axis=0) >= 250).all()


def test_weights_stand_for_repeated_simulations():
    rng = np.random.default_rng(2)
    y, x = rng.standard_normal((60, 2)), np.array([0.3, -2.0])
    times = rng.integers(1, 4, 60)
    weighted = RankPValues.of(x, y, times.astype(float))
    assert weighted.effective_simulations == pytest.approx(times.sum() ** 2 / (times**2).sum())
    larger = weighted.largest_deviations[:-1] >= weighted.largest_deviations[-1]
    own = (times**2).sum() / times.sum()
    assert weighted.of_largest_deviation == pytest.approx((times[larger].sum() + own) / (times.sum() + own))
    assert weighted.smallest == pytest.approx(own / (times.sum() + own))


def test_data_out_of_reach_have_the_smallest_p_value():
    rng = np.random.default_rng(3)
    y = np.column_stack([rng.standard_normal(200), np.zeros(200)])
    for x in ([9.0, 0.0], [0.0, 1.0]):  # far away; and different where all simulations are the same
        unusual = RankPValues.of(np.array(x), y, np.ones(200))
        assert unusual.p_value == unusual.smallest == pytest.approx(1 / 201)
        assert np.argmin(unusual.of_summaries) == np.argmax(np.abs(x))


def test_a_combination_is_out_of_reach_though_each_summary_is_not():
    rng = np.random.default_rng(4)
    a = rng.standard_normal(500)
    unusual = RankPValues.of(
        np.array([1.0, -1.0]), np.column_stack([a, a + 0.05 * rng.standard_normal(500)]), np.ones(500)
    )
    assert unusual.of_distance == unusual.smallest
    assert unusual.of_summaries.min() > 0.1


# ---------------------------------------------------------------- runs


def test_overdispersed_counts_are_found_and_the_summary_is_named():
    observed = np.array([1, 2, 30, 4, 5, 16, 0, 0, 3, 8, 12, 2, 21, 5, 1, 0, 9, 7, 3, 18], dtype=float)
    result = fbar.infer(poisson(observed), fbar.mean("rate"), budget=2000, seed=1)
    check = result.model_check
    assert check.p_value <= FALSE_ALARM
    assert check.compared_with == "posterior"
    assert [item.name for item in check.unreachable] == ["variance"]
    (found,) = check.unreachable
    assert found.high < found.observed == observed.var()
    assert check.warning in result.warnings
    assert "variance is 63.63, simulations give" in str(result)
    assert result.as_dict()["model_check"]["unreachable"][0]["name"] == "variance"
    assert str(check).startswith("The data are unlike what the model simulates at the posterior (p = 0.00")


def test_data_outside_the_reach_of_the_prior_are_found():
    result = fbar.infer(poisson(np.full(20, 60.0)), fbar.mean("rate"), budget=2000, seed=1)
    assert result.model_check.p_value <= FALSE_ALARM
    assert "mean" in [item.name for item in result.model_check.unreachable]


def test_data_of_the_model_are_not_warned_of(tmp_path):
    observed = np.array([7, 9, 4, 6, 10, 8, 5, 7, 12, 6, 9, 7, 8, 3, 7, 11, 6, 8, 5, 9], dtype=float)
    result = fbar.infer(poisson(observed), fbar.mean("rate"), budget=2000, seed=1, run=tmp_path / "run")
    check = result.model_check
    assert check.p_value > FALSE_ALARM
    assert not check.unreachable
    assert not check.warning
    assert str(check).startswith("The data are like what the model simulates at the posterior (p = 0.")
    assert dict(check.by_summary).keys() == {"mean", "variance"}
    assert fbar.load(tmp_path / "run", poisson(observed)).model_check == check


def normal_summaries(x):
    z = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    return np.stack([x.mean(axis=1), x.std(axis=1), (z**3).mean(axis=1), (z**4).mean(axis=1)], axis=1)


@pytest.mark.slow
def test_false_alarms_and_detection_over_replicated_data():
    """200 data sets from a normal model, each among 1,000 simulations from the prior, with its exact posterior.

    P(p ≤ α) ≤ α: more than 23 of 200 below 0.05, or more than 9 below 0.01, would be a false alarm of 1e-4. Skewness
    and kurtosis do not depend on the parameters, so that p is not far from uniform; of data with t₂ noise most are
    found: fewer than 20 of 40 would be one of 1e-4 if it is three in four."""
    rng = np.random.default_rng(6)
    prior = fbar.Prior(mu=stats.norm(0, 2), sd=stats.uniform(0.5, 4))

    def simulated(theta, noise):
        return theta["mu"][:, None] + theta["sd"][:, None] * noise

    def p_value(x):
        theta, sample = prior.sample(1000, rng=rng), prior.sample(3000, rng=rng)
        summaries = normal_summaries(simulated(theta, rng.standard_normal((1000, 30))))
        log_likelihood = stats.norm(sample["mu"][:, None], sample["sd"][:, None]).logpdf(x).sum(axis=1)
        weights = np.exp(log_likelihood - log_likelihood.max())
        posterior = Posterior(sample, weights / weights.sum(), None, 3000, 3000)
        sample = Usable(theta, np.zeros(1000), summaries).posterior_predictive(prior, posterior)
        return RankPValues.of(normal_summaries(x[None])[0], sample.summaries, sample.weights).p_value

    right = np.array(
        [p_value(simulated(prior.sample(1, rng=rng), rng.standard_normal((1, 30)))[0]) for _ in range(200)]
    )
    assert (right <= 0.05).sum() <= 23
    assert (right <= 0.01).sum() <= 9
    assert (right <= 0.5).mean() > 0.2
    wrong = np.array([p_value(rng.standard_t(2, 30)) for _ in range(40)])
    assert (wrong <= 0.05).sum() >= 20


def test_where_it_cannot_be_known_it_says_why():
    few = fbar.infer(poisson(np.full(20, 7.0)), fbar.mean("rate"), budget=100, seed=1)
    assert few.model_check.p_value is None
    assert "too few" in str(few.model_check)
    table = fbar.Problem.tabulated(fbar.Finite(t=[1, 2]), [0.1, 0.2])
    known = fbar.infer(table, fbar.mean("t"), budget=500, seed=1)
    assert known.model_check.as_dict()["p_value"] is None
    assert "not compared with the data by numbers" in str(known.model_check)
    assert known.warnings == ()


def test_models_and_priors_without_coordinates():
    def simulate(spread):
        return lambda theta, rng: theta["m"][:, None] + spread * rng.standard_normal((theta.rows, 4))

    prior = fbar.Prior(m=stats.norm(0, 1))
    models = {"narrow": fbar.Model(simulate(0.5), prior), "wide": fbar.Model(simulate(2.0), prior)}
    for observed, alarm in (([0.1, 0.6, -0.2, 0.4], False), ([0.0, 30.0, 0.0, -30.0], True)):
        choice = fbar.Problem.models(models, observed)
        check = fbar.infer(choice, fbar.probability("model == 'wide'"), budget=2000, seed=1).model_check
        assert (check.p_value <= FALSE_ALARM) is alarm


def test_data_that_are_rather_unusual_are_not_called_like_simulations():
    check = fbar.ModelCheck(p_value=0.02, of_distance=0.02, of_summaries=0.5)
    assert not check.alarm
    assert str(check).startswith("The data are rather unusual among what the model simulates")
