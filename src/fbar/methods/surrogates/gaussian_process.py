"""A Gaussian process for the transformed distance y(θ) in normal coordinates x (Rasmussen & Williams 2006, chapter 2).

y(x) = a quadratic polynomial of x + g(x) + noise N(0, σ²), with g of squared exponential covariance and a length scale
for every coordinate. The polynomial, which Gutmann & Corander (2016) have as the mean, has normal coefficients of large
variance and is part of the covariance, as in Järvenpää et al. (2019). scikit-learn maximises the marginal likelihood
over the hyperparameters; everything else follows from one Cholesky factor.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from fbar.arrays import FloatArray
from fbar.errors import MissingExtra

POLYNOMIAL = 10.0
"""The variance of the polynomial's coefficients, in units of the variance of y."""

AMPLITUDES, LENGTHS, NOISES = (1e-3, 1e2), (0.05, 20.0), (1e-4, 4.0)
"""Bounds of the variance of g and of the noise, in units of the variance of y, and of the length scales."""

SEVERAL_STARTS = 150
"""Simulations up to which the hyperparameters are also looked for from the default ones, each time."""

FITTED_TO = 300
"""Simulations that hyperparameters are fitted to, at most; they are spread evenly over all of them."""


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """``centre`` and ``spread`` of y, by which it is standardised, and the logarithms of those of the covariance."""

    centre: float
    spread: float
    logs: FloatArray

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"centre": np.array(self.centre), "spread": np.array(self.spread), "logs": self.logs}

    @staticmethod
    def of(arrays: Mapping[str, npt.NDArray[Any]]) -> Hyperparameters:
        return Hyperparameters(float(arrays["centre"]), float(arrays["spread"]), np.asarray(arrays["logs"]))


def _covariance(dimension: int) -> Any:
    try:
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
    except ImportError:
        raise MissingExtra("scikit-learn", "learn") from None
    polynomial = ConstantKernel(POLYNOMIAL, "fixed") * DotProduct(1.0, "fixed") ** 2
    smooth = ConstantKernel(1.0, AMPLITUDES) * RBF(np.ones(dimension), LENGTHS)
    return polynomial + smooth + WhiteKernel(0.3, NOISES)


def fitted(x: FloatArray, y: FloatArray, before: Hyperparameters | None = None) -> Hyperparameters:
    """The hyperparameters of largest marginal likelihood, looked for from the default ones and those ``before``."""
    covariance = _covariance(x.shape[1])
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor

    if len(x) > FITTED_TO:
        rows = np.linspace(0, len(x) - 1, FITTED_TO).astype(np.int64)
        x, y = x[rows], y[rows]
    centre, spread = float(y.mean()), float(y.std())
    starts = [] if before is None else [before.logs]
    if not starts or len(x) <= SEVERAL_STARTS:
        starts.append(covariance.theta)
    best, most = covariance.theta, -math.inf
    for start in starts:
        model = GaussianProcessRegressor(covariance.clone_with_theta(start))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound: the coordinate is idle
            model.fit(x, (y - centre) / spread)
        if model.log_marginal_likelihood_value_ > most:
            best, most = model.kernel_.theta, model.log_marginal_likelihood_value_
    return Hyperparameters(centre, spread, np.asarray(best, dtype=np.float64))


