"""Running simulators: one thin interface over blocks."""

from fbar.engine.in_process import InProcess, simulate

__all__ = ["InProcess", "simulate"]
