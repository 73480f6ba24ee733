"""A thread that forces to the disk what was written, a fraction of a second later at the latest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Forcing:
    """Calls ``force`` within ``seconds`` after each `soon`, in another thread: the run may be waiting for days.

    What it raises is raised again by the next `soon` or `now`: a system reports only once that it could not write.
    """

    def __init__(self, force: Callable[[], None], seconds: float) -> None:
        self._force, self._seconds = force, seconds
        self._changed = threading.Condition()
        self._due: float | None = None
        self._stopped = False
        self._failed: OSError | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_failed(self) -> bool:
        """Whether an error waits to be raised."""
        return self._failed is not None

    def soon(self) -> None:
        with self._changed:
            self._raise_failure()
            if self._due is None:
                self._due = time.monotonic() + self._seconds
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="fbar-ledger", daemon=True)
                self._thread.start()

    def now(self) -> None:
        with self._changed:
            self._due = None
            self._raise_failure()
        self._force()

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

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
            try:
                self._force()
            except OSError as error:
                with self._changed:
                    self._failed = error
