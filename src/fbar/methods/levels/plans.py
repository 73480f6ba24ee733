"""Plans of a multilevel run: falling tolerances, the boxes that levels draw from, how many simulations each gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray, IntArray, numeric_array
from fbar.checks import non_negative_number, shown
from fbar.errors import InputError

MOST_LEVELS = 40
"""Levels of a ladder, at most."""

LEAST_BUDGET = 100
"""Simulations below which a pilot and several levels would have nothing to learn from."""

PILOT_SHARE = 1 / 3
"""The part of the budget that the pilot may take."""

FIRST_ACCEPTS = 0.5
"""The part of the simulations from the prior that the first tolerance accepts, where it is not given."""

TINY = 1e-300


def falling(given: Sequence[float]) -> tuple[float, ...]:
    """Tolerances as the user gives them; refuses those that do not fall."""
    if isinstance(given, str):
        raise InputError(f"tolerances must be falling numbers such as [4, 2, 1]; got {shown(given)}")
    values = tuple(np.atleast_1d(numeric_array(given, "tolerances")).ravel().tolist())
    if not values:
        raise InputError("give at least one tolerance")
    if len(values) > MOST_LEVELS:
        raise InputError(f"there can be at most {MOST_LEVELS} levels; got {len(values)} tolerances")
    for value in values:
        if math.isinf(non_negative_number(value, "each tolerance")):
            raise InputError("each tolerance must be finite")
    for before, after in pairwise(values):
        if not after < before:
            word = "repeats" if after == before else "rises"
            raise InputError(f"tolerances must fall from level to level; {after:g} {word} after {before:g}")
    return values


def ladder_to(tolerance: float, first: float, ratio: float) -> tuple[float, ...]:
    """Tolerances that fall by a factor to the last one, the first of them the largest up to ``first``."""
    if not math.inf > first > tolerance > 0:
        return (tolerance,)
    steps = min(int(math.log(first / tolerance) / math.log(ratio) + 1e-9), MOST_LEVELS - 1)
    return tuple(tolerance * ratio ** float(steps - level) for level in range(steps + 1))


def first_ladder(distances: FloatArray, wanted: float | None, ratio: float) -> tuple[float, ...]:
    """The tolerances, from distances of simulations from the prior; the first one only where none is wanted."""
    first = float(np.quantile(distances, FIRST_ACCEPTS)) if distances.size else math.inf
    return (first,) if wanted is None else ladder_to(wanted, first, ratio)


def shares(variances: FloatArray, costs: FloatArray, total: int, least: int) -> FloatArray:
    """The levels' simulations n_l c_l with n_l ∝ √(v_l/c_l): the least Σ v_l/n_l for Σ n_l c_l = ``total``.

    ``variances`` (levels, m) are added over the m numbers, each relative to its own scale. Every level gets ``least``
    draws, as published, or all the same number where that is too many.
    """
    v = variances.sum(axis=1) if variances.size else costs
    wanted = np.sqrt(np.where(np.isfinite(v), np.maximum(v, 0.0), 0.0) * costs)
    floor = least * costs
    if floor.sum() >= total or not wanted.sum() > 0:
        return np.asarray(total * costs / costs.sum())
    raised = np.zeros(costs.size, dtype=bool)
    while True:
        free = total - floor[raised].sum()
        found = np.where(raised, floor, free * wanted / max(wanted[~raised].sum(), TINY))
        low = ~raised & (found < floor)
        if not low.any():
            return np.asarray(found)
        raised |= low


def parts_of(total: int, part: FloatArray) -> IntArray:
    """Whole numbers in about these proportions that add up to ``total``, each at least 1 where there are enough."""
    if total < part.size:
        return np.asarray(np.arange(part.size) < total, dtype=np.int64)
    ends = np.rint(np.concatenate([[0.0], np.cumsum(part) / part.sum()]) * (total - part.size)).astype(np.int64)
    return np.asarray(np.diff(ends) + 1, dtype=np.int64)


@dataclass(eq=False)
class Level:
    """The simulations of one level: drawn from the prior within a box of the unit cube, accepted at a tolerance.

    ``unit``, ``distance`` and ``rows`` are those of the accepted draws, block by block.
    """

    number: int
    pilot: bool
    tolerance: float
    low: FloatArray
    high: FloatArray
    simulations: int = 0
    accepted: int = 0
    unit: list[FloatArray] = field(default_factory=list)
    distance: list[FloatArray] = field(default_factory=list)
    rows: list[IntArray] = field(default_factory=list)

    def add(self, unit: FloatArray, distance: FloatArray, first: int) -> None:
        """The simulations of a block, the first of which has this number."""
        near = np.flatnonzero(np.isfinite(distance) & (distance <= self.tolerance))  # a failed one is rejected
        self.simulations += distance.size
        self.accepted += near.size
        self.unit.append(unit[near])
        self.distance.append(distance[near])
        self.rows.append(first + near)

    def narrow(self, tolerance: float) -> None:
        """Accept at a smaller tolerance."""
        unit, distance, rows = self.draws(), np.concatenate(self.distance), np.concatenate(self.rows)
        near = np.flatnonzero(distance <= tolerance)
        self.tolerance, self.accepted = tolerance, near.size
        self.unit, self.distance, self.rows = [unit[near]], [distance[near]], [rows[near]]

    def clear(self) -> None:
        """Nothing was accepted after all."""
        self.unit, self.distance, self.rows, self.accepted = [], [], [], 0

    def draws(self) -> FloatArray:
        """The accepted draws in unit coordinates."""
        return np.concatenate([np.zeros((0, self.low.size)), *self.unit])

    def within(self, tolerance: float) -> tuple[FloatArray, IntArray]:
        """The draws within a tolerance in unit coordinates, and their numbers among all simulations."""
        near = np.flatnonzero(np.concatenate([np.zeros(0), *self.distance]) <= tolerance)
        return self.draws()[near], np.concatenate([np.zeros(0, dtype=np.int64), *self.rows])[near]

    @property
    def cost(self) -> float:
        """Simulations for each accepted one."""
        return self.simulations / max(self.accepted, 1)

    def box(self) -> tuple[FloatArray, FloatArray]:
        """The smallest box that holds its accepted draws; its own box where they are too few for one."""
        if self.accepted < 2:
            return self.low, self.high
        unit = self.draws()
        return unit.min(axis=0), unit.max(axis=0)

    def at(self, uniform: FloatArray) -> FloatArray:
        """Points of the unit cube, moved into the box."""
        return np.asarray(self.low + uniform * (self.high - self.low))

    def density(self, unit: FloatArray) -> FloatArray:
        """The density that it draws from relative to the prior's."""
        inside = ((unit >= self.low) & (unit <= self.high)).all(axis=1)
        return np.where(inside, 1 / max(float(np.prod(self.high - self.low)), np.finfo(float).tiny), 0.0)
