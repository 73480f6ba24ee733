"""Whose model files are executed: a run directory that came from somebody else is data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fbar
from executed_models import Place, call, infer, own_run
from fbar.errors import InputError, UntrustedModel
from fbar.running import model_file
from fbar.system import trust
from forged_runs import rename_model

READERS = (
    ("explain", "r"),
    ("report", "r", "--out", "r.html", "--predictive", "0"),
    ("export", "r", "--out", "r.csv", "--force"),
    ("resume", "r", "-q"),
    ("extend", "r", "--budget", "600", "-q"),
    ("show", "r", "--at", "0.5"),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return own_run(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_ones_own_run_needs_no_flag(place: Place, command: tuple[str, ...]) -> None:
    call(*command)
    assert place.executed == "x"


@pytest.mark.parametrize("original", [True, False], ids=["original", "copy"])
@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_somebody_elses_run_is_not_executed_until_trusted(
    place: Place, command: tuple[str, ...], original: bool
) -> None:
    place.forget()
    if not original:
        (place.directory / "model.py").unlink()
    named = "model.py" if original else "r/fbar-model.py"
    with pytest.raises(UntrustedModel, match=named) as told:
        call(*command)
    assert place.executed == ""
    assert "--trust" in str(told.value)
    assert "\n" not in str(told.value)
    call(*command, "--trust")
    assert place.executed == "x"
    call("explain", "r")  # it is remembered
    assert place.executed == "x"


def test_to_show_a_run_never_needs_its_model(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.forget()
    call("show", "r")
    assert "mean:rate" in capsys.readouterr().out
    call("show", "r", "--json")
    assert place.executed == ""


def test_simulations_are_exported_without_the_model(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.forget()
    call("export", "r", "--all")
    assert place.executed == ""
    assert "--trust" in capsys.readouterr().out
    assert "accepted" not in (place.directory / "r.csv").read_text().splitlines()[0]
    call("export", "r", "--all", "--force", "--trust")
    assert "accepted" in (place.directory / "r.csv").read_text().splitlines()[0]


def test_from_python(place: Place) -> None:
    own = fbar.load("r")
    assert place.executed == "x"
    place.forget()
    for load in (fbar.load, lambda run: fbar.extend(run, budget=600)):
        with pytest.raises(UntrustedModel, match="trust=True"):
            load("r")
    assert place.executed == ""
    assert fbar.load("r", trust=True)["mean:rate"].value == own["mean:rate"].value
    with pytest.raises(UntrustedModel):  # said for that call, and no longer
        fbar.load("r")
    assert fbar.extend("r", budget=600, trust=True).simulations == 600


def test_a_problem_that_is_given_is_used_and_nothing_else_is_executed(place: Place) -> None:
    problem = model_file.read("model.py").problem
    for forget in (lambda: None, place.forget):
        forget()
        assert place.executed in ("x", "")
        assert fbar.load("r", problem)["mean:rate"].simulations == 500
        assert place.executed == ""
    assert fbar.extend("r", problem, budget=600).simulations == 600
    assert place.executed == ""


def test_targets_of_ones_own_are_given_with_the_problem(place: Place) -> None:
    place.write("x", more='targets = [fbar.expectation(lambda t: t["rate"] ** 2, name="square")]\n')
    infer(run="own")
    problem = model_file.read("model.py").problem
    with pytest.raises(InputError, match=r"'square' cannot be read from its name; give it.* targets="):
        fbar.load("own", problem)
    square = fbar.expectation(lambda t: t["rate"] ** 2, name="square")
    assert fbar.load("own", problem, square)["square"].value == fbar.load("own")["square"].value
    more = fbar.extend("own", problem, [square], budget=600)
    assert more.simulations == 600


def test_an_edited_model_of_ones_own_is_still_ones_own(place: Place) -> None:
    place.write("y", more="# a remark\n")
    call("explain", "r")
    assert place.executed == "y"
    (place.directory / "model.py").unlink()
    call("explain", "r")
    assert place.executed == "x"  # the run's copy is what was run then


def test_a_model_that_everybody_may_write_to_is_not_ones_own_after_an_edit(place: Place) -> None:
    """Nor is the old copy taken in silence: a bug that was repaired would be back."""
    (place.directory / "model.py").chmod(0o666)
    call("explain", "r")
    assert place.executed == "x"
    place.write("y")
    for command in READERS:
        with pytest.raises(
            UntrustedModel, match=r"model\.py has changed .* written to by everybody: .* --trust"
        ) as told:
            call(*command)
        assert "\n" not in str(told.value)
    assert place.executed == ""
    call("explain", "r", "--trust")
    call("explain", "r")
    assert place.executed == "yy"


def test_a_model_of_another_user_is_not_ones_own(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    model = place.directory / "model.py"
    assert trust.why_not_own(model) == ""
    with monkeypatch.context() as patched:
        patched.setattr(trust.os, "geteuid", lambda: os.getuid() + 1)
        assert trust.why_not_own(model) == "belongs to another user"
    place.write("y")
    monkeypatch.setattr(model_file, "why_not_own", lambda path: "belongs to another user")
    with pytest.raises(UntrustedModel, match=r"model\.py has changed .* and belongs to another user: "):
        call("explain", "r")
    assert place.executed == ""


def test_somebody_elses_run_that_names_ones_own_file_does_not_execute_it(place: Place) -> None:
    """Its author chooses both the place and the copy."""
    place.write("y", "other.py")
    infer("other.py", "mine")
    assert place.executed == "y"
    place.write("z", "other.py")  # whatever lies there by now
    place.write("bad", "evil.py")
    shutil.copy("evil.py", "r/fbar-model.py")
    rename_model("r", place.directory / "other.py")
    with pytest.raises(UntrustedModel, match=r"other\.py"):
        call("explain", "r")
    assert place.executed == ""


@pytest.mark.parametrize(
    "named", ["\ud800", "a\0b", "x" * 5000, "", ".", "/dev/zero", "/proc/self/mem", "\x1b[2J"], ids=ascii
)
def test_whatever_a_run_names_is_no_trouble(place: Place, named: str) -> None:
    rename_model("r", named)
    call("explain", "r")  # its copy is known
    assert place.executed == "x"
    place.forget()
    with pytest.raises(UntrustedModel) as told:
        call("explain", "r")
    assert "\n" not in str(told.value)
    assert place.executed == ""
    call("explain", "r", "--trust")
    assert place.executed == "x"


@pytest.mark.processes
def test_the_whole_program_tells_it_in_one_line(place: Place) -> None:
    place.forget()
    done = subprocess.run([sys.executable, "-m", "fbar", "explain", "r"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fbar: r does not seem to be a run of yours")
    assert done.stderr.count("\n") == 1
    assert place.executed == ""
