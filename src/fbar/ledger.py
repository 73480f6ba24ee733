"""The ledger: every finished simulation of a run, in one SQLite file.

A run is a directory with ``ledger.sqlite`` and, for people, ``run.json``. Blocks are recorded with their θ and their
outcomes as raw arrays under a checksum; nothing is ever unpickled. A committed block survives the death of the
process at any moment (write-ahead log, synchronous=FULL); a damaged one is noticed by its checksum and recomputed from
its seed. One driver at a time holds the run.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import IntArray
from fbar.errors import FbarError, InputError
from fbar.outcomes import Batch, Failure, Outcomes, Seen, Simulated, Tally
from fbar.points import Points

FORMAT = 1
FLUSH_SECONDS = 0.25
FLUSH_BYTES = 8_000_000
Arrays = Mapping[str, npt.NDArray[Any]]

TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
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


class LedgerError(FbarError):
    """A run's files cannot be read or written."""


class RunInUse(LedgerError):
    """Another driver holds the run."""


# ---------------------------------------------------------------- arrays as bytes


def pack(arrays: Arrays, **about: Any) -> bytes:
    """Arrays and some JSON as one string of bytes: a header of a line, then the raw arrays."""
    listed, parts = [], []
    for name, given in arrays.items():
        array = np.ascontiguousarray(given)
        if array.dtype.hasobject:
            array = np.ascontiguousarray(array.astype(str))
        listed.append([name, array.dtype.str, list(np.shape(given))])
        parts.append(array.tobytes())
    header = json.dumps({"arrays": listed, **about}, ensure_ascii=False).encode()
    return b"".join([header, b"\n", *parts])


def unpack(payload: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What `pack` was given."""
    end = payload.index(b"\n")
    about = json.loads(payload[:end])
    arrays, start = {}, end + 1
    for name, dtype, shape in about.pop("arrays"):
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(payload, dtype=np.dtype(dtype), count=count, offset=start)
        arrays[name] = array.reshape(shape)
        start += array.nbytes
    return arrays, about


def encode(batch: Batch, outcomes: Outcomes) -> bytes:
    """A block's θ and outcomes."""
    points = batch.points
    arrays: dict[str, npt.NDArray[Any]] = {f"theta:{name}": points[name] for name in points}
    arrays |= {f"present:{name}": points.present(name) for name in points if not points.present(name).all()}
    if batch.repeats is not None:
        arrays["repeats"] = batch.repeats
    if isinstance(outcomes, Tally):
        arrays |= {"weight": outcomes.weight, "square": outcomes.square}
        return pack(arrays, kind="tally", closest=_number(outcomes.seen.closest))
    arrays["summaries"] = outcomes.summaries
    arrays |= {f"recorded:{name}": np.asarray(values) for name, values in outcomes.recorded.items()}
    if outcomes.failure is not None and outcomes.failure.any():
        arrays["failure"] = outcomes.failure
    return pack(
        arrays,
        kind="simulated",
        examples={int(kind): text for kind, text in outcomes.examples.items()},
        details={int(kind): text for kind, text in outcomes.details.items()},
    )


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def decode(payload: bytes) -> tuple[Points, IntArray | None, Outcomes]:
    """A block's θ, repeats and outcomes."""
    arrays, about = unpack(payload)

    def under(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}

    points = Points(under("theta:"), present=under("present:"))
    repeats = arrays.get("repeats")
    if about["kind"] == "tally":
        closest = about["closest"]
        seen = Seen() if closest is None else Seen(closest)
        return points, repeats, Tally(arrays["weight"], arrays["square"], seen)
    failure = arrays.get("failure", np.zeros(len(arrays["summaries"]), dtype=np.int8))
    examples = {Failure(int(kind)): text for kind, text in about["examples"].items()}
    details = {Failure(int(kind)): text for kind, text in about["details"].items()}
    return points, repeats, Simulated(arrays["summaries"], under("recorded:"), failure, examples, details)


def _crc(*parts: bytes | str | int | None) -> int:
    total = 0
    for part in parts:
        total = zlib.crc32(part if isinstance(part, bytes) else repr(part).encode(), total)
    return total


# ---------------------------------------------------------------- one driver at a time


class _Lock:
    """Held by the one driver of a run, and let go by the system when it dies."""

    def __init__(self, path: Path) -> None:
        import fcntl

        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 200).decode(errors="replace").strip()
            os.close(self._file)
            raise RunInUse(f"{path.parent} is in use by another driver ({holder or 'unknown'}); wait for it") from None
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())

    def release(self) -> None:
        os.close(self._file)


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


@dataclass(frozen=True)
class Leg:
    """One stretch of a run: its settings, and how it ended if it did."""

    settings: dict[str, Any]
    result: dict[str, Any] | None


