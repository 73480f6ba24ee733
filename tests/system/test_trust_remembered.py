"""What is remembered of the model files that were run or trusted, and where."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from threading import Thread

import pytest

from executed_models import Place, call, infer, own_run
from fbar.errors import InputError, UntrustedModel
from fbar.running import model_file
from fbar.system import trust


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return own_run(tmp_path, monkeypatch)


def remembered(place: Place) -> int:
    """How many files this user may run."""
    return sum(found.is_file() for found in place.state.rglob("*"))


def test_to_trust_a_file_is_not_to_trust_the_copy(place: Place) -> None:
    """Who was shown one file has not read the other."""
    place.forget()
    place.write("bad", "evil.py")
    shutil.copy("evil.py", "r/fbar-model.py")
    with pytest.raises(UntrustedModel, match=r"run its model file \S+/model\.py \(which differs from the run's copy"):
        call("explain", "r")
    call("explain", "r", "--trust")
    call("explain", "r")
    assert place.executed == "xx"
    assert remembered(place) == 1
    (place.directory / "model.py").unlink()
    with pytest.raises(UntrustedModel, match=r"fbar-model\.py: "):
        call("explain", "r")
    place.write("y")  # nor is an edit of it one's own: the run was not begun with it
    with pytest.raises(UntrustedModel, match=r"/model\.py \(which differs"):
        call("explain", "r")
    assert place.executed == ""


def test_what_is_trusted_is_what_is_executed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.forget()

    def remember_and_swap(path: Path, content: bytes, how: str) -> str:
        said = trust.remember(path, content, how)
        place.write("bad")
        return said

    monkeypatch.setattr(model_file, "remember", remember_and_swap)
    with pytest.raises(UntrustedModel, match=r"model\.py"):
        call("explain", "r", "--trust")
    assert place.executed == ""


def test_what_executes_nothing_remembers_nothing(place: Place) -> None:
    place.forget()
    call("show", "r", "--trust")
    with pytest.raises(InputError, match="netcdf"):
        call("export", "r", "--all", "--format", "netcdf", "--trust")
    assert place.executed == ""
    assert remembered(place) == 0


@pytest.mark.parametrize("spoilt", ["a file", "unwritable", "somebody else's", "a file in the way"])
def test_a_state_directory_that_cannot_be_used_costs_the_flag_alone(
    place: Place, spoilt: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.forget()
    if spoilt == "a file":
        place.state.write_text("nonsense")
    elif spoilt == "a file in the way":
        place.state.mkdir()
        for name in (trust.NAMED, trust.TRUSTED):
            (place.state / name).write_text("nonsense")
    elif spoilt == "unwritable":
        monkeypatch.setattr(trust, "write_text", refuse)
    else:
        place.state.mkdir()
        monkeypatch.setattr(trust.os, "geteuid", lambda: os.getuid() + 1)
    infer(run="s")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("fbar: warning: cannot remember that ")
    assert "FBAR_STATE_DIR" in told
    with pytest.raises(UntrustedModel):
        call("explain", "s")
    call("explain", "s", "--trust")
    assert "cannot remember" in capsys.readouterr().err


def refuse(path: Path, text: str) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_where_things_are_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FBAR_STATE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "x"))
    assert trust.state_directory() == tmp_path / "x" / "fbar"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the specification says to leave aside
    assert trust.state_directory() == tmp_path / ".local" / "state" / "fbar"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert trust.state_directory() == tmp_path / ".local" / "state" / "fbar"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert trust.state_directory() == tmp_path / "Library" / "Application Support" / "fbar"
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "own"))
    assert trust.state_directory() == tmp_path / "own"


def test_many_may_remember_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "state"))
    said: list[str] = []

    def work(number: int) -> None:
        said.extend(trust.remember(tmp_path / f"model{i % 5}.py", f"{number} {i}".encode()) for i in range(20))

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [""] * 160
    for number in range(8):
        for i in range(20):
            assert trust.was_run(tmp_path / f"model{i % 5}.py", trust.digest(f"{number} {i}".encode()))
            assert not trust.was_run(tmp_path / f"model{(i + 1) % 5}.py", trust.digest(f"{number} {i}".encode()))
    assert trust.place_of(trust.digest(b"7 4")) == tmp_path / "model4.py"
    assert trust.place_of(trust.digest(b"another")) is None
