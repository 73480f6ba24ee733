"""Do failures depend on θ? Rejecting a failed simulation is right if they do not, or if failure is the model's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.outcomes import Batch, Outcomes, Simulated

FALSE_ALARM = 1e-3
MOST_ROWS = 20_000
FEWEST = 10


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

    def dependence(self) -> str:
        """A warning if failures depend on a parameter, by a test that cries wolf once in a thousand runs; or nothing.

        Rank sums (Mann–Whitney) for numbers and χ² for categories, each at the rate divided by their number.
        """
        if not self._blocks:
            return ""
        blocks = [self._blocks[key] for key in sorted(self._blocks)]
        failed = np.concatenate([part for _, part in blocks])
        if not FEWEST <= failed.sum() <= failed.size - FEWEST:
            return ""
        names = list(blocks[0][0])
        found = []
        for name in names:
            column = np.concatenate([theta[name] for theta, _ in blocks])
            p = _p_value(column, failed)
            if p < FALSE_ALARM / len(names):
                found.append(name)
        if not found:
            return ""
        return (
            f"failures depend on {', '.join(found)}: rejecting them is right if the model itself fails there, and "
            "biases the answer if the failure is numerical; mend the simulator, or exclude the region from the prior"
        )


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
