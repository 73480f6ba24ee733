"""A run watched from its directory: while another process drives it, after its end, and where little of it is left."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from scipy import stats

import fbar
from fbar.cli import app, watch
from fbar.running import progress_file
from fbar.running.progress_file import read_progress
from fbar.running.watched import Status, look_at

MODEL = """
import time
import fbar
from scipy import stats


def simulate(theta, rng):
    time.sleep(0.01)
    x = theta["rate"] + rng.standard_normal(theta.rows)
    x[theta["rate"] > 1.5] = float("nan")
    return x


problem = fbar.Problem(fbar.Prior(rate=stats.norm(0, 1)), simulate, observed=0.5)
targets = [fbar.mean("rate"), fbar.probability("rate > 0.2")]
"""
ASKED = {"tolerance": 0.5, "method": "rejection", "seed": 1, "block_size": 50}


def problem():
    return fbar.Problem(
        fbar.Prior(rate=stats.norm(0, 1)), lambda t, rng: t["rate"] + rng.standard_normal(t.rows), observed=0.5
    )


def after(simulations):
    """What stops a run, as Ctrl-C does, after that many simulations."""

    def stop(run):
        if run.simulations >= simulations:
            raise KeyboardInterrupt

    return stop


def stopped_run(directory, simulations=600):
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem(), [fbar.mean("rate")], budget=2000, run=directory, progress=after(simulations), **ASKED)


def call(*arguments):
    app([str(text) for text in arguments], exit_on_error=False, print_error=False, result_action="return_value")


def printed(capsys, *arguments):
    capsys.readouterr()
    call("watch", *arguments)
    return capsys.readouterr().out


@pytest.fixture
def written_at_once(monkeypatch):
    """Progress is written after every block."""
    for name in ("BEGINNING", "PAUSE"):
        monkeypatch.setattr(progress_file, name, 0.0)
    monkeypatch.setattr(progress_file, "SHARE", 1e9)


# ---------------------------------------------------------------- a run that another process makes


def wait_for(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def driver(tmp_path):
    """A process that makes a long run in `run`, once it has written of its progress."""
    (tmp_path / "model.py").write_text(MODEL)
    options = ["--tolerance", "0.5", "--precision", "rate=0.01%", "--block-size", "5", "--seed", "1", "--run", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fbar", "infer", "model.py", *options, "--quiet"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        wait_for(lambda: (tmp_path / "run" / "progress.json").exists() or process.poll() is not None)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_is_watched_while_another_process_makes_it(driver, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("the ledger was opened"))
    wait_for(lambda: "now ±" in printed(capsys, run, "--once"))  # there is an estimate, however slow the machine is
    names = sorted(path.name for path in run.iterdir())
    out = printed(capsys, run, "--once")
    assert "in progress on " in out
    assert "until mean:rate ± 0.01%" in out
    assert "wanted: rate ±0.01%, now ±" in out
    assert "failures (" in out
    before = look_at(run).progress.state.simulations
    wait_for(lambda: look_at(run).progress.state.simulations > before)  # the driver was not held up
    assert sorted(path.name for path in run.iterdir() if not path.name.endswith(".new")) == [
        name for name in names if not name.endswith(".new")
    ]
    driver.send_signal(signal.SIGINT)
    driver.wait(60)
    assert look_at(run).status is Status.STOPPED
    out = printed(capsys, run)  # it ends by itself
    assert "stopped before its end (interrupted); resume it with: fbar resume " in out


@pytest.mark.slow
@pytest.mark.processes
def test_a_driver_that_was_killed_is_noticed(driver, tmp_path, capsys):
    run = tmp_path / "run"
    driver.kill()
    driver.wait(60)
    out = printed(capsys, run)
    assert "simulations" in out
    assert "stopped before its end; resume it with: fbar resume " in out


# ---------------------------------------------------------------- what is written and seen


def test_the_progress_of_a_run_is_in_its_directory(tmp_path, written_at_once, capsys):
    seen = []

    def watched(run):
        found = read_progress(tmp_path / "r")
        if found is not None:
            seen.append((run.simulations, found))

    targets = [fbar.mean("rate"), fbar.probability("rate > 0.2")]
    result = fbar.infer(problem(), targets, budget=2000, run=tmp_path / "r", progress=watched, **ASKED)
    assert len(seen) > 10
    for simulations, found in seen:
        assert 0 < found.state.simulations < simulations  # what was written after an earlier block
        assert found.state.budget == 2000
    last = read_progress(tmp_path / "r")
    assert [moment.simulations for moment in last.moments] == [moment.simulations for moment in result.history]
    for moment, known in zip(last.moments, result.history, strict=True):
        assert [str(item) for item in moment.estimates] == [str(item) for item in known.estimates]
    assert last.state.estimates["rate"].value == result["rate"].value
    assert last.stopped == ""
    out = printed(capsys, tmp_path / "r")
    assert str(result["rate"]) in out
    assert "2,000 simulations" in out


def test_progress_changes_nothing_in_the_result(tmp_path, written_at_once):
    asked = {"budget": 2000, "method": "targeted", **{k: v for k, v in ASKED.items() if k != "method"}}
    recorded = fbar.infer(problem(), fbar.mean("rate"), run=tmp_path / "r", progress=False, **asked)
    plain = fbar.infer(problem(), fbar.mean("rate"), progress=False, **asked)
    assert recorded["rate"].value == plain["rate"].value
    assert recorded["rate"].standard_error == plain["rate"].standard_error


def test_progress_that_cannot_be_written_does_not_end_the_run(tmp_path, written_at_once):
    (tmp_path / "r" / "progress.json.new").mkdir(parents=True)
    result = fbar.infer(problem(), fbar.mean("rate"), budget=500, run=tmp_path / "r", **ASKED)
    assert result.simulations == 500
    assert read_progress(tmp_path / "r") is None


def test_a_finished_run_is_not_written_to(tmp_path):
    fbar.infer(problem(), fbar.mean("rate"), budget=500, run=tmp_path / "r", **ASKED)
    before = (tmp_path / "r" / "progress.json").read_bytes()
    fbar.infer(problem(), fbar.mean("rate"), budget=500, run=tmp_path / "r", **ASKED)
    assert (tmp_path / "r" / "progress.json").read_bytes() == before


def test_the_json_has_numbers_as_numbers(tmp_path, capsys):
    stopped_run(tmp_path / "r")
    found = json.loads(printed(capsys, tmp_path / "r", "--json"))
    assert found["status"] == "stopped before its end"
    assert found["result"] is None
    assert found["progress"]["stopped"] == "interrupted"
    now = found["progress"]["now"]
    assert (now["simulations"], now["budget"], now["falling"]) == (600, 2000, False)
    assert type(now["simulations"]) is int
    assert isinstance(now["estimates"]["mean:rate"]["value"], float)
    fbar.infer(problem(), [fbar.mean("rate")], budget=2000, run=tmp_path / "r", **ASKED)
    found = json.loads(printed(capsys, tmp_path / "r", "--json"))
    assert found["status"] == "finished"
    assert found["result"]["simulations"] == 2000


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"simulations": 600', '"simulations": "many"', 1),
        lambda text: text.replace('"value": ', '"value": [1, 2], "was": '),
        lambda text: text.replace('"leg": 0', '"leg": 7'),
    ],
)
def test_progress_that_cannot_be_read_is_ignored(tmp_path, capsys, damage):
    stopped_run(tmp_path / "r")
    path = tmp_path / "r" / "progress.json"
    path.write_text(damage(path.read_text()))
    assert look_at(tmp_path / "r").progress is None
    assert "stopped before its end; resume it" in printed(capsys, tmp_path / "r")


def test_a_link_is_not_followed(tmp_path):
    stopped_run(tmp_path / "r")
    path = tmp_path / "r" / "progress.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert read_progress(tmp_path / "r") is None


def test_where_there_is_no_run_that_is_an_error(tmp_path):
    with pytest.raises(fbar.InputError, match="holds no run; start one with fbar infer"):
        call("watch", tmp_path)
    stopped_run(tmp_path / "r")
    with pytest.raises(fbar.InputError, match="--every"):
        call("watch", tmp_path / "r", "--every", "-1")


# ---------------------------------------------------------------- the view


def elsewhere(run):
    """As if another machine had made the run so far, whose locks are not seen here."""
    (run / "driver.lock").write_text("process 7 on another-machine")


def test_a_run_of_another_machine_is_waited_for(tmp_path, capsys, monkeypatch):
    run = tmp_path / "r"
    stopped_run(run)
    path = run / "progress.json"
    path.write_text(path.read_text().replace('"stopped": "interrupted"', '"stopped": ""'))
    elsewhere(run)
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            fbar.infer(problem(), [fbar.mean("rate")], budget=2000, run=run, **ASKED)
            elsewhere(run)

    monkeypatch.setattr(watch.time, "sleep", sleep)
    lines = printed(capsys, run).splitlines()
    assert looks == [watch.PLAIN_PAUSE] * 3
    assert lines[0] == f"{run}: Rejection at tolerance 0.5; budget 2,000"
    assert lines[1].startswith("600 of 2,000 simulations")
    assert sum("600 of 2,000" in line for line in lines) == 1  # a line for each change
    assert "2,000 simulations, " in lines[-1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_ctrl_c_ends_the_view_and_leaves_what_was_seen(tmp_path, monkeypatch):
    run = tmp_path / "r"
    stopped_run(run)
    path = run / "progress.json"
    path.write_text(path.read_text().replace('"stopped": "interrupted"', '"stopped": ""'))
    elsewhere(run)
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    terminal, looks = Terminal(), []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", sleep)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(KeyboardInterrupt, match="does not affect the run"):
        call("watch", run)
    drawn = terminal.getvalue()
    assert drawn.count("\x1b[J") == 3  # drawn twice, and wiped
    left = drawn.rpartition("\x1b[J")[2]
    assert "perhaps in progress on another machine" in left
    assert "600 of 2,000 simulations" in left
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before


@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (79, 23), (200, 60)])
def test_the_view_fits_the_terminal(tmp_path, columns, rows, written_at_once):
    run = tmp_path / "r"
    targets = [*(fbar.quantile("rate", level / 10) for level in range(1, 10)), fbar.mean("rate")]
    stop = {"mean:rate": 1e-9}
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem(), targets, precision=stop, run=run, progress=after(4000), **ASKED)
    shown = watch.lines(look_at(run), columns, rows)
    assert len(shown) <= rows
    assert max(map(len, shown)) <= columns
    table = [line for line in shown if line.lstrip().startswith("simulations ")]
    assert table
    assert ("more targets)" in "".join(shown)) == (columns < 200)
    assert any(line.startswith("wanted: rate ±1e-09, now") or columns < 60 for line in shown)


def test_names_cannot_control_the_terminal(tmp_path, capsys):
    run = tmp_path / "r"
    stopped_run(run)
    path = run / "progress.json"
    tree = json.loads(path.read_text())
    tree |= {"stopped": "\x1b[2J", "failures": {"\x1b[31m": 3}}
    path.write_text(json.dumps(tree))
    (run / "driver.lock").write_text("process 7 on \x1b]0;evil\x07")
    out = printed(capsys, run, "--once")
    assert "\x1b" not in out
    assert "\x07" not in out


def test_read_only_directories_can_be_watched(tmp_path, capsys):
    run = tmp_path / "r"
    stopped_run(run)
    for file in run.iterdir():
        file.chmod(0o444)
    run.chmod(0o555)
    try:
        opened = []
        real = os.open

        def only_reads(path, flags, *rest, **options):
            if str(path).startswith(str(run)):
                opened.append(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            return real(path, flags, *rest, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", only_reads)
            out = printed(capsys, run, "--once")
    finally:
        run.chmod(0o755)
    assert "600 of 2,000 simulations" in out
    assert opened
    assert not any(opened)
