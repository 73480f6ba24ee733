"""The studies of the preset "truth": which problems, observations, methods and budgets.

``observations`` has the catalogue's observations 1 to 10 of every problem with data; choices are tuned on the odd ones
only. ``fresh`` has observations that nothing was tuned on, with one run each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import choice
from fbar.errors import InputError
from fbar.methods import Method, Targeted
from fbar.problems.benchmark import OBSERVATIONS, Benchmark
from fbar.problems.catalogue import recipes
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.seeds import Purpose, Seeds
from fbar.study.contenders import Contender
from fbar.study.posed import Posed
from fbar.study.presets.truth.questions import Question
from fbar.study.presets.truth.truths import FRESH_FROM, Asked
from fbar.study.study import Study

DEFAULT, BEFORE, NPE = METHODS = ("default", "before", "npe")
BUDGETS = (1_000, 10_000, 100_000)
USUAL_BUDGETS = BUDGETS[:2]
"""What is run unless ``--budget`` asks for more: 10⁵ costs ten times as much as the rest."""
RUNS = 20
FRESH = 100
"""Fresh observations of a problem, one run each; five for each run of the named observations where these are fewer."""
QUICK_RUNS = 2

METHOD_BEFORE: Method = Targeted(tolerance="chosen")
"""What `fbar.infer` did by default before it estimated at the data."""


@dataclass(frozen=True)
class Inferred:
    """`fbar.infer` as a user calls it: with its default method, or with a given one.

    ``raw`` poses the data as they are, without a summary function that may lose something and the problem's distance:
    then the truth, which is about the data, is what the answer is about.
    """

    method: Method | None = None
    raw: bool = False

    def __call__(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Any:
        from fbar.running.api import infer  # studies are imported without everything that runs need

        seed = int(seeds.generator(Purpose.DESIGN, 0, 0).integers(2**63))
        problem = Problem(**{**posed.arguments, "summary": None, "distance": None}) if self.raw else posed
        found = infer(problem, list(targets), method=self.method, budget=posed.budget, seed=seed, progress=False)
        return [estimate for estimate in found.estimates if np.isfinite(estimate.value).all()]  # others have no answer


def contenders() -> list[Contender]:
    return [
        Contender(DEFAULT, question=Inferred(raw=True), title="fbar.infer with its default method"),
        Contender(BEFORE, question=Inferred(METHOD_BEFORE), title="the default method before, at a tolerance"),
    ]


def as_asked(problem: Benchmark) -> Problem:
    """The problem as it is posed: with its summaries in place of the data where they say as much of the parameters.

    So that both methods are given all that the data say, in the numbers that a modeller would take.
    """
    recipe = problem.recipe
    if not recipe.sufficient or recipe.summary is None:
        return problem
    summary, simulate = recipe.summary, recipe.simulate
    arguments = {**problem.arguments, "observed": problem.observed, "summary": None}
    arguments["simulate"] = lambda theta, rng: summary(np.asarray(simulate(theta, rng)))
    return Problem(**arguments)


def study(questions: Sequence[Question], trials: int, seed: int) -> Study:
    return Study(
        {question.name: as_asked(question.problem) for question in questions},
        contenders(),
        BUDGETS,
        trials,
        ("mse",),
        seed,
        targets={question.name: [item.name for item in question.known] for question in questions},
        tolerance={question.name: 1.0 for question in questions},  # these methods choose for themselves
    )


_CHOSEN = re.compile(r"(?P<problem>[^/]+)(/(?P<which>odd|even|fresh|fresh-[1-9][0-9]*|[1-9][0-9]*))?")


def named(problems: Sequence[str] | None) -> list[Asked]:
    """Observations 1 to 10 of the problems that are chosen: ``sir``, ``sir/odd``, ``sir/even`` or ``sir/3``."""
    return [item for item in _every(problems, FRESH) if not item.fresh]


def fresh(problems: Sequence[str] | None, number: int = FRESH) -> list[Asked]:
    """The fresh observations of the problems that are chosen: ``sir``, ``sir/fresh`` or ``sir/fresh-7``."""
    return [item for item in _every(problems, number) if item.fresh]


def _every(problems: Sequence[str] | None, number: int) -> list[Asked]:
    known = recipes()
    found: dict[Asked, None] = {}
    for given in problems or known:
        parts = _CHOSEN.fullmatch(given)
        if parts is None:
            raise InputError(f"write sir, sir/3, sir/odd, sir/even, sir/fresh or sir/fresh-7; got {given!r}")
        name = choice(parts["problem"], known, "problem", "in the preset truth")
        found |= dict.fromkeys(Asked(name, i) for i in _numbers(parts["which"], number))
    return list(found)


def _numbers(which: str | None, number: int) -> Sequence[int]:
    observations, later = range(1, OBSERVATIONS + 1), range(FRESH_FROM, FRESH_FROM + number)
    if which is None:
        return [*observations, *later]
    if which in ("odd", "even"):
        return observations[0 if which == "odd" else 1 :: 2]
    if which == "fresh":
        return later
    if which.startswith("fresh-"):
        return [FRESH_FROM + int(which.removeprefix("fresh-")) - 1]
    if int(which) not in observations:
        raise InputError(f"a problem has the observations 1 to {OBSERVATIONS}; got {which}")
    return [int(which)]
