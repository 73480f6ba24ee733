"""The write-ahead log, looked at from outside: whether it holds commits that SQLite no longer accepts.

SQLite reads a log up to the first frame whose checksum is wrong and takes that for its end, as it must after a crash of
the machine. Frames of the same log behind it that end a transaction show otherwise: they were committed once. Format:
https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

HEADER, FRAME = 32, 24
MAGIC = (0x377F0682, 0x377F0683)
OLDER = 2**20
"""Each new log has a first salt larger by one; frames of this many earlier logs may be left in the file."""


def lost_commits(connection: sqlite3.Connection, log: Path) -> bool:
    """Whether the log of a file that was just opened holds commits that are not read."""
    try:
        with log.open("rb") as file:
            head = file.read(HEADER)
            if len(head) < HEADER:
                return False
            magic, _, page, _, salt, other, *sums = struct.unpack(">8I", head)
            if magic not in MAGIC or _sums(head[:24], magic) != tuple(sums) or not 512 <= page <= 65536:
                return file.read(1) != b""
            valid = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
            number = 0
            while len(frame := file.read(FRAME + page)) == FRAME + page:
                number += 1
                if number <= valid:
                    continue
                _, commits, first, second = struct.unpack(">4I", frame[:16])
                if (first, second) == (salt, other):
                    if commits:
                        return True
                elif not 0 < (salt - first) % 2**32 < OLDER:
                    return True
    except OSError:
        return False
    return False


def _sums(data: bytes, magic: int) -> tuple[int, int]:
    first = second = 0
    words = struct.unpack(f"{'>' if magic & 1 else '<'}{len(data) // 4}I", data)
    for a, b in zip(words[::2], words[1::2], strict=True):
        first = (first + a + second) % 2**32
        second = (second + b + first) % 2**32
    return first, second
