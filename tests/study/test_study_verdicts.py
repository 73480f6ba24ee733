"""Studies: what is compared, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import fbar
from fbar import problems
from fbar.errors import InputError
from fbar.study import Study, StudyResult
from fbar.study.curves import Curve, fitted_line, relative
from fbar.study.paired import compare, holm
from fbar.study.presets import paper_claims as presets
from fbar.study.trials import Cell, TrialRecord
from study_algorithms import all_of_it, half_of_it, own_problem, run

# ---------------------------------------------------------------- what is compared


@pytest.mark.slow
def test_all_methods_accept_at_the_studys_tolerance():
    """Estimates are those of ABC at the tolerance, |z| < 5; the true posterior's are over ten errors away."""
    methods = ["rejection", "smc", all_of_it]
    result = run(
        "gaussian-mixture", methods, 1500, 30, ["mse", "acceptance-rate"], targets="mean:theta1", truth="tolerance"
    )
    problem = problems.load("gaussian-mixture")
    away = problem.truth_at(problem.tolerances[1e-2])["mean:theta1"].value - problem.truth()["mean:theta1"].value
    for row in (row for row in result.summary() if row["score"] == "mse"):
        assert abs(row["bias"]) < 5 * row["bias_error"]
        assert abs(away) > 10 * row["bias_error"]
    rate = result.values("acceptance-rate", "gaussian-mixture", "rejection", 1500)
    assert abs(rate.mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / (30 * 1500))


@pytest.mark.slow
def test_smc_that_does_not_come_down_is_taken_at_the_tolerance():
    """At 600 simulations its last round is far above the tolerance; its points within it are few, and right."""
    result = run("gaussian-mixture", "smc", 600, 30, ["mse"], targets="mean:theta1", tolerance=1e-3, truth="tolerance")
    [row] = result.summary()
    assert abs(row["bias"]) < 5 * row["bias_error"] < 0.4


def test_a_score_against_another_shares_the_level_between_them():
    """A difference at 4% on its own is called by the ranking, and not by half the level."""
    arenas = Study("ramp", "rejection", 10, targets="mean:theta").arenas
    rng = np.random.default_rng(10)
    base, spread = rng.gamma(20, size=40), rng.standard_normal(40)
    spread -= spread.mean()
    off = next(d for d in np.linspace(0, 5, 5001) if compare(base + d + spread, base).p < 0.04)
    trials = {
        (Cell("ramp", method, 10), trial): TrialRecord(
            "ok", scores={"mse": {"mean:theta": value}, "ess": {"": 1 + value}}
        )
        for method, values in (("a", base + off + spread), ("b", base))
        for trial, value in enumerate(values.tolist())
    }
    result = StudyResult(trials, arenas, ["mse", "ess"], {})
    assert result.ranking().verdicts[0].better == "b"
    found = result.against("ess")
    assert (len(found.misled), len(found.agreed), found.open) == (0, 0, 1)
    sharp = {
        key: replace(r, scores={**r.scores, "ess": {"": 1.0 + "ab".index(key[0].method)}}) for key, r in trials.items()
    }
    found = StudyResult(sharp, arenas, ["mse", "ess"], {}).against("ess")
    assert (len(found.misled), len(found.agreed), found.open) == (0, 0, 1), "one that is open leaves the pair open"
    loose = result.against("ess", level=0.1)
    assert [(u.better, v.better) for u, v in loose.misled] == [("a", "b")]


# ---------------------------------------------------------------- what is said


def test_no_difference_is_called_where_there_is_none():
    """Four equal methods with the squared errors of a normal estimate: any verdict in at most 5% of 400 studies.

    The bound is that of 400 · 5% and five errors of the count (a false alarm in two million runs). Methods of equal
    mean and other shapes are the harder case.
    """
    rng = np.random.default_rng(5)
    shapes = [
        lambda size: rng.chisquare(1, size),
        lambda size: rng.chisquare(5, size) / 5,
        lambda size: rng.exponential(1, size),
        lambda size: rng.pareto(3, size) * 2,
    ]
    for kinds in ([shapes[0]] * 4, shapes):
        wrong = 0
        for _ in range(400):
            values = [kind(60) for kind in kinds]
            wrong += any(holm([compare(a, b).p for a, b in combinations(values, 2)], 0.05))
        assert wrong <= 20 + 5 * np.sqrt(400 * 0.05 * 0.95)


