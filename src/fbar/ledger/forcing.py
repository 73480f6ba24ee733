"""A thread that forces to the disk what was written, a fraction of a second later at the latest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress


class Forcing:
    """Calls ``force`` within ``seconds`` after each `soon`; what it raises is left to the next one who writes.

    In a thread of its own, since the run may be waiting for a simulation that takes days.
    """

    def __init__(self, force: Callable[[], None], seconds: float) -> None:
        self._force, self._seconds = force, seconds
        self._changed = threading.Condition()
        self._due: float | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        with self._changed:
            if self._due is None:
                self._due = time.monotonic() + self._seconds
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="fbar-ledger", daemon=True)
                self._thread.start()

    def now(self) -> None:
        with self._changed:
            self._due = None
        self._force()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (self._due is None or self._due > time.monotonic()):
                    self._changed.wait(None if self._due is None else max(0.0, self._due - time.monotonic()))
                if self._stopped:
                    return
                self._due = None
            with suppress(OSError):
                self._force()
