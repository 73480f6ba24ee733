"""The session of all engines with workers: bundles, time-outs and dead workers, written once.

An engine fills in a `Pool`: how a job is sent, and what its errors mean. Blocks travel in bundles sized by
measured times; a bundle is nothing but blocks one after the other, so its size cannot change a result.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

import numpy as np

from fbar.engine.base import Session
from fbar.engine.work import Job, Report, overdue
from fbar.outcomes import Batch, Failure, Outcomes, Seen, Tally
from fbar.problem import Problem
from fbar.simulators import Bernoulli, Row, RowFailed, Rows, Tabulated

DEPTH = 2
"""Jobs under way for each worker: one that runs and one that waits."""

MOST_AHEAD = 8
"""Blocks to ask for ahead of need for each worker, at the most."""

MOST_KILLS = 2
"""A block that has killed its worker so often is quarantined."""

LOOK = 1.0
"""Seconds between looks at whether a worker was lost without a word."""

GRACE = 2.0
"""Seconds beyond its time limit after which a job is ended by force."""

Answer: TypeAlias = tuple[Batch, Outcomes]


class Fault(enum.Enum):
    """What can happen to a job that is no fault of the code that simulates."""

    DIED = "its worker died"
    OVERDUE = "its worker was ended by force because it passed its limit"
    DROPPED = "it never began"


class Pool(ABC):
    """Workers, as a session uses them."""

    size: int
    blames_neighbours = False
    """Whether jobs that merely waited for a worker that died are said to have killed it."""

    @abstractmethod
    def send(self, job: Job, seconds: float | None) -> Future[Report]:
        """Hand a job to the workers; one that runs for longer than ``seconds`` is ended by force, where that can be."""

    @abstractmethod
    def done(self, future: Future[Report]) -> None:
        """A job has come back."""

    @abstractmethod
    def fault(self, future: Future[Report], error: BaseException | None) -> Fault | None:
        """What an error of the pool means (None: a future that was lost); no fault if it has to end the run."""

    def lost(self) -> list[Future[Report]]:
        """Futures that will never be done."""
        return []

    @abstractmethod
    def close(self) -> None:
        """End what was started."""


class PoolSession(Session):
    """Blocks out to workers and outcomes back."""

    def __init__(
        self,
        pool: Pool,
        problem: Problem,
        *,
        timeout: float | None = None,
        bundle_seconds: float = 0.5,
        quarantine: str = "block",
    ) -> None:
        self._pool, self._problem = pool, problem
        self._known = isinstance(problem.simulate, Tabulated | Bernoulli)
        self._quarantine_rows = quarantine == "row" and not self._known
        self._timeout, self._bundle_seconds = timeout, bundle_seconds
        self._waiting: deque[Batch] = deque()
        self._again: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._alone = False
        self._running: dict[Future[Report], Job] = {}
        self._kills: Counter[tuple[int, int, int | None]] = Counter()
        self._rows: dict[tuple[int, int], dict[int, Row]] = {}
        self._pace: float | None = None
        self._block = 1

    @property
    def ahead(self) -> int:  # type: ignore[override]
        """Enough blocks for all workers; more of them where they are short, within reason."""
        return self._pool.size * max(DEPTH, min(MOST_AHEAD, self._fitting(self._block)))

    def submit(self, batches: Sequence[Batch]) -> None:
        self._waiting.extend(batches)
        self._block = max((batch.simulations for batch in batches), default=self._block)
        self._dispatch()

    def collect(self) -> list[Answer]:
        answers: list[Answer] = []
        while not answers and (self._running or self._waiting or self._again or self._suspects):
            self._dispatch()
            done, _ = wait(self._running, LOOK, FIRST_COMPLETED)
            for future in done:
                answers += self._settle(future, self._running.pop(future))
            for future in [] if done else self._pool.lost():
                job = self._running.pop(future, None)
                if job is not None:
                    answers += self._faulty(job, self._pool.fault(future, None))
            self._dispatch()
        return answers

    def close(self) -> None:
        self._running.clear()
        self._pool.close()

    # ------------------------------------------------------------ out

    def _dispatch(self) -> None:
        if self._running and (self._alone or self._suspects):
            return  # until a suspect has the workers for itself, and is done
        self._alone = bool(self._suspects)
        if self._alone:
            self._send(self._suspects.popleft())
            return
        while len(self._running) < DEPTH * self._pool.size and (self._again or self._waiting):
            self._send(self._again.popleft() if self._again else self._bundle())

    def _send(self, job: Job) -> None:
        self._running[self._pool.send(job, self._hard_limit(job))] = job

    def _bundle(self) -> Job:
        """The next blocks: as many as fit the wanted time, and leave as many for every other worker."""
        fair = len(self._waiting) // (DEPTH * self._pool.size)
        size = max(1, min(fair, self._fitting(self._waiting[0].simulations)))
        return Job(tuple(self._waiting.popleft() for _ in range(size)))

    def _fitting(self, simulations: int) -> int:
        """How many blocks of this size take the time of a bundle; one before anything was measured."""
        if self._pace is None:
            return 1
        seconds = max(self._pace * simulations, 1e-6)
        return max(1, int(min(self._bundle_seconds / seconds, 1e6)))

    def _hard_limit(self, job: Job) -> float | None:
        """Twice the time of its simulations, for a block may be abandoned at its limit and rerun row by row."""
        if self._timeout is None or self._known:
            return None
        return self._timeout * (2 * job.simulations if job.row is None else 1) + GRACE

    # ------------------------------------------------------------ and back

    def _settle(self, future: Future[Report], job: Job) -> list[Answer]:
        try:
            report = future.result()
        except BaseException as error:
            fault = self._pool.fault(future, error)
            if fault is None:
                raise
            return self._faulty(job, fault)
        self._pool.done(future)
        if report.error is not None:
            raise report.error
        if job.row is not None:
            return self._row_done(job.blocks[0], job.row, report.answers[0])
        self._measure(report.seconds / max(1, job.simulations))
        return list(zip(job.blocks, report.answers, strict=True))

    def _measure(self, pace: float) -> None:
        self._pace = pace if self._pace is None else (self._pace + pace) / 2

    def _faulty(self, job: Job, fault: Fault | None) -> list[Answer]:
        """Send a job again whose worker was lost: block by block, then row by row if it was too slow."""
        batch = job.blocks[0]
        if fault is Fault.DROPPED:
            self._again.append(job)
        elif len(job.blocks) > 1:
            self._retry(*(Job((batch,)) for batch in job.blocks))
        elif fault is Fault.DIED:
            return self._killed(job)
        elif job.row is not None:
            assert self._timeout is not None
            return self._row_done(batch, job.row, overdue(self._problem, self._timeout))
        else:
            self._row_by_row(batch)
        return []

    def _retry(self, *jobs: Job) -> None:
        """Send jobs again whose worker died; one by one if it cannot be told which of them did it."""
        (self._suspects if self._pool.blames_neighbours else self._again).extend(jobs)

    def _row_by_row(self, batch: Batch) -> None:
        self._rows[batch.key] = {}
        self._again.extend(Job((batch,), row) for row in range(batch.simulations))

    def _killed(self, job: Job) -> list[Answer]:
        """A block or row has killed its worker: once more with the same seed, then it is quarantined."""
        batch = job.blocks[0]
        self._kills[*batch.key, job.row] += 1
        if self._kills[*batch.key, job.row] < MOST_KILLS:
            self._retry(job)
            return []
        if job.row is None and self._quarantine_rows:
            self._row_by_row(batch)
            return []
        what = f"block {batch.block} of round {batch.round}" + ("" if job.row is None else f", row {job.row}")
        failed = RowFailed(f"the worker died {MOST_KILLS} times in {what}", kind=Failure.KILLED)
        if job.row is not None:
            return self._row_done(batch, job.row, Row(failed))
        return [(batch, _quarantined(self._problem, batch, failed))]

    def _row_done(self, batch: Batch, row: int, done: Row) -> list[Answer]:
        """Keep a row's output; the block is done with its last."""
        rows = self._rows[batch.key]
        rows[row] = done
        if len(rows) < batch.simulations:
            return []
        del self._rows[batch.key]
        return [(batch, self._problem.outcomes(Rows.of([rows[i] for i in range(len(rows))]), len(rows)))]


def _quarantined(problem: Problem, batch: Batch, failed: RowFailed) -> Outcomes:
    """All of a block's simulations as failures."""
    if not isinstance(problem.simulate, Tabulated | Bernoulli):
        return problem.outcomes([failed] * batch.simulations, batch.simulations)
    zeros = np.zeros(batch.points.rows if batch.repeats is None else batch.repeats.shape)
    seen = Seen(counts={failed.kind: batch.simulations}, examples={failed.kind: failed.message})
    return Tally(zeros, zeros, seen)
