"""Stage 1: every draw of a region is moved to the data by a cross-fitted regression of θ on the summaries.

In coordinates v of θ (`fbar.estimation.at_data.prepared`) and x, a polynomial in the whitened summaries of the region
that is centred at the data (x* = (1, 0, …)), v = x β + σ(s) e is fitted by weighted ridge regression with the weights
Ω = w K(Δ/H), and log σ² by a linear one of the squared residuals. The coefficients that move a draw come from the
other folds only:

    v* = x*ᵀβ̂₋ₖ + (v − xᵀβ̂₋ₖ) σ̂₋ₖ(s*)/σ̂₋ₖ(s).

Where the regression is right and e has the same distribution at every s, v* are draws from the posterior at the data,
however wide the region is; where it is not, the local regression of stage 2 corrects for it.

β̂ is an estimate from the same simulations. To first order δβ̂₋ₖ = G₋ₖ⁻¹ Σ_{i∉k} Ω_i x_i r_i with the residuals r, and
an estimate Σ π ψ(v*) moves with β̂₋ₖ by C_k = Σ_{j∈k} π_j (x* − φ_j x_j) ∂ψ/∂v_j, φ the factor σ̂(s*)/σ̂(s). So simulation
i has the influence Σ_{k≠k(i)} C_kᵀ G₋ₖ⁻¹ Ω_i x_i r_i in addition to that of stage 2. r is taken out of fold too, since
residuals of the fit itself are too small, by a factor 1 − leverage. The influence of σ̂ is left out.

Models of a choice have regressions of their own: a draw stays in its model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.nearness import whitening
from fbar.estimation.at_data.prepared import FOLDS, REACH, Prepared
from fbar.weights import effective_size

RIDGE, SCALE_RIDGE = 1e-3, 0.02
"""Penalties of the regressions of v and of its log variance, whose regressors have variance 1."""

FLOOR = 0.01
"""What is added to squared residuals before the logarithm is taken, in units of their mean."""

MOST_STRETCH = 1.0
"""A draw's residual is stretched or shrunk by at most e to this power."""

LEAST_OTHERS = 0.4
"""The effective share of the simulations that a fold's regression must be fitted to."""

EACH, EACH_SQUARE = 4, 8
"""Effective simulations for each coefficient of a linear and of a quadratic regression, at least."""


@dataclass(frozen=True, eq=False)
class _Fold:
    """A fold's fit in one model: its own rows, the others, to which it was fitted, and what their influence needs."""

    own: IntArray
    others: IntArray
    x_own: FloatArray
    x_others: FloatArray
    inverse: FloatArray
    pull: FloatArray
    """Ω over ΣΩ of the others times their residuals out of fold, shape (n, D)."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A region's draws at the data.

    ``rows`` are numbers in what was prepared; ``u`` the whitened summaries, ``radius`` the distances; ``v`` the moved
    coordinates and ``spread`` the deviation of their residuals; ``factor`` what the residuals were multiplied by.
    """

    prepared: Prepared
    share: float
    order: int
    rows: IntArray
    w: FloatArray
    radius: FloatArray
    u: FloatArray
    v: FloatArray
    factor: FloatArray
    spread: FloatArray
    centre: FloatArray
    folds: tuple[_Fold, ...]

    def __len__(self) -> int:
        return self.rows.size

    def influence(self, gradient: FloatArray, at: IntArray) -> FloatArray:
        """What the regressions add to the influence values: shape (n, m).

        ``gradient`` is π ∂ψ/∂v at the rows ``at`` of the region, shape (len(at), D, m); or (len(at), m) where number j
        depends on the coordinate j mod D only.
        """
        size, d = gradient.shape[-1], self.v.shape[1]
        result = np.zeros((len(self), size))
        place = np.full(len(self), -1)
        place[at] = np.arange(at.size)
        own_only = gradient.ndim == 2
        column = np.arange(size) % max(d, 1)
        for fold in self.folds:
            inside = np.flatnonzero(place[fold.own] >= 0)
            if not inside.size:
                continue
            mine, x = fold.own[inside], fold.x_own[inside]
            g = gradient[place[mine]]
            stretched = g * (self.factor[mine][:, column] if own_only else self.factor[mine][:, :, None])
            moves = -(x.T @ stretched.reshape(mine.size, -1))
            moves[0] += g.reshape(mine.size, -1).sum(axis=0)
            slopes = fold.x_others @ (fold.inverse @ moves)
            if own_only:
                result[fold.others] += slopes * fold.pull[:, column]
            else:
                result[fold.others] += np.einsum("idm,id->im", slopes.reshape(-1, d, size), fold.pull)
        return result


def polynomial(u: FloatArray, order: int) -> FloatArray:
    """1, u and for the second order all products of two."""
    columns = [np.ones((len(u), 1)), u]
    if order == 2:
        first, second = np.triu_indices(u.shape[1])
        columns.append(u[:, first] * u[:, second])
    return np.concatenate(columns, axis=1)


