"""Processes that end with the process that started them, however that one dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any

PR_SET_PDEATHSIG = 1
LOOK = 1.0


@lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None)


def prepare() -> None:
    """Load here what `die_with_parent` needs, so that a process that has just been forked does not have to."""
    if sys.platform == "linux":
        _libc()


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends: by the kernel on Linux, by looking every second elsewhere.

    Linux ties it to the thread that forked, which must live as long as the process is to.
    """
    if sys.platform == "linux":
        _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)
