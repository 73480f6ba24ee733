"""Estimators for the bias that a tolerance leaves: extrapolation and adjustment, against exact truths.

Seeds are fixed. Over n runs, a mean is compared with its expectation at |z| < 5, and the number of 95% intervals that
hold the truth has the band 0.905 to 0.985 (about 3.6 standard deviations of the binomial distribution for 300 runs).
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from fbar.problems import filippi, ramp
from fbar.question.priors.marginals import Uniform

pytestmark = pytest.mark.arithmetic

FILIPPI = fbar.problems.load("filippi").with_observed(0.0)
NEAR = fbar.designs.defensive(fbar.Prior(theta1=Uniform(-2, 18), theta2=Uniform(0, 8)), FILIPPI.prior)
MOONS = fbar.problems.load("two-moons")
LINEAR = fbar.problems.load("gaussian-linear")
COVARIANCE = fbar.covariance("theta1", "theta2")
BAND = (0.905, 0.985)


class Runs:
    """One target's estimates over independent runs."""

    def __init__(self, estimates):
        self.value = np.array([estimate.value for estimate in estimates])
        self.error = np.array([estimate.standard_error for estimate in estimates])
        self.low, self.high = np.array([estimate.interval() for estimate in estimates]).T

    def z(self, truth):
        return (self.value.mean() - truth) / (self.value.std(ddof=1) / math.sqrt(self.value.size))

    def coverage(self, truth):
        return np.mean((self.low <= truth) & (truth <= self.high))

    @property
    def honesty(self):
        """The error bar over the scatter of the estimates, in standard deviations from 1."""
        squared = self.value - self.value.mean()
        kurtosis = (squared**4).mean() / (squared**2).mean() ** 2
        ratio = np.sqrt((self.error**2).mean()) / self.value.std(ddof=1)
        return (ratio - 1) / math.sqrt((kurtosis - 1) / (4 * self.value.size))

    def require(self, truth):
        assert abs(self.z(truth)) < 5
        assert BAND[0] <= self.coverage(truth) <= BAND[1]
        assert abs(self.honesty) < 5


def repeat(problem, method, targets, budget, runs, **views):
    """For every view of a result and every target: its estimates over the runs."""
    seen = {name: [] for name in views}
    for seed in range(runs):
        result = fbar.infer(problem, targets, method=method, budget=budget, seed=seed)
        for name, view in views.items():
            seen[name].append(view(result).estimates)
    return {
        name: {target.name: Runs([estimates[target.name] for estimates in found]) for target in targets}
        for name, found in seen.items()
    }


VIEWS = {"plain": lambda r: r, "extrapolated": lambda r: r.extrapolated(), "adjusted": lambda r: r.adjusted()}


# ---------------------------------------------------------------- extrapolation


@cache
def on_filippi():
    method = fbar.Importance(NEAR, tolerance=2.0, rounds=1)
    targets = [COVARIANCE, fbar.variance("theta1"), fbar.mean("theta2")]
    return targets, repeat(FILIPPI, method, targets, 8000, 400, **VIEWS)


@pytest.mark.slow
def test_extrapolation_removes_most_of_the_bias():
    """The covariance's bias at tolerances 2, 1, and extrapolated from both: 0.449, 0.127, 0.019 of 0.798."""
    targets, runs = on_filippi()
    for target in targets[:2]:
        truth, wide, narrow = (float(p.truth(target)[0]) for p in (FILIPPI, filippi(2.0), filippi(1.0)))
        expected = (4 * narrow - wide) / 3
        assert abs(expected - truth) < 0.2 * abs(narrow - truth)
        plain, extrapolated = runs["plain"][target.name], runs["extrapolated"][target.name]
        assert plain.z(truth) > 50
        assert plain.coverage(truth) < 0.1
        extrapolated.require(expected)
        assert BAND[0] <= extrapolated.coverage(truth) <= BAND[1]


@pytest.mark.slow
def test_extrapolation_leaves_an_unbiased_mean_alone():
    _, runs = on_filippi()
    runs["extrapolated"]["mean:theta2"].require(4.0)


@pytest.mark.slow
def test_extrapolation_of_two_moons():
    targets = [fbar.second_moment("theta1"), fbar.mean("theta1")]
    method = fbar.Rejection(tolerance=0.2, rounds=1)
    runs = repeat(MOONS, method, targets, 20_000, 300, plain=VIEWS["plain"], extrapolated=VIEWS["extrapolated"])
    truth = float(MOONS.truth(targets[0])[0])
    assert runs["plain"]["second_moment:theta1"].z(truth) > 20
    runs["extrapolated"]["second_moment:theta1"].require(truth)
    runs["extrapolated"]["mean:theta1"].require(float(MOONS.truth(targets[1])[0]))


