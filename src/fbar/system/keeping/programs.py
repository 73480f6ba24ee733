"""Programs, run by keepers: see `fbar.system.keeping.keeper`."""

from __future__ import annotations

import atexit
import multiprocessing.spawn
import os
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fbar.errors import EngineFailed
from fbar.system.keeping import keeper


class KeeperLost(Exception):
    """A keeper ended before the program that it ran."""


@dataclass(frozen=True)
class Done:
    """A call of a program: its exit status (minus the number of the signal that killed it) and what it printed."""

    status: int
    out: str
    err: str
    late: bool = False
    """Whether it passed its time limit and was killed."""


def run_program(arguments: list[str], cwd: str | None, env: dict[str, str] | None, timeout: float | None) -> Done:
    """Run a program; when this returns or raises, it and all that it started have ended."""
    request = (arguments, cwd or os.getcwd(), dict(os.environ) if env is None else env, timeout)
    while True:
        found = _taken()
        try:
            answer = found.ask(request)
        except BaseException:
            found.end()
            raise
        if answer[0] != keeper.BYE:
            break
        found.end()
    _give(found)
    kind, status, out, err = answer
    if kind == keeper.REFUSED:
        raise ValueError(out) if status is None else OSError(status, out, err)
    return Done(status, _text(out), _text(err), kind == keeper.LATE)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


class _Keeper:
    """A keeper of this process, for one call at a time."""

    def __init__(self) -> None:
        executable = os.fsdecode(multiprocessing.spawn.get_executable() or "")
        self._connection, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [executable, "-I", "-S", keeper.__file__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException as error:
            self._connection.close()
            if not isinstance(error, OSError):
                raise
            raise EngineFailed(
                f"programs are run by a second Python, and {executable!r} cannot be started ({error.strerror}); "
                "choose it with multiprocessing.set_executable"
            ) from error
        finally:
            theirs.close()
        with _lock:
            _all.add(self)

    @property
    def gone(self) -> bool:
        """Whether it has ended while it was idle."""
        return bool(self._process.poll() is not None)

    def ask(self, request: tuple[Any, ...]) -> tuple[Any, ...]:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have said that it ends
            keeper.send(self._connection, request)
        try:
            return keeper.receive(self._connection)
        except EOFError:
            raise KeeperLost("the process that runs programs was killed; check this machine's memory") from None

    def end(self) -> None:
        """End it with all that it runs."""
        with _lock:
            _all.discard(self)
        self._connection.close()
        try:
            self._process.wait(keeper.PATIENCE)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def forget(self) -> None:
        """Let go of a keeper that belongs to the process that this one was forked from."""
        self._connection.close()
        self._process.returncode = 0


_lock = threading.Lock()
_idle: list[_Keeper] = []
_all: set[_Keeper] = set()


def _taken() -> _Keeper:
    while True:
        with _lock:
            found = _idle.pop() if _idle else None
        if found is None:
            return _Keeper()
        if not found.gone:
            return found
        found.end()


def _give(found: _Keeper) -> None:
    with _lock:
        _idle.append(found)


def close_idle() -> None:
    """End the keepers that have nothing to do; they would end themselves soon."""
    while True:
        with _lock:
            if not _idle:
                return
            found = _idle.pop()
        found.end()


def _forget() -> None:
    """In a process that was forked: the keepers of its parent must see the parent's end."""
    global _lock
    _lock = threading.Lock()
    for one in _all:
        one.forget()
    _all.clear()
    _idle.clear()


atexit.register(close_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
