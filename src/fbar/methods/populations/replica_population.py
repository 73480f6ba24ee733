"""N particles, each with M replicas: how their tolerance falls (Del Moral, Doucet & Jasra 2012).

With n_i(ε) the number of particle i's replicas within ε, the weights at a lower tolerance ε' are
W'_i ∝ W_i n_i(ε')/n_i(ε). ε' is chosen so that the effective sample size of W' is α times that of W.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.weights import effective_size, systematic

ROUNDING = 1e-9
"""By how much an effective sample size may miss the one that is kept: that of equal weights is a whole number."""


@dataclass(frozen=True, eq=False)
class ReplicaPopulation:
    """Particles at a tolerance.

    ``at`` has the number of each particle's θ among all that were simulated, ``distance`` (N, M) the distances of its
    replicas, NaN or ∞ for one that never counts; ``weights`` are normalised.
    """

    at: IntArray
    distance: FloatArray
    weights: FloatArray
    tolerance: float

    @staticmethod
    def of(at: IntArray, distance: FloatArray, tolerance: float) -> ReplicaPopulation:
        """Draws from the prior, weighted by their replicas within the tolerance."""
        count = within(distance, tolerance).astype(np.float64)
        total = count.sum()
        return ReplicaPopulation(at, distance, count / total if total else count, tolerance)

    @property
    def size(self) -> int:
        return self.at.size

    @property
    def alive(self) -> IntArray:
        """The particles that have a weight."""
        return np.flatnonzero(self.weights > 0)

    @property
    def ess(self) -> float:
        return effective_size(self.weights)

    def next_tolerance(self, survival: float, lowest: float) -> float | None:
        """The tolerance that keeps a share of the effective sample size, not below ``lowest``; None if none is lower.

        It is one of the replicas' distances, found by bisection. Where these are often equal, the next lower one.
        """
        alive = self.alive
        distance, w = self.distance[alive], self.weights[alive]
        before = within(distance, self.tolerance)
        candidates = np.unique(distance[np.isfinite(distance) & (distance <= self.tolerance)])
        target = survival * self.ess * (1 - ROUNDING)
        low, high = 0, candidates.size - 1
        while low < high:
            middle = (low + high) // 2
            if _size(w * within(distance, candidates[middle]) / before) >= target:
                high = middle
            else:
                low = middle + 1
        found = float(candidates[low])
        if found >= self.tolerance:
            lower = candidates[candidates < self.tolerance]
            if not lower.size:
                return lowest if lowest < self.tolerance and found <= lowest else None
            found = float(lower[-1])
        found = max(found, lowest)
        return found if found < self.tolerance else None

    def lowered(self, tolerance: float) -> ReplicaPopulation:
        """The same particles at a lower tolerance."""
        alive, weights = self.alive, np.zeros(self.size)
        distance = self.distance[alive]
        ratio = within(distance, tolerance) / within(distance, self.tolerance)
        weights[alive] = self.weights[alive] * ratio
        return replace(self, weights=weights / weights.sum(), tolerance=tolerance)

    def resampled(self, rng: np.random.Generator) -> ReplicaPopulation:
        """As many particles of equal weights, by systematic resampling."""
        rows = systematic(self.weights, self.size, rng)
        return replace(self, at=self.at[rows], distance=self.distance[rows], weights=np.full(self.size, 1 / self.size))

    def moved(self, particles: IntArray, at: IntArray, distance: FloatArray) -> ReplicaPopulation:
        """With some particles at other θ."""
        new_at, new_distance = self.at.copy(), self.distance.copy()
        new_at[particles], new_distance[particles] = at, distance
        return replace(self, at=new_at, distance=new_distance)


def within(distance: FloatArray, tolerance: float) -> IntArray:
    """How many replicas of each particle are within a tolerance."""
    return np.asarray((np.isfinite(distance) & (distance <= tolerance)).sum(axis=1))


def _size(weights: FloatArray) -> float:
    return effective_size(weights) if weights.any() else 0.0
