"""From what a user gives to an engine."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from fbar.checks import positive_number, shown, whole_number
from fbar.engine.base import Engine
from fbar.engine.executors import Dask, Futures
from fbar.engine.in_process import InProcess
from fbar.engine.workers import Workers
from fbar.errors import InputError

MOST_WORKERS = 10_000
"""Processes on one machine."""


def as_engine(engine: Any = None, workers: int | None = None, timeout: float | None = None) -> Engine:
    """In this process, on local workers, or on what ``engine`` is: an engine, an executor, a Dask client or address."""
    if timeout is not None:
        positive_number(timeout, "timeout")
    wanted = 0 if workers is None else whole_number(workers, "workers", 0, MOST_WORKERS)
    if engine is not None:
        if wanted or timeout is not None:
            raise InputError("give either engine= or workers= and timeout=, not both")
        return _given(engine)
    if not wanted and timeout is None:
        return InProcess()
    return Workers(wanted or 1, timeout=timeout)


def _given(engine: Any) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, Executor):
        return Futures(engine)
    if isinstance(engine, str) or hasattr(engine, "scatter"):
        return Dask(engine)
    raise InputError(
        "engine must be an engine such as fbar.engine.Workers(4), a concurrent.futures.Executor, a distributed.Client "
        f"or its address; got {shown(engine)}"
    )
