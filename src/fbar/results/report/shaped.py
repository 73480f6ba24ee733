"""Data as they are shaped: a series as a series, columns of a table each by itself, numbers without an order by size.

Whether an order means anything is seen in the simulations. Where it does not, the numbers of a simulation are
exchangeable: their means over simulations are alike, and neighbours are not correlated. With r the deviations from each
simulation's own mean, n simulations and T numbers, Σ_j r̄_j² n/σ² is then about χ² with T − 1 degrees of freedom, and
the correlation of neighbours is −1/(T − 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray

SHORTEST = 9
"""Numbers of a series, at least."""

MOST_COLUMNS = 6
"""Series of a table, at most."""

FALSE_ALARM = 1e-4
"""How often numbers without an order are taken for a series, about."""


@dataclass(frozen=True, eq=False)
class Series:
    """Observed numbers (T) and simulated ones (n, T), in the order of the data or by size."""

    observed: FloatArray
    simulated: FloatArray
    axis: str
    title: str = ""


def series_of(observed: npt.NDArray[Any], simulated: FloatArray) -> list[Series]:
    """The series in data of one or two dimensions; none where they are too short, too many, or something else."""
    data = np.asarray(observed, dtype=np.float64)
    if data.ndim == 1 and data.size >= SHORTEST:
        return [_series(data, simulated, "")]
    if data.ndim == 2 and max(data.shape) >= SHORTEST and min(data.shape) <= MOST_COLUMNS:
        along_rows = data.shape[0] >= data.shape[1]
        columns, runs = (data.T, simulated.transpose(0, 2, 1)) if along_rows else (data, simulated)
        word = "column" if along_rows else "row"
        return [_series(column, runs[:, j], f"{word} {j + 1}") for j, column in enumerate(columns)]
    return []


def _series(observed: FloatArray, simulated: FloatArray, title: str) -> Series:
    if exchangeable(simulated):
        return Series(np.sort(observed), np.sort(simulated, axis=1), "numbers in order of size", title)
    return Series(observed, simulated, "position in the data", title)


def exchangeable(simulated: FloatArray) -> bool:
    """Whether the order of the numbers means nothing, as far as simulations (n, T) show."""
    from scipy.special import chdtri

    n, size = simulated.shape
    if n < 20 or size < 3:
        return False
    away = simulated - simulated.mean(axis=1, keepdims=True)
    variance = float((away**2).mean())
    if not variance > 0:
        return False
    spread = float((away.mean(axis=0) ** 2).sum()) * n / (variance * size / (size - 1))
    neighbours = float((away[:, 1:] * away[:, :-1]).mean()) / variance + 1 / (size - 1)
    return bool(spread < chdtri(size - 1, FALSE_ALARM)) and abs(neighbours) < 4 / np.sqrt(n * size)
