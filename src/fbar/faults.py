"""Do failures depend on θ? Rejecting a failed simulation is right if they do not, or if failure is the model's own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.outcomes import Batch, FailedPlace, Outcomes, Simulated

FALSE_ALARM = 1e-3
MOST_ROWS = 20_000
FEWEST = 10


PARTS = 5
"""Parts of equal size that a parameter's values are seen in."""

MOST_CATEGORIES = 12


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

    def _seen(self) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
        """The columns of θ and who failed, in the order of the blocks."""
        blocks = [self._blocks[key] for key in sorted(self._blocks)]
        columns = {
            name: np.concatenate([theta[name] for theta, _ in blocks]) for name in (blocks[0][0] if blocks else ())
        }
        return columns, np.concatenate([part for _, part in blocks]) if blocks else np.zeros(0, bool)

    def places(self) -> tuple[FailedPlace, ...]:
        """Where simulations failed, parameter by parameter; nothing where none did."""
        columns, failed = self._seen()
        if not failed.any():
            return ()
        return tuple(
            FailedPlace(name, words, int(rows.sum()), int(failed[rows].sum()))
            for name, column in columns.items()
            for words, rows in _parts(column)
        )

    def dependence(self) -> str:
        """A warning if failures depend on a parameter, by a test that cries wolf once in a thousand runs; or nothing.

        Rank sums (Mann–Whitney) for numbers and χ² for categories, each at the rate divided by their number.
        """
        columns, failed = self._seen()
        if not FEWEST <= failed.sum() <= failed.size - FEWEST:
            return ""
        found = [name for name, column in columns.items() if _p_value(column, failed) < FALSE_ALARM / len(columns)]
        if not found:
            return ""
        return (
            f"failures depend on {', '.join(found)}: rejecting them is right if the model itself fails there, and "
            "biases the answer if the failure is numerical; mend the simulator, or exclude the region from the prior"
        )


def _parts(column: npt.NDArray[Any]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
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


def _p_value(column: npt.NDArray[Any], failed: npt.NDArray[np.bool_]) -> float:
    from scipy import stats

    if column.dtype.kind in "biuf":
        known = ~np.isnan(column.astype(np.float64))
        first, second = column[known & failed], column[known & ~failed]
        if min(first.size, second.size) < FEWEST or np.ptp(column[known]) == 0:
            return 1.0
        return float(stats.mannwhitneyu(first, second, method="asymptotic").pvalue)
    _, category = np.unique(column.astype(str), return_inverse=True)
    if category.max() == 0:
        return 1.0
    table = np.zeros((2, category.max() + 1))
    np.add.at(table, (failed.astype(int), category), 1)
    return float(stats.chi2_contingency(table).pvalue)
