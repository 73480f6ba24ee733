"""Draws of θ from a finite space, as numbers of draws of each value."""

from __future__ import annotations

from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.methods.finite.cells import CellRun
from fbar.question.outcomes import Batch
from fbar.seeds import Purpose


class SamplingRun(CellRun):
    words = "draws from q"

    def __init__(self, q: FloatArray, *arguments: Any, **options: Any) -> None:
        self.q = q
        super().__init__(*arguments, **options)
        if np.allclose(q, self.prior):
            self.words = "draws from the prior"

    def _round_counts(self, size: int) -> IntArray:
        return np.array([size])

    def _block(self, block: int) -> Batch:
        """Every block draws for itself, so that part of a round is a sample like the whole."""
        total = int(self.plan[0])
        size = total if self.block_size is None else min(self.block_size, total - block * self.block_size)
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        repeats = rng.multinomial(size, self.q, size=self.counts.shape[:-1])
        cells = np.arange(self.q.size)
        if repeats.ndim == 1:
            cells = np.flatnonzero(repeats)
            repeats = repeats[cells]
        return Batch(self.round, block, self._points.take(cells), repeats, self.seeds, cells)
