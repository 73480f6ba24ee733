"""How near the default answer is to the true posterior, and whether its error bars hold it.

The command line imports `TRUTH`; the page about the study is written from `Kept`, by ``docs/_ext/truth_study.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fbar.checks import choice, positive_integer
from fbar.study.presets.base import Chosen, Judged, Preset
from fbar.study.presets.truth.kept import Kept
from fbar.study.presets.truth.limits import claims
from fbar.study.presets.truth.rows import Row, rows_of
from fbar.study.presets.truth.studies import (
    DEFAULT,
    FRESH,
    METHODS,
    QUICK_RUNS,
    RUNS,
    USUAL_BUDGETS,
    fresh,
    named,
    study,
)
from fbar.study.presets.truth.tables import COLUMNS, KIND_COLUMNS, aligned, by_kind, by_part, cells
from fbar.study.presets.truth.truths import Asked, Truths
from fbar.study.results import StudyResult
from fbar.study.study import Study

__all__ = ["TRUTH", "TruthPreset"]

STUDIES = ("observations", "fresh")


@dataclass(frozen=True)
class TruthPreset(Preset):
    """The preset "truth": its studies need true values, and its rows are kept compactly."""

    def make(self, chosen: Chosen) -> dict[str, Study]:
        runs = self.trials if chosen.trials is None else positive_integer(chosen.trials, "trials")
        runs = min(runs, QUICK_RUNS) if chosen.quick else runs
        wanted = [choice(name, STUDIES, "study", f"in the preset {self.name}") for name in chosen.studies or STUDIES]
        asked: dict[str, tuple[list[Asked], int]] = {}
        if "observations" in wanted:
            asked["observations"] = named(chosen.problems), runs
        if "fresh" in wanted:
            asked["fresh"] = fresh(chosen.problems, QUICK_RUNS if chosen.quick else min(FRESH, 5 * runs)), 1
        kept = None if chosen.out is None else Kept(chosen.out)
        truths = Truths() if kept is None else kept.truths
        made = {}
        for name, (observations, each) in asked.items():
            questions = truths.questions(observations, progress=chosen.progress)
            if questions:
                whole = study(questions, each, chosen.seed)
                made[name] = whole.only(methods=chosen.methods or None, budgets=chosen.budgets or USUAL_BUDGETS)
                if kept is not None:
                    kept.restore(name, made[name])
        return made

    def judged(self, results: Mapping[str, StudyResult], out: Path | None) -> Judged:
        """Tables by part, from these runs and what ``out`` keeps of the other methods on the same observations."""
        rows = [row for result in results.values() for row in rows_of(result)]
        if out is not None:
            kept = Kept(out)
            kept.add(rows)
            mine = {row.run for row in rows}
            places = {(row.observation, row.budget) for row in rows}
            others = kept.rows([method for method in METHODS if method != DEFAULT])
            rows += [r for r in others if r.run not in mine and (r.observation, r.budget) in places]
        return judged(rows)


def judged(rows: Sequence[Row]) -> Judged:
    """The tables as text, and the claims, of any rows."""
    tables, text = by_part(rows), []
    if not tables:
        return Judged([], f"tables and claims are about the method {DEFAULT}, which has no runs here")
    for part, table in tables.items():
        text.append(f"{part} observations\n{aligned(COLUMNS, [cells(line) for line in table.lines])}")
        text.append(aligned(KIND_COLUMNS, by_kind([row for row in rows if row.part == part])))
    return Judged(claims(tables), "\n\n".join(text))


TRUTH = TruthPreset(
    name="truth",
    title="the default answer compared with the true posterior: coverage, length and error, on fifteen problems",
    trials=RUNS,
    note="odd observations may have been tuned on, even and fresh ones were not; ± is a standard error",
    ranks=False,
)
