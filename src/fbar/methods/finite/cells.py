"""Runs on a finite parameter space: the state is the counts of the cells."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import positive_integer, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.cells import Cells
from fbar.estimation.posterior import Posterior
from fbar.methods.run import ROUNDS, Run, Stage
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes

BLOCK_SIZE = 1024
FIRST_ROUND, FIRST_PER_CELL = 100, 4


class CellRun(Run):
    """A run that spends its rounds on the cells of a finite prior.

    Arrays are (k,), or (trials, k) for a run of many trials at once: the same code serves both.
    """

    words = "value by value"
    """How it spends its simulations."""

    def __init__(
        self,
        start: Start,
        *,
        acceptance: Acceptance,
        estimator: Callable[[Cells], Posterior],
        rounds: int = ROUNDS,
        every_cell: bool = False,
    ) -> None:
        super().__init__(start)
        problem = start.problem
        prior = problem.finite
        tabulated = problem.p_star is not None
        problem.check_acceptance(acceptance)
        if start.trials is not None and not tabulated:
            raise InputError("trials= needs a problem with tabulated probabilities; run one trial at a time")
        most = self.limit if self.budget is None else self.budget
        if every_cell and most is not None and most < prior.size:
            raise InputError(
                f"budget must be at least {prior.size}, one simulation for each parameter value; got {most}"
            )
        self._points = problem.points
        self._check_targets()
        self.acceptance = acceptance
        self.estimator = estimator
        self.rounds = self.planned_rounds = positive_integer(rounds, "rounds")
        if self.budget is not None:
            self.rounds = min(self.rounds, self.budget)
        # A table's round is one draw, whatever its size.
        self.block_size = start.block_size or (None if tabulated else self._default_block(BLOCK_SIZE))
        shape = (prior.size,) if start.trials is None else (start.trials, prior.size)
        self.counts: IntArray = np.zeros(shape, dtype=np.int64)
        self.hits: FloatArray = np.zeros(shape)
        self.squares: FloatArray = np.zeros(shape)
        self._start_round()

    def _check_targets(self) -> None:
        for target in self.targets:
            target.check_space(self._points)
            if not target.smooth:
                raise InputError(
                    f"target {shown(target.name)} is not defined on a finite parameter space; "
                    "ask for probabilities, such as fbar.probability('theta > 2')"
                )

    # ------------------------------------------------------------ for a method to fill in

    @abstractmethod
    def _round_counts(self, size: int) -> IntArray:
        """How the ``size`` simulations of the present round are shared out among the cells."""

    # ------------------------------------------------------------ state

    @property
    def prior(self) -> FloatArray:
        return self.problem.finite.probabilities

    @property
    def finished(self) -> bool:
        if self.budget is not None:
            return self.round - self._leg_round >= self.rounds
        return self.limit is not None and self.simulations >= self.limit

    @property
    def simulations(self) -> int:
        return int(self.counts.sum(axis=-1).max())

    @property
    def cells(self) -> Cells:
        return Cells(self._points, self.prior, self.counts.astype(np.float64), self.hits, self.squares, self.seen)

    def stages(self) -> list[Stage]:
        return [Stage(self.words, self.simulations, float(self.hits.sum()), self.acceptance.tolerance)]

    def posterior(self) -> Posterior:
        if not self.counts.any():
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        posterior = self.estimator(self.cells)
        if self.trials is not None:
            return posterior
        share = self.prior @ (self.hits / np.maximum(self.counts, 1))
        return self._described(posterior, self.acceptance.tolerance, float(share))

    # ------------------------------------------------------------ rounds and blocks

    def _start_round(self) -> None:
        if self.finished:
            return
        self.plan = self._round_counts(self._round_size())

    def _round_size(self) -> int:
        """Equal parts of the budget; without one, rounds that grow by a quarter of what there is."""
        if self.budget is not None:
            return self._part_of_budget(self.rounds)
        size = max(FIRST_ROUND, FIRST_PER_CELL * self.prior.size, self.simulations // 4)
        return size if self.limit is None else min(size, self.limit - self.simulations)

    def _end_round(self) -> None:
        self._start_round()

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """How the round is shared out, which follows estimates and measured costs: elsewhere not quite the same."""
        return {"plan": self.plan}

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.plan = state["plan"].astype(np.int64)

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None and tolerance != self.acceptance.tolerance:
            raise InputError(
                "on a finite space only the counts of accepted simulations are kept, so the tolerance cannot change"
            )
        self._check_targets()
        if self.budget is not None:
            self.rounds = min(self.planned_rounds, self.budget - self._leg_spent)
        self._start_round()

    def _blocks(self) -> int:
        if self.block_size is None or self.plan.ndim > 1:
            return 1
        return max(1, -(-int(self.plan.sum()) // self.block_size))

    def _block(self, block: int) -> Batch:
        cells = np.arange(self.problem.finite.size)
        repeats = self.plan
        if repeats.ndim == 1 and self.block_size is not None:
            # The round is one line of simulations, cell by cell; a block is a piece of that line.
            end = np.cumsum(repeats)
            low, high = block * self.block_size, (block + 1) * self.block_size
            repeats = np.minimum(end, high).clip(low) - np.minimum(end - repeats, high).clip(low)
            cells = np.flatnonzero(repeats)
            repeats = repeats[cells]
        return Batch(self.round, block, self._points.take(cells), repeats, self.seeds, cells)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        tally = self.problem.tally(batch, outcomes, self.acceptance)
        assert batch.cells is not None
        assert batch.repeats is not None
        self.counts[..., batch.cells] += batch.repeats
        self.hits[..., batch.cells] += tally.weight
        self.squares[..., batch.cells] += tally.square
        self.seen = self.seen + tally.seen

    def _all_failed(self) -> None:
        self.hits, self.squares = np.zeros_like(self.hits), np.zeros_like(self.squares)
