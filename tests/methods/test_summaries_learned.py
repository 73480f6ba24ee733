"""Summaries learned for the targets: what they estimate, that no simulation judges itself, what cannot be learned."""

import sys

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.summaries import functions as learning
from fbar.methods.summaries import regressions
from fbar.methods.summaries.regressions import REGRESSIONS, fit_linear
from fbar.problems import nested_models
from fbar.question.priors.marginals import Uniform
from hidden_mean import DATA, HIDDEN, KNOWN, MU, NOISE, PRECISE, hidden

pytestmark = pytest.mark.arithmetic


def posterior_mean(x):
    return x[..., :KNOWN].sum(axis=-1) / PRECISE


@pytest.fixture(scope="module")
def learned():
    return fbar.LearnedSummaries().learn(HIDDEN, MU, seed=1, simulations=4000)


# ---------------------------------------------------------------- what is learned


def test_the_linear_regression_is_the_posterior_mean_of_a_linear_gaussian_model(learned):
    """E[θ|x] = Σx/6. Least squares on k features would miss it by σ²χ²_k/n in the mean square, k at most 101.

    4.5 standard deviations of that χ² are allowed. A penalty or a scale that is wrong fails.
    """
    batches = fbar.LearnedSummaries(simulations=4000).pilot(HIDDEN, MU, seed=1).ask()
    taught = np.concatenate([batch.theta["theta"] for batch in batches])
    theta = HIDDEN.prior.sample(20_000, rng=np.random.default_rng(2))
    x = hidden(theta, np.random.default_rng(3))
    predicted = taught.mean() + taught.std() * learned.summary.scale[0] * learned.summary(x)[:, 0]
    k, n = 101, taught.size
    assert n == 4000
    assert ((predicted - posterior_mean(x)) ** 2).mean() * PRECISE < (k + 4.5 * np.sqrt(2 * k)) / n
    # 1 − R² is the mean of 4000 squared residuals, k/n too large at the most, over the sample's variance of θ
    missed = (1 - learned.r_squared["mean:theta"]) * PRECISE
    assert -4.5 * np.sqrt(4 / n) < missed - 1 < 4.5 * np.sqrt(4 / n) + k / n * 4 / 3


def test_a_tolerance_is_in_posterior_standard_deviations(learned):
    """Summaries are E[θ|x]/σ, whose variance over the prior's data is (1 − σ²)/σ² = 5."""
    x = hidden(HIDDEN.prior.sample(20_000, rng=np.random.default_rng(5)), np.random.default_rng(6))
    assert learned.summary(x).std() == pytest.approx(np.sqrt(PRECISE - 1), rel=0.06)
    assert learned.observed.shape == (1,)


@pytest.mark.slow
def test_rejection_finds_the_mean_where_the_plain_distance_is_lost(learned):
    """With summary m = E[θ|x] ~ N(0, 1 − σ²) accepted within εσ, the expectation is that of m cut to its window.

    The learned m misses x*'s own by σ√(k/n) or less, k = 100 features and n = 4000 simulations.
    """
    tolerance, sigma, m = 0.5, np.sqrt(1 / PRECISE), posterior_mean(DATA)
    estimate = fbar.infer(learned, MU, tolerance=tolerance, budget=40_000, seed=7)["mean:theta"]
    spread = np.sqrt(1 - 1 / PRECISE)
    edges = np.array([m - tolerance * sigma, m + tolerance * sigma]) / spread
    exact = stats.truncnorm(*edges, scale=spread).mean()
    error = np.hypot(estimate.standard_error, sigma * np.sqrt(100 / 4000))
    assert abs(estimate.value - exact) < 4.5 * error
    assert 4.5 * error < sigma  # it would see an error of a posterior standard deviation
    away = np.sqrt(
        ((hidden(HIDDEN.prior.sample(4000, rng=np.random.default_rng(8)), np.random.default_rng(9)) - DATA) ** 2).sum(
            axis=1
        )
    )
    plain = fbar.infer(HIDDEN, MU, tolerance=float(np.quantile(away, 0.01)), budget=40_000, seed=7)["mean:theta"]
    assert abs(plain.value - m) > 1.5 * sigma


