"""How far simulations are from the data: each summary is scaled by its spread near the data.

Each summary is z = a arsinh((s − s*)/(a c)), c its spread among the simulations that are near in all of them: close to
the data z is linear in s, far from them it grows like a logarithm, so that heavy tails have little effect. c comes from
two passes, each among a smaller share of the simulations. It depends on the summaries only, never on θ or weights, so
that it costs no bias. A summary that is the same in all simulations is left out.

Up to *a* spreads from the data z is nearly linear. Where summaries are few, regions are small, and a = 1. Of many
summaries no region is small: it reaches three spreads in each, where with a = 1 a regression that is linear in s would
be curved in z. There a = 2, except for summaries with heavy tails, whose outliers would dominate a regression.

Where data are counts, many simulations are equally near, and the nearest ones may be a part of these only. Which of
them must not depend on the round that they come from: weights p/q̄ are those of all rounds together. So equally near
simulations have a fixed order, in which any first of them are spread evenly over the run: that of the fractional parts
of i·(√5 − 1)/2 for their places i in it (Weyl's sequence of the golden ratio). That order is the same for a run that
is read in parts.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray

SHARES = (0.3, 0.1)
"""The shares of the simulations, nearest first, whose spread is a summary's scale."""

MOST_OF_SPREAD = 2.0
"""A scale is at most so many times the 70% quantile of |s − s*|: one outlier must not set it."""

ROUNDING = 2.0**-49
"""Differences from the data below this, relative to the numbers themselves, are rounding errors."""

HUGE = 1e150
"""Differences from the data are cut there, in units of their scale: squares of them are numbers."""

NO_VARIANCE = 1e-8
"""A direction with less than this share of the largest variance is taken for constant."""

MANY = 4
"""Summaries of more dimensions than this are many: no region of them is small."""

LINEAR_OF_MANY, HEAVY = 2.0, 10.0
"""Each of many summaries is nearly linear up to so many spreads, unless the 99% quantile of |s − s*| is more than so
many medians: for a normal one, at its middle, it is 3.8."""

ENOUGH_FOR_TAILS = 10_000
"""Of more than twice as many simulations some, spread evenly, show the tails."""

SAME_PLACE = 1e-12
"""A deviation of this part of the distances from the data is rounding: all simulations are at the same place."""

GOLDEN = (5**0.5 - 1) / 2

DIRECTIONS_FROM = 1000
"""The nearest simulations whose main directions replace summaries that are too many."""


def differences(summaries: FloatArray, observed: FloatArray) -> FloatArray:
    """(s − s*)/4: the quarter of any number less that of another is a number. What is rounding only becomes 0.

    >>> differences(np.array([[1.6e308, 3.0], [-1.6e308, 3.0]]), np.array([1.6e308, 2.0])).tolist()
    [[0.0, 0.25], [-8e+307, 0.25]]
    """
    quarter = observed / 4
    away = summaries / 4 - quarter
    away[np.abs(away) < ROUNDING * np.maximum(np.abs(summaries) / 4, np.abs(quarter))] = 0.0
    return np.asarray(away)


def varies(away: FloatArray) -> BoolArray:
    """Whether a summary differs between simulations."""
    return np.asarray(away.max(axis=0, initial=-np.inf) > away.min(axis=0, initial=np.inf))


