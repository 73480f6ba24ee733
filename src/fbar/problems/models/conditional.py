"""A uniform distribution whose ends depend on the parameters before it."""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray


class UniformBetween:
    """Uniform on [low, high], row by row; an interval without length holds its one value."""

    discrete = False
    support = (-np.inf, np.inf)

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        self.low, self.width = low, np.maximum(high - low, 1e-300)

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.low + self.width * u)

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.clip((x - self.low) / self.width, 0.0, 1.0)

    def logpdf(self, x: FloatArray) -> FloatArray:
        inside = (x >= self.low) & (x <= self.low + self.width)
        return np.where(inside, -np.log(self.width), -np.inf)
