"""A continuous distribution fitted to a weighted sample, such as a posterior: a Gaussian copula, smoothed marginals.

It is fitted in the normal coordinates v = Φ⁻¹(u) of a prior whose support it keeps, in which posteriors are often
nearly normal. The distribution function of each v_j is a kernel estimate with centres shrunk to their mean, so that
mean and variance are those of the sample (West 1993):

    F_j(v) = Σ_i w_i Φ((v − c_ij)/h s_j),   c_ij = m_j + √(1 − h²) (v_ij − m_j),   h = (4/3n)^(1/5),

n the effective sample size; of a normal sample it estimates a normal distribution without bias. z_j = Φ⁻¹(F_j(v_j)) is
tabulated, linear in between, and the z of the sample have a correlation matrix R. The fit is z ~ N(0, R): what the
sample has beyond correlations of z, such as two modes that only several parameters together separate, it does not
have. `fbar.estimation.sequential` says what that costs an answer.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from fbar.arrays import FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.points import Points, require_points
from fbar.question.priors.base import Distribution, as_unit, draws
from fbar.question.priors.structures import Structure, Structured, structure

LEAST = 20
"""Effective draws, without which nothing is fitted."""

KNOTS = 801
REACH = 7.0
"""Where a marginal is tabulated: knots, and how many kernel widths beyond the outermost centres."""

FAR = 40.0
"""How far tables go on beyond that, at their last slopes."""

TINY = 2.0**-53
SHOWN = (0.025, 0.25, 0.5, 0.75, 0.975)
DIGITS = 6
"""By what a recorded run knows the fit again: quantiles of v at these levels, and correlations, to so many digits."""


def scores(unit: FloatArray) -> FloatArray:
    """Φ⁻¹ of coordinates in the unit cube."""
    return np.asarray(ndtri(np.clip(unit, TINY, 1 - TINY)))


class _Table:
    """z = Φ⁻¹(F(v)) of one coordinate and its inverse, both linear between the same knots."""

    def __init__(self, v: FloatArray, weights: FloatArray, h: float) -> None:
        mean = float(weights @ v)
        spread = math.sqrt(float(weights @ (v - mean) ** 2))
        centres, width = mean + math.sqrt(1 - h**2) * (v - mean), h * spread
        at = np.linspace(centres.min() - REACH * width, centres.max() + REACH * width, KNOTS)
        upper = np.zeros(KNOTS)
        lower = np.zeros(KNOTS)
        for some in np.array_split(np.arange(v.size), max(1, v.size * KNOTS // 2_000_000)):
            away = (at[:, None] - centres[some]) / width
            lower += ndtr(away) @ weights[some]
            upper += ndtr(-away) @ weights[some]
        z = np.where(lower < upper, ndtri(np.minimum(lower, 0.5)), -ndtri(np.minimum(upper, 0.5)))
        kept = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 1e-12]) & np.isfinite(z)
        at, z = at[kept], z[kept]
        first, last = (z[1] - z[0]) / (at[1] - at[0]), (z[-1] - z[-2]) / (at[-1] - at[-2])
        self.v = np.concatenate([[at[0] - FAR], at, [at[-1] + FAR]])
        self.z = np.concatenate([[z[0] - FAR * first], z, [z[-1] + FAR * last]])
        self._log_slope = np.log(np.diff(self.z) / np.diff(self.v))

    def to_z(self, v: FloatArray) -> FloatArray:
        return np.asarray(np.interp(v, self.v, self.z))

    def to_v(self, z: FloatArray) -> FloatArray:
        return np.asarray(np.interp(z, self.z, self.v))

    def log_slope(self, v: FloatArray) -> FloatArray:
        """log dz/dv."""
        place = np.clip(np.searchsorted(self.v, v, side="right") - 1, 0, self._log_slope.size - 1)
        return self._log_slope[place]


class FittedToSample(Structured):
    """The fit, as a prior: with the parameters of the prior ``base``, in its support."""

    def __init__(self, base: Distribution, points: Points, weights: FloatArray) -> None:
        known = structure(base)
        if known.values is not None or known.models is not None:
            raise InputError(f"a sample can be a prior where its parameters are continuous; {shown(base)} has others")
        for name in base.names:
            if name in known.discrete or points[name].dtype.kind != "f":
                raise InputError(
                    f"a sample can be a prior where its parameters are continuous; {shown(name)} takes single values"
                )
        total = np.asarray(weights, dtype=np.float64)
        w = np.maximum(total, 0.0) / np.maximum(total, 0.0).sum()
        self._effective = float(1 / (w**2).sum())
        if not self._effective >= LEAST:
            raise InputError(
                f"the sample has {self._effective:.2g} effective draws, too few for a prior; it needs at least {LEAST}"
            )
        self.base = base
        v = self._base_scores(points)
        h = (4 / (3 * self._effective)) ** 0.2
        self._tables = [_Table(column, w, h) for column in v.T]
        z = np.stack([table.to_z(column) for table, column in zip(self._tables, v.T, strict=True)], axis=1)
        centred = z - w @ z
        covariance = (w[:, None] * centred).T @ centred
        spread = np.sqrt(np.diagonal(covariance))
        shrunk = (1 - 1 / self._effective) * covariance / np.outer(spread, spread)
        np.fill_diagonal(shrunk, 1.0)
        self._root = np.linalg.cholesky(shrunk)
        self.correlation = np.round(shrunk, DIGITS)
        self.quantiles = np.round([table.to_v(ndtri(np.array(SHOWN))) for table in self._tables], DIGITS)

    @property
    def names(self) -> tuple[str, ...]:
        return self.base.names

    @property
    def dimension(self) -> int:
        return self.base.dimension

    @property
    def effective_size(self) -> float:
        """(Σw)²/Σw² of the sample."""
        return self._effective

    @property
    def structure(self) -> Structure:
        known = structure(self.base)
        return Structure(
            coordinates=known.coordinates, continuous=True, determined=known.determined, fitted_to_sample=True
        )

    def _base_scores(self, points: Points) -> FloatArray:
        try:
            return np.clip(scores(np.asarray(self.base.to_unit(points))), -8.0, 8.0)
        except InputError as error:
            raise InputError(f"this sample cannot be a prior: {error}") from None

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self.dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self.dimension)
        z = scores(u) @ self._root.T
        v = np.stack([table.to_v(column) for table, column in zip(self._tables, z.T, strict=True)], axis=1)
        points = self.base.from_unit(np.clip(ndtr(v), TINY, 1 - TINY))
        return Points({name: points[name] for name in self.names}, structure(self.base).determined, unit=u, owner=self)

    def scores(self, points: Points) -> FloatArray:
        """The points in coordinates in which the fit is N(0, I), shape (n, dimension)."""
        require_points(points, needed=self.names)
        if points.unit is not None and points.owner is self:
            return scores(points.unit)
        v = self._base_scores(points)
        z = np.stack([table.to_z(column) for table, column in zip(self._tables, v.T, strict=True)], axis=1)
        return np.asarray(np.linalg.solve(self._root, z.T).T)

    def to_unit(self, points: Points) -> FloatArray:
        if points.unit is not None and points.owner is self:
            return points.unit
        return np.asarray(ndtr(self.scores(points)))

    def logpdf(self, points: Points) -> FloatArray:
        """log N(z; 0, R) + Σ log dz/dv − Σ log φ(v) + log p(θ), p the density of the base."""
        require_points(points, needed=self.names)
        found = np.array(self.base.logpdf(points), dtype=np.float64)
        some = np.flatnonzero(found > -np.inf)
        inside = points.take(some)
        v, e = self._base_scores(inside), self.scores(inside)
        slopes = sum(table.log_slope(column) for table, column in zip(self._tables, v.T, strict=True))
        change = -0.5 * (e**2).sum(axis=1) + 0.5 * (v**2).sum(axis=1) - np.log(np.diagonal(self._root)).sum()
        found[some] += slopes + change
        return found
