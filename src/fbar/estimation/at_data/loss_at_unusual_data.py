"""What learned summaries may lose where the data are unlike the simulations that have the same summaries.

The loss λ of learned summaries (`fbar.estimation.at_data.learned_summaries`) is a mean over simulations. Data of a
misspecified model, or merely unusual ones, lie where hardly a simulation was, and there the functions that predict θ
are extrapolations: E[θ|x*] may differ from E[θ|s(x*)] by far more than λ says. So the numbers of the data are compared
with those of the simulations near them in s. With r the residuals of a linear regression of these numbers on s (r* that
of the data at s*), and D² their squared Mahalanobis distance,

    p = 2 min(P(D² ≥ D*²), P(D² ≤ D*²))    under the weights of the sample at the data:

data may be too quiet as well as too wild. Numbers are arsinh-scaled about the middle of the simulations (about the data
their own distance from it would be stretched, and that of simulations compressed); of more than 150, means of
consecutive blocks are compared. Rows are compared by the covariance of the other half of them, so that rows and data
are alike; it is shrunk to its diagonal by the share of numbers to effective simulations. Among data from the model p is
about uniform. Where it is small, the loss is taken for the most that it ever is, `MOST_LOSS`: for all of that at p = 0,
and for less the larger p is, up to `USUAL`. What it really is there cannot be seen in the simulations. In the boarding
school of `examples/` p is below 0.001; without this the mean infectious time was five error bars off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.at_data.basis import blocks
from fbar.estimation.at_data.choice import Step
from fbar.estimation.at_data.nearness import NO_VARIANCE, differences, scaled
from fbar.estimation.at_data.prepared import MOST_LOSS
from fbar.weights import effective_size

USUAL = 0.2
"""A p-value from which on data are like simulations."""

FEW = 20
"""Effective simulations near the data, with fewer of which nothing can be compared."""


def charged(step: Step) -> Step:
    """The step with the loss that unusual data may bring."""
    prepared = step.moved.prepared
    p = unusualness(step)
    if p is None or p >= USUAL:
        return step
    more = max((1 - p / USUAL) * (MOST_LOSS - prepared.loss), 0.0)
    return replace(step, bias=step.bias + more, unusual=p)


def unusualness(step: Step) -> float | None:
    """p of the data's numbers among those of the simulations near them; None where they cannot be compared."""
    prepared, weights = step.moved.prepared, step.weights
    if prepared.x is None or prepared.learned is None or effective_size(weights.omega) < FEW:
        return None
    rows = step.moved.rows[weights.at]
    observed = np.ravel(np.asarray(prepared.problem.observed, dtype=np.float64))
    compared = blocks(np.vstack([prepared.x[rows], observed]))
    compared = scaled(differences(compared, np.median(compared[:-1], axis=0)))
    numbers, of_data = compared[:-1], compared[-1]
    if not numbers.shape[1]:
        return None
    linear = weights.x[:, : 1 + step.moved.u.shape[1]]
    root = np.sqrt(weights.kernel)[:, None]
    slopes = np.linalg.lstsq(linear * root, numbers * root, rcond=None)[0]
    residuals, of_data = numbers - linear @ slopes, of_data - slopes[0]
    half = np.arange(rows.size) % 2 == 0
    farther = nearer = 0.0
    for own in (half, ~half):
        inverse = _inverse(residuals[~own], weights.omega[~own])
        distance, at_data = ((residuals[own] @ inverse) * residuals[own]).sum(axis=1), of_data @ inverse @ of_data
        farther += float(weights.omega[own][distance >= at_data].sum())
        nearer += float(weights.omega[own][distance <= at_data].sum())
    return min(2 * farther, 2 * nearer, 1.0)


def _inverse(x: FloatArray, weights: FloatArray) -> FloatArray:
    """The inverse of a weighted covariance about 0, shrunk to its diagonal."""
    covariance = (weights[:, None] * x).T @ x / max(weights.sum(), 1e-300)
    shrunk = min(x.shape[1] / effective_size(weights), 1.0)
    diagonal = np.diagonal(covariance)
    least = max(NO_VARIANCE * float(diagonal.max()), 1e-300)
    made = (1 - shrunk) * covariance + np.diag(shrunk * diagonal + least)
    return np.asarray(np.linalg.inv(made))
