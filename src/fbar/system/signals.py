"""Signals that ask a process to end: a run stops as by Ctrl-C, so that what was recorded is kept and workers end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Sent by ``kill`` and by batch systems before they kill; sent when a terminal is closed."""

REPEATED_WITHIN = 1.0
"""Seconds in which a repeated signal means nothing new: the command ``timeout`` sends it twice."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal, ``number``."""

    def __init__(self, message: str = "", number: int = signal.SIGTERM) -> None:
        super().__init__(message or f"stopped by {signal.Signals(number).name}")
        self.number = number


class _Held:
    """A signal that came while the end was held back."""

    back = False
    number: int | None = None


@contextmanager
def end_held_back() -> Iterator[None]:
    """Raise `Terminated` only after the body, in which processes are forked.

    Python swallows an exception that a signal raises in the handlers of a fork.
    """
    if _Held.back or threading.current_thread() is not threading.main_thread():
        yield
        return
    _Held.back, _Held.number = True, None
    try:
        yield
    finally:
        _Held.back = False
    if _Held.number is not None:
        raise Terminated(number=_Held.number)


def exit_status(error: KeyboardInterrupt) -> int:
    """The exit status that a shell reports of a process that the signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (error.number if isinstance(error, Terminated) else signal.SIGINT)


def interrupted(error: KeyboardInterrupt, message: str) -> KeyboardInterrupt:
    """The same interruption with another message."""
    return Terminated(message, error.number) if isinstance(error, Terminated) else KeyboardInterrupt(message)


@contextmanager
def ending_as_by_ctrl_c() -> Iterator[None]:
    """Raise `Terminated` in the body on SIGTERM and SIGHUP, only in the main thread.

    Only where no other handler is set; the handlers are put back.
    """
    owner, last = os.getpid(), float("-inf")

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if os.getpid() != owner:  # a process that was forked meanwhile
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if now - last > REPEATED_WITHIN:
            last = now
            if _Held.back:
                _Held.number = number
                return
            raise Terminated(number=number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in ASKING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)
