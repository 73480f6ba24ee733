"""What the preset "infer" keeps: every cell of its studies, and every estimate."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fbar.errors import FbarError
from fbar.study.coverage import Covered, coverage_cells
from fbar.study.presets.infer.error_bars import verdict
from fbar.study.results import StudyResult
from fbar.study.tables import write_csv
from fbar.system.csv_cells import cell as csv_cell
from fbar.system.files import write_text, written_beside


def write(results: Mapping[str, StudyResult], out: Path) -> list[Path]:
    """``cells.csv``, a row a cell, ``cells.md``, the same to read, and ``trials.csv.gz``, a row for each estimate."""
    cells = [cell for name, result in results.items() for cell in coverage_cells(name, result)]
    paths = [out / "cells.csv", out / "cells.md", out / "trials.csv.gz"]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_csv(paths[0], [{**cell.as_row(), "verdict": verdict(cell)} for cell in cells])
        write_text(paths[1], markdown(cells))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(TRIAL_COLUMNS)
        for name, result in results.items():
            writer.writerows(map(csv_cell, row) for row in _trial_rows(name, result))
        with (
            written_beside(paths[2]) as new,
            open(new, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        ):
            packed.write(text.getvalue().encode())
    except OSError as error:
        raise FbarError(f"cannot write to {out}: {error.strerror or error}") from None
    return paths


TRIAL_COLUMNS = (
    "study", "problem", "method", "budget", "trial", "target", "status", "simulations", "estimate", "standard_error",
    "df", "trusted",
)  # fmt: skip


def _trial_rows(name: str, result: StudyResult) -> Iterable[list[Any]]:
    for (cell, trial), record in result.trials.items():
        head = [name, cell.problem, cell.method, cell.budget, trial]
        for target, (value, error, df, trusted) in record.estimates.items():
            numbers = [f"{value:.7g}", f"{error:.4g}", f"{df:.4g}"]
            yield [*head, target, record.status, record.simulations, *numbers, int(trusted)]
        if not record.estimates:
            yield [*head, "", record.status, record.simulations, "", "", "", ""]


def markdown(cells: Sequence[Covered]) -> str:
    """Every cell in a table, the bad ones too."""
    lines = [
        "| study | problem | target | method | b² | held, all | held, unflagged | 99.9% | flagged | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {cell.study} | {cell.problem} | {cell.target} | {cell.method} | {cell.b2:.3g} | {cell.coverage:.3f} | "
        f"{cell.coverage_unflagged:.3f} | {cell.low:.3f}–{cell.high:.3f} | {cell.flagged:.3f} | {verdict(cell)} |"
        for cell in cells
    ]
    return "\n".join(lines) + "\n"
