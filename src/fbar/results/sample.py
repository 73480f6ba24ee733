"""Equally weighted draws from a posterior of weighted points, by systematic resampling.

A point of weight w is drawn ⌊n w⌋ or ⌈n w⌉ times: expectations stay what they are up to less than one draw a point.
Draws beyond the effective sample size repeat points, and hold no further information.
"""

from __future__ import annotations

import warnings

import numpy as np

from fbar.checks import counted, positive_integer, rows
from fbar.diagnostics.predictive import resampled
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.seeds import Purpose, Seeds
from fbar.weights import effective_size

MOST_DRAWS = 100_000
"""Draws, unless a number is asked for: a finite space may be known as if by many more."""

FEW = 20
"""Distinct points, fewer of which are no picture of a posterior."""


def draw(posterior: Posterior, seeds: Seeds, number: int | None = None, stacklevel: int = 3) -> Points:
    """Equally weighted draws in random order, with derived parameters as columns like the others.

    As many as the effective sample size, unless a ``number`` is given.
    """
    posterior = posterior.pictured
    weights = posterior.weights
    if np.ndim(weights) > 1:
        raise InputError("a sample is drawn from a run without trials")
    if (weights < 0).any():
        raise InputError("some weights are negative, so nothing can be drawn from them")
    if not weights.sum() > 0:
        raise NoPosterior("no simulation contributes to this posterior, so no sample can be drawn")
    effective = effective_size(weights) if posterior.ess is None else float(posterior.ess)
    size = min(max(round(effective), 1), MOST_DRAWS) if number is None else positive_integer(number, "size")
    which = resampled(weights, rows(size, "size"), seeds.generator(Purpose.PREDICT, 1, 0))
    distinct = int(np.unique(which).size)
    if posterior.cells is None and size > 1 and (distinct < min(FEW, size) or 2 * distinct < size):
        warnings.warn(
            f"the sample of {size:,} consists of {counted(distinct, 'distinct point')}: the effective sample size is "
            f"{effective:,.4g}; run more simulations, or draw fewer",
            stacklevel=stacklevel,
        )
    return _columns(posterior.points.take(which))


def _columns(points: Points) -> Points:
    columns = {name: np.asarray(points[name]) for name in (*points, *points.derived)}
    if points.complete:
        return Points(columns)
    having = {name: points.present(name) for name in columns}
    return Points(columns, present={name: mask for name, mask in having.items() if not mask.all()})
