"""Recorded runs after any death of their driver, with two drivers, and on full disks: exact, bit for bit.

Moments of death are drawn with fixed seeds; the moments themselves depend on the machine's speed. Experiments that kill
processes run in another process (``python test_deaths_of_drivers.py NAME DIRECTORY``), which forks drivers:
starting Python for each would take too long.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pytest

import fbar
import fbar.ledger
from fbar.errors import LedgerError, RunInUse
from fbar.ledger import LedgerReader
from recorded_cases import LOG, MU, everything_of, flip, normal_problem, smc


def driver(run, sleep=0.0, accepted=6, **options):
    """The run of the experiments: every block a transaction of its own."""
    LOG.update(file=str(run.parent / f"{run.name}.log"), sleep=str(sleep))
    method = smc(accepted=accepted, schedule=[4, 1])
    return fbar.infer(normal_problem(), MU, method=method, block_size=10, seed=3, run=run, progress=False, **options)


def fork(function):
    """Run a function in a child; its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        function()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def died(child):
    """Wait for a child; whether it was killed. Anything else but success is an error."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def committed(run, scratch):
    """The first θ of every block in the file, read from a copy: the write-ahead log stays as it is."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for file in run.glob("ledger.sqlite*"):
        shutil.copy(file, scratch)
    if not (scratch / "ledger.sqlite").exists():
        return set()
    connection = sqlite3.connect(scratch / "ledger.sqlite")
    try:
        rows = connection.execute("SELECT payload FROM blocks").fetchall()
    except sqlite3.OperationalError:  # no tables yet
        rows = []
    connection.close()
    return {fbar.ledger.decode(payload).points["mu"][0].hex() for (payload,) in rows}


def lines(run):
    log = run.parent / f"{run.name}.log"
    return log.read_text().split() if log.exists() else []


def kill_at_random(directory):
    """Kill drivers at random moments until 60 have died; check every finished run.

    A driver that has added nothing was killed too early for this machine: those that follow live longer.
    """
    rng = np.random.default_rng(5)
    result = everything_of(driver(directory / "whole", accepted=50))
    blocks = set(lines(directory / "whole"))
    kills, runs, kept = 0, 0, 0
    while kills < 60:
        run = directory / f"run{runs}"
        there, before, dead, longest = set(), 0, True, 0.12
        while dead:
            child = fork(lambda run=run: driver(run, sleep=0.003, accepted=50))
            time.sleep(float(rng.uniform(0.01, longest)))
            os.kill(child, signal.SIGKILL)
            dead = died(child)
            assert not there & set(lines(run)[before:]), "a committed block was simulated again"
            found, before = committed(run, directory / "scratch"), len(lines(run))
            longest *= 1.2 if found == there else 1.0
            there = found
            kills, kept = kills + dead, kept + len(there)
            assert kills < 600, "no run comes to its end"
        assert everything_of(driver(run, accepted=50)) == result
        assert set(lines(run)) == blocks
        aside = {path.name for path in run.glob("ledger.damaged*")}
        assert aside <= {"ledger.damaged-journal"}  # which a death in the first moment leaves, before any record
        runs += 1
    return {"kills": kills, "runs": runs, "kept": kept}


FILE_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", "shutil.copyfile"}


def die_at(number, run):
    """Kill this process at its n-th SQL statement or touch of a file of the run."""
    count = 0

    def point(*_):
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event, arguments):
        if event in FILE_EVENTS and any(str(a).startswith(f"{run}/") for a in arguments if isinstance(a, str | Path)):
            point()

    plain = sqlite3.connect

    def connect(*arguments, **options):
        connection = plain(*arguments, **options)
        if "repair-" not in str(arguments[0]):  # a copy that is only read
            connection.set_trace_callback(point)
        return connection

    sqlite3.connect = connect
    sys.addaudithook(heard)


def fresh(run, scratch):
    """From nothing."""


def extension(run, scratch):
    """A finished run, to be extended."""
    driver(run)


def broken(run, scratch):
    """A finished run whose file is broken in the middle of its blocks and has lost its first page."""
    driver(run)
    data = bytearray((run / "ledger.sqlite").read_bytes())
    data[0:4096] = bytes(4096)
    data[-4096:-4086] = b"\xff" * 10
    (run / "ledger.sqlite").write_bytes(bytes(data))


def kill_at_every_write(directory):
    """For every n: kill at the n-th point, go on, compare; in a new run, in an extension, in the repair of a file."""
    counts = {}
    for prepare in (fresh, extension, broken):
        extended = prepare is extension

        def go(run, extended=extended):
            LOG["file"] = f"{run}.log"
            return fbar.extend(run, normal_problem(), budget=100, progress=False) if extended else driver(run)

        base = directory / prepare.__name__
        prepare(base, directory)
        if base.exists():
            shutil.copytree(base, directory / "whole")
        result = everything_of(go(directory / "whole"))
        shutil.rmtree(directory / "whole")
        number, dead = 0, True
        while dead:
            number += 1
            run = directory / f"{prepare.__name__}-{number}"
            if base.exists():
                shutil.copytree(base, run)
            child = fork(lambda run=run, number=number, go=go: (die_at(number, run), go(run)))
            dead = died(child)
            there, before = committed(run, directory / "scratch") if prepare is not broken else set(), len(lines(run))
            if there:  # others may look meanwhile, and change nothing
                with LedgerReader(run) as ledger:
                    assert len(ledger) == len(there)
            again = go(run)
            assert everything_of(again) == result, (prepare.__name__, number)
            assert not there & set(lines(run)[before:]), (prepare.__name__, number)
            if number % 10 == 0:
                assert everything_of(fbar.load(run, normal_problem())) == result
            shutil.rmtree(run)
        counts[prepare.__name__] = number - 1
    return counts


