"""Finished runs that are damaged or made hostile, again and again: each with a sound copy beside it."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.children import Ended, call, command, forked
from attack.recipes import RECIPES, Recipe
from attack.runs import environment, parsed, restored

QUICK = {
    "targeted": "--budget 1500 --tolerance 0.5 --block-size 50",
    "smc": "--method smc --budget 1500 --tolerance 0.5 --block-size 50",
    "finite": "--method adaptive --budget 2000 --block-size 100",
    "learned-summaries": "--summaries linear --budget 1500 --tolerance 0.5 --block-size 100",
    "model-choice": "--method rejection --budget 1500 --tolerance 0.5 --block-size 50",
}
"""Recipes of runs that are read and resumed, smaller than those that are killed."""

SEED = "5"

READERS = ("show", "show --json", "explain", "export", "export --all", "report", "load")


MADE = re.compile(r"Made by fbar on [0-9: -]+ UTC")
"""The only thing in a report that changes from minute to minute."""


@dataclass
class Base:
    """A finished run, what its readers say of it, and what it gives."""

    name: str
    recipe: Recipe
    room: Path
    log_kept: bool = False
    """Whether its last simulations are in the write-ahead log only, as after a kill at the very end."""
    extended: bool = False
    readers: tuple[str, ...] = READERS
    """Those whose word on the sound run is needed."""
    said: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        return self.room / "run"

    @property
    def pristine(self) -> Path:
        return self.room / "pristine"

    @property
    def outside(self) -> Path:
        """Where readers write to."""
        return self.room / "outside"

    @property
    def target(self) -> str:
        return {"finite": "mean:k", "model-choice": "model_probability:one"}.get(self.recipe.name, "mean:mu")

    def make(self) -> Base:
        self.outside.mkdir(parents=True, exist_ok=True)
        model = self.recipe.write_model(self.room / "model.py")
        asked = QUICK[self.recipe.name].split()
        end = command("infer", str(model), *asked, "--seed", SEED, "--run", str(self.run), "--json", "-q")
        ended = self.forked(_killed_at_close(end) if self.log_kept and not self.extended else end)
        if self.extended:
            more = str(int(asked[asked.index("--budget") + 1]) + 500)
            end = command("extend", str(self.run), "--budget", more, "--json", "-q")
            ended = self.forked(_killed_at_close(end) if self.log_kept else end)
        if ended.status not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{self.name} does not work: {ended.err}")
        shutil.copytree(self.run, self.pristine)
        for reader in self.readers:
            ended = self.read(reader)
            if not ended.fine:
                raise RuntimeError(f"{reader} of {self.name} does not work: {ended.err}")
            self.said[reader] = self.given(reader, ended)
        self.restore()
        self.result = parsed(self.resume().out)
        self.restore()
        if not self.result:
            raise RuntimeError(f"resume of {self.name} does not work")
        return self

    def restore(self) -> None:
        restored(self.pristine, self.run)

    def forked(self, work: Callable[[], int | None], **more: Any) -> Ended:
        given = {"environment": environment(self.room / "state"), "where": self.outside, "cpu": 60, "memory": None}
        return forked(work, self.room / "said", **{**given, **more})

    def arguments(self, reader: str, run: Path | None = None) -> list[str]:
        """The command line of a reader that has one."""
        where = str(run or self.run)
        if reader.startswith("explain"):
            return ["explain", where, self.target]
        if reader.startswith("export"):
            return [*reader.split()[:1], where, *reader.split()[1:], "--out", str(self.outside / "out.csv"), "--force"]
        if reader.startswith("report"):
            return ["report", where, "--out", str(self.outside / "out.html"), "--predictive", "0"]
        what, *options = reader.split()
        return [what, where, *options]

    def read(self, reader: str, **more: Any) -> Ended:
        for name in ("out.csv", "out.html"):
            (self.outside / name).unlink(missing_ok=True)
        if reader == "load":
            return self.forked(call(self.load), **more)
        return self.forked(command(*self.arguments(reader)), **more)

    def load(self) -> str:
        import fbar

        return str(fbar.load(self.run, problem=problem_of(self.recipe)))

    def given(self, reader: str, ended: Ended) -> str:
        """What a reader gave: what it printed, and the file that it wrote."""
        name = "out.html" if reader.startswith("report") else "out.csv"
        path = self.outside / name
        return ended.out + (MADE.sub("", path.read_text(encoding="utf-8")) if path.exists() else "")

    def resume(self, **more: Any) -> Ended:
        return self.forked(command("resume", str(self.run), "--json", "-q"), **more)


def _killed_at_close(work: Callable[[], int]) -> Callable[[], int]:
    """The same, killed when all is recorded and the ledger is about to be closed."""

    def killed() -> int:
        from fbar.ledger import Ledger

        close = Ledger.close

        def end(self: Ledger) -> None:
            if self.legs and self.legs[-1].result is not None:
                self.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            close(self)

        Ledger.close = end  # type: ignore[method-assign]
        return work()

    return killed


def problem_of(recipe: Recipe) -> Any:
    """The problem of a recipe, as its owner has it in Python."""
    from attack.recipes import HEAD

    space: dict[str, Any] = {"__name__": "owner"}
    exec(compile(HEAD + recipe.model, "owner.py", "exec"), space)
    return space["problem"]


def bases(room: Path, readers: tuple[str, ...] = READERS) -> dict[str, Callable[[], Base]]:
    """The runs to choose from; each is made when it is first needed."""
    recipes = {recipe.name: recipe for recipe in RECIPES}

    def maker(name: str, recipe: str, **more: Any) -> Callable[[], Base]:
        made: list[Base] = []

        def make() -> Base:
            if not made:
                made.append(Base(name, recipes[recipe], room / name, readers=readers, **more).make())
            return made[0]

        return make

    return {
        "targeted": maker("targeted", "targeted"),
        "smc": maker("smc", "smc"),
        "finite": maker("finite", "finite"),
        "learned-summaries": maker("learned-summaries", "learned-summaries"),
        "model-choice": maker("model-choice", "model-choice"),
        "log-kept": maker("log-kept", "targeted", log_kept=True),
        "extended": maker("extended", "targeted", extended=True),
    }
