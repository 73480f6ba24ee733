"""What an algorithm gave, in one form, whatever the algorithm: what scores look at.

An algorithm may give weighted points, a `Posterior`, or only estimates. Nothing is turned into something else: a score
that needs points says so of an algorithm that gave estimates alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import instance, shown, whole_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.estimate import Estimate, Estimates
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target, as_target

INTERVAL_LEVEL = 0.95
"""The level of the intervals that are kept with estimates."""


@dataclass(frozen=True)
class Given:
    """An estimate as an algorithm returned it; the error is NaN if it returned none.

    ``interval`` has the ends of the 95% interval that was printed with it, None where there is none. That of a quantile
    is not symmetric, so that it does not follow from the standard error. ``bias`` is the part of the standard error
    that is for bias.
    """

    value: float
    standard_error: float = np.nan
    df: float = np.inf
    trusted: bool = True
    interval: tuple[float, float] | None = None
    bias: float = 0.0

    @classmethod
    def of(cls, estimate: Estimate) -> Given:
        low, high = estimate.interval(INTERVAL_LEVEL)
        return cls(
            float(estimate.value),
            float(estimate.standard_error),
            float(estimate.df),
            bool(np.all(estimate.trusted)),
            (float(low), float(high)),
            float(estimate.bias),
        )


@dataclass(frozen=True, eq=False)
class Approximation:
    """An approximate posterior, or what an algorithm returned instead.

    Parameters
    ----------
    points, weights
        Weighted points, normalised; None from an algorithm that returned only estimates.
    given
        Estimates by the targets' names, from an algorithm that returned them.
    posterior
        The `Posterior` itself, from an algorithm that returned one; it has error bars for any target.
    density
        The algorithm's own density ``density(points)`` → log p̂(θ|x*), where it has one.
    likelihood
        Its own estimates of log p(x*|θ) at the values of a finite prior, where it has them.
    simulations, accepted
        How many simulations were run and accepted (None where acceptance means nothing).
    is_prior
        Nothing was accepted, and the prior stands in for the posterior.
    told
        Numbers that the run reported on the way, by name, such as its forecast.
    """

    points: Points | None
    weights: FloatArray | None
    simulations: int
    accepted: float | None = None
    given: Mapping[str, Given] = field(default_factory=dict)
    posterior: Posterior | None = None
    density: Callable[[Points], FloatArray] | None = None
    likelihood: FloatArray | None = None
    is_prior: bool = False
    told: Mapping[str, float] = field(default_factory=dict)

    def estimate(self, target: Target) -> Given:
        """The estimate of a scalar target: the algorithm's own if it gave one, else that of its points."""
        target = as_target(target)
        if target.name in self.given:
            return self.given[target.name]
        if not target.scalar:
            raise InputError(f"scores take targets of one number; {shown(target.name)} is a vector (see posterior-mse)")
        if self.posterior is not None:
            if self.posterior.has_errors:
                return Given.of(self.posterior.expect(target))
            return Given(float(self.posterior.value(target)[0]))
        if self.points is None:
            gave = ", ".join(self.given) or "none"
            raise InputError(f"the algorithm gave only estimates, and not of {target.name}; it gave: {gave}")
        points, weights = self.sample()
        return Given(float(target.value(points, weights)[0]))

    def sample(self) -> tuple[Points, FloatArray]:
        """The weighted points, for a score that needs them."""
        if self.points is None or self.weights is None:
            raise InputError("the algorithm gave only estimates; this score needs weighted points")
        return self.points, checked_weights(self.weights, self.points.rows)


