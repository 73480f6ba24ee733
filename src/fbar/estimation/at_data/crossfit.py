"""Ridge regressions that are cross-fitted by group, from one pass over the simulations.

For simulations i with columns φ_i, targets y_i, kernel weights K_i and groups k(i), the matrices G_k = Σ K φφᵀ,
C_k = Σ K φyᵀ and Q_k = Σ K y² over group k are all that is needed. The function for group k has the coefficients
B_k = argmin of the penalised squares over the other groups; its held-out loss Q_k − 2B_kᵀC_k + B_kᵀG_kB_k needs no pass
over the rows. Set of columns and penalty of each target have the smallest held-out loss, summed over groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray

PENALTIES = 10.0 ** np.arange(-6.0, 2.0)
"""Ridge penalties that are tried, in units of the largest eigenvalue."""

WORTH = 0.995
"""A later set of columns is preferred if its loss is smaller than this multiple of the best before it."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fitted functions of φ for each group, in units of the targets' deviations.

    ``slopes`` (groups, p, targets) and ``at_zero`` (groups, targets) predict φ·slope + at_zero. ``loss`` is the mean
    squared held-out error, ``in_sample`` that of the rows fitted, ``chosen`` the set of each target.
    """

    slopes: FloatArray
    at_zero: FloatArray
    loss: FloatArray
    in_sample: FloatArray
    chosen: tuple[str, ...]

    def predict(self, columns: FloatArray, position: IntArray) -> FloatArray:
        """Out-of-group predictions; ``position`` has the number of each row's group."""
        result = np.empty((len(columns), self.loss.size))
        for k in range(len(self.slopes)):
            rows = position == k
            result[rows] = columns[rows] @ self.slopes[k] + self.at_zero[k]
        return result


class Regressions:
    """All regressions on the same columns, kernel weights and groups: the decompositions are computed once."""

    def __init__(self, columns: FloatArray, kernel: FloatArray, position: IntArray) -> None:
        self._kernel, self._position = kernel, position
        self._total = float(kernel.sum())
        self._mean = kernel @ columns / self._total
        deviation = np.sqrt(np.maximum(kernel @ (columns - self._mean) ** 2 / self._total, 0.0))
        self._deviation = np.where(deviation > 1e-9, deviation, np.inf)
        self._design = np.hstack([np.ones((len(columns), 1)), (columns - self._mean) / self._deviation])
        self._rows = [np.flatnonzero(position == k) for k in range(int(position.max()) + 1)]
        self._size = [float(kernel[rows].sum()) for rows in self._rows]
        self._moments = [(self._design[rows].T * kernel[rows]) @ self._design[rows] for rows in self._rows]
        self._all = np.sum(self._moments, axis=0)
        self._ridges: dict[tuple[str, int], _Ridge] = {}

    def fit(
        self, targets: FloatArray, sets: Sequence[tuple[str, IntArray]], before: CrossFit | None = None
    ) -> CrossFit:
        """The functions of ``sets`` of columns, and of the fit ``before`` if given, with the smallest held-out loss.

        Targets have mean 0 and variance 1 under the kernel.
        """
        groups, count = len(self._rows), targets.shape[1]
        cross = [(self._design[rows].T * self._kernel[rows]) @ targets[rows] for rows in self._rows]
        own = [self._kernel[rows] @ targets[rows] ** 2 for rows in self._rows]
        all_cross, all_own = np.sum(cross, axis=0), np.sum(own, axis=0)
        if before is None:
            loss, in_sample, chosen = np.full(count, np.inf), np.full(count, np.inf), [""] * count
            slopes = np.zeros((groups, self._mean.size, count))
            at_zero = np.zeros((groups, count))
        else:
            loss, in_sample, chosen = before.loss.copy(), before.in_sample.copy(), list(before.chosen)
            slopes, at_zero = before.slopes.copy(), before.at_zero.copy()
        each = np.arange(count)
        for name, members in sets:
            inside = np.concatenate([[0], members + 1])
            held_out, seen = np.zeros((len(PENALTIES), count)), np.zeros(count)
            fitted = np.zeros((groups, len(PENALTIES), inside.size, count))
            square = np.ix_(inside, inside)
            for k in range(groups):
                rest = self._total - self._size[k]
                fitted[k] = self._ridge(name, inside, k).coefficients((all_cross - cross[k])[inside] / rest)
                held_out += _squares(own[k], cross[k][inside], self._moments[k][square], fitted[k]) / self._total
            best = held_out.argmin(axis=0)
            chosen_slopes = fitted[:, best, :, each].transpose(1, 2, 0)  # (groups, 1 + p, targets)
            better = np.flatnonzero(held_out[best, each] < WORTH * loss)
            if not better.size:
                continue
            for k in range(groups):
                rest = self._total - self._size[k]
                moments, others = self._ridge(name, inside, k).moments, (all_cross - cross[k])[inside] / rest
                seen += _squares((all_own - own[k]) / rest, others, moments, chosen_slopes[k]) / groups
            for t in better:
                loss[t], in_sample[t], chosen[t] = held_out[best[t], t], seen[t], name
                slopes[:, :, t] = 0.0
                slopes[:, members, t] = chosen_slopes[:, 1:, t] / self._deviation[members]
                at_zero[:, t] = chosen_slopes[:, 0, t] - slopes[:, :, t] @ self._mean
        return CrossFit(slopes, at_zero, loss, in_sample, tuple(chosen))

    def _ridge(self, name: str, inside: IntArray, k: int) -> _Ridge:
        if (name, k) not in self._ridges:
            moments = (self._all - self._moments[k])[np.ix_(inside, inside)] / (self._total - self._size[k])
            self._ridges[name, k] = _Ridge.of(moments)
        return self._ridges[name, k]


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Mean moments, whose first row and column are the intercept's (not penalised), with their decomposition."""

    moments: FloatArray
    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, moments: FloatArray) -> _Ridge:
        mean = moments[0, 1:]
        values, vectors = np.linalg.eigh(moments[1:, 1:] - np.outer(mean, mean))
        return cls(moments, np.maximum(values, 0.0), vectors)

    def coefficients(self, cross: FloatArray) -> FloatArray:
        """(penalties, 1 + p, targets)"""
        mean, level = self.moments[0, 1:], cross[0]
        along = self.vectors.T @ (cross[1:] - np.outer(mean, level))
        penalty = PENALTIES * max(float(self.values[-1]), 1e-12)
        slopes = self.vectors @ (along / (self.values + penalty[:, None])[:, :, None])
        return np.concatenate([(level - mean @ slopes)[:, None], slopes], axis=1)


def _squares(own: FloatArray, cross: FloatArray, moments: FloatArray, b: FloatArray) -> FloatArray:
    """Σ (y − φb)² from the sums of y², φy and φφᵀ, for coefficients b (…, p, targets)."""
    return np.asarray(own + (b * (moments @ b - 2 * cross)).sum(axis=-2))
