"""Named columns of equal length: a batch of parameter values, as simulators and targets see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.errors import InputError

Column = npt.NDArray[Any]


class Points(Mapping[str, Column]):
    """A batch of θ: ``points["beta"]`` is an array with one value for each row.

    >>> p = Points({"beta": [1.0, 2.0, 3.0]}, derived={"double": lambda t: 2 * t["beta"]})
    >>> p["double"]
    array([2., 4., 6.])
    >>> len(p), p.rows
    (1, 3)
    """

    __slots__ = ("_columns", "derived", "rows")

    def __init__(
        self,
        columns: Mapping[str, npt.ArrayLike],
        derived: Mapping[str, Callable[[Points], npt.ArrayLike]] | None = None,
    ) -> None:
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.derived = dict(derived or {})
        lengths = {name: len(column) if column.ndim == 1 else -1 for name, column in self._columns.items()}
        if not lengths or len(set(lengths.values())) != 1 or -1 in lengths.values():
            shapes = {name: column.shape for name, column in self._columns.items()}
            raise InputError(f"parameter columns must be one-dimensional and of equal length; got {shapes}")
        self.rows = next(iter(lengths.values()))

    def __getitem__(self, name: str) -> Column:
        if name in self._columns:
            return self._columns[name]
        if name in self.derived:
            return np.broadcast_to(np.asarray(self.derived[name](self)), (self.rows,))
        known = ", ".join([*self._columns, *self.derived])
        raise InputError(f"there is no parameter {name!r}; known: {known}")

    def __contains__(self, name: object) -> bool:
        return name in self._columns or name in self.derived

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Points({', '.join(self._columns)}; {self.rows} rows)"

    def take(self, index: npt.ArrayLike) -> Points:
        """The rows of ``index``, in its order."""
        which = np.asarray(index)
        return Points({name: column[which] for name, column in self._columns.items()}, self.derived)

    def repeat(self, times: npt.ArrayLike) -> Points:
        """Each row as often as ``times`` says, in row order."""
        return self.take(np.repeat(np.arange(self.rows), np.asarray(times, dtype=np.int64)))

    def label(self, row: int) -> str:
        """How one row is called in messages: ``theta=3`` or ``beta=1, gamma=0.5``."""
        return ", ".join(f"{name}={column[row]}" for name, column in self._columns.items())
