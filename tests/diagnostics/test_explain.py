"""Explanations: predicted variances against closed forms, shares that add up, and an answer from every method."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import problems, theory
from fbar.cli import app
from fbar.errors import InputError
from fbar.estimation.draws import DrawErrors

RAMP = problems.load("ramp")
"""θ uniform on (0, 1), accepted with probability θ: the posterior is 2θ, its mean 2/3, p(x*) = 1/2."""

ROOT = fbar.Importance(fbar.Prior(theta=stats.beta(1.5, 1)))
"""q = 3√θ/2 on it, so that w = 2/(3√θ)."""

N_V_REJECTION = 1 / 9  # 4 ∫ (θ − 2/3)² θ dθ
N_V_ROOT = 4 / 1.5 * (1 / 3.5 - (4 / 3) / 2.5 + (4 / 9) / 1.5)  # 4 ∫ (θ − 2/3)² θ 2/(3√θ) dθ


def noisy(noise=0.5):
    """θ uniform on (−5, 5), y = θ + noise, observed at 1."""
    return fbar.Problem(
        fbar.Prior(theta=stats.uniform(-5, 10)),
        lambda theta, rng: theta["theta"] + noise * rng.standard_normal(theta.rows),
        observed=1.0,
    )


def noisy_rejection(tolerance, noise=0.5):
    """N times the variance of rejection's estimate of E θ on it: ∫ ψ² p m dθ / Z², by the trapezoidal rule."""
    theta = np.linspace(-5, 5, 20_001)
    m = stats.norm.cdf((1 + tolerance - theta) / noise) - stats.norm.cdf((1 - tolerance - theta) / noise)
    z = np.trapezoid(m, theta) / 10
    mean = np.trapezoid(m * theta, theta) / 10 / z
    return np.trapezoid((theta - mean) ** 2 * m, theta) / 10 / z**2


@pytest.mark.slow
def test_what_rejection_would_have_given_from_importance_sampling():
    """200 runs: the mean prediction within 4.5 errors of 1/(9N), and the stated error that of the runs within 25%.

    Weights that are not p/q itself (such as normalised ones), w² for w or acceptances for simulations in the sums each
    move it by over 5%, ten times what is allowed.
    """
    n, ratios, errors, variances = 1000, [], [], []
    for seed in range(200):
        found = fbar.infer(RAMP, fbar.mean("theta"), method=ROOT, budget=n, seed=seed, progress=False).explain()
        (other,) = found.alternatives
        ratios.append(other.times)
        errors.append(other.times_error)
        variances.append(n * other.standard_error**2)
    error = np.std(variances) / np.sqrt(200)
    assert error < 0.007 * N_V_REJECTION
    assert abs(np.mean(variances) - N_V_REJECTION) < 4.5 * error + 1 / n  # the delta method leaves O(1/N)
    truth = N_V_REJECTION / N_V_ROOT
    assert abs(np.mean(ratios) - truth) < 4.5 * np.std(ratios) / np.sqrt(200) + truth / n
    assert 0.75 < np.mean(errors) / np.std(ratios) < 1.25


@pytest.mark.slow
def test_what_rejection_would_have_given_from_smc():
    """40 runs that learn where the posterior is: what they say of rejection is right, and so is that it needs more.

    The mean lies within 4.5 errors, of at most 4% each. Weights of the round's own proposal in place of the mixture's,
    or acceptances for draws, would move it by a factor.
    """
    truth, ratios, times = noisy_rejection(0.1), [], []
    for seed in range(40):
        method = fbar.SMC([2, 0.5, 0.1], accepted=150)
        result = fbar.infer(noisy(), fbar.mean("theta"), method=method, seed=seed, progress=False)
        (other,) = result.explain("theta").alternatives
        ratios.append(result.simulations * other.standard_error**2 / truth)
        times.append(other.times)
    assert np.mean(times) > 2
    assert np.std(ratios) < 0.25
    assert abs(np.mean(ratios) - 1) < 4.5 * np.std(ratios) / np.sqrt(40)


@pytest.mark.parametrize("method", ["adaptive", "rejection", fbar.Allocation("prior")], ids=str)
def test_other_allocations_of_a_finite_space(method):
    """Each predicted error against the formulas of section 2 with the true probabilities, in 4.5 of its own errors."""
    p, f = np.array([0.02, 0.1, 0.3, 0.05]), np.arange(4.0)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    n = 200_000
    problem = fbar.Problem.tabulated(fbar.Finite(theta=f, probabilities=prior), p)
    result = fbar.infer(problem, fbar.mean("theta"), method=method, budget=n, seed=3, progress=False)
    found = {other.words.split(" (")[0]: other for other in result.explain().alternatives}
    truth = {
        "rejection": theory.independent_variance(prior, p, f, prior, n),
        "simulations in the posterior's proportions": theory.variance(prior, p, f, n * theory.posterior(prior, p)),
        "the best allocation for this target": theory.variance(prior, p, f, n * theory.min_mse(prior, p, f)),
    }
    assert set(found) == set(truth) - ({"rejection"} if method == "rejection" else set())
    own = result["mean:theta"].variance
    for words, other in found.items():
        # the ratio's own error, and that of the variance that it is multiplied with
        relative = np.hypot(other.times_error / other.times, np.sqrt(2 / result["mean:theta"].df))
        assert other.standard_error**2 == pytest.approx(other.times * own)
        assert abs(np.log(other.standard_error**2 / truth[words])) < 4.5 * relative, words
    assert found["the best allocation for this target"].times <= 1 + 1e-9


