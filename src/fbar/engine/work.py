"""What a worker does: simulate the blocks of a job, within its time limits."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fbar.checks import in_words
from fbar.engine.attempt import Attempt, Part, attempt_block, attempt_part
from fbar.engine.global_numbers import Use, watch
from fbar.engine.recovery import recover_here
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.question.outcomes import Batch
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed
from fbar.system.processes import keep_to_one_openmp_thread


@dataclass(frozen=True)
class Job:
    """What travels to a worker: a bundle of blocks, a part of one, or one that failed and is to be recovered."""

    blocks: tuple[Batch, ...]
    part: Part | None = None
    failed: RowFailed | None = None

    @property
    def key(self) -> tuple[tuple[int, int], Part | None]:
        return self.blocks[0].key, self.part

    def pieces(self) -> Sequence[Job]:
        return [Job((batch,)) for batch in self.blocks] if len(self.blocks) > 1 else ()

    @property
    def simulations(self) -> int:
        return sum(batch.simulations for batch in self.blocks) if self.part is None else self.part.rows


@dataclass(frozen=True)
class Report:
    """What comes back: of each block, or of the one part, what came of it; or the error that ends the run."""

    answers: list[Attempt] = field(default_factory=list)
    seconds: float = 0.0
    error: Exception | None = None
    use: Use | None = None
    """What the blocks drew from global random numbers, where that was watched."""


def packed(problem: Problem) -> bytes:
    """A problem with its functions, as it is sent to other processes."""
    return pickled(problem, "the problem", "make locks and open files inside the simulator")


def pickled(thing: object, name: str, advice: str) -> bytes:
    """Anything with its functions, as it is sent to other processes."""
    try:
        import cloudpickle
    except ImportError:
        raise MissingExtra("cloudpickle", "run") from None
    try:
        data: bytes = cloudpickle.dumps(thing)
    except Exception as error:
        raise InputError(f"{name} cannot be sent to other processes: {error}; {advice}") from None
    return data


@lru_cache(maxsize=4)
def unpacked(payload: bytes) -> Problem:
    """The problem that `packed` made, loaded once in a process."""
    problem = pickle.loads(payload)
    assert isinstance(problem, Problem)
    return problem


def begin_work(payload: bytes) -> None:
    """At the start of a local process."""
    try:
        unpacked(payload)  # before the first job's time begins
    except Exception:
        return  # and the first job reports why
    keep_to_one_openmp_thread()


def work(payload: bytes, job: Job, timeout: float | None = None) -> Report:
    """Do a job. What is raised comes back inside the report, so that it cannot be taken for a broken worker."""
    begun = time.perf_counter()
    try:
        problem = unpacked(payload)
        blocks = [replace(b, points=b.points.with_derived(problem.derived)) for b in job.blocks]
        answers: list[Attempt]
        if job.part is not None:
            answers = [attempt_part(problem, blocks[0], job.part, timeout)]
        elif job.failed is not None:
            answers = [recover_here(problem, blocks[0], job.failed, timeout)]
        else:
            answers = [attempt_block(problem, batch, timeout) for batch in blocks]
    except Exception as error:
        return Report(error=_portable(error))
    return Report(answers, time.perf_counter() - begun)


def work_watched(payload: bytes, job: Job) -> Report:
    """The same, with a look at whether it draws from global random numbers."""
    with watch() as use:
        report = work(payload, job)
    return replace(report, use=use)


def _portable(error: Exception) -> Exception:
    """The error if it survives the journey between processes, or its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        kind = FbarError if isinstance(error, FbarError) else RuntimeError
        return kind(in_words(error))
    return error
