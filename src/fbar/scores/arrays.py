"""Weighted points as arrays: the one entrance of the pure functions under the scores.

A point that appears k times is a point of k times the weight: `merged` makes the two the same, so that no score can
tell repetition from weight. (The effective sample size alone is defined on simulations, not on points, and can.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray, numeric_array
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.priors import Finite
from fbar.question.truth import FiniteReference
from fbar.scores.approximation import Approximation, checked_weights
from fbar.scores.base import Scene

PAIRS = 2**21
"""Values of a kernel between two sets of points that are held in memory at once."""


def weighted(x: npt.ArrayLike, weights: npt.ArrayLike | None = None, name: str = "samples") -> tuple[FloatArray, ...]:
    """Samples (n, d) and their normalised weights (n,), checked; a flat list is one dimension."""
    array = numeric_array(x, name)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise InputError(f"{name} must have shape (n,) or (n, d); got {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite; row {int(np.argmin(np.isfinite(array).all(axis=1)))} is not")
    return array, checked_weights(weights, len(array))


def two_samples(
    x: npt.ArrayLike, y: npt.ArrayLike, x_weights: npt.ArrayLike | None, y_weights: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Two weighted samples of the same space: x, its weights, y, its weights."""
    a, v = weighted(x, x_weights)
    b, w = weighted(y, y_weights, "true samples")
    if a.shape[1] != b.shape[1]:
        raise InputError(f"samples have {a.shape[1]} columns and the true ones {b.shape[1]}; they must be the same")
    return a, v, b, w


def distributions(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two distributions over the same values, shape (..., k); checked, not normalised anew."""
    a, b = numeric_array(p_hat, "probabilities"), numeric_array(p, "true probabilities")
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[-1]:
        raise InputError(f"probabilities have shape {a.shape} and the true ones {b.shape}; the last must agree")
    for given, name in ((a, "probabilities"), (b, "true probabilities")):
        if not (given >= 0).all() or not np.allclose(given.sum(axis=-1), 1.0, atol=1e-8):
            raise InputError(f"{name} must be at least 0 and sum to 1")
    return a, b


def merged(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct points in order of their first appearance, with the sums of their weights; none of weight 0."""
    _, first, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
    total: FloatArray = np.bincount(inverse.reshape(-1), weights, minlength=first.size).astype(np.float64)
    order = np.argsort(first)
    order = order[total[order] > 0]
    return x[first[order]], total[order]


# ---------------------------------------------------------------- of an approximation and of the truth


def columns(points: Points, names: tuple[str, ...]) -> FloatArray:
    """Every parameter as a column of numbers, shape (n, d)."""
    for name in names:
        if name not in points:
            raise InputError(f"the samples lack the parameter {shown(name)}; needed: {', '.join(names)}")
        if points[name].dtype.kind not in "biuf":
            raise InputError(f"this score needs numbers, and the parameter {shown(name)} holds labels")
        if not points.present(name).all():
            raise InputError(f"this score needs every parameter in every model; some lack {shown(name)}")
    return np.column_stack([points[name].astype(np.float64) for name in names])


def samples(approximation: Approximation, scene: Scene) -> tuple[FloatArray, FloatArray]:
    """The approximation's distinct points (n, d) and their weights."""
    points, weights = approximation.sample()
    return merged(*weighted(columns(points, scene.problem.prior.names), weights))


def true_samples(scene: Scene) -> tuple[FloatArray, FloatArray]:
    """The truth as weighted points: exactly on a finite space, draws elsewhere."""
    points, weights = scene.true_points
    return columns(points, scene.problem.prior.names), weights


def true_scale(scene: Scene) -> FloatArray:
    """The standard deviation of each parameter under the truth, by which scores of several parameters are scaled."""
    y, w = true_samples(scene)
    deviation = np.sqrt(w @ (y - w @ y) ** 2)
    return np.asarray(np.where(deviation > 0, deviation, 1.0))


def marginals(
    approximation: Approximation, scene: Scene
) -> Iterator[tuple[str, FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Name, points, weights, true points, their weights: of every parameter that is a number.

    A parameter that some models lack is taken given a model that has it.
    """
    points, weights = approximation.sample()
    truth, true_weights = scene.true_points
    names = [name for name in scene.problem.prior.names if truth[name].dtype.kind in "biuf"]
    if not names:
        raise InputError("this score needs a parameter that is a number; all of this problem's are labels")
    for name in names:
        if name not in points:
            raise InputError(f"the samples lack the parameter {shown(name)}; needed: {', '.join(names)}")
        mine, theirs = points.present(name), truth.present(name)
        if not (weights[mine] > 0).any():
            raise InputError(f"no sample has the parameter {shown(name)}: its model has no weight")
        x, w = merged(*weighted(points[name][mine], weights[mine]))
        y, v = weighted(truth[name][theirs], true_weights[theirs])
        yield name, x[:, 0], w, y[:, 0], v


# ---------------------------------------------------------------- on a finite space


def is_finite(scene: Scene) -> bool:
    return scene.problem.is_finite


def cells(points: Points, prior: Finite) -> IntArray:
    """The row of the prior's value that each point is."""
    rows = {cell: row for row, cell in enumerate(zip(*(prior.points[n].tolist() for n in prior.names), strict=True))}
    keys = zip(*(points[name].tolist() for name in prior.names), strict=True)
    found = np.array([rows.get(key, -1) for key in keys], dtype=np.int64)
    if (found < 0).any():
        raise InputError(f"{points.label(int(np.argmin(found)))} is not a value of the prior")
    return found


def probabilities(approximation: Approximation, scene: Scene) -> FloatArray:
    """p̂(θ_i|x*) at the values of a finite prior."""
    prior = scene.problem.finite
    points, weights = approximation.sample()
    for name in prior.names:
        if name not in points:
            raise InputError(f"the samples lack the parameter {shown(name)}; needed: {', '.join(prior.names)}")
    return np.bincount(cells(points, prior), weights, minlength=prior.size).astype(np.float64)


def true_probabilities(scene: Scene) -> FloatArray:
    """p(θ_i|x*) at the values of a finite prior."""
    reference = scene.problem.reference
    if not isinstance(reference, FiniteReference):
        raise InputError("the true posterior of this problem is not known at the values of its prior")
    return reference.weights
