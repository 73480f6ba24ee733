"""Files that are whole or not there at all, and that are never written or read through a link.

A run's directory may come from somebody else: a link in it would let its author name any file of the reader.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fbar.errors import LedgerError

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
PIECE = 2**16
"""Bytes that are copied at a time."""


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A new file beside ``path`` to write to, of the same suffix, which takes its place when all is on the disk.

    Whatever goes wrong on the way, a full disk for one, leaves the old file as it was. A link at ``path`` is replaced,
    not followed. A device such as ``/dev/stdout`` is written to as it is.
    """
    if path.is_absolute() and path.parts[1:2] == ("dev",) and not path.is_file():
        yield path
        return
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(21, "it is a directory", str(path))
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    new = Path(name)
    try:
        os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        yield new
        with open(new, "rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write a text in the place of what was there, whole or not at all."""
    with written_beside(path) as new:
        new.write_text(text, encoding="utf-8", errors="replace")


def replace_text(path: Path, text: str) -> None:
    """The same for a text that is written often and may be lost with the machine: it is not forced to the disk.

    Only one process may write it at a time: what it writes to meanwhile has always the same name, ``path`` with .new.
    """
    new = path.with_name(f"{path.name}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINKS, 0o644)
    with open(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    new.replace(path)


def copy(source: Path, target: Path) -> None:
    """Copy a file to where none is, without following links; what is hollow stays so and takes no room."""
    handle = os.open(source, os.O_RDONLY | NO_LINKS)
    new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o644)
    with open(handle, "rb") as old, open(new, "wb") as file:
        while data := old.read(PIECE):
            if data.count(0) == len(data):
                file.seek(len(data), os.SEEK_CUR)
            else:
                file.write(data)
        file.truncate()


def require_own_file(path: Path) -> None:
    """Refuse what is there under a run's file name and is no ordinary file; that there is none is fine."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise LedgerError(f"{path} is a link, which is not followed: a run's files are in its own directory")
    if not stat.S_ISREG(mode):
        raise LedgerError(f"{path} is not an ordinary file")


def read_text(path: Path, most: int) -> str:
    """A text of a run's directory, of ``most`` bytes at the largest; a link is refused."""
    require_own_file(path)
    handle = os.open(path, os.O_RDONLY | NO_LINKS)
    with open(handle, encoding="utf-8") as file:
        size = os.fstat(handle).st_size
        if size > most:
            raise LedgerError(f"{path} is too large: {size:,} bytes; the limit is {most:,}")
        return file.read()
