"""Named columns of equal length: a batch of parameter values, as simulators and targets see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, as_array, whole_numbers, without_mask
from fbar.checks import MOST_NAME, in_words, known_names, mapping, require_name, rows, shown, texts, whole_number
from fbar.errors import InputError, MissingExtra
from fbar.system.terminal import clean

if TYPE_CHECKING:
    import pandas

Column = npt.NDArray[Any]


def _locked(values: npt.ArrayLike, name: str) -> Column:
    """A column that nobody can write into: what a function of θ changed would be changed for all that comes after."""
    view = without_mask(values, f"the column {shown(name)}").view()
    view.flags.writeable = False
    return view


def _of_arrays(why: str) -> str:
    """What to write where a function of a batch was written for numbers."""
    if any(words in why for words in ("truth value of an array", "can be converted to", "must be real number")):
        return " (it is given arrays, with a value for each row: use numpy.where, numpy.exp, …)"
    return ""


def _printable(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable() and 0 < len(name) <= MOST_NAME


def _rows(index: npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    """Rows of a batch by number or by a mask."""
    which = index if isinstance(index, np.ndarray) else as_array(index, "rows")
    if which.dtype == np.bool_ and which.shape == (size,):
        return which
    if which.dtype.kind not in "iu" or which.ndim != 1:
        if which.size or which.ndim != 1:
            raise InputError(f"rows are selected by number, or by a mask of {size} rows; got {shown(index)}")
        which = which.astype(np.int64)
    if which.size and not (-size <= int(which.min()) and int(which.max()) < size):
        raise InputError(f"there are {size} rows, from 0 to {size - 1}; got {shown(index)}")
    return which


def require_points(given: Any, name: str = "points", needed: Iterable[str] = ()) -> Points:
    """A user's batch of θ; refused if it is something else, or lacks a parameter."""
    if not isinstance(given, Points):
        raise InputError(f"{name} must be fbar.Points, such as fbar.Points({{'beta': [1.0, 2.0]}}); got {shown(given)}")
    for parameter in needed:
        if parameter not in given:
            raise InputError(f"{name} lack the parameter {shown(parameter)}; they have {', '.join(given)}")
    return given


class NoParameter(InputError, KeyError):
    """A parameter was asked for that is not in a batch, or in a parameter set."""

    def __str__(self) -> str:
        return clean(self.args[0])  # a KeyError's own words are in quotation marks


def no_parameter(name: Any, known: Sequence[str]) -> NoParameter:
    """What is raised where parameters are looked up by a name that they do not have, or not by name."""
    if isinstance(name, str):
        return NoParameter(f"there is no parameter {shown(name)}; {known_names(name, known)}")
    return NoParameter(
        f"parameters are accessed by name, as in theta[{shown(known[0])}], not by position; known: {', '.join(known)}"
    )


