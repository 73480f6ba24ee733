"""How near the default answer is to the true posterior, and whether its error bars hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fbar.checks import choice, positive_integer
from fbar.study.presets.base import Claim, Preset
from fbar.study.presets.truth.rows import rows_of
from fbar.study.presets.truth.studies import (
    FRESH,
    QUICK_RUNS,
    RUNS,
    USUAL_BUDGETS,
    fresh,
    named,
    study,
    truths_directory,
)
from fbar.study.presets.truth.tables import as_text, by_part
from fbar.study.presets.truth.truths import Asked, Truths
from fbar.study.results import StudyResult
from fbar.study.study import Study

__all__ = ["TRUTH"]

STUDIES = ("observations", "fresh")


@dataclass(frozen=True)
class TruthPreset(Preset):
    """The preset "truth": its studies need true values, which are kept with the trials."""

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
        runs = self.trials if trials is None else positive_integer(trials, "trials")
        runs = min(runs, QUICK_RUNS) if quick else runs
        wanted = [choice(name, STUDIES, "study", f"in the preset {self.name}") for name in studies or STUDIES]
        asked: dict[str, tuple[list[Asked], int]] = {}
        if "observations" in wanted:
            asked["observations"] = named(problems), runs
        if "fresh" in wanted:
            asked["fresh"] = fresh(problems, min(FRESH, 5 * runs)), 1
        truths = Truths(truths_directory(out))
        made = {}
        for name, (observations, each) in asked.items():
            questions = [question for item in observations if (question := truths.question(item)) is not None]
            if questions:
                whole = study(questions, each, seed)
                made[name] = whole.only(methods=methods or None, budgets=budgets or USUAL_BUDGETS)
        return made


def _shown(results: Mapping[str, StudyResult]) -> str:
    rows = [row for result in results.values() for row in rows_of(result)]
    return "\n\n".join(f"{part} observations\n{as_text(table)}" for part, table in by_part(rows).items())


def _claims(results: Mapping[str, StudyResult]) -> list[Claim]:
    return []


TRUTH = TruthPreset(
    "truth",
    "the default answer compared with the true posterior: coverage, length and error, on fifteen problems",
    RUNS,
    {},
    _claims,
    shown=_shown,
)
