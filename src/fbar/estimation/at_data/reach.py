"""Where the posterior may have mass: draws far outside it are left out of a second estimate.

E[f | s*] does not change if the prior is cut where the posterior has no mass. But draws from there that come near the
data by chance have the largest weights p/q̄ of all, where simulations are concentrated near the posterior, and carry
most of the variance. So after a first estimate the draws of each model are kept within an ellipsoid around it, with the
covariance of its sample, widened by its error: Δ² ≤ d + 4 √(2d) + 12 (for a normal posterior of d dimensions beyond all
but 10⁻⁵ of it; in one dimension 4.3 deviations). The cut depends on what was estimated from all simulations together,
and only through a mean and a covariance.

Draws from where the posterior has no mass become rare towards the data. If those beyond the ellipsoid do not, the first
estimate has lost a part of the posterior: a second mode of a fifth of it, say, that has few simulations of large
weight. Then nothing is left out. This finds a mode that some tens of simulations near the data show, not one that
hardly any of them does.
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import BoolArray
from fbar.estimation.at_data.choice import Step
from fbar.estimation.at_data.prepared import Prepared
from fbar.weights import effective_size

EACH = 5
"""Draws of a model for each of its coordinates, at least, that tell where it ends."""

NEAR_SHARES, FARTHER = (0.01, 0.05), 4
"""Draws beyond are compared among these shares of the simulations, the nearest, and among four times as many."""

LARGEST_RATIO, STANDARD_ERRORS, TELLING = 0.5, 2.0, 20
"""They become rare towards the data unless their part of the weight is more than half of that farther out, by so many
standard errors, among as many effective simulations or more."""


def within_reach(step: Step, prepared: Prepared) -> BoolArray:
    """The prepared draws that the posterior of an estimate, from these or from some of them, may have mass at."""
    moved, weights = step.moved, step.weights
    names = len(prepared.moving)
    kept = np.ones(len(prepared), dtype=bool)
    own_model = moved.prepared.model[moved.rows[weights.at]]
    for m in np.unique(own_model) if names else ():
        mine = own_model == m
        if mine.sum() < EACH * names:
            continue
        v, omega = moved.v[weights.at[mine], :names], weights.omega[mine] / weights.omega[mine].sum()
        centre = omega @ v
        varies = omega @ (v - centre) ** 2 > 1e-12
        d = int(varies.sum())
        if d == 0:
            continue
        away = (v - centre)[:, varies]
        covariance = (omega[:, None] * away).T @ away * (1 + step.error)
        inverse = np.linalg.inv(covariance + 1e-10 * np.trace(covariance) / d * np.eye(d))
        of_model = np.flatnonzero(prepared.model == m)
        x = (prepared.v[of_model, :names] - centre)[:, varies]
        kept[of_model] = ((x @ inverse) * x).sum(axis=1) <= d + 4 * math.sqrt(2 * d) + 12
    return kept if _rarer_near_the_data(prepared, ~kept) else np.ones_like(kept)


def _rarer_near_the_data(prepared: Prepared, beyond: BoolArray) -> bool:
    """Whether draws beyond reach may have less of the weight near the data than farther out."""

    def part(share: float) -> tuple[float, float]:
        """Their part of the weight among the nearest, and the effective number of these."""
        nearest = prepared.radius <= np.quantile(prepared.radius, share)
        w = prepared.w[nearest]
        total = float(w.sum())
        return (min(float(w[beyond[nearest]].sum()) / total, 1.0), effective_size(w)) if total > 0 else (0.0, 0.0)

    for share in NEAR_SHARES:
        (near, number), (farther, _) = part(share), part(FARTHER * share)
        if number < TELLING:
            continue
        if near - STANDARD_ERRORS * math.sqrt(near * (1 - near) / number) > LARGEST_RATIO * farther:
            return False
    return True
