"""A moving average of order two: x_t = e_t + θ1 e_{t−1} + θ2 e_{t−2}, with an exact Gaussian likelihood.

Marin, Pudlo, Robert & Ryder 2012. The prior is uniform on the triangle in which θ is identified.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy import stats

from fbar.arrays import FloatArray, IntArray
from fbar.problems.benchmark import Recipe
from fbar.problems.models.conditional import UniformBetween
from fbar.problems.truths.cubature import Cubature
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Reference

NAMES = ("theta1", "theta2")
SIZE = 100
AREA = 4.0
CHUNK = 4000


def log_likelihood(x: FloatArray, theta1: FloatArray, theta2: FloatArray) -> FloatArray:
    """log N(x | 0, Σ), Σ the Toeplitz matrix with γ0 = 1 + θ1² + θ2², γ1 = θ1 (1 + θ2), γ2 = θ2.

    By the Cholesky factor of the band, whose rows t have l2 = γ2/d_{t−2}, l1 = (γ1 − l2 m_{t−1})/d_{t−1} and
    d = √(γ0 − l1² − l2²), m_{t−1} being the factor's entry below d_{t−2}.
    """
    parts = [_log_likelihood(x, theta1[i : i + CHUNK], theta2[i : i + CHUNK]) for i in range(0, len(theta1), CHUNK)]
    return np.concatenate(parts) if parts else np.empty(0)


def _log_likelihood(x: FloatArray, theta1: FloatArray, theta2: FloatArray) -> FloatArray:
    gamma0, gamma1 = 1 + theta1**2 + theta2**2, theta1 * (1 + theta2)
    zero = np.zeros_like(theta1)
    before, last, m = np.ones_like(theta1), np.ones_like(theta1), zero  # d_{t−2}, d_{t−1}, the entry between
    e_before, e_last = zero, zero
    total, log_det = zero, zero
    for t, value in enumerate(x.tolist()):
        l2 = theta2 / before if t > 1 else zero
        l1 = (gamma1 - l2 * m) / last if t > 0 else zero
        # The variance of the best forecast is never below that of e_t, 1.
        d = np.sqrt(np.maximum(gamma0 - l1 * l1 - l2 * l2, 1.0))
        e = (value - l1 * e_last - l2 * e_before) / d
        total = total + e * e
        log_det = log_det + np.log(d)
        before, last, m, e_before, e_last = last, d, l1, e_last, e
    return np.asarray(-total / 2 - log_det - len(x) * math.log(2 * math.pi) / 2)


def simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    e = rng.standard_normal((theta.rows, SIZE + 2))
    return np.asarray(e[:, 2:] + theta["theta1"][:, None] * e[:, 1:-1] + theta["theta2"][:, None] * e[:, :-2])


def reference(x: FloatArray) -> Reference:
    def integrand(at: FloatArray, panel: IntArray) -> tuple[FloatArray, FloatArray]:
        """θ1 = (1 + θ2) s: the triangle as a square."""
        s, theta2 = at.T
        theta1 = (1 + theta2) * s
        return log_likelihood(x, theta1, theta2) + np.log((1 + theta2) / AREA), np.column_stack([theta1, theta2])

    def log_density(points: Points) -> FloatArray:
        theta1, theta2 = points["theta1"], points["theta2"]
        inside = (np.abs(theta1) <= 1 + theta2) & (theta2 <= 1)
        result = np.full(points.rows, -np.inf)
        result[inside] = log_likelihood(x, theta1[inside], theta2[inside]) - math.log(AREA)
        return result

    cells = [
        (np.array([a, c]), np.array([b, d]))
        for a, b in pairwise(np.linspace(-1, 1, 9))
        for c, d in pairwise(np.linspace(-1, 1, 9))
    ]
    low, high = (np.array(side) for side in zip(*cells, strict=True))
    return Cubature(integrand, low, high, NAMES, log_density=log_density)


def summary(x: FloatArray) -> FloatArray:
    """The autocovariances of lags 0, 1 and 2: Σ_t x_t x_{t−j} / T."""
    return np.column_stack([(x[:, lag:] * x[:, : SIZE - lag]).sum(axis=1) / SIZE for lag in range(3)])


def ma2() -> Recipe:
    prior = Prior(
        theta1=stats.triang(0.5, -2, 4),
        theta2=lambda t: UniformBetween(np.abs(t["theta1"]) - 1, np.ones(t.rows)),
    )
    return Recipe(
        "ma2",
        "a moving average of order two, a hundred times",
        "Marin, Pudlo, Robert & Ryder 2012",
        prior,
        simulate,
        (SIZE,),
        reference,
        seed=204,
        summary=summary,
    )