def checked_weights(weights: npt.ArrayLike | None, size: int) -> FloatArray:
    """Weights of ``size`` points, normalised; equal ones for None. Refuses what cannot be weights."""
    if whole_number(size, "size") == 0:
        raise InputError("there are no points to score")
    if weights is None:
        return np.full(size, 1 / size)
    w = numeric_array(weights, "weights")
    if w.shape != (size,):
        raise InputError(f"weights must be {size} numbers, one for each point; got shape {w.shape}")
    if np.isnan(w).any():
        raise InputError(f"weights must be numbers; weight {int(np.argmax(np.isnan(w)))} is NaN")
    if (w < 0).any():
        raise InputError(f"weights must be at least 0; weight {int(np.argmax(w < 0))} is {w[w < 0][0]:g}")
    if np.isinf(w).any():
        raise InputError(f"weights must be finite; weight {int(np.argmax(np.isinf(w)))} is infinite")
    total = w.max()
    if total == 0:
        raise InputError("all weights are zero: nothing was accepted")
    w = w / total  # so that the sum of large ones does not overflow
    return np.asarray(w / w.sum())


def as_points(given: Any, problem: Problem) -> Points:
    """Samples as named columns: `Points`, a mapping of columns, or an array with a column for each parameter."""
    names = instance(problem, Problem, "problem", "an fbar.Problem").prior.names
    if isinstance(given, Points):
        points = given
    elif isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"the samples lack the parameter {shown(missing[0])}; needed: {', '.join(names)}")
        points = Points({name: given[name] for name in names})
    else:
        array = numeric_array(given, "samples")
        array = array[:, None] if array.ndim == 1 and len(names) == 1 else array
        if array.ndim != 2 or array.shape[1] != len(names):
            raise InputError(
                f"samples must have {len(names)} columns, one for each parameter ({', '.join(names)}); "
                f"got shape {array.shape}"
            )
        points = Points({name: array[:, i] for i, name in enumerate(names)})
    for name in names:
        column = points[name]
        if column.dtype.kind == "f" and not np.isfinite(column[points.present(name)]).all():
            raise InputError(f"the samples of {shown(name)} are not finite")
    return points.with_derived(problem.derived)


def as_approximation(result: Any, problem: Problem, simulations: int) -> Approximation:
    """What a plain function returned, as an approximation.

    A `Posterior`; samples; a pair (samples, weights); or `Estimates`, a list of them, or a mapping from a target's name
    to a value or a pair (value, standard error). Samples without a row say that nothing was accepted: `NoPosterior`.
    """
    if isinstance(result, Approximation):
        return result
    simulations = whole_number(simulations, "simulations")
    if result is None:
        raise InputError("the algorithm returned nothing; return weighted samples, a posterior or estimates")
    if isinstance(result, Posterior):
        return Approximation(result.points, result.weights, simulations, result.accepted, posterior=result)
    if isinstance(result, Estimate):
        result = [result]
    if isinstance(result, Estimates) or (
        isinstance(result, Sequence) and result and all(isinstance(item, Estimate) for item in result)
    ):
        return Approximation(None, None, simulations, given={item.name: Given.of(item) for item in result})
    if isinstance(result, Mapping) and not isinstance(result, Points) and any(":" in str(key) for key in result):
        return Approximation(None, None, simulations, given={str(k): _given(k, v) for k, v in result.items()})
    samples, weights = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    points = as_points(samples, problem)
    if points.rows == 0:
        raise NoPosterior("the algorithm returned no samples: it accepted none of its simulations")
    return Approximation(points, checked_weights(weights, points.rows), simulations)


def _given(name: Any, value: Any) -> Given:
    pair = value if isinstance(value, tuple | list) else (value,)
    try:
        numbers = [float(item) for item in pair]
    except Exception:  # of an object of the user's
        raise InputError(
            f"the estimate of {shown(name)} must be a number or a pair (value, error); got {shown(value)}"
        ) from None
    if not 0 < len(numbers) <= 2 or not np.isfinite(numbers[0]):
        raise InputError(
            f"the estimate of {shown(name)} must be a finite number or a pair (value, error); got {shown(value)}"
        )
    return Given(numbers[0], numbers[1] if len(numbers) == 2 else np.nan)
