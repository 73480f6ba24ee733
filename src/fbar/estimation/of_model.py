"""The posterior within one model of a model choice, p(θ | x*, model), as a posterior that can be drawn from.

At the data it is the regression on that model's simulations only, which also gives the estimates within the model.
Otherwise it is the model's points with their weights, whose estimates are those of targets within the model
(`fbar.question.targets.conditions`): the draws of the other models carry none of their error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np

from fbar.errors import NoPosterior
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.cells import Cells
from fbar.estimation.estimate import Estimate, Estimates
from fbar.estimation.posterior import Posterior
from fbar.question.targets import OneModel, SeveralTargets, Target, as_targets, within
from fbar.weights import effective_size


class PointsOfModel(Posterior):
    """The points of one model, and the estimates that the whole posterior gives within it."""

    def __init__(self, whole: Posterior, model: OneModel) -> None:
        self._whole, self._model = whole, model
        rows = np.flatnonzero(model.mask(whole.points))
        share = whole.weights[rows].sum()
        if not share > 0:
            raise NoPosterior(f"no simulation of {model.column} {model.label} contributes to the answer")
        super().__init__(whole.points.take(rows), whole.weights[rows] / share, None, whole.simulations, whole.accepted)
        self.about, self.doubts, self.remark = whole.about, whole.doubts, whole.remark

    @property
    def has_errors(self) -> bool:
        return self._whole.has_errors

    @property
    def ess(self) -> Any:
        return effective_size(self.weights)

    @property
    def cells(self) -> Cells | None:
        return self._whole.cells

    @overload
    def expect(self, targets: Target | str) -> Estimate: ...
    @overload
    def expect(self, targets: SeveralTargets) -> Estimates: ...
    def expect(self, targets: Target | str | SeveralTargets) -> Estimate | Estimates:
        """The estimates of targets within the model."""
        listed = as_targets(targets)
        found = self._whole.expect([within(target, self._model) for target in listed])
        named = [replace(item, name=target.name) for item, target in zip(found, listed, strict=True)]
        return named[0] if isinstance(targets, Target | str) else Estimates(named, found.covariance, found.slices)


def of_one_model(posterior: Posterior, model: OneModel) -> Posterior:
    """The posterior within one model."""
    if isinstance(posterior, PosteriorAtData):
        prepared = posterior.step.moved.prepared
        numbers = np.unique(prepared.model[model.mask(prepared.points)])
        if numbers.size == 1 and prepared.model.max() > 0:
            try:
                return posterior.within(numbers.tolist())
            except NoPosterior:  # too few simulations of the model for a regression on them
                pass
    return PointsOfModel(posterior, model)
