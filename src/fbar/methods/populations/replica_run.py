"""Adaptive SMC with replicas and MCMC moves at work (Del Moral, Doucet & Jasra 2012).

The first round simulates N draws from the prior, M times each. Each further round is a step: the tolerance falls so
that the effective sample size falls to α of what it was, particles are resampled if it is below N/2, and every particle
that has a weight is moved by a random walk θ → θ' with M new simulations, accepted with the probability

    min(1, n'(ε) p(θ') q(θ|θ') / (n(ε) p(θ) q(θ'|θ))),

n and n' the numbers of replicas within ε. At the final tolerance weights stay as they are. Where a budget is left,
particles are moved on, and the answer is the average over the populations after each move: N chains whose first states
are SMC's. The published algorithm ends after the first of them. A round that the budget does not suffice for moves
fewer particles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import non_negative_number
from fbar.designs.proposals import Degenerate, FromPrior
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.estimation.rounds import Rounds
from fbar.estimation.store import Entry
from fbar.methods.populations.moves import Moved, RandomWalk
from fbar.methods.populations.replica_population import ReplicaPopulation, within
from fbar.methods.populations.replicas import Replicas
from fbar.methods.run import Run, Stage
from fbar.methods.smc import account
from fbar.methods.smc.measuring import Measured, Measuring
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes, Tally
from fbar.question.points import Points
from fbar.question.space import Space
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.populations.replica_smc import ReplicaSMC

LEAST_BLOCK, MOST_BLOCK = 256, 4096
"""Simulations in a block, unless they run one by one."""

OUTSIDE = 200
"""A run ends after this many moves of every particle all of which leave the prior's support."""

PROPOSE, ACCEPT, RESAMPLE = range(3)
"""What the random numbers at the start of a round are for."""


