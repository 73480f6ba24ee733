"""Whether the summaries at each θ look normal, as synthetic likelihoods take them to be.

Of the simulations at one θ, the absolute skewness and the excess kurtosis, each averaged over the summaries; then
averaged over θ of the posterior. A synthetic likelihood is not the likelihood of summaries that are not normal where
the posterior is, and its answer is doubted.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import BoolArray, FloatArray

SKEWED, HEAVY = 1.0, 4.0
"""Mean absolute skewness and excess kurtosis above which summaries are not called normal. Of normal summaries, the
second is about 0 or below, and the first falls with the number of simulations, from 0.6 for ten of them."""


def skewness_and_kurtosis(summaries: FloatArray, failed: BoolArray) -> FloatArray:
    """For summaries (n, r, d) of r simulations at each θ: shape (n, 2); 0 where nothing varies."""
    taken = ~failed[..., None]
    count = np.maximum(taken.sum(axis=1), 1)
    x = np.where(taken, summaries, 0.0)
    away = np.where(taken, x - x.sum(axis=1, keepdims=True) / count[:, None], 0.0)
    square = away**2
    variance = square.sum(axis=1) / count
    varies = variance > 0
    scale = np.where(varies, variance, 1.0)
    third, fourth = (square * away).sum(axis=1) / count, (square**2).sum(axis=1) / count
    number = np.maximum(varies.sum(axis=1), 1)
    skewness = (np.abs(third) / scale**1.5 * varies).sum(axis=1) / number
    kurtosis = ((fourth / scale**2 - 3) * varies).sum(axis=1) / number
    return np.stack([skewness, kurtosis], axis=1)


def doubt_of(shape: FloatArray) -> str:
    """The doubt about summaries of this mean skewness and kurtosis; empty where they look normal."""
    if shape[0] <= SKEWED and shape[1] <= HEAVY:
        return ""
    return (
        f"the summaries are not normal near the posterior (skewness {shape[0]:.1f}, excess kurtosis {shape[1]:.1f} on "
        "average), so the synthetic likelihood is not the likelihood; transform them"
    )
