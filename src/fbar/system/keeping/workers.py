"""Worker processes, each below a keeper of its own that ends what the worker leaves behind."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import warnings
from typing import Any

from fbar.system.keeping.keeper import adopt_orphans, end_children, send_signal
from fbar.system.processes import bind_to_parent, prepare

FORKS = ".*multi-threaded, use of fork"
"""How Python 3.12 and later warn of a fork beside other threads."""

SIZE = 8
"""Bytes of a process's number in a pipe."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def worker_context() -> Any:
    """What makes worker processes, as of `multiprocessing`: forked and kept on Linux, spawned elsewhere.

    Scripts without a __main__ guard work with fork alone.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    prepare()
    return _KeptContext()


if sys.platform == "linux":

    class _KeptProcess(multiprocessing.context.ForkProcess):
        """A worker and its keeper. The keeper is this process's child; ``pid`` is the worker's.

        The keeper has a session of its own, where no Ctrl-C and no signal for the driver's group comes. It ends with
        the driver, or when it is told to, and takes the worker and all that the worker started with it.
        """

        def start(self) -> None:
            self._driver = os.getpid()
            self._reader, self._writer = os.pipe()
            try:
                with warnings.catch_warnings():  # a driver may have threads; keepers use none of them
                    warnings.filterwarnings("ignore", FORKS, DeprecationWarning)
                    super().start()
                os.close(self._writer)
                self._worker = int.from_bytes(os.read(self._reader, SIZE), sys.byteorder)
            finally:
                os.close(self._reader)

        @property
        def pid(self) -> int | None:
            return getattr(self, "_worker", None) or super().ident

        def kill(self) -> None:
            self.terminate()  # which no keeper ignores; killed itself, it could end nothing

        def run(self) -> None:
            worker = None

            def end(*_: Any) -> None:
                if worker is None:
                    os._exit(1)
                send_signal(worker, signal.SIGKILL)

            os.close(self._reader)
            os.setsid()
            adopt_orphans()
            before = {number: signal.getsignal(number) for number in SIGNALS}
            signal.signal(signal.SIGTERM, end)
            for number in SIGNALS:
                if number != signal.SIGTERM:
                    signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            bind_to_parent(self._driver, signal.SIGTERM)
            keeper = os.getpid()
            worker = os.fork()
            if worker == 0:
                os.close(self._writer)
                for number, handler in before.items():
                    ignored = handler is signal.SIG_IGN
                    signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
                bind_to_parent(keeper, signal.SIGKILL)
                super().run()
                return
            try:
                os.write(self._writer, worker.to_bytes(SIZE, sys.byteorder))
            except BrokenPipeError:  # the driver was interrupted while it waited for the number: it knows of no worker
                end()
            os.close(self._writer)
            os._exit(_watch(worker))

    class _KeptContext(multiprocessing.context.ForkContext):
        Process = _KeptProcess


def _watch(worker: int) -> int:
    """Wait for the worker, and for orphans that end before it; then end the others. An exit status for all of it."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == worker:
            break
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_children()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
