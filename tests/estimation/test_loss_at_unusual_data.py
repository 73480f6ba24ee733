"""Data that are unlike the simulations that have the same learned summaries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.estimation.at_data.loss_at_unusual_data import USUAL, unusualness
from fbar.estimation.at_data.prepared import MOST_LOSS

pytestmark = pytest.mark.arithmetic

NUMBERS = 12


def simulate(theta, rng):
    return theta["mu"][:, None] + rng.standard_normal((theta.rows, NUMBERS))


def answered(data, seed=1, budget=1500):
    """The posterior at some data, from simulations of the prior."""
    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 2)), simulate, observed=data)
    return fbar.infer(problem, [fbar.mean("mu")], method=fbar.Rejection(), budget=budget, seed=seed, progress=False)


def test_data_from_the_model_are_as_unusual_as_they_should_be():
    rng = np.random.default_rng(5)
    steps = [answered(rng.standard_normal(NUMBERS), seed).posterior.step for seed in range(20)]
    p = np.array([unusualness(step) for step in steps])
    assert stats.kstest(p, "uniform").pvalue > 1e-3  # a false alarm in a thousand
    assert [step.unusual is not None for step in steps] == (p < USUAL).tolist()


@pytest.mark.slow
def test_data_of_many_numbers_from_the_model_are_not_called_unusual():
    """About the data, arsinh would stretch their own distance from the middle, and three in ten had p < 0.05."""
    rng = np.random.default_rng(9)

    def of_new_data(seed):
        x = rng.normal(0, 1) + rng.standard_normal(80)
        problem = fbar.Problem(
            fbar.Prior(mu=stats.norm(0, 1)),
            lambda theta, rng: theta["mu"][:, None] + rng.standard_normal((theta.rows, 80)),
            observed=x,
        )
        run = fbar.infer(problem, [fbar.mean("mu")], method=fbar.Rejection(), budget=1000, seed=seed, progress=False)
        return unusualness(run.posterior.step)

    p = np.array([of_new_data(seed) for seed in range(24)])
    assert stats.binomtest(int((p < 0.05).sum()), 24, 0.05, alternative="greater").pvalue > 1e-4
    assert stats.binomtest(int((p < 0.2).sum()), 24, 0.2, alternative="greater").pvalue > 1e-4


def test_data_that_are_too_quiet_are_unusual_too():
    usual = np.linspace(-1.5, 1.5, NUMBERS)
    found = answered(0.05 * usual)
    assert unusualness(found.posterior.step) < 0.01
    assert "unlike simulations" in found.posterior.remark


def test_thousands_of_numbers_are_compared_in_blocks():
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)),
        lambda theta, rng: theta["mu"][:, None] + 20 * rng.standard_normal((theta.rows, 2000)),
        observed=np.random.default_rng(3).normal(0.5, 20, 2000),
    )
    run = fbar.infer(problem, [fbar.mean("mu")], method=fbar.Rejection(), budget=400, seed=1, progress=False)
    assert 0 < unusualness(run.posterior.step) <= 1


@pytest.mark.parametrize("outlying", [1, 3])
def test_unusual_data_have_the_largest_loss_that_is_allowed_for(outlying):
    usual = np.linspace(-1.5, 1.5, NUMBERS)
    data = usual.copy()
    data[:outlying] -= 4.0 / np.sqrt(outlying)
    data[-outlying:] += 4.0 / np.sqrt(outlying)  # the mean stays
    found, plain = answered(data), answered(usual)
    assert unusualness(found.posterior.step) < 0.01 < unusualness(plain.posterior.step)
    step = found.posterior.step
    assert step.bias >= 0.9 * MOST_LOSS > plain.posterior.step.bias
    assert "unlike simulations" in found.posterior.remark
    assert "unlike" not in plain.posterior.remark
    assert found["mean:mu"].standard_error > plain["mean:mu"].standard_error


def test_without_learned_summaries_nothing_is_added():
    rng = np.random.default_rng(6)
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 2)), lambda theta, rng: simulate(theta, rng)[:, :1], observed=rng.standard_normal(1)
    )
    run = fbar.infer(problem, [fbar.mean("mu")], budget=500, seed=1, progress=False).run
    assert unusualness(AtData().posterior(run.all_simulations()).step) is None
