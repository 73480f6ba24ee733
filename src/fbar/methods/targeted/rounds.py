"""The rounds of a targeted run: the blocks they ask for, the simulations they gave, and posteriors from these.

The size of every round is planned before it begins: no acceptance ends one, so draws are independent given the past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import non_negative_number
from fbar.designs.proposals import Learned
from fbar.designs.schemes import scrambled
from fbar.errors import InputError, NoPosterior
from fbar.estimation.crossfitted import Crossfitted
from fbar.estimation.posterior import Posterior
from fbar.estimation.store import Entry, failures, numbers
from fbar.methods.aiming.plan import RoundPlan, defence_in
from fbar.methods.forecasts import VarianceAfter
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.methods.targeted import account
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Outcomes, Tally, require_simulated
from fbar.question.points import Points
from fbar.question.space import Particles, Proposal, Space
from fbar.question.targets import Target
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.targeted.method import Targeted

BLOCK_SIZE = 4096
LEAST_ROUND = 256

CURVE_ABOVE = 4
"""Tolerances above its own that a curve shows, each √2 times the one below."""

MOST_ROUND = 2**30
"""Simulations of a round, whose blocks are planned together."""


class TargetedRounds(Run):
    """``store`` keeps every simulation, so that its posterior takes any tolerance."""

    def __init__(self, method: Targeted, start: Start) -> None:
        super().__init__(start)
        self.method = method
        tolerance = method.named_tolerance or 0.0
        self.wanted = self._acceptance_at(tolerance)
        self.problem.check_acceptance(self.wanted)
        self.problem.check_acceptance_probability(tolerance)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.space = Space(self.problem.prior, "normal")
        self.store = Crossfitted(
            self.problem,
            self.space,
            method.groups,
            self._draw,
            needs_costs=method.per == "second",
            needs_summaries=self.at_data,
        )
        self.defence = method.defence or defence_in(self.space.dimension)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._latest: dict[bool, tuple[Acceptance, int, Posterior]] = {}  # its own, and another one
        self._reached: list[float] = []  # the tolerance of every round's proposals

    def _acceptance_at(self, tolerance: float) -> Acceptance:
        """Only exact matches and all simulations are accepted in the same way by every kernel."""
        return Acceptance(tolerance, self.method.kernel if 0 < tolerance < math.inf else "uniform")

    # ------------------------------------------------------------ state

    @property
    def simulations(self) -> int:
        return self.store.simulations

    @property
    def tolerance(self) -> float:
        """The wanted one, or while the run descends that of its proposals."""
        return self.wanted.tolerance if self.at_final_tolerance else self._reached[-1]

    @property
    def present_tolerance(self) -> float:
        return self.tolerance

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, proposals: Sequence[Proposal], size: float, tolerance: float, *, evenly: bool = False) -> None:
        """Plan a round of about so many simulations, in equal parts for the groups."""
        left = self._most - self.simulations
        size = min(size, left, MOST_ROUND)
        if not evenly and left - size < LEAST_ROUND:
            size = left
        self._plan = self._planned(int(size), evenly)
        self._drawn: dict[int, Particles] = {}
        self._reached.append(tolerance)
        self.store.proposals.append(proposals)

    def _planned(self, size: int, evenly: bool) -> RoundPlan:
        return RoundPlan.of(size, self.method.groups, self.block_size, evenly)

    def _blocks(self) -> int:
        return len(self._plan.sizes)

    def _block(self, block: int) -> Batch:
        self._drawn[block] = particles = self._draw(self.round, block, self._plan.sizes[block], self._plan.evenly)
        points = self.space.points(particles).with_derived(self.problem.derived)
        return Batch(self.round, block, points, None, self.seeds)

    def _draw(self, round: int, block: int, size: int, evenly: bool) -> Particles:
        """A block's particles; the same whenever it is asked, once its round has begun."""
        rng = self.seeds.generator(Purpose.DESIGN, round, block)
        proposal = self.store.proposals[round][block % self.method.groups]
        if not evenly:
            return proposal.draw(rng, size)
        assert isinstance(proposal, Learned)
        return proposal.from_unit(scrambled(size, proposal.unit_dimension, rng))

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        recorded: Mapping[str, npt.NDArray[Any]] = {}
        summaries = cost = failure = None
        if isinstance(outcomes, Tally):
            distance, seen = np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen
        else:
            outcomes = require_simulated(outcomes)
            distance, seen = self.problem.distances(outcomes, self.wanted.tolerance)
            recorded = outcomes.columns
            summaries, cost, failure = numbers(outcomes.summaries), outcomes.cost, failures(outcomes, distance)
        if self.method.per == "second":
            cost = self.problem.costs(batch, outcomes)
            if cost is None:
                raise InputError("a run per second needs the cost of every simulation; make outcomes by fbar.simulate")
        self.seen = self.seen + seen
        particles, group = self._drawn.pop(batch.block), batch.block % self.method.groups
        near = np.flatnonzero(accepted(self.wanted, distance))
        self.store.add(
            Entry(self.round, group, particles, distance, recorded, summaries, cost, failure, self._plan.evenly, near)
        )

    def _all_failed(self) -> None:
        self.store.everything.all_failed()

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        if self.at_data:
            return self.posterior_at_data()
        return self.posterior_at(self.wanted.tolerance)

    def posterior_at(self, tolerance: float) -> Posterior:
        if not self.simulations:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        at = non_negative_number(tolerance, "tolerance")
        asked = self._acceptance_at(at)
        if (found := self._known(asked)) is not None:
            return found
        own = asked == self.wanted
        self._latest.pop(own, None)  # before another one is made: each holds all that was accepted
        posterior = self._estimated(self.store, asked)
        self._latest[own] = asked, self.simulations, posterior
        return posterior

    def _known(self, asked: Acceptance) -> Posterior | None:
        """A posterior that was taken before, and from as many simulations."""
        return next((p for at, n, p in self._latest.values() if (at, n) == (asked, self.simulations)), None)

    def _estimated(self, store: Crossfitted, asked: Acceptance) -> Posterior:
        posterior = store.posterior(asked, self.seen)
        draws = posterior.draws
        assert draws is not None
        share = float(draws.weight @ np.exp(draws.log_w)) / draws.simulations
        return self._described(posterior, asked.tolerance, share)

    def peek(self) -> Posterior:
        if self.at_data:
            return self.posterior_at_data()
        if (found := self._known(self.wanted)) is not None:
            return found
        if not self.simulations:
            return self.posterior()
        return self._estimated(self.store.copy(), self.wanted)

    def _drawn_from(self) -> Crossfitted:
        return self.store

    def _posterior_tolerance(self) -> float:
        self._require_tolerance()
        return self.wanted.tolerance

    def _curve_tolerances(self) -> list[float]:
        """Larger ones too, since every simulation is kept."""
        own = self._posterior_tolerance()
        far = max(
            (float(d[np.isfinite(d)].max(initial=0.0)) for _, d in self.store.everything.distances()), default=0.0
        )
        larger = [own * 2 ** (k / 2) for k in range(CURVE_ABOVE, 0, -1)]
        return [tolerance for tolerance in larger if own < tolerance < far] + super()._curve_tolerances()

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.store.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.store.everything.summaries.flat(rows, size)

    def stages(self) -> list[Stage]:
        return account.stages(self.store, self._reached, self.wanted, events=not self.problem.has_summaries)

    def simulated_points(self, most: int) -> Points | None:
        return account.simulated_points(self.store, most)

    def variance_after(self, posterior: Posterior, target: Target) -> VarianceAfter:
        found = account.variance_after(self.store, posterior, target)
        return super().variance_after(posterior, target) if found is None else found
