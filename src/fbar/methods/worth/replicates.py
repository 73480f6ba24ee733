"""The number R of simulations at each draw, chosen from the variance of log a.

If R simulations leave the log-variance v/R, an importance-sampling estimate from N/R draws has a variance proportional
to R e^{v/R}: log a is about normal, so E[a²]/E[a]² = e^{v/R}. It is least at R = v, where the log-variance is 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray
from fbar.methods.worth.valuation import Asked, Replicates, Valuation

LEAST_DRAWS = 60
"""Draws that what is left of a budget should suffice for: proposals are learned from them."""

MOST = 1_000_000
"""Simulations at one draw, at most."""


class ReplicatedValuation(Valuation):
    """A valuation of one wave, with the same number of simulations at each draw.

    ``given`` is the user's number; without one it is at least ``least``, and ``first`` in the first generation.
    """

    def __init__(self, given: int | None, least: int, first: int | None = None) -> None:
        self._given, self._least = given, least
        self._chosen = given or first or least

    @property
    def replicates(self) -> int:
        """R of the draws to come."""
        return self._chosen

    @property
    def most(self) -> int:
        return self._chosen

    def ask(self, wave: int, draws: int, rng: np.random.Generator) -> Asked:
        return Asked(self._chosen)

    def complete(self, waves: Sequence[Replicates]) -> BoolArray:
        return np.ones(waves[0].draws, dtype=bool)

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        if self._given is not None:
            return False
        total, start = 0.0, 0
        for waves in draws:
            (wave,) = waves
            own = weights[start : start + wave.draws]
            start += wave.draws
            variance = self.value(waves).log_variance
            known = np.isfinite(variance) & (own > 0)
            total += float((own[known] * variance[known]).sum()) * wave.each
        room = max(self._least, int(left // LEAST_DRAWS)) if left < math.inf else MOST
        chosen = min(max(self._least, math.ceil(total)), room)
        changed, self._chosen = chosen != self._chosen, chosen
        return changed

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"replicates": np.array(self._chosen, dtype=np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._chosen = int(state["replicates"])
