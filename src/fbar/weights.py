"""Weighted samples: normalised weights, their effective sample size (e:ESS), quantiles and resampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray


def relative(log_w: FloatArray, a: FloatArray | float = 1.0) -> FloatArray:
    """a exp(log w) up to a factor, by which the largest exp(log w) is 1: nothing overflows.

    >>> relative(np.array([1000.0, 1000.0 + np.log(2.0)])).round(12)
    array([0.5, 1. ])
    """
    return np.asarray(a * np.exp(log_w - log_w.max()))


def normalised(log_w: FloatArray, a: FloatArray | float = 1.0) -> FloatArray:
    """a w / Σ a w, the self-normalised weights of importance sampling, from log w.

    >>> normalised(np.log([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 0.2])).round(12)
    array([0.25, 0.5 , 0.25])
    """
    w = relative(log_w, a)
    return np.asarray(w / w.sum())


def effective_size(weights: FloatArray) -> float:
    """(Σw)²/Σw² (section 1.2.2 of the paper, e:ESS)."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def weighted_quantiles(values: npt.NDArray[Any], weights: FloatArray, levels: npt.ArrayLike) -> FloatArray:
    """The smallest values whose weight, with that of all below, reaches the levels.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([0.2, 0.5, 0.3]), [0.1, 0.6, 1.0])
    array([1., 2., 3.])
    """
    x = np.asarray(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    cumulative = np.cumsum(weights[order])
    at = np.searchsorted(cumulative, np.asarray(levels) * cumulative[-1], side="left")
    return np.asarray(x[order][np.minimum(at, len(order) - 1)])


def monotone(upto: FloatArray) -> FloatArray:
    """The mean of the smallest rising function above and the largest one below, cut at 0 and 1.

    A distribution function from signed weights may fall in places (Warne, Baker & Simpson 2018).

    >>> monotone(np.array([0.2, 0.6, 0.4, 1.0]))
    array([0.2, 0.5, 0.5, 1. ])
    """
    rising, falling = np.maximum.accumulate(upto), np.minimum.accumulate(upto[::-1])[::-1]
    return np.asarray(np.clip((rising + falling) / 2, 0.0, 1.0))


def monotone_weights(values: npt.NDArray[Any], weights: FloatArray) -> FloatArray:
    """Weights of at least 0 whose distribution function of the values is that of signed ones, made monotone."""
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(np.bincount(place, weights) / weights.sum())
    each = np.diff(monotone(upto), prepend=0.0) / many
    return np.asarray(each[place])


def systematic(weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Systematic resampling: ``size`` rows, each ⌊size·w⌋ or ⌈size·w⌉ times, in rising order; one random number."""
    cumulative = np.cumsum(weights)
    at = (rng.random() + np.arange(size)) / size * cumulative[-1]
    return np.asarray(np.minimum(np.searchsorted(cumulative, at, side="right"), len(weights) - 1), dtype=np.int64)
