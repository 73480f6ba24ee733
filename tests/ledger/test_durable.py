"""A simulation that has arrived is kept whatever comes next, and a run whose directory is gone says so at once."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from scipy import stats

import fbar
from fbar.ledger import LedgerReader, ledger
from fbar.ledger.forcing import Forcing
from fbar.methods import Run

PRIOR = fbar.Prior(mu=stats.uniform(-2, 4))
SLOW = """
import ctypes, pathlib, sys, time
import fbar
from scipy import stats

log = pathlib.Path(sys.argv[2])
kind = sys.argv[3]

def simulate(theta, rng):
    with log.open("a") as file:
        file.write(f"{theta['mu'][0].hex()}\\n")
    if len(log.read_text().split()) == 4:
        with log.open("a") as file:
            file.write("waiting\\n")
        if kind == "interpreter held":
            ctypes.PyDLL(None).sleep(600)  # no other thread of Python runs meanwhile
        time.sleep(600)
    return theta["mu"]

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=0.5)
fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=1, budget=100, block_size=1, seed=1,
           run=sys.argv[1], progress=False)
"""


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.005)


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["waiting", "interpreter held"])
def test_what_has_arrived_survives_a_kill_in_the_next_moment(kind, tmp_path):
    run, log = tmp_path / "run", tmp_path / "log"
    child = subprocess.Popen([sys.executable, "-c", SLOW, str(run), str(log), kind])
    wait_for(lambda: log.exists() and "waiting" in log.read_text())
    child.kill()
    child.wait()
    *finished, last, _ = dict.fromkeys(log.read_text().split())  # a cheap first block is simulated twice
    assert len(finished) >= 2
    with LedgerReader(run) as kept:
        found = [points["mu"][0].hex() for _, _, points, _, _ in kept.blocks()]
    assert found == finished
    assert last not in found


def test_it_is_forced_to_the_disk_within_moments(tmp_path, monkeypatch):
    """By a thread, since nothing else may happen for days; each time something was recorded since."""
    forced = threading.Event()
    plain = ledger.force

    def force(path):
        plain(path)
        forced.set()

    monkeypatch.setattr(ledger, "force", force)
    problem = fbar.Problem(PRIOR, lambda t, rng: t["mu"], observed=0.5)
    waited = []

    def progress(run):
        if run.simulations in (10, 30):
            forced.clear()
            begun = time.monotonic()
            assert forced.wait(30)
            waited.append(time.monotonic() - begun)

    asked = {"method": "rejection", "tolerance": 1, "budget": 40, "block_size": 10, "seed": 1}
    fbar.infer(problem, fbar.mean("mu"), **asked, run=tmp_path / "run", progress=progress)
    assert len(waited) == 2
    assert ledger.FORCE_SECONDS <= 0.25  # half of what is promised: the other half is the disk's


def test_a_disk_that_fails_in_the_thread_is_found_by_the_next_who_writes():
    calls = []

    def force():
        calls.append(threading.current_thread().name)
        raise OSError(5, "broken")

    forcing = Forcing(force, 0.01)
    forcing.soon()
    wait_for(lambda: forcing.has_failed)
    for call in (forcing.soon, forcing.now):  # the system says it once; so the thread remembers
        with pytest.raises(OSError, match="broken"):
            call()
        if call == forcing.soon:
            forcing.soon()  # it was told, and the thread is alive
            wait_for(lambda: forcing.has_failed)
    forcing.stop()
    assert calls == ["fbar-ledger", "fbar-ledger"]


def test_a_disk_that_fails_once_ends_the_run(tmp_path, monkeypatch):
    """A later attempt may succeed, although what came before is lost."""
    plain, failed = ledger.force, threading.Event()

    def force(path):
        if not failed.is_set() and threading.current_thread().name == "fbar-ledger":
            failed.set()
            raise OSError(5, "Input/output error")
        plain(path)

    monkeypatch.setattr(ledger, "force", force)
    problem = fbar.Problem(PRIOR, lambda t, rng: t["mu"], observed=0.5)

    def progress(run):
        if run.simulations == 20:
            assert failed.wait(30)
            time.sleep(0.05)

    asked = {"method": "rejection", "tolerance": 1, "budget": 400, "block_size": 10, "seed": 1}
    with pytest.raises(fbar.LedgerError, match="Input/output error"):
        fbar.infer(problem, fbar.mean("mu"), **asked, run=tmp_path / "run", progress=progress)


@pytest.mark.parametrize("what", ["deleted", "moved"])
def test_a_directory_that_is_deleted_or_moved_ends_its_run_at_once(what, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    problem = fbar.Problem(PRIOR, lambda t, rng: t["mu"], observed=0.5)
    asked = {"method": "rejection", "tolerance": 1, "budget": 1000, "block_size": 10, "seed": 1}
    seen = []

    def progress(live):
        seen.append(live.simulations)
        if live.simulations >= 100 and run.exists():
            shutil.rmtree(run) if what == "deleted" else run.rename(other)

    with pytest.raises(fbar.LedgerError, match=f"{run} was {what} while its run was in progress") as raised:
        fbar.infer(problem, fbar.mean("mu"), **asked, run=run, progress=progress)
    assert seen[-1] < 1000
    assert ("is safe" in str(raised.value)) == (what == "moved")
    if what == "moved":
        resumed = fbar.infer(problem, fbar.mean("mu"), **asked, run=other, progress=False)
        whole = fbar.infer(problem, fbar.mean("mu"), **asked, progress=False)
        assert resumed.as_dict()["estimates"] == whole.as_dict()["estimates"]


def test_all_that_arrives_together_is_recorded_before_the_run_looks_at_any(tmp_path, monkeypatch):
    """What a round's end costs may be minutes; the blocks that came with its last one must not wait for it."""
    told = []
    plain = Run.tell

    def tell(run, *answers):
        connection = sqlite3.connect(f"file:{tmp_path / 'run' / 'ledger.sqlite'}?mode=ro", uri=True)
        there = {tuple(row) for row in connection.execute("SELECT round, block FROM blocks")}
        told.extend((batch.key, there) for batch, _ in answers)
        connection.close()
        plain(run, *answers)

    class Together(fbar.InProcess):
        def session(self, problem):
            inner = super().session(problem)

            class All(type(inner)):
                ahead = 3

                def collect(self):
                    found = []
                    while answers := super().collect():
                        found += answers
                    return found

            inner.__class__ = All
            return inner

    monkeypatch.setattr(Run, "tell", tell)
    problem = fbar.Problem(PRIOR, lambda t, rng: t["mu"], observed=0.5)
    method = fbar.SMC([2.0, 1.0], accepted=30)
    options = {"block_size": 10, "seed": 1, "run": tmp_path / "run", "progress": False}
    fbar.infer(problem, fbar.mean("mu"), method=method, engine=Together(), **options)
    for number, (key, there) in enumerate(told):
        together = {other for other, with_it in told if with_it == there}
        assert key in there
        assert together <= there, number
    assert any(len({key for key, there in told if there == one}) > 1 for _, one in told)


