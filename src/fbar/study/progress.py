"""How far a study is, and how long it will take."""

from __future__ import annotations

import sys
import time

from fbar.running.progress import duration
from fbar.running.replication import Progress
from fbar.system.terminal import cut, is_terminal, size

PATIENCE, PAUSE, PLAIN_PAUSE = 2.0, 0.5, 15.0


class StudyProgress:
    """One line on a terminal, a plain line now and then elsewhere; nothing in the first two seconds."""

    def __init__(self, wanted: bool | Progress) -> None:
        self._call = wanted if callable(wanted) else None
        self._quiet = wanted is False
        self._terminal = is_terminal()
        self._start = self._last = time.monotonic()
        self._shown = False

    def __call__(self, share: float, trials: int, whole: int) -> None:
        if self._call is not None:
            self._call(share, trials, whole)
            return
        now = time.monotonic()
        pause = PAUSE if self._terminal else PLAIN_PAUSE
        if self._quiet or now - self._start < PATIENCE or now - self._last < pause:
            return
        self._last = now
        left = (now - self._start) * (1 - share) / max(share, 1e-9)
        line = f"{trials} of {whole} trials, {share:.0%} of the work, about {duration(left)} left"
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{cut(line, size()[0] - 1)}")
            self._shown = True
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
