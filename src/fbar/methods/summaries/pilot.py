"""The pilot: simulations from the prior that summaries are learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.methods.run import Run
from fbar.methods.start import Start
from fbar.question.outcomes import Batch, Failure, Outcomes, Seen, Simulated
from fbar.question.points import Points
from fbar.seeds import Purpose

BLOCK_SIZE = 4096

LEAST = 50
"""Simulations of the pilot that must succeed."""


class Pilot(Run):
    """Simulations from the prior that summaries are learned from: one round, all of it kept."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        if not start.problem.records:  # a target of recorded outputs is known after a simulation only
            start.problem.check_targets(start.targets)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._pieces: list[tuple[Points, npt.NDArray[Any]]] = []
        self._simulations = 0

    @property
    def finished(self) -> bool:
        return self.round > 0

    @property
    def simulations(self) -> int:
        return self._simulations

    def posterior(self) -> Posterior:
        raise NoPosterior("a pilot has no posterior; summaries are learned from it, see LearnedSummaries.fit")

    def _blocks(self) -> int:
        assert self.budget is not None
        return -(-self.budget // self.block_size)

    def _block(self, block: int) -> Batch:
        assert self.budget is not None
        size = min(self.block_size, self.budget - block * self.block_size)
        points = self.problem.prior.sample(size, rng=self.seeds.generator(Purpose.DESIGN, 0, block))
        return Batch(0, block, points.with_derived(self.problem.derived), None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        assert isinstance(outcomes, Simulated)
        points = batch.points.with_columns(outcomes.columns)
        failure = np.zeros(outcomes.simulations) if outcomes.failure is None else outcomes.failure
        rows = np.flatnonzero(failure == Failure.NONE)
        self._pieces.append((points.take(rows), np.asarray(outcomes.summaries)[rows]))
        self._simulations += outcomes.simulations
        self.seen = self.seen + Seen.of(np.zeros(0), outcomes.failure, outcomes)

    def _all_failed(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        self._pieces = [(points.take(none), summaries[none]) for points, summaries in self._pieces]

    def _end_round(self) -> None:
        return

    def simulated(self) -> tuple[FloatArray, Points]:
        """The data (n, d) and parameters of the simulations that succeeded."""
        if not self.finished:
            raise InputError("the pilot is not finished; give it the outcomes of all its blocks first, with tell")
        points = Points.concatenate([points for points, _ in self._pieces])
        if points.rows < LEAST:
            raise InputError(
                f"{points.rows} of the pilot's {self.simulations} simulations succeeded, too few to learn "
                f"summaries from ({self.seen.failed}); give LearnedSummaries(simulations=...) more"
            )
        x = np.concatenate([values.reshape(len(values), -1) for _, values in self._pieces])
        return x.astype(np.float64), points
