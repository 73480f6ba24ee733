"""What single simulations cost: measured, returned, given or not known; and of a choice of models."""

import sys

import numpy as np
import pytest

import fbar
from costly import MU, PRIOR, Clock, answers, bare, block, problem_of, returning, seconds, timed
from fbar.engine import Workers
from fbar.question.outcomes import Batch, Failure
from fbar.question.points import Points
from fbar.question.simulators import RowFailed, Rows
from fbar.seeds import Seeds
from fbar.study.posed import Posed


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr("fbar.question.simulators.rows.clock", fake)
    return fake


# ---------------------------------------------------------------- measured


def test_each_is_timed_row_by_row(clock):
    problem = problem_of(timed(clock))
    batch, found = answers(problem)
    np.testing.assert_array_equal(found.cost, seconds(batch.points["mu"]))
    np.testing.assert_array_equal(problem.costs(batch, found), found.cost)
    assert problem.knows_cost
    assert problem.measures_cost
    assert problem.cost_of(batch.points) is None


def test_a_failed_row_has_its_time_too(clock):
    @fbar.each
    def simulate(theta, rng):
        clock.takes(2.0)
        if theta["mu"] > 4:
            raise ValueError("too large")
        return None if theta["mu"] > 3 else np.zeros(2 if theta["mu"] > 2 else ())

    batch, found = answers(problem_of(simulate))
    assert set(found.failure) == {Failure.NONE, Failure.EXCEPTION, Failure.WRONG_SHAPE}
    np.testing.assert_array_equal(found.cost, np.full(batch.simulations, 2.0))


def test_a_clock_that_stands_still_gives_positive_costs(monkeypatch):
    monkeypatch.setattr("fbar.question.simulators.rows.clock", lambda: 5.0)
    _, found = answers(problem_of(fbar.each(lambda theta, rng: theta["mu"])))
    assert (found.cost > 0).all()


def test_rows_are_a_list_for_everybody_else():
    given = fbar.each(lambda theta, rng: theta["mu"])(Points({"mu": np.arange(3.0)}), np.random.default_rng(1))
    assert given == [0.0, 1.0, 2.0]
    assert isinstance(given, Rows)


def test_a_program_is_timed():
    program = fbar.program(
        [sys.executable, "-c", "import sys; x = float(sys.argv[1]); print(x) if x < 4 else 1/0", "{mu}"]
    )
    problem = problem_of(program)
    _, found = answers(problem, size=4)
    assert problem.measures_cost
    assert 0 < (found.failure != 0).sum() < 4
    assert (found.cost > 1e-3).all()  # no interpreter starts in a millisecond
    assert (found.cost < 60).all()


def test_through_workers_and_a_time_out():
    """A row that runs out of time is tried twice, and cost both tries."""

    def simulate(theta, rng):
        while theta["mu"] > 7.5:
            pass
        return theta["mu"]

    problem = problem_of(fbar.each(simulate))
    values = ([1.0, 7.75, 2.0, 3.0], [4.0, 5.0])
    batches = [Batch(0, i, Points({"mu": np.array(mu)}), None, Seeds(3)) for i, mu in enumerate(values)]
    with Workers(1, timeout=0.3).session(problem) as session:
        session.submit(batches)
        found = {}
        while len(found) < 2:
            found |= {batch.key: outcomes for batch, outcomes in session.collect()}
    for batch in batches:
        cost, late = found[batch.key].cost, batch.points["mu"] > 7.5
        np.testing.assert_array_equal(found[batch.key].failure == Failure.TIMED_OUT, late)
        assert (cost[late] >= 0.6).all()
        assert (cost[~late] > 0).all()
        assert (cost[~late] < 0.3).all()


def test_a_study_does_not_lose_the_costs(clock):
    problem = Posed.of(problem_of(timed(clock)), budget=1000)
    batch, found = answers(problem)
    assert problem.measures_cost
    np.testing.assert_array_equal(found.cost, seconds(batch.points["mu"]))


# ---------------------------------------------------------------- returned


def test_returned_costs_are_no_recorded_output():
    problem = problem_of(returning, cost="returned")
    batch, found = answers(problem)
    expected = returning(batch.theta, batch.rng())
    np.testing.assert_array_equal(found.cost, expected["cost"])
    np.testing.assert_array_equal(found.summaries, expected["x"])
    assert found.recorded == {}
    assert problem.knows_cost
    assert not problem.measures_cost
    said = problem_of(lambda theta, rng: {**returning(theta, rng), "more": theta["mu"]})
    assert list(answers(said)[1].recorded) == ["more"]
    assert answers(said)[1].cost is not None


def test_each_may_return_costs_in_a_unit_of_its_own(clock):
    @fbar.each
    def simulate(theta, rng):
        clock.takes(1000.0)
        if theta["mu"] > 6:
            raise ValueError("too large")
        return {"x": theta["mu"], "cost": 0.5}

    problem = problem_of(simulate, cost="returned")
    batch, found = answers(problem)
    late = batch.points["mu"] > 6
    assert late.any()
    np.testing.assert_array_equal(found.cost, np.where(late, np.nan, 0.5))  # no seconds among them
    assert problem.cost_of_block(batch, found) == 0.5 * (~late).sum()


