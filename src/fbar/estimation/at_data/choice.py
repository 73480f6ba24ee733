"""Which region, order and bandwidth have the least total error, and how much of it is bias.

A *ladder* is a region with its regression (``Moved``) and weights at the data for bandwidths that are halved in share
from step to step (``Local``). The bias of a step is proportional to its curvature c, the mean squared distance of its
simulations. So the difference of the estimates at two steps, over the difference of their c, estimates β, the bias per
unit of c:

    b̂ = (f̂_h − f̂_g)/(c_h − c_g),    f̂_h has the bias β c_h.

For one number b̂ is mostly noise in more than a few dimensions, and a bias that cannot be measured is not zero. But what
makes it, a regression that bends, is common to all questions. So β² is pooled, in units of posterior deviations, over
the first two moments of all coordinates of θ (and the probabilities of models): the mean of b̂² less the variance of b̂,
which the influence values give, weighted by precision; if that is negative, 0; plus two of its own standard errors,
since it must not be taken for known. For a regression of order 1, the local linear estimate is compared with the local
quadratic one over the same simulations instead, whose difference is β c itself: with less noise where dimensions are
many. What learned summaries may have lost is added.

The *assumption*: over problems and questions the bias of a number is like a draw of this size, and the curvature at s*
is not much larger than between the steps. The total error is V + β² c² d², d the posterior deviation of the number.

Order, region and step are chosen by the mean of V/d² + β² c² over those moments: once for all questions, so that
answers agree with one another, and one later question does not change another's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.at_data.local import Local, local
from fbar.estimation.at_data.moving import Moved, move
from fbar.estimation.at_data.prepared import Prepared

SHARES = (0.8, 0.4, 0.2, 0.1, 0.05)
"""Regions: the nearest shares of the simulations."""

ORDERS = (1, 2)

STEPS = 6
"""Bandwidths of a region, each of half the share of the one before."""

APART = 2
"""A step's bias is estimated from its difference to the one this many steps below, or the last."""

CHANCE = 2.0
"""Standard errors of the pooled β² that are added to it."""

