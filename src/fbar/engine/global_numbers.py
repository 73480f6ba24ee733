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
import numpy.typing as npt

from fbar.outcomes import Batch
from fbar.seeds import Purpose, Seeds

_WORDS = 4
"""Words of 32 bits that a global generator is seeded with."""

_AFTER = 8
"""Words of a row's seed sequence that its own generator takes; the global ones take the next."""

_State: TypeAlias = tuple[np.random.BitGenerator, Any]


def _installed() -> np.random.BitGenerator:
    generator: np.random.BitGenerator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    return generator


def _install(generator: np.random.BitGenerator) -> None:
    np.random.set_bit_generator(generator)  # type: ignore[attr-defined]


class _Inside:
    """The threads that are inside `put_aside`: how many, and what the global generators were before the first came.

    Each thread has generators of its own to put in their place, one for each level that it is inside.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads = 0
        self.before: _State | None = None
        self.here = threading.local()

    def enter(self) -> _State:
        before = _installed(), random.getstate()
        level, spare = self._level(1), self._spare()
        with self.lock:
            if level == 1:
                self.before = before if self.threads == 0 else self.before
                self.threads += 1
            _install(spare)
        return before

    def leave(self, before: _State) -> None:
        level = self._level(-1)
        with self.lock:
            if level == 0:
                self.threads -= 1
                if self.threads:  # the last one to leave puts everything back
                    return
                before = self.before or before
            _install(before[0])
            random.setstate(before[1])

    def _level(self, more: int) -> int:
        self.here.level = getattr(self.here, "level", 0) + more
        return int(self.here.level)

    def _spare(self) -> np.random.BitGenerator:
        spares = self.here.__dict__.setdefault("spares", [])
        while len(spares) < self.here.level:
            spares.append(np.random.MT19937())
        spare: np.random.BitGenerator = spares[self.here.level - 1]
        return spare


_inside = _Inside()
if hasattr(os, "register_at_fork"):  # another thread may hold the lock at that moment
    os.register_at_fork(after_in_child=_inside.__init__)  # type: ignore[misc]


class Use:
    """In how many blocks simulations were watched, and how many of those drew from global numbers at their end."""

    def __init__(self) -> None:
        self.blocks = self.drawn = 0
        self._seeded: tuple[Any, ...] | None = None

    def begin(self) -> None:
        self._seeded = _state()

    def end(self) -> None:
        if self._seeded is not None:
            self.blocks += 1
            self.drawn += self._seeded != _state()
            self._seeded = None


_use: ContextVar[Use | None] = ContextVar("_use", default=None)


@contextmanager
def watch() -> Iterator[Use]:
    """Look whether blocks that are simulated meanwhile in this thread draw from global numbers."""
    token = _use.set(use := Use())
    try:
        yield use
    finally:
        _use.reset(token)


def _state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].tobytes(), state[2], random.getstate()


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


def _seed(words: npt.NDArray[Any]) -> None:
    np.random.seed(words)  # noqa: NPY002 - this is about the global generator
    random.seed(words.tobytes())
    if (use := _use.get()) is not None:
        use.begin()


@contextmanager
def seeded(seeds: Seeds, round: int = 0, block: int = 0, row: int = 0) -> Iterator[None]:
    """Global numbers that follow from the seeds, until the end."""
    with put_aside():
        _seed(seeds.sequence(Purpose.GLOBAL, round, block, row).generate_state(_WORDS))
        yield


def begin_row(batch: Batch, row: int) -> np.random.Generator:
    """The generator of one row, the global ones seeded for it; inside `put_aside`."""
    sequence = batch.row_sequence(row)
    _seed(sequence.generate_state(_AFTER + _WORDS)[_AFTER:])
    return np.random.Generator(np.random.PCG64(sequence))
