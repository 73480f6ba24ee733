"""Draws of a proposal that lie in the prior's support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.question.points import Points
from fbar.question.space import Particles, Proposal, Space

MOST_OUTSIDE = 100_000
"""How many draws outside the prior's support, and none inside, end a run."""


class OutsidePrior(Exception):
    """No draw of a proposal lies in the prior's support; ``draws`` were made."""

    def __init__(self, draws: int) -> None:
        super().__init__(draws)
        self.draws = draws


@dataclass(frozen=True, eq=False)
class Drawn:
    """A block's particles, from asking to telling; ``position`` is theirs among the ``draws``."""

    particles: Particles
    points: Points
    log_prior: FloatArray
    position: IntArray
    draws: int


def draw_inside(proposal: Proposal, space: Space, rng: np.random.Generator, size: int) -> Drawn:
    """``size`` draws, or as many times that as give one inside the prior's support."""
    draws = 0
    while draws < max(MOST_OUTSIDE, 200 * size):
        particles = proposal.draw(rng, size)
        points = space.points(particles)
        log_prior = space.log_prior(particles, points)
        inside = np.flatnonzero(log_prior > -np.inf)
        if inside.size == size:
            return Drawn(particles, points, log_prior, inside + draws, draws + size)
        if inside.size:
            return Drawn(particles.take(inside), points.take(inside), log_prior[inside], inside + draws, draws + size)
        draws += size
    raise OutsidePrior(draws)