class Ledger:
    """A run's file, open for its driver.

    ``damaged`` names what was found broken and is recomputed. Without ``driver`` it is only read, also while its
    driver is at work.
    """

    def __init__(self, directory: Path, *, create: bool, driver: bool = True) -> None:
        self.directory = directory
        self.path = directory / "ledger.sqlite"
        self.damaged: list[str] = []
        self._pending: list[tuple[Any, ...]] = []
        self._failures: list[tuple[Any, ...]] = []
        self._bytes, self._flushed = 0, time.monotonic()
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        elif not self.path.exists():
            raise InputError(f"{directory} holds no run; a run is started by fbar.infer(..., run=...)")
        self._lock = _Lock(directory / "driver.lock") if driver else None
        try:
            if driver:
                self._open()
            else:
                self._peek()
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _peek(self) -> None:
        """Open to read."""
        try:
            self._connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=30.0)
            rows = self._connection.execute("SELECT id, round, block FROM blocks ORDER BY id")
            self._where = {(round, block): row for row, round, block in rows}
            self.legs = self._read_legs()
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"{self.path} cannot be read ({error}); its own command mends it: give it again"
            ) from None

    def _open(self) -> None:
        try:
            self._connection = connect(self.path)
            sound = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except sqlite3.DatabaseError:
            sound = False
        if not sound:
            self._salvage()
        with self._transaction():
            for statement in TABLES.strip().split(";\n"):
                self._connection.execute(statement)
            self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        version = int(self._connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()[0])
        if version > FORMAT:
            raise LedgerError(f"{self.directory} was made by a later version of fbar (format {version}); update fbar")
        rows = self._connection.execute("SELECT id, round, block FROM blocks ORDER BY id")
        self._where = {(round, block): row for row, round, block in rows}
        self.legs = self._read_legs()

    def _read_legs(self) -> list[Leg]:
        legs = []
        for leg, settings, result, crc in self._connection.execute("SELECT * FROM legs ORDER BY leg"):
            if _crc(leg, settings, result) != crc:
                self.damaged.append(f"leg {leg + 1}'s settings")
                return [Leg(entry["settings"], entry["result"]) for entry in _read_json(self.directory)]
            legs.append(Leg(json.loads(settings), None if result is None else json.loads(result)))
        return legs or [Leg(entry["settings"], entry["result"]) for entry in _read_json(self.directory)]

    def _salvage(self) -> None:
        """Read what can be read of a broken file into a new one; the rest is recomputed."""
        self.damaged.append(f"the file {self.path.name} (its readable blocks were kept)")
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()
        number = sum(1 for _ in self.directory.glob("ledger.damaged-*")) + 1
        broken = self.directory / f"ledger.damaged-{number}"
        self.path.rename(broken)
        for suffix in ("-wal", "-shm"):
            beside = self.path.with_name(self.path.name + suffix)
            if beside.exists():
                beside.rename(broken.with_name(broken.name + suffix))
        self._connection = connect(self.path)
        for statement in TABLES.strip().split(";\n"):
            self._connection.execute(statement)
        for table, width in (("meta", 2), ("legs", 4), ("rounds", 3), ("blocks", 6), ("failures", 6)):
            marks = ", ".join("?" * width)
            for row in _readable(broken, table):
                self._connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
        if not self._connection.execute("SELECT 1 FROM legs").fetchone():
            for leg, entry in enumerate(_read_json(self.directory)):
                settings = json.dumps(entry["settings"])
                result = None if entry["result"] is None else json.dumps(entry["result"])
                self._connection.execute(
                    "INSERT INTO legs VALUES (?, ?, ?, ?)", (leg, settings, result, _crc(leg, settings, result))
                )

    # ------------------------------------------------------------ writing

    def _transaction(self) -> _Transaction:
        return _Transaction(self)

    def record(self, batch: Batch, outcomes: Outcomes, seconds: float = 0.0) -> None:
        """Take a block; it is on disk after the next `flush`, at most a quarter of a second of work later."""
        payload = encode(batch, outcomes)
        round, block = batch.key
        self._pending.append((round, block, seconds, payload, _crc(round, block, payload)))
        self._bytes += len(payload)
        if isinstance(outcomes, Simulated) and outcomes.examples:
            counts = np.bincount(np.asarray(outcomes.failure), minlength=len(Failure))
            self._failures += [
                (round, block, int(kind), int(counts[kind]), text, outcomes.details.get(kind, ""))
                for kind, text in outcomes.examples.items()
            ]
        if self._bytes > FLUSH_BYTES or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is pending, for good."""
        self._flushed = time.monotonic()
        if not self._pending:
            return
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO blocks (round, block, seconds, payload, crc) VALUES (?, ?, ?, ?, ?)", self._pending
            )
            self._connection.executemany("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", self._failures)
        self._pending, self._failures, self._bytes = [], [], 0

    def record_round(self, round: int, arrays: Arrays) -> None:
        """Keep what a round's draws depend on, so that another machine's arithmetic cannot fork the run."""
        payload = pack(arrays)
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO rounds VALUES (?, ?, ?)", (round, payload, _crc(round, payload))
            )

    def add_leg(self, settings: Mapping[str, Any]) -> None:
        self._write_leg(len(self.legs), Leg(dict(settings), None))

    def finish_leg(self, result: Mapping[str, Any]) -> None:
        """How the last leg ended."""
        self.flush()
        self._write_leg(len(self.legs) - 1, Leg(self.legs[-1].settings, dict(result)))

    def _write_leg(self, number: int, leg: Leg) -> None:
        settings = json.dumps(leg.settings)
        result = None if leg.result is None else json.dumps(leg.result)
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO legs VALUES (?, ?, ?, ?)",
                (number, settings, result, _crc(number, settings, result)),
            )
        self.legs[number:] = [leg]
        entries = [{"settings": leg.settings, "result": leg.result} for leg in self.legs]
        new = self.directory / "run.json.new"
        new.write_text(json.dumps({"fbar": FORMAT, "legs": entries}, indent=1, ensure_ascii=False), encoding="utf-8")
        new.replace(self.directory / "run.json")

    # ------------------------------------------------------------ reading

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
            self.damaged.append(f"block {batch.block} of round {batch.round}")
            with self._transaction():
                self._connection.execute("DELETE FROM blocks WHERE id = ?", (row,))
            del self._where[batch.key]
            return None
        points, _, outcomes = found
        if any(not _same(points[name], batch.points[name]) for name in batch.points):
            raise LedgerError(
                f"block {batch.key} was recorded for other parameter values than are asked now; the run was made by "
                "another version or on another machine whose arithmetic differs: start it anew"
            )
        return outcomes

    def _read_block(self, row: int) -> tuple[Points, IntArray | None, Outcomes] | None:
        try:
            round, block, payload, crc = self._connection.execute(
                "SELECT round, block, payload, crc FROM blocks WHERE id = ?", (row,)
            ).fetchone()
        except sqlite3.DatabaseError:
            return None
        if _crc(round, block, payload) != crc:
            return None
        return decode(payload)

    def round_state(self, round: int) -> Arrays | None:
        row = self._connection.execute("SELECT payload, crc FROM rounds WHERE round = ?", (round,)).fetchone()
        if row is None:
            return None
        if _crc(round, row[0]) != row[1]:
            self.damaged.append(f"the proposal of round {round}")
            return None
        return unpack(row[0])[0]

    def blocks(self) -> Iterator[tuple[int, int, Points, IntArray | None, Outcomes]]:
        """Every recorded block that is sound, in order of rounds and blocks."""
        for (round, block), row in sorted(self._where.items()):
            found = self._read_block(row)
            if found is not None:
                yield round, block, *found

    def simulations(self) -> int:
        """How many simulations the recorded blocks hold."""
        return sum(points.rows if repeats is None else int(repeats.sum()) for _, _, points, repeats, _ in self.blocks())

    def failures(self) -> list[tuple[Failure, int, str, str]]:
        """Failures by kind: how many, and an example with its details."""
        rows = self._connection.execute(
            "SELECT kind, SUM(count), MIN(rowid) FROM failures GROUP BY kind ORDER BY kind"
        ).fetchall()
        result = []
        for kind, count, first in rows:
            text, detail = self._connection.execute(
                "SELECT message, detail FROM failures WHERE rowid = ?", (first,)
            ).fetchone()
            result.append((Failure(kind), int(count), text, detail))
        return result

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._connection.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LedgerError):  # it could not write: do not try again
            self._pending, self._failures = [], []
        self.close()


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT, with what the disk says in words."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _execute(self, statement: str) -> None:
        try:
            self._ledger._connection.execute(statement)
        except sqlite3.OperationalError as error:
            raise self._said(error) from None

    def __enter__(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._execute("COMMIT")
            except LedgerError:
                self._undo()
                raise
            return
        self._undo()
        if isinstance(error, sqlite3.OperationalError):
            raise self._said(error) from None

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
            self._ledger._connection.execute("ROLLBACK")

    def _said(self, error: sqlite3.OperationalError) -> LedgerError:
        where = self._ledger.path
        return LedgerError(
            f"cannot write to {where}: {error}; what was recorded before is safe. Make room or mend the disk, then "
            "give the same command again to go on"
        )


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    if first.dtype.kind in "f" and second.dtype.kind in "f":
        return np.array_equal(first, second, equal_nan=True)
    return np.array_equal(first.astype(str) if second.dtype == object else first, second.astype(first.dtype))


def _read_json(directory: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads((directory / "run.json").read_text(encoding="utf-8"))["legs"]
        assert isinstance(found, list)
        return found
    except (OSError, ValueError, KeyError):
        return []


def _readable(path: Path, table: str) -> Iterable[tuple[Any, ...]]:
    """The rows of a broken file that can still be read, one by one."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        try:
            last = connection.execute(f"SELECT MAX(rowid) FROM {table}").fetchone()[0] or 0
        except sqlite3.DatabaseError:
            return
        for row in range(last + 1):
            try:
                found = connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone()
            except sqlite3.DatabaseError:
                continue
            if found is not None:
                yield found
    finally:
        connection.close()
