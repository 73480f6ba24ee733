"""What was tried and what failed, as a table: on a terminal, as CSV and on a page of the documentation."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

PAGE = "attack"
"""The name of the marks between which the page holds the table."""

MOST_SHOWN = 3
"""Failures of a row that are told in the table; the list below it has all."""

MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Tried:
    """What came of one attack, or of some of one kind: how often it was tried and what failed."""

    test: str
    tried: int
    failures: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class Failed:
    """A failure and the command that has it again."""

    test: str
    what: str
    again: str

    def __str__(self) -> str:
        return f"{self.test}: {self.what}\n    again: {self.again}"


@dataclass
class Row:
    """All that was tried of one test."""

    test: str
    tried: int = 0
    failed: int = 0
    what: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def told(self) -> str:
        """What failed, in words."""
        shown = list(dict.fromkeys(self.what))
        more = len(shown) - MOST_SHOWN
        text = "; ".join(shown[:MOST_SHOWN]) + (f"; {more} more" if more > 0 else "")
        return text or (f"skipped: {self.skipped}" if self.skipped else "")


@dataclass
class Table:
    """The rows in the order in which they came, and every failure with its command."""

    rows: dict[str, Row] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)

    def add(self, found: Iterable[Tried], again: str) -> None:
        for tried in found:
            row = self.rows.setdefault(tried.test, Row(tried.test))
            row.tried += tried.tried
            row.failed += bool(tried.failures) if tried.tried <= 1 else min(tried.tried, len(tried.failures))
            row.skipped = tried.skipped or row.skipped
            for text in tried.failures:
                row.what.append(_one_line(text, 120))
                self.failures.append(Failed(tried.test, _one_line(text, MOST_CHARACTERS), again))

    @property
    def tried(self) -> int:
        return sum(row.tried for row in self.rows.values())

    @property
    def failed(self) -> int:
        return sum(row.failed for row in self.rows.values())

    def cells(self) -> list[tuple[str, str, str, str]]:
        rows = [(row.test, f"{row.tried:,}", f"{row.failed:,}", row.told) for _, row in sorted(self.rows.items())]
        return [*rows, ("all", f"{self.tried:,}", f"{self.failed:,}", "")]

    def plain(self) -> str:
        """For a terminal: columns, then every failure with the command that has it again."""
        rows = [("test", "tried", "failed", "what failed"), *self.cells()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"{test:<{widths[0]}}  {tried:>{widths[1]}}  {failed:>{widths[2]}}  {told}".rstrip()
            for test, tried, failed, told in rows
        ]
        if self.failures:
            lines += ["", *(str(failure) for failure in self.failures)]
        return "\n".join(lines)

    def markdown(self, about: str = "") -> str:
        lines = ["| test | tried | failed | what failed |", "|---|---:|---:|---|"]
        lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in self.cells()]
        return "\n".join([*lines, "", about] if about else lines)

    def write_csv(self, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["test", "tried", "failed", "what"])
            writer.writerows((row.test, row.tried, row.failed, row.told) for _, row in sorted(self.rows.items()))

    def add_csv(self, path: Path) -> None:
        """Add what another part of the campaign has tried, as `write_csv` wrote it."""
        with path.open(encoding="utf-8", newline="") as file:
            for given in csv.DictReader(file):
                row = self.rows.setdefault(given["test"], Row(given["test"]))
                row.tried, row.failed = row.tried + int(given["tried"]), row.failed + int(given["failed"])
                row.what += [given["what"]] if int(given["failed"]) else []
                row.skipped = row.skipped or given["what"].removeprefix("skipped: ") * (not int(given["failed"]))

    def write_page(self, page: Path, about: str = "") -> None:
        """Put the table between the marks of a page."""
        sys.path.insert(0, str(Path(__file__).parent.parent / "docs" / "_ext"))
        from page_tables import write_between

        write_between(page, PAGE, self.markdown(about))


def _one_line(text: str, most: int) -> str:
    line = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in " ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
