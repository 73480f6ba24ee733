"""The truth of ABC at a tolerance by brute force: many simulations from the prior, and more from where it accepts.

For problems without a formula for it. Nothing of the methods that are scored against these truths is used:

1. *Plain*: θ from the prior, accepted within the tolerance; every accepted draw counts the same.
2. *Aimed*: in z = Φ⁻¹(u), u the prior's unit coordinates, where the prior is N(0, I), draws come from
   q = δ N(0, I) + (1 − δ) k, with k a kernel density of the plain stage's first accepted draws, wider than they are.
   An accepted draw weighs p/q = 1 / (δ + (1 − δ) k/φ) ≤ 1/δ: however badly k fits, the weights are bounded and the
   average Σ w f / Σ w with its error √(Σ w² (f − f̄)²) / Σ w holds (a defensive mixture, Hesterberg 1995), once enough
   draws have large weights: an error that fewer than 200 draws carry, (Σ v)²/Σ v² with v = w² (f − f̄)², is refused.

The two must agree, moment by moment, and are then put together by their inverse variances: given its kernels the aimed
average is centred on the truth whatever the plain draws were, so that their errors are uncorrelated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.question.problem import Problem
from fbar.question.truth import Known, Truth

DEFENSIVE = 0.2
"""The part of the aimed draws that come from the prior itself."""
CENTRES = 1000
"""Accepted draws that carry the kernel density."""
AT_ONCE = 50_000
CARRIED = 200
"""Draws that must carry an error at least: it is then known to about 7%."""
MOST_Z = 4.5
"""The aimed value may differ from the plain one by so many standard errors: by chance in 7 of a million moments."""


@dataclass(frozen=True)
class Effort:
    """Simulations from the prior, for all tolerances at once, and from where each tolerance accepts (0: none)."""

    plain: int
    aimed: tuple[int, ...]


EFFORTS = {
    "slcp": Effort(50_000_000, (0, 0)),
    "slcp-distractors": Effort(12_000_000, (0, 0)),
    "bernoulli-glm": Effort(5_000_000, (2_000_000, 4_000_000)),
    "bernoulli-glm-raw": Effort(5_000_000, (2_000_000, 4_000_000)),
    "sir": Effort(1_000_000, (1_000_000, 3_000_000)),
    "lotka-volterra": Effort(400_000, (600_000, 1_500_000)),
    "g-and-k": Effort(12_000_000, (0, 0)),
    "ma2": Effort(15_000_000, (0, 0)),
    "mg1": Effort(30_000_000, (0, 0)),
}
"""Some hundred times the simulations of a run that is compared with the truth, so that the truth's error is a tenth of
the run's. Kernels gain little, at most a factor of two, where noise decides what is accepted or four modes spread it:
there the prior does it alone."""


class Kernels:
    """A Gaussian kernel density of points z (n, d), twice as wide as Silverman's rule."""

    def __init__(self, z: FloatArray) -> None:
        n, d = z.shape
        width = 4 * (4 / ((d + 2) * n)) ** (2 / (d + 4))
        scale = np.linalg.cholesky(np.atleast_2d(np.cov(z.T)) * width + 1e-12 * np.eye(d))
        self.centres, self.scale = z, scale
        self._inverse = np.linalg.inv(scale)
        self._at = z @ self._inverse.T
        self._constant = -np.log(np.diag(scale)).sum() - math.log(n)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        centres = self.centres[rng.integers(len(self.centres), size=size)]
        return np.asarray(centres + rng.standard_normal(centres.shape) @ self.scale.T)

    def log_ratio(self, z: FloatArray) -> FloatArray:
        """log k(z)/φ(z)."""
        at = z @ self._inverse.T
        square = (at**2).sum(axis=1)[:, None] + (self._at**2).sum(axis=1) - 2 * at @ self._at.T
        found = logsumexp(-0.5 * square, axis=1) + self._constant + 0.5 * (z**2).sum(axis=1)
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Accepted:
    """Accepted draws: their parameters by name, z, distances to the data, and weights p/q."""

    columns: dict[str, FloatArray]
    z: FloatArray
    distance: FloatArray
    weights: FloatArray
    simulations: int

    def within(self, tolerance: float) -> Accepted:
        keep = self.distance <= tolerance
        columns = {name: column[keep] for name, column in self.columns.items()}
        return Accepted(columns, self.z[keep], self.distance[keep], self.weights[keep], self.simulations)

    def moments(self) -> list[Known]:
        """The mean and the second moment of every parameter, each with its error and its spread."""
        w, total = self.weights, self.weights.sum()
        found = []
        for name, column in self.columns.items():
            for kind, f in (("mean", column), ("second_moment", column**2)):
                value = float(w @ f / total)
                error = math.sqrt(float(w**2 @ (f - value) ** 2)) / total
                spread = math.sqrt(float(w @ (f - value) ** 2) / total)
                found.append(Known(f"{kind}:{name}", value, float(error), spread))
        return found

    def carriers(self) -> float:
        """How many draws carry the error of the moment that the fewest carry."""
        least = math.inf
        for column in self.columns.values():
            for f in (column, column**2):
                v = self.weights**2 * (f - self.weights @ f / self.weights.sum()) ** 2
                least = min(least, float(v.sum() ** 2 / (v @ v)))
        return least


