"""The plan of the study: how many runs each cell is to have, which it has, and what they cost.

A cell is a problem, a part (named or fresh observations), a method and a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbar.problems.benchmark import OBSERVATIONS
from fbar.problems.catalogue import recipes
from fbar.study.presets.truth.rows import Row
from fbar.study.presets.truth.studies import BEFORE, BUDGETS, DEFAULT, FRESH, NPE, RUNS

NAMED, NEW = "1 to 10", "fresh"
NPE_TRAININGS = 1


@dataclass(frozen=True)
class Planned:
    """A cell with the runs that it is to have and has; ``seconds`` of one run, NaN where there was none."""

    problem: str
    part: str
    method: str
    budget: int
    runs: int
    done: int
    seconds: float

    @property
    def hours(self) -> float:
        """Core hours of all of its runs. A network is trained once for all observations, and counted with the named."""
        trained = NPE_TRAININGS if self.part == NAMED else 0
        return (trained if self.method == NPE else self.runs) * self.seconds / 3600


def plan(rows: Sequence[Row]) -> list[Planned]:
    """Every cell, by problem, part, method and budget."""
    done: dict[tuple[str, str, str, int], dict[tuple[str, int], float]] = {}
    for row in rows:
        part = NEW if row.part == "fresh" else NAMED
        cell = done.setdefault((row.problem, part, row.method, row.budget), {})
        cell[row.observation, row.trial] = row.seconds
    found = []
    for problem in recipes():
        for part, wanted in ((NAMED, OBSERVATIONS * RUNS), (NEW, FRESH)):
            for method in (DEFAULT, BEFORE, NPE):
                for budget in BUDGETS if method != NPE else BUDGETS[:2]:
                    runs = wanted if method != NPE else NPE_TRAININGS * (OBSERVATIONS if part == NAMED else FRESH)
                    seconds = list(done.get((problem, part, method, budget), {}).values())
                    mean = float(np.mean(seconds)) if seconds else float("nan")
                    found.append(Planned(problem, part, method, budget, runs, len(seconds), mean))
    return found


def unrun(cells: Sequence[Planned]) -> list[Planned]:
    """The cells that lack runs."""
    return [cell for cell in cells if cell.done < cell.runs]
