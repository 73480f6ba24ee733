"""Simulations whose whole output is kept, for predictions: of a problem's own simulator, or of another one.

What a run keeps of a simulation is its summaries; a prediction is of the raw data and of everything else that a
simulator gives, by name. An output that is just an array is called x. Of the problem's own simulator the summaries
are there too, and what a run would reject has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.question.outcomes import Simulated
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed, Rows, SimulatorFunction

DATA = "the output x"
"""An array that is all of a simulator's output, among what else it may be called."""

X = "x"


class _NamedRow(dict[str, Any]):
    """One simulation's output by name."""


class PredictedProblem(Problem):
    """A problem's parameters, and a simulator whose outputs are kept as ``recorded`` arrays; its own by default."""

    def __init__(self, asked: Problem, simulate: SimulatorFunction | None = None) -> None:
        super().__init__(asked.prior, asked.simulate if simulate is None else simulate, 0.0, derived=asked.derived)
        self._own = asked if simulate is None else None

    def outcomes(self, output: Any, simulations: int, *, check_rows: bool = True, keep_raw: int = 0) -> Simulated:
        """The outputs by name; the summaries are zeros for another simulator than the problem's own."""
        named = super().outcomes(_named(output, simulations), simulations, check_rows=check_rows)
        if self._own is None:
            return named
        own = self._own.outcomes(output, simulations, check_rows=check_rows)
        return replace(own, recorded=named.recorded)

    def usable(self, rows: Rows) -> Rows:
        if self._own is not None:
            return self._own.usable(rows)
        found = super().usable(Rows([_named_row(row) for row in rows], rows.cost))
        return Rows([_NamedRow(row) if isinstance(row, Mapping) else row for row in found], found.cost)


def outputs(found: Simulated) -> dict[str, npt.NDArray[Any]]:
    """The arrays that the simulations of a block gave, by name."""
    return {X if name == DATA else name: np.asarray(values) for name, values in found.recorded.items()}


def _named(output: Any, simulations: int) -> Any:
    """A batch of outputs with a number in place of the data, which are among the named ones."""
    if isinstance(output, np.ndarray) and output.dtype == object and output.ndim:
        output = list(output)
    if isinstance(output, Rows):
        return Rows([_named_row(row) for row in output], output.cost)
    if isinstance(output, list):
        return [_named_row(row) for row in output]
    return {X: np.zeros(simulations), **_by_name(output)}


def _named_row(row: Any) -> Any:
    if row is None or isinstance(row, RowFailed | _NamedRow):
        return row
    return _NamedRow({X: 0.0, **_by_name(row)})


def _by_name(output: Any) -> dict[Any, Any]:
    if not isinstance(output, Mapping):
        return {DATA: output}
    return {DATA if name == X else name: value for name, value in output.items()}
