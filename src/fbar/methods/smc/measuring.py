"""Distances of simulations to the data, by the problem's own distance or by one whose scales are learnt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray
from fbar.estimation.rounds import Round
from fbar.methods.kept_summaries import KeptSummaries
from fbar.question.distances import PNorm, Scaled
from fbar.question.outcomes import Outcomes, Seen, Tally, require_simulated
from fbar.question.problem import Problem


@dataclass(frozen=True, eq=False)
class Measured:
    """A block's distances, and what is kept with them."""

    distance: FloatArray
    seen: Seen
    recorded: Mapping[str, npt.NDArray[Any]]
    summaries: npt.NDArray[Any] | None


class Measuring:
    """``measure`` is the distance of the present round, where its scales are learnt; ``applied`` that of the distances
    which are stored."""

    def __init__(self, problem: Problem, scaled: Scaled | None) -> None:
        self._problem, self._scaled = problem, scaled
        self._summaries = KeptSummaries()
        self.measure: PNorm | None = None
        self.applied: PNorm | None = None

    def block(self, outcomes: Outcomes, tolerance: float) -> Measured:
        if isinstance(outcomes, Tally):
            return Measured(np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen, {}, None)
        outcomes = require_simulated(outcomes)
        if self._scaled is not None and self.measure is None:
            # No scale is known yet: everything that did not fail is accepted, and measured when the round ends.
            failed = np.zeros(outcomes.simulations) if outcomes.failure is None else outcomes.failure
            _, seen = self._problem.distances(outcomes)
            distance = np.where(failed == 0, 0.0, np.nan)
            seen = replace(seen, closest=math.inf, distances=seen.distances[:0])
            return Measured(distance, seen, outcomes.columns, outcomes.summaries)
        distance, seen = self._problem.distances(outcomes, tolerance, self.measure)
        kept = self._summaries.keep(outcomes.summaries) if self._scaled is None else outcomes.summaries
        return Measured(distance, seen, outcomes.columns, kept)

    def learn(self, present: Round) -> bool:
        """Learn the scales for the next round from this one, where they are to be; whether they were."""
        if self._scaled is None or not (self._scaled.each_round or self.measure is None):
            return False
        self.measure = self._scaled.learn(present.summaries[~np.isnan(present.distance)])
        return True

    def apply(self, measure: PNorm | None, rounds: Sequence[Round], seen: Seen) -> Seen:
        """Measure every simulation so far by a distance whose scales were learnt."""
        if measure is None or measure is self.applied:
            return seen
        self.applied = measure
        closest = math.inf
        for round in rounds:
            measured = []
            for piece in round.pieces:
                assert piece.summaries is not None
                ok = ~np.isnan(piece.distance)
                distance = np.full(len(piece.distance), np.nan)
                if ok.any():
                    distance[ok] = self._problem.distance(piece.summaries[ok], math.inf, measure)
                    closest = min(closest, float(distance[ok].min()))
                measured.append(distance)
            round.measured(measured)
        return replace(seen, closest=closest)
