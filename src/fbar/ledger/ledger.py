"""A run's record, as its driver writes it and others read it.

A run is a directory with ``ledger.sqlite`` and, for people, ``run.json``. A block is committed with its θ and outcomes
when it arrives: it outlives the process from then on, and a power cut a quarter of a second later. A damaged block is
noticed by its checksum. The run's driver simulates it again from its seed; whoever only reads is told what is damaged,
every time, and changes nothing. One driver at a time holds the run.

No table has an index, so that reading needs nothing but sound trees; the legs stand in ``run.json`` a second time,
under a checksum too.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fbar.checks import IntArray
from fbar.errors import InputError, LedgerError
from fbar.ledger.codec import GARBAGE, Arrays, Block, checksum, decode, encode, pack, unpack
from fbar.ledger.database import (
    Snapshot,
    beside,
    connect,
    force,
    make_tables,
    require_own_files,
    require_own_tables,
    set_journal_aside,
    timed,
    transaction,
)
from fbar.ledger.forcing import Forcing
from fbar.ledger.legs import FORMAT, MOST_LEGS, Leg, read_json, write_json
from fbar.ledger.log import lost_commits
from fbar.ledger.repair import repair
from fbar.question.outcomes import Batch, Failure, Outcomes, Simulated
from fbar.question.points import Points
from fbar.system.files import require_own_file
from fbar.system.locks import Lock
from fbar.system.schema import require_recordable

MOST_LISTED = 5
"""Damaged blocks that are named, at most."""

FORCE_SECONDS = 0.25
"""After which a block that was committed is on the disk itself, at the latest."""


class Ledger:
    """A run's file, open for its driver.

    ``damaged`` names what was found broken, which the driver recomputes. Without ``driver`` it is only read, also while
    its driver is at work: as it was at one moment. Nothing is repaired then, and nothing written.
    """

    def __init__(self, directory: Path, *, create: bool, driver: bool = True) -> None:
        self.directory = directory
        self.path = directory.resolve() / "ledger.sqlite"  # the simulator may change the working directory
        self.damaged: list[str] = []
        self.damaged_blocks: set[tuple[int, int]] = set()
        self.end_is_lost = False
        """Whether what was recorded last is missing."""
        self._all_read = False
        self._using = threading.RLock()  # the connection, which blocks that arrive use from another thread
        self._recorded: set[tuple[int, int]] = set()
        self._lock: Lock | None = None
        self._snapshot: Snapshot | None = None
        self._inode = _inode(self.path)
        self._forcing = Forcing(lambda: force(self.path), FORCE_SECONDS)
        if create:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(f"cannot make the directory {directory}: {error.strerror}") from None
        elif not self.path.exists() and not self.path.is_symlink():
            started = f"fbar infer MODEL.py --run {directory}, or fbar.infer(..., run=...)"
            raise InputError(f"{directory} holds no run; one is started by {started}")
        require_own_files(self.path)
        for name in ("run.json", "driver.lock"):
            require_own_file(directory / name)
        try:
            if driver:
                self._open()
            else:
                self._peek()
        except BaseException:
            self._let_go()
            raise

    def part(self, name: str, *, create: bool) -> Ledger:
        """The ledger of a part of the run, in a directory within its own; opened as this one is."""
        directory = self.directory / name
        if directory.is_symlink():
            raise LedgerError(f"{directory} is a link, which is not followed: a run's files are in its own directory")
        return Ledger(directory, create=create, driver=not self.reads_only)

    def _let_go(self) -> None:
        with self._using:
            self._close_files()

    def _close_files(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        else:
            with suppress(AttributeError, sqlite3.Error):  # there may be none
                self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def _peek(self) -> None:
        """Open to read."""
        try:
            self._snapshot = Snapshot(self.path)
            self._connection = self._snapshot.connection
            if self._snapshot.lost:
                self._has_lost_its_end()
            self._look_around()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise LedgerError(
                f"{self.path} cannot be read ({why}); rerun the run's own command to repair it, or: fbar resume "
                f"{self.directory}"
            ) from None

    def _open(self) -> None:
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
                self._start()
            except (sqlite3.Error, UnicodeError) as error:  # SQLite quotes broken names in its messages
                if not self._means_damage(error):
                    raise
                with suppress(AttributeError, sqlite3.Error):
                    self._connection.close()
                kept = repair(self.path)
                self.damaged.append(f"the file {self.path.name} (its {kept} readable blocks were kept)")
                self._start()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            raise self._cannot("open", error) from None
        self._inode = _inode(self.path)

    def _start(self) -> None:
        self._connection = connect(self.path)
        require_own_tables(self._connection)
        if lost_commits(self._connection, beside(self.path, "-wal")):
            self._has_lost_its_end()
        with timed(self._connection, self.path):
            said = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        with transaction(self._connection):
            make_tables(self._connection)
        self._look_around()

    def _has_lost_its_end(self) -> None:
        if not self.end_is_lost:
            self.end_is_lost = True
            self.damaged.append("the end of the record (what was recorded last)")

    def _means_damage(self, error: Exception) -> bool:
        """Whether an error is the file's own, and not the disk's (full, unreadable) or of rights to write."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_READONLY:  # so SQLite opens files whose header is of a later version
            return os.access(self.path, os.W_OK) and os.access(self.directory, os.W_OK)
        others = ("FULL", "IOERR", "CANTOPEN", "BUSY", "LOCKED", "PERM", "NOMEM", "NOLFS", "AUTH")
        return code not in {getattr(sqlite3, f"SQLITE_{name}") for name in others}

    def _cannot(self, what: str, error: Exception) -> LedgerError:
        return LedgerError(
            f"cannot {what} {self.path}: {error}; what was recorded before is safe. Make room or repair the disk, then "
            "rerun the command to go on"
        )

    def _look_around(self) -> None:
        """What the file holds."""
        with timed(self._connection, self.path):
            for version, crc in self._connection.execute("SELECT format, crc FROM formats LIMIT 100"):
                if version > FORMAT and crc == checksum(version):
                    raise LedgerError(
                        f"{self.directory} was made by a later version of fbar (format {version}); update fbar"
                    )
            self._list_blocks()
            self.legs = [leg.as_now() for leg in self._read_legs()]

    def _list_blocks(self) -> None:
        named = "typeof(round) = 'integer' AND typeof(block) = 'integer'"
        self._where: dict[tuple[int, int], int] = {}
        self._nameless, before = 0, -(2**63)  # whose round and number cannot be read
        for row, round, block, known in self._connection.execute(
            f"SELECT id, CAST(round AS INTEGER), CAST(block AS INTEGER), {named} FROM blocks ORDER BY id"
        ):
            if row <= before:
                raise sqlite3.DatabaseError("its pages are listed more than once")
            before = row
            if known:
                self._where[round, block] = row
            else:
                self._nameless += 1
        if self._nameless and not self.reads_only:
            self.damaged.append(f"{self._nameless} blocks whose number cannot be read")
            with self._transaction():
                self._connection.execute(f"DELETE FROM blocks WHERE NOT ({named})")
            self._nameless = 0

    def _read_legs(self) -> list[Leg]:
        """The legs, those that are damaged from ``run.json``."""
        query = f"SELECT leg, CAST(settings AS BLOB), CAST(result AS BLOB), crc FROM legs LIMIT {MOST_LEGS + 1}"
        rows = self._connection.execute(query).fetchall()
        if len(rows) > MOST_LEGS:
            raise LedgerError(f"{self.directory} has more than {MOST_LEGS:,} legs; no run has been extended so often")
        found = {row[0]: leg for row in rows if (leg := Leg.of(*row)) is not None}
        second = read_json(self.directory)
        open = {number for number, leg in found.items() if leg.result is None}
        ended = {number: leg for number, leg in second.items() if number in open and leg.result is not None}
        if ended:  # the file was told first
            self._has_lost_its_end()
            found |= ended
        elif len(found) == len(rows) and len(found) >= len(second) and set(found) == set(range(len(found))):
            return [found[leg] for leg in range(len(found))]
        legs: list[Leg] = []
        while (leg := found.get(len(legs), second.get(len(legs)))) is not None:
            legs.append(leg)
            if leg.result is None:  # none can follow
                break
        if not ended:
            self.damaged.append("the settings")
        if not self.reads_only:
            with self._transaction():
                self._connection.execute("DELETE FROM legs")
                self._connection.executemany(
                    "INSERT INTO legs VALUES (?, ?, ?, ?)", [leg.row(number) for number, leg in enumerate(legs)]
                )
        return legs

    # ------------------------------------------------------------ writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, with what the disk says in words."""
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
        """Say at once if the directory is no longer where it was: what follows would be recorded for nobody."""
        if self._lock is None or _inode(self.path) == self._inode:
            return
        if self._lock.deleted:
            raise LedgerError(f"{self.directory} was deleted while its run was at work, and what it recorded with it")
        raise LedgerError(
            f"{self.directory} was moved while its run was at work; what was recorded is safe there: rerun the command "
            "with its new name to go on"
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
            raise self._cannot("write beside", error) from None

    # ------------------------------------------------------------ reading

    @property
    def reads_only(self) -> bool:
        return self._lock is None

    def __len__(self) -> int:
        """Blocks on disk."""
        return len(self._where)

    def lookup(self, batch: Batch) -> Outcomes | None:
        """The recorded outcomes of a block; None if there are none, or they are damaged."""
        row = self._where.get(batch.key)
        if row is None:
            return None
        found = self._read_block(row)
        if found is None:
            if self.reads_only:
                self._is_damaged(batch.key)
            else:
                self._delete(batch.key, row)
            return None
        if not found.answers(batch):
            raise LedgerError(
                f"block {batch.key} was recorded for other parameter values or another seed than now; the run was made "
                "by another version or on another machine whose arithmetic differs: start it anew"
            )
        return found.outcomes

    @property
    def has_recorded(self) -> bool:
        """Whether this driver has recorded anything."""
        return bool(self._recorded)

    def sweep(self) -> None:
        """Delete damaged blocks that the run never asked for, such as those whose number is not theirs."""
        for key, row in list(self._where.items()):
            if self._read_block(row) is None:
                self._delete(key, row)

    def _delete(self, key: tuple[int, int], row: int) -> None:
        self._is_damaged(key)
        with self._transaction():
            self._connection.execute("DELETE FROM blocks WHERE id = ?", (row,))
            self._connection.execute("DELETE FROM failures WHERE round = ? AND block = ?", key)
        del self._where[key]

    def _is_damaged(self, key: tuple[int, int]) -> None:
        if self._snapshot is not None and self._snapshot.changed():
            raise LedgerError(f"{self.directory} was changed while it was read; rerun the command")
        if key not in self.damaged_blocks:
            self.damaged_blocks.add(key)
            self.damaged.append(f"block {key[1]} of round {key[0]}")

    def damage(self) -> str:
        """How many of the recorded blocks are damaged, and which, in words; nothing if all are sound."""
        if not self._all_read:
            for _ in self.blocks():
                pass
        broken, blocks = len(self.damaged_blocks) + self._nameless, len(self._where) + self._nameless
        if not broken:
            return (
                "the end of its record is lost, and with it the blocks that were recorded last"
                if self.end_is_lost
                else ""
            )
        listed = [f"block {block} of round {round}" for round, block in sorted(self.damaged_blocks)[:MOST_LISTED]]
        listed += [f"{broken - len(listed):,} more"] if broken > len(listed) else []
        are = "block is" if blocks == 1 else "blocks is" if broken == 1 else "blocks are"
        return f"{broken:,} of {blocks:,} recorded {are} damaged ({', '.join(listed)})"

    def _read_block(self, row: int) -> Block | None:
        try:
            with self._using:
                round, block, seconds, payload, crc = self._connection.execute(
                    "SELECT round, block, seconds, payload, crc FROM blocks WHERE id = ?", (row,)
                ).fetchone()
        except (sqlite3.DatabaseError, UnicodeError):
            return None
        if checksum(round, block, seconds, payload) != crc:
            return None
        try:
            return decode(payload, seconds)
        except GARBAGE:
            return None

    def round_state(self, round: int, like: Arrays) -> Arrays | None:
        """What `record_round` kept, by the names of ``like``; None if there is none, or it is damaged."""
        try:
            with self._using:
                row = self._connection.execute("SELECT payload, crc FROM rounds WHERE round = ?", (round,)).fetchone()
            if row is None:
                return None
            found = unpack(row[0])[0] if checksum(round, row[0]) == row[1] else {}
            if set(found) == set(like):
                return found
        except (sqlite3.DatabaseError, *GARBAGE):
            pass
        self.damaged.append(f"the proposal of round {round}")
        return None

    def blocks(self) -> Iterator[tuple[int, int, Points, IntArray | None, Outcomes]]:
        """Every recorded block that is sound, in order of rounds and blocks; the others go into ``damaged``."""
        for (round, block), row in sorted(self._where.items()):
            found = self._read_block(row)
            if found is None:
                self._is_damaged((round, block))
            else:
                yield round, block, found.points, found.repeats, found.outcomes
        self._all_read = True

    def simulations(self) -> int:
        """How many simulations the recorded blocks hold that are sound."""
        return sum(points.rows if repeats is None else int(repeats.sum()) for _, _, points, repeats, _ in self.blocks())

    def failures(self) -> list[tuple[Failure, int, str, str]]:
        """Failures by kind: how many, and an example with its details."""
        result = []
        try:
            rows = self._connection.execute(
                "SELECT kind, SUM(count), MIN(rowid) FROM failures GROUP BY kind ORDER BY kind"
            ).fetchall()
            for kind, count, first in rows:
                text, detail = self._connection.execute(
                    "SELECT message, detail FROM failures WHERE rowid = ?", (first,)
                ).fetchone()
                result.append((Failure(kind), int(count), str(text), str(detail)))
        except (sqlite3.DatabaseError, *GARBAGE):
            self.damaged.append("the list of failures")
        return result

    def close(self) -> None:
        self._forcing.stop()
        if self._lock is not None:
            with suppress(OSError):  # who could not write has said so
                force(self.path)
        self._let_go()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _inode(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None where there is none."""
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
            *(_text(told.get(kind, "")) for told in (outcomes.examples, outcomes.details)),
        )
        for kind in Failure
        if kind and counts[kind]
    ]


def _text(text: str) -> str:
    """Without what cannot be written as UTF-8, such as stray bytes in a program's output."""
    return text.encode(errors="replace").decode()
