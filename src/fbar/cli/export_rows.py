"""Every recorded simulation as rows of a table: what was recorded, its distance, and whether it was accepted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data import PosteriorAtData
from fbar.ledger import LedgerReader
from fbar.question.outcomes import Failure, Outcomes, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.summary_names import numbered
from fbar.results.result import Result
from fbar.system.terminal import Line

if TYPE_CHECKING:
    from pandas import DataFrame

ROWS = 2**16
"""Rows that are written together, approximately."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some blocks of a record whose columns are alike."""

    own: dict[str, npt.NDArray[Any]]
    columns: dict[str, npt.NDArray[Any]]
    parameters: tuple[str, ...]
    distance: FloatArray | None
    simulations: int

    @property
    def kind(self) -> tuple[Any, ...]:
        return tuple((name, _dtype(values)) for name, values in self.columns.items())

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def theta(self) -> Points:
        return Points({name: self.own[name] for name in self.parameters})

    def frame(self, pandas: Any) -> DataFrame:
        return pandas.DataFrame({name: list(v) if v.ndim > 1 else v for name, v in self.columns.items()})


def _dtype(values: npt.NDArray[Any]) -> Any:
    """Of text only that it is text: it is as wide as its longest word."""
    return (values.dtype.kind if values.dtype.kind in "OSU" else values.dtype), values.shape[1:]


class Columns:
    """A record's blocks as columns; ``names`` are those of the summaries, where they have any."""

    def __init__(self, judge: Judge | None, names: Sequence[str] = ()) -> None:
        self._judge, self._names = judge, names

    def parts(self, ledger: LedgerReader, line: Line) -> Iterator[Part]:
        """Neighbouring blocks of the same columns together, so that blocks of one are not slow."""
        alike: list[Part] = []
        done = 0
        for block in ledger.blocks():
            part = self._part(*block)
            if alike and (part.kind != alike[0].kind or done >= ROWS):
                yield _joined(alike)
                alike, done = [], 0
            alike.append(part)
            done += part.rows
            line.count(part.simulations, "simulation")
        if alike:
            yield _joined(alike)

    def _part(self, round: int, block: int, points: Points, repeats: IntArray | None, outcomes: Outcomes) -> Part:
        known = isinstance(outcomes, Simulated)
        theta = points if repeats is None or not known else points.repeat(repeats)
        own: dict[str, Any] = {name: np.asarray(theta[name]) for name in theta}
        before = {"round": np.full(theta.rows, round), "block": np.full(theta.rows, block)}
        simulations = points.rows if repeats is None else int(repeats.sum())
        if not isinstance(outcomes, Simulated):
            times = np.ones(points.rows, dtype=np.int64) if repeats is None else np.asarray(repeats)
            about: dict[str, Any] = {"simulations": times, "accepted": np.asarray(outcomes.weight)}
            return Part(own, _with_ours(own, before, about), tuple(theta), None, simulations)
        own |= {name: np.asarray(values) for name, values in outcomes.recorded.items()}
        summaries = np.asarray(outcomes.summaries).reshape(len(outcomes.summaries), -1)
        numbers = summaries.shape[1]
        names = self._names if len(self._names) == numbers else [f"summary{i + 1}" for i in range(numbers)]
        about = {_not_ours(name, own): summaries[:, i] for i, name in enumerate(names)}
        kinds = np.array([kind.name.lower() for kind in Failure])
        assert outcomes.failure is not None
        about["failure"] = np.where(outcomes.failure == 0, "", kinds[outcomes.failure])
        about |= {} if outcomes.cost is None else {"cost": outcomes.cost}
        distance = None if self._judge is None else self._judge.distances(outcomes)
        return Part(own, _with_ours(own, before, about), tuple(theta), distance, simulations)


