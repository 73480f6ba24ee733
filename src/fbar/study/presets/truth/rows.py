"""Rows: one for each estimate, as they are kept in the repository and as everything else is computed from them."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fbar.errors import FbarError
from fbar.question.truth import Known
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
    seed: int = 1
    """Of the study."""
    bias: float = 0.0
    """The part of the standard error that is for bias."""

    @property
    def run(self) -> tuple[str, str, int, int]:
        """What the rows of one run have in common."""
        return self.observation, self.method, self.budget, self.trial

    @property
    def problem(self) -> str:
        return self.observation.partition("/")[0]

    @property
    def part(self) -> str:
        """``odd``, ``even`` or ``fresh``: what was tuned on, what was not, and what was drawn for it."""
        return _part(self.observation)

    @property
    def target_kind(self) -> str:
        """The target, without the threshold of a probability, which differs between observations."""
        return self.target.partition(" ")[0]


@lru_cache(maxsize=4096)
def _part(observation: str) -> str:
    which = observation.partition("/")[2]
    return "fresh" if which.startswith("fresh") else "odd" if int(which) % 2 else "even"


def rows_of(result: StudyResult) -> Iterator[Row]:
    """The estimates of a study; of a run that failed, a row for each target without a value."""
    seed = int(result.settings["seed"])
    for (cell, trial), record in result.trials.items():
        arena = result.arenas[cell.problem]
        known = arena.scored.truth()
        for target in arena.targets:
            item = known[target.name]
            yield _row(cell, trial, record, item, seed)


def _row(cell: Cell, trial: int, record: TrialRecord, known: Known, seed: int) -> Row:
    target = known.name
    value, error, df, trusted = record.estimates.get(target, (math.nan, math.nan, math.nan, False))
    low, high = record.intervals.get(target, (math.nan, math.nan))
    return Row(
        observation=cell.problem,
        method=cell.method,
        budget=cell.budget,
        trial=trial,
        target=target,
        status=record.status,
        simulations=record.simulations,
        seconds=record.seconds,
        value=value,
        standard_error=error,
        df=df,
        low=low,
        high=high,
        trusted=trusted,
        truth=known.value,
        truth_error=known.standard_error,
        deviation=known.deviation,
        seed=seed,
        bias=record.biases.get(target, 0.0),
    )


WRITTEN = (
    "observation", "method", "budget", "trial", "target", "status", "simulations", "seconds", "value",
    "standard_error", "df", "low", "high", "trusted", "seed", "bias",
)  # fmt: skip
"""What is written of a row. The truth is written once for all, see `fbar.study.presets.truth.truths`."""


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """A compressed table, whose bytes depend on the rows only."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(WRITTEN)
    for row in rows:
        numbers = [
            f"{row.value:.7g}",
            f"{row.standard_error:.4g}",
            f"{row.df:.4g}",
            f"{row.low:.6g}",
            f"{row.high:.6g}",
        ]
        run = [row.status, row.simulations, f"{row.seconds:.3g}"]
        head = [row.observation, row.method, row.budget, row.trial, row.target]
        writer.writerow(
            [csv_cell(item) for item in [*head, *run, *numbers, int(row.trusted), row.seed, f"{row.bias:.3g}"]]
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(path) as new, open(new, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            packed.write(text.getvalue().encode())
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None


Truth = Callable[[str], Mapping[str, Known]]
"""The true values at an observation, by target; empty where they are not known."""


def read_rows(path: Path, truth: Truth) -> list[Row]:
    """The rows of a table, with their truths; those without a truth are left out. Empty where there is no table."""
    if not path.exists():
        return []
    found = []
    try:
        with gzip.open(path, "rt", newline="") as file:
            lines = csv.reader(file)
            columns = next(lines)
            for line in lines:
                named = dict(zip(columns, line, strict=True))
                item = truth(named["observation"]).get(named["target"])
                if item is not None:
                    found.append(_read(named, item))
    except (OSError, EOFError, KeyError, ValueError, StopIteration) as error:
        raise FbarError(f"cannot read {path}: {error}") from None
    return found


def _read(line: Mapping[str, str], known: Known) -> Row:
    return Row(
        observation=line["observation"],
        method=line["method"],
        budget=int(line["budget"]),
        trial=int(line["trial"]),
        target=line["target"],
        status=line["status"],
        simulations=int(line["simulations"]),
        seconds=float(line["seconds"]),
        value=float(line["value"]),
        standard_error=float(line["standard_error"]),
        df=float(line["df"]),
        low=float(line["low"]),
        high=float(line["high"]),
        trusted=line["trusted"] == "1",
        truth=known.value,
        truth_error=known.standard_error,
        deviation=known.deviation,
        seed=int(line["seed"]),
        bias=float(line.get("bias", 0.0)),  # rows of methods without one may leave it out
    )
