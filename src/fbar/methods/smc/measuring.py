"""Distances of simulations to the data, by the problem's own distance or by one whose scales are learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.estimation.round import Round
from fbar.estimation.store import Store, failures, numbers
from fbar.question.distances import PNorm, Scaled
from fbar.question.outcomes import Outcomes, Seen, Simulated, Tally, require_simulated
from fbar.question.problem import Problem
from fbar.question.space import Particles


@dataclass(frozen=True, eq=False)
class Measured:
    """A block's distances, and what is kept with them."""

    distance: FloatArray
    seen: Seen
    recorded: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    summaries: npt.NDArray[Any] | None = None
    cost: FloatArray | None = None
    failure: npt.NDArray[np.int8] | None = None


class Measuring:
    """``measure`` is the distance of the present round, where its scales are learned; ``applied`` that of the distances
    which are stored."""

    def __init__(self, problem: Problem, scaled: Scaled | None) -> None:
        self._problem, self._scaled = problem, scaled
        self.measure: PNorm | None = None
        self.applied: PNorm | None = None

    def block(self, outcomes: Outcomes, tolerance: float) -> Measured:
        if isinstance(outcomes, Tally):
            return Measured(np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen)
        outcomes = require_simulated(outcomes)
        if self._scaled is not None and self.measure is None:
            # No scale is known yet: everything that did not fail is accepted, and measured when the round ends.
            failed = np.zeros(outcomes.simulations) if outcomes.failure is None else outcomes.failure
            _, seen = self._problem.distances(outcomes)
            distance = np.where(failed == 0, 0.0, np.nan)
            seen = replace(seen, closest=math.inf, distances=seen.distances[:0])
            return self._with_outcomes(distance, seen, outcomes)
        distance, seen = self._problem.distances(outcomes, tolerance, self.measure)
        return self._with_outcomes(distance, seen, outcomes)

    def _with_outcomes(self, distance: FloatArray, seen: Seen, outcomes: Simulated) -> Measured:
        summaries = numbers(outcomes.summaries) if self._scaled is None else outcomes.summaries
        return Measured(distance, seen, outcomes.columns, summaries, outcomes.cost, failures(outcomes, distance))

    def learn(self, present: Round, store: Store[Particles]) -> bool:
        """Learn the scales for the next round from this one, where they are to be; whether they were."""
        if self._scaled is None or not (self._scaled.each_round or self.measure is None):
            return False
        self.measure = self._scaled.learn(store.summaries.take(present.rows[~np.isnan(present.distance)]))
        return True

    def apply(self, measure: PNorm | None, store: Store[Particles], seen: Seen) -> Seen:
        """Measure every simulation so far by a distance whose scales were learned."""
        if measure is None or measure is self.applied:
            return seen
        self.applied = measure
        closest, measured = math.inf, np.full(store.simulations, np.nan)
        for first, distance in list(store.distances()):
            rows = first + np.flatnonzero(~np.isnan(distance))
            if rows.size:
                measured[rows] = self._problem.distance(store.summaries.take(rows), math.inf, measure)
                closest = min(closest, float(measured[rows].min()))
        store.measured(measured)
        return replace(seen, closest=closest)
