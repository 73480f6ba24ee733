"""What is asked, checked: everything that decides a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fbar.checks import non_negative_number
from fbar.errors import InputError
from fbar.methods import AdaptiveAllocation, Method, Rejection, Run
from fbar.methods.named import as_method, at_tolerance
from fbar.priors import Finite
from fbar.problem import Problem
from fbar.seeds import Seeds
from fbar.settings import describe
from fbar.stopping import StoppingRule, as_rule, require_rule
from fbar.targets import Target, as_targets

MOST_SIMULATIONS = 10_000_000
"""Where a run ends at the latest that was given a stopping rule and no budget."""


@dataclass(frozen=True)
class Task:
    """Everything that decides a result, checked."""

    problem: Problem
    targets: tuple[Target, ...]
    method: Method
    budget: int | None
    limit: int | None
    stop: StoppingRule | None
    block_size: int | None

    def start(self, seed: Any) -> Run:
        return self.method.start(
            self.problem, self.targets, seed, self.budget, limit=self.limit, block_size=self.block_size
        )

    def settings(self, seeds: Seeds) -> dict[str, Any]:
        """The task as JSON."""
        return {
            "problem": describe(self.problem),
            "targets": [target.name for target in self.targets],
            "method": describe(self.method),
            "budget": self.budget,
            "limit": self.limit,
            "stop": describe(self.stop),
            "block_size": self.block_size,
            "seed": str(seeds.entropy),
        }


def make_task(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    method: Method | str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    block_size: int | None = None,
) -> Task:
    """Check what is asked, and choose what was left open."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be an fbar.Problem; got {problem!r}")
    if method is None:
        method = AdaptiveAllocation() if isinstance(problem.prior, Finite) else Rejection()
    method = as_method(method)
    if tolerance is not None:
        method = at_tolerance(method, non_negative_number(tolerance, "tolerance"))
    listed = as_targets(targets)
    if precision is not None and stop is not None:
        raise InputError("give either precision= or stop=, not both")
    if precision is not None:
        stop = as_rule(precision, listed)
    if budget is None and stop is None and not method.ends_by_itself:
        raise InputError("say when to stop: give a budget (budget=, --budget) or a precision (precision=, --precision)")
    if stop is None:
        return Task(problem, listed, method, budget, None, None, block_size)
    limits = [n for n in (budget, require_rule(stop).limit, MOST_SIMULATIONS) if n is not None]
    return Task(problem, listed, method, None, min(limits), stop, block_size)
