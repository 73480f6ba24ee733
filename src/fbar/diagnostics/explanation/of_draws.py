"""Explanations of estimates from weighted draws: shares of Σ z², and what rejection would have given.

N times the variance of another proposal q′ is ∫ ψ² p² m₂/q′ dθ / Z² with m₂ = E[a²|θ] (section S5.1 of the paper); for
rejection, where q′ is the prior, that is ∫ ψ² p m₂ dθ / Z². Under the q that made the draws E[w a² ψ²] is this integral
and E[w a] is Z, the rejected draws counting with a = 0, so that

    V_rejection = Σ w a² ψ² / (Σ w a)²

for as many simulations as there were draws. It takes w = p/q itself, not only up to a constant.
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray
from fbar.diagnostics.explanation.data import Alternative, Shares, alternative
from fbar.diagnostics.explanation.regions import carriers_of, regions_of
from fbar.estimation.draws import Draws
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.draws import DrawRun
from fbar.question.points import Points
from fbar.question.targets import Target
from fbar.weights import normalised


def of_draws(run: Run, posterior: Posterior, target: Target, simulated: Points | None) -> Shares:
    """Who contributes to the error of an estimate from draws; ``simulated`` stand for all simulations."""
    unknown = [] if simulated is not None else ["where the rejected simulations were"]
    draws, weights = posterior.draws, None if posterior.errors is None else posterior.errors.draw_weights
    if (draws is None or weights is None) and isinstance(run, DrawRun):  # of another estimator: the same draws
        draws = run.draws().accepted()
        weights = normalised(draws.log_w, draws.weight)
    if draws is None or weights is None:
        unknown.append("which simulations contribute most to the error, and what other methods would have given")
        return Shares(unknown=tuple(unknown))
    z = posterior.contributions(target)
    if z is None:
        unknown.append("which simulations carry an estimate that is not a weighted average of accepted ones")
        # With the weighted average's ψ the variance under another proposal can be computed.
        influence = target.influence(draws.points, weights)
        others, why_not = _rejection(run, posterior, target, draws, influence)
        return Shares(alternatives=others, unknown=(*unknown, *why_not))
    if draws.cluster is not None:
        unknown.append("the contributions of single draws to the error of evenly spread sets: shares are of Σz²")
    if draws.scheme == "chains":
        unknown.append("how much the states of one chain add to each other's error: shares are of Σz²")
    square = (z**2).sum(axis=1)
    parameter, regions = regions_of(run, draws.points, weights, draws.weight, target, square, simulated)
    carriers = carriers_of(posterior.parts_in_words, square, draws.points, run.problem.prior.names)
    others, why_not = _rejection(run, posterior, target, draws, z / weights[:, None], square)
    return Shares(parameter, regions, carriers, others, (*unknown, *why_not))


def _rejection(
    run: Run,
    posterior: Posterior,
    target: Target,
    draws: Draws,
    influence: FloatArray,
    square: FloatArray | None = None,
) -> tuple[tuple[Alternative, ...], tuple[str, ...]]:
    """Draws from the prior, see the module's text, with the standard error of the ratio of variances; or why not."""
    if draws.relative:
        why = (
            "proposals of chains have no weights" if draws.scheme == "chains" else "weights are relative within a round"
        )
        return (), (f"what rejection would have given: {why}",)
    independent = draws.scheme == "independent"
    if draws.design is run.problem.prior and independent and square is not None:
        return (), ()  # that is what it was
    a, w = draws.weight, np.exp(draws.log_w)
    top, bottom = w * a**2 * (influence**2).sum(axis=1), w * a
    if not top.sum() > 0:
        return (), ()
    # Draws outside the support are in the sizes of strata; of clusters these are the numbers.
    number = float(draws.simulations if draws.cluster is not None else draws.stratum_sizes.sum())
    # As many draws from the prior, which may take several simulations each.
    variance = float(number / draws.simulations * top.sum() / bottom.sum() ** 2)
    estimate = posterior.expect(target)
    if estimate.inverted is not None and posterior.errors is not None:
        if not np.isfinite(estimate.variance).all():
            return (), ("what rejection would have given: there is no error to compare with",)
        # A quantile's error is in the slope dQ/dF of its own interval, for either way of simulating.
        variance *= float(np.sum(estimate.variance) / np.trace(posterior.errors.error_bars(influence).covariance))
    parts = np.atleast_1d(estimate.variance) * posterior.known_share(influence)
    achieved = float(np.sum(parts))  # what was added for simulations that were not seen is no part of a comparison
    # The relative errors of A/B² and of the ratio to Σz², as sums over independent draws.
    part = top / top.sum() - (2 * bottom / bottom.sum() if square is None else square / square.sum())
    found = alternative(posterior.counted_as.from_prior, variance, achieved, math.sqrt((part**2).sum()))
    return (found,), ()
