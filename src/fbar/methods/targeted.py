"""Simulations where they reduce the error of what is asked (section 2 of the paper, for p* that is not known).

Two phases. While the tolerance is above the wanted one, proposals follow ABC's posterior at falling tolerances: to
target f there would leave too few draws near the data to descend. At the wanted tolerance they follow the design of
least error, q ∝ p √E[a²|θ] g, g² = Σ_j c_j ψ_j² (e:optimal_independent_q of the paper for one target), which is
learnt in rounds that double what was accepted, and then kept. See `fbar.methods.learning` for the fit, and
`fbar.estimators.crossfitted` for the groups that keep proposals from weighing their own draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.acceptance import Acceptance, accepted
from fbar.checks import FloatArray, IntArray, choice, non_negative_number, positive_integer
from fbar.errors import InputError, NoPosterior
from fbar.estimators.crossfitted import Crossfitted, Piece
from fbar.methods.adaptive import AdaptiveAllocation
from fbar.methods.base import Method, Run, Start
from fbar.methods.learning import Aim, Lesson, learn
from fbar.methods.other_tolerances import few_numbers
from fbar.outcomes import Batch, Outcomes, Simulated, Tally
from fbar.posterior import Posterior
from fbar.priors import Finite
from fbar.proposals import FromPrior, Learnt, Proposal, Space
from fbar.seeds import Purpose
from fbar.simulators import Bernoulli, Tabulated

BLOCK_SIZE = 4096
ENOUGH = 1000
"""Acceptances at the wanted tolerance after which proposals are kept."""

LEAST_ROUND = 256
SCRAMBLES = 32
MOST_NUMBERS = 20_000_000
GAIN = 0.2
"""The least share of the variance that evenly spread points could remove for which they are used."""


@dataclass(frozen=True)
class Targeted(Method):
    """Learn where simulations reduce the error of the targets most, and simulate there.

    On a finite space it is `AdaptiveAllocation`.

    Parameters
    ----------
    tolerance
        How close simulations must come to the data.
    kernel
        The acceptance kernel, see `Acceptance`.
    goal
        With several targets: ``"weighted"`` reduces the sum of their squared errors, each relative to its posterior
        standard deviation or by ``importance``; ``"worst"`` the largest of them.
    importance
        Weights of the targets' squared relative errors, by name; 1 for those left out.
    per
        What is scarce: ``"simulation"``, or ``"second"`` of simulator time, where the costs of single simulations are
        known.
    groups
        Cross-fitting groups.
    defence
        The share of simulations that come from the prior, in case the proposals have missed something.
    """

    tolerance: float | None = None
    kernel: str = "uniform"
    goal: str = "weighted"
    importance: Mapping[str, float] | None = None
    per: str = "simulation"
    groups: int = 4
    defence: float = 0.1

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            Acceptance(self.tolerance, self.kernel)
        choice(self.goal, ("weighted", "worst"), "goal")
        choice(self.per, ("simulation", "second"), "per")
        if positive_integer(self.groups, "groups") < 2:
            raise InputError("proposals learn from other groups, so there must be at least 2; got groups=1")
        if not 0 < non_negative_number(self.defence, "defence") < 1:
            raise InputError(f"defence must lie between 0 and 1; got {self.defence!r}")

    def _begin(self, start: Start) -> Run:
        if isinstance(start.problem.prior, Finite):
            return AdaptiveAllocation(tolerance=self.tolerance or 0.0, kernel=self.kernel)._begin(start)
        return TargetedRun(self, start)


class TargetedRun(Run):
    """A targeted run at work."""

    def __init__(self, method: Targeted, start: Start) -> None:
        super().__init__(start)
        if start.trials is not None:
            raise InputError("trials= needs a finite parameter space; run the trials one by one")
        self.method = method
        event = isinstance(self.problem.simulate, Tabulated | Bernoulli) or not self.problem.has_summaries
        tolerance = 0.0 if method.tolerance is None and event else method.tolerance
        assert tolerance is not None
        self.wanted = Acceptance(tolerance, method.kernel)
        self.problem.check_acceptance(self.wanted)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.space = Space(self.problem.prior, "normal")
        self.store = Crossfitted(self.problem, self.space, method.groups)
        self.aim = Aim.of(self.targets, method.goal, method.importance)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._event = event
        self._ended = ""
        self._settled = event
        self._kept: list[Proposal] | None = None  # the proposals that are learnt no more
        self._even = False
        self._numbers = 0
        d = self.space.dimension
        self._close = max(200, 20 * d)
        if self._most < math.inf:
            self._close = int(min(max(self._close, self._most // 200), max(8, self._most // 8)))
        prior: list[Proposal] = [FromPrior(self.space)] * method.groups
        self._open(prior, max(LEAST_ROUND, 2 * self._close))

    # ------------------------------------------------------------ state

    @property
    def _most(self) -> float:
        most = self.limit if self.budget is None else self.budget
        return math.inf if most is None else most

    @property
    def finished(self) -> bool:
        return bool(self._ended)

    @property
    def ended(self) -> str:
        return self._ended

    @property
    def simulations(self) -> int:
        return self.store.simulations

    @property
    def settled(self) -> bool:
        return self._settled

    @property
    def tolerance(self) -> float:
        return self.wanted.tolerance

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, proposals: list[Proposal], size: float, *, even: bool = False) -> None:
        """Plan a round of about so many simulations, in equal parts for the groups."""
        left = self._most - self.simulations
        size = int(min(size, left))
        if left - size < LEAST_ROUND and left < math.inf:
            size = int(left)
        groups = self.method.groups
        self._even = even
        self._sizes: list[int] = []
        mine = [size // groups + (a < size % groups) for a in range(groups)]
        blocks = max(1, math.ceil(max(mine) / self.block_size))
        if even:
            blocks = max(blocks, SCRAMBLES // groups)
        for b in range(blocks):
            self._sizes += [n // blocks + (b < n % blocks) for n in mine]
        self._drawn: dict[int, Any] = {}
        self.store.proposals.append(proposals)

    def _blocks(self) -> int:
        return len(self._sizes)

    def _block(self, block: int) -> Batch:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        proposal = self.store.proposals[self.round][block % self.method.groups]
        size = self._sizes[block]
        if self._even:
            assert isinstance(proposal, Learnt)
            particles = proposal.from_unit(_evenly(size, proposal.unit_dimension, rng))
        else:
            particles = proposal.draw(rng, size)
        self._drawn[block] = particles
        points = self.space.points(particles).with_derived(self.problem.derived)
        return Batch(self.round, block, points, None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        particles = self._drawn.pop(batch.block)
        recorded: Mapping[str, npt.NDArray[Any]] = {}
        summaries = cost = None
        if isinstance(outcomes, Tally):
            distance, seen = np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen
        elif isinstance(outcomes, Simulated):
            distance, seen = self.problem.distances(outcomes, self.wanted.tolerance)
            recorded, cost = outcomes.recorded, getattr(outcomes, "cost", None)
            self._numbers += outcomes.summaries.size
            summaries = few_numbers(outcomes.summaries) if self._numbers <= MOST_NUMBERS else None
        else:
            raise InputError(
                "tell takes pairs (batch, outcomes) with outcomes made by problem.outcomes(x, batch.simulations) "
                f"or fbar.simulate; got {type(outcomes).__name__}"
            )
        self.seen = self.seen + seen
        group = batch.block % self.method.groups
        self.store.add(Piece(self.round, group, particles, distance, recorded, summaries, cost, self._even))

    # ------------------------------------------------------------ learning

    def _end_round(self) -> None:
        if self.simulations >= self._most:
            self._ended = "budget spent"
            return
        if self._kept is not None:
            self._go_on()
            return
        acceptances = [self.wanted] * self.method.groups
        if not self._settled:
            acceptances = [self._closer(a) for a in range(self.method.groups)]
            self._settled = all(acceptance == self.wanted for acceptance in acceptances)
        weight = accepted(self.wanted, self.store.distance)
        there = int((weight > 0).sum())
        if self._settled and there < 2 * self.method.groups:  # nothing to learn from yet
            self._open(list(self.store.proposals[-1]), self.simulations)
            return
        lessons = [self._lesson(a, acceptance) for a, acceptance in enumerate(acceptances)]
        proposals: list[Proposal] = [lesson.proposal for lesson in lessons]
        if not self._settled:
            self._open(proposals, 2 * self._close)
            return
        if there >= ENOUGH:
            self._kept = proposals
            self._worth = float(np.mean([lesson.removable for lesson in lessons])) > GAIN
            self._go_on()
            return
        rate = max(weight[self.store.round == self.round - 1].mean(), there / self.simulations)
        self._open(proposals, min(max(LEAST_ROUND, there / rate), self.simulations))

    def _go_on(self) -> None:
        """The rest of the budget with the proposals that are there; without one, rounds that grow."""
        assert self._kept is not None
        size: float = self._most - self.simulations if self.budget is not None else max(LEAST_ROUND, self.simulations // 4)
        size = min(size, self._most - self.simulations)
        if not self._worth:
            self._open(self._kept, size)
            return
        # A power of two for every scramble; what is left over is spent in the rounds after.
        each = 2 ** int(math.log2(max(size / SCRAMBLES, 1)))
        even = each >= 16
        self._open(self._kept, each * SCRAMBLES if even else size, even=even)

    def _others(self, group: int) -> IntArray:
        return np.flatnonzero(self.store.group != group)

    def _closer(self, group: int) -> Acceptance:
        """The tolerance that enough of the other groups' simulations are within, not below the wanted one."""
        distance = self.store.distance[self._others(group)]
        finite = distance[np.isfinite(distance)]
        k = min(self._close, max(1, distance.size // 4))
        if finite.size <= k:
            return Acceptance(float(finite.max()), "uniform") if finite.size else self.wanted
        near = float(np.partition(finite, k - 1)[k - 1])
        return self.wanted if near <= self.wanted.tolerance else Acceptance(near, "uniform")

    def _lesson(self, group: int, acceptance: Acceptance) -> Lesson:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1 - group)
        aim = self.aim if acceptance == self.wanted else None
        return learn(self.store, self._others(group), acceptance, aim, self.method.defence, rng, self.method.per)

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        return self.posterior_at(self.wanted.tolerance)

    def posterior_at(self, tolerance: float) -> Posterior:
        if not self.store.pieces:
            raise NoPosterior("no simulations were told yet; ask the run for batches and tell it their outcomes")
        at = Acceptance(non_negative_number(tolerance, "tolerance"), self.method.kernel)
        return self.store.posterior(at, self.seen)

    def _own_tolerance(self) -> float:
        return self.wanted.tolerance

    def _kept_summaries(self) -> list[npt.NDArray[Any] | None]:
        return [piece.summaries for piece in self.store.pieces]


def _evenly(size: int, dimension: int, rng: np.random.Generator) -> FloatArray:
    from scipy.stats import qmc

    power = max(0, (size - 1).bit_length())
    return np.asarray(qmc.Sobol(dimension, rng=rng).random_base2(power)[:size])
