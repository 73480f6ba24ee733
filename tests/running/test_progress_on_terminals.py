"""What people see of a run at work on terminals of several sizes, and what stays there."""

from __future__ import annotations

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
from pathlib import Path

import pytest

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


# ---------------------------------------------------------------- the screen


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