def test_rows_of_a_block_that_raised_keep_their_returned_costs():
    def simulate(theta, rng):
        if (theta["mu"] > 6).any():
            raise ValueError("too large")
        return {"x": theta["mu"], "cost": theta["mu"] + 1}

    batch, found = answers(problem_of(simulate, cost="returned"))
    late = batch.points["mu"] > 6
    np.testing.assert_array_equal(found.cost, np.where(late, np.nan, batch.points["mu"] + 1))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("wrap", ["batch", "each"])
def test_a_simulation_with_a_bad_cost_has_failed(bad, wrap):
    def cost(mu):
        return np.where(mu > 4, bad, 1.0)

    batched = lambda theta, rng: {"x": theta["mu"], "cost": cost(theta["mu"])}  # noqa: E731
    single = fbar.each(lambda theta, rng: {"x": theta["mu"], "cost": float(cost(theta["mu"]))})
    batch, found = answers(problem_of(batched if wrap == "batch" else single))
    late = batch.points["mu"] > 4
    np.testing.assert_array_equal(found.failure, np.where(late, Failure.UNUSABLE, Failure.NONE))
    np.testing.assert_array_equal(found.cost, np.where(late, np.nan, 1.0))
    assert f"must be a positive number for every simulation; it returned {bad:g}" in found.examples[Failure.UNUSABLE]


def test_bad_costs_of_all_simulations_are_refused():
    problem = problem_of(lambda theta, rng: {"x": theta["mu"], "cost": -theta["mu"] - 1})
    with pytest.raises(fbar.InputError, match="'cost' must be a positive number for every simulation; it returned -"):
        fbar.infer(problem, MU, budget=100, tolerance=1, seed=1)


@pytest.mark.parametrize("cost", [np.nan, -2.0])
def test_a_failed_simulation_may_have_no_cost(cost):
    def simulate(theta, rng):
        return {
            "x": np.where(theta["mu"] > 4, np.nan, theta["mu"]),
            "cost": np.where(theta["mu"] > 4, cost, 1.0),
        }

    batch, found = answers(problem_of(simulate, cost="returned"))
    np.testing.assert_array_equal(found.cost, np.where(batch.points["mu"] > 4, np.nan, 1.0))
    assert set(found.failure) == {Failure.NONE, Failure.NOT_FINITE}


@pytest.mark.parametrize("cost", [1.0, [1.0, 2.0], "much"])
def test_costs_of_another_shape_are_refused(cost):
    problem = problem_of(lambda theta, rng: {"x": theta["mu"], "cost": cost})
    with pytest.raises(fbar.InputError, match="'cost'"):
        fbar.infer(problem, MU, budget=100, tolerance=1, seed=1)


def test_a_function_that_gives_no_cost_somewhere_stops_nothing():
    """It was tried at some points of the prior, not at all of them."""

    def cost(theta):
        if (theta["mu"] > 7.9999).any():
            raise ArithmeticError("too large")
        return np.where(theta["mu"] < 1e-4, -1.0, 1.0)

    problem = problem_of(bare, cost=cost)
    points = fbar.Points({"mu": [0.0, 1.0, 8.0, 2.0]})
    batch = Batch(0, 0, points, None, Seeds(3))
    found = problem.costs(batch, fbar.simulate(problem, batch))
    np.testing.assert_array_equal(found, [np.nan, 1.0, np.nan, 1.0])
    assert problem.cost_of_block(batch, fbar.simulate(problem, batch)) == 2.0


def test_promised_costs_that_do_not_come_are_refused():
    problem = problem_of(bare, cost="returned")
    with pytest.raises(fbar.InputError, match="a simulation came without 'cost'"):
        fbar.infer(problem, MU, budget=100, tolerance=1, seed=1)


def test_names_that_are_taken():
    with pytest.raises(fbar.InputError, match="give yours another name"):
        problem_of(bare, records=["cost"])
    with pytest.raises(fbar.InputError, match="or 'returned'; got 'return'"):
        problem_of(bare, cost="return")
    with pytest.raises(fbar.InputError, match="return nothing"):
        fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05], cost="returned")


# ---------------------------------------------------------------- given


def test_a_function_of_theta_is_a_known_cost(clock):
    """It stands above what was measured."""
    problem = problem_of(timed(clock), cost=lambda t: t["twice"] + 1, derived={"twice": lambda t: 2 * t["mu"]})
    batch, found = answers(problem)
    expected = 2 * batch.points["mu"] + 1
    np.testing.assert_array_equal(problem.cost_of(batch.points), expected)
    np.testing.assert_array_equal(problem.cost_of(PRIOR.from_unit([[0.5]])), [9.0])  # derived parameters are added
    np.testing.assert_array_equal(problem.costs(batch, found), expected)
    assert problem.knows_cost
    assert not problem.measures_cost


