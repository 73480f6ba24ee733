"""Multilevel estimates of ABC's posterior: a telescoping sum over falling tolerances (Warne, Baker & Simpson 2018).

With ε₀ > … > ε_L and E_l the expectation under ABC's posterior at ε_l,

    E_L[f] = E₀[f] + Σ_l (E_l[f] − E_{l−1}[f]),    l = 1, …, L.

Level l has N_l accepted draws θ_l, each with a partner θ̃_{l−1} that stands for a draw of the level above:

    θ̃_{l−1,j} = Ĝ_{l−1,j}⁻¹(F̂_{l,j}(θ_{l,j})),

F̂_{l,j} the distribution function of coordinate j over the draws of level l, and Ĝ_{l−1,j} the multilevel estimate of
that of level l − 1, made monotone. The term of a level is the mean of f(θ_l) − f(θ̃_{l−1}), and the published variance
is Σ v_l/N_l, v_l the variance of these differences. As weighted points: the draws have the weights +1/N_l, the partners
−1/N_l. Coordinates are those of the prior's unit cube. For parameters that are independent in the prior this changes
nothing: partners are order statistics, which a monotone map does not change.

**What the coupling does.** F̂_l maps the N_l draws to the levels (i − ½)/N_l whatever they are, so that the mean of a
function of one parameter over the partners is a quadrature of Ĝ_{l−1}: it cancels against the sum up to level l − 1.
What is left is the mean over the draws of the last level, whose variance is σ²/N_L and not Σ v_l/N_l. For a function of
several parameters, the partners have the marginals of level l − 1 and the dependence of level l, and the terms that
should cancel differ by

    D = f̂ − mean of f(θ_L),

which does not vanish with more simulations: the bias of the coupling.

**Error bars** are those of a jackknife that leaves out a group of a level's draws and couples again, so that they have
the error of F̂ and Ĝ too. D, beyond its own error, is added as bias, and estimates are flagged where it is clear, and
where it could not be: for functions of several parameters the error of D is as large as that of f̂.

Warne, Baker & Simpson, Comput. Statist. Data Anal. 124 (2018) 71.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError
from fbar.estimation.doubts import FEW_ACCEPTED
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.question.targets.quantiles import Quantile
from fbar.weights import monotone, monotone_weights

GROUPS = 16
"""Groups of a level's draws that the jackknife leaves out, one after the other."""

BEYOND_CHANCE = 3.0
"""Standard errors of D beyond which it is not chance."""

NOTICEABLE = 0.25
"""The part of a standard error below which a bias is of no account."""

LOOSE = 0.8
"""The part of a standard error that the error of D may be: that of a function of several parameters is all of it."""

ERROR_BARS = ("jackknife", "published")

BIASED_COUPLING = (
    "the coupling of the levels is biased for this target: the multilevel sum differs from the average over the last "
    "level by more than chance; use weights='mixture'"
)
LOOSELY_COUPLED = (
    "the levels are coupled so loosely for this target that a bias of the coupling may not be noticed; use "
    "weights='mixture'"
)
NOT_THE_COUPLING = (
    "the published error bars leave out the error of the distribution functions that couple the levels; use "
    "error_bars='jackknife'"
)
FEW_IN_A_LEVEL = f"a level has fewer than {FEW_ACCEPTED} accepted simulations"
ALL_THE_SAME = "the accepted simulations all give the same value of this target, so its error is unknown"
OUTSIDE = "the signed weights give a value that this target cannot have"

Psi = Callable[[Points], FloatArray]


@dataclass(frozen=True, eq=False)
class MarginalEstimate:
    """Ĝ of one coordinate: its values in rising order, their signed weights, and the monotone distribution function."""

    x: FloatArray
    weights: FloatArray
    upto: FloatArray

    @staticmethod
    def of(x: FloatArray) -> MarginalEstimate:
        """Ĝ₀, of equally weighted draws."""
        each = np.full(x.size, 1 / x.size)
        return MarginalEstimate(np.sort(x), each, np.cumsum(each))

    def next(self, draws: FloatArray) -> tuple[FloatArray, MarginalEstimate]:
        """The partners of a level's draws, which are some of the values, and Ĝ with this level."""
        n, order = draws.size, np.argsort(draws, kind="stable")
        at = np.searchsorted(self.upto, (np.arange(n) + 0.5) / n, side="left")
        at = np.minimum(at, self.x.size - 1)  # rounding may leave the last Ĝ below the last level
        partners = np.empty(n)
        partners[order] = self.x[at]
        less = self.weights - np.bincount(at, minlength=self.x.size) / n
        rising = draws[order]
        place = np.searchsorted(self.x, rising)
        weights = np.insert(less, place, 1 / n)
        return partners, MarginalEstimate(np.insert(self.x, place, rising), weights, monotone(np.cumsum(weights)))


