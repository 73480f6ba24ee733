"""Allocations (sections 2 and S4.1): simulate every parameter value a given number of times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.arrays import FloatArray, IntArray, distribution, numeric_array
from fbar.checks import choice, shown
from fbar.designs.allocation import RULES, largest_remainder, top_up
from fbar.errors import InputError
from fbar.estimation.cells import ActualCounts
from fbar.methods.finite.cells import CellRun
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.run import ROUNDS
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.problem import Problem
from fbar.question.targets import Target


def oracle_shares(rule: str, problem: Problem, targets: Sequence[Target]) -> FloatArray:
    """The shares of a rule of table 3 on a problem whose acceptance probabilities are known."""
    choice(rule, RULES, "allocation")
    prior = problem.finite.probabilities
    if rule == "prior":
        return prior
    if problem.p_star is None:
        raise InputError(
            f"the allocation {shown(rule)} needs known acceptance probabilities, which this problem does not have; "
            "use fbar.AdaptiveAllocation(), which learns them, or give the shares as numbers"
        )
    # ψ has posterior mean zero, so that it takes the place of f; several targets are scaled as they are in
    # the adaptive allocation.
    points, weights = problem.points, theory.posterior(prior, problem.p_star)
    influences = [target.influence(points, weights) for target in targets]
    scale = importance(influences, weights)
    psi = np.concatenate([np.sqrt(c) * influence for c, influence in zip(scale, influences, strict=True)], axis=1)
    return RULES[rule](prior, problem.p_star, psi.T)


def importance(influences: Sequence[FloatArray], weights: FloatArray) -> list[FloatArray]:
    """c_j for each target: 1/Var(ψ_j) with several targets, 1 with one; shape (..., 1, 1) each."""
    if len(influences) == 1:
        return [np.ones((1, 1))]
    scale = [(weights[..., None] * influence**2).sum(axis=(-2, -1))[..., None, None] for influence in influences]
    return [np.where(s > 0, 1 / np.where(s > 0, s, 1.0), 0.0) for s in scale]


@register("allocation-prior", "simulations in proportion to the prior", needs="a finite prior")
@dataclass(frozen=True)
class Allocation(Method):
    """n_i simulations at θ_i, decided in advance (section 2 of the paper).

    Parameters
    ----------
    shares
        n_i/N as numbers, as a mapping from the values of the only parameter, or as the name of a rule of
        table 3 where the acceptance probabilities are known: ``"prior"``, ``"posterior"``, ``"max-ess"``,
        ``"min-unnormalised-mse"``, ``"min-mse"``, ``"ibs"``, ``"max-acceptance"``.
    counts
        The n_i themselves, instead of shares and budget.
    floor
        Simulations that every value gets first; the shares divide what is left of the budget.
    rounds
        The number of parts in which the simulations are run; stopping rules are checked in between.
    tolerance, kernel
        When a simulation is accepted, see `Acceptance`.
    """

    shares: str | Sequence[float] | Mapping[Any, float] | npt.NDArray[np.float64] = "prior"
    counts: Sequence[int] | npt.NDArray[np.int64] | None = None
    floor: int = 1
    rounds: int = ROUNDS
    tolerance: float = 0.0
    kernel: str = "uniform"

    def plan(self, problem: Problem, targets: Sequence[Target], budget: int | None) -> IntArray:
        """The whole numbers n_i."""
        k = problem.finite.size
        if self.counts is not None:
            counts = self.whole_counts(k)
            if budget is not None and budget != counts.sum():
                raise InputError(f"counts sum to {counts.sum()} and the budget is {budget}; leave one of them out")
            return counts
        if budget is None:
            raise InputError("an allocation by shares needs a budget; give one (budget=, --budget)")
        left = budget - k * self.floor
        if left < 0:
            raise InputError(
                f"budget must be at least {k * self.floor}, {self.floor} for each of {k} parameter values; got {budget}"
            )
        return self.floor + largest_remainder(self.wanted_shares(problem, targets) * left)

    @property
    def ends_by_itself(self) -> bool:
        return self.counts is not None

    def check_floor(self) -> None:
        if isinstance(self.floor, bool) or not isinstance(self.floor, int) or self.floor < 0:
            raise InputError(f"floor must be a whole number of at least 0; got {shown(self.floor)}")

    def whole_counts(self, k: int) -> IntArray:
        counts = numeric_array(self.counts, "counts")
        good = counts.shape == (k,) and np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() >= 1
        if not good or (counts != np.floor(counts)).any():
            raise InputError(f"counts must be {k} whole numbers of at least 0, not all 0; got {shown(self.counts)}")
        return counts.astype(np.int64)

    def wanted_shares(self, problem: Problem, targets: Sequence[Target]) -> FloatArray:
        """n_i/N of what lies above the floor."""
        shares = self.shares
        if isinstance(shares, str):
            shares = oracle_shares(shares, problem, targets)
        elif isinstance(shares, Mapping):
            shares = self._by_value(shares, problem)
        return distribution(shares, problem.finite.size, "shares")

    @staticmethod
    def _by_value(shares: Mapping[Any, float], problem: Problem) -> list[float]:
        names = problem.prior.names
        if len(names) != 1:
            raise InputError(f"shares by value need a single parameter; this prior has {len(names)}, give a list")
        values = problem.finite.points[names[0]].tolist()
        unknown = [value for value in shares if value not in values]
        if unknown:
            raise InputError(
                f"shares name {shown(unknown[0])}, which is not a value of {shown(names[0])}; its values: {values}"
            )
        return [shares.get(value, 0.0) for value in values]

    def begin(self, start: Start) -> AllocationRun:
        self.check_floor()
        if start.budget is None and self.counts is not None:
            start = replace(start, budget=int(self.whole_counts(start.problem.finite.size).sum()))
        return AllocationRun(self, start)


class AllocationRun(CellRun):
    words = "value by value, in shares decided beforehand"

    def __init__(self, method: Allocation, start: Start) -> None:
        self._wanted: IntArray | None = None
        self._method = method
        super().__init__(
            start,
            acceptance=Acceptance(method.tolerance, method.kernel),
            estimator=ActualCounts(),
            rounds=method.rounds,
            every_cell=method.counts is None and method.floor > 0,
        )

    def _round_counts(self, size: int) -> IntArray:
        if self.budget is None:
            # Without a budget the rounds grow and follow the shares, after the floor.
            shares = self._method.wanted_shares(self.problem, self.targets)
            floor = np.minimum(self._method.floor, 0 if self.round else size // shares.size)
            first = np.full(shares.size, floor)
            return first + top_up(self.counts + first, shares, size - int(first.sum()))
        if self._wanted is None:
            self._wanted = self._method.plan(self.problem, self.targets, self.budget)
        if self.rounds == 1:
            return np.broadcast_to(self._wanted, self.counts.shape)
        return top_up(self.counts, self._wanted / self._wanted.sum(), size)


register("allocation-posterior", "simulations in proportion to the true posterior, if known", needs="a finite prior")(
    partial(Allocation, "posterior")
)
register("allocation-max-ess", "the allocation with the largest ESS, if known", needs="a finite prior")(
    partial(Allocation, "max-ess")
)
register("allocation-optimal", "the allocation with the smallest mean squared error, if known", needs="a finite prior")(
    partial(Allocation, "min-mse")
)
