"""Schedules of tolerances, and distances whose scales are learned."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from fbar.methods.smc.schedules import AcceptanceRateSchedule, QuantileSchedule, Tolerances
from fbar.problems import filippi
from fbar.weights import weighted_quantiles
from smc_runs import MEAN, gaussian, run

pytestmark = pytest.mark.arithmetic


def test_quantiles_of_the_accepted_distances():
    assert weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 0.5) == 2.0
    done = run(fbar.SMC(QuantileSchedule(0.5, tolerance=5.0), accepted=200), filippi())
    tolerances = [round.tolerance for round in done.rounds]
    assert tolerances[0] == math.inf
    assert tolerances[-1] == 5.0
    assert all(after < before for before, after in pairwise(tolerances))
    second, first = done.rounds[1], done.rounds[0]
    assert second.tolerance == np.sort(first.distance[: first.used])[99]


def test_a_schedule_by_acceptance_rate_has_about_that_rate():
    done = run(fbar.SMC(AcceptanceRateSchedule(0.4, tolerance=3.0), accepted=400), filippi())
    rates = [400 / round.used for round in done.rounds[2:-1]]
    assert len(rates) > 3
    assert all(0.25 < rate < 0.6 for rate in rates), rates


def test_distances_that_are_often_equal_do_not_stop_the_descent():
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    done = run(fbar.SMC(QuantileSchedule(0.9, tolerance=0.0), accepted=300), problem, fbar.mean("a"))
    assert done.tolerance == 0
    a = np.linspace(0, 20, 20_001)
    p = stats.poisson.pmf(4, a)
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - (a * p).sum() / p.sum()) < 5 * estimate.standard_error


def two_scales():
    """A summary that tells θ, and one a thousand times wider that tells nothing."""
    return fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: np.stack([t["a"] + 0.2 * rng.standard_normal(t.rows), 1000 * rng.standard_normal(t.rows)], 1),
        observed=np.array([1.0, 0.0]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("each_round", [False, True])
def test_scales_are_learned(each_round):
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.3), accepted=500, distance=fbar.Scaled(each_round=each_round))
    done = run(method, two_scales(), fbar.mean("a"))
    scales = done.measure.scales
    assert 600 < scales[1] < 750  # 1000 × 0.6745, from some hundreds of draws
    assert scales[0] < (0.5 if each_round else 0.8)
    assert all(round.distance.size == round.simulations for round in done.rounds)
    observed = done.problem.observed
    for round in (done.rounds[0], done.rounds[-1]):
        summaries = done.store.everything.summaries.take(round.rows)
        assert np.allclose(round.distance, done.measure(summaries, observed))
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - 1 / 1.04) < 0.1  # the tolerance's own bias is below 0.05


def test_p_norms():
    x, y = np.array([[1.0, 4.0], [3.0, 0.0]]), np.zeros(2)
    assert fbar.PNorm(1)(x, y).tolist() == [5.0, 3.0]
    assert fbar.PNorm(math.inf)(x, y).tolist() == [4.0, 3.0]
    assert np.allclose(fbar.PNorm(2, [1.0, 2.0])(x, y), [math.sqrt(5), 3.0])
    assert fbar.PNorm(2, [1.0, np.inf])(x, y).tolist() == [1.0, 3.0]
    learned = fbar.Scaled().learn(np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [4.0, 5.0, 0.0], [4.0, 5.0, 3.0]]))
    assert learned.scales[0] == 1.0
    assert learned.scales[1] == math.inf  # never varied
    assert learned.scales[2] == pytest.approx(np.std([0, 0, 0, 3]))  # over half are equal
    with pytest.raises(InputError, match="at least 1"):
        fbar.PNorm(0.5)
    with pytest.raises(InputError, match="positive"):
        fbar.PNorm(2, [0.0, 1.0])


def test_an_endless_schedule_needs_a_budget():
    with pytest.raises(InputError, match="nothing ends this run"):
        fbar.infer(filippi(), MEAN, method=fbar.SMC())
    result = fbar.infer(filippi(), MEAN, method=fbar.SMC(accepted=200), budget=5000, seed=1)
    assert result.simulations == 5000
    assert abs(result["mean:theta1"].value - 8) < 5 * result["mean:theta1"].standard_error


def test_lists_of_tolerances():
    schedule = Tolerances((3.0, 1.0))
    assert schedule.next(1, 3.0, np.array([]), np.array([])) == 1.0
    assert schedule.next(2, 1.0, np.array([]), np.array([])) is None
    assert schedule.next(0, math.inf, np.array([]), np.array([])) == 3.0


@pytest.mark.slow
def test_a_rate_out_of_reach_does_not_creep():
    method = fbar.SMC(AcceptanceRateSchedule(0.3, tolerance=0.02), accepted=100)
    done = run(method, gaussian(1.0), fbar.mean("a"))
    assert done.tolerance == 0.02
    assert len(done.rounds) < 60


def test_scales_of_each_round_on_counts_come_to_an_end():
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    method = fbar.SMC(QuantileSchedule(0.9, tolerance=0.0), accepted=200, distance=fbar.Scaled(each_round=True))
    done = run(method, problem, fbar.mean("a"))
    assert len(done.rounds) < 60
    assert done.posterior().expect(fbar.mean("a")).value == pytest.approx(5, abs=1)
    with pytest.raises(InputError, match="in its own scales"):
        done.curve()


def test_a_smooth_kernel_never_gets_tolerance_0():
    with pytest.raises(InputError, match="above 0"):
        fbar.SMC(QuantileSchedule(0.5, tolerance=0.0), kernel="gaussian")
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    done = run(fbar.SMC(accepted=200, kernel="epanechnikov"), problem, fbar.mean("a"), budget=8000)
    assert done.tolerance > 0
    assert done.simulations == 8000
    assert len({id(round.proposal) for round in done.rounds}) < len(done.rounds)  # kept, once nothing comes closer


def test_failures_do_not_enter_a_pilot():
    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 0.3:
            raise RuntimeError("diverged")
        return np.array([theta["a"] + 0.5 * rng.standard_normal(), 50 * rng.standard_normal()])

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=np.array([1.0, 0.0]))
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=1.0), accepted=150, distance=fbar.Scaled())
    done = run(method, problem, fbar.mean("a"))
    first = done.rounds[0]
    assert np.isnan(first.distance).sum() > 20
    assert np.isfinite(first.distance[: first.used]).sum() == 150
    assert 25 < done.measure.scales[1] < 45  # 50 × 0.6745; failed rows, which are zeros, would make it smaller
