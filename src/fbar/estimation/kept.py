"""Rows of simulations that come block by block, and are kept without a copy of all of them ever being made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import IntArray

PART = 2**16
"""Rows in an array, about: few arrays for many blocks, and little to copy when some are joined."""

MOST_BLOCKS = 1024
"""Blocks that wait to be joined, at most: each costs some hundred bytes in addition to its rows."""


def missing(rows: IntArray, known: IntArray) -> IntArray:
    """Rows that are not among the known ones, each once and in order; ``known`` are in order.

    >>> missing(np.array([5, 2, 9, 5]), np.array([2, 3]))
    array([5, 9])
    """
    new = rows
    if known.size:
        at = np.minimum(np.searchsorted(known, rows), known.size - 1)
        new = rows[known[at] != rows]
    return new if (new[1:] > new[:-1]).all() else np.unique(new)


class Kept:
    """A growing array in parts. Blocks of few rows are joined, so that blocks of one take no more than their number.

    >>> kept = Kept()
    >>> for block in ([0.5, 1.5], [2.5]):
    ...     kept.add(np.array(block))
    >>> kept.take(np.array([2, 0])), len(kept)
    (array([2.5, 0.5]), 3)
    """

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[Any]] = []
        self._waiting: list[npt.NDArray[Any]] = []
        self._rows = self._rows_waiting = 0

    def __len__(self) -> int:
        return self._rows

    def clear(self) -> None:
        """Keep no row any more."""
        self._parts, self._waiting = [], []
        self._rows = self._rows_waiting = 0

    def add(self, block: npt.NDArray[Any]) -> None:
        self._waiting.append(block)
        self._rows += len(block)
        self._rows_waiting += len(block)
        if self._rows_waiting >= PART or len(self._waiting) >= MOST_BLOCKS:
            self._join()

    def _join(self) -> None:
        if not self._waiting:
            return
        waiting = self._waiting
        if self._parts and len(self._parts[-1]) < PART:
            waiting = [self._parts.pop(), *waiting]
        alike: list[npt.NDArray[Any]] = []
        for block in waiting:
            if alike and (block.dtype, block.shape[1:]) != (alike[0].dtype, alike[0].shape[1:]):
                self._parts.append(np.concatenate(alike))
                alike = []
            alike.append(block)
        self._parts.append(np.concatenate(alike))
        self._waiting, self._rows_waiting = [], 0

    @property
    def parts(self) -> list[npt.NDArray[Any]]:
        """All rows, in order."""
        self._join()
        return self._parts

    def whole(self) -> npt.NDArray[Any]:
        """All rows in one array: a copy."""
        return np.concatenate(self.parts)

    def between(self, first: int, last: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """The rows from ``first`` to before ``last``, part by part, each with the number of its first row."""
        start = 0
        for part in self.parts:
            low, high = max(first - start, 0), min(last - start, len(part))
            if low < high:
                yield start + low, part[low:high]
            start += len(part)

    def take(self, rows: IntArray) -> npt.NDArray[Any]:
        """Some rows, in the order that is asked for."""
        parts = self.parts
        if len(parts) == 1 or not rows.size:
            return np.asarray(parts[0][rows])
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            found = self.take(rows[order])
            result = np.empty_like(found)
            result[order] = found
            return result
        starts = np.cumsum([0, *map(len, parts)])
        cuts = np.searchsorted(rows, starts)
        return np.concatenate(
            [
                part[rows[low:high] - start]
                for part, start, low, high in zip(parts, starts, cuts, cuts[1:], strict=False)
                if low < high
            ]
        )
