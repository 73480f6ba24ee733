"""The loop from problem to result: a user's own simulators, stopping rules, failures, messages."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.question.outcomes import Failure

pytestmark = pytest.mark.arithmetic


def poisson(theta, rng):
    return rng.poisson(3, theta.rows)


def geometric(theta, rng):
    return rng.geometric(0.25, theta.rows) - 1


MODELS = {"poisson": poisson, "geometric": geometric}
TARGET = fbar.model_probability("poisson")


def z_score(estimate, truth):
    return (estimate.value - truth) / estimate.standard_error


def truth(*x):
    a, b = stats.poisson(3).pmf(list(x)).sum(), (0.25 * 0.75 ** np.array(x)).sum()
    return a / (a + b)


def test_model_selection_with_exact_matching():
    result = fbar.infer(fbar.Problem.models(MODELS, observed=3), TARGET, budget=20_000, seed=1)
    assert abs(z_score(result[TARGET.name], truth(3))) < 5
    assert result.simulations == 20_000


def test_model_selection_with_a_tolerance_and_with_a_rule():
    near = fbar.Problem.models(MODELS, observed=3)
    result = fbar.infer(near, TARGET, method=fbar.AdaptiveAllocation(tolerance=1), budget=20_000, seed=2)
    assert abs(z_score(result[TARGET.name], truth(2, 3, 4))) < 5
    even = fbar.Problem.models(MODELS, observed=2, accept=lambda x, observed: (x % 2 == observed % 2) & (x < 10))
    result = fbar.infer(even, TARGET, budget=20_000, seed=3)
    assert abs(z_score(result[TARGET.name], truth(0, 2, 4, 6, 8))) < 5


def test_prior_probabilities_of_models_count():
    problem = fbar.Problem.models(MODELS, observed=3, probabilities=[0.2, 0.8])
    result = fbar.infer(problem, TARGET, method=fbar.Rejection(), budget=40_000, seed=4)
    a, b = 0.2 * stats.poisson(3).pmf(3), 0.8 * 0.25 * 0.75**3
    assert abs(z_score(result[TARGET.name], a / (a + b))) < 5


def test_summaries_distances_and_kernels():
    """y ~ N(θ, 1) with three observations; the Gaussian kernel of width ε adds ε² to the variance of their mean."""
    prior = fbar.Finite(mu=[0.0, 1.0, 2.0])

    def simulate(theta, rng):
        return rng.normal(theta["mu"][:, None], 1.0, (theta.rows, 3))

    observed = np.array([0.9, 1.4, 0.1])
    problem = fbar.Problem(prior, simulate, observed, summary=lambda x: x.mean(axis=-1))
    method = fbar.AdaptiveAllocation(tolerance=0.3, kernel="gaussian")
    result = fbar.infer(problem, fbar.mean("mu"), method=method, budget=40_000, seed=5)
    likelihood = stats.norm(observed.mean(), np.sqrt(1 / 3 + 0.09)).pdf([0.0, 1.0, 2.0])
    assert abs(z_score(result["mean:mu"], likelihood @ [0, 1, 2] / likelihood.sum())) < 5


def test_a_simulator_of_one_parameter_set():
    @fbar.each
    def simulate(theta, rng):
        return rng.poisson(theta["rate"])

    problem = fbar.Problem(fbar.Finite(rate=[1.0, 2.0, 5.0]), simulate, observed=2)
    result = fbar.infer(problem, fbar.mean("rate"), budget=4000, seed=6)
    p = stats.poisson([1.0, 2.0, 5.0]).pmf(2)
    assert abs(z_score(result["mean:rate"], p @ [1, 2, 5] / p.sum())) < 5


def test_derived_parameters_are_first_class():
    problem = fbar.Problem.tabulated(
        fbar.Finite(beta=[1.0, 2.0], gamma=[0.5, 0.4]), [0.2, 0.1], derived={"R0": lambda t: t["beta"] / t["gamma"]}
    )
    result = fbar.infer(problem, [fbar.mean("R0"), fbar.probability("R0 > 3")], budget=20_000, seed=7)
    assert abs(z_score(result["mean:R0"], (2 * 2 + 5) / 3)) < 5
    assert abs(z_score(result["probability:R0 > 3"], 1 / 3)) < 5


def test_a_wanted_precision_ends_the_run_and_is_kept():
    problem = fbar.Problem.models(MODELS, observed=3)
    result = fbar.infer(problem, TARGET, precision={TARGET.name: 0.01}, seed=8)
    assert result[TARGET.name].standard_error <= 0.01
    assert 2_000 < result.simulations < 20_000
    assert "stopping rule met" in str(result)
    short = fbar.infer(problem, TARGET, precision={TARGET.name: 0.01}, budget=1000, seed=8)
    assert short.simulations == 1000


@pytest.mark.slow
def test_stopping_at_a_precision_covers():
    """200 runs that stop at a precision: their intervals still cover (over 34 misses at 92% has probability 1e-5)."""
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.0]), [0.05, 0.02, 0.01])
    target = fbar.probability("theta > 2.5")
    misses = 0
    for seed in range(200):
        result = fbar.infer(problem, target, precision={target.name: 0.03}, seed=seed)
        low, high = result[target.name].interval()
        misses += not low <= problem.truth(target)[0] <= high
    assert misses <= 34


def test_stopping_rules_compose():
    problem = fbar.Problem.models(MODELS, observed=3)
    either = fbar.Budget(3000) | fbar.StandardError(TARGET.name, 0.001)
    assert fbar.infer(problem, TARGET, stop=either, seed=1).simulations == 3000
    both = fbar.AcceptedCount(400) & fbar.StandardError(TARGET.name, 0.05)
    result = fbar.infer(problem, TARGET, stop=both, seed=1)
    assert result.accepted >= 400
    assert result[TARGET.name].standard_error <= 0.05
    assert (fbar.Budget(10) & fbar.Budget(20)).limit is None


def test_failures_are_rejected_counted_and_reported():
    """Rows that raise or give NaN are rejected draws; the others of their block are not lost."""

    def simulate(theta, rng):
        if (theta["theta"] == 2).any():
            raise ZeroDivisionError("at two")
        return np.where(theta["theta"] == 3, np.nan, (rng.random(theta.rows) < 0.5).astype(float))

    problem = fbar.Problem(fbar.Finite(theta=[1.0, 2.0, 3.0, 4.0]), simulate, observed=1.0)
    result = fbar.infer(problem, fbar.mean("theta"), method=fbar.Rejection(), budget=400, seed=1)
    run = result.run
    assert run.counts.sum() == 400
    assert run.seen.counts[Failure.EXCEPTION] == run.counts[1]
    assert run.seen.counts[Failure.NOT_FINITE] == run.counts[2]
    assert run.hits[1] == run.hits[2] == 0
    assert min(run.hits[0], run.hits[3]) > 20
    assert "simulations failed and were rejected" in str(result)


def test_a_simulator_that_always_fails_is_an_error_that_shows_its_cause():
    def simulate(theta, rng):
        raise KeyError("no such thing")

    problem = fbar.Problem(fbar.Finite(theta=[1, 2]), simulate, observed=1)
    with pytest.raises(fbar.SimulatorFailed, match=r"all 100 simulations .* KeyError: 'no such thing'"):
        fbar.infer(problem, fbar.mean("theta"), budget=100)


def test_all_rejected_is_an_error_of_its_own_with_what_was_seen():
    problem = fbar.Problem(fbar.Finite(theta=[1.0, 2.0]), lambda t, rng: t["theta"] + rng.random(t.rows), observed=9.0)
    with pytest.raises(fbar.NoPosterior) as caught:
        fbar.infer(problem, fbar.mean("theta"), method=fbar.Rejection(tolerance=0.5), budget=1000, seed=1)
    message = str(caught.value)
    assert "all 1000 simulations were rejected" in message
    assert "the closest came within 6" in message
    assert "raise the tolerance" in message


def test_results_print_value_error_and_trust():
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.0001])
    text = str(fbar.infer(problem, fbar.mean("theta"), budget=200, seed=1))
    assert "unreliable" in text
    assert "warning: " in text
    assert "200 simulations" in text


NEVER = fbar.Problem(fbar.Finite(theta=[1, 2]), lambda theta, rng: pytest.fail("a simulation ran"), observed=1)
MEAN = fbar.mean("theta")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fbar.Finite(theta=[1, 2], probabilities=[0.5, 0.6]), "probabilities must sum to 1; they sum to 1.1"),
        (lambda: fbar.Finite(theta=[1, 2], probabilities=[1.5, -0.5]), "probabilities must lie in [0, 1]; got 1.5"),
        (lambda: fbar.Finite(theta=[1, 2], probabilities=[1.0]), "must be 2 numbers"),
        (lambda: fbar.Finite(theta=[]), "parameter 'theta' has no values"),
        (lambda: fbar.Finite(), "needs named parameter values"),
        (lambda: fbar.Finite(theta=[1, 2, 1]), "theta=1 is given twice (rows 0 and 2)"),
        (lambda: fbar.Finite(theta=[1, np.nan]), "not finite"),
        (lambda: fbar.Finite(a=[1, 2], b=[1]), "of equal length"),
        (lambda: fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 1.2]), "must lie in [0, 1]; got 1.2"),
        (lambda: fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3]), "must be 2 numbers"),
        (lambda: fbar.infer(NEVER, MEAN, budget=0), "budget must be a positive integer; got 0"),
        (lambda: fbar.infer(NEVER, MEAN, budget=-5), "budget must be a positive integer; got -5"),
        (lambda: fbar.infer(NEVER, MEAN, budget=10.5), "budget must be a positive integer; got 10.5"),
        (lambda: fbar.infer(NEVER, MEAN, budget="many"), "budget must be a positive integer; got 'many'"),
        (lambda: fbar.infer(NEVER, MEAN), "nothing ends this run"),
        (lambda: fbar.infer(NEVER, MEAN, budget=1), "budget must be at least 2, one simulation for each"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Allocation(floor=3), budget=5), "budget must be at least 6"),
        (lambda: fbar.infer(NEVER, fbar.mean("thata"), budget=10), "there is no parameter 'thata'"),
        (lambda: fbar.infer(NEVER, [], budget=10), "give at least one target"),
        (lambda: fbar.infer(NEVER, ["mean"], budget=10), "written as kind:what, such as mean:beta"),
        (lambda: fbar.infer(NEVER, [MEAN, fbar.mean("theta")], budget=10), "'mean:theta' is given twice"),
        (lambda: fbar.infer(NEVER, MEAN, precision={"mean:thet": 0.1}), "did you mean 'mean:theta'?"),
        (lambda: fbar.infer(NEVER, MEAN, precision={"mean:theta": 0}), "must be greater than 0"),
        (lambda: fbar.infer(NEVER, MEAN, budget=10, seed=-1), "seed must be a whole number"),
        (lambda: fbar.infer(NEVER, MEAN, budget=10, stop=5), "a stopping rule is made by"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Rejection(tolerance=-1), budget=10), "tolerance must be"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Rejection(kernel="box"), budget=10), "unknown acceptance kernel"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Allocation("min-mse"), budget=10), "AdaptiveAllocation()"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Allocation("min-mes"), budget=10), "did you mean 'min-mse'?"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Allocation([0.5, 0.4]), budget=10), "shares must sum to 1"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.Importance([1.0, 0.0]), budget=10), "q never draws theta=2"),
        (lambda: fbar.infer(NEVER, MEAN, method=fbar.AdaptiveAllocation("bayes"), budget=10), "unknown learning"),
        (lambda: fbar.InverseBinomial(hits=0).start(NEVER, MEAN), "hits must be a positive integer"),
        (lambda: fbar.Problem(fbar.Finite(theta=[1, 2]), lambda t, r: 1), "observed data are missing"),
        (lambda: fbar.Problem(fbar.Finite(theta=[1, 2]), 5, observed=1), "simulate must be a function"),
        (lambda: fbar.Problem([1, 2], lambda t, r: 1, observed=1), "prior must be a prior"),
        (lambda: fbar.Problem.models({}, observed=1), "give at least one model"),
        (lambda: fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.1, 0.2], cost=[1, 0]), "cost must be positive"),
        (lambda: fbar.Budget(2.5), "budget must be a positive integer; got 2.5"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_any_simulation(call, message):
    with pytest.raises(fbar.InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("simulate", "message"),
    [
        (lambda t, rng: 1.0, "returned 'x' of shape ()"),
        (lambda t, rng: np.ones((t.rows, 2)), "simulated summaries have shape (2,) and the observed ones ()"),
        (lambda t, rng: {"y": np.ones(t.rows)}, "must hold its data under 'x'"),
    ],
)
def test_output_of_the_wrong_shape_is_explained(simulate, message):
    problem = fbar.Problem(fbar.Finite(theta=[1, 2]), simulate, observed=1.0)
    with pytest.raises(fbar.InputError) as caught:
        fbar.infer(problem, MEAN, budget=10)
    assert message in str(caught.value)
