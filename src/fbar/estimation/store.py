"""Every simulation of a run: where it was drawn, from which round and group, and what came out of it.

One store serves rejection, importance sampling, ABC-SMC and targeted runs. Simulations are numbered in the order of
their blocks, from 0 on; ``rows`` always are such numbers. What a run may need at any time is kept for all of them
(distances, where proposals learn from rejected simulations too); the rest up to a size that is stated here, and beyond
it for the accepted simulations only (``columns``), or it is drawn again (``coordinates``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.columns import NOTHING, Column, NotKept, rows_in
from fbar.estimation.kept import Kept
from fbar.question.outcomes import Failure, Simulated
from fbar.question.worth import DISTANCE, Worth

T = TypeVar("T")

FEW_NUMBERS = 100
"""Numbers of a simulation that count as summaries, at most: of the order of what its parameters take. More are data."""

MOST_NUMBERS = 20_000_000
"""Numbers in the summaries of a run that are kept for all simulations, at most: 160 MB."""

MOST_DATA = 5_000_000
"""The same where a simulation has more than `FEW_NUMBERS`, 40 MB: enough to learn summaries from."""

MOST_SIMULATIONS = 2**20
"""Simulations of a run all of which are kept where only the accepted ones are needed, at most."""


class Where(Protocol[T]):
    """Where simulations are: θ by row, kept or drawn again."""

    def add(self, theta: T, near: IntArray) -> None:
        """Take those of a block; ``near`` are the places in it that will be asked for."""

    def take(self, rows: IntArray) -> T: ...


@dataclass(frozen=True, eq=False)
class Entry(Generic[T]):
    """The simulations of one block, as a run gives them to its store.

    ``even`` is true of one set of evenly spread points, which is one cluster for the variance. ``near`` are those that
    will be asked for. ``distance`` is NaN where a simulation failed, 0 or ∞ where the data are an event.
    """

    round: int
    group: int
    theta: T
    distance: FloatArray
    recorded: Mapping[str, npt.NDArray[Any]]
    summaries: npt.NDArray[Any] | None
    cost: FloatArray | None = None
    failure: npt.NDArray[np.int8] | None = None
    even: bool = False
    near: IntArray | None = None
    further: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """What else a method keeps of each, by name: log p, or the stratum and cluster that a scheme placed it in."""


def failures(outcomes: Simulated, distance: FloatArray) -> npt.NDArray[np.int8] | None:
    """The kind of failure of every simulation, None if all succeeded; one without a distance is not finite."""
    lost = np.isnan(distance)
    if not lost.any() and (outcomes.failure is None or not outcomes.failure.any()):
        return None
    known = np.zeros(distance.size, dtype=np.int8) if outcomes.failure is None else outcomes.failure
    return np.where(lost & (known == Failure.NONE), np.int8(Failure.NOT_FINITE), known).astype(np.int8)


def numbers(summaries: npt.NDArray[Any], *, data: bool = True) -> npt.NDArray[Any] | None:
    """Summaries that are numbers; without ``data`` also not too many for a summary."""
    if summaries.dtype.kind not in "biuf":
        return None
    return summaries if data or math.prod(summaries.shape[1:]) <= FEW_NUMBERS else None


class Store(Generic[T]):
    """The simulations of a run in the order of its blocks.

    Parameters
    ----------
    theta
        Where simulations are.
    most
        How many simulations there will be at the most, ∞ if that is not known: what cannot be kept of all of them is
        not kept of the first ones either.
    needs_all
        Whether the run itself needs the distances and records of every simulation. Otherwise, of a run of more than
        `MOST_SIMULATIONS`, those of the near ones are kept.
    needs_costs
        Whether the run itself needs the costs of every simulation.
    needs_summaries
        Whether the run itself needs the summaries of every simulation, however many numbers they are.
    """

    def __init__(
        self,
        theta: Where[T],
        *,
        most: float = math.inf,
        needs_all: bool = True,
        needs_costs: bool = False,
        needs_summaries: bool = False,
    ) -> None:
        self.theta = theta
        self.simulations = 0
        self.near = Kept()
        """The rows of the near simulations."""
        self._planned = most if most < math.inf else 0.0
        self._needs_all, self._needs_summaries = needs_all, needs_summaries
        self._most_kept = math.inf if needs_all or needs_summaries else MOST_SIMULATIONS
        self.distance = self._column(self._most_kept)
        self.cost = self._column(math.inf if needs_costs else MOST_SIMULATIONS, near=False)
        self.further: dict[str, Column] = {}
        self._summaries: Column | None = None
        self._blocks = Kept()
        self._table: IntArray | None = None
        self._starts: IntArray = NOTHING
        self._recorded: dict[int, tuple[IntArray | None, Mapping[str, npt.NDArray[Any]]]] = {}
        self._failure: dict[int, npt.NDArray[np.int8]] = {}
        self.failed_upto = 0
        """The simulations before this one have failed, whatever came out of them."""

    def _column(self, most: float, each: float = 1.0, *, near: bool = True) -> Column:
        return Column(0 if self._planned * each > most else most, self.near if near else None)

    @property
    def summaries(self) -> Column:
        """s of every simulation, or the data themselves where the problem has no summary function."""
        if self._summaries is None:
            raise NotKept
        return self._summaries

    def add(self, entry: Entry[T]) -> None:
        size, number = len(entry.distance), len(self._blocks)
        places = NOTHING if entry.near is None else entry.near
        near = self.simulations + places
        self._blocks.add(np.array([[entry.round, entry.group, size, entry.even]], dtype=np.int64))
        self._table = None
        self.simulations += size
        self.theta.add(entry.theta, places)
        if self._summaries is None:
            self._summaries = self._summary_column(entry.summaries)
        self.distance.add(entry.distance, near)
        self.cost.add(entry.cost, near)
        self._summaries.add(entry.summaries, near)
        for name, values in entry.further.items():
            if name not in self.further:
                self.further[name] = self._column(self._most_kept)
            self.further[name].add(values, near)
        if near.size and not self._needs_all:
            self.near.add(near)
        if entry.recorded:
            whole = self.distance.whole
            kept = entry.recorded if whole else {name: values[places] for name, values in entry.recorded.items()}
            self._recorded[number] = (None if whole else places), kept
        if entry.failure is not None and self.distance.whole:
            self._failure[number] = entry.failure

    def _summary_column(self, first: npt.NDArray[Any] | None) -> Column:
        """The column for summaries, the size of which is known with the first block."""
        each = 0 if first is None else math.prod(first.shape[1:])
        few = each <= FEW_NUMBERS
        most = math.inf if self._needs_summaries else MOST_NUMBERS if few else MOST_DATA
        if self._most_kept < math.inf:
            most = min(most, self._most_kept * each)
        return self._column(most, each, near=few and not self._needs_all)

    def all_failed(self) -> None:
        """Every simulation so far has failed after all."""
        self._recorded, self.failed_upto = {}, self.simulations
        self.measured(np.full(self.simulations, np.nan))

    def measured(self, distances: FloatArray) -> None:
        """Give every simulation another distance, by another measure."""
        self.distance = self._column(self._most_kept)
        self.distance.add(distances, rows_in(self.near))

    def narrow(self, places: IntArray) -> None:
        """Of the near simulations only some are still near, given by their places in the list."""
        rows = rows_in(self.near)[places]
        for column in (self.distance, *self.further.values(), *filter(None, [self._summaries])):
            column.narrow(places)
        self.near.clear()
        if rows.size:
            self.near.add(rows)

    # ------------------------------------------------------------ blocks

    @property
    def blocks(self) -> IntArray:
        """Round, group, simulations, and whether they are evenly spread, of every block."""
        if self._table is None:
            self._table = self._blocks.whole() if len(self._blocks) else np.zeros((0, 4), dtype=np.int64)
            self._starts = np.asarray(np.cumsum(self._table[:, 2]) - self._table[:, 2])
        return self._table

    @property
    def starts(self) -> IntArray:
        """The first simulation of every block."""
        return self._starts if self.blocks.size else NOTHING

    def block_of(self, rows: IntArray) -> IntArray:
        return np.asarray(np.searchsorted(self.starts, rows, side="right") - 1, dtype=np.int64)

    def group_of(self, rows: IntArray) -> IntArray:
        return np.asarray(self.blocks[self.block_of(rows), 1])

    def round_of(self, rows: IntArray) -> IntArray:
        return np.asarray(self.blocks[self.block_of(rows), 0])

    def in_blocks(self, rows: IntArray) -> Iterator[tuple[int, int, int, bool, IntArray]]:
        """The blocks of rows in rising order: round, number in it, size, whether it is even, and the places in it."""
        blocks, first = np.unique(self.block_of(rows), return_index=True)
        for block, low, high in zip(blocks.tolist(), first, [*first[1:], rows.size], strict=True):
            round, _, size, even = self.blocks[block].tolist()
            number = block - int(np.searchsorted(self.blocks[:, 0], round))
            yield round, number, size, bool(even), rows[low:high] - self.starts[block]

    # ------------------------------------------------------------ what came out

    def recorded(self, rows: IntArray) -> dict[str, npt.NDArray[Any]]:
        """What simulators recorded at some simulations; `NotKept` where some are not in memory."""
        if not self._recorded:
            return {}
        names = dict.fromkeys(name for _, own in self._recorded.values() for name in own)
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in names}
        sizes = self.blocks[:, 2].tolist()
        which, kept = Kept(), True
        for block, size in enumerate(sizes):
            places, own = self._recorded.get(block, (None, {}))
            kept = kept and places is None
            here = np.arange(size) if places is None else places
            which.add(self._starts[block] + here)
            for name in names:
                # A block whose simulations all failed has none; its rows are never among those that are asked for.
                parts[name].append(own.get(name, np.full(here.size, np.nan)))
        at = rows
        if not kept:
            there = which.whole()
            at = np.minimum(np.searchsorted(there, rows), max(there.size - 1, 0))
            if rows.size and (not there.size or (there[at] != rows).any()):
                raise NotKept
        return {name: np.concatenate(own)[at] for name, own in parts.items()}

    def failure(self, rows: IntArray) -> npt.NDArray[np.int8]:
        """The kind of failure of some simulations, 0 for those that succeeded."""
        if not self.distance.whole:
            raise NotKept
        found = np.zeros(rows.size, dtype=np.int8)
        if self._failure:
            blocks = self.block_of(rows)
            for block in np.unique(blocks).tolist():
                if block in self._failure:
                    mine = np.flatnonzero(blocks == block)
                    found[mine] = self._failure[block][rows[mine] - self.starts[block]]
        after_all = (rows < self.failed_upto) & (found == Failure.NONE)
        return np.where(after_all, np.int8(Failure.UNUSABLE), found).astype(np.int8)

    def distances(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Those from one simulation to before another, part by part, each with the number of its first one."""
        yield from self.distance.between(first, self.simulations if last is None else last)

    def worth(self, worth: Worth, rows: IntArray) -> FloatArray:
        """a of some simulations."""
        return worth.of({name: self._named(name).take(rows) for name in worth.needs})

    def accepted(self, worth: Worth, without: int | None = None) -> tuple[IntArray, FloatArray]:
        """The simulations that are worth something, those of one group left out, and their a."""
        rows, weights = [NOTHING], [np.zeros(0)]
        columns = [self._named(name).between(0, self.simulations) for name in worth.needs]
        for parts in zip(*columns, strict=True):
            first = parts[0][0]
            weight = worth.of({name: values for name, (_, values) in zip(worth.needs, parts, strict=True)})
            hit = np.flatnonzero(weight)
            if without is not None:
                hit = hit[self.group_of(first + hit) != without]
            rows.append(first + hit)
            weights.append(weight[hit])
        return np.concatenate(rows), np.concatenate(weights)

    def _named(self, name: str) -> Column:
        return self.distance if name == DISTANCE else self.further[name]

    def within(self, tolerance: float, first: int, last: int) -> int:
        """How many of the simulations from one to before another came within the tolerance."""
        return sum(int((distance <= tolerance).sum()) for _, distance in self.distances(first, last))

    def nearest(self, number: int, without: int | None = None) -> float:
        """The distance that this number is within, those of one group left out; the largest finite one if fewer are."""
        near, number = np.zeros(0), max(number, 1)
        for first, distance in self.distances():
            good = np.isfinite(distance)
            if near.size >= number:
                good &= distance < near.max()
            at = np.flatnonzero(good)
            if without is not None:
                at = at[self.group_of(first + at) != without]
            near = np.concatenate([near, distance[at]])
            if near.size > number:
                near = np.partition(near, number - 1)[:number]
        return float(near.max()) if near.size else math.inf
