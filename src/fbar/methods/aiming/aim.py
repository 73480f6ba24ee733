"""The targets whose error is reduced: g² = Σ_j c_j ψ_j², for one target or several.

A floor is added to g², κ² times its posterior mean, since a ratio's denominator needs draws where ψ = 0 too; it costs
about κ²/4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import non_negative_number, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets import Target

FLOOR = 0.3
"""κ."""


@dataclass(frozen=True, eq=False)
class Aim:
    """What the error is reduced of."""

    targets: tuple[Target, ...]
    goal: str
    importance: Mapping[str, float]

    @staticmethod
    def of(targets: Sequence[Target], goal: str, importance: Mapping[str, float] | None) -> Aim:
        names = [target.name for target in targets]
        for name in importance or {}:
            if name not in names:
                raise InputError(f"importance names {shown(name)}, which is not a target; targets: {', '.join(names)}")
        if importance and all(importance.get(name, 1.0) == 0 for name in names):
            raise InputError("the importance of every target is 0, so there is no error to reduce; make one positive")
        return Aim(tuple(targets), goal, dict(importance or {}))

    def g(self, points: Points, weights: FloatArray, base: FloatArray) -> FloatArray:
        """√(Σ c ψ² + floor) at weighted points; ``base`` is ω without g. Negative weights count as 0."""
        if (weights < 0).any():
            weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
        squares = []
        for target in self.targets:
            psi = np.nan_to_num(target.influence(points, weights), nan=0.0, posinf=0.0, neginf=0.0)
            variance = (weights[:, None] * psi**2).sum(axis=0)
            own = psi[:, variance > 0] ** 2 / variance[variance > 0]
            squares.append(own * self.importance.get(target.name, 1.0))
        square = np.concatenate(squares, axis=1)  # each of posterior mean 1, times its importance
        if not square.any():  # targets that do not differ yet, or do not matter
            return np.ones(points.rows)
        share = np.ones(square.shape[1])
        if self.goal == "worst":
            for _ in range(20):  # V_j ∝ Σ ω ψ_j²/√(Σ λ ψ²), the dual's fixed point
                spread = np.sqrt(square @ share + FLOOR**2 * share.sum())
                error = ((base / spread)[:, None] * square).sum(axis=0)
                share = share * error / error.max()
                share /= share.sum()
        total = square @ share
        return np.asarray(np.sqrt(total + FLOOR**2 * (weights @ total)))


def check_importance(importance: Any) -> None:
    """Refuse invalid weights."""
    if importance is None:
        return
    if not isinstance(importance, Mapping):
        raise InputError(
            f"importance must map target names to weights, such as {{'mean:a': 2}}; got {shown(importance)}"
        )
    for name, weight in importance.items():
        if not math.isfinite(non_negative_number(weight, f"the importance of {shown(name)}")):
            raise InputError(f"the importance of {shown(name)} must be finite; got {shown(weight)}")
