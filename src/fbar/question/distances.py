"""Distances between simulated and observed summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import flag, positive_number, shown, store_number
from fbar.errors import InputError

Summaries = npt.NDArray[Any]

TINY = 1e-280
"""Below it powers may have lost digits."""


def euclidean(summaries: Summaries, observed: Summaries) -> FloatArray:
    """Euclidean distance of every simulation's summaries to the observed ones; labels match or do not."""
    if summaries.dtype.kind not in "biufc":
        same = (summaries == observed).reshape(len(summaries), -1).all(axis=1)
        return np.where(same, 0.0, np.inf)
    difference = np.abs(summaries.astype(np.float64) - observed).reshape(len(summaries), -1)
    if difference.shape[1] == 1:
        return difference[:, 0]
    with np.errstate(over="ignore"):
        found = np.sqrt((difference**2).sum(axis=1))
        beyond = np.isinf(found)  # squares may be too large for a number where their root is not
        if beyond.any():
            largest = difference[beyond].max(axis=1)
            share = difference[beyond] / np.where(np.isfinite(largest), largest, 1.0)[:, None]
            found[beyond] = largest * np.sqrt((share**2).sum(axis=1))
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class PNorm:
    """(Σ_s |(s − s*)/scale_s|^p)^(1/p); p = inf for the largest. A summary with an infinite scale does not count.

    >>> PNorm(1, scales=[1.0, 10.0])(np.array([[2.0, 20.0]]), np.array([0.0, 0.0]))
    array([4.])
    """

    p: float = 2.0
    scales: npt.ArrayLike = 1.0

    def __post_init__(self) -> None:
        store_number(self, "p", positive_number(self.p, "p"))
        if self.p < 1:
            raise InputError(f"p must be at least 1 for a distance; got {shown(self.p)}")
        scales = numeric_array(self.scales, "scales")
        if not (scales > 0).all():
            raise InputError(f"scales must be positive; got {scales[~(scales > 0)].flat[0]:g}")
        object.__setattr__(self, "scales", scales)

    def __call__(self, summaries: Summaries, observed: Summaries) -> FloatArray:
        if summaries.dtype.kind not in "biuf":
            raise InputError("a p-norm needs summaries that are numbers; these are labels")
        scales: Any = self.scales
        if scales.ndim and scales.size != observed.size:
            raise InputError(f"{scales.size} scales were given for {observed.size} summaries")
        away = np.abs(summaries.astype(np.float64) - observed).reshape(len(summaries), -1) / scales.reshape(-1)
        if np.isinf(self.p):
            return np.asarray(away.max(axis=1))
        if self.p == 1:
            return np.asarray(away.sum(axis=1))
        with np.errstate(over="ignore", under="ignore"):
            total = (away**self.p).sum(axis=1)
        found = np.asarray(total ** (1 / self.p))
        off = ~(np.isfinite(total) & (total > TINY)) & (away > 0).any(axis=1) & np.isfinite(away).all(axis=1)
        if off.any():  # the powers are too large or too small for numbers: in parts of the largest they are not
            largest = away[off].max(axis=1)
            with np.errstate(under="ignore"):
                found[off] = largest * ((away[off] / largest[:, None]) ** self.p).sum(axis=1) ** (1 / self.p)
        return found


@dataclass(frozen=True)
class Scaled:
    """A p-norm whose scales are learned: each summary's median absolute deviation among simulations.

    From the prior's simulations once, or with ``each_round`` from every round's, accepted or not (Prangle 2017), since
    what varies under the prior may not vary near the data. A summary that never varied does not count.
    """

    p: float = 2.0
    each_round: bool = False

    def __post_init__(self) -> None:
        PNorm(self.p)
        flag(self.each_round, "each_round")

    def learn(self, summaries: Summaries) -> PNorm:
        """The distance with scales from a batch of summaries (n, ...)."""
        if summaries.dtype.kind not in "biuf":
            raise InputError("scales cannot be learned from summaries that are labels")
        values = summaries.reshape(len(summaries), -1).astype(np.float64)
        scale = np.median(np.abs(values - np.median(values, axis=0)), axis=0)
        scale = np.where(scale > 0, scale, values.std(axis=0))  # over half of the values are equal
        return PNorm(self.p, np.where(scale > 0, scale, np.inf))
