"""Random-walk moves of a population by the Metropolis–Hastings rule.

θ' = θ_i + N(0, 2Σ̂), Σ̂ the population's weighted covariance. A discrete parameter is kept, or redrawn from its prior
with the probability J; so is the model, of a choice of models, with all of its parameters. A model with too few
particles for a covariance is always redrawn. Which of these is done has the probability r(m) or 1 − r(m), that depends
on the model m only, so q(θ|θ')/q(θ'|θ) is 1 for a random walk, Π p(k)/p(k') over redrawn parameters k, and
p(θ) r(m')/(p(θ') r(m)) where everything was redrawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals import NormalKernel, Perturbed
from fbar.question.space import Particles, Space


@dataclass(frozen=True, eq=False)
class Moved:
    """Where particles are moved to, and the log of q(θ|θ')/q(θ'|θ)."""

    particles: Particles
    log_prior: FloatArray
    log_reverse: FloatArray


@dataclass(frozen=True, eq=False)
class RandomWalk:
    """Moves of ``particles``; ``around`` has a kernel around each of them."""

    space: Space
    particles: Particles
    around: Perturbed
    jump: float

    @staticmethod
    def of(space: Space, particles: Particles, weights: FloatArray, scale: float, jump: float) -> RandomWalk:
        """Fitted to particles of positive weights; `Degenerate` if they do not span the space."""
        size = len(particles)
        around = Perturbed(
            space,
            particles,
            weights,
            np.zeros(size),
            perturbation=NormalKernel(scale),
            next_tolerance=np.inf,
            jump=jump,
            probabilities=np.full(size, 1 / size),  # every particle is moved once
        )
        return RandomWalk(space, particles, around, jump)

    def restored(self, particles: Particles, arrays: dict[str, FloatArray]) -> RandomWalk:
        """Moves of these particles with recorded kernels."""
        return replace(self, particles=particles, around=self.around.restored(arrays))

    @property
    def _redrawn(self) -> FloatArray:
        """r(m): how likely everything is redrawn from the prior, for each model."""
        several = len(self.space.parts) > 1
        return np.array([(self.jump if several else 0.0) if moved else 1.0 for moved in self.around.components])

    def move(self, rng: np.random.Generator) -> Moved:
        """Every particle once."""
        return self._move(np.arange(len(self.particles)), rng)

    def _move(self, which: IntArray, rng: np.random.Generator) -> Moved:
        space, before = self.space, self.particles.take(which)
        x, model, log_reverse = before.x.copy(), before.model.copy(), np.zeros(which.size)
        place = np.empty(len(self.particles), dtype=np.int64)  # among the particles of the same model
        for _, rows in space.split(self.particles):
            place[rows] = np.arange(rows.size)
        for m, rows in space.split(before):
            moved, part, d = self.around.components[m], space.parts[m], space.dimensions[m]
            if moved is None:
                continue
            x[rows, :d] = moved.move(place[which[rows]], rng)
            for column in np.flatnonzero(part.discrete):
                old, new = before.x[rows, column], x[rows, column]
                log_reverse[rows] += part.log_probability(int(column), old) - part.log_probability(int(column), new)
        r = self._redrawn
        redrawn = np.flatnonzero(rng.random(which.size) < r[before.model])
        if redrawn.size:
            fresh = space.draw(rng, redrawn.size)
            x[redrawn], model[redrawn] = fresh.x, fresh.model
            with np.errstate(divide="ignore"):
                log_r = np.log(r)
            log_reverse[redrawn] = (
                space.log_prior(before.take(redrawn))
                - space.log_prior(fresh)
                + log_r[fresh.model]
                - log_r[before.model[redrawn]]
            )
        found = Particles(model, x)
        return Moved(found, space.log_prior(found), log_reverse)

    # ------------------------------------------------------------ as a proposal of all particles together

    def draw(self, rng: np.random.Generator, size: int) -> Particles:
        return self._move(rng.integers(len(self.particles), size=size), rng).particles

    def log_density(self, particles: Particles) -> FloatArray:
        """The log density of a move from a particle that is drawn at random."""
        if len(self.space.parts) == 1 and self.around.components[0] is not None:
            return self.around.log_density(particles)
        r, share = self._redrawn, np.zeros(len(self.space.parts))
        for m, rows in self.space.split(self.particles):
            share[m] = rows.size / len(self.particles)
        with np.errstate(divide="ignore"):
            result = np.log(share @ r) + self.space.log_prior(particles)
            log_kept = np.log(share * (1 - r))
        for m, rows in self.space.split(particles):
            moved = self.around.components[m]
            if moved is not None:
                within = moved.log_density(particles.x[rows, : self.space.dimensions[m]])
                result[rows] = np.logaddexp(result[rows], log_kept[m] + within)
        return result