@pytest.mark.slow
def test_extrapolation_where_its_assumption_fails():
    """x = θ·Exp(1) seen at 0, the edge: the bias is of order ε. A third of it stays, and intervals miss the truth."""
    prior = fbar.Prior(theta=Uniform(1, 4))
    problem = fbar.Problem(prior, lambda t, rng: t["theta"] * rng.exponential(size=t.rows), observed=0.0)
    target = fbar.mean("theta")
    runs = repeat(
        problem, fbar.Rejection(tolerance=2.0, rounds=1), [target], 40_000, 100, extrapolated=VIEWS["extrapolated"]
    )["extrapolated"][target.name]
    theta = 1 + 3 * (np.arange(20_000) + 0.5) / 20_000

    def at(tolerance):
        p = 1 - np.exp(-tolerance / theta)
        return (theta * p).sum() / p.sum()

    truth = 3 / math.log(4)
    assert abs(runs.z((4 * at(1.0) - at(2.0)) / 3)) < 5
    assert runs.z(truth) > 10
    assert runs.coverage(truth) < BAND[0]


def told(theta_of, x_of, tolerance, budget=40, **options):
    """A run of one round that is told outcomes chosen by hand."""
    prior = fbar.Prior(theta=stats.norm(0, 1))
    problem = fbar.Problem(prior, lambda t, rng: t["theta"], observed=0.0)
    run = fbar.Rejection(tolerance=tolerance, rounds=1, **options).start(
        problem, [fbar.mean("theta")], seed=1, budget=budget
    )
    (batch,) = run.ask()
    theta_of.append(batch.theta["theta"])
    run.tell((batch, problem.outcomes(x_of, budget)))
    return run


@pytest.mark.parametrize("ratio", [2, 3.0])
def test_combination_by_hand(ratio):
    found = []
    x = np.random.default_rng(0).permutation(np.linspace(0, 4, 40))
    run = told(found, x, 2.0)
    theta, n = found[0], 40
    z, value = np.zeros(n), 0.0
    for k, inside in (
        (ratio**2 / (ratio**2 - 1), x <= 2.0 / ratio),
        (-1 / (ratio**2 - 1), x <= 2.0),
    ):
        mean = theta[inside].mean()
        value += k * mean
        z += k * inside * (theta - mean) / inside.sum()
    variance = n / (n - 1) * ((z**2).sum() - z.sum() ** 2 / n)
    estimate = run.extrapolated(ratio).expect(fbar.mean("theta"))
    assert estimate.value == pytest.approx(value, rel=1e-12)
    assert estimate.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
    posterior = run.extrapolated(ratio)
    assert posterior.weights.sum() == pytest.approx(1.0)
    assert posterior.weights @ posterior.points["theta"] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_other_kernels_by_hand(kernel):
    found = []
    x = np.linspace(-3, 3, 40)
    run = told(found, x, 2.0, kernel=kernel)
    shape = (lambda u: np.maximum(0, 1 - u**2)) if kernel == "epanechnikov" else (lambda u: np.exp(-0.5 * u**2))
    wide, narrow = (np.average(found[0], weights=shape(x / at)) for at in (2.0, 1.0))
    assert run.posterior_at(1.0).expect(fbar.mean("theta")).value == pytest.approx(narrow, rel=1e-12)
    assert run.extrapolated().expect(fbar.mean("theta")).value == pytest.approx((4 * narrow - wide) / 3, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["stratified", "sobol"])
def test_other_schemes(scheme):
    """θ ~ N(0, 1), x ~ N(θ, 1), x* = 1: the mean is 1/2. E[θ|s] is linear: adjustment is exact."""
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: t["theta"] + rng.standard_normal(t.rows), observed=1.0
    )
    target = fbar.mean("theta")
    method = fbar.Rejection(scheme, rounds=1, tolerance=1.0)
    runs = repeat(problem, method, [target], 1024, 300, **VIEWS)
    assert abs(runs["plain"][target.name].z(0.5)) > 20
    runs["adjusted"][target.name].require(0.5)
    assert abs(runs["extrapolated"][target.name].honesty) < 5


@pytest.mark.slow
def test_after_smc():
    """Tolerances 2 and 1 from the particles of all rounds."""
    method = fbar.SMC([160, 40, 10, 1], accepted=150)
    runs = repeat(
        FILIPPI, method, [COVARIANCE], None, 40, x=lambda r: r.extrapolated(tolerance=2.0), a=VIEWS["adjusted"]
    )
    wide, narrow = (float(p.truth(COVARIANCE)[0]) for p in (filippi(2.0), filippi(1.0)))
    found = runs["x"][COVARIANCE.name]
    assert abs(found.z((4 * narrow - wide) / 3)) < 5
    assert abs(found.honesty) < 5
    assert abs(runs["a"][COVARIANCE.name].z(narrow)) < 5


# ---------------------------------------------------------------- adjustment


