"""The ledger: every finished simulation of a run, in one SQLite file.

A run is a directory with ``ledger.sqlite`` and, for people, ``run.json``. Blocks are recorded with their θ and their
outcomes as raw arrays under a checksum; nothing is ever unpickled. A committed block survives the death of the
process at any moment (write-ahead log, synchronous=FULL); a damaged one is noticed by its checksum. The run's driver
simulates it again from its seed; who only reads says what is damaged, every time, and changes nothing. One driver at a
time holds the run.

No table has an index, so that reading needs nothing but sound trees; the legs stand in ``run.json`` a second time,
under a checksum too.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import IntArray
from fbar.errors import InputError, LedgerError
from fbar.locks import Lock
from fbar.outcomes import Batch, Failure, Outcomes, Seen, Simulated, Tally
from fbar.points import Points

FORMAT = 1
PAGE = 4096
MOST_LISTED = 5
"""Damaged blocks that are named, at most."""

FLUSH_SECONDS = 0.25
FLUSH_BYTES = 8_000_000
ROUNDING = 1e-9
"""Relative differences that arithmetic makes between machines, at most; draws of another design differ by more."""
Arrays = Mapping[str, npt.NDArray[Any]]

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


# ---------------------------------------------------------------- arrays as bytes


def pack(arrays: Arrays, **about: Any) -> bytes:
    """Arrays and some JSON as one string of bytes: a header of a line, then the raw arrays."""
    listed, parts = [], []
    for name, given in arrays.items():
        array = np.ascontiguousarray(given)
        if array.dtype.hasobject and (name.startswith("theta:") or all(isinstance(x, str) for x in array.ravel())):
            array = np.ascontiguousarray(array.astype(str))
        if array.dtype.kind in "OV":
            raise InputError(
                f"{name.removeprefix('recorded:')!r} of the simulator's output holds Python objects; a recorded run "
                "keeps numbers and text alone"
            )
        listed.append([name, array.dtype.str, list(np.shape(given))])
        parts.append(array.tobytes())
    header = json.dumps({"arrays": listed, **about}).encode()
    return b"".join([header, b"\n", *parts])


def unpack(payload: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What `pack` was given: arrays that are aligned and can be written to, as a simulator's own are."""
    end = payload.index(b"\n")
    about = json.loads(payload[:end])
    arrays, start = {}, end + 1
    for name, code, shape in about.pop("arrays"):
        dtype = np.dtype(code)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(payload[start : start + size], np.uint8)
        arrays[name] = array
        start += size
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
        return pack(arrays, kind="tally", seed=str(batch.seeds.entropy), closest=_number(outcomes.seen.closest))
    arrays["summaries"] = outcomes.summaries
    arrays |= {f"recorded:{name}": np.asarray(values) for name, values in outcomes.recorded.items()}
    if outcomes.failure is not None and outcomes.failure.any():
        arrays["failure"] = outcomes.failure
    if outcomes.cost is not None:
        arrays["cost"] = outcomes.cost
    return pack(
        arrays,
        kind="simulated",
        seed=str(batch.seeds.entropy),
        examples={int(kind): text for kind, text in outcomes.examples.items()},
        details={int(kind): text for kind, text in outcomes.details.items()},
    )


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class Block:
    """What is recorded of a block."""

    seed: str
    points: Points
    repeats: IntArray | None
    outcomes: Outcomes

    def answers(self, batch: Batch) -> bool:
        """Whether it was recorded for what is asked now."""
        if self.seed != str(batch.seeds.entropy) or set(self.points) != set(batch.points):
            return False
        if (self.repeats is None) != (batch.repeats is None) or not np.array_equal(
            self.repeats if self.repeats is not None else 1, batch.repeats if batch.repeats is not None else 1
        ):
            return False
        return all(_same(self.points[name], batch.points[name]) for name in batch.points)


def decode(payload: bytes, seconds: float = 0.0) -> Block:
    """A block's seed, θ, repeats and outcomes."""
    arrays, about = unpack(payload)

    def under(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}

    points = Points(under("theta:"), present=under("present:"))
    seed, repeats = about["seed"], arrays.get("repeats")
    if about["kind"] == "tally":
        closest = about["closest"]
        seen = Seen() if closest is None else Seen(closest)
        return Block(seed, points, repeats, Tally(arrays["weight"], arrays["square"], seen))
    failure = arrays.get("failure", np.zeros(len(arrays["summaries"]), dtype=np.int8))
    examples = {Failure(int(kind)): text for kind, text in about["examples"].items()}
    details = {Failure(int(kind)): text for kind, text in about["details"].items()}
    recorded, cost = under("recorded:"), arrays.get("cost")
    outcomes = Simulated(arrays["summaries"], recorded, failure, examples, details, seconds, cost)
    return Block(seed, points, repeats, outcomes)


GARBAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, MemoryError, RecursionError)
"""What reading bytes may raise that say nothing, under whatever checksum."""


def _crc(*parts: bytes | str | float | None) -> int:
    total = 0
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(str(len(data)).encode(), total))
    return total


# ---------------------------------------------------------------- files


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.strip().split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT OR REPLACE INTO formats VALUES (?, ?)", (FORMAT, _crc(FORMAT)))


@dataclass(frozen=True)
class Leg:
    """One stretch of a run: its settings, and how it ended if it did."""

    settings: dict[str, Any]
    result: dict[str, Any] | None

    def row(self, number: int) -> tuple[int, str, str | None, int]:
        """Its row in the table, with the checksum."""
        settings = json.dumps(self.settings)
        result = None if self.result is None else json.dumps(self.result)
        return number, settings, result, _crc(number, settings, result)


class Ledger:
    """A run's file, open for its driver.

    ``damaged`` names what was found broken, which the driver recomputes. Without ``driver`` it is only read, also while
    its driver is at work: nothing is mended then, and nothing deleted.
    """

    def __init__(self, directory: Path, *, create: bool, driver: bool = True) -> None:
        self.directory = directory
        self.path = directory.resolve() / "ledger.sqlite"  # the simulator may change the working directory
        self.damaged: list[str] = []
        self.damaged_blocks: set[tuple[int, int]] = set()
        self._all_read = False
        self._pending: list[tuple[Any, ...]] = []
        self._failures: list[tuple[Any, ...]] = []
        self._bytes, self._flushed = 0, time.monotonic()
        if create:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(f"cannot make the directory {directory}: {error.strerror}") from None
        elif not self.path.exists():
            started = f"fbar infer MODEL.py --run {directory}, or fbar.infer(..., run=...)"
            raise InputError(f"{directory} holds no run; one is started by {started}")
        try:
            self._lock = Lock(directory / "driver.lock") if driver else None
        except OSError as error:
            raise LedgerError(f"cannot write to the directory {directory}: {error.strerror}") from None
        try:
            if driver:
                self._open()
            else:
                self._peek()
        except BaseException:
            with suppress(AttributeError, sqlite3.Error):  # there may be none
                self._connection.close()
            if self._lock is not None:
                self._lock.release()
            raise

    def _peek(self) -> None:
        """Open to read."""
        try:
            self._connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=30.0)
            if not self._connection.execute("SELECT 1 FROM sqlite_master").fetchone():  # its driver is just starting
                self._connection.close()
                self._connection = sqlite3.connect(":memory:")
                _make_tables(self._connection)
            self._look_around()
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"{self.path} cannot be read ({error}); its own command mends it, and so does fbar resume"
            ) from None

    def _open(self) -> None:
        try:
            try:
                self._start()
            except (sqlite3.Error, UnicodeError) as error:  # SQLite quotes broken names in its messages
                if not self._means_damage(error):
                    raise
                self._salvage()
                self._start()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            raise self._cannot("open", error) from None

    def _start(self) -> None:
        self._connection = connect(self.path)
        said = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        with _transaction_of(self._connection):
            _make_tables(self._connection)
        self._look_around()

    def _means_damage(self, error: Exception) -> bool:
        """Whether an error is the file's own, and not the disk's (full, unreadable) or of rights to write."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_READONLY:  # so SQLite opens files whose header is of a later version
            return os.access(self.path, os.W_OK) and os.access(self.directory, os.W_OK)
        others = ("FULL", "IOERR", "CANTOPEN", "BUSY", "LOCKED", "PERM", "NOMEM", "NOLFS", "AUTH")
        return code not in {getattr(sqlite3, f"SQLITE_{name}") for name in others}

    def _cannot(self, what: str, error: Exception) -> LedgerError:
        return LedgerError(
            f"cannot {what} {self.path}: {error}; what was recorded before is safe. Make room or mend the disk, then "
            "give the same command again to go on"
        )

    def _look_around(self) -> None:
        """What the file holds."""
        for version, crc in self._connection.execute("SELECT format, crc FROM formats"):
            if version > FORMAT and crc == _crc(version):
                raise LedgerError(
                    f"{self.directory} was made by a later version of fbar (format {version}); update fbar"
                )
        named = "typeof(round) = 'integer' AND typeof(block) = 'integer'"
        self._where: dict[tuple[int, int], int] = {}
        self._nameless = 0  # whose round and number cannot be read
        for row, round, block, known in self._connection.execute(
            f"SELECT id, CAST(round AS INTEGER), CAST(block AS INTEGER), {named} FROM blocks ORDER BY id"
        ):
            if known:
                self._where[round, block] = row
            else:
                self._nameless += 1
        if self._nameless and not self.reads_only:
            self.damaged.append(f"{self._nameless} blocks whose number cannot be read")
            with self._transaction():
                self._connection.execute(f"DELETE FROM blocks WHERE NOT ({named})")
            self._nameless = 0
        self.legs = self._read_legs()

    def _read_legs(self) -> list[Leg]:
        """The legs, those that are damaged from ``run.json``."""
        found: dict[int, Leg] = {}
        query = "SELECT leg, CAST(settings AS BLOB), CAST(result AS BLOB), crc FROM legs"
        rows = self._connection.execute(query).fetchall()
        for leg, settings, result, crc in rows:
            with suppress(*GARBAGE):
                if _crc(leg, settings, result) == crc:
                    found[leg] = Leg(json.loads(settings), None if result is None else json.loads(result))
        second = _read_json(self.directory)
        if len(found) == len(rows) and len(found) >= len(second) and set(found) == set(range(len(found))):
            return [found[leg] for leg in range(len(found))]
        legs: list[Leg] = []
        while (leg := found.get(len(legs), second.get(len(legs)))) is not None:
            legs.append(leg)
            if leg.result is None:  # none can follow
                break
        self.damaged.append("the settings")
        if not self.reads_only:
            with self._transaction():
                self._connection.execute("DELETE FROM legs")
                self._connection.executemany(
                    "INSERT INTO legs VALUES (?, ?, ?, ?)", [leg.row(number) for number, leg in enumerate(legs)]
                )
        return legs

    def _salvage(self) -> None:
        """Read what can be read of a broken file into a new one; the rest is recomputed."""
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()
        number = sum(1 for _ in self.directory.glob("ledger.damaged-*")) + 1
        broken = self.directory / f"ledger.damaged-{number}"
        work, new = self.directory / "ledger.work", self.directory / "ledger.new"
        for path in (work, new):
            _remove(path)
        shutil.copyfile(self.path, work)
        wal = _beside(self.path, "-wal")
        if wal.exists():
            shutil.copyfile(wal, _beside(work, "-wal"))
        connection = connect(new)
        try:
            with _transaction_of(connection):
                _make_tables(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            _replace_first_page(work, new)
            kept = 0
            with _transaction_of(connection):
                for table, width in (("legs", 4), ("rounds", 3), ("blocks", 6), ("failures", 6)):
                    marks = ", ".join("?" * width)
                    for row in _readable(work, table):
                        done = connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
                        kept += done.rowcount if table == "blocks" else 0
        finally:
            connection.close()
        # The new file takes the old one's place in one step, and never beside the old one's write-ahead log.
        shutil.copyfile(self.path, broken)
        if wal.exists():
            wal.replace(_beside(broken, "-wal"))
        _beside(self.path, "-shm").unlink(missing_ok=True)
        new.replace(self.path)
        _remove(work)
        self.damaged.append(f"the file {self.path.name} (its {kept} readable blocks were kept)")

    # ------------------------------------------------------------ writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, with what the disk says in words."""
        try:
            with _transaction_of(self._connection):
                yield
        except sqlite3.Error as error:
            raise self._cannot("write to", error) from None

    def record(self, batch: Batch, outcomes: Outcomes) -> None:
        """Take a block; it is on disk after the next `flush`, at most a quarter of a second of work later."""
        payload = encode(batch, outcomes)
        round, block = batch.key
        seconds = outcomes.seconds if isinstance(outcomes, Simulated) else 0.0
        self._pending.append((round, block, seconds, payload, _crc(round, block, seconds, payload)))
        self._bytes += len(payload)
        if isinstance(outcomes, Simulated) and outcomes.failure is not None and outcomes.failure.any():
            counts = np.bincount(outcomes.failure, minlength=len(Failure))
            self._failures += [
                (
                    *(round, block, int(kind), int(counts[kind])),
                    *(_text(told.get(kind, "")) for told in (outcomes.examples, outcomes.details)),
                )
                for kind in Failure
                if kind and counts[kind]
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
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO legs VALUES (?, ?, ?, ?)", leg.row(number))
        self.legs[number:] = [leg]
        entries = [
            {"settings": leg.settings, "result": leg.result, "crc": leg.row(number)[-1]}
            for number, leg in enumerate(self.legs)
        ]
        text = json.dumps({"fbar": FORMAT, "legs": entries}, indent=1, ensure_ascii=False)
        new = self.directory / "run.json.new"
        try:
            new.write_text(text, encoding="utf-8", errors="replace")
            new.replace(self.directory / "run.json")
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
            self._is_damaged(batch.key)
            if self.reads_only:
                return None
            with self._transaction():
                self._connection.execute("DELETE FROM blocks WHERE id = ?", (row,))
                self._connection.execute("DELETE FROM failures WHERE round = ? AND block = ?", batch.key)
            del self._where[batch.key]
            return None
        if not found.answers(batch):
            raise LedgerError(
                f"block {batch.key} was recorded for other parameter values or another seed than now; the run was made "
                "by another version or on another machine whose arithmetic differs: start it anew"
            )
        return found.outcomes

    def _is_damaged(self, key: tuple[int, int]) -> None:
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
            return ""
        listed = [f"block {block} of round {round}" for round, block in sorted(self.damaged_blocks)[:MOST_LISTED]]
        listed += [f"{broken - len(listed):,} more"] if broken > len(listed) else []
        are = "block is" if blocks == 1 else "blocks is" if broken == 1 else "blocks are"
        return f"{broken:,} of {blocks:,} recorded {are} damaged ({', '.join(listed)})"

    def _read_block(self, row: int) -> Block | None:
        try:
            round, block, seconds, payload, crc = self._connection.execute(
                "SELECT round, block, seconds, payload, crc FROM blocks WHERE id = ?", (row,)
            ).fetchone()
        except (sqlite3.DatabaseError, UnicodeError):
            return None
        if _crc(round, block, seconds, payload) != crc:
            return None
        try:
            return decode(payload, seconds)
        except GARBAGE:
            return None

    def round_state(self, round: int, like: Arrays) -> Arrays | None:
        """What `record_round` kept, by the names of ``like``; None if there is none, or it is damaged."""
        try:
            row = self._connection.execute("SELECT payload, crc FROM rounds WHERE round = ?", (round,)).fetchone()
            if row is None:
                return None
            found = unpack(row[0])[0] if _crc(round, row[0]) == row[1] else {}
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


@contextmanager
def _transaction_of(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or nothing at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    """Whether two columns of θ are the same draws: up to rounding, which another processor does in another way."""
    if first.dtype.kind in "f" and second.dtype.kind in "f":
        if first.shape != second.shape:
            return False
        large = np.abs(first[np.isfinite(first)]).max(initial=0.0)
        return np.allclose(first, second, rtol=ROUNDING, atol=1e-3 * ROUNDING * large, equal_nan=True)
    return np.array_equal(first.astype(str) if second.dtype == object else first, second.astype(first.dtype))


def _text(text: str) -> str:
    """Without what cannot be written as UTF-8, such as stray bytes in a program's output."""
    return text.encode(errors="replace").decode()


def _read_json(directory: Path) -> dict[int, Leg]:
    """The legs in ``run.json`` that are sound."""
    legs: dict[int, Leg] = {}
    with suppress(OSError, *GARBAGE):
        for number, entry in enumerate(json.loads((directory / "run.json").read_text(encoding="utf-8"))["legs"]):
            leg = Leg(entry["settings"], entry["result"])
            if leg.row(number)[-1] == entry["crc"]:
                legs[number] = leg
    return legs


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        _beside(path, suffix).unlink(missing_ok=True)


MOST_MISSES = 1000
"""Rows that are tried in vain, one after the other, where a broken file's tree cannot be followed."""


def _readable(path: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a broken file that can still be read: from both ends of the tree, then what lies between."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = lambda data: data.decode(errors="replace")
    low, high = -1, 2**63 - 1
    try:
        with suppress(sqlite3.DatabaseError, UnicodeError):
            for number, *row in connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid"):
                low = number
                yield tuple(row)
            return
        with suppress(sqlite3.DatabaseError, UnicodeError):
            rows = connection.execute(f"SELECT rowid, * FROM {table} WHERE rowid > ? ORDER BY rowid DESC", (low,))
            for number, *row in rows:
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
    """Give a broken file the first page of an empty ledger, which says where the tables are: the same in all."""
    page = bytearray(sound.read_bytes()[:PAGE])
    page[28:32] = bytes(4)  # the number of pages: to be taken from the file's length
    with path.open("r+b") as file:
        file.write(page)
