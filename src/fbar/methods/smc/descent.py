"""From one round of ABC-SMC to the next: a lower tolerance and a proposal (supplement S7 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals import Perturbation, Perturbed
from fbar.estimation.round import Round
from fbar.methods.smc.schedules import Schedule
from fbar.question.distances import PNorm
from fbar.question.space import Proposal, Space
from fbar.weights import relative


def population(present: Round, accepted: FloatArray) -> tuple[IntArray, FloatArray]:
    """The rows of a round's accepted particles, and their weights."""
    rows = np.flatnonzero(accepted)
    log_w = present.log_weights(rows)
    return rows, relative(log_w, accepted[rows])


class CentreWeights(Protocol):
    """Chooses how often particles are perturbed, where that is not by their weights."""

    def __call__(self, present: Round, rows: IntArray, weights: FloatArray) -> FloatArray:
        """In proportion to what the particles in some rows of a round are drawn, from their weights."""


@dataclass(frozen=True, eq=False)
class Perturber:
    """Makes proposals of accepted particles."""

    space: Space
    perturbation: Perturbation
    jump: float
    centres: int | None
    centre_weights: CentreWeights | None = None

    def propose(
        self, present: Round, accepted: FloatArray, tolerance: float, rng: np.random.Generator
    ) -> tuple[Perturbed, IntArray]:
        """A proposal for a round at ``tolerance``, and the rows of the particles that it perturbs."""
        rows, weights = population(present, accepted)
        chosen = None if self.centre_weights is None else self.centre_weights(present, rows, weights)
        proposal = Perturbed(
            self.space,
            present.take(rows),
            weights,
            present.distance[rows],
            perturbation=self.perturbation,
            next_tolerance=tolerance,
            jump=self.jump,
            probabilities=chosen,
            most=self.centres,
            rng=rng,
        )
        return proposal, rows


def next_tolerance(
    schedule: Schedule,
    number: int,
    present: Round,
    accepted: FloatArray,
    measure: PNorm | None,
    propose: Callable[[], Proposal],
) -> float | None:
    """The tolerance after ``number`` rounds, of which ``present`` was the last; None where no lower one can be found.

    ``measure`` is the distance of the next round, where its scales are learned, and ``propose`` what it will draw from.
    """
    rows, weights = population(present, accepted)
    before = present.tolerance
    if measure is not present.measure:  # in the new scales the old tolerance means nothing
        before = float(present.distance[rows].max()) if present.measure is not None else math.inf
    if not schedule.needs_rates or number == 1:
        return schedule.next(number, before, present.distance[rows], weights)
    measured = np.flatnonzero(np.isfinite(present.distance[: present.used]))
    new = propose().log_density(present.take(measured))
    old = present.log_prior[measured] - present.log_weights(measured)
    ratio = relative(new - old)
    return schedule.next(number, before, present.distance[measured], ratio)


def surely_below(accepted: float, simulations: int, rate: float) -> bool:
    """Whether the acceptance rate lies below ``rate`` beyond doubt: 99.9% by the Poisson distribution."""
    expected = simulations * rate
    if expected < 6.9:  # not even without any acceptance
        return False
    from scipy.special import gammaincc

    return bool(gammaincc(math.floor(accepted) + 1.0, expected) < 1e-3)
