"""The proposals of chains: a random walk whose covariance is learned, or a new draw from the prior.

Within a model, x′ = x + L n with n standard normal and L Lᵀ = (2.38²/d) Σ, Σ the covariance of the chains' states
(Haario, Saksman & Tamminen 2001; the factor is of Roberts, Gelman & Gilks 1997), in coordinates in which the prior is
standard normal. All chains learn one Σ, by stochastic approximation with the steps r^−0.6 of round r:

    μ ← μ + γ (x̄ − μ),     Σ ← Σ + γ (mean of (x − μ)(x − μ)ᵀ − Σ).

With a probability ``jump``, and always on a finite space, model and parameters are drawn again from the prior. Both
proposals leave the prior in detailed balance: the walk by its density in the acceptance ratio, the draw without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray
from fbar.question.space import Particles, Space

FALL = 0.6
"""γ = r^−FALL."""

OPTIMAL = 2.38
"""The step of the walk in standard deviations, for a normal posterior in many dimensions; divided by √d."""

LEAST_VARIANCE = 1e-12
"""Of a coordinate, in units of the prior's."""


@dataclass(frozen=True, eq=False)
class Step:
    """Where chains propose to go. ``walked`` is where the prior's density matters for acceptance."""

    particles: Particles
    walked: BoolArray


class Walk:
    """Proposals of all chains, and what they learn from."""

    def __init__(self, space: Space, jump: float) -> None:
        self._space, self._jump = space, jump
        self._walks = [not part.discrete.any() for part in space.parts]
        self._mean = [np.zeros(d) for d in space.dimensions]
        self._covariance = [np.eye(d) for d in space.dimensions]
        self.factor: list[FloatArray] = [np.eye(d) for d in space.dimensions]
        """L of every model."""
        self._rounds = 0
        self._seen = np.zeros(len(space.parts))

    def propose(self, rng: np.random.Generator, current: Particles) -> Step:
        size = len(current)
        noise = rng.standard_normal((size, self._space.dimension))
        x = current.x.copy()
        walked = np.ones(size, dtype=bool)
        for m, rows in self._space.split(current):
            walked[rows] = self._walks[m]
            if self._walks[m]:  # column by column: the same on every processor
                for j, column in enumerate(self.factor[m].T):
                    x[rows, : column.size] += noise[rows, j : j + 1] * column
        if self._jump > 0:
            walked &= rng.random(size) >= self._jump
        if walked.all():
            return Step(Particles(current.model, x), walked)
        drawn = self._space.draw(rng, size)
        model = np.where(walked, current.model, drawn.model)
        return Step(Particles(model, np.where(walked[:, None], x, drawn.x)), walked)

    def begin(self, states: Particles) -> None:
        """Take the covariance of the chains' first states."""
        for m, x in self._of_models(states):
            self._mean[m] = x.mean(axis=0)
            if len(x) > 1:  # a single state has no covariance: that of the prior stands in for it
                away = x - self._mean[m]
                self._covariance[m] = away.T @ away / (len(x) - 1)
            self._seen[m] = len(x)
        self._fit()

    def learn(self, states: Particles) -> None:
        """Learn from the chains' states after a round."""
        self._rounds += 1
        step = (self._rounds + 1.0) ** -FALL
        for m, x in self._of_models(states):
            share = step * min(1.0, len(x) / 4)  # a model with few of the chains learns slowly
            self._mean[m] += share * (x.mean(axis=0) - self._mean[m])
            away = x - self._mean[m]
            self._covariance[m] += share * (away.T @ away / len(x) - self._covariance[m])
            self._seen[m] += len(x)
        self._fit()

    def _of_models(self, states: Particles) -> list[tuple[int, FloatArray]]:
        """The coordinates of the states of each model that walks."""
        found = [(m, states.x[rows, : self._space.dimensions[m]]) for m, rows in self._space.split(states)]
        return [(m, x) for m, x in found if self._walks[m] and x.shape[1]]

    def _fit(self) -> None:
        for m, covariance in enumerate(self._covariance):
            d = len(covariance)
            if not (self._walks[m] and d):
                continue
            variance = np.maximum(np.diagonal(covariance), LEAST_VARIANCE)
            shrunk = d / (d + self._seen[m])  # towards independent coordinates, while little was seen
            fitted = (1 - shrunk) * covariance
            np.fill_diagonal(fitted, variance)
            try:
                self.factor[m] = OPTIMAL / math.sqrt(d) * np.linalg.cholesky(fitted)
            except np.linalg.LinAlgError:
                self.factor[m] = OPTIMAL / math.sqrt(d) * np.diag(np.sqrt(variance))

    # ------------------------------------------------------------ records

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What the next proposals depend on."""
        return {f"walk:{m}": factor for m, factor in enumerate(self.factor)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.factor = [np.asarray(state[f"walk:{m}"]) for m in range(len(self.factor))]