UNIT = 1e-9
"""A number of smaller deviation than this, in units of the coordinate's, is taken for constant."""


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of a step that bias and error are pooled over: values, deviations and influence values (n, m)."""

    value: FloatArray
    deviation: FloatArray
    z: FloatArray

    @cached_property
    def mean_variance(self) -> float:
        """The mean of Σz² in posterior variances."""
        varies = self.deviation > UNIT
        variance = (self.z[:, varies] ** 2).sum(axis=0)
        return float((variance / self.deviation[varies] ** 2).mean()) if varies.any() else 0.0


@dataclass(frozen=True, eq=False)
class Step:
    """A bandwidth of a region. ``bias`` is the pooled β² c², and ``error`` the mean total error, both in units of
    posterior variances; ``finer`` the step that it was compared with.
    """

    moved: Moved
    weights: Local
    share: float
    variance: float
    bias: float
    finer: Local | None

    @property
    def error(self) -> float:
        return self.variance + self.bias


def moments(moved: Moved, weights: Local, centre: FloatArray) -> Moments:
    """Of the coordinates' first two moments about ``centre`` and the models' probabilities."""
    prepared, at = moved.prepared, moved.rows[weights.at]
    unit = np.where(moved.spread > 0, moved.spread, 1.0)
    c = (moved.v[weights.at] - centre) / unit
    fixed, region = prepared.fixed[at], prepared.fixed[moved.rows]
    if fixed.size:
        fixed = (fixed - region.mean(axis=0)) / np.maximum(region.std(axis=0), 1e-300)
    gradient = np.concatenate([np.broadcast_to(1 / unit, c.shape), 2 * c / unit], axis=1)
    models = prepared.model[at][:, None] == np.unique(prepared.model) if prepared.model.max() > 0 else fixed[:, :0]
    f = np.concatenate([c, c**2, fixed, fixed**2, models], axis=1)
    middle = weights.omega @ f
    psi = f - middle
    z = np.zeros((len(moved), psi.shape[1]))
    z[weights.at] = weights.residuals(psi)
    if gradient.size:
        z[:, : gradient.shape[1]] += moved.influence(weights.ell[:, None] * gradient, weights.at)
    deviation = np.sqrt(weights.omega @ psi**2)
    return Moments(middle + weights.correction(psi), deviation, z)


class _Ladder:
    """The weights of a region for several bandwidths, and their moments once they are asked for."""

    def __init__(self, moved: Moved, shares: Sequence[float]) -> None:
        self.moved, self.shares = moved, shares
        self.weights: list[Local] = []
        for share in shares:
            weights = local(moved, share)
            if weights is None:
                break
            self.weights.append(weights)
        self._known: dict[int, Moments] = {}

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def centre(self) -> FloatArray:
        """The mean of the finest step: second moments about it are variances; about one far away, the mean again."""
        finest = self.weights[-1]
        return np.asarray(finest.omega @ self.moved.v[finest.at])

    def moments(self, j: int) -> Moments:
        if j not in self._known:
            self._known[j] = moments(self.moved, self.weights[j], self.centre)
        return self._known[j]

    def step(self, j: int) -> Step:
        """A step with its error."""
        moved, weights, loss = self.moved, self.weights[j], self.moved.prepared.loss
        variance, last = self.moments(j).mean_variance, len(self) - 1
        finer = self.weights[min(j + APART, last)] if j < last else None
        bias = self._bias(j) if weights.curvature > 0 else 0.0  # 0 where all of it is at the data themselves
        return Step(moved, weights, self.shares[j], variance, bias + loss, finer)

    def _bias(self, j: int) -> float:
        """β² c² of a step; infinite where there is nothing to compare it with."""
        curved = local(self.moved, self.shares[j], 2) if self.moved.order == 1 else None
        if curved is not None:
            return pooled(self.moments(j), moments(self.moved, curved, self.centre))
        wide = min(j, len(self) - 2)
        if wide < 0:
            return math.inf
        near = min(wide + APART, len(self) - 1)
        apart = self.weights[wide].curvature - self.weights[near].curvature
        if not apart > 0:
            return math.inf
        return pooled(self.moments(wide), self.moments(near)) * (self.weights[j].curvature / apart) ** 2


def ladder(moved: Moved, shares: Sequence[float]) -> list[Step]:
    """The steps of a region, with their errors."""
    steps = _Ladder(moved, shares)
    return [steps.step(j) for j in range(len(steps))]


def pooled(first: Moments, other: Moments) -> float:
    """The mean squared difference of two estimates beyond chance, with a standard error; in posterior variances."""
    varies = first.deviation > UNIT
    if not varies.any():
        return 0.0
    unit = first.deviation[varies]
    square = ((first.value - other.value)[varies] / unit) ** 2
    variance = ((first.z - other.z)[:, varies] ** 2).sum(axis=0) / unit**2
    weight = 1 / np.maximum(variance, 0.1 * np.median(variance) + 1e-12)
    weight /= weight.sum()
    beyond = max(float(weight @ (square - variance)), 0.0)
    chance = math.sqrt(2 * float(weight**2 @ (variance + beyond) ** 2))
    return beyond + CHANCE * chance


def choose(
    prepared: Prepared, shares: Sequence[float], orders: Sequence[int], steps: Sequence[float], *, first: bool = False
) -> Step | None:
    """The step of least total error, or of ``first`` steps only; None where there are too few simulations for any.

    The bias of a step whose variance by itself is larger than the least total error so far is not estimated.
    """
    best: Step | None = None
    for order in orders:
        for share in shares:
            moved = move(prepared, share, order)
            if moved is None:
                continue
            made = _Ladder(moved, steps)
            for j in range(len(made))[: 1 if first else None]:
                if best is not None and made.moments(j).mean_variance >= best.error:
                    continue
                step = made.step(j)
                if math.isfinite(step.error) and (best is None or step.error < best.error):
                    best = step
    return best
