"""Extensions, replays, predictions and reports are simulated as the run was: in its workers, within its time limit."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import InputError
from fbar.cli import app
from fbar.diagnostics import predictive
from fbar.engine import Apart, Dask, InProcess, Workers, as_before, as_engine, machine_of
from fbar.engine.limits import limit
from fbar.ledger import LedgerReader
from fbar.question.outcomes import Failure

TARGET = fbar.mean("a")
SETTINGS = {"tolerance": 1.0, "budget": 120, "block_size": 10, "seed": 4}


@pytest.fixture
def seen(tmp_path):
    """Where simulations were run: the processes that were written down since the last look."""
    path = tmp_path / "processes"

    def look():
        found = set(path.read_text().split()) if path.exists() else set()
        path.unlink(missing_ok=True)
        return found

    look.path = path
    return look


def problem(seen, crash=False, hang=False):
    """A model that writes down where it runs, and may be told to crash or hang for a tenth of its draws."""
    path = seen.path

    def simulate(theta, rng):
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")
        x, luck = theta["a"] + rng.normal(), rng.random()
        if luck < 0.1 and crash:
            os._exit(9)
        if luck < 0.1 and hang:
            time.sleep(600)
        return x

    return fbar.Problem(fbar.Prior(a=stats.uniform(-2, 4)), fbar.each(simulate), observed=0.5)


HERE = {str(os.getpid())}


@pytest.fixture(autouse=True)
def _here():
    """The process of a test may be forked from the one that has read this file."""
    HERE.clear()
    HERE.add(str(os.getpid()))


def damage(run, block):
    with sqlite3.connect(run / "ledger.sqlite") as connection:
        assert connection.execute(f"UPDATE blocks SET crc = crc + 1 WHERE id = {block}").rowcount == 1
    connection.close()


# ---------------------------------------------------------------- what is recorded


@pytest.mark.processes
def test_a_run_from_python_records_its_workers_and_time_limit(tmp_path, seen):
    result = fbar.infer(problem(seen), TARGET, **SETTINGS, workers=2, timeout=60, run=tmp_path / "run")
    assert result.settings["machine"] == {"workers": 2, "timeout": 60}
    assert fbar.load(tmp_path / "run", problem(seen)).settings["machine"] == {"workers": 2, "timeout": 60}
    assert HERE.isdisjoint(seen())
    again = fbar.infer(problem(seen), TARGET, **SETTINGS, run=tmp_path / "run")  # other workers are no other settings
    assert again["mean:a"].value == result["mean:a"].value


def test_an_executor_cannot_be_recorded_but_that_there_was_one_can(seen):
    with ThreadPoolExecutor(1) as pool:
        result = fbar.infer(problem(seen), TARGET, **SETTINGS, engine=pool)
    assert result.settings["machine"] == {"workers": None, "timeout": None, "engine": "Futures"}
    assert isinstance(result.engine(), Workers)
    assert isinstance(result.engine(workers=0), InProcess)


@pytest.mark.parametrize(
    ("machine", "given", "expected"),
    [
        ({}, {}, (None, None)),
        ({"workers": None, "timeout": None}, {}, (None, None)),
        ({"workers": 2, "timeout": 3.0}, {}, (2, 3.0)),
        ({"workers": 2, "timeout": 3.0}, {"workers": 4}, (4, 3.0)),
        ({"workers": 2, "timeout": 3.0}, {"timeout": 9.0}, (2, 9.0)),
        ({"workers": 2, "timeout": 3.0}, {"timeout": math.inf}, (2, None)),
        ({"workers": 2, "timeout": 3.0}, {"workers": 0}, (None, None)),
        ({"workers": None, "timeout": 0.2}, {}, (1, 0.2)),  # recorded by an earlier version
        ({"engine": "Dask"}, {}, (1, None)),
        ({"workers": "many", "timeout": []}, {}, (None, None)),  # by somebody's hand
        ({"workers": -3, "timeout": -1}, {}, (None, None)),
    ],
)
def test_what_is_not_said_is_as_it_was(machine, given, expected):
    found = machine_of(as_before(machine, **given))
    assert (found["workers"], found["timeout"]) == expected


def test_a_record_cannot_ask_for_any_number_of_processes():
    assert as_before({"workers": 10**6}).workers <= max(64, 4 * (os.cpu_count() or 1))
    with pytest.raises(fbar.InputError, match="not both"):
        as_before({"workers": 2}, engine=InProcess(), workers=2)
    assert isinstance(as_before({"workers": 2, "timeout": 1.0}, engine=InProcess()), InProcess)


# ---------------------------------------------------------------- extensions and replays


@pytest.mark.processes
def test_an_extension_simulates_damaged_blocks_in_the_runs_own_workers(tmp_path, seen):
    """Where a simulation may crash: in this process it would end the driver."""
    run, sound = tmp_path / "run", tmp_path / "sound"
    fbar.infer(problem(seen), TARGET, **SETTINGS, workers=1, run=run)
    shutil.copytree(run, sound)
    damage(run, 3)
    seen()
    more = fbar.extend(run, problem(seen), budget=160)
    assert HERE.isdisjoint(seen())
    assert more.simulations == 160
    assert more["mean:a"].value == fbar.extend(sound, problem(seen), budget=160)["mean:a"].value
    assert more.settings["machine"]["workers"] == 1
    with LedgerReader(run) as ledger:
        assert not ledger.damage()


@pytest.mark.slow
@pytest.mark.processes
def test_commands_use_the_runs_own_workers(tmp_path, seen, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "import os, fbar\n"
        "from scipy import stats\n"
        "def simulate(theta, rng):\n"
        f"    with open({str(seen.path)!r}, 'a') as file:\n"
        "        file.write(f'{os.getpid()}\\n')\n"
        "    return theta['a'] + rng.normal()\n"
        "problem = fbar.Problem(fbar.Prior(a=stats.uniform(-2, 4)), fbar.each(simulate), observed=0.5)\n"
        "targets = [fbar.mean('a')]\n"
    )

    def call(*words):
        app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
        found = seen()
        assert found
        return found

    run = tmp_path / "run"
    options = ["--budget", "40", "--tolerance", "1", "--block-size", "10", "--seed", "1", "--run", "run", "--quiet"]
    assert HERE.isdisjoint(call("infer", "model.py", *options, "--workers", "1"))
    damage(run, 2)
    assert HERE.isdisjoint(call("resume", "run", "--quiet"))
    assert HERE.isdisjoint(call("extend", "run", "--budget", "60", "--quiet"))
    assert call("extend", "run", "--budget", "80", "--quiet", "--workers", "0") == HERE
    # The last leg was simulated in its own process; a report is in another one all the same, unless it is told.
    assert HERE.isdisjoint(call("report", "run", "--predictive", "20"))
    assert call("report", "run", "--predictive", "20", "--workers", "0") == HERE


# ---------------------------------------------------------------- predictions


@pytest.mark.slow
@pytest.mark.processes
def test_predictions_that_crash_or_hang_are_failed_ones_and_the_report_is_written(tmp_path, seen):
    run = tmp_path / "run"
    made = fbar.infer(problem(seen), TARGET, **SETTINGS, workers=2, timeout=0.5, run=run)
    whole = made.predict(30)
    assert whole.failed == 0
    seen()
    fragile = fbar.load(run, problem(seen, crash=True))
    found = fragile.predict(30)
    assert HERE.isdisjoint(seen())
    assert 0 < found.failed < 30
    assert len(found.summaries) == 30 - found.failed
    assert np.isin(found.summaries, whole.summaries).all()  # the others are what they were
    slow = fbar.load(run, problem(seen, hang=True))
    assert slow.predict(20).failed == fragile.predict(20).failed
    page = slow.report(tmp_path / "report.html", predictive=20).read_text()
    assert "new simulations failed" in page or "1 new simulation failed" in page


@pytest.mark.processes
def test_predictions_do_not_depend_on_workers(seen):
    result = fbar.infer(problem(seen), TARGET, **SETTINGS)
    here = result.predict(70)
    assert seen() == HERE
    for workers in (1, 3):
        there = result.predict(70, workers=workers)
        assert HERE.isdisjoint(seen())
        assert there.summaries.tobytes() == here.summaries.tobytes()
        assert there.missing == here.missing == ""


@pytest.mark.processes
def test_predictions_that_never_end_are_given_up(seen, monkeypatch):
    """In haste, where there is no time limit for each."""
    monkeypatch.setattr(predictive, "PATIENCE", 0.2)
    monkeypatch.setattr(predictive, "LAST", 1.5)
    result = fbar.infer(problem(seen), TARGET, **SETTINGS)
    result.run.problem = problem(seen, hang=True)
    found = predictive.predict(result.run, result.posterior, engine=Workers(1))
    assert found.failed + len(found.summaries) < 200
    assert found.failed > 0
    assert "did not end within 1.5 s" in found.missing


def test_what_cannot_travel_is_simulated_here(seen):
    """But nothing is said against it, where nobody asked for workers."""
    with open(os.devnull, "w") as held:
        kept = fbar.Problem(
            fbar.Prior(a=stats.uniform(0, 1)), fbar.each(lambda theta, rng: held.write("") + theta["a"]), observed=0.5
        )
        result = fbar.infer(kept, TARGET, tolerance=1, budget=40, seed=1)
        found = predictive.predict(result.run, result.posterior, 10, engine=Apart(1.0))
        assert len(found.summaries) == 10
        with pytest.raises(InputError, match="cannot be sent"):
            result.predict(10, workers=1)


# ---------------------------------------------------------------- time limits without end


@pytest.mark.processes
@pytest.mark.parametrize("timeout", [math.inf, 1e10])
def test_a_time_limit_beyond_all_clocks_is_none(seen, timeout):
    result = fbar.infer(problem(seen), TARGET, **SETTINGS, workers=1, timeout=timeout)
    assert result.run.seen.failures == 0
    assert result.settings["machine"] == {"workers": 1, "timeout": None}
    assert isinstance(as_engine(timeout=timeout), InProcess)
    program = fbar.program(["echo", "{a}"], timeout=timeout)
    assert program.function({"a": 0.5}, np.random.default_rng(1)) == 0.5


@pytest.mark.processes
def test_many_rows_have_a_long_time_together():
    """A limit of a year each is one, and its sum is none that a clock could hold."""
    vectorised = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), lambda theta, rng: rng.normal(theta["a"]), observed=0.5
    )
    result = fbar.infer(vectorised, TARGET, tolerance=1, budget=2_000, block_size=1_000, seed=1, timeout=3e7)
    assert Failure.EXCEPTION not in result.run.seen.counts
    with limit(1e300):
        pass


def test_a_cluster_is_not_recorded(seen):
    pytest.importorskip("distributed")
    found = machine_of(Dask("tcp://nowhere:1"))
    assert found == {"workers": None, "timeout": None, "engine": "Dask"}
