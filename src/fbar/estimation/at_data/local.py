"""Stage 2: a local linear regression at the data, of functions of the moved draws of a region.

The draws within a bandwidth h have the weights ω ∝ w K(Δ/h), Σ ω = 1. With the whitened summaries u, which are 0 at the
data, X = (1, u) and G = XᵀωX + R, R a small ridge that leaves the first coefficient free, the local linear estimate of
E[f | s*] is Σ ℓ f with

    ℓ_i = ω_i e₁ᵀG⁻¹X_i    (the equivalent kernel),    Σ ℓ = 1,    Σ ℓ u ≈ 0.

Simulations whose ℓ is negative are left out, those that lie farthest on the side where there are most of them, and ℓ is
computed again until all are positive. Then ℓ are the weights of the sample: its moments, quantiles and probabilities
are the estimates, a variance cannot be negative, and nothing is expanded about the local constant estimate, whose mean
can be several posterior deviations from the one at the data. Where that leaves too few (the data are at the edge of
what the simulator gives), nothing is left out: the sample keeps ω, and Σ (ℓ − ω) ψ is added to its values. The same is
done where it would cost over half of the effective simulations, except within one model with one or two given
summaries: there it is better to have few simulations beside the data than many on one side of them.

To first order the error is Σ z with z_i = ℓ_i (ψ_i − X_iᵀβ̂)/(1 − λ_i), β̂ = G⁻¹Xᵀωψ and the leverage
λ_i = ω_i X_iᵀG⁻¹X_i. X_iᵀG⁻¹X_i − 1 is the squared distance of a simulation from the middle of the weighted ones, in
units of their spread (Mahalanobis), and e₁ᵀG⁻¹e₁ − 1 that of the data. Where hardly a simulation is farther out than
the data, the regression extrapolates.

In a choice of models, the models' probabilities are those of a logistic regression with the same X and ω
(`fbar.estimation.at_data.model_shares`), and the weights of each model's draws are scaled to them. ψ is divided into
its mean μ_m within each model, whose error is Σ_m μ_m z_m with the influence z_m of the probability of model m, and
what is left of it, which has the z above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.model_shares import ModelShares, model_shares
from fbar.estimation.at_data.moving import EACH, Moved, kernel
from fbar.estimation.at_data.regressors import RIDGE, columns_of, polynomial
from fbar.weights import effective_size

LEAST_VARIANCE = 1e-9
"""The share of the mean square that a variance is taken for at least."""

MOST_LEVERAGE = 0.8

TIMES = 20
"""How often simulations of negative weight are left out."""

LEAST_LEFT, FEW_DIMENSIONS = 0.5, 2
"""The share of the effective simulations that must be left then, unless a few summaries are given."""


@dataclass(frozen=True, eq=False)
class Local:
    """Rows ``at`` of a region with the weights ``omega`` of the sample and ``ell`` of the local linear estimate.

    ``kernel`` are the weights ω of the regression; ``omega`` those of the sample, which are ℓ where that is positive.
    ``curvature`` is the mean squared distance in the sample: what a bias is proportional to. ``farther`` is the share
    of the rows within the bandwidth that are at least as far from their middle as the data. ``models`` are the
    probabilities of the models of a choice.
    """

    at: IntArray
    omega: FloatArray
    kernel: FloatArray
    ell: FloatArray
    x: FloatArray
    inverse: FloatArray
    leverage: FloatArray
    curvature: float
    farther: float
    models: ModelShares | None = None

    @property
    def ess(self) -> float:
        """1/Σℓ²: how many equally weighted draws would be as good."""
        return float(1 / (self.ell**2).sum())

    def correction(self, psi: FloatArray) -> FloatArray:
        """What the linear regression adds to the sample's own value, for numbers whose ψ are the columns."""
        return np.asarray((self.ell - self.omega) @ psi)

    def residuals(self, psi: FloatArray) -> FloatArray:
        """z of each of its rows."""
        if self.models is None:
            return self._linear_residuals(psi)
        means = self.models.means(self.ell, psi)
        return self._linear_residuals(psi - means[self.models.model]) + self.models.influence @ means

    def _linear_residuals(self, psi: FloatArray) -> FloatArray:
        beta = self.inverse @ ((self.kernel[:, None] * self.x).T @ psi)
        left = self.x @ beta
        np.subtract(psi, left, out=left)
        left *= (self.ell / (1 - self.leverage))[:, None]
        return np.asarray(left)


