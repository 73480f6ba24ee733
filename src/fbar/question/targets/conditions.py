"""Targets within one model of a model choice: T of p(θ | x*, model).

For a target T with the influence function ψ of the distribution within the model, the conditional target has
1{model} ψ / P(model): the draws of the other models carry none of its error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.question.points import Points
from fbar.question.targets.base import Target
from fbar.question.targets.expectations import is_model
from fbar.question.targets.limits import Limits


@dataclass(frozen=True)
class OneModel:
    """One model among those of a model choice: the rows whose ``column`` has the ``label``."""

    column: str
    label: Any

    def mask(self, points: Points) -> BoolArray:
        return is_model(points[self.column], self.label)

    def named(self, name: str) -> str:
        """The name of a target within the model."""
        return f"{name} | {self.label}"

    def among(self, points: Points, given: BoolArray | None) -> BoolArray:
        """The rows of the model that a target is conditional on already."""
        mask = self.mask(points)
        return mask if given is None else mask & given


@dataclass(frozen=True, repr=False)
class Within(Target):
    """Any target, within one model."""

    target: Target
    model: OneModel
    name: str
    note: str = ""

    def components(self, points: Points) -> FloatArray:
        values = self.target.components(points)
        return np.where(self.model.mask(points)[:, None], values, 0.0)

    def given(self, points: Points) -> BoolArray:
        return self.model.among(points, self.target.given(points))

    def _inside(self, points: Points, weights: FloatArray) -> tuple[Points, FloatArray, FloatArray]:
        """The model's points, their normalised weights and its probability."""
        rows = np.flatnonzero(self.model.mask(points))
        own = weights[..., rows]
        share = own.sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return points.take(rows), own / share[..., None], share

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        inside, own, _ = self._inside(points, weights)
        return self.target.value(inside, own)

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        inside, own, share = self._inside(points, weights)
        psi, size = self.target.psi(inside, own), self.target.value(inside, own).shape[-1]

        def at(where: Points) -> FloatArray:
            rows = np.flatnonzero(self.model.mask(where))
            found = np.zeros((*weights.shape[:-1], where.rows, size))
            if rows.size:
                found[..., rows, :] = psi(where.take(rows)) / share[..., None, None]
            return found

        return at

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        inside, own, share = self._inside(points, weights)
        inner = self.target.inner(inside, own)
        if inner is None:
            return None
        found = np.zeros((*weights.shape[:-1], points.rows, inner.shape[-1]))
        found[..., self.model.mask(points), :] = inner / share[..., None, None]
        return found

    @property
    def bounds(self) -> tuple[float, float]:
        return self.target.bounds

    def limits(self, points: Points) -> tuple[FloatArray | float, FloatArray | float]:
        return self.target.limits(points.take(np.flatnonzero(self.model.mask(points))))

    def doubts(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        return self.target.doubts(*self._inside(points, weights)[:2])

    def remarks(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        return self.target.remarks(*self._inside(points, weights)[:2])

    def confidence_limits(self, value: float, standard_error: float, df: float) -> Limits | None:
        return self.target.confidence_limits(value, standard_error, df)

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.target.labels

    @property
    def scalar(self) -> bool:
        return self.target.scalar

    @property
    def binary(self) -> bool:
        return self.target.binary

    @property
    def smooth(self) -> bool:
        return self.target.smooth


def within(target: Target, model: OneModel) -> Target:
    """A target of p(θ | x*, model)."""
    found = target.within(model)
    return Within(target, model, model.named(target.name), target.note) if found is None else found
