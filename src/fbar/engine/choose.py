"""From what a user gives to an engine."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from fbar.checks import shown, time_limit, whole_number
from fbar.engine.base import Engine, Session
from fbar.engine.executors import Dask, Futures
from fbar.engine.in_process import InProcess
from fbar.engine.processes import processors
from fbar.engine.workers import Workers
from fbar.errors import InputError, MissingExtra
from fbar.question.problem import Problem

MOST_RECORDED = 64
"""Workers that a record may ask for, or four for each processor if that is more: it may be of another machine."""

MOST_WORKERS = 10_000
"""Processes on one machine."""


def as_engine(engine: Any = None, workers: int | None = None, timeout: float | None = None) -> Engine:
    """In this process, on local workers, or on what ``engine`` is: an engine, an executor, a Dask client or address."""
    limit = None if timeout is None else time_limit(timeout, "timeout")
    wanted = 0 if workers is None else whole_number(workers, "workers", 0, MOST_WORKERS)
    if engine is not None:
        if wanted or timeout is not None:
            raise InputError("give either engine= or workers= and timeout=, not both")
        return _given(engine)
    if not wanted and limit is None:
        return InProcess()
    return Workers(wanted or 1, timeout=limit)


def machine_of(engine: Engine) -> dict[str, Any]:
    """How a run is simulated, to be recorded with it. Of an executor or a cluster only the kind: it may be gone."""
    if isinstance(engine, Workers):
        return {"workers": engine.workers, "timeout": engine.timeout}
    kind = {} if isinstance(engine, InProcess) else {"engine": type(engine).__name__}
    return {"workers": None, "timeout": None, **kind}


def as_before(
    machine: Mapping[str, Any], engine: Any = None, workers: int | None = None, timeout: float | None = None
) -> Engine:
    """The engine that is asked for; what is not said is as it was recorded by `machine_of`.

    What ran on an executor or a cluster goes on in one local process.
    """
    if workers is not None:
        workers = whole_number(workers, "workers", 0, MOST_WORKERS)
    if engine is None and workers is None:
        workers = _number(machine.get("workers"), int) or (1 if machine.get("engine") else None)
        workers = None if workers is None else min(workers, max(MOST_RECORDED, 4 * processors()))
        timeout = _number(machine.get("timeout"), float, int) if timeout is None else timeout
    elif engine is None and workers and timeout is None:
        timeout = _number(machine.get("timeout"), float, int)
    return as_engine(engine, workers, timeout)


def _number(recorded: Any, *types: type) -> Any:
    """A positive number as it was recorded; None for all else."""
    positive = isinstance(recorded, int | float) and recorded > 0
    return recorded if positive and isinstance(recorded, types) else None


class Apart(Engine):
    """In one process of its own, or in this one where the problem cannot be sent there or a package is missing."""

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout

    def session(self, problem: Problem) -> Session:
        try:
            return Workers(1, timeout=self.timeout).session(problem)
        except (InputError, MissingExtra):
            return InProcess().session(problem)


def _given(engine: Any) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, Executor):
        return Futures(engine)
    if isinstance(engine, str) or hasattr(engine, "scatter"):
        return Dask(engine)
    raise InputError(
        "engine must be an engine such as fbar.Workers(4), a concurrent.futures.Executor, a distributed.Client "
        f"or its address; got {shown(engine)}"
    )
