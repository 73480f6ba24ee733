"""Time limits inside a process: an alarm that raises in the code it interrupts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fbar.checks import LONGEST
from fbar.question.simulators import TimedOut

AGAIN = 1.0
"""Seconds after which a time limit that the simulator has swallowed strikes again."""


@contextmanager
def limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimedOut` in the body when the seconds have passed; in the main thread of a process alone."""
    if seconds is None:
        yield
        return

    def strike(number: int, frame: FrameType | None) -> None:
        if armed:
            raise TimedOut

    armed = True
    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST), AGAIN)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
