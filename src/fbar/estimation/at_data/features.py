"""A bank of features of data that are ordered or exchangeable numbers: x (n, d) in, values (n, p) out, row by row.

Posterior means are far from linear in raw numbers whose order carries no information, or only through their
neighbours, but close to linear in statistics of them. There are two parts. For each row of d ≥ 2 numbers with mean m
and variance σ² the *order* features do not depend on the order that the numbers come in:

- quantiles at 23 levels (all order statistics if d < 23), in which the likelihood of independent numbers is locally
  linear, and the logarithms of the spacings between them, in which a change of scale is a shift and a change of shape
  is linear;
- m, σ, log σ, arsinh of the skewness, logarithm of the kurtosis.

The *series* features say how a number depends on those before it:

- autocovariances to lag 5 and autocorrelations ρ to lag 15, at most to d/3;
- a long autoregression, to lag 30, at most to d/3, by Burg's method (1975): its coefficients, and the partial
  autocorrelations that they come from on Fisher's scale artanh. Parameters of a moving average are nearly linear in
  them, and hardly less exact than from the likelihood (Durbin 1959), while its autocorrelations say little where its
  roots are near the unit circle;
- differences of neighbours: 7 quantiles and the logarithm of their mean size.

Every value is finite if the data are, for constant rows and tied numbers as well.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray

LEVELS = (0.0, 0.02, *(k / 20 for k in range(1, 20)), 0.98, 1.0)
"""Levels of the quantiles."""

DIFFERENCE_LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Levels of the quantiles of differences."""

COVARIANCES, CORRELATIONS, REGRESSION = 5, 15, 30
"""The largest lags."""

SMALLEST_SPACING = 0.003
"""What is added to a spacing before its logarithm is taken, as a fraction of the row's range."""

SMALLEST_SCALE = 1e-6
"""The smallest deviation whose logarithm is distinguished, as a fraction of the row's largest number."""

AT_ONCE = 2**17
"""Numbers whose autoregression is computed together: about what a processor's cache holds."""

LARGEST = 1e150
"""Numbers are cut to this size, so that their products are finite."""


def bank(x: FloatArray) -> FloatArray:
    """The features of each row of x (n, d), d ≥ 2: those of order, then those of series, as `bank_names` has them."""
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
    order = [
        ordered * unit,
        _log(np.diff(ordered, axis=1) + SMALLEST_SPACING * (ordered[:, -1:] - ordered[:, :1]), unit),
        mean * unit,
        deviation * unit,
        _log(deviation, unit),
        np.arcsinh(skewness),
        np.log(kurtosis + 0.5),
    ]
    correlation = autocorrelations(scaled, _lags(d, CORRELATIONS))
    partial = partial_autocorrelations(scaled, _lags(d, REGRESSION))
    steps = np.diff(x, axis=1)
    series = [
        correlation[:, :COVARIANCES] * (deviation * unit) ** 2,
        correlation,
        np.arctanh(np.clip(partial, -0.999, 0.999)),
        autoregression(partial),
        _quantiles(steps, DIFFERENCE_LEVELS) * unit,
        _log(np.abs(steps).mean(axis=1, keepdims=True), unit),
    ]
    return np.hstack(order + series)


def bank_names(d: int) -> tuple[str, ...]:
    """What the features of d numbers are called."""
    return (*order_names(d), *series_names(d))


def order_names(d: int) -> tuple[str, ...]:
    levels = [f"{level:.3g}" for level in _levels(d)]
    return (
        *(f"quantile {level}" for level in levels),
        *(f"log spacing {low} to {high}" for low, high in pairwise(levels)),
        *("mean", "deviation", "log deviation", "skewness", "kurtosis"),
    )


def series_names(d: int) -> tuple[str, ...]:
    return (
        *(f"autocovariance {lag}" for lag in range(1, _lags(d, COVARIANCES) + 1)),
        *(f"autocorrelation {lag}" for lag in range(1, _lags(d, CORRELATIONS) + 1)),
        *(f"partial autocorrelation {lag}" for lag in range(1, _lags(d, REGRESSION) + 1)),
        *(f"autoregression {lag}" for lag in range(1, _lags(d, REGRESSION) + 1)),
        *(f"difference quantile {level:.3g}" for level in DIFFERENCE_LEVELS),
        "log mean difference",
    )


def _lags(d: int, most: int) -> int:
    """The largest lag for d numbers, at most so large."""
    return min(most, d // 3)


def autocorrelations(scaled: FloatArray, most: int) -> FloatArray:
    """ρ₁ … of rows that have mean 0 and variance 1: ρ_l = Σ x_t x_{t+l} / d; 0 for rows of zeros."""
    d = scaled.shape[1]
    if most == 0:
        return np.zeros((len(scaled), 0))
    return np.stack(
        [np.einsum("nt,nt->n", scaled[:, lag:], scaled[:, :-lag]) / d for lag in range(1, most + 1)], axis=1
    )


def partial_autocorrelations(x: FloatArray, most: int) -> FloatArray:
    """φ_kk, k = 1 …, of rows of mean 0 by Burg's method: each is the correlation of the forward errors f of the
    autoregression before it and the backward errors b, 2 Σ f_t b_{t−1} / Σ (f_t² + b_{t−1}²), so that none is beyond 1.
    """
    found = np.zeros((len(x), most))
    rows = max(1, AT_ONCE // x.shape[1])
    for first in range(0, len(x) if most else 0, rows):
        forward, backward = x[first : first + rows, 1:], x[first : first + rows, :-1]
        for k in range(most):
            size = np.einsum("nt,nt->n", forward, forward) + np.einsum("nt,nt->n", backward, backward)
            both = 2 * np.einsum("nt,nt->n", forward, backward)
            last = np.where(size > 0, both / np.where(size > 0, size, 1.0), 0.0)[:, None]
            forward, backward = (forward - last * backward)[:, 1:], (backward - last * forward)[:, :-1]
            found[first : first + rows, k] = last[:, 0]
    return found


def autoregression(partial: FloatArray) -> FloatArray:
    """The coefficients of the autoregression that has these partial autocorrelations (Levinson's recursion)."""
    coefficients = np.zeros((len(partial), 0))
    for k in range(partial.shape[1]):
        last = partial[:, k : k + 1]
        coefficients = np.hstack([coefficients - last * coefficients[:, ::-1], last])
    return coefficients


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
