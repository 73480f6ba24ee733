"""What the page about the preset "truth" says of its rows, which are kept in ``benchmarks/truth``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fbar.problems.catalogue import recipes
from fbar.study.presets.truth.kept import Kept
from fbar.study.presets.truth.limits import claims
from fbar.study.presets.truth.plan import NEW, Planned, plan, unrun
from fbar.study.presets.truth.studies import BUDGETS, NPE, fresh, named
from fbar.study.presets.truth.tables import COLUMNS, KIND_COLUMNS, by_kind, by_part, cells
from fbar.study.presets.truth.tables import Table as Measures

ROWS = Path(__file__).parents[2] / "benchmarks" / "truth"
TITLES = {
    "odd": "Observations 1, 3, 5, 7 and 9, which choices were tuned on",
    "even": "Observations 2, 4, 6, 8 and 10",
    "fresh": "Fresh observations",
}

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def found(table: Table, directory: Path = ROWS) -> str:
    """Claims, tables, costs, and what was not run."""
    kept = Kept(directory)
    rows = kept.rows()
    tables = by_part(rows)
    parts = ["### Claims", _claims(table, tables)]
    for part, lines in tables.items():
        parts += [
            f"### {TITLES[part]}",
            table(COLUMNS, [cells(line) for line in lines.lines]),
            table(KIND_COLUMNS, by_kind([row for row in rows if row.part == part])),
        ]
    planned = plan(rows)
    parts += ["### Core hours", _hours(table, planned), "### Not run", _unrun(table, planned)]
    parts += ["### The truths", _truths(table, kept)]
    return "\n\n".join(parts)


def _claims(table: Table, tables: Mapping[str, Measures]) -> str:
    listed = [[c.text, c.problem, c.found, "yes" if c.holds else "no"] for c in claims(tables)]
    return table(["claim", "problem", "found", "holds"], listed) if listed else "There are no rows yet."


def _hours(table: Table, planned: Sequence[Planned]) -> str:
    """By method and budget: what all of its runs take, from the mean time of those that were run."""
    lines = []
    for method in dict.fromkeys(cell.method for cell in planned):
        for budget in BUDGETS:
            own = [cell for cell in planned if (cell.method, cell.budget) == (method, budget)]
            known = [cell for cell in own if cell.done]
            if not own:
                continue
            hours = f"{sum(cell.hours for cell in known):.2g}" if known else "–"
            runs = sum(cell.runs for cell in own if method != NPE or cell.part != NEW)
            done = sum(min(cell.done, cell.runs) for cell in own if method != NPE or cell.part != NEW)
            cells_known = f"{len(known)} of {len(own)}"
            lines.append([method, f"{budget:,}", f"{runs:,}", f"{done:,}", hours, cells_known])
    return table(["method", "N", "runs planned", "run", "core hours of the plan", "cells that these are from"], lines)


def _unrun(table: Table, planned: Sequence[Planned]) -> str:
    """Cells that lack runs, those of one method, part and budget together."""
    groups: dict[tuple[str, str, int], list[Planned]] = {}
    for cell in unrun(planned):
        groups.setdefault((cell.method, cell.part, cell.budget), []).append(cell)
    lines = []
    for (method, part, budget), own in groups.items():
        some = [f"{cell.problem} ({cell.done} of {cell.runs})" for cell in own if cell.done]
        none = [cell.problem for cell in own if not cell.done]
        shown = "all problems" if len(none) == len(recipes()) else ", ".join(none)
        lines.append([method, part, f"{budget:,}", shown or "–", ", ".join(some) or "–"])
    if not lines:
        return "Every cell of the plan was run."
    return table(["method", "observations", "N", "not run", "run in part"], lines)


def _truths(table: Table, kept: Kept) -> str:
    """How good the truths are: their largest error in posterior deviations, and where there are none."""
    lines = []
    for problem in recipes():
        items = [item for item in (*named([problem]), *fresh([problem])) if kept.truths.known(item)]
        all_ = [kept.truths.kept(item) for item in items]
        good = [truth for truth in all_ if not truth.why]
        known = [value for item in items for value in kept.truths.values(item.name).values()]
        worst = max((value.standard_error / value.deviation for value in known), default=float("nan"))
        new = sum(item.fresh for item in items)
        seconds = float(np.mean([truth.seconds for truth in all_])) if all_ else float("nan")
        lines.append(
            [problem, str(len(items) - new), str(new), str(len(all_) - len(good)), f"{worst:.2g}", f"{seconds:.1f}"]
        )
    columns = [
        "problem",
        "named",
        "fresh",
        "without a truth",
        "largest error of a truth, in deviations",
        "seconds each",
    ]
    return table(columns, lines)
