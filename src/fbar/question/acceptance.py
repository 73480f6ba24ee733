"""Acceptance: from distances to weights, by a tolerance ε and a kernel K(Δ/ε) (section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import choice, non_negative_number, store_number
from fbar.errors import InputError
from fbar.question.worth import DISTANCE, Worth


@dataclass(frozen=True)
class Acceptance(Worth):
    """How a distance Δ becomes an acceptance weight a = K(Δ/ε).

    ``kernel`` is ``"uniform"`` (the indicator Δ ≤ ε; with ε = 0 exact matching), ``"epanechnikov"`` or
    ``"gaussian"``, each scaled to K(0) = 1.
    """

    tolerance: float = 0.0
    kernel: str = "uniform"

    def __post_init__(self) -> None:
        store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
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

    @property
    def needs(self) -> tuple[str, ...]:
        return (DISTANCE,)

    @property
    def noisy(self) -> bool:
        return True

    def of(self, columns: Mapping[str, npt.NDArray[Any]]) -> FloatArray:
        return accepted(self, columns[DISTANCE])


def accepted(acceptance: Acceptance, distance: FloatArray) -> FloatArray:
    """The acceptance weights, 0 where the distance is not a finite number: a failed simulation is a rejected one."""
    finite = np.isfinite(distance)
    if finite.all():
        return acceptance(distance)
    return np.where(finite, acceptance(np.where(finite, distance, 0.0)), 0.0)
