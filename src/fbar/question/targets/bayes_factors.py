"""Bayes factors: how much the data change the odds of two models.

B = (P₁/P₂)/(π₁/π₂), with the posterior probabilities P and the prior ones π of two models; ψ = B (1{model 1}/P₁ −
1{model 2}/P₂). The error of P̂₁/P̂₂ is more nearly normal on the logarithmic scale, so that the confidence limits are
B exp(∓ t · error/B).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import finite_number, known_names, positive_number, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import PriorProbability, Target
from fbar.question.targets.expectations import is_model, require_model_name
from fbar.question.targets.limits import LogScaleLimits
from fbar.question.targets.registry import parameter, register

Label = str | int | float


@dataclass(frozen=True, repr=False)
class BayesFactor(Target):
    """The Bayes factor of the first model against the second."""

    first: Label
    second: Label
    name: str
    column: str = "model"
    prior_odds: float | None = None

    def components(self, points: Points) -> FloatArray:
        chosen = [is_model(points[self.column], label) for label in (self.first, self.second)]
        return np.stack(chosen, axis=1).astype(np.float64)

    def with_prior(self, prior: PriorProbability) -> BayesFactor:
        if self.prior_odds is not None:
            return self
        first, second = (prior(self.column, label) for label in (self.first, self.second))
        for label, probability in ((self.first, first), (self.second, second)):
            if not probability > 0:
                raise InputError(
                    f"target {shown(self.name)} needs models that are possible before the data; the prior probability "
                    f"of {shown(label)} is 0"
                )
        return replace(self, prior_odds=first / second)

    def check_space(self, points: Points) -> None:
        self.check(points)
        found = self.components(points).max(axis=0)
        for label, there in zip((self.first, self.second), found.tolist(), strict=True):
            if not there:
                known = known_names(label, dict.fromkeys(points[self.column].tolist()))
                raise InputError(f"target {shown(self.name)}: there is no {self.column} {shown(label)}; {known}")

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """B, shape (...), and the probabilities of the two models, shape (..., 2)."""
        if self.prior_odds is None:
            raise InputError(
                f"target {shown(self.name)} needs the prior odds of the models: ask it of a result, whose prior is "
                "known, or give prior_odds="
            )
        chances = np.asarray(weights @ self.components(points))
        first, second = np.maximum(chances[..., 0], 0.0), np.maximum(chances[..., 1], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(first / second / self.prior_odds), np.stack([first, second], axis=-1)

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return self._fit(points, weights)[0][..., None]

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        factor, chances = self._fit(points, weights)
        known = (chances > 0).all(axis=-1, keepdims=True)
        scale = np.divide(factor[..., None], chances, out=np.zeros_like(chances), where=known)
        signed = (scale * np.array([1.0, -1.0]))[..., None, :]
        return lambda where: np.asarray((self.components(where) * signed).sum(axis=-1, keepdims=True))

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, math.inf

    def limits(self, points: Points) -> tuple[float, float]:
        return self.bounds

    def confidence_limits(self, value: float, standard_error: float, df: float) -> LogScaleLimits:
        return LogScaleLimits(value, standard_error, df)

    def doubts(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        if weights.ndim > 1:
            return ()
        chances = self._fit(points, weights)[1]
        return tuple(
            f"no simulation of {self.column} {label} contributes to the answer, so the Bayes factor has no error bar"
            for label, chance in zip((self.first, self.second), chances, strict=True)
            if not chance > 0
        )


@register("FIRST,SECOND", "bayes_factor:SIR,SIS")
def bayes_factor(first: Label, second: Label, *, name: str = "model", prior_odds: float | None = None) -> Target:
    """Bayes factor of one model against another: their posterior odds over their prior odds.

    ``name`` is the parameter that holds the model. The prior odds are those of the problem's prior, unless
    ``prior_odds`` are given.
    """
    for model in (first, second):
        require_model_name(model)
    if first == second:
        raise InputError(f"a Bayes factor needs two different models; got {shown(first)} twice")
    parameter(name)
    if prior_odds is not None:
        prior_odds = finite_number(positive_number(prior_odds, "prior_odds"), "prior_odds")
    return BayesFactor(first, second, f"bayes_factor:{first},{second}", name, prior_odds)