def coordinates(away: FloatArray) -> FloatArray:
    """z of s − s*, shape (n, d): of the summaries that vary; linear twice as far where these are many.

    >>> away = np.linspace(-9.0, 9.0, 101)[:, None]
    >>> coordinates(away)[-1].round(1).tolist(), coordinates(away.repeat(5, axis=1))[-1].round(1).tolist()
    ([3.5], [5.5, 5.5, 5.5, 5.5, 5.5])
    """
    away = away[:, varies(away)]
    if away.shape[1] <= MANY:
        return scaled(away)
    some = away[:: max(len(away) // ENOUGH_FOR_TAILS, 1)]
    median, outer = np.quantile(np.abs(some), (0.5, 0.99), axis=0)
    return scaled(away, np.where(outer > HEAVY * median, 1.0, LINEAR_OF_MANY))


def scaled(away: FloatArray, linear: FloatArray | float = 1.0) -> FloatArray:
    """z of s − s*, shape (n, d): of the summaries that vary; nearly linear up to so many spreads.

    >>> scaled(np.array([[0.0, 5.0], [1.0, 5.0], [-1.0, 5.0]])).shape
    (3, 1)
    """
    away = away[:, varies(away)]
    if not away.shape[1]:
        return away
    distance = np.abs(away)
    median = np.median(distance, axis=0)
    unit, mostly_at_data = median, median == 0
    if mostly_at_data.any():
        unit = np.where(mostly_at_data, np.nanmedian(np.where(distance > 0, distance, np.nan), axis=0), median)
    away = _cut(away, unit)
    distance = np.abs(away)
    scale = np.where(mostly_at_data, np.sqrt((away**2).mean(axis=0)), 1.0)
    for share in SHARES:
        radius = (np.arcsinh(_cut(away, scale)) ** 2).sum(axis=1)
        near = distance[radius <= np.quantile(radius, share)]
        spread, usual = np.sqrt((near**2).mean(axis=0)), np.quantile(near, 0.7, axis=0)
        spread = np.where(usual > 0, np.minimum(spread, MOST_OF_SPREAD * usual), spread)
        scale = np.where(spread > 0, spread, scale)
    return np.asarray(linear * np.arcsinh(_cut(away, linear * scale)))


def _cut(away: FloatArray, scale: FloatArray) -> FloatArray:
    """In units of the scale, and cut where squares would no longer be numbers."""
    with np.errstate(over="ignore"):
        return np.clip(away / scale, -HUGE, HUGE)


def nearest(summaries: FloatArray, observed: FloatArray, most: int, places: IntArray) -> IntArray:
    """The rows of the simulations nearest to the data, at most so many; none whose numbers are not finite.

    ``places`` are those of the rows in the run.
    """
    rows = np.flatnonzero(np.isfinite(summaries).all(axis=1))
    if rows.size <= most:
        return rows
    radius = (coordinates(differences(summaries[rows], observed)) ** 2).sum(axis=1)
    return rows[least(radius, most, places[rows])]


def spread_evenly(summaries: FloatArray, most: int, places: IntArray) -> IntArray:
    """At most so many rows, spread evenly over their places in the run; none whose numbers are not finite."""
    rows = np.flatnonzero(np.isfinite(summaries).all(axis=1))
    return rows[least(np.zeros(rows.size), most, places[rows])]


def least(radius: FloatArray, most: int, places: IntArray | None = None) -> IntArray:
    """The rows of the smallest numbers, in rising order; of equal ones, rows that are spread evenly over ``places``.

    >>> least(np.array([3.0, 1.0, 2.0, 5.0]), 2)
    array([1, 2])
    >>> least(np.zeros(12), 4)
    array([ 0,  2,  5, 10])
    """
    if radius.size <= most:
        return np.arange(radius.size)
    edge = np.partition(radius, most - 1)[most - 1]
    inside, equal = np.flatnonzero(radius < edge), np.flatnonzero(radius == edge)
    turn = (equal if places is None else places[equal]) * GOLDEN % 1.0
    first = equal[np.argsort(turn, kind="stable")[: most - inside.size]]
    return np.asarray(np.sort(np.concatenate([inside, first])))


def whitening(x: FloatArray, weights: FloatArray) -> FloatArray:
    """L with uncorrelated columns x L of variance 1 under the weights; directions without variance are left out."""
    centred = x - weights @ x / weights.sum()
    values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred / weights.sum())
    rounding = SAME_PLACE**2 * float(weights @ (x**2).sum(axis=1) / weights.sum())
    kept = values > max(NO_VARIANCE * float(values.max(initial=0.0)), rounding, 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def main_directions(z: FloatArray, number: int) -> FloatArray:
    """z in the directions in which the nearest simulations vary most, shape (n, number or fewer)."""
    near = z[least((z**2).sum(axis=1), DIRECTIONS_FROM)]
    _, _, directions = np.linalg.svd(near - near.mean(axis=0), full_matrices=False)
    return np.asarray(z @ directions[:number].T)