class Points(Mapping[str, Column]):
    """A batch of θ: ``points["beta"]`` is an array with one value for each row, which cannot be changed in place.

    Parameters
    ----------
    columns
        The parameters by name.
    derived
        Further columns as functions of the batch, computed when asked for.
    present
        If a column belongs only to some rows (the parameters of one model among several): a mask of these rows. A
        column without a mask is present everywhere.
    unit
        The rows' coordinates in the unit cube of the distribution that made them, its ``owner``.

    Examples
    --------
    >>> p = Points({"beta": [1.0, 2.0, 3.0]}, derived={"double": lambda t: 2 * t["beta"]})
    >>> p["double"]
    array([2., 4., 6.])
    >>> len(p), p.rows
    (1, 3)
    """

    __slots__ = ("_columns", "_present", "derived", "owner", "rows", "unit")

    def __init__(
        self,
        columns: Mapping[str, npt.ArrayLike],
        derived: Mapping[str, Callable[[Points], npt.ArrayLike]] | None = None,
        present: Mapping[str, BoolArray] | None = None,
        unit: FloatArray | None = None,
        owner: object = None,
    ) -> None:
        mapping(columns, "columns", "{'beta': [1.0, 2.0]}")
        self._columns = {name: _locked(values, name) for name, values in columns.items()}
        self.derived = {} if derived is None else mapping(derived, "derived", "{'double': lambda t: 2 * t['beta']}")
        if not all(map(_printable, (*self._columns, *self.derived))):
            for name in (*self._columns, *self.derived):
                require_name(name, "a column's name")
        self._present = present or {}
        self.unit, self.owner = unit, owner
        shapes = {column.shape for column in self._columns.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            given = {name: column.shape for name, column in self._columns.items()}
            raise InputError(
                f"parameter columns must be one-dimensional and of equal length; got {given} "
                "(for a grid of values use fbar.Finite.grid)"
            )
        self.rows: int = next(iter(shapes))[0]

    def __getitem__(self, name: str) -> Column:
        column = self._columns.get(name) if isinstance(name, str) else None
        if column is not None:
            return column
        if isinstance(name, str) and name in self.derived:
            try:
                given = self.derived[name](self)
                if given is None:
                    raise InputError("its function returned None; is a return missing?")
                made = without_mask(given, "its value")
                return np.broadcast_to(made, (self.rows,))
            except (Exception, RecursionError) as error:
                why = str(error) if isinstance(error, InputError) else in_words(error)
                if why.startswith("derived parameter "):  # of one that it is derived from
                    raise
                raise InputError(
                    f"derived parameter {shown(name)} cannot be computed: {why}{_of_arrays(why)}"
                ) from None
        raise no_parameter(name, [*self._columns, *self.derived])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self:
            raise AttributeError(
                f"parameters are accessed by name: write theta[{shown(name)}], not theta.{name}; it is an array with a "
                "value for each simulation (wrap a simulator of one parameter set with fbar.each)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {shown(name)}")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._columns or name in self.derived)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __reduce__(self) -> tuple[Any, ...]:
        """Only the numbers travel between processes: derived columns and owners stay at home."""
        return Points, (self._columns, None, self._present, self.unit)

    def __repr__(self) -> str:
        return f"Points({', '.join(self._columns)}; {self.rows} rows)"

    def present(self, name: str) -> BoolArray:
        """The rows in which a parameter exists. A derived one exists where it is a number."""
        if not isinstance(name, str):
            raise InputError(f"a parameter's name must be text; got {shown(name)}")
        if name in self._present:
            return self._present[name]
        if name in self.derived and self._present:
            column = self[name]
            return ~np.isnan(column) if column.dtype.kind == "f" else np.ones(self.rows, dtype=bool)
        return np.ones(self.rows, dtype=bool)

    @property
    def complete(self) -> bool:
        """Whether every parameter exists in every row."""
        return not self._present

    def take(self, index: npt.ArrayLike) -> Points:
        """The rows of ``index`` (numbers or a mask), in its order."""
        which = _rows(index, self.rows)
        return Points(
            {name: column[which] for name, column in self._columns.items()},
            self.derived,
            {name: mask[which] for name, mask in self._present.items()},
            None if self.unit is None else self.unit[which],
            self.owner,
        )

    def read_only(self) -> Points:
        """The batch itself: no column can be changed in place."""
        return self

    def only(self, names: Sequence[str]) -> Points:
        """Some of the columns, as a complete batch."""
        return Points({name: self[name] for name in texts(names, "names", "['beta']")})

    def without(self, names: Iterable[str]) -> Points:
        """All columns except some, such as outputs that a simulator recorded."""
        gone = set(texts(names, "names", "['beta']")) & set(self._columns)
        if not gone:
            return self
        columns = {name: column for name, column in self._columns.items() if name not in gone}
        return Points(columns, self.derived, self._present, self.unit, self.owner)

    def with_derived(self, derived: Mapping[str, Callable[[Points], npt.ArrayLike]]) -> Points:
        if derived is None or (isinstance(derived, Mapping) and not derived):
            return self
        return Points(self._columns, derived, self._present, self.unit, self.owner)

    def with_columns(self, columns: Mapping[str, npt.ArrayLike]) -> Points:
        """The batch with further columns, such as outputs that a simulator recorded."""
        if not mapping(columns, "columns", "{'beta': [1.0, 2.0]}"):
            return self
        for name in columns:
            if name in self:
                raise InputError(f"a recorded output is called {shown(name)}, like a parameter; give it another name")
        return Points({**self._columns, **columns}, self.derived, self._present, self.unit, self.owner)

    def repeat(self, times: npt.ArrayLike) -> Points:
        """Each row repeated ``times`` times, in row order."""
        counts = whole_numbers(times, "times")
        if counts.shape not in ((), (self.rows,)) or (counts < 0).any():
            raise InputError(
                f"times must be a whole number of at least 0 for each of {self.rows} rows; got {shown(times)}"
            )
        rows(int(counts.sum()), "the sum of times")
        return self.take(np.repeat(np.arange(self.rows), counts))

    def label(self, row: int) -> str:
        """The name of one row in messages: ``theta=3`` or ``beta=1, gamma=0.5``."""
        row = whole_number(row, "row", 0, max(self.rows - 1, 0))
        return ", ".join(f"{name}={column[row]}" for name, column in self._columns.items() if self.present(name)[row])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each of the batch, a column for each parameter, derived ones too; NaN or None where it has none."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "table") from error
        frame = pandas.DataFrame({name: np.asarray(self[name]) for name in (*self, *self.derived)})
        absent = {name: ~self.present(name) for name in frame if not self.present(name).all()}
        return frame.assign(**{name: frame[name].mask(rows) for name, rows in absent.items()})

    @staticmethod
    def concatenate(parts: Sequence[Points]) -> Points:
        """Batches one after the other, with the columns that all have."""
        if isinstance(parts, Points) or not isinstance(parts, Sequence) or not len(parts):
            raise InputError(f"give the batches as a list of fbar.Points; got {shown(parts)}")
        for part in parts:
            require_points(part, "each part")
        parts = [part for part in parts if part.rows] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        names = [name for name in first if all(name in part for part in parts)]
        units = [part.unit for part in parts if part.unit is not None and part.owner == first.owner]
        known = len(units) == len(parts)
        return Points(
            {name: np.concatenate([part[name] for part in parts]) for name in names},
            first.derived,
            {
                name: np.concatenate([part.present(name) for part in parts])
                for name in names
                if any(name in part._present for part in parts)
            },
            np.concatenate(units) if known else None,
            first.owner if known else None,
        )