class GaussianProcess:
    """y given its values at simulated points; means, variances and ``noise`` (σ²) are in y's own units."""

    def __init__(self, x: FloatArray, y: FloatArray, hyperparameters: Hyperparameters) -> None:
        self.x, self.y, self.hyperparameters = x, y, hyperparameters
        self._kernel = _covariance(x.shape[1]).clone_with_theta(hyperparameters.logs)
        covariance = self._kernel(x)  # with the noise, which also keeps duplicate points apart
        covariance[np.diag_indices(len(x))] += 1e-10 * np.trace(covariance) / len(x)
        self._factor = np.linalg.cholesky(covariance)
        self._residual = self._solved(((y - hyperparameters.centre) / hyperparameters.spread)[:, None])[:, 0]

    @property
    def noise(self) -> float:
        """σ², the variance of y at one θ."""
        return math.exp(float(self.hyperparameters.logs[-1])) * self.hyperparameters.spread**2

    def _solved(self, right: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._factor, right, lower=True, check_finite=False))

    def at(self, x: FloatArray) -> Prediction:
        """What is known at some points."""
        return Prediction(self, x)

    def prior_covariance(self, x: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(self._kernel(x, other))

    def half(self, x: FloatArray) -> FloatArray:
        """A with cov(x, x′) = k(x, x′) − AᵀA′ given the values, shape (simulations, points)."""
        return self._solved(self.prior_covariance(self.x, x))

    def mean_from(self, half: FloatArray) -> FloatArray:
        scale = self.hyperparameters
        return np.asarray(scale.centre + scale.spread * (self._residual @ half))

    def prior_variance(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._kernel.diag(x)) - math.exp(float(self.hyperparameters.logs[-1]))

    @cached_property
    def least_simulated(self) -> float:
        """The smallest mean at the simulated points: y − σ² K⁻¹(y − ȳ) is the mean there."""
        solved = solve_triangular(self._factor, self._residual, lower=True, trans=1, check_finite=False)
        return float((self.y - self.noise / self.hyperparameters.spread * solved).min())

    @cached_property
    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """The mean and variance of every y given all others, the noise included (their equations 5.10 to 5.12)."""
        inverse = self._solved(np.eye(len(self.x)))
        precision = (inverse**2).sum(axis=0)
        away = (inverse.T @ self._residual) / precision
        spread = self.hyperparameters.spread
        return self.y - spread * away, spread**2 / precision


class Prediction:
    """Means and variances at points, and their covariances column by column; further points can be conditioned on.

    The variances do not depend on the values of y, so that what a simulation at a point will leave of them is known
    before it is run.
    """

    def __init__(self, process: GaussianProcess, x: FloatArray) -> None:
        self.x, self._process = x, process
        self._half = process.half(x)
        self._scale = process.hyperparameters.spread
        self.mean = process.mean_from(self._half)
        spare = process.prior_variance(x) - (self._half**2).sum(axis=0)
        self.variance = np.maximum(spare, 1e-12) * self._scale**2
        self._removed = np.zeros((0, len(x)))  # a row r for every point that was conditioned on

    def column(self, point: int) -> FloatArray:
        """The covariances of all points with one of them."""
        one = slice(point, point + 1)
        prior = self._process.prior_covariance(self.x, self.x[one])[:, 0]
        found = (prior - self._half[:, point] @ self._half) * self._scale**2
        return np.asarray(found - self._removed[:, point] @ self._removed)

    def block(self, rows: slice, columns: slice) -> FloatArray:
        """Covariances between two sets of the points, before any was conditioned on."""
        prior = self._process.prior_covariance(self.x[rows], self.x[columns])
        return np.asarray((prior - self._half[:, rows].T @ self._half[:, columns]) * self._scale**2)

    def condition(self, point: int, noise: float) -> FloatArray:
        """Condition on y at one of the points, with that noise; gives r, where rrᵀ is taken off the covariance."""
        removed = self.column(point) / math.sqrt(max(float(self.variance[point]), 1e-12) + noise)
        self._removed = np.concatenate([self._removed, removed[None]])
        self.variance = np.maximum(self.variance - removed**2, 1e-12 * self._scale**2)
        return removed

    def functions(self, number: int, rng: np.random.Generator, rank: int) -> FloatArray:
        """Functions drawn jointly at the points, shape (number, points).

        By a Cholesky factor of at most ``rank`` columns, pivoted where the variance is largest; what it leaves is
        independent.
        """
        roots = []
        first = float(self.variance.max())
        for _ in range(min(rank, len(self.x))):
            point = int(np.argmax(self.variance))
            if float(self.variance[point]) <= 1e-6 * first:
                break
            roots.append(self.condition(point, 0.0))
        root = np.stack(roots) if roots else np.zeros((0, len(self.x)))
        drawn = rng.standard_normal((number, len(root))) @ root
        drawn += rng.standard_normal((number, len(self.x))) * np.sqrt(self.variance)
        return np.asarray(self.mean + drawn)
