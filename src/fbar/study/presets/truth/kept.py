"""What is kept in a directory: all rows compactly, from which trials are resumed and everything else is computed.

Every method has a file with every estimate of every run: ``default.csv.gz``, ``before.csv.gz``, and ``npe.csv.gz`` of
neural posteriors (``examples/peers``). ``truths/`` has the true values. The journals of running studies are beside
them; they are larger, and not needed once a command has ended. To run a method again, delete its file and the journals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from fbar.study.journal import Journal
from fbar.study.presets.truth.rows import Row, read_rows, write_rows
from fbar.study.presets.truth.studies import METHODS
from fbar.study.presets.truth.truths import Truths
from fbar.study.study import Study
from fbar.study.trials import Cell, TrialRecord


@dataclass(frozen=True)
class Kept:
    """The rows of a directory."""

    directory: Path

    @cached_property
    def truths(self) -> Truths:
        return Truths(self.directory / "truths")

    def path(self, method: str) -> Path:
        return self.directory / f"{method}.csv.gz"

    def rows(self, methods: Sequence[str] = METHODS) -> list[Row]:
        """The rows of all methods, or of some."""
        return [row for method in methods for row in read_rows(self.path(method), self.truths.values)]

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows beside those of other runs; a run that is there already is replaced."""
        by_method: dict[str, list[Row]] = {}
        for row in rows:
            by_method.setdefault(row.method, []).append(row)
        for method, new in by_method.items():
            runs = {row.run for row in new}
            kept = [row for row in self.rows([method]) if row.run not in runs]
            write_rows(self.path(method), sorted([*kept, *new], key=lambda row: row.run))

    def restore(self, name: str, study: Study) -> None:
        """Give a study's journal the runs that it lacks and the rows have, so that these are not run again."""
        wanted = {(cell, trial) for cell in study.cells for trial in range(study.trials)}
        methods = [contender.name for contender in study.contenders]
        found = [
            (cell, trial, rows)
            for (cell, trial), rows in runs_of(self.rows(methods)).items()
            if (cell, trial) in wanted and rows[0].seed == study.seed and _complete(rows, study)
        ]
        if not found:
            return
        with Journal(self.directory / name, study.settings()) as journal:
            for cell, own in groupby(found, key=lambda item: item[0]):
                new = [(trial, record_of(rows)) for _, trial, rows in own if (cell, trial) not in journal.trials]
                if new:
                    journal.record(cell, new)


def runs_of(rows: Iterable[Row]) -> Mapping[tuple[Cell, int], list[Row]]:
    """The rows of each run."""
    found: dict[tuple[Cell, int], list[Row]] = {}
    for row in rows:
        found.setdefault((Cell(row.observation, row.method, row.budget), row.trial), []).append(row)
    return found


def _complete(rows: Sequence[Row], study: Study) -> bool:
    return {row.target for row in rows} == {target.name for target in study.arenas[rows[0].observation].targets}


def record_of(rows: Sequence[Row]) -> TrialRecord:
    """A run as a study records it."""
    first = rows[0]
    answered = [row for row in rows if not math.isnan(row.value)]
    return TrialRecord(
        status=first.status,
        simulations=first.simulations,
        seconds=first.seconds,
        estimates={row.target: (row.value, row.standard_error, row.df, row.trusted) for row in answered},
        biases={row.target: row.bias for row in answered if row.bias},
        intervals={row.target: (row.low, row.high) for row in answered if not math.isnan(row.low)},
    )