def test_shares_are_those_of_the_variance():
    """Σz² of an importance run by hand: regions, the simulations that carry it, and the largest one."""
    result = fbar.infer(RAMP, fbar.mean("theta"), method=ROOT, budget=4000, seed=5, progress=False)
    found, posterior = result.explain(), result.posterior
    theta, square = posterior.points["theta"], (posterior.weights * (posterior.points["theta"] - result[0].value)) ** 2
    assert square.sum() * 4000 / 3999 == pytest.approx(result.estimates[0].variance)
    assert found.parameter == "theta"
    assert len(found.regions) == 5
    edges = [
        np.sort(theta)[np.searchsorted(np.cumsum(posterior.weights[np.argsort(theta)]), k / 5)] for k in range(1, 5)
    ]
    where = np.searchsorted(edges, theta, side="right")
    for number, region in enumerate(found.regions):
        assert region.variance == pytest.approx(square[where == number].sum() / square.sum())
        assert region.accepted == pytest.approx((where == number).mean())
        assert region.posterior == pytest.approx(0.2, abs=2 / 4000 * 3)
        # where the simulations went: θ^1.5 is q's distribution function, seen in 4000 draws that stand for them
        ends = np.array([0, *edges, 1])[[number, number + 1]] ** 1.5
        share = ends[1] - ends[0]
        assert abs(region.simulations - share) < 4.5 * np.sqrt(share / 4000)
    falling = np.sort(square)[::-1]
    assert falling[: found.carriers.half].sum() >= square.sum() / 2 > falling[: found.carriers.half - 1].sum()
    assert found.carriers.theta == {"theta": theta[np.argmax(square)]}
    assert found.carriers.largest == pytest.approx(square.max() / square.sum())
    assert found.carriers.number == result.accepted


