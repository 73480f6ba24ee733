"""The mean squared error of posterior expectations, S_d_f: the score that the others stand in for.

d_f = (E_p̂[f] − f̄)² (section 1.2.1, e:MSE_discrepancy) in each trial; the score is its mean over trials
(e:generic_score). In units of the posterior variance of f it is b² = S_d_f / var(f|x*), and 1/b² is the number of
independent posterior draws whose average would be as precise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import instance, shown
from fbar.errors import InputError
from fbar.question.targets import Target, as_target, mean, second_moment, variance
from fbar.question.truth import FiniteReference, Nodes
from fbar.scores.approximation import Approximation
from fbar.scores.base import Better, Needs, Scene, Score, register

MOST_TRUTH_ERROR = 0.01
"""The largest part of a score that the truth's own squared error may make up."""
MOST_ERROR = 1e150
"""Above it the squares of errors are no numbers."""


@dataclass(frozen=True)
class TrialError:
    """One target in one trial: what was estimated, by how much it is wrong, and the error that was claimed."""

    estimate: float
    error: float
    standard_error: float
    df: float
    trusted: bool
    truth: float
    truth_error: float

    @property
    def squared_error(self) -> float:
        """(f̂ − f̄)² minus the squared error of the truth itself, which adds to it in expectation; may be negative."""
        return self.error**2 - self.truth_error**2

    @property
    def z(self) -> float:
        """The error divided by its claimed standard error (including the truth's own); NaN without a claim."""
        spread = math.hypot(self.standard_error, self.truth_error)
        if math.isnan(spread):
            return math.nan
        return self.error / spread if spread > 0 else math.copysign(math.inf, self.error) if self.error else 0.0


def trial_errors(approximation: Approximation, scene: Scene) -> dict[str, TrialError]:
    """Every target of the scene in one trial, by name."""
    instance(scene, Scene, "scene", "an fbar.scores.Scene")
    instance(approximation, Approximation, "approximation", "an fbar.scores.Approximation")
    result = {}
    for target in scene.targets:
        given = approximation.estimate(target)
        truth, error = float(scene.problem.truth(target)[0]), float(scene.problem.truth_error(target)[0])
        result[target.name] = TrialError(
            given.value, given.value - truth, given.standard_error, given.df, given.trusted, truth, error
        )
    return result


def posterior_deviation(target: Target, scene: Scene) -> float:
    """The standard deviation of f(θ) (of ψ(θ), for a functional) under the true posterior: the error of one draw.

    As it is stored with the truth; else by the reference's own points; else from other truths that are known
    (√(f̄(1−f̄)) for a probability, the variance for a mean); else from draws of the truth.
    """
    instance(scene, Scene, "scene", "an fbar.scores.Scene")
    target = as_target(target)
    key = ("deviation", target.name)
    if key not in scene.remembered:
        scene.remembered[key] = _deviation(target, scene)
    found: float = scene.remembered[key]
    return found


def _deviation(target: Target, scene: Scene) -> float:
    known = scene.problem.truth()
    if target.name in known and not math.isnan(known[target.name].deviation):
        return known[target.name].deviation
    reference = scene.problem.reference
    if isinstance(reference, FiniteReference | Nodes):
        points, raw = (
            (reference.points, reference.weights) if isinstance(reference, FiniteReference) else reference.parts[0]
        )
        return _spread(target, points.with_derived(scene.problem.derived), raw / raw.sum())
    if target.binary and target.name in known:
        p = known[target.name].value
        return math.sqrt(p * (1 - p))
    parameter = target.name.partition(":")[2]
    if target.name == mean(parameter).name:
        if variance(parameter).name in known:
            return math.sqrt(known[variance(parameter).name].value)
        if target.name in known and second_moment(parameter).name in known:
            return math.sqrt(known[second_moment(parameter).name].value - known[target.name].value ** 2)
    try:
        points, weights = scene.true_points
    except InputError:
        raise InputError(
            f"the posterior variance of {shown(target.name)} is not known, so there is no b² for it"
        ) from None
    return _spread(target, points.with_derived(scene.problem.derived), weights)


def _spread(target: Target, points: Any, weights: FloatArray) -> float:
    return float(np.sqrt((weights * target.influence(points, weights)[:, 0] ** 2).sum()))


