"""Simulators that draw from Python's or numpy's global random numbers instead of the generator they are given.

Whether a simulator does so cannot be known before it runs, so that every block, and every row of a simulator that runs
them one by one, finds the global generators seeded by its own key: forked workers do not share their numbers, and the
same seed gives the same result. What the global generators were before is put back. Where other threads of the process
draw from them too (an executor of threads, Dask's own), nothing of this can be promised; `watch` finds out whether it
matters.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from fbar.question.outcomes import Batch
from fbar.seeds import Purpose, Seeds

_State: TypeAlias = tuple[Any, Any]


def _state() -> _State:
    return np.random.get_state(), random.getstate()  # noqa: NPY002 - this is about the global generators


def _put_back(state: _State) -> None:
    np.random.set_state(state[0])  # noqa: NPY002 - numpy's global generator is meant
    random.setstate(state[1])


def _same(first: _State, second: _State) -> bool:
    (_, key, place, *_), (_, other, where, *_) = first[0], second[0]
    return place == where and first[1] == second[1] and np.array_equal(key, other)


class _Inside:
    """The threads that are inside `put_aside`: how many, and what the global generators were before the first came."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """No thread is inside: at the start, and in a new process, where a thread that is gone may hold the lock."""
        self.lock = threading.Lock()
        self.threads = self.entries = 0
        self.before: _State | None = None
        self.here = threading.local()

    def enter(self) -> _State:
        with self.lock:
            before = _state()
            self.here.level = getattr(self.here, "level", 0) + 1
            if self.here.level == 1:
                self.before = before if self.threads == 0 else self.before
                self.threads += 1
                self.entries += 1
        return before

    def leave(self, before: _State) -> None:
        with self.lock:
            self.here.level -= 1
            if self.here.level == 0:
                self.threads -= 1
                if self.threads:  # the last one to leave puts everything back
                    return
                before = self.before or before
            _put_back(before)


_inside = _Inside()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inside.begin)


class Use:
    """How many blocks were watched that ran beside other threads, and in how many of them global numbers were drawn.

    Where another thread simulates at the same time, and seeds the same numbers, nothing can be seen.
    """

    MOST_ROWS = 20
    """Rows of a block that are looked at."""

    def __init__(self) -> None:
        self.blocks = self.drawn = self._rows = self._entries = 0
        self._seeded: _State | None = None
        self._drew = False

    def begin(self) -> None:
        """Numbers were seeded, for a block or for another row of it."""
        self._rows += 1
        self._entries = _inside.entries if self._rows == 1 else self._entries
        self._seeded = _state() if self._rows <= self.MOST_ROWS else None

    def end(self) -> None:
        """A block is over."""
        self.look()
        alone = _inside.threads == 1 and _inside.entries == self._entries
        if self._rows and alone and threading.active_count() > 1:
            self.blocks += 1
            self.drawn += self._drew
        self._rows, self._seeded, self._drew = 0, None, False

    def look(self) -> None:
        """Were numbers drawn since they were seeded?"""
        if self._seeded is not None and not self._drew:
            self._drew = not _same(self._seeded, _state())


_use: ContextVar[Use | None] = ContextVar("_use", default=None)


@contextmanager
def watch() -> Iterator[Use]:
    """Look whether blocks that are simulated meanwhile in this thread draw from global numbers."""
    token = _use.set(use := Use())
    try:
        yield use
    finally:
        _use.reset(token)


@contextmanager
def put_aside() -> Iterator[None]:
    """Global numbers that may be seeded at will; those of before are put back at the end."""
    before = _inside.enter()
    try:
        yield
    finally:
        if (use := _use.get()) is not None:
            use.end()
        _inside.leave(before)


def _begun() -> None:
    if (use := _use.get()) is not None:
        use.begin()


@contextmanager
def seeded(seeds: Seeds, round: int = 0, block: int = 0, row: int = 0) -> Iterator[None]:
    """Global numbers that follow from the seeds, until the end."""
    with put_aside():
        words = seeds.sequence(Purpose.GLOBAL, round, block, row).generate_state(4)
        np.random.seed(words)  # noqa: NPY002 - for simulators that draw from the global generator
        random.seed(words.tobytes())
        _begun()
        yield


def begin_row(batch: Batch, row: int) -> np.random.Generator:
    """The generator of one row, the global ones seeded for it; inside `put_aside`.

    Its own takes eight words of the row's seed sequence, the global ones one each of those that follow: quicker, and
    enough for generators that no simulator should use.
    """
    if (use := _use.get()) is not None:
        use.look()
    sequence = batch.row_sequence(row)
    *_, first, second = sequence.generate_state(10)
    np.random.seed(first)  # noqa: NPY002 - for simulators that draw from the global generator
    random.seed(int(second))
    _begun()
    return np.random.Generator(np.random.PCG64(sequence))