def simulated(
    problem: Problem, tolerance: float, size: int, seed: Sequence[int], kernels: Kernels | None = None
) -> Accepted:
    """Simulate from the prior, or from q with ``kernels``, and keep what comes within the tolerance."""
    prior, simulator = problem.prior, problem.simulator
    parts: list[tuple[dict[str, FloatArray], FloatArray, FloatArray, FloatArray]] = []
    for block, start in enumerate(range(0, size, AT_ONCE)):
        rng = np.random.default_rng([*seed, block])
        count = min(AT_ONCE, size - start)
        z = rng.standard_normal((count, prior.dimension))
        if kernels is not None:
            aimed = rng.random(count) >= DEFENSIVE
            z[aimed] = kernels.sample(int(aimed.sum()), rng)
        theta = prior.from_unit(ndtr(z)).with_derived(problem.derived)
        distance, _ = problem.distances(problem.outcomes(simulator.output(theta, rng), count))
        near = np.flatnonzero(distance <= tolerance)  # never NaN, the distance of a failed simulation
        at = z[near]
        weights = np.ones(near.size)
        if kernels is not None:
            weights = 1 / (DEFENSIVE + (1 - DEFENSIVE) * np.exp(kernels.log_ratio(at)))
        parts.append(({name: theta[name][near] for name in prior.names}, at, distance[near], weights))
    columns = {name: np.concatenate([part[0][name] for part in parts]) for name in prior.names}
    z, distance, weights = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return Accepted(columns, z, distance, weights, size)


def truths_at(
    problem: Problem,
    tolerances: Sequence[float],
    effort: Effort,
    seed: int,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[float, Truth]:
    """The truth of ABC at each tolerance; an error if the aimed stage and the plain one do not agree."""
    plain = simulated(problem, max(tolerances), effort.plain, [seed, 1])
    found = {}
    for index, tolerance in enumerate(tolerances):
        first = plain.within(tolerance)
        known, rows = first.moments(), first.weights.size
        how = f"brute force: {rows:,} accepted of {effort.plain:,} simulations from the prior"
        aimed = effort.aimed[index]
        if aimed:
            second = simulated(problem, tolerance, aimed, [seed, 2 + index], Kernels(first.z[:CENTRES]))
            other = second.moments()
            if second.carriers() < CARRIED:
                raise InputError(f"{second.carriers():.0f} draws carry the error at tolerance {tolerance:g}; too few")
            scores = [
                (a.value - b.value) / math.hypot(a.standard_error, b.standard_error)
                for a, b in zip(other, known, strict=True)
            ]
            worst = max(abs(z) for z in scores)
            if worst > MOST_Z:
                name = known[int(np.argmax(np.abs(scores)))].name
                raise InputError(f"plain and aimed simulations differ by {worst:.1f} standard errors in {name}")
            known = [pooled(a, b) for a, b in zip(known, other, strict=True)]
            how += f" and {second.weights.size:,} of {aimed:,} from a defensive mixture about accepted draws"
            tell(
                f"  largest |z| between the stages: {worst:.2f} of {len(known)}; "
                f"an error is carried by {second.carriers():.0f} draws at least"
            )
        tell(f"  tolerance {tolerance:g}: errors at most {_rough(known):.4f} deviations; {how}")
        found[tolerance] = Truth(known, how)
    return found


def pooled(a: Known, b: Known) -> Known:
    """Two values with uncorrelated errors as one, by their inverse variances."""
    weight = b.standard_error**2 / (a.standard_error**2 + b.standard_error**2)
    both = [weight * x + (1 - weight) * y for x, y in ((a.value, b.value), (a.deviation, b.deviation))]
    error = a.standard_error * math.sqrt(weight)
    return Known(a.name, both[0], error, both[1])


def _rough(known: Sequence[Known]) -> float:
    """The largest error in units of the posterior's deviation."""
    return max(item.standard_error / item.deviation for item in known)
