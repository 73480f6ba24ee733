"""Processes that end with the process that started them, however that one dies, and that keep to one thread."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 1.0


@lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None)


def prepare() -> None:
    """Load here what `bind_to_parent` needs, so that a process that has just been forked does not have to."""
    if sys.platform == "linux":
        _libc()


def bind_to_parent(parent: int, number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; only on Linux.

    It is tied to the thread that forked, which must live as long as the process is to.
    """
    _libc().prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends: by the kernel on Linux, by looking every second elsewhere."""
    if sys.platform == "linux":
        bind_to_parent(parent, signal.SIGKILL)
    else:
        end_with_driver(parent)


def end_with_driver(driver: int) -> None:
    """End this worker when its driver ends: on Linux its keeper sees to that, elsewhere it looks every second."""
    if sys.platform != "linux":
        threading.Thread(target=_watch, args=(driver,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def keep_to_one_openmp_thread() -> None:
    """From here to the end of this process, in the libraries that are loaded.

    After a fork OpenMP waits for ever for threads that only the parent has, unless one thread is all it wants.
    Libraries that are loaded later, and programs that are started, have their own threads. Linear algebra is left as
    it is: it knows of forks, and its sums may depend on the number of threads.
    """
    limit_threads("openmp")


def limit_threads(kind: str | None = None) -> AbstractContextManager[Any]:
    """One thread for OpenMP, for linear algebra (``kind`` "openmp", "blas") or for both, until the context is left."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    context: AbstractContextManager[Any] = threadpool_limits(1, user_api=kind)
    return context
