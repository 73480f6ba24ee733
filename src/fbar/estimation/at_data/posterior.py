"""The posterior at the data: a weighted sample whose expectations are estimates of E[f | s*], with their total error.

What is conditional on models (the mean of a parameter that only some of them have) is estimated by a regression of its
own, on the simulations of these models: in the sample of all, a model of small probability has hardly a draw.

A target's value is that of the sample plus what the local linear regression adds, Σ (ℓ − ω) ψ, within the limits of the
target. A quantile is read off the distribution function Σ ℓ 1{θ ≤ x}, made monotone, and so is its interval.

The error of an estimate is Σ z + bias. z of stage 2 is the residual of ψ in the local linear regression, z of stage 1
what the regressions that moved the draws add (``Moved.influence``, with ∂ψ/∂v by central differences: exact for
moments, and for probabilities and quantiles, whose ψ have jumps, a kernel estimate of the density there). The variance
of Σ z is taken between clusters within strata, as for any other draws (``fbar.estimation.strata``). The bias is like
one draw of covariance β² c² Σ ω ψ ψᵀ (`fbar.estimation.at_data.choice`), so that it cancels where questions do: in
the sum of a probability and its complement. A number whose own difference between the two steps is larger than that has
the larger one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, overload

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.errors import NoPosterior
from fbar.estimation.at_data.choice import STEPS, Step, ladder
from fbar.estimation.at_data.doubts import doubts_of, unlike_in_words
from fbar.estimation.at_data.parts import Part, Parts
from fbar.estimation.at_data.prepared import Prepared
from fbar.estimation.estimate import ErrorBars, Estimate, Estimates
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.estimation.strata import Clustered
from fbar.question.points import Points
from fbar.question.targets import SeveralTargets, Target, as_targets
from fbar.question.targets.quantiles import Inversion, Inverted, Quantile
from fbar.weights import monotone_weights

MOST_FREEDOM = 1e6

ONE_CARRIES = 0.5
"""The share of the squared error that a single simulation may contribute; the degrees of freedom allow for less."""

ONE_SIMULATION = f"one simulation contributes more than {ONE_CARRIES:.0%} of the squared error"

TINY = 1e-300
NOT_NEAR = "no simulation near the data has the parameters of this target"

RARE = 3.0
"""Effective simulations on either side of a probability, fewer of which do not show its error."""

HARDLY_ANY = "hardly any simulation near the data says otherwise, so the error may be larger"

ALL_THE_SAME = "the simulations near the data all give the same value of this target, so its error is unknown"


class Estimator(Protocol):
    """What makes a posterior of simulations in working coordinates."""

    def of(self, prepared: Prepared) -> PosteriorAtData: ...


class _AtDataErrors(ErrorModel):
    """What is known of the sample itself; error bars are the posterior's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def ess(self) -> float:
        return self._parts.ess

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        """Of stage 2 alone, for numbers whose points are not moved."""
        z = self._parts.residuals(influence)
        return ErrorBars(z.T @ z, np.full(influence.shape[-1], self.ess))


