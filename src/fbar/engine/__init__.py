"""Running simulators: here, on this machine's processes, on a cluster."""

from fbar.engine.base import Engine, Session
from fbar.engine.choose import as_engine
from fbar.engine.in_process import InProcess, simulate

__all__ = ["Engine", "InProcess", "Session", "as_engine", "simulate"]
