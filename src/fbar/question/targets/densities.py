"""The posterior density of a parameter at a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import finite_number, number, positive_number
from fbar.question.points import Points
from fbar.question.targets.base import Target, continuous_column
from fbar.question.targets.registry import parameter, register


@dataclass(frozen=True, repr=False)
class DensityAt(Target):
    """The posterior density of a continuous parameter at a point, smoothed by a Gaussian kernel.

    Without a bandwidth, Silverman's 1.06 σ n_eff^(−1/5) is taken. The error bar is that of the smoothed density.
    """

    parameter: str
    x: float
    name: str
    bandwidth: float | None = None
    note: str = "the error bar does not include the bias of smoothing the density"

    def components(self, points: Points) -> FloatArray:
        return continuous_column(points, self.parameter, self.name)[:, None]

    @property
    def smooth(self) -> bool:
        return False

    def _kernel(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        x = self.components(points)[:, 0]
        if self.bandwidth is None:
            mean = weights @ x
            sd = np.sqrt((weights * (x - mean[..., None]) ** 2).sum(axis=-1))
            h = (1.06 * sd * ((weights**2).sum(axis=-1)) ** 0.2)[..., None]
        else:
            h = np.broadcast_to(self.bandwidth, (*weights.shape[:-1], 1))

        def at(where: Points) -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a single point has no bandwidth
                u = (self.components(where)[:, 0] - self.x) / h
                return np.asarray(np.exp(-0.5 * u**2) / (h * np.sqrt(2 * np.pi)))

        return at

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray((weights * self._kernel(points, weights)(points)).sum(axis=-1, keepdims=True))

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, math.inf

    def limits(self, points: Points) -> tuple[float, float]:
        return self.bounds

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        kernel, value = self._kernel(points, weights), self.value(points, weights)
        return lambda where: np.asarray((kernel(where) - value)[..., None])


@register("NAME=X", "density_at:beta=1.5")
def density_at(name: str, x: float, *, bandwidth: float | None = None) -> Target:
    """Posterior density of a continuous parameter at x, smoothed by a Gaussian kernel.

    See `DensityAt` for the bandwidth that is used without one.
    """
    parameter(name)
    if bandwidth is not None:
        finite_number(positive_number(bandwidth, "bandwidth"), "bandwidth")
    x = finite_number(number(x, "x"), "x")
    return DensityAt(name, x, f"density_at:{name}={x:g}", bandwidth)
