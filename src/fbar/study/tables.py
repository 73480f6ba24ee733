"""What a study found, as tidy rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbar.scores import expected_coverage, uniformity
from fbar.system.csv_cells import write_rows

if TYPE_CHECKING:
    from fbar.study.results import StudyResult

Row = dict[str, Any]
RANKS = "sbc"


def rows(result: StudyResult) -> list[Row]:
    """One row for each trial, score and component."""
    found: list[Row] = []
    for (cell, trial), record in result.trials.items():
        head = {"problem": cell.problem, "method": cell.method, "budget": cell.budget, "trial": trial}
        for score, parts in record.scores.items():
            for component, value in parts.items():
                found.append({**head, "status": record.status, "score": score, "component": component, "value": value})
    return found


def trial_rows(result: StudyResult) -> list[Row]:
    """One row for each trial: how it went."""
    return [
        {
            "problem": cell.problem,
            "method": cell.method,
            "budget": cell.budget,
            "trial": trial,
            "status": record.status,
            "simulations": record.simulations,
            "accepted": record.accepted,
            "seconds": record.seconds,
            "message": record.message,
        }
        for (cell, trial), record in result.trials.items()
    ]


def estimate_rows(result: StudyResult) -> list[Row]:
    """One row for each trial and target: the estimate, its own error, and the truth."""
    found: list[Row] = []
    for (cell, trial), record in result.trials.items():
        arena = result.arenas[cell.problem]
        known = {} if arena.fresh else arena.scored.truth()  # of fresh data, each trial has its own
        for target, (value, error, df, trusted) in record.estimates.items():
            true = known.get(target)
            found.append(
                {
                    "problem": cell.problem,
                    "method": cell.method,
                    "budget": cell.budget,
                    "trial": trial,
                    "status": record.status,
                    "target": target,
                    "estimate": value,
                    "standard_error": error,
                    "df": df,
                    "trusted": trusted,
                    "truth": math.nan if true is None else true.value,
                    "truth_error": math.nan if true is None else true.standard_error,
                }
            )
    return found


def calibration(result: StudyResult) -> list[Row]:
    """Ranks over fresh data, by parameter: p-values of uniformity, and how often intervals contained the truth.

    A mean rank of ½ says little. Problems with one data set are left out: their ranks are not uniform.
    """
    found: list[Row] = []
    for cell in result.cells:
        if RANKS not in result.scores or not result.arenas[cell.problem].fresh:
            continue
        for name in result.components(RANKS, cell.problem):
            ranks = [r.scores[RANKS][name] for _, r in result.records(*cell.key) if name in r.scores.get(RANKS, {})]
            if len(ranks) < 2:
                continue
            row: Row = {"problem": cell.problem, "method": cell.method, "budget": cell.budget, "parameter": name}
            held = {f"coverage_{c.level:g}": c.share for c in expected_coverage(ranks, (0.5, 0.9))}
            found.append({**row, "trials": len(ranks), "p_value": uniformity(ranks).p_value, **held})
    return found


def failures(result: StudyResult) -> list[Row]:
    """What went wrong, and how often: one row for each method and message."""
    counts: dict[tuple[str, str, str], int] = {}
    for (cell, _), record in result.trials.items():
        if record.status == "failed":
            key = cell.problem, cell.method, record.message
            counts[key] = counts.get(key, 0) + 1
    return [{"problem": p, "method": m, "trials": n, "message": text} for (p, m, text), n in counts.items()]


def undefined(result: StudyResult) -> list[Row]:
    """Scores that a method or problem does not have, with the reason."""
    found = {}
    for (cell, _), record in result.trials.items():
        for score, why in record.undefined.items():
            found[cell.problem, cell.method, score] = why
    return [{"problem": p, "method": m, "score": s, "why": why} for (p, m, s), why in found.items()]


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    write_rows(path, names, ([row.get(name, "") for name in names] for row in listed))
