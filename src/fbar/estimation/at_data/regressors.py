"""What the regressions are linear in: polynomials of the summaries and of indices.

Order 1 has the summaries u, order 2 all products of two of them. All products of three would be too many: 286
coefficients in ten dimensions. But a parameter mostly changes along one direction of the summaries, as projection
pursuit assumes (Friedman & Stuetzle 1981). The *index* of a coordinate v_k is t_k = u·β_k/|β_k| with the slopes β_k of
a linear regression of v_k on u, and order 3 adds to order 2 only the cubes t_k³, a column for each coordinate. A log
variance that is linear in u is monotone in every direction; with the squares t_k² it can be largest somewhere between,
as it is in the middle of a bounded prior.

Like u, indices are 0 at the data. They come from all simulations of a region, also those that a regression is not
fitted to. They only decide in which directions the curve may bend; their influence is left out, like that of σ̂.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray

RIDGE = 1e-3
"""The penalty of regressions whose regressors have variance 1."""

NO_SLOPE = 1e-6
"""A coordinate whose slopes are smaller than this, in units of its deviation, has no index."""


def polynomial(u: FloatArray, order: int) -> FloatArray:
    """1, u and from the second order on all products of two."""
    n, d = u.shape
    found = np.empty((n, columns_of(d, order)))
    found[:, 0], found[:, 1 : d + 1] = 1.0, u
    end = d + 1
    for k in range(d if order >= 2 else 0):
        np.multiply(u[:, k : k + 1], u[:, k:], out=found[:, end : end + d - k])
        end += d - k
    return found


def regressors(u: FloatArray, index: FloatArray, order: int) -> FloatArray:
    """A polynomial in u, and of the third order the cubes of indices."""
    found = polynomial(u, order)
    return found if order < 3 else np.hstack([found, index**3])


def columns_of(dimension: int, order: int, coordinates: int = 0) -> int:
    """The coefficients of `regressors` for so many coordinates of θ; of a polynomial for none."""
    polynomial = 1 + dimension + (dimension * (dimension + 1) // 2 if order >= 2 else 0)
    return polynomial + (coordinates if order == 3 else 0)


def indices(u: FloatArray, v: FloatArray, omega: FloatArray) -> FloatArray:
    """The indices of the columns of v, by a regression with the weights ω; of those that have one."""
    share = omega / omega.sum()
    x = np.hstack([np.ones((len(u), 1)), u])
    penalty = np.diag(np.r_[1e-12, np.full(u.shape[1], RIDGE)])
    away = v - share @ v
    slopes = np.linalg.solve((share[:, None] * x).T @ x + penalty, (share[:, None] * x).T @ away)[1:]
    size = np.sqrt((slopes**2).sum(axis=0))
    kept = size > NO_SLOPE * np.sqrt(share @ away**2)
    return np.asarray(u @ (slopes[:, kept] / size[kept]))