@pytest.mark.processes
@pytest.mark.parametrize("engine", ["workers", "threads"])
def test_what_arrives_while_the_run_is_busy_is_kept_at_once(engine, tmp_path):
    """The run may be learning for minutes at a round's end while its workers go on."""
    problem = fbar.Problem(PRIOR, fbar.each(lambda t, rng: t["mu"]), observed=0.5)
    run, kept = tmp_path / "run", []

    def progress(live):
        if kept:
            return
        told = live.simulations

        def more():
            with LedgerReader(run) as ledger:
                kept[:] = [len(ledger)]
            return kept[0] > told  # blocks of one

        wait_for(more)

    method = fbar.SMC([2.0, 1.0], accepted=50)
    options = {"method": method, "block_size": 1, "seed": 1, "progress": progress}
    with ThreadPoolExecutor(2) as threads:
        chosen = {"workers": 2} if engine == "workers" else {"engine": fbar.Futures(threads)}
        busy = fbar.infer(problem, fbar.mean("mu"), **options, **chosen, run=run)
    idle = fbar.infer(problem, fbar.mean("mu"), **{**options, "progress": False})
    assert busy.as_dict()["estimates"] == idle.as_dict()["estimates"]
    connection = sqlite3.connect(run / "ledger.sqlite")
    keys = connection.execute("SELECT round, block FROM blocks").fetchall()
    assert len(set(keys)) == len(keys)
    connection.close()


@pytest.mark.processes
def test_a_child_of_the_driver_may_end_without_harm(tmp_path):
    """Workers are forked with the file open and the thread gone."""
    problem = fbar.Problem(PRIOR, lambda t, rng: t["mu"], observed=0.5)

    def progress(run):
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)

    asked = {"method": "rejection", "tolerance": 1, "budget": 200, "block_size": 10, "seed": 1}
    result = fbar.infer(problem, fbar.mean("mu"), **asked, run=tmp_path / "run", progress=progress)
    assert fbar.load(tmp_path / "run", problem).as_dict()["estimates"] == result.as_dict()["estimates"]
