"""The prior on a finite set of parameter values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray, distribution, floats, without_mask
from fbar.checks import generator, require_name, rows, shown
from fbar.errors import InputError
from fbar.question.points import Points, require_points
from fbar.question.priors.structures import Structure, Structured


def _as_column(given: Any, name: str) -> npt.NDArray[Any]:
    """Numbers or labels, not both."""
    items = list(given) if isinstance(given, list | tuple | range) else given
    try:
        column = np.atleast_1d(np.array(without_mask(items, f"parameter {shown(name)}")))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"parameter {shown(name)} must be a list of numbers or labels; got {shown(given)}") from None
    mixed = isinstance(items, list) and column.dtype.kind == "U" and not all(isinstance(v, str) for v in items)
    if column.dtype.kind not in "biufU" or mixed:
        raise InputError(f"parameter {shown(name)} must be a list of numbers or labels; got {shown(given)}")
    if column.ndim > 1:
        raise InputError(f"parameter {shown(name)} must be a flat list; for a grid use Finite.grid({name}=[...], ...)")
    return column


class Finite(Structured):
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
        if columns is not None and not isinstance(columns, Mapping):
            raise InputError(f"name the parameter: Finite(theta={shown(columns)})")
        if twice := set(columns or {}) & set(named):
            raise InputError(f"parameter {shown(min(twice))} is given twice; give its values once")
        columns = {**(columns or {}), **named}
        for name in named:
            if difflib.SequenceMatcher(None, name, "probabilities").ratio() > 0.7 or name in ("prob", "weights"):
                raise InputError(f"Finite has no option {shown(name)}; did you mean 'probabilities'?")
        if not columns:
            raise InputError("a finite prior needs named parameter values, such as Finite(theta=[1, 2, 3])")
        values = {}
        for name, given in columns.items():
            require_name(name)
            column = _as_column(given, name)
            if column.size == 0:
                raise InputError(f"parameter {shown(name)} has no values; give at least one")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                raise InputError(
                    f"parameter {shown(name)} has values that are not finite: {column[~np.isfinite(column)][0]}"
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
        self.probabilities.flags.writeable = False
        self._rows = seen
        self._cumulative = np.cumsum(self.probabilities)

    @classmethod
    def grid(cls, **axes: npt.ArrayLike) -> Finite:
        """All combinations of the given values, equally probable.

        >>> Finite.grid(beta=[1.0, 2.0], gamma=[0.1, 0.2, 0.3]).size
        6
        """
        columns = {name: _as_column(values, name) for name, values in axes.items()}
        if not columns:
            raise InputError("a grid needs named axes, such as Finite.grid(beta=[1, 2], gamma=[0.1, 0.2])")
        index = np.indices([column.size for column in columns.values()]).reshape(len(columns), -1)
        return cls({name: column[row] for row, (name, column) in zip(index, columns.items(), strict=True)})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.points)

    @property
    def size(self) -> int:
        """k, the number of parameter values."""
        return self.points.rows

    def __repr__(self) -> str:
        return f"Finite({', '.join(self.names)}; {self.size} values)"

    @property
    def dimension(self) -> int:
        return 1

    @property
    def structure(self) -> Structure:
        return Structure(values=self)

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(generator(rng).random(rows(size, "size")))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = floats(unit, "unit coordinates").reshape(-1)
        if u.size and not (u.min() >= 0 and u.max() <= 1):
            raise InputError("unit coordinates must lie in [0, 1]")
        rows = np.searchsorted(self._cumulative, u * self._cumulative[-1], side="right")
        return self.points.take(np.minimum(rows, self.size - 1))

    def borders(self) -> FloatArray:
        """Where the values meet in the unit interval."""
        return self._cumulative[:-1]

    def to_unit(self, points: Points) -> FloatArray:
        """The middle of each value's share of the unit interval."""
        rows = self.index(points)
        if (rows < 0).any():
            raise InputError(f"{points.label(int(np.argmin(rows)))} is not a value of this prior")
        return (self._cumulative[rows] - self.probabilities[rows] / 2)[:, None]

    def index(self, points: Points) -> IntArray:
        """Which of the values each row is; −1 for one outside the set."""
        require_points(points, needed=self.names)
        keys = zip(*(points[name].tolist() for name in self.names), strict=True)
        return np.array([self._rows.get(key, -1) for key in keys], dtype=np.int64)

    def logpdf(self, points: Points) -> FloatArray:
        """The log probability of each row; −∞ for a value outside the set."""
        rows = self.index(points)
        with np.errstate(divide="ignore"):
            log_p = np.log(self.probabilities)
        return np.where(rows >= 0, log_p[rows], -np.inf)
