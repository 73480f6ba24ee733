"""What particles are drawn from: the prior, or the particles of the last round, perturbed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals.kernels import Components, Degenerate, Perturbation, Population
from fbar.question.space import Part, Particles, Space
from fbar.weights import systematic


@dataclass(frozen=True, eq=False)
class FromPrior:
    """The prior itself: the first round."""

    space: Space

    def draw(self, rng: np.random.Generator, size: int) -> Particles:
        return self.space.draw(rng, size)

    def log_density(self, particles: Particles) -> FloatArray:
        return self.space.log_prior(particles)


@dataclass(frozen=True, eq=False)
class _Moved:
    """One model's part: its particles, each coordinate perturbed."""

    part: Part
    centres: FloatArray
    weights: FloatArray
    components: Components | None
    jump: float

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.weights)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        cumulative = self._cumulative
        at = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return self.move(np.minimum(at, len(cumulative) - 1), rng)

    def move(self, which: IntArray, rng: np.random.Generator) -> FloatArray:
        """A draw around each of the given centres."""
        x: FloatArray = self.centres[which]
        if self.components is not None:
            moves = self.components.perturb(which, rng)
            if not self.part.discrete.any():
                return x + moves
            x[:, ~self.part.discrete] += moves
        for column in np.flatnonzero(self.part.discrete):
            rows = np.flatnonzero(rng.random(which.size) < self.jump)
            x[rows, column] = self.part.redraw(int(column), rng, rows.size)
        return x

    def log_density(self, x: FloatArray) -> FloatArray:
        discrete = np.flatnonzero(self.part.discrete)
        if discrete.size == 0:
            assert self.components is not None
            return self.components.log_mixture(x, self.weights, slice(None))
        codes = x[:, discrete]
        log_p = np.stack([self.part.log_probability(int(c), x[:, c]) for c in discrete], axis=1)
        # Centres that share their discrete values have the same factor Π ((1−J) 1{same} + J p).
        values, group = np.unique(self.centres[:, discrete], axis=0, return_inverse=True)
        total = np.full(len(x), -np.inf)
        for number, value in enumerate(values):
            factor = self._log_jump(codes == value, log_p).sum(axis=1)
            rows = np.flatnonzero(np.isfinite(factor))
            if rows.size == 0:
                continue
            members = np.flatnonzero(group.ravel() == number)
            if self.components is None:
                inner = np.full(rows.size, np.log(self.weights[members].sum()))
            else:
                inner = self.components.log_mixture(x[np.ix_(rows, ~self.part.discrete)], self.weights, members)
            total[rows] = np.logaddexp(total[rows], factor[rows] + inner)
        return total

    def _log_jump(self, same: FloatArray, log_p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((1 - self.jump) * same + self.jump * np.exp(log_p)))

    def log_own(self) -> FloatArray:
        """log w_j K_j(c_j): what each centre contributes to the density at itself."""
        with np.errstate(divide="ignore"):
            found = np.log(self.weights)
        if self.components is not None:
            found = found + self.components.log_height()
        for column in np.flatnonzero(self.part.discrete):
            log_p = self.part.log_probability(int(column), self.centres[:, column])
            found = found + self._log_jump(np.ones(len(found)), log_p)
        return found


