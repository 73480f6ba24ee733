"""Recorded runs changed behind fbar's back, as another program or an older version would have written them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from fbar.ledger import LedgerReader, Leg


def execute(run: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    """Change the SQLite file of a run that nobody has open."""
    connection = sqlite3.connect(run / "ledger.sqlite")
    with connection:
        connection.execute(statement, values)
    connection.close()


def write_leg(run: Path, number: int, leg: Leg) -> None:
    """Put a leg in the place of another, under a sound checksum; ``run.json`` has the old one still."""
    execute(run, "REPLACE INTO legs VALUES (?, ?, ?, ?)", leg.row(number))


def rename_model(run: str, path: Path | str) -> None:
    """Let a run's settings name another model file, under sound checksums."""
    with LedgerReader(Path(run)) as ledger:
        (leg,) = ledger.legs
    leg.settings["model"]["file"] = str(path)
    write_leg(Path(run), 0, leg)
    with LedgerReader(Path(run)) as ledger:
        assert ledger.legs[0].settings["model"]["file"] == str(path)
