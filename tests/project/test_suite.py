"""The tests themselves: what they start ends with them, whatever signals they were started with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

LEAVES = """
import subprocess, sys, time
import pytest

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

def test_orphan():
    "Its parent is gone, and it is the leader of a session of its own."
    code = f"import subprocess; subprocess.Popen({SLEEP!r}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_failed():
    global forgotten
    forgotten = subprocess.Popen(SLEEP, stdout=subprocess.PIPE)
    raise LookupError("of its own")

def test_forked():
    import os
    if os.fork() == 0:
        time.sleep(600)

@pytest.fixture(scope="session")
def lasting():
    global kept
    kept = subprocess.Popen([*SLEEP, "lasting"])

def test_with_a_fixture_that_forgets(lasting):
    pass

def test_in_peace():
    import gc
    gc.collect()
"""


def suite(directory: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The outcome of tests with this suite's own conftest."""
    (directory / "conftest.py").write_text(
        (HERE / "conftest.py").read_text().replace("PATIENCE = 10.0", "PATIENCE = 0.5")
    )
    (directory / "test_it.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "FBAR_TESTS"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60)


def test_what_tests_leave_behind_is_ended_and_fails_them_alone(tmp_path: Path) -> None:
    done = suite(tmp_path, LEAVES, "-n", "2")
    outcomes = done.stdout.split("short test summary")[1]
    assert "ERROR test_it.py::test_orphan - AssertionError: the test left processes" in outcomes
    assert "ERROR test_it.py::test_forked - AssertionError: the test left processes" in outcomes
    assert "FAILED test_it.py::test_failed - LookupError: of its own" in outcomes
    assert "1 failed, 4 passed, 2 errors" in outcomes
    assert "the tests left processes behind" in done.stderr
    assert "lasting" in done.stderr


def test_a_process_that_outlives_a_fixture_fails_the_run(tmp_path: Path) -> None:
    text = LEAVES.partition("def test_orphan")[0] + "@pytest.fixture" + LEAVES.partition("@pytest.fixture")[2]
    done = suite(tmp_path, text)
    assert "2 passed" in done.stdout
    assert done.returncode == 1
    assert "lasting" in done.stderr


INTERRUPTED = """
import signal, subprocess, sys

def test_interrupt():
    command = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in error
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "worker"])
def test_signals_are_those_of_a_terminal_in_the_background_too(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Shells start what runs in the background of a script with SIGINT ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = suite(tmp_path, INTERRUPTED, *options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
