"""ABC-SMC's rounds: where they end, what they cost, and the rules of every method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import simulate
from fbar.errors import InputError
from fbar.methods.smc.schedules import QuantileSchedule
from fbar.problems import filippi
from fbar.question.acceptance import Acceptance
from fbar.testing import MethodConformance
from smc_runs import MEAN, SCHEDULE, gaussian, run

pytestmark = pytest.mark.arithmetic


@pytest.fixture(scope="module")
def finished():
    return run(fbar.SMC(SCHEDULE, accepted=300), filippi())


def test_a_round_ends_at_its_kth_acceptance_by_index(finished):
    for round in finished.rounds:
        accepted = round.weights(Acceptance(round.tolerance))
        assert accepted.sum() == 300
        assert accepted[-1] == 1  # the last that counts is the one that ended it
        assert round.surplus == round.simulations - round.used < finished.block_size
        assert len(round.distance) == round.simulations  # the surplus is kept
        assert round.draws >= round.used
    assert finished.simulations == sum(round.simulations for round in finished.rounds)
    assert finished.surplus > 0
    assert finished.ended == "tolerance 1 reached"


@pytest.mark.slow
def test_the_rate_of_a_round_without_its_last_acceptance_is_unbiased():
    """E[(k−1)/(n−1)] is the acceptance rate, E[k/n] is not: 600 rounds at k = 3 tell them apart by 5 errors."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), lambda t, rng: (rng.random(t.rows) > 0.2).astype(float), observed=0.0
    )
    method = fbar.SMC((0.5,), accepted=3)
    rounds = [run(method, problem, fbar.mean("a"), seed).rounds[0] for seed in range(600)]
    unbiased = np.array([(3 - 1) / (round.draws - 1) for round in rounds])
    naive = np.array([3 / round.draws for round in rounds])
    error = unbiased.std() / math.sqrt(600)
    assert abs(unbiased.mean() - 0.2) < 5 * error
    assert naive.mean() - 0.2 > 5 * error


def test_blocks_asked_ahead_change_nothing():
    method, problem = fbar.SMC(SCHEDULE, accepted=80), filippi()
    reference = run(method, problem)
    ahead = method.start(problem, MEAN, 1)
    rng = np.random.default_rng(0)
    waiting = []
    while not ahead.finished:
        waiting += ahead.ask(extra_blocks=3)
        batch = waiting.pop(int(rng.integers(len(waiting))))
        ahead.tell((batch, simulate(problem, batch)))
    for batch in waiting:  # blocks behind the end of a round are taken, and not used
        ahead.tell((batch, simulate(problem, batch)))
    assert ahead.simulations == reference.simulations
    assert ahead.posterior().expect(MEAN).value == reference.posterior().expect(MEAN).value


def test_proposals_outside_the_support_cost_nothing_and_are_counted():
    """Perturbed particles leave U(0, 1) at its edge, where the posterior lies."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), lambda t, rng: t["a"] + 0.01 * rng.standard_normal(t.rows), observed=0.0
    )
    done = run(fbar.SMC((0.5, 0.1, 0.03), accepted=200, perturbation="normal"), problem, fbar.mean("a"))
    last = done.rounds[-1]
    assert last.draws > 1.1 * last.used
    assert (done.posterior().points["a"] >= 0).all()
    truth = _edge_truth(0.03)
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - truth) < 5 * estimate.standard_error < 0.005


def _edge_truth(epsilon):
    a = np.linspace(0, 1, 200_001)
    p = stats.norm.cdf((epsilon - a) / 0.01) - stats.norm.cdf((-epsilon - a) / 0.01)
    return float((a * p).sum() / p.sum())


def test_a_budget_is_spent_at_the_last_tolerance_from_one_kept_proposal():
    done = run(fbar.SMC(SCHEDULE, accepted=200), filippi(), budget=20_000)
    assert done.simulations == 20_000
    assert done.ended.startswith("budget spent")
    extra = [round for round in done.rounds if round.tolerance == 1]
    assert len(extra) > 2
    assert len({id(round.proposal) for round in extra[1:]}) == 1
    assert done.rounds[-1].draws > 0


def test_a_precision_ends_a_run():
    result = fbar.infer(
        filippi(), MEAN, method=fbar.SMC(SCHEDULE, accepted=200), precision={"mean:theta1": 0.05}, seed=1
    )
    assert result["mean:theta1"].standard_error <= 0.05
    assert result.stopped_by != "budget spent"
    assert abs(result["mean:theta1"].value - 8) < 5 * 0.05


def test_rounds_of_a_number_of_simulations():
    done = run(fbar.SMC(SCHEDULE, simulations=3000), filippi())
    assert [round.simulations for round in done.rounds] == [3000] * 5
    assert not any(round.stopped for round in done.rounds)
    estimate = done.posterior().expect(MEAN)
    assert abs(estimate.value - 8) < 5 * estimate.standard_error


class TestSMC(MethodConformance):
    method = fbar.SMC((0.5, 0.1), accepted=120)


class TestSMCBySimulations(MethodConformance):
    method = fbar.SMC((0.5, 0.1), simulations=500, weights="ess")


class TestSMCOnContinuousParameters(MethodConformance):
    method = fbar.SMC(QuantileSchedule(0.25, tolerance=1.0), accepted=100)
    target = fbar.mean("theta1")
    budget = 3500

    @property
    def problem(self):
        return filippi()

    known = problem


def test_a_precision_waits_for_the_last_tolerance():
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.1), accepted=300)
    result = fbar.infer(gaussian(), fbar.mean("a"), method=method, precision={"mean:a": 0.05}, seed=1)
    assert result.run.tolerance == 0.1
    assert abs(result["mean:a"].value - 0.8) < 5 * 0.05
    falling = fbar.SMC().start(gaussian(), fbar.mean("a"), 1, limit=1000, at_data=False)
    with pytest.raises(InputError, match="keeps falling"):
        fbar.StandardError("mean:a", 0.05).check(falling)


def test_asking_ahead_ends_with_the_budget():
    started = fbar.SMC((2, 1, 0.4), accepted=80).start(gaussian(), fbar.mean("a"), 1, 300)
    while not started.finished:
        batches = started.ask(extra_blocks=2)
        assert sum(batch.simulations for batch in batches) <= 300
        started.tell(*((batch, simulate(started.problem, batch)) for batch in batches))
    assert started.simulations == 300


def test_a_round_cut_by_the_budget_is_not_complete():
    done = run(fbar.SMC((2, 0.5), simulations=1000, weights="last"), gaussian(), fbar.mean("a"), budget=1030)
    assert [round.complete for round in done.rounds] == [True, False]
    assert done.tolerance == 2
    assert done.posterior().accepted > 500


def test_the_only_acceptance_is_not_lost():
    """Rounds of two acceptances: at the closest distance the mixture has nothing left but a round-ending one."""
    done = run(fbar.SMC((2, 1), accepted=2), gaussian(), fbar.mean("a"))
    closest = min(float(round.distance[: round.used].min()) for round in done.rounds)
    assert done.posterior_at(closest).accepted >= 1


def test_outcomes_of_another_number_are_refused_and_can_be_told_again():
    started = fbar.SMC((2, 1), accepted=40).start(gaussian(), fbar.mean("a"), 1)
    batch = started.ask()[0]
    with pytest.raises(InputError, match="got 3 outcomes"):
        started.tell((batch, started.problem.outcomes(np.zeros(3), 3)))
    started.tell((batch, simulate(started.problem, batch)))