class PosteriorAtData(Posterior):
    """Weighted draws at the data, from all simulations of a run.

    ``parts`` are the draws of one regression or of two; ``step`` has the region, the order and the bandwidth of that of
    the larger share.
    """

    parts_in_words = "simulations near the data"

    def __init__(self, parts: Sequence[Part], estimator: Estimator | None = None) -> None:
        self.parts = Parts(parts)
        self.step: Step = self.parts.main.step
        self._estimator = estimator
        self._within: dict[tuple[int, ...], PosteriorAtData] = {}
        prepared = self.step.moved.prepared
        super().__init__(
            self.parts.points,
            self.parts.omega,
            _AtDataErrors(self.parts),
            prepared.simulations,
            float(self.parts.first.size),
        )
        self.about = prepared.problem.posterior_in_words
        self.remark = "; ".join(text for text in (prepared.remark, unlike_in_words(self.step)) if text)
        self.doubts = doubts_of(self.step)

    def in_words(self) -> str:
        return (
            f"{self.points.rows:,} weighted points at the data, from {int(self.simulations):,} simulations, effective "
            f"sample size {self.ess:,.6g}"
        )

    def curve(self, targets: Target | str | Sequence[Target | str]) -> list[tuple[float, Estimates]]:
        """The estimates against the bandwidth: pairs of the share of the simulations within it, and `Estimates`.

        The region and the order of the regression are those that were chosen; bandwidths are halved in share. Where two
        regressions answer together, the others are those of the one with the larger share.
        """
        listed, chosen = list(as_targets(targets)), self.step.share
        shares = sorted({chosen, *(0.5**k for k in range(STEPS))}, reverse=True)
        steps = [step for step in ladder(self.step.moved, shares) if math.isfinite(step.error)]
        averaged = len(self.parts.each) > 1
        found = []
        for step in steps:
            answer = self if averaged and step.share == chosen else PosteriorAtData([Part(1.0, step)])
            found.append((step.weights.at.size / self.simulations, answer.expect(listed)))
        return found

    def as_simulated(self) -> tuple[Points, FloatArray]:
        """θ of the simulations that it uses, before they were moved, in the order of the run, and their weights."""
        return self.parts.as_simulated()

    @property
    def bandwidth(self) -> float:
        """The share of the simulations that is within the bandwidth."""
        return self.step.weights.at.size / float(self.simulations)

    # ------------------------------------------------------------ within models

    @overload
    def expect(self, targets: Target | str) -> Estimate: ...
    @overload
    def expect(self, targets: SeveralTargets) -> Estimates: ...
    def expect(self, targets: Target | str | Sequence[Target | str]) -> Estimate | Estimates:
        """The `Estimate` of one target, or the `Estimates` of several.

        Errors of targets that are conditional on different models are taken for independent, as their simulations are.
        """
        listed = as_targets(targets)
        if isinstance(targets, Target | str):
            answering = self._answering(listed[0])
            return super().expect(listed[0]) if answering is self else answering.expect(listed[0])
        parts: dict[PosteriorAtData, list[int]] = {}
        for place, target in enumerate(listed):
            parts.setdefault(self._answering(target), []).append(place)
        if not listed or list(parts) == [self]:
            return super().expect(listed)
        found = [
            (places, super(PosteriorAtData, answering).expect([listed[place] for place in places]))
            for answering, places in parts.items()
        ]
        return _joined(found)

    def within(self, models: Sequence[int]) -> PosteriorAtData:
        """The posterior given that it is one of some models, by their numbers: from their simulations only."""
        key = tuple(sorted(set(models)))
        prepared = self.step.moved.prepared
        if key not in self._within:
            rows = np.flatnonzero(np.isin(prepared.model, key))
            if self._estimator is None or not rows.size:
                raise NoPosterior("the posterior within a model needs simulations of it")
            of_models = prepared.take(rows)
            if len(key) == 1:
                of_models = replace(of_models, model=np.zeros_like(of_models.model))
            self._within[key] = self._estimator.of(of_models)
        return self._within[key]

    def _answering(self, target: Target) -> PosteriorAtData:
        """The posterior that a target is estimated from: this one, or that within the models that it is about."""
        prepared = self.step.moved.prepared
        if self._estimator is None or prepared.model.max() == 0:
            return self
        given = target.given(prepared.points)
        if given is None or given.all() or not given.any():
            return self
        try:
            return self.within(np.unique(prepared.model[given]).tolist())
        except NoPosterior:
            return self

    def value(self, target: Target) -> FloatArray:
        """The target's value in the sample, and what the local linear regression adds to it."""
        answering = self._answering(target)
        if answering is not self:
            return answering.value(target)
        if isinstance(target, Quantile):
            return target.value(self.points, self._corrected(target))
        plain = super().value(target)
        psi = target.influence(self.points, self.weights)
        low, high = target.limits(self.points)
        return np.asarray(np.clip(plain + (self.parts.ell - self.parts.omega) @ psi, low, high))

    def _corrected(self, target: Quantile) -> FloatArray:
        """Weights whose distribution function is that of ℓ, made monotone; ω of points without the variable."""
        given = target.given(self.points)
        rows = np.arange(self.weights.size) if given is None else np.flatnonzero(given)
        ell = self.parts.ell[rows]
        if not ell.sum() > 0:
            return self.weights
        weights = self.weights.copy()
        each = monotone_weights(target.components(self.points)[rows, 0], ell)
        weights[rows] = each * self.weights[rows].sum()
        return weights

    # ------------------------------------------------------------ error bars

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        functions = [target.psi(self.points, self.weights) for target in targets]
        influences = [part.influences(functions) for part in self.parts.each]
        middle = np.sum([one.mean for one in influences], axis=0)
        influences = [one.less(middle) for one in influences]
        z = self.parts.joined([one.z for one in influences])
        parts = self.parts.clustered(z)
        covariance = parts.covariance
        variance = np.maximum(np.diagonal(covariance), 0.0)
        bias = np.sum([one.part.share * one.bias() for one in influences], axis=0)
        place = 0
        for target, function in zip(targets, functions, strict=True):
            inner = target.inner(self.points, self.weights)
            if inner is not None:  # the product of two errors, where the first order vanishes
                v = self.parts.clustered(self.parts.residuals(inner)).covariance
                covariance[place, place] += v[0, 0] * v[1, 1] + v[0, 1] ** 2
            place += function(self.points.take([0])).shape[-1]
        left, rare = np.sqrt(np.maximum(np.diagonal(bias), 0.0)), self._rare(targets)
        doubts = (
            ((z**2).max(axis=0) > ONE_CARRIES * (variance + left**2) + TINY, ONE_SIMULATION),
            ((variance == 0) & ~rare, ALL_THE_SAME),
            (rare, HARDLY_ANY),
            (np.isnan(variance), NOT_NEAR),
        )
        return ErrorBars(covariance + bias, self._freedom(parts, variance, left**2), doubts, left)

    def _rare(self, targets: tuple[Target, ...]) -> BoolArray:
        """Which numbers are probabilities that hardly a simulation speaks against, one way or the other."""
        found = []
        for target in targets:
            value = np.atleast_1d(self.value(target))
            sides = np.minimum(value, 1 - value) * self.ess
            found.append(target.binary & (sides < RARE))
        return np.concatenate(found)

    def effective_draws(self, target: Target) -> FloatArray:
        return np.full(self.value(target).shape, self.ess)

    def _freedom(self, parts: Clustered, variance: FloatArray, bias: FloatArray) -> FloatArray:
        """Satterthwaite's degrees of freedom, with the effective number of influence values for the variance."""
        unit = np.where(variance > 0, variance, 1.0)
        own = 1 / np.maximum(((parts.zeta**2 / unit) ** 2).sum(axis=0), 1 / MOST_FREEDOM)
        most = self.parts.most_freedom
        if self.step.moved.prepared.structure.cluster is not None:
            most = min(most, float((parts.size - 1).sum()))
        own = np.clip(own, 1.0, max(most, 1.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(own * (1 + bias / unit) ** 2, MOST_FREEDOM))

    def _inverted(self, target: Target, bars: ErrorBars, place: int) -> Inverted | None:
        """The distribution function around a quantile, with the regression's weights, and the variance of it.

        What bias may remain widens the limits along θ: it is no matter of how many simulations lie beyond them. Among
        the atoms of a discrete variable it counts as variance.
        """
        if not isinstance(target, Quantile):
            return None
        slope = target.inverted(self.points, self.weights).slope()
        found = target.inverted(self.points, self._corrected(target))
        bias = 0.0 if bars.bias is None or found.atoms else float(bars.bias[place])
        variance = (float(bars.covariance[place, place]) - bias**2) / slope**2
        known = found.known_to(Inversion(variance, float(bars.df[place])))
        return replace(known, bias=bias, support=self.step.moved.prepared.support(target.parameter))

    def contributions(self, target: Target) -> FloatArray | None:
        """z of the points, shape (n, m): stage 2's and, for these points, stage 1's."""
        influences = [part.influences([target.psi(self.points, self.weights)]) for part in self.parts.each]
        middle = np.sum([one.mean for one in influences], axis=0)
        return self.parts.of_draws(self.parts.joined([one.less(middle).z for one in influences]))


def _joined(parts: Sequence[tuple[Sequence[int], Estimates]]) -> Estimates:
    """Estimates of independent errors in one list, each part with the places of its own in it."""
    placed = {place: estimate for places, found in parts for place, estimate in zip(places, found, strict=True)}
    estimates = [placed[place] for place in sorted(placed)]
    ends = np.cumsum([np.size(estimate.value) for estimate in estimates])
    slices = [
        slice(int(end) - np.size(estimate.value), int(end)) for estimate, end in zip(estimates, ends, strict=True)
    ]
    covariance = np.zeros((ends[-1], ends[-1]))
    for places, found in parts:
        at = np.concatenate([np.arange(slices[place].start, slices[place].stop) for place in places])
        covariance[np.ix_(at, at)] = found.covariance
    return Estimates(estimates, covariance, slices)