def local(moved: Moved, share: float, order: int = 1) -> Local | None:
    """The local regression over the nearest ``share`` of a region; None where that has too few simulations."""
    bandwidth = float(np.quantile(moved.radius, share))
    at = np.flatnonzero(moved.radius <= bandwidth)
    omega = moved.w[at] * kernel(moved.radius[at], bandwidth)
    at, omega = at[omega > 0], omega[omega > 0]
    if not at.size or effective_size(omega) < EACH * columns_of(moved.u.shape[1], order):
        return None
    omega = omega / omega.sum()
    x = polynomial(moved.u[at], order)
    ridge = _ridge(x, omega)
    inverse, ell = _equivalent(x, omega, ridge)
    away = ((x @ inverse) * x).sum(axis=1)
    farther = float((away >= inverse[0, 0] * (1 - 1e-9)).mean())
    few = moved.prepared.simple and moved.u.shape[1] <= FEW_DIMENSIONS
    kept = _positive(x, omega, ell, 0.0 if few else LEAST_LEFT) if order == 1 else None
    if kept is not None:
        at, x, omega = at[kept], x[kept], omega[kept] / omega[kept].sum()
        ridge = _ridge(x, omega)
        inverse, ell = _equivalent(x, omega, ridge)
        away = ((x @ inverse) * x).sum(axis=1)
    sample = omega if kept is None else ell
    models = None
    if moved.prepared.model.max() > 0:
        models = model_shares(x, omega, ridge, moved.prepared.model[moved.rows[at]])
    if models is not None:
        sample, ell = models.given(sample, omega), models.given(ell, omega)
    leverage = np.minimum(omega * away, MOST_LEVERAGE)
    curvature = float(sample @ moved.radius[at] ** 2)
    return Local(at, sample, omega, ell, x, inverse, leverage, curvature, farther, models)


def _ridge(x: FloatArray, omega: FloatArray) -> FloatArray:
    """R of each column, in units of its variance under ω.

    It is more than rounding also where all draws are at one place far from the data.
    """
    away = x - omega @ x
    variance = omega @ np.square(away, out=away)
    square = omega @ np.square(x, out=away)
    ridge = RIDGE * np.maximum(variance, np.maximum(LEAST_VARIANCE * square, 1e-6))
    ridge[0] = 0.0
    return np.asarray(ridge)


def _equivalent(x: FloatArray, omega: FloatArray, ridge: FloatArray) -> tuple[FloatArray, FloatArray]:
    """G⁻¹ and ℓ."""
    inverse = np.linalg.inv((omega[:, None] * x).T @ x + np.diag(ridge))
    return np.asarray(inverse, dtype=np.float64), np.asarray(omega * (x @ inverse[:, 0]))


def _positive(x: FloatArray, omega: FloatArray, ell: FloatArray, left: float) -> IntArray | None:
    """The rows whose ℓ are all positive when the others are left out; None where they are too few.

    ``left`` is the share of the effective simulations that they must be.
    """
    kept, columns = np.arange(len(x)), x.shape[1]
    least, most = EACH * columns, float((ell**2).sum()) / left if left else math.inf
    for _ in range(TIMES):
        good = ell > 0
        if good.all():
            return kept if float((ell**2).sum()) <= most else None
        kept = kept[good]
        own = omega[kept]
        if effective_size(own) < least:
            return None
        own = own / own.sum()
        ell = _equivalent(x[kept], own, _ridge(x[kept], own))[1]
    return None
