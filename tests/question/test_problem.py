"""What a problem is made of, how it is changed, and what its simulator and its prior say of themselves."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import problems
from fbar.question.priors import structure
from fbar.question.simulators import Bernoulli, Tabulated, Vectorised, as_simulator
from fbar.question.truth import Known, Listed

FEW = fbar.Finite(theta=[1.0, 2.0, 4.0])
LINE = fbar.Prior(a=stats.uniform(0, 1))


def poisson(theta, rng):
    return rng.poisson(theta["theta"])


def question(**options):
    return fbar.Problem(FEW, poisson, observed=3, **options)


# ---------------------------------------------------------------- replace


def test_what_is_not_replaced_stays():
    problem = question(derived={"double": lambda t: 2 * t["theta"]}, cost=[1.0, 2.0, 3.0], distance=fbar.PNorm(1))
    other = problem.replace(observed=5)
    assert other.observed == 5
    assert problem.observed == 3
    changed = {name for name, value in other.arguments.items() if value is not problem.arguments[name]}
    assert changed <= {"observed", "truth", "derived", "records", "cost"}
    assert other.derived == problem.derived
    assert other.cost.tolist() == [1.0, 2.0, 3.0]
    assert other.points["double"].tolist() == [2.0, 4.0, 8.0]


def test_what_was_computed_before_is_computed_again():
    problem = question(cost=[1.0, 2.0, 3.0], truth={"mean:theta": 2.0})
    assert problem.cost.tolist() == [1.0, 2.0, 3.0]
    assert problem.truth()["mean:theta"].value == 2.0
    other = problem.replace(cost=5.0, truth={"mean:theta": (3.0, 0.1)})
    assert other.cost.tolist() == [5.0] * 3
    assert other.truth()["mean:theta"] == Known("mean:theta", 3.0, 0.1)
    assert other.truth_error(fbar.mean("theta")) == 0.1


def test_what_is_known_stays_while_it_is_true():
    def p_star(theta, tolerance):
        return theta["theta"] / 8

    problem = question(p_star=p_star, truth={"mean:theta": 2.0})
    assert problem.replace(cost=2.0).truth()["mean:theta"].value == 2.0
    assert problem.replace(cost=2.0).knows_acceptance
    assert problem.replace(summary=lambda x: x).truth()["mean:theta"].value == 2.0
    assert not problem.replace(summary=lambda x: x).knows_acceptance
    for change in ({"observed": 4}, {"prior": fbar.Finite(theta=[1.0, 2.0])}, {"simulate": lambda t, rng: t["theta"]}):
        assert not problem.replace(**change).truth()
    assert not problem.with_observed(4).knows_acceptance


def test_replacements_are_checked_like_the_first():
    problem = question()
    with pytest.raises(fbar.InputError, match=r"unknown argument 'obsrved' of a problem; did you mean 'observed'\?"):
        problem.replace(obsrved=3)
    with pytest.raises(fbar.InputError, match="cost must be one number for each of 3 values"):
        problem.replace(cost=[1.0, 2.0])
    with pytest.raises(fbar.InputError, match="either a distance or an acceptance rule"):
        problem.replace(distance=fbar.PNorm(1), accept=lambda x, y: x == y)


def test_a_problem_of_the_catalogue_keeps_its_recipe_while_it_can():
    problem = problems.load("gaussian-linear")
    known = Listed([Known("mean:theta1", 7.0)], "by hand")
    other = problem.replace(truth=known)
    assert type(other) is type(problem)
    assert other.truth()["mean:theta1"].value == 7.0
    assert other.reference is known
    moved = problem.replace(observed=[0.1] * 10)
    assert moved.truth()["mean:theta1"].value == pytest.approx(0.05)
    plain = problem.replace(distance=fbar.PNorm(1))
    assert type(plain) is fbar.Problem
    assert np.array_equal(plain.observed, problem.observed)


def test_learned_summaries_are_kept_when_the_rest_is_replaced():
    def pair(theta, rng):
        return theta["a"][:, None] + rng.normal(0, 0.1, (theta.rows, 2))

    problem = fbar.Problem(LINE, pair, observed=[0.4, 0.5])
    learned = fbar.LearnedSummaries("linear", simulations=200).learn(problem, [fbar.mean("a")], seed=1)
    other = learned.replace(cost=2.0)
    assert type(other) is type(learned)
    assert other.summary is learned.summary
    assert other.cost_of(fbar.Points({"a": [0.1]})).tolist() == [2.0]
    assert learned.replace(distance=fbar.PNorm(1)).summary is None


# ---------------------------------------------------------------- simulators


def test_simulators_say_what_they_are():
    function = as_simulator(poisson)
    assert (function.one_by_one, function.timed, function.metered, function.known, function.rows) == (
        False,
        False,
        False,
        None,
        None,
    )
    assert as_simulator(function) is function
    assert Vectorised(poisson, metered=True).metered
    one = fbar.each(lambda theta, rng: 1.0)
    assert one.one_by_one
    assert one.timed
    assert one.rows is not None
    both = fbar.Problem.models({"a": one, "b": poisson}, 1.0).simulator
    assert (both.one_by_one, both.timed, both.rows) == (True, False, None)
    assert fbar.Problem.models({"a": one, "b": one}, 1.0).simulator.rows is not None


def test_a_subclass_that_replaces_the_call_shares_its_random_numbers():
    class Together(fbar.each):
        def __call__(self, theta, rng):
            return rng.random(theta.rows)

    simulator = Together(lambda theta, rng: 1.0)
    assert simulator.rows is None
    assert simulator.output(fbar.Points({"a": [1.0, 2.0]}), np.random.default_rng(1)).shape == (2,)


def test_models_are_checked_with_the_parameters_that_they_see():
    echo = fbar.program(["echo", "{a}"])
    with pytest.raises(fbar.InputError, match="needs the parameter 'a', which is not known; known: model"):
        fbar.Problem.models({"one": echo, "two": echo}, 1.0)


def test_known_probabilities_are_given_by_value_or_by_function():
    table, function = Tabulated(FEW, [0.1, 0.2, 0.4]), Bernoulli(lambda theta: theta["theta"] / 10)
    theta = fbar.Points({"theta": [4.0, 1.0]})
    assert table.acceptance_probability(theta).tolist() == function.acceptance_probability(theta).tolist() == [0.4, 0.1]
    assert table.by_value.tolist() == [0.1, 0.2, 0.4]
    assert function.by_value is None
    assert table.known is table
    with pytest.raises(fbar.InputError, match=r"theta=3\.0 is not a value of the parameter space"):
        table.acceptance_probability(fbar.Points({"theta": [3.0]}))
    with pytest.raises(fbar.InputError, match="are those of the prior Finite"):
        fbar.Problem(fbar.Finite(theta=[1.0, 2.0, 5.0]), table)


def test_factors_of_a_known_probability():
    def third(x):
        return x / 3

    assert Bernoulli(fbar.Separable(a=third)).factors == {"a": third}
    assert Bernoulli(lambda theta: theta["a"]).factors is None


@pytest.mark.parametrize("method", [fbar.Rejection(), fbar.AdaptiveAllocation()])
def test_a_known_function_counts_every_repeat_on_a_finite_space(method):
    """6,000 simulations of p = 0.1 … 0.4; fewer than 10% or more than 40% accepted: probability below 1e-10."""
    problem = fbar.Problem.bernoulli(FEW, lambda theta: theta["theta"] / 10)
    table = fbar.Problem.tabulated(FEW, [0.1, 0.2, 0.4])
    found = fbar.infer(problem, fbar.mean("theta"), method=method, budget=6000, seed=1)
    assert 600 <= found.accepted <= 2400
    assert found.accepted == fbar.infer(table, fbar.mean("theta"), method=method, budget=6000, seed=1).accepted


# ---------------------------------------------------------------- priors


def test_priors_say_how_they_are_built():
    assert structure(FEW).values is FEW
    assert not structure(FEW).continuous
    choice = fbar.ModelChoice({"one": LINE, "none": None})
    assert structure(choice).models is choice
    mixed = structure(fbar.Prior(a=stats.uniform(0, 1), n=fbar.Categorical([1, 2], [0.25, 0.75])))
    assert mixed.discrete == {"n"}
    assert not mixed.continuous
    assert {index: borders.tolist() for index, borders in mixed.borders().items()} == {1: [0.25]}
    assert structure(LINE).product
    dependent = structure(fbar.Prior(a=stats.uniform(0, 1), b=lambda t: stats.uniform(0, t["a"])))
    assert dependent.continuous
    assert not dependent.product
    assert set(dependent.marginals) == {"a"}


def test_nothing_is_known_of_a_prior_of_the_users_own():
    class Own:
        names, dimension = ("a",), 1

        def sample(self, size, *, rng):
            return LINE.sample(size, rng=rng)

        def logpdf(self, points):
            return LINE.logpdf(points)

        def from_unit(self, unit):
            return LINE.from_unit(unit)

        def to_unit(self, points):
            return LINE.to_unit(points)

    assert structure(Own()) is not None
    assert structure(Own()).values is None
    assert not structure(Own()).continuous
    problem = fbar.Problem(Own(), lambda theta, rng: theta["a"], observed=0.5)
    assert not problem.is_finite
    with pytest.raises(fbar.InputError, match="needs a finite prior"):
        _ = problem.finite
