"""What a program or a simulator starts ends with it, however the call, the worker or the driver ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine.limits import TimedOut
from fbar.system.keeping import KeeperLost, keeper, run_program, worker_context

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="promised on Linux")]

LEAVES = """
import os, sys, time

def leave(number, daemon):
    if os.fork():
        return
    if daemon:  # in a session of its own, and nobody's child
        os.setsid()
        if os.fork():
            os._exit(0)
    with open(f"{sys.argv[1]}/{number}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, f"{sys.argv[1]}/{number}.pid")
    time.sleep(600)
    os._exit(0)

leave(1, daemon=False)
leave(2, daemon=True)
while len([name for name in os.listdir(sys.argv[1]) if name.endswith(".pid")]) < 2:
    time.sleep(0.005)
with open(f"{sys.argv[1]}/0.pid", "w") as file:
    file.write(str(os.getpid()))
if sys.argv[2] == "hang":
    time.sleep(600)
print(1)
"""
"""Leaves a child and a daemon behind. Their numbers are in files, and its own when both are there."""


@pytest.fixture
def leaves(tmp_path):
    path = tmp_path / "leaves.py"
    path.write_text(LEAVES)
    return [sys.executable, "-S", str(path), str(tmp_path)]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def started(directory):
    """The processes that are there to be ended; none before all of them are."""
    files = [directory / f"{number}.pid" for number in range(3)]
    told = [file.read_text() if file.exists() else "" for file in files]
    return [int(text) for text in told] if all(told) else []


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def living(directory):
    found = started(directory)
    assert found, "nothing was started"
    return [process for process in found if lives(process)]


def call(simulate):
    (row,) = simulate(fbar.Points({"theta": [1.0]}), np.random.default_rng(1))
    return row


def test_a_call_is_over_when_the_program_ends_and_takes_along_what_it_left(leaves, tmp_path):
    assert call(fbar.program([*leaves, "end"])) == 1.0
    assert living(tmp_path) == []


def test_a_call_that_is_late_takes_everything_along(leaves, tmp_path):
    assert run_program([*leaves, "hang"], None, None, 2.0).late
    assert living(tmp_path) == []


def test_an_error_that_strikes_in_a_call_takes_everything_along(leaves, tmp_path):
    """As a time limit of the engine's does, or Ctrl-C."""

    def strike(*_):
        raise TimedOut

    def watch():
        until(lambda: started(tmp_path))
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, strike)
    thread = threading.Thread(target=watch)
    try:
        thread.start()
        with pytest.raises(TimedOut):
            run_program([*leaves, "hang"], None, None, None)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert living(tmp_path) == []


def test_nothing_else_is_ended(leaves, tmp_path):
    """Processes of the user's, which other code of the same Python has started."""
    with subprocess.Popen(["sleep", "600"]) as other:
        problem = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), fbar.program([*leaves, "end"]), observed=1.0)
        for workers in (0, 1):
            found = fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=2, seed=1, workers=workers)
            assert found.accepted == 2
        assert living(tmp_path) == []
        assert other.poll() is None
        other.kill()


