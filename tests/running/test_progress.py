"""What people see of a run at work, on terminals of several sizes and elsewhere."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.methods import run as run_module
from fbar.methods.forecasts import Forecast
from fbar.running import progress
from fbar.running.progress import LiveProgress, State, block, plain_line, short_line, to_come, wanted_errors
from fbar.system import terminal

MODEL = """
import time
import numpy as np
from scipy import stats
import fbar


def simulate(theta, rng):
    time.sleep({sleep})
    return theta["rate"] + rng.standard_normal(theta.rows)


problem = fbar.Problem(fbar.Prior(rate=stats.norm(0, 1)), simulate, observed=0.5)
targets = [fbar.mean("rate"), fbar.probability("rate > 0.2")]
"""
ASK = ["--method", "rejection", "--tolerance", "0.5", "--seed", "1", "--block-size", "100"]
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def model(directory: Path, sleep: float) -> str:
    path = directory / "model.py"
    path.write_text(MODEL.format(sleep=sleep))
    return str(path)


class Emulated:
    """A terminal's screen, as far as the escape sequences that are used go; refuses others."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[str] = [""]
        self.row = self.column = 0
        self.wrapped = False

    def feed(self, text: str) -> None:
        for escape, char in re.findall(r"(\x1b\[[0-9;]*[A-Za-z])|(.)", text, re.DOTALL):
            if escape:
                self._escape(escape[2:-1], escape[-1])
            elif char == "\r":
                self.column = 0
            elif char == "\n":
                self.row += 1
                self.rows += [""] * (self.row + 1 - len(self.rows))
            else:
                assert char.isprintable(), repr(char)
                self.wrapped = self.wrapped or self.column >= self.columns
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1

    def _escape(self, number: str, kind: str) -> None:
        if kind == "A":
            self.row -= int(number)
            assert self.row >= 0
        elif kind == "K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        else:
            assert kind == "J", kind
            self.rows = [*self.rows[: self.row], self.rows[self.row][: self.column]]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)


