"""The numbers that errors are compared by, and what two estimates of them differ by beyond chance.

They are the *companions* of every question, in the coordinates of θ: first and second moments, the distribution
function at three points of each coordinate, and the probabilities of models. The causes of bias, a curved regression or
a posterior with several modes, are common to all questions, and a single number shows too little of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data.local import Local
from fbar.estimation.at_data.moving import Moved

LEVELS = (0.1, 0.5, 0.9)
"""Where distribution functions are compared: at these quantiles of the narrowest estimate."""

WINDOW = 0.2
"""Half of the window that a density at such a place is estimated in, in deviations of the residuals."""

CHANCE = 2.5
"""Standard errors that are added to a mean squared difference, since it must not be taken for known."""

SURE = 2.0
"""Standard errors by which it must exceed chance before it is there beyond doubt."""

UNIT = 1e-9
"""A number of smaller deviation than this, in units of the coordinate's, is taken for constant."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Values, posterior deviations and influence values of the companions; ``kind`` counts their kinds.

    ``z`` (n, m) are those of the rows ``rows`` of what was prepared, in the order of the rows; where two estimates from
    different simulations are compared, of those of both.
    """

    value: FloatArray
    deviation: FloatArray
    z: FloatArray
    kind: IntArray
    rows: IntArray

    def less(self, other: Moments) -> FloatArray:
        """The influence values less those of an estimate that may use other rows."""
        if self.rows is other.rows:
            return self.z - other.z
        found = np.zeros((1 + max(self.rows[-1], other.rows[-1]), self.z.shape[1]))
        found[self.rows] = self.z
        found[other.rows] -= other.z
        return found

    @cached_property
    def mean_variance(self) -> float:
        """The mean of Σz² in posterior variances."""
        varies = self.deviation > UNIT
        variance = _squares(self.z)[varies]
        return float((variance / self.deviation[varies] ** 2).mean()) if varies.any() else 0.0

    def correlation(self, other: Moments) -> float:
        """That of the errors by chance of two estimates, over all companions: 1 where they are the same."""
        varies = self.deviation > UNIT
        unit = np.where(varies, self.deviation, np.inf) ** 2
        mine, others, apart = (float((_squares(z) / unit).sum()) for z in (self.z, other.z, self.less(other)))
        return (mine + others - apart) / (2 * math.sqrt(mine * others)) if mine * others > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Companions:
    """What the companions are: moments about ``centre``, and distribution functions at ``borders`` (levels, D).

    Second moments about the middle of the posterior are variances; about a place far away, the mean again. Moments are
    in the ``unit`` of one region, and those of parameters that are not moved in the ``fixed`` middle and deviation of
    its simulations, so that those of another region or of other simulations can be compared with them.
    """

    centre: FloatArray
    borders: FloatArray
    unit: FloatArray
    fixed: tuple[FloatArray, FloatArray]

    @classmethod
    def around(cls, moved: Moved, weights: Local) -> Companions:
        v, omega = moved.v[weights.at], weights.omega
        borders = np.empty((len(LEVELS), v.shape[1]))
        for k in range(v.shape[1]):
            order = np.argsort(v[:, k], kind="stable")
            upto = np.cumsum(omega[order])
            place = np.searchsorted(upto, np.array(LEVELS) * upto[-1])
            borders[:, k] = v[order[np.minimum(place, len(v) - 1)], k]
        others = moved.prepared.fixed
        fixed = others.mean(axis=0), np.maximum(others.std(axis=0), 1e-300)
        return cls(np.asarray(omega @ v), borders, np.where(moved.spread > 0, moved.spread, 1.0), fixed)

    def moments(self, moved: Moved, weights: Local) -> Moments:
        prepared, at, v = moved.prepared, moved.rows[weights.at], moved.v[weights.at]
        (n, d), levels = v.shape, len(self.borders)
        unit = self.unit
        c, step = (v - self.centre) / unit, WINDOW * unit
        fixed = prepared.fixed[at]
        fixed = (fixed - self.fixed[0]) / self.fixed[1]
        models = prepared.model[at][:, None] == np.unique(prepared.model) if prepared.model.max() > 0 else fixed[:, :0]
        sizes = (d, d, levels * d, fixed.shape[1], fixed.shape[1], models.shape[1])
        ends = np.cumsum(sizes)
        f, gradient = np.empty((n, ends[-1])), np.empty((n, ends[2]))
        f[:, :d], gradient[:, :d] = c, 1 / unit
        f[:, d : 2 * d], gradient[:, d : 2 * d] = c**2, 2 * c / unit
        raised, lowered = v + step, v - step
        for level, border in enumerate(self.borders):
            of = slice((2 + level) * d, (3 + level) * d)
            f[:, of] = v <= border
            rise = (raised <= border).astype(np.int8) - (lowered <= border).astype(np.int8)
            gradient[:, of] = rise / (2 * step)
        f[:, ends[2] : ends[3]], f[:, ends[3] : ends[4]], f[:, ends[4] :] = fixed, fixed**2, models
        middle = weights.omega @ f
        psi = np.subtract(f, middle, out=f)
        z = np.zeros((len(moved), psi.shape[1]))
        if gradient.size and moved.folds:
            gradient *= weights.ell[:, None]
            moved.influence(gradient, weights.at, z[:, : ends[2]])
        z[weights.at] += weights.residuals(psi)
        kind = np.repeat(np.arange(len(sizes)), sizes)
        return Moments(middle + weights.correction(psi), np.sqrt(weights.omega @ psi**2), z, kind, moved.rows)


@dataclass(frozen=True)
class Difference:
    """The mean squared difference of two estimates, in posterior variances: ``bound``, what it may be with chance added
    to it; ``sure``, what of it is there beyond doubt, in all companions or in those of one kind.

    Means are weighted by precision; what is there beyond doubt is looked for in plain means too, which do not pass over
    a large difference where the variance is large.
    """

    bound: float
    sure: float

    @classmethod
    def between(cls, first: Moments, other: Moments, factor: float = 1.0) -> Difference:
        """Of two estimates, times a factor."""
        varies = first.deviation > UNIT
        if not varies.any():
            return cls(0.0, 0.0)
        unit = first.deviation[varies]
        square = ((first.value - other.value)[varies] / unit) ** 2
        variance = _squares(first.less(other))[varies] / unit**2
        precision = 1 / np.maximum(variance, 0.1 * np.median(variance) + 1e-12)
        even = np.ones_like(precision)

        def mean_of(weight: FloatArray, of: BoolArray) -> tuple[float, float, float]:
            """The mean beyond chance, its error over companions like these, and that of the estimates alone."""
            share, v = weight[of] / weight[of].sum(), variance[of]
            mean = float(share @ (square[of] - v))
            over = max(mean, 0.0)
            return (
                mean,
                math.sqrt(2 * float(share**2 @ (v + over) ** 2)),
                math.sqrt(float(share**2 @ (2 * v**2 + 4 * v * over))),
            )

        kind = first.kind[varies]
        every = np.ones(kind.size, dtype=bool)
        mean, spread, _ = mean_of(precision, every)
        members = [every, *(kind == k for k in np.unique(kind))]
        each = [mean_of(weight, of) for weight in (precision, even) for of in members]
        sure = max(found - SURE * chance for found, _, chance in each)
        return cls(factor * (max(mean, 0.0) + CHANCE * spread), factor * max(sure, 0.0))


def _squares(z: FloatArray) -> FloatArray:
    """The sum of squares of each column."""
    return np.asarray(np.einsum("ij,ij->j", z, z))
