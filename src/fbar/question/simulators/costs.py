"""The costs that come with a simulator's output: returned under ``"cost"``, or measured in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import BoolArray, FloatArray, numeric_array
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.simulators.failures import RowFailed, Unusable
from fbar.question.simulators.rows import Rows

COST = "cost"
"""The name under which a simulator may return what its simulations cost."""


@dataclass(frozen=True, eq=False)
class Costs:
    """What is known of the costs of a block's simulations: what was returned, for which rows, and what was measured."""

    values: FloatArray
    returned: BoolArray
    seconds: FloatArray


def without_costs(output: Any) -> tuple[Any, Costs | None]:
    """A simulator's output without the costs in it, and these costs; None if there are none.

    A row whose cost is not a positive number has failed, unless it has failed anyway and its cost is NaN.
    """
    if isinstance(output, Mapping):
        if COST not in output:
            return output, None
        values = _numbers(output[COST])
        rest = {name: value for name, value in output.items() if name != COST}
        return rest, Costs(values, np.ones(values.shape, dtype=bool), np.full(values.shape, np.nan))
    if isinstance(output, np.ndarray) and output.dtype == object and output.ndim == 1:
        output = list(output)
    if not isinstance(output, list):
        return output, None
    seconds = output.cost if isinstance(output, Rows) else np.full(len(output), np.nan)
    rows, values, returned = [], np.full(len(output), np.nan), np.zeros(len(output), dtype=bool)
    for i, row in enumerate(output):
        if isinstance(row, Mapping) and COST in row:
            returned[i] = True
            try:
                values[i] = _cost(row[COST])
                row = _without_cost(row)
            except Unusable as error:
                row = RowFailed.of(error)
        rows.append(row)
    if not returned.any():
        return output, Costs(values, returned, seconds) if isinstance(output, Rows) else None
    return rows, Costs(values, returned, seconds)


def _numbers(value: Any) -> FloatArray:
    try:
        return numeric_array(value, f"the simulator's {COST!r}")
    except (InputError, OverflowError):
        raise Unusable(f"the simulator's {COST!r} must be numbers; got {shown(value)}") from None


def _cost(value: Any) -> float:
    number = _numbers(value)
    if number.ndim:
        raise Unusable(f"the simulator's {COST!r} must be one number for each simulation; got shape {number.shape}")
    return float(number)


def _without_cost(row: Any) -> Any:
    """A row's other outputs; just its data if there are no others."""
    rest = {name: value for name, value in row.items() if name != COST}
    return rest["x"] if list(rest) == ["x"] else rest
