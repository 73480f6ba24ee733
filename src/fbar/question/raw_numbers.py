"""The raw numbers of a sample of simulations, kept where a summary function replaces the data.

They show whether the summaries lose information, see `fbar.estimation.at_data.loss_from_raw_data`. Which simulations
are kept depends on their numbers only: some of the first blocks of every round, spread evenly over each block.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.question.outcomes import Batch

MOST_OF_BLOCK, MOST_OF_ROUND, MOST_OF_RUN = 250, 1000, 4000
"""Simulations whose raw numbers are kept, at most."""

MOST_BYTES = 50_000_000
"""What these numbers take in memory, at most."""


def most_of_run(numbers: int) -> int:
    """How many simulations of a run are kept, at most, each with so many raw numbers."""
    return min(MOST_OF_RUN, MOST_BYTES // (8 * max(numbers, 1)))


def number_kept(batch: Batch, numbers: int) -> int:
    """How many of a block's simulations are kept, each with so many raw numbers; 0 numbers are not kept."""
    if not numbers or batch.repeats is not None:
        return 0
    of_round = MOST_OF_ROUND * most_of_run(numbers) // MOST_OF_RUN
    each = min(batch.simulations, MOST_OF_BLOCK)
    return max(min(each, of_round - batch.block * each), 0)


def places_kept(simulations: int, kept: int) -> IntArray:
    """Their places in a block."""
    return np.linspace(0, simulations - 1, kept).astype(np.int64)


class RawNumbers:
    """Those of a run: ``rows`` are the numbers of the simulations, in rising order, and ``values`` (n, d) theirs.

    Where they become too many, every other one of those before is left out. ``numbers`` is d; others are not taken.
    """

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self._rows: list[IntArray] = []
        self._values: list[FloatArray] = []
        self._size = 0

    def add(self, first: int, simulations: int, raw: FloatArray) -> None:
        """Take the raw numbers of a block whose first simulation has the number ``first``."""
        flat = raw.reshape(len(raw), -1) if raw.size else np.zeros((0, 0))
        if not self._numbers or flat.shape[1] != self._numbers:
            return
        self._rows.append(first + places_kept(simulations, len(raw)))
        self._values.append(flat)
        self._size += len(raw)
        if self._size > most_of_run(self._numbers):
            self._rows, self._values = [self.rows[1::2]], [self.values[1::2].copy()]
            self._size = len(self._rows[0])

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> IntArray:
        return np.concatenate(self._rows) if self._rows else np.zeros(0, dtype=np.int64)

    @property
    def values(self) -> FloatArray:
        return np.concatenate(self._values) if self._values else np.zeros((0, self._numbers))
