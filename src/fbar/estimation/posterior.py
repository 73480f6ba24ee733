"""The posterior approximation that comes out of a run: weighted points that answer questions with error bars."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.checks import counted
from fbar.estimation.counted import ACCEPTED, Counted
from fbar.estimation.estimate import ErrorBars, Estimate, Estimates
from fbar.estimation.joined import joined
from fbar.estimation.rare import independent_draws, with_least_error
from fbar.estimation.shown import ShownInNotebooks
from fbar.question.points import Points
from fbar.question.targets import SeveralTargets, Target, as_target, as_targets
from fbar.question.targets.quantiles import Inversion, Inverted, Quantile

if TYPE_CHECKING:
    from fbar.estimation.cells import Cells
    from fbar.estimation.draws import Draws


class ErrorModel(ABC):
    """How the error of a posterior expectation follows from the influence function ψ at the points.

    What a model does not know has a default: no effective sample size, no single contributions, all of the variance
    known.
    """

    @abstractmethod
    def error_bars(self, influence: FloatArray) -> ErrorBars:
        """The error bars of numbers whose ψ at the points are the columns of ``influence``, shape (..., n, m)."""

    @property
    def ess(self) -> Any:
        """Effective sample size (Σw)²/Σw², over single accepted simulations (section 1.2.2, e:ESS)."""
        return None

    @property
    def draws(self) -> Draws | None:
        """The single accepted simulations, where the posterior is their weighted average."""
        return None

    @property
    def cells(self) -> Cells | None:
        """The counts of the values of a finite parameter space, where the posterior is made of them."""
        return None

    @property
    def draw_weights(self) -> FloatArray | None:
        """The normalised weights of the `draws`."""
        return None

    def value_parts(self, influence: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The parts of single values of θ in the variances, shape (..., k, m), and the parts' relative variances.

        None where the posterior is not made of `cells`.
        """
        return None

    def contributions(self, influence: FloatArray) -> FloatArray | None:
        """z of every point, shape (n, m): the error is Σz to first order. None where it is no such sum."""
        return None

    def known_share(self, influence: FloatArray) -> Any:
        """The part of the variances that is not a guess about simulations that were not seen, shape (..., m)."""
        return 1.0

    def inversion(self, below: BoolArray, given: BoolArray | None, variance: float, df: float) -> Inversion:
        """What is known of F̂(Q̂) for a quantile, from its variance as an expectation and the degrees of freedom.

        ``below`` are the points on the side of Q̂ whose weight is F̂, ``given`` those that have the variable.
        """
        return Inversion(variance, df)


@dataclass(frozen=True, eq=False)
class Further:
    """What is added to the errors of m numbers: ``covariance`` (m, m), its ``df`` (m,), and a reason for distrust."""

    covariance: FloatArray
    df: FloatArray
    doubt: str = ""

    def added(self, bars: ErrorBars, inverted: FloatArray) -> ErrorBars:
        """The sum of both errors, which are independent.

        ``inverted`` (m,) are standard errors of the sum that are known already, those of quantiles; NaN for others. It
        does not fall with more simulations, so it is a part of the bias. Degrees of freedom are Satterthwaite's.
        """
        has_it = ~np.isnan(inverted)
        before, more = np.diagonal(bars.covariance), np.diagonal(self.covariance)
        covariance = bars.covariance + self.covariance
        np.fill_diagonal(covariance, np.where(has_it, inverted**2, before + more))
        with np.errstate(divide="ignore", invalid="ignore"):
            df = (before + more) ** 2 / (before**2 / bars.df + more**2 / self.df)
        df = np.where(has_it | ~np.isfinite(df), bars.df, df)
        bias = np.sqrt(more if bars.bias is None else bars.bias**2 + more)
        doubts = ((np.ones(df.shape, dtype=bool), self.doubt),) if self.doubt else ()
        return ErrorBars(covariance, df, (*bars.doubts, *doubts), bias)


class FurtherError(ABC):
    """A source of error beyond the simulations of a run, such as a prior that is itself a sample."""

    @abstractmethod
    def of(self, posterior: Posterior, targets: Sequence[Target]) -> Further:
        """What it adds to the errors of these targets."""


