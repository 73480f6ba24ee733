"""Parts of a region's draws with a gap between them, which have regressions of their own.

The modes of a posterior may move in different directions as the summaries change. The slopes of one regression are then
right for none of them, and draws that it moves are smeared around every mode. Means hardly notice, and neither do
companions in units of the deviation of all draws; but quantiles within a mode are wrong by as much as it is wide. Where
there is a gap, E[f | s] = Σ P(part | s) E[f | s, part], and each part is moved like a model of a choice. The gap has to
be wide: without one, parts would be selected by what is regressed, which bends their regressions. So draws are not
moved either in a region so wide that its parts have merged, where a smaller one has a gap.

Draws are divided by 2-means clustering of one number: the coordinate, or the main direction of all, in which the two
clusters are farthest apart; then of the number in the direction that separates these best (Fisher's). Parts are divided
again, as long as the middles of two are ``APART`` times the sum of their deviations apart. Two halves of a normal
distribution have 1.3, of a uniform one 1.7. Modes that no such direction separates share a regression.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.weights import effective_size

APART = 3.5
"""The distance between the middles of two parts, at least, in units of the sum of their deviations."""

LEAST, EACH = 20, 4
"""Effective draws of a part, at least, and for each of its coordinates."""

TIMES = 2
"""How often draws are divided anew in the direction that separates their parts best."""

CONSTANT = 1e-9
"""A coordinate of smaller deviation than this, relative to itself, is taken for constant."""

RIDGE = 1e-6
"""Added to the variances within parts, in units of the variance of all."""


def parts(v: FloatArray, omega: FloatArray) -> IntArray:
    """The numbers 0, 1, … of the parts that draws with weights are in.

    >>> ends = np.linspace(0, 1, 50)[:, None]
    >>> parts(np.concatenate([ends, ends + 3]), np.ones(100))[[0, 49, 50, 99]].tolist()
    [0, 0, 1, 1]
    >>> int(parts(np.concatenate([ends, ends + 1]), np.ones(100)).max())
    0
    """
    found = np.zeros(len(v), dtype=np.int64)
    waiting = [np.arange(len(v))]
    while waiting:
        rows = waiting.pop()
        second = _second_of_two(v[rows], omega[rows])
        if second is not None:
            found[rows[second]] = found.max() + 1
            waiting += [rows[~second], rows[second]]
    return found


def _second_of_two(v: FloatArray, omega: FloatArray) -> BoolArray | None:
    """Which draws are in the second of two parts; None where these are not apart."""
    share = omega / omega.sum()
    away = v - share @ v
    deviation = np.sqrt(share @ away**2)
    varies = deviation > CONSTANT * np.abs(v).max(axis=0)
    x = away[:, varies] / deviation[varies]
    least = max(LEAST, EACH * x.shape[1])
    if not x.shape[1] or effective_size(omega) < 2 * least:
        return None
    main = np.linalg.eigh((share[:, None] * x).T @ x)[1][:, -1:]
    along = (x @ np.hstack([np.eye(x.shape[1]), main])).T
    apart, second = max((_cut(t, share, least) for t in along), key=lambda found: found[0])
    for _ in range(TIMES if apart > 0 else 0):
        sides = np.where(second, share, 0.0), np.where(second, 0.0, share)
        high, low = (side @ x / side.sum() for side in sides)
        within = x - np.where(second[:, None], high, low)
        covariance = (share[:, None] * within).T @ within + RIDGE * np.eye(x.shape[1])
        apart, found = _cut(x @ np.linalg.solve(covariance, high - low), share, least)
        if not apart > 0:
            return None
        second = found
    return second if apart >= APART else None


def _cut(t: FloatArray, share: FloatArray, least: float) -> tuple[float, BoolArray]:
    """Numbers in two clusters by 2-means: how far apart these are, in units of the sum of their deviations, and which
    numbers are in the upper one. 0 apart where no cut leaves enough effective draws on both sides.
    """
    order = np.argsort(t, kind="stable")
    w, x = share[order], t[order]
    each = np.stack([w, w * x, w * x**2, w**2])
    low, high = np.cumsum(each, axis=1)[:, :-1], np.cumsum(each[:, ::-1], axis=1)[:, -2::-1]
    weight, squares = np.stack([low[0], high[0]]), np.stack([low[3], high[3]])
    enough = (weight**2 >= least * squares).all(axis=0) & (weight > 0).all(axis=0)
    upper = np.zeros(t.size, dtype=bool)
    if not enough.any():
        return 0.0, upper
    weight = np.where(enough, weight, 1.0)
    middle = np.stack([low[1], high[1]]) / weight
    best = int(np.argmax(np.where(enough, weight[0] * weight[1] * (middle[1] - middle[0]) ** 2, -1.0)))
    variance = np.stack([low[2], high[2]])[:, best] / weight[:, best] - middle[:, best] ** 2
    spread = float(np.sqrt(np.maximum(variance, RIDGE)).sum())
    upper[order[best + 1 :]] = True
    return float(middle[1, best] - middle[0, best]) / spread, upper
