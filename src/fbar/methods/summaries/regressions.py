"""Regressions of functions of θ on the simulated data: x (n, d) and standardised y (n, c) in, predictions (n, c) out.

Predictions are sums by numpy itself, one row like another, so that they are the same in every process whatever its BLAS
and number of threads.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import MissingExtra

MOST_SQUARES = 1000
"""Data of more numbers than this are regressed on without their squares."""

PENALTIES = 10.0 ** np.arange(-8.0, 1.5, 0.5)
"""Ridge penalties that are tried, in units of the largest squared singular value."""

HIDDEN, DECAY, PASSES = (64, 64), 3.0, 200
"""The network: its hidden layers, the weight decay and the most passes over the data."""

TREES, RATE, LEAVES, BINS = 100, 0.1, 15, 64


class Fit(ABC):
    """A fitted regression."""

    @abstractmethod
    def predict(self, x: FloatArray) -> FloatArray:
        """E[f(θ)|x] for each row of x, in units of the standardised f."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Data brought to a common scale by median and interquartile range, cut to the range that was seen.

    Tamed by u → arsinh u, they stay as they are near their middle, and heavy tails become light.
    """

    centre: FloatArray
    width: FloatArray
    low: FloatArray
    high: FloatArray
    tamed: bool

    @classmethod
    def of(cls, x: FloatArray, tamed: bool) -> Scale:
        first, centre, third = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
        width = (third - first) / 1.349
        width = np.where(width > 0, width, np.std(x, axis=0))  # over half of the values are equal
        width = np.where(width > 0, width, np.inf)  # a number that never varied does not count
        return cls(centre, width, x.min(axis=0), x.max(axis=0), tamed)

    def __call__(self, x: FloatArray) -> FloatArray:
        u = (np.clip(x, self.low, self.high) - self.centre) / self.width
        return np.arcsinh(u) if self.tamed else u


def product(x: FloatArray, coefficients: FloatArray) -> FloatArray:
    """x @ coefficients, by numpy's own sums."""
    return np.asarray(np.einsum("nd,dc->nc", x, coefficients, optimize=False))


# ---------------------------------------------------------------- ridge regression


@dataclass(frozen=True, eq=False)
class _Features:
    """The data on a common scale, and their squares if ``squares``."""

    scale: Scale
    squares: bool

    def __call__(self, x: FloatArray) -> FloatArray:
        u = self.scale(x)
        return np.hstack([u, u**2]) if self.squares else u


@dataclass(frozen=True, eq=False)
class Linear(Fit):
    """Σ over kinds of features: intercept + features·coefficients; a component has one kind, and zeros elsewhere."""

    intercept: FloatArray
    parts: tuple[tuple[_Features, FloatArray], ...]

    def predict(self, x: FloatArray) -> FloatArray:
        total = np.broadcast_to(self.intercept, (len(x), self.intercept.size)).copy()
        for features, coefficients in self.parts:
            total += product(features(x), coefficients)
        return total


def fit_linear(x: FloatArray, y: FloatArray, seed: int) -> Linear:
    """Ridge regression on the data, or on them and their squares, tamed or not.

    Features and penalty have the smallest leave-one-out error, for each component of y by itself: with the singular
    vectors U and values d of the centred features, the residual of row i without itself is e_i/(1 − h_i), where
    h_i = 1/n + Σ_j U_ij² d_j²/(d_j² + λ) (Golub, Heath & Wahba 1979).
    """
    n, mean = len(x), y.mean(axis=0)
    error = np.full(y.shape[1], np.inf)
    intercept = mean.copy()
    parts: list[tuple[_Features, FloatArray]] = []
    for squares in (False, True):
        for tamed in (False, True):
            if squares and x.shape[1] > MOST_SQUARES:
                continue
            features = _Features(Scale.of(x, tamed), squares)
            values = features(x)
            centre, spread = values.mean(axis=0), values.std(axis=0)
            spread = np.where(spread > 0, spread, np.inf)
            u, d, v = np.linalg.svd((values - centre) / spread, full_matrices=False)
            found = d > 1e-10 * max(float(d[0]), 1e-300)
            if not found.any():
                continue
            u, d, v = u[:, found], d[found], v[found]
            along = u.T @ (y - mean)
            best = np.zeros((values.shape[1], y.shape[1]))
            for penalty in PENALTIES * d[0] ** 2:
                kept = d**2 / (d**2 + penalty)
                left = np.maximum(1 - 1 / n - (u**2) @ kept, 1e-6)
                residual = (y - mean - u @ (kept[:, None] * along)) / left[:, None]
                loss = (residual**2).mean(axis=0)
                better = loss < error
                if better.any():
                    slope = (v.T @ ((d / (d**2 + penalty))[:, None] * along)) / spread[:, None]
                    for _, earlier in parts:
                        earlier[:, better] = 0.0
                    best[:, better] = slope[:, better]
                    intercept[better] = (mean - centre @ slope)[better]
                    error = np.where(better, loss, error)
            parts.append((features, best))
    return Linear(intercept, tuple(part for part in parts if part[1].any()))


# ---------------------------------------------------------------- regressions of scikit-learn


@dataclass(frozen=True, eq=False)
class Network(Fit):
    """A multilayer perceptron with rectified units."""

    scale: Scale
    layers: tuple[tuple[FloatArray, FloatArray], ...]

    def predict(self, x: FloatArray) -> FloatArray:
        values = self.scale(x)
        for number, (weights, offset) in enumerate(self.layers):
            values = product(values, weights) + offset
            if number < len(self.layers) - 1:
                values = np.maximum(values, 0.0)
        return values


def fit_network(x: FloatArray, y: FloatArray, seed: int) -> Network:
    """All components by one network; a tenth of the data says when to stop."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor
    except ImportError:
        raise MissingExtra("scikit-learn", "learn") from None
    scale = Scale.of(x, tamed=True)
    model = MLPRegressor(
        hidden_layer_sizes=HIDDEN, alpha=DECAY, early_stopping=True, max_iter=PASSES, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scale(x), y if y.shape[1] > 1 else y[:, 0])
    return Network(scale, tuple(zip(model.coefs_, model.intercepts_, strict=True)))


@dataclass(frozen=True, eq=False)
class Boosting(Fit):
    """A sum of trees for each component."""

    models: Sequence[Any]

    def predict(self, x: FloatArray) -> FloatArray:
        with _threads().limit(limits=1, user_api="openmp"):  # more would wait for ever in a process forked from this
            return np.stack([model.predict(x) for model in self.models], axis=1)


@lru_cache(maxsize=1)
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController  # scikit-learn needs it

    return ThreadpoolController()


def fit_boosting(x: FloatArray, y: FloatArray, seed: int) -> Boosting:
    """Gradient boosted trees, which do not mind heavy tails and numbers that say nothing."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise MissingExtra("scikit-learn", "learn") from None
    models = []
    for column in y.T:
        model = HistGradientBoostingRegressor(
            max_iter=TREES,
            learning_rate=RATE,
            max_leaf_nodes=LEAVES,
            max_bins=BINS,
            early_stopping=False,
            random_state=seed,
        )
        models.append(model.fit(x, column))
    return Boosting(tuple(models))


REGRESSIONS: dict[str, Callable[[FloatArray, FloatArray, int], Fit]] = {
    "linear": fit_linear,
    "boosting": fit_boosting,
    "network": fit_network,
}