def test_a_wrong_function_is_refused_at_once():
    with pytest.raises(fbar.InputError, match="cost must be positive; got -"):
        problem_of(bare, cost=lambda t: t["mu"] - 4)
    with pytest.raises(fbar.InputError, match="there is no parameter 'nu'"):
        problem_of(bare, cost=lambda t: t["nu"])
    with pytest.raises(fbar.InputError, match="one number for each of 256 rows"):
        problem_of(bare, cost=lambda t: np.ones(3))
    with pytest.raises(fbar.InputError, match="a function of theta"):
        problem_of(bare, cost=[1.0, 2.0])
    np.testing.assert_array_equal(problem_of(bare, cost=3).cost_of(block(problem_of(bare)).points), np.full(40, 3.0))


def test_costs_of_a_finite_prior_by_value():
    prior = fbar.Finite(theta=[3, 1, 2])
    problem = fbar.Problem.tabulated(prior, [0.3, 0.05, 0.2], cost=[5.0, 1.0, 2.0])
    np.testing.assert_array_equal(problem.cost_of(Points({"theta": np.array([2, 3, 3, 1])})), [2.0, 5.0, 5.0, 1.0])
    with pytest.raises(fbar.InputError, match="theta=7 is not a value"):
        problem.cost_of(Points({"theta": np.array([2, 7])}))
    result = fbar.infer(problem, fbar.mean("theta"), budget=10**8, seed=1)  # no array of so many rows
    assert result.run.spent_cost == result.run.counts @ problem.cost
    assert f"; cost {result.run.spent_cost:,.0f}" in str(result)
    assert fbar.Problem.tabulated(prior, [0.3, 0.05, 0.2]).cost_of(prior.points) is None


# ---------------------------------------------------------------- not known


def test_costs_that_are_not_known():
    problem = problem_of(bare)
    assert answers(problem)[1].cost is None
    assert not problem.knows_cost
    with pytest.raises(fbar.InputError, match=r"fbar\.each.*cost='returned'.*a function of theta"):
        problem.require_costs()
    with pytest.raises(fbar.InputError, match="costs of this problem's simulations are not known"):
        fbar.infer(problem, MU, stop=fbar.CostBudget(1) | fbar.Budget(100), tolerance=1, seed=1)
    result = fbar.infer(problem, MU, budget=500, tolerance=1, seed=1)
    assert result.run.spent_cost is None
    assert result.as_dict()["cost"] is None
    assert "cost" not in str(result)
    assert "simulator time" not in str(result)
    for known in (problem_of(returning, cost="returned"), problem_of(bare, cost=lambda t: 1 + t["mu"])):
        known.require_costs()


def test_a_block_that_failed_as_a_whole_does_not_hide_what_is_known(clock):
    problem = problem_of(timed(clock))
    failed = [RowFailed("killed", kind=Failure.KILLED)] * 5
    assert np.isnan(problem.outcomes(failed, 5).cost).all()
    assert problem_of(bare).outcomes(failed, 5).cost is None


# ---------------------------------------------------------------- model choice


def choice(**models):
    return fbar.Problem.models(models, observed=1.0)


def test_a_choice_of_timed_models(clock):
    def model(takes):
        def simulate(theta, rng):
            clock.takes(takes)
            return rng.normal()

        return fbar.each(simulate)

    problem = choice(short=model(1.0), long=model(4.0))
    label = np.array(["long", "short", "short", "long", "short"])
    found = fbar.simulate(problem, Batch(0, 0, Points({"model": label}), None, Seeds(1)))
    assert problem.measures_cost
    np.testing.assert_array_equal(found.cost, [4.0, 1.0, 1.0, 4.0, 1.0])


@pytest.mark.parametrize("other", ["array", "returned", "returned with x"])
def test_a_choice_with_models_of_other_kinds(clock, other):
    """Costs that some rows return and others do not are not known; the outputs are whole all the same."""
    first = {
        "array": fbar.each(lambda theta, rng: 1.0),
        "returned": lambda theta, rng: {"x": np.ones(theta.rows), "cost": np.full(theta.rows, 3.0)},
        "returned with x": lambda theta, rng: {"x": np.ones(theta.rows), "cost": np.full(theta.rows, 3.0)},
    }[other]
    second = {
        "array": lambda theta, rng: np.zeros(theta.rows),
        "returned": lambda theta, rng: {"x": np.zeros(theta.rows), "cost": np.full(theta.rows, 7.0)},
        "returned with x": fbar.each(lambda theta, rng: {"x": 0.0}),
    }[other]
    problem = choice(a=first, b=second)
    label = np.array(["b", "a", "a", "b"])
    found = fbar.simulate(problem, Batch(0, 0, Points({"model": label}), None, Seeds(1)))
    np.testing.assert_array_equal(found.summaries, [0.0, 1.0, 1.0, 0.0])
    assert not found.failure.any()
    if other == "returned":
        np.testing.assert_array_equal(found.cost, [7.0, 3.0, 3.0, 7.0])
    else:
        assert found.cost is None
    assert not problem.knows_cost  # what a function returns is known only after it was called
