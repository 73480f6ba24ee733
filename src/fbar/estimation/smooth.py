"""A kernel regression of the acceptance weight, as a function of unit coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray

RIDGE = 0.5
"""Draws that say "rejected" everywhere: L̂ fades to zero where no draw is near."""

LEAST_ACCEPTED = 5
"""With fewer, L̂ = 0."""

MOST_DRAWS = 4000
"""L̂ is learned from at most this number of draws, the first; it need not be best, and costs theirs times the nodes'."""

LEAK = 2.0
VALIDATED = 300
RUNGS = 9
WIDEST = 4.0
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Smooth:
    """L̂(u) = Σ K_i k_i / (λ + Σ k_i) · min(1, 2ν/Σ k_i), k_i = exp(−|(u − u_i) T|²/2).

    ν = n (2π)^(D/2) / (w(u) det T) is what Σ k_i would be if q were the same all around. Where q falls off faster than
    the kernel, L̂ would leak from where draws are many to where they are few and weigh much; with the factor, w L̂ is
    never more than twice what it is where the leaked draws came from.
    """

    centres: FloatArray
    """u_i T, shape (n, D)."""
    weight: FloatArray
    transform: FloatArray
    width: float
    """The scale in unit coordinates on which L̂ changes."""

    def __call__(self, unit: FloatArray, w: FloatArray) -> FloatArray:
        """L̂ at unit coordinates (J, D) where p/q is w."""
        result = np.zeros(len(unit))
        if not self.weight.any():
            return result
        at = unit @ self.transform
        step = max(1, AT_ONCE // len(self.centres))
        expected = len(self.centres) * (2 * np.pi) ** (unit.shape[1] / 2) / abs(np.linalg.det(self.transform))
        expected = expected / np.maximum(w, 1e-300)
        for start in range(0, len(unit), step):
            kernel = np.exp(-0.5 * _squares(at[start : start + step], self.centres))
            total, rows = kernel.sum(axis=1), slice(start, start + step)
            result[rows] = np.einsum("jn,n->j", kernel, self.weight) / (RIDGE + total)
            result[rows] *= np.minimum(1.0, LEAK * expected[rows] / np.maximum(total, 1e-300))
        return result


def _squares(a: FloatArray, b: FloatArray) -> FloatArray:
    square = np.zeros((len(a), len(b)))
    for j in range(a.shape[1]):
        square += (a[:, j, None] - b[None, :, j]) ** 2
    return square


def fit_smooth(unit: FloatArray, weight: FloatArray, w: FloatArray, bandwidth: float | None) -> Smooth:
    """Fit to draws at unit coordinates (n, D) with acceptance weights K and importance weights w."""
    unit, weight, w = unit[:MOST_DRAWS], weight[:MOST_DRAWS], w[:MOST_DRAWS]
    d = unit.shape[1]
    accepted = unit[weight > 0]
    if bandwidth is not None or len(accepted) < LEAST_ACCEPTED:
        h = 0.1 if bandwidth is None else bandwidth
        known = weight if len(accepted) >= LEAST_ACCEPTED else np.zeros(len(weight))
        return Smooth(unit / h, known, np.eye(d) / h, h)
    covariance = np.atleast_2d(np.cov(accepted.T))
    if len(accepted) < 5 * d:
        covariance = np.diag(np.diagonal(covariance))
    covariance = covariance + 1e-12 * np.eye(d)
    white = np.linalg.inv(np.linalg.cholesky(covariance)).T
    h = len(accepted) ** (-1 / (4 + d)) * _validated(unit @ white, weight, w, len(accepted) ** (-1 / (4 + d)))
    return Smooth(unit @ white / h, weight, white / h, float(h * np.sqrt(np.diagonal(covariance).min())))


def _validated(at: FloatArray, weight: FloatArray, w: FloatArray, base: float) -> float:
    """The multiple of the base bandwidth with the least leave-one-out loss, E_p[(K − L̂)²] = E_q[w (K − L̂)²].

    Bandwidths fall by √2, so that each kernel is the square of the one before.
    """
    rows = np.arange(min(len(at), VALIDATED))
    kernel = np.exp(-0.5 * _squares(at[rows], at) / (WIDEST * base) ** 2)
    kernel[rows, rows] = 0.0
    losses = np.empty(RUNGS)
    for rung in range(RUNGS):
        if rung:
            np.square(kernel, out=kernel)
        fit = np.einsum("jn,n->j", kernel, weight) / (RIDGE + kernel.sum(axis=1))
        losses[rung] = (w[rows] * (weight[rows] - fit) ** 2).sum()
    return float(WIDEST * 2 ** (-0.5 * int(np.argmin(losses))))
