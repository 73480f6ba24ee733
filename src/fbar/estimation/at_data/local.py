"""Stage 2: a local linear regression at the data, of functions of the moved draws of a region.

The draws within a bandwidth h have the weights ω ∝ w K(Δ/h), Σ ω = 1. The sample that they make is the local constant
estimate. With the whitened summaries u, which are 0 at the data, X = (1, u) and G = XᵀωX + R, R a small ridge that
leaves the first coefficient free, the local linear estimate is Σ ℓ ψ with

    ℓ_i = ω_i e₁ᵀG⁻¹X_i    (the equivalent kernel),    Σ ℓ = 1,    Σ ℓ u ≈ 0.

It adds Σ (ℓ − ω) ψ to the sample's own value. To first order its error is Σ z with z_i = ℓ_i (ψ_i − X_iᵀβ̂)/(1 − λ_i),
β̂ = G⁻¹Xᵀωψ and the leverage λ_i = ω_i X_iᵀG⁻¹X_i.

X_iᵀG⁻¹X_i − 1 is the squared distance of a simulation from the middle of the weighted ones, in units of their spread
(Mahalanobis), and e₁ᵀG⁻¹e₁ − 1 that of the data. Where hardly a simulation is farther out than the data, the regression
extrapolates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.moving import EACH, Moved, columns_of, kernel, polynomial
from fbar.weights import effective_size

RIDGE = 1e-3
"""In units of the summaries' variance under ω."""

MOST_LEVERAGE = 0.8


@dataclass(frozen=True, eq=False)
class Local:
    """Rows ``at`` of a region with the weights ``omega`` of the sample and ``ell`` of the local linear estimate.

    ``curvature`` is the mean squared distance under ω: what a bias is proportional to. ``farther`` is the share of the
    rows that are at least as far from their middle as the data.
    """

    at: IntArray
    omega: FloatArray
    ell: FloatArray
    x: FloatArray
    inverse: FloatArray
    leverage: FloatArray
    curvature: float
    farther: float

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
    if not at.size or effective_size(omega) < EACH * columns_of(moved.u.shape[1], order):
        return None
    omega = omega / omega.sum()
    curvature = float(omega @ moved.radius[at] ** 2)
    x = polynomial(moved.u[at], order)
    middle = omega @ x
    ridge = RIDGE * np.maximum(omega @ (x - middle) ** 2, 1e-6)
    ridge[0] = 0.0
    inverse = np.linalg.inv((omega[:, None] * x).T @ x + np.diag(ridge))
    weighted = x @ inverse
    ell = omega * weighted[:, 0]
    away = (weighted * x).sum(axis=1)
    farther = float((away >= inverse[0, 0] * (1 - 1e-9)).mean())
    return Local(at, omega, ell, x, inverse, np.minimum(omega * away, MOST_LEVERAGE), curvature, farther)
