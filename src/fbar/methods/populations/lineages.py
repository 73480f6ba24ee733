"""Error bars of particles that depend on one another through resampling: the variance between lineages.

Particles that descend from the same first particle are alike; those of different first particles depend on one another
through the numbers of their descendants only. With E_i the first ancestor of particle i, W its weight,

    V̂ = N/(N − 1) Σ_e (Σ_{i: E_i = e} W_i ψ_i)²

is a consistent estimate of the variance of Σ W ψ as N grows (Chan & Lai 2013, Annals of Statistics 41, 2877–2904; Lee &
Whiteley 2018, Biometrika 105, 609–625, for multinomial resampling). Every resampling leaves fewer first ancestors, so
that the estimate becomes poor for many steps and few particles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED
from fbar.estimation.draws import DrawErrors

FEW_LINEAGES = 20
"""With fewer lineages, by the effective number of their weights, an error bar is unreliable."""

LINEAGE_CARRIES = 0.5
"""The share of the variance that a single lineage may contribute; the degrees of freedom account for smaller ones."""


def sums_by(group: IntArray, values: FloatArray) -> FloatArray:
    """Sums of values (n, m) over the members of each group that has any."""
    _, inverse = np.unique(group, return_inverse=True)
    found = np.zeros((int(inverse.max()) + 1, values.shape[1]))
    np.add.at(found, inverse, values)
    return found


@dataclass(frozen=True, eq=False)
class LineageErrors(DrawErrors):
    """``particle`` numbers the θ that each accepted simulation is a replica of; the draws' clusters are lineages."""

    particle: IntArray

    @property
    def ess(self) -> float:
        """(ΣW)²/ΣW² over distinct particles."""
        return float(1 / (sums_by(self.particle, self.weights[:, None]) ** 2).sum())

    @cached_property
    def lineages(self) -> float:
        """(ΣW)²/ΣW² over lineages."""
        assert self.sample.cluster is not None
        return float(1 / (sums_by(self.sample.cluster, self.weights[:, None]) ** 2).sum())

    def _doubts(self, z: FloatArray, variance: FloatArray) -> tuple[tuple[Any, str], ...]:
        assert self.sample.cluster is not None
        square = sums_by(self.sample.cluster, z) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            one = square.max(axis=0) / square.sum(axis=0)
        few = np.full(variance.shape, len(np.unique(self.particle)) < FEW_ACCEPTED)
        related = np.full(variance.shape, self.lineages < FEW_LINEAGES)
        return (
            (few, FEW_WERE_ACCEPTED),
            (
                related & ~few,
                f"the particles descend from few of the first ones (effectively {self.lineages:.1f}), so their "
                "error is hardly known; use more particles",
            ),
            (one > LINEAGE_CARRIES, f"one lineage of particles contributes over {LINEAGE_CARRIES:.0%} of the variance"),
            (
                ~(variance > 0),
                "the accepted simulations all give the same value of this target, so its error is unknown",
            ),
        )
