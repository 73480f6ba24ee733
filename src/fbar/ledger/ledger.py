"""A run's record as its one driver writes it.

A block is committed with its θ and outcomes when it arrives: it outlives the process from then on, and a power cut a
quarter of a second later. The driver repairs what is damaged: a broken file is rebuilt from its readable rows when it
is opened, and a damaged block is deleted, so that it is simulated again from its seed. One driver at a time holds the
run.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fbar.errors import LedgerError
from fbar.ledger.codec import Arrays, checksum, encode, pack
from fbar.ledger.database import (
    beside,
    connect,
    force,
    make_tables,
    require_own_tables,
    set_journal_aside,
    timed,
    transaction,
)
from fbar.ledger.forcing import Forcing
from fbar.ledger.legs import Leg, write_json
from fbar.ledger.log import lost_commits
from fbar.ledger.reader import NUMBERED, LedgerReader
from fbar.ledger.repair import repair
from fbar.question.outcomes import Batch, Failure, Outcomes, Simulated
from fbar.system.locks import Lock
from fbar.system.schema import require_recordable

FORCE_SECONDS = 0.25
"""After which a block that was committed is on the disk itself, at the latest."""

NOT_DAMAGE = ("FULL", "IOERR", "CANTOPEN", "BUSY", "LOCKED", "PERM", "NOMEM", "NOLFS", "AUTH")
"""SQLite's errors that are the disk's or the system's, and not the file's."""


class Ledger(LedgerReader):
    """A run's file, open for its driver, which simulates again what ``damaged`` names; made if ``create``."""

    def __init__(self, directory: Path, *, create: bool) -> None:
        self._create = create
        self._recorded: set[tuple[int, int]] = set()
        self._lock: Lock | None = None
        self._inode: tuple[int, int] | None = None
        self._forcing = Forcing(lambda: force(self.path), FORCE_SECONDS)
        super().__init__(directory)

    def part(self, name: str) -> Ledger:
        return Ledger(self._part_directory(name), create=True)

    # ------------------------------------------------------------ opening and closing

    def _prepare_directory(self) -> None:
        if not self._create:
            super()._prepare_directory()
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"cannot make the directory {self.directory}: {error.strerror}") from None

    def _open(self) -> None:
        self._inode = _inode(self.path)
        try:
            if not os.access(self.directory, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._lock = Lock(self.directory / "driver.lock")
        except OSError as error:
            raise LedgerError(
                f"cannot write to the directory {self.directory}: {error.strerror}; a run there can still be read (by "
                "fbar show, explain, export and report), or copied to where you can write"
            ) from None
        try:
            set_journal_aside(self.path)
            try:
                self._connect()
            except (sqlite3.Error, UnicodeError) as error:  # SQLite quotes broken names in its messages
                if not self._means_damage(error):
                    raise
                self._disconnect()
                kept = repair(self.path)
                self.damaged.append(f"the file {self.path.name} (its {kept} readable blocks were kept)")
                self._connect()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            raise self._cannot("open", error) from None
        self._inode = _inode(self.path)

    def _connect(self) -> None:
        self._opened = connection = connect(self.path)
        require_own_tables(connection)
        if lost_commits(connection, beside(self.path, "-wal")):
            self._end_was_lost()
        with timed(connection, self.path):
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        with transaction(connection):
            make_tables(connection)
        self._read_contents()

    def _disconnect(self) -> None:
        if self._opened is not None:
            with suppress(sqlite3.Error):
                self._opened.close()
            self._opened = None

    def close(self) -> None:
        self._forcing.stop()
        if self._lock is not None:
            with suppress(OSError):  # whoever could not write has reported it
                force(self.path)
        self._let_go()

    def _close_files(self) -> None:
        self._disconnect()
        if self._lock is not None:
            self._lock.release()

    def _means_damage(self, error: Exception) -> bool:
        """Whether an error is the file's own, and not the disk's (full, unreadable) or of rights to write."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # which only SQLite's errors have
        if code == sqlite3.SQLITE_READONLY:  # so SQLite opens files whose header is of a later version
            return os.access(self.path, os.W_OK) and os.access(self.directory, os.W_OK)
        return code not in {getattr(sqlite3, f"SQLITE_{name}") for name in NOT_DAMAGE}

    def _cannot(self, what: str, error: Exception) -> LedgerError:
        return LedgerError(
            f"cannot {what} {self.path}: {error}; everything recorded so far is safe. Free some space or repair "
            "the disk, then rerun the command to resume"
        )

    # ------------------------------------------------------------ repairing

    def _unnumbered_blocks_found(self) -> None:
        self.damaged.append(f"{self._unnumbered} blocks whose number cannot be read")
        with self._transaction():
            self._connection.execute(f"DELETE FROM blocks WHERE NOT ({NUMBERED})")
        self._unnumbered = 0

    def _legs_found(self, legs: Sequence[Leg]) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM legs")
            self._connection.executemany(
                "INSERT INTO legs VALUES (?, ?, ?, ?)", [leg.row(number) for number, leg in enumerate(legs)]
            )

    def _damaged_block_found(self, key: tuple[int, int], row: int) -> None:
        self._note_damaged(key)
        with self._transaction():
            self._connection.execute("DELETE FROM blocks WHERE id = ?", (row,))
            self._connection.execute("DELETE FROM failures WHERE round = ? AND block = ?", key)
        del self._rows[key]

    @property
    def has_recorded(self) -> bool:
        """Whether this driver has recorded anything."""
        return bool(self._recorded)

    def sweep(self) -> None:
        """Delete damaged blocks that the run never asked for, such as those whose number is not theirs."""
        for key, row in list(self._rows.items()):
            if self._read_block(row) is None:
                self._damaged_block_found(key, row)

    # ------------------------------------------------------------ writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction; a failure is an error that names the disk's reason."""
        try:
            with self._using, transaction(self._connection):
                yield
        except sqlite3.Error as error:
            self._require_there()
            raise self._cannot("write to", error) from None

    def record(self, *answers: tuple[Batch, Outcomes]) -> None:
        """Keep blocks that were simulated: nothing but a power cut can undo it, and that not a moment later."""
        with self._using:
            new = [answer for answer in answers if answer[0].key not in self._recorded]
            if new:
                self._insert(new)
                self._recorded.update(batch.key for batch, _ in new)

    def record_early(self, answers: Sequence[tuple[Batch, Outcomes]]) -> None:
        """Keep blocks that have just arrived, from another thread; `record` tries again what this cannot."""
        with suppress(LedgerError):
            self.record(*answers)

    def _insert(self, answers: Sequence[tuple[Batch, Outcomes]]) -> None:
        blocks, failures = [], list[tuple[Any, ...]]()
        for batch, outcomes in answers:
            payload = encode(batch, outcomes)
            seconds = outcomes.seconds if isinstance(outcomes, Simulated) else 0.0
            blocks.append((*batch.key, seconds, payload, checksum(*batch.key, seconds, payload)))
            failures += _failures(batch, outcomes)
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO blocks (round, block, seconds, payload, crc) VALUES (?, ?, ?, ?, ?)", blocks
            )
            if failures:
                self._connection.executemany("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", failures)
        self._require_there()
        self._force_soon()

    def _force_soon(self) -> None:
        try:
            self._forcing.soon()
        except OSError as error:
            raise self._cannot("write to", error) from None

    def _require_there(self) -> None:
        """Fail at once if the directory is no longer where it was: what follows would be recorded for nobody."""
        if self._lock is None or _inode(self.path) == self._inode:
            return
        if self._lock.deleted:
            raise LedgerError(f"{self.directory} was deleted while its run was in progress, with all it had recorded")
        raise LedgerError(
            f"{self.directory} was moved while its run was in progress; what was recorded is safe there: rerun "
            "the command with its new name to resume"
        )

    def flush(self) -> None:
        """Force what was recorded to the disk."""
        try:
            self._forcing.now()
        except OSError as error:
            raise self._cannot("write to", error) from None

    def record_round(self, round: int, arrays: Arrays) -> None:
        """Keep what a round's draws depend on, so that another machine's arithmetic cannot fork the run."""
        payload = pack(arrays)
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO rounds VALUES (?, ?, ?)", (round, payload, checksum(round, payload))
            )
        self._force_soon()

    def add_leg(self, settings: Mapping[str, Any]) -> None:
        """Begin another leg."""
        require_recordable(json.loads(json.dumps(dict(settings))))
        self._write_leg(len(self.legs), Leg(dict(settings), None))

    def finish_leg(self, result: Mapping[str, Any]) -> None:
        """How the last leg ended."""
        self._write_leg(len(self.legs) - 1, Leg(self.legs[-1].settings, dict(result)))

    def _write_leg(self, number: int, leg: Leg) -> None:
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO legs VALUES (?, ?, ?, ?)", leg.row(number))
        self.legs[number:] = [leg]
        self.flush()
        try:
            write_json(self.directory, self.legs)
        except OSError as error:
            raise self._cannot("write next to", error) from None


def _inode(path: Path) -> tuple[int, int] | None:
    """What distinguishes a file from another one of the same name; None if there is none."""
    try:
        about = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _failures(batch: Batch, outcomes: Outcomes) -> list[tuple[Any, ...]]:
    """The failures of a block as rows of their table."""
    if not isinstance(outcomes, Simulated) or outcomes.failure is None or not outcomes.failure.any():
        return []
    counts = np.bincount(outcomes.failure, minlength=len(Failure))
    return [
        (
            *(*batch.key, int(kind), int(counts[kind])),
            *(_text(texts.get(kind, "")) for texts in (outcomes.examples, outcomes.details)),
        )
        for kind in Failure
        if kind and counts[kind]
    ]


def _text(text: str) -> str:
    """Without what cannot be written as UTF-8, such as stray bytes in a program's output."""
    return text.encode(errors="replace").decode()
