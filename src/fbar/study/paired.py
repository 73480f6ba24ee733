"""Is one method better than another? Paired comparisons with their uncertainty, and many of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray

ROUNDING = 1e-9
"""A ratio of means nearer to 1 than this is no difference, and a spread below this fraction of the mean is zero."""


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The mean of a score over trials and its standard error; those that are NaN failed.

    The error is not known (NaN) of one trial, and of trials that all gave the same up to rounding: ten intervals that
    held do not prove that all do.
    """
    good = values[~np.isnan(values)]
    if not good.size:
        return math.nan, math.nan
    mean, spread = float(good.mean()), float(good.std(ddof=1)) if good.size > 1 else 0.0
    return mean, spread / math.sqrt(good.size) if spread > ROUNDING * abs(mean) else math.nan


@dataclass(frozen=True)
class Comparison:
    """The ratio of two mean scores, a over b, over the trials that both have.

    ``log_error`` is the standard error of the ratio's logarithm, ``p`` the two-sided probability of so large a
    difference if there were none.
    """

    ratio: float
    log_error: float
    p: float
    trials: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        from scipy.special import stdtrit

        if not (self.trials > 1 and self.ratio > 0 and math.isfinite(self.log_error)):
            return math.nan, math.nan
        half = float(stdtrit(self.trials - 1, 0.5 + level / 2)) * self.log_error
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)


def compare(a: FloatArray, b: FloatArray) -> Comparison:
    """Compare the means of two scores over shared trials (NaN: a trial that failed).

    To first order log(ā/b̄) is off by the mean of a_i/E[a] − b_i/E[b], whose scatter over trials gives the error: the
    delta method, in which what shared seeds have in common cancels. Student's t with the number of trials less one.

    Where one trial carries a mean, as with rare large errors, the logarithm's linear error is far too small; there the
    plain difference is uncertain. So ``p`` is the larger of the two tests', and neither can be fooled alone.
    """
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    size = len(a)
    if size < 2:
        return Comparison(math.nan, math.nan, 1.0, size)
    mean_a, mean_b = float(a.mean()), float(b.mean())
    if mean_a <= 0 or mean_b <= 0:
        return Comparison(math.nan, math.nan, 1.0, size)
    part = a / mean_a - b / mean_b
    error = float(part.std(ddof=1)) / math.sqrt(size)
    ratio = mean_a / mean_b
    if abs(ratio - 1) < ROUNDING:  # the same numbers, added up in another order
        return Comparison(ratio, error, 1.0, size)
    p = max(
        two_sided(math.log(ratio), error, size),
        two_sided(mean_a - mean_b, float((a - b).std(ddof=1)) / math.sqrt(size), size),
    )
    return Comparison(ratio, error, p, size)


def two_sided(difference: float, error: float, size: int) -> float:
    """Two-sided, by Student's t."""
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    from scipy.special import stdtr

    return 2 * float(stdtr(size - 1, -abs(difference) / error))


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses are rejected, with a chance of at most ``level`` of any false rejection (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    rejected = [False] * len(p)
    for step, index in enumerate(order):
        if not p[index] <= level / (len(p) - step):
            break
        rejected[index] = True
    return rejected
