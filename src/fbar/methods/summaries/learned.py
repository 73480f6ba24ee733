"""A problem with the summaries that a pilot has taught, and what was learned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.methods.summaries.regressions import Fit
from fbar.question.problem import Problem
from fbar.question.summary_names import columns
from fbar.question.targets import Target
from fbar.question.truth import Reference

POOR = 0.02
"""An R² below this is warned of."""


class LearnedSummary:
    """The learned summary as a function of a batch of outputs: the regression of the problem's own summaries.

    ``fingerprint`` is that of its values at some simulations, to know it again.
    """

    def __init__(self, own: Any, fit: Fit, scale: FloatArray, probe: FloatArray) -> None:
        self.own, self.fit, self.scale = own, fit, scale
        values = np.round(fit.predict(probe) / scale, 4) + 0.0
        self.fingerprint = hashlib.sha256(values.tobytes()).hexdigest()[:16]

    def __call__(self, x: npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]) -> FloatArray:
        given = np.asarray(columns(x if self.own is None else self.own(x))[0])
        values = given.reshape(len(given), -1).astype(np.float64)
        result = np.full((len(values), self.scale.size), np.nan)  # a simulation that failed has no summaries
        good = np.isfinite(values).all(axis=1)
        if good.any():
            result[good] = self.fit.predict(values[good]) / self.scale
        return result


@dataclass(frozen=True, eq=False)
class Learning:
    """What the pilot taught: the regression, R² and summaries (of what succeeded) out of fold, all its simulations."""

    regression: str
    r_squared: Mapping[str, float]
    simulations: int
    summaries: FloatArray


class LearnedProblem(Problem):
    """A problem whose summaries were learned for some targets; made by `LearnedSummaries.learn`.

    Its summaries are estimates of E[f(θ)|x] over their residual standard deviation, which is the posterior's in a root
    mean square over the data that the prior makes, so a tolerance of 0.1 is about a tenth of a posterior standard
    deviation. The distance is Euclidean, whatever the problem's own was.

    Even at tolerance 0 the posterior given these summaries is not that given the data: where E[f(θ)|x] is well
    predicted its means of f are close, while other features, such as spread and shape, may be wider. ``truth`` is
    that of the problem with all its data, which is what one wants to know.

    Attributes
    ----------
    base
        The problem that the summaries were learned from.
    regression
        Which one it is.
    r_squared
        By function, out of fold: the share of the prior variance of f that its summary explains.
    pilot_simulations
        How many simulations taught.
    """

    def __init__(self, base: Problem, summary: LearnedSummary, learning: Learning) -> None:
        super().__init__(
            base.prior,
            base.simulate,
            base.arguments["observed"],
            summary=summary,
            summary_names=[f"learned {name}" for name in learning.r_squared],
            derived=base.arguments["derived"],
            cost=base.arguments["cost"],
            records=base.records,
        )
        self.base = base
        self.learning = learning
        self._summary = summary

    @property
    def regression(self) -> str:
        return self.learning.regression

    @property
    def r_squared(self) -> dict[str, float]:
        return dict(self.learning.r_squared)

    @property
    def pilot_simulations(self) -> int:
        return self.learning.simulations

    @cached_property
    def pilot_distances(self) -> FloatArray:
        """Distances of the pilot's simulations to the data, from predictions out of fold; ∞ for those that failed."""
        assert self.observed is not None
        away = np.sqrt(((self.learning.summaries - self.observed) ** 2).sum(axis=1))
        return np.concatenate([away, np.full(self.learning.simulations - len(away), np.inf)])

    def tolerance_for(self, share: float) -> float:
        """The tolerance that this share of simulations from the prior meets, by the pilot."""
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
            raise InputError(f"share must be a number between 0 and 1, such as 0.01; got {shown(share)}")
        count = int(np.ceil(share * len(self.pilot_distances)))
        found = float(np.sort(self.pilot_distances)[count - 1])
        if not np.isfinite(found):
            raise InputError(f"too many of the pilot's simulations failed for a share of {share:g}")
        return found

    @property
    def remark(self) -> str:
        """What was learned, in a line."""
        shown = ", ".join(f"{name} {value:.2f}" for name, value in list(self.r_squared.items())[:6])
        more = ", …" if len(self.r_squared) > 6 else ""
        return (
            f"the summaries were learned from {self.pilot_simulations:,} more simulations ({self.regression} "
            f"regression, out-of-fold R²: {shown}{more}); 1% of them came within "
            f"{np.quantile(self.pilot_distances, 0.01):.3g}"
        )

    @property
    def warning(self) -> str:
        """The targets about which the summaries contain no information, as a warning; empty if there are none."""
        poor = [name for name, value in self.r_squared.items() if value < POOR]
        if not poor:
            return ""
        return (
            f"the summaries contain no information on {', '.join(poor)} (out-of-fold R² below {POOR:g}): try another "
            "regression or a larger pilot; otherwise the estimate is that of the prior"
        )

    def replace(self, **changes: Any) -> Problem:
        """The same summaries of a problem that is changed; a plain problem where the comparison itself is changed."""
        if {"summary", "distance", "accept"} & changes.keys():
            return self.base.replace(**changes)
        return LearnedProblem(self.base.replace(**changes), self._summary, self.learning)

    def with_observed(self, observed: Any) -> LearnedProblem:
        """The same summaries of other data: nothing is learned again."""
        return LearnedProblem(self.base.with_observed(observed), self._summary, self.learning)

    @cached_property
    def reference(self) -> Reference:
        return self.base.reference

    def truth(self, target: Target | None = None) -> Any:
        """The truth given all the data, as far as the problem itself knows it."""
        return self.base.truth() if target is None else self.base.truth(target)

    def truth_error(self, target: Target) -> FloatArray:
        return self.base.truth_error(target)