def on_terminal(
    command: list[str], columns: int, rows: int, *, interrupt_at: str = "", wait: float = 60
) -> tuple[Emulated, str, str, int]:
    """Run a command with a terminal as its standard error: the last screen, all that came, standard output, status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        told, until = b"", time.monotonic() + wait
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
                told += more
                if not more:
                    break
            if interrupt_at and interrupt_at in told.decode("utf-8", "ignore"):
                process.send_signal(signal.SIGINT)
                interrupt_at = ""
        else:
            process.kill()  # it would keep us waiting for ever
        assert process.stdout is not None
        out = process.stdout.read().decode()
        status = process.wait(10)
    os.close(ours)
    text = told.decode("utf-8")
    screen = Emulated(columns)
    screen.feed(text)
    return screen, text, out, status


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fbar", *arguments]


@pytest.mark.processes
def test_a_wide_terminal_shows_a_block_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    screen, all_of_it, out, status = on_terminal(
        command("infer", model(tmp_path, 0.05), *ASK, "--budget", "8000"), 90, 24
    )
    assert status == 0
    assert "mean:rate" in out
    assert screen.text.strip() == ""
    assert not screen.wrapped
    frames = all_of_it.split("\x1b[J")
    shown = [line for line in ESCAPE.sub("", frames[len(frames) // 2]).replace("\r", "\n").splitlines() if line]
    assert re.match(r"rate +0\.\d+\(\d+\)$", shown[0])
    assert shown[1].startswith("probability:rate > 0.2  0.")
    assert re.search(r"━┄+ +\d+%$", shown[2])
    assert re.match(r"[\d,]+ of 8,000 simulations, [\d,]+/s, about \d+ s left$", shown[3])
    assert re.match(r"round \d+, tolerance 0.5, [\d,]+ accepted$", shown[4])


@pytest.mark.processes
@pytest.mark.parametrize(("columns", "rows"), [(44, 24), (100, 6)])
def test_a_small_terminal_shows_one_line(tmp_path: Path, columns: int, rows: int) -> None:
    screen, all_of_it, _, status = on_terminal(
        command("infer", model(tmp_path, 0.05), *ASK, "--budget", "6000"), columns, rows
    )
    assert status == 0
    assert "\n" not in all_of_it
    assert not screen.wrapped
    assert re.search(r"rate 0\.\d+\(\d+\)", all_of_it)
    assert re.search(r"\d+%, \d+ s left", all_of_it)
    assert screen.text.strip() == ""


@pytest.mark.processes
def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path) -> None:
    screen, _, out, status = on_terminal(
        command("infer", model(tmp_path, 0.05), *ASK, "--budget", "900000"), 90, 24, interrupt_at="accepted"
    )
    assert status == 130
    assert out == ""
    assert screen.text.strip() == "fbar: interrupted"


@pytest.mark.processes
def test_in_the_background_an_interrupt_is_for_others(tmp_path: Path) -> None:
    """Where SIGINT is ignored at the start, as in the background of a script, it stays ignored."""
    ask = command("infer", model(tmp_path, 0.05), *ASK, "--budget", "3000")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        screen, _, out, status = on_terminal(ask, 90, 24, interrupt_at="accepted")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 0
    assert "3,000 simulations" in out
    assert "interrupted" not in screen.text


@pytest.mark.processes
def test_quiet_and_json_on_a_terminal(tmp_path: Path) -> None:
    file = model(tmp_path, 0.05)
    _, told, out, status = on_terminal(command("infer", file, *ASK, "--budget", "6000", "--quiet"), 90, 24)
    assert (status, told) == (0, "")
    assert "\nmean:rate" in out.replace("\r", "")
    _, told, out, status = on_terminal(command("infer", file, *ASK, "--budget", "6000", "--json"), 90, 24)
    assert status == 0
    assert "simulations" in told
    assert json.loads(out)["simulations"] == 6000


@pytest.mark.processes
def test_resume_and_extend_are_quiet_when_asked(tmp_path: Path) -> None:
    file, run = model(tmp_path, 0.0), str(tmp_path / "run")
    subprocess.run(command("infer", file, *ASK, "--budget", "500", "--run", run, "--quiet"), check=True)
    for more in (["resume", run, "--quiet"], ["extend", run, "--budget", "1000", "--quiet"]):
        done = subprocess.run(command(*more), capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert "\nmean:rate" in done.stdout


# ---------------------------------------------------------------- without a terminal


class Clock:
    """Time that passes by so much with every simulation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)

    def slow(self, seconds: float) -> Callable[[fbar.Points, np.random.Generator], Any]:
        def simulate(theta: fbar.Points, rng: np.random.Generator) -> Any:
            self.now += seconds * theta.rows
            return theta["a"] + 0.5 * rng.standard_normal(theta.rows)

        return simulate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def asked(clock: Clock, **options: Any) -> fbar.Result:
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), clock.slow(0.01), observed=0.5)
    given: dict[str, Any] = {"method": fbar.Rejection(tolerance=0.3), "budget": 10_000, "seed": 1, "block_size": 50}
    return fbar.infer(problem, [fbar.mean("a")], **{**given, **options})


