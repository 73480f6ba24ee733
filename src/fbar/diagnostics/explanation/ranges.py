"""Central ranges of the parameters: in the prior, among the simulations and in the posterior."""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray
from fbar.diagnostics.explanation.data import Range
from fbar.methods import Run
from fbar.question.points import Points
from fbar.weights import weighted_quantiles

CENTRAL = 0.1, 0.9


def ranges_of(
    run: Run,
    prior: tuple[Points, FloatArray],
    places: tuple[Points, FloatArray] | None,
    posterior: tuple[Points, FloatArray],
) -> tuple[Range, ...]:
    found = []
    for name in dict.fromkeys((*run.problem.prior.names, *run.problem.derived)):
        if prior[0][name].dtype.kind not in "iuf":
            continue
        first, middle, last = (None if part is None else _central(name, *part) for part in (prior, places, posterior))
        if first is not None and last is not None:
            found.append(Range(name, first, middle, last))
    return tuple(found)


def _central(name: str, points: Points, weights: FloatArray) -> tuple[float, float] | None:
    """The 10% and 90% quantiles among the points that have the parameter."""
    column, has = points[name], points.present(name) & (weights > 0)
    if not has.any():
        return None
    low, high = weighted_quantiles(column[has], weights[has], np.array(CENTRAL))
    return float(low), float(high)
