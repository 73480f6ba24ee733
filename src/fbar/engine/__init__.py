"""Running simulators: in this process, in processes of this machine, on executors and clusters.

Other rooms import `Engine`, the engines that users name, and `as_engine`; what fails and hangs is dealt with inside.
"""

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
