"""Where the simulations of a run are: kept while they are few, and drawn again from their seeds when there are many.

What a block draws depends on the seed and on its round's proposal only, so it can be had again at any time. Of a long
run the first coordinates are kept, those near the data, and those that were asked for once; the rest, most of it far
from the data, is drawn again if somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fbar.arrays import BoolArray, IntArray
from fbar.estimation.kept import MOST_BLOCKS, Kept, missing
from fbar.question.points import Points
from fbar.question.space import Particles

FIRST = 2**20
"""Simulations from the beginning whose coordinates are kept."""

MOST_REMEMBERED = 2**22
"""Later ones that are kept because they were asked for, at most."""

Rows = Callable[[IntArray], Particles]


class Coordinates:
    """The particles of all simulations. ``again`` draws those of some rows once more, in order; None keeps all.

    ``several`` says whether there are several models.
    """

    def __init__(self, dimension: int, several: bool, again: Rows | None) -> None:
        self._several, self._again = several, again
        self._x, self._model = Kept(), Kept()
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        self._near = Particles(np.zeros(0, dtype=np.int64), np.zeros((0, dimension)))
        self._new: list[tuple[IntArray, Particles]] = []
        self._size = 0

    def add(self, particles: Particles, near: IntArray) -> None:
        """Those of a block; ``near`` are the rows that will be asked for."""
        if self._again is None or self._size < FIRST:
            self._x.add(particles.x)
            if self._several:
                self._model.add(particles.model)
        elif near.size:
            self._new.append((self._size + near, particles.take(near)))
        self._size += len(particles)

    def take(self, rows: IntArray) -> Particles:
        first = len(self._x)
        if not rows.size or rows.max() < first:
            model = self._model.take(rows) if self._several else np.zeros(rows.size, dtype=np.int64)
            return Particles(model, self._x.take(rows))
        early = rows < first
        if not early.any():
            return self._late(rows)
        return _merged(early, self.take(rows[early]), self._late(rows[~early]))

    def _late(self, rows: IntArray) -> Particles:
        """Rows of which only some are kept."""
        self._join()
        new = missing(rows, self._rows)
        if not new.size:
            return self._near.take(np.searchsorted(self._rows, rows))
        assert self._again is not None
        drawn = self._again(new)
        if self._rows.size + new.size <= MOST_REMEMBERED:
            at = np.searchsorted(self._rows, new)
            model, x = np.insert(self._near.model, at, drawn.model), np.insert(self._near.x, at, drawn.x, axis=0)
            self._rows, self._near = np.insert(self._rows, at, new), Particles(model, x)
            return self._near.take(np.searchsorted(self._rows, rows))
        place = np.minimum(np.searchsorted(new, rows), new.size - 1)
        which = new[place] == rows
        known = self._near.take(np.searchsorted(self._rows, rows[~which]))
        return _merged(which, drawn.take(place[which]), known)

    def _join(self) -> None:
        """What was added since stands behind all that is there."""
        if self._new:
            self._rows = np.concatenate([self._rows, *(rows for rows, _ in self._new)])
            self._near = Particles.concatenate([self._near, *(particles for _, particles in self._new)])
            self._new = []


def _merged(which: BoolArray, first: Particles, others: Particles) -> Particles:
    """Particles from two lists: the first one's where ``which`` is true."""
    model, x = np.empty(which.size, dtype=np.int64), np.empty((which.size, first.x.shape[1]))
    model[which], model[~which] = first.model, others.model
    x[which], x[~which] = first.x, others.x
    return Particles(model, x)


class DrawnPoints:
    """θ of draws from one design: the near ones are kept, all others drawn again by ``again``, in rising order."""

    def __init__(self, again: Callable[[IntArray], Points]) -> None:
        self._again = again
        self._parts: list[Points] = []
        self._waiting: list[Points] = []

    def add(self, theta: Points, near: IntArray) -> None:
        self._waiting.append(theta if near.size == theta.rows else theta.take(near))
        if len(self._waiting) >= MOST_BLOCKS:
            self._join()

    def _join(self) -> None:
        if self._waiting:
            self._parts.append(Points.concatenate(self._waiting))
            self._waiting = []

    def near(self) -> Points:
        """The near draws, with the outputs that all of them recorded."""
        self._join()
        if len(self._parts) > 1:
            self._parts = [Points.concatenate(self._parts)]
        return self._parts[0]

    def replace(self, near: Points) -> None:
        """Keep others in place of the near ones."""
        self._parts, self._waiting = [near], []

    def take(self, rows: IntArray) -> Points:
        return self._again(rows)
