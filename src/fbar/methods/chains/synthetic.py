"""Synthetic likelihood in Markov chains (Wood 2010; Price, Drovandi, Lee & Nott 2018).

At each proposed θ the model is simulated R times, and the score is the log of the normal density of the data's
summaries, estimated from these (`fbar.methods.worth.gaussian`). A proposal is accepted with the probability
min(1, p′ L̂′ / (p L̂)), and a state keeps its L̂: with an unbiased L̂ the chain has the posterior of the normal
likelihood for every R (Andrieu & Roberts 2009). A noisy one lets chains stick where L̂ happened to be large. The
variance of log L̂ is (d + δ⁴)/(2R) for d summaries at a squared Mahalanobis distance δ², of which the mean at the
posterior is about d with variance 2d: R = (d² + 3d)/2 makes it about 1, near the best for a budget (Doucet et al.
2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import choice, counted, number, positive_integer, shown, store_number
from fbar.errors import InputError
from fbar.estimation.chains import States
from fbar.estimation.kept import Kept
from fbar.estimation.posterior import Posterior
from fbar.estimation.sequential import with_error_of_prior
from fbar.methods.chains.plan import LEAST_CHAINS, LEAST_STEPS
from fbar.methods.chains.run import ChainRun
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.gaussian import NormalFit
from fbar.methods.worth.normality import doubt_of, skewness_and_kurtosis
from fbar.methods.worth.synthetic import KINDS, PLUGGED_IN, PLUGGED_IN_PER_NUMBER
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.question.space import Particles, Space

LEAST_REPLICATES = 10


@register(
    "synthetic-likelihood-mcmc",
    "Markov chains with several simulations at each step, whose summaries are taken to be normal",
    needs="data that are numbers",
)
@dataclass(frozen=True)
class SyntheticLikelihoodMCMC(Method):
    """Synthetic likelihood in Markov chains, as published; `SyntheticLikelihood` is importance-sampled.

    Suits summaries that are about normal at each θ. It needs no tolerance.

    Parameters
    ----------
    kind
        ``"unbiased"``, Ghurye & Olkin's estimate of the density, or ``"gaussian"``, mean and covariance plugged in.
    replicates
        R, the simulations at each θ; by default (d² + 3d)/2 for d summaries, where the variance of the log-likelihood
        is about 1, and more for ``"gaussian"``; fewer where the budget is too small for that.
    chains
        How many there are; by default a fifth of the square root of the number of steps in the budget, from 4 to 256.
    jump
        The probability with which a chain proposes a new draw from the prior and not a step, see `MCMC`.
    """

    kind: str = "unbiased"
    replicates: int | None = None
    chains: int | None = None
    jump: float | None = None

    def __post_init__(self) -> None:
        choice(self.kind, KINDS, "kind")
        if self.replicates is not None:
            positive_integer(self.replicates, "replicates")
        if self.chains is not None:
            positive_integer(self.chains, "chains")
        if self.jump is not None:
            if not 0 <= number(self.jump, "jump") <= 1:
                raise InputError(f"jump must be a probability; got {shown(self.jump)}")
            store_number(self, "jump", float(self.jump))

    def replicates_for(self, summaries: int, most: float = math.inf) -> int:
        """R for so many summaries; fewer where ``most`` simulations would not be enough for a few chains."""
        least = summaries + (4 if self.kind == "unbiased" else 2)
        if self.replicates is None:
            usual = max(math.ceil((summaries**2 + 3 * summaries) / 2), LEAST_REPLICATES)
            if self.kind == "gaussian":
                usual = max(usual, PLUGGED_IN + PLUGGED_IN_PER_NUMBER * summaries)
            room = most // ((self.chains or LEAST_CHAINS) * LEAST_STEPS)
            return int(max(least, min(usual, room)))
        if self.replicates < least:
            raise InputError(
                f"with {counted(summaries, 'number')} in the summaries, every step needs at least {least} simulations; "
                f"got replicates={self.replicates}"
            )
        return self.replicates

    def begin(self, start: Start) -> SyntheticLikelihoodRun:
        return SyntheticLikelihoodRun(self, start)


def _most(start: Start) -> float:
    """The number of simulations never to exceed."""
    most = start.limit if start.budget is None else start.budget
    return math.inf if most is None else most


class SyntheticLikelihoodRun(ChainRun):
    """Synthetic likelihood in chains at work; a θ's score is the logarithm of its likelihood's estimate."""

    def __init__(self, method: SyntheticLikelihoodMCMC, start: Start) -> None:
        problem = start.problem
        if not problem.compares_numbers or problem.observed is None:
            raise InputError("synthetic likelihood needs summaries that are numbers; give the problem a summary=")
        self.method = method
        self._observed = np.asarray(problem.observed, dtype=np.float64).ravel()
        self._shapes = Kept()  # skewness and kurtosis of the summaries at every θ
        super().__init__(
            start,
            Space(problem.prior, "normal"),
            chains=method.chains,
            jump=method.jump,
            replicates=method.replicates_for(self._observed.size, _most(start)),
        )

    def _scored(self, batch: Batch, outcomes: Outcomes, particles: Particles) -> FloatArray:
        outcomes = require_simulated(outcomes)
        distance, seen = self.problem.distances(outcomes)
        self.seen = self.seen + seen
        self.visited.add(particles, np.zeros(0, dtype=np.int64))
        failed = np.isnan(distance).reshape(-1, self.replicates)
        if outcomes.summaries[:1].size != self._observed.size:  # all simulations failed
            self._shapes.add(np.zeros((len(failed), 2)))
            return np.full(len(failed), -np.inf)
        summaries = np.asarray(outcomes.summaries, dtype=np.float64).reshape(*failed.shape, self._observed.size)
        self._shapes.add(skewness_and_kurtosis(summaries, failed))
        fit = NormalFit.of(summaries, failed, self._observed)
        score = fit.log_unbiased if self.method.kind == "unbiased" else fit.log_plugged_in
        with np.errstate(divide="ignore"):
            return np.asarray(score + np.log(fit.count / self.replicates))  # those that fail have no summaries at all

    def _starts(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        possible = np.flatnonzero(scores > -np.inf)
        best = possible[np.argsort(-scores[possible], kind="stable")]
        return np.asarray(best[np.arange(self.plan.chains) % best.size] if best.size else best)

    def _likelihood_ratio(self, proposed: FloatArray, current: FloatArray) -> FloatArray:
        ratio = proposed - current
        ratio = np.where(current > -np.inf, ratio, np.inf)
        return np.where(proposed > -np.inf, ratio, -np.inf)

    def posterior(self) -> Posterior:
        visited = self.states()
        rows, inverse = np.unique(visited, return_inverse=True)
        states = States(inverse.reshape(visited.shape), np.ones(rows.size))
        posterior = self.average(rows, states, self.theta_of(rows))
        posterior.about = f"{self.problem.posterior_in_words}, if summaries are normal at each θ (synthetic likelihood)"
        posterior.remark = f"{self.replicates} simulations at each step"
        doubt = doubt_of(np.asarray(self._shapes.take(rows)).T @ states.weights)
        if doubt:
            posterior.doubts = (*posterior.doubts, doubt)
        with_error_of_prior(posterior, self.problem.prior)
        return posterior
