"""Jobs out to workers and reports back, with one account of what happens when a worker dies.

A `Pool` sends jobs; a `Dispatcher` decides what becomes of those whose worker was lost. The random numbers of a job are
fixed by its seed, so that running it again changes no result:

1. a job that never began is sent again;
2. a job of several pieces is split, and every piece is sent again by itself;
3. where the pool cannot know which of its jobs killed a worker, each suspect is run while nothing else is;
4. a single piece that has lost `MOST_FAULTS` workers is given up.

Simulations (`fbar.engine.pool`) and the trials of studies (`fbar.study.replication`) both stand on this.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

DEPTH = 2
"""Jobs under way for each worker: one that runs and one that waits."""

MOST_FAULTS = 2
"""What has killed its worker, or had to be ended by force, this often with the same random numbers has failed."""

SECONDS_BETWEEN_CHECKS = 1.0
"""How often to check whether a worker was lost without a word."""


class Splittable(Protocol):
    """What a dispatcher needs to know of a job."""

    @property
    def key(self) -> Hashable:
        """What tells it from other jobs when its faults are counted."""

    def pieces(self) -> Sequence[Self]:
        """The jobs that it consists of; empty if it is a single piece."""


J = TypeVar("J", bound=Splittable)
R = TypeVar("R")


@dataclass(frozen=True)
class Workload(Generic[J, R]):
    """What workers do. The functions must be importable by name.

    Parameters
    ----------
    payload
        What all jobs share, pickled. A local process gets it once, at its start.
    run
        ``run(payload, job)`` does a job and gives its report.
    begin
        ``begin(payload)`` is called at the start of a local process, before the time of its first job begins.
    """

    payload: bytes
    run: Callable[[Any, J], R]
    begin: Callable[[bytes], None]


class Fault(enum.Enum):
    """What can happen to a job through no fault of the code that it runs."""

    DIED = "its worker died"
    OVERDUE = "its worker was ended by force because it passed its limit"
    DROPPED = "it never began"


class Pool(ABC, Generic[J, R]):
    """Workers that do jobs of one `Workload`."""

    size: int
    blames_neighbours: bool = False
    """Whether a worker's death is reported for jobs that only waited for that worker too."""

    @abstractmethod
    def send(self, job: J, seconds: float | None) -> Future[R]:
        """Hand a job to the workers; where possible, one that runs for longer than ``seconds`` is ended by force."""

    @abstractmethod
    def done(self, future: Future[R]) -> None:
        """A job has come back."""

    @abstractmethod
    def fault(self, future: Future[R], error: BaseException | None) -> Fault | None:
        """What an error means (None: the future was lost); no fault if the error has to end the run."""

    def lost(self) -> list[Future[R]]:
        """Futures that will never be done."""
        return []

    @abstractmethod
    def close(self) -> None:
        """End what was started."""


@dataclass(frozen=True)
class Returned(Generic[J, R]):
    """A job that came back."""

    job: J
    report: R


@dataclass(frozen=True)
class GivenUp(Generic[J]):
    """A single piece that has lost too many workers."""

    job: J
    fault: Fault


class Dispatcher(Generic[J, R]):
    """Keeps the workers of a pool busy.

    Parameters
    ----------
    pool
        The workers.
    fresh
        Gives the next job that was not sent yet, or None.
    limit
        Seconds after which a job is ended by force, or None.
    tries
        How many workers a single piece may lose before it is given up.
    sent
        Called with the future of every job that is sent.
    """

    def __init__(
        self,
        pool: Pool[J, R],
        fresh: Callable[[], J | None],
        *,
        limit: Callable[[J], float | None] = lambda job: None,
        tries: Callable[[J], int] = lambda job: MOST_FAULTS,
        sent: Callable[[Future[R], J], None] = lambda future, job: None,
    ) -> None:
        self._pool, self._fresh = pool, fresh
        self._limit, self._tries, self._sent = limit, tries, sent
        self._running: dict[Future[R], J] = {}
        self._again: deque[J] = deque()
        self._suspects: deque[J] = deque()
        self._one_suspect = False
        self._faults: Counter[Hashable] = Counter()

    @property
    def busy(self) -> bool:
        """Whether jobs are under way, or are to be sent again."""
        return bool(self._running or self._again or self._suspects)

    def repeat(self, job: J) -> None:
        """Send a job before any fresh one."""
        self._again.append(job)

    def fill(self) -> None:
        """Send jobs until every worker has enough."""
        if self._running and (self._one_suspect or self._suspects):
            return  # until a suspect has the workers for itself, and is done
        self._one_suspect = bool(self._suspects)
        if self._one_suspect:
            self._send(self._suspects.popleft())
            return
        while len(self._running) < DEPTH * self._pool.size:
            job = self._again.popleft() if self._again else self._fresh()
            if job is None:
                return
            self._send(job)

    def collect(self, seconds: float) -> list[Returned[J, R] | GivenUp[J]]:
        """Wait for a report, but no longer than that, nor than `SECONDS_BETWEEN_CHECKS`; may give nothing."""
        found: list[Returned[J, R] | GivenUp[J]] = []
        done, _ = wait(self._running, min(SECONDS_BETWEEN_CHECKS, seconds), FIRST_COMPLETED)
        for future in done:
            job = self._running.pop(future)
            try:
                report = future.result()
            except BaseException as error:
                fault = self._pool.fault(future, error)
                if fault is None:
                    raise
                found += self._lost(job, fault)
                continue
            self._pool.done(future)
            self._faults.pop(job.key, None)
            found.append(Returned(job, report))
        for future in [] if done else self._pool.lost():
            lost = self._running.pop(future, None)
            fault = None if lost is None else self._pool.fault(future, None)
            if lost is not None and fault is not None:
                found += self._lost(lost, fault)
        return found

    def close(self) -> None:
        self._running.clear()
        self._pool.close()

    def _send(self, job: J) -> None:
        future = self._pool.send(job, self._limit(job))
        self._running[future] = job
        self._sent(future, job)

    def _lost(self, job: J, fault: Fault) -> list[GivenUp[J]]:
        """The account of a job whose worker was lost."""
        if fault is Fault.DROPPED:
            self._again.append(job)
            return []
        pieces = job.pieces()
        if pieces:
            self._retry(*pieces)
            return []
        if self._pool.blames_neighbours and not self._one_suspect:
            self._retry(job)  # another one may have done it
            return []
        self._faults[job.key] += 1
        if self._faults[job.key] < self._tries(job):
            self._retry(job)
            return []
        del self._faults[job.key]
        return [GivenUp(job, fault)]

    def _retry(self, *jobs: J) -> None:
        (self._suspects if self._pool.blames_neighbours else self._again).extend(jobs)
