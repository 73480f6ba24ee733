"""Reading a run is reading: nothing is written, on any media, and at any moment of the run's work."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.ledger import LedgerReader
from fbar.system.locks import Lock, held

MODEL = """
import os, time
import fbar
from scipy import stats

def simulate(theta, rng):
    time.sleep(float(os.environ.get("SLOW", "0")))
    return theta["mu"] + rng.normal(0, 1, theta.rows)

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=0.5)
targets = [fbar.mean("mu")]
"""
ASKED = ["--method", "rejection", "--tolerance", "0.5", "--budget", "4000", "--block-size", "50", "--seed", "3"]


def fbar_command(*words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "fbar", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def called(*words):
    with contextlib.suppress(SystemExit):
        app([str(word) for word in words], exit_on_error=False)


def state(directory):
    """Every file of a directory: its name, bytes and time."""
    return {
        (str(path.relative_to(directory)), path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def public():
    """A directory that every user can read."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def finished(public):
    model = public / "model.py"
    model.write_text(MODEL)
    called("infer", model, *ASKED, "--run", public / "run", "--quiet")
    return public / "run"


@pytest.fixture
def killed(public):
    """A run whose driver died, and left its write-ahead log."""
    model = public / "model.py"
    model.write_text(MODEL)
    run = public / "run"
    driver = fbar_command("infer", model, *ASKED, "--run", run, "--quiet", SLOW="0.02")
    wait_for_blocks(run, 10)
    driver.kill()
    driver.communicate()
    assert (run / "ledger.sqlite-wal").stat().st_size > 0
    return run


def wait_for_blocks(run, number):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(fbar.FbarError), LedgerReader(run) as ledger:
            if len(ledger) >= number:
                return
        time.sleep(0.02)
    raise AssertionError("the run does not go on")


def readers(run, out):
    """Every way to read a run, and what each leaves to be looked at."""
    return {
        "show": ["show", run],
        "show --json": ["show", run, "--json"],
        "show --adjusted": ["show", run, "--adjusted"],
        "explain": ["explain", run, "mu"],
        "export": ["export", run, "--out", out / "a.csv"],
        "export --all": ["export", run, "--all", "--out", out / "b.csv"],
        "report": ["report", run, "--out", out / "c.html", "--predictive", "0"],
    }


@pytest.mark.parametrize("which", ["finished", "killed"])
@pytest.mark.processes
def test_nothing_in_the_directory_changes(which, request, tmp_path, capsys):
    run = request.getfixturevalue(which)
    before = state(run)
    for name, words in readers(run, tmp_path).items():
        called(*words)
        said = capsys.readouterr()
        assert not said.err, (name, said.err)
        assert state(run) == before, name
    assert len((tmp_path / "b.csv").read_text().splitlines()) > 300
    assert (tmp_path / "c.html").stat().st_size > 10_000


@pytest.mark.parametrize("which", ["finished", "killed"])
@pytest.mark.processes
def test_a_run_that_cannot_be_written_to_is_read(which, request, tmp_path):
    """A finished one is resumed too, and another one says what to do."""
    run = request.getfixturevalue(which)
    before = state(run)
    powerless = []
    if os.getuid() == 0:  # who may write everywhere
        if shutil.which("setpriv") is None:
            pytest.skip("root can write to everything, and setpriv is not here")
        powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner", "--"]
    run.chmod(0o555)
    try:
        every = {**readers(run, tmp_path), "resume": ["resume", run, "--quiet"]}
        some = list(every) if which == "finished" else ["show", "explain", "resume"]
        for name, words in ((name, every[name]) for name in some):
            command = [*powerless, sys.executable, "-m", "fbar", *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if name == "resume" and which == "killed":
                assert "is not finished, and cannot be written to; copy it" in done.stderr
            else:
                assert (done.returncode, done.stderr) == (0, ""), name
        refused = subprocess.run(
            [*powerless, sys.executable, "-m", "fbar", "extend", str(run), "--budget", "5000", "--quiet"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "cannot write to the directory" in refused.stderr
    finally:
        run.chmod(0o755)
    assert state(run) == before


@pytest.mark.processes
def test_a_run_at_work_is_read_as_it_is_at_one_moment(public, tmp_path, capsys):
    model, run = public / "model.py", public / "run"
    model.write_text(MODEL)
    driver = fbar_command("infer", model, *ASKED, "--run", run, "--quiet", SLOW="0.3")
    try:
        wait_for_blocks(run, 6)
        with LedgerReader(run) as first:
            blocks = len(first)
            wait_for_blocks(run, blocks + 3)
            assert len(list(first.blocks())) == blocks  # others have come since
            called("show", run, "--json")
            assert json.loads(capsys.readouterr().out)["blocks"] >= blocks + 3
        for name, words in readers(run, tmp_path).items():
            called(*words)
            said = capsys.readouterr()
            assert not said.err, (name, said.err)
        assert driver.poll() is None, "the run ended before it could be read"
        assert fbar.load(run).stopped_by == "not finished"
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    called("resume", run, "--quiet")
    assert "4,000 simulations" in capsys.readouterr().out


def test_a_file_that_changes_under_a_reader_is_no_damage(public):
    """Nobody holds the lock: the file was opened as one that cannot change, and then it did."""
    finished = public / "run"
    asked = {"method": "rejection", "tolerance": 0.5, "budget": 200_000, "block_size": 2000, "seed": 1}
    problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), lambda t, rng: t["mu"], observed=0.5)
    fbar.infer(problem, fbar.mean("mu"), **asked, run=finished, progress=False)
    assert (finished / "ledger.sqlite").stat().st_size > 3_000_000  # more than SQLite remembers
    with LedgerReader(finished) as ledger:
        connection = sqlite3.connect(finished / "ledger.sqlite")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("UPDATE blocks SET payload = x'00'")
        connection.commit()
        connection.close()
        with pytest.raises(fbar.LedgerError, match="changed while it was being read; rerun the command"):
            ledger.simulations()


def test_who_looks_whether_a_run_is_held_does_not_keep_its_driver_out(tmp_path):
    lock = Lock(tmp_path / "driver.lock")
    assert held(tmp_path / "driver.lock")
    lock.release()
    assert not held(tmp_path / "driver.lock")
    assert not held(tmp_path / "nothing")
    Lock(tmp_path / "driver.lock").release()
