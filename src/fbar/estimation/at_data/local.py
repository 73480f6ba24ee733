"""Stage 2: a local linear regression at the data, of what the moved draws of a region say.

The draws within a bandwidth h have the weights ω = w K(Δ/h), Σ ω = 1. The sample that they make is the local constant
estimate. With u the whitened summaries (0 at the data), X = (1, u), the local linear estimate of Σ π ψ is Σ ℓ ψ,

    ℓ_i = ω_i (1 + (X̄* )ᵀ…)  =  e₁ᵀ(XᵀωX + R)⁻¹ X_i ω_i    (the equivalent kernel),

which is ω less its linear dependence on the summaries; R is a small ridge. To first order its error is Σ z,
z_i = ℓ_i (ψ_i − X_iᵀβ̂)/(1 − leverage_i), leverage_i = ω_i X_iᵀ(XᵀωX + R)⁻¹X_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.moving import EACH, Moved, kernel, polynomial
from fbar.weights import effective_size

RIDGE = 1e-3
"""In units of the summaries' variance under ω."""

MOST_LEVERAGE = 0.8


@dataclass(frozen=True, eq=False)
class Local:
    """Rows ``at`` of a region with the weights ``omega`` of the sample and ``ell`` of the local linear estimate.

    ``curvature`` is the mean squared distance under ω: what a bias is proportional to.
    """

    at: IntArray
    omega: FloatArray
    ell: FloatArray
    x: FloatArray
    inverse: FloatArray
    leverage: FloatArray
    curvature: float

    @property
    def ess(self) -> float:
        """1/Σℓ²: how many equally weighted draws would be as good."""
        return float(1 / (self.ell**2).sum())

    def correction(self, psi: FloatArray) -> FloatArray:
        """What the linear regression adds to the sample's own value, for numbers whose ψ are the columns."""
        return np.asarray((self.ell - self.omega) @ psi)

    def residuals(self, psi: FloatArray) -> FloatArray:
        """z of each of its rows."""
        beta = self.inverse @ ((self.omega[:, None] * self.x).T @ psi)
        return np.asarray((self.ell / (1 - self.leverage))[:, None] * (psi - self.x @ beta))


def local(moved: Moved, share: float, order: int = 1) -> Local | None:
    """The local regression over the nearest ``share`` of a region; None where that has too few simulations."""
    bandwidth = float(np.quantile(moved.radius, share))
    at = np.flatnonzero(moved.radius <= bandwidth)
    omega = moved.w[at] * kernel(moved.radius[at], bandwidth)
    at, omega = at[omega > 0], omega[omega > 0]
    u = polynomial(moved.u[at], order)[:, 1:]
    if effective_size(omega) < EACH * (u.shape[1] + 1):
        return None
    omega = omega / omega.sum()
    curvature = float(omega @ moved.radius[at] ** 2)
    x = np.concatenate([np.ones((at.size, 1)), u], axis=1)
    middle = omega @ u
    ridge = np.diag(np.r_[0.0, RIDGE * np.maximum(omega @ (u - middle) ** 2, 1e-6)])
    inverse = np.linalg.inv((omega[:, None] * x).T @ x + ridge)
    weighted = x @ inverse
    ell = omega * weighted[:, 0]
    leverage = np.minimum(omega * (weighted * x).sum(axis=1), MOST_LEVERAGE)
    return Local(at, omega, ell, x, inverse, leverage, curvature)
