"""CSV files that a spreadsheet can open: no name or text in them is a formula, and a full disk leaves the old file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fbar.system.files import written_beside
from fbar.system.terminal import clean

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell begins with that a spreadsheet evaluates."""


def cell(value: Any) -> Any:
    """A value as it is written: before text that would be a formula stands ', as OWASP advises; numbers stay numbers.

    Text stays on its line: after a line's end that a reader takes for the end of the row, a cell would begin anew.

    >>> cell("=1+1"), cell("@a"), cell("-1.5"), cell(-1.5), cell("rate")
    ("'=1+1", "'@a", '-1.5', -1.5, 'rate')
    """
    if not isinstance(value, str):
        return value
    mark = "'" if value.startswith(FORMULA) and not _is_number(value) else ""
    return mark + clean(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text


def write_rows(path: Path, header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table in the place of what was there, whole or not at all."""
    with written_beside(path) as new, new.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(map(cell, header))
        writer.writerows(map(cell, row) for row in rows)