@pytest.mark.slow
def test_adjustment_is_exact_for_a_linear_model():
    """In ten dimensions, at a tolerance that accepts half of the prior's simulations."""
    targets = [fbar.mean("theta1"), fbar.variance("theta2"), fbar.probability("theta1 < -0.4")]
    m = LINEAR.observed / 2
    truths = [m[0], 0.05, stats.norm.cdf(-0.4, m[0], math.sqrt(0.05))]
    runs = repeat(
        LINEAR, fbar.Rejection(tolerance=2.0, rounds=1), targets, 800, 300, plain=VIEWS["plain"], a=VIEWS["adjusted"]
    )
    for target, truth in zip(targets, truths, strict=True):
        assert abs(runs["plain"][target.name].z(truth)) > 50
        runs["a"][target.name].require(truth)


@pytest.mark.slow
def test_adjustment_does_not_see_what_the_variance_does():
    """On Filippi's problem s tells of the spread of θ alone: the covariance keeps its bias, with an honest error."""
    _, runs = on_filippi()
    truth, wide = (float(p.truth(COVARIANCE)[0]) for p in (FILIPPI, filippi(2.0)))
    assert abs(runs["adjusted"][COVARIANCE.name].value.mean() - wide) < 0.1 * abs(wide - truth)
    runs["adjusted"]["mean:theta2"].require(4.0)


def test_adjustment_by_hand():
    """The slope is least squares', and the mean's error the sandwich of the intercept, with residuals scaled up."""
    found = []
    x = np.random.default_rng(0).permutation(
        np.linspace(-0.5, 5, 40)
    )  # their mean is not the data: the slope's error counts
    run = told(found, x, 2.0)
    inside = np.abs(x) <= 2.0
    theta, s, n = found[0][inside], x[inside], int(inside.sum())
    g = np.stack([np.ones(n), s], axis=1)
    hat = g @ np.linalg.inv(g.T @ g)
    fit = hat.T @ theta
    leverage = (hat * g).sum(axis=1)
    posterior = run.adjusted()
    residual = (theta - g @ fit) / np.sqrt(1 - leverage)
    residual -= residual.mean()
    assert posterior.slope[0, 0] == pytest.approx(fit[1], rel=1e-10)
    assert posterior.points["theta"] == pytest.approx(fit[0] + residual, abs=1e-9)
    z = hat[:, 0] * residual
    estimate = posterior.expect(fbar.mean("theta"))
    assert estimate.value == pytest.approx(fit[0], abs=1e-9)
    assert estimate.standard_error == pytest.approx(math.sqrt(40 / 39 * ((z**2).sum() - z.sum() ** 2 / 40)), rel=1e-6)


def test_adjusted_points_stay_in_the_support():
    prior = fbar.Prior(theta=Uniform(0, 1))
    problem = fbar.Problem(
        prior,
        lambda t, rng: t["theta"] + 0.05 * rng.standard_normal(t.rows),
        observed=0.98,
        derived={"square": lambda t: t["theta"] ** 2},
    )
    targets = [fbar.mean("theta"), fbar.mean("square")]
    result = fbar.infer(problem, targets, method=fbar.Rejection(tolerance=0.5), budget=4000, seed=1).adjusted()
    theta = result.posterior.points["theta"]
    assert theta.min() > 0
    assert theta.max() < 1
    assert result["mean:square"].value == pytest.approx(result.posterior.weights @ theta**2)


@pytest.mark.parametrize("view", ["extrapolated", "adjusted"])
def test_recorded_and_extended_runs_give_the_same(view, tmp_path):
    target, method = fbar.mean("theta1"), fbar.Rejection(tolerance=0.5)
    first = fbar.infer(MOONS, target, method=method, budget=3000, seed=1, run=tmp_path / "run")
    value = getattr(first, view)(tolerance=0.3)["mean:theta1"].value
    loaded = fbar.load(tmp_path / "run", MOONS)
    assert getattr(loaded, view)(tolerance=0.3)["mean:theta1"].value == value
    first.run.extend(tolerance=0.3, budget=4000)  # what is beyond the smaller tolerance is let go
    posterior = getattr(first.run, view)()
    assert posterior.expect(target).value == pytest.approx(value, rel=1e-12)


# ---------------------------------------------------------------- curves and refusals


def test_curve_of_rejection():
    result = fbar.infer(MOONS, fbar.second_moment("theta1"), method=fbar.Rejection(tolerance=0.4), budget=4000, seed=1)
    curve = result.curve()
    assert [tolerance for tolerance, _ in curve] == pytest.approx([0.4 / 2 ** (k / 2) for k in range(len(curve))])
    assert 3 <= len(curve) <= 7
    assert curve[0][1]["second_moment:theta1"].value == result["second_moment:theta1"].value
    (_, one), *_ = result.curve(fbar.mean("theta2"), [0.2])
    assert one["mean:theta2"].value == result.at(0.2).expect(fbar.mean("theta2")).value


