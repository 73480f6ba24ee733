"""Synthetic likelihood, importance-sampled: the summaries at each θ are taken for normal (Price et al. 2018).

At each θ the model is simulated R times, and a is the normal density of the data's summaries: with the mean and
covariance of the simulations plugged in (Wood 2010), or Ghurye & Olkin's unbiased estimate of it, so that the posterior
does not depend on R; see `fbar.methods.worth.gaussian` for formulas. Price et al. use a in Markov chains; here θ is
drawn from proposals that are learned for the targets, so that draws are independent and error bars simple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import choice, counted, finite_number, non_negative_number, positive_integer, shown, store_number
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.gaussian import NormalFit
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.normality import doubt_of, skewness_and_kurtosis
from fbar.methods.worth.replicates import ReplicatedValuation
from fbar.methods.worth.valuation import Replicates, Valuation, Valued

KINDS = ("unbiased", "gaussian")

PLUGGED_IN, PLUGGED_IN_PER_NUMBER = 20, 10
"""Simulations that plugged-in covariances need, and for each number: with few, the posterior is too wide."""

MOSTLY = 0.9
"""The share of draws with singular covariances that explains why there is no posterior."""


@register(
    "synthetic-likelihood",
    "several simulations at each draw, whose summaries are taken to be normal",
    needs="data that are numbers",
)
@dataclass(frozen=True)
class SyntheticLikelihood(WorthMethod):
    """Synthetic likelihood (Wood 2010; Price, Drovandi, Lee & Nott 2018) with draws where they reduce the error most.

    Suits summaries that are about normal at each θ, such as means of many data, and simulators that are cheap enough
    for R simulations at each θ. It needs no tolerance.

    Parameters
    ----------
    kind
        ``"unbiased"``, Ghurye & Olkin's estimate of the density, or ``"gaussian"``, mean and covariance plugged in.
    replicates
        R, the simulations at each θ; by default chosen so that the variance of log a is 1, which is best for a budget.
    shrinkage
        Multiplies the correlations of the summaries by 1 − γ, for many summaries and few simulations (with
        ``"gaussian"``); 0 leaves them as they are.
    """

    kind: str = "unbiased"
    replicates: int | None = None
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.kind, KINDS, "kind")
        if self.replicates is not None:
            positive_integer(self.replicates, "replicates")
        store_number(self, "shrinkage", finite_number(non_negative_number(self.shrinkage, "shrinkage"), "shrinkage"))
        if self.shrinkage > 1:
            raise InputError(f"shrinkage must lie between 0 and 1; got {shown(self.shrinkage)}")
        if self.shrinkage and self.kind == "unbiased":
            raise InputError("the unbiased estimate takes covariances as they are; use kind='gaussian' with shrinkage")

    def valuation(self, start: Start) -> Valuation:
        problem = start.problem
        if not problem.compares_numbers or problem.observed is None:
            raise InputError("synthetic likelihood needs summaries that are numbers; give the problem a summary=")
        observed = np.asarray(problem.observed, dtype=np.float64).ravel()
        least = self._least(observed.size)
        if self.replicates is not None and self.replicates < least:
            raise InputError(
                f"with {counted(observed.size, 'number')} in the summaries, every draw needs at least {least} "
                f"simulations; got replicates={self.replicates}"
            )
        return NormalSummaries(self, observed, least, problem.posterior_in_words)

    def _least(self, d: int) -> int:
        if self.kind == "unbiased":
            return d + 4
        return 3 if self.shrinkage else d + 2


class NormalSummaries(ReplicatedValuation):
    """The valuation of synthetic likelihood."""

    def __init__(self, method: SyntheticLikelihood, observed: FloatArray, least: int, posterior: str) -> None:
        enough = PLUGGED_IN + PLUGGED_IN_PER_NUMBER * observed.size
        self.unbiased = method.kind == "unbiased"
        super().__init__(method.replicates, least if self.unbiased else max(least, enough))
        self.method, self.observed = method, observed
        self._posterior = posterior
        self._doubt = ""
        self._draws = self._singular = 0  # for a message

    @property
    def about(self) -> str:
        return f"{self._posterior}, if summaries are normal at each θ (synthetic likelihood)"

    def value(self, waves: Sequence[Replicates]) -> Valued:
        (wave,) = waves
        fit = NormalFit.of(wave.summaries, wave.failed, self.observed, self.method.shrinkage)
        self._draws, self._singular = self._draws + wave.draws, self._singular + int((~fit.regular).sum())
        log_a = fit.log_unbiased if self.unbiased else fit.log_plugged_in
        with np.errstate(divide="ignore"):
            log_a = log_a + np.log(fit.count / wave.each)  # those that fail have no summaries at all
        return Valued.positive(log_a, fit.log_variance)

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        """Choose R; and see whether summaries look normal."""
        shape, start = np.zeros(2), 0
        for (wave,) in draws:
            shape += weights[start : start + wave.draws] @ skewness_and_kurtosis(wave.summaries, wave.failed)
            start += wave.draws
        self._doubt = doubt_of(shape)
        return super().learn(draws, weights, left)

    @property
    def doubts(self) -> tuple[str, ...]:
        return (self._doubt,) if self._doubt else ()

    @property
    def why_nothing(self) -> str:
        if self._singular < MOSTLY * self._draws:
            return ""
        return (
            "the covariance of the summaries is singular at nearly every draw: some of them are constant, or follow "
            "from others; leave these out"
        )

    @property
    def remark(self) -> str:
        return f"{self._chosen} simulations at each draw of θ"
