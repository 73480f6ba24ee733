"""What a preset is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fbar.checks import choice, positive_integer
from fbar.errors import InputError
from fbar.problems import load
from fbar.question.problem import Problem
from fbar.study.results import StudyResult
from fbar.study.study import Study

SCORES = ("mse", "acceptance-rate", "ess", "coverage")


@dataclass(frozen=True)
class Claim:
    """A claim on one problem, what was found, and whether it holds beyond doubt there."""

    text: str
    problem: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Chosen:
    """What is to be run of a preset: ``trials`` of each cell, and which studies, problems, methods and budgets.

    None stands for the preset's own number of trials, and empty for all. ``out`` is where the trials are kept, and what
    a study needs beforehand, such as true values that take long to compute.
    """

    trials: int | None = None
    seed: int = 1
    quick: bool = False
    studies: Sequence[str] = ()
    problems: Sequence[str] = ()
    methods: Sequence[str] = ()
    budgets: Sequence[int] = ()
    out: Path | None = None
    progress: bool = False


@dataclass(frozen=True)
class Judged:
    """The claims of a preset, and what is printed before them."""

    claims: list[Claim]
    text: str = ""


@dataclass(frozen=True)
class Preset(ABC):
    """Studies that are ready to run, and the claims that their results decide.

    ``note`` says how sure the claims are. With ``ranks`` every study's ranking is printed, and its tables and figures
    are written.
    """

    name: str
    title: str
    trials: int
    note: str
    ranks: bool

    @abstractmethod
    def make(self, chosen: Chosen) -> dict[str, Study]:
        """The studies, or some of them."""

    @abstractmethod
    def judged(self, results: Mapping[str, StudyResult], out: Path | None) -> Judged:
        """What the results of some studies or of all say; keeps what is kept of them in ``out``."""


@dataclass(frozen=True)
class Comparisons(Preset):
    """Studies by name, each made for a number of trials and a seed.

    ``claims`` takes the results of some studies or of all. ``write`` writes what the preset keeps of them beside its
    claims, and gives the files' paths.
    """

    studies: Mapping[str, Callable[[int, int], Study]]
    claims: Callable[[Mapping[str, StudyResult]], list[Claim]]
    write: Callable[[Mapping[str, StudyResult], Path], list[Path]] | None = None

    def make(self, chosen: Chosen) -> dict[str, Study]:
        if chosen.methods or chosen.budgets:
            raise InputError(f"the preset {self.name} has its own methods and budgets; leave out --method and --budget")
        wanted = self.trials if chosen.trials is None else positive_integer(chosen.trials, "trials")
        wanted = max(10, wanted // 10) if chosen.quick else wanted
        names = [choice(name, self.studies, "study", f"in the preset {self.name}") for name in chosen.studies]
        made = {n: study(wanted, chosen.seed) for n, study in self.studies.items() if not names or n in names}
        if not chosen.problems:
            return made
        known = {name for study in made.values() for name in study.arenas}
        problems = {choice(name, sorted(known), "problem", f"in the preset {self.name}") for name in chosen.problems}
        return {name: study.only(problems) for name, study in made.items() if problems & set(study.arenas)}

    def judged(self, results: Mapping[str, StudyResult], out: Path | None) -> Judged:
        if out is not None and self.write is not None:
            self.write(results, out)
        return Judged(self.claims(results))


def loaded(names: Iterable[str]) -> dict[str, Problem]:
    """Problems with their first observation; the ring of figure S5 with the paper's, 0."""
    return {name: load(name).with_observed(0.0) if name == "filippi" else load(name) for name in names}
