"""Data by name: ``observed={"cases": …, "peak day": …}``, and a simulator that returns a mapping with the same names.

Inside they are one row of numbers: the values of the first name, then those of the next. The names stand for these
numbers as those of summaries do, see `fbar.question.summary_names`. A summary function receives the arrays by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import without_mask
from fbar.checks import require_name, shown
from fbar.errors import InputError
from fbar.question.outcomes import Failure
from fbar.question.simulators import COST, Unusable

X = "x"
"""The name of data that are just an array."""


@dataclass(frozen=True)
class NamedData:
    """The names of the data, each with the shape of its values in one simulation."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.shapes)

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers each name stands for."""
        return {name: math.prod(shape) for name, shape in self.shapes}

    def joined(self, values: Mapping[Any, npt.NDArray[Any]], rows: tuple[int, ...]) -> npt.NDArray[Any]:
        """The numbers of simulations, (*rows, total), from arrays (*rows, *shape) by name."""
        for name, shape in self.shapes:
            found = values[name]
            if found.dtype.kind not in "biuf":
                raise Unusable(f"{name!r} of the simulator's output must be numbers; got {shown(found)}")
            if found.shape != (*rows, *shape):
                raise Unusable(
                    f"{name!r} of the simulator's output has shape {found.shape[len(rows) :]} in each simulation, and "
                    f"{shape} in the data",
                    Failure.WRONG_SHAPE,
                )
        return np.concatenate([values[name].reshape((*rows, -1)) for name in self.names], axis=-1)

    def split(self, numbers: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """The arrays (…, *shape) by name, from numbers (…, total)."""
        parts = np.split(numbers, np.cumsum(list(self.sizes.values()))[:-1], axis=-1)
        rows = numbers.shape[:-1]
        return {name: part.reshape((*rows, *shape)) for (name, shape), part in zip(self.shapes, parts, strict=True)}

    def require(self, output: Any) -> Mapping[Any, Any]:
        """A simulator's output, refused if it is not a mapping with all the names."""
        names = ", ".join(map(repr, self.names))
        if not isinstance(output, Mapping):
            raise Unusable(
                f"observed has the names {names}, so a simulator must return a mapping with them; got "
                f"{type(output).__name__}",
                Failure.WRONG_SHAPE,
            )
        for name in self.names:
            if name not in output:
                raise Unusable(
                    f"the simulator's output lacks {name!r}, which is among the data; it holds {shown(list(output))}",
                    Failure.WRONG_SHAPE,
                )
        return output


def named_data(observed: Mapping[Any, Any]) -> tuple[NamedData, npt.NDArray[Any]]:
    """The form of data that were given by name, and their numbers in a row."""
    if not observed:
        raise InputError("observed is empty; give the data, by name or as an array")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, values in observed.items():
        require_name(name, "the name of data")
        if name in (X, COST):
            what = "all data" if name == X else "what a simulation costs"
            raise InputError(f"data cannot be called {name!r}, which stands for {what}; give them another name")
        array = without_mask(values, f"observed[{shown(name)}]")
        if array.dtype.kind not in "biuf" or not array.size:
            raise InputError(f"data with names must be numbers; observed[{shown(name)}] is {shown(values)}")
        arrays[name] = array
    form = NamedData(tuple((name, array.shape) for name, array in arrays.items()))
    return form, form.joined(arrays, ())
