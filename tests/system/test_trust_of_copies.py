"""The copy of a model in the directory of its run: when it is executed, from where, and with what beside it."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

import fbar
from executed_models import Place, call, infer, own_run
from fbar.errors import InputError, LedgerError, UntrustedModel
from forged_runs import rename_model


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return own_run(tmp_path, monkeypatch)


def test_a_changed_copy_is_not_executed(place: Place) -> None:
    (place.directory / "model.py").unlink()
    copy = place.directory / "r" / "fbar-model.py"
    copy.write_text(copy.read_text() + "\n")
    with pytest.raises(UntrustedModel):
        call("explain", "r")
    assert place.executed == ""


def test_what_was_run_elsewhere_may_be_run_from_a_copy(place: Place) -> None:
    """The same content is the same program, wherever the run names its file to be."""
    rename_model("r", place.directory / "gone" / "model.py")
    call("explain", "r")
    assert place.executed == "x"


WHERE = """
import inspect
for at in (__file__, __spec__.origin, inspect.currentframe().f_code.co_filename):
    with open({log!r}, "a") as file:
        file.write((Path(at).parent / "data.txt").read_text())
"""


@pytest.mark.parametrize("named", ["model.py", "nowhere/model.py"])
def test_what_is_beside_somebody_elses_copy_is_not_read(place: Place, named: str) -> None:
    """A published model may load a pickle from beside itself: its own content says nothing of that."""
    (place.directory / "data.txt").write_text("mine ")
    place.write("", more=WHERE.format(log=str(place.log)))
    infer(run="w")
    assert place.executed == "mine " * 3
    (place.directory / "model.py").unlink()
    shutil.move("w", "moved")
    (place.directory / "moved" / "data.txt").write_text("evil ")
    rename_model("moved", place.directory / named)
    call("explain", "moved")  # no flag
    assert place.executed == "mine " * 3


def test_a_place_that_is_relative_is_not_another_one_elsewhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.forget()
    rename_model("r", "model.py")
    call("explain", "r", "--trust")
    assert place.executed == "x"
    other = place.directory / "other"
    other.mkdir()
    shutil.copy("model.py", other)
    shutil.copytree("r", other / "r")
    (other / "r" / "fbar-model.py").unlink()
    monkeypatch.chdir(other)
    with pytest.raises(UntrustedModel, match=r"other/model\.py"):
        call("explain", "r")
    assert place.executed == ""


def test_the_source_of_a_copy_is_its_own(place: Place) -> None:
    """It is executed as at the place where it was run, where something else may be by now."""
    rename_model("r", place.directory / "gone" / "model.py")
    place.write("y", more="# longer\n" * 5)
    (place.directory / "model.py").write_text("# another file\n" * 30)
    assert not [note for note in fbar.load("r").warnings if "source" in note]
    assert place.executed == "x"


def test_nothing_beside_a_copy_is_imported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place.directory / "elsewhere"))
    (place.directory / "helper_of_trust.py").write_text("value = 1\n")
    place.write("x", more="import helper_of_trust\n")
    infer(run="h")
    monkeypatch.delitem(sys.modules, "helper_of_trust")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(place.directory)])
    (place.directory / "model.py").unlink()
    evil = f"open({str(place.log)!r}, 'a').write('evil')\n"
    (place.directory / "h" / "helper_of_trust.py").write_text(evil)
    place.log.unlink()
    with pytest.raises(InputError, match=r"No module named 'helper_of_trust'; .* put the model file back"):
        call("explain", "h")
    assert "evil" not in place.executed
    assert str(place.directory / "h") not in sys.path


@pytest.mark.parametrize(
    "mode", [py_compile.PycInvalidationMode.TIMESTAMP, py_compile.PycInvalidationMode.UNCHECKED_HASH]
)
def test_compiled_code_beside_a_copy_is_not_executed(place: Place, mode: py_compile.PycInvalidationMode) -> None:
    """Python itself would take it in place of a source that is known."""
    (place.directory / "model.py").unlink()
    copy = place.directory / "r" / "fbar-model.py"
    honest, times = copy.read_bytes(), copy.stat()
    copy.write_bytes(honest.replace(b'write("x")', b'write("e")'))
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    compiled = importlib.util.cache_from_source(str(copy))
    py_compile.compile(str(copy), compiled, doraise=True, invalidation_mode=mode)
    copy.write_bytes(honest)
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    call("explain", "r")
    assert place.executed == "x"


def test_a_copy_that_is_a_link_is_refused(place: Place) -> None:
    copy = place.directory / "r" / "fbar-model.py"
    copy.unlink()
    copy.symlink_to(place.directory / "model.py")
    for more in ((), ("--trust",)):
        with pytest.raises(LedgerError, match="is a link"):
            call("explain", "r", *more)
    assert place.executed == ""


def test_a_new_copy_replaces_a_link_and_leaves_its_end_alone(place: Place) -> None:
    victim = place.directory / "victim"
    victim.write_text("precious")
    (place.directory / "new").mkdir()
    (place.directory / "new" / "fbar-model.py").symlink_to(victim)
    infer(run="new")
    assert victim.read_text() == "precious"
    assert not (place.directory / "new" / "fbar-model.py").is_symlink()
