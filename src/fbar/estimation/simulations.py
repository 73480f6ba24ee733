"""Every simulation of a run, accepted or not, with its weight: what an estimator needs that learns from all of them.

A run of any method that draws its parameters (rejection, importance sampling, ABC-SMC, targeted) offers this view of
its store. With w = p/q̄, q̄ the mixture of the proposals that a simulation may have come from, Σ w a f / Σ w a over the
accepted simulations is the run's own estimate (but for other weights of ABC-SMC's rounds and other estimators than the
weighted average), and Σ w g(θ, s) / Σ w over all of them estimates E[g] under the prior predictive for any g. Σ w is
near the number of draws, those outside the prior's support included. How the draws depend on one another is in their
strata and clusters, as in `fbar.designs.schemes`: the variance of Σ z is taken between clusters within strata, Σ_s
c_s/(c_s − 1) Σ_{c∈s} (ζ_c − ζ̄_s)²; a targeted run adds its largest z² once more.

What is kept in memory is stated in `fbar.estimation.store`. Where that is not everything, the rest is read from the
run's record, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.errors import InputError
from fbar.estimation.columns import NotKept
from fbar.estimation.kept import PART
from fbar.estimation.store import Store, failures
from fbar.question.outcomes import Failure, Outcomes, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem

Recorded = Iterable[tuple[int, int, Outcomes]]
"""Blocks of a record in their order: round, number in it, and outcomes."""


@dataclass(frozen=True, eq=False)
class Structure:
    """How some simulations depend on one another.

    ``used`` are those that count: not what lies behind the acceptance that ended a round, nor a stratified round that
    is not complete. ``cluster`` is None where every simulation is one by itself. ``stratum_sizes`` are the clusters of
    every stratum, draws outside the prior's support included. ``scheme`` names how draws fill the space: independent,
    stratified or sobol.
    """

    scheme: str
    stratum: IntArray
    cluster: IntArray | None
    stratum_sizes: IntArray
    used: BoolArray

    def take(self, places: IntArray) -> Structure:
        """That of some of them."""
        cluster = None if self.cluster is None else self.cluster[places]
        return replace(self, stratum=self.stratum[places], cluster=cluster, used=self.used[places])


class Drawn(Protocol):
    """What a method knows of its draws, by their rows in rising order."""

    @property
    def everything(self) -> Store[Any]: ...

    def theta_of(self, rows: IntArray) -> Points:
        """θ, without recorded outputs."""

    def log_weights_of(self, rows: IntArray) -> FloatArray:
        """log w, −∞ where the prior has no mass; no trace of it is left in the run."""

    def structure_of(self, rows: IntArray) -> Structure: ...


@dataclass(frozen=True, eq=False)
class Portion:
    """Some simulations, one row each.

    ``log_w`` is log p/q̄, −∞ for a simulation that does not count. ``summaries`` has a row of numbers for each
    simulation (the data themselves where the problem has no summary function); it is None where they are not numbers,
    and then the ``distance`` is all there is. A failed simulation has the distance NaN, its kind in ``failure``, and
    summaries that mean nothing. ``cost`` is None where it is not known.
    """

    problem: Problem
    rows: IntArray
    points: Points
    """θ with what the simulator recorded."""
    log_w: FloatArray
    distance: FloatArray
    summaries: FloatArray | None
    failure: npt.NDArray[np.int8]
    cost: FloatArray | None
    round: IntArray
    group: IntArray
    structure: Structure

    def __len__(self) -> int:
        return self.rows.size

    @property
    def weights(self) -> FloatArray:
        """w = p/q̄."""
        return np.asarray(np.exp(self.log_w))

    @cached_property
    def unit(self) -> FloatArray:
        """θ in the prior's unit coordinates, shape (n, dimension)."""
        return self.problem.prior.to_unit(self.points)


