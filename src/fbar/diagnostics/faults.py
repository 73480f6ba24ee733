"""Do failures depend on θ? Rejecting a failed simulation is right if they do not, or if failure is the model's own.

Where proposals were learned, parameters hang together among the simulations, by the data's doing, even if the prior
draws each by itself. A parameter that has nothing to do with failures then differs between those that failed and those
that did not, because another one does. So each is tested given the others that are named: within strata in which those
are nearly the same, by the score statistic

    U = Σ_strata Σ_i (y_i − ȳ) S_i,    var U = Σ_strata n/(n−1) ȳ(1−ȳ) Σ_i (S_i − S̄)(S_i − S̄)ᵀ,    UᵀV⁻¹U ~ χ²,

y whether simulation i failed, S its rank among all (an indicator for each category), the variance that of shuffling y
within strata. With one stratum it is the rank-sum test of Mann and Whitney and the χ² test; with several, those of van
Elteren and of Cochran, Mantel and Haenszel. The strongest parameter is named first, then the strongest given that one,
and so on; at the end those are dropped that are not needed given the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import IntArray
from fbar.question.outcomes import Batch, FailedPlace, Outcomes, Simulated

FALSE_ALARM = 1e-3
MOST_ROWS = 20_000
FEWEST = 10


PARTS = 5
"""Parts of equal size that a parameter's values are seen in."""

MOST_CATEGORIES = 12

STRATUM = 20
"""Simulations in a stratum, or up to twice as many: numbers are halved at their medians until there are so few."""


class FailureWatch:
    """Keeps θ and failure of whole blocks, of every second or fourth one when there are many, and tests them."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]] = {}
        self._rows, self._stride = 0, 1

    def add(self, batch: Batch, outcomes: Outcomes) -> None:
        if not isinstance(outcomes, Simulated) or batch.block % self._stride:
            return
        theta = batch.theta
        failed = np.zeros(theta.rows, bool) if outcomes.failure is None else np.asarray(outcomes.failure) != 0
        self._blocks[batch.key] = ({name: theta[name] for name in theta}, failed)
        self._rows += theta.rows
        while self._rows > MOST_ROWS and self._stride < 2**20:
            self._stride *= 2
            kept = {key: value for key, value in self._blocks.items() if key[1] % self._stride == 0}
            if len(kept) == len(self._blocks):
                break
            self._blocks = kept
            self._rows = sum(failed.size for _, failed in kept.values())

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The rounds and numbers of the blocks that are kept."""
        return sorted(self._blocks)

    def _seen(self) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
        """The columns of θ and who failed, in the order of the blocks."""
        blocks = [self._blocks[key] for key in self.blocks]
        columns = {
            name: np.concatenate([theta[name] for theta, _ in blocks]) for name in (blocks[0][0] if blocks else ())
        }
        return columns, np.concatenate([part for _, part in blocks]) if blocks else np.zeros(0, bool)

    def where_failed(self) -> tuple[FailedPlace, ...]:
        """Where simulations failed, parameter by parameter; nothing where none did."""
        columns, failed = self._seen()
        if not failed.any():
            return ()
        return tuple(
            FailedPlace(name, words, int(rows.sum()), int(failed[rows].sum()))
            for name, column in columns.items()
            for words, rows in parts_of(column)
        )

    def dependence(self) -> str:
        """A warning if failures depend on parameters, by a test with one false alarm in a thousand runs; or nothing.

        Each parameter given those that are named with it, at the rate divided by the number of parameters.
        """
        columns, failed = self._seen()
        if not FEWEST <= failed.sum() <= failed.size - FEWEST:
            return ""
        found = _named(columns, failed)
        if not found:
            return ""
        return (
            f"failures depend on {', '.join(found)}: rejecting them is right if the model itself fails there, and "
            "biases the answer if the failure is numerical; correct the simulator, or exclude the region from the prior"
        )


