"""ABC-SMC when things go wrong: wrong settings, rounds that cannot finish, failed simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals.kernels import Degenerate, Population
from fbar.errors import InputError, NoPosterior
from fbar.methods.smc.schedules import QuantileSchedule
from fbar.problems import filippi
from fbar.running import drive
from smc_runs import MEAN, SCHEDULE, run

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schedule": (3, 5)}, "5 follows 3, so the tolerance rises"),
        ({"schedule": (3, 3)}, "3 follows 3, so the tolerance repeats"),
        ({"schedule": ()}, "at least one tolerance"),
        ({"schedule": (3, -1)}, "each tolerance must be a number of at least 0"),
        ({"schedule": "quantile"}, "falling tolerances in a list"),
        ({"accepted": 1}, "at least 2"),
        ({"perturbation": "normel"}, "did you mean 'normal'"),
        ({"perturbation": 3}, "perturbation must be one of"),
        ({"weights": "mixtur"}, "did you mean 'mixture'"),
        ({"kernel": "box"}, "unknown acceptance kernel"),
        ({"jump": 1.5}, "jump must be a probability"),
        ({"coordinates": "unit"}, "unknown coordinates"),
        ({"distance": "mad"}, "fbar.Scaled"),
        ({"schedule": (2, 1), "distance": fbar.Scaled(each_round=True)}, "no fixed tolerances"),
        ({"schedule": (2, 0), "kernel": "gaussian"}, "above 0"),
        ({"schedule": QuantileSchedule}, "falling tolerances in a list"),
    ],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(InputError, match=text):
        fbar.SMC(**settings).start(filippi(), MEAN, 1)


@pytest.mark.slow
def test_a_round_that_would_never_finish_ends_the_run_and_keeps_the_rest():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: 1 + np.abs(t["a"] + rng.standard_normal(t.rows)), observed=0.0
    )
    result = fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((3, 1.5, 0.5), accepted=100), seed=1)
    assert "below the least rate 0.0001" in str(result)
    assert "warning: the run ended early (its simulations are kept): round 3 accepted 0 of" in str(result)
    assert result.run.tolerance == 1.5
    assert result["mean:a"].standard_error < 0.3
    assert 60_000 < result.run.rounds[-1].simulations < 80_000


def test_a_budget_that_ends_within_a_round():
    done = run(fbar.SMC(SCHEDULE, accepted=300), filippi(), budget=7000)
    assert done.simulations == 7000
    assert "budget spent in round" in done.ended
    assert done.tolerance > done.rounds[-1].tolerance
    assert abs(done.posterior().expect(MEAN).value - 8) < 5 * done.posterior().expect(MEAN).standard_error


def test_no_acceptance_at_all_is_an_error_that_says_how_far_it_was():
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: 100 + t["a"], observed=0.0)
    with pytest.raises(NoPosterior, match="the closest came within 9"):
        fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((3, 1)), budget=2000)


def test_too_few_distinct_particles():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1), c=stats.norm(0, 1)),
        lambda t, rng: t["a"] + rng.standard_normal(t.rows),
        observed=0.0,
    )
    result = fbar.infer(
        problem, fbar.mean("a"), method=fbar.SMC((2, 1, 0.5), accepted=3, perturbation="normal"), seed=1
    )
    assert "3 distinct particles do not span 3 dimensions" in str(result)
    assert result.run.tolerance == 2
    with pytest.raises(Degenerate, match="do not span"):
        fbar.NormalKernel().fit(Population(np.ones((9, 2)), np.full(9, 1 / 9), np.ones(9)), np.arange(9), 1.0)
    with pytest.raises(Degenerate, match="no width"):
        fbar.UniformKernel().fit(Population(np.ones((9, 2)), np.full(9, 1 / 9), np.ones(9)), np.arange(9), 1.0)


def test_distances_that_are_not_numbers_are_rejected_and_counted():
    def distance(summaries, observed):
        d = np.abs(summaries - observed)
        return np.where(summaries > 1.5, np.nan, d)

    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: t["a"] + 0.5 * rng.standard_normal(t.rows),
        observed=1.0,
        distance=distance,
    )
    for method in (fbar.SMC((2, 0.6), accepted=300), fbar.SMC(QuantileSchedule(0.5, tolerance=0.6), accepted=300)):
        result = fbar.infer(problem, fbar.mean("a"), method=method, seed=1)
        assert "gave a result that is not finite" in str(result)
        assert all(np.isnan(round.distance).any() for round in result.run.rounds)
        y = np.linspace(0.4, 1.5, 4001)
        density = stats.norm.pdf(y, 0, math.sqrt(1.25))
        truth = float((y / 1.25 * density).sum() / density.sum())
        assert abs(result["mean:a"].value - truth) < 5 * result["mean:a"].standard_error


def test_a_prior_without_mass_at_its_own_draws():
    calls = []

    def logpdf(t):
        calls.append(t.rows)
        return np.full(t.rows, 0.0 if len(calls) == 1 else -np.inf)  # it is looked at when the prior is made

    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=logpdf)
    problem = fbar.Problem(prior, lambda t, rng: t["a"], observed=0.5)
    with pytest.raises(InputError, match="check the prior's logpdf"):
        run(fbar.SMC((1, 0.5), accepted=50), problem, fbar.mean("a"))


def test_a_prior_without_mass_at_all_proposals_keeps_what_there_is():
    calls = {"n": 0}

    def logpdf(t):
        calls["n"] += 1
        return np.where(calls["n"] <= 40, np.zeros(t.rows), -np.inf)  # the mass is gone after the first round

    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=logpdf)
    problem = fbar.Problem(prior, lambda t, rng: t["a"], observed=0.5)
    done = fbar.SMC((0.4, 0.2, 0.1, 0.01), accepted=80).start(problem, fbar.mean("a"), 1)
    drive(done)
    assert "the prior has no mass at any of" in done.warnings[0]
    assert done.posterior_at(0.4).expect(fbar.mean("a")).standard_error > 0


def test_failures_are_rejected_and_not_redrawn():
    """Simulations that raise for a third of the time: rejected, counted, the estimate unharmed."""

    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 1 / 3:
            raise RuntimeError("diverged")
        return theta["a"] + 0.5 * rng.standard_normal()

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=1.0)
    result = fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((1, 0.4), accepted=300), seed=1)
    y = np.linspace(0.6, 1.4, 4001)
    density = stats.norm.pdf(y, 0, math.sqrt(1.25))
    truth = float((y / 1.25 * density).sum() / density.sum())
    assert abs(result["mean:a"].value - truth) < 5 * result["mean:a"].standard_error
    assert "raised an exception (RuntimeError: diverged)" in str(result)


def test_a_block_whose_simulations_all_fail_has_no_recorded_outputs():
    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 0.6:
            raise RuntimeError("diverged")
        return {"x": theta["a"] + 0.5 * rng.standard_normal(), "peak": theta["a"] ** 2}

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=1.0, records=["peak"])
    asked = [fbar.mean("peak"), fbar.second_moment("a")]
    peak, second = run(fbar.SMC((1, 0.5), accepted=16), problem, asked).posterior().expect(asked)
    assert math.isclose(peak.value, second.value)
