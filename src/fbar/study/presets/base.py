"""What a preset is."""

from __future__ import annotations

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
class Preset:
    """Studies by name, each made for a number of trials and a seed, and the claims that their results decide.

    ``claims`` takes the results of some studies or of all. ``write`` writes what the preset keeps of them beside its
    claims, and gives the files' paths. ``shown`` gives the text to print of them; without it every study's ranking is
    printed, and its tables and figures are written. ``note`` says how sure the claims are.
    """

    name: str
    title: str
    trials: int
    studies: Mapping[str, Callable[[int, int], Study]]
    claims: Callable[[Mapping[str, StudyResult]], list[Claim]]
    write: Callable[[Mapping[str, StudyResult], Path], list[Path]] | None = None
    note: str = ""
    shown: Callable[[Mapping[str, StudyResult]], str] | None = None

    def make(
        self,
        trials: int | None,
        seed: int,
        *,
        quick: bool = False,
        studies: Sequence[str] | None = None,
        problems: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        budgets: Sequence[int] | None = None,
        out: Path | None = None,
    ) -> dict[str, Study]:
        """The studies, or some of them, on all of their problems or on some.

        A preset whose studies all have the same methods and budgets may take some of these too. ``out`` is where what a
        study needs beforehand is kept, such as true values that take long to compute.
        """
        if methods or budgets:
            raise InputError(f"the preset {self.name} has its own methods and budgets; leave out --method and --budget")
        wanted = self.trials if trials is None else positive_integer(trials, "trials")
        wanted = max(10, wanted // 10) if quick else wanted
        for name in studies or ():
            choice(name, self.studies, "study", f"in the preset {self.name}")
        made = {name: study(wanted, seed) for name, study in self.studies.items() if not studies or name in studies}
        if not problems:
            return made
        known = {name for study in made.values() for name in study.arenas}
        for name in problems:
            choice(name, sorted(known), "problem", f"in the preset {self.name}")
        return {name: study.only(problems) for name, study in made.items() if set(problems) & set(study.arenas)}


def loaded(names: Iterable[str]) -> dict[str, Problem]:
    """Problems with their first observation; the ring of figure S5 with the paper's, 0."""
    return {name: load(name).with_observed(0.0) if name == "filippi" else load(name) for name in names}
