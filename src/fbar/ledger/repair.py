"""A broken file repaired: what can be read of it goes into a new one; the rest is simulated again."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fbar.ledger.database import PAGE, beside, connect, defend, make_tables, timed, transaction
from fbar.system.files import copy

MOST_MISSES = 1000
"""Rows that are tried in vain, one after the other, where a broken file's tree cannot be followed."""

WORKPLACE = "repair-"
"""How the directory is named in which a file is repaired, within that of its run."""

KEPT = "ledger.damaged-"
"""How the broken file is named that is kept."""


def repair(path: Path) -> int:
    """Replace a broken file by one with its readable rows, and keep it next to it; how many blocks were readable.

    Only the run's driver does that. The tables, which are at the same places in all files of a run, are located by the
    first page of the new file, not by that of the old one.
    """
    directory = path.parent
    for left in directory.glob(f"{WORKPLACE}*"):  # by a death in the middle of this
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
    place = Path(tempfile.mkdtemp(prefix=WORKPLACE, dir=directory))
    try:
        work, new = place / "work", place / "new"
        copy(path, work)
        wal = beside(path, "-wal")
        if wal.exists():
            copy(wal, beside(work, "-wal"))
        kept = _rescue(work, new)
        # The new file takes the old one's place in one step, and is never next to the old one's write-ahead log.
        broken = _keep(path, directory)
        if wal.exists():
            wal.replace(beside(broken, "-wal"))
        beside(path, "-shm").unlink(missing_ok=True)
        new.replace(path)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return kept


def _keep(path: Path, directory: Path) -> Path:
    """A copy of the broken file under a name that nothing had."""
    number = 1
    while True:
        kept = directory / f"{KEPT}{number}"
        try:
            copy(path, kept)
        except FileExistsError:
            number += 1
        else:
            return kept


def _rescue(work: Path, new: Path) -> int:
    connection = connect(new)
    try:
        with transaction(connection):
            make_tables(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _replace_first_page(work, new)
        kept = 0
        with transaction(connection):
            for table, width in (("legs", 4), ("rounds", 3), ("blocks", 6), ("failures", 6)):
                marks = ", ".join("?" * width)
                for row in _readable(work, table):
                    done = connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
                    kept += done.rowcount if table == "blocks" else 0
    finally:
        connection.close()
    return kept


def _readable(path: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a broken file that can still be read: from both ends of the tree, then what lies between.

    Their numbers go up, or down. Where they do not, pages are listed more than once, and there would be no end.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = lambda data: data.decode(errors="replace")
    low, high = -1, 2**63 - 1
    try:
        defend(connection, path.stat().st_size)
        with suppress(sqlite3.DatabaseError, UnicodeError), timed(connection, path):
            for number, *row in connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid"):
                if number <= low:
                    raise sqlite3.DatabaseError
                low = number
                yield tuple(row)
            return
        with suppress(sqlite3.DatabaseError, UnicodeError), timed(connection, path):
            rows = connection.execute(f"SELECT rowid, * FROM {table} WHERE rowid > ? ORDER BY rowid DESC", (low,))
            for number, *row in rows:
                if number >= high:
                    raise sqlite3.DatabaseError
                high = number
                yield tuple(row)
        number = low + 1
        while number < min(high, low + MOST_MISSES):
            with suppress(sqlite3.DatabaseError, UnicodeError):
                found = connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (number,)).fetchone()
                if found is not None:
                    low = number
                    yield found
            number += 1
    finally:
        connection.close()


def _replace_first_page(path: Path, sound: Path) -> None:
    """Give a broken file the first page of an empty ledger, which locates the tables: the same in all."""
    page = bytearray(sound.read_bytes()[:PAGE])
    page[28:32] = bytes(4)  # the number of pages: to be taken from the file's length
    with path.open("r+b") as file:
        file.write(page)
