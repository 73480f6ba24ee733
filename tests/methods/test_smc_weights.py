"""The weights of ABC-SMC's particles of all rounds, and the error bars of what they estimate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.rounds import WEIGHTINGS
from fbar.methods.smc.schedules import QuantileSchedule
from fbar.problems import filippi
from fbar.question.acceptance import Acceptance
from smc_runs import MEAN, SCHEDULE, gaussian, run

pytestmark = pytest.mark.arithmetic


@pytest.fixture(scope="module")
def finished():
    return run(fbar.SMC(SCHEDULE, accepted=300), filippi())


def by_hand(done, tolerance, weighting):
    """The weights of all accepted particles, from the definitions and nothing that is remembered."""
    parts = []
    rounds = done.rounds
    for r, round in enumerate(rounds):
        used = slice(0, round.used - (1 if weighting == "mixture" and round.stopped else 0))
        rows = np.flatnonzero(round.distance[used] <= tolerance)
        own = np.exp(round.log_prior[rows] - round.proposal.log_density(round.particles.take(rows)))
        if weighting == "mixture":
            total = np.zeros(rows.size)
            for s, other in enumerate(rounds):
                q = np.exp(other.proposal.log_density(round.particles.take(rows)))
                if s == r + 1:  # without the particle itself
                    centres, w = other.proposal.components[0].centres, other.proposal.components[0].weights
                    height = np.exp(other.proposal.components[0].components.log_height())
                    for i, row in enumerate(rows):
                        found = np.flatnonzero((centres == round.particles.x[row]).all(axis=1))
                        if found.size == 0:  # rejected in its own round
                            continue
                        (j,) = found
                        q[i] = (q[i] - w[j] * height[j]) / (1 - w[j])
                total += (other.draws - other.stopped) * q
            parts.append(np.exp(round.log_prior[rows]) / total)
        elif weighting == "ess":
            parts.append(own / own.sum() * own.sum() ** 2 / (own**2).sum() if rows.size else own)
        else:
            parts.append(own if r == len(rounds) - 1 else own[:0])
    weights = np.concatenate(parts)
    return weights / weights.sum()


@pytest.mark.parametrize("weighting", ["mixture", "ess", "last"])
@pytest.mark.parametrize("tolerance", [1, 3, 20])
def test_weights_are_what_the_definitions_say(finished, tolerance, weighting):
    """Where a round's tolerance is below the one looked at, its rejected simulations count too."""
    found = finished.reweighted(weighting, tolerance).weights
    assert np.allclose(found, by_hand(finished, tolerance, weighting), rtol=1e-9)


def test_looking_at_tolerances_in_any_order_gives_the_same(finished):
    fresh = run(fbar.SMC(SCHEDULE, accepted=300), filippi())
    for tolerance in (10, 1, 3, 10):
        a, b = fresh.posterior_at(tolerance), finished.posterior_at(tolerance)
        assert np.allclose(a.weights, b.weights, rtol=1e-12)
    prefix = fresh.store.upto(3).posterior(Acceptance(10), "mixture", fresh.seen)
    alone = run(fbar.SMC(SCHEDULE[:3], accepted=300), filippi()).posterior()
    assert np.allclose(prefix.weights, alone.weights, rtol=1e-12)
    assert np.allclose(fresh.posterior_at(10).weights, finished.posterior_at(10).weights, rtol=1e-12)


def test_the_curve_against_the_tolerance(finished):
    curve = finished.curve([MEAN, fbar.variance("theta1")])
    assert [tolerance for tolerance, _ in curve] == list(map(float, SCHEDULE))
    variance = [estimates["variance:theta1"].value for _, estimates in curve]
    assert variance == sorted(variance, reverse=True)
    assert all(estimates["mean:theta1"].standard_error > 0 for _, estimates in curve)


def test_estimates_of_all_weightings_against_the_truth():
    """Filippi's problem at ε = 1, the truth by quadrature: |z| < 5 for 4 weightings × 3 targets × 5 runs."""
    problem = filippi(1.0)
    asked = [MEAN, fbar.mean("theta2"), fbar.covariance("theta1", "theta2")]
    for seed in range(5):
        done = run(fbar.SMC(SCHEDULE, accepted=300), problem, asked, seed)
        for weighting in WEIGHTINGS:
            for target, estimate in zip(asked, done.reweighted(weighting).expect(asked), strict=True):
                z = (estimate.value - problem.truth(target)[0]) / estimate.standard_error
                assert abs(z) < 5, (weighting, target.name, z)


@pytest.mark.slow
def test_coverage_of_the_default_weights():
    """50 runs; 95% intervals that cover 92% or more miss over 14 times with a probability of 5·10⁻⁶."""
    problem = filippi(1.0)
    asked = [MEAN, fbar.variance("theta2")]
    misses = np.zeros(2)
    for seed in range(50):
        estimates = run(fbar.SMC((160, 20, 4, 1), accepted=200), problem, asked, seed).posterior().expect(asked)
        for i, (target, estimate) in enumerate(zip(asked, estimates, strict=True)):
            low, high = estimate.interval(0.95)
            misses[i] += not low <= problem.truth(target)[0] <= high
    assert (misses <= 14).all(), misses


def test_self_influence_is_flagged_in_five_dimensions():
    """Few particles with local kernels: each weighs in the density that weighs it."""
    names = [f"t{i}" for i in range(5)]
    problem = fbar.Problem(
        fbar.Prior({name: stats.norm() for name in names}),
        lambda t, rng: np.stack([t[n] for n in names], axis=1) + 0.5 * rng.standard_normal((t.rows, 5)),
        observed=np.zeros(5),
    )
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.8), accepted=200, perturbation=fbar.LocalNormalKernel(20))
    estimate = run(method, problem, fbar.second_moment("t0")).posterior().expect(fbar.second_moment("t0"))
    assert not estimate.trusted
    assert any("influence their own weights" in text for text in estimate.warnings)


def test_the_last_weighting_joins_the_rounds_of_a_kept_proposal():
    done = run(fbar.SMC((2, 0.5, 0.2), accepted=100), gaussian(), fbar.mean("a"), budget=12_000)
    kept = [round for round in done.rounds if round.proposal is done.rounds[-1].proposal]
    assert len(kept) > 2
    assert done.reweighted("last").accepted == sum(round.weights(Acceptance(0.2)).sum() for round in kept)


def test_acceptance_kernels_reach_the_posterior(finished):
    smooth = fbar.SMC((2, 1, 0.4), accepted=200, kernel="gaussian")
    done = run(smooth, gaussian(), fbar.mean("a"))
    weights = np.concatenate([round.weights(Acceptance(0.4, "gaussian")) for round in done.rounds])
    assert done.reweighted("ess").accepted == pytest.approx(weights.sum())
