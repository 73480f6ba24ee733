"""The parts of a posterior at the data: the draws of one regression or of two, each with a share of the weight.

With many given summaries two regressions answer together (`fbar.estimation.at_data.averaging`). Their samples are
joined, with the weights α ω and the equivalent kernels α ℓ of shares α, Σ α = 1, and every formula for one of them is a
sum over both. A simulation that is in both contributes the sum of its z, so that the variance of the mean of two
estimates has their covariance in it. The steps have the bias of the mean (`fbar.estimation.at_data.averaging`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.choice import Step
from fbar.estimation.at_data.local import Local
from fbar.estimation.at_data.moving import Moved
from fbar.estimation.strata import Clustered
from fbar.question.points import Points
from fbar.weights import effective_size

Psi = Callable[[Points], FloatArray]
"""An influence function."""

STEP = 0.2
"""Of central differences, in units of the residuals' deviation."""

AT_ONCE = 200_000
"""Points that are looked at together."""

OWN = 2.0
"""Standard errors by which a number's own difference must exceed chance before it is its bias."""


@dataclass(frozen=True, eq=False)
class Part:
    """The draws of a step, with a share of the weight."""

    share: float
    step: Step

    @property
    def moved(self) -> Moved:
        return self.step.moved

    @property
    def weights(self) -> Local:
        return self.step.weights

    @cached_property
    def points(self) -> Points:
        return self.moved.prepared.moved_to(self.moved.rows[self.weights.at], self.moved.v[self.weights.at])

    @property
    def rows(self) -> IntArray:
        """The numbers in the run of the simulations of its region."""
        return self.moved.prepared.rows[self.moved.rows]

    def of_region(self, numbers: FloatArray) -> FloatArray:
        """Numbers of its draws for all simulations of the region, shape (n, m): 0 for those that are not draws."""
        found = np.zeros((len(self.moved), numbers.shape[1]))
        found[self.weights.at] = numbers
        return found

    def clustered(self, z: FloatArray) -> Clustered:
        structure, rows = self.moved.prepared.structure, self.moved.rows
        cluster = None if structure.cluster is None else structure.cluster[rows]
        return Clustered.of(z, structure.stratum[rows], cluster, structure.stratum_sizes)

    def contributions(
        self, weights: Local, at: IntArray, influence: FloatArray, gradient: FloatArray | None
    ) -> FloatArray:
        """z of every row of the region, shape (n, m): stage 2's, and stage 1's where there is a gradient ∂ψ/∂v.

        The influence and the gradient are those at the rows ``at`` of the region, which include those of the weights.
        """
        place = np.searchsorted(at, weights.at)
        z = np.zeros((len(self.moved), influence.shape[1]))
        z[weights.at] = weights.residuals(influence[place])
        if gradient is not None:
            z += self.moved.influence(weights.ell[:, None, None] * gradient[place], weights.at)
        return z

    def influences(self, functions: Sequence[Psi]) -> Influences:
        """Of its draws, and of those of the step that its bias is estimated from."""
        weights, finer = self.weights, self.step.finer
        at = weights.at if finer is None else np.union1d(weights.at, finer.at)
        moved = self.moved

        def psi(points: Points) -> FloatArray:
            return np.concatenate([np.atleast_2d(function(points)) for function in functions], axis=-1)

        v = moved.v[at]
        influence = psi(moved.prepared.moved_to(moved.rows[at], v))
        (n, d), size = v.shape, influence.shape[1]
        if not d or not moved.folds:
            return Influences(self, at, influence, None)
        steps = STEP * np.where(moved.spread > 0, moved.spread, 1.0)
        gradient = np.zeros((n, d, size))
        many = max(1, AT_ONCE // (2 * n))
        for first in range(0, d, many):
            some = np.arange(first, min(first + many, d))
            both = psi(moved.prepared.nudged(moved.rows[at], v, steps, some)).reshape(some.size, 2, n, size)
            gradient[:, some] = ((both[:, 0] - both[:, 1]) / (2 * steps[some, None, None])).transpose(1, 0, 2)
        return Influences(self, at, influence, gradient)


@dataclass(frozen=True, eq=False)
class Influences:
    """ψ (n, m) and ∂ψ/∂v (n, D, m) at rows ``at`` of a part's region, None where nothing was moved."""

    part: Part
    at: IntArray
    psi: FloatArray
    gradient: FloatArray | None

    @cached_property
    def of_draws(self) -> FloatArray:
        """ψ of the part's own draws."""
        return self.psi[np.searchsorted(self.at, self.part.weights.at)]

    @property
    def mean(self) -> FloatArray:
        """The part's part of the mean of ψ."""
        return self.part.share * self.part.weights.omega @ self.of_draws

    def less(self, middle: FloatArray) -> Influences:
        return Influences(self.part, self.at, self.psi - middle, self.gradient)

    @cached_property
    def z(self) -> FloatArray:
        """z of every row of the region."""
        return self.part.contributions(self.part.weights, self.at, self.psi, self.gradient)

    def bias(self) -> FloatArray:
        """The covariance of the bias: β² c² Σ ω ψ ψᵀ.

        A number whose own difference to the finer step shows more, beyond chance, has that.
        """
        step = self.part.step
        finer, weights, mine = step.finer, step.weights, self.of_draws
        pooled = step.bias * ((weights.omega[:, None] * mine).T @ mine)
        usual = np.diagonal(pooled)
        if finer is None or not weights.curvature > finer.curvature:
            return np.asarray(pooled)
        other = self.part.contributions(finer, self.at, self.psi, self.gradient)
        difference = finer.ell @ self.psi[np.searchsorted(self.at, finer.at)] - weights.ell @ mine
        chance = np.diagonal(self.part.clustered(self.z - other).covariance)
        over = weights.curvature / (weights.curvature - finer.curvature)
        own = np.maximum(difference**2 - OWN**2 * chance, 0.0) * over**2
        scale = np.sqrt(np.divide(own, usual, out=np.ones_like(own), where=usual > 0))
        scale = np.maximum(scale, 1.0)
        return np.asarray(pooled * np.outer(scale, scale) + np.diag(np.where(usual > 0, 0.0, own)))


class Parts:
    """The parts of a posterior, with their draws one after the other: ``omega`` and ``ell`` have the shares in them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.each = tuple(parts)
        self.points = Points.concatenate([part.points for part in self.each])
        self.omega = np.concatenate([part.share * part.weights.omega for part in self.each])
        self.ell = np.concatenate([part.share * part.weights.ell for part in self.each])

    @property
    def main(self) -> Part:
        """The part of the largest share."""
        return max(self.each, key=lambda part: part.share)

    def divided(self, numbers: FloatArray) -> list[FloatArray]:
        """What is of all draws, for those of each part."""
        ends = np.cumsum([part.weights.at.size for part in self.each])
        return np.split(numbers, ends[:-1])

    # ------------------------------------------------------------ by simulation

    @cached_property
    def _simulations(self) -> tuple[IntArray, list[IntArray]]:
        """The numbers in the run of all simulations, and the place among them of the rows of each part's region."""
        rows = [part.rows for part in self.each]
        every, places = np.unique(np.concatenate(rows), return_inverse=True)
        return every, np.split(places, np.cumsum([own.size for own in rows])[:-1])

    def joined(self, numbers: Sequence[FloatArray]) -> FloatArray:
        """Numbers (n, m) of each part's region, times the shares, added up where a simulation is in several regions.

        Of a single part in the order of its region, of several in that of the run.
        """
        if len(self.each) == 1:
            return numbers[0]
        every, places = self._simulations
        found = np.zeros((every.size, numbers[0].shape[1]))
        for part, place, own in zip(self.each, places, numbers, strict=True):
            found[place] += part.share * own
        return found

    def clustered(self, z: FloatArray) -> Clustered:
        """Of z of the simulations, as they were joined."""
        if len(self.each) == 1:
            return self.main.clustered(z)
        every, places = self._simulations
        stratum, cluster = np.empty(every.size, dtype=np.int64), np.empty(every.size, dtype=np.int64)
        structures = [part.moved.prepared.structure.take(part.moved.rows) for part in self.each]
        clusters = [structure.cluster for structure in structures]
        for structure, place in zip(structures, places, strict=True):
            stratum[place] = structure.stratum
            if structure.cluster is not None:
                cluster[place] = structure.cluster
        return Clustered.of(z, stratum, None if clusters[0] is None else cluster, structures[0].stratum_sizes)

    def residuals(self, psi: FloatArray) -> FloatArray:
        """z of stage 2 of the simulations, joined, for numbers whose ψ at all draws are given."""
        own = zip(self.each, self.divided(psi), strict=True)
        return self.joined([part.of_region(part.weights.residuals(mine)) for part, mine in own])

    def of_draws(self, z: FloatArray) -> FloatArray:
        """z of the simulations, as they were joined, for each draw; of two draws from one the first has it."""
        if len(self.each) == 1:
            return z[self.main.weights.at]
        left, found = z.copy(), []
        for part, place in zip(self.each, self._simulations[1], strict=True):
            own = place[part.weights.at]
            found.append(left[own])
            left[own] = 0.0
        return np.concatenate(found)

    @cached_property
    def _near(self) -> tuple[IntArray, FloatArray]:
        """`first`, and the weights of the simulations."""
        rows = np.concatenate([part.rows[part.weights.at] for part in self.each])
        _, first, place = np.unique(rows, return_index=True, return_inverse=True)
        return np.asarray(first, dtype=np.int64), np.asarray(np.bincount(place, self.omega), dtype=np.float64)

    @property
    def first(self) -> IntArray:
        """The first draw from each of their simulations, in the order of the run. Of one part that is every draw."""
        return self._near[0]

    def as_simulated(self) -> tuple[Points, FloatArray]:
        """θ of these simulations, before they were moved, in the order of the run, and their weights."""
        points = [part.moved.prepared.points.take(part.moved.rows[part.weights.at]) for part in self.each]
        first, weights = self._near
        return Points.concatenate(points).take(first), weights

    @cached_property
    def ess(self) -> float:
        """1/Σℓ²: how many equally weighted draws would be as good."""
        if len(self.each) == 1:
            return self.main.weights.ess
        ell = self.joined([part.of_region(part.weights.ell[:, None]) for part in self.each])
        return float(1 / (ell**2).sum())

    @cached_property
    def most_freedom(self) -> float:
        """Effective simulations less the columns of the regression: degrees of freedom at most."""
        columns = max(part.weights.x.shape[1] for part in self.each)
        return float(effective_size(self._near[1]) - columns)