@pytest.mark.parametrize(
    "method",
    [
        fbar.Importance("prior", scheme="sobol", tolerance=0.3),
        fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0.3), accepted=200),
    ],
)
def test_any_method_takes_the_learned_problem(learned, method):
    """The window's own bias is m*(εσ)²/3 over the variance of m, below 0.02σ here."""
    estimate = fbar.infer(learned, MU, method=method, budget=8192, seed=11)["mean:theta"]
    sigma = np.sqrt(1 / PRECISE)
    error = np.hypot(estimate.standard_error, sigma * np.sqrt(100 / 4000))
    assert abs(estimate.value - posterior_mean(DATA)) < 4.5 * error + 0.02 * sigma
    assert 4.5 * error < sigma


def test_smc_comes_as_near_as_its_budget_lets_it():
    smc = fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0), accepted=100)
    result = fbar.infer(HIDDEN, MU, method=smc, summaries="linear", budget=5000, seed=1)
    assert result.simulations <= 4000
    assert result.run.problem.pilot_simulations == 1000
    assert result.run.tolerance < result.run.problem.tolerance_for(0.1)


def test_a_finite_space():
    """Three values of θ: Σx of the five is sufficient, and accepted within a tolerance of it gives a normal window."""
    values = np.array([0.0, 1.0, 2.0])
    problem = fbar.Problem(fbar.Finite(theta=values), hidden, DATA)
    result = fbar.infer(problem, MU, summaries="linear", tolerance=0.3, budget=20_000, seed=1)
    learned = result.run.problem
    total, slope = DATA[:KNOWN].sum(), learned.summary(np.eye(KNOWN + NOISE)[:KNOWN]).mean()
    slope = abs(slope - learned.summary(np.zeros((1, KNOWN + NOISE)))[0, 0])  # of the summary in each x
    width = 0.3 / slope
    mass = stats.norm(KNOWN * values, np.sqrt(KNOWN))
    weights = mass.cdf(total + width) - mass.cdf(total - width)
    truth = float(weights @ values / weights.sum())
    sd = np.sqrt(weights @ values**2 / weights.sum() - truth**2)
    # as above, what the regression itself may miss: √(k/n) of a residual deviation, with k = 100 and n = 1000
    assert abs(result["mean:theta"].value - truth) < 4.5 * np.hypot(result["mean:theta"].standard_error, 0.3 * sd)


# ---------------------------------------------------------------- no simulation judges itself


class Memory(regressions.Fit):
    """Knows its own simulations by heart."""

    def __init__(self, x, y, seed):
        self.known = {row.tobytes(): values for row, values in zip(x, y, strict=True)}
        self.nothing = np.zeros(y.shape[1])

    def predict(self, x):
        return np.stack([self.known.get(row.tobytes(), self.nothing) for row in np.ascontiguousarray(x)])


def noise(theta, rng):
    return rng.standard_normal((theta.rows, 20))


NOISY = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), noise, np.zeros(20))


