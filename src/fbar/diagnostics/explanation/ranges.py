"""Central ranges of the parameters: in the prior, among the simulations and in the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray
from fbar.diagnostics.explanation.data import Range
from fbar.methods import Run
from fbar.question.points import Points

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
    low, high = quantiles(column[has], weights[has], np.array(CENTRAL))
    return float(low), float(high)


def quantiles(column: npt.NDArray[Any], weights: FloatArray, levels: FloatArray) -> FloatArray:
    """The least values that at least so much of the weight does not exceed."""
    values = column.astype(np.float64)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    rows = np.searchsorted(below, levels * below[-1])
    return np.asarray(values[order][np.minimum(rows, values.size - 1)])
