"""The session of all engines with workers: blocks in bundles, time limits, and what failed found part by part.

Blocks travel in bundles sized by measured times; a bundle is nothing but blocks one after the other, so its size cannot
change a result. What happens when a worker dies is decided by `fbar.engine.dispatch`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeAlias

import numpy as np

from fbar.engine.attempt import MOST_TIMEOUTS, Attempt, Part, has_row_streams, overdue, time_for
from fbar.engine.base import Session
from fbar.engine.dispatch import DEPTH, MOST_FAULTS, Dispatcher, Fault, GivenUp, Pool
from fbar.engine.recovery import MOST_PASSES, Recovery
from fbar.engine.work import Job, Report
from fbar.question.outcomes import FORCED, Batch, Failure, Outcomes, Seen, Simulated, Tally
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed, Rows

MOST_AHEAD = 8
"""Blocks to ask for ahead of need for each worker, at the most."""

GRACE = 2.0
"""Seconds beyond its time limit after which a job is ended by force."""

Answer: TypeAlias = tuple[Batch, Outcomes]


class PoolSession(Session):
    """Blocks out to workers and outcomes back."""

    def __init__(
        self,
        pool: Pool[Job, Report],
        problem: Problem,
        *,
        timeout: float | None = None,
        bundle_seconds: float = 0.5,
    ) -> None:
        self._problem, self._size = problem, pool.size
        self._dispatcher = Dispatcher(
            pool, self._bundle, limit=self._hard_limit, tries=self._tries, sent=self._announce_when_done
        )
        self._known = problem.simulator.known is not None
        self._timeout, self._bundle_seconds = timeout, bundle_seconds
        self._waiting: deque[Batch] = deque()
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
    def ahead(self) -> int:
        """Enough blocks for all workers; more of them where they are short, within reason."""
        return self._size * max(DEPTH, min(MOST_AHEAD, self._fitting(self._block)))

    def submit(self, batches: Sequence[Batch]) -> None:
        self._waiting.extend(batches)
        self._block = max((batch.simulations for batch in batches), default=self._block)
        self._dispatcher.fill()

    def collect(self) -> list[Answer]:
        return self.collect_within(math.inf)

    def collect_within(self, seconds: float) -> list[Answer]:
        answers: list[Answer] = []
        until = time.monotonic() + seconds
        while not answers and (self._waiting or self._dispatcher.busy):
            left = until - time.monotonic()
            if left <= 0:
                break
            self._dispatcher.fill()
            for found in self._dispatcher.collect(left):
                answers += self._given_up(found) if isinstance(found, GivenUp) else self._back(found.job, found.report)
            self._dispatcher.fill()
        return answers

    def close(self) -> None:
        self.arrived = None
        self._dispatcher.close()

    # ------------------------------------------------------------ out

    def _announce_when_done(self, future: Future[Report], job: Job) -> None:
        if job.part is None:
            future.add_done_callback(lambda future: self._announce(future, job))

    def _announce(self, future: Future[Report], job: Job) -> None:
        """Hand on the whole blocks of a job before anyone asks for them. What goes wrong is reported by `collect`."""
        arrived = self.arrived
        if arrived is None or future.cancelled() or future.exception() is not None:
            return
        report = future.result()
        if report.error is None:
            pairs = zip(job.blocks, report.answers, strict=True)
            arrived([(batch, found) for batch, found in pairs if isinstance(found, Simulated | Tally)])

    def _bundle(self) -> Job | None:
        """The next blocks: as many as fit the wanted time, and leave as many for every other worker."""
        if not self._waiting:
            return None
        fair = len(self._waiting) // (DEPTH * self._size)
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

    def _back(self, job: Job, report: Report) -> list[Answer]:
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

    def _tries(self, job: Job) -> int:
        """Workers that a block may lose; one if it can be recovered part by part, each part with its own tries."""
        return 1 if self._in_parts(job) else MOST_FAULTS

    def _in_parts(self, job: Job) -> bool:
        repeats_by_row = not self._known and has_row_streams(self._problem, job.blocks[0])
        return job.failed is not None or (job.part is None and repeats_by_row)

    def _given_up(self, lost: GivenUp[Job]) -> list[Answer]:
        job, batch = lost.job, lost.job.blocks[0]
        failed = job.failed or self._fault_in_words(job, lost.fault)
        return self._recover(batch, failed) if self._in_parts(job) else self._attempted(batch, job.part, failed)

    def _fault_in_words(self, job: Job, fault: Fault) -> RowFailed:
        if fault is Fault.OVERDUE:
            assert self._timeout is not None
            return overdue(self._timeout)
        batch, part = job.blocks[0], job.part
        rows = (
            "" if part is None else f", row {part.first}" if part.rows == 1 else f", rows {part.first}–{part.last - 1}"
        )
        where = f"block {batch.block} of round {batch.round}{rows}"
        return RowFailed(f"the worker process died {MOST_FAULTS} times in {where}", kind=Failure.KILLED)

    def _attempted(self, batch: Batch, part: Part | None, attempt: Attempt) -> list[Answer]:
        """What came of a block or part."""
        if part is not None:
            return self._step(batch, self._recoveries[batch.key].take(part, attempt))
        if not isinstance(attempt, RowFailed):
            assert not isinstance(attempt, Rows)
            return [(batch, attempt)]
        if self._known:
            return [(batch, _quarantined(batch, attempt))]
        if attempt.kind not in FORCED:  # no process dies of it: all of its recovery in one job
            self._dispatcher.repeat(Job((batch,), failed=attempt))
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
        for part in step:
            self._dispatcher.repeat(Job((batch,), part))
        return []


def _quarantined(batch: Batch, failed: RowFailed) -> Tally:
    """All of a block's draws of a known acceptance probability as failures."""
    zeros = np.zeros(batch.points.rows if batch.repeats is None else batch.repeats.shape)
    seen = Seen(counts={failed.kind: batch.simulations}, examples={failed.kind: failed.message})
    return Tally(zeros, zeros, seen)