class Perturbed:
    """Particles of the last round, drawn by weight and perturbed.

    A model index, and every discrete parameter, is kept with probability 1 − ``jump`` and redrawn from the prior
    otherwise; a particle of the new model is then drawn and perturbed. A model that has too few particles for a
    kernel is drawn from its prior, so that none is lost for good.

    Parameters
    ----------
    particles, weights, distance
        The last round's accepted particles.
    probabilities
        With which particles are drawn, where these are not the weights; kernels are fitted to the weights.
    most
        With more particles than this in a model, this many are resampled as centres: the proposal's density then costs
        in proportion to the number of particles, not to its square, and stays exact.
    """

    def __init__(
        self,
        space: Space,
        particles: Particles,
        weights: FloatArray,
        distance: FloatArray,
        *,
        perturbation: Perturbation,
        next_tolerance: float,
        jump: float,
        probabilities: FloatArray | None = None,
        most: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.space = space
        weights = weights / weights.sum()
        drawn = weights if probabilities is None else probabilities / probabilities.sum()
        share = np.zeros(len(space.parts))
        self.components: list[_Moved | None] = [None] * len(space.parts)
        self.centre_rows: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(space.parts)
        for m, rows in space.split(particles):
            share[m], mass = drawn[rows].sum(), weights[rows].sum()
            part, d = space.parts[m], space.dimensions[m]
            continuous = np.flatnonzero(~part.discrete)
            if share[m] == 0 or d == 0 or (len(space.parts) > 1 and rows.size < perturbation.least(continuous.size)):
                continue
            x, within, far = particles.x[rows, :d], weights[rows] / mass, distance[rows]
            picked = drawn[rows] / share[m]
            chosen = np.arange(rows.size)
            if most is not None and rows.size > most:
                assert rng is not None
                chosen = systematic(picked, most, rng)
            kernels = None
            if continuous.size:
                try:
                    kernels = perturbation.fit(Population(x[:, continuous], within, far), chosen, next_tolerance)
                except Degenerate:
                    if len(space.parts) == 1:
                        raise
                    continue
            centre_weights = picked if chosen.size == rows.size else np.full(chosen.size, 1 / chosen.size)
            self.components[m] = _Moved(part, x[chosen], centre_weights, kernels, jump)
            self.centre_rows[m] = rows[chosen]
        self.shares = share if len(share) == 1 else (1 - jump) * share + jump * space.shares

    def draw(self, rng: np.random.Generator, size: int) -> Particles:
        def inner(m: int, rows: IntArray) -> FloatArray:
            moved = self.components[m]
            return self.space.parts[m].draw(rng, rows.size) if moved is None else moved.draw(rng, rows.size)

        return self.space.assemble(self.space.draw_models(self.shares, rng, size), inner)

    def log_density(self, particles: Particles) -> FloatArray:
        if len(self.space.parts) == 1 and self.components[0] is not None:
            return self.components[0].log_density(particles.x)
        result = np.empty(len(particles))
        with np.errstate(divide="ignore"):
            log_share = np.log(self.shares)
        for m, rows in self.space.split(particles):
            x, moved = particles.x[rows, : self.space.dimensions[m]], self.components[m]
            inner = self.space.parts[m].log_prior(x) if moved is None else moved.log_density(x)
            result[rows] = log_share[m] + inner
        return result

    def arrays(self) -> dict[str, FloatArray]:
        """Every number that draws and densities depend on."""
        found = {"shares": self.shares}
        for m, moved in enumerate(self.components):
            if moved is not None:
                found |= {f"{m}:centres": moved.centres, f"{m}:weights": moved.weights}
                if moved.components is not None:
                    found |= {f"{m}:{name}": array for name, array in moved.components.arrays().items()}
        return found

    def is_made_of(self, arrays: Mapping[str, FloatArray]) -> bool:
        """Whether its numbers are the given ones, to the last bit."""
        return all(np.array_equal(array, arrays[name]) for name, array in self.arrays().items())

    def restored(self, arrays: Mapping[str, FloatArray]) -> Perturbed:
        """This proposal with recorded numbers in place of its own."""
        other = copy(self)
        other.shares = arrays["shares"]
        other.components = list(self.components)
        for m, moved in enumerate(self.components):
            if moved is None:
                continue
            kernels = moved.components
            if kernels is not None:
                kernels = kernels.restored({name: arrays[f"{m}:{name}"] for name in kernels.arrays()})
            weights = arrays[f"{m}:weights"]
            other.components[m] = _Moved(moved.part, arrays[f"{m}:centres"], weights, kernels, moved.jump)
        return other

    def own_share(self, size: int) -> tuple[FloatArray, FloatArray]:
        """For each of ``size`` particles of the last round: log of its own kernel's part of q there, and its weight."""
        log_part, weight = np.full(size, -np.inf), np.zeros(size)
        for m, moved in enumerate(self.components):
            if moved is not None:
                rows = self.centre_rows[m]  # resampled centres may be there several times
                np.logaddexp.at(log_part, rows, np.log(self.shares[m]) + moved.log_own())
                np.add.at(weight, rows, moved.weights)
        return log_part, weight
