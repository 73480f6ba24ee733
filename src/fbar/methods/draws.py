"""Runs on any parameter space: draws from a design, one simulation each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, positive_integer
from fbar.designs.optimal import log_weights
from fbar.designs.schemes import Groups, Independent, Scheme
from fbar.errors import InputError, NoPosterior
from fbar.estimation.draws import Draws
from fbar.estimation.posterior import Posterior
from fbar.methods.other_tolerances import few_numbers
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Outcomes, Simulated, tally
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.seeds import Purpose

BLOCK_SIZE = 4096
FIRST_ROUND = 1000


@dataclass(frozen=True, eq=False)
class _Piece:
    """What is kept of one block: its accepted draws (or all), and how many there were."""

    round: int
    drawn: int
    points: Points
    weight: FloatArray
    distance: FloatArray | None = None
    summaries: npt.NDArray[Any] | None = None
    factor: FloatArray | None = None
    stratum: IntArray | None = None
    cluster: IntArray | None = None


class DrawRun(Run):
    """Independent, stratified or quasi-random draws from one design, in rounds."""

    def __init__(
        self,
        start: Start,
        *,
        design: Distribution,
        scheme: Scheme,
        acceptance: Acceptance,
        estimator: Callable[[Draws], Posterior],
        rounds: int,
    ) -> None:
        super().__init__(start)
        self.design, self.scheme = design, scheme
        self.acceptance, self.estimator = acceptance, estimator
        self.rounds = self.planned_rounds = positive_integer(rounds, "rounds")
        most = self.limit if self.budget is None else self.budget
        if most is not None:
            scheme.check(most)
        if self.budget is not None:
            self.rounds = min(self.rounds, self.budget // scheme.least)
        start.problem.check_acceptance(acceptance)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._check_targets()
        self._simulations = 0
        self._keep_all = bool(getattr(estimator, "needs_rejected", False))
        self._pieces: list[_Piece] = []
        self._stratum_sizes: list[IntArray] = []
        self._strata = self._clusters = 0
        self._latest: Posterior | None = None  # until more is told
        self._start_round()

    def _check_targets(self) -> None:
        """Find a target that is not defined on the parameters before any simulation runs."""
        if self.problem.records:
            return  # it may be a function of recorded outputs, which only a simulation gives
        self.problem.check_targets(self.targets)

    # ------------------------------------------------------------ state

    @property
    def finished(self) -> bool:
        if self.budget is not None:
            return self.round - self._leg_round >= self.rounds
        return self.limit is not None and self._simulations >= self.limit

    @property
    def simulations(self) -> int:
        return self._simulations

    def _start_round(self) -> None:
        if self.finished:
            return
        if self.budget is not None:
            size = self._part_of_budget(self.rounds)
        else:
            size = max(FIRST_ROUND, self._simulations // 4)
            if self.limit is not None:
                left = self.limit - self._simulations
                # A rest too small for an error bar of its own is run with this round.
                size = left if left < size + self.scheme.least else size
        self._sizes = self.scheme.sizes(size, self.block_size)
        self._stratum_sizes.append(self.scheme.stratum_sizes(size))

    def _end_round(self) -> None:
        self._latest = None  # a stratified round counts when it is complete
        self._strata += len(self._stratum_sizes[-1])
        self._clusters += len(self._sizes)
        self._start_round()

    def _blocks(self) -> int:
        return len(self._sizes)

    def _block(self, block: int) -> Batch:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        points = self.design.from_unit(self.scheme.unit(block, self._sizes, self.design.dimension, rng))
        return Batch(self.round, block, points.with_derived(self.problem.derived), None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        points, distance, summaries = batch.points, None, None
        if isinstance(outcomes, Simulated):
            distance, seen = self.problem.distances(outcomes, self.acceptance.tolerance)
            weight = tally(batch, accepted(self.acceptance, distance), seen).weight
            summaries = None if self._keep_all else few_numbers(outcomes.summaries)
            points = points.with_columns(outcomes.columns)
        else:
            told = self.problem.tally(batch, outcomes, self.acceptance)
            weight, seen = told.weight, told.seen
        rows: IntArray | None = None
        if not self._keep_all:
            rows = np.flatnonzero(weight)
            points, weight = points.take(rows), weight[rows]
            distance = None if distance is None else distance[rows]
            summaries = None if summaries is None else summaries[rows]
        piece = _Piece(self.round, batch.points.rows, points, weight, distance, summaries)
        if not isinstance(self.scheme, Independent):
            piece = self._grouped(piece, self.scheme.groups(batch.block, self._sizes), rows)
        self._pieces.append(piece)
        self._latest = None
        self._simulations += batch.points.rows
        self.seen = self.seen + seen

    def _all_failed(self) -> None:
        self._pieces = [self._failed(piece) for piece in self._pieces]
        self._latest = None

    def _failed(self, piece: _Piece) -> _Piece:
        if not self._keep_all:
            return _rows_of(piece, np.zeros(0, dtype=np.int64))
        records = {name: np.full(piece.points.rows, np.nan) for name in self.problem.records if name in piece.points}
        points = piece.points.without(list(records)).with_columns(records)
        distance = None if piece.distance is None else np.full_like(piece.distance, np.nan)
        return replace(piece, points=points, weight=np.zeros_like(piece.weight), distance=distance)

    def _grouped(self, piece: _Piece, groups: Groups, rows: IntArray | None) -> _Piece:
        """The draws' factors, strata and clusters, numbered on from those of earlier rounds."""

        def mine(values: Any) -> Any:
            return values if values is None or rows is None else values[rows]

        cluster, stratum = mine(groups.cluster), mine(groups.stratum)
        return replace(
            piece,
            factor=mine(groups.factor),
            stratum=None if stratum is None else stratum + self._strata,
            cluster=None if cluster is None else cluster + self._clusters,
        )

    # ------------------------------------------------------------ what comes out

    def draws(self, acceptance: Acceptance | None = None) -> Draws:
        """The accepted simulations so far (all of them, for estimators that learn from rejection).

        ``acceptance`` looks at another tolerance than the run's own.
        """
        independent = isinstance(self.scheme, Independent)
        # Part of a stratified round covers part of the space only: it waits until the round is complete.
        pieces = [piece for piece in self._pieces if independent or piece.round < self.round]
        if not pieces:
            raise NoPosterior("no round is complete yet; ask the run for batches and tell it their outcomes")
        last = pieces[-1].round
        sizes = np.concatenate(self._stratum_sizes[: last + 1])
        if independent:  # all rounds draw from one q: together they are one stratum
            sizes = np.array([sum(piece.drawn for piece in pieces)])
        points = Points.concatenate([piece.points for piece in pieces])
        weight = np.concatenate([_weight(piece, acceptance) for piece in pieces])
        log_w = log_weights(self.problem.prior, self.design, points)
        outside = np.isneginf(log_w)  # where the prior has no mass: a rejected draw
        weight = np.where(outside, 0.0, weight)
        if any(piece.factor is not None for piece in pieces):
            log_w = log_w + np.concatenate(
                [np.zeros(p.weight.size) if p.factor is None else np.log(p.factor) for p in pieces]
            )
        return Draws(
            self.problem,
            points,
            weight,
            log_w,
            sum(piece.drawn for piece in pieces),
            self.scheme.name,
            sizes,
            np.concatenate(
                [np.zeros(p.weight.size, dtype=np.int64) if p.stratum is None else p.stratum for p in pieces]
            ),
            None if pieces[0].cluster is None else np.concatenate([p.cluster for p in pieces if p.cluster is not None]),
            self.seen,
            np.arange(points.rows),
            self.design,
            lambda at: log_weights(self.problem.prior, self.design, at),
        )

    @property
    def dear(self) -> bool:
        return self._keep_all

    def posterior(self) -> Posterior:
        if self._latest is None:
            self._latest = self._estimated(self.acceptance)
        return self._latest

    def _estimated(self, acceptance: Acceptance) -> Posterior:
        draws = self.draws(None if acceptance is self.acceptance else acceptance)
        share = float(draws.weight @ np.exp(draws.log_w)) / draws.simulations
        return self._told_apart(self.estimator(draws), acceptance.tolerance, share)

    def stages(self) -> list[Stage]:
        whence = "the prior" if self.design is self.problem.prior else "a design q, weighted by p/q"
        how = "" if isinstance(self.scheme, Independent) else f"{self.scheme.name} draws "
        accepted = float(sum(piece.weight.sum() for piece in self._pieces))
        return [Stage(f"{how}from {whence}", self._simulations, accepted, self.acceptance.tolerance)]

    def places(self, most: int) -> Points | None:
        """Draws like those that were simulated: of the rejected ones nothing is kept."""
        drawn = self.design.sample(min(most, max(self._simulations, 1)), rng=np.random.default_rng(0))
        return drawn.with_derived(self.problem.derived)

    def posterior_at(self, tolerance: float) -> Posterior:
        return self._estimated(self._at(tolerance))

    def _own_tolerance(self) -> float:
        return self.acceptance.tolerance

    def _distances_of(self, rows: IntArray) -> FloatArray:
        parts = [piece.distance for piece in self._pieces if piece.weight.size]
        if any(part is None for part in parts):
            return super()._distances_of(rows)
        return np.concatenate([part for part in parts if part is not None])[rows]

    def _kept_summaries(self) -> list[npt.NDArray[Any] | None]:
        return [piece.summaries for piece in self._pieces if piece.weight.size]

    def _at(self, tolerance: float) -> Acceptance:
        """Acceptance at a smaller tolerance: of the simulations beyond the run's own nothing is kept."""
        found = Acceptance(tolerance, self.acceptance.kernel)
        if any(piece.distance is None for piece in self._pieces):
            raise InputError("this problem has no distances, so it has no posterior at another tolerance")
        if (
            tolerance > self.acceptance.tolerance
        ):  # every kernel falls with the distance: within a smaller one all are kept
            raise InputError(
                f"only simulations within the run's tolerance {self.acceptance.tolerance:g} were kept; "
                f"look at a smaller one than {tolerance:g}, or run fbar.SMC, which keeps them all"
            )
        return found

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            self.acceptance = self._at(tolerance)
            self._pieces = [_within(piece, self.acceptance, self._keep_all) for piece in self._pieces]
            self._latest = None
        self._check_targets()
        if self.budget is not None:
            more = self.budget - self._leg_spent
            self.scheme.check(more)
            self.rounds = min(self.planned_rounds, more // self.scheme.least)
        del self._stratum_sizes[self.round :]  # a round that was planned and not asked for
        self._start_round()


def _weight(piece: _Piece, acceptance: Acceptance | None) -> FloatArray:
    if acceptance is None:
        return piece.weight
    assert piece.distance is not None
    return accepted(acceptance, piece.distance)


def _within(piece: _Piece, acceptance: Acceptance, keep_all: bool) -> _Piece:
    """What is left of a piece at a smaller tolerance."""
    weight = _weight(piece, acceptance)
    if keep_all:
        return replace(piece, weight=weight)
    return _rows_of(replace(piece, weight=weight), np.flatnonzero(weight))


def _rows_of(piece: _Piece, rows: IntArray) -> _Piece:
    def mine(values: Any) -> Any:
        return None if values is None else values[rows]

    return replace(
        piece,
        points=piece.points.take(rows),
        weight=piece.weight[rows],
        distance=mine(piece.distance),
        summaries=mine(piece.summaries),
        factor=mine(piece.factor),
        stratum=mine(piece.stratum),
        cluster=mine(piece.cluster),
    )
