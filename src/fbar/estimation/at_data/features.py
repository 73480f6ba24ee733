"""A bank of features of data that are ordered or exchangeable numbers: x (n, d) in, values (n, p) out, row by row.

Posterior means are far from linear in raw numbers whose order carries no information, or only through their
neighbours, but close to linear in statistics of them. For each row of d ≥ 2 numbers with mean m and variance σ²:

- order: quantiles at 13 levels (all order statistics if d < 13) and the logarithms of the spacings between them, in
  which a change of scale is a shift and a change of shape is linear;
- moments: m, σ, log σ, arsinh of the skewness, logarithm of the kurtosis;
- dependence (lags up to d/3): autocovariances to lag 5, in which the likelihood of a stationary Gaussian series is
  locally linear, autocorrelations ρ to lag 15, and partial autocorrelations to lag 5 by the recursion of Durbin and
  Levinson, on Fisher's scale artanh;
- differences of neighbours: 7 quantiles and the logarithm of their mean size.

Every value is finite if the data are, for constant rows and tied numbers as well.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 1.0)
"""Levels of the quantiles."""

DIFFERENCE_LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Levels of the quantiles of differences."""

COVARIANCES, CORRELATIONS, PARTIAL = 5, 15, 5
"""The largest lags."""

SMALLEST_SPACING = 0.003
"""What is added to a spacing before its logarithm is taken, as a fraction of the row's range."""

SMALLEST_SCALE = 1e-6
"""The smallest deviation whose logarithm is distinguished, as a fraction of the row's largest number."""

LARGEST = 1e150
"""Numbers are cut to this size, so that their products are finite."""


def bank(x: FloatArray) -> FloatArray:
    """The features of each row of x (n, d), d ≥ 2, in the order of `bank_names`."""
    x = np.clip(np.asarray(x, dtype=float), -LARGEST, LARGEST)
    d = x.shape[1]
    if d < 2:
        raise ValueError(f"the bank of features needs at least 2 numbers a row; got {d}")
    size = np.abs(x).max(axis=1, initial=0.0)
    unit = np.where(size > 0, size, 1.0)[:, None]
    x = x / unit  # sums of fourth powers stay finite
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    varies = deviation > 1e-14
    scaled = np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)
    square = scaled * scaled
    skewness, kurtosis = ((square * other).mean(axis=1, keepdims=True) for other in (scaled, square))
    ordered = _quantiles(x, _levels(d))
    correlation = autocorrelations(scaled, lags(d))
    steps = np.diff(x, axis=1)
    parts = [
        ordered * unit,
        _log(np.diff(ordered, axis=1) + SMALLEST_SPACING * (ordered[:, -1:] - ordered[:, :1]), unit),
        mean * unit,
        deviation * unit,
        _log(deviation, unit),
        np.arcsinh(skewness),
        np.log(kurtosis + 0.5),
        correlation[:, :COVARIANCES] * (deviation * unit) ** 2,
        correlation,
        np.arctanh(np.clip(partial_autocorrelations(correlation[:, :PARTIAL]), -0.999, 0.999)),
        _quantiles(steps, DIFFERENCE_LEVELS) * unit,
        _log(np.abs(steps).mean(axis=1, keepdims=True), unit),
    ]
    return np.hstack(parts)


def bank_names(d: int) -> tuple[str, ...]:
    """What the features of d numbers are called."""
    levels = [f"{level:.3g}" for level in _levels(d)]
    most = lags(d)
    return (
        *(f"quantile {level}" for level in levels),
        *(f"log spacing {low} to {high}" for low, high in pairwise(levels)),
        *("mean", "deviation", "log deviation", "skewness", "kurtosis"),
        *(f"autocovariance {lag}" for lag in range(1, min(most, COVARIANCES) + 1)),
        *(f"autocorrelation {lag}" for lag in range(1, most + 1)),
        *(f"partial autocorrelation {lag}" for lag in range(1, min(most, PARTIAL) + 1)),
        *(f"difference quantile {level:.3g}" for level in DIFFERENCE_LEVELS),
        "log mean difference",
    )


def lags(d: int) -> int:
    """The largest lag of the autocorrelations of d numbers."""
    return min(CORRELATIONS, d // 3)


def autocorrelations(scaled: FloatArray, most: int) -> FloatArray:
    """ρ₁ … of rows that have mean 0 and variance 1: ρ_l = Σ x_t x_{t+l} / d; 0 for rows of zeros."""
    d = scaled.shape[1]
    if most == 0:
        return np.zeros((len(scaled), 0))
    return np.stack(
        [np.einsum("nt,nt->n", scaled[:, lag:], scaled[:, :-lag]) / d for lag in range(1, most + 1)], axis=1
    )


def partial_autocorrelations(correlation: FloatArray) -> FloatArray:
    """φ_kk, k = 1 …, from ρ₁ … by Durbin and Levinson: φ_kk = (ρ_k − Σ φ_{k−1,j} ρ_{k−j}) / (1 − Σ φ_{k−1,j} ρ_j)."""
    result = np.zeros_like(correlation)
    coefficients = np.zeros((len(correlation), 0))
    left = np.ones(len(correlation))
    for k in range(correlation.shape[1]):
        explained = np.einsum("nj,nj->n", coefficients, correlation[:, :k][:, ::-1])
        last = np.clip((correlation[:, k] - explained) / np.maximum(left, 1e-9), -0.9999, 0.9999)
        coefficients = np.column_stack([coefficients - last[:, None] * coefficients[:, ::-1], last])
        left = left * (1 - last**2)
        result[:, k] = last
    return result


def _levels(d: int) -> tuple[float, ...]:
    return LEVELS if d >= len(LEVELS) else tuple((np.arange(d) / (d - 1)).tolist())


def _quantiles(x: FloatArray, levels: tuple[float, ...]) -> FloatArray:
    """Quantiles of each row, linear between order statistics, as `numpy.quantile` has them, but in one sort."""
    ordered = np.sort(x, axis=1)
    at = np.asarray(levels) * (x.shape[1] - 1)
    low = np.minimum(np.floor(at + 1e-9).astype(np.int64), x.shape[1] - 1)
    high = np.minimum(low + 1, x.shape[1] - 1)
    part = np.clip(at - low, 0.0, 1.0)
    return np.asarray(ordered[:, low] + (ordered[:, high] - ordered[:, low]) * part)


def _log(size: FloatArray, unit: FloatArray) -> FloatArray:
    """The logarithm of sizes that are given in units of the row's largest number, bounded below."""
    return np.asarray(np.log(np.maximum(size, SMALLEST_SCALE)) + np.log(unit))