def test_the_keeper_of_programs_ends_when_it_is_not_needed():
    """So that a notebook that has called a program has no child left."""
    assert run_program(["echo", "1"], None, None, None).out == "1\n"
    own = {int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
    keepers = [child for child in own if keeper.__file__.encode() in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert keepers
    assert until(lambda: not any(lives(child) for child in keepers))
    assert run_program(["echo", "2"], None, None, None).out == "2\n"  # by another one


def test_a_program_that_cannot_be_started_says_why_and_its_environment_is_that_of_the_call(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        run_program([str(tmp_path / "none")], None, None, None)
    with pytest.raises(ValueError, match="null"):
        run_program(["echo", "\0"], None, None, None)
    monkeypatch.setenv("FBAR_TEST_VALUE", "7")
    monkeypatch.chdir(tmp_path)
    done = run_program(["sh", "-c", "echo $FBAR_TEST_VALUE; pwd; echo to >&2; kill -9 $$"], None, None, None)
    assert (done.status, done.err) == (-9, "to\n")
    assert done.out.split() == ["7", os.path.realpath(tmp_path)]
    much = run_program([sys.executable, "-S", "-c", "print('x' * 3_000_000)"], None, {}, None)
    assert len(much.out) == 3_000_001


# ---------------------------------------------------------------- workers and drivers

DRIVER = """
    import os, signal, subprocess, sys
    import fbar
    from scipy import stats

    command, how = sys.argv[1:-1], sys.argv[-1]
    signal.signal(signal.SIGINT, signal.default_int_handler)

    @fbar.each
    def own(theta, rng):
        subprocess.run([*command, "hang"])
        return 1.0

    simulate = own if how == "workers" else fbar.program([*command, "hang"])
    problem = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), simulate, observed=1.0)
    workers = 1 if how == "workers" else 0
    fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=2, block_size=1, seed=1, workers=workers)
"""


@pytest.fixture
def driver(leaves, tmp_path):
    """Starts a driver, and waits until its simulation has left processes behind."""

    def start(how):
        command = [sys.executable, "-c", textwrap.dedent(DRIVER), *leaves, how]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert until(lambda: started(tmp_path) or process.poll() is not None)
        return process

    return start


@pytest.mark.slow
@pytest.mark.parametrize("how", ["here", "workers"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_driver(driver, tmp_path, how, number):
    """A program in the driver's own process; a simulator's own subprocess in a worker."""
    process = driver(how)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert until(lambda: not living(tmp_path))


@pytest.mark.slow
def test_nothing_outlives_a_worker_that_is_killed(leaves, tmp_path):
    def simulate(theta, rng):
        process = subprocess.Popen([*leaves, "end"], stdout=subprocess.DEVNULL)
        while not started(tmp_path):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    problem = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), fbar.each(simulate), observed=1.0)
    with pytest.raises(fbar.SimulatorFailed, match="died"):
        fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=1, block_size=1, seed=1, workers=1)
    assert living(tmp_path) == []


def _hang(command):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.run([*command, "hang"], stdout=subprocess.DEVNULL)


def test_nothing_outlives_a_worker_that_is_ended_by_force(leaves, tmp_path):
    """As one is whose simulation swallows its time limit; it may ignore signals."""
    from pebble import ProcessPool

    pool = ProcessPool(1, context=worker_context())
    try:
        future = pool.schedule(_hang, args=(leaves,))
        assert until(lambda: started(tmp_path))
        future.cancel()
        assert until(lambda: not living(tmp_path))
    finally:
        pool.stop()
        pool.join()


def test_what_a_simulator_keeps_for_its_next_calls_lives_as_long_as_its_worker(tmp_path):
    """A server that is started once, as an interpreter of another language is."""
    kept = []

    def simulate(theta, rng):
        if not kept:
            kept.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            with (tmp_path / "servers").open("a") as file:
                file.write(f"{kept[0].pid}\n")
        kept[0].stdin.write("1\n")
        kept[0].stdin.flush()
        return float(kept[0].stdout.readline())

    problem = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), fbar.each(simulate), observed=1.0)
    found = fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=20, block_size=1, seed=1, workers=1)
    assert found.accepted == 20
    (server,) = (tmp_path / "servers").read_text().split()
    assert not lives(int(server))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does it on Linux")
def test_a_program_dies_with_its_keeper(tmp_path):
    """When memory runs out the system kills whom it likes."""
    number = tmp_path / "number"
    words = ["sh", "-c", f"echo $$ > {number}.new; mv {number}.new {number}; exec sleep 600"]

    def call():
        with contextlib.suppress(KeeperLost):
            run_program(words, None, None, None)

    calling = threading.Thread(target=call)
    calling.start()
    assert until(number.exists)
    program = int(number.read_text())
    keeper_of_it = int(Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
    assert keeper.__file__.encode() in Path(f"/proc/{keeper_of_it}/cmdline").read_bytes()
    os.kill(keeper_of_it, signal.SIGKILL)
    assert until(lambda: not lives(program))
    calling.join(30)
    assert not calling.is_alive()


@pytest.mark.parametrize("times", [1, 2])
def test_a_program_that_is_killed_from_outside_is_called_once_more(times, tmp_path):
    """So that the same seed gives the same result, whom the system kills when memory runs out."""
    script = f"echo $1 >> {tmp_path}/calls; test $(wc -l < {tmp_path}/calls) -gt {times} || kill -9 $$; echo 7"
    row = call(fbar.program(["sh", "-c", script, "sh", "{theta} {seed}"]))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert calls[0] == calls[1]
    assert row == 7.0 if times == 1 else "killed by SIGKILL" in row.message