def normal(**options):
    return fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda t, rng: t["theta"][:, None] + rng.standard_normal((t.rows, 3)),
        observed=np.zeros(3),
        **options,
    )


@pytest.mark.parametrize("view", ["extrapolated", "adjusted", "curve"])
def test_no_distances_are_kept(view):
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    for problem, words in ((finite, "keeps no distances"), (ramp(), "no distances")):
        result = fbar.infer(problem, fbar.mean("theta"), method=fbar.Rejection(), budget=200, seed=1)
        with pytest.raises(InputError, match=words):
            getattr(result, view)()


@pytest.mark.parametrize("view", ["extrapolated", "adjusted"])
def test_refusals_of_both(view):
    dice = fbar.Problem(fbar.Prior(theta=Uniform(0, 1)), lambda t, rng: rng.integers(0, 3, t.rows), observed=1)
    for method in (fbar.Targeted(tolerance=0), fbar.Targeted(tolerance="chosen")):
        result = fbar.infer(dice, fbar.mean("theta"), method=method, budget=200, seed=1)
        with pytest.raises(InputError, match="tolerance 0"):
            getattr(result, view)()
    words = fbar.Problem(fbar.Prior(theta=Uniform(0, 1)), lambda t, rng: np.where(t["theta"] < 0.5, "a", "b"), "a")
    with pytest.raises(InputError, match="tolerance 0"):
        getattr(fbar.infer(words, fbar.mean("theta"), budget=200, seed=1), view)()
    method = fbar.Importance("prior", estimator=fbar.KernelRegression(), tolerance=1.0)
    with pytest.raises(InputError, match="WeightedAverage"):
        getattr(fbar.infer(normal(), fbar.mean("theta"), method=method, budget=300, seed=1), view)()
    result = fbar.infer(normal(), fbar.mean("theta"), method=fbar.Rejection(tolerance=1.0), budget=300, seed=1)
    with pytest.raises(InputError, match="cannot be raised to 2"):
        getattr(result, view)(tolerance=2.0)


def test_refusals_of_one():
    labels = fbar.Problem(
        fbar.Prior(theta=Uniform(0, 1)),
        lambda t, rng: np.where(t["theta"] < 0.5, "a", "b"),
        "a",
        distance=lambda s, o: (s != o).astype(float),
    )
    method = fbar.Rejection(tolerance=1.0)
    with pytest.raises(InputError, match="labels"):
        fbar.infer(labels, fbar.mean("theta"), method=method, budget=200, seed=1).adjusted()
    with pytest.raises(InputError, match="larger than 1"):
        fbar.infer(normal(), fbar.mean("theta"), method=method, budget=300, seed=1).extrapolated(ratio=1)
    few = fbar.infer(normal(), fbar.mean("theta"), method=method, budget=100, seed=1)
    assert few.posterior.points.rows < 13
    with pytest.raises(InputError, match="at least 13"):
        few.adjusted()
    wide = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: rng.standard_normal((t.rows, 101)), observed=np.zeros(101)
    )
    far = fbar.Rejection(tolerance=20.0)
    with pytest.raises(InputError, match="at most 100"):
        fbar.infer(wide, fbar.mean("theta"), method=far, budget=200, seed=1).adjusted()
    steps = fbar.Problem(
        fbar.Prior(theta=fbar.Categorical([1.0, 2.0])), lambda t, rng: t["theta"] + rng.random(t.rows), observed=2.0
    )
    with pytest.raises(InputError, match="single values"):
        fbar.infer(steps, fbar.mean("theta"), method=method, budget=200, seed=1).adjusted()


def test_too_few_for_the_summaries_are_not_trusted():
    result = fbar.infer(
        LINEAR, fbar.mean("theta1"), method=fbar.Rejection(tolerance=2.0), budget=100, seed=1
    ).adjusted()
    assert not result["mean:theta1"].trusted
    assert "for each summary" in str(result)


def test_summaries_are_not_kept_without_end(monkeypatch):
    """Past the limit none is kept: plain posteriors are the same, and an adjustment says why there is none."""
    from fbar.estimation import store

    problem = fbar.problems.load("gaussian-linear")
    method = fbar.SMC([2.0, 1.5], accepted=100)
    whole = fbar.infer(problem, fbar.mean("theta1"), method=method, seed=1, progress=False)
    assert whole.adjusted().estimates[0].standard_error > 0
    monkeypatch.setattr(store, "MOST_NUMBERS", 500)
    cut = fbar.infer(problem, fbar.mean("theta1"), method=method, seed=1, progress=False)
    assert cut.estimates[0].value == whole.estimates[0].value
    with pytest.raises(InputError, match="not kept for very many simulations"):
        cut.adjusted()
