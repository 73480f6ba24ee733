"""Credible intervals: where a parameter lies with a given posterior probability.

The equal-tailed interval is made of two quantiles, with the same probability below and above, and each of its ends is
estimated as a quantile (`fbar.question.targets.quantiles`). That of highest density is the shortest
(`fbar.question.targets.highest_density`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.checks import choice, number, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import Target
from fbar.question.targets.conditions import OneModel
from fbar.question.targets.highest_density import ENDS, HighestDensity
from fbar.question.targets.quantiles import LEAST_LEVEL, Quantile
from fbar.question.targets.registry import parameter, register

KINDS_OF_INTERVAL = ("equal-tailed", "hdi")


@dataclass(frozen=True, repr=False)
class EqualTailed(Target):
    """The quantiles at (1 − level)/2 and (1 + level)/2."""

    low: Quantile
    high: Quantile
    name: str

    @property
    def parts(self) -> tuple[Target, ...]:
        return self.low, self.high

    def components(self, points: Points) -> FloatArray:
        return self.low.components(points)

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.concatenate([part.value(points, weights) for part in self.parts], axis=-1)

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        each = [part.psi(points, weights) for part in self.parts]
        return lambda where: np.concatenate([psi(where) for psi in each], axis=-1)

    def given(self, points: Points) -> BoolArray | None:
        return self.low.given(points)

    def within(self, model: OneModel) -> EqualTailed:
        return EqualTailed(self.low.within(model), self.high.within(model), model.named(self.name))

    @property
    def labels(self) -> tuple[str, ...]:
        return ENDS

    @property
    def scalar(self) -> bool:
        return False

    @property
    def smooth(self) -> bool:
        return False


@register("NAME,LEVEL", "credible_interval:beta,0.95")
def credible_interval(name: str, level: float = 0.95, *, kind: str = "equal-tailed") -> Target:
    """Posterior credible interval of a parameter, from quantile to quantile; both ends have error bars.

    ``kind="hdi"`` is the interval of highest density, see `hdi`.
    """
    if choice(kind, KINDS_OF_INTERVAL, "kind of credible interval") == "hdi":
        return hdi(name, level)
    at = _level(parameter(name), level)
    low, high = (Quantile(name, tail, f"quantile:{name},{tail:g}") for tail in ((1 - at) / 2, (1 + at) / 2))
    return EqualTailed(low, high, f"credible_interval:{name},{at:g}")


@register("NAME,LEVEL", "hdi:beta,0.95")
def hdi(name: str, level: float = 0.95) -> Target:
    """Highest density interval of a continuous parameter, the shortest credible interval; both ends have error bars.

    It needs a smoothed density, see `HighestDensity`.
    """
    at = _level(parameter(name), level)
    return HighestDensity(name, at, f"hdi:{name},{at:g}")


def _level(name: str, level: float) -> float:
    at = number(level, "level")
    if not LEAST_LEVEL <= at <= 1 - 2 * LEAST_LEVEL:
        raise InputError(
            f"the probability of a credible interval of {shown(name)} must lie between 0 and 1; got {shown(level)}"
        )
    return at
