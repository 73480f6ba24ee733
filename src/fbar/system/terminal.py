"""Text on a terminal that others use too: cleaned, cut to its width, drawn over and wiped."""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Kinds of characters that move the cursor, turn the text round or show as nothing."""


def clean(text: str) -> str:
    """A text on one line whose characters can do nothing to a terminal: those that could are written as escapes.

    >>> print(clean("a\\x1b[2Jb\\u202ec"), clean("two\\nlines"))
    a\\x1b[2Jb\\u202ec two\\nlines
    """
    if text.isprintable():
        return text
    return "".join(_visible(c) if unicodedata.category(c) in UNSAFE else c for c in text)


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode()


def clean_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(clean(line) for line in text.split("\n"))


def cells(text: str) -> int:
    """How many columns a text takes: two for East Asian wide characters, none for combining ones.

    >>> cells("R0"), cells("人口"), cells("e\u0301")
    (2, 4, 1)
    """
    return sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """At most so many columns of a text; … where something was left out.

    >>> cut("influenza", 6), cut("人口密度", 5), cut("R0", 6)
    ('influ…', '人口…', 'R0')
    """
    if cells(text) <= columns:
        return text
    kept, used = "", 0
    for c in text:
        used += _cells(c)
        if used > columns - 1:
            break
        kept += c
    return kept + "…" if columns > 0 else ""


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - cells(text))


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default standard error, is a terminal on which the cursor can be moved."""
    stream = stream or sys.stderr
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False


def size(stream: TextIO | None = None) -> tuple[int, int]:
    """Columns and rows of the terminal behind a stream, by default standard error."""
    try:
        found = os.get_terminal_size((stream or sys.stderr).fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


class Screen:
    """A few lines at the end of a terminal that are drawn over one another, and leave nothing behind.

    They go to ``stream``, by default to what standard error is at the time.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._drawn: list[str] = []

    def draw(self, lines: Sequence[str]) -> None:
        columns, _ = size(self._stream)
        shown = [cut(line, columns - 1) for line in lines]  # in the last column some terminals begin a new line
        text = self._back(columns) + "\r\n".join(f"{line}\x1b[K" for line in shown) + "\x1b[J"
        try:
            self.write(text)
        finally:  # Ctrl-C comes when the write has returned: the lines are there, and must be wiped
            self._drawn = shown

    def wipe(self) -> None:
        if self._drawn:
            self.write(self._back(size(self._stream)[0]) + "\x1b[J")
            self._drawn = []

    def _back(self, columns: int) -> str:
        """To the first column of the first line; one that was drawn on a wider terminal takes several rows by now."""
        if not self._drawn:
            return "\r"
        rows = sum(max(1, -(-cells(line) // columns)) for line in self._drawn)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "")

    def write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        stream.write(text)
        stream.flush()


PATIENCE, PAUSE = 2.0, 0.2
"""Seconds before a terminal shows anything, and between two drawings."""


class Line:
    """What is said of work that takes a while."""

    def __init__(self, what: str) -> None:
        self._what, self._more, self._count = what, "", 0
        self._begun = time.monotonic()

    def say(self, more: str) -> None:
        self._more = more

    def count(self, more: int, name: str) -> None:
        self._count += more
        self._more = f"{self._count:,} {name}s"

    def text(self) -> str:
        told = [self._what, self._more, f"{time.monotonic() - self._begun:.0f} s"]
        return clean(", ".join(part for part in told if part))


@contextmanager
def waiting(what: str, *, shown: bool = True) -> Iterator[Line]:
    """Say what takes so long on a line of the terminal, from two seconds on; it leaves nothing behind.

    A thread draws it, since work such as a fit cannot be asked how far it is. Where standard error is no terminal, and
    where another line is there already, nothing is said.
    """
    line = Line(what)
    if not shown or not is_terminal() or not _free.acquire(blocking=False):
        yield line
        return
    over, screen = threading.Event(), Screen()

    def draw() -> None:
        pause = PATIENCE
        while not over.wait(pause):
            try:
                screen.draw([line.text()])
            except (AttributeError, OSError, ValueError):  # nobody listens any more
                return
            pause = PAUSE

    thread = threading.Thread(target=draw, name="fbar waiting", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join()
        with suppress(AttributeError, OSError, ValueError):
            screen.wipe()
        _free.release()


_free = threading.Lock()
"""Whether the terminal's last line is nobody's."""
