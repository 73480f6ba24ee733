"""Stage 1: every draw of a region is moved to the data by a cross-fitted regression of θ on the summaries.

In coordinates v of θ (`fbar.estimation.at_data.prepared`) and x, a polynomial in the whitened summaries of the region
that is centred at the data (x* = (1, 0, …)), v = x β + σ(s) e is fitted by weighted ridge regression with the weights
Ω = √w K(Δ/H), and log σ² by one of the squared residuals. The coefficients that move a draw come from the other folds
only:

    v* = x*ᵀβ̂₋ₖ + (v − xᵀβ̂₋ₖ) σ̂₋ₖ(s*)/σ̂₋ₖ(s).

Where the regression is right and e has the same distribution at every s, v* are draws from the posterior at the data,
however wide the region is; where it is not, the local regression of stage 2 corrects for it.

With √w in place of w = p/q, far more simulations count: after several rounds the weights differ by orders of
magnitude, and a quadratic regression with w rests on a few hundred of ten thousand simulations. The regression is then
that of θ under the prior √(p q̄), whose slopes may be others. Stage 2, which has the right weights, corrects that: the
local linear estimate of E[v | s*] is the same for any linear slopes that the draws were moved by.

β̂ is an estimate from the same simulations. To first order δβ̂₋ₖ = G₋ₖ⁻¹ Σ_{i∉k} Ω_i x_i r_i with the residuals r, and
an estimate Σ π ψ(v*) moves with β̂₋ₖ by C_k = Σ_{j∈k} π_j (x* − φ_j x_j) ∂ψ/∂v_j, φ the factor σ̂(s*)/σ̂(s). So simulation
i has the influence Σ_{k≠k(i)} C_kᵀ G₋ₖ⁻¹ Ω_i x_i r_i in addition to that of stage 2. r is taken out of fold too, since
residuals of the fit itself are too small, by a factor 1 − leverage. The influence of σ̂ is left out.

Where many summaries are given, and simulations are enough, x may have the cubes of the parameters' indices, and log σ²
their squares (`fbar.estimation.at_data.regressors`). Learned summaries are themselves curved
regressions of the parameters on the data, which leaves such terms little to do.

Models of a choice have regressions of their own: a draw stays in its model. So have the parts of the draws that a gap
separates (`fbar.estimation.at_data.modes`), where summaries are few. Of order 0, nothing is moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.at_data.modes import parts
from fbar.estimation.at_data.nearness import whitening
from fbar.estimation.at_data.prepared import FOLDS, REACH, Prepared
from fbar.estimation.at_data.regressors import RIDGE, columns_of, indices, regressors
from fbar.weights import effective_size

SCALE_RIDGE = 0.02
"""The penalty of the regression of a log variance."""

FLOOR = 0.01
"""What is added to squared residuals before the logarithm is taken, in units of their mean."""

CHANCE = 1.0
"""Standard errors by which squares must predict log r² better."""

MOST_STRETCH = 1.0
"""A draw's residual is stretched or shrunk by at most e to this power."""

LEAST_OTHERS = 0.4
"""The effective share of the simulations that a fold's regression must be fitted to."""

EACH, EACH_HIGHER = 4, 8
"""Effective simulations for each coefficient of a linear regression and of one of higher order, at least."""


@dataclass(frozen=True, eq=False)
class _Fold:
    """A fold of a part's rows: these, their x, and G⁻¹ over ΣΩ of the fit to the other folds of the ``part``."""

    part: int
    own: IntArray
    x: FloatArray
    inverse: FloatArray


