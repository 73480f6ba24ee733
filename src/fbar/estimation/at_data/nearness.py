"""How far simulations are from the data: summaries on a scale of their own near the data.

Each summary is z = arsinh((s − s*)/c), c its spread among the simulations that are near in all of them: close to the
data z is linear in s, far from them it grows like a logarithm, so that a heavy tail decides nothing. c comes from two
passes, each among a smaller share of the simulations. It depends on the summaries only, never on θ or weights, so that
it costs no bias. A summary that is the same in all simulations is left out.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray

SHARES = (0.3, 0.1)
"""The shares of the simulations, nearest first, whose spread is a summary's scale."""

MOST_OF_SPREAD = 2.0
"""A scale is at most so many times the 70% quantile of |s − s*|: one outlier must not set it."""


def scaled(away: FloatArray) -> FloatArray:
    """z of s − s*, shape (n, d): of the summaries that vary.

    >>> scaled(np.array([[0.0, 5.0], [1.0, 5.0], [-1.0, 5.0]])).shape
    (3, 1)
    """
    away = away[:, np.ptp(away, axis=0) > 0]
    if not away.shape[1]:
        return away
    distance = np.abs(away)
    scale = np.median(distance, axis=0)
    scale = np.where(scale > 0, scale, np.sqrt((away**2).mean(axis=0)))
    for share in SHARES:
        radius = (np.arcsinh(away / scale) ** 2).sum(axis=1)
        near = distance[radius <= np.quantile(radius, share)]
        spread, usual = np.sqrt((near**2).mean(axis=0)), np.quantile(near, 0.7, axis=0)
        spread = np.where(usual > 0, np.minimum(spread, MOST_OF_SPREAD * usual), spread)
        scale = np.where(spread > 0, spread, scale)
    return np.asarray(np.arcsinh(away / scale))


def whitening(x: FloatArray, weights: FloatArray) -> FloatArray:
    """L with uncorrelated columns x L of variance 1 under the weights; directions without variance are left out."""
    centred = x - weights @ x / weights.sum()
    values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred / weights.sum())
    kept = values > 1e-8 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
