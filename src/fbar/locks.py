"""One driver at a time: a lock that the system lets go when its holder dies."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from fbar.errors import RunInUse

_held: set[int] = set()
"""The open files of the locks of this process."""


def _forget_locks() -> None:
    """A child that was forked, such as a worker, must not keep a run locked that its dead driver held."""
    for file in _held:
        os.close(file)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


class Lock:
    """Held by the one driver of a run or a study."""

    def __init__(self, path: Path) -> None:
        import fcntl

        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 200).decode(errors="replace").strip()
            os.close(self._file)
            raise RunInUse(f"{path.parent} is in use by another driver ({holder or 'unknown'}); wait for it") from None
        _held.add(self._file)
        with suppress(OSError):  # on a full disk the name of the holder is all that is lost
            os.ftruncate(self._file, 0)
            os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())

    def release(self) -> None:
        if self._file in _held:
            _held.remove(self._file)
            os.close(self._file)