@dataclass(frozen=True, eq=False)
class Moved:
    """A region's draws at the data.

    ``rows`` are numbers in what was prepared; ``u`` the whitened summaries, ``radius`` the distances; ``v`` the moved
    coordinates and ``spread`` the deviation of their residuals; ``factor`` what the residuals were multiplied by, and
    ``pull`` is Ω r. ``scales`` are the logarithms of the factors, by the most flexible regression that there is.
    ``parts`` is the number of parts with a gap between them.
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
    pull: FloatArray
    spread: FloatArray
    folds: tuple[_Fold, ...]
    scales: FloatArray
    parts: int = 1

    def __len__(self) -> int:
        return self.rows.size

    @property
    def seen(self) -> Moved:
        """The draws in the directions of the parameters, in which moments are taken."""
        return self if self.prepared.directions is None else self.along(self.prepared.directions)

    def along(self, directions: FloatArray) -> Moved:
        """The same in other coordinates v·d. Where scales change, each has a mean of those of its coordinates."""
        v = self.v @ directions
        parts = (directions * self.spread[:, None]) ** 2
        factor = self.factor @ (parts / np.maximum(parts.sum(axis=0), 1e-300))
        spread = np.sqrt(np.average((v - np.average(v, axis=0, weights=self.w)) ** 2, axis=0, weights=self.w))
        return replace(self, v=v, factor=factor, pull=self.pull @ directions, spread=spread)

    def influence(self, gradient: FloatArray, at: IntArray, result: FloatArray | None = None) -> FloatArray:
        """What the regressions add to the influence values: shape (n, m), in place of the ``result`` if that is given.

        ``gradient`` is π ∂ψ/∂v at the rows ``at`` of the region, shape (len(at), D, m); or (len(at), m) where number j
        depends on the coordinate j mod D only.
        """
        size, d = gradient.shape[-1], self.v.shape[1]
        result = np.zeros((len(self), size)) if result is None else result
        place = np.full(len(self), -1)
        place[at] = np.arange(at.size)
        of_one_coordinate = gradient.ndim == 2
        for part in dict.fromkeys(fold.part for fold in self.folds):
            folds = [fold for fold in self.folds if fold.part == part]
            slopes = [self._slopes(fold, gradient, place) for fold in folds]
            total = np.sum(slopes, axis=0)
            for fold, own in zip(folds, slopes, strict=True):
                values = fold.x @ (total - own)
                pull = self.pull[fold.own]
                if of_one_coordinate:
                    each = values.reshape(-1, size // d, d)
                    each *= pull[:, None, :]
                    result[fold.own] = values
                else:
                    result[fold.own] = (values.reshape(-1, d, size) * pull[:, :, None]).sum(axis=1)
        return result

    def _slopes(self, fold: _Fold, gradient: FloatArray, place: IntArray) -> FloatArray:
        """G⁻¹C/ΣΩ of a fold, one column for each column of the gradient."""
        there = place[fold.own]
        inside = np.flatnonzero(there >= 0)
        mine = fold.own[inside]
        g = gradient[there[inside]]
        columns, d = math.prod(g.shape[1:]), self.v.shape[1]
        total = g.reshape(mine.size, columns).sum(axis=0)
        factor = self.factor[mine]
        if gradient.ndim == 2:
            each = g.reshape(mine.size, columns // d, d)
            each *= factor[:, None, :]
        else:
            g *= factor[:, :, None]
        x = fold.x if inside.size == fold.own.size else fold.x[inside]
        moves = -(x.T @ g.reshape(mine.size, columns))
        moves[0] += total
        return np.asarray(fold.inverse @ moves)


def kernel(radius: FloatArray, bandwidth: float) -> FloatArray:
    """Epanechnikov's: 1 − (Δ/h)², and 1 for what is at the data themselves."""
    if not bandwidth > 0:
        return np.ones(radius.shape)
    return np.asarray(np.maximum(1 - (radius / (bandwidth * (1 + 1e-7))) ** 2, 0.0))


def move(prepared: Prepared, share: float, order: int) -> Moved | None:
    """Move the nearest ``share`` of the simulations to the data; None where they are too few for the order."""
    bandwidth = float(np.quantile(prepared.radius, share))
    rows = np.flatnonzero(prepared.radius <= bandwidth)
    omega = np.sqrt(prepared.w[rows]) * kernel(prepared.radius[rows], bandwidth)
    rows, omega = rows[omega > 0], omega[omega > 0]
    if rows.size < 2 * FOLDS:
        return None
    omega = omega / omega.max()
    z, v, model = prepared.z[rows], prepared.v[rows], prepared.model[rows]
    u = z @ whitening(z, omega)
    part = parts(v[:, : len(prepared.moving)], omega) if prepared.simple else model
    folds: list[_Fold] = []
    scales = np.zeros_like(v)
    moved, factor = v.copy(), np.ones_like(v)
    residuals = v - np.average(v, axis=0, weights=omega) if order == 0 else np.zeros_like(v)
    for m in np.unique(part) if order else ():
        mine = np.flatnonzero(part == m)
        effective = effective_size(omega[mine])
        if columns_of(u.shape[1], order, v.shape[1]) * (EACH if order == 1 else EACH_HIGHER) > effective:
            if model.max() == 0 or order > 1:
                return None
            residuals[mine] = v[mine] - np.average(v[mine], axis=0, weights=omega[mine])
            continue
        own = _balanced(prepared.fold[rows][mine], omega[mine])
        enough = columns_of(u.shape[1], 3, v.shape[1]) * EACH_HIGHER <= effective
        bending = order == 3 or (prepared.bending and enough)
        index = indices(u[mine], v[mine], omega[mine]) if bending else np.empty((mine.size, 0))
        x = regressors(u[mine], index, order)
        fit = _cross_fitted(x, v[mine], omega[mine], own, RIDGE)
        scale, scales[mine] = _log_scales(x[:, : 1 + u.shape[1]], index, fit.residual, omega[mine], own)
        residuals[mine], factor[mine] = fit.residual, np.exp(scale)
        moved[mine] = fit.at_data + fit.residual * factor[mine]
        for k, inverse in enumerate(fit.inverses):
            at = np.flatnonzero(own == k)
            folds.append(_Fold(int(m), mine[at], x[at], inverse))
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
        omega[:, None] * residuals,
        spread,
        tuple(folds),
        scales,
        int(part.max()) + 1 if prepared.simple else 1,
    )


