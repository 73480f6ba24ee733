"""A value of every simulation of a run, kept in memory up to a size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.kept import Kept

NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class NotKept(Exception):
    """What was asked for is not in memory."""


class Column:
    """A value of every simulation; once they are more than ``most`` numbers, of the near ones only or of none.

    ``near`` are the rows of the near simulations, as the store lists them; None where none are kept.

    >>> rows = Kept()
    >>> column = Column(3, rows)
    >>> for values, near in (([1.0, 2.0], [1]), ([3.0, 4.0], [2])):
    ...     rows.add(np.array(near))
    ...     column.add(np.array(values), np.array(near))
    >>> column.whole, column.take(np.array([1, 2]))
    (False, array([2., 3.]))
    """

    def __init__(self, most: float = math.inf, near: Kept | None = None) -> None:
        self._most, self._near = most, near
        self._values = Kept()
        self._size = self._numbers = 0
        self.whole = True
        """Whether it is kept for every simulation so far."""
        self.empty = False
        """Whether nothing of it is kept."""

    def add(self, values: npt.NDArray[Any] | None, near: IntArray) -> None:
        """A block's values and the rows of its near simulations; without values nothing is kept any more."""
        if values is None:
            self.drop()
        if values is None or self.empty:
            return
        self._numbers += values.size
        if self.whole and self._numbers > self._most:
            self._shrink()
        if self.whole:
            self._values.add(values)
        elif near.size and not self.empty:
            self._values.add(values[near - self._size])
        self._size += len(values)

    def _shrink(self) -> None:
        """From here on the near ones only."""
        if self._near is None:
            self.drop()
            return
        rows, before = rows_in(self._near), self._values
        rows = rows[rows < self._size]
        self.whole, self._values = False, Kept()
        if rows.size:
            self._values.add(before.take(rows))

    def drop(self) -> None:
        """Nothing is kept any more."""
        self.whole, self.empty = False, True
        self._values = Kept()

    def narrow(self, places: IntArray) -> None:
        """Of the near simulations only some are left, given by their places in the list."""
        if not self.whole and not self.empty:
            before, self._values = self._values, Kept()
            if places.size:
                self._values.add(before.take(places))

    def between(self, first: int, last: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """The values from one simulation to before another, part by part, each with the number of its first one."""
        if not self.whole:
            raise NotKept
        return self._values.between(first, last)

    def take(self, rows: IntArray) -> npt.NDArray[Any]:
        """The values of some simulations; `NotKept` where some are not in memory."""
        return self._values.take(self._places(rows)) if rows.size else np.zeros(0)

    def flat(self, rows: IntArray, size: int) -> FloatArray:
        """The same as ``size`` numbers each; NaN in a block of another shape, all of whose simulations failed."""
        places, start, found = self._places(rows), 0, np.full((rows.size, size), np.nan)
        for part in self._values.parts:
            mine = np.flatnonzero((places >= start) & (places < start + len(part)))
            if mine.size and part[:1].size == size:
                found[mine] = part[places[mine] - start].reshape(mine.size, size)
            start += len(part)
        return found

    def _places(self, rows: IntArray) -> IntArray:
        if self.empty:
            raise NotKept
        if self.whole or not rows.size:
            return rows
        assert self._near is not None
        return places_in(rows_in(self._near), rows)


def rows_in(listed: Kept) -> IntArray:
    """Rows that were added block by block."""
    return np.asarray(listed.whole()) if len(listed) else NOTHING


def places_in(listed: IntArray, rows: IntArray) -> IntArray:
    """Where rows stand in a rising list; `NotKept` where some do not."""
    at = np.minimum(np.searchsorted(listed, rows), max(listed.size - 1, 0))
    if rows.size and (not listed.size or (listed[at] != rows).any()):
        raise NotKept
    return np.asarray(at)
