"""Text from a run, a model or a study can do nothing to a terminal."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import fbar
from fbar.cli import app, main
from fbar.cli.common import complain, open_console, plain_table, say
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.ledger import LedgerReader
from fbar.system.terminal import clean, clean_lines
from forged_runs import write_leg

HOSTILE = "a\x1b]52;c;aGk=\x07b\x9b2Jc\u202ed\ne\rf\u2028g\x00h"
"""The clipboard, the screen, the direction of writing, other lines."""
SHOWN = r"a\x1b]52;c;aGk=\x07b\x9b2Jc\u202ed\ne\rf\u2028g\x00h"


def call(*arguments: str) -> None:
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def harmless(text: str) -> bool:
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


def test_what_could_do_something_is_written_as_an_escape() -> None:
    assert clean(HOSTILE) == SHOWN
    assert clean(SHOWN) == SHOWN
    assert clean("R₀ θ ± ½ 人口 é e\u0301 a\u00a0b") == "R₀ θ ± ½ 人口 é e\u0301 a\u00a0b"
    assert clean("\ud800") == r"\ud800"
    assert clean_lines("a\x1b\nb\r\nc") == "a\\x1b\nb\\r\nc"
    for number in [*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200F, 0xFEFF]:
        assert harmless(clean(chr(number)).replace("\n", ""))
        assert chr(number) not in clean(chr(number))


def test_errors_are_one_harmless_line() -> None:
    for error in (FbarError(HOSTILE), InputError(HOSTILE), fbar.NoPosterior(HOSTILE), fbar.LedgerError(HOSTILE)):
        assert str(error) == SHOWN
    assert "\x1b" not in str(MissingExtra(HOSTILE, "x"))
    assert "\x1b" not in f"{InputError(HOSTILE)}"


def test_the_command_lines_own_ways_of_printing(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    complain(HOSTILE)
    console = open_console()
    console.print(HOSTILE, markup=False)
    table = plain_table(HOSTILE, "[bold]b[/bold]")
    table.add_row(HOSTILE, "x[/nothing]")  # no markup: rich would not know it
    console.print(table)
    told = capsys.readouterr()
    assert harmless(told.out + told.err)
    assert told.out.startswith(SHOWN + "\n")
    assert told.err == "fbar: " + clean(" ".join(HOSTILE.split())) + "\n"
    assert "[bold]b[/bold]" in told.out
    assert "x[/nothing]" in told.out


NAME = "mean:x\x1b[2J"


def one(theta: Any, rng: Any) -> Any:
    if theta["x"] < 1:
        raise ValueError(HOSTILE)
    return theta["x"] + rng.standard_normal()


PROBLEM = fbar.Problem(fbar.Prior(x=stats.uniform(0, 10)), fbar.each(one), 4.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose names, failures, settings and directory are hostile."""
    directory = tmp_path_factory.mktemp("runs") / "r\x1b[2J\nfbar: all is well"
    plain = directory.parent / "plain"
    fbar.infer(PROBLEM, fbar.mean("x"), tolerance=1, method="rejection", budget=300, seed=1, run=plain)
    plain.rename(directory)
    with LedgerReader(directory) as ledger:
        (leg,) = ledger.legs
        assert leg.result is not None
        estimate = leg.result["estimates"].pop("mean:x")
        leg.result["estimates"] = {NAME: estimate, HOSTILE: estimate}
        leg.settings["targets"] = [NAME, HOSTILE]
        leg.result["warnings"].append(HOSTILE)
        leg.result["stopped_by"] = HOSTILE
        leg.result["remarks"] = [HOSTILE]
        leg.result["about"] = HOSTILE
        leg.result["missing"] = {HOSTILE: {"more": 1, "low": 1, "high": 1, "and": "more"}}
        leg.settings["method"] = {"type": HOSTILE}
        leg.settings["model"] = {"file": HOSTILE, "name": HOSTILE}
    write_leg(directory, 0, leg)
    return directory


def test_a_hostile_run_is_shown_harmlessly(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("show", str(run))
    told = capsys.readouterr().out
    assert harmless(told)
    assert r"mean:x\x1b[2J" in told
    assert told.count(SHOWN) >= 7
    assert not any(line.startswith("fbar: all is well") for line in told.splitlines())
    call("show", str(run), "--json")
    assert harmless(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["explain", "resume", "report", "extend", "export"])
def test_what_is_refused_of_a_hostile_run_is_told_harmlessly(
    run: Path, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fbar", command, str(run), "--trust"])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr()
    assert harmless(told.out + told.err)
    assert told.err.startswith("fbar: ")
    assert told.err.count("\n") == 1


def test_names_that_could_do_harm_are_refused() -> None:
    for make in (
        lambda: fbar.Prior(**{HOSTILE: stats.norm(0, 1)}),
        lambda: fbar.expectation(lambda t: t["x"], name=HOSTILE),
    ):
        with pytest.raises(InputError, match="printable characters") as told:
            make()
        assert harmless(str(told.value))


def test_wrong_arguments_are_told_harmlessly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (
        ["show", HOSTILE.replace("\x00", "")],
        ["infer", HOSTILE.replace("\x00", "")],
        [HOSTILE],
        ["infer", "model.py", "--budget", HOSTILE],
        ["problems", HOSTILE],
        ["problems", "sir", "--observed", "no\x1b[2Jfile"],
        ["score", "--method", HOSTILE],
        ["show", "x\udc80y"],
    ):
        monkeypatch.setattr(sys, "argv", ["fbar", *arguments])
        with pytest.raises(SystemExit):
            main()
        told = capsys.readouterr()
        assert harmless(told.out + told.err), arguments
        assert told.err.count("\n") == 1, told.err
