"""Model files that write down every time they are executed, and runs begun with them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from fbar.cli import app

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


def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place with a run of one's own, ``r``."""
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