class Simulations:
    """All simulations of a run, in the order of their blocks.

    Parameters
    ----------
    problem, drawn
        What was asked, and what the method knows of its draws.
    cost_at
        The cost of a simulation as a function of θ, where it was given so; None where it was not.
    recorded
        Reads the run's record, for what is not in memory; None where there is no record.
    """

    def __init__(
        self,
        problem: Problem,
        drawn: Drawn,
        cost_at: Callable[[Points], FloatArray | None],
        recorded: Recorded | None = None,
    ) -> None:
        self.problem, self._cost_at = problem, cost_at
        self._drawn, self._recorded = drawn, recorded
        self._size = drawn.everything.simulations

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        where = "in memory" if self.in_memory else "partly in the record" if self._recorded is not None else "partly"
        return f"Simulations({self._size:,}, {where})"

    @property
    def in_memory(self) -> bool:
        """Whether everything that came out of every simulation is in memory."""
        store = self._drawn.everything
        return self._size == 0 or (store.distance.whole and (self._numbers == 0 or store.summaries.whole))

    @cached_property
    def _numbers(self) -> int:
        """The numbers in the summaries of a simulation; 0 where there are none."""
        observed = self.problem.observed
        if observed is None or not self.problem.has_summaries or np.asarray(observed).dtype.kind not in "biuf":
            return 0
        return int(np.size(observed))

    def take(self, rows: IntArray | None = None) -> Portion:
        """Some simulations, by numbers in rising order, or all; refused where not all of it is in memory."""
        if not self._size:
            raise InputError("the run has no simulations yet")
        chosen = np.arange(self._size) if rows is None else np.asarray(rows, dtype=np.int64)
        if not (chosen.size and chosen[0] >= 0 and chosen[-1] < self._size and (np.diff(chosen) > 0).all()):
            raise InputError(f"simulations are selected by number in ascending order, from 0 to {self._size - 1:,}")
        try:
            return self._portion(chosen)
        except NotKept:
            raise self._not_kept() from None

    def portions(self, size: int = PART) -> Iterator[Portion]:
        """All simulations, some at a time in their order: from memory, or block by block from the run's record."""
        if self.in_memory:
            for first in range(0, self._size, size):
                yield self._portion(np.arange(first, min(first + size, self._size)))
            return
        if self._recorded is None:
            raise self._not_kept()
        yield from self._from_record(self._recorded)

    def selected(self, most: int, select: Callable[[FloatArray, IntArray], IntArray]) -> Portion:
        """All simulations, or at most so many where they are more: the rows that ``select`` gives
        of their summaries and their places in the run.

        Summaries of simulations that failed are NaN. Where not everything is in memory, the run's record is read once,
        and ``select`` chooses among what it chose before and what follows.
        """
        if self._size <= most and self.in_memory:
            return self.take()
        if not self._numbers:
            raise InputError("simulations are selected by summaries that are numbers")
        if not self.in_memory:
            return self._selected_from_record(most, select)
        store, rows = self._drawn.everything, np.arange(self._size)
        summaries = store.summaries.flat(rows, self._numbers)
        summaries[store.failure(rows) != Failure.NONE] = np.nan
        chosen = np.sort(select(summaries, rows))
        return self.take(chosen if chosen.size else None)

    def _selected_from_record(self, most: int, select: Callable[[FloatArray, IntArray], IntArray]) -> Portion:
        kept: list[Portion] = []
        for portion in self.portions():
            kept.append(portion)
            if sum(map(len, kept)) > 2 * most:
                kept = [self._narrowed(kept, select)]
        return self._narrowed(kept, select)

    def _narrowed(self, kept: list[Portion], select: Callable[[FloatArray, IntArray], IntArray]) -> Portion:
        """Those of some portions that are selected; all of them where none is."""
        found = [portion.summaries for portion in kept if portion.summaries is not None]
        summaries = np.concatenate(found)
        failure = np.concatenate([portion.failure for portion in kept])
        rows = np.concatenate([portion.rows for portion in kept])
        chosen = np.sort(select(np.where((failure == Failure.NONE)[:, None], summaries, np.nan), rows))
        if not chosen.size:
            chosen = np.arange(len(summaries))
        costs = [portion.cost for portion in kept if portion.cost is not None]
        return self._made(
            rows[chosen],
            Points.concatenate([portion.points for portion in kept]).take(chosen),
            np.concatenate([portion.distance for portion in kept])[chosen],
            summaries[chosen],
            {},
            failure[chosen],
            np.concatenate(costs)[chosen] if len(costs) == len(kept) else None,
        )

    def _not_kept(self) -> InputError:
        return InputError(
            f"the results of {self._size:,} simulations are not all kept in memory; record the run (run=, --run) and "
            "read them from there, or use a smaller budget or fewer summaries"
        )

    # ------------------------------------------------------------ from memory and from the record

    def _portion(self, rows: IntArray) -> Portion:
        store = self._drawn.everything
        points = self._drawn.theta_of(rows)
        summaries = store.summaries.flat(rows, self._numbers) if self._numbers else None
        cost = self._cost_at(points)
        if cost is None and store.cost.whole:
            cost = np.asarray(store.cost.take(rows))
        distance, failure = np.asarray(store.distance.take(rows)), store.failure(rows)
        return self._made(rows, points, distance, summaries, store.recorded(rows), failure, cost)

    def _made(
        self,
        rows: IntArray,
        points: Points,
        distance: FloatArray,
        summaries: FloatArray | None,
        recorded: Mapping[str, npt.NDArray[Any]],
        failure: npt.NDArray[np.int8],
        cost: FloatArray | None,
    ) -> Portion:
        drawn, store = self._drawn, self._drawn.everything
        structure = drawn.structure_of(rows)
        log_w = np.where(structure.used, drawn.log_weights_of(rows), -np.inf)
        return Portion(
            self.problem,
            rows,
            points.with_columns(recorded),
            log_w,
            distance,
            summaries,
            failure,
            cost,
            store.round_of(rows),
            store.group_of(rows),
            structure,
        )

    def _from_record(self, recorded: Recorded) -> Iterator[Portion]:
        store, drawn, start = self._drawn.everything, self._drawn, 0
        wanted = store.in_blocks(np.arange(self._size))
        following = next(wanted, None)
        for round, block, outcomes in recorded:
            if following is None:
                break
            if (round, block) != following[:2]:  # asked for ahead of need, and not used
                continue
            rows = np.arange(start, start + following[2])
            points = drawn.theta_of(rows)
            yield self._read(rows, points, outcomes, self._cost_at(points))
            start, following = start + rows.size, next(wanted, None)
        if following is not None:
            raise InputError(f"block {following[1]} of round {following[0]} is missing in the run's record")

    def _read(self, rows: IntArray, points: Points, outcomes: Outcomes, cost: FloatArray | None) -> Portion:
        """A block from the record, with what the store has of it."""
        store, summaries, recorded = self._drawn.everything, None, {}
        failure = np.zeros(rows.size, dtype=np.int8)
        if isinstance(outcomes, Simulated):
            if store.distance.whole:
                distance = np.asarray(store.distance.take(rows))
            else:
                distance, _ = self.problem.distances(outcomes)
            found = failures(outcomes, distance)
            failure = failure if found is None else found
            if self._numbers:
                fits = outcomes.summaries[:1].size == self._numbers
                summaries = np.full((rows.size, self._numbers), np.nan)
                if fits:
                    summaries[:] = outcomes.summaries.reshape(rows.size, -1)
            cost, recorded = outcomes.cost if cost is None else cost, outcomes.columns
        else:
            distance = np.where(outcomes.weight > 0, 0.0, np.inf)
        lost = rows < store.failed_upto
        if lost.any():
            distance = np.where(lost, np.nan, distance)
            failure = np.where(lost & (failure == Failure.NONE), np.int8(Failure.UNUSABLE), failure).astype(np.int8)
            recorded = {}
        return self._made(rows, points, distance, summaries, recorded, failure, cost)
