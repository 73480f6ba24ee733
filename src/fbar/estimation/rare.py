"""The least error of a probability when less than one simulation, effectively, is on one of its sides.

Of n independent draws, none has the property. By the rule of succession (a uniform prior of the probability p, Laplace)
p is then Beta(1, n + 1), and its root mean square distance from the estimate 0 is √(2/((n + 2)(n + 3))), about 1.4/n.
With 1.96 of these an interval ends at 2.8/n: the rule of three (Hanley & Lippman-Hand 1983, "If nothing goes wrong, is
everything all right?"). An error bar from the weights themselves would be 0, or as small as the smallest weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.estimation.estimate import ErrorBars
from fbar.question.points import Points
from fbar.question.targets import Target
from fbar.weights import effective_size

SEEN = 3.0
"""Effective simulations on a side whose weights are small because they were drawn so: they show its error."""


def least_error(draws: float) -> float:
    """Of a probability that none of so many draws speaks for, or none against.

    >>> round(least_error(100), 4)
    0.0138
    """
    return math.sqrt(2 / ((draws + 2) * (draws + 3)))


def with_least_error(
    bars: ErrorBars, targets: Sequence[Target], values: Sequence[FloatArray], draws: Sequence[FloatArray | None]
) -> ErrorBars:
    """Error bars where that of a probability is no smaller; ``draws`` has their effective number, NaN if not known."""
    first = 0
    for target, value, known in zip(targets, values, draws, strict=True):
        if target.binary and known is not None:
            for place, (p, n) in enumerate(zip(value, known, strict=True), first):
                if min(p, 1 - p) * n < 1 and bars.standard_error[place] < least_error(float(n)):
                    bars = bars.rescaled(place, least_error(float(n)), max(float(bars.df[place]), float(n)))
        first += value.shape[-1]
    return bars


def independent_draws(target: Target, points: Points, weights: FloatArray) -> FloatArray:
    """The effective number of weighted draws; NaN where simulations of small weight show a side well enough."""
    given: BoolArray | None = target.given(points)
    rows = slice(None) if given is None else given
    inside, own = target.components(points)[rows] > 0.5, weights[rows]
    total = effective_size(own) if own.any() else math.nan

    def number(side: BoolArray) -> float:
        fewer = min((own[side], own[~side]), key=np.sum)
        return math.nan if fewer.any() and effective_size(fewer) >= SEEN else total

    return np.array([number(column) for column in inside.T])
