"""One driver at a time: a lock that the system lets go when its holder dies."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from fbar.errors import RunInUse
from fbar.system.files import NO_LINKS, require_own_file

_held: set[int] = set()
"""The open files of the locks of this process."""


def _forget_locks() -> None:
    """A child that was forked, such as a worker, must not keep a run locked that its dead driver held."""
    for file in _held:
        os.close(file)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


PATIENCE = 0.5
"""Seconds in which a reader who looks whether the lock is held has let go of it again."""


def held(path: Path) -> bool:
    """Whether a driver holds the lock; nothing is written for it, and nothing kept."""
    import fcntl

    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | NO_LINKS)  # a pipe would wait for a writer
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(file)


class Lock:
    """Held by the one driver of a run or a study."""

    def __init__(self, path: Path) -> None:
        import fcntl

        require_own_file(path)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o644)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                holder = os.read(self._file, 200).decode(errors="replace").strip()
                os.close(self._file)
                raise RunInUse(
                    f"{path.parent} is in use by another driver ({holder or 'unknown'}); wait for it"
                ) from None
        _held.add(self._file)
        with suppress(OSError):  # on a full disk the name of the holder is all that is lost
            os.ftruncate(self._file, 0)
            os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())

    @property
    def deleted(self) -> bool:
        """Whether its file is no longer in any directory."""
        return os.fstat(self._file).st_nlink == 0

    def release(self) -> None:
        if self._file in _held:
            _held.remove(self._file)
            os.close(self._file)
