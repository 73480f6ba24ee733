"""What the preset "truth" asks of a problem at some data, by rules that know no problem's name.

- The mean and the second moment of every parameter, and whatever else the problem's truth has (the probabilities of
  models, means within a model).
- Of the first parameter, where it is a number: the probability that it is above c, and its quantiles at 0.1 and 0.9. c
  is the true posterior mean, rounded to the leading digit of the posterior standard deviation: a number as one would
  ask for, at most half a standard deviation from the mean, so that the probability is near neither 0 nor 1.

Their true values come from the problem's reference (`fbar.question.truth`), with the error of each. Where that error is
above `ROUGH` posterior deviations, or a difference of quadratures, and the reference can draw from the posterior,
`DRAWS` independent draws answer instead. The deviation, the error of one posterior draw, is √(P(1 − P)) for a
probability and √(α(1 − α)) dQ/dα for a quantile, the derivative by a difference of quantiles of draws, where there are
any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Benchmark
from fbar.question.targets import Target, probability, quantile
from fbar.question.truth import Known, Nodes, Reference

LEVELS = (0.1, 0.9)
STEP = 0.02
"""The levels of the quantiles whose difference gives a quantile's derivative lie this far from its own."""
ROUGH = 0.005
"""A truth of a probability or quantile with a larger error, in posterior deviations, is taken from draws."""
DRAWS = 2**16


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
    reference, c = problem.reference, threshold(mean)
    asked = [probability(f"{first} > {c:.10g}"), *(quantile(first, level) for level in LEVELS)]
    known = [_value(reference, target) for target in asked]
    draws = _draws(problem, first)

    def rise(level: float) -> float:
        """dQ/dα at the level."""
        ends = level + STEP, level - STEP
        if draws is not None:
            high, low = np.quantile(draws, ends)
        else:
            high, low = (_value(reference, quantile(first, end))[0] for end in ends)
        return float(high - low) / (2 * STEP)

    spread = math.sqrt(known[0][0] * (1 - known[0][0]))
    deviations = [spread, *(math.sqrt(level * (1 - level)) * rise(level) for level in LEVELS)]
    found = [Known(t.name, *pair, spread) for t, pair, spread in zip(asked, known, deviations, strict=True)]
    if draws is None:
        return found
    # Two quadratures on the same boxes may agree on a function that jumps, and both be wrong.
    refined = isinstance(reference, Nodes) and reference.error == "refinement"
    drawn = [float((draws > c).mean()), *map(float, np.quantile(draws, LEVELS))]
    return [
        replace(item, value=value, standard_error=item.deviation / math.sqrt(DRAWS))
        if refined or item.standard_error > ROUGH * item.deviation
        else item
        for item, value in zip(found, drawn, strict=True)
    ]


def _value(reference: Reference, target: Target) -> tuple[float, float]:
    value, error = reference.expect(target)
    return float(value[0]), float(error[0])


def _draws(problem: Benchmark, name: str) -> FloatArray | None:
    """Sorted draws of one parameter; None where the reference cannot draw, and is as good as it is."""
    try:
        drawn = problem.reference.sample(DRAWS, np.random.default_rng([problem.recipe.seed, DRAWS]))
    except InputError:
        return None
    return np.sort(drawn[name])
