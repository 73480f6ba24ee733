"""Chains at work: each step of all chains is a round, whose blocks hold one proposal for each chain.

A run begins with a pilot of draws from the prior. The chains start from some of these, adapt their proposals together
for a while (the burn-in), and from then on keep them. What a likelihood is made of is left to the methods: a
simulation's distance (`fbar.methods.chains.mcmc`), or an estimate from several simulations at one θ
(`fbar.methods.chains.synthetic`). Either is one number, the *score* of a θ, drawn once: a chain carries the score of
its state along, so that both together have the right distribution (Marjoram et al. 2003; Andrieu & Roberts 2009).
"""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.chains import ChainErrors, States
from fbar.estimation.coordinates import Coordinates
from fbar.estimation.counted import STATES, Counted
from fbar.estimation.doubts import all_rejected
from fbar.estimation.draws import Draws
from fbar.estimation.kept import Kept
from fbar.estimation.posterior import Posterior
from fbar.estimation.simulations import Simulations
from fbar.methods.chains.plan import Plan
from fbar.methods.chains.walk import Walk
from fbar.methods.records import RecordedBlocks
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.points import Points
from fbar.question.space import Particles, Space
from fbar.seeds import Purpose

PILOT_BLOCK = 4096

BLOCKS = 8
"""Blocks in a step of the chains, of a simulator that runs its simulations one by one."""

RESTARTS = 2**32 - 1
"""The number of the stream that chains are restarted from, behind those of all blocks."""

READINGS = 1.1
"""Steps of the chains when a stopping rule is read over those at the reading before."""

IN_BURN_IN = "the chains are still in their burn-in; use a larger budget"

NO_MOVES = "the chains never moved; use a larger budget or a larger tolerance"

FEW_MOVES = 5
"""Accepted proposals of a chain, on average, below which it has hardly moved."""

FEW_DRAWS = 20
"""Independent draws that a posterior must be worth, for its error bars to be called reliable."""

FEW_EFFECTIVE = f"the states of the chains are worth fewer than {FEW_DRAWS} independent draws; use a larger budget"

HARDLY_MOVED = f"the chains have moved fewer than {FEW_MOVES} times each; use a larger budget or fewer chains"


class Phase(enum.Enum):
    PILOT = "pilot"
    BURN_IN = "burn-in"
    SAMPLING = "sampling"


@dataclass(frozen=True, eq=False)
class Proposed:
    """What a block proposes: ``log_ratio`` is the proposal's part of the log acceptance ratio, ``log_u`` its bound."""

    particles: Particles
    log_ratio: FloatArray
    log_u: FloatArray


