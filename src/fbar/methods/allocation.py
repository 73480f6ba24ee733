"""Simulate every parameter value a given number of times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, choice, distribution, numeric_array
from fbar.designs.allocation import RULES, largest_remainder, top_up
from fbar.errors import InputError
from fbar.estimators.cells import ActualCounts
from fbar.methods.base import ROUNDS, Method
from fbar.methods.cells import CellRun
from fbar.problem import Acceptance, Problem
from fbar.targets import Target, as_targets


def oracle_shares(rule: str, problem: Problem, targets: Sequence[Target]) -> FloatArray:
    """The shares of a rule of table 3 on a problem whose acceptance probabilities are known."""
    choice(rule, RULES, "allocation")
    prior = problem.finite.probabilities
    if rule == "prior":
        return prior
    if problem.p_star is None:
        raise InputError(
            f"the allocation {rule!r} needs acceptance probabilities that this problem does not know; "
            "use fbar.AdaptiveAllocation(), which learns them, or give the shares as numbers"
        )
    f = np.concatenate([target.components(problem.points) for target in targets], axis=1).T
    return RULES[rule](prior, problem.p_star, f)


@dataclass(frozen=True)
class Allocation(Method):
    """n_i simulations at θ_i, decided beforehand (section 2 of the paper).

    Parameters
    ----------
    shares
        n_i/N as numbers, as a mapping from the values of the only parameter, or as the name of a rule of
        table 3 where the acceptance probabilities are known: ``"prior"``, ``"posterior"``, ``"max-ess"``,
        ``"min-unnormalised-mse"``, ``"min-mse"``, ``"ibs"``, ``"max-acceptance"``.
    counts
        The n_i themselves, in place of shares and budget.
    floor
        Simulations that every value gets first; the shares divide what is left of the budget.
    rounds
        In how many parts the simulations are run; stopping rules are read in between.
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
            counts = numeric_array(self.counts, "counts")
            if counts.shape != (k,) or (counts < 0).any() or (counts != np.floor(counts)).any():
                raise InputError(f"counts must be {k} whole numbers of at least 0; got {self.counts!r}")
            if counts.sum() < 1:
                raise InputError("counts must hold at least one simulation; they are all 0")
            if budget is not None and budget != counts.sum():
                raise InputError(f"counts sum to {int(counts.sum())} and the budget is {budget}; leave one of them out")
            return counts.astype(np.int64)
        if budget is None:
            raise InputError("an allocation by shares needs a budget; give budget=")
        if self.floor < 0 or self.floor != int(self.floor):
            raise InputError(f"floor must be a whole number of at least 0; got {self.floor!r}")
        left = budget - k * self.floor
        if left < 0:
            raise InputError(
                f"budget must be at least {k * self.floor}, {self.floor} for each of {k} parameter values; got {budget}"
            )
        shares = self.shares
        if isinstance(shares, str):
            shares = oracle_shares(shares, problem, targets)
        elif isinstance(shares, Mapping):
            shares = self._by_value(shares, problem)
        return self.floor + largest_remainder(distribution(shares, k, "shares") * left)

    @staticmethod
    def _by_value(shares: Mapping[Any, float], problem: Problem) -> list[float]:
        names = problem.prior.names
        if len(names) != 1:
            raise InputError(f"shares by value need a single parameter; this prior has {len(names)}, give a list")
        values = problem.finite.points[names[0]].tolist()
        unknown = [value for value in shares if value not in values]
        if unknown:
            raise InputError(f"shares name {unknown[0]!r}, which is not a value of {names[0]!r}; its values: {values}")
        return [shares.get(value, 0.0) for value in values]

    def start(
        self,
        problem: Problem,
        targets: Target | Sequence[Target],
        seed: Any = None,
        budget: int | None = None,
        *,
        limit: int | None = None,
        trials: int | None = None,
        block_size: int | None = None,
    ) -> AllocationRun:
        budget = limit if budget is None and self.counts is None else budget
        return AllocationRun(self, problem, as_targets(targets), seed, budget, trials, block_size)


class AllocationRun(CellRun):
    def __init__(
        self,
        method: Allocation,
        problem: Problem,
        targets: tuple[Target, ...],
        seed: Any,
        budget: int | None,
        trials: int | None,
        block_size: int | None,
    ) -> None:
        if budget is None and method.counts is not None:
            budget = int(np.sum(method.counts))
        self._wanted: IntArray | None = None
        self._method = method
        super().__init__(
            problem,
            targets,
            seed,
            budget,
            limit=None,
            trials=trials,
            block_size=block_size,
            acceptance=Acceptance(method.tolerance, method.kernel),
            estimator=ActualCounts(),
            rounds=method.rounds,
            every_cell=method.counts is None and method.floor > 0,
        )

    def _round_counts(self, size: int) -> IntArray:
        if self._wanted is None:
            self._wanted = self._method.plan(self.problem, self.targets, self.budget)
        if self.rounds == 1:
            return np.broadcast_to(self._wanted, self.counts.shape)
        return top_up(self.counts, self._wanted / self._wanted.sum(), size)