def test_one_that_knows_its_simulations_by_heart_explains_nothing(monkeypatch):
    monkeypatch.setitem(REGRESSIONS, "linear", Memory)
    pilot = fbar.LearnedSummaries(simulations=500).pilot(NOISY, MU, seed=1)
    pilot.tell(*((batch, fbar.simulate(NOISY, batch)) for batch in pilot.ask()))
    problem = fbar.LearnedSummaries(simulations=500).fit(pilot)
    x, points = pilot.simulated()
    inside = problem.summary(x)[:, 0] * problem.summary.scale[0]
    assert inside == pytest.approx(stats.zscore(points["theta"]))  # in its own sample it is perfect
    assert problem.r_squared["mean:theta"] == pytest.approx(0.0, abs=1e-12)  # out of fold it says the mean
    assert (problem.learning.summaries == 0).all()
    assert "contain no information on mean:theta" in problem.warning


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "boosting"])
def test_pure_noise_explains_nothing_out_of_fold(kind):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((300, 20)), stats.zscore(rng.standard_normal((300, 1)))
    predicted = learning.out_of_fold(kind, x, y, 4, 0)
    # Corr(y, prediction) is N(0, 1/n): what R² can be by luck is its square, 4.5²/300.
    assert 1 - ((y - predicted) ** 2).mean() < 4.5**2 / 300
    if kind == "boosting":
        assert 1 - ((y - REGRESSIONS[kind](x, y, 0).predict(x)) ** 2).mean() > 0.5


def test_every_prediction_is_of_a_regression_without_its_row():
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((90, 3)), rng.standard_normal((90, 2))
    predicted = learning.out_of_fold("linear", x, y, 3, 0)
    changed = y.copy()
    changed[1::3] += 100.0  # what the second fold is told of itself
    again = learning.out_of_fold("linear", x, changed, 3, 0)
    assert (again[1::3] == predicted[1::3]).all()
    assert (again[0::3] != predicted[0::3]).any()


