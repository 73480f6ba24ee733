"""Commands in children of this process, with limits of time, memory and files, and a verdict on how they ended.

A child is forked with everything imported, so that a command takes a tenth of a second and not a whole one. Its limits
are its own: what it eats up is not eaten up here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS = 10
WALL_SECONDS = 60.0
MEMORY = 1 << 30
"""Bytes that a child may hold."""

ADDRESSES = 1 << 34
"""Bytes that it may ask for: who asks for more is told so by the system, which may look like a refusal."""

OUTPUT = 5_000_000
"""Bytes that a command may print."""

STILL = 5.0
"""Seconds without any work after which a child waits for what never comes."""

REFUSED = 77
"""The exit status of a Python call that fbar refused; `RAW` of one that raised anything else."""
RAW = 78

ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that command a terminal, but for the end of a line and the tab."""

DEFECT = re.compile(
    r"Traceback \(most recent call last\)|internal error in fbar|Exception ignored in|Fatal Python error"
)


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    status: int
    """Its exit status, or minus the signal that ended it."""
    out: str
    err: str
    seconds: float
    limit: str = ""
    """The limit that ended it, if one did."""

    @property
    def fine(self) -> bool:
        return self.status == 0

    @property
    def said(self) -> str:
        return " ".join(f"{self.out} {self.err}".split())

    def fault(self) -> str:
        """What is wrong with how it ended, whatever it was asked; nothing if it was fine or refused in a line."""
        if self.limit:
            return f"bomb: {self.limit}"
        if self.status == RAW or DEFECT.search(self.err):
            return f"raw: {last_line(self.err)}"
        if self.status < 0:
            return f"raw: ended by signal {-self.status}"
        if len(self.out) + len(self.err) > OUTPUT:
            return f"bomb: printed {len(self.out) + len(self.err):,} characters"
        found = ESCAPES.search(self.out + self.err)
        if found:
            return f"escaped: {found.group()!r} reaches the terminal"
        lines = [line for line in self.err.splitlines() if line.strip()]
        errors = [line for line in lines if not line.startswith("fbar: warning:")]
        if self.status and (not lines or len(errors) > 1):
            return f"raw: {len(lines)} lines of error and status {self.status}: {last_line(self.err)}"
        return ""


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "(nothing said)"


def forked(
    work: Callable[[], int | None],
    room: Path,
    *,
    environment: Mapping[str, str] | None = None,
    cpu: int = CPU_SECONDS,
    memory: int | None = MEMORY,
    file_size: int | None = None,
    user: int | None = None,
    wall: float = WALL_SECONDS,
    where: Path | None = None,
) -> Ended:
    """Do ``work`` in a child and wait for its end; its output goes through files in ``room``."""
    room.mkdir(parents=True, exist_ok=True)
    out, err = room / ".out", room / ".err"
    began = time.monotonic()
    born = _resident(os.getpid())  # of the child too, and read before it can grow
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which a test's process may have
        child = os.fork()
    if not child:
        status = 70
        try:
            os.setsid()
            _redirect(out, err)
            os.environ.update(environment or {})
            _warn_as_python_does()
            if where is not None:
                os.chdir(where)
            _limit(cpu, memory, file_size)
            if user is not None:
                os.setgid(user)
                os.setuid(user)
            status = work() or 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        except BaseException:
            traceback.print_exc()
            status = RAW
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    limit, status = _wait(child, wall, memory, born)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)  # workers that it left behind; the group is its own
    if status == -signal.SIGXCPU:
        limit = f"more than {cpu} s of processor time"
    seconds = time.monotonic() - began
    return Ended(status, _beginning(out), _beginning(err), seconds, limit)


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return file.read(OUTPUT + 1)


def _redirect(out: Path, err: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    # Python's own objects may be a test's or a notebook's.
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="surrogateescape", closefd=False, buffering=1)  # noqa: SIM115


def _warn_as_python_does() -> None:
    """And not as a test does, which makes errors of warnings."""
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("ignore", "Cyclopts application invoked")  # of tests that forget their arguments


def _limit(cpu: int, memory: int | None, file_size: int | None) -> None:
    _lower(resource.RLIMIT_CPU, cpu)
    _lower(resource.RLIMIT_CORE, 0)
    if memory is not None:
        _lower(resource.RLIMIT_AS, _address_space() + ADDRESSES)
    if file_size is not None:
        _lower(resource.RLIMIT_FSIZE, file_size)


def _lower(which: int, to: int) -> None:
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (to if hard < 0 else min(to, hard), hard))


def _address_space() -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 1 << 30


def _wait(child: int, wall: float, memory: int | None, born: int) -> tuple[str, int]:
    """Wait for a child's end: not for one that takes too long or too much, nor for one that waits in vain."""
    until = time.monotonic() + wall
    busy, since = -1.0, time.monotonic()
    limit, pause = "", 0.002
    while True:
        ended, status, _ = os.wait4(child, os.WNOHANG)
        if ended:
            return limit, os.waitstatus_to_exitcode(status)
        now, used = time.monotonic(), _work_done(child)
        if used != busy:
            busy, since = used, now
        if now > until:
            limit = limit or f"endless: not done after {wall:g} s"
        elif now - since > STILL:
            limit = limit or f"endless: waits for {STILL:g} s and more"
        elif memory is not None and _resident(child) - born > memory:
            limit = limit or f"took more than {memory >> 20:,} MB"
        if limit:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)


def _resident(process: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _work_done(process: int) -> float:
    """Processor time of a child and of its own children that have ended or work; only its change is of use."""
    total = 0.0
    for one in [process, *children_of(process)]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(fields[i]) for i in (11, 12, 13, 14))
            if fields[0] == "R":
                total += time.monotonic()
    return total


def children_of(process: int) -> set[int]:
    """The children of a process, theirs too."""
    found: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(int(child) for child in task.read_text().split())
    return found.union(*(children_of(child) for child in found)) if found else found


# ---------------------------------------------------------------- what children do


def preload() -> None:
    """Import here what commands need, so that no child has to."""
    import fbar.cli
    import fbar.results.report  # noqa: F401

    for name in ("scipy.stats", "fbar.plot", "pandas", "pyarrow", "pebble", "cloudpickle", "threadpoolctl"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def command(*arguments: str) -> Callable[[], int]:
    """A command line of fbar."""

    def work() -> int:
        from fbar.cli import main

        sys.argv = ["fbar", *arguments]
        main()
        return 0

    return work


def call(function: Callable[[], object]) -> Callable[[], int]:
    """A Python call: what fbar refuses has a status and a line of its own."""

    def work() -> int:
        from fbar.errors import FbarError

        try:
            print(function())
        except FbarError as error:
            print(f"fbar: {error}", file=sys.stderr)
            return REFUSED
        return 0

    return work
