"""Simulations in this process, for vectorised simulators."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fbar.checks import instance
from fbar.engine.attempt import attempt_block
from fbar.engine.base import Engine, Session
from fbar.engine.recovery import recover_here
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed
from fbar.system.keeping import close_idle


def simulate(problem: Problem, batch: Batch) -> Outcomes:
    """Run one block. A row that fails is a failed simulation, also where its simulator failed for the whole block."""
    instance(problem, Problem, "problem", "an fbar.Problem")
    instance(batch, Batch, "batch", "one that a run asked for, run.ask()[0]")
    outcomes = attempt_block(problem, batch)
    return recover_here(problem, batch, outcomes) if isinstance(outcomes, RowFailed) else outcomes


class InProcess(Engine):
    """Runs blocks one after the other, in this process."""

    def session(self, problem: Problem) -> Session:
        return _InProcessSession(problem)


class _InProcessSession(Session):
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._waiting: deque[Batch] = deque()

    def submit(self, batches: Sequence[Batch]) -> None:
        self._waiting.extend(batches)

    def collect(self) -> list[tuple[Batch, Outcomes]]:
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        return [(batch, simulate(self._problem, batch))]

    def close(self) -> None:
        close_idle()
