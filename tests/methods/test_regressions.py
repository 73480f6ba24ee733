"""Cases that once gave a wrong answer without a word, each with its truth."""

import pickle

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs import optimal
from fbar.designs.boxes import Partition
from fbar.problems import ramp
from fbar.question.priors import Density

pytestmark = pytest.mark.arithmetic

RAMP = ramp()
U = np.random.default_rng(1).random(20_000)


def z_score(estimate, truth):
    return (estimate.value - truth) / estimate.standard_error


@pytest.mark.parametrize("apart", [3.0, 12.0, 20.0, 200.0])
def test_a_density_keeps_all_its_modes(apart):
    density = Density(lambda x: np.exp(-((x + apart) ** 2)) + 3 * np.exp(-((x - apart) ** 2)), -2 * apart, 2 * apart)
    x = density.ppf(U)
    sd = np.sqrt(0.5)
    cdf = 0.25 * stats.norm(-apart, sd).cdf(x) + 0.75 * stats.norm(apart, sd).cdf(x)
    assert np.abs(cdf - U).max() < 1e-9 + (1e-5 if apart == 3.0 else 0), "the ends cut off exp(-9) of the tails"


def test_a_density_with_a_gap():
    density = Density(lambda x: np.where((x < 0.2) | (x > 0.8), 1.0, 0.0), 0, 1)
    expected = np.where(U < 0.5, 0.4 * U, 0.8 + 0.4 * (U - 0.5))
    assert np.abs(density.ppf(U) - expected).max() < 1e-9


def test_densities_beyond_reach_are_refused_quickly():
    with pytest.raises(fbar.InputError, match="too rough"):
        Density(lambda x: 1 + np.random.default_rng(0).random(x.shape), 0, 1)


def test_a_design_on_two_far_modes_finds_both():
    problem = fbar.Problem.bernoulli(
        fbar.Prior(t=stats.uniform(-20, 40)), lambda t: np.exp(-4 * (np.abs(t["t"]) - 9) ** 2)
    )
    estimate = fbar.infer(problem, fbar.mean("t"), method=fbar.Importance("max-ess"), budget=20_000, seed=1)["mean:t"]
    assert abs(z_score(estimate, 0.0)) < 5
    assert estimate.standard_error < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [stats.cauchy(), stats.lognorm(3), stats.gamma(0.1), stats.norm(0, 3), stats.beta(0.05, 0.5), stats.pareto(1)],
)
def test_designs_under_priors_with_heavy_tails_and_singular_ends(prior):
    problem = fbar.Problem.bernoulli(fbar.Prior(t=prior), lambda t: np.exp(-((t["t"] - 1) ** 2)))
    targeted = fbar.infer(problem, fbar.mean("t"), method=fbar.Importance("targeted"), budget=20_000, seed=1)["mean:t"]
    plain = fbar.infer(problem, fbar.mean("t"), budget=200_000, seed=2)["mean:t"]
    difference = np.hypot(targeted.standard_error, plain.standard_error)
    assert abs(targeted.value - plain.value) < 5 * difference


@pytest.mark.slow
def test_a_partition_gives_a_discrete_value_one_density():
    prior = fbar.Prior(k=stats.poisson(3), x=stats.uniform(), c=fbar.Categorical(["a", "b", "c"], [0.2, 0.3, 0.5]))
    design = Partition(
        prior, lambda t: np.exp(-((t["k"] - 2) ** 2) / 4 - np.abs(t["x"] - 0.1 * t["k"])) * (t["c"] != "b")
    )
    x = (np.arange(512) + 0.5) / 512
    total = sum(
        np.exp(design.logpdf(fbar.Points({"k": np.full(512, k), "x": x, "c": np.full(512, c)}))).mean()
        for k in range(25)
        for c in "abc"
    )
    assert total == pytest.approx(1.0, abs=0.01)
    sample = design.sample(50_000, rng=np.random.default_rng(2))
    fresh = fbar.Points({name: sample[name] for name in sample})
    assert np.allclose(design.logpdf(sample), design.logpdf(fresh)), "the density of a value, not of its coordinate"