class Posterior(ShownInNotebooks):
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
        self._points = points
        self._weights = np.asarray(weights).view()
        self._weights.flags.writeable = False
        self.errors = errors
        self.simulations = simulations
        self.accepted = accepted

    @property
    def points(self) -> Points:
        """θ at the points."""
        return self._points

    @property
    def weights(self) -> FloatArray:
        """The points' normalised weights."""
        return self._weights

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_words()})"

    def in_words(self) -> str:
        """Its size and effective sample size, in one line."""
        if np.ndim(self.weights) > 1:
            return (
                f"{' × '.join(map(str, np.shape(self.weights)[:-1]))} trials of {np.shape(self.weights)[-1]:,} points"
            )
        ess = self.ess
        worth = "" if ess is None else f", effective sample size {float(ess):,.6g}"
        ran, used = counted(int(self.simulations), "simulation"), float(self.accepted)
        same = self.counted_as.words == ACCEPTED.words
        parts = f"{used:,.6g} of {ran} accepted" if same else f"{self.counted_as.of(used)} from {ran}"
        return f"{self.points.rows:,} weighted points, {parts}{worth}"

    doubts: tuple[str, ...] = ()
    """Why all of its estimates are unreliable, whatever the target."""

    counted_as: Counted = ACCEPTED
    """What ``accepted`` counts, in words."""

    parts_in_words: str = "accepted simulations"
    """What its estimates are sums over."""

    about: str = ""
    """What it is: the posterior, or ABC's at a tolerance."""

    remark: str = ""
    """What was learned for it, in a line."""

    further: FurtherError | None = None
    """A source of error that its own simulations do not show."""

    likelihood: FloatArray | None = None
    """p̂(x*|θ) at the values of a finite prior, if the estimator provides it."""

    @property
    def pictured(self) -> Posterior:
        """The posterior that samples, predictions and pictures are made of: itself, unless its weights are signed."""
        return self

    @property
    def has_errors(self) -> bool:
        """Whether it knows the errors of its expectations."""
        return self.errors is not None

    @property
    def ess(self) -> Any:
        """Effective sample size (Σw)²/Σw², over single accepted simulations (section 1.2.2, e:ESS)."""
        return None if self.errors is None else self.errors.ess

    @property
    def draws(self) -> Draws | None:
        """The single accepted simulations that it is the weighted average of; None if it is not one."""
        return None if self.errors is None else self.errors.draws

    @property
    def cells(self) -> Cells | None:
        """The counts that it is made of, on a finite parameter space; None elsewhere."""
        return None if self.errors is None else self.errors.cells

    def value_parts(self, target: Target) -> tuple[FloatArray, FloatArray] | None:
        """The parts of single values of θ in the variance of a target, and their relative variances.

        None where the posterior is not made of `cells`.
        """
        if self.errors is None:
            return None
        return self.errors.value_parts(target.influence(self.points, self.weights))

    def known_share(self, influence: FloatArray) -> Any:
        """The part of the variances that is not a guess about simulations that were not seen."""
        return 1.0 if self.errors is None else self.errors.known_share(influence)

    def value(self, target: Target) -> FloatArray:
        """Only the target's value, shape (..., m): cheaper than `expect` if no error bar is needed."""
        return as_target(target).value(self.points, self._weights_for(target))

    def _weights_for(self, target: Target) -> FloatArray:
        """The weights that a target is estimated with: those of the points, where all are at least 0."""
        return self.weights

    @overload
    def expect(self, targets: Target | str) -> Estimate: ...
    @overload
    def expect(self, targets: SeveralTargets) -> Estimates: ...
    def expect(self, targets: Target | str | Sequence[Target | str]) -> Estimate | Estimates:
        """The `Estimate` of one target, or the `Estimates` of several with their joint covariance."""
        listed = as_targets(targets)
        for target in listed:
            target.check(self.points)
        found = self._expect(tuple(part for target in listed for part in target.parts))
        found = joined(found, listed)
        return found[0] if isinstance(targets, Target | str) else found

    def _expect(self, listed: tuple[Target, ...]) -> Estimates:
        """The estimates of targets that consist of nothing but themselves."""
        bars = self._error_bars(listed)
        further = None if self.further is None else self.further.of(self, listed)
        values, slices, start = [self.value(target) for target in listed], [], 0
        if np.ndim(self.weights) == 1:
            shares = [self.effective_draws(target) if target.binary else None for target in listed]
            bars = with_least_error(bars, listed, values, shares)
        for value in values:
            slices.append(slice(start, start + value.shape[-1]))
            start += value.shape[-1]
        limits: list[Inverted | None] = []
        totals = np.full(start, math.nan)
        for target, part in zip(listed, slices, strict=True):
            inverted = self._inverted(target, bars, part.start)
            if inverted is not None:
                bars = bars.rescaled(part.start, inverted.standard_error(), inverted.df)
                if further is not None:
                    more = float(further.covariance[part.start, part.start])
                    inverted = replace(inverted, bias=math.hypot(inverted.bias, math.sqrt(more)))
                    totals[part.start] = inverted.standard_error()
            limits.append(inverted)
        if further is not None:
            bars = further.added(bars, totals)
        estimates = [
            self._estimate(target, value, bars, part, inverted)
            for target, value, part, inverted in zip(listed, values, slices, limits, strict=True)
        ]
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
        bias = None if bars.bias is None else bars.bias[..., :size]
        return ErrorBars(covariance, bars.df[..., :size], doubts, bias)

    def effective_draws(self, target: Target) -> FloatArray | None:
        """The number of draws (m,) that a target's probabilities are shares of, effectively; None for other kinds."""
        if self.draws is None or not self.is_distribution:
            return None
        return independent_draws(target, self.points, self.weights)

    is_distribution = True
    """Whether its values are those of one distribution, and so within a target's bounds."""

    inverts = True
    """Whether a quantile is where its own weighted distribution function has the level."""

    def _inverted(self, target: Target, bars: ErrorBars, place: int) -> Inverted | None:
        """The distribution function around a quantile, with the error model's variance of it; None for others."""
        if not isinstance(target, Quantile) or np.ndim(self.weights) > 1 or not self.inverts:
            return None
        found = target.inverted(self.points, self._weights_for(target))
        variance, df = float(bars.covariance[place, place]) / found.slope() ** 2, float(bars.df[place])
        if self.errors is None:
            return found.known_to(Inversion(variance, df))
        below, given = found.below(target.components(self.points)[:, 0]), target.given(self.points)
        return found.known_to(self.errors.inversion(below, given, variance, df))

    def contributions(self, target: Target) -> FloatArray | None:
        """z of every accepted simulation, shape (n, m): the target's error is Σz to first order, its variance Σz².

        None where the error is not a sum over single simulations.
        """
        target = as_target(target)
        if self.errors is None:
            return None
        return self.errors.contributions(np.concatenate(self._influences((target,)), axis=-1))

    def _influences(self, targets: tuple[Target, ...]) -> list[FloatArray]:
        """ψ of each target at the points."""
        return [target.influence(self.points, self._weights_for(target)) for target in targets]

    def _estimate(
        self, target: Target, value: FloatArray, bars: ErrorBars, part: slice, inverted: Inverted | None
    ) -> Estimate:
        def shaped(array: FloatArray | BoolArray) -> Any:
            if target.scalar:
                array = array[..., 0]
            return array.item() if array.ndim == 0 else array

        doubts = [*self.doubts, *target.doubts(self.points, self.weights)]
        trusted = np.ones(bars.df.shape, dtype=bool)
        trusted &= not doubts
        warnings = [*doubts, *([target.note] if target.note else []), *target.remarks(self.points, self.weights)]
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
        number, error, df = (shaped(array) for array in (value, bars.standard_error[..., part], bars.df[..., part]))
        asymmetric = isinstance(number, float) and self.is_distribution
        limits = target.confidence_limits(number, error, df) if asymmetric else None
        return Estimate(
            name=target.name,
            value=number,
            standard_error=error,
            df=df,
            simulations=self.simulations,
            accepted=self.accepted,
            trusted=shaped(trusted[..., part]),
            warnings=tuple(warnings),
            labels=target.labels,
            inverted=limits if inverted is None else inverted,
            about=self.about,
            bounds=target.bounds if self.is_distribution else (-math.inf, math.inf),
            bias=0.0 if bars.bias is None else shaped(bars.bias[..., part]),
        )

    @property
    def _distribution(self) -> tuple[Points, FloatArray]:
        """The points and weights whose tails decide whether a quantile can be estimated."""
        return self.points, self.weights
