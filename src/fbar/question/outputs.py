"""What a simulator gave, row by row: what can be used, and why the rest cannot.

Whether a row can be used depends on that row and on the problem, as far as it can: rejecting it is then like rejecting
any other failed simulation, whatever else is in its block. Where a whole batch cannot be used and its rows do not
show why, `Unusable` is raised, and `fbar.engine.recovery` finds the guilty rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import IntArray
from fbar.checks import require_name, shown, texts
from fbar.errors import InputError
from fbar.question.named_data import NamedData, X
from fbar.question.outcomes import Failure
from fbar.question.simulators import COST, Nonsense, RowFailed, Unusable
from fbar.question.simulators.hints import NEEDS_EACH, RETURNED_NONE

NUMBERS = "biuf"
COMPARABLE = "biufU"
"""Kinds of values that can be compared with data, or be recorded for targets: real numbers and text."""

KEPT = "biufcUSMm"
"""Kinds of values that a record can keep."""


@dataclass(frozen=True)
class Form:
    """What a simulation has to give: data of some shape and type, unless a summary takes them, and named records.

    ``taken`` are names that no output can have, ``named`` is the form of data that have names.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    summarised: bool
    records: tuple[str, ...]
    taken: frozenset[str]
    named: NamedData | None = None

    def is_other(self, name: Any) -> bool:
        """Whether an output is not (only) data, but is kept by its name."""
        if self.named is None:
            return bool(name != X)
        return name not in self.named.names or name in self.records


def record_names(given: Sequence[str], parameters: Sequence[str]) -> tuple[str, ...]:
    """The names of a problem's recorded outputs, checked."""
    if isinstance(given, str):
        raise InputError(f"records must be a list of names, such as [{shown(given)}]; got {shown(given)}")
    names = texts(given, "records", "['peak']")
    for name in names:
        require_name(name, "the name of a recorded output")
        if name in parameters:
            raise InputError(f"the recorded output {shown(name)} has the name of a parameter; give it another")
    if len(set(names)) < len(names):
        raise InputError(f"records names an output twice: {', '.join(names)}")
    if COST in names:
        raise InputError(
            f"the output {COST!r} is what a simulation cost and cannot be recorded; give yours another name"
        )
    return names


@dataclass(eq=False)
class Table:
    """The rows that can be used, as groups of their numbers and data; what was recorded; and the rows that cannot."""

    rows: int
    groups: list[tuple[IntArray, npt.NDArray[Any]]] = field(default_factory=list)
    recorded: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    failed: dict[int, RowFailed] = field(default_factory=dict)


Usable = tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]
"""A row's data, and what else it gave."""


def read(output: Any, simulations: int, form: Form) -> Table:
    """A simulator's output, from which the costs have been taken."""
    if isinstance(output, np.ndarray) and output.dtype == object and output.ndim:
        output = list(output)
    if output is None:
        raise Unusable(
            "the simulator returned None; return an array with a row for each simulation (is a return missing?)"
        )
    if isinstance(output, list):
        return _of_rows(output, simulations, form)
    return _of_batch(output, simulations, form)


def as_row(row: Any, form: Form) -> Usable:
    """One simulation's data and records as arrays; `Unusable` if they cannot be used."""
    others = {name: value for name, value in row.items() if form.is_other(name)} if isinstance(row, Mapping) else {}
    if form.named is not None:
        given = form.named.require(row)
        x = form.named.joined({name: _plain(given[name], name) for name in form.named.names}, ())
    else:
        if isinstance(row, Mapping) and X not in row:
            raise Unusable(_without_data(row), Failure.WRONG_SHAPE)
        x = _plain(row[X] if isinstance(row, Mapping) else row, X)
    if not form.summarised:
        require_comparable(x.shape, x.dtype, form.shape, form.dtype)
    _require_names(others, form)
    recorded = {}
    for name, value in others.items():
        if name in form.records:
            recorded[name] = _record(value, name)
        elif isinstance(name, str):
            try:
                recorded[name] = _plain(value, name)
            except Unusable:  # nobody asked for it
                continue
    return x, recorded


def require_comparable(
    shape: tuple[int, ...], dtype: np.dtype[Any], observed_shape: tuple[int, ...], observed: np.dtype[Any]
) -> None:
    """Refuse summaries that cannot be compared with the observed ones."""
    if dtype.kind not in COMPARABLE or (dtype.kind in NUMBERS) != (observed.kind in NUMBERS):
        raise Unusable(
            f"simulated summaries are {dtype} values and the observed ones {observed}; "
            "give both as numbers or both as labels"
        )
    if shape != observed_shape:
        raise Unusable(
            f"simulated summaries have shape {shape} and the observed ones {observed_shape}", Failure.WRONG_SHAPE
        )


