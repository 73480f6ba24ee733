"""Why an estimate at the data may be wrong by more than its error bar says."""

from __future__ import annotations

import numpy as np

from fbar.estimation.at_data.choice import Step
from fbar.weights import effective_size

GAP, MOST_GAP_DIMENSIONS = 0.9, 20
"""The data lie in a gap if no simulation is nearer than this part of the median distance; in so many dimensions."""

FEW = 20
"""Effective simulations at the data, without which no error bar is reliable."""

TOO_FAR = 1.0
"""A total error of so many posterior deviations says that the simulations do not reach the data."""

EDGE = 0.01
"""The share of the simulations near the data that must be farther from their middle than the data are."""

UNLIKE = 0.01
"""A p-value below which it is remarked that the data are unusual."""


def unlike_in_words(step: Step) -> str:
    """A remark on data that are unlike the simulations of the same learned summaries."""
    p = step.unusual
    if p is None or p > UNLIKE:
        return ""
    least = 1 / effective_size(step.weights.omega)
    chance = f"p = {p:.1g}" if p > least else f"p < {least:.1g}"
    return (
        f"the data are unlike simulations with the same summaries ({chance}): more may be lost, and the errors "
        "allow for it"
    )


def doubts_of(step: Step) -> tuple[str, ...]:
    """Why every number that is estimated is unreliable."""
    found = list(step.moved.prepared.doubts)
    if step.weights.farther < EDGE:
        found.append("the data lie at the edge of the simulations or outside; the estimate is an extrapolation")
    if _in_a_gap(step):
        found.append("no simulation comes near the data: they lie in a gap between what the simulator gives")
    if step.weights.ess < FEW:
        found.append(f"the estimate rests on {step.weights.ess:.2g} effective simulations near the data")
    if step.error > TOO_FAR**2:
        found.append("the simulations do not come near enough to the data; the error may be as large as the spread")
    return tuple(found)


def _in_a_gap(step: Step) -> bool:
    """Whether the nearest simulation is hardly nearer than half of the region, as around a hole or between atoms.

    In d dimensions the nearest of n is expected at about (2/n)^(1/d) of the median distance: 0.66 for 8,000 in 20.
    """
    radius, dimension = step.moved.radius, step.moved.u.shape[1]
    usual = float(np.median(radius))
    return dimension <= MOST_GAP_DIMENSIONS and usual > 0 and float(radius.min()) > GAP * usual
