"""The density of a normal distribution at the data, from simulations: plugged in, and without bias.

Let m and S be mean and covariance of R draws from N(μ, Σ) in d dimensions, M = (R − 1) S, and u = s* − m.

*Plugged in*: N(s*; m, S), the synthetic likelihood of Wood (2010).

*Unbiased* (Ghurye & Olkin 1969; Price, Drovandi, Lee & Nott 2018, section 2): with
c(d, v) = 2^{−dv/2} π^{−d(d−1)/4} / Π_{i=1}^d Γ((v − i + 1)/2), for R > d + 3,

    (2π)^{−d/2} c(d, R−2) / [c(d, R−1) (1 − 1/R)^{d/2}] |M|^{−(R−d−2)/2} |M − u uᵀ/(1 − 1/R)|₊^{(R−d−3)/2},

which is 0 where M − u uᵀ/(1 − 1/R) is not positive definite. By the determinant lemma the last factor is
|M| (1 − D/(1 − 1/R)) with D = uᵀ M⁻¹ u.

*Variance*. To first order in 1/R, log N(s*; m, S) has variance (d + δ⁴)/(2R), δ² the squared Mahalanobis distance of
the data: var log|S| = 2d/R, the mean adds 4δ²/R to that of uᵀS⁻¹u, S adds 2δ⁴/R, and the covariance of both, −2δ²/R,
takes the middle term away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from fbar.arrays import BoolArray, FloatArray, IntArray

SINGULAR = 1e-12
"""Covariances whose correlation matrix has a smaller reciprocal condition, about, count as singular."""


@dataclass(frozen=True, eq=False)
class NormalFit:
    """Mean, covariance and number of the simulations at each of n draws of θ, failed ones left out.

    ``regular`` says where the covariance can be inverted; ``mahalanobis`` is uᵀS⁻¹u there, and
    ``log_determinant`` log |S|.
    """

    count: IntArray
    mahalanobis: FloatArray
    log_determinant: FloatArray
    regular: BoolArray
    dimension: int

    @staticmethod
    def of(summaries: FloatArray, failed: BoolArray, observed: FloatArray, shrinkage: float = 0.0) -> NormalFit:
        """From simulations (n, R, d). ``shrinkage`` γ multiplies correlations by 1 − γ (Warton 2008)."""
        n, _, d = summaries.shape
        used = (~failed)[:, :, None]
        count = used.sum(axis=(1, 2))
        values = np.where(used, summaries, 0.0)
        mean = values.sum(axis=1) / np.maximum(count, 1)[:, None]
        centred = np.where(used, values - mean[:, None, :], 0.0)
        covariance = np.einsum("nri,nrj->nij", centred, centred) / np.maximum(count - 1, 1)[:, None, None]
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        constant = ~(scale > 0).all(axis=1)
        safe = np.where(scale > 0, scale, 1.0)
        correlation = covariance / (safe[:, :, None] * safe[:, None, :])
        correlation *= 1 - shrinkage
        correlation[:, np.arange(d), np.arange(d)] = 1.0
        regular = ~constant & (count > (1 if shrinkage else d))
        log_determinant, mahalanobis = np.full(n, np.nan), np.full(n, np.nan)
        at = np.flatnonzero(regular)
        if at.size:
            low = np.linalg.eigvalsh(correlation[at])[:, 0]
            regular[at] = low > SINGULAR
            at = at[low > SINGULAR]
        if at.size:
            factor = np.linalg.cholesky(correlation[at])
            u = ((observed - mean[at]) / safe[at])[:, :, None]
            solved = np.linalg.solve(factor, u)[:, :, 0]
            mahalanobis[at] = (solved**2).sum(axis=1)
            diagonal = np.diagonal(factor, axis1=1, axis2=2)
            log_determinant[at] = 2 * (np.log(diagonal).sum(axis=1) + np.log(safe[at]).sum(axis=1))
        return NormalFit(count, mahalanobis, log_determinant, regular, d)

    @property
    def log_plugged_in(self) -> FloatArray:
        """log N(s*; m, S); −∞ where the covariance is singular."""
        found = -0.5 * (self.dimension * math.log(2 * math.pi) + self.log_determinant + self.mahalanobis)
        return np.where(self.regular, found, -np.inf)

    @property
    def log_unbiased(self) -> FloatArray:
        """The logarithm of Ghurye & Olkin's estimate; −∞ where it is 0, and with too few simulations."""
        d, r = self.dimension, self.count.astype(np.float64)
        enough = self.regular & (r > d + 3)
        r = np.where(enough, r, d + 4.0)
        one = 1 - 1 / r
        rest = 1 - np.where(enough, self.mahalanobis, 0.0) / ((r - 1) * one)
        log_m = np.where(enough, self.log_determinant, 0.0) + d * np.log(r - 1)  # of M = (R − 1) S
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (
                -0.5 * d * math.log(2 * math.pi)
                + _log_c(d, r - 2)
                - _log_c(d, r - 1)
                - 0.5 * d * np.log(one)
                - 0.5 * (r - d - 2) * log_m
                + 0.5 * (r - d - 3) * (log_m + np.log(np.maximum(rest, 0.0)))
            )
        return np.where(enough & (rest > 0), found, -np.inf)

    @property
    def log_variance(self) -> FloatArray:
        """(d + δ⁴)/(2R)."""
        return np.asarray((self.dimension + self.mahalanobis**2) / (2 * np.maximum(self.count, 1)))


def _log_c(d: int, v: FloatArray) -> FloatArray:
    """log c(d, v)."""
    gammas = sum(gammaln((v - i + 1) / 2) for i in range(1, d + 1))
    return np.asarray(-0.5 * d * v * math.log(2) - 0.25 * d * (d - 1) * math.log(math.pi) - gammas)