def discrete_models():
    models = fbar.ModelChoice({1: fbar.Prior(k=stats.poisson(3), x=stats.uniform()), 2: fbar.Prior(x=stats.uniform())})

    def p_star(t):
        k = np.where(t.present("k"), t["k"], 2.0)
        return np.exp(-((k - 2) ** 2) / 4 - np.abs(t["x"] - 0.1 * k))

    return fbar.Problem.bernoulli(models, p_star)


def test_discrete_parameters_inside_a_model_choice():
    problem = discrete_models()
    k, x = np.arange(40)[:, None], (np.arange(4000) + 0.5) / 4000
    p = np.exp(-((k - 2) ** 2) / 4 - np.abs(x - 0.1 * k)).mean(axis=1) * stats.poisson(3).pmf(k[:, 0])
    other = np.exp(-np.abs(x - 0.2)).mean()
    targets = [fbar.mean("k"), fbar.model_probability(1)]
    first, second = fbar.infer(problem, targets, method=fbar.Importance("max-ess"), budget=100_000, seed=3).estimates
    assert abs(z_score(first, p @ k[:, 0] / p.sum())) < 5
    assert abs(z_score(second, p.sum() / (p.sum() + other))) < 5


def test_models_are_matched_by_name_whatever_their_order():
    prior = fbar.ModelChoice(
        {"a": fbar.Prior(t=stats.uniform(0, 1)), "b": fbar.Prior(t=stats.uniform(0, 1))}, [0.6, 0.4]
    )
    problem = fbar.Problem.bernoulli(prior, lambda t: np.where(t["model"] == "a", t["t"], 0.5 * t["t"]))
    q = fbar.ModelChoice({"b": fbar.Prior(t=stats.beta(2, 1)), "a": fbar.Prior(t=stats.beta(1, 1))}, [0.7, 0.3])
    target = fbar.model_probability("a")
    estimate = fbar.infer(problem, target, method=fbar.Importance(q), budget=40_000, seed=4)[target.name]
    assert abs(z_score(estimate, 0.6 / 0.8)) < 5
    lacking = fbar.ModelChoice({"a": None, "b": fbar.Prior(t=stats.uniform(0, 1))})
    with pytest.raises(fbar.InputError, match=r"same|not in both"):
        fbar.infer(problem, target, method=fbar.Importance(lacking), budget=100)


def test_a_transform_inside_a_model_choice():
    own = fbar.UnitTransform(lambda u: {"x": u[:, 0] ** 2, "y": u[:, 0] * u[:, 1]}, ["x", "y"])
    problem = fbar.Problem.bernoulli(
        fbar.ModelChoice({1: own, 2: None}), lambda t: np.where(t.present("x"), np.nan_to_num(t["y"]), 0.2)
    )
    target = fbar.model_probability(1)
    estimate = fbar.infer(problem, target, method=fbar.Importance("max-ess"), budget=40_000, seed=5)[target.name]
    assert abs(z_score(estimate, 0.25 / 0.45)) < 5


@pytest.mark.slow
def test_a_targeted_design_of_a_product_is_targeted():
    """Separable p* does not make |ψ| separable: the design must differ from max-ess, and be better."""
    bell = lambda x: np.exp(-(x**2))  # noqa: E731
    problem = fbar.Problem.bernoulli(fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1)), fbar.Separable(a=bell, b=bell))
    target = fbar.mean("a")
    errors = {
        q: fbar.infer(problem, target, method=fbar.Importance(q), budget=100_000, seed=6)[target.name].standard_error
        for q in ("max-ess", "targeted")
    }
    assert errors["targeted"] < 0.95 * errors["max-ess"]


def test_a_model_without_mass_has_no_posterior_and_a_design_still_looks_at_it():
    models = fbar.ModelChoice({1: fbar.Prior(a=stats.uniform()), 2: fbar.Prior(b=stats.uniform())})
    dead = fbar.Problem.bernoulli(models, lambda t: np.where(t["model"] == 1, 0.5, 0.0))
    posterior, evidence = optimal.true_posterior(dead)
    assert evidence == pytest.approx(0.25)
    assert posterior.probability(2) == 0
    alive = fbar.Problem.bernoulli(models, lambda t: np.where(t["model"] == 1, 0.5, np.nan_to_num(t["b"])))
    assert optimal.targeted(alive, fbar.mean("b")).probability(1) > 0.01


