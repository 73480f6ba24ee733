"""Studies: the problem as it is posed, and algorithms of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fbar
from fbar import problems
from fbar.errors import FbarError, InputError
from fbar.study import BudgetExceeded, Posed, Study
from study_algorithms import (
    all_of_it,
    broken,
    estimates_alone,
    half_of_it,
    leaves,
    nothing,
    own_problem,
    run,
    swallows,
    too_much,
)

# ---------------------------------------------------------------- the problem as it is posed


@pytest.mark.parametrize("name", ["ramp", "two-hypotheses", "gaussian-linear"])
def test_the_simulator_counts_and_refuses(name):
    problem = problems.load(name)
    posed = Posed.of(problem, 10, 1.0 if problem.has_summaries else 0.0)
    rng = np.random.default_rng(1)
    posed.matches(posed.prior.sample(7, rng=rng), rng)
    assert (posed.spent, posed.left) == (7, 3)
    with pytest.raises(BudgetExceeded, match=r"asked for 4 more simulations after 7; its budget is 10"):
        posed.matches(posed.prior.sample(4, rng=rng), rng)
    assert posed.spent == 7
    posed.simulate(posed.prior.sample(3, rng=rng), rng)
    with pytest.raises(BudgetExceeded):
        posed.simulate(posed.prior.sample(1, rng=rng), rng)


def test_the_truth_is_hidden():
    posed = Posed.of(problems.load("ramp"), 10)
    with pytest.raises(InputError, match="cannot see the truth"):
        posed.truth(fbar.mean("theta"))
    assert problems.load("ramp").truth(fbar.mean("theta"))[0] == pytest.approx(2 / 3)


def test_matches_accepts_as_often_as_it_should():
    """|z| < 5: a false alarm in about two million runs for each."""
    rng = np.random.default_rng(2)
    for name, p in (("ramp", 0.5), ("two-hypotheses", 0.175)):
        posed = Posed.of(problems.load(name), 20_000)
        hits = posed.matches(posed.prior.sample(20_000, rng=rng), rng).sum()
        assert abs(hits - 20_000 * p) < 5 * np.sqrt(20_000 * p * (1 - p))


# ---------------------------------------------------------------- algorithms of any kind


def test_what_goes_wrong_is_recorded_and_the_study_goes_on():
    result = run("ramp", [half_of_it, too_much, nothing, broken, leaves], 100, trials=3)
    assert result.statuses("ramp", "half-of-it", 100) == ["ok"] * 3
    told = {row["method"]: row["message"] for row in result.failures()}
    assert told["too-much"] == "the algorithm asked for 1 more simulations after 100; its budget is 100"
    assert told["nothing"].startswith("the algorithm returned nothing")
    assert told["broken"] == "ZeroDivisionError: a bug of mine"
    assert told["leaves"] == "SystemExit: 3"
    assert [row["trials"] for row in result.failures()] == [3, 3, 3, 3]
    assert {row["method"]: row["failed"] for row in result.summary()}["broken"] == 3
    ranking = result.ranking()
    assert {s.method: s.failed for s in ranking.standings}["broken"] == 3
    assert "failed trials are left out" in str(ranking)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((5, 3)), "samples must have 1 columns"),
        (np.array([0.1, np.nan]), "not finite"),
        (([0.1, 0.2], [1.0, np.nan]), "weight 1 is NaN"),
        (([0.1, 0.2], [1.0, -1.0]), "at least 0; weight 1 is -1"),
        (([0.1, 0.2], [0.0, 0.0]), "all weights are zero"),
        (([0.1, 0.2], [1.0, 2.0, 3.0]), "weights must be 2 numbers"),
        ({"other": [1.0]}, "lack the parameter 'theta'"),
        ({"mean:theta": np.nan}, "must be a finite number"),
        ("a cloud", "samples must be numbers"),
    ],
)
def test_results_that_cannot_be_used(returned, message):
    result = run("ramp", {"odd": lambda problem, budget, rng: returned}, 10, trials=2)
    assert all(message in row["message"] for row in result.failures())
    assert result.statuses("ramp", "odd", 10) == ["failed"] * 2


def test_estimates_alone_are_scored_by_what_they_have():
    result = run("ramp", [estimates_alone], 2000, trials=40, targets="mean:theta", scores=["mse", "coverage", "ess"])
    assert "gave only estimates" in result.undefined()[0]["why"]
    [mse, coverage] = result.summary()[:2]
    assert mse["trials"] == 40
    assert 0.5 < mse["draws"] / 1000 < 2  # half of 2000 are accepted; 40 trials know it to 22%, so this is 4 errors off
    assert coverage["mean"] >= 0.8


def test_without_acceptances_the_prior_is_scored():
    problem = fbar.Problem(
        fbar.Prior(theta=fbar.question.priors.marginals.Uniform(0, 1)),
        lambda t, rng: t["theta"] + 100.0,
        0.0,
        truth={"mean:theta": (0.7, 0.0)},
    )
    result = run({"far": problem}, "rejection", 50, trials=3, tolerance={"far": 1e-9})
    assert result.statuses("far", "rejection", 50) == ["prior"] * 3
    for record in result.trials.values():
        assert record.estimates["mean:theta"][0] == pytest.approx(0.5, abs=0.02)
        assert record.scores["mse"]["mean:theta"] == pytest.approx(0.04, abs=0.01)
        assert record.scores["ess"][""] == record.scores["acceptance-rate"][""] == 0
        assert "rejected" in record.message
    assert result.ranking().standings[0].from_prior == 3


@pytest.mark.parametrize("returned", [np.zeros((0, 1)), (np.zeros((0, 1)), np.zeros(0)), fbar.Points({"theta": []})])
def test_a_function_that_accepts_nothing_is_scored_as_a_method_that_does(returned):
    """Its worst trials would be left out of the comparison otherwise."""
    result = run("ramp", {"unlucky": lambda problem, budget, rng: returned}, 10, trials=2)
    assert result.statuses("ramp", "unlucky", 10) == ["prior"] * 2


def test_a_function_sees_no_truth():
    def peeks(problem, budget, rng):
        for name in ("recipe", "_known", "reference", "true_parameters"):
            try:
                getattr(problem, name)
            except (AttributeError, InputError):
                continue
            raise RuntimeError(f"it has {name}")
        raise RuntimeError("nothing to be seen")

    problem = problems.load("gaussian-linear")
    problem.truth()
    assert not Posed.of(own_problem(0.1, 0.5), 10).arguments["truth"].truth()
    result = run({"seen": problem}, {"peeks": peeks}, 10, trials=1, tolerance={"seen": 1.0})
    assert [row["message"] for row in result.failures()] == ["RuntimeError: nothing to be seen"]


def test_what_a_function_changes_reaches_no_other_trial():
    def greedy(problem, budget, rng):
        problem.tolerance, problem.meter.budget = 1e9, 10**9
        return all_of_it(problem, budget, rng)

    def vandal(problem, budget, rng):
        problem.observed[...] = 0

    alone = run("gaussian-linear", "rejection", 200, trials=3)
    after = run("gaussian-linear", {"greedy": greedy, "vandal": vandal, "rejection": "rejection"}, 200, trials=3)
    for (cell, trial), record in alone.trials.items():
        assert repr(replace(record, seconds=0)) == repr(replace(after.trials[cell, trial], seconds=0))
    assert "read-only" in after.failures()[0]["message"]


def test_a_function_that_says_it_ran_more_than_its_budget_has_failed():
    def boasts(problem, budget, rng):
        return fbar.scores.Approximation(problem.prior.sample(5, rng=rng), np.ones(5) / 5, budget + 1)

    def helps_itself(problem, budget, rng):
        problem.meter.budget = 10**9
        return all_of_it(problem, budget + 2, rng)

    result = run("ramp", [boasts, helps_itself], 10, trials=1)
    told = {row["method"]: row["message"] for row in result.failures()}
    assert told == {
        "boasts": "the algorithm ran 11 simulations; its budget is 10",
        "helps-itself": "the algorithm ran 12 simulations; its budget is 10",
    }


@pytest.mark.parametrize("name", ["ramp", "two-hypotheses", "gaussian-linear"])
def test_the_simulator_takes_plain_arrays_too(name):
    problem = problems.load(name)
    posed = Posed.of(problem, 12, 1.0 if problem.has_summaries else 0.0)
    theta = posed.prior.sample(6, rng=np.random.default_rng(1))
    array = np.column_stack([theta[n] for n in posed.prior.names])
    found = [posed.matches(given, np.random.default_rng(2)) for given in (theta, array)]
    assert np.array_equal(*found)
    assert posed.spent == 12
    with pytest.raises(InputError, match="columns, one for each parameter"):
        posed.simulate(np.zeros((3, 99)), np.random.default_rng(2))


def test_estimates_that_leave_a_target_out():
    result = run("ramp", {"one": lambda problem, budget, rng: {"mean:theta": 0.5}}, 10, trials=2, scores=["mse"])
    [row] = result.undefined()
    assert row["why"] == "the algorithm gave only estimates, and not of second_moment:theta; it gave: mean:theta"


def test_an_algorithm_that_swallows_the_refusal_is_found_out():
    [row] = run("ramp", [swallows], 100, trials=2).failures()
    assert row["message"] == "the algorithm asked for 5 simulations beyond its budget of 100, and continued"


def test_a_finite_prior_stands_in_exactly():
    result = run(
        "ten-values",
        {"none": lambda problem, budget, rng: problem.prior.points.take(np.zeros(0, dtype=int))},
        5,
        trials=2,
    )
    assert result.statuses("ten-values", "none", 5) == ["prior"] * 2
    assert next(iter(result.trials.values())).estimates["mean:theta"][0] == pytest.approx(5.5)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "rejection", 10), "unknown problem 'nowhere'"),
        (("ramp", "rejektion", 10), "did you mean 'rejection'"),
        (("ramp", "rejection", 0), "budget must be a positive integer; got 0"),
        (("ramp", "rejection", 10, 0), "trials must be a positive integer"),
        (("ramp", "rejection", []), "at least one budget"),
        (("ramp", [], 10), "at least one method"),
        (([], "rejection", 10), "at least one problem"),
        (("ramp", ["rejection", "rejection"], 10), "two methods are called 'rejection'"),
        (("ramp", lambda p, b, r: None, 10), "needs one: give methods as"),
        (("ramp", 3, 10), "a method is its name"),
        (("ramp", "rejection", 10, 2, ["mse", "mse"]), "given twice"),
        (("ramp", "rejection", 10, 2, ["msee"]), "unknown score 'msee'"),
        (("ramp", "rejection", 10, 2, []), "at least one score"),
        ((None, "rejection", 10), "a problem is a name from the catalogue"),
        (("ramp", "rejection", np.array([10, 0])), "budget must be a positive integer; got"),
        (("ramp/2", "rejection", 10), "has only observation 1"),
        (("gaussian-linear/11", "rejection", 10), "from 1 to 10; got 11"),
        (("gaussian-linear/x", "rejection", 10), "write gaussian-linear/3"),
        (("gaussian-linear/fresh", "rejection", 10), "with fresh data use"),
        (("ramp/fresh", "rejection", 10, 2, ["sbc"]), "cannot draw fresh data"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, message):
    with pytest.raises(FbarError, match=message) as caught:
        Study(*arguments)
    assert "\n" not in str(caught.value)


def test_more_bad_input():
    own = fbar.Problem(fbar.Finite(theta=[1, 2]), lambda t, rng: t["theta"], 1.0, truth={"mean:theta": 1.0})
    with pytest.raises(InputError, match="give its tolerance as tolerance="):
        Study({"own": own}, "rejection", 10)
    with pytest.raises(InputError, match="needs a name"):
        Study(own, "rejection", 10)
    with pytest.raises(InputError, match=r"one of 0.01, 0.001"):
        Study("gaussian-linear", "rejection", 10, tolerance=0.5)
    with pytest.raises(InputError, match=r"unknown problem 'rampp' in targets=; did you mean 'ramp'"):
        Study("ramp", "rejection", 10, targets={"rampp": "mean:theta"})
    with pytest.raises(InputError, match="unknown truth"):
        Study("ramp", "rejection", 10, truth="exact")
    with pytest.raises(InputError, match="engine must be an engine"):
        Study("ramp", "rejection", 10, trials=2).run(engine=3, progress=False)
    with pytest.raises(TypeError, match=r"Study\.run\(client=\.\.\.\) is now Study\.run\(engine=\.\.\.\)"):
        Study("ramp", "rejection", 10, trials=2).run(client=3, progress=False)
    with pytest.raises(InputError, match="limits single simulations, not trials"):
        Study("ramp", "rejection", 10, trials=2).run(engine=fbar.Workers(2, timeout=1), progress=False)
    with pytest.raises(InputError, match="either engine= or workers="):
        Study("ramp", "rejection", 10, trials=2).run(engine=fbar.Workers(2), workers=2, progress=False)
    one = run("ramp", "rejection", 10, trials=1)
    with pytest.raises(InputError, match="at least 2 trials"):
        one.ranking()
    two = run("ramp", ["rejection", half_of_it], 50, trials=3)
    with pytest.raises(InputError, match="cannot rank"):
        two.ranking("coverage")
    with pytest.raises(InputError, match="unknown component"):
        two.ranking(target="mean:other")


@pytest.mark.slow
def test_fresh_data_calibrate_a_right_posterior():
    """Ranks of the true parameters over 100 fresh data sets: mean 1/2 and variance 1/12 within 5 errors."""
    result = run("gaussian-linear/fresh", {"exact": exact_gaussian}, 10, trials=100, scores=["sbc"])
    ranks = np.array([[v for k, v in r.scores["sbc"].items()] for r in result.trials.values()])
    assert abs(ranks.mean() - 0.5) < 5 * np.sqrt(1 / 12 / ranks.size)
    assert abs(ranks.var() - 1 / 12) < 5 * np.sqrt((1 / 80 - 1 / 144) / ranks.size)
    rows = result.calibration()
    assert [row["parameter"] for row in rows] == [f"theta{i}" for i in range(1, 11)]
    assert min(row["p_value"] for row in rows) > 1e-7  # ten tests: a false alarm in a million runs


@pytest.mark.slow
def test_fresh_data_find_a_posterior_that_is_too_narrow():
    """Half the deviation: a central 90% interval holds the truth in 59%, and the mean rank is ½ all the same."""

    def narrow(problem, budget, rng):
        return problem.observed / 2 + np.sqrt(0.05) / 2 * rng.standard_normal((400, 10))

    result = run("gaussian-linear/fresh", {"narrow": narrow}, 10, trials=100, scores=["sbc"])
    rows = result.calibration()
    assert abs(np.mean([row["coverage_0.9"] for row in rows]) - 0.589) < 5 * np.sqrt(0.589 * 0.411 / 1000)
    assert np.median([row["p_value"] for row in rows]) < 1e-4
    assert not run("gaussian-linear", {"narrow": narrow}, 10, trials=3, scores=["sbc"]).calibration()


def exact_gaussian(problem, budget, rng):
    return problem.observed / 2 + np.sqrt(0.05) * rng.standard_normal((400, 10))
