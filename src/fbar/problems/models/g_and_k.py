"""The g-and-k distribution: simple to draw from, its density known through the inverse of its quantile function.

x = A + B (1 + c tanh(gz/2)) (1 + z²)^k z with z ~ N(0, 1) and c = 0.8 (Rayner & MacGillivray 2002; with ABC Allingham,
King & Mengersen 2009).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.truths.importance import WANTED, ImportancePosterior
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Reference

NAMES = ("A", "B", "g", "k")
SIZE = 100
C = 0.8
WIDTH = 10.0
CHUNK = 200
"""Parameters at a time, so that the arrays stay in the cache."""
FAR = 50.0
"""log |z| beyond which no density is left to speak of, and squares would overflow."""


def quantile(z: FloatArray, theta: FloatArray) -> FloatArray:
    """Q at normal scores z (n, m), for theta (n, 4)."""
    a, b, g, k = (theta[:, j, None] for j in range(4))
    return np.asarray(a + b * (1 + C * np.tanh(g * z / 2)) * np.exp(k * np.log1p(z * z)) * z)


def _log_slope(s: FloatArray, side: FloatArray, g: FloatArray, k: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F(s) = log |w| at |z| = e^s, w = (Q − A)/B, and F′(s) = d log |w| / d log |z|, for z of the given sign."""
    r = np.exp(s)
    square = r * r
    t = np.tanh(g * r / 2)
    bend = 1 + side * C * t
    value = s + k * np.log1p(square) + np.log(bend)
    slope = 1 + 2 * k * (square / (1 + square)) + side * C * (g * r / 2) * (1 - t * t) / bend
    return value, slope


def normal_scores(x: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """z with Q(z) = x and log Q′(z), both (n, m), for data x (m,) and theta (n, 4).

    Newton's method on log |w| as a function of log |z|, close to a straight line on either side of |z| = 1; entries
    that it does not settle are bisected. Monotone for c = 0.8 and g, k ≥ 0.
    """
    a, b, g, k = (theta[:, j, None] for j in range(4))
    w = (x - a) / b
    side = np.where(w < 0, -1.0, 1.0)
    wanted = np.log(np.maximum(np.abs(w), 1e-290))
    g, k = np.broadcast_to(g, w.shape), np.broadcast_to(k, w.shape)
    s = np.minimum(np.where(wanted > 0, wanted / (1 + 2 * k), wanted), FAR)
    for _ in range(8):
        value, slope = _log_slope(s, side, g, k)
        change = np.clip((wanted - value) / slope, -2.0, 2.0)
        s = np.minimum(s + change, FAR)
        if np.abs(change).max() < 1e-9:
            break
    value, slope = _log_slope(s, side, g, k)
    open_ = np.abs(wanted - value) > 1e-10
    if open_.any():
        s[open_] = _bisected(wanted[open_], side[open_], g[open_], k[open_])
        value, slope = _log_slope(s, side, g, k)
    return side * np.exp(s), np.log(b) + value - s + np.log(slope)


def _bisected(wanted: FloatArray, side: FloatArray, g: FloatArray, k: FloatArray) -> FloatArray:
    # |w| lies between 0.2 |z| (1 + z²)^k and 1.8 |z| (1 + z²)^k, and k ≤ 10.
    low, high = np.minimum(wanted - 1.0, 0.0) - 25.0, np.clip(wanted + 2.0, 1.0, FAR)
    for _ in range(80):
        middle = (low + high) / 2
        below = _log_slope(middle, side, g, k)[0] < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def log_likelihood(x: FloatArray, theta: FloatArray) -> FloatArray:
    parts = []
    for begin in range(0, len(theta), CHUNK):
        z, log_slope = normal_scores(x, theta[begin : begin + CHUNK])
        parts.append(-(z**2 / 2 + log_slope).sum(axis=1))
    return np.concatenate(parts) - x.size * math.log(2 * math.pi) / 2 if parts else np.empty(0)


def simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    values = np.column_stack([theta[name] for name in NAMES])
    return quantile(rng.standard_normal((theta.rows, SIZE)), values)


def reference(x: FloatArray, *, error: float = WANTED) -> Reference:
    def theta(z: FloatArray) -> FloatArray:
        return np.asarray(WIDTH * ndtr(z))

    def log_density(z: FloatArray) -> FloatArray:
        t = theta(z)
        inside = (t > 0).all(axis=1)
        result = np.full(len(z), -np.inf)
        result[inside] = log_likelihood(x, t[inside])
        return np.asarray(result - (z**2).sum(axis=1) / 2 - 2 * math.log(2 * math.pi))

    def to_z(points: Points) -> tuple[FloatArray, FloatArray]:
        z = ndtri(np.column_stack([points[name] for name in NAMES]) / WIDTH)
        return z, (z**2).sum(axis=1) / 2 + 2 * math.log(2 * math.pi) - 4 * math.log(WIDTH)

    return ImportancePosterior(log_density, theta, to_z, NAMES, error=error)


def summary(x: FloatArray) -> FloatArray:
    """Median, and the logarithms of spread, skewness and tail weight by octiles (Drovandi & Pettitt 2011).

    With octiles E₁ … E₇: E₄, log(E₆ − E₂), (E₆ + E₂ − 2E₄)/(E₆ − E₂) and log((E₇ − E₅ + E₃ − E₁)/(E₆ − E₂)).
    """
    e = np.quantile(x, np.arange(1, 8) / 8, axis=1)
    spread = np.maximum(e[5] - e[1], 1e-300)
    tails = np.maximum((e[6] - e[4] + e[2] - e[0]) / spread, 1e-300)
    return np.column_stack([e[3], np.log(spread), (e[5] + e[1] - 2 * e[3]) / spread, np.log(tails)])


def check_data(x: FloatArray) -> None:
    distinct = np.unique(x).size
    if distinct < 0.9 * SIZE:
        raise InputError(f"the data of g-and-k are draws of a continuous distribution; got {distinct} distinct values")


def g_and_k() -> Recipe:
    return Recipe(
        "g-and-k",
        "a hundred draws of a distribution known by its quantile function",
        "Allingham, King & Mengersen 2009; Fearnhead & Prangle 2012",
        Prior({name: stats.uniform(0, WIDTH) for name in NAMES}),
        simulate,
        (SIZE,),
        reference,
        seed=203,
        summary=summary,
        check_data=check_data,
    )
