"""Trials over processes of this machine, or over an executor or Dask client that is given."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fbar.checks import shown
from fbar.errors import EngineFailed, InputError, MissingExtra
from fbar.scores import Score
from fbar.study.contenders import Contender
from fbar.study.trials import Arena, Cell, Record, Stand, run_trial, trial_seeds
from fbar.system.keeping import worker_context
from fbar.system.processes import end_with_driver, limit_threads

MOST_DEATHS = 2
"""A trial that has ended its process so often, alone, is recorded as failed."""

LOOK = 1.0
SECONDS = 2.0
"""After so long a chunk hands over what it has, to be kept, and the rest is run as chunks of that length."""


_own = threading.local()
"""The stands of this thread: two trials at once must not count on one meter."""


@dataclass(frozen=True)
class Chunk:
    """Some trials of a cell, run one after the other."""

    cell: Cell
    trials: tuple[int, ...]

    def rest(self, done: int) -> list[Chunk]:
        """What is left of it after its first trials, in chunks of as many."""
        left = self.trials[done:]
        return [Chunk(self.cell, left[i : i + done]) for i in range(0, len(left), done)]


@dataclass(frozen=True)
class Stage:
    """All that trials need, sent to a process once."""

    arenas: dict[str, Arena]
    contenders: dict[str, Contender]
    scores: tuple[Score, ...]
    entropy: int

    def run(self, chunk: Chunk) -> list[tuple[int, Record]]:
        """The trials of a chunk, in their order; at least one, and not all where they take long."""
        cell, start = chunk.cell, time.monotonic()
        arena, contender = self.arenas[cell.problem], self.contenders[cell.method]
        stand = self._stand(cell.problem)
        result = []
        for trial in chunk.trials:
            seeds = trial_seeds(self.entropy, cell.problem, cell.budget, trial)
            result.append((trial, run_trial(arena, contender, cell.budget, seeds, self.scores, stand)))
            if time.monotonic() - start > SECONDS:
                break
        return result

    def _stand(self, problem: str) -> Stand:
        if getattr(_own, "stage", None) is not self:
            _own.stage, _own.stands = self, {}
        if problem not in _own.stands:
            _own.stands[problem] = Stand.of(self.arenas[problem])
        found: Stand = _own.stands[problem]
        return found


def packed(stage: Stage) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise MissingExtra("cloudpickle", "run") from None
    try:
        data: bytes = cloudpickle.dumps(stage)
    except Exception as error:
        raise InputError(f"a problem, method or score cannot travel to other processes: {error}") from None
    return data


@lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Stage:
    stage = pickle.loads(payload)
    assert isinstance(stage, Stage)
    return stage


def run_packed(payload: bytes, chunk: Chunk) -> list[tuple[int, Record]]:
    """What a process of an executor runs."""
    with limit_threads():  # trials run side by side, and would be in each other's way
        return _unpacked(payload).run(chunk)


Done = tuple[Cell, list[tuple[int, Record]]]


def here(stage: Stage, chunks: Sequence[Chunk]) -> Iterator[Done]:
    """In this process, one after the other."""
    left = deque(chunks)
    while left:
        chunk = left.popleft()
        with redirect_stdout(sys.stderr):  # what an algorithm prints is not what the study found
            found = stage.run(chunk)
        left.extendleft(reversed(chunk.rest(len(found))))
        yield chunk.cell, found


def by_executor(stage: Stage, chunks: Sequence[Chunk], executor: Any) -> Iterator[Done]:
    """Over a `concurrent.futures.Executor`, or a Dask client."""
    if not callable(getattr(executor, "submit", None)):
        raise InputError(f"client must be a Dask client or a concurrent.futures.Executor; got {shown(executor)}")
    payload = packed(stage)
    if type(executor).__module__.split(".")[0] == "distributed":
        from distributed import as_completed

        [remote] = executor.scatter([payload], broadcast=True)
        futures = {executor.submit(run_packed, remote, chunk, pure=False): chunk for chunk in chunks}
        completed = as_completed(futures)  # type: ignore[no-untyped-call]
        for future in completed:
            chunk, found = futures.pop(future), future.result()
            for rest in chunk.rest(len(found)):
                more = executor.submit(run_packed, remote, rest, pure=False)
                futures[more] = rest
                completed.add(more)  # type: ignore[no-untyped-call]
            yield chunk.cell, found
        return
    waiting = {executor.submit(run_packed, payload, chunk): chunk for chunk in chunks}
    try:
        while waiting:
            done, _ = wait(waiting, None, FIRST_COMPLETED)
            for one in done:
                chunk, found = waiting.pop(one), one.result()
                waiting.update({executor.submit(run_packed, payload, rest): rest for rest in chunk.rest(len(found))})
                yield chunk.cell, found
    finally:
        for one in waiting:
            one.cancel()


def by_processes(stage: Stage, chunks: Sequence[Chunk], size: int) -> Iterator[Done]:
    """Over processes of this machine; a trial that ends its process is run again alone, and then given up."""
    try:
        from pebble import ProcessExpired, ProcessPool
    except ImportError:
        raise MissingExtra("pebble", "run") from None
    from concurrent.futures.process import BrokenProcessPool

    payload = packed(stage)
    context = worker_context()

    def opened() -> Any:
        return ProcessPool(size, initializer=_begin, initargs=(payload, os.getpid()), context=context)

    left, deaths, barren = deque(chunks), dict[Chunk, int](), 0
    pool, running = opened(), dict[Future[Any], Chunk]()
    try:
        while left or running:
            while left and len(running) < 2 * size and pool.active:
                chunk = left.popleft()
                running[pool.schedule(_run, args=(chunk,))] = chunk
            done, _ = wait(running, LOOK, FIRST_COMPLETED)
            for future in done:
                chunk = running.pop(future)
                error = future.exception()
                if error is None:
                    barren, found = 0, future.result()
                    left.extendleft(reversed(chunk.rest(len(found))))
                    yield chunk.cell, found
                elif not isinstance(error, ProcessExpired | BrokenProcessPool):
                    raise error
                elif len(chunk.trials) > 1:
                    left.extendleft(Chunk(chunk.cell, (trial,)) for trial in reversed(chunk.trials))
                else:
                    deaths[chunk] = deaths.get(chunk, 0) + 1
                    if deaths[chunk] < MOST_DEATHS:
                        left.append(chunk)
                    else:
                        record = Record("failed", message=f"the trial ended its process: {error}")
                        yield chunk.cell, [(chunk.trials[0], record)]
            if not pool.active:
                barren += 1
                if barren > 5:
                    raise EngineFailed("the processes die as soon as they start; look at this machine's memory")
                left.extendleft(running.values())
                running.clear()
                pool.join()
                pool = opened()
    finally:
        with suppress(RuntimeError):
            pool.stop()
            pool.join()


class _Here:
    stage: Stage


def _begin(payload: bytes, driver: int) -> None:
    end_with_driver(driver)
    sys.stdout = sys.stderr  # what an algorithm prints is not what the study found,
    os.dup2(2, 1)  # nor what a program that it starts does
    _Here.stage = _unpacked(payload)


def _run(chunk: Chunk) -> list[tuple[int, Record]]:
    with limit_threads():
        return _Here.stage.run(chunk)
