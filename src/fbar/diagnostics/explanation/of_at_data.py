"""Explanations of estimates at the data: the regression that was chosen, variance and bias, and who contributes.

The error of an estimate at the data is Σ z and a bias (`fbar.estimation.at_data`), z of the simulations within the
bandwidth being known one by one. Their places are those that they were moved to.
"""

from __future__ import annotations

import numpy as np

from fbar.diagnostics.explanation.data import Regression, Shares
from fbar.diagnostics.explanation.regions import carriers_of, regions_of
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Estimate
from fbar.methods import Run
from fbar.question.points import Points
from fbar.question.targets import Target


def of_at_data(run: Run, posterior: PosteriorAtData, target: Target, simulated: Points | None) -> Shares:
    """Who contributes to the variance of an estimate at the data; ``simulated`` stand for all simulations."""
    unknown = () if simulated is not None else ("where the simulations were",)
    z = posterior.contributions(target)
    if z is None:
        return Shares(unknown=(*unknown, "which simulations contribute most to the error"))
    square, points, weights = (z**2).sum(axis=1), posterior.points, posterior.weights
    first = posterior.parts.first  # of two draws from one simulation
    used = np.zeros(points.rows)
    used[first] = 1.0
    parameter, regions = regions_of(run, points, weights, used, target, square, simulated)
    carriers = carriers_of(posterior.parts_in_words, square[first], points.take(first), run.problem.prior.names)
    return Shares(parameter, regions, carriers, (), unknown)


def regression_of(posterior: PosteriorAtData, estimate: Estimate) -> Regression:
    """What was chosen, and what part of the squared error is bias."""
    total, bias = np.sum(np.square(estimate.standard_error)), np.sum(np.square(estimate.bias))
    step = posterior.step
    return Regression(
        step.moved.order,
        len(step.moved) / float(posterior.simulations),
        posterior.bandwidth,
        float(bias / total) if np.isfinite(total) and total > 0 else None,
        posterior.parts.main.share,
    )
