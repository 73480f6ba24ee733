"""What the preset "truth" asks of a problem at some data, by rules that know no problem's name.

- The mean and the second moment of every parameter, and whatever else the problem's truth has (the probabilities of
  models, means within a model).
- Of the first parameter, where it is a number: the probability that it is above c, and its quantiles at 0.1 and 0.9. c
  is the true posterior mean, rounded to the leading digit of the posterior standard deviation: a number as one would
  ask for, at most half a standard deviation from the mean, so that the probability is near neither 0 nor 1.

Their true values come from the problem's reference (`fbar.question.truth`), with the error of each. Where that error is
above `ROUGH` posterior deviations and the reference can draw from the posterior, `DRAWS` independent draws answer
instead. The deviation, the error of one posterior draw, is √(P(1 − P)) for a probability and √(α(1 − α)) dQ/dα for a
quantile, by a difference of quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Benchmark
from fbar.question.points import Points
from fbar.question.targets import Target, probability, quantile
from fbar.question.truth import Known, Reference

LEVELS = (0.1, 0.9)
STEP = 0.02
"""The levels of the quantiles whose difference gives a quantile's derivative lie this far from its own."""
ROUGH = 0.005
"""A truth of a probability or quantile with a larger error, in posterior deviations, is taken from draws."""
DRAWS = 2**16

Value = Callable[[Target], tuple[float, float]]
"""A target's true value and the error of that."""


@dataclass(frozen=True)
class Question:
    """A problem with its data, the targets that are asked for, and their true values."""

    name: str
    problem: Benchmark
    known: tuple[Known, ...]


def threshold(mean: Known) -> float:
    """The posterior mean, rounded to the leading digit of the posterior standard deviation.

    >>> threshold(Known("mean:beta", 0.18734, 0.0, 0.0267)), threshold(Known("mean:A", -0.31, 0.0, 7.7))
    (0.19, 0.0)
    """
    return round(mean.value, -math.floor(math.log10(mean.deviation))) + 0.0


def further(problem: Benchmark) -> list[Known]:
    """The true probability and quantiles of the first parameter; none where it is not a number."""
    first = problem.prior.names[0]
    mean = problem.truth().get(f"mean:{first}")
    if mean is None or not mean.deviation > 0:
        return []
    reference = problem.reference
    asked = [probability(f"{first} > {threshold(mean):.10g}"), *(quantile(first, level) for level in LEVELS)]
    found = _known(asked, first, _by_reference(reference))
    if all(item.standard_error <= ROUGH * item.deviation for item in found):
        return found
    try:
        draws = reference.sample(DRAWS, np.random.default_rng([problem.recipe.seed, DRAWS]))
    except InputError:  # it cannot draw: the truth is as good as it is, and its error is recorded
        return found
    drawn = _known(asked, first, _by_draws(draws.with_derived(problem.derived), first))
    return [min(pair, key=lambda item: item.standard_error) for pair in zip(found, drawn, strict=True)]


def _known(asked: Sequence[Target], first: str, value: Value) -> list[Known]:
    above, *quantiles = asked
    p, error = value(above)
    found = [Known(above.name, p, error, math.sqrt(p * (1 - p)))]
    for target, level in zip(quantiles, LEVELS, strict=True):
        q, error = value(target)
        rise = value(quantile(first, level + STEP))[0] - value(quantile(first, level - STEP))[0]
        found.append(Known(target.name, q, error, math.sqrt(level * (1 - level)) * rise / (2 * STEP)))
    return found


def _by_reference(reference: Reference) -> Value:
    def value(target: Target) -> tuple[float, float]:
        found, error = reference.expect(target)
        return float(found[0]), float(error[0])

    return value


def _by_draws(draws: Points, first: str) -> Value:
    weights: FloatArray = np.full(draws.rows, 1 / draws.rows)
    column = draws[first]

    def value(target: Target) -> tuple[float, float]:
        found = float(target.value(draws, weights)[0])
        if target.binary:
            return found, math.sqrt(max(found * (1 - found), 1 / draws.rows) / draws.rows)
        level = float(np.mean(column <= found))
        spread = math.sqrt(level * (1 - level) / draws.rows)
        ends = np.quantile(column, [max(level - spread, 0), min(level + spread, 1)])
        return found, float(ends[1] - ends[0]) / 2

    return value
