"""The error of predictions: that of the new simulations, and that of the posterior itself.

A prediction is E[y | x*] = E[g(θ) | x*] with g(θ) = E[y | θ]. New simulations y_i are made at θ_i drawn from the
weighted sample of the posterior. Let φ be some functions of θ: the parameters, their squares and products. The
posterior estimates E[φ | x*] by itself, t = Ê[φ], with the covariance C of its total error. With β the regression of y
on φ over the new simulations,

    m = ȳ + β (t − φ̄) = Σ w_i y_i,   w_i = 1/n + (t − φ̄)ᵀ G⁻¹ (φ_i − φ̄)/n,   G = Σ (φ − φ̄)(φ − φ̄)ᵀ / n,

with weights that are the same for every y (regression weights, as in surveys). So m is the mean of y − βφ, whose error
is that of the simulations, plus β t, whose error is the posterior's, and the two are independent:

    var m ≈ n/(n − p − 1) Σ w_i² r_i²  +  βᵀ C β,        r = y − ȳ − β(φ − φ̄).

For y = θ it is the posterior's own estimate of the mean with its own error. What of g is no linear function of φ is
charged as error of the simulations only.

A quantile is read off Σ w_i 1{y_i ≤ q}, made monotone. The error s of that share at q is found as above, from y' =
1{y ≤ q}; the error of the quantile is its distance to the quantile of level τ − s or τ + s, whichever is larger.

Where new simulations failed, the others are no sample of the posterior: they are described as they are, without t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.errors import FbarError
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.question.targets.expectations import Expectation

EACH = 10
"""New simulations for each function φ, at least."""

NO_VARIANCE = 1e-10
"""Directions of φ with less than this share of the largest variance are left out."""

Features = Callable[[Points], FloatArray]


@dataclass(frozen=True, eq=False)
class PredictedNumbers:
    """Numbers with their standard errors, all in the shape of one simulation's output.

    ``standard_error`` has both parts: ``simulation_error``, which more new simulations reduce, and ``posterior_error``,
    which more simulations of the run reduce.
    """

    value: FloatArray
    simulation_error: FloatArray
    posterior_error: FloatArray

    @property
    def standard_error(self) -> FloatArray:
        return np.asarray(np.hypot(self.simulation_error, self.posterior_error))

    def shaped(self, shape: tuple[int, ...]) -> PredictedNumbers:
        return PredictedNumbers(
            self.value.reshape(shape), self.simulation_error.reshape(shape), self.posterior_error.reshape(shape)
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """Weights (n,) of new simulations, the centred functions φ (n, p) of their θ, and the covariance C (p, p) of Ê[φ].

    ``warnings`` are why the posterior's error is unreliable.
    """

    weights: FloatArray
    functions: FloatArray
    covariance: FloatArray
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, posterior: Posterior, points: Points, names: tuple[str, ...]) -> Calibration:
        """For simulations at points that were drawn from the posterior; ``names`` are the prior's parameters."""
        n = points.rows
        functions = _functions(points, names, n // EACH)
        phi = functions(points)
        nothing = cls(np.full(n, 1 / n), np.zeros((n, 0)), np.zeros((0, 0)))
        if not phi.shape[1] or not posterior.has_errors:
            return nothing
        centre = phi.mean(axis=0)
        variances, directions = np.linalg.eigh((phi - centre).T @ (phi - centre) / n)
        kept = variances > NO_VARIANCE * max(float(variances.max(initial=0.0)), 1e-300)
        turn = directions[:, kept] / np.sqrt(variances[kept])  # G is the identity in these coordinates
        if not kept.any():
            return nothing
        target = Expectation(
            lambda where: (functions(where) - centre) @ turn, "functions of the parameters", vector=True
        )
        try:
            found = posterior.expect([target])
        except FbarError as error:
            return cls(nothing.weights, nothing.functions, nothing.covariance, (f"the posterior's error: {error}",))
        estimate, phi = found[0], (phi - centre) @ turn
        away = np.atleast_1d(np.asarray(estimate.value, dtype=np.float64))
        doubts = () if np.all(estimate.trusted) else estimate.warnings
        return cls(1 / n + phi @ away / n, phi, np.atleast_2d(found.covariance), doubts)

    def of_survivors(self, failed: int) -> Calibration:
        """The same for simulations that are left where others failed: equal weights, and a warning."""
        if not failed:
            return self
        n = self.weights.size
        were = "simulation" if failed == 1 else "simulations"
        text = f"{failed:,} new {were} failed: the numbers are about parameters at which simulations do not fail"
        return replace(self, weights=np.full(n, 1 / n), warnings=(*self.warnings, text))

    def mean(self, y: FloatArray) -> PredictedNumbers:
        """Of y (n, m), with its errors, shapes (m,)."""
        n, p = self.functions.shape
        slopes = self.functions.T @ y / n
        residual = y - y.mean(axis=0) - self.functions @ slopes
        spare = n / max(n - p - 1, 1)
        simulated = np.sqrt(spare * (self.weights**2 @ residual**2))
        variance = np.einsum("im,ij,jm->m", slopes, self.covariance, slopes)
        return PredictedNumbers(self.weights @ y, simulated, np.sqrt(np.maximum(variance, 0.0)))

    def quantile(self, y: FloatArray, level: float) -> PredictedNumbers:
        """The same of a quantile."""
        order = np.argsort(y, axis=0, kind="stable")
        rising = np.take_along_axis(y, order, axis=0)
        share = np.clip(np.maximum.accumulate(np.cumsum(self.weights[order], axis=0), axis=0), 0.0, 1.0)
        value = _inverse(rising, share, np.full(y.shape[1], level))
        errors = self.mean((y <= value).astype(np.float64))
        total = errors.standard_error
        low, high = (_inverse(rising, share, np.clip(level + side * total, 0.0, 1.0)) for side in (-1, 1))
        error, part = np.maximum(high - value, value - low), np.where(total > 0, total, 1.0)
        return PredictedNumbers(value, error * errors.simulation_error / part, error * errors.posterior_error / part)


def _inverse(rising: FloatArray, share: FloatArray, levels: FloatArray) -> FloatArray:
    """The smallest of each column's values whose share reaches the level."""
    at = np.minimum((share < levels - 1e-12).sum(axis=0), len(rising) - 1)
    return np.asarray(rising[at, np.arange(rising.shape[1])])


def _functions(points: Points, names: tuple[str, ...], most: int) -> Features:
    """φ: parameters, as many of their squares and products as ``most`` allows, and indicators of labels and models."""
    numeric = [name for name in names if points[name].dtype.kind in "biuf"]
    labels = [(name, label) for name in names if name not in numeric for label in np.unique(points[name])[1:]]
    centre = {name: _centre(points, name) for name in numeric}
    d = len(numeric)
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    if d + len(pairs) + len(labels) > most:
        pairs = [(i, i) for i in range(d)]
    if 2 * d + len(labels) > most:
        pairs = []
    if d + len(labels) > most:
        return lambda where: np.zeros((where.rows, 0))

    def functions(where: Points) -> FloatArray:
        present = {name: where.present(name) for name in numeric}
        linear = [
            np.where(present[name], (np.asarray(where[name], dtype=np.float64) - middle) / spread, 0.0)
            for name, (middle, spread) in centre.items()
        ]
        found: list[npt.NDArray[np.float64]] = [
            *linear,
            *(linear[i] * linear[j] for i, j in pairs),
            *(np.asarray(where[name] == label, dtype=np.float64) for name, label in labels),
        ]
        return np.stack(found, axis=1) if found else np.zeros((where.rows, 0))

    return functions


def _centre(points: Points, name: str) -> tuple[float, float]:
    values = np.asarray(points[name], dtype=np.float64)[points.present(name)]
    spread = float(values.std()) if values.size else 0.0
    return (float(values.mean()) if values.size else 0.0), spread if spread > 0 else 1.0
