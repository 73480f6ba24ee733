"""What a user's summary function loses: do the raw data predict parameters or targets better than the summaries do?

With s = s(x), E[y|x] differs from E[y|s] by what the summaries lack of y. Relative to the variance that remains,

    λ = E Var(E[y|x] | s) / E Var(y|s),

the mean square of that difference, is the share of the remaining variance that the raw data explain. So an answer about
the posterior given s* may be about √λ posterior deviations from the posterior given x*. λ is estimated out of fold on
simulations near the data, of which the raw numbers were kept:

1. In one half of them, y is predicted from functions of the raw numbers and the bank of features
   (``fbar.estimation.at_data.basis``) together with functions of the summaries: g(x, s).
2. In the other half, y and g are both regressed on the summaries, cross-fitted, with residuals r_y and r_g. If s loses
   nothing, E[r_y r_g] is 0 whatever g is, up to the *product* of the errors of the two regressions: a regression on s
   that is not flexible enough is not mistaken for a loss. Then the halves are exchanged.
3. With b the coefficient of r_y on r_g in the other folds, λ̂ = Σ K (r_y² − (r_y − b r_g)²) / Σ K r_y². Its standard
   error is that of a ratio of sums over simulations, which pairs the two squared errors.

λ̂ is a lower bound: a loss that no function of the bank reveals is not detected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data.basis import Basis, Numbers
from fbar.estimation.at_data.crossfit import Regressions
from fbar.estimation.at_data.learned_summaries import standardised
from fbar.estimation.at_data.nearness import differences, scaled

FEWEST = 200
"""Simulations near the data without which no loss is sought."""

NEAR = 0.5
"""The share of the simulations, nearest first, that count."""

FOLDS = 3
"""Parts that the regressions in a half are cross-fitted in."""

LEAST_LOSS = 0.02
"""The share of the remaining variance below which a loss is not reported."""

BEYOND_CHANCE = 2.0
"""Standard errors by which a loss must exceed 0; more where several are tested, see `Losses.found`."""

MOST_SUMMARIES_IN_PRODUCTS = 12
"""Summaries whose products, and whose functions of pieces, enter the regression on the summaries."""

KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Quantiles of a summary at which its function may bend."""

BUMPS, WIDTHS, MOST_DIRECTIONS = 40, (1.0, 0.4), 5
"""Centres of bumps, their widths, and the main directions that they are in, at most."""

SETS = ("raw", "raw + squares", "raw + bank", "raw + bank + squares")
"""The sets of functions of the raw numbers that a prediction chooses from."""


@dataclass(frozen=True, eq=False)
class Losses:
    """λ̂ of several numbers with standard errors, shape (m,) each.

    ``doubt`` is what the most flexible functions of the summaries gained over simpler ones, relative to the remaining
    variance: functions more flexible still might gain as much, so that a λ̂ below it is not put down to a loss.
    """

    value: FloatArray
    standard_error: FloatArray
    doubt: FloatArray

    @property
    def found(self) -> BoolArray:
        """Where a loss is reported: it is not small, and by chance it is found in one of m with the probability of a
        normal number beyond `BEYOND_CHANCE`.
        """
        beyond = -float(ndtri(ndtr(-BEYOND_CHANCE) / max(self.value.size, 1)))
        return np.asarray((self.value > LEAST_LOSS) & (self.value > self.doubt + beyond * self.standard_error))


class RawSample:
    """Simulations whose raw numbers were kept: raw (n, d) and summaries (n, k), each with the observed ones.

    Those near the data are used; what is to be predicted is given for all n.
    """

    def __init__(self, raw: FloatArray, observed: FloatArray, summaries: FloatArray, centre: FloatArray) -> None:
        z = scaled(differences(summaries, centre))
        if not z.shape[1]:  # the same summaries in all simulations
            z = np.zeros((len(summaries), 1))
        radius = np.sqrt((z**2).sum(axis=1))
        number = max(int(NEAR * len(z)), min(FEWEST, len(z)))
        self._rows = np.sort(np.argsort(radius, kind="stable")[:number])
        near = radius[self._rows]
        self._kernel = 1 - 0.99 * (near / max(float(near.max(initial=0.0)), 1e-300)) ** 2
        self._numbers = Numbers.of(raw[self._rows])
        self._observed = Numbers.of(observed[None])
        self._summaries = _Summaries(z[self._rows], summaries[self._rows], self._kernel)
        place = np.arange(number)
        self._half, self._position = place % 2, place // 2 % FOLDS

    @property
    def large_enough(self) -> bool:
        return self._rows.size >= FEWEST

    def losses(self, y: FloatArray) -> Losses:
        """λ̂ of each column of y (n, m); what is not finite counts as the mean of the others."""
        y = standardised(y[self._rows], self._kernel)
        of_y, of_g, doubt = np.zeros(y.shape), np.zeros(y.shape), np.zeros(y.shape[1])
        for half in (0, 1):
            there = np.flatnonzero(self._half == half)
            g = self._predictions[half](y)
            left, gained = self._residuals(np.hstack([y[there], g]), half)
            of_y[there], of_g[there] = np.hsplit(left, 2)
            doubt += gained[: y.shape[1]] / 2
        return self._ratio(of_y, of_g, doubt)

    @cached_property
    def _predictions(self) -> list[_Prediction]:
        """g for each half, from a regression on the other."""
        basis = Basis.near(self._numbers, self._observed, self._summaries.columns)
        parts = basis.columns()
        used = np.concatenate([parts[part] for part in ("raw", "squares", "bank") if part in parts])
        smooth = self._summaries.columns[:, self._summaries.smooth]
        columns = np.hstack([smooth, basis(self._numbers)[:, used]])
        first = np.arange(smooth.shape[1])
        sets = [("summaries", first)]
        for name, members in basis.sets():
            if name in SETS:
                sets.append((name, np.concatenate([first, first.size + np.searchsorted(used, members)])))
        return [_Prediction(columns, self._kernel, self._position, self._half != half, sets) for half in (0, 1)]

    @cached_property
    def _controls(self) -> list[Regressions]:
        """Regressions on the summaries in each half."""
        halves = [self._half == half for half in (0, 1)]
        return [Regressions(self._summaries.columns[half], self._kernel[half], self._position[half]) for half in halves]

    def _residuals(self, values: FloatArray, half: int) -> tuple[FloatArray, FloatArray]:
        """Of several numbers in regressions on the summaries, standardised; and what flexible functions gained."""
        rows = self._half == half
        values, regressions = standardised(values, self._kernel[rows]), self._controls[half]
        simple = regressions.fit(values, self._summaries.simple)
        fit = regressions.fit(values, self._summaries.flexible, simple)
        gained = np.maximum(simple.loss / np.maximum(fit.loss, 1e-9) - 1, 0.0)
        return values - fit.predict(self._summaries.columns[rows], self._position[rows]), gained

    def _ratio(self, of_y: FloatArray, of_g: FloatArray, doubt: FloatArray) -> Losses:
        kernel = self._kernel[:, None]
        part = (self._half * FOLDS + self._position)[:, None]
        remaining = of_y.copy()
        for k in range(2 * FOLDS):
            others = kernel * (part != k)
            square = (others * of_g**2).sum(axis=0)
            b = np.maximum((others * of_y * of_g).sum(axis=0), 0.0) / np.where(square > 1e-12, square, np.inf)
            remaining -= np.where(part == k, b * of_g, 0.0)
        total = (kernel * of_y**2).sum(axis=0)
        total = np.where(total > 0, total, np.inf)
        gain = of_y**2 - remaining**2
        value = (kernel * gain).sum(axis=0) / total
        error = np.sqrt(((kernel * (gain - value * of_y**2)) ** 2).sum(axis=0)) / total
        return Losses(value, error, doubt)


