"""How unusual data are among weighted simulations: p-values by rank, of two statistics and of the smaller of them.

Let y_1 … y_m be simulations with weights c_i and y_0 the data. Of every one of these m + 1, and in the same way of
each, so that under the model the data are one among equals:

- its distance to its nearest simulations: that to the k-th nearest of the others, k = √m, in coordinates in which
  summaries are uncorrelated with variance 1 (each on its own scale where the simulations are too few for that);
- its largest deviation, max_j |t_j|, where t_j is the deviation of summary j from its median in units of its spread
  on that side.

The p-value of a statistic T is the weighted share of T_i ≥ T_0, the data included, with the weight E[c] = Σc²/Σc of
a simulation drawn by the weights: P(p ≤ α) ≤ α where data and simulations are exchangeable. Both statistics together
have one p-value: the rank of the smaller of the two p-values among the smaller ones of all simulations. A single
summary has the share of simulations whose largest deviation is at least that of the summary (Westfall and Young's
single-step maxT): the probability that any summary is wrongly named stays below the level, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import FloatArray
from fbar.weights import effective_size, weighted_quantiles

SIDE, NORMAL = 0.1, 1.2815515655446004
"""The outer share that a summary's spread on either side is read at, and its place in a normal distribution."""

RANGE = 0.99
"""The share of the simulations in the range that is shown for a summary."""

EACH = 20
"""Effective simulations for each summary, from which on their correlations are used."""

NO_VARIANCE = 1e-8
"""A direction with less than this share of the largest variance is left out."""


@dataclass(frozen=True, eq=False)
class RankPValues:
    """Data among simulations: ``values`` (m + 1, d) are their summaries, the data last, ``weights`` (m + 1,)."""

    values: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, observed: FloatArray, simulated: FloatArray, weights: FloatArray) -> RankPValues:
        own = (weights**2).sum() / weights.sum()
        return cls(np.concatenate([simulated, observed[None]]), np.append(weights, own))

    @property
    def effective_simulations(self) -> float:
        return effective_size(self.weights[:-1])

    @property
    def smallest(self) -> float:
        """The smallest p-value that so many simulations can give."""
        return float(self.weights[-1] / self.weights.sum())

    # ------------------------------------------------------------ the statistics

    @cached_property
    def deviations(self) -> FloatArray:
        """t (m + 1, d); infinite for data that differ where all simulations are the same."""
        levels, size = [SIDE, 0.5, 1 - SIDE], np.abs(self.values).max(axis=0)
        values = self.values / np.where(size > 0, size, 1.0)  # squares of them are numbers
        low, middle, high = np.array([weighted_quantiles(x, self.weights, levels) for x in values.T]).T
        away = values - middle
        spread = np.sqrt(self.weights @ away**2 / self.weights.sum())
        above, below = np.where(high > middle, (high - middle) / NORMAL, spread), middle - low
        scale = np.where(away > 0, above, np.where(below > 0, below / NORMAL, spread))
        constant = (self.values[:-1] == self.values[0]).all(axis=0)
        with np.errstate(all="ignore"):
            t = np.where(away == 0, 0.0, away / scale)
        return np.where(constant & (away != 0), np.copysign(np.inf, away), t)

    @cached_property
    def largest_deviations(self) -> FloatArray:
        return np.asarray(np.abs(self.deviations).max(axis=1))

    @cached_property
    def distances(self) -> FloatArray:
        """Of each to the k-th nearest of the other simulations."""
        u = np.arcsinh(np.clip(self.deviations, -1e100, 1e100))  # a heavy tail decides nothing
        if u.shape[1] * EACH <= self.effective_simulations:
            u = self._uncorrelated(u)
        size, each = len(u), np.einsum("ij,ij->i", u, u)
        square = each[:, None] + each - 2 * (u @ u.T)
        np.fill_diagonal(square, np.inf)
        square[:, -1] = np.where(np.arange(size) == size - 1, np.inf, square[:, -1])
        k = max(1, int(np.sqrt(size - 1)))
        return np.sqrt(np.maximum(np.partition(square, k - 1, axis=1)[:, k - 1], 0.0))

    def _uncorrelated(self, u: FloatArray) -> FloatArray:
        w = self.weights / self.weights.sum()
        away = u - w @ u
        variances, directions = np.linalg.eigh((w[:, None] * away).T @ away)
        kept = variances > NO_VARIANCE * max(float(variances.max(initial=0.0)), 1e-300)
        return np.asarray(away @ (directions[:, kept] / np.sqrt(variances[kept])))

    # ------------------------------------------------------------ p-values

    @property
    def of_distance(self) -> float:
        return float(self._shares(self.distances)[-1])

    @property
    def of_largest_deviation(self) -> float:
        return float(self._shares(self.largest_deviations)[-1])

    @cached_property
    def p_value(self) -> float:
        smaller = np.minimum(self._shares(self.distances), self._shares(self.largest_deviations))
        return float(self._shares(-smaller)[-1])

    @cached_property
    def of_summaries(self) -> FloatArray:
        """The p-value of every summary, allowing for how many there are."""
        data = np.abs(self.deviations[-1])
        shares = [self.weights[self.largest_deviations >= t].sum() for t in data]
        return np.asarray(shares / self.weights.sum(), dtype=np.float64)

    def ranges(self) -> FloatArray:
        """The central range of every summary among the simulations, shape (2, d)."""
        levels, weights = [(1 - RANGE) / 2, (1 + RANGE) / 2], self.weights[:-1]
        return np.array([weighted_quantiles(x, weights, levels) for x in self.values[:-1].T]).T

    def _shares(self, statistic: FloatArray) -> FloatArray:
        """Of every one, the weighted share whose statistic is as large or larger."""
        order = np.argsort(-statistic, kind="stable")
        falling = statistic[order]
        upto = np.cumsum(self.weights[order])
        last = np.searchsorted(-falling, -falling, side="right") - 1
        found = np.empty(len(statistic))
        found[order] = upto[last] / upto[-1]
        return found
