"""Regions of the space, each with its shares of the posterior, the simulations and the error's variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.diagnostics.explanation.data import Carriers, Region
from fbar.diagnostics.explanation.words import short
from fbar.methods import Run
from fbar.question.points import Points
from fbar.question.targets import Target
from fbar.weights import weighted_quantiles

PARTS = 5
"""Regions of equal posterior mass."""


def regions_of(
    run: Run,
    points: Points,
    weights: FloatArray,
    used: FloatArray,
    target: Target,
    square: FloatArray,
    simulated: Points | None,
) -> tuple[str | None, tuple[Region, ...]]:
    """Regions of the parameter that explains most of ψ: of the variance between their means of ψ.

    ``used`` are the acceptance weights of the points, ``square`` their parts of the variance. A parameter that some
    models lack has a region for these, and counts only where ψ is nothing there.
    """
    influence = target.influence(points, weights)
    matters = (influence != 0).any(axis=1)
    best, parameter, chosen = -1.0, None, None
    for name in dict.fromkeys((*run.problem.prior.names, *run.problem.derived)):
        has = points.present(name)
        binning = None if (matters & ~has).any() else _binning(name, points[name][has], weights[has])
        if binning is None:
            continue
        where, size = binning.of(points), len(binning.words)
        mass = np.bincount(where, weights, size)
        sums = np.stack([np.bincount(where, weights * column, size) for column in influence.T])
        between = float((sums**2 / np.where(mass > 0, mass, 1.0)).sum())
        if between > best * (1 + 1e-9):
            best, parameter, chosen = between, name, binning
    if chosen is None or not square.sum() > 0:
        return None, ()
    where, size = chosen.of(points), len(chosen.words)
    spent = None if simulated is None else np.bincount(chosen.of(simulated), minlength=size) / simulated.rows
    shares = [np.bincount(where, part, size) / part.sum() for part in (weights, used, square)]
    found = []
    for i, words in enumerate(chosen.words):
        probability, accepted, variance = (float(part[i]) for part in shares)
        share = None if spent is None else float(spent[i])
        if probability or accepted or variance or share:
            found.append(Region(words, probability, share, accepted, variance))
    return parameter, tuple(found)


@dataclass(frozen=True, eq=False)
class _Binning:
    """Intervals between ``edges``, or the ``values`` and a bin for all others; the last bin lacks the parameter."""

    name: str
    words: tuple[str, ...]
    edges: FloatArray | None = None
    values: tuple[Any, ...] = ()

    def of(self, points: Points) -> IntArray:
        column, has = points[self.name], points.present(self.name)
        found = np.full(points.rows, len(self.words) - 1, dtype=np.int64)
        if self.edges is not None:
            found[has] = np.searchsorted(self.edges, column[has], side="right")
            return found
        found[has] = len(self.values)
        for number, value in enumerate(self.values):
            found[has & (column == value)] = number
        return found


def _binning(name: str, column: npt.NDArray[Any], weights: FloatArray) -> _Binning | None:
    """Intervals of equal mass, or the likeliest values where there are few; None for a parameter that is the same."""
    if column.dtype == object:
        values = np.array(sorted(set(column.tolist()), key=str), dtype=object)
    else:
        values = np.unique(column)
    if values.size < 2:
        return None
    without = f"without {name}"
    if column.dtype.kind not in "iuf" or (column.dtype.kind != "f" and values.size <= PARTS):
        mass = np.array([weights[column == value].sum() for value in values])
        kept = values[np.sort(np.argsort(-mass, kind="stable")[:PARTS])]
        return _Binning(name, (*(str(value) for value in kept), "others", without), values=tuple(kept.tolist()))
    edges = np.unique(weighted_quantiles(column, weights, np.arange(1, PARTS) / PARTS))
    words = [short(edge) for edge in edges.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return _Binning(name, (f"below {words[0]}", *between, f"from {words[-1]} on", without), edges)


def carriers_of(what: str, square: FloatArray, points: Points, names: Sequence[str]) -> Carriers | None:
    total = square.sum()
    if not total > 0:
        return None
    falling = np.sort(square)[::-1]
    half = int(np.searchsorted(np.cumsum(falling), total / 2)) + 1
    row = int(np.argmax(square))
    theta = {name: points[name][row : row + 1].tolist()[0] for name in names if points.present(name)[row]}
    return Carriers(what, square.size, half, float(square[row] / total), theta)
