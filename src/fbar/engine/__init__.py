"""Running simulators: here, on this machine's processes, on a cluster."""

from fbar.engine.base import Engine, Session
from fbar.engine.choose import Apart, as_before, as_engine, machine_of
from fbar.engine.executors import Dask, Futures
from fbar.engine.in_process import InProcess, simulate
from fbar.engine.workers import Workers

__all__ = [
    "Apart",
    "Dask",
    "Engine",
    "Futures",
    "InProcess",
    "Session",
    "Workers",
    "as_before",
    "as_engine",
    "machine_of",
    "simulate",
]