def test_leave_one_out_errors_are_those_of_leaving_one_out(monkeypatch):
    """The penalty that is chosen has the least error by brute force, among fits that leave each row out."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 6))
    y = stats.zscore(x[:, :1] + 2 * rng.standard_normal((40, 1)))
    monkeypatch.setattr(regressions, "MOST_SQUARES", 0)
    monkeypatch.setattr(np, "arcsinh", lambda u: u)  # nothing is tamed
    z = regressions.Scale.of(x, False)(x)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    largest = np.linalg.svd(z, compute_uv=False)[0] ** 2
    errors = []
    for penalty in regressions.PENALTIES * largest:
        left = []
        for i in range(40):
            rest = np.arange(40) != i
            # as in the formula: rows leave, the columns' scale stays
            design = np.hstack([np.ones((39, 1)), z[rest]])
            ridge = np.diag([0.0] + [penalty] * 6)
            beta = np.linalg.solve(design.T @ design + ridge, design.T @ y[rest, 0])
            left.append(y[i, 0] - beta[0] - z[i] @ beta[1:])
        errors.append(np.mean(np.square(left)))
    chosen = regressions.PENALTIES[int(np.argmin(errors))] * largest
    expected = y.mean() + z @ np.linalg.solve(z.T @ z + chosen * np.eye(6), z.T @ (y[:, 0] - y.mean()))
    assert fit_linear(x, y, 0).predict(x)[:, 0] == pytest.approx(expected, abs=1e-9)


def test_the_share_of_the_pilot_is_the_share_of_new_simulations(learned):
    """Within 4.5 standard deviations: 1% of 4000 in the pilot, and of 20,000 new ones."""
    tolerance = learned.tolerance_for(0.01)
    x = hidden(HIDDEN.prior.sample(20_000, rng=np.random.default_rng(12)), np.random.default_rng(13))
    share = (np.abs(learned.summary(x)[:, 0] - learned.observed[0]) <= tolerance).mean()
    assert abs(np.log(share / 0.01)) < 4.5 * np.sqrt(1 / 40 + 1 / 200)
    assert learned.tolerance_for(1) == learned.pilot_distances.max()


# ---------------------------------------------------------------- other regressions


def spread_only(theta, rng):
    return np.exp(theta["theta"])[:, None] * rng.standard_normal((theta.rows, 8))


@pytest.mark.slow
def test_squares_trees_and_networks_see_what_the_data_themselves_do_not_tell_linearly():
    """x ~ N(0, e^2θ): E[θ|x] is no linear function of x; by symmetry a linear one explains nothing."""
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), spread_only, np.ones(8))
    found = {
        kind: fbar.LearnedSummaries(kind).learn(problem, MU, seed=1, simulations=600) for kind in (*REGRESSIONS, "auto")
    }
    for kind, learned in found.items():
        assert learned.r_squared["mean:theta"] > 0.5, kind
    best = max(REGRESSIONS, key=lambda kind: found[kind].r_squared["mean:theta"])
    assert found["auto"].regression == best
    assert found["auto"].r_squared == found[best].r_squared
    assert (found["auto"].observed == found[best].observed).all()


def test_missing_scikit_learn_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(fbar.MissingExtra, match=r"fbar\[learn\]"):
        fbar.LearnedSummaries("boosting").learn(NOISY, MU, seed=1, simulations=100)


# ---------------------------------------------------------------- functions of the targets


def test_the_functions_that_targets_are_made_of():
    points = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(2, 1)).sample(200, rng=np.random.default_rng(1))
    targets = [fbar.mean("a"), fbar.variance("a"), fbar.covariance("a", "b"), fbar.quantile("b", 0.9)]
    names, f = learning.functions(targets, points)
    assert names == ["mean:a", "variance:a", "covariance:a,b", "covariance:a,b (2)"]
    a, b = points["a"], points["b"]
    for column, expected in zip(f.T, [a, (a - a.mean()) ** 2, b, (a - a.mean()) * (b - b.mean())], strict=True):
        assert abs(np.corrcoef(column, expected)[0, 1]) == pytest.approx(1)


def test_a_parameter_that_some_models_lack_comes_with_its_models_indicator():
    prior = nested_models().prior
    points = prior.sample(300, rng=np.random.default_rng(1))
    names, f = learning.functions([fbar.mean("theta2")], points)
    has = points.present("theta2")
    assert names == ["mean:theta2", "mean:theta2 (2)"]
    assert (f[~has, 0] == 0).all()
    assert f[has, 0].mean() == pytest.approx(0, abs=1e-9)
    assert set(f[:, 1]) == {0.0, 1.0}


def test_a_target_that_does_not_vary_teaches_nothing():
    with pytest.raises(fbar.InputError, match="nothing to learn"):
        fbar.LearnedSummaries().learn(NOISY, fbar.probability("theta < 100"), seed=1)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regression": "lineal"}, "did you mean 'linear'"),
        ({"regression": 3}, "must be one of"),
        ({"folds": 1}, "at least 2"),
        ({"folds": 2.5}, "positive integer"),
        ({"simulations": 20}, "at least 50"),
    ],
)
def test_settings_that_make_no_sense(options, message):
    with pytest.raises(fbar.InputError, match=message):
        fbar.LearnedSummaries(**options)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (nested_models(), "match or do not"),
        (fbar.Problem(HIDDEN.prior, lambda t, rng: np.full(t.rows, "a"), "a"), "are labels"),
        (fbar.Problem(HIDDEN.prior, hidden, DATA, accept=lambda s, o: s[:, 0] > 0), "acceptance rule"),
    ],
)
def test_problems_without_numbers_to_learn_from(problem, message):
    with pytest.raises(fbar.InputError, match=message):
        fbar.LearnedSummaries().learn(problem, fbar.mean(problem.prior.names[0]), seed=1)


def test_what_cannot_be_learned(learned):
    with pytest.raises(fbar.InputError, match="already learned"):
        fbar.LearnedSummaries().learn(learned, MU)
    with pytest.raises(fbar.InputError, match="between 0 and 1"):
        learned.tolerance_for(0)
    failing = fbar.Problem(
        fbar.Prior(theta=Uniform(0, 1)),
        lambda t, rng: np.where(t["theta"] < 0.9, np.nan, t["theta"])[:, None] * np.ones(3),
        np.ones(3),
    )
    with pytest.raises(fbar.InputError, match="too few to learn"):
        fbar.LearnedSummaries(simulations=100).learn(failing, MU, seed=1)
