"""A recorded run seen from outside, from two small files of its directory: what was asked, how far it is, its end.

Nothing is written, nothing locked for longer than a look, and the ledger is not opened: a run can be watched on a
read-only mount, over a network file system and while another machine drives it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from fbar.errors import LedgerError
from fbar.ledger import Leg
from fbar.ledger.legs import read_json
from fbar.ledger.reader import no_run
from fbar.running.progress_file import RecordedProgress, read_progress
from fbar.system.files import read_text
from fbar.system.locks import held
from fbar.system.schema import check_legs

MOST_HOLDER = 1000
"""Bytes of the lock's file, which names its holder, at most."""


class Status(Enum):
    """Where a run is."""

    NOT_STARTED = "not started"
    RUNNING = "in progress"
    SOMEWHERE = "perhaps in progress on another machine"
    STOPPED = "stopped before its end"
    FINISHED = "finished"


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """A run at one moment."""

    directory: Path
    status: Status
    legs: tuple[Leg, ...]
    progress: RecordedProgress | None
    """What its driver wrote last about the last leg; None where it has written nothing."""
    machine: str
    """Where its driver is or was, as far as that is known."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen unless somebody starts or resumes the run."""
        return self.status in (Status.STOPPED, Status.FINISHED)

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.legs[-1].settings

    @property
    def seconds(self) -> float | None:
        """How long its driver has been at work, by the driver's own clock."""
        return None if self.progress is None else max(self.progress.written - self.progress.began, 0.0)

    @property
    def age(self) -> float | None:
        """Seconds since its driver wrote last, as far as the clocks of two machines agree."""
        return None if self.progress is None else max(time.time() - self.progress.written, 0.0)


def look_at(directory: Path) -> WatchedRun:
    """A recorded run as it is now."""
    if not (directory / "ledger.sqlite").exists():
        raise no_run(directory)
    # Whether it is driven comes first: the driver writes its end before it lets go.
    driven, holder = held(directory / "driver.lock"), _holder(directory)
    found = read_json(directory)
    legs = tuple(found[number].as_now() for number in range(len(found)) if number in found)
    check_legs(legs, directory)
    progress = read_progress(directory)
    if progress is not None and progress.leg != len(legs) - 1:
        progress = None  # the run was extended, and its driver is starting
    return WatchedRun(directory, _status(legs, progress, driven, holder), legs, progress, holder)


def _status(legs: tuple[Leg, ...], progress: RecordedProgress | None, driven: bool, holder: str) -> Status:
    if not legs:
        return Status.NOT_STARTED
    if legs[-1].result is not None:
        return Status.FINISHED
    if driven:
        return Status.RUNNING
    stopped = progress is not None and progress.stopped
    here = holder == socket.gethostname()
    return Status.STOPPED if stopped or here or not holder else Status.SOMEWHERE


def _holder(directory: Path) -> str:
    """The machine of the last driver, which writes into the lock's file who it is."""
    with suppress(OSError, LedgerError, ValueError):
        return read_text(directory / "driver.lock", MOST_HOLDER).partition(" on ")[2].strip()
    return ""
