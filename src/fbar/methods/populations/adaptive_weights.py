"""ABC-SMC with adaptive weights (Bonassi & West 2015, Bayesian Analysis 10, 171–187).

As population Monte Carlo, see `fbar.methods.populations.pmc`, but the particles that are moved are not drawn by their
weights w. Those whose summaries s_j are near the data s* are drawn more often,

    v_j ∝ w_j K_s(s* − s_j),        w ∝ p(θ) / Σ_j v_j K(θ_j, θ),

since the next population has to come nearer to the data. (θ_j, s_j) is a sample of the joint density of parameters and
summaries, which Σ_j w_j K(θ_j, θ) K_s(s_j − s) estimates; the proposal is that estimate, given s = s*. K_s is normal
and independent in each summary, with the bandwidth of Scott's rule for the joint density, h = σ̂ N^{−1/(d+4)}, d the
number of parameters and summaries together. K has the same width as without adaptive weights, so that the weights are
all that differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError
from fbar.estimation.round import Round
from fbar.methods.populations.last_population import LastPopulation, particles_for
from fbar.methods.registry import register
from fbar.methods.smc.descent import CentreWeights
from fbar.question.problem import Problem
from fbar.weights import relative


@dataclass(frozen=True, eq=False)
class NearData:
    """v ∝ w K_s(s* − s)."""

    observed: FloatArray
    parameters: int

    def __call__(self, present: Round, rows: IntArray, weights: FloatArray) -> FloatArray:
        """The particles' probabilities to be moved."""
        summaries = present.summaries(rows, self.observed.size)
        share = (weights / weights.sum())[:, None]
        centred = summaries - (share * summaries).sum(axis=0)
        spread = np.sqrt((share * centred**2).sum(axis=0))
        differs = spread > 0  # a summary that is always the same carries no information
        away = (summaries - self.observed)[:, differs] / self._bandwidth(spread[differs], rows.size)
        return weights * relative(-0.5 * (away**2).sum(axis=1))

    def _bandwidth(self, spread: FloatArray, particles: int) -> FloatArray:
        """Scott's rule for the joint density of parameters and summaries."""
        return np.asarray(spread * particles ** (-1 / (self.parameters + self.observed.size + 4)))


def _in_study(budget: int) -> AdaptiveWeights:
    return AdaptiveWeights(accepted=particles_for(budget))


@register(
    "adaptive-weights",
    "population Monte Carlo that moves particles whose summaries are near the data more often",
    for_budget=_in_study,
)
@dataclass(frozen=True)
class AdaptiveWeights(LastPopulation):
    """ABC-SMC with adaptive weights, as published by Bonassi & West (2015): the last population only.

    Particles whose summaries are near the data are moved more often than in proportion to their weights, and the
    weights of the next population correct for that.

    Parameters
    ----------
    schedule, accepted, perturbation, coordinates, jump, least_rate
        As for `PMC`.
    """

    def _centre_weights(self, problem: Problem) -> CentreWeights | None:
        if not problem.has_summaries:
            return None  # all accepted simulations match the data alike
        if not problem.compares_numbers:
            raise InputError(
                "adaptive weights compare summaries that are numbers, and those of this problem are labels; use "
                "method='pmc'"
            )
        assert problem.observed is not None
        return NearData(np.ravel(problem.observed).astype(np.float64), len(problem.prior.names))
