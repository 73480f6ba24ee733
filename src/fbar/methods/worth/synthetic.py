"""Synthetic likelihood, importance-sampled: the summaries at each θ are taken for normal (Price et al. 2018).

At each θ the model is simulated R times, and a is the normal density of the data's summaries: with the mean and
covariance of the simulations plugged in (Wood 2010), or Ghurye & Olkin's unbiased estimate of it, so that the posterior
does not depend on R; see `fbar.methods.worth.gaussian` for formulas. Price et al. use a in Markov chains; here θ is
drawn from proposals that are learned for the targets, so that draws are independent and error bars simple.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import choice, counted, finite_number, non_negative_number, positive_integer, shown, store_number
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.gaussian import NormalFit
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.valuation import Asked, Replicates, Valuation, Valued

KINDS = ("unbiased", "gaussian")

LEAST_DRAWS = 60
"""Draws of θ that what is left of a budget should suffice for, where the number of simulations is chosen."""

PLUGGED_IN, PLUGGED_IN_PER_NUMBER = 20, 10
"""Simulations that plugged-in covariances need, and for each number: with few, the posterior is too wide."""

SKEWED, HEAVY = 1.0, 4.0
"""Mean absolute skewness and excess kurtosis of the summaries near the posterior above which they are not called
normal. Of normal summaries, both are about 0."""


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


class NormalSummaries(Valuation):
    """The valuation of synthetic likelihood."""

    def __init__(self, method: SyntheticLikelihood, observed: FloatArray, least: int, posterior: str) -> None:
        self.method, self.observed = method, observed
        self.unbiased = method.kind == "unbiased"
        d = observed.size
        self._least = least if self.unbiased else max(least, PLUGGED_IN + PLUGGED_IN_PER_NUMBER * d)
        self._chosen = method.replicates or self._least
        self._posterior = posterior
        self._doubt = ""

    @property
    def replicates(self) -> int:
        """R of the draws to come."""
        return self._chosen

    @property
    def about(self) -> str:
        return f"{self._posterior}, if summaries are normal at each θ (synthetic likelihood)"

    @property
    def most(self) -> int:
        return self._chosen

    def ask(self, wave: int, draws: int, rng: np.random.Generator) -> Asked:
        return Asked(self._chosen)

    def value(self, waves: Sequence[Replicates]) -> Valued:
        (wave,) = waves
        fit = NormalFit.of(wave.summaries, wave.failed, self.observed, self.method.shrinkage)
        log_a = fit.log_unbiased if self.unbiased else fit.log_plugged_in
        with np.errstate(divide="ignore"):
            log_a = log_a + np.log(fit.count / wave.each)  # those that fail have no summaries at all
        return Valued.positive(log_a, fit.log_variance)

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        """Choose R, the number that makes the variance of log a 1; and see whether summaries look normal."""
        variances, start, shapes = [], 0, []
        for (wave,) in draws:
            fit = NormalFit.of(wave.summaries, wave.failed, self.observed, self.method.shrinkage)
            own = weights[start : start + wave.draws]
            start += wave.draws
            good = np.flatnonzero(fit.regular & (own > 0))
            variances.append((own[good] * fit.log_variance[good] * fit.count[good]).sum())
            shapes.append(_shape(wave, good) * own[good][:, None])
        total = np.concatenate(shapes).sum(axis=0)
        self._doubt = (
            f"the summaries are not normal near the posterior (skewness {total[0]:.1f}, excess kurtosis "
            f"{total[1]:.1f} on average), so the synthetic likelihood is not the likelihood; transform them"
            if total[0] > SKEWED or total[1] > HEAVY
            else ""
        )
        if self.method.replicates is not None:
            return False
        room = max(self._least, int(left // LEAST_DRAWS)) if left < math.inf else 10**6
        chosen = int(min(max(self._least, math.ceil(sum(variances))), room))
        changed, self._chosen = chosen != self._chosen, chosen
        return changed

    @property
    def doubts(self) -> tuple[str, ...]:
        return (self._doubt,) if self._doubt else ()

    @property
    def remark(self) -> str:
        return f"{self._chosen} simulations at each draw of θ"

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"replicates": np.array(self._chosen, dtype=np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._chosen = int(state["replicates"])


def _shape(wave: Replicates, rows: npt.NDArray[np.int64]) -> FloatArray:
    """Mean absolute skewness and mean excess kurtosis of the summaries at some draws, shape (rows, 2)."""
    x = wave.summaries[rows]
    if not rows.size:
        return np.zeros((0, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (x - np.nanmean(x, axis=1, keepdims=True)) / np.nanstd(x, axis=1, keepdims=True)
        skewness, kurtosis = np.nanmean(z**3, axis=1), np.nanmean(z**4, axis=1) - 3
    return np.stack([np.nanmean(np.abs(skewness), axis=1), np.nanmean(kurtosis, axis=1)], axis=1)