class ReplicaRun(Run):
    """SMC with replicas and MCMC moves at work; ``population`` are its particles at the present tolerance."""

    def __init__(self, method: ReplicaSMC, start: Start) -> None:
        super().__init__(start)
        if start.trials is not None:
            raise InputError("smc-replicas runs one trial at a time; leave out trials=")
        self.method, self._final = method, method.tolerance
        if method.tolerance:
            self.problem.check_acceptance(Acceptance(method.tolerance))
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.space = Space(self.problem.prior, method.coordinates)
        self.particles, self.replicas = method.population(self._most), method.replicas
        self.store = Replicas(self.problem, self.space, self.replicas)
        self._measuring = Measuring(self.problem, None)
        wanted = max(LEAST_BLOCK, min(self.particles * self.replicas // 8, MOST_BLOCK))
        size = start.block_size or self._default_block(wanted)
        self._each = max(1, size // self.replicas)  # θ in a block
        self._descended = False  # without a final tolerance: as far as moves are accepted
        self.rates: list[float] = []
        """The share of the moves that was accepted, in each step."""
        self._mass = np.zeros(0)
        self._populations = 0
        self._eve = np.arange(self.particles)
        self.population: ReplicaPopulation | None = None
        self._first_round()

    # ------------------------------------------------------------ state

    @property
    def simulations(self) -> int:
        return self.store.simulations

    @property
    def tolerance(self) -> float:
        """The present tolerance."""
        return math.inf if self.population is None else self.population.tolerance

    @property
    def present_tolerance(self) -> float:
        return self.tolerance

    @property
    def final_tolerance(self) -> float | None:
        return self._final

    @property
    def at_final_tolerance(self) -> bool:
        return self._descended or (self._final is not None and self.tolerance <= self._final)

    # ------------------------------------------------------------ rounds and blocks

    def _first_round(self) -> None:
        drawn = self.space.draw(self._rng(PROPOSE), self.particles)
        log_prior = self.space.log_prior(drawn)
        if np.isneginf(log_prior).any():
            raise InputError(
                "the prior gives its own draws zero density; check the prior's logpdf against its sampling"
            )
        self._record = self.store.open(0, FromPrior(self.space), math.inf, None, None)
        self._moving, self._tried = np.arange(self.particles), self.particles
        self._set_moved(Moved(drawn, log_prior, np.zeros(self.particles)))

    def _rng(self, what: int) -> np.random.Generator:
        return self.seeds.generator(Purpose.DESIGN, self.round, what)

    def _set_moved(self, moved: Moved) -> None:
        """What the present round simulates: M times each."""
        self._moved, self._first_theta = moved, self.simulations // self.replicas
        self._record.draws = (self._tried - len(moved.particles)) * self.replicas  # moves out of the prior's support

    def _blocks(self) -> int:
        return -(-len(self._moved.particles) // self._each)

    def _block(self, block: int) -> Batch:
        particles = self._moved.particles.take(self._part(block))
        points = self.space.points(particles).with_derived(self.problem.derived)
        repeats = np.full(len(particles), self.replicas, dtype=np.int64)
        if self.problem.p_star is not None:
            cells = particles.x[:, 0].astype(np.int64)
            return Batch(self.round, block, points, repeats, self.seeds, cells)
        return Batch(self.round, block, points, repeats if self.replicas > 1 else None, self.seeds)

    def _part(self, block: int) -> slice:
        return slice(block * self._each, (block + 1) * self._each)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        part, found = self._part(batch.block), self._measured(outcomes)
        particles = self._moved.particles.take(part)
        rows = np.repeat(np.arange(len(particles)), self.replicas)
        entry = Entry(
            self.round,
            0,
            particles.take(rows),
            found.distance,
            found.recorded,
            found.summaries,
            found.cost,
            found.failure,
        )
        self._record.add(entry, self._moved.log_prior[part][rows], rows.size)
        self.seen = self.seen + found.seen

    def _measured(self, outcomes: Outcomes) -> Measured:
        if isinstance(outcomes, Tally):
            matches = np.arange(self.replicas) < outcomes.weight[:, None]
            return Measured(np.where(matches, 0.0, np.inf).ravel(), outcomes.seen)
        return self._measuring.block(outcomes, self.tolerance)

    def _all_failed(self) -> None:
        self.store.all_failed()
        if self.population is not None:
            lost = np.full(self.population.distance.shape, np.nan)
            self.population = replace(self.population, distance=lost, weights=np.zeros(self.population.size))
        self._forget_populations()

    # ------------------------------------------------------------ steps

    def _end(self, why: str) -> None:
        self._ended = why
        if self._short:
            self.warnings.append(self._short)

    def _warn(self, why: str) -> None:
        self.warnings.append(f"the run ended early (its simulations are kept): {why}")
        self._end("ended early")

    @property
    def _short(self) -> str:
        """The warning of a run that has not reached its tolerance; empty if it has."""
        at, last = self.tolerance, self._final
        if self.at_final_tolerance or not self.problem.has_summaries or (last is None and at < math.inf):
            return ""
        missed = "no tolerance was reached" if last is None else f"the requested tolerance {last:g} was not reached"
        if at == math.inf:
            first = "the run did not get beyond its first round, which accepts everything, so this is the prior"
            return f"{missed}: {first}"
        return f"{missed}: the estimates are those at the tolerance {at:.4g}, of a wider posterior"

    def _end_round(self) -> None:
        new = self._first_theta + np.arange(len(self._moved.particles))
        distance = self.store.distances_at(new)
        self._record.complete = True
        if self.population is None:
            self.population = ReplicaPopulation.of(new, distance, math.inf)
            self._record.accepted = float(within(distance, math.inf).sum())
        else:
            self._accept(self.population, new, distance)
        if not self.population.weights.any():
            self._warn("no simulation could be compared with the data")
            return
        self._advance(self.population)

    def _accept(self, population: ReplicaPopulation, new: IntArray, distance: FloatArray) -> None:
        """Move the particles whose moves are accepted."""
        i, tolerance = self._moving, population.tolerance
        count, before = within(distance, tolerance), within(population.distance[i], tolerance)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(count) - np.log(before) + self._moved.log_reverse
            log_ratio += self._moved.log_prior - self.store.log_prior_at(population.at[i])
            hit = np.flatnonzero(np.log(self._rng(ACCEPT).random(i.size)) < log_ratio)
        self.population = population.moved(i[hit], new[hit], distance[hit])
        self.rates.append(hit.size / self._tried)
        self._record.accepted = float(hit.size)
        if self._final is None and self.rates[-1] < self.method.least_rate:
            self._descended = True
        if self.at_final_tolerance:
            self._remember(self.population)

    def _remember(self, population: ReplicaPopulation) -> None:
        """Add a population at the final tolerance to those that the answer is the average of."""
        size = self.simulations // self.replicas
        self._mass = np.concatenate([self._mass, np.zeros(size - self._mass.size)])
        np.add.at(self._mass, population.at, population.weights)
        self._populations += 1

    def _forget_populations(self) -> None:
        self._mass, self._populations = np.zeros(0), 0

    def _advance(self, population: ReplicaPopulation) -> None:
        """Lower the tolerance and plan the moves of the next round, or end the run."""
        open_ended = self.budget is None and self.limit is None
        if self.at_final_tolerance and self._populations and open_ended:
            rate = f", where {self.rates[-1]:.2%} of the moves were accepted" if self._final is None else ""
            self._end(f"tolerance {self.tolerance:.4g} reached{rate}")
            return
        if self.simulations + self.replicas > self._most:
            self._end("budget spent")
            return
        if not self.at_final_tolerance:
            lowest = 0.0 if self._final is None else self._final
            tolerance = population.next_tolerance(self.method.survival, lowest)
            if tolerance is None:  # all are equally close
                self._descended = self._final is None
                if self._final is not None and open_ended:
                    self._end(f"no simulation came closer than {self.tolerance:.4g}")
                    return
            else:
                population = population.lowered(tolerance)
            if population.ess < self.method.resample_below * population.size:
                population = population.resampled(self._rng(RESAMPLE))
            self.population = population
        try:
            self._plan(population)
        except Degenerate as error:
            self._warn(f"step {self.round}: {error}")

    def _plan(self, population: ReplicaPopulation) -> None:
        """Propose a move of every particle that has a weight, or of as many as the budget suffices for."""
        alive = population.alive
        particles = self.store.everything.theta.take(population.at[alive] * self.replicas)
        weights = population.weights[alive]
        self._open(RandomWalk.of(self.space, particles, weights, self.method.scale, self.method.jump), alive)

    def _open(self, walk: RandomWalk, alive: IntArray) -> None:
        rng, most = self._rng(PROPOSE), (self._most - self.simulations) // self.replicas
        for _ in range(OUTSIDE):
            moved = walk.move(rng)
            inside = np.flatnonzero(moved.log_prior > -np.inf)
            if inside.size:
                break
        else:
            self._warn(f"the prior has no mass at any of {OUTSIDE * alive.size:,} moves of the particles")
            return
        self._tried = alive.size
        if inside.size > most:
            inside = inside[: int(most)]
            self._tried = int(inside[-1]) + 1
        self._walk, self._moving = walk, alive[inside]
        self._record = self.store.open(self.round, walk, self.tolerance, None, None)
        known = self._eve[: self.simulations // self.replicas]
        assert self.population is not None
        self._eve = np.concatenate([known, known[self.population.at[self._moving]]])
        self._set_moved(Moved(moved.particles.take(inside), moved.log_prior[inside], moved.log_reverse[inside]))

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or self.population is None:
            return None
        state = {"tolerance": np.array(self.tolerance), "at": self.population.at, "weights": self.population.weights}
        return {**state, **{f"walk/{name}": array for name, array in self._walk.around.arrays().items()}}

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        walk = {name.removeprefix("walk/"): array for name, array in state.items() if name.startswith("walk/")}
        at, population = state["at"], self.population
        assert population is not None
        same = np.array_equal(at, population.at) and np.array_equal(state["weights"], population.weights)
        if same and float(state["tolerance"]) == population.tolerance and self._walk.around.is_made_of(walk):
            return
        self.population = ReplicaPopulation(
            at, self.store.distances_at(at), state["weights"], float(state["tolerance"])
        )
        alive = self.population.alive
        self.store.rounds.pop()  # planned otherwise
        self._open(self._walk.restored(self.store.everything.theta.take(at[alive] * self.replicas), walk), alive)

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        if tolerance is not None and tolerance != self._final:
            if tolerance > self.tolerance:
                raise InputError(
                    f"the run is already at the tolerance {self.tolerance:g}; give a smaller one, not {tolerance:g}"
                )
            self._final, self._descended = tolerance, False
            self._forget_populations()
        was_open, self._ended = not self._ended, ""
        self.warnings.clear()  # of the end that this goes beyond
        if was_open:  # planned, and not asked for
            return
        if self.population is None or not self.population.weights.any():
            raise InputError("no simulation could be compared with the data, so the run cannot go on; start a new run")
        self._advance(self.population)

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        """The population at the present tolerance; at the final one, the average over its moves."""
        found = self._posterior(self.tolerance)
        if self._short and self.finished:
            found.doubts = (*found.doubts, self._short)
        return found

    def posterior_at(self, tolerance: float) -> Posterior:
        at = non_negative_number(tolerance, "tolerance")
        if at > self.tolerance:
            raise InputError(
                f"the particles are within the tolerance {self.tolerance:g}, which cannot be raised to {at:g}; choose "
                "a smaller one"
            )
        return self._posterior(at)

    def _posterior(self, tolerance: float) -> Posterior:
        if not self.simulations:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        theta, mass = self._masses()
        each = mass / within(self.store.distances_at(theta), self.tolerance)
        found = self.store.weighted(theta, each, tolerance, self._eve[theta], self.particles, self.seen)
        if tolerance == math.inf:
            found.about = "the prior, as no tolerance was reached"
            return found
        return self._described(found, tolerance, self._share_of_prior(tolerance))

    def _masses(self) -> tuple[IntArray, FloatArray]:
        """The θ that have a weight, in order, and these weights."""
        if self._populations:
            theta = np.flatnonzero(self._mass)
            return theta, self._mass[theta]
        population = self.population
        if population is None:  # in the first round
            theta = np.arange(self.simulations // self.replicas)
            population = ReplicaPopulation.of(theta, self.store.distances_at(theta), math.inf)
        theta, inverse = np.unique(population.at[population.alive], return_inverse=True)
        mass = np.zeros(theta.size)
        np.add.at(mass, inverse, population.weights[population.alive])
        return theta, mass

    def _share_of_prior(self, tolerance: float) -> float:
        first = self.store.distances_at(np.arange(min(self.particles, self.simulations // self.replicas)))
        return float(within(first, tolerance).mean() / self.replicas)

    def stages(self) -> list[Stage]:
        found: list[Stage] = []
        for round in self.store.begun:
            words = "from the prior" if round.number == 0 else "moves of the particles"
            stage = Stage(words, round.simulations, round.accepted, round.tolerance)
            if found and found[-1].words == words and found[-1].tolerance == round.tolerance:
                last = found.pop()
                accepted = (last.accepted or 0.0) + round.accepted
                stage = replace(stage, simulations=last.simulations + round.simulations, accepted=accepted)
            found.append(stage)
        return found

    def simulated_points(self, most: int) -> Points | None:
        return account.simulated_points(self.store, most)

    def _drawn_from(self) -> Rounds:
        return self.store

    def _posterior_tolerance(self) -> float:
        return self.tolerance

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.store.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.store.everything.summaries.flat(rows, size)
