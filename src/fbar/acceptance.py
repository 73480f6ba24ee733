"""From distances to acceptance weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, choice, non_negative_number
from fbar.errors import InputError


@dataclass(frozen=True)
class Acceptance:
    """How a distance Δ becomes an acceptance weight a = K(Δ/ε).

    ``kernel`` is ``"uniform"`` (the indicator Δ ≤ ε; with ε = 0 exact matching), ``"epanechnikov"`` or
    ``"gaussian"``, each scaled to K(0) = 1.
    """

    tolerance: float = 0.0
    kernel: str = "uniform"

    def __post_init__(self) -> None:
        non_negative_number(self.tolerance, "tolerance")
        choice(self.kernel, ("uniform", "epanechnikov", "gaussian"), "acceptance kernel")
        if self.kernel != "uniform" and self.tolerance == 0:
            raise InputError(f"the {self.kernel} acceptance kernel needs a tolerance above 0; got 0")

    def __call__(self, distance: FloatArray) -> FloatArray:
        if self.kernel == "uniform":
            return (distance <= self.tolerance).astype(np.float64)
        u = distance / self.tolerance
        if self.kernel == "epanechnikov":
            return np.asarray(np.maximum(0.0, 1.0 - u**2))
        return np.asarray(np.exp(-0.5 * u**2))


def euclidean(summaries: npt.NDArray[Any], observed: npt.NDArray[Any]) -> FloatArray:
    """Euclidean distance of every simulation's summaries to the observed ones; labels match or do not."""
    if summaries.dtype.kind not in "biufc":
        same = (summaries == observed).reshape(len(summaries), -1).all(axis=1)
        return np.where(same, 0.0, np.inf)
    difference = np.abs(summaries.astype(np.float64) - observed).reshape(len(summaries), -1)
    return difference[:, 0] if difference.shape[1] == 1 else np.asarray(np.sqrt((difference**2).sum(axis=1)))
