"""Posteriors whose weights have both signs, as from corrections of a cheap simulator by the real one.

f̂ = Σ w a f / Σ w a and its error bar are as for any other draws. What needs weights of at least 0 is defined so:

*Quantiles* are those of the weighted distribution function made monotone (`fbar.weights.monotone`).
*Values that cannot be*, such as a probability below 0, are moved to the nearest one that can, and doubted.
*Samples and pictures* are made with other weights of the same draws, which are at least 0 and have the same expectation
(``unsigned``); they are less precise. Without such weights, the negative ones count as 0.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.errors import InputError
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.targets import Target
from fbar.question.targets.quantiles import Quantile
from fbar.weights import monotone_weights

OUTSIDE = "the weights of both signs give a value that this target cannot have; raise the budget"


class SignedPosterior(Posterior):
    """Weighted draws some of whose weights are negative."""

    is_distribution = False

    def __init__(self, found: Posterior, unsigned: FloatArray | None = None) -> None:
        super().__init__(found.points, found.weights, found.errors, found.simulations, found.accepted)
        positive = np.maximum(found.weights, 0.0)
        self._unsigned = positive if unsigned is None or not unsigned.sum() > 0 else unsigned

    @property
    def pictured(self) -> Posterior:
        weights = self._unsigned / self._unsigned.sum()
        rows = np.flatnonzero(weights)
        found = Posterior(self.points.take(rows), weights[rows], None, self.simulations, self.accepted)
        found.about, found.remark = self.about, self.remark
        return found

    def _weights_for(self, target: Target) -> FloatArray:
        if isinstance(target, Quantile):
            given = target.given(self.points)
            rows = np.arange(self.points.rows) if given is None else np.flatnonzero(given)
            weights = self.weights.copy()
            total = weights[rows].sum()
            if total > 0:
                weights[rows] = total * monotone_weights(target.components(self.points)[rows, 0], weights[rows])
            return weights
        if not target.smooth:
            raise InputError(
                f"{target.name} needs a density, which weights of both signs do not give; estimate it from a sample "
                "(result.sample)"
            )
        return self.weights

    def value(self, target: Target) -> FloatArray:
        """The target's value, moved to the limits of what it can be."""
        if len(target.parts) > 1:
            return np.concatenate([self.value(part) for part in target.parts], axis=-1)
        low, high = target.limits(self.points)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.clip(super().value(target), low, high))

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        with np.errstate(invalid="ignore", divide="ignore"):
            bars = super()._error_bars(targets)
        outside = np.concatenate([self._outside(target) for target in targets])
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (outside, OUTSIDE)), bars.bias)

    def _outside(self, target: Target) -> BoolArray:
        """Which numbers had to be moved, or are not numbers."""
        with np.errstate(invalid="ignore"):
            plain = super().value(target)
        return np.asarray(self.value(target) != plain)
