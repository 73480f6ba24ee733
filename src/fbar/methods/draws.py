"""Runs on any parameter space: draws from a design, one simulation each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import positive_integer
from fbar.designs.optimal import log_weights
from fbar.designs.schemes import Independent, Scheme
from fbar.errors import InputError, NoPosterior
from fbar.estimation.columns import rows_in
from fbar.estimation.coordinates import DrawnPoints
from fbar.estimation.draws import Draws
from fbar.estimation.posterior import Posterior
from fbar.estimation.simulations import Structure
from fbar.estimation.store import Entry, Store, failures, numbers
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Outcomes, Simulated
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.seeds import Purpose

BLOCK_SIZE = 4096
FIRST_ROUND = 1000


class Estimator(Protocol):
    """What makes a posterior of draws."""

    @property
    def needs_rejected(self) -> bool:
        """Whether it learns from rejected draws too."""

    def __call__(self, draws: Draws) -> Posterior: ...


class DrawRun(Run):
    """Independent, stratified or quasi-random draws from one design, in rounds."""

    def __init__(
        self,
        start: Start,
        *,
        design: Distribution,
        scheme: Scheme,
        acceptance: Acceptance,
        estimator: Estimator,
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
        self._drawn = DrawnPoints(self._drawn_again)
        self.everything: Store[Points] = Store(
            self._drawn, most=self._most, needs_all=False, needs_summaries=self.at_data
        )
        self._round_sizes: list[int] = []
        self._stratum_sizes: list[IntArray] = []
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
        return self.limit is not None and self.simulations >= self.limit

    @property
    def simulations(self) -> int:
        return self.everything.simulations

    def _start_round(self) -> None:
        if self.finished:
            return
        if self.budget is not None:
            size = self._part_of_budget(self.rounds)
        else:
            size = max(FIRST_ROUND, self.simulations // 4)
            if self.limit is not None:
                left = self.limit - self.simulations
                # A rest too small for an error bar is run with this round.
                size = left if left < size + self.scheme.least else size
        self._sizes = self.scheme.sizes(size, self.block_size)
        self._round_sizes.append(size)
        self._stratum_sizes.append(self.scheme.stratum_sizes(size))

    def _end_round(self) -> None:
        self._latest = None  # a stratified round counts when it is complete
        self._start_round()

    def _blocks(self) -> int:
        return len(self._sizes)

    def _block(self, block: int) -> Batch:
        points = self._points(self.round, block, self._sizes)
        return Batch(self.round, block, points.with_derived(self.problem.derived), None, self.seeds)

    def _points(self, round: int, block: int, sizes: Sequence[int]) -> Points:
        rng = self.seeds.generator(Purpose.DESIGN, round, block)
        return self.design.from_unit(self.scheme.unit(block, sizes, self.design.dimension, rng))

    def _drawn_again(self, rows: IntArray) -> Points:
        """The draws of some simulations, in order, from their seeds."""
        found = []
        for round, block, _, _, places in self.everything.in_blocks(rows):
            sizes = self.scheme.sizes(self._round_sizes[round], self.block_size)
            found.append(self._points(round, block, sizes).take(places))
        return Points.concatenate(found).with_derived(self.problem.derived)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        points, recorded = batch.points, {}
        summaries = cost = failure = None
        if isinstance(outcomes, Simulated):
            distance, seen = self.problem.distances(outcomes, self.acceptance.tolerance)
            recorded, cost, failure = outcomes.columns, outcomes.cost, failures(outcomes, distance)
            summaries = numbers(outcomes.summaries)
            points = points.with_columns(recorded)
        else:
            tally = self.problem.tally(batch, outcomes, self.acceptance)
            distance, seen = np.where(tally.weight > 0, 0.0, np.inf), tally.seen
        near = np.arange(distance.size) if self._keeps_all else np.flatnonzero(accepted(self.acceptance, distance))
        self.everything.add(
            Entry(
                self.round,
                0,
                points,
                distance,
                recorded,
                summaries,
                cost,
                failure,
                near=near,
                further=self._structure(self.round, batch.block, self._sizes),
            )
        )
        self._latest = None
        self.seen = self.seen + seen

    def _structure(self, round: int, block: int, sizes: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
        """The factors, strata and clusters of a block's draws, numbered on from those of earlier rounds."""
        if isinstance(self.scheme, Independent):
            return {}
        groups = self.scheme.groups(block, sizes)
        found: dict[str, npt.NDArray[Any]] = {
            "factor": np.ones(sizes[block]) if groups.factor is None else groups.factor
        }
        if groups.stratum is not None:
            found["stratum"] = groups.stratum + sum(len(own) for own in self._stratum_sizes[:round])
        if groups.cluster is not None:
            before = [len(self.scheme.sizes(size, self.block_size)) for size in self._round_sizes[:round]]
            found["cluster"] = groups.cluster + sum(before)
        return found

    def _all_failed(self) -> None:
        near = self._drawn.near() if self.simulations else None
        if near is not None and self._keeps_all:
            lost = {name: np.full(near.rows, np.nan) for name in self.problem.records if name in near}
            self._drawn.replace(near.without(list(lost)).with_columns(lost))
        elif near is not None:
            self._narrow(np.zeros(0, dtype=np.int64))
        self.everything.all_failed()
        self._latest = None

    def _narrow(self, places: IntArray) -> None:
        """Of the accepted draws only some are left."""
        self._drawn.replace(self._drawn.near().take(places))
        self.everything.narrow(places)

    # ------------------------------------------------------------ what comes out

    def draws(self, acceptance: Acceptance | None = None) -> Draws:
        """The accepted simulations so far (all of them, for estimators that learn from rejection).

        ``acceptance`` looks at another tolerance than the run's own.
        """
        independent = isinstance(self.scheme, Independent)
        # Part of a stratified round covers part of the space only: it waits until the round is complete.
        rounds = self.everything.blocks[:, 0]
        blocks = len(rounds) if independent else int(np.searchsorted(rounds, self.round))
        if not blocks:
            raise NoPosterior("no round is complete yet; ask the run for batches and tell it their outcomes")
        drawn = int(self.everything.blocks[:blocks, 2].sum())
        sizes = np.concatenate(self._stratum_sizes[: int(rounds[blocks - 1]) + 1])
        if independent:  # all rounds draw from one q: together they are one stratum
            sizes = np.array([drawn])
        points, rows = self._drawn.near(), rows_in(self.everything.near)
        if drawn < self.simulations:
            rows = rows[rows < drawn]
            points = points.take(np.arange(rows.size))
        weight = accepted(acceptance or self.acceptance, self.everything.distance.take(rows))
        log_w = log_weights(self.problem.prior, self.design, points)
        outside = np.isneginf(log_w)  # where the prior has no mass: a rejected draw
        weight = np.where(outside, 0.0, weight)
        structure = {name: column.take(rows) for name, column in self.everything.further.items()}
        if "factor" in structure:
            log_w = log_w + np.log(structure["factor"])
        return Draws(
            self.problem,
            points,
            weight,
            log_w,
            drawn,
            self.scheme.name,
            sizes,
            structure.get("stratum", np.zeros(rows.size, dtype=np.int64)),
            structure.get("cluster"),
            self.seen,
            rows,
            self.design,
            lambda at: log_weights(self.problem.prior, self.design, at),
        )

    @property
    def posterior_is_slow(self) -> bool:
        return self.at_data or self.estimator.needs_rejected

    def posterior(self) -> Posterior:
        if self.at_data:
            return self.posterior_at_data()
        if self._latest is None:
            self._latest = self._estimated(self.acceptance)
        return self._latest

    def _estimated(self, acceptance: Acceptance) -> Posterior:
        draws = self.draws(None if acceptance is self.acceptance else acceptance)
        share = float(draws.weight @ np.exp(draws.log_w)) / draws.simulations
        return self._described(self.estimator(draws), acceptance.tolerance, share)

    def stages(self) -> list[Stage]:
        whence = "the prior" if self.design is self.problem.prior else "a design q, weighted by p/q"
        how = "" if isinstance(self.scheme, Independent) else f"{self.scheme.name} draws "
        if self.at_data:
            return [Stage(f"{how}from {whence}", self.simulations)]
        found = accepted(self.acceptance, self.everything.distance.take(rows_in(self.everything.near)))
        return [Stage(f"{how}from {whence}", self.simulations, float(found.sum()), self.acceptance.tolerance)]

    def simulated_points(self, most: int) -> Points | None:
        """Draws like those that were simulated: of the rejected ones nothing is kept."""
        drawn = self.design.sample(min(most, max(self.simulations, 1)), rng=np.random.default_rng(0))
        return drawn.with_derived(self.problem.derived)

    def posterior_at(self, tolerance: float) -> Posterior:
        return self._estimated(self._at(tolerance))

    # ------------------------------------------------------------ the view of every simulation

    def _drawn_from(self) -> DrawRun:
        return self

    def theta_of(self, rows: IntArray) -> Points:
        """θ of simulations, drawn again."""
        return self._drawn_again(rows)

    def log_weights_of(self, rows: IntArray) -> FloatArray:
        """log p/q, with the factors of strata that have more or fewer draws than their due."""
        log_w = log_weights(self.problem.prior, self.design, self._drawn_again(rows))
        return log_w if isinstance(self.scheme, Independent) else log_w + np.log(self._further(rows)["factor"])

    def structure_of(self, rows: IntArray) -> Structure:
        rounds, name = self.everything.round_of(rows), self.scheme.name
        if isinstance(self.scheme, Independent):
            sizes = np.array([self.simulations])
            return Structure(name, np.zeros(rows.size, dtype=np.int64), None, sizes, np.ones(rows.size, dtype=bool))
        further = self._further(rows)
        sizes = np.concatenate(self._stratum_sizes[: self.round] or [np.zeros(0, dtype=np.int64)])
        return Structure(name, further["stratum"], further.get("cluster"), sizes, rounds < self.round)

    def _further(self, rows: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Factors, strata and clusters of draws: those that are kept, or made again."""
        kept = self.everything.further
        if all(column.whole for column in kept.values()):
            return {name: column.take(rows) for name, column in kept.items()}
        made: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in kept}
        for round, block, _, _, places in self.everything.in_blocks(rows):
            found = self._structure(round, block, self.scheme.sizes(self._round_sizes[round], self.block_size))
            for name, parts in made.items():
                parts.append(found[name][places])
        return {name: np.concatenate(parts) for name, parts in made.items()}

    def _posterior_tolerance(self) -> float:
        self._require_tolerance()
        return self.acceptance.tolerance

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.everything.distance.take(rows)) if self._has_distances else super()._distances_of(rows)

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.everything.summaries.flat(rows, size)

    @property
    def _has_distances(self) -> bool:
        return self.problem.has_summaries

    @property
    def _keeps_all(self) -> bool:
        """Whether the rejected simulations are kept: for estimators that learn from them, and at the data."""
        return self.at_data or self.estimator.needs_rejected

    def _at(self, tolerance: float) -> Acceptance:
        """Acceptance at another tolerance: a smaller one where nothing is kept beyond the run's own."""
        found = Acceptance(tolerance, self.acceptance.kernel)
        if not self._has_distances:
            raise InputError("this problem has no distances, so it has no posterior at another tolerance")
        beyond = tolerance > self.acceptance.tolerance  # every kernel falls with the distance
        if beyond and not self.at_data:
            raise InputError(
                f"only simulations within the run's tolerance {self.acceptance.tolerance:g} were kept, "
                f"so it cannot be raised to {tolerance:g}; choose a smaller one, or run fbar.SMC, which keeps them all"
            )
        return found

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            if self.at_data:
                self._refuse_tolerance(tolerance)
            self.acceptance = self._at(tolerance)
            if self.simulations and not self.estimator.needs_rejected:
                distance = self.everything.distance.take(rows_in(self.everything.near))
                self._narrow(np.flatnonzero(accepted(self.acceptance, distance)))
            self._latest = None
        self._check_targets()
        if self.budget is not None:
            more = self.budget - self._leg_spent
            self.scheme.check(more)
            self.rounds = min(self.planned_rounds, more // self.scheme.least)
        del self._stratum_sizes[self.round :], self._round_sizes[self.round :]  # planned and not asked for
        self._start_round()