def first_marginals(draws: FloatArray) -> tuple[MarginalEstimate, ...]:
    """Ĝ₀ of every coordinate."""
    return tuple(MarginalEstimate.of(column) for column in draws.T)


def next_level(
    before: Sequence[MarginalEstimate], draws: FloatArray
) -> tuple[FloatArray, tuple[MarginalEstimate, ...]]:
    """The partners of a level's draws, and Ĝ with this level."""
    found = [marginal.next(column) for marginal, column in zip(before, draws.T, strict=True)]
    return np.stack([partners for partners, _ in found], axis=1), tuple(after for _, after in found)


class Coupling:
    """The draws of all levels with their partners; ``marginals[l]`` are the Ĝ_l."""

    def __init__(self, draws: Sequence[FloatArray]) -> None:
        self.draws = tuple(draws)
        self.marginals = [first_marginals(draws[0])]
        self.partners: list[FloatArray] = []
        for own in draws[1:]:
            partners, after = next_level(self.marginals[-1], own)
            self.partners.append(partners)
            self.marginals.append(after)

    def without(self, level: int, kept: IntArray) -> list[FloatArray]:
        """The partners of this level's draws and of those below, if a level had only the draws ``kept``."""
        own = self.draws[level][kept]
        if level == 0:
            partners, marginals = [], first_marginals(own)
        else:
            first, marginals = next_level(self.marginals[level - 1], own)
            partners = [first]
        for draws in self.draws[level + 1 :]:
            further, marginals = next_level(marginals, draws)
            partners.append(further)
        return partners


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The estimates without a group of draws: ``values`` and ``differences`` D of each, and the groups' ``levels``."""

    values: FloatArray
    differences: FloatArray
    levels: IntArray

    @staticmethod
    def _covariance(x: FloatArray) -> FloatArray:
        """(g − 1)/g Σ (x − x̄)(x − x̄)ᵀ over the g groups of a level."""
        away = x - x.mean(axis=0)
        return np.asarray((len(x) - 1) / len(x) * (away.T @ away))

    def covariances(self) -> tuple[FloatArray, FloatArray]:
        """Those that each level adds to the estimates and to D, shape (levels, m, m)."""
        parts = [self.levels == level for level in np.unique(self.levels)]
        of_values = np.array([self._covariance(self.values[part]) for part in parts])
        return of_values, np.array([self._covariance(self.differences[part]) for part in parts])


