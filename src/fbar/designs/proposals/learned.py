"""A proposal for each model, mixed with the prior: what a targeted run draws from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals.student import StudentMixture
from fbar.question.space import Particles, Space


@dataclass(frozen=True, eq=False)
class Table:
    """Probabilities of the values of a model whose parameters are finitely many."""

    probabilities: FloatArray

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.from_unit(rng.random((size, 1)))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        border = np.cumsum(self.probabilities)[:-1]
        return np.searchsorted(border, unit[:, 0], side="right").astype(np.float64)[:, None]

    unit_dimension = 1

    def log_density(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities)[x[:, 0].astype(np.int64)])

    def arrays(self) -> dict[str, FloatArray]:
        return {"probabilities": self.probabilities}


Part = StudentMixture | Table | None
"""None stands for the model's prior."""


@dataclass(frozen=True, eq=False)
class Learned:
    """(1 − δ) Σ_m s_m q_m + δ p: a share s_m and a proposal q_m for each model, and the prior p as a defence.

    With the prior mixed in, no weight p/q is larger than 1/δ, whatever the fit missed.
    """

    space: Space
    shares: FloatArray
    parts: tuple[Part, ...]
    defence: float

    def draw(self, rng: np.random.Generator, size: int) -> Particles:
        defensive = rng.random(size) < self.defence
        model = np.where(
            defensive,
            self.space.draw_models(self.space.shares, rng, size),
            self.space.draw_models(self.shares, rng, size),
        )

        def inner(m: int, rows: IntArray) -> FloatArray:
            from_prior = defensive if len(self.parts) == 1 else defensive[rows]
            part, prior = self.parts[m], self.space.parts[m]
            if part is None:
                return prior.draw(rng, len(from_prior))
            x = np.empty((len(from_prior), self.space.dimensions[m]))
            x[from_prior] = prior.draw(rng, int(from_prior.sum()))
            x[~from_prior] = part.draw(rng, int((~from_prior).sum()))
            return x

        return self.space.assemble(model, inner)

    def log_density(self, particles: Particles) -> FloatArray:
        result = np.empty(len(particles))
        with np.errstate(divide="ignore"):
            log_share, log_prior_share = np.log(self.shares), np.log(self.space.shares)
            keep, defend = np.log1p(-self.defence), np.log(self.defence)
        for m, rows in self.space.split(particles):
            x = particles.x[rows, : self.space.dimensions[m]]
            prior = self.space.parts[m].log_prior(x)
            part = self.parts[m]
            learned = prior if part is None else part.log_density(x)
            result[rows] = np.logaddexp(keep + log_share[m] + learned, defend + log_prior_share[m] + prior)
        return result

    # ------------------------------------------------------------ points of the unit cube

    @property
    def unit_dimension(self) -> int:
        """One coordinate chooses between prior and models, the others are those of the widest part."""
        widths = [
            d if part is None else max(d, part.unit_dimension)
            for d, part in zip(self.space.dimensions, self.parts, strict=True)
        ]
        return 1 + max(1, *widths)

    def from_unit(self, unit: FloatArray) -> Particles:
        border = np.cumsum(np.concatenate([self.defence * self.space.shares, (1 - self.defence) * self.shares]))
        which = np.searchsorted(border[:-1], unit[:, 0], side="right")
        models = len(self.parts)
        model, defensive = which % models, which < models

        def inner(m: int, rows: IntArray) -> FloatArray:
            at = np.arange(len(unit)) if models == 1 else rows
            x = np.empty((len(at), self.space.dimensions[m]))
            part, d = self.parts[m], self.space.dimensions[m]
            from_prior = defensive[at] | (part is None)
            if from_prior.any():
                x[from_prior] = self.space.parts[m].from_unit(unit[at[from_prior], 1 : 1 + d])
            if part is not None and not from_prior.all():
                x[~from_prior] = part.from_unit(unit[at[~from_prior], 1 : 1 + part.unit_dimension])
            return x

        return self.space.assemble(model.astype(np.int64), inner)

    # ------------------------------------------------------------ records

    def arrays(self) -> dict[str, FloatArray]:
        """Every number that draws and densities depend on."""
        found = {"shares": self.shares}
        for m, part in enumerate(self.parts):
            if part is not None:
                found |= {f"{m}:{name}": array for name, array in part.arrays().items()}
        return found

    @staticmethod
    def of(arrays: Mapping[str, Any], space: Space, defence: float) -> Learned:
        """From recorded numbers."""
        parts: list[Part] = []
        for m in range(len(space.parts)):
            given = {name.partition(":")[2]: array for name, array in arrays.items() if name.startswith(f"{m}:")}
            if "probabilities" in given:
                parts.append(Table(given["probabilities"]))
            else:
                parts.append(StudentMixture.of(given) if given else None)
        return Learned(space, arrays["shares"], tuple(parts), defence)
