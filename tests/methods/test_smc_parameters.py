"""ABC-SMC with discrete and mixed parameters, choices of models, kernels of acceptance and recorded outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from smc_runs import KERNELS, run

pytestmark = pytest.mark.arithmetic


def test_finite_parameters():
    problem = fbar.Problem.tabulated(
        fbar.Finite(theta=[1.0, 2.0, 3.0], probabilities=[0.6, 0.3, 0.1]), [0.02, 0.1, 0.4]
    )
    target = fbar.mean("theta")
    for seed in range(5):
        estimate = run(fbar.SMC((0.5, 0.1), accepted=400), problem, target, seed).posterior().expect(target)
        assert abs(estimate.value - problem.truth(target)[0]) < 5 * estimate.standard_error < 0.5


def test_model_choice_with_parameters_of_their_own():
    """y ~ N(a, 1) against y ~ N(a + b, 1) at y* = 2: P(M|x*) and E[b|x*, M = 2] by quadrature at ε = 0.2."""
    models = {
        1: fbar.Model(lambda t, rng: t["a"] + rng.standard_normal(t.rows), fbar.Prior(a=stats.norm(0, 1))),
        2: fbar.Model(
            lambda t, rng: t["a"] + t["b"] + rng.standard_normal(t.rows),
            fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 2)),
        ),
    }
    problem = fbar.Problem.models(models, observed=2.0, probabilities=[0.4, 0.6])
    y = np.linspace(1.8, 2.2, 2001)
    one, two = stats.norm.pdf(y, 0, math.sqrt(2)).mean() * 0.4, stats.norm.pdf(y, 0, math.sqrt(6)).mean() * 0.6
    density = stats.norm.pdf(y, 0, math.sqrt(6))
    b = float((4 / 6 * y * density).sum() / density.sum())
    asked = [fbar.model_probability(1), fbar.mean("b")]
    for kernel in KERNELS:
        done = run(fbar.SMC((2, 0.5, 0.2), accepted=500, perturbation=kernel), problem, asked, 3)
        for estimate, truth in zip(done.posterior().expect(asked), (one / (one + two), b), strict=True):
            assert abs(estimate.value - truth) < 5 * estimate.standard_error < 1, (kernel, estimate)


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_acceptance_kernels(kernel):
    """θ ~ N(0, 1), y ~ N(θ, 0.5²), y* = 1: the ABC posterior's mean by quadrature."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] + 0.5 * rng.standard_normal(t.rows), observed=1.0
    )
    y = np.linspace(-6, 8, 20_001)
    u = np.abs(y - 1) / 0.4
    weight = np.maximum(0, 1 - u**2) if kernel == "epanechnikov" else np.exp(-(u**2) / 2)
    density = stats.norm.pdf(y, 0, math.sqrt(1.25)) * weight
    truth = float((y / 1.25 * density).sum() / density.sum())
    for seed in range(4):
        done = run(fbar.SMC((2, 1, 0.4), accepted=400, kernel=kernel), problem, fbar.mean("a"), seed)
        estimate = done.posterior().expect(fbar.mean("a"))
        assert abs(estimate.value - truth) < 5 * estimate.standard_error < 0.3


def test_normal_coordinates_need_no_density_of_the_prior():
    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0] ** 2}, ["a"])
    problem = fbar.Problem(prior, lambda t, rng: t["a"] + 0.1 * rng.standard_normal(t.rows), observed=0.5)
    method = fbar.SMC((0.3, 0.1), accepted=500, coordinates="normal")
    u = (np.arange(100_000) + 0.5) / 100_000
    a = u**2
    p = stats.norm.cdf((0.6 - a) / 0.1) - stats.norm.cdf((0.4 - a) / 0.1)
    estimate = run(method, problem, fbar.mean("a")).posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - (a * p).sum() / p.sum()) < 5 * estimate.standard_error < 0.05
    assert all(round.draws == round.used for round in run(method, problem, fbar.mean("a")).rounds)


def test_recorded_outputs_and_derived_parameters_reach_targets():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: {"x": t["a"] + 0.5 * rng.standard_normal(t.rows), "peak": t["a"] ** 2},
        observed=1.0,
        derived={"double": lambda t: 2 * t["a"]},
        records=["peak"],
    )
    asked = [fbar.mean("double"), fbar.mean("a"), fbar.mean("peak"), fbar.second_moment("a")]
    found = run(fbar.SMC((1, 0.5), accepted=200), problem, asked).posterior().expect(asked)
    assert math.isclose(found[0].value, 2 * found[1].value)
    assert math.isclose(found[2].value, found[3].value)


def test_conditional_priors():
    """gamma ~ U(0, beta): a perturbed beta below 0 leaves gamma's distribution undefined, and has no mass."""
    prior = fbar.Prior(beta=stats.uniform(0, 2), gamma=lambda t: stats.uniform(0, t["beta"]))
    problem = fbar.Problem(
        prior, lambda t, rng: t["beta"] + t["gamma"] + 0.2 * rng.standard_normal(t.rows), observed=0.3
    )
    done = run(fbar.SMC((1, 0.3, 0.1), accepted=400), problem, fbar.mean("beta"))
    reference = fbar.infer(problem, fbar.mean("beta"), method=fbar.Rejection(tolerance=0.1), budget=400_000, seed=2)
    estimate = done.posterior().expect(fbar.mean("beta"))
    error = math.hypot(estimate.standard_error, reference["mean:beta"].standard_error)
    assert abs(estimate.value - reference["mean:beta"].value) < 5 * error < 0.2
    assert any(round.draws > round.used for round in done.rounds)


def test_a_table_in_normal_coordinates_and_scales_without_summaries():
    table = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.0]), [0.02, 0.1, 0.4])
    target = fbar.mean("theta")
    estimate = run(fbar.SMC((0.5, 0.1), accepted=300, coordinates="normal"), table, target).posterior().expect(target)
    assert abs(estimate.value - table.truth(target)[0]) < 5 * estimate.standard_error
    with pytest.raises(InputError, match="this problem has none"):
        fbar.SMC(distance=fbar.Scaled()).start(table, target, 1)