@dataclass(frozen=True)
class Summary:
    """S_d_f of one target over trials, with its parts.

    ``bias2`` and ``variance`` are unbiased and sum to ``mse``; ``bias2`` is the squared mean error minus its
    expectation without bias (variance/trials), and so can be negative if the bias is small. ``b2`` is the score in
    units of the posterior variance of f, ``draws`` = 1/b² the equivalent independent posterior draws; NaN where the
    posterior variance was not given. Each ``_error`` is a standard error over trials (that of ``draws`` by the delta
    method).
    """

    trials: int
    mse: Any
    mse_error: Any
    bias: Any
    bias_error: Any
    bias2: Any
    variance: Any
    b2: Any
    b2_error: Any
    draws: Any
    draws_error: Any


def summarise(errors: npt.ArrayLike, truth_error: npt.ArrayLike = 0.0, deviation: npt.ArrayLike = math.nan) -> Summary:
    """Errors f̂ − f̄ over trials, shape (T, ...), as their mean square with its standard error and parts.

    Refuses a score if the truth's own squared error is more than 1% of it: such a score would measure the truth.

    >>> s = summarise([0.1, -0.1, 0.2, -0.2], deviation=1.0)
    >>> round(s.mse, 6), round(s.bias2, 6), round(s.variance, 6), round(s.draws, 6)
    (0.025, -0.008333, 0.033333, 40.0)
    """
    e = numeric_array(errors, "errors")
    if e.ndim == 0 or len(e) < 2:
        raise InputError(f"a score's error bar needs at least 2 trials; got {e.shape[0] if e.ndim else 1}")
    if np.isnan(e).any():
        trial = int(np.argmax(np.isnan(e).reshape(len(e), -1).any(axis=1)))
        raise InputError(f"errors must be numbers; that of trial {trial} is NaN")
    if not np.isfinite(e).all() or (np.abs(e) > MOST_ERROR).any():
        raise InputError(
            f"errors must be finite, and at most {MOST_ERROR:g} so that their squares are; got {shown(errors)}"
        )
    own, sd = numeric_array(truth_error, "the truth's error"), numeric_array(deviation, "deviation")
    if (own < 0).any() or np.isnan(own).any():
        raise InputError(f"the truth's error must be a number of at least 0; got {shown(truth_error)}")
    if (sd <= 0).any():
        raise InputError(f"the posterior's deviation must be greater than 0; got {shown(deviation)}")
    if (sd > MOST_ERROR).any() or (own > MOST_ERROR).any():
        raise InputError(f"errors and deviations must be at most {MOST_ERROR:g}, so that their squares are numbers")
    trials, square = len(e), e**2
    raw = square.mean(axis=0)
    if (own**2 > MOST_TRUTH_ERROR * raw).any():
        share = np.max(own**2 / np.where(raw > 0, raw, np.finfo(float).tiny))
        raise InputError(
            f"the truth's own squared error is {min(share, 1):.1%} of the score, over {MOST_TRUTH_ERROR:.0%}; "
            "compute the truth more precisely"
        )
    mse = raw - own**2
    mse_error = square.std(axis=0, ddof=1) / math.sqrt(trials)
    centre, spread = e.mean(axis=0), e.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        b2, draws = mse / sd**2, sd**2 / mse
        draws_error = draws * mse_error / mse
    bias2 = centre**2 - spread / trials - own**2
    bias_error = np.sqrt(spread / trials + own**2)
    values = (mse, mse_error, centre, bias_error, bias2, spread, b2, mse_error / sd**2, draws, draws_error)
    return Summary(trials, *(float(v) if np.ndim(v) == 0 else v for v in values))


@register
@dataclass(frozen=True)
class ExpectationMSE(Score):
    """S_d_f. In one trial: the squared error of each target, less the truth's own squared error."""

    name: ClassVar[str] = "mse"
    title: ClassVar[str] = "squared error of posterior expectations, S_d_f, by target"
    formula: ClassVar[str] = "(E_p̂[f(θ)] − E_p[f(θ)])²"
    range: ClassVar[str] = "[0, ∞), in squared units of f"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "expectations"
    blind_spot: ClassVar[str] = (
        "anything that the chosen f do not measure: a correct mean says nothing about tails that no target measures"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        return {name: item.squared_error for name, item in trial_errors(approximation, scene).items()}
