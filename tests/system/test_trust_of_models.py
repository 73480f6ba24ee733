"""Whose model files are executed: a run directory that came from somebody else is data."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

import fbar
from fbar.cli import app
from fbar.errors import InputError, LedgerError, UntrustedModel
from fbar.ledger import LedgerReader
from fbar.running import model_file
from fbar.system import trust
from forged_runs import write_leg

MODEL = """
from pathlib import Path
from scipy import stats
import fbar

with open({log!r}, "a") as file:
    file.write("{word}")
prior = fbar.Prior(rate=stats.uniform(0, 10))
problem = fbar.Problem(prior, lambda theta, rng: theta["rate"] + rng.standard_normal(theta.rows), 4.0)
targets = [fbar.mean("rate")]
"""
READERS = (
    ("explain", "r"),
    ("report", "r", "--out", "r.html", "--predictive", "0"),
    ("export", "r", "--out", "r.csv", "--force"),
    ("resume", "r", "-q"),
    ("extend", "r", "--budget", "600", "-q"),
    ("show", "r", "--at", "0.5"),
)


def call(*arguments: str) -> None:
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def infer(model: str = "model.py", run: str = "r") -> None:
    call("infer", model, "--budget", "500", "--tolerance", "1", "--method", "rejection", "--seed", "1", "--run", run)


class Place:
    """A directory with a model that writes down every time it is executed."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.log = directory, directory / "log"
        self.state = directory / "state"
        self.write("x")

    def write(self, word: str, name: str = "model.py", more: str = "") -> None:
        (self.directory / name).write_text(MODEL.format(log=str(self.log), word=word) + more)

    @property
    def executed(self) -> str:
        """What was executed since this was last asked."""
        found = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return found

    def forget(self) -> None:
        """As if the run had come from somebody else."""
        shutil.rmtree(self.state)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(
        "fbar.results.report.report_run", lambda result, path, **_: path
    )  # what it writes is tested elsewhere
    made = Place(tmp_path)
    infer()
    assert made.executed == "x"
    return made


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


def rename_model(run: str, path: Path | str) -> None:
    """Let a run's settings name another model file, under sound checksums."""
    with LedgerReader(Path(run)) as ledger:
        (leg,) = ledger.legs
    leg.settings["model"]["file"] = str(path)
    write_leg(Path(run), 0, leg)
    with LedgerReader(Path(run)) as ledger:
        assert ledger.legs[0].settings["model"]["file"] == str(path)


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


# ---------------------------------------------------------------- what is remembered, and where


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


@pytest.mark.processes
def test_the_whole_program_tells_it_in_one_line(place: Place) -> None:
    place.forget()
    done = subprocess.run([sys.executable, "-m", "fbar", "explain", "r"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fbar: r does not seem to be a run of yours")
    assert done.stderr.count("\n") == 1
    assert place.executed == ""