def parts_of(column: npt.NDArray[Any]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """Parts of a parameter's values in words, and the rows of each: fifths of numbers, or the values themselves."""
    known = column == column  # a parameter that a model does not have is no number
    if column.dtype.kind not in "biuf" or np.unique(column).size <= MOST_CATEGORIES:
        words = np.array([str(value) for value in column.tolist()])
        values = np.unique(words[known])
        found = [(str(value), known & (words == value)) for value in values[:MOST_CATEGORIES]]
        others = known & np.isin(words, values[MOST_CATEGORIES:])
        return [*found, ("others", others)] if others.any() else found
    finite = np.isfinite(column)
    edges = np.unique(np.quantile(column[finite], np.linspace(0, 1, PARTS + 1)))
    found = [
        (f"{low:.4g} to {high:.4g}", finite & (column >= low) & ((column < high) | (high == edges[-1])))
        for low, high in pairwise(edges)
    ]
    return [*found, ("infinite", known & ~finite)] if (known & ~finite).any() else found


def _named(columns: Mapping[str, npt.NDArray[Any]], failed: npt.NDArray[np.bool_]) -> list[str]:
    """The parameters that failures depend on, each given the others, in the order of the columns."""
    rate, found = FALSE_ALARM / len(columns), list[str]()

    def given(name: str, others: list[str]) -> float:
        return log_p_value(columns[name], failed, strata_of([columns[other] for other in others], failed.size))

    while len(found) < len(columns):
        tested = {name: given(name, found) for name in columns if name not in found}
        best = min(tested, key=tested.__getitem__)
        if tested[best] >= math.log(rate):
            break
        found.append(best)
    while len(found) > 1:
        tested = {name: given(name, [other for other in found if other != name]) for name in found}
        least = max(tested, key=tested.__getitem__)
        if tested[least] < math.log(rate):
            break
        found.remove(least)
    return [name for name in columns if name in found]


def strata_of(columns: Sequence[npt.NDArray[Any]], size: int) -> IntArray:
    """Numbers of the strata of all rows: the same categories, and numbers close to each other."""
    stratum = np.zeros(size, dtype=np.int64)
    numbers = []
    for column in columns:
        if column.dtype.kind in "biuf" and np.unique(column).size > MOST_CATEGORIES:
            value = column.astype(np.float64)
            numbers.append(value)
            column = np.isnan(value)  # a parameter that a model does not have
        _, category = np.unique(column.astype(str), return_inverse=True)
        _, stratum = np.unique(stratum * (category.max() + 1) + category, return_inverse=True)
    parts, done = [np.flatnonzero(stratum == number) for number in range(int(stratum.max()) + 1)], 0
    result = np.zeros(size, dtype=np.int64)
    turn = [0] * len(parts)
    while parts:
        rows, depth = parts.pop(), turn.pop()
        halves: list[IntArray] = []
        for step in range(len(numbers) if rows.size >= 2 * STRATUM else 0):  # the next one that is not all the same
            value = numbers[(depth + step) % len(numbers)][rows]
            if np.isnan(value).any():
                continue
            low = value <= np.median(value)
            if low.all():
                low = value < value.max()
            if low.any():
                halves, depth = [rows[low], rows[~low]], depth + step + 1
                break
        if halves:
            parts += halves
            turn += [depth, depth]
        else:
            result[rows], done = done, done + 1
    return result


def log_p_value(column: npt.NDArray[Any], failed: npt.NDArray[np.bool_], stratum: IntArray) -> float:
    """log of the p-value of failures against a parameter within strata; 0 where there is too little to be seen."""
    from scipy import stats

    if column.dtype.kind in "biuf":
        value = column.astype(np.float64)
        known = ~np.isnan(value)
        y, stratum, value = failed[known], stratum[known], value[known]
        if min(y.sum(), (~y).sum()) < FEWEST or np.ptp(value) == 0:
            return 0.0
        scores = stats.rankdata(value)[:, None] / value.size
    else:
        _, category = np.unique(column.astype(str), return_inverse=True)
        y, scores = failed, np.eye(category.max() + 1)[category][:, 1:]
        if scores.shape[1] == 0:
            return 0.0
    _, stratum = np.unique(stratum, return_inverse=True)
    n = np.bincount(stratum).astype(np.float64)
    share = np.bincount(stratum, weights=y) / n
    middle = np.stack([np.bincount(stratum, weights=s) for s in scores.T], axis=1) / n[:, None]
    away = scores - middle[stratum]
    u = ((y - share[stratum])[:, None] * away).sum(axis=0)
    spread = (share * (1 - share) * n / np.maximum(n - 1, 1))[stratum]
    variance = (spread[:, None] * away).T @ away
    if not np.trace(variance) > 0:
        return 0.0
    statistic = float(u @ np.linalg.pinv(variance, hermitian=True) @ u)
    return float(stats.chi2.logsf(statistic, np.linalg.matrix_rank(variance, hermitian=True)))
