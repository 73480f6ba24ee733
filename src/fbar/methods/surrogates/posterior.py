"""From the surrogate to a posterior: weighted points, and error bars from what is not known of the surrogate.

The points' weights are p L/q, see `fbar.methods.surrogates.sampling`. Functions f_g, drawn jointly at the points from
the Gaussian process, give other weights w_g ∝ (p/q) Φ((h − f_g)/σ), and with them other answers. To first order these
differ from the answer by Σ w_g ψ, and the variance is the mean of its square over the functions, with what the number
of points leaves, Σ w² ψ². It is that of ABC's posterior at the tolerance, if distances are as the Gaussian process has
them: normal on the scale that is modelled, with the same noise at all θ.

They never are quite, and what that does is larger than the rest of the error as a rule. It shows in the answers that
Gaussian processes of the distance on other scales give at the same tolerance: the mean square of their differences from
the answer is added to the variance, as a bias of either sign. The simulations that came within the tolerance test the
assumption too: they must be about as many as the surrogate of all others expects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from fbar.arrays import FloatArray
from fbar.checks import counted
from fbar.estimation.counted import WITHIN
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.methods.surrogates.gaussian_process import GaussianProcess
from fbar.methods.surrogates.sampling import Sampled, particles_of, weighted
from fbar.question.problem import Problem
from fbar.question.space import Space
from fbar.weights import normalised

POINTS = 2048
"""Weighted points of a posterior."""

FUNCTIONS, RANK = 256, 150
"""Functions that are drawn for the error bars, and columns of the factor that they are drawn by, at most."""

LEAST_ESS = 50
"""The effective number of points below which the surrogate's posterior is not represented well."""

UNEXPECTED = 2.6
"""Standard deviations by which the number of accepted simulations may differ from what the surrogate expects: 1%."""


@dataclass(frozen=True, eq=False)
class SurrogateErrors(ErrorModel):
    """``weights`` (n,) of the points; ``drawn`` (functions, n), those under functions of the Gaussian process;
    ``others``, those under Gaussian processes of the distance on other scales.
    """

    weights: FloatArray
    drawn: FloatArray
    others: FloatArray
    simulations: int

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        away = self.drawn @ influence
        z = self.weights[:, None] * influence
        apart = self.others @ influence
        bias = apart.T @ apart / max(len(self.others), 1)
        covariance = away.T @ away / len(self.drawn) + z.T @ z + bias
        df = np.full(influence.shape[1], float(max(self.simulations - 1, 1)))
        return ErrorBars(covariance, df, bias=np.sqrt(np.diagonal(bias)))


def surrogate_posterior(
    problem: Problem,
    space: Space,
    process: GaussianProcess,
    found: Sampled,
    others: Sequence[tuple[GaussianProcess, float]],
    accepted: int,
    rng: np.random.Generator,
) -> Posterior:
    """The posterior of sampled points, with the error that the Gaussian process leaves.

    ``others`` are Gaussian processes of the distance on other scales, with the threshold on theirs.
    """
    points = space.points(particles_of(found.x)).with_derived(problem.derived)
    functions = found.prediction.functions(FUNCTIONS, rng, RANK)
    log_w = found.log_ratio + log_ndtr((found.threshold - functions) / math.sqrt(process.noise))
    drawn = np.stack([normalised(row) for row in log_w])
    apart = [weighted(other, other.at(found.x), found.log_ratio, threshold).weights for other, threshold in others]
    errors = SurrogateErrors(found.weights, drawn, np.reshape(apart, (len(apart), -1)), len(process.x))
    posterior = Posterior(points, found.weights, errors, len(process.x), float(accepted))
    posterior.counted_as, posterior.parts_in_words = WITHIN, "points of a surrogate"
    posterior.doubts = tuple(_doubts(process, found))
    return posterior


def _doubts(process: GaussianProcess, found: Sampled) -> list[str]:
    doubts = []
    if found.ess < LEAST_ESS:
        doubts.append(
            f"the surrogate's posterior is represented by effectively {found.ess:.3g} points, fewer than {LEAST_ESS}: "
            "it is too narrow compared with the prior"
        )
    expected, spread, seen = within(process, found.threshold)
    if abs(seen - expected) > UNEXPECTED * spread + 0.5:
        doubts.append(
            f"{counted(seen, 'simulation')} came within the tolerance where the surrogate expected {expected:.3g} ± "
            f"{spread:.2g}: distances are not distributed as it assumes"
        )
    return doubts


def within(process: GaussianProcess, threshold: float) -> tuple[float, float, int]:
    """How many simulations are expected to come within the tolerance, each by the surrogate of all others, with the
    standard deviation of their number; and how many did."""
    mean, variance = process.left_out
    chance = ndtr((threshold - mean) / np.sqrt(variance))
    return float(chance.sum()), math.sqrt(float((chance * (1 - chance)).sum())), int((process.y <= threshold).sum())
