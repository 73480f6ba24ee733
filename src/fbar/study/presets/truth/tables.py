"""The tables of the preset: a line for each problem and budget, and one for all problems together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fbar.study.presets.truth.measures import Columns, Measured, Ratio, b2_ratio, measured, measures_of, slope
from fbar.study.presets.truth.rows import Row
from fbar.study.presets.truth.studies import BEFORE, DEFAULT, NPE

PARTS = ("odd", "even", "fresh")
"""Odd observations were tuned on, even and fresh ones were not."""
POOLED = "all problems"


@dataclass(frozen=True)
class Line:
    """One problem, or all, at one budget: the default method measured, and the others' b²."""

    problem: str
    budget: int
    found: Measured
    before: Measured | None
    npe: Measured | None
    to_before: Ratio | None
    to_npe: Ratio | None
    slope: float


@dataclass(frozen=True, eq=False)
class Table:
    """The lines of one part of the observations."""

    part: str
    lines: tuple[Line, ...]

    def at(self, problem: str, budget: int) -> Line | None:
        return next((line for line in self.lines if (line.problem, line.budget) == (problem, budget)), None)

    def problems(self, budget: int) -> list[Line]:
        """The lines of single problems."""
        return [line for line in self.lines if line.budget == budget and line.problem != POOLED]

    @property
    def budgets(self) -> list[int]:
        return sorted({line.budget for line in self.lines})


def by_part(rows: Sequence[Row]) -> dict[str, Table]:
    """A table for the odd, the even and the fresh observations, where there are rows."""
    found = {part: [row for row in rows if row.part == part] for part in PARTS}
    return {part: table(part, own) for part, own in found.items() if any(row.method == DEFAULT for row in own)}


def table(part: str, rows: Sequence[Row]) -> Table:
    groups: dict[tuple[str, str, int], Columns] = {}
    split: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        split.setdefault((row.method, row.budget), []).append(row)
    for (method, budget), own in split.items():
        columns = Columns.of(own)
        groups[method, POOLED, budget] = columns
        for problem in np.unique(columns.problem):
            groups[method, str(problem), budget] = columns.where(columns.problem == problem)
    mine = {key: measures_of(columns) for key, columns in groups.items()}
    names = [*dict.fromkeys(row.problem for row in rows), POOLED]
    budgets = sorted({budget for method, _, budget in mine if method == DEFAULT})
    return Table(part, tuple(_lines(names, budgets, groups, mine)))


def _lines(
    names: Sequence[str],
    budgets: Sequence[int],
    groups: Mapping[tuple[str, str, int], Columns],
    mine: Mapping[tuple[str, str, int], Measured],
) -> list[Line]:
    lines = []
    for budget in budgets:
        for name in names:
            here = (DEFAULT, name, budget)
            if here not in mine:
                continue
            others: dict[str, tuple[Measured, Ratio]] = {}
            for other in (BEFORE, NPE):
                theirs = groups.get((other, name, budget))
                # All problems of one method are not compared with some of another's.
                if theirs is not None and set(groups[here].problem) <= set(theirs.problem):
                    others[other] = mine[other, name, budget], b2_ratio(groups[here], theirs)
            before, npe = others.get(BEFORE), others.get(NPE)
            curve = [(n, mine[DEFAULT, name, n].b2) for n in budgets if (DEFAULT, name, n) in mine]
            lines.append(
                Line(
                    name,
                    budget,
                    mine[here],
                    None if before is None else before[0],
                    None if npe is None else npe[0],
                    None if before is None else before[1],
                    None if npe is None else npe[1],
                    slope(curve),
                )
            )
    return lines


COLUMNS = (
    "problem",
    "N",
    "runs",
    "coverage",
    "flagged",
    "flagged cover",
    "length",
    "bias share",
    "b²",
    "before's coverage",
    "before's b²",
    "ratio",
    "NPE's b²",
    "slope",
    "seconds",
)


def cells(line: Line) -> list[str]:
    """A line in words, by `COLUMNS`."""
    found = line.found
    return [
        line.problem,
        f"{line.budget:,}",
        f"{found.runs:,}",
        *_measured_cells(found),
        "–" if line.before is None else _number(line.before.coverage, ".2f"),
        "–" if line.before is None else _number(line.before.b2, ".3g"),
        "–" if line.to_before is None else str(line.to_before),
        "–" if line.npe is None else _number(line.npe.b2, ".3g"),
        _number(line.slope, ".2f"),
        _number(found.seconds, ".2g"),
    ]


def _measured_cells(found: Measured) -> list[str]:
    return [
        _with_error(found.coverage, found.coverage_error),
        _number(found.flagged, ".3f"),
        _number(found.coverage_flagged, ".2f"),
        _number(found.length, ".2f"),
        _number(found.bias, ".2f"),
        _number(found.b2, ".3g"),
    ]


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def _with_error(value: float, error: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if math.isnan(error) else f"{value:.3f} ± {error:.3f}"


KIND_COLUMNS = ("kind of target", "N", "estimates", *COLUMNS[3:9])


def by_kind(rows: Sequence[Row]) -> list[list[str]]:
    """The default method by kind of target, over all problems: rows of words, by `KIND_COLUMNS`."""
    split: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if row.method == DEFAULT:
            split.setdefault((row.budget, row.target.partition(":")[0]), []).append(row)
    found = []
    for (budget, kind), own in sorted(split.items()):
        item = measured(own)
        found.append([kind, f"{budget:,}", f"{item.estimates:,}", *_measured_cells(item)])
    return found


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their names, for a terminal."""
    lines = [columns, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    shown = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in shown)