def _joined(parts: list[Part]) -> Part:
    first = parts[0]
    if len(parts) == 1:
        return first
    distances = [part.distance for part in parts if part.distance is not None]
    return Part(
        {name: np.concatenate([part.own[name] for part in parts]) for name in first.parameters},
        {name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
        first.parameters,
        np.concatenate(distances) if distances else None,
        sum(part.simulations for part in parts),
    )


OURS = ("round", "block", "failure", "cost", "distance", "accepted", "used", "weight")
"""Columns that every export may have."""


def _not_ours(name: str, taken: Any) -> str:
    """The column of a summary: its name, or another one where that of a parameter, an output or of ours is the same."""
    return f"summary {name}" if name in taken or name in OURS else name


def free_name(name: str, taken: Any) -> str:
    """A column's name, or another one where a parameter or a recorded output is called so."""
    return f"{name}_of_simulation" if name in taken else name


def _with_ours(own: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Our columns before and after the user's, which keep their names."""
    return {
        **{free_name(name, own): values for name, values in before.items()},
        **own,
        **{free_name(name, own): values for name, values in after.items()},
    }


class Judge:
    """Which simulations were accepted, or used for an answer at the data, and their weights in the posterior.

    A posterior of draws holds the accepted ones in the order in which they were recorded. Blocks that were asked for
    ahead of need are recorded and not used, so that coming near is not enough. Beyond the tolerance some kernels accept
    too: where the posterior's points are not among those that came near, all are looked at.
    """

    def __init__(self, problem: Problem, result: Result | None) -> None:
        self._problem = problem
        self._measure = None if result is None else result.run.learned_distance
        self._within: float | None = None
        self._points: Points | None = None
        self._name = "accepted"
        if result is not None and isinstance(result.posterior, PosteriorAtData):  # its points were moved
            self._within, self._name = math.inf, "used"
            self._points, self._weights = result.posterior.as_simulated()
        elif result is not None:
            self._within = result.run.reported_tolerance or result.run.stages()[-1].tolerance or 0.0
            if result.posterior.cells is None:  # whose weights are those of the values of θ
                self._points, self._weights = result.posterior.points, result.posterior.weights
        self._all = False
        self._start_again()

    def _start_again(self) -> None:
        self._rows: list[npt.NDArray[np.int64]] = []
        self._found = self._seen = 0

    @property
    def summary_names(self) -> tuple[str, ...]:
        """A name for each summary, where they have any."""
        return numbered(self._problem.summary_names)

    def distances(self, outcomes: Simulated) -> FloatArray:
        return self._problem.distances(outcomes, measure=self._measure)[0]

    def look_at(self, theta: Points, distance: FloatArray | None) -> None:
        """Look for the posterior's next points among the next simulations."""
        if distance is None or self._points is None:
            return
        assert self._within is not None
        candidates = np.flatnonzero(~np.isnan(distance) if self._all else distance <= self._within)
        rows = candidates[_rows_of(self._points, self._found, theta.take(candidates))]
        self._rows.append(self._seen + rows)
        self._found += rows.size
        self._seen += distance.size

    def looks_again(self) -> bool:
        """Whether all simulations have to be looked at, since the points are not among the near ones."""
        if self._points is None or self._found == self._points.rows:
            return False
        if self._all:  # nor are they there
            self._points = None
            return False
        self._all = True
        self._start_again()
        return True

    def columns(self, start: int, distance: FloatArray | None) -> dict[str, npt.NDArray[Any]]:
        """The columns of the simulations from ``start`` on."""
        if distance is None:
            return {}
        found: dict[str, npt.NDArray[Any]] = {"distance": distance}
        if self._within is None:
            return {**found, self._name: np.zeros(distance.size, dtype=bool)}
        if self._points is None:
            return {**found, self._name: distance <= self._within}
        rows = np.concatenate(self._rows) if len(self._rows) != 1 else self._rows[0]
        self._rows = [rows]
        low, high = np.searchsorted(rows, [start, start + distance.size])
        used, weight = np.zeros(distance.size, dtype=bool), np.zeros(distance.size)
        used[rows[low:high] - start], weight[rows[low:high] - start] = True, self._weights[low:high]
        return {**found, self._name: used, "weight": weight}


def _rows_of(points: Points, first: int, theta: Points) -> npt.NDArray[np.int64]:
    """Where the points from ``first`` on stand among the next θ, in the same order."""
    few = min(theta.rows, points.rows - first)
    wanted = points.take(np.arange(first, first + few))
    if all(_same(theta[name][:few], wanted[name]).all() for name in theta):
        return np.arange(few)
    listed = list(zip(*(wanted[name].tolist() for name in theta), strict=True))
    found: list[int] = []
    for row, values in enumerate(zip(*(theta[name].tolist() for name in theta), strict=True)):
        if len(found) < few and all(
            a == b or (a != a and b != b) for a, b in zip(values, listed[len(found)], strict=True)
        ):
            found.append(row)
    return np.array(found, dtype=np.int64)


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> BoolArray:
    """Whether parameters are equal; one that a model does not have is not a number in both."""
    return np.asarray((first == second) | ((first != first) & (second != second)))
