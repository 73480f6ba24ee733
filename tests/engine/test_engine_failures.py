"""Simulations that fail, hang or kill their workers, and workers that are killed: the run goes on."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from engine_runs import MEAN, drive, failures, gone, killer, numbers, until, z_score
from fbar.engine import Futures, InProcess, Workers, pool
from fbar.question.outcomes import Failure

pytestmark = pytest.mark.processes


def fail(how):
    if how == "raise":
        raise ValueError("no solution")
    if how == "hang":
        time.sleep(3600)
    if how == "kill":
        os._exit(3)
    return {"nan": np.nan, "inf": np.inf, "shape": [1.0, 0.0, 1.0]}[how]


def failing(*how):
    """θ ~ U(0, 1) and P(x = 1) = θ, but a tenth of all simulations, those with θ > 0.9, fail in these ways.

    With failures rejected the posterior is ∝ θ below 0.9, of mean 0.6; without them its mean is 2/3.
    """

    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] > 0.9:
            return fail(how[int((theta["theta"] - 0.9) * 10 * len(how))])
        try:
            return float(rng.random() < theta["theta"])
        except Exception:
            return None

    return fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)


KINDS = {
    "raise": Failure.EXCEPTION,
    "nan": Failure.NOT_FINITE,
    "inf": Failure.NOT_FINITE,
    "shape": Failure.WRONG_SHAPE,
    "hang": Failure.TIMED_OUT,
    "kill": Failure.KILLED,
}


@pytest.mark.parametrize("how", ["raise", "nan", "inf", "shape", "hang"])
def test_a_tenth_of_simulations_fails(how):
    """Nine tests of |z| < 5 in this file: less than one false alarm in 10⁵ runs."""
    budget = 80 if how == "hang" else 4000
    limit = 0.5 if how == "hang" else 10.0  # long beside a stall of a busy machine
    run = drive(failing(how), fbar.Rejection(), Workers(4, timeout=limit), budget=budget, block_size=8)
    failed = failures(fbar.Rejection(), budget, block_size=8)
    assert run.simulations == budget
    assert run.seen.counts == {KINDS[how]: failed}
    assert abs(z_score(run, 0.6)) < 5
    if how not in ("nan", "inf"):
        assert run.seen.examples[KINDS[how]]


def test_a_tenth_of_simulations_kills_its_worker():
    run = drive(failing("kill"), fbar.Rejection(), Workers(2), budget=320, block_size=8)
    assert run.seen.counts == {Failure.KILLED: failures(fbar.Rejection(), 320, block_size=8)}
    assert re.search(r"process died 2 times in block \d+ of round 0, row \d", run.seen.examples[Failure.KILLED])
    assert run.simulations == 320
    assert abs(z_score(run, 0.6)) < 5


def test_all_failures_together():
    problem = failing("raise", "nan", "inf", "shape", "hang", "kill")
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.5, bundle_seconds=0.1), budget=400, block_size=8)
    assert run.simulations == 400
    assert set(run.seen.counts) == set(KINDS.values())
    assert abs(z_score(run, 0.6)) < 5
    again = drive(problem, fbar.Rejection(), Workers(2, timeout=0.5), budget=400, block_size=8)
    assert numbers(again) == numbers(run)
    assert again.seen.counts == run.seen.counts


def test_of_a_vectorised_simulator_that_hangs_the_hanging_rows_are_found():
    def simulate(theta, rng):
        if (theta["theta"] > 0.9).any():
            time.sleep(3600)
        return (rng.random(theta.rows) < theta["theta"]).astype(float)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.2), budget=48, block_size=4)
    assert run.seen.counts == {Failure.TIMED_OUT: failures(fbar.Rejection(), 48, block_size=4)}
    assert "longer than 0.2 s" in run.seen.examples[Failure.TIMED_OUT]


def test_code_that_ignores_signals_is_ended_by_force(monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.5)

    def simulate(theta, rng):
        if (theta["theta"] > 0.9).any():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        return (rng.random(theta.rows) < theta["theta"]).astype(float)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.1), budget=16, block_size=4)
    assert run.seen.counts == {Failure.TIMED_OUT: failures(fbar.Rejection(), 16, block_size=4)}
    assert run.simulations == 16


def test_a_block_that_always_kills_is_quarantined_and_the_run_goes_on():
    problem = fbar.Problem(fbar.Finite(theta=[-1.0, 1.0]), killer, observed=1.0)
    run = drive(problem, fbar.Allocation([0.1, 0.9]), Workers(2), budget=80, block_size=5)
    assert run.simulations == 80
    assert 8 <= run.seen.counts[Failure.KILLED] < 80


def test_only_rows_that_kill_are_rejected():
    """Of three values θ the first always kills; P(x = 1) is 0.2 and 0.6 at the others, whose mean is 2.75."""

    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] == 1:
            os._exit(1)
        return int(rng.random() < 0.2 * (2 * theta["theta"] - 3))

    problem = fbar.Problem(fbar.Finite(theta=[1, 2, 3]), simulate, observed=1)
    method = fbar.Allocation([0.01, 0.495, 0.495])
    run = drive(problem, method, Workers(2), budget=800, block_size=25)
    count = run.counts[0]
    assert run.simulations == 800
    assert run.seen.counts == {Failure.KILLED: count}
    assert "row" in run.seen.examples[Failure.KILLED]
    assert abs(z_score(run, 2.75)) < 5


def test_workers_killed_from_outside_while_idle_and_at_work_are_replaced():
    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: np.ones(t.rows), observed=1.0)
    batches = fbar.Rejection().start(problem, MEAN, seed=1, budget=640, block_size=10).ask()
    with Workers(2).session(problem) as session:
        session.submit(batches[:2])
        back = session.collect()
        while len(back) < 2:
            back += session.collect()
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)
        session.submit(batches[2:4])
        while len(back) < 4:
            back += session.collect()
        assert session.collect() == []
    assert sorted(batch.key for batch, _ in back) == [batch.key for batch in batches[:4]]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("error", [LookupError, BrokenProcessPool])
def test_a_death_that_pebble_misses_or_breaks_by_loses_no_block(error, monkeypatch, tmp_path):
    from pebble.pool.process import PoolManager

    find, missed = PoolManager.find_expired_task, []

    def miss(manager, worker):
        if not missed:
            missed.append(worker)
            raise error("not found")
        return find(manager, worker)

    monkeypatch.setattr(PoolManager, "find_expired_task", miss)

    def simulate(theta, rng):
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return rng.random(theta.rows) < theta["theta"]

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=True)
    run = drive(problem, fbar.Rejection(), Workers(1), budget=64, block_size=4)
    assert missed
    assert run.seen.failures == 0
    assert numbers(run) == numbers(drive(problem, fbar.Rejection(), InProcess(), budget=64, block_size=4))


def test_errors_of_ours_arrive_as_they_are():
    wrong = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: 1.0, observed=1.0)
    with pytest.raises(fbar.InputError) as here:
        drive(wrong, fbar.Rejection(), InProcess(), budget=100)
    with pytest.raises(fbar.InputError) as there:
        drive(wrong, fbar.Rejection(), Workers(2), budget=100)
    assert str(here.value) == str(there.value)
    assert not multiprocessing.active_children()


def test_an_executor_that_breaks_says_what_to_use():
    problem = fbar.Problem(fbar.Finite(theta=[-1.0, 1.0]), killer, observed=1.0)
    with ProcessPoolExecutor(2) as executor, pytest.raises(fbar.EngineFailed, match="Workers survives"):
        drive(problem, fbar.Allocation([0.5, 0.5]), Futures(executor), budget=100, block_size=10)


DRIVER = """
    import time
    import fbar
    from scipy import stats

    def simulate(theta, rng):
        time.sleep(600)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = fbar.Rejection().start(problem, fbar.mean("theta"), seed=1, budget=100, block_size=10)
    print("ready", flush=True)
    fbar.drive(run, engine=fbar.Workers(2))
"""


def children(process):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_survives_its_driver(number):
    command = [sys.executable, "-c", textwrap.dedent(DRIVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "ready\n"
        assert until(lambda: len(children(driver.pid)) == 2)
        workers = children(driver.pid)
        time.sleep(0.3)
        driver.send_signal(number)
        _, err = driver.communicate(timeout=20)
    assert until(lambda: all(gone(worker) for worker in workers), 5)
    assert number == signal.SIGKILL or "KeyboardInterrupt" in err