def test_ratios_have_honest_intervals():
    """A true ratio of 2 between paired, skewed scores is in the 95% interval in 95% of 500 studies, within 5 errors."""
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(500):
        shared = rng.chisquare(3, 100)
        low, high = compare(2 * shared * rng.chisquare(4, 100), shared * rng.chisquare(4, 100)).interval()
        held += low < 2 < high
    assert abs(held / 500 - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 500)


def test_compare_and_holm_by_hand():
    found = compare(np.array([1.0, 2.0, 3.0, np.nan]), np.array([2.0, 4.0, 6.0, 1.0]))
    assert (found.ratio, found.log_error, found.trials) == (0.5, 0.0, 3)
    assert compare(np.array([1.0]), np.array([2.0])).p == 1
    assert holm([0.01, 0.04, 0.03], 0.05) == [True, False, False]
    assert holm([0.01, 0.02, 0.03], 0.05) == [True, True, True]
    assert holm([0.02, np.nan], 0.05) == [True, False] or holm([0.02, np.nan], 0.05) == [True, False]


def test_a_single_wild_trial_decides_nothing():
    """The mean of one method is carried by one trial: log(500/11) is nine linear errors, the difference one."""
    rng = np.random.default_rng(7)
    wild = np.full(20, 2.0) + rng.normal(0, 0.1, 20)
    wild[3] = 10_000
    assert compare(wild, 11 + rng.normal(0, 0.5, 20)).p > 0.1


def test_the_same_up_to_rounding_is_no_difference():
    a = np.random.default_rng(8).chisquare(1, 50)
    assert compare(a * (1 + 2e-16) + 1e-17, a).p == 1


@pytest.mark.slow
def test_all_pairs_of_a_study_are_one_family():
    """Equal methods at 60 budgets: some pair is below 5% on its own, and none is called."""
    rng = np.random.default_rng(9)
    arenas = Study("ramp", "rejection", 10, scores=["mse"], targets="mean:theta").arenas
    trials = {
        (Cell("ramp", method, budget), trial): TrialRecord("ok", scores={"mse": {"mean:theta": rng.gamma(5)}})
        for method in "ab"
        for budget in range(1, 61)
        for trial in range(40)
    }
    verdicts = StudyResult(trials, arenas, ["mse"], {}).ranking().verdicts
    assert len(verdicts) == 60
    assert min(verdict.comparison.p for verdict in verdicts) < 0.05
    assert not any(verdict.better for verdict in verdicts)


