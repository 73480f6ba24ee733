"""The paper's problems with continuous and mixed parameters, with their truths."""

from __future__ import annotations

import math

import numpy as np
from numpy import exp

from fbar.checks import FloatArray
from fbar.points import Points
from fbar.priors import ModelChoice, Prior
from fbar.priors.marginals import Uniform
from fbar.problem import Problem
from fbar.problems.ring import gauss_legendre, simulate, squared_radius
from fbar.simulators import Separable


def two_sided_exponential() -> Problem:
    """Figure 3: θ ~ U(−40, 60), p(x*|θ) = exp(−|θ|); the mean is within 10⁻¹⁵ of 0."""

    def half(end: float) -> tuple[float, float, float]:
        """∫ e^−t, ∫ t e^−t and ∫ t² e^−t from 0 to the end."""
        e = math.exp(-end)
        return 1 - e, 1 - (1 + end) * e, 2 - (2 + 2 * end + end**2) * e

    (z0, z1, z2), (y0, y1, y2) = half(60.0), half(40.0)
    mean, second = (z1 - y1) / (z0 + y0), (z2 + y2) / (z0 + y0)
    return Problem.bernoulli(
        Prior(theta=Uniform(-40, 60)),
        lambda t: np.exp(-np.abs(t["theta"])),
        truth={"mean:theta": mean, "second_moment:theta": second, "variance:theta": second - mean**2},
    )


def ramp() -> Problem:
    """Figure 4: θ ~ U(0, 1), p(x*|θ) = θ; the posterior is Beta(2, 1)."""
    return Problem.bernoulli(
        Prior(theta=Uniform(0, 1)),
        lambda t: t["theta"],
        truth={
            "mean:theta": 2 / 3,
            "second_moment:theta": 1 / 2,
            "variance:theta": 1 / 18,
            "probability:theta < 0.5": 1 / 4,
            "quantile:theta,0.5": math.sqrt(0.5),
        },
    )


def nested_models() -> Problem:
    """Figure 5: two models, equally likely; θ1, θ2 ~ U(−10, 15), model 1 without θ2.

    p(x*|θ) = exp(−θ1²/2) and exp(−(θ1²+θ2²)/2), so P(M = 1|x*) = 1/(1 + c) with c = ∫ exp(−t²/2) dt/25 over
    the prior's range.
    """
    width = Uniform(-10, 15)
    c = math.sqrt(2 * math.pi) * (_phi(15.0) - _phi(-10.0)) / 25
    return Problem.bernoulli(
        ModelChoice({1: Prior(theta1=width), 2: Prior(theta1=width, theta2=width)}),
        Separable(theta1=_bell, theta2=_bell),
        truth={"model-probability:1": 1 / (1 + c), "model-probability:2": c / (1 + c)},
    )


def _bell(t: FloatArray) -> FloatArray:
    return np.asarray(exp(-(t**2) / 2))


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def filippi(tolerance: float = 1.0) -> Problem:
    """Figure S5: θ1, θ2 ~ U(−50, 50), y ~ N((θ1−2θ2)² + (θ2−4)², 1), y* = 0, accepted where |y| ≤ ε.

    In u = (θ1−2θ2, θ2−4) the acceptance probability depends on r = |u| alone, and ABC's posterior at the tolerance
    has mean (8, 4) and covariance E[r²]/2 · ((5, 2), (2, 1)), one integral over r. (The prior's edges, over 17
    units away along θ1, hold no mass.) `fbar.problems.ring` has the truth for any y*.
    """
    from scipy.special import ndtr

    def p_star(t: Points, eps: float) -> FloatArray:
        m = squared_radius(t)
        return np.asarray(ndtr(eps - m) - ndtr(-eps - m))

    # s = r²: E[r²] = ∫ s P(|s + N(0,1)| ≤ ε) ds / ∫ P ds, smooth and bounded by its Gaussian tail.
    x, w = gauss_legendre(400)
    s = (x + 1) / 2 * (tolerance + 12)
    p = ndtr(tolerance - s) - ndtr(-tolerance - s)
    half = float((w * s * p).sum() / (w * p).sum()) / 2
    return Problem(
        Prior(theta1=Uniform(-50, 50), theta2=Uniform(-50, 50)),
        simulate,
        observed=0.0,
        p_star=p_star,
        truth={
            "mean:theta1": 8.0,
            "mean:theta2": 4.0,
            "variance:theta1": 5 * half,
            "variance:theta2": half,
            "covariance:theta1,theta2": 2 * half,
        },
    )