def test_absolute_continuity_is_checked_where_the_acceptance_is_known_too():
    with pytest.raises(fbar.InputError, match="of the posterior's mass"):
        fbar.infer(
            RAMP, fbar.mean("theta"), method=fbar.Importance(fbar.Prior(theta=stats.uniform(0, 0.5))), budget=100
        )


def test_a_defensive_mixture_with_another_prior_is_weighed_by_its_density():
    q = fbar.designs.defensive(fbar.Prior(theta=stats.beta(2, 2)), fbar.Prior(theta=stats.beta(1, 3)), 0.5)
    estimate = fbar.infer(RAMP, fbar.mean("theta"), method=fbar.Importance(q), budget=40_000, seed=7)["mean:theta"]
    assert abs(z_score(estimate, 2 / 3)) < 5


@pytest.mark.parametrize(
    ("scheme", "budget"), [("stratified", 1001), ("sobol", 1010), ("stratified", 5000), ("sobol", 5000)]
)
def test_a_run_towards_a_precision_uses_all_that_it_simulated(scheme, budget):
    method = fbar.Rejection(scheme=scheme)
    result = fbar.infer(RAMP, fbar.mean("theta"), method=method, precision={"mean:theta": 1e-4}, budget=budget, seed=8)
    assert result.run.simulations == result.simulations == budget
    assert abs(z_score(result["mean:theta"], 2 / 3)) < 5


@pytest.mark.slow
def test_small_rounds_of_independent_draws_share_their_variance():
    """Sixteen rounds of one or two draws are one sample: the variance is that of the whole."""
    values, variances = [], []
    for seed in range(400):
        try:
            estimate = fbar.infer(RAMP, fbar.mean("theta"), budget=24, seed=seed)["mean:theta"]
        except fbar.NoPosterior:
            continue
        values.append(estimate.value)
        variances.append(estimate.variance)
    assert 0.7 < np.mean(variances) / np.var(values) < 1.3


def test_kernel_regression_towards_a_precision_and_where_it_has_no_business():
    half = fbar.probability("theta < 0.5")
    method = fbar.Importance("prior", estimator=fbar.KernelRegression())
    result = fbar.infer(RAMP, half, method=method, precision={half.name: 0.02}, seed=9)
    assert result[half.name].standard_error <= 0.02
    with pytest.raises(fbar.InputError, match="smooths over continuous parameters"):
        fbar.infer(discrete_models(), fbar.mean("x"), method=method, budget=100)
    with pytest.raises(fbar.InputError, match="unit coordinates"):
        fbar.KernelRegression(5.0)


def test_draws_outside_the_prior_are_rejected_draws():
    q = fbar.Prior(theta=stats.uniform(-1, 3))
    problem = fbar.Problem(
        RAMP.prior, lambda t, rng: (rng.random(t.rows) < np.abs(t["theta"])).astype(float), observed=1.0
    )
    result = fbar.infer(problem, fbar.mean("theta"), method=fbar.Importance(q), tolerance=0, budget=20_000, seed=10)
    assert abs(z_score(result["mean:theta"], 2 / 3)) < 5
    assert result.accepted == pytest.approx(20_000 / 6, rel=0.1)