def test_plain_lines_come_rarely_and_without_control_characters(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(clock, progress=True)  # a hundred seconds
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert told.out == ""
    assert len(lines) in (3, 4)  # after 10, 40, 70 and, if it takes as long, 100 seconds
    done, estimates = lines[1].split(": ")
    assert re.fullmatch(
        r"(3,[89]|4,)\d+ of 10,000 simulations, 100/s, about (59|6\d) s left, round \d, tolerance 0.3, \d+ accepted",
        done,
    )
    assert re.fullmatch(r"a 0\.\d+\(\d+\)", estimates)
    assert told.err.replace("\n", "").isprintable()


def test_the_library_is_silent_without_a_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    asked(clock)
    asked(clock, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_pilot_says_what_it_is_for(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    asked(clock, method=None, tolerance=0.5, budget=6000, summaries="linear", progress=True)
    first = capsys.readouterr().err.splitlines()[0]
    assert "learning the summaries" in first
    assert "a 0." not in first


def test_a_falling_tolerance_is_no_estimate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    method = fbar.SMC([4, 2, 1, 0.05], accepted=900)
    asked(clock, method=method, budget=12_000, progress=True)
    lines = capsys.readouterr().err.splitlines()
    falling = [line for line in lines if "falling" in line]
    assert falling
    assert re.search(r"tolerance \d\S*, falling to 0.05", falling[-1])
    assert all("a 0." not in line for line in falling)


def test_replayed_simulations_do_not_count_as_fast_ones(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(run: fbar.Run) -> None:
        if run.simulations >= 8000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(clock, run=tmp_path / "run", progress=stop)
    asked(clock, run=tmp_path / "run", progress=True)
    assert re.search(r"9,\d+ of 10,000 simulations, (99|100)/s", capsys.readouterr().err)


LOOKED_AT = {
    "targeted": fbar.Targeted(tolerance=0.1),
    "chosen": fbar.Targeted(),
    "rejection": fbar.Rejection(tolerance=0.2),
    "stratified": fbar.Rejection("stratified", rounds=3, tolerance=0.2),
    "smc": fbar.SMC([2, 0.8, 0.3], accepted=150),
    "scaled": fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0.1), accepted=150, distance=fbar.Scaled(each_round=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKED_AT)
def test_looking_after_every_block_changes_no_bit(name: str, clock: Clock) -> None:
    def look(run: fbar.Run) -> None:
        with contextlib.suppress(fbar.NoPosterior):
            run.peek().expect(list(run.targets))

    def estimates(result: fbar.Result) -> list[Any]:
        return [(e.value, e.standard_error, e.df) for e in result.estimates] + [result.simulations, result.run.round]

    method = LOOKED_AT[name]
    looked = estimates(asked(clock, method=method, budget=3000, progress=look))
    assert looked == estimates(asked(clock, method=method, budget=3000, progress=False))


def test_looks_take_little_of_the_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0.0

    def slow(run: fbar.Run, of: Callable[[Any], Any] = fbar.methods.draws.DrawRun.posterior) -> Any:
        nonlocal looks
        clock.now += 0.5
        looks += 0.5
        return of(run)

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), clock.slow(0.01), observed=0.5)
    run = fbar.Rejection(tolerance=0.3).start(problem, fbar.mean("a"), 1, 20_000, block_size=50)
    monkeypatch.setattr(type(run), "posterior", slow)
    fbar.drive(run, progress=LiveProgress(plain=True), history=False)
    assert 0.5 <= looks <= 0.05 * clock.now + 0.5


# ---------------------------------------------------------------- words


def state(**changes: Any) -> State:
    estimate = fbar.Estimate("mean:R0", 3.8, 0.042, 100, 1000, 50.0)
    doubted = fbar.Estimate("probability:a\x1b[2J < 2", 0.5, 0.1, 3, 1000, 50.0, trusted=False)
    found = fbar.Estimates([estimate, doubted], np.eye(2), [slice(0, 1), slice(1, 2)])
    given: dict[str, Any] = {
        "simulations": 1000,
        "budget": None,
        "limit": 10_000,
        "round": 3,
        "rate": 50.0,
        "more": 4000,
        "accepted": 50.0,
        "tolerance": 5.0,
        "falling": False,
        "final_tolerance": None,
        "estimates": found,
    }
    return State(**{**given, **changes})


def test_untrusted_estimates_are_marked_and_labels_cleaned() -> None:
    for text in ("\n".join(block(state(), {"mean:R0": "1%"}, 100, 24)), plain_line(state())):
        assert "0.50(10) (unreliable)" in text
        assert "\x1b" not in text
    assert block(state(), {"mean:R0": "1%"}, 100, 24)[0].endswith("3.800(42)  wanted ±1%")
    line = short_line(state(), 100)
    assert line.startswith("R0 3.800(42), probability:a\\x1b[2J < 2 0.50(10) unreliable, 20%, 80 s left")
    assert "\x1b" not in line


def test_nothing_is_wider_or_taller_than_the_terminal() -> None:
    many = [fbar.Estimate(f"mean:{'人口' * n}", 1.0, 0.1, 9, 9, 9.0) for n in range(1, 40)]
    found = fbar.Estimates(many, np.eye(39), [slice(n, n + 1) for n in range(39)])
    for columns in (60, 61, 75, 120):
        for rows in (10, 24):
            lines = block(state(estimates=found), {}, columns, rows)
            assert len(lines) < rows
            assert max(terminal.cells(line) for line in lines) <= columns
            assert any(line.endswith(" more") for line in lines)
    for columns in range(1, 60):
        assert terminal.cells(short_line(state(estimates=found), columns)) <= columns
        assert terminal.cells(short_line(state(falling=True), columns)) <= columns


def test_what_is_left_follows_the_forecast_within_the_limit() -> None:
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    run = fbar.Rejection().start(problem, fbar.mean("theta"), 1, limit=10_000)
    assert to_come(run) is None
    run.expected = Forecast(500, 400, 600, 0)
    assert to_come(run) == 500
    run.expected = Forecast(50_000, 400, 600, 0)
    assert to_come(run) == 10_000
    assert "nearly there" in plain_line(state(more=0))


def test_the_errors_that_a_rule_waits_for() -> None:
    rule = (fbar.StandardError("mean:a", 0.01) & fbar.RelativeError("mean:b", 0.025)) | fbar.Budget(100)
    assert wanted_errors(rule) == {"mean:a": "0.01", "mean:b": "2.5%"}
    assert wanted_errors(None) == {}


def test_a_terminal_that_became_narrower_is_wiped_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = 80
    monkeypatch.setattr(terminal, "size", lambda stream=None: (columns, 24))
    screen = terminal.Screen()
    screen.draw(["x" * 70, "y" * 10])
    columns = 30  # the first line takes three rows now
    capsys.readouterr()
    screen.wipe()
    assert capsys.readouterr().err == "\r\x1b[3A\x1b[J"


def test_ctrl_c_while_lines_are_written_wipes_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen, write = terminal.Screen(), terminal.Screen.write

    def interrupted(self: terminal.Screen, text: str) -> None:
        write(self, text)
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Screen, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        screen.draw(["one", "two"])
    monkeypatch.setattr(terminal.Screen, "write", write)
    screen.wipe()
    assert capsys.readouterr().err.endswith("\r\x1b[1A\x1b[J")


class Gone:
    """A standard error whose reader has gone away."""

    encoding = "utf-8"

    def __init__(self, tty: bool) -> None:
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    def fileno(self) -> int:
        raise OSError

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("where", [Gone(True), Gone(False), None])
def test_nobody_who_listens_is_no_reason_to_end(
    where: Gone | None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = asked(clock, progress=False)
    monkeypatch.setattr("sys.stderr", where)
    assert asked(clock, progress=True).estimates[0].value == whole.estimates[0].value


class Written:
    """Standard error that remembers."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False


def test_a_run_at_the_data_shows_what_it_has_estimated_and_that_it_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are those of the last round's end, and none is made for the display."""
    written, made = Written(), []
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(progress, "PLAIN_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PLAIN_PAUSE", 0.0)
    monkeypatch.setattr(run_module, "NOTICED", 0.0)  # every estimate takes a while
    whole = AtData.posterior

    def counted(self: AtData, simulations: Any) -> Any:
        made.append(len(simulations))
        return whole(self, simulations)

    monkeypatch.setattr(AtData, "posterior", counted)
    problem = fbar.Problem(
        fbar.Prior(rate=stats.norm(0, 1)), lambda t, rng: t["rate"] + rng.standard_normal(t.rows), observed=0.5
    )
    run = fbar.Targeted().start(problem, fbar.mean("rate"), seed=1, budget=4000, block_size=100)
    fbar.drive(run, progress=LiveProgress(plain=True))
    lines = written.text.splitlines()
    assert made == [4000]
    shown = {line.partition(": ")[2] for line in lines if "rate 0." in line}
    known = {f"rate {moment.estimates['rate']}" for moment in run.history}
    assert shown
    assert shown <= known
    assert any("estimating…" in line for line in lines)
    assert not any("accepted" in line for line in lines)
    assert any("/s, " in line and "left" in line for line in lines)
