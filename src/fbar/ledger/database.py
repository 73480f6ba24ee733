"""The SQLite file: opened for its one driver, or only to be read; in both cases as a file that may be anybody's.

A block is committed the moment it arrives. SQLite then leaves forcing it to the disk to us (synchronous=NORMAL): the
write-ahead log outlives the process at once, and the machine after the next `force`. What a crash of the machine cuts
off is the end of the log, never its middle.

Reading never writes into the directory. SQLite itself would, since every reader of a write-ahead log takes part in it:
a file that has no log is opened as one that cannot change; one with a log that a dead driver left is read from a copy
elsewhere; only while a driver is at work SQLite's shared memory is used, in one transaction, which sees one moment.

Advice of https://sqlite.org/security.html, "Untrusted SQLite Database Files": no functions of the schema are trusted,
values have limits, statements have a time limit, and a file that holds other tables than a run's, views or triggers is
not used.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from fbar.errors import LedgerError
from fbar.ledger.codec import checksum
from fbar.ledger.legs import FORMAT
from fbar.ledger.log import lost_commits
from fbar.system.files import NO_LINKS, copy, require_own_file
from fbar.system.locks import held

PAGE = 4096
WAIT = 30.0
"""Seconds to wait for another process that holds the file."""

LONGEST_VALUE = 1_000_000_000
STATEMENT_SECONDS = 60.0
BYTES_A_SECOND = 1_000_000
"""Time limit of a look through a table: some seconds, and one more for each of these bytes of the file."""

STEPS = 100_000
"""Of SQLite's machine, between looks at the clock."""

TABLES = """
CREATE TABLE IF NOT EXISTS formats (format INTEGER PRIMARY KEY, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS legs (leg INTEGER PRIMARY KEY, settings TEXT NOT NULL, result TEXT, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, payload BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS blocks (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, block INTEGER NOT NULL, seconds REAL NOT NULL,
    payload BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS failures (
    round INTEGER NOT NULL, block INTEGER NOT NULL, kind INTEGER NOT NULL, count INTEGER NOT NULL,
    message TEXT NOT NULL, detail TEXT NOT NULL
);
"""


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def require_own_files(path: Path) -> None:
    """Refuse links and devices in place of the file and of what SQLite puts next to it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        require_own_file(beside(path, suffix))


def set_journal_aside(path: Path) -> None:
    """Keep SQLite from a rollback journal, which names files that it would then change or delete.

    A run has a write-ahead log. Only a death in the first moment, when nothing is recorded, leaves such a journal.
    """
    with suppress(FileNotFoundError):
        beside(path, "-journal").replace(path.with_name("ledger.damaged-journal"))


# ---------------------------------------------------------------- for the driver


def connect(path: Path) -> sqlite3.Connection:
    """Open to write, or make."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=WAIT, check_same_thread=False)
    try:
        defend(connection)
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.strip().split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT OR REPLACE INTO formats VALUES (?, ?)", (FORMAT, checksum(FORMAT)))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or nothing at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


def force(path: Path) -> None:
    """Force what is committed to the disk. Closing this file drops none of SQLite's locks, which are on others."""
    with suppress(FileNotFoundError):  # the log was taken up into the file, which forces both
        file = os.open(beside(path, "-wal"), os.O_RDONLY | NO_LINKS)
        try:
            os.fsync(file)
        finally:
            os.close(file)


# ---------------------------------------------------------------- whosever it is


def defend(connection: sqlite3.Connection, size: int = LONGEST_VALUE) -> None:
    """Trust nothing in the file; ``size`` bounds what one of its values can hold."""
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA mmap_size=0")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(PAGE, min(size, LONGEST_VALUE)))
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)


@contextmanager
def timed(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """With a time limit for statements that go through a whole table; honest files need much less."""
    size = sum(about.st_size for about in _stats(path))
    until = time.monotonic() + STATEMENT_SECONDS + size / BYTES_A_SECOND
    connection.set_progress_handler(lambda: int(time.monotonic() > until), STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, STEPS)


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Of the file and its log, as far as they are there."""
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            yield beside(path, suffix).stat(follow_symlinks=False)


@lru_cache(maxsize=1)
def _own_tables() -> dict[str, str]:
    connection = sqlite3.connect(":memory:")
    make_tables(connection)
    return dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())


def require_own_tables(connection: sqlite3.Connection) -> None:
    """Refuse a file with views, triggers or tables that no version of fbar has made; before anything in it is used."""
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if kind != "table" or _own_tables().get(name) != sql:
            raise sqlite3.DatabaseError("it holds something other than a run's tables")


# ---------------------------------------------------------------- for readers


class Snapshot:
    """A run's file as it is at this moment, to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._seen = self._now()
        self._fixed = False
        self.lost = False
        """Whether the log that a dead driver left holds commits that cannot be read any more."""
        self.connection = self._open()
        try:
            defend(self.connection, sum(size for size, _ in self._seen))
            self.connection.execute("BEGIN")  # one moment for all that is read
            self.empty = self.connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
            if self.empty:  # its driver is just starting
                self.connection.close()
                self.connection = sqlite3.connect(":memory:")
                make_tables(self.connection)
            require_own_tables(self.connection)
        except BaseException:
            self.close()
            raise

    def _now(self) -> list[tuple[int, int]]:
        """The sizes and times of the file and its log."""
        return [(about.st_size, about.st_mtime_ns) for about in _stats(self.path)]

    def _open(self) -> sqlite3.Connection:
        if held(self.path.with_name("driver.lock")) and beside(self.path, "-shm").exists():
            with suppress(sqlite3.OperationalError):  # such as another user's shared memory, which is theirs
                return _checked(self.path, "mode=ro")
        if len(self._seen) < 2 or self._seen[1][0] == 0:
            self._fixed = True
            return _checked(self.path, "mode=ro&immutable=1")
        return self._open_copy()

    def _open_copy(self) -> sqlite3.Connection:
        """The file and its log elsewhere, again if they change meanwhile."""
        for _ in range(3):
            self._copy = tempfile.TemporaryDirectory(prefix="fbar-")
            copied = Path(self._copy.name) / self.path.name
            for suffix in ("", "-wal"):
                self._copy_file(beside(self.path, suffix), beside(copied, suffix))
            before, self._seen = self._seen, self._now()
            if before == self._seen:
                connection = _checked(copied, "mode=rw")
                self.lost = lost_commits(connection, beside(copied, "-wal"))
                return connection
            self._copy.cleanup()
        raise sqlite3.OperationalError("it changes while it is read; rerun the command")

    @staticmethod
    def _copy_file(source: Path, target: Path) -> None:
        try:
            copy(source, target)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise LedgerError(
                f"{source} was left by a driver that died and is read from a copy, but there is no space for it in "
                f"{target.parent.parent}; free some, or set TMPDIR to another directory"
            ) from None

    def changed(self) -> bool:
        """Whether somebody wrote to a file that was opened as one that cannot change."""
        return self._fixed and self._now() != self._seen

    def close(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self.connection.close()
        if self._copy is not None:
            self._copy.cleanup()


def _checked(path: Path, how: str) -> sqlite3.Connection:
    """Open, and read for the first time, which is when SQLite opens the other files that it needs."""
    connection = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, isolation_level=None, timeout=WAIT)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
