"""Priors: what is believed about θ before the data.

`Prior` is the interface that every prior fills; `Finite` is the prior on a finite set of parameter values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, distribution
from fbar.errors import InputError
from fbar.points import Points


@runtime_checkable
class Prior(Protocol):
    """What a prior can do.

    ``from_unit`` is the inverse of the distribution function, from the unit cube to θ; stratified and
    quasi-random designs draw through it.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    def sample(self, size: int, *, rng: np.random.Generator) -> Points: ...

    def logpdf(self, points: Points) -> FloatArray: ...

    def from_unit(self, unit: npt.ArrayLike) -> Points: ...


class Finite:
    """A prior on finitely many parameter values, each with its probability (equal by default).

    >>> Finite(theta=[1, 2, 3]).probabilities
    array([0.33333333, 0.33333333, 0.33333333])
    >>> Finite({"beta": [1.0, 2.0], "gamma": [0.5, 0.5]}, probabilities=[0.2, 0.8]).names
    ('beta', 'gamma')
    """

    def __init__(
        self,
        columns: Mapping[str, npt.ArrayLike] | None = None,
        /,
        *,
        probabilities: npt.ArrayLike | None = None,
        **named: npt.ArrayLike,
    ) -> None:
        columns = {**(columns or {}), **named}
        if not columns:
            raise InputError("a finite prior needs named parameter values, such as Finite(theta=[1, 2, 3])")
        values = {}
        for name, given in columns.items():
            column = np.atleast_1d(np.asarray(given))
            if column.size == 0:
                raise InputError(f"parameter {name!r} has no values; give at least one")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                raise InputError(
                    f"parameter {name!r} has values that are not finite: {column[~np.isfinite(column)][0]}"
                )
            values[name] = column
        self.points = Points(values)
        seen: dict[tuple[Any, ...], int] = {}
        for row, cell in enumerate(zip(*(column.tolist() for column in values.values()), strict=True)):
            if cell in seen:
                raise InputError(
                    f"parameter value {self.points.label(row)} is given twice (rows {seen[cell]} and {row}); "
                    "give it once, with the sum of the probabilities"
                )
            seen[cell] = row
        k = self.points.rows
        self.probabilities: FloatArray = (
            np.full(k, 1.0 / k) if probabilities is None else distribution(probabilities, k)
        )
        self._rows = seen
        self._cumulative = np.cumsum(self.probabilities)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.points)

    @property
    def size(self) -> int:
        """k, the number of parameter values."""
        return self.points.rows

    def __repr__(self) -> str:
        return f"Finite({', '.join(self.names)}; {self.size} values)"

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(rng.random(size))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = np.asarray(unit, dtype=np.float64).reshape(-1)
        rows = np.searchsorted(self._cumulative, u * self._cumulative[-1], side="right")
        return self.points.take(np.minimum(rows, self.size - 1))

    def logpdf(self, points: Points) -> FloatArray:
        """The log probability of each row; −∞ for a value outside the set."""
        keys = zip(*(points[name].tolist() for name in self.names), strict=True)
        rows = np.array([self._rows.get(key, -1) for key in keys], dtype=np.int64)
        with np.errstate(divide="ignore"):
            log_p = np.log(self.probabilities)
        return np.where(rows >= 0, log_p[rows], -np.inf)
