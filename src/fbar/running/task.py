"""What is asked, checked: everything that decides a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fbar.checks import non_negative_number, positive_integer, shown
from fbar.errors import InputError
from fbar.ledger.settings import describe
from fbar.methods import AdaptiveAllocation, Method, Run, Targeted
from fbar.methods.registry import as_method
from fbar.methods.stopping import StoppingRule, as_rule, require_rule
from fbar.methods.summaries import LearnedProblem
from fbar.question.problem import Problem
from fbar.question.targets import AnyTargets, Target, as_targets
from fbar.running.summaries import LearnedSummaries
from fbar.seeds import Seeds

NO_SUMMARIES = "none"
"""Instead of summaries: that none are to be learned."""

MOST_SIMULATIONS = 10_000_000
"""Where a run with a stopping rule and no budget ends at the latest."""


@dataclass(frozen=True)
class Lesson:
    """Summaries to be learned, their pilot's size decided, and the targets that they are for."""

    summaries: LearnedSummaries
    targets: tuple[Target, ...]

    @property
    def simulations(self) -> int:
        assert self.summaries.simulations is not None
        return self.summaries.simulations

    def settings(self) -> dict[str, Any]:
        return {**describe(self.summaries), "targets": [target.name for target in self.targets]}


@dataclass(frozen=True)
class Task:
    """Everything that decides a result, checked.

    With a ``lesson``, summaries are learned before the method starts: ``learned`` is the problem with them. Budget and
    limit count the pilot's simulations too.
    """

    problem: Problem
    targets: tuple[Target, ...]
    method: Method
    budget: int | None
    limit: int | None
    stop: StoppingRule | None
    block_size: int | None
    lesson: Lesson | None = None
    learned: LearnedProblem | None = None
    exact: bool = False
    """Whether the data are to be matched exactly because no tolerance was given."""
    at_data: bool = True
    """Whether a method without a tolerance answers at the data.

    Not where the tolerance 0 is asked for by name, and not in runs of earlier versions, which have ABC's posterior.
    """

    learns: bool = True
    """Whether an answer at the data may learn summaries where the data are many numbers."""

    @property
    def answers_at_data(self) -> bool:
        """Whether the answer is about the posterior itself, and not ABC's at a tolerance."""
        return self.at_data and self.method.answers_at_data(self.problem)

    def start(self, seed: Any) -> Run:
        return self.method.start(
            self.learned or self.problem,
            self.targets,
            seed,
            self.left_of(self.budget),
            limit=self.left_of(self.limit),
            block_size=self.block_size,
            at_data=self.at_data,
            learns=self.learns,
        )

    def left_of(self, simulations: int | None) -> int | None:
        """What the pilot leaves of a budget or limit to the method."""
        if simulations is None or self.lesson is None:
            return simulations
        left = simulations - self.lesson.simulations
        if left < 1:
            raise InputError(
                f"the pilot's {self.lesson.simulations} simulations use up the budget of {simulations}; raise "
                "the budget"
            )
        return left

    def settings(self, seeds: Seeds) -> dict[str, Any]:
        """The task as JSON."""
        return {
            "problem": describe(self.problem),
            "targets": [target.name for target in self.targets],
            "method": describe(self.method),
            "at_data": self.answers_at_data,
            "budget": self.budget,
            "limit": self.limit,
            "stop": describe(self.stop),
            "block_size": self.block_size,
            **seeds.settings(),
            **({} if self.lesson is None else {"summaries": self.lesson.settings()}),
            **({} if self.learns else {"learns": False}),
        }


def make_task(
    problem: Problem,
    targets: AnyTargets,
    *,
    method: Method | str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    block_size: int | None = None,
    summaries: LearnedSummaries | str | Lesson | None = None,
) -> Task:
    """Check what is asked, and choose what was left open."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be an fbar.Problem; got {shown(problem)}")
    if method is None:
        method = AdaptiveAllocation() if problem.is_finite else Targeted()
    method = as_method(method)
    if tolerance is not None:
        method = method.at_tolerance(non_negative_number(tolerance, "tolerance"))
    method = method.for_problem(problem)
    listed = as_targets(targets)
    budget = None if budget is None else positive_integer(budget, "budget")
    if precision is not None and stop is not None:
        raise InputError("give either precision= or stop=, not both")
    if precision is not None:
        stop = as_rule(precision, listed)
    if budget is None and stop is None and not method.ends_by_itself:
        raise InputError(
            "nothing ends this run: give a budget (budget=, --budget) or a precision (precision=, --precision)"
        )
    limit, before = None, method
    if stop is not None and budget is None and require_rule(stop).limit is None:
        method = _with_tolerance(method, problem)
    if stop is not None:
        limit = min(n for n in (budget, require_rule(stop).limit, MOST_SIMULATIONS) if n is not None)
        budget = None
    lesson: Lesson | None = None
    learns = not (isinstance(summaries, str) and summaries == NO_SUMMARIES)
    if isinstance(summaries, Lesson):
        lesson = summaries
    elif summaries is not None and learns:
        lesson = _lesson(LearnedSummaries.of(summaries), problem, listed, method, budget or limit)
    return Task(
        problem,
        listed,
        method,
        budget,
        limit,
        stop,
        block_size,
        lesson,
        exact=method is not before,
        at_data=tolerance is None,
        learns=learns,
    )


def _with_tolerance(method: Method, problem: Problem) -> Method:
    """Without a budget there is nothing to choose a tolerance from: whole numbers and labels are matched exactly.

    An answer at the data needs none.
    """
    if not method.chooses_tolerance or not problem.has_summaries:
        return method
    if problem.is_finite or method.answers_at_data(problem):
        return method
    if problem.observed is not None and problem.observed.dtype.kind == "f":
        raise InputError(
            "a precision is reached at a tolerance: give how close simulations must come to the data (tolerance=, "
            "--tolerance), or a budget (budget=, --budget) from which it is chosen"
        )
    return method.at_tolerance(0.0)


def _lesson(
    summaries: LearnedSummaries, problem: Problem, targets: tuple[Target, ...], method: Method, most: int | None
) -> Lesson:
    """Summaries for a problem, with the size of their pilot."""
    summaries.check(problem)
    if method.final_tolerance == 0 and not method.may_stop_short:
        raise InputError(
            "learned summaries never match exactly: give a tolerance (tolerance=, --tolerance), in units of about a "
            "posterior standard deviation, such as 0.5"
        )
    most = None if most is None else positive_integer(most, "budget")
    return Lesson(replace(summaries, simulations=summaries.size(problem, most)), targets)
