"""Covariances and variances; ψ = (a − ā)(b − b̄) − C."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of, mean_of, present, restricted
from fbar.question.targets.registry import parameter, register


@dataclass(frozen=True, repr=False)
class OfTwoParameters(Target):
    """What depends on two parameters, given the models that have both."""

    first: str
    second: str
    name: str

    def components(self, points: Points) -> FloatArray:
        return np.stack([column_of(points, name, self.name) for name in (self.first, self.second)], axis=1)

    def given(self, points: Points) -> BoolArray | None:
        return present(points, (self.first, self.second))


@dataclass(frozen=True, repr=False)
class Covariance(OfTwoParameters):
    """cov(a, b | x*); ψ = (a − ā)(b − b̄) − C. The variance is the covariance of a with itself."""

    def _product(self, points: Points, centre: FloatArray) -> FloatArray:
        centred = self.components(points) - centre[..., None, :]
        return np.asarray(centred[..., 0] * centred[..., 1])

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The means, the covariance and the probability of the points it is conditional on."""
        given = self.given(points)
        centre, share = mean_of(self.components(points), weights, given)
        product = self._product(points, centre)
        if given is not None:
            product = np.where(given, product, 0.0)
        with np.errstate(invalid="ignore"):  # no point is given: the covariance is not known
            return centre, (weights * product).sum(axis=-1) / share, share

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(self._fit(points, weights)[1][..., None])

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, covariance, share = self._fit(points, weights)

        def at(where: Points) -> FloatArray:
            psi = self._product(where, centre) - covariance[..., None]
            return restricted(psi[..., None], self.given(where), share)

        return at

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0 if self.first == self.second else -math.inf), math.inf

    def limits(self, points: Points) -> tuple[float, float]:
        return self.bounds

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        """ĉov − cov = Σψ − δā δb̄ exactly, so that the errors of the two means make up the rest."""
        values, given = self.components(points), self.given(points)
        centre, share = mean_of(values, weights, given)
        return restricted(values - centre[..., None, :], given, share)


@register("NAME", "variance:beta")
def variance(name: str) -> Target:
    """Posterior variance of a parameter."""
    return Covariance(name, name, f"variance:{parameter(name)}")


@register("FIRST,SECOND", "covariance:beta,gamma")
def covariance(first: str, second: str) -> Target:
    """Posterior covariance of two parameters."""
    return Covariance(first, second, f"covariance:{parameter(first)},{parameter(second)}")