@dataclass(eq=False)
class Parts:
    """What a function of rows gave, part by part, and why it gave nothing for some rows.

    ``nonsense`` is the first thing that it gave and never may, for whatever part; or nothing.
    """

    found: list[tuple[slice, npt.NDArray[Any]]] = field(default_factory=list)
    failed: dict[int, RowFailed] = field(default_factory=dict)
    nonsense: str = ""


def by_parts(call: Callable[[slice], npt.NDArray[Any]], rows: int) -> Parts:
    """A function of all rows; where it gives nothing usable, of halves, and so on down to the rows that do it.

    The rows are there already, so that nothing is simulated again.
    """
    parts, waiting = Parts(), [(0, rows)] if rows else []
    while waiting:
        first, last = waiting.pop()
        try:
            parts.found.append((slice(first, last), call(slice(first, last))))
        except Unusable as error:
            if isinstance(error, Nonsense):
                parts.nonsense = parts.nonsense or str(error)
            middle = (first + last) // 2
            if last - first > 1:
                waiting += [(middle, last), (first, middle)]
            else:
                parts.failed[first] = RowFailed.of(error)
    return parts


# ---------------------------------------------------------------- single rows


def _of_rows(rows: list[Any], simulations: int, form: Form) -> Table:
    table = Table(simulations)
    if len(rows) != simulations:
        raise another_number(simulations, X, _shape(rows))
    quick = _all_numbers(rows, form)
    if quick is not None:
        return quick
    good: dict[int, Usable] = {}
    for i, row in enumerate(rows):
        if row is None:
            table.failed[i] = RowFailed(RETURNED_NONE)
        elif isinstance(row, RowFailed):
            table.failed[i] = row
        else:
            try:
                good[i] = as_row(row, form)
            except Unusable as error:
                table.failed[i] = RowFailed.of(error)
    _require_numbers_where_there_are(good, table, form)
    if not good:
        table.recorded = {name: np.full(simulations, np.nan) for name in form.records}
        return table
    kinds: dict[tuple[tuple[int, ...], str], list[int]] = {}
    for i, (x, _) in good.items():
        kinds.setdefault((x.shape, _class(x)), []).append(i)
    table.groups = [(np.array(which), np.stack([good[i][0] for i in which])) for which in kinds.values()]
    for name in next(iter(good.values()))[1]:
        values = [recorded.get(name) for _, recorded in good.values()]
        column = _column(values)
        if column is not None:
            whole = np.zeros((simulations, *column.shape[1:]), dtype=column.dtype)
            whole[list(good)] = column
            table.recorded[name] = whole
    return table


def _all_numbers(rows: list[Any], form: Form) -> Table | None:
    """Rows that are nothing but numbers, those of the data in the data's shape; None if some are not."""
    if form.named is not None:
        return None
    columns: dict[Any, Any] = {X: rows}
    if rows and isinstance(rows[0], Mapping):
        names = list(rows[0])
        if not all(isinstance(row, Mapping) and list(row) == names for row in rows) or set(map(type, names)) != {str}:
            return None
        columns = {name: [row[name] for row in rows] for name in names}
    found = {name: _numbers(values) for name, values in columns.items()}
    x = found.pop(X, None)
    fitting = x is not None and x.shape[1:] == form.shape and (form.summarised or form.dtype.kind in NUMBERS)
    if not fitting or form.taken & found.keys() or not found.keys() >= set(form.records):
        return None
    assert x is not None
    recorded = {name: values for name, values in found.items() if values is not None and values.ndim == 1}
    return Table(len(rows), [(np.arange(len(rows)), x)], recorded) if len(recorded) == len(found) else None


def _numbers(values: list[Any]) -> npt.NDArray[Any] | None:
    if any(value is None or isinstance(value, RowFailed | Mapping | np.ma.MaskedArray) for value in values):
        return None
    try:
        found = np.asarray(values)
    except Exception:  # ragged, or not arrays at all
        return None
    return found if found.dtype.kind in NUMBERS else None


def _require_numbers_where_there_are(good: dict[int, Usable], table: Table, form: Form) -> None:
    """A record that is a number in some rows must be one in all. Rows that fail for NaN in their data do not count."""
    for name in form.records:
        text = [i for i, (_, recorded) in good.items() if recorded[name].dtype.kind not in NUMBERS]
        numbers = [i for i, (_, recorded) in good.items() if recorded[name].dtype.kind in NUMBERS]
        if any(form.summarised or good[i][0].dtype.kind != "f" or np.isfinite(good[i][0]).all() for i in numbers):
            for i in text:
                table.failed[i] = RowFailed.of(not_alike(name, good.pop(i)[1][name]))
        elif text:
            for i in numbers:
                good[i][1][name] = np.asarray("")


def not_alike(name: str, value: Any) -> Unusable:
    return Unusable(f"{name!r} of the simulator's output is a number in other simulations; got {shown(value)}")


