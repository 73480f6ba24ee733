"""A keeper: runs the programs that it is asked to, one at a time, and lets nothing of them outlive their call.

It is a script of its own, which imports nothing but the standard library, so that it is small and starts quickly. Its
standard input is a socket. A request is a program with its arguments, directory, environment and time limit; the answer
is its exit status and all that it printed. When the other end of the socket is closed, by whatever death of its owner,
everything ends.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

IDLE = 0.5
"""Seconds after which a keeper that is not needed ends."""

PATIENCE = 10.0
"""Seconds to wait for processes that were killed: one that waits for a broken disk does not end."""

SIZE = struct.Struct("!Q")
CHUNK = 1 << 16
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


# ---------------------------------------------------------------- what is left behind


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends; on Linux alone."""
    if sys.platform == "linux":
        _libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_keeper() -> None:
    """In the program's process, before it begins: so that not even the keeper's death leaves it running."""
    _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@lru_cache(maxsize=1)
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


def children() -> list[int]:
    """The children of this process, which has one thread; on Linux alone."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:  # not every kernel has the list
        return [int(name) for name in _listed("/proc") if name.isdigit() and _parent(name) == own]


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _parent(process: str) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def end_children() -> None:
    """Kill all children of this process until none is left: those of the dead become its own, and follow."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            for child in children():
                send_signal(child, signal.SIGKILL)
            time.sleep(0.0005)


def send_signal(process: int, number: int, *, group: bool = False) -> None:
    """Send a signal to a process or group that may have ended."""
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(process, number)


# ---------------------------------------------------------------- messages


def send(connection: socket.socket, message: tuple[Any, ...]) -> None:
    data = marshal.dumps(message)
    connection.sendall(SIZE.pack(len(data)) + data)


def receive(connection: socket.socket) -> tuple[Any, ...]:
    """The next message; EOFError if the other end is gone."""
    (size,) = SIZE.unpack(_exactly(connection, SIZE.size))
    message: tuple[Any, ...] = marshal.loads(_exactly(connection, size))
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        try:
            part = connection.recv(min(size, 1 << 20))
        except ConnectionResetError:
            part = b""
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


BYE, RAN, LATE, REFUSED = "bye", "ran", "late", "refused"
"""What a keeper says: it ends, being idle; a program ended; it took too long; it could not be started."""


# ---------------------------------------------------------------- programs


class _Output:
    """What comes out of a pipe."""

    def __init__(self, pipe: Any) -> None:
        self._pipe, self._parts = pipe, list[bytes]()
        os.set_blocking(pipe.fileno(), False)
        self.open = True

    def fileno(self) -> int:
        return int(self._pipe.fileno())

    def read(self) -> bool:
        """Take what there is; whether there was something."""
        try:
            part = os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self._parts.append(part)
        self.open = bool(part)
        return self.open

    def close(self) -> bytes:
        """All of it. Who else may hold the pipe open is not waited for."""
        while self.open and self.read():
            pass
        self._pipe.close()
        return b"".join(self._parts)


def run(
    connection: socket.socket, awake: int, arguments: list[str], cwd: str, env: dict[str, str], timeout: float | None
) -> tuple[Any, ...]:
    """Run a program to its end and end what it left behind; EOFError if the owner has gone meanwhile."""
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
            preexec_fn=_die_with_keeper if sys.platform == "linux" else None,
        )
    except OSError as error:
        return REFUSED, error.errno, error.strerror, error.filename
    except ValueError as error:  # such as a zero byte in an argument
        return REFUSED, None, str(error), None
    out, err = _Output(process.stdout), _Output(process.stderr)
    until = None if timeout is None else time.monotonic() + timeout
    status = None
    while status is None:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            break
        pipes = [pipe for pipe in (out, err) if pipe.open]
        watched: list[Any] = [connection, awake, *pipes]
        ready, _, _ = select.select(watched, [], [], left)
        for pipe in pipes:
            if pipe in ready:
                pipe.read()
        if connection in ready:  # nothing is asked meanwhile: it was closed
            raise EOFError
        if awake in ready:
            os.read(awake, CHUNK)
            status = _ended(process.pid)
    if status is None or sys.platform != "linux":
        send_signal(process.pid, signal.SIGKILL, group=True)
    end_children()
    process.returncode = -signal.SIGKILL if status is None else status
    return LATE if status is None else RAN, process.returncode, out.close(), err.close()


def _ended(process: int) -> int | None:
    """The exit status of a program if it has ended. Orphans that have ended are waited for too."""
    status = None
    while True:
        try:
            child, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if not child:
            return status
        if child == process:
            status = os.waitstatus_to_exitcode(found)


def main() -> None:
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # what is ignored would be by the programs too
            signal.signal(number, lambda *_: None)
    awake, wake = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    connection = socket.socket(fileno=os.dup(0))
    with suppress(EOFError, OSError):
        while select.select([connection], [], [], IDLE)[0]:
            send(connection, run(connection, awake, *receive(connection)))
        send(connection, (BYE,))
    end_children()
    os._exit(0)


if __name__ == "__main__":
    main()
