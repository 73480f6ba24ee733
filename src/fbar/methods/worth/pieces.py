"""What a run of draws is made of: its settings, and the draws of a block with what their waves gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fbar.arrays import IntArray
from fbar.methods.worth.valuation import Replicates
from fbar.question.space import Particles


@dataclass
class Piece:
    """Draws of one block: where they are, their group, and what their waves gave."""

    particles: Particles
    group: int
    waves: list[Replicates] = field(default_factory=list)

    def take(self, rows: IntArray) -> Piece:
        return Piece(self.particles.take(rows), self.group, [wave.take(rows) for wave in self.waves])


@dataclass(frozen=True)
class Settings:
    """What all methods of this room can be told of the design."""

    goal: str
    importance: Mapping[str, float] | None
    per: str
    groups: int
    defence: float | None
