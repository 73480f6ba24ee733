"""Posteriors as images of the unit cube: any expectation by randomised quasi-Monte Carlo, and draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.stats import qmc

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets import Target
from fbar.question.truth import Known, Nodes, Reference, Truth

LEAST = 200.0
"""Effective points of a replicate, below which its weights cannot be trusted."""

MOST = 3e-3
"""Standard deviations of the posterior, above which an error is too large for a truth."""


def named(names: Sequence[str], theta: FloatArray) -> Points:
    return Points({name: theta[:, i] for i, name in enumerate(names)})


def columns(names: Sequence[str], points: Points) -> FloatArray:
    return np.column_stack([np.asarray(points[name], dtype=np.float64) for name in names])


def scrambles(dimension: int, log2_size: int, replicates: int, seed: int) -> list[FloatArray]:
    """Independently scrambled Sobol points, strictly inside the cube."""
    result = []
    for i in range(replicates):
        sobol = qmc.Sobol(dimension, scramble=True, bits=52, rng=np.random.default_rng([seed, i]))
        result.append(np.clip(sobol.random_base2(log2_size), 2.0**-53, 1 - 2.0**-53))
    return result


def moment_truth(names: Sequence[str], parts: Sequence[tuple[FloatArray, FloatArray]], how: str) -> Truth:
    """Means and second moments from replicates (θ, log w) of equal size; errors by the jackknife over replicates."""
    top = max(float(log_w.max()) for _, log_w in parts)
    weights = [np.exp(log_w - top) for _, log_w in parts]
    effective = sum(w.sum() for w in weights) ** 2 / sum((w**2).sum() for w in weights)
    if not effective > LEAST:
        raise InputError(
            f"the truth for these data cannot be computed: only {effective:.0f} effective points carry the weight"
        )
    mass = np.array([w.sum() for w in weights])
    sums = np.array([[w @ theta, w @ theta**2] for (theta, _), w in zip(parts, weights, strict=True)])
    size, value = len(parts), sums.sum(axis=0) / mass.sum()
    without = (sums.sum(axis=0) - sums) / (mass.sum() - mass)[:, None, None]
    error = np.sqrt((size - 1) / size * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    spread = sum(
        np.stack([w @ (theta - value[0]) ** 2, w @ (theta**2 - value[1]) ** 2])
        for (theta, _), w in zip(parts, weights, strict=True)
    )
    deviation = np.sqrt(spread / mass.sum())
    if not (error <= MOST * deviation).all():
        raise InputError(
            f"the truth for these data cannot be computed: its error is {(error / deviation).max():.2g} deviations"
        )
    return listed(names, value, deviation, error, how)


def listed(names: Sequence[str], value: FloatArray, deviation: FloatArray, error: FloatArray | None, how: str) -> Truth:
    """A truth from the rows E θ and E θ², with the deviations of θ and θ² and the errors of the two values."""
    known = []
    for i, name in enumerate(names):
        for k, kind in enumerate(("mean", "second_moment")):
            e = 0.0 if error is None else float(error[k, i])
            known.append(Known(f"{kind}:{name}", float(value[k, i]), e, float(deviation[k, i])))
    return Truth(known, how)


class Transported(Reference):
    """A posterior that is drawn from, or nearly, by a map of the unit cube; weights mend the difference.

    Targets that `truth` does not list are computed from 16 scrambles of 2¹³ Sobol points; draws are fresh ones.
    """

    names: tuple[str, ...]
    dimension: int

    @abstractmethod
    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """θ (n, d) for points of the cube, and the log weights of target over proposal (any constant)."""

    @cached_property
    def _parts(self) -> list[tuple[FloatArray, FloatArray]]:
        return [self.transport(unit) for unit in scrambles(self.dimension, 13, 16, seed=7)]

    @cached_property
    def _top(self) -> float:
        return max(float(log_w.max()) for _, log_w in self._parts)

    @cached_property
    def nodes(self) -> Nodes:
        how = f"{self.how}; by 16 scrambles of 2^13 Sobol points"
        return Nodes([(named(self.names, theta), np.exp(log_w - self._top)) for theta, log_w in self._parts], how)

    def expect(self, target: Target) -> tuple[FloatArray, FloatArray]:
        known = self.truth()
        if target.name in known:
            item = known[target.name]
            return np.array([item.value]), np.array([item.standard_error])
        return self.nodes.expect(target)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """Draws by rejection; the bound of the weights is the largest of the 2¹⁷ Sobol points'."""
        found: list[FloatArray] = []
        missing = size
        for _ in range(1000):
            theta, log_w = self.transport(rng.random((max(2 * missing, 1024), self.dimension)).clip(2.0**-53))
            kept = theta[np.log(1 - rng.random(len(theta))) <= log_w - self._top][:missing]
            found.append(kept)
            missing -= len(kept)
            if missing == 0:
                return named(self.names, np.concatenate(found))
        raise InputError("draws from the true posterior of these data are too rare")
