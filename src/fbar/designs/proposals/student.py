"""Mixtures of Student's t distributions, fitted to weighted points by EM (Peel & McLachlan 2000, ν fixed).

Five degrees of freedom leave tails that are heavier than those of what is targeted, so that weights stay bounded in
practice, and light enough to cost little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, stdtrit

from fbar.arrays import FloatArray, IntArray

DF = 5.0
MOST_COMPONENTS = 8
ITERATIONS = 12
TINY = 2.0**-60


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """Σ_m π_m t_5(μ_m, Σ_m) in D dimensions; ``factors`` are the Cholesky factors of the Σ_m, lower triangles."""

    weights: FloatArray
    means: FloatArray
    factors: FloatArray

    @property
    def dimension(self) -> int:
        return int(self.means.shape[1])

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.factors), dtype=np.float64)

    @cached_property
    def _log_constants(self) -> FloatArray:
        d = self.dimension
        log_det = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        one = gammaln((DF + d) / 2) - gammaln(DF / 2) - d / 2 * math.log(DF * math.pi)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights) + one - log_det)

    def square_distances(self, x: FloatArray) -> FloatArray:
        """(x − μ_m)ᵀ Σ_m⁻¹ (x − μ_m), shape (components, n)."""
        found = np.empty((len(self.weights), len(x)))
        for m, (mean, inverse) in enumerate(zip(self.means, self._inverse, strict=True)):
            y = (x - mean) @ inverse.T
            found[m] = np.einsum("ij,ij->i", y, y)
        return found

    def log_parts(self, square: FloatArray) -> FloatArray:
        return np.asarray(self._log_constants[:, None] - (DF + self.dimension) / 2 * np.log1p(square / DF))

    def log_density(self, x: FloatArray) -> FloatArray:
        parts = self.log_parts(self.square_distances(x))
        top = parts.max(axis=0)
        return np.asarray(top + np.log(np.exp(parts - top).sum(axis=0)))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        which = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(size), side="right")
        normal = rng.standard_normal((size, self.dimension))
        return self._moved(which, normal / np.sqrt(rng.chisquare(DF, size) / DF)[:, None])

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Draws from points of the unit cube: the component, D normal coordinates and the common scale.

        In one dimension the coordinate is Student's t itself, so that what is smooth in it stays smooth in the point.
        """
        which = np.searchsorted(np.cumsum(self.weights)[:-1], unit[:, 0], side="right")
        inside = np.clip(unit[:, 1:], TINY, 1 - 2.0**-53)
        if self.dimension == 1:
            return self._moved(which, stdtrit(DF, inside[:, :1]))
        from scipy.special import gammaincinv

        scale = np.sqrt(2 * gammaincinv(DF / 2, inside[:, -1]) / DF)
        return self._moved(which, ndtri(inside[:, :-1]) / scale[:, None])

    @property
    def unit_dimension(self) -> int:
        return 2 if self.dimension == 1 else self.dimension + 2

    def _moved(self, which: IntArray, t: FloatArray) -> FloatArray:
        x = np.empty_like(t)
        for m in range(len(self.weights)):
            rows = np.flatnonzero(which == m)
            x[rows] = t[rows] @ self.factors[m].T + self.means[m]
        return x

    def arrays(self) -> dict[str, FloatArray]:
        return {"weights": self.weights, "means": self.means, "factors": self.factors}

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> StudentMixture:
        return StudentMixture(arrays["weights"], arrays["means"], arrays["factors"])


