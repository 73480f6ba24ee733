"""The posterior approximation that comes out of a run: weighted points that answer questions with error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np

from fbar.checks import BoolArray, FloatArray
from fbar.estimation.estimate import ErrorBars, Estimate, Estimates
from fbar.question.points import Points
from fbar.question.targets import Target, as_target, as_targets
from fbar.question.targets.quantiles import Inversion, Inverted, Quantile
from fbar.results.markup import paragraph
from fbar.results.notebook import joined, table


class ErrorModel(Protocol):
    """How the error of a posterior expectation follows from the influence function at the points."""

    def error_bars(self, influence: FloatArray) -> ErrorBars: ...


class Posterior:
    """Weighted points approximating p(θ|x*).

    Parameters
    ----------
    points, weights
        θ and its normalised weights, shape (..., n) with any trial axes first. They cannot be changed in place.
    errors
        The estimator's error model.
    simulations, accepted
        How many simulations were run, and how many were accepted (Σa for a kernel), per trial.
    """

    def __init__(
        self, points: Points, weights: FloatArray, errors: ErrorModel | None, simulations: Any, accepted: Any
    ) -> None:
        self.points = points
        self.weights = np.asarray(weights).view()
        self.weights.flags.writeable = False
        self.errors = errors
        self.simulations = simulations
        self.accepted = accepted

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._told()})"

    def _told(self) -> str:
        if np.ndim(self.weights) > 1:
            return (
                f"{' × '.join(map(str, np.shape(self.weights)[:-1]))} trials of {np.shape(self.weights)[-1]:,} points"
            )
        ess = self.ess
        worth = "" if ess is None else f", effective sample size {float(ess):,.6g}"
        return (
            f"{self.points.rows:,} weighted points, {float(self.accepted):,.6g} of {int(self.simulations):,} "
            f"simulations accepted{worth}"
        )

    def _repr_html_(self) -> str:
        """The mean and standard deviation of every parameter that is a number: the spread of θ, not an error."""
        if np.ndim(self.weights) > 1:
            return joined(paragraph(repr(self)))
        rows = []
        for name in (*self.points, *self.points.derived):
            column = np.asarray(self.points[name])
            if column.dtype.kind not in "biuf" or column.shape != self.weights.shape or np.isnan(column).any():
                continue
            mean = float(self.weights @ column)
            spread = math.sqrt(max(float(self.weights @ (column - mean) ** 2), 0.0))
            rows.append([name, f"{mean:.5g}", f"{spread:.3g}"])
        shown = table(["parameter", "mean", "standard deviation"], rows, (1, 2)) if rows else ""
        return joined(shown, paragraph(self._told()))

    doubts: tuple[str, ...] = ()
    """Why none of its estimates is to be trusted, whatever the target."""

    likelihood: FloatArray | None = None
    """p̂(x*|θ) at the values of a finite prior, from an estimator that has it."""

    @property
    def has_errors(self) -> bool:
        """Whether it knows the errors of its expectations."""
        return self.errors is not None or type(self)._error_bars is not Posterior._error_bars

    @property
    def ess(self) -> Any:
        """Effective sample size (Σw)²/Σw², over single accepted simulations (section 1.2.2, e:ESS)."""
        return getattr(self.errors, "ess", None)

    def value(self, target: Target) -> FloatArray:
        """The target's value alone, shape (..., m): cheaper than `expect` when no error bar is wanted."""
        return as_target(target).value(self.points, self.weights)

    @overload
    def expect(self, targets: Target) -> Estimate: ...
    @overload
    def expect(self, targets: Sequence[Target]) -> Estimates: ...
    def expect(self, targets: Target | Sequence[Target]) -> Estimate | Estimates:
        """The `Estimate` of one target, or the `Estimates` of several with their joint covariance."""
        listed = as_targets(targets)
        for target in listed:
            target.check(self.points)
        bars = self._error_bars(listed)
        values, slices, start = [self.value(target) for target in listed], [], 0
        for value in values:
            slices.append(slice(start, start + value.shape[-1]))
            start += value.shape[-1]
        limits: list[Inverted | None] = []
        for target, part in zip(listed, slices, strict=True):
            inverted = self._inverted(target, bars, part.start)
            if inverted is not None:
                bars = bars.rescaled(part.start, inverted.standard_error(), inverted.df)
            limits.append(inverted)
        estimates = [
            self._estimate(target, value, bars, part, inverted)
            for target, value, part, inverted in zip(listed, values, slices, limits, strict=True)
        ]
        if isinstance(targets, Target):
            return estimates[0]
        return Estimates(estimates, bars.covariance, slices)

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        assert self.errors is not None
        influences = self._influences(targets)
        size = sum(influence.shape[-1] for influence in influences)
        inner = [target.inner(self.points, self.weights) for target in targets]
        extra = [part for part in inner if part is not None]
        bars = self.errors.error_bars(np.concatenate([*influences, *extra], axis=-1))
        if not extra:
            return bars
        # var(δa δb) = V_a V_b + C² for the errors of two inner quantities, to be added where a target has them.
        covariance = bars.covariance[..., :size, :size].copy()
        place, start = 0, size
        for influence, part in zip(influences, inner, strict=True):
            if part is not None:
                v = bars.covariance[..., start : start + 2, start : start + 2]
                covariance[..., place, place] += v[..., 0, 0] * v[..., 1, 1] + v[..., 0, 1] ** 2
                start += 2
            place += influence.shape[-1]
        doubts = tuple((mask[..., :size], text) for mask, text in bars.doubts)
        return ErrorBars(covariance, bars.df[..., :size], doubts)

    inverts = True
    """Whether a quantile is where its own weighted distribution function has the level."""

    def _inverted(self, target: Target, bars: ErrorBars, place: int) -> Inverted | None:
        """The distribution function around a quantile, with the error model's variance of it; None for others."""
        if not isinstance(target, Quantile) or np.ndim(self.weights) > 1 or not self.inverts:
            return None
        found = target.inverted(self.points, self.weights)
        variance, df = float(bars.covariance[place, place]) / found.slope() ** 2, float(bars.df[place])
        of = getattr(self.errors, "inversion", None)
        if of is None:
            return found.known_to(Inversion(variance, df))
        below, given = found.below(target.components(self.points)[:, 0]), target.given(self.points)
        return found.known_to(of(below, given, variance, df))

    def contributions(self, target: Target) -> FloatArray | None:
        """z of every accepted simulation, shape (n, m): the target's error is Σz to first order, its variance Σz².

        None where the error does not come about as a sum over single simulations.
        """
        as_target(target)
        of = getattr(self.errors, "contributions", None)
        found: FloatArray | None = None if of is None else of(np.concatenate(self._influences((target,)), axis=-1))
        return found

    def _influences(self, targets: tuple[Target, ...]) -> list[FloatArray]:
        """ψ of each target at the points."""
        return [target.influence(self.points, self.weights) for target in targets]

    def _estimate(
        self, target: Target, value: FloatArray, bars: ErrorBars, part: slice, inverted: Inverted | None
    ) -> Estimate:
        def shaped(array: FloatArray | BoolArray) -> Any:
            if target.scalar:
                array = array[..., 0]
            return array.item() if array.ndim == 0 else array

        trusted = np.ones(bars.df.shape, dtype=bool)
        trusted &= not self.doubts
        warnings = [*self.doubts, *([target.note] if target.note else [])]
        for mask, text in bars.doubts:
            if inverted is not None and text == inverted.known.instead:
                continue
            trusted &= ~mask
            concerned = mask[..., part].any(axis=-1)
            if concerned.any():
                share = f" (in {concerned.mean():.1%} of the trials)" if concerned.ndim else ""
                warnings.append(text + share)
        seen = inverted
        if seen is None and isinstance(target, Quantile) and np.ndim(self.weights) == 1:
            seen = target.inverted(*self._distribution)
        if seen is not None:
            trusted[..., part] &= not seen.doubts
            warnings += [*seen.doubts, *([seen.note] if seen.note else [])]
        return Estimate(
            name=target.name,
            value=shaped(value),
            standard_error=shaped(bars.standard_error[..., part]),
            df=shaped(bars.df[..., part]),
            simulations=self.simulations,
            accepted=self.accepted,
            trusted=shaped(trusted[..., part]),
            warnings=tuple(warnings),
            labels=target.labels,
            inverted=inverted,
        )

    @property
    def _distribution(self) -> tuple[Points, FloatArray]:
        """The points and weights whose tails decide whether a quantile can be told."""
        return self.points, self.weights
