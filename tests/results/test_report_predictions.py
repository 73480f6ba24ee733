"""New simulations for a report: from the posterior predictive, with their own random numbers, within a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.predictive import predict, resampled
from report_pages import CASES, NORMAL, read


def test_new_simulations_are_from_the_posterior_predictive():
    """y ~ N(1/2, 3/2) at a small tolerance: mean and variance within five standard errors (one alarm in 10⁶).

    The accepted simulations themselves would have the variance ε²/3, the prior predictive the variance 2.
    """
    result = fbar.infer(NORMAL, fbar.mean("mu"), tolerance=0.1, budget=40_000, seed=3)
    n = 20_000
    y = predict(result.run, result.posterior, n).numbers[:, 0]
    assert y.size == n
    own = result["mean:mu"].standard_error
    assert abs(y.mean() - 0.5) < 5 * (np.sqrt(1.5 / n) + own) + 0.005
    assert abs(y.var() - 1.5) < 5 * 1.5 * (np.sqrt(2 / n) + np.sqrt(2 / result.posterior.ess) / 3) + 0.01


def test_new_simulations_are_the_same_again_and_not_the_runs_own():
    result = CASES["rejection"]()
    first, second = (predict(result.run, result.posterior, 50).numbers for _ in range(2))
    np.testing.assert_array_equal(first, second)
    shorter = predict(result.run, result.posterior, 0)
    assert not len(shorter.summaries)
    assert "requested" in shorter.missing


def test_new_simulations_stop_when_time_is_up(monkeypatch):
    monkeypatch.setattr("fbar.diagnostics.predictive.PATIENCE", 0.0)
    result = CASES["rejection"]()
    found = predict(result.run, result.posterior)
    assert len(found.summaries) == 20
    assert "20 of 200" in found.missing
    assert len(predict(result.run, result.posterior, 60).summaries) == 60  # asked for: all are made


def test_a_slow_simulator_is_not_run_unasked(monkeypatch):
    @fbar.each
    def slow(theta, rng):
        return rng.poisson(theta["rate"])

    problem = fbar.Problem(fbar.Prior(rate=stats.expon()), slow, 1)
    result = fbar.infer(problem, fbar.mean("rate"), tolerance=0, method="rejection", budget=200, seed=1)
    monkeypatch.setattr("fbar.diagnostics.predictive.PATIENCE", 1e-9)
    found = predict(result.run, result.posterior)
    assert not len(found.summaries)
    assert "--predictive" in found.missing
    assert len(predict(result.run, result.posterior, 5).summaries) == 5


def test_failed_new_simulations_are_counted():
    result = CASES["flaky"]()
    found = predict(result.run, result.posterior, 400)
    assert found.failed > 0
    assert found.failed + len(found.summaries) == 400


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 40])
def test_a_simulator_that_cannot_go_on_leaves_the_rest_of_the_report(after, tmp_path):
    calls = []

    def simulate(theta, rng):
        if theta.rows == 20:
            calls.append(theta.rows)
            if sum(calls) > after:
                return np.zeros((7, 3))
        return theta["mu"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0)
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.3, budget=1000, seed=1)
    words = read(result, tmp_path).words
    assert f"New simulations ended after {after} of 200: the simulator was asked for 20 simulations" in words
    assert (f"{after} new simulations at parameters drawn from" in words) == (after > 0)


def test_new_simulations_are_drawn_by_the_weights():
    """Draws from N(2, 1) in place of the prior: without their weights new data would have the mean 3/2, not 1/2.

    Five standard errors: one alarm in 10⁶.
    """
    method = fbar.Importance(fbar.Prior(mu=stats.norm(2, 1)), tolerance=0.1)
    result = fbar.infer(NORMAL, fbar.mean("mu"), method=method, budget=60_000, seed=1)
    n = 20_000
    y = predict(result.run, result.posterior, n).numbers[:, 0]
    assert abs(y.mean() - 0.5) < 5 * (np.sqrt(1.5 / n) + result["mu"].standard_error) + 0.005


def test_rows_are_drawn_as_often_as_they_weigh():
    """In equal steps: every row n w times, up to one."""
    weights = np.array([0.0, 0.7, 0.2, 0.0, 0.1, 0.0])
    rows = resampled(3 * weights, 1001, np.random.default_rng(1))
    assert (np.abs(np.bincount(rows, minlength=6) - 1001 * weights) <= 1).all()
    assert not {0, 3, 5} & set(rows.tolist())
    assert (np.diff(rows) < 0).any()


def test_new_simulations_have_random_numbers_of_their_own():
    """No generator of theirs begins where one of the run's began."""
    begun = []

    def simulate(theta, rng):
        begun.append(rng.bit_generator.state["state"]["state"])
        return theta["mu"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0)
    method = fbar.Rejection(tolerance=0.3)
    result = fbar.infer(problem, fbar.mean("mu"), method=method, budget=2000, block_size=20, seed=1)
    own = set(map(str, begun))
    begun.clear()
    predict(result.run, result.posterior, 200)
    assert len(begun) == 10
    assert not own & set(map(str, begun))
