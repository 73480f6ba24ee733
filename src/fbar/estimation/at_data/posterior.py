"""The posterior at the data: a weighted sample whose expectations are estimates of E[f | s*], with their total error.

The error of an estimate is Σ z + bias. z of stage 2 is the residual of ψ in the local linear regression, z of stage 1
what the regressions that moved the draws add (`Moved.influence`, with ∂ψ/∂v by central differences: exact for moments,
and for probabilities and quantiles, whose ψ have jumps, a kernel estimate of the density there). The variance of Σ z
is taken between clusters within strata, as for any other draws. The bias is like one draw of covariance
β² c² Σ ω ψ ψᵀ (`fbar.estimation.at_data.choice`), so that it cancels where questions do: in the sum of a probability
and its complement. A number whose own difference between the two steps is larger than that has the larger one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.at_data.choice import STEPS, Step, ladder
from fbar.estimation.at_data.local import Local
from fbar.estimation.doubts import ONE_CARRIES
from fbar.estimation.estimate import ErrorBars, Estimates
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.question.points import Points
from fbar.question.targets import Target, as_targets
from fbar.question.targets.quantiles import Inverted

STEP = 0.2
"""Of central differences, in units of the residuals' deviation."""

AT_ONCE = 200_000
"""Points that are looked at together."""

FEW = 20
"""Effective simulations at the data, without which no error bar is reliable."""

TOO_FAR = 1.0
"""A total error of so many posterior deviations says that the simulations do not reach the data."""

OWN = 2.0
"""Standard errors by which a number's own difference must exceed chance before it is its bias."""


class _AtDataErrors(ErrorModel):
    """What is known of the sample itself; error bars are the posterior's."""

    def __init__(self, weights: Local) -> None:
        self._weights = weights

    @property
    def ess(self) -> float:
        return self._weights.ess

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        """Of stage 2 alone, for numbers whose points are not moved."""
        z = self._weights.residuals(influence)
        return ErrorBars(z.T @ z, np.full(influence.shape[-1], self.ess))