def test_a_truth_that_is_too_rough_decides_nothing():
    """The truth's squared error is a quarter of the posterior variance, and the scores far below."""
    problem = own_problem(0.1, fbar.question.truth.Known("mean:theta", 0.6, 0.1, 0.2))
    result = run(
        {"own": problem},
        {"half": half_of_it, "tenth": lambda p, b, r: all_of_it(p, b // 10, r)},
        2000,
        trials=40,
        tolerance={"own": 0.1},
        scores=["mse"],
    )
    assert "over 1%" in result.summary()[0]["note"]
    ranking = result.ranking()
    assert not any(verdict.better for verdict in ranking.verdicts)
    assert all(standing.rough_truth for standing in ranking.standings)
    assert "not known precisely enough" in str(ranking)


def test_without_a_posterior_variance_there_is_no_b2():
    result = run({"own": own_problem(0.1, 0.5)}, "rejection", 500, trials=5, tolerance={"own": 0.1}, scores=["mse"])
    [row] = result.summary()
    assert np.isnan(row["b2"])
    assert np.isnan(row["draws"])
    assert row["bias2"] + row["variance"] == pytest.approx(row["mean"])
    assert str(result.ranking()).splitlines()[0] == "own, 500 simulations: MSE"


def test_the_ranking_finds_a_factor_of_two():
    """Half the budget has twice the error; 300 trials tell beyond doubt, and the ratio is 2 within 5 errors."""
    result = run("ramp", [half_of_it, all_of_it], 400, trials=300, targets="mean:theta", scores=["mse"])
    [verdict] = result.ranking().verdicts
    assert verdict.better == "all-of-it"
    assert abs(np.log(verdict.comparison.ratio / 2)) < 5 * verdict.comparison.log_error
    text = str(result.ranking())
    assert text.splitlines()[1].split()[:2] == ["1", "all-of-it"]
    assert "1 of 1 differences are significant" in text
    assert result.ranking().overall()[0] == {"method": "all-of-it", "better": 1, "worse": 0, "open": 0}


def test_the_summary_agrees_with_the_trials():
    result = run("ramp", "rejection", 500, trials=50, scores=["mse", "coverage"])
    row = next(row for row in result.summary() if row["component"] == "mean:theta" and row["score"] == "mse")
    errors = np.array([r.estimates["mean:theta"][0] for r in result.trials.values()]) - 2 / 3
    assert row["mean"] == pytest.approx((errors**2).mean())
    assert row["bias2"] + row["variance"] == pytest.approx(row["mean"])
    assert row["b2"] == pytest.approx((errors**2).mean() * 18)
    assert row["draws"] == pytest.approx(1 / row["b2"])
    value = result.values("mse", "ramp", "rejection", 500, "mean:theta")
    assert value == pytest.approx(errors**2 * 18)
    frame = result.to_pandas("estimates")
    assert len(frame) == 50 * 5
    assert frame.groupby("target").truth.nunique().max() == 1


def test_curves_have_the_rate_of_monte_carlo():
    """b² of rejection on the ramp is 2/N: rate −1, 2/b² simulations; all within 5 errors."""
    result = run("ramp", [all_of_it], [100, 400, 1600], trials=150, targets="mean:theta", scores=["mse"])
    curve = result.curve("ramp", "all-of-it")
    assert abs(curve.rate + 1) < 5 * curve.rate_error < 0.5
    needed, error = curve.needed(2 / 800)
    assert abs(needed - 800) < 5 * error < 800
    assert np.isnan(curve.needed(1e-9)[0])
    with pytest.raises(InputError, match="greater than 0"):
        curve.needed(0)
    rows = result.efficiency("all-of-it")
    assert rows[0]["relative"] == 1
    with pytest.raises(InputError, match="not in the study; known: all-of-it"):
        result.efficiency("other")


def test_relative_cost_of_known_lines():
    line = {"score": "b²", "rate_error": 0.0, "covariance": np.zeros((2, 2)), "errors": np.ones(2)}
    one = Curve(
        "p", "one", budgets=np.array([10.0, 1000.0]), values=np.array([0.1, 0.001]), rate=-1.0, intercept=0.0, **line
    )
    two = Curve(
        "p",
        "two",
        budgets=np.array([10.0, 1000.0]),
        values=np.array([0.2, 0.002]),
        rate=-1.0,
        intercept=np.log(2),
        **line,
    )
    rows = {row["method"]: row for row in relative([one, two], "one")}
    assert rows["one"]["simulations"] == pytest.approx(1000)
    assert rows["two"]["relative"] == pytest.approx(2)


def test_the_cost_relative_to_a_reference_has_the_errors_of_both():
    """log N has an error of 0.1 for one and 0.2 for the other at the intercept, so that of their ratio is √0.05."""
    made = [
        Curve("p", name, "b²", np.array([10.0, 1000.0]), np.array([0.1, 0.001]), np.ones(2), -1.0, 0.0, 0.0, spread)
        for name, spread in (("one", np.diag([0.01, 0.0])), ("two", np.diag([0.04, 0.0])))
    ]
    rows = {row["method"]: row for row in relative(made, "one")}
    assert rows["two"]["standard_error"] == pytest.approx(1000 * 0.2)
    assert rows["two"]["relative_error"] == pytest.approx(np.sqrt(0.05))


def test_a_line_through_points_that_lie_on_it_still_has_an_error():
    """Three points of errors 0.1 on a line: the slope's error is 0.1/√Σ(x − x̄)², however well they lie on it."""
    x = np.array([0.0, 1.0, 2.0])
    intercept, rate, covariance = fitted_line(x, 3 - x, np.full(3, 0.1))
    assert (intercept, rate) == (pytest.approx(3), pytest.approx(-1))
    assert covariance[1, 1] == pytest.approx(0.01 / 2)
    scattered = fitted_line(x, 3 - x + np.array([1.0, -2.0, 1.0]), np.full(3, 0.1))[2]
    assert scattered[1, 1] == pytest.approx(0.01 / 2 * 600)


def told_apart(first, second, *, ess=(1.0, 2.0), simulations=(10, 10)):
    """A result in which the mean squared errors of two methods are as given, known to a percent."""
    arenas = Study("ramp", "rejection", 10, targets="mean:theta").arenas
    noise = 1 + 0.05 * np.random.default_rng(11).standard_normal(30)
    trials = {
        (Cell("ramp", name, 10), trial): TrialRecord(
            "ok", spent, scores={"mse": {"mean:theta": error * scatter}, "ess": {"": size * scatter}}
        )
        for name, error, size, spent in zip(("smc", "smc-last"), (first, second), ess, simulations, strict=True)
        for trial, scatter in enumerate((noise + (name == "smc") * 0.01 * np.sin(range(30))).tolist())
    }
    return StudyResult(trials, arenas, ["mse", "ess"], {})


@pytest.mark.parametrize(("first", "second"), [("smc", "smc-last"), ("smc-last", "smc")])
def test_a_claim_says_by_how_much(first, second):
    """The second has three times the error of the first, whichever stands first in the table."""
    errors = (1.0, 3.0) if first == "smc" else (3.0, 1.0)
    [claim] = presets.better(told_apart(*errors), first, second, "so it is", same_simulations=True)
    assert claim.holds
    assert claim.found.startswith(f"b² of {second} is 3.0")
    assert claim.found.endswith("simulations equal in every trial")
    [claim] = presets.better(told_apart(*errors), second, first, "so it is")
    assert not claim.holds
    [claim] = presets.better(told_apart(*errors, simulations=(10, 9)), first, second, "x", same_simulations=True)
    assert not claim.holds


def test_a_claim_that_a_score_misleads():
    [claim] = presets.misleads(told_apart(1.0, 3.0), "ess")
    assert claim.holds
    assert claim.found.startswith("it prefers smc-last, whose b² is 3.0")
    [claim] = presets.misleads(told_apart(1.0, 3.0, ess=(2.0, 1.0)), "ess")
    assert not claim.holds


def test_where_more_is_better_the_largest_comes_first():
    result = run("ramp", [half_of_it, all_of_it], 400, trials=20, targets="mean:theta")
    ranking = result.ranking("ess")
    assert [standing.method for standing in ranking.standings] == ["all-of-it", "half-of-it"]
    assert [standing.place for standing in ranking.standings] == ["1", "2"]


@pytest.mark.slow
def test_where_ess_misleads():
    """Figure 3 of the paper: the design of largest ESS has a larger error than the targeted one, beyond doubt."""
    result = run("two-sided-exponential", ["max-ess", "optimal"], 2000, trials=150, targets="mean:theta")
    found = result.against("ess")
    assert [(u.better, v.better) for u, v in found.misled] == [("max-ess", "optimal")]
    assert "in opposite ways" in str(found)
    assert result.against("acceptance-rate").misled


def test_more_failures_are_never_called_better():
    """The same method, better only by failing where it is bad: without the rule it would be called so."""

    def picky(problem, budget, rng):
        found = all_of_it(problem, budget, rng)
        if abs(found["theta"].mean() - 2 / 3) > 0.01:
            raise ValueError(f"a hard one, <object at {hex(id(found))}>")
        return found

    result = run("ramp", {"picky": picky, "half": half_of_it}, 200, trials=120, targets="mean:theta", scores=["mse"])
    [verdict] = result.ranking().verdicts
    assert verdict.comparison.p < 1e-3
    assert verdict.comparison.ratio < 0.5
    assert verdict.better is None
    assert len(result.failures()) == 1, "addresses do not split one failure into many"
