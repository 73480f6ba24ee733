"""What all tests share: one thread, signals as a terminal gives them, and no process that outlives its test.

On Linux the process that runs tests adopts what its children leave behind, so that what a test started is found
whatever became of its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # tests run side by side, and their threads would be in each other's way

LINUX = sys.platform == "linux"
PR_SET_CHILD_SUBREAPER = 36
MARK = "FBAR_TESTS"
"""In the environment of every process of a run of the tests: the number of the process that began it."""
PATIENCE = 10.0
"""Seconds for processes that were told to end."""
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Python's own, one for each process that runs tests; they end with it."""


STATE = "FBAR_STATE_DIR"
"""Where fbar remembers whose models are whose: one for all processes of the tests, never the user's own."""


def pytest_configure(config: pytest.Config) -> None:
    if MARK not in os.environ:
        os.environ[MARK], os.environ[STATE] = str(os.getpid()), tempfile.mkdtemp(prefix="fbar-tests-")
    if LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_unconfigure(config: pytest.Config) -> None:
    if os.environ.get(MARK) == str(os.getpid()):
        shutil.rmtree(os.environ[STATE], ignore_errors=True)


# ---------------------------------------------------------------- which tests are run

ALWAYS_SLOW = "test_estimates_lie_within_their_error_bars_of_the_truth"
"""Of `fbar.testing.MethodConformance`: 200 runs of every method."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name == ALWAYS_SLOW:
            item.add_marker("slow")


# ---------------------------------------------------------------- signals


@pytest.fixture(autouse=True)
def _signals() -> None:
    """Started in the background of a script everything ignores SIGINT, and so would all that tests start."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


# ---------------------------------------------------------------- processes

_opened: weakref.WeakSet[subprocess.Popen[Any]] = weakref.WeakSet()
_begin = subprocess.Popen.__init__


def _remembered(self: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
    _begin(self, *arguments, **options)
    _opened.add(self)


subprocess.Popen.__init__ = _remembered  # type: ignore[method-assign]  # every process that a test starts is seen


def children(process: int | str = "self") -> set[int]:
    """The children of a process, dead ones that nobody waited for too."""
    found: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(int(child) for child in task.read_text().split())
    return found


def told(process: int) -> str:
    """The command of a process; nothing of one that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def _tree(process: int) -> set[int]:
    return {process}.union(*(_tree(child) for child in children(process)))


def _living(found: set[int]) -> dict[int, str]:
    """The commands of those that live and are not Python's own; waits for the dead, so that they are gone."""
    living = {}
    for process in found:
        with contextlib.suppress(OSError):
            os.waitpid(process, os.WNOHANG)
        command = told(process)
        if command and not any(helper in command for helper in HELPERS):
            living[process] = command
    return living


def _end(before: set[int]) -> None:
    """Kill all that this process started after ``before``, and what those started."""
    until = time.monotonic() + PATIENCE
    while living := _living(children() - before):
        for process in set().union(*(_tree(child) for child in living)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            pytest.fail(f"cannot be ended: {living}")
        time.sleep(0.01)


def _close(process: subprocess.Popen[Any]) -> None:
    """End a process and let go of it: one that is forgotten complains later, in another test."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait(PATIENCE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture(autouse=True)
def _processes(_signals: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test starts ends with it; a test that passed and left something alive fails."""
    before, opened = children() if LINUX else set(), set(map(id, _opened))
    yield
    left: dict[int, str] = {}
    if LINUX and children() - before:
        failed = request.node.stash.get(FAILED, False)
        until = time.monotonic() + (0 if failed else PATIENCE)
        while (left := _living(children() - before)) and time.monotonic() < until:
            time.sleep(0.02)
        _end(before)
        left = {} if failed else left
    for process in list(_opened):
        if id(process) not in opened and process.returncode is None:
            _close(process)
    assert not left, f"the test left processes behind: {left}"


def marked(own: str) -> dict[int, str]:
    """The processes of a run of the tests, by what stands in their environment; without those that run tests."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        process = int(path.parent.name)
        with contextlib.suppress(OSError):
            if f"{MARK}={own}".encode() in path.read_bytes().split(b"\0") and process != os.getpid():
                found[process] = told(process)
    own_helpers = {process for process in children() if any(helper in told(process) for helper in HELPERS)}
    return {process: command for process, command in found.items() if command and process not in own_helpers}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    """After the workers of the tests have ended nothing of the run is alive, or the run has failed."""
    result = yield
    if LINUX and not hasattr(session.config, "workerinput"):
        until = time.monotonic() + PATIENCE
        while (left := marked(os.environ[MARK])) and time.monotonic() < until:
            time.sleep(0.05)
        if left:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            print(f"\nthe tests left processes behind: {left}", file=sys.stderr)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


# ---------------------------------------------------------------- what takes long is computed once


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """``once(name, make)``: what ``make(directory)`` gives, made by whichever process of the tests asks first.

    The result is kept as a pickle beside what was written to the directory.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def get(name: str, make: Callable[[Path], Any]) -> Any:
        kept = shared / f"{name}.pickle"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                directory = shared / name
                directory.mkdir(exist_ok=True)
                kept.write_bytes(pickle.dumps(make(directory)))
            return pickle.loads(kept.read_bytes())

    return get


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory where there is one: what a death or damage leaves does not depend on waiting for a disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield Path(directory)
