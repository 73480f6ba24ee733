"""Rows: one for each estimate, as they are kept in the repository and as everything else is computed from them."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from fbar.errors import FbarError
from fbar.study.results import StudyResult
from fbar.study.trials import Cell, TrialRecord
from fbar.system.csv_cells import cell as csv_cell
from fbar.system.files import written_beside


@dataclass(frozen=True)
class Row:
    """One estimate. ``observation`` is ``sir/3`` or ``sir/fresh-7``; ``low`` and ``high`` end the 95% interval.

    ``truth`` has the error ``truth_error``; ``deviation`` is the error of one posterior draw.
    """

    observation: str
    method: str
    budget: int
    trial: int
    target: str
    status: str
    simulations: int
    seconds: float
    value: float
    standard_error: float
    df: float
    low: float
    high: float
    trusted: bool
    truth: float
    truth_error: float
    deviation: float

    @property
    def problem(self) -> str:
        return self.observation.partition("/")[0]

    @property
    def part(self) -> str:
        """``odd``, ``even`` or ``fresh``: what was tuned on, what was not, and what was drawn for it."""
        which = self.observation.partition("/")[2]
        return "fresh" if which.startswith("fresh") else "odd" if int(which) % 2 else "even"

    @property
    def target_kind(self) -> str:
        """The target, without the threshold of a probability, which differs between observations."""
        kind, _, what = self.target.partition(":")
        return f"{kind}:{what.split(' ')[0]}"


def rows_of(result: StudyResult) -> Iterator[Row]:
    """The estimates of a study; of a run that failed, a row for each target without a value."""
    for (cell, trial), record in result.trials.items():
        arena = result.arenas[cell.problem]
        known = arena.scored.truth()
        for target in arena.targets:
            item = known[target.name]
            yield _row(cell, trial, record, target.name, (item.value, item.standard_error, item.deviation))


def _row(cell: Cell, trial: int, record: TrialRecord, target: str, truth: tuple[float, float, float]) -> Row:
    value, error, df, trusted = record.estimates.get(target, (math.nan, math.nan, math.nan, False))
    low, high = record.intervals.get(target, (math.nan, math.nan))
    return Row(
        cell.problem,
        cell.method,
        cell.budget,
        trial,
        target,
        record.status,
        record.simulations,
        record.seconds,
        value,
        error,
        df,
        low,
        high,
        trusted,
        *truth,
    )