class PosteriorAtData(Posterior):
    """Weighted draws at the data, from all simulations of a run.

    ``step`` has the region, the order of the regression and the bandwidth that were chosen.
    """

    parts_in_words = "simulations near the data"

    def __init__(self, step: Step) -> None:
        self.step = step
        moved, weights = step.moved, step.weights
        prepared = moved.prepared
        self._v = moved.v[weights.at]
        self._rows = moved.rows[weights.at]
        super().__init__(
            self._points_at(self._v),
            weights.omega,
            _AtDataErrors(weights),
            prepared.simulations,
            float(weights.at.size),
        )
        self.about = prepared.problem.posterior_in_words
        self.doubts = self._found_doubts()

    def in_words(self) -> str:
        return (
            f"{self.points.rows:,} weighted points at the data, from {int(self.simulations):,} simulations, effective "
            f"sample size {self.ess:,.6g}"
        )

    def curve(self, targets: Target | Sequence[Target]) -> list[tuple[float, Estimates]]:
        """The estimates against the bandwidth: pairs of the share of the simulations within it, and `Estimates`.

        The region and the order of the regression are those that were chosen; bandwidths are halved in share.
        """
        listed, moved = list(as_targets(targets)), self.step.moved
        shares = sorted({self.step.share, *(0.5**k for k in range(STEPS))}, reverse=True)
        steps = [step for step in ladder(moved, shares) if math.isfinite(step.error)]
        return [(step.weights.at.size / self.simulations, PosteriorAtData(step).expect(listed)) for step in steps]

    def as_simulated(self) -> tuple[Points, FloatArray]:
        """θ of the simulations that it uses, before they were moved, in the order of the run, and their weights."""
        prepared = self.step.moved.prepared
        order = np.argsort(prepared.rows[self._rows], kind="stable")
        return prepared.points.take(self._rows[order]), self.weights[order]

    @property
    def bandwidth(self) -> float:
        """The share of the simulations that is within the bandwidth."""
        return self.step.weights.at.size / float(self.simulations)

    def _points_at(self, v: FloatArray) -> Points:
        times = len(v) // self._rows.size
        return self.step.moved.prepared.moved_to(np.tile(self._rows, times), v)

    def _found_doubts(self) -> tuple[str, ...]:
        found = []
        if self.ess < FEW:
            found.append(f"the estimate rests on {self.ess:.0f} effective simulations near the data")
        if self.step.error > TOO_FAR**2:
            found.append("the simulations do not come near enough to the data; the error may be as large as the spread")
        return tuple(found)

    def value(self, target: Target) -> FloatArray:
        """The target's value in the sample, and what the local linear regression adds to it."""
        plain = super().value(target)
        psi = target.influence(self.points, self.weights)
        return np.asarray(plain + self.step.weights.correction(psi))

    # ------------------------------------------------------------ error bars

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        psi = [target.influence(self.points, self.weights) for target in targets]
        inner = [target.inner(self.points, self.weights) for target in targets]
        sizes = [part.shape[-1] for part in psi]
        influence = np.concatenate(psi, axis=-1)
        influence = influence - self.weights @ influence
        z = self._contributions(targets, influence)
        covariance = self._covariance(z)
        variance = np.diagonal(covariance).copy()
        spread = (self.weights[:, None] * influence).T @ influence
        bias = self.step.bias * spread
        own = self._own_bias(targets, influence, z, bias)
        scale = np.sqrt(np.divide(own, np.diagonal(bias), out=np.ones_like(own), where=np.diagonal(bias) > 0))
        bias = bias * np.outer(scale, scale)
        place = 0
        for size, part in zip(sizes, inner, strict=True):
            if part is not None:  # the product of two errors, where the first order vanishes
                v = self._covariance(self.step.weights.residuals(part))
                covariance[place, place] += v[0, 0] * v[1, 1] + v[0, 1] ** 2
            place += size
        total = covariance + bias
        df = self._freedom(z, variance, np.diagonal(bias))
        carries = (z**2).max(axis=0) > ONE_CARRIES * np.maximum(variance, 1e-300)
        text = f"one simulation contributes more than {ONE_CARRIES:.0%} of the variance"
        left = np.sqrt(np.maximum(np.diagonal(bias), 0.0))
        return ErrorBars(total, df, ((carries & (variance > 0), text),), left)

    def _contributions(self, targets: tuple[Target, ...], influence: FloatArray) -> FloatArray:
        """z of every row of the region, shape (n, m)."""
        moved, weights = self.step.moved, self.step.weights
        z = np.zeros((len(moved), influence.shape[1]))
        z[weights.at] = weights.residuals(influence)
        if self._v.shape[1] and moved.folds:
            gradient = self._gradient(targets, influence.shape[1])
            z += moved.influence(weights.ell[:, None, None] * gradient, weights.at)
        return z

    def _gradient(self, targets: tuple[Target, ...], size: int) -> FloatArray:
        """∂ψ/∂v at the points, shape (n, D, m)."""
        n, d = self._v.shape
        steps = STEP * np.where(self.step.moved.spread > 0, self.step.moved.spread, 1.0)
        functions = [target.psi(self.points, self.weights) for target in targets]
        result = np.zeros((n, d, size))
        many = max(1, AT_ONCE // (2 * n))
        for first in range(0, d, many):
            some = np.arange(first, min(first + many, d))
            moves = np.eye(d)[some] * steps
            points = self._points_at(np.concatenate([self._v + sign * move for move in moves for sign in (1, -1)]))
            values = np.concatenate([np.atleast_2d(function(points)) for function in functions], axis=-1)
            both = values.reshape(some.size, 2, n, size)
            result[:, some] = ((both[:, 0] - both[:, 1]) / (2 * steps[some, None, None])).transpose(1, 0, 2)
        return result

    def _covariance(self, z: FloatArray) -> FloatArray:
        """Of Σ z: between clusters within strata."""
        prepared, rows = self.step.moved.prepared, self.step.moved.rows
        if prepared.cluster is None or prepared.stratum is None or len(z) != rows.size:
            return np.asarray(z.T @ z)
        clusters, index = np.unique(prepared.cluster[rows], return_inverse=True)
        sums = np.zeros((clusters.size, z.shape[1]))
        np.add.at(sums, index, z)
        return np.asarray(sums.T @ sums)

    def _own_bias(
        self, targets: tuple[Target, ...], influence: FloatArray, z: FloatArray, pooled: FloatArray
    ) -> FloatArray:
        """β² c² d² of each number, or what its own difference to the finer step shows beyond chance if that is more."""
        usual = np.diagonal(pooled).copy()
        finer, weights = self.step.finer, self.step.weights
        if finer is None:
            return usual
        place = np.full(len(self.step.moved), -1)
        place[weights.at] = np.arange(weights.at.size)
        at = place[finer.at]
        if (at < 0).any():
            return usual
        other = np.zeros_like(z)
        other[finer.at] = finer.residuals(influence[at])
        own = np.zeros_like(z)
        own[weights.at] = weights.residuals(influence)
        difference = finer.ell @ influence[at] - weights.ell @ influence
        chance = ((own - other) ** 2).sum(axis=0)
        apart = weights.curvature - finer.curvature
        if not apart > 0:
            return usual
        beyond = np.maximum(difference**2 - OWN**2 * chance, 0.0) * (weights.curvature / apart) ** 2
        return np.asarray(np.maximum(usual, beyond))

    def _freedom(self, z: FloatArray, variance: FloatArray, bias: FloatArray) -> FloatArray:
        """Satterthwaite's, with the effective number of influence values for the variance."""
        fourth = np.maximum((z**4).sum(axis=0), 1e-300)
        own = np.maximum((z**2).sum(axis=0) ** 2 / fourth, 1.0)
        total = variance + bias
        known = np.divide(total**2 * own, variance**2, out=np.full_like(own, math.inf), where=variance > 0)
        return np.asarray(np.minimum(known, 1e6))

    def _inverted(self, target: Target, bars: ErrorBars, place: int) -> Inverted | None:
        """The distribution function of the sample, moved to where the regression puts the quantile."""
        found = super()._inverted(target, bars, place)
        if found is None:
            return None
        shift = float(self.value(target)[0]) - found.value
        return replace(found, x=found.x + shift, value=found.value + shift)

    def contributions(self, target: Target) -> FloatArray | None:
        """z of the points, shape (n, m): stage 2's and, for these points, stage 1's."""
        influence = target.influence(self.points, self.weights)
        return self._contributions((target,), influence - self.weights @ influence)[self.step.weights.at]