@dataclass(frozen=True, eq=False)
class _CrossFit:
    """The residuals y − xβ̂₋ₖ, the values at the data (the first coefficient), and G₋ₖ⁻¹/ΣΩ of every fold."""

    residual: FloatArray
    at_data: FloatArray
    inverses: list[FloatArray]


def _cross_fitted(x: FloatArray, y: FloatArray, omega: FloatArray, fold: IntArray, ridge: float) -> _CrossFit:
    """A weighted ridge regression of y on x, for each fold of 0, 1, … from the others."""
    penalty = np.diag(np.r_[1e-12, np.full(x.shape[1] - 1, ridge)])
    rows = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    sums = [float(omega[own].sum()) for own in rows]
    parts = [x[own] for own in rows]
    weighted = [part * omega[own, None] for part, own in zip(parts, rows, strict=True)]
    grams = [each.T @ part for each, part in zip(weighted, parts, strict=True)]
    products = [each.T @ y[own] for each, own in zip(weighted, rows, strict=True)]
    gram, product, total = np.sum(grams, axis=0), np.sum(products, axis=0), sum(sums)
    residual, at_data, inverses = np.zeros_like(y), np.zeros_like(y), []
    for k, own in enumerate(rows):
        others = total - sums[k]
        inverse = np.linalg.inv((gram - grams[k]) / others + penalty) / others
        beta = inverse @ (product - products[k])
        residual[own], at_data[own] = y[own] - parts[k] @ beta, beta[0]
        inverses.append(inverse)
    return _CrossFit(residual, at_data, inverses)


def _log_scales(
    x: FloatArray, index: FloatArray, residual: FloatArray, omega: FloatArray, fold: IntArray
) -> tuple[FloatArray, FloatArray]:
    """log σ̂(s*)/σ̂(s) that draws are scaled by, and with the squares of indices where there are any.

    Draws of a coordinate are scaled with squares if these predict log r² better out of fold, by more than chance. An
    error of a coefficient of t², which is 0 at the data and positive elsewhere, stretches all draws alike; one of u
    hardly does, since simulations lie on all sides of the data.
    """
    square = residual**2
    logs = np.log(square + FLOOR * np.average(square, axis=0, weights=omega) + 1e-300)
    linear = _cross_fitted(x, logs, omega, fold, SCALE_RIDGE)
    found = _scales(logs, linear)
    if not index.shape[1]:
        return found, found
    bent = _cross_fitted(np.hstack([x, index**2]), logs, omega, fold, SCALE_RIDGE)
    flexible = _scales(logs, bent)
    gain = omega[:, None] * (linear.residual**2 - bent.residual**2)
    better = gain.sum(axis=0) > CHANCE * np.sqrt((gain**2).sum(axis=0))
    return np.where(better, flexible, found), flexible


def _scales(logs: FloatArray, fit: _CrossFit) -> FloatArray:
    return np.asarray(np.clip((fit.at_data - (logs - fit.residual)) / 2, -MOST_STRETCH, MOST_STRETCH))


def _balanced(fold: IntArray, omega: FloatArray) -> IntArray:
    """The folds; equal parts in their place where one of them has most of the weight, so that little is left to fit."""
    labels, fold = np.unique(fold, return_inverse=True)
    whole = effective_size(omega)
    for k in range(labels.size):
        others = omega[fold != k]
        if not others.any() or effective_size(others) < LEAST_OTHERS * whole:
            return np.arange(fold.size, dtype=np.int64) % FOLDS
    return np.asarray(fold, dtype=np.int64)