class _Prediction:
    """g at the rows that are not ``fitted``, from a regression on those that are."""

    def __init__(
        self,
        columns: FloatArray,
        kernel: FloatArray,
        position: IntArray,
        fitted: BoolArray,
        sets: list[tuple[str, IntArray]],
    ) -> None:
        self._fitted, self._sets, self._there = fitted, sets, columns[~fitted]
        self._regressions = Regressions(columns[fitted], kernel[fitted], position[fitted])

    def __call__(self, y: FloatArray) -> FloatArray:
        fit = self._regressions.fit(y[self._fitted], self._sets)
        return np.asarray(self._there @ fit.slopes.mean(axis=0))


class _Summaries:
    """Functions of the summaries: themselves, squares and products; the same of their ranks, in normal scores, with
    the bank of features of many and functions of single ones that bend at `KNOTS`; bumps.

    With ranks it does not matter whether numbers or, say, their exponentials are given. Bumps are Gaussian functions of
    the distance to some of the simulations, in directions of equal variance; the last set adds narrow ones.
    """

    def __init__(self, z: FloatArray, summaries: FloatArray, kernel: FloatArray) -> None:
        ranks = np.stack([_normal_scores(column) for column in z.T], axis=1)
        some = ranks[:, :MOST_SUMMARIES_IN_PRODUCTS]
        knots = np.quantile(some, KNOTS, axis=0)
        pieces = np.maximum(some[:, :, None] - knots.T, 0.0).reshape(len(z), -1)
        parts = [_squared(z), _squared(ranks), Numbers.of(summaries).bank, pieces, *_bumps(z, kernel)]
        self.columns = np.hstack(parts)
        ends = np.cumsum([part.shape[1] for part in parts]).tolist()
        self.smooth = np.arange(ends[0])
        names = {"themselves": z.shape[1], "products": ends[0], "ranks": ends[1], "pieces": ends[3]}
        self.simple = [(name, np.arange(end)) for name, end in {**names, "wide bumps": ends[4]}.items()]
        self.flexible = [("narrow bumps", np.arange(ends[5]))]


def _normal_scores(values: FloatArray) -> FloatArray:
    """Φ⁻¹ of the ranks, the same for equal values."""
    ordered = np.sort(values)
    ranks = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    return np.asarray(ndtri((ranks + 0.5) / (len(values) + 1)))


def _squared(z: FloatArray) -> FloatArray:
    """z with the squares, and the products of some."""
    some = z[:, :MOST_SUMMARIES_IN_PRODUCTS]
    first, second = np.triu_indices(some.shape[1], 1)
    return np.hstack([z, z**2, some[:, first] * some[:, second]])


def _bumps(z: FloatArray, kernel: FloatArray) -> list[FloatArray]:
    total = kernel.sum()
    centred = z - kernel @ z / total
    values, vectors = np.linalg.eigh((centred.T * kernel) @ centred / total)
    there = values > 1e-6 * values.max(initial=0.0)
    w = (centred @ vectors[:, there] / np.sqrt(values[there]))[:, -MOST_DIRECTIONS:]
    if not w.shape[1]:
        return [np.zeros((len(z), 0))] * len(WIDTHS)
    centres = w[np.linspace(0, len(w) - 1, min(BUMPS, len(w))).astype(np.int64)]
    square = ((w[:, None, :] - centres) ** 2).sum(axis=2) / w.shape[1]
    return [np.exp(-square / (2 * width**2)) for width in WIDTHS]