def damage_logs(directory):
    """Flip and cut the write-ahead log that a death left."""
    result = everything_of(driver(directory / "whole", accepted=50))
    run, rng, wals = directory / "run", np.random.default_rng(6), 0
    for number in (40, 70, 100):
        shutil.rmtree(run, ignore_errors=True)
        assert died(fork(lambda number=number: (die_at(number, run), driver(run, accepted=50))))
        size = (run / "ledger.sqlite-wal").stat().st_size
        for trial in range(20):
            copy = directory / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run, copy)
            place = int(rng.integers(0, size))
            data = (copy / "ledger.sqlite-wal").read_bytes()
            (copy / "ledger.sqlite-wal").write_bytes(data[:place] if trial % 2 else flip(place)(data))
            if trial % 5 == 0:
                (copy / "ledger.sqlite-shm").write_bytes(rng.bytes(32768))
            assert everything_of(driver(copy, accepted=50)) == result
            wals += 1
    return {"wals": wals}


def two_drivers(directory):
    run = directory / "run"
    child = holder = fork(lambda: driver(run, sleep=0.2))
    while len(lines(run)) < 2:
        time.sleep(0.01)
    try:
        driver(run)
        message = "no error"
    except RunInUse as error:
        message = str(error)
    os.kill(child, signal.SIGKILL)
    assert died(child)
    first = everything_of(driver(run))

    def with_a_worker():
        """A driver that dies and leaves behind a child of its own."""

        def leave(_):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

        os.setpgid(0, 0)
        fbar.infer(normal_problem(), MU, tolerance=1, budget=500, seed=1, run=directory / "orphan", progress=leave)

    child = fork(with_a_worker)
    assert died(child)
    fbar.infer(normal_problem(), MU, tolerance=1, budget=500, seed=1, run=directory / "orphan", progress=False)
    os.killpg(child, signal.SIGKILL)  # the group of the dead driver: its worker
    return {"message": message, "holder": holder, "same": first == everything_of(driver(directory / "whole"))}


def fill_the_disk(directory):
    """Drivers whose files may not grow beyond a limit."""
    result = everything_of(driver(directory / "whole", accepted=50))
    size = max(f.stat().st_size for f in (directory / "whole").iterdir())
    messages = []

    def limited(run, limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            driver(run, accepted=50)
        except LedgerError as error:
            (directory / "message").write_text(str(error))

    for number, limit in enumerate([2000, 4096, 10_000, 30_000, 50_000, 80_000, 100_000, 150_000, 200_000]):
        run = directory / f"run{number}"
        for limit_now in (limit, limit, limit + 3000):  # full, still full, and full again a little later
            (directory / "message").unlink(missing_ok=True)
            there, before = committed(run, directory / "scratch"), len(lines(run))
            assert not died(fork(lambda run=run, limit=limit_now: limited(run, limit)))
            assert not there & set(lines(run)[before:])
            if (directory / "message").exists():
                messages.append((directory / "message").read_text())
        there, before = committed(run, directory / "scratch"), len(lines(run))
        assert everything_of(driver(run, accepted=50)) == result
        assert not there & set(lines(run)[before:])
        assert not list(run.glob("ledger.damaged*"))
    return {"messages": messages, "size": size}


def experiment(name, directory, limit=120):
    """An experiment in a process of its own; what it gave."""
    directory = directory / name
    directory.mkdir()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, __file__, name, str(directory)], capture_output=True, text=True, timeout=limit, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.processes
def test_killed_at_random_moments(memory):
    found = experiment("kill_at_random", memory)
    assert found["kills"] >= 60
    assert found["kept"] > 200  # blocks that were there when a driver started again


@pytest.mark.processes
def test_killed_once_at_every_write(memory):
    found = experiment("kill_at_every_write", memory)
    assert min(found["fresh"], found["extension"], found["broken"]) > 30


@pytest.mark.processes
def test_a_damaged_write_ahead_log(memory):
    assert experiment("damage_logs", memory)["wals"] == 60


@pytest.mark.processes
def test_one_driver_at_a_time(memory):
    found = experiment("two_drivers", memory)
    assert f"is in use by another driver (process {found['holder']} on " in found["message"]
    assert found["same"]


@pytest.mark.processes
def test_a_full_disk(memory):
    found = experiment("fill_the_disk", memory)
    assert len(found["messages"]) > 10
    for message in found["messages"]:
        assert "everything recorded so far is safe" in message or "cannot write" in message
        assert "Free some space" in message
        assert "rerun the command" in message


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
