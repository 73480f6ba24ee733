"""The tolerance of chains in their burn-in: that at which a wanted share of the proposals is accepted.

A proposal θ′ with distance Δ′ is accepted at tolerance δ with the probability α(δ) = 1(Δ′ ≤ δ) min(1, p′/p). Vihola &
Franks (2020) move log δ by a small step towards the wanted mean of α after every proposal of their one chain. The
chains here share one δ, so every round has many proposals: δ is the weighted quantile of the recent Δ′ at which the
mean of α is what is wanted, and half of the way there is gone at each round. Either rule ends where E[α(δ)] is the
wanted rate.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fbar.arrays import FloatArray

RECENT = 200
"""Proposals that the tolerance is taken from, at least, where there are so many."""

RECENT_ROUNDS = 10
"""Rounds that it is taken from, at least."""


class FallingTolerance:
    """``tolerance`` falls (or rises) towards the one that accepts ``rate`` of the proposals; never below ``least``."""

    def __init__(self, first: float, least: float, rate: float) -> None:
        self.tolerance = max(first, least)
        self._least, self._rate = least, rate
        self._recent: deque[tuple[FloatArray, FloatArray]] = deque()

    def add(self, distance: FloatArray, log_ratio: FloatArray) -> None:
        """Take in the proposals of a round: their distances, NaN where they failed, and log p′/p."""
        self._recent.append((distance, np.exp(np.minimum(log_ratio, 0.0))))

    def move(self) -> None:
        """Go half of the way to the tolerance that the recent proposals ask for."""
        rounds = max(RECENT_ROUNDS, -(-RECENT // max(self._recent[-1][0].size, 1)))
        wanted = self._wanted(rounds)
        self.tolerance = max(wanted if wanted == 0 else (self.tolerance + wanted) / 2, self._least)

    def settle(self) -> None:
        """Take what the second half of all proposals asks for."""
        self.tolerance = max(self._wanted(-(-len(self._recent) // 2)), self._least)

    def _wanted(self, rounds: int) -> float:
        recent = list(self._recent)[-rounds:]
        distance, chance = (np.concatenate(parts) for parts in zip(*recent, strict=True))
        finite = np.isfinite(distance)
        order = np.argsort(distance[finite], kind="stable")
        near, reached = distance[finite][order], np.cumsum(chance[finite][order])
        if not near.size:
            return self.tolerance
        at = int(np.searchsorted(reached, self._rate * distance.size))
        return float(near[min(at, near.size - 1)])
