"""Processes of this machine that do jobs, end with their owner, and are replaced when they die.

Pebble can miss the death of a worker that dies as soon as it has taken a job, and gives up when one dies that has no
job. So every worker writes its process id on a board before it begins: a job whose worker is gone was lost, a job
without a worker never began. A pool that broke is replaced.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_int
from importlib.util import find_spec
from typing import Any, TypeVar

from fbar.engine.dispatch import DEPTH, Fault, Pool, Splittable, Workload
from fbar.errors import EngineFailed, MissingExtra
from fbar.system.keeping import worker_context
from fbar.system.processes import end_with_driver
from fbar.system.signals import end_held_back

MOST_RESTARTS = 5
"""A pool that breaks this often without finishing one job is given up."""

J = TypeVar("J", bound=Splittable)
R = TypeVar("R")


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Processes(Pool[J, R]):
    """A pool of pebble's, with a board on which the worker of every job writes its process id."""

    def __init__(self, size: int, workload: Workload[J, R]) -> None:
        if find_spec("pebble") is None:
            raise MissingExtra("pebble", "run")
        self.size = size
        self._workload = workload
        self._context: Any = worker_context()
        self._board = self._context.RawArray(c_int, 4 * DEPTH * size)
        self._free = list(range(len(self._board)))
        self._slots: dict[Future[R], int] = {}
        self._suspects: set[Future[R]] = set()
        self._orphans: set[Future[R]] = set()
        self._restarts = 0
        self._pool = self._open()

    def _open(self) -> Any:
        from pebble import ProcessPool

        begin = (self._workload, self._board, os.getpid())
        return ProcessPool(self.size, initializer=_begin, initargs=begin, context=self._context)

    def _reopen(self) -> None:
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            raise EngineFailed("the worker processes die as soon as they start; check this machine's memory")
        self._orphans |= {future for future in self._slots if not future.done()}
        self._pool.join()
        self._pool = self._open()

    def send(self, job: J, seconds: float | None) -> Future[R]:
        with end_held_back():  # pebble starts the workers when it is first asked for anything
            if not self._pool.active:
                self._reopen()
            slot = self._free.pop()
            self._board[slot] = 0
            future: Future[R] = self._pool.schedule(_run, args=(slot, job), timeout=seconds)
            self._slots[future] = slot
        return future

    def _forget(self, future: Future[R]) -> int:
        """Free the future's place on the board; the process that wrote there, or 0."""
        slot = self._slots.pop(future)
        self._suspects.discard(future)
        self._orphans.discard(future)
        self._free.append(slot)
        return int(self._board[slot])

    def done(self, future: Future[R]) -> None:
        self._forget(future)
        self._restarts = 0

    def fault(self, future: Future[R], error: BaseException | None) -> Fault | None:
        from pebble import ProcessExpired

        begun = self._forget(future)
        if isinstance(error, TimeoutError):
            return Fault.OVERDUE
        if error is None:
            future.cancel()
        if error is None or isinstance(error, ProcessExpired | BrokenProcessPool):
            return Fault.DIED if begun else Fault.DROPPED
        return None

    def lost(self) -> list[Future[R]]:
        """Jobs whose worker was gone at two checks in a row, and all jobs of a pool that broke."""
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
    """Whether a process exists; true of 0, where none has written yet."""
    try:
        os.kill(process or os.getpid(), 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- in the worker


class _Here:
    """What a worker was given at its start."""

    workload: Workload[Any, Any]
    board: Any


def _begin(workload: Workload[Any, Any], board: Any, driver: int) -> None:
    end_with_driver(driver)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at once, in code that ignores Python's handlers too
    _Here.workload, _Here.board = workload, board
    workload.begin(workload.payload)


def _run(slot: int, job: Any) -> Any:
    _Here.board[slot] = os.getpid()
    return _Here.workload.run(_Here.workload.payload, job)
