"""The session of all engines with workers: bundles, time-outs and dead workers, written once.

An engine fills in a `Pool`: how a job is sent, and what its errors mean. Blocks travel in bundles sized by
measured times; a bundle is nothing but blocks one after the other, so its size cannot change a result.
"""

from __future__ import annotations

import enum
import math
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

import numpy as np

from fbar.engine.attempt import MOST_TIMEOUTS, Attempt, Part, has_row_streams, overdue, time_for
from fbar.engine.base import Session
from fbar.engine.recovery import MOST_PASSES, Recovery
from fbar.engine.work import Job, Report
from fbar.question.outcomes import FORCED, Batch, Failure, Outcomes, Seen, Simulated, Tally
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed, Rows

DEPTH = 2
"""Jobs under way for each worker: one that runs and one that waits."""

MOST_AHEAD = 8
"""Blocks to ask for ahead of need for each worker, at the most."""

MOST_FAULTS = 2
"""What has killed its worker, or had to be ended by force, so often with the same random numbers has failed."""

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
    ) -> None:
        self._pool, self._problem = pool, problem
        self._known = problem.simulator.known is not None
        self._timeout, self._bundle_seconds = timeout, bundle_seconds
        self._waiting: deque[Batch] = deque()
        self._again: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._alone = False
        self._running: dict[Future[Report], Job] = {}
        self._faults: Counter[tuple[tuple[int, int], Part | None]] = Counter()
        self._recoveries: dict[tuple[int, int], Recovery] = {}
        self._pace: float | None = None
        self._block = 1
        self._watched = self._drawn = 0

    @property
    def warning(self) -> str:
        """Other threads may draw from the same global numbers now and then, but not in most blocks."""
        if 2 * self._drawn <= self._watched:
            return ""
        return (
            "the simulator draws from numpy's or Python's global random numbers, which threads share here: the same "
            "seed may give another result; draw from the generator that the simulator is given as its second argument"
        )

    @property
    def ahead(self) -> int:  # type: ignore[override]
        """Enough blocks for all workers; more of them where they are short, within reason."""
        return self._pool.size * max(DEPTH, min(MOST_AHEAD, self._fitting(self._block)))

    def submit(self, batches: Sequence[Batch]) -> None:
        self._waiting.extend(batches)
        self._block = max((batch.simulations for batch in batches), default=self._block)
        self._dispatch()

    def collect(self) -> list[Answer]:
        return self.collect_within(math.inf)

    def collect_within(self, seconds: float) -> list[Answer]:
        answers: list[Answer] = []
        until = time.monotonic() + seconds
        while not answers and (self._running or self._waiting or self._again or self._suspects):
            left = until - time.monotonic()
            if left <= 0:
                break
            self._dispatch()
            done, _ = wait(self._running, min(LOOK, left), FIRST_COMPLETED)
            for future in done:
                answers += self._settle(future, self._running.pop(future))
            for future in [] if done else self._pool.lost():
                job = self._running.pop(future, None)
                if job is not None:
                    answers += self._faulty(job, self._pool.fault(future, None))
            self._dispatch()
        return answers

    def close(self) -> None:
        self.arrived = None
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
        future = self._pool.send(job, self._hard_limit(job))
        self._running[future] = job
        if job.part is None:
            future.add_done_callback(lambda future: self._announce(future, job))

    def _announce(self, future: Future[Report], job: Job) -> None:
        """Hand on the whole blocks of a job before anyone asks for them. What goes wrong is for `collect` to say."""
        arrived = self.arrived
        if arrived is None or future.cancelled() or future.exception() is not None:
            return
        report = future.result()
        if report.error is None:
            pairs = zip(job.blocks, report.answers, strict=True)
            arrived([(batch, found) for batch, found in pairs if isinstance(found, Simulated | Tally)])

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
        """Beyond the limits that the worker itself watches."""
        if self._timeout is None or self._known:
            return None
        passes = 1 if job.failed is None else MOST_PASSES
        within = time_for(job.part.rows, job.blocks[0], self._timeout) if job.part is not None else None
        return (within or self._timeout * job.simulations) * MOST_TIMEOUTS * passes + GRACE

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
        if report.use is not None:
            self._watched, self._drawn = self._watched + report.use.blocks, self._drawn + report.use.drawn
        if report.error is not None:
            raise report.error
        if job.part is None and job.failed is None:
            self._measure(report.seconds / max(1, job.simulations))
        return [
            answer
            for batch, attempt in zip(job.blocks, report.answers, strict=True)
            for answer in self._attempted(batch, job.part, attempt)
        ]

    def _measure(self, pace: float) -> None:
        self._pace = pace if self._pace is None else (self._pace + pace) / 2

    def _faulty(self, job: Job, fault: Fault | None) -> list[Answer]:
        """A job whose worker was lost: again with the same random numbers, block by block; then it has failed."""
        if fault is Fault.DROPPED:
            self._again.append(job)
            return []
        if len(job.blocks) > 1:
            self._retry(*(Job((batch,)) for batch in job.blocks))
            return []
        batch = job.blocks[0]
        if self._pool.blames_neighbours and not self._alone:
            self._retry(job)  # another one may have done it
            return []
        failed = job.failed or self._fault_in_words(job, fault)
        if job.failed is not None or (job.part is None and self._repeats_by_row(batch)):
            return self._recover(batch, failed)  # part by part, each with its own tries
        self._faults[batch.key, job.part] += 1
        if self._faults[batch.key, job.part] < MOST_FAULTS:
            self._retry(job)
            return []
        return self._attempted(batch, job.part, failed)

    def _fault_in_words(self, job: Job, fault: Fault | None) -> RowFailed:
        if fault is Fault.OVERDUE:
            assert self._timeout is not None
            return overdue(self._timeout)
        batch, part = job.blocks[0], job.part
        rows = (
            "" if part is None else f", row {part.first}" if part.rows == 1 else f", rows {part.first}–{part.last - 1}"
        )
        where = f"block {batch.block} of round {batch.round}{rows}"
        return RowFailed(f"the worker process died {MOST_FAULTS} times in {where}", kind=Failure.KILLED)

    def _repeats_by_row(self, batch: Batch) -> bool:
        return not self._known and has_row_streams(self._problem, batch)

    def _retry(self, *jobs: Job) -> None:
        """Send jobs again whose worker died; one by one if it cannot be told which of them did it."""
        (self._suspects if self._pool.blames_neighbours else self._again).extend(jobs)

    def _attempted(self, batch: Batch, part: Part | None, attempt: Attempt) -> list[Answer]:
        """What came of a block or part."""
        self._faults.pop((batch.key, part), None)
        if part is not None:
            return self._step(batch, self._recoveries[batch.key].take(part, attempt))
        if not isinstance(attempt, RowFailed):
            assert not isinstance(attempt, Rows)
            return [(batch, attempt)]
        if self._known:
            return [(batch, _quarantined(batch, attempt))]
        if attempt.kind not in FORCED:  # no process dies of it: all of its recovery in one job
            self._again.append(Job((batch,), failed=attempt))
            return []
        return self._recover(batch, attempt)

    def _recover(self, batch: Batch, failed: RowFailed) -> list[Answer]:
        """Find out part by part what failed in a block."""
        self._recoveries[batch.key] = Recovery(self._problem, batch, failed)
        return self._step(batch, self._recoveries[batch.key].begin())

    def _step(self, batch: Batch, step: list[Part] | Simulated) -> list[Answer]:
        if isinstance(step, Simulated):
            del self._recoveries[batch.key]
            return [(batch, step)]
        self._again.extend(Job((batch,), part) for part in step)
        return []


def _quarantined(batch: Batch, failed: RowFailed) -> Tally:
    """All of a block's draws of a known acceptance probability as failures."""
    zeros = np.zeros(batch.points.rows if batch.repeats is None else batch.repeats.shape)
    seen = Seen(counts={failed.kind: batch.simulations}, examples={failed.kind: failed.message})
    return Tally(zeros, zeros, seen)
