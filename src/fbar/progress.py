"""One line on a terminal for runs that take longer than two seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

from fbar.methods.forecasts import brief

PATIENCE, PAUSE = 2.0, 0.2


class ProgressLine:
    """Called with the run after every block; writes to standard error if that is a terminal."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._shown = False

    @staticmethod
    def wanted() -> bool:
        return sys.stderr.isatty()

    def __call__(self, run: Any) -> None:
        now = time.monotonic()
        if now - self._start < PATIENCE or now - self._last < PAUSE:
            return
        self._last, self._shown = now, True
        most = run.budget or run.limit
        of = f" of {most:,}" if most else ""
        tolerance = f", tolerance {run.tolerance:.4g}" if hasattr(run, "tolerance") else ""
        line = f"{run.simulations:,}{of} simulations, round {run.round + 1}{tolerance}{left(run)}"
        line = f"{line}, {now - self._start:.0f} s"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def left(run: Any) -> str:
    """What is left to do, of the forecast that was made at the end of the last round."""
    expected = getattr(run, "expected", None)
    more = 0 if expected is None else expected.at + expected.more - run.simulations
    return f", about {brief(more)} more" if more > 0 else ""
