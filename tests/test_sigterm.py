"""SIGTERM, and SIGHUP of a terminal that is closed, end a run as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from scipy import stats

import fbar
from fbar.system.signals import Terminated, end_held_back, ending_as_by_ctrl_c, exit_status

ASKING = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _default():
    """As in a process that a shell has started; who runs the tests may ignore SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ASKING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def problem():
    return fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), fbar.each(lambda theta, rng: theta["a"] + rng.normal()), observed=0.5
    )


def settings(tmp_path):
    return {"tolerance": 0.5, "budget": 400, "block_size": 20, "seed": 3, "run": tmp_path / "run"}


def asking_at(simulations, number):
    asked = []

    def progress(run):
        if run.simulations >= simulations and not asked:
            asked.append(number)
            os.kill(os.getpid(), number)

    return progress


@pytest.mark.parametrize("number", ASKING)
def test_a_run_that_is_asked_to_end_keeps_what_it_has(tmp_path, number):
    whole = fbar.infer(problem(), fbar.mean("a"), **{**settings(tmp_path), "run": None})
    with pytest.raises(KeyboardInterrupt, match=r"stopped after \d+ simulations, all recorded in") as stopped:
        fbar.infer(problem(), fbar.mean("a"), **settings(tmp_path), progress=asking_at(200, number))
    assert exit_status(stopped.value) == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL
    again = fbar.infer(problem(), fbar.mean("a"), **settings(tmp_path))
    assert again["mean:a"].value == whole["mean:a"].value


@pytest.mark.parametrize("number", ASKING)
def test_a_handler_of_the_user_stays(tmp_path, number):
    seen = []

    def own(*given):
        seen.append(given[0])

    signal.signal(number, own)
    found = fbar.infer(problem(), fbar.mean("a"), **settings(tmp_path), progress=asking_at(200, number))
    assert found.simulations == 400
    assert seen == [number]
    assert signal.getsignal(number) is own


def test_what_is_ignored_stays_so(tmp_path):
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    found = fbar.infer(problem(), fbar.mean("a"), **settings(tmp_path), progress=asking_at(200, signal.SIGHUP))
    assert found.simulations == 400


def test_handlers_belong_to_the_main_thread(tmp_path):
    found = []

    def work():
        seen = []
        result = fbar.infer(
            problem(), fbar.mean("a"), **settings(tmp_path), progress=lambda _: seen.append(signal.getsignal(15))
        )
        found.append((result.simulations, set(seen)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(400, {signal.SIG_DFL})]


def test_a_signal_that_is_repeated_at_once_interrupts_no_clearing_up():
    cleared = []

    @ending_as_by_ctrl_c()
    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleared.append(True)

    with pytest.raises(Terminated):
        work()
    assert cleared


@pytest.mark.processes
def test_a_process_that_is_forked_meanwhile_ends_as_others_do():
    with ending_as_by_ctrl_c():
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM


# ---------------------------------------------------------------- the command line

MODEL = """
    import os, time
    import fbar
    from pathlib import Path
    from scipy import stats

    @fbar.each
    def simulate(theta, rng):
        if Path("slow").exists() and rng.random() < 0.1:
            Path(f"begun-{os.getpid()}").touch()
            time.sleep(600)
        return theta["a"] + rng.normal()

    problem = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), simulate, observed=0.5)
    targets = [fbar.mean("a")]

    def algorithm(problem, budget, rng):
        Path(f"begun-{os.getpid()}").touch()
        time.sleep(600)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    return tmp_path


def asked_to_end(place, *arguments):
    """What a command says that is asked to end when its simulations have begun, and the processes that simulated."""
    (place / "slow").touch()
    command = [sys.executable, "-m", "fbar", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 100
    while not list(place.glob("begun-*")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.terminate()
    _, error = process.communicate(timeout=60)
    workers = [int(path.name.removeprefix("begun-")) for path in place.glob("begun-*")]
    (place / "slow").unlink()
    assert workers, error
    return process.returncode, error, workers


def gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


INFER = ["infer", "model.py", "--budget", "60", "--tolerance", "1", "--block-size", "2", "--seed", "1"]


@pytest.mark.slow
@pytest.mark.processes
def test_commands_that_run_in_workers_end_with_status_143(place):
    status, error, workers = asked_to_end(place, *INFER, "--run", "kept", "--workers", "2", "--quiet")
    assert status == 143
    assert "fbar: stopped after" in error
    assert "all recorded in kept" in error
    assert "Traceback" not in error
    assert all(gone(worker) for worker in workers)
    done = subprocess.run([sys.executable, "-m", "fbar", "resume", "kept"], capture_output=True, text=True, check=True)
    assert "60 simulations" in done.stdout
    for path in place.glob("begun-*"):
        path.unlink()
    status, error, workers = asked_to_end(place, "report", "kept", "--predictive", "100", "--timeout", "inf")
    assert (status, error) == (143, "fbar: stopped by SIGTERM\n")
    assert all(gone(worker) for worker in workers)
    assert not (place / "kept" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_papers_trials_end_at_once(place):
    """An executor of the standard library would do all of its tasks first."""
    command = [sys.executable, "-m", "fbar", "paper", "fig4", "--trials", "100000", "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def workers():
        with suppress(OSError):
            return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return []

    end = time.monotonic() + 100
    while len(workers()) < 2 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (143, "fbar: stopped by SIGTERM\n")


@pytest.mark.slow
@pytest.mark.processes
def test_a_study_that_is_asked_to_end_keeps_its_trials(place):
    study = [
        "score",
        "--problem",
        "two-moons",
        "--method",
        "model.py:algorithm",
        "--budget",
        "100",
        "--trials",
        "4",
    ]
    status, error, workers = asked_to_end(place, *study, "--workers", "2", "--out", "kept", "--quiet")
    assert status == 143
    assert "finished trials are kept in kept" in error
    assert all(gone(worker) for worker in workers)


def test_a_signal_that_comes_while_workers_are_forked_ends_the_run_afterwards():
    """Python swallows what a signal raises in the handlers of a fork, and the run would go on for ever."""
    done = []

    def forks():
        with ending_as_by_ctrl_c():
            with end_held_back():
                signal.raise_signal(signal.SIGTERM)
                done.append("forked")
            done.append("not reached")

    with pytest.raises(Terminated, match="stopped by SIGTERM"):
        forks()
    assert done == ["forked"]
    with ending_as_by_ctrl_c(), end_held_back():
        done.append("no signal")
    assert done == ["forked", "no signal"]