def test_predicates_about_parameters_that_some_models_lack():
    points = fbar.Points(
        {"model": ["x", "y", "y"], "b": [np.nan, 2.0, 4.0]}, present={"b": np.array([False, True, True])}
    )
    weights = np.array([0.5, 0.3, 0.2])
    for text, expected in (("b > 3", 0.2), ("b <= 3", 0.3), ("not b > 3", 0.3)):
        assert fbar.probability(text).value(points, weights)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fbar.infer(
                fbar.Problem.bernoulli(RAMP.prior, lambda t: 3 * t["theta"]), fbar.mean("theta"), budget=10
            ),
            "must lie in [0, 1]",
        ),
        (
            lambda: fbar.infer(
                fbar.Problem.bernoulli(RAMP.prior, lambda t: np.nan * t["theta"]), fbar.mean("theta"), budget=10
            ),
            "must lie in [0, 1]",
        ),
        (
            lambda: optimal.targeted(RAMP, [fbar.mean("theta")], tolerances=[1.0, 2.0]),
            "one tolerance for each of 1 targets",
        ),
        (lambda: optimal.targeted(RAMP, [fbar.mean("theta")], tolerances=[0.0]), "must be greater than 0"),
        (lambda: optimal.targeted(RAMP, fbar.probability("theta > 2")), "is the same everywhere"),
        (lambda: fbar.ModelChoice({1: None, "b": None}), "all text or all numbers"),
        (lambda: RAMP.prior.from_unit([[2.0]]), "must lie in [0, 1]"),
        (lambda: RAMP.prior.from_unit([[np.nan]]), "must lie in [0, 1]"),
        (
            lambda: fbar.infer(RAMP, fbar.mean("theta"), method=fbar.Rejection(scheme=3), budget=10),
            "scheme must be one of",
        ),
        (
            lambda: fbar.infer(RAMP, fbar.mean("theta"), method=fbar.Importance(estimator="kernel"), budget=10),
            "estimator must be",
        ),
        (
            lambda: fbar.infer(RAMP, fbar.mean("theta"), method=fbar.Rejection(rounds=0), budget=10),
            "rounds must be a positive integer",
        ),
        (lambda: fbar.Problem(RAMP.prior, lambda t, r: t["theta"], observed=1.0, records="peak"), "a list of names"),
        (
            lambda: fbar.Problem(RAMP.prior, lambda t, r: t["theta"], observed=1.0, summary=lambda x: x.mean(axis=3)),
            "the summary failed",
        ),
    ],
)
def test_input_that_ran_silently_is_refused(call, message):
    with pytest.raises(fbar.InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recorded_output_does_not_overwrite_a_parameter():
    def simulate(t, rng):
        return {"x": np.ones(t.rows), "theta": -t["theta"]}

    with pytest.raises(fbar.InputError, match="has the name of a parameter"):
        fbar.Problem(RAMP.prior, simulate, observed=1.0, records=["theta"])
    with pytest.raises(fbar.InputError, match="like a parameter"):
        fbar.infer(fbar.Problem(RAMP.prior, simulate, observed=1.0), fbar.mean("theta"), budget=10)


def test_whole_numbers_reach_simulators_as_such_and_batches_travel():
    prior = fbar.Prior(n=stats.randint(1, 5), p=stats.uniform())
    problem = fbar.Problem(
        prior, lambda t, rng: rng.binomial(t["n"], t["p"]), observed=2, derived={"np": lambda t: t["n"] * t["p"]}
    )
    run = fbar.Rejection().start(problem, fbar.mean("np"), 1, 1000)
    (batch, *_) = run.ask()
    assert batch.points["n"].dtype.kind == "i"
    again = pickle.loads(pickle.dumps(batch))
    assert again.rng().random() == batch.rng().random()
    x = problem.simulate(again.theta, again.rng())
    run.tell((batch, problem.outcomes(x, again.simulations)))
    assert fbar.infer(problem, fbar.mean("np"), budget=1000, seed=1).accepted > 10


def test_each_sees_derived_parameters():
    @fbar.each
    def simulate(theta, rng):
        return rng.poisson(theta["double"])

    problem = fbar.Problem(
        fbar.Finite(rate=[1.0, 2.0]), simulate, observed=2, derived={"double": lambda t: 2 * t["rate"]}
    )
    p = stats.poisson([2, 4]).pmf(2)
    estimate = fbar.infer(problem, fbar.mean("rate"), budget=4000, seed=1)["mean:rate"]
    assert abs(z_score(estimate, p @ [1, 2] / p.sum())) < 5


def test_a_covariance_of_parameters_that_no_model_has_together_is_refused():
    models = fbar.ModelChoice({1: fbar.Prior(a=stats.uniform()), 2: fbar.Prior(b=stats.uniform())})
    problem = fbar.Problem.bernoulli(models, lambda t: np.full(t.rows, 0.5))
    with pytest.raises(fbar.InputError, match="that no model has all of"):
        fbar.infer(problem, fbar.covariance("a", "b"), budget=100)
