"""Standard deviations and correlations: what a covariance is in the units of its parameters.

With σ² = V the standard deviation has ψ = ψ_V / 2σ. With ã = (a − ā)/σ_a and b̃ alike, the correlation r = E[ã b̃] has
ψ = ã b̃ − r (ã² + b̃²)/2: the product's own influence, less what the two deviations take with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of, mean_of, present, restricted
from fbar.question.targets.covariances import Covariance, OfTwoParameters
from fbar.question.targets.limits import CorrelationLimits
from fbar.question.targets.registry import parameter, register


@dataclass(frozen=True, repr=False)
class Deviation(Target):
    """σ, the posterior standard deviation of a parameter; ψ = ((θ − μ)² − σ²)/2σ."""

    parameter: str
    name: str

    @property
    def _variance(self) -> Covariance:
        return Covariance(self.parameter, self.parameter, self.name)

    def components(self, points: Points) -> FloatArray:
        return column_of(points, self.parameter, self.name)[:, None]

    def given(self, points: Points) -> BoolArray | None:
        return present(points, (self.parameter,))

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(self._variance.value(points, weights), 0.0)))

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        deviation, of_variance = self.value(points, weights), self._variance.psi(points, weights)
        factor = _inverse(2 * deviation)[..., None, :]
        return lambda where: np.asarray(of_variance(where) * factor)

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, math.inf

    def limits(self, points: Points) -> tuple[float, float]:
        return self.bounds

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        """As for the variance, where the error of the mean enters as −δμ²/2σ."""
        inner = self._variance.inner(points, weights)
        scale = np.sqrt(_inverse(2 * self.value(points, weights)))
        return None if inner is None else np.asarray(inner * scale[..., None, :])


@dataclass(frozen=True, repr=False)
class Correlation(OfTwoParameters):
    """The posterior correlation r of two parameters; ψ = ã b̃ − r (ã² + b̃²)/2."""

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return self._fit(points, weights)[0]

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """r (..., 1), the means and deviations (..., 2), and the probability of the points it is conditional on."""
        given = self.given(points)
        values = self.components(points)
        centre, share = mean_of(values, weights, given)
        away = values - centre[..., None, :]
        if given is not None:
            away = np.where(given[:, None], away, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):  # no point is given: nothing is known
            variance = (weights[..., None] * away**2).sum(axis=-2) / share[..., None]
            product = (weights * away[..., 0] * away[..., 1]).sum(axis=-1) / share
        deviation = np.sqrt(np.maximum(variance, 0.0))
        r = product * _inverse(deviation[..., 0]) * _inverse(deviation[..., 1])
        return np.clip(r, -1.0, 1.0)[..., None], centre, deviation, share

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        r, centre, deviation, share = self._fit(points, weights)

        def at(where: Points) -> FloatArray:
            unit = (self.components(where) - centre[..., None, :]) * _inverse(deviation)[..., None, :]
            psi = unit[..., 0] * unit[..., 1] - r * (unit**2).sum(axis=-1) / 2
            return restricted(psi[..., None], self.given(where), share)

        return at

    @property
    def bounds(self) -> tuple[float, float]:
        return -1.0, 1.0

    def limits(self, points: Points) -> tuple[float, float]:
        return self.bounds

    def confidence_limits(self, value: float, standard_error: float, df: float) -> CorrelationLimits:
        return CorrelationLimits(value, standard_error, df)


def _inverse(values: FloatArray) -> FloatArray:
    """1/values, and 0 where they are 0: what does not vary has no influence."""
    return np.asarray(np.divide(1.0, values, out=np.zeros_like(values), where=values != 0))


@register("NAME", "sd:beta")
def sd(name: str) -> Target:
    """Posterior standard deviation of a parameter."""
    return Deviation(parameter(name), f"sd:{name}")


@register("FIRST,SECOND", "correlation:beta,gamma")
def correlation(first: str, second: str) -> Target:
    """Posterior correlation of two parameters."""
    if parameter(first) == parameter(second):
        raise InputError(f"a correlation needs two different parameters; got {shown(first)} twice")
    return Correlation(first, second, f"correlation:{first},{second}")
