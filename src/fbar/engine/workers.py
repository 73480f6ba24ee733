"""Simulations in processes of this machine, which may hang, die or be killed without harm to the run."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_int
from typing import Any

from fbar.checks import positive_integer, positive_number, time_limit
from fbar.engine.base import Engine, Session
from fbar.engine.pool import DEPTH, Fault, Pool, PoolSession
from fbar.engine.work import Job, Report, packed, unpacked, work
from fbar.errors import EngineFailed, MissingExtra
from fbar.question.problem import Problem
from fbar.system.keeping import worker_context
from fbar.system.processes import end_with_driver, keep_to_one_openmp_thread

MOST_RESTARTS = 5
"""A pool that breaks so often without finishing one job is given up."""


class Workers(Engine):
    """Runs blocks in processes of this machine.

    A worker that dies is replaced, and what it did is run again with the same random numbers. A simulation that kills
    its worker again, or runs out of time again, is a failed one; the others of its block are not disturbed. All that a
    simulator starts ends with its worker at the latest, however that one ends (on Linux; see `fbar.program` for what
    programs start).

    Parameters
    ----------
    count
        The number of processes; as many as there are processors by default.
    timeout
        Seconds that one simulation may take; a slower one is a failed one. A simulator wrapped by `each` is watched
        call by call; a vectorised one has the time of all its rows.
    bundle_seconds
        About how long a worker is to be busy before it reports. Changes no result.
    """

    def __init__(self, count: int | None = None, *, timeout: float | None = None, bundle_seconds: float = 0.5) -> None:
        self.count = processors() if count is None else positive_integer(count, "count")
        self.timeout = None if timeout is None else time_limit(timeout, "timeout")
        self.bundle_seconds = positive_number(bundle_seconds, "bundle_seconds")

    def session(self, problem: Problem) -> Session:
        try:
            import pebble  # noqa: F401
        except ImportError:
            raise MissingExtra("pebble", "run") from None
        pool = _Processes(self.count, packed(problem), self.timeout)
        return PoolSession(pool, problem, timeout=self.timeout, bundle_seconds=self.bundle_seconds)


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class _Processes(Pool):
    """A pool of pebble's, with a board on which every job's worker writes its process id.

    Pebble can miss the death of a worker that dies as soon as it has taken a job, and gives up when one dies that
    has none. The board tells jobs that were lost from jobs that never began; a pool that broke is replaced.
    """

    def __init__(self, size: int, payload: bytes, timeout: float | None) -> None:
        self.size = size
        self._payload, self._timeout = payload, timeout
        self._context: Any = worker_context()
        self._board = self._context.RawArray(c_int, 4 * DEPTH * size)
        self._free = list(range(len(self._board)))
        self._slots: dict[Future[Report], int] = {}
        self._suspects: set[Future[Report]] = set()
        self._orphans: set[Future[Report]] = set()
        self._restarts = 0
        self._pool = self._open()

    def _open(self) -> Any:
        from pebble import ProcessPool

        begin = (self._payload, self._board, os.getpid())
        return ProcessPool(self.size, initializer=_begin, initargs=begin, context=self._context)

    def _reopen(self) -> None:
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            raise EngineFailed("the worker processes die as soon as they start; look at this machine's memory")
        self._orphans |= {future for future in self._slots if not future.done()}
        self._pool.join()
        self._pool = self._open()

    def send(self, job: Job, seconds: float | None) -> Future[Report]:
        if not self._pool.active:
            self._reopen()
        slot = self._free.pop()
        self._board[slot] = 0
        future: Future[Report] = self._pool.schedule(_run, args=(slot, job, self._timeout), timeout=seconds)
        self._slots[future] = slot
        return future

    def _forget(self, future: Future[Report]) -> int:
        """Give the future's place on the board free; the process that had written there, or 0."""
        slot = self._slots.pop(future)
        self._suspects.discard(future)
        self._orphans.discard(future)
        self._free.append(slot)
        return int(self._board[slot])

    def done(self, future: Future[Report]) -> None:
        self._forget(future)
        self._restarts = 0

    def fault(self, future: Future[Report], error: BaseException | None) -> Fault | None:
        from pebble import ProcessExpired

        begun = self._forget(future)
        if isinstance(error, TimeoutError):
            return Fault.OVERDUE
        if error is None:
            future.cancel()
        if error is None or isinstance(error, ProcessExpired | BrokenProcessPool):
            return Fault.DIED if begun else Fault.DROPPED
        return None

    def lost(self) -> list[Future[Report]]:
        """Jobs whose worker has been gone for two looks in a row, and all jobs of a pool that broke."""
        undone = [future for future in self._slots if not future.done()]
        if not self._pool.active:
            return undone
        gone = {future for future in undone if not _alive(self._board[self._slots[future]])}
        lost, self._suspects = gone & self._suspects, gone
        return [future for future in undone if future in lost or future in self._orphans]

    def close(self) -> None:
        self._pool.stop()
        self._pool.join()


def _alive(process: int) -> bool:
    """Whether a process is there; true of 0, where none has written yet."""
    try:
        os.kill(process or os.getpid(), 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- in the worker


class _Here:
    """What a worker was given at its start."""

    payload: bytes
    board: Any


def _begin(payload: bytes, board: Any, driver: int) -> None:
    end_with_driver(driver)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at once, in code that ignores Python's handlers too
    _Here.payload, _Here.board = payload, board
    try:
        unpacked(payload)  # before the first job's time begins
    except Exception:
        return  # and the first job says why
    keep_to_one_openmp_thread()


def _run(slot: int, job: Job, timeout: float | None) -> Report:
    _Here.board[slot] = os.getpid()
    return work(_Here.payload, job, timeout)
