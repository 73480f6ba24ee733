"""Independent trials by seed key: what studies and the paper's figures are made of.

A trial is known by its cell and its number, and its random numbers by these alone (`Replication.root`). So the results
are the same in this process, over processes of this machine, on an executor or on a Dask cluster, in any order and
after any interruption. Trials travel in chunks; a journal keeps them as they arrive; what happens when a trial ends its
process is decided by `fbar.engine.dispatch`.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from fbar.engine import Engine, InProcess, Workers
from fbar.engine.dispatch import Dispatcher, GivenUp, Workload
from fbar.engine.processes import processors
from fbar.engine.work import pickled
from fbar.seeds import Seeds
from fbar.system.processes import limit_threads

SIMULATIONS_IN_CHUNK = 200_000
"""Simulations in one chunk of trials: long compared with its overhead, short compared with the whole."""
MOST_IN_CHUNK = 25
SECONDS_IN_CHUNK = 2.0
"""After this time a chunk hands over what it has, to be kept; the rest is run in chunks of that length."""
OVERHEAD = 1000.0
"""What a trial costs beyond its simulations, in simulations, to forecast the time that remains."""


class Budgeted(Hashable, Protocol):
    """What trials have in common, with the simulations that each may use."""

    @property
    def budget(self) -> int: ...


C = TypeVar("C", bound=Budgeted)
R = TypeVar("R")
Found = dict[tuple[C, int], R]
Progress = Callable[[float, int, int], None]
"""Called with the share of the work that is done, the trials done, and all trials to do."""


class Journal(Protocol[C, R]):
    """Keeps trials as they arrive."""

    @property
    def trials(self) -> Found[C, R]: ...

    def record(self, cell: C, trials: Sequence[tuple[int, R]]) -> None: ...


class Replication(ABC, Generic[C, R]):
    """All that trials need; sent to a process once."""

    @abstractmethod
    def root(self, cell: C) -> Seeds:
        """The seeds of a cell; those of its trial i are ``root(cell).trial(i)``."""

    @abstractmethod
    def trial(self, cell: C, seeds: Seeds) -> R:
        """Run one trial."""

    @abstractmethod
    def ended_process(self, cell: C, trial: int) -> R:
        """What is recorded of a trial that ended its process again and again; may raise."""

    def run(self, chunk: Chunk[C]) -> list[tuple[int, R]]:
        """The trials of a chunk, in their order; at least one, and not all where they take long."""
        start, root = time.monotonic(), self.root(chunk.cell)
        found = []
        for trial in chunk.trials:
            found.append((trial, self.trial(chunk.cell, root.trial(trial))))
            if time.monotonic() - start > SECONDS_IN_CHUNK:
                break
        return found


@dataclass(frozen=True)
class Chunk(Generic[C]):
    """Some trials of a cell, run one after the other."""

    cell: C
    trials: tuple[int, ...]

    @property
    def key(self) -> Hashable:
        return self.cell, self.trials

    def pieces(self) -> Sequence[Chunk[C]]:
        return [Chunk(self.cell, (trial,)) for trial in self.trials] if len(self.trials) > 1 else ()

    def rest(self, done: int) -> list[Chunk[C]]:
        """What is left after its first trials, in chunks of as many."""
        left = self.trials[done:]
        return [Chunk(self.cell, left[i : i + done]) for i in range(0, len(left), done)]


def replicate(
    work: Replication[C, R],
    cells: Sequence[C],
    trials: int,
    *,
    engine: Engine | None = None,
    workers: int | None = None,
    journal: Journal[C, R] | None = None,
    progress: Progress = lambda share, done, trials: None,
) -> Found[C, R]:
    """Trials 0, 1, … of every cell, but for those that the journal holds already.

    Without an engine they run on ``workers`` processes, by default as many as there are processors; 1 is this process.
    """
    found: Found[C, R] = {} if journal is None else journal.trials
    left = {cell: [trial for trial in range(trials) if (cell, trial) not in found] for cell in cells}
    number = sum(map(len, left.values()))
    if not number:
        return found
    if engine is None:
        size = min(workers or processors(), number)
        engine = InProcess() if size == 1 else Workers(size)
    arriving = _here(work, left) if isinstance(engine, InProcess) else _on(work, left, engine)
    total = sum((cell.budget + OVERHEAD) * len(todo) for cell, todo in left.items())
    spent, done = 0.0, 0
    try:
        for cell, results in arriving:
            if journal is not None:
                journal.record(cell, results)
            else:
                found.update({(cell, trial): result for trial, result in results})
            spent += (cell.budget + OVERHEAD) * len(results)
            done += len(results)
            progress(spent / total, done, number)
    finally:
        arriving.close()
    return found


def _chunks(left: dict[C, list[int]], workers: int) -> deque[Chunk[C]]:
    """The largest first, so that no long one is left at the end; the order changes no result."""
    share = -(-sum(map(len, left.values())) // workers)  # so that there is some for every process
    chunks = []
    for cell, trials in left.items():
        step = max(1, min(MOST_IN_CHUNK, SIMULATIONS_IN_CHUNK // cell.budget, share))
        chunks += [Chunk(cell, tuple(trials[i : i + step])) for i in range(0, len(trials), step)]
    return deque(sorted(chunks, key=lambda chunk: -chunk.cell.budget))


Arriving = Generator[tuple[C, list[tuple[int, R]]], None, None]


def _here(work: Replication[C, R], left: dict[C, list[int]]) -> Arriving[C, R]:
    """In this process, one after the other."""
    chunks = _chunks(left, 1)
    while chunks:
        chunk = chunks.popleft()
        with redirect_stdout(sys.stderr):  # what a trial prints is not a result
            results = work.run(chunk)
        chunks.extendleft(reversed(chunk.rest(len(results))))
        yield chunk.cell, results


def _on(work: Replication[C, R], left: dict[C, list[int]], engine: Engine) -> Arriving[C, R]:
    """On the workers of an engine."""
    payload = pickled(work, "a problem, method or score", "make locks and open files inside it")
    pool = engine.pool(Workload[Chunk[C], list[tuple[int, R]]](payload, _run, _begin))
    chunks = _chunks(left, pool.size)
    dispatcher = Dispatcher(pool, lambda: chunks.popleft() if chunks else None)
    try:
        while chunks or dispatcher.busy:
            dispatcher.fill()
            for item in dispatcher.collect(float("inf")):
                if isinstance(item, GivenUp):
                    [trial] = item.job.trials
                    yield item.job.cell, [(trial, work.ended_process(item.job.cell, trial))]
                else:
                    chunks.extendleft(reversed(item.job.rest(len(item.report))))
                    yield item.job.cell, item.report
    finally:
        with suppress(RuntimeError):
            dispatcher.close()


# ---------------------------------------------------------------- in the worker


@lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Replication[Any, Any]:
    work = pickle.loads(payload)
    assert isinstance(work, Replication)
    return work


def _begin(payload: bytes) -> None:
    sys.stdout = sys.stderr  # what a trial prints is not a result,
    os.dup2(2, 1)  # nor what a program that it starts does
    with suppress(Exception):  # the first chunk reports why
        _unpacked(payload)


def _run(payload: bytes, chunk: Chunk[Any]) -> list[tuple[int, Any]]:
    with limit_threads():  # trials run at the same time, and would slow each other down
        return _unpacked(payload).run(chunk)