def columns_of(dimension: int, order: int) -> int:
    """The coefficients of a polynomial."""
    return 1 + dimension + (dimension * (dimension + 1) // 2 if order == 2 else 0)


def kernel(radius: FloatArray, bandwidth: float) -> FloatArray:
    """Epanechnikov's: 1 − (Δ/h)², and 1 for what is at the data themselves."""
    if not bandwidth > 0:
        return np.ones(radius.shape)
    return np.asarray(np.maximum(1 - (radius / (bandwidth * (1 + 1e-7))) ** 2, 0.0))


def move(prepared: Prepared, share: float, order: int) -> Moved | None:
    """Move the nearest ``share`` of the simulations to the data; None where they are too few for the order."""
    bandwidth = float(np.quantile(prepared.radius, share))
    rows = np.flatnonzero(prepared.radius <= bandwidth)
    omega = prepared.w[rows] * kernel(prepared.radius[rows], bandwidth)
    rows, omega = rows[omega > 0], omega[omega > 0]
    if rows.size < 2 * FOLDS:
        return None
    omega = omega / omega.max()
    z, v, model = prepared.z[rows], prepared.v[rows], prepared.model[rows]
    u = z @ whitening(z, omega)
    folds: list[_Fold] = []
    moved, factor = v.copy(), np.ones_like(v)
    residuals = np.zeros_like(v)
    for m in np.unique(model):
        mine = np.flatnonzero(model == m)
        least = EACH if order == 1 else EACH_SQUARE
        if columns_of(u.shape[1], order) * least > effective_size(omega[mine]):
            if model.max() == 0 or order == 2:
                return None
            residuals[mine] = v[mine] - np.average(v[mine], axis=0, weights=omega[mine])
            continue
        folds += _cross_fitted(
            polynomial(u[mine], order),
            u[mine],
            v[mine],
            omega[mine],
            _balanced(prepared.fold[rows][mine], omega[mine]),
            mine,
            residuals,
            moved,
            factor,
        )
    spread = np.sqrt(np.average(residuals**2, axis=0, weights=omega))
    names = len(prepared.moving)
    moved[:, :names] = np.clip(moved[:, :names], -REACH, REACH)
    for k in range(names, moved.shape[1]):  # a recorded number stays where such numbers were seen
        moved[:, k] = np.clip(moved[:, k], v[:, k].min(), v[:, k].max())
    return Moved(
        prepared,
        share,
        order,
        rows,
        prepared.w[rows] / prepared.w[rows].max(),
        prepared.radius[rows],
        u,
        moved,
        factor,
        spread,
        np.average(moved, axis=0, weights=omega),
        tuple(folds),
    )


def _cross_fitted(
    x: FloatArray,
    u: FloatArray,
    v: FloatArray,
    omega: FloatArray,
    fold: IntArray,
    rows: IntArray,
    residuals: FloatArray,
    moved: FloatArray,
    factor: FloatArray,
) -> list[_Fold]:
    """One model's regressions; fills in the residuals, the moved coordinates and the factors of its ``rows``."""
    fitted: list[tuple[IntArray, IntArray, FloatArray]] = []
    residual, middles = np.zeros_like(v), np.zeros_like(v)
    for k in np.unique(fold):
        own, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        total = float(omega[others].sum())
        weighted = x[others] * (omega[others, None] / total)
        gram = weighted.T @ x[others] + np.diag(np.r_[1e-12, np.full(x.shape[1] - 1, RIDGE)])
        inverse = np.linalg.inv(gram)
        beta = inverse @ (weighted.T @ v[others])
        residual[own], middles[own] = v[own] - x[own] @ beta, beta[0]
        fitted.append((own, others, inverse))
    stretch = _stretch(u, residual, omega, fold)
    residuals[rows], factor[rows] = residual, stretch
    moved[rows] = middles + residual * stretch
    return [
        _Fold(
            rows[own],
            rows[others],
            x[own],
            x[others],
            inverse,
            residual[others] * (omega[others, None] / omega[others].sum()),
        )
        for own, others, inverse in fitted
    ]


def _balanced(fold: IntArray, omega: FloatArray) -> IntArray:
    """The folds; equal parts in their place where one of them has most of the weight, so that little is left to fit."""
    whole = effective_size(omega)
    for k in np.unique(fold):
        others = omega[fold != k]
        if not others.any() or effective_size(others) < LEAST_OTHERS * whole:
            return np.arange(fold.size, dtype=np.int64) % FOLDS
    return fold


def _stretch(u: FloatArray, residual: FloatArray, omega: FloatArray, fold: IntArray) -> FloatArray:
    """σ̂(s*)/σ̂(s) of every row, each from the other folds."""
    x = polynomial(u, 1)
    mean = np.average(residual**2, axis=0, weights=omega)
    logs = np.log(residual**2 + FLOOR * mean + 1e-300)
    result = np.ones_like(residual)
    for k in np.unique(fold):
        own, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        weighted = x[others] * (omega[others, None] / omega[others].sum())
        gram = weighted.T @ x[others] + np.diag(np.r_[1e-12, np.full(x.shape[1] - 1, SCALE_RIDGE)])
        gamma = np.linalg.solve(gram, weighted.T @ logs[others])
        result[own] = np.exp(np.clip(-(u[own] @ gamma[1:]) / 2, -MOST_STRETCH, MOST_STRETCH))
    return result