class LevelErrors(ErrorModel):
    """The published error bars: Σ v_l/N_l, v_l the variance of the differences of a level.

    ``sizes`` are the N_l. The points are the draws of all levels, and then the partners of all but the first.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)

    def differences(self, influence: FloatArray) -> list[FloatArray]:
        """ψ(θ₀), and ψ(θ_l) − ψ(θ̃_{l−1}) of the other levels."""
        ends = np.cumsum([*self.sizes, *self.sizes[1:]])
        parts = np.split(influence, ends[:-1])
        draws, partners = parts[: len(self.sizes)], parts[len(self.sizes) :]
        return [draws[0], *(own - other for own, other in zip(draws[1:], partners, strict=True))]

    def variances(self, influence: FloatArray) -> FloatArray:
        """v_l, shape (levels, m)."""
        return np.array([part.var(axis=0, ddof=1 if len(part) > 1 else 0) for part in self.differences(influence)])

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        size = influence.shape[1]
        parts = [
            np.atleast_2d(np.cov(part.T)) / len(part) if len(part) > 1 else np.zeros((size, size))
            for part in self.differences(influence)
        ]
        df = _satterthwaite(np.array([np.diagonal(part) for part in parts]), np.array(self.sizes) - 1)
        return ErrorBars(np.sum(parts, axis=0), df, ((np.ones(size, dtype=bool), NOT_THE_COUPLING),))


def _satterthwaite(variances: FloatArray, df: IntArray) -> FloatArray:
    """The degrees of freedom of a sum of variances (levels, m) of ``df`` degrees each."""
    total = variances.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = total**2 / (variances**2 / np.maximum(df, 1)[:, None]).sum(axis=0)
    return np.where(np.isfinite(found), found, 1.0)


class TelescopingPosterior(Posterior):
    """Signed weighted points of a multilevel sum.

    Parameters
    ----------
    draws
        The accepted draws of each level in the prior's unit coordinates, shape (N_l, dimension).
    simulations
        How many simulations were run, those of the pilot included.
    error_bars
        ``"jackknife"`` or ``"published"``.
    """

    inverts = False
    parts_in_words = "accepted simulations and their partners"

    def __init__(
        self, problem: Problem, draws: Sequence[FloatArray], simulations: int, error_bars: str = "jackknife"
    ) -> None:
        self.problem, self.coupling = problem, Coupling(draws)
        self._published = error_bars == "published"
        sizes = [len(own) for own in draws]
        each = np.repeat(1 / np.array([*sizes, *sizes[1:]]), [*sizes, *sizes[1:]])
        each[sum(sizes) :] *= -1
        self._levels = LevelErrors(sizes)
        super().__init__(
            self._points_at([*draws, *self.coupling.partners]), each, self._levels, simulations, float(sum(sizes))
        )

    def in_words(self) -> str:
        sizes = self._levels.sizes
        return (
            f"{sum(sizes):,} accepted of {int(self.simulations):,} simulations on "
            f"{len(sizes)} {'level' if len(sizes) == 1 else 'levels'} ({', '.join(f'{size:,}' for size in sizes)})"
        )

    def _points_at(self, unit: Sequence[FloatArray]) -> Points:
        return self.problem.prior.from_unit(np.concatenate(unit)).with_derived(self.problem.derived)

    @property
    def last_level(self) -> tuple[Points, FloatArray]:
        """The draws of the last level, equally weighted: plain rejection sampling at its tolerance."""
        size, last = self._levels.sizes[-1], sum(self._levels.sizes)
        return self.points.take(np.arange(last - size, last)), np.full(size, 1 / size)

    @property
    def _distribution(self) -> tuple[Points, FloatArray]:
        return self.last_level

    @cached_property
    def pictured(self) -> Posterior:
        """The draws of the last level: nothing can be drawn from signed weights."""
        points, weights = self.last_level
        found = Posterior(points, weights, None, self.simulations, float(weights.size))
        found.about = self.about
        return found

    # ------------------------------------------------------------ values

    def _weights_for(self, target: Target) -> FloatArray:
        """The signed weights; for a quantile those of the distribution function made monotone."""
        if isinstance(target, Quantile):
            return monotone_weights(target.components(self.points)[:, 0], self.weights)
        check_signed(target)
        return self.weights

    def value(self, target: Target) -> FloatArray:
        """The target's value under the signed weights, within the limits of what it can be."""
        if len(target.parts) > 1:
            return np.concatenate([self.value(part) for part in target.parts], axis=-1)
        with np.errstate(invalid="ignore"):
            found = target.value(self.points, self._weights_for(target))
        low, high = target.limits(self.points)
        return np.asarray(np.clip(found, low, high))

    def _influences(self, targets: tuple[Target, ...]) -> list[FloatArray]:
        return [psi(self.points) for psi in self._functions(targets)]

    def _functions(self, targets: Sequence[Target]) -> list[Psi]:
        return [target.psi(self.points, self._weights_for(target)) for target in targets]

    def variances(self, targets: Sequence[Target]) -> FloatArray:
        """v_l of numbers, each relative to its variance at the last level: shape (levels, m)."""
        last = self.last_level
        influence = np.concatenate([target.psi(*last)(self.points) for target in targets], axis=-1)
        found = self._levels.variances(influence)
        rows = np.arange(sum(self._levels.sizes) - self._levels.sizes[-1], sum(self._levels.sizes))
        scale = influence[rows].var(axis=0)
        return np.asarray(found[:, scale > 0] / scale[scale > 0])

    # ------------------------------------------------------------ error bars

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        with np.errstate(invalid="ignore", divide="ignore"):
            functions = self._functions(targets)
            influence = np.concatenate([psi(self.points) for psi in functions], axis=-1)
        few = np.full(influence.shape[1], min(self._levels.sizes) < FEW_ACCEPTED)
        bars = self._levels.error_bars(influence) if self._published else self._jackknifed(influence, functions)
        outside = np.concatenate([self._outside(target) for target in targets])
        known = ((few, FEW_IN_A_LEVEL), (~(bars.standard_error > 0), ALL_THE_SAME), (outside, OUTSIDE))
        return ErrorBars(bars.covariance, bars.df, (*known, *bars.doubts), bars.bias)

    def _outside(self, target: Target) -> FloatArray:
        """Which numbers had to be moved to where they can be, or are no numbers."""
        with np.errstate(invalid="ignore"):
            plain = target.value(self.points, self._weights_for(target))
        return np.asarray(self.value(target) != plain)

    def _jackknifed(self, influence: FloatArray, functions: Sequence[Psi]) -> ErrorBars:
        found = self._left_out(influence, functions)
        if not found.levels.size:  # every level has one draw
            size = influence.shape[1]
            return ErrorBars(np.zeros((size, size)), np.ones(size))
        parts, of_difference = found.covariances()
        value, last = self._sums(influence)
        difference, variance = value - last, np.maximum(np.diagonal(of_difference.sum(axis=0)), 0.0)
        covariance = parts.sum(axis=0)
        error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        biased = (np.abs(difference) > BEYOND_CHANCE * np.sqrt(variance)) & (np.abs(difference) > NOTICEABLE * error)
        loose = ~biased & (np.sqrt(variance) > LOOSE * error)
        bias = np.sign(difference) * np.sqrt(np.maximum(difference**2 - variance, 0.0))
        groups = np.array([np.count_nonzero(found.levels == level) for level in np.unique(found.levels)])
        df = _satterthwaite(np.array([np.diagonal(part) for part in parts]), groups - 1)
        return ErrorBars(
            covariance + np.outer(bias, bias), df, ((biased, BIASED_COUPLING), (loose, LOOSELY_COUPLED)), np.abs(bias)
        )

    def _sums(self, influence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ w ψ, and the mean of ψ over the draws of the last level."""
        last = sum(self._levels.sizes)
        own = influence[last - self._levels.sizes[-1] : last]
        return (self.weights[:, None] * influence).sum(axis=0), own.mean(axis=0)

    def _left_out(self, influence: FloatArray, functions: Sequence[Psi]) -> Jackknife:
        """Every level couples again without each of its groups; ψ is that of all draws."""
        sizes = self._levels.sizes
        parts = np.split(influence, np.cumsum([*sizes, *sizes[1:]])[:-1])
        draws, partners = parts[: len(sizes)], parts[len(sizes) :]
        own, other = [part.mean(axis=0) for part in draws], [part.mean(axis=0) for part in partners]
        values, differences, levels = [], [], []
        for level, size in enumerate(sizes):
            groups = np.arange(size) % GROUPS
            kept = [np.flatnonzero(groups != group) for group in range(min(GROUPS, size) if size > 1 else 0)]
            moved = [self.coupling.without(level, rows) for rows in kept]
            means = iter(self._means(functions, [unit for units in moved for unit in units]))
            for rows, units in zip(kept, moved, strict=True):
                without = [draws[level][rows].mean(axis=0) if k == level else mean for k, mean in enumerate(own)]
                there = other[: len(other) - len(units)] + [next(means) for _ in units]
                values.append(np.sum(without, axis=0) - (np.sum(there, axis=0) if there else 0.0))
                differences.append(values[-1] - without[-1])
                levels.append(level)
        return Jackknife(np.array(values), np.array(differences), np.array(levels, dtype=np.int64))

    def _means(self, functions: Sequence[Psi], units: Sequence[FloatArray]) -> list[FloatArray]:
        """The means of ψ over sets of points."""
        if not units:
            return []
        points = self._points_at(units)
        found = np.concatenate([psi(points) for psi in functions], axis=-1)
        starts = np.cumsum([0, *(len(unit) for unit in units)])
        return [found[low:high].mean(axis=0) for low, high in pairwise(starts.tolist())]


def check_signed(target: Target) -> None:
    """Refuse a target that needs a density, which signed weights do not give."""
    if not target.smooth and not all(isinstance(part, Quantile) for part in target.parts):
        raise InputError(
            f"{target.name} needs a density, and the signed weights of a multilevel sum do not give one; use "
            "fbar.Multilevel(weights='mixture')"
        )