def fit(
    x: FloatArray, weights: FloatArray, rng: np.random.Generator, *, inflation: float = 1.0, most: int = MOST_COMPONENTS
) -> StudentMixture:
    """Fit a mixture to weighted points in a space where the prior is standard normal.

    The number of components follows the effective sample size, at most one for three points a parameter; each
    covariance is shrunk to that of all points, and the latter to the prior's where there are too few points.
    An ``inflation`` c > 1 takes every component to p^(1−1/c) t^(1/c), as if both were normal: a narrow one becomes c
    times as wide, and none wider than the prior.
    """
    w = weights / weights.sum()
    d = x.shape[1]
    ess = 1 / float((w**2).sum())
    centre = w @ x
    away = x - centre
    everything = (w[:, None] * away).T @ away
    unknown = max(0.0, 1 - ess / (3 * (d + 1)))
    everything = (1 - unknown) * everything + unknown * np.eye(d)
    everything += np.eye(d) * max(1e-12, 1e-9 * float(np.trace(everything)) / d)
    number = int(min(most, max(1.0, ess / (3 * (d + 1) * (d + 2) / 2))))
    # A t5 distribution of scale S has covariance 5/3 S.
    scale = everything * (DF - 2) / DF
    mixture = _made(np.full(number, 1 / number), _spread(x, w, scale, number, rng), scale[None].repeat(number, axis=0))
    before = -math.inf
    for _ in range(ITERATIONS):
        square = mixture.square_distances(x)
        parts = mixture.log_parts(square)
        top = parts.max(axis=0)
        r = np.exp(parts - top)
        total = r.sum(axis=0)
        now = float(w @ (top + np.log(total)))
        r *= w / total
        pi = r.sum(axis=1)
        alive = pi * ess > d + 1
        if not alive.any():
            break
        if not alive.all():
            r, pi, square = r[alive], pi[alive], square[alive]
        u = r * ((DF + d) / (DF + square))
        means = (u @ x) / u.sum(axis=1)[:, None]
        covariances = np.empty((len(pi), d, d))
        for m in range(len(pi)):
            away = x - means[m]
            sample = (u[m][:, None] * away).T @ away / pi[m]
            shrink = min(0.5, (d + 1) / (pi[m] * ess)) if len(pi) > 1 else 0.0
            covariances[m] = (1 - shrink) * sample + shrink * scale
        if unknown > 0:
            covariances = covariances * (1 - unknown) + unknown * scale
        mixture = _made(pi / pi.sum(), means, covariances)
        if now - before < 1e-3 and alive.all():
            break
        before = now
    return mixture if inflation == 1 else widened(mixture, inflation)


def _made(weights: FloatArray, means: FloatArray, covariances: FloatArray) -> StudentMixture:
    d = means.shape[1]
    jitter = 1e-12 * np.trace(covariances, axis1=1, axis2=2) / d + 1e-300
    return StudentMixture(weights, means, np.linalg.cholesky(covariances + jitter[:, None, None] * np.eye(d)))


def widened(mixture: StudentMixture, c: float) -> StudentMixture:
    """Precisions (Λ + (c−1) I)/c, with Λ the inverse of a component's covariance, and means to match."""
    d = mixture.dimension
    covariances = mixture.factors @ mixture.factors.transpose(0, 2, 1) * DF / (DF - 2)
    precisions = np.linalg.inv(covariances)
    total = np.asarray(np.linalg.inv(precisions + (c - 1) * np.eye(d)), dtype=np.float64)
    means = np.einsum("mij,mjk,mk->mi", total, precisions, mixture.means)
    return _made(mixture.weights, means, c * total * (DF - 2) / DF)


def _spread(x: FloatArray, w: FloatArray, scale: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Starting points far from each other: each next one by its weight and squared distance from those before."""
    if number == 1:
        return np.asarray((w @ x)[None])
    y = x @ np.linalg.inv(np.linalg.cholesky(scale)).T
    chosen = [int(np.searchsorted(np.cumsum(w), rng.random() * w.sum()).clip(0, len(w) - 1))]
    far = np.full(len(x), np.inf)
    for _ in range(number - 1):
        far = np.minimum(far, ((y - y[chosen[-1]]) ** 2).sum(axis=1))
        chance = np.cumsum(w * far)
        chosen.append(int(np.searchsorted(chance, rng.random() * chance[-1]).clip(0, len(w) - 1)))
    return x[chosen]
