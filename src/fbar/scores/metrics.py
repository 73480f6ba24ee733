"""Integral probability metrics: the largest error over a class of functions f (section 1.2.1, e:IPM).

sup |E_p̂[f] − E_p[f]| over |f| ≤ ½ (total variation), over f with Lipschitz constant 1 (Wasserstein), over indicators
θ ≤ c (Kolmogorov), over the unit ball of a Gaussian kernel's space (maximum mean discrepancy). The paper takes |f| ≤ 1
for the total variation, which is twice ½ ∫|p̂ − p|, the φ-divergence that it also calls by that name; here it is
½ ∫|p̂ − p|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import positive_integer, positive_number
from fbar.errors import InputError
from fbar.scores.approximation import Approximation
from fbar.scores.arrays import (
    PAIRS,
    distributions,
    is_finite,
    marginals,
    merged,
    probabilities,
    samples,
    true_probabilities,
    true_samples,
    true_scale,
    two_samples,
)
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.scores.density import log_ratio

MOST_ASSIGNED = 2000
MOST_FLOWS = 250_000
"""Points of an exact assignment, and pairs of points of an exact transport; beyond them it is refused."""


def total_variation(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """½ Σ |p̂ − p| over a finite space, shape (..., k).

    >>> float(total_variation([0.5, 0.5], [0.75, 0.25]))
    0.25
    """
    a, b = distributions(p_hat, p)
    return np.asarray(np.abs(a - b).sum(axis=-1) / 2)


def wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    """Exact W1 between two weighted samples: by sorting in one dimension, by optimal transport in more where small.

    >>> wasserstein([0.0, 1.0], [2.0, 3.0])
    2.0
    """
    a, v, b, w = two_samples(x, y, x_weights, y_weights)
    if a.shape[1] == 1:
        from scipy.stats import wasserstein_distance

        return float(wasserstein_distance(a[:, 0], b[:, 0], v, w))
    n, m = len(a), len(b)
    equal = n == m and np.ptp(v) <= 1e-12 / n and np.ptp(w) <= 1e-12 / n
    if not (equal and n <= MOST_ASSIGNED) and n * m > MOST_FLOWS:
        raise InputError(
            f"exact W1 in {a.shape[1]} dimensions takes at most {MOST_ASSIGNED} points of equal weight a side, or "
            f"{MOST_FLOWS} pairs; got {n} and {m} points: use sliced-wasserstein"
        )
    if equal:
        from scipy.optimize import linear_sum_assignment
        from scipy.spatial.distance import cdist

        cost = cdist(a, b)
        return float(cost[linear_sum_assignment(cost)].mean())
    from scipy.stats import wasserstein_distance_nd

    return float(wasserstein_distance_nd(a, b, v, w))


def sliced_wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    directions: FloatArray,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    """The mean of W1 over projections on the rows of ``directions`` (L, d)."""
    a, v, b, w = two_samples(x, y, x_weights, y_weights)
    return float(np.mean([wasserstein(a @ u, b @ u, v, w) for u in directions]))


def kolmogorov(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    """sup |F̂ − F| of two weighted samples in one dimension.

    >>> kolmogorov([1, 2], [2, 3])
    0.5
    """
    a, v, b, w = two_samples(x, y, x_weights, y_weights)
    if a.shape[1] != 1:
        raise InputError(f"the Kolmogorov distance is defined in one dimension; got samples of {a.shape[1]}")
    at, where = np.unique(np.concatenate([a[:, 0], b[:, 0]]), return_inverse=True)
    jumps = np.bincount(where, np.concatenate([v, -w]), minlength=at.size)
    return float(min(np.abs(np.cumsum(jumps)).max(), 1.0))


def median_distance(y: FloatArray) -> float:
    """The median distance between distinct points: the usual length of a Gaussian kernel (Gretton et al. 2012)."""
    from scipy.spatial.distance import pdist

    found = pdist(y)
    found = found[found > 0]
    if found.size == 0:
        raise InputError("the kernel's length is the median distance of the true samples, which are all equal")
    return float(np.median(found))


def kernel_mean(x: FloatArray, v: FloatArray, y: FloatArray, w: FloatArray, length: float) -> float:
    """Σ_ij v_i w_j exp(−|x_i − y_j|²/2ℓ²), in blocks: memory is linear in the number of points."""
    x, y = x / length, y / length
    centre = w @ y  # differences of squares lose digits far from the origin
    x, y = x - centre, y - centre
    half_y = (y**2).sum(axis=1) / 2
    rows, total = max(1, PAIRS // len(y)), 0.0
    for start in range(0, len(x), rows):
        part = x[start : start + rows]
        exponent = part @ y.T
        exponent -= half_y
        exponent -= (part**2).sum(axis=1)[:, None] / 2
        np.minimum(exponent, 0.0, out=exponent)
        total += float(v[start : start + rows] @ (np.exp(exponent, out=exponent) @ w))
    return total


def _within(x: FloatArray, w: FloatArray, length: float, exact: bool) -> float:
    """E k(X, X′): exactly for a distribution, without i = j for a sample."""
    whole = kernel_mean(x, w, x, w, length)
    if exact:
        return whole
    own = float((w**2).sum())
    if own > 1 - 1e-12:
        raise InputError("an unbiased MMD needs at least 2 distinct points on each side")
    return (whole - own) / (1 - own)


def mmd2(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    length: float,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    *,
    exact: bool = False,
    true_part: float | None = None,
) -> float:
    """MMD² = E k(X,X′) − 2 E k(X,Y) + E k(Y,Y′) with a Gaussian kernel of standard deviation ``length``.

    Of samples: Σ_{i≠j} w_i w_j k/(1 − Σw²), unbiased for independent points whose weights do not depend on where they
    lie, and so negative at times. ``exact`` takes the weighted points for the distributions themselves. ``true_part``
    is E k(Y,Y′), where it is known already.
    """
    positive_number(length, "length")
    a, v, b, w = two_samples(x, y, x_weights, y_weights)
    a, v = merged(a, v)
    b, w = (b, w) if true_part is not None else merged(b, w)
    own = _within(b, w, length, exact) if true_part is None else true_part
    return _within(a, v, length, exact) - 2 * kernel_mean(a, v, b, w, length) + own


# ---------------------------------------------------------------- scores


@register
@dataclass(frozen=True)
class TotalVariation(Score):
    """½ ∫|p̂ − p|: exactly on a finite space, elsewhere E_p[(1 − p̂/p)⁺] over draws from the truth."""

    name: ClassVar[str] = "tv"
    title: ClassVar[str] = "total variation"
    formula: ClassVar[str] = "½ ∫ |p̂ − p| (half of the sup over |f| ≤ 1)"
    range: ClassVar[str] = "[0, 1]"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "density"
    blind_spot: ClassVar[str] = (
        "too strict: 1 for any finite sample of a continuous posterior, however many points; a density estimate makes "
        "it less, and the number then depends on that estimate and its bandwidth"
    )

    bandwidth: str = "scott"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if is_finite(scene):
            return {"": float(total_variation(probabilities(approximation, scene), true_probabilities(scene)))}
        ratio = np.exp(np.minimum(log_ratio(approximation, scene, self.bandwidth), 0.0))
        return {"": float((1 - ratio).mean())}


@register
@dataclass(frozen=True)
class Wasserstein(Score):
    """W1 of every marginal, exact for the weighted points; the truth is a sample of ``scene.truth_size`` draws."""

    name: ClassVar[str] = "wasserstein"
    title: ClassVar[str] = "Wasserstein distance W1 of each marginal"
    formula: ClassVar[str] = "∫ |F̂ − F| dθ_j"
    range: ClassVar[str] = "[0, ∞), in the parameter's units"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = "dependence between parameters; which function of θ is wrong, and by how much"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        return {name: wasserstein(x, y, w, v) for name, x, w, y, v in marginals(approximation, scene)}


@register
@dataclass(frozen=True)
class JointWasserstein(Score):
    """W1 of the joint distribution, parameters in units of their true standard deviations; exact, where small.

    Against as many true draws as there are distinct points (all values, on a finite space).
    """

    name: ClassVar[str] = "wasserstein-joint"
    title: ClassVar[str] = "Wasserstein distance W1 of all parameters together, scaled by the truth"
    formula: ClassVar[str] = "min E‖θ̂ − θ‖ over joint distributions of θ̂ ~ p̂ and θ ~ p"
    range: ClassVar[str] = "[0, ∞), in posterior standard deviations"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = (
        "too strict: N exact draws in D dimensions are N^(−1/D) away, while any one expectation errs by N^(−1/2)"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        x, w = samples(approximation, scene)
        y, v = true_samples(scene)
        scale = true_scale(scene)
        if not is_finite(scene):
            if len(x) > len(y):
                raise InputError(f"there are {len(x)} points and {len(y)} true draws; raise the scene's truth_size")
            y, v = y[: len(x)], np.full(len(x), 1 / len(x))
        return {"": wasserstein(x / scale, y / scale, w, v)}


@register
@dataclass(frozen=True)
class SlicedWasserstein(Score):
    """The mean W1 over random directions, the same for every trial, in units of true standard deviations."""

    name: ClassVar[str] = "sliced-wasserstein"
    title: ClassVar[str] = "mean Wasserstein distance over fixed random projections, scaled by the truth"
    formula: ClassVar[str] = "mean of W1(u·θ̂, u·θ) over directions u"
    range: ClassVar[str] = "[0, ∞), in posterior standard deviations"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = "an error in one direction of many is averaged away with the others"

    projections: int = 100

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        x, w = samples(approximation, scene)
        y, v = true_samples(scene)
        u = scene.rng(11).standard_normal((positive_integer(self.projections, "projections"), x.shape[1]))
        u /= np.sqrt((u**2).sum(axis=1, keepdims=True))
        return {"": sliced_wasserstein(x, y, u / true_scale(scene), w, v)}


@register
@dataclass(frozen=True)
class MaximumMeanDiscrepancy(Score):
    """Unbiased MMD² with a Gaussian kernel, in units of true standard deviations; exact on a finite space.

    The kernel's length is the median distance of ``median_of`` true draws (of the values, on a finite space) unless it
    is given.
    """

    name: ClassVar[str] = "mmd"
    title: ClassVar[str] = "squared maximum mean discrepancy, Gaussian kernel of the truth's median distance"
    formula: ClassVar[str] = "E k(θ̂,θ̂′) − 2 E k(θ̂,θ) + E k(θ,θ′), k = exp(−‖·‖²/2ℓ²)"
    range: ClassVar[str] = "[0, 2]; its unbiased estimate can be negative"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = (
        "what the kernel's length does not resolve; in many dimensions a large error of one parameter is small in it"
    )

    length: float | None = None
    median_of: int = 1000

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        x, w = samples(approximation, scene)
        scale, exact = true_scale(scene), is_finite(scene)
        key = ("mmd", self.length, self.median_of)
        if key not in scene.remembered:
            y, v = merged(*true_samples(scene))
            length = median_distance(y[: self.median_of] / scale) if self.length is None else self.length
            scene.remembered[key] = y, v, length, _within(y / scale, v, positive_number(length, "length"), exact)
        y, v, length, own = scene.remembered[key]
        return {"": mmd2(x / scale, y / scale, length, w, v, exact=exact, true_part=own)}


@register
@dataclass(frozen=True)
class Kolmogorov(Score):
    """sup |F̂ − F| of every marginal, weighted; the truth is a sample, whose own distance is about 0.9/√(its size)."""

    name: ClassVar[str] = "kolmogorov"
    title: ClassVar[str] = "Kolmogorov distance of each marginal"
    formula: ClassVar[str] = "sup_c |P̂(θ_j ≤ c) − P(θ_j ≤ c)|"
    range: ClassVar[str] = "[0, 1]"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = "dependence between parameters; tails, where both functions are near 0 or 1"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        return {name: kolmogorov(x, y, w, v) for name, x, w, y, v in marginals(approximation, scene)}
