"""Distances on the scale that the surrogate models them on, and back: powers Δ^λ, and the logarithm as λ = 0.

Järvenpää, Gutmann, Vehtari & Marttinen (2018) compare them: on which scale distances are most nearly normal, with the
same noise everywhere, differs from problem to problem.
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray

POWERS = {"log": 0.0, "root": 0.5, "plain": 1.0}
"""The scales that can be chosen."""


def scaled(distance: FloatArray, power: float) -> FloatArray:
    """Transformed distances. A failed simulation counts as the farthest that did not; log 0 as half the smallest."""
    finite = np.isfinite(distance)
    if not finite.any():
        return np.zeros(len(distance))
    y = np.where(finite, distance, float(distance[finite].max()))
    if power:
        return np.asarray(y**power)
    positive = y[y > 0]
    return np.asarray(np.log(np.maximum(y, positive.min() / 2 if positive.size else 1.0)))


def threshold(tolerance: float, power: float) -> float:
    """A tolerance on that scale."""
    return tolerance**power if power else math.log(tolerance)


def tolerance(threshold: float, power: float) -> float:
    """The tolerance that a threshold stands for."""
    return max(threshold, 0.0) ** (1 / power) if power else math.exp(threshold)


def constant(y: FloatArray) -> bool:
    """Whether there is nothing to learn from distances."""
    return bool(np.ptp(y) <= 1e-12 * max(1.0, float(np.abs(y).max()))) if y.size else True
