"""How right and how long intervals are, and how near values: everything that the preset's tables and claims say.

Every number is about estimates of the true posterior. For estimate i with the value v, the interval [l, u] and the
posterior deviation s of its target (the error of one posterior draw), whose truth t has itself the error τ:

- it *holds* if l − 1.96 τ' ≤ t ≤ u + 1.96 τ', where τ' makes the half-width √(half² + (1.96 τ)²);
- it is *flagged* if it is not trusted, has no finite interval, or nothing was accepted;
- b² = min((v − t)²/s², 1), and 1 for a run that failed;
- its *bias share* is the part of its standard error that is for bias, over all of it: at 0.7 half of the square.

An estimate weighs 1/(number of its problem's targets): every run counts the same, whatever it was asked. *Coverage* is
the weighted share of unflagged intervals that hold; its standard error takes the estimates of one observation as one
cluster, since they share data, and those of a run simulations. *Length* is the median half-width of unflagged intervals
over the 95% quantile of |v − t|, both in units of s, for each target over all observations and runs; a problem's is the
median over its targets, the pooled one the median over problems. Its value for intervals that are exactly right is 1
where the error is normal and of one size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.study.presets.truth.rows import Row

NORMAL = 1.959964
ENOUGH_FOR_LENGTH = 10
"""A target with fewer unflagged estimates has no length: its 95% quantile would be a guess."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows as arrays. ``answered`` are those of runs that did not fail."""

    problem: np.ndarray
    cluster: np.ndarray
    target: np.ndarray
    run: np.ndarray
    weight: FloatArray
    error: FloatArray
    half: FloatArray
    holds: BoolArray
    flagged: BoolArray
    answered: BoolArray
    b2: FloatArray
    seconds: FloatArray
    bias: FloatArray

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Columns:
        targets: dict[str, set[str]] = {}
        for row in rows:
            targets.setdefault(row.observation, set()).add(row.target)
        value, low, high, truth, own, deviation = (
            np.array([getattr(row, name) for row in rows], dtype=float)
            for name in ("value", "low", "high", "truth", "truth_error", "deviation")
        )
        answered = np.array([row.status != "failed" for row in rows], dtype=bool)
        with np.errstate(invalid="ignore"):
            below, above = value - low, high - value
            more = NORMAL * own
            holds = (truth >= value - np.hypot(below, more)) & (truth <= value + np.hypot(above, more))
            error = (value - truth) / deviation
            half = (high - low) / 2 / deviation
        finite = np.isfinite(half)
        sure = np.array([row.status == "ok" and row.trusted for row in rows], dtype=bool)
        return cls(
            np.array([row.problem for row in rows]),
            np.array([row.observation for row in rows]),
            np.array([row.target_kind for row in rows]),
            np.array([f"{row.observation} {row.trial}" for row in rows]),
            np.array([1 / len(targets[row.observation]) for row in rows]),
            np.abs(error),
            half,
            np.asarray(holds & finite),
            ~(sure & finite),
            answered,
            np.where(answered, np.minimum(np.nan_to_num(np.abs(error), nan=1.0), 1.0) ** 2, 1.0),
            np.array([row.seconds for row in rows]),
            np.array([row.bias / row.standard_error if row.standard_error > 0 else math.nan for row in rows]),
        )

    def where(self, which: BoolArray) -> Columns:
        return Columns(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @property
    def size(self) -> int:
        return len(self.error)


@dataclass(frozen=True)
class Measured:
    """What was measured of some estimates. Each ``_error`` is a standard error over observations; NaN of one.

    ``missed_flagged`` over ``missed`` says whether flags warn: the shares of flagged and of unflagged intervals that do
    not hold.
    """

    runs: int
    estimates: int
    failed: float
    unflagged: int
    coverage: float
    coverage_error: float
    flagged: float
    coverage_flagged: float
    length: float
    b2: float
    b2_error: float
    seconds: float
    """Of one run."""
    bias: float
    """The median share of the standard error that is for bias, of unflagged estimates."""

    @property
    def missed_ratio(self) -> float:
        """How many times as often flagged intervals miss as unflagged ones."""
        missed = 1 - self.coverage
        return (1 - self.coverage_flagged) / missed if missed > 0 else math.inf


def measured(rows: Sequence[Row]) -> Measured:
    """The measures of some rows of one method and budget."""
    return measures_of(Columns.of(rows))


def measures_of(c: Columns) -> Measured:
    sure = c.where(~c.flagged)
    doubted = c.where(c.flagged & c.answered)
    coverage, coverage_error = clustered_mean(sure.holds.astype(float), sure.weight, sure.cluster)
    b2, b2_error = clustered_mean(c.b2, c.weight, c.cluster)
    return Measured(
        len(set(c.run)),
        c.size,
        _share(~c.answered, c.weight),
        sure.size,
        coverage,
        coverage_error,
        _share(c.flagged, c.weight),
        _share(doubted.holds, doubted.weight),
        length(c),
        b2,
        b2_error,
        float((c.weight * c.seconds).sum() / c.weight.sum()) if c.size else math.nan,
        float(np.median(sure.bias)) if sure.size else math.nan,
    )


def _share(which: BoolArray, weight: FloatArray) -> float:
    return float(weight[which].sum() / weight.sum()) if weight.size else math.nan


def clustered_mean(values: FloatArray, weight: FloatArray, cluster: np.ndarray) -> tuple[float, float]:
    """Σ w x/Σ w and its standard error, the members of a cluster depending on each other in any way.

    >>> mean, error = clustered_mean(np.array([1., 1., 0., 0.]), np.ones(4), np.array(["a", "a", "b", "b"]))
    >>> mean, round(error, 6)
    (0.5, 0.5)
    """
    if not values.size:
        return math.nan, math.nan
    mean = float((weight * values).sum() / weight.sum())
    _, which = np.unique(cluster, return_inverse=True)
    sums = np.bincount(which, weight * (values - mean))
    if len(sums) < 2:
        return mean, math.nan
    return mean, float(math.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / weight.sum())


def length(c: Columns) -> float:
    """Median half-width over the 95% quantile of |error|: by target, then the median, then that over problems."""
    problems = []
    sure = c.where(~c.flagged)
    for problem in np.unique(sure.problem):
        own = sure.where(sure.problem == problem)
        ratios = []
        for target in np.unique(own.target):
            one = own.where(own.target == target)
            if one.size >= ENOUGH_FOR_LENGTH:
                wrong = float(np.quantile(one.error, 0.95))
                ratios.append(float(np.median(one.half)) / wrong if wrong > 0 else math.inf)
        if ratios:
            problems.append(float(np.median(ratios)))
    return float(np.median(problems)) if problems else math.nan


@dataclass(frozen=True)
class Ratio:
    """b² of one method over that of another, with a 95% interval over observations."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.2g} to {self.high:.2g})"


def b2_ratio(first: Columns, second: Columns) -> Ratio:
    """The ratio of the two means, on the observations that both have; its error by linearisation, paired."""
    common = np.intersect1d(first.cluster, second.cluster)
    sums = []
    for c in (first, second):
        own = c.where(np.isin(c.cluster, common))
        _, which = np.unique(own.cluster, return_inverse=True)
        weight = np.bincount(which, own.weight)
        sums.append(np.bincount(which, own.weight * own.b2) / weight)  # the same weight for every observation
    if not len(common) or sums[1].mean() == 0:
        return Ratio(math.nan, math.nan, math.nan)
    value = float(sums[0].mean() / sums[1].mean())
    if len(common) < 2 or value == 0:
        return Ratio(value, math.nan, math.nan)
    apart = sums[0] / sums[0].mean() - sums[1] / sums[1].mean()
    spread = NORMAL * float(apart.std(ddof=1)) / math.sqrt(len(common))
    return Ratio(value, value * math.exp(-spread), value * math.exp(spread))


def slope(by_budget: Sequence[tuple[int, float]]) -> float:
    """Of log b² against log N, by least squares; −1 is the rate of independent draws without bias."""
    good = [(math.log(budget), math.log(b2)) for budget, b2 in by_budget if b2 > 0]
    if len(good) < 2:
        return math.nan
    x, y = np.array(good).T
    return float(np.polyfit(x, y, 1)[0])
