"""What a worker does: simulate the blocks of a job, within its time limits."""

from __future__ import annotations

import pickle
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FrameType
from typing import Any

from fbar.engine.in_process import simulate, simulate_row
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.outcomes import Batch, Failure, Outcomes
from fbar.problem import Problem
from fbar.simulators import Bernoulli, Row, RowFailed, Rows, Tabulated, each, measured

AGAIN = 1.0
"""Seconds after which a time limit that the simulator has swallowed strikes again."""


@dataclass(frozen=True)
class Job:
    """What travels to a worker: a bundle of blocks, or one row of a block."""

    blocks: tuple[Batch, ...]
    row: int | None = None

    @property
    def simulations(self) -> int:
        return 1 if self.row is not None else sum(batch.simulations for batch in self.blocks)


@dataclass(frozen=True)
class Report:
    """What comes back: an answer for each block, or the one row's output; or the error that ends the run."""

    answers: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    error: Exception | None = None


def packed(problem: Problem) -> bytes:
    """A problem with its functions, as it travels to other processes."""
    try:
        import cloudpickle
    except ImportError:
        raise MissingExtra("cloudpickle", "run") from None
    try:
        data: bytes = cloudpickle.dumps(problem)
    except Exception as error:
        raise InputError(
            f"the problem cannot travel to workers: {error}; make locks and open files inside the simulator"
        ) from None
    return data


@lru_cache(maxsize=4)
def unpacked(payload: bytes) -> Problem:
    """The problem that `packed` made, loaded once in a process."""
    problem = pickle.loads(payload)
    assert isinstance(problem, Problem)
    return problem


def work(payload: bytes, job: Job, timeout: float | None = None) -> Report:
    """Do a job. What is raised comes back inside the report, so that it cannot be taken for a broken worker."""
    begun = time.perf_counter()
    try:
        problem = unpacked(payload)
        blocks = [replace(b, points=b.points.with_derived(problem.derived)) for b in job.blocks]
        answers: list[Any]
        if job.row is not None:
            answers = [_limited_row(problem, blocks[0], job.row, timeout)]
        else:
            answers = [_limited(problem, batch, timeout) for batch in blocks]
    except Exception as error:
        return Report(error=_portable(error))
    return Report(answers, time.perf_counter() - begun)


def overdue(problem: Problem, timeout: float) -> Row:
    """Stands for a simulation that passed its time limit; where times are measured, that is what it cost."""
    failed = RowFailed(f"it took longer than {timeout:g} s", kind=Failure.TIMED_OUT)
    return Row(failed, timeout) if measured(problem.simulate) else Row(failed)


class _TimedOut(BaseException):
    """A time limit passed. No Exception, so that a simulator's own `except Exception` lets it through."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise `_TimedOut` in the body when the seconds have passed; in the main thread of a process alone."""

    def strike(number: int, frame: FrameType | None) -> None:
        if armed:
            raise _TimedOut

    armed = True
    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _limited(problem: Problem, batch: Batch, timeout: float | None) -> Outcomes:
    """Simulate a block; one that passes its limit is abandoned and rerun row by row.

    The limit is for one simulation. `each` is watched row by row; a vectorised simulator has the time of all rows.
    """
    if timeout is None or isinstance(problem.simulate, Tabulated | Bernoulli):
        return simulate(problem, batch)
    rows = batch.simulations
    try:
        if isinstance(problem.simulate, each):
            return simulate(_watched(problem, problem.simulate, timeout), batch)
        with _limit(timeout * rows):
            return simulate(problem, batch)
    except _TimedOut:
        return problem.outcomes(Rows.of([_limited_row(problem, batch, row, timeout) for row in range(rows)]), rows)


def _limited_row(problem: Problem, batch: Batch, row: int, timeout: float | None) -> Row:
    if timeout is None:
        return simulate_row(problem, batch, row)
    try:
        with _limit(timeout):
            return simulate_row(problem, batch, row)
    except _TimedOut:
        return overdue(problem, timeout)


def _watched(problem: Problem, simulator: each, timeout: float) -> Problem:
    """The problem with a time limit around every call of its simulator's function."""

    def function(theta: dict[str, Any], rng: Any) -> Any:
        with _limit(timeout):
            return simulator.function(theta, rng)

    watched = object.__new__(Problem)
    watched.__dict__.update(problem.__dict__, simulate=each(function))
    return watched


def _portable(error: Exception) -> Exception:
    """The error if it survives the journey between processes, or its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        kind = FbarError if isinstance(error, FbarError) else RuntimeError
        return kind(f"{type(error).__name__}: {error}")
    return error
