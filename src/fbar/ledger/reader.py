"""A run's record as anyone reads it: its legs, blocks, rounds and failures, and what of them is damaged.

A run is a directory with ``ledger.sqlite`` and, for people, ``run.json``. A damaged block is noticed by its checksum.
A reader reports what is damaged, every time, and changes nothing; the run's driver repairs it, see
`fbar.ledger.ledger`.

No table has an index, so that reading needs nothing but sound trees; the legs are in ``run.json`` a second time, under
a checksum too.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fbar.arrays import IntArray
from fbar.checks import counted
from fbar.errors import InputError, LedgerError
from fbar.ledger.codec import GARBAGE, Arrays, Block, checksum, decode, unpack
from fbar.ledger.database import Snapshot, require_own_files, timed
from fbar.ledger.legs import FORMAT, MOST_LEGS, Leg, read_json
from fbar.question.outcomes import Batch, Failure, Outcomes
from fbar.question.points import Points
from fbar.system.files import require_own_file

MOST_LISTED = 5
"""Damaged blocks that are named, at most."""

NUMBERED = "typeof(round) = 'integer' AND typeof(block) = 'integer'"
"""Blocks whose round and number can be read."""


def no_run(directory: Path) -> InputError:
    """The error of a directory in which nothing is recorded."""
    started = f"fbar infer MODEL.py --run {directory}, or fbar.infer(..., run=...)"
    return InputError(f"{directory} holds no run; start one with {started}")


class LedgerReader:
    """A run's file, open to be read, also while its driver is at work: as it was at one moment.

    ``damaged`` names what was found broken. Nothing is repaired, and nothing written.
    """

    legs: list[Leg]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory.resolve() / "ledger.sqlite"  # the simulator may change the working directory
        self.damaged: list[str] = []
        self.damaged_blocks: set[tuple[int, int]] = set()
        self.end_is_lost = False
        """Whether what was recorded last is missing."""
        self._all_read = False
        self._using = threading.RLock()  # the connection, which blocks that arrive use from another thread
        self._snapshot: Snapshot | None = None
        self._opened: sqlite3.Connection | None = None
        self._rows: dict[tuple[int, int], int] = {}
        self._unnumbered = 0
        self._prepare_directory()
        require_own_files(self.path)
        for name in ("run.json", "driver.lock"):
            require_own_file(directory / name)
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    def part(self, name: str) -> LedgerReader:
        """The record of a part of the run, in a directory within the run's."""
        return LedgerReader(self._part_directory(name))

    def _part_directory(self, name: str) -> Path:
        directory = self.directory / name
        if directory.is_symlink():
            raise LedgerError(f"{directory} is a link, which is not followed: a run's files are in its own directory")
        return directory

    # ------------------------------------------------------------ opening and closing

    def _prepare_directory(self) -> None:
        if not self.path.exists() and not self.path.is_symlink():
            raise no_run(self.directory)

    def _open(self) -> None:
        try:
            self._snapshot = Snapshot(self.path)
            self._opened = self._snapshot.connection
            if self._snapshot.lost:
                self._end_was_lost()
            self._read_contents()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise LedgerError(
                f"{self.path} cannot be read ({why}); rerun the original command to repair it, or: fbar resume "
                f"{self.directory}"
            ) from None

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        with self._using:
            self._close_files()

    def _close_files(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ what the file holds

    def _read_contents(self) -> None:
        with timed(self._connection, self.path):
            for version, crc in self._connection.execute("SELECT format, crc FROM formats LIMIT 100"):
                if version > FORMAT and crc == checksum(version):
                    raise LedgerError(
                        f"{self.directory} was made by a newer version of fbar (format {version}); update fbar"
                    )
            self._list_blocks()
            self.legs = [leg.as_now() for leg in self._read_legs()]

    def _list_blocks(self) -> None:
        self._rows, self._unnumbered, before = {}, 0, -(2**63)
        for row, round, block, numbered in self._connection.execute(
            f"SELECT id, CAST(round AS INTEGER), CAST(block AS INTEGER), {NUMBERED} FROM blocks ORDER BY id"
        ):
            if row <= before:
                raise sqlite3.DatabaseError("its pages are listed more than once")
            before = row
            if numbered:
                self._rows[round, block] = row
            else:
                self._unnumbered += 1
        if self._unnumbered:
            self._unnumbered_blocks_found()

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
        if ended:  # ledger.sqlite was written first
            self._end_was_lost()
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
        self._legs_found(legs)
        return legs

    def __len__(self) -> int:
        """Blocks on disk."""
        return len(self._rows)

    # ------------------------------------------------------------ what is damaged

    def _end_was_lost(self) -> None:
        if not self.end_is_lost:
            self.end_is_lost = True
            self.damaged.append("the end of the record (what was recorded last)")

    def _unnumbered_blocks_found(self) -> None:
        """Blocks whose round and number cannot be read: a reader counts them."""
        return

    def _legs_found(self, legs: Sequence[Leg]) -> None:
        """Legs that are not all sound in the file: a reader uses what there is."""
        return

    def _damaged_block_found(self, key: tuple[int, int], row: int) -> None:
        """A block that was asked for is damaged: a reader takes note."""
        self._note_damaged(key)

    def _note_damaged(self, key: tuple[int, int]) -> None:
        if self._snapshot is not None and self._snapshot.changed():
            raise LedgerError(f"{self.directory} changed while it was being read; rerun the command")
        if key not in self.damaged_blocks:
            self.damaged_blocks.add(key)
            self.damaged.append(f"block {key[1]} of round {key[0]}")

    def damage(self) -> str:
        """How many of the recorded blocks are damaged, and which, in words; nothing if all are sound."""
        if not self._all_read:
            for _ in self.blocks():
                pass
        broken, blocks = len(self.damaged_blocks) + self._unnumbered, len(self) + self._unnumbered
        if not broken:
            return (
                "the end of its record is lost, and with it the blocks that were recorded last"
                if self.end_is_lost
                else ""
            )
        listed = [f"block {block} of round {round}" for round, block in sorted(self.damaged_blocks)[:MOST_LISTED]]
        listed += [f"{broken - len(listed):,} more"] if broken > len(listed) else []
        verb = "is" if broken == 1 else "are"
        return f"{broken:,} of {counted(blocks, 'recorded block')} {verb} damaged ({', '.join(listed)})"

    # ------------------------------------------------------------ what was recorded

    def lookup(self, batch: Batch) -> Outcomes | None:
        """The recorded outcomes of a block; None if there are none, or they are damaged."""
        row = self._rows.get(batch.key)
        if row is None:
            return None
        found = self._read_block(row)
        if found is None:
            self._damaged_block_found(batch.key, row)
            return None
        if not found.answers(batch):
            raise LedgerError(
                f"block {batch.key} was recorded for other parameter values or another seed; the run was made by "
                "another version of fbar, or on a machine whose arithmetic differs: start a new run"
            )
        return found.outcomes

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
        with suppress(*GARBAGE):
            return decode(payload, seconds)
        return None

    def round_state(
        self, round: int, like: Arrays, as_now: Callable[[Arrays], Arrays] = lambda found: found
    ) -> Arrays | None:
        """What `Ledger.record_round` kept, by the names of ``like``; None if there is none, or it is damaged.

        ``as_now`` gives what an earlier version kept under the present names.
        """
        try:
            with self._using:
                row = self._connection.execute("SELECT payload, crc FROM rounds WHERE round = ?", (round,)).fetchone()
            if row is None:
                return None
            found = as_now(unpack(row[0])[0]) if checksum(round, row[0]) == row[1] else {}
            if set(found) == set(like):
                return found
        except (sqlite3.DatabaseError, *GARBAGE):
            pass
        self.damaged.append(f"the proposal of round {round}")
        return None

    def blocks(self) -> Iterator[tuple[int, int, Points, IntArray | None, Outcomes]]:
        """Every recorded block that is sound, in order of rounds and blocks; the others go into ``damaged``."""
        for (round, block), row in sorted(self._rows.items()):
            found = self._read_block(row)
            if found is None:
                self._note_damaged((round, block))
            else:
                yield round, block, found.points, found.repeats, found.outcomes
        self._all_read = True

    def simulations(self) -> int:
        """How many simulations the sound blocks hold."""
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