def test_the_parameter_that_matters_is_found():
    def simulate(theta, rng):
        return theta["beta"] / theta["gamma"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(
        fbar.Prior(beta=stats.uniform(0.5, 3.5), gamma=stats.uniform(0.2, 1), idle=stats.uniform()),
        simulate,
        observed=3.0,
        derived={"R0": lambda t: t["beta"] / t["gamma"]},
    )
    targets = [fbar.mean("R0"), fbar.variance("idle"), fbar.quantile("gamma", 0.9), fbar.mean("gamma")]
    result = fbar.infer(problem, targets, budget=5000, tolerance=0.5, seed=1, progress=False)
    assert result.explain("R0").parameter == "R0"
    assert result.explain("idle").parameter == "idle"
    assert result.explain("quantile:gamma,0.9").parameter == "gamma"
    assert result.explain(fbar.probability("beta > 2")).parameter == "beta"
    with pytest.raises(InputError, match="name the target to explain: mean:R0, variance:idle"):
        result.explain()
    with pytest.raises(InputError, match="unknown target 'R1'; known: mean:R0"):
        result.explain("R1")
    ranges = {part.parameter: part for part in result.explain("R0").ranges}
    assert list(ranges) == ["beta", "gamma", "idle", "R0"]
    # Draws are from the prior: 10% and 90% of a uniform distribution, from 5000 and as many like those
    assert ranges["idle"].prior == pytest.approx((0.1, 0.9), abs=4.5 * 0.3 / np.sqrt(5000))
    assert ranges["idle"].simulations == pytest.approx((0.1, 0.9), abs=4.5 * 0.3 / np.sqrt(5000))


def two_models():
    models = fbar.ModelChoice({"one": fbar.Prior(a=stats.uniform(0, 4)), "other": fbar.Prior(b=stats.uniform(0, 8))})

    def simulate(theta, rng):
        return np.where(theta["model"] == "one", theta["a"], theta["b"]) + rng.standard_normal(theta.rows)

    return fbar.Problem(models, simulate, observed=2.0)


def test_a_parameter_that_one_model_has():
    """The mean of a given its model: the error comes from that model alone, and from the ends of a in it."""
    result = fbar.infer(two_models(), fbar.mean("a"), tolerance=0.5, budget=4000, seed=1, progress=False)
    found = result.explain()
    assert found.parameter == "a"
    assert found.regions[-1].words == "without a"
    assert found.regions[-1].variance == 0
    assert found.regions[-1].posterior == pytest.approx(1 - result.expect(fbar.model_probability("one")).value)
    assert found.regions[0].variance + found.regions[4].variance > 0.7
    assert set(found.carriers.theta) == {"model", "a"}
    assert result.explain(fbar.model_probability("one")).parameter == "model"


TABLE = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
SCHEDULE = [2, 0.5]
CASES = {
    "rejection": (RAMP, fbar.Rejection()),
    "stratified": (RAMP, fbar.Rejection("stratified")),
    "sobol": (RAMP, fbar.Rejection("sobol")),
    "importance": (RAMP, ROOT),
    "kernel regression": (RAMP, fbar.Importance(estimator=fbar.KernelRegression())),
    "doubly robust": (RAMP, fbar.Importance(estimator=fbar.DoublyRobust())),
    **{
        f"smc {weights}": (noisy(), fbar.SMC(SCHEDULE, accepted=100, weights=weights))
        for weights in ("mixture", "ess", "inverse-variance", "last")
    },
    "smc on a finite space": (TABLE, fbar.SMC([0], accepted=100)),
    "smc on models": (two_models(), fbar.SMC(SCHEDULE, accepted=200)),
    "smooth acceptance": (noisy(), fbar.Rejection(tolerance=0.5, kernel="epanechnikov")),
    "adaptive": (TABLE, fbar.AdaptiveAllocation()),
    "paper's adaptive": (TABLE, fbar.AdaptiveAllocation("plug-in")),
    "adaptive posterior": (TABLE, fbar.AdaptivePosterior()),
    "allocation": (TABLE, fbar.Allocation("min-mse")),
    "inverse binomial": (TABLE, fbar.InverseBinomial(20)),
    "rejection on a finite space": (TABLE, fbar.Rejection()),
    "actual counts": (TABLE, fbar.Importance([0.5, 0.3, 0.2], weighting="actual")),
}
NOT_AVERAGES = ("kernel regression", "doubly robust")
RELATIVE = ("smc ess", "smc inverse-variance", "smc last")


@pytest.mark.parametrize("case", CASES)
def test_every_method_explains_itself(case):
    problem, method = CASES[case]
    target = fbar.model_probability("one") if "models" in case else fbar.mean("theta")
    budget = None if "smc" in case or case == "inverse binomial" else 2000
    result = fbar.infer(problem, target, method=method, budget=budget, seed=2, progress=False)
    found = result.explain()
    lines = str(found).splitlines()
    assert 8 <= len(lines) <= 25
    assert lines[0] == f"{target.name} = {result.estimates[0]}"
    assert sum(stage.simulations for stage in found.stages) == result.simulations
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["target"] == target.name
    assert found.halving is not None
    assert ("carry" in " ".join(found.unknown)) == (case in NOT_AVERAGES)
    assert ("relative" in " ".join(found.unknown)) == (case in RELATIVE)
    if case in NOT_AVERAGES:
        assert found.carriers is None
        return
    for share in ("posterior", "simulations", "accepted", "variance"):
        assert sum(getattr(region, share) for region in found.regions) == pytest.approx(1)
    assert 1 <= found.carriers.half <= found.carriers.number
    if case not in ("rejection", *RELATIVE):
        assert found.alternatives or case in ("smc on a finite space", "smooth acceptance")
    if isinstance(result.posterior.errors, DrawErrors):
        z = result.posterior.contributions(target)
        assert found.carriers.largest == pytest.approx((z**2).max() / (z**2).sum())


def test_posteriors_made_of_a_run_explain_themselves():
    """At another tolerance, extrapolated and adjusted: their own Σz², whose bars are those of the estimate."""
    method = fbar.Rejection(tolerance=1)
    result = fbar.infer(noisy(), fbar.mean("theta"), method=method, budget=6000, seed=2, progress=False)
    for other in (result.at(0.5), result.extrapolated(), result.adjusted()):
        found = other.explain()
        assert found.estimate.value == other.estimates[0].value
        z = other.posterior.contributions(other.run.targets[0])
        assert (z**2).sum() * 6000 / 5999 == pytest.approx(other.estimates[0].variance, rel=1e-3)
        assert found.carriers.largest == pytest.approx((z**2).max() / (z**2).sum())


def test_trials_are_refused():
    run = fbar.Rejection().start(TABLE, fbar.mean("theta"), seed=1, budget=100, trials=3)
    fbar.drive(run)
    posterior = run.posterior()
    result = fbar.Result(run, posterior, posterior.expect(list(run.targets)), "budget spent")
    with pytest.raises(InputError, match="run of many trials"):
        result.explain()


MODEL = """
import fbar
problem = fbar.problems.load("ramp")
targets = [fbar.mean("theta"), fbar.probability("theta > 0.5")]
"""


def test_recorded_runs_explain_themselves_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)

    def command(*words):
        app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
        return capsys.readouterr().out

    command("infer", "model.py", "--method", "rejection", "--budget", "2000", "--run", "kept", "--seed", "1")
    text = command("explain", "kept", "theta")
    result = fbar.load("kept")
    assert text == f"{result.explain('mean:theta')}\n"
    assert "Halving the error takes about 6,000 more simulations" in text
    assert json.loads(command("explain", "kept", "mean:theta", "--json")) == result.explain("theta").as_dict()