class ChainRun(Run):
    """Chains at work; a method fills in what a θ's score is and when it is accepted.

    ``replicates`` simulations are run at every θ.
    """

    def __init__(
        self, start: Start, space: Space, *, chains: int | None, jump: float | None, replicates: int = 1
    ) -> None:
        super().__init__(start)
        if start.trials is not None:
            raise InputError("chains run one trial at a time; leave out trials=")
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.space, self.replicates = space, replicates
        self.plan = Plan.of(self._most, self.budget is not None, chains, replicates)
        several = len(space.parts) > 1
        self.walk = Walk(space, (0.3 if several else 0.0) if jump is None else jump)
        self.visited = Coordinates(space.dimension, several, None)
        """The θ of all proposals."""
        self.phase = Phase.PILOT
        self.moves = 0
        """Accepted proposals after the burn-in."""
        self._scores = Kept()
        self._simulations = 0
        given = None if start.block_size is None else max(1, start.block_size // replicates)
        chains = self.plan.chains
        self._chain_block = given or (-(-chains // BLOCKS) if self._largest_block else chains)
        self._pilot_block = given or max(1, self._default_block(PILOT_BLOCK) // replicates)
        self._rows: IntArray = np.zeros(0, dtype=np.int64)  # of the chains' states among the proposals
        self._states = Particles(np.zeros(0, dtype=np.int64), np.zeros((0, space.dimension)))
        self._score = self._log_prior = np.zeros(0)
        self._proposed: dict[int, Proposed] = {}
        self._absorbed_parts: list[tuple[Proposed, FloatArray]] = []
        self._steps = 0  # in this phase
        self._burnt, self._trace = Kept(), Kept()
        self._plan_pilot()

    # ------------------------------------------------------------ what a method fills in

    @abstractmethod
    def _scored(self, batch: Batch, outcomes: Outcomes, particles: Particles) -> FloatArray:
        """The score of every θ of a block, NaN for one that cannot be accepted; it keeps what the posterior needs."""

    @abstractmethod
    def _starts(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Which draws of the pilot the chains start from, given their scores; none where no chain can start."""

    @abstractmethod
    def _likelihood_ratio(self, proposed: FloatArray, current: FloatArray) -> FloatArray:
        """The log ratio of the likelihoods (their estimates) of proposals and of the chains' states."""

    def _adapt(self, scores: FloatArray, log_ratio: FloatArray, last: bool) -> None:
        """Learn from the proposals of a round of the burn-in; ``last`` is whether it ends with this."""

    def _outside(self, scores: FloatArray) -> BoolArray:
        """Chains whose state, after the burn-in, has the likelihood 0."""
        return np.zeros(scores.size, dtype=bool)

    # ------------------------------------------------------------ state

    @property
    def finished(self) -> bool:
        need = self.replicates * (1 if self.phase is Phase.PILOT else self.plan.chains)
        return self._absorbed == self._asked == 0 and self._most - self._simulations < need

    @property
    def counted_as(self) -> Counted:
        return STATES

    @property
    def simulations(self) -> int:
        return self._simulations

    @property
    def at_final_tolerance(self) -> bool:
        """After the burn-in; a stopping rule is read when the chains have grown by a tenth."""
        if self.phase is not Phase.SAMPLING or self._steps < 1:
            return False
        return self.finished or _is_reading(self._steps)

    @property
    def learning(self) -> bool:
        return self.phase is not Phase.SAMPLING

    # ------------------------------------------------------------ rounds and blocks

    def _plan_pilot(self) -> None:
        self._sizes = self._cut(int(min(self.plan.pilot, (self._most - self._simulations) // self.replicates)))

    def _cut(self, size: int) -> list[int]:
        """The blocks of a round of so many θ."""
        block = self._pilot_block if self.phase is Phase.PILOT else self._chain_block
        return [min(block, size - first) for first in range(0, size, block)]

    def _blocks(self) -> int:
        return len(self._sizes)

    def _block(self, block: int) -> Batch:
        rng, size = self.seeds.generator(Purpose.DESIGN, self.round, block), self._sizes[block]
        if self.phase is Phase.PILOT:
            particles = self.space.draw(rng, size)
            points = self.space.points(particles)
            proposed = Proposed(particles, np.zeros(size), np.zeros(size))
        else:
            first = self._sizes[0] * block
            chains = slice(first, first + size)
            step = self.walk.propose(rng, self._states.take(chains))
            particles = step.particles
            points = self.space.points(particles)
            change = self.space.log_prior(particles, points) - self._log_prior[chains]
            log_u = np.log1p(-rng.random(size))  # of a number in (0, 1]
            proposed = Proposed(particles, np.where(step.walked, change, 0.0), log_u)
        self._proposed[block] = proposed
        points = points.with_derived(self.problem.derived)
        if self.problem.p_star is not None:
            cells = particles.x[:, 0].astype(np.int64)
            return Batch(self.round, block, points, np.ones(size, dtype=np.int64), self.seeds, cells)
        repeats = None if self.replicates == 1 else np.full(size, self.replicates, dtype=np.int64)
        return Batch(self.round, block, points, repeats, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        proposed = self._proposed.pop(batch.block)
        score = self._scored(batch, outcomes, proposed.particles)
        if score.shape != (len(proposed.particles),):
            raise InputError(
                f"block {batch.key} asks for {len(proposed.particles):,} values of θ and got {score.size:,} outcomes"
            )
        self._scores.add(score)
        self._absorbed_parts.append((proposed, score))
        self._simulations += batch.simulations

    def _all_failed(self) -> None:
        """No state is a good one: the chains go on from where they are, and what they have visited does not count."""
        known, self._scores = len(self._scores), Kept()
        if known:
            self._scores.add(np.full(known, np.nan))
        self._absorbed_parts = [(part, np.full(score.size, np.nan)) for part, score in self._absorbed_parts]
        self._score = np.full(self._score.size, np.nan)
        self._trace, self._burnt, self.moves = Kept(), Kept(), 0

    def _end_round(self) -> None:
        parts, self._absorbed_parts = self._absorbed_parts, []
        if self.phase is Phase.PILOT:
            self._start_chains()
        else:
            self._move(parts)
        if self.phase is Phase.PILOT:
            self._plan_pilot()
        else:
            self._sizes = self._cut(self.plan.chains)

    def _start_chains(self) -> None:
        """Begin the burn-in, where the pilot has a θ to start from; otherwise there is more of it."""
        scores = self._scores.whole()
        places = self._starts(scores, self.seeds.generator(Purpose.DESIGN, self.round, RESTARTS))
        if places.size:
            self.phase = Phase.BURN_IN
            self._go_to(places)
            self.walk.begin(self._states)

    def _go_to(self, rows: IntArray) -> None:
        """Put the chains at θ that were visited."""
        order = np.argsort(rows, kind="stable")
        back = np.argsort(order, kind="stable")
        self._rows, self._states = rows, self.visited.take(rows[order]).take(back)
        self._score = np.asarray(self._scores.take(rows))
        self._log_prior = self.space.log_prior(self._states)

    def _move(self, parts: list[tuple[Proposed, FloatArray]]) -> None:
        """Accept or reject what every chain has proposed, and learn from it in the burn-in."""
        joined = len(parts) == 1
        scores = parts[0][1] if joined else np.concatenate([score for _, score in parts])
        log_ratio = parts[0][0].log_ratio if joined else np.concatenate([part.log_ratio for part, _ in parts])
        log_u = parts[0][0].log_u if joined else np.concatenate([part.log_u for part, _ in parts])
        particles = Particles.concatenate([part.particles for part, _ in parts])
        with np.errstate(invalid="ignore"):
            accepted = log_u <= log_ratio + self._likelihood_ratio(scores, self._score)
        first = len(self._scores) - scores.size
        self._rows = np.where(accepted, np.arange(first, first + scores.size), self._rows)
        self._states = Particles(
            np.where(accepted, particles.model, self._states.model),
            np.where(accepted[:, None], particles.x, self._states.x),
        )
        self._score = np.where(accepted, scores, self._score)
        self._log_prior = self.space.log_prior(self._states)
        self._steps += 1
        if self.phase is Phase.SAMPLING:
            self.moves += int(accepted.sum())
            self._trace.add(self._rows[None])
            return
        self._burnt.add(self._rows[None])
        last = self._steps >= self.plan.burn_in
        self.walk.learn(self._states)
        self._adapt(scores, log_ratio, last)
        if last:
            self._restart_outsiders()
            self.phase, self._steps = Phase.SAMPLING, 0

    def _restart_outsiders(self) -> None:
        """Put the chains that did not arrive at states of the burn-in's second half, which others visited."""
        outside = np.flatnonzero(self._outside(self._score))
        if not outside.size:
            return
        visited = self._burnt.whole()
        rows = visited[len(visited) // 2 :].ravel()
        rows = rows[~self._outside(np.asarray(self._scores.take(rows)))]
        if rows.size:
            rng = self.seeds.generator(Purpose.DESIGN, self.round, RESTARTS)
            chosen = self._rows.copy()
            chosen[outside] = rows[rng.integers(rows.size, size=outside.size)]
            self._go_to(chosen)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """What was fitted: proposals in the burn-in, and once at its end; later rounds keep it."""
        if self.phase is Phase.BURN_IN or (self.phase is Phase.SAMPLING and self._steps == 0):
            return {"chains": self._rows, **self.walk.arrays()}
        return None

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.walk.restore(state)
        rows = np.asarray(state["chains"])
        if not np.array_equal(rows, self._rows):
            self._go_to(rows)

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        if self.phase is Phase.PILOT:
            self._plan_pilot()

    # ------------------------------------------------------------ what comes out

    def states(self) -> IntArray:
        """The chains' states as numbers of proposals, shape (steps, chains); in the burn-in, its second half so far."""
        found = self._trace if len(self._trace) else self._burnt
        if not len(found):
            if self.simulations and self.phase is Phase.PILOT and self.finished:
                raise all_rejected(self.simulations, self.seen)
            raise NoPosterior("the chains have not started yet; ask the run for batches and tell it their outcomes")
        rows = found.whole()
        return np.asarray(rows if found is self._trace else rows[len(rows) // 2 :])

    def average(self, rows: IntArray, states: States, points: Points) -> Posterior:
        """The posterior that has the proposals of these numbers, θ at ``points``, as its points."""
        draws = Draws(
            self.problem,
            points,
            states.weight,
            np.log(states.visits),
            self.simulations,
            "chains",
            np.array([self.plan.chains]),
            np.zeros(rows.size, dtype=np.int64),
            None,
            self.seen,
            rows,
            relative=True,
        )
        errors = ChainErrors(states, draws, self.visited.take(rows).x)
        found = Posterior(points, states.weights, errors, self.simulations, float(states.weight.sum()))
        found.counted_as, found.parts_in_words = self.counted_as, "states of the chains"
        if not len(self._trace):
            found.doubts = (IN_BURN_IN,)
        elif not self.moves:
            found.doubts = (NO_MOVES,)
        elif self.moves < FEW_MOVES * self.plan.chains:
            found.doubts = (HARDLY_MOVED,)
        elif errors.ess < FEW_DRAWS:
            found.doubts = (FEW_EFFECTIVE,)
        return found

    def stages(self) -> list[Stage]:
        """The pilot, the burn-in, and the rounds whose states are used."""
        steps = [len(self._burnt), len(self._trace)]
        each = self.plan.chains * self.replicates
        burnt, used = (each * number for number in steps)
        words = (
            "steps of the chains" if self.replicates == 1 else f"for steps of the chains, {self.replicates} for each"
        )
        found = [Stage("from the prior, to start the chains", self.simulations - burnt - used)]
        if burnt:
            found.append(Stage(f"{words}, in their burn-in", burnt))
        if used:
            found.append(Stage(words, used, float(self.moves * self.replicates), self.present_tolerance))
        return found

    def theta_of(self, rows: IntArray) -> Points:
        """θ of proposals, by their numbers in rising order."""
        return self.space.points(self.visited.take(rows)).with_derived(self.problem.derived)

    def simulated_points(self, most: int) -> Points | None:
        if not len(self._scores):
            return None
        rows = np.arange(len(self._scores))
        return self.theta_of(rows if rows.size <= most else np.linspace(0, rows.size - 1, most).astype(np.int64))

    def all_simulations(self, recorded: RecordedBlocks | None = None) -> Simulations:
        raise InputError(
            "the proposals of Markov chains have no weights, so there is no answer from all simulations of this run; "
            "use fbar.SMC or fbar.Targeted for that (fbar export --all writes the simulations of a recorded run)"
        )


def _is_reading(steps: int) -> bool:
    """Whether the number of readings, at geometrically growing numbers of steps, has just risen."""
    return math.floor(math.log(steps) / math.log(READINGS)) > math.floor(
        math.log(max(steps - 1, 0.5)) / math.log(READINGS)
    )
