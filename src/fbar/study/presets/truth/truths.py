"""The true values of the preset's questions: computed once, kept in files that grow line by line.

Observation i of a problem is drawn by its recipe (`Recipe.draw`): 1 to 10 are the catalogue's, whose moments are stored
with it. The fresh ones are `FRESH_FROM` and on, drawn from the prior and the simulator in the same way; nothing was
ever tuned on them. A line of ``NAME.jsonl`` has the data's digest, the values with their errors and deviations, and how
long they took; where no truth could be computed, why. What is stored for other data is computed again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from fbar.errors import FbarError, InputError
from fbar.problems.benchmark import OBSERVATIONS, Benchmark
from fbar.problems.catalogue import recipe
from fbar.problems.store import rounded
from fbar.question.truth import Known, Listed
from fbar.study.presets.truth.questions import Question, further

FRESH_FROM = 101
"""The number of the first fresh observation."""


@dataclass(frozen=True)
class Asked:
    """An observation of a problem, by its number."""

    problem: str
    number: int

    @property
    def fresh(self) -> bool:
        return self.number >= FRESH_FROM

    @property
    def name(self) -> str:
        """``sir/3``, or ``sir/fresh-7``."""
        return f"{self.problem}/fresh-{self.number - FRESH_FROM + 1}" if self.fresh else f"{self.problem}/{self.number}"

    @classmethod
    def of(cls, name: str) -> Asked:
        """The observation that has this name."""
        problem, _, which = name.partition("/")
        if which.startswith("fresh-"):
            return cls(problem, FRESH_FROM - 1 + int(which.removeprefix("fresh-")))
        return cls(problem, int(which))

    def load(self) -> Benchmark:
        made = recipe(self.problem)
        if self.number <= OBSERVATIONS:
            return Benchmark.of(made, self.number)
        return Benchmark(made, np.array(rounded(made.draw(self.number)[1].tolist()), dtype=np.float64))


@dataclass(frozen=True)
class KeptTruth:
    """What is kept of one observation; ``why`` there is no truth, where there is none."""

    digest: str
    known: tuple[Known, ...] = ()
    how: str = ""
    seconds: float = 0.0
    why: str = ""

    def as_dict(self, number: int) -> dict[str, Any]:
        values = {k.name: [_short(k.value), _short(k.standard_error, 3), _short(k.deviation)] for k in self.known}
        head = {"observation": number, "digest": self.digest, "seconds": round(self.seconds, 2)}
        return {**head, "why": self.why} if self.why else {**head, "how": self.how, "targets": values}

    def rounded(self) -> KeptTruth:
        """As it is when it is read again."""
        return self.from_dict(self.as_dict(0))

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> KeptTruth:
        known = tuple(Known(name, *map(float, numbers)) for name, numbers in given.get("targets", {}).items())
        return cls(given["digest"], known, given.get("how", ""), given["seconds"], given.get("why", ""))


def _short(value: float, digits: int = 10) -> float:
    return float(f"{value:.{digits}g}")


@dataclass
class Truths:
    """True values by observation: those that came with fbar, those of ``directory``, and new ones, which go there."""

    directory: Path | None = None
    _kept: dict[str, dict[int, KeptTruth]] = field(default_factory=dict, init=False)
    _values: dict[str, dict[str, Known]] = field(default_factory=dict, init=False)

    def question(self, asked: Asked) -> Question | None:
        """What is asked at the observation, with its truth; None where no truth can be computed."""
        problem, kept = asked.load(), self.kept(asked)
        if kept.why:
            return None
        known = (*(() if asked.fresh else problem.truth().values()), *kept.known)
        usable = tuple(item for item in known if 0 < item.deviation < np.inf)
        return Question(
            asked.name, Benchmark(problem.recipe, problem.data, truth=Listed(list(usable), kept.how)), usable
        )

    def questions(self, asked: Sequence[Asked], *, progress: bool = False) -> list[Question]:
        """Those that have a truth; what is missing is computed first."""
        left = [item for item in asked if not self.known(item)]
        for done, item in enumerate(left, 1):
            seconds = self.kept(item).seconds
            if progress and (seconds > 1 or done == len(left)):
                line = f"true values of {done} of {len(left)} observations computed: {item.name}, {seconds:.0f} s"
                print(line, file=sys.stderr, flush=True)
        return [question for item in asked if (question := self.question(item)) is not None]

    def values(self, name: str) -> Mapping[str, Known]:
        """The true values at an observation by target; empty where they were not computed."""
        if name not in self._values:
            asked = Asked.of(name)
            question = self.question(asked) if self.known(asked) else None
            self._values[name] = {} if question is None else {item.name: item for item in question.known}
        return self._values[name]

    def known(self, asked: Asked) -> bool:
        """Whether there is nothing to compute."""
        found = self._read(asked.problem).get(asked.number)
        return found is not None and found.digest == digest(asked.load())

    def kept(self, asked: Asked) -> KeptTruth:
        """The truth, computed and written if it is not there."""
        problem = asked.load()
        found = self._read(asked.problem).get(asked.number)
        if found is not None and found.digest == digest(problem):
            return found
        new = compute(problem, fresh=asked.fresh).rounded()
        self._read(asked.problem)[asked.number] = new
        if self.directory is not None:
            _append(self.directory / f"{asked.problem}.jsonl", new.as_dict(asked.number))
        return new

    def _read(self, problem: str) -> dict[int, KeptTruth]:
        if problem not in self._kept:
            self._kept[problem] = {}
            for place in (files("fbar.study.presets.truth") / "data", self.directory):
                if place is not None:
                    self._kept[problem] |= dict(_lines(place / f"{problem}.jsonl"))
        return self._kept[problem]


def compute(problem: Benchmark, *, fresh: bool) -> KeptTruth:
    """The true values that are not stored with the problem: of fresh data all of them."""
    start = time.perf_counter()
    try:
        known = [*(problem.truth().values() if fresh else ()), *further(problem)]
        how = problem.reference.how if fresh else problem.truth().how
    except (InputError, ArithmeticError, np.linalg.LinAlgError) as error:
        return KeptTruth(digest(problem), seconds=time.perf_counter() - start, why=" ".join(str(error).split()))
    return KeptTruth(digest(problem), tuple(known), how, time.perf_counter() - start)


def digest(problem: Benchmark) -> str:
    """Of the data, whatever wrote them."""
    text = json.dumps(rounded(problem.data.tolist()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(path: Path | Traversable) -> Iterator[tuple[int, KeptTruth]]:
    if not path.is_file():
        return
    for line in path.read_text().splitlines():
        try:
            given = json.loads(line)
            yield given["observation"], KeptTruth.from_dict(given)
        except (ValueError, KeyError, TypeError):  # a line that was cut: computed again
            continue


def _append(path: Path, tree: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(json.dumps(tree) + "\n")
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None
