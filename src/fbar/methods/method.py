"""A method: an algorithm's settings, from which runs are started."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from fbar.checks import instance, positive_integer
from fbar.errors import InputError
from fbar.methods.run import Run
from fbar.methods.start import Start
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.seeds import Seeds


@dataclass(frozen=True)
class Method(ABC):
    """An algorithm's settings: only the fields of a frozen dataclass."""

    @property
    def ends_by_itself(self) -> bool:
        """Whether its runs end without a budget or a stopping rule."""
        return False

    @property
    def final_tolerance(self) -> float | None:
        """The tolerance its runs end at; None if that is left open."""
        return self._settings().get("tolerance")

    @property
    def has_tolerance(self) -> bool:
        """Whether a tolerance is among its settings."""
        return "tolerance" in self._settings()

    @property
    def chooses_tolerance(self) -> bool:
        """Whether its tolerance is left open: its runs choose one from the budget, or answer at the data."""
        return False

    @property
    def may_stop_short(self) -> bool:
        """Whether its runs come as close to their final tolerance as the budget allows, and may end above it."""
        return False

    def answers_at_data(self, problem: Problem) -> bool:
        """Whether its runs of a problem answer at the data, see `fbar.estimation.at_data`."""
        return False

    def for_problem(self, problem: Problem) -> Self:
        """The method with the tolerance that it has for a problem, where none was given and only one is possible."""
        return self

    def at_tolerance(self, tolerance: float) -> Self:
        """The method with another tolerance, at which its runs end."""
        if not self.has_tolerance:
            raise InputError(f"{type(self).__name__} has no tolerance")
        return replace(self, **{"tolerance": tolerance})

    def _settings(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @abstractmethod
    def begin(self, start: Start) -> Run:
        """Make a run from what ``start`` has checked; what a method fills in."""

    def start(
        self,
        problem: Problem,
        targets: Target | str | Sequence[Target | str],
        seed: Any = None,
        budget: int | None = None,
        *,
        limit: int | None = None,
        trials: int | None = None,
        block_size: int | None = None,
        at_data: bool = True,
        learns: bool = True,
    ) -> Run:
        """Begin a run.

        Parameters
        ----------
        seed
            An integer; the same seed gives the same result. None for a new one.
        budget
            The number of simulations to plan for and to run.
        limit
            Without a budget: the number of simulations never to exceed, in rounds that grow, for runs that
            a stopping rule ends.
        trials
            Run this many independent trials at once, as a leading axis of every array; for problems with tabulated
            probabilities.
        block_size
            Simulations in a block. Another size gives different numbers, even with the same seed.
        at_data
            False for a run of before there were answers at the data: without a tolerance, it has ABC's posterior at the
            smallest tolerance that it comes to.
        learns
            Whether an answer at the data may learn summaries where the data are many numbers.
        """

        instance(problem, Problem, "problem", "an fbar.Problem")

        def whole(value: int | None, name: str) -> int | None:
            return None if value is None else positive_integer(value, name)

        return self.begin(
            Start(
                problem,
                problem.posed(targets),
                Seeds.of(seed),
                whole(budget, "budget"),
                whole(limit, "limit"),
                whole(trials, "trials"),
                whole(block_size, "block_size"),
                at_data and trials is None and self.answers_at_data(problem),
                learns,
            )
        )
