"""The modes of a log density on ℝ^d, by Newton steps from many starts in one batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri
from scipy.stats import qmc

from fbar.arrays import FloatArray

STARTS = 16
"""Of the second kind of start, and twice those of the first; see `scattered`."""

STEP = 3e-4
"""Of finite differences, in units of the prior's standard deviation."""


@dataclass(frozen=True)
class Mode:
    """A local maximum with its normal approximation."""

    place: FloatArray
    log_value: float
    covariance: FloatArray

    @property
    def log_mass(self) -> float:
        d = self.place.size
        return self.log_value + float(np.linalg.slogdet(self.covariance)[1]) / 2 + d / 2 * math.log(2 * math.pi)


def scattered(
    log_density: Callable[[FloatArray], FloatArray],
    dimension: int,
    rng: np.random.Generator,
    further: FloatArray | None = None,
    size: int = 4096,
) -> FloatArray:
    """Starts: of quasi-random points of N(0, 1) and N(0, 2²), the best, and those that are best among their neighbours.

    A narrow mode is seen from afar by the second kind alone: its surroundings are lower than a wide mode's.
    """
    unit = np.clip(qmc.Sobol(dimension, rng=rng).random(size), 1e-12, 1 - 1e-12)
    z = ndtri(unit)
    z[::4] *= 2.0
    value = log_density(z)
    possible = np.isfinite(value)
    z, value = z[possible], value[possible]
    chosen: list[FloatArray] = [] if further is None else list(further)
    if len(z):
        neighbours = cKDTree(z).query(z, k=min(4 * dimension + 4, len(z)))[1].reshape(len(z), -1)
        peaks = np.flatnonzero(value >= value[neighbours].max(axis=1))
        for rows, most in ((np.argsort(-value), STARTS // 2), (peaks[np.argsort(-value[peaks])], STARTS)):
            limit = len(chosen) + most
            for row in rows:
                if len(chosen) == limit:
                    break
                if all(((z[row] - other) ** 2).sum() > 0.3**2 for other in chosen):
                    chosen.append(z[row])
    return np.array(chosen).reshape(-1, dimension)


def _derivatives(
    log_density: Callable[[FloatArray], FloatArray], z: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, gradient and Hessian of every row by central differences, all in one call."""
    n, d = z.shape
    e, signs = np.eye(d), (1, -1)
    pairs = [(i, j) for i in range(d) for j in range(i)]
    single = [a * e[i] for i in range(d) for a in signs]
    double = [a * e[i] + b * e[j] for i, j in pairs for a in signs for b in signs]
    shifts = STEP * np.array([np.zeros(d), *single, *double])
    value = log_density((z[:, None] + shifts).reshape(-1, d)).reshape(n, -1)
    value = np.where(np.isfinite(value), value, -1e300)
    gradient = (value[:, 1 : 2 * d : 2] - value[:, 2 : 2 * d + 1 : 2]) / (2 * STEP)
    hessian = np.zeros((n, d, d))
    for i in range(d):
        hessian[:, i, i] = (value[:, 1 + 2 * i] + value[:, 2 + 2 * i] - 2 * value[:, 0]) / STEP**2
    for number, (i, j) in enumerate(pairs):
        plus, mixed, other, minus = value[:, 1 + 2 * d + 4 * number : 5 + 2 * d + 4 * number].T
        hessian[:, i, j] = hessian[:, j, i] = (plus - mixed - other + minus) / (4 * STEP**2)
    return value[:, 0], np.clip(gradient, -1e150, 1e150), np.clip(hessian, -1e150, 1e150)


def climb(log_density: Callable[[FloatArray], FloatArray], starts: FloatArray, iterations: int = 80) -> list[Mode]:
    """The distinct maxima that the starts lead to, best first.

    Newton's step with the absolute values of the Hessian's eigenvalues (Gill & Murray) and the best of several lengths
    of it; a start that can no longer rise is done.
    """
    z = np.array(starts, dtype=np.float64)
    if z.size == 0:
        return []
    lengths = np.array([1.0, 0.5, 0.2, 0.05, 0.01, 1e-3, 1e-5])
    moving = np.ones(len(z), dtype=bool)
    for _ in range(iterations):
        at = np.flatnonzero(moving)
        if at.size == 0:
            break
        value, gradient, hessian = _derivatives(log_density, z[at])
        eigenvalues, vectors = np.linalg.eigh(hessian)
        curvature = np.maximum(np.abs(eigenvalues), 0.1)
        step = np.einsum("nij,nj->ni", vectors, np.einsum("nji,nj->ni", vectors, gradient) / curvature)
        size = np.sqrt((step**2).sum(axis=1, keepdims=True))
        step *= np.minimum(1.0, 2.0 / np.maximum(size, 1e-300))
        tried = z[at, None] + lengths[:, None] * step[:, None]
        risen = log_density(tried.reshape(-1, z.shape[1])).reshape(at.size, -1)
        best = np.nanargmax(np.where(np.isnan(risen), -np.inf, risen), axis=1)
        rise = risen[np.arange(at.size), best] - value
        better = rise > 0
        z[at[better]] = tried[better, best[better]]
        moving[at] = rise > 1e-5
    return _distinct(log_density, z)


def _distinct(log_density: Callable[[FloatArray], FloatArray], z: FloatArray) -> list[Mode]:
    value, _, hessian = _derivatives(log_density, z)
    modes: list[Mode] = []
    for row in np.argsort(-value):
        if not np.isfinite(value[row]) or value[row] < -1e200 or any(_near(mode, z[row]) for mode in modes):
            continue
        eigenvalues, vectors = np.linalg.eigh(hessian[row])
        covariance = (vectors / np.maximum(np.abs(eigenvalues), 0.5)) @ vectors.T
        modes.append(Mode(z[row].copy(), float(value[row]), (covariance + covariance.T) / 2))
    modes.sort(key=lambda mode: -mode.log_mass)
    return [mode for mode in modes[:8] if mode.log_mass > modes[0].log_mass - 20]


def _near(mode: Mode, place: FloatArray) -> bool:
    away = place - mode.place
    return float(away @ np.linalg.solve(mode.covariance, away)) < 2.0
