"""The nodes of a nested quadrature over three parameters, and draws from the cells that they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Grid:
    """Nodes of θ5 and τ3, for each pair an interval of τ4; as cells, each with one node."""

    theta5: FloatArray
    tau3: FloatArray
    low: FloatArray
    high: FloatArray
    x: FloatArray
    w: FloatArray
    range5: tuple[float, float]
    range3: tuple[float, float]

    def tau4(self, i: int) -> FloatArray:
        return np.asarray(self.low[i][:, None] + (self.high - self.low)[i][:, None] * self.x)

    def log_weights(self) -> FloatArray:
        w = np.log(self.w)
        volume = np.log((self.range5[1] - self.range5[0]) * (self.range3[1] - self.range3[0]) * (self.high - self.low))
        return np.asarray(w[:, None, None] + w[:, None] + w + volume[..., None])

    def draw(self, unit: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """θ5, τ3, τ4 from the cells by their mass, evenly inside; and the log density of that.

        The weights of Gauss–Legendre, laid side by side, are cells with a node in each.
        """
        mass = mass / mass.sum() + 1e-6 * np.exp(self.log_weights() - self.log_weights().max())
        mass = mass / mass.sum()
        i, v5 = cell_of(unit[:, 0], mass.sum(axis=(1, 2))[None], np.zeros(len(unit), dtype=np.int64))
        plane = mass.sum(axis=2)
        j, v3 = cell_of(unit[:, 1], plane, i)
        size = len(self.x)
        k, v4 = cell_of(unit[:, 2], mass.reshape(size * size, size), i * size + j)
        ends = np.concatenate([[0.0], np.cumsum(self.w)])
        place5, place3, place4 = (ends[c] + self.w[c] * v for c, v in ((i, v5), (j, v3), (k, v4)))
        theta5 = self.range5[0] + (self.range5[1] - self.range5[0]) * place5
        tau3 = self.range3[0] + (self.range3[1] - self.range3[0]) * place3
        tau4 = self.low[i, j] + (self.high - self.low)[i, j] * place4
        return theta5, tau3, tau4, np.log(mass[i, j, k]) - self.log_weights()[i, j, k]


def cell_of(u: FloatArray, mass: FloatArray, row: IntArray) -> tuple[IntArray, FloatArray]:
    """The cell that u falls into, of the row's masses, and its place in the cell, in [0, 1]."""
    cumulated = np.cumsum(mass, axis=1)
    cumulated /= cumulated[:, -1:]
    # all rows in one sorted sequence: row r occupies (r, r + 1]
    flat = (cumulated + np.arange(len(mass))[:, None]).ravel()
    index = np.minimum(np.searchsorted(flat, row + u, side="right") - row * mass.shape[1], mass.shape[1] - 1)
    index = np.maximum(index, 0)
    upper = cumulated[row, index]
    lower = np.where(index > 0, cumulated[row, np.maximum(index - 1, 0)], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.where(upper > lower, (u - lower) / (upper - lower), 0.5)
    return index, np.clip(place, 0, 1)
