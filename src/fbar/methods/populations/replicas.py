"""Every simulation of a run of particles with replicas, and the posterior that weights of the particles give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.doubts import none_within
from fbar.estimation.draws import Draws
from fbar.estimation.posterior import Posterior
from fbar.estimation.rounds import Rounds
from fbar.estimation.simulations import Structure
from fbar.methods.populations.lineages import LineageErrors
from fbar.question.outcomes import Seen
from fbar.question.problem import Problem
from fbar.question.space import Space
from fbar.weights import normalised


class Replicas(Rounds):
    """All simulations of a run, M in a row at the same θ."""

    def __init__(self, problem: Problem, space: Space, replicas: int) -> None:
        super().__init__(problem, space)
        self.replicas = replicas

    def structure_of(self, rows: IntArray) -> Structure:
        """The replicas of a θ are a cluster."""
        found = super().structure_of(rows)
        if self.replicas == 1:
            return found
        return replace(found, cluster=rows // self.replicas, stratum_sizes=found.stratum_sizes // self.replicas)

    def rows(self, theta: IntArray) -> IntArray:
        """The simulations of some θ, shape (n, M)."""
        return theta[:, None] * self.replicas + np.arange(self.replicas)

    def distances_at(self, theta: IntArray) -> FloatArray:
        """The distances of the replicas of some θ, shape (n, M)."""
        rows = self.rows(theta)
        return np.asarray(self.everything.distance.take(rows.ravel())).reshape(rows.shape)

    def log_prior_at(self, theta: IntArray) -> FloatArray:
        return np.asarray(self.everything.further["log_prior"].take(theta * self.replicas))

    def weighted(
        self, theta: IntArray, each: FloatArray, tolerance: float, eve: IntArray, first: int, seen: Seen
    ) -> Posterior:
        """The average over the replicas of some θ within a tolerance, a replica of which has the weight ``each``.

        ``eve`` is the number of their first ancestor, of ``first``.
        """
        distance = self.distances_at(theta)
        near = np.isfinite(distance) & (distance <= tolerance)
        if not near.any():
            raise none_within(self.simulations, tolerance, seen)
        which, replica = np.nonzero(near)
        rows = theta[which] * self.replicas + replica
        draws = Draws(
            self.problem,
            self.points(rows),
            np.ones(rows.size),
            np.log(each[which]),
            self.simulations,
            "independent",
            np.array([first]),
            np.zeros(rows.size, dtype=np.int64),
            eve[which],
            seen,
            rows,
            relative=True,
        )
        weights = normalised(draws.log_w)
        errors = LineageErrors(draws, weights, theta[which])
        return Posterior(draws.points, weights, errors, self.simulations, float(rows.size))
