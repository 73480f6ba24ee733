"""Stage 2: a local linear regression at the data, of what the moved draws of a region say.

The draws within a bandwidth h have the weights ω = w K(Δ/h), Σ ω = 1. With u the whitened summaries (0 at the data),
X = (1, u), the local linear estimate of E[f | s*] is Σ ℓ f with the equivalent kernel

    ℓ_i = e₁ᵀ(XᵀωX + R)⁻¹ X_i ω_i    (R is a small ridge).

Simulations whose ℓ is negative are left out, those that lie farthest on the side where there are most of them, and ℓ is
computed again until all are positive. Then ℓ are the weights of the sample: its moments, quantiles and probabilities
are the estimates, a variance cannot be negative, and nothing is expanded about the local constant estimate, whose mean
can be several posterior deviations from the one at the data. Where that leaves too few (the data are at the edge of
what the simulator gives), or in more than two dimensions would cost over half of the effective simulations, nothing is
left out: the sample keeps ω, and Σ (ℓ − ω) ψ is added to its values.

To first order the error is Σ z, z_i = ℓ_i (ψ_i − X_iᵀβ̂)/(1 − leverage_i), leverage_i = ω_i X_iᵀ(XᵀωX + R)⁻¹X_i.
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

TIMES = 20
"""How often simulations of negative weight are left out."""

LEAST_LEFT, FEW_DIMENSIONS = 0.5, 2
"""The share of the effective simulations that must be left then, in more dimensions than a few."""


@dataclass(frozen=True, eq=False)
class Local:
    """Rows ``at`` of a region with the weights ``omega`` of the sample and ``ell`` of the local linear estimate.

    ``kernel`` are the weights of the regression, 0 for what was left out; ``curvature`` is the mean squared distance
    under ω: what a bias is proportional to.
    """

    at: IntArray
    omega: FloatArray
    kernel: FloatArray
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
        beta = self.inverse @ ((self.kernel[:, None] * self.x).T @ psi)
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
    x = np.concatenate([np.ones((at.size, 1)), u], axis=1)
    omega = omega / omega.sum()
    weights = omega
    inverse, ell = _equivalent(x, weights)
    positive = _positive(x, weights, inverse, ell) if order == 1 else None
    if positive is not None:
        weights, inverse, ell = positive
        omega = ell
    leverage = np.minimum(weights * ((x @ inverse) * x).sum(axis=1), MOST_LEVERAGE)
    return Local(at, omega, weights, ell, x, inverse, leverage, float(omega @ moved.radius[at] ** 2))


def _equivalent(x: FloatArray, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(XᵀωX + R)⁻¹ and ℓ."""
    u = x[:, 1:]
    ridge = np.diag(np.r_[0.0, RIDGE * np.maximum(omega @ (u - omega @ u) ** 2, 1e-6)])
    inverse = np.linalg.inv((omega[:, None] * x).T @ x + ridge)
    return inverse, omega * (x @ inverse[:, 0])


def _positive(
    x: FloatArray, omega: FloatArray, inverse: FloatArray, ell: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """ω, (XᵀωX + R)⁻¹ and ℓ without the simulations of negative ℓ; None where too few are left."""
    squares, columns = float((ell**2).sum()), x.shape[1]
    few = columns <= FEW_DIMENSIONS + 1
    least, most = (columns + 1, np.inf) if few else (EACH * columns, squares / LEAST_LEFT)
    for _ in range(TIMES):
        if (ell >= 0).all():
            return (omega, inverse, ell) if float((ell**2).sum()) <= most else None
        omega = np.where(ell > 0, omega, 0.0)
        omega = omega / omega.sum()
        if effective_size(omega) < least:
            return None
        inverse, ell = _equivalent(x, omega)
    return None
