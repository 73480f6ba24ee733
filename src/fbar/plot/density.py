"""Densities of weighted points: on an interval by diffusion, which keeps to the interval, or bars for single values.

A kernel estimate by diffusion (Botev, Grotowski & Kroese 2010) lets the weights, as a histogram on a fine grid, flow
for a time t = h² with nothing lost at the ends: in the cosine series of the interval [0, 1] the k-th coefficient falls
by exp(−k² π² t/2). Inside it is the Gaussian kernel of deviation h, at the ends that of the reflected points. h is the
solution of their fixed-point equation, which needs no normal reference and so keeps modes apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import dct, idct

from fbar.arrays import FloatArray
from fbar.weights import effective_size

CELLS = 512
"""Of the grid of one parameter; for two see `fbar.plot.pairs`."""

MOST_VALUES = 200
"""Values that are shown one by one; whole numbers with more are shown as a density."""

LEAST = 0.2
"""The least bandwidth in terms of Silverman's."""

STEPS = 7
"""Of the fixed-point equation, as its authors have it."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Where a parameter's distribution is shown: cells between ``edges``, or single ``values``.

    With ``log`` the cells are equally wide in ln x, and densities are those of ln x: x p(x).
    """

    edges: FloatArray | None
    values: tuple[Any, ...] = ()
    log: bool = False

    @property
    def discrete(self) -> bool:
        return self.edges is None

    @property
    def numeric(self) -> bool:
        return self.edges is not None or not any(isinstance(value, str) for value in self.values)

    @property
    def x(self) -> FloatArray:
        """The middles of the cells, the values, or the places of labels."""
        if self.edges is not None:
            low, high = self.edges[:-1], self.edges[1:]
            return np.asarray(np.sqrt(low * high) if self.log else (low + high) / 2)
        return np.asarray(self.values if self.numeric else range(len(self.values)), dtype=np.float64)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, self.values))

    def cells(self, column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The cell or value of each point; −1 for none."""
        if self.edges is not None:
            found = np.searchsorted(self.edges, column.astype(np.float64), side="right") - 1
            found[column == self.edges[-1]] = self.edges.size - 2
            return np.where(found < self.edges.size - 1, found, -1)
        found = np.full(column.size, -1, dtype=np.int64)
        for number, value in enumerate(self.values):
            found[column == value] = number
        return found


def axis(
    column: npt.NDArray[Any],
    weights: FloatArray,
    bounds: tuple[float, float],
    values: Sequence[Any] | None = None,
    cells: int = CELLS,
    log: bool = False,
) -> Axis:
    """The posterior's range with a margin, inside the bounds; all of a bounded prior's range where that is not far.

    On a logarithmic axis all this is meant of ln x.
    """
    if values is None and (column.dtype.kind not in "f" or _repeated(column)):
        values = np.unique(column).tolist() if column.dtype != object else sorted(set(column.tolist()), key=str)
    if values is not None and (column.dtype.kind not in "iuf" or len(values) <= MOST_VALUES):
        return Axis(None, tuple(values))
    numbers = column.astype(np.float64)[weights != 0]
    log = log and bool((numbers > 0).all())
    if log:
        with np.errstate(divide="ignore"):
            numbers, bounds = np.log(numbers), (float(np.log(max(bounds[0], 0.0))), float(np.log(bounds[1])))
    low, high = float(numbers.min()), float(numbers.max())
    span = (high - low) or abs(high) or 1.0
    first, last = max(bounds[0], low - 0.15 * span), min(bounds[1], high + 0.15 * span)
    if math.isfinite(bounds[1] - bounds[0]) and bounds[1] - bounds[0] < 2.5 * span:
        first, last = bounds
    if not first < last:
        first, last = low - span / 2, high + span / 2
    edges = np.linspace(first, last, cells + 1)
    return Axis(np.exp(edges), log=True) if log else Axis(edges)


def _repeated(column: FloatArray) -> bool:
    """Whether numbers are so few, and each so often there, that they are values of a finite set."""
    return column.size > 20 and np.unique(column[:2000]).size <= min(50, column[:2000].size // 5)


def masses(where: Axis, column: npt.NDArray[Any], weights: FloatArray) -> FloatArray:
    """The share of the weight in each cell or at each value; what lies outside is left out of all of it."""
    cells = where.cells(column)
    inside = cells >= 0
    size = where.x.size
    return np.asarray(np.bincount(cells[inside], weights[inside], size) / weights.sum(), dtype=np.float64)


def density(where: Axis, column: npt.NDArray[Any], weights: FloatArray, least: float = LEAST) -> FloatArray:
    """The density at the middle of each cell, or the probability of each value."""
    mass = masses(where, column, weights)
    if where.edges is None:
        return mass
    width = float(np.log(where.edges[1] / where.edges[0]) if where.log else where.edges[1] - where.edges[0])
    return smoothed(mass, bandwidth(mass, effective(weights[where.cells(column) >= 0]), least)) / width


def effective(weights: FloatArray) -> float:
    """(Σw)²/Σw²; 1 of no weights."""
    return effective_size(weights) if weights.any() else 1.0


def smoothed(mass: FloatArray, h: float, along: int = -1) -> FloatArray:
    """The masses after they have flowed for the time h², with h in units of the interval; none is negative."""
    size = mass.shape[along]
    decay = np.exp(-((np.arange(size) * math.pi) ** 2) * h**2 / 2)
    shape = [1] * mass.ndim
    shape[along] = size
    flowed = idct(dct(mass, axis=along) * decay.reshape(shape), axis=along)
    total = mass.sum()
    flowed = np.maximum(flowed, 0.0)
    return np.asarray(flowed * (total / flowed.sum()) if flowed.sum() > 0 and total > 0 else flowed)


def bandwidth(mass: FloatArray, number: float, least: float = LEAST) -> float:
    """h in units of the interval; Silverman's rule where the fixed point is not to be found.

    It is kept above a share ``least`` of Silverman's, as points that are there twice would let it fall to nothing, and
    above the width of a cell.
    """
    x, total = (np.arange(mass.size) + 0.5) / mass.size, float(mass.sum())
    if not total > 0:
        return 1 / mass.size
    centre = float((mass * x).sum()) / total
    silverman = 0.9 * math.sqrt(max(float((mass * (x - centre) ** 2).sum()) / total, 0.0)) * number**-0.2
    h = _fixed_point(mass / total, number)
    h = silverman if h is None else min(max(h, least * silverman), 2 * silverman)
    return float(max(h, 1 / mass.size))


def _fixed_point(mass: FloatArray, number: float) -> float | None:
    """The h of Botev's t = ξ γ^[l](t), for an interval of length one; None where it has no solution below 0.1."""
    from scipy.optimize import brentq

    k2 = np.arange(1, mass.size, dtype=np.float64) ** 2
    a2 = (dct(mass)[1:] / 2) ** 2

    def norm(order: int, time: float) -> float:
        return float(2 * math.pi ** (2 * order) * (k2**order * a2 * np.exp(-k2 * math.pi**2 * time)).sum())

    def gap(time: float) -> float:
        f = norm(STEPS, time)
        for order in range(STEPS - 1, 1, -1):
            odd = math.prod(range(1, 2 * order, 2)) / math.sqrt(2 * math.pi)
            constant = (1 + 0.5 ** (order + 0.5)) / 3
            if not f > 0:
                return math.nan
            f = norm(order, (2 * constant * odd / (number * f)) ** (2 / (3 + 2 * order)))
        return time - (2 * number * math.sqrt(math.pi) * f) ** -0.4 if f > 0 else math.nan

    low, high = 1e-9, 0.01
    first, last = gap(low), gap(high)
    if not (first < 0 < last):
        return None
    return float(math.sqrt(brentq(gap, low, high, xtol=1e-10)))


def levels(mass: FloatArray, shares: Sequence[float]) -> list[float]:
    """The density heights whose highest-density regions hold these shares of the mass, rising."""
    falling = np.sort(mass.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    return sorted(float(falling[min(int(np.searchsorted(held, share)), falling.size - 1)]) for share in shares)
