"""New simulations at the posterior, with error bars on their means and quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import between, choice, counted
from fbar.diagnostics.prediction_error import Calibration, PredictedNumbers
from fbar.errors import InputError, MissingExtra
from fbar.estimation.estimate import shorthand
from fbar.question.points import Points
from fbar.question.summary_names import numbered

if TYPE_CHECKING:
    import pandas

NUMBERS = "biuf"

LEVELS = (0.05, 0.5, 0.95)
"""Quantiles that are printed."""

ROWS = 12
"""Numbers that are printed, at most; of a longer series some, spread evenly."""

SUMMARIES = "summaries"


@dataclass(frozen=True, eq=False)
class Predictions:
    """New simulations at θ drawn from the posterior. Print it; ``predictions["x"]`` is the array called x.

    Attributes
    ----------
    arrays
        The simulator's output by name, with a row for each simulation: its data (x, or the names of the data), what
        else it returns, and the summaries (by their names, or ``"summaries"``) of the problem's own simulator.
    points
        θ of each simulation.
    observed
        The data among these, by the same names: x and the summaries.
    summaries, observed_summaries
        Those of the problem's own simulator, (n, …), and of the data; empty and None for another one.
    failed
        How many new simulations failed; they are not in the arrays.
    missing
        Why there are fewer than requested; empty if there are not.
    about
        What the parameters were drawn from.
    warnings
        Why error bars may be unreliable.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    points: Points | None
    observed: Mapping[str, npt.NDArray[Any]]
    summaries: npt.NDArray[Any]
    observed_summaries: npt.NDArray[Any] | None
    failed: int = 0
    missing: str = ""
    about: str = ""
    calibration: Calibration | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """The number of new simulations that succeeded."""
        return 0 if self.points is None else self.points.rows

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[choice(name, self.arrays, "prediction")]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.calibration is None else self.calibration.warnings

    @property
    def numbers(self) -> FloatArray | None:
        """The summaries as (n, d), where they are numbers."""
        if self.summaries.dtype.kind not in NUMBERS or not len(self.summaries):
            return None
        return self.summaries.reshape(len(self.summaries), -1).astype(np.float64)

    # ------------------------------------------------------------ means and quantiles

    @cached_property
    def mean(self) -> dict[str, PredictedNumbers]:
        """The mean of every array of numbers with its error, by name."""
        return {name: self._calibration.mean(y).shaped(shape) for name, (y, shape) in self._flat.items()}

    def quantile(self, level: float) -> dict[str, PredictedNumbers]:
        """A quantile of every array of numbers with its error, by name: ``predictions.quantile(0.9)["x"].value``."""
        at = between(level, 0.0, 1.0, "level")
        return {name: self._calibration.quantile(y, at).shaped(shape) for name, (y, shape) in self._flat.items()}

    @property
    def _calibration(self) -> Calibration:
        if self.calibration is None:
            raise InputError(f"there are no predictions: {self.missing}")
        return self.calibration

    @cached_property
    def _flat(self) -> dict[str, tuple[FloatArray, tuple[int, ...]]]:
        """The arrays of numbers as (n, m), with the shape of a row."""
        return {
            name: (array.reshape(len(array), -1).astype(np.float64), array.shape[1:])
            for name, array in self.arrays.items()
            if array.dtype.kind in NUMBERS and len(array)
        }

    # ------------------------------------------------------------ as tables

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each new simulation: its parameters, and a column for each number that is predicted."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "table") from error
        columns: dict[str, Any] = {}
        if self.points is not None:
            columns = {name: self.points[name] for name in self.points}
        for name, array in self.arrays.items():
            flat = array.reshape(len(array), -1) if len(array) else array.reshape(0, 0)
            for label, column in zip(numbered({name: flat.shape[1]}), flat.T, strict=True):
                columns[f"{label} (predicted)" if label in columns else label] = column
        return pandas.DataFrame(columns)

    def table(self) -> list[dict[str, Any]]:
        """A row for each number: name, mean and 5, 50 and 95% quantiles with their errors, and the observed value."""
        means, quantiles = self.mean, {level: self.quantile(level) for level in LEVELS}
        rows: list[dict[str, Any]] = []
        for name, (y, _) in self._flat.items():
            seen = np.ravel(self.observed[name]) if name in self.observed else None
            for place, label in enumerate(numbered({name: y.shape[1]})):
                row: dict[str, Any] = {"name": label, "mean": _pair(means[name], place)}
                row |= {f"{level:g}": _pair(quantiles[level][name], place) for level in LEVELS}
                rows.append(row | ({} if seen is None else {"observed": seen[place].item()}))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Means and quantiles with their errors, as JSON values; the arrays themselves are in ``arrays``."""
        rows = [
            {
                key: {"value": item[0], "standard_error": item[1]} if isinstance(item, tuple) else item
                for key, item in row.items()
            }
            for row in (self.table() if len(self) else [])
        ]
        return {
            "simulations": len(self),
            "failed": self.failed,
            **({"missing": self.missing} if self.missing else {}),
            "about": self.about,
            "predictions": rows,
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        if not len(self):
            return f"no predictions: {self.missing}"
        rows = self.table()
        some = [rows[place] for place in self._printed()]
        known = any("observed" in row for row in some)
        head = ["", "mean", *(f"{level:.0%}" for level in LEVELS), *(["observed"] if known else [])]
        cells = [
            [
                row["name"],
                *(shorthand(*row[key]) for key in ("mean", *(f"{level:g}" for level in LEVELS))),
                *([f"{row['observed']:.6g}" if "observed" in row else ""] if known else []),
            ]
            for row in some
        ]
        widths = [max(len(line[k]) for line in (head, *cells)) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (head, *cells)
        ]
        if len(some) < len(rows):
            lines.append(
                f"({len(some)} of {len(rows):,} numbers are shown, evenly spaced along each series; .table() has all)"
            )
        failed = f", {self.failed:,} failed" if self.failed else ""
        where = f"{counted(len(self), 'new simulation')} at parameters drawn from {self.about}{failed}"
        return "\n".join(
            [*lines, where, *([self.missing] if self.missing else []), *(f"warning: {w}" for w in self.warnings)]
        )

    def _printed(self) -> list[int]:
        """The places of the numbers that are printed: some of each series, spread evenly, and single ones first."""
        sizes = [y.shape[1] for y, _ in self._flat.values()]
        starts = np.cumsum([0, *sizes])
        room = max(
            ROWS // max(len(sizes), 1), (ROWS - sum(size == 1 for size in sizes)) // max(sum(np.greater(sizes, 1)), 1)
        )
        found: list[int] = []
        for start, size in zip(starts, sizes, strict=False):
            places = np.linspace(0, size - 1, min(size, max(room, 1))).round().astype(int)
            found += (start + places).tolist()
        return found[: 2 * ROWS]

    def __repr__(self) -> str:
        named = ", ".join(f"{name} {array.shape[1:]}" for name, array in self.arrays.items())
        return f"Predictions({counted(len(self), 'simulation')}: {named})"


def _pair(numbers: PredictedNumbers, place: int) -> tuple[float, float]:
    return float(np.ravel(numbers.value)[place]), float(np.ravel(numbers.standard_error)[place])
