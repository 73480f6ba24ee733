"""The round of ABC-SMC that is being simulated: its blocks, what they accepted, and whether it is over."""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import counted
from fbar.errors import InputError
from fbar.estimation.round import Round
from fbar.estimation.store import Entry
from fbar.methods.smc.descent import surely_below
from fbar.methods.smc.drawing import Drawn
from fbar.methods.smc.measuring import Measured
from fbar.question.acceptance import Acceptance, accepted

ROUNDING = 1e-9
"""By how much a sum of acceptance weights may miss the number that ends a round."""


class PresentRound:
    """A round that ends at its ``wanted``-th acceptance, or after so many simulations where ``counted``.

    ``before`` is the number of simulations of the rounds before it.
    """

    def __init__(self, record: Round, kernel: str, *, before: int, wanted: int, counted: bool, block_size: int) -> None:
        self.record, self.wanted, self.counted, self.block_size = record, wanted, counted, block_size
        self.before = before
        self.accepted = 0.0
        self._kernel = kernel
        self._drawn: dict[int, Drawn] = {}
        self._ends: list[int] = []  # simulations of the round up to and with each block
        self.move_to(record.tolerance)

    def move_to(self, tolerance: float) -> None:
        """Take another tolerance."""
        self.record.tolerance = tolerance
        self.acceptance = acceptance_at(tolerance, self._kernel)

    def taken(self, blocks: int) -> int:
        """Simulations in the first blocks."""
        return self._ends[blocks - 1] if blocks else 0

    def left(self, most: float, blocks: int) -> float:
        """Of ``most`` simulations in all, those that the first blocks have not taken."""
        return most - self.before - self.taken(blocks)

    def blocks(self, asked: int, absorbed: int) -> int:
        """How many blocks are needed for sure."""
        if self.counted:
            return asked + (self.wanted - self.taken(asked) > 0)
        # A block holds at most block_size acceptances.
        return absorbed + max(0, math.ceil((self.wanted - self.accepted - ROUNDING) / self.block_size))

    def block_simulations(self, block: int, most: float) -> int:
        before = self.taken(block)
        size = min(self.block_size, most - self.before - before)
        return int(min(size, self.wanted - before) if self.counted else size)

    def asked(self, block: int, drawn: Drawn) -> None:
        """Remember what a block has drawn until its outcomes are told."""
        self._ends[block:] = [self.taken(block) + len(drawn.particles)]
        self._drawn[block] = drawn

    def absorb(self, key: tuple[int, int], found: Measured) -> None:
        drawn = self._drawn.pop(key[1])
        if found.distance.shape != (len(drawn.particles),):
            raise InputError(
                f"block {key} has {counted(len(drawn.particles), 'simulation')} and got "
                f"{counted(found.distance.size, 'outcome')}"
            )
        entry = Entry(
            key[0], 0, drawn.particles, found.distance, found.recorded, found.summaries, found.cost, found.failure
        )
        self.record.add(entry, drawn.log_prior, drawn.draws)
        reached = self.accepted + np.cumsum(accepted(self.acceptance, found.distance))
        if not self.counted and reached[-1] >= self.wanted - ROUNDING:
            at = int(np.searchsorted(reached, self.wanted - ROUNDING))
            self.record.stop_at(at, drawn.position, drawn.draws)
        self.accepted = self.record.accepted = float(reached[-1])

    @property
    def weights(self) -> FloatArray:
        """The acceptance weights of its simulations."""
        return self.record.weights(self.acceptance)

    @property
    def full(self) -> bool:
        """Whether it has what ends it."""
        if self.counted:
            return self.accepted > 0 and self.record.used >= self.wanted
        return self.record.stopped

    def hopeless(self, least_rate: float) -> bool:
        """Whether its acceptance rate lies below the least one beyond doubt."""
        if self.counted or least_rate == 0:
            return False
        return surely_below(self.accepted, self.record.simulations, least_rate)


def acceptance_at(tolerance: float, kernel: str) -> Acceptance:
    """A round without a tolerance accepts all that did not fail, whatever the kernel."""
    return Acceptance(tolerance, kernel if tolerance < math.inf else "uniform")
