"""The paper's problems with continuous and mixed parameters (figures 3, 4 and 5), with their truths."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import exp

from fbar.arrays import FloatArray
from fbar.question.points import Points
from fbar.question.priors import ModelChoice, Prior
from fbar.question.priors.marginals import Uniform
from fbar.question.problem import Problem
from fbar.question.simulators import Separable
from fbar.question.truth import Known, Listed


def two_sided_exponential() -> Problem:
    """Figure 3: θ ~ U(−40, 60), p(x*|θ) = exp(−|θ|); the mean is within 10⁻¹⁵ of 0."""

    def half(k: int, end: float) -> float:
        """∫ t^k e^−t from 0 to the end."""
        lost = math.fsum(math.factorial(k) / math.factorial(j) * end**j for j in range(k + 1))
        return float(math.factorial(k) - math.exp(-end) * lost)

    def truncated_laplace(u: FloatArray) -> FloatArray:
        """The inverse of the posterior's distribution function."""
        left, right = half(0, 40.0), half(0, 60.0)
        mass = u * (left + right)
        below = np.log(np.minimum(mass, left) + math.exp(-40.0))
        above = -np.log1p(-np.clip(mass - left, 0.0, right * (1 - 1e-16)))
        return np.asarray(np.where(mass < left, below, above))

    def moment(k: int) -> float:
        sign = -1 if k % 2 else 1
        return (half(k, 60.0) + sign * half(k, 40.0)) / (half(0, 60.0) + half(0, 40.0))

    return Problem.bernoulli(
        Prior(theta=Uniform(-40, 60)),
        lambda t: np.exp(-np.abs(t["theta"])),
        truth=Listed(
            _moments_known("theta", [moment(k) for k in range(5)]),
            "closed form",
            log_density=lambda t: _on(t, -40, 60, -np.abs(t["theta"]) - math.log(half(0, 60.0) + half(0, 40.0))),
            sample=lambda size, rng: Points({"theta": truncated_laplace(rng.random(size))}),
        ),
    )


def ramp() -> Problem:
    """Figure 4: θ ~ U(0, 1), p(x*|θ) = θ; the posterior is Beta(2, 1)."""
    return Problem.bernoulli(
        Prior(theta=Uniform(0, 1)),
        lambda t: t["theta"],
        truth=Listed(
            [
                *_moments_known("theta", [2 / (k + 2) for k in range(5)]),
                Known("probability:theta < 0.5", 1 / 4, 0.0, math.sqrt(3) / 4),
                # ψ = (α − 1(θ ≤ Q))/π(Q), with density 2θ at the median
                Known("quantile:theta,0.5", math.sqrt(0.5), 0.0, 0.5 / (2 * math.sqrt(0.5))),
            ],
            "closed form",
            log_density=lambda t: _on(t, 0, 1, np.log(2 * np.clip(t["theta"], 1e-300, None))),
            sample=lambda size, rng: Points({"theta": np.sqrt(rng.random(size))}),
        ),
    )


def _on(points: Points, low: float, high: float, log_density: FloatArray) -> FloatArray:
    """A log density of theta inside the prior's support, −∞ outside."""
    theta = points["theta"]
    return np.where((theta >= low) & (theta <= high), log_density, -np.inf)


def _moments_known(name: str, raw: Sequence[float]) -> list[Known]:
    """Mean, second moment and variance from the moments E θ^0 … E θ^4, each with the spread of its ψ."""
    mean, second = raw[1], raw[2]
    variance = second - mean**2
    fourth = sum(math.comb(4, k) * raw[k] * (-mean) ** (4 - k) for k in range(5))
    return [
        Known(f"mean:{name}", mean, 0.0, math.sqrt(variance)),
        Known(f"second_moment:{name}", second, 0.0, math.sqrt(raw[4] - second**2)),
        Known(f"variance:{name}", variance, 0.0, math.sqrt(fourth - variance**2)),
    ]


def nested_models() -> Problem:
    """Figure 5: two models, equally likely; θ1, θ2 ~ U(−10, 15), model 1 without θ2.

    p(x*|θ) = exp(−θ1²/2) and exp(−(θ1²+θ2²)/2), so P(M = 1|x*) = 1/(1 + c) with c = ∫ exp(−t²/2) dt/25 over
    the prior's range, and every parameter that a model has is N(0, 1) in it.
    """
    width = Uniform(-10, 15)
    c = math.sqrt(2 * math.pi) * (_phi(15.0) - _phi(-10.0)) / 25
    return Problem.bernoulli(
        ModelChoice({1: Prior(theta1=width), 2: Prior(theta1=width, theta2=width)}),
        Separable(theta1=_bell, theta2=_bell),
        truth=Listed(
            [
                *(
                    Known(f"model_probability:{model}", value, 0.0, math.sqrt(c) / (1 + c))
                    for model, value in ((1, 1 / (1 + c)), (2, c / (1 + c)))
                ),
                *_standard_normal("theta1", 1.0),  # in both models; the prior's edges cut off 10⁻²³
                *_standard_normal("theta2", c / (1 + c)),
            ],
            "closed form",
        ),
    )


def _standard_normal(name: str, share: float) -> list[Known]:
    """Mean and second moment of N(0, 1), given a model of this probability: ψ = 1_m (f − f̄_m)/P_m, so Var_m/P_m."""
    return [
        Known(f"mean:{name}", 0.0, 0.0, 1 / math.sqrt(share)),
        Known(f"second_moment:{name}", 1.0, 0.0, math.sqrt(2 / share)),
    ]


def _bell(t: FloatArray) -> FloatArray:
    return np.asarray(exp(-(t**2) / 2))


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