def _class(values: npt.NDArray[Any]) -> str:
    return "number" if values.dtype.kind in NUMBERS else values.dtype.kind


def _column(values: Sequence[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    """An output of all rows, unless some have none, or one of another kind."""
    arrays = [value for value in values if value is not None]
    alike = len({(array.shape, _class(array)) for array in arrays}) == 1
    return np.stack(arrays) if alike and len(arrays) == len(values) and arrays[0].dtype.kind in KEPT else None


# ---------------------------------------------------------------- a batch


def _of_batch(output: Any, simulations: int, form: Form) -> Table:
    given: dict[Any, Any] = {X: output}
    if form.named is not None:
        given = dict(form.named.require(output))
    elif isinstance(output, Mapping):
        if X not in output:
            raise Unusable(_without_data(output), Failure.WRONG_SHAPE)
        given = {X: output[X], **output}
    arrays = {name: _array(values, name) for name, values in given.items()}
    for name, values in arrays.items():
        if values.shape[:1] != (simulations,):
            raise another_number(simulations, name, values.shape)
    others = {name: values for name, values in arrays.items() if form.is_other(name)}
    if any(values.dtype == object for values in arrays.values()):  # each row is read by itself
        rows = [{name: values[i] for name, values in arrays.items()} for i in range(simulations)]
        return _of_rows(rows if others or form.named else [row[X] for row in rows], simulations, form)
    x = arrays[X] if form.named is None else form.named.joined(arrays, (simulations,))
    if not form.summarised:
        require_comparable(x.shape[1:], x.dtype, form.shape, form.dtype)
    _require_names(others, form)
    for name in form.records:
        if others[name].ndim > 1 or others[name].dtype.kind not in COMPARABLE:
            raise _not_one_value(name, others[name][0])
    # Copies, since a simulator may fill the same arrays again.
    kept = {n: np.array(v, order="C") for n, v in others.items() if isinstance(n, str) and v.dtype.kind in KEPT}
    return Table(simulations, [(np.arange(simulations), x)], kept)


# ---------------------------------------------------------------- values


def _array(values: Any, name: Any) -> npt.NDArray[Any]:
    """An output as an array: NaN where it is masked, for what is masked is missing and not data."""
    try:
        if isinstance(values, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in values):
            values = [_filled(row) for row in values]
        return np.asarray(_filled(values))
    except Unusable:
        raise
    except ValueError:
        raise Unusable(
            f"the simulator's outputs {name!r} differ in shape from row to row", Failure.WRONG_SHAPE
        ) from None
    except Exception as error:
        raise Unusable(f"the simulator's output {name!r} is not an array: {type(error).__name__}") from None


def _plain(value: Any, name: Any) -> npt.NDArray[Any]:
    """The same of one row: what numpy has as Python objects may be numbers or text."""
    found = _array(value, name)
    return _array(found.tolist(), name) if found.dtype == object else found


def _filled(values: Any) -> Any:
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return np.ma.getdata(values) if isinstance(values, np.ma.MaskedArray) else values
    if values.dtype.kind not in NUMBERS:
        raise Unusable("the simulator's outputs are masked labels; give a label to every simulation")
    return np.ma.filled(values.astype(np.float64), np.nan)


def _record(value: Any, name: str) -> npt.NDArray[Any]:
    found = _plain(value, name)
    if found.ndim or found.dtype.kind not in COMPARABLE:
        raise _not_one_value(name, value)
    return found


def _require_names(others: Mapping[Any, Any], form: Form) -> None:
    for name in form.records:
        if name not in others:
            holds = shown([*((X,) if form.named is None else form.named.names), *others])
            raise Unusable(f"the simulator's output lacks the record {name!r}; it holds {holds}", Failure.WRONG_SHAPE)
    for name in others:
        if name in form.taken:
            raise Unusable(f"a recorded output is called {name!r}, like a parameter; give it another name")


def _not_one_value(name: str, value: Any) -> Unusable:
    return Unusable(
        f"{name!r} of the simulator's output must be one number or text for each simulation; got {shown(value)}"
    )


def _without_data(output: Mapping[Any, Any]) -> str:
    return (
        f"a simulator's mapping must hold its data under 'x'; it holds {shown(list(output))} (data may have other "
        "names if observed is a mapping with the same ones)"
    )


def another_number(simulations: int, name: Any, shape: tuple[int, ...]) -> Unusable:
    return Unusable(
        f"the simulator was asked for {simulations} simulations and returned {name!r} of shape {shape}; "
        f"its first axis must be the simulations ({NEEDS_EACH})",
        Failure.WRONG_SHAPE,
    )


def _shape(rows: list[Any]) -> tuple[int, ...]:
    try:
        return np.shape(rows)
    except Exception:  # ragged
        return (len(rows),)
