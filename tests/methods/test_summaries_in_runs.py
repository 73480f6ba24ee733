"""Runs with summaries learned for the targets: what is carried over, seeds and workers, and that runs come back."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.errors import LedgerError
from fbar.ledger.settings import describe
from fbar.methods import Rejection
from fbar.methods.summaries import regressions
from fbar.problems import load
from fbar.question.simulators import Vectorised
from hidden_mean import DATA, HIDDEN, MU, hidden

pytestmark = pytest.mark.arithmetic

# ---------------------------------------------------------------- what is carried over


def test_derived_parameters_records_and_failures():
    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] > 1.5:
            raise ValueError("too large")
        x = theta["theta"] + rng.standard_normal(4)
        return {"x": x, "top": float(x.max())}

    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        simulate,
        [0.1, -0.4, 0.3, 0.0],
        summary=lambda x: np.stack([x.mean(axis=1), x.max(axis=1)], axis=1),
        derived={"twice": lambda t: 2 * t["theta"]},
        records=["top"],
    )
    targets = [fbar.mean("twice"), fbar.expectation(lambda t: t["top"], name="top")]
    result = fbar.infer(problem, targets, summaries="linear", tolerance=0.5, budget=2000, seed=1, block_size=500)
    learned = result.run.problem
    assert learned.r_squared["top"] > 0.99  # the maximum is among the problem's own summaries
    assert learned.pilot_simulations == 400
    failed = np.isinf(learned.pilot_distances).sum()
    assert abs(failed - 400 * stats.norm.sf(1.5)) < 4.5 * np.sqrt(400 * stats.norm.sf(1.5))
    assert "top" in result.posterior.points
    assert set(learned.derived) == {"twice"}
    assert result.simulations == 1600
    assert "learned from 400 more simulations" in str(result)


def test_the_truth_is_that_of_all_the_data_and_other_data_need_no_new_pilot():
    problem = load("gaussian-linear", 1)
    target = fbar.mean("theta1")
    learned = fbar.LearnedSummaries().learn(problem, target, seed=1)
    assert learned.truth(target) == problem.truth(target)
    assert learned.truth()["mean:theta1"] == problem.truth()["mean:theta1"]
    other = learned.with_observed(load("gaussian-linear", 2).data)
    assert other.truth()["mean:theta1"].value == pytest.approx(load("gaussian-linear", 2).truth()["mean:theta1"].value)
    assert other.learning is learned.learning
    again = fbar.LearnedSummaries().learn(load("gaussian-linear", 2), target, seed=1)
    assert (again.observed == other.observed).all()
    assert again.tolerance_for(0.1) == other.tolerance_for(0.1)


# ---------------------------------------------------------------- seeds and workers


@pytest.mark.slow
def test_the_seed_decides():
    network = fbar.LearnedSummaries("network", simulations=200)
    first, again, other = (
        fbar.infer(HIDDEN, MU, summaries=network, tolerance=1.0, budget=2000, seed=seed) for seed in (1, 1, 2)
    )
    assert str(first) == str(again)
    assert (first.run.problem.observed == again.run.problem.observed).all()
    assert (first.run.problem.observed != other.run.problem.observed).all()
    assert describe(first.run.problem) == describe(again.run.problem)
    assert describe(first.run.problem)["summary"] != describe(other.run.problem)["summary"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "boosting"])
def test_workers_change_nothing(kind):
    options = {"summaries": kind, "tolerance": 0.5, "budget": 3000, "seed": 1, "block_size": 200}
    assert str(fbar.infer(HIDDEN, MU, **options)) == str(fbar.infer(HIDDEN, MU, **options, workers=2))


# ---------------------------------------------------------------- recorded runs


class Counted:
    """A simulator that counts, and that can be stopped as by Ctrl-C."""

    def __init__(self, most=None):
        self.count, self.most = 0, most

    def __call__(self, theta, rng):
        if self.most is not None and self.count >= self.most:
            raise KeyboardInterrupt
        self.count += theta.rows
        return hidden(theta, rng)


ASKED = {"summaries": "linear", "tolerance": 0.5, "budget": 5000, "seed": 1, "block_size": 250}


def counted(most=None):
    simulator = Counted()
    metered = Vectorised(simulator, metered=True)  # the second look at a cheap block is not wanted here
    problem = fbar.Problem(HIDDEN.prior, metered, DATA)
    describe(problem)  # before it counts
    simulator.most = most
    return problem, simulator


@pytest.mark.slow
@pytest.mark.parametrize("most", [500, 3000])
def test_a_run_that_is_stopped_in_its_pilot_or_after_goes_on_and_simulates_nothing_twice(tmp_path, most):
    whole = fbar.infer(HIDDEN, MU, **ASKED)
    problem, simulator = counted(most)
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem, MU, **ASKED, run=tmp_path)
    assert most <= simulator.count < most + 250
    if most == 500:
        with pytest.raises(fbar.NoPosterior, match="is not complete yet"):
            fbar.load(tmp_path, problem)
    simulator.most = None
    result = fbar.infer(problem, MU, **ASKED, run=tmp_path)
    assert simulator.count == 5000
    assert result["mean:theta"].value == whole["mean:theta"].value
    assert result["mean:theta"].standard_error == whole["mean:theta"].standard_error
    assert result.remarks == whole.remarks
    assert str(fbar.load(tmp_path, problem)) == str(result)
    assert str(fbar.infer(problem, MU, **ASKED, run=tmp_path)) == str(result)
    assert simulator.count == 5000


@pytest.mark.slow
def test_a_recorded_run_is_extended_with_the_summaries_it_has(tmp_path):
    problem, simulator = counted()
    fbar.infer(problem, MU, **ASKED, run=tmp_path)
    more = fbar.extend(tmp_path, problem, fbar.quantile("theta", 0.5), budget=8000, tolerance=0.4)
    assert simulator.count == 8000
    assert more.simulations == 7000
    assert more.run.problem.r_squared.keys() == {"mean:theta"}
    assert str(fbar.extend(tmp_path, problem, fbar.quantile("theta", 0.5), budget=8000, tolerance=0.4)) == str(more)
    assert str(fbar.load(tmp_path, problem)) == str(more)
    assert simulator.count == 8000
    with pytest.raises(fbar.InputError, match=r"use up the budget of 900|already spent"):
        fbar.extend(tmp_path, problem, budget=900)


def test_other_summaries_are_refused(tmp_path, monkeypatch):
    fbar.infer(HIDDEN, MU, **ASKED, run=tmp_path)
    with pytest.raises(fbar.InputError, match="folds was 4, is 5"):
        fbar.infer(HIDDEN, MU, **{**ASKED, "summaries": fbar.LearnedSummaries(folds=5)}, run=tmp_path)
    with pytest.raises(fbar.InputError, match="other settings"):
        fbar.infer(HIDDEN, MU, **{**ASKED, "summaries": None}, run=tmp_path)
    monkeypatch.setattr(regressions, "PENALTIES", np.array([0.3]))  # as another version might do
    with pytest.raises(LedgerError, match="are not what they were"):
        fbar.load(tmp_path, HIDDEN)


@pytest.mark.slow
def test_a_problem_learned_by_hand_is_recorded_too(tmp_path):
    def ask(seed):
        problem = fbar.LearnedSummaries("boosting").learn(HIDDEN, MU, seed=seed, simulations=200)
        return fbar.infer(problem, MU, method=Rejection(tolerance=1.0), budget=1000, seed=1, run=tmp_path)

    assert str(ask(1)) == str(ask(1))
    with pytest.raises(fbar.InputError, match=r"problem\.summary\.source"):
        ask(2)


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        capsys.readouterr()
        app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        return capsys.readouterr().out

    call("init")
    asked = ["--summaries", "linear", "--tolerance", "0.5", "--budget", "5000", "--seed", "1", "--run", "r"]
    first = call("infer", "model.py", *asked)
    assert "learned from 1,000 more simulations (linear regression" in first
    assert call("resume", "r") == first
    assert "learned from 1,000 more simulations" in call("show", "r")


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"summaries": "trees"}, "known: linear, boosting, network, auto"),
        ({"summaries": 5}, "name of a regression"),
        ({"tolerance": 0, "method": "rejection"}, "never match exactly: give a tolerance"),
        ({"budget": 200}, "too small to learn"),
        ({"summaries": fbar.LearnedSummaries(simulations=5000)}, "use up the budget"),
    ],
)
def test_questions_that_make_no_sense(options, message):
    with pytest.raises(fbar.InputError, match=message):
        fbar.infer(HIDDEN, MU, **{"summaries": "linear", "tolerance": 0.5, "budget": 5000, **options})


def test_draws_without_a_tolerance_answer_at_the_data_with_learned_summaries():
    result = fbar.infer(HIDDEN, MU, summaries="linear", method="rejection", budget=3000, seed=1, progress=False)
    assert result.is_at_data
    assert "the summaries were learned from" in str(result)
