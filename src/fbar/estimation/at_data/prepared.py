"""The simulations that an estimate at the data can use, in working coordinates.

θ is moved in the coordinates v = Φ⁻¹(u) of the prior's unit cube, in which no θ leaves the prior's support. Discrete
parameters, the choice of a model and what a prior cannot place in the cube stay as they are. Numbers that the simulator
recorded are moved like parameters, in their own units and within the range in which they were seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.nearness import scaled
from fbar.estimation.simulations import Portion
from fbar.question.outcomes import Failure
from fbar.question.points import Points
from fbar.question.priors import structure
from fbar.question.problem import Problem
from fbar.weights import relative

FOLDS = 4
"""Parts that regressions are cross-fitted in, where the run has no groups."""

REACH = 7.0
"""Coordinates v stay within this."""

TINY = 1e-12

LEAST = 20
"""Simulations with a weight and numbers, without which there is nothing to regress."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """``rows`` are the simulations' numbers in the run, ``w`` their weights (the largest 1), ``fold`` their part in the
    cross-fitting; ``z`` (n, d) the scaled summaries and ``radius`` their length; ``model`` counts the models of a
    choice; ``v`` (n, D) are the coordinates that can be moved, ``moving`` their columns in the unit cube, followed by
    the ``records``.
    """

    problem: Problem
    rows: IntArray
    simulations: int
    w: FloatArray
    fold: IntArray
    z: FloatArray
    radius: FloatArray
    model: IntArray
    v: FloatArray
    moving: tuple[int, ...]
    records: tuple[str, ...]
    unit: FloatArray | None
    points: Points
    cluster: IntArray | None
    stratum: IntArray | None
    stratum_sizes: IntArray

    def __len__(self) -> int:
        return self.rows.size

    def take(self, kept: IntArray) -> Prepared:
        """Some of the simulations."""
        return replace(
            self,
            rows=self.rows[kept],
            w=self.w[kept] / self.w[kept].max(),
            fold=self.fold[kept],
            z=self.z[kept],
            radius=self.radius[kept],
            model=self.model[kept],
            v=self.v[kept],
            unit=None if self.unit is None else self.unit[kept],
            points=self.points.take(kept),
            cluster=None if self.cluster is None else self.cluster[kept],
            stratum=None if self.stratum is None else self.stratum[kept],
        )

    def moved_to(self, rows: IntArray, v: FloatArray) -> Points:
        """The points of some rows, with other coordinates."""
        own = self.points.take(rows)
        if not self.moving and not self.records:
            return own
        names = len(self.moving)
        recorded = {name: v[:, names + k] for k, name in enumerate(self.records)}
        others = {name: own[name] for name in self.problem.records if name in own and name not in recorded}
        if self.moving:
            assert self.unit is not None
            unit = self.unit[rows]
            unit[:, list(self.moving)] = np.clip(ndtr(np.clip(v[:, :names], -REACH, REACH)), TINY, 1 - TINY)
            own = self.problem.prior.from_unit(unit).with_derived(self.problem.derived)
        else:
            own = own.without([*recorded, *others])
        return own.with_columns({**others, **recorded})


def prepare(portion: Portion, z: FloatArray | None = None) -> Prepared:
    """From simulations of a run; ``z`` are learned coordinates of them in place of the scaled summaries."""
    problem, summaries = portion.problem, portion.summaries
    if summaries is None or problem.observed is None:
        raise InputError("estimates at the data need summaries that are numbers")
    usable = np.isfinite(portion.log_w) & (portion.failure == Failure.NONE) & np.isfinite(summaries).all(axis=1)
    kept = np.flatnonzero(usable)
    if kept.size < LEAST:
        raise NoPosterior(
            f"{kept.size} of {len(portion)} simulations can be used, too few for an estimate at the data; raise the "
            "budget"
        )
    away = summaries[kept] - np.ravel(np.asarray(problem.observed, dtype=np.float64))
    z = scaled(away) if z is None else z[kept]
    points, structure_ = portion.points.take(kept), portion.structure
    unit = _unit(problem, points)
    moving = () if unit is None else _continuous(problem, points, unit)
    v = np.empty((kept.size, 0)) if unit is None else np.clip(ndtri(np.clip(unit[:, list(moving)], TINY, 1)), -8, 8)
    records = tuple(
        name
        for name in problem.records
        if name in points and points[name].dtype.kind == "f" and np.isfinite(points[name]).all()
    )
    v = np.concatenate([v, *(np.asarray(points[name], dtype=np.float64)[:, None] for name in records)], axis=1)
    return Prepared(
        problem,
        portion.rows[kept],
        len(portion),
        relative(portion.log_w[kept]),
        _folds(portion.group[kept], structure_.cluster, kept),
        z,
        np.sqrt((z**2).sum(axis=1)),
        _models(problem, unit, kept.size),
        v,
        moving,
        records,
        unit,
        points,
        None if structure_.cluster is None else structure_.cluster[kept],
        None if structure_.cluster is None else structure_.stratum[kept],
        structure_.stratum_sizes,
    )


def _folds(group: IntArray, cluster: IntArray | None, rows: IntArray) -> IntArray:
    """The run's groups, or equal parts of draws that are independent of one another."""
    found = np.unique(group, return_inverse=True)[1]
    if found.max() > 0:
        return np.asarray(found, dtype=np.int64)
    return np.asarray((rows if cluster is None else cluster[rows]) % FOLDS, dtype=np.int64)


def _unit(problem: Problem, points: Points) -> FloatArray | None:
    """The points in the prior's unit cube; None where it cannot place them."""
    try:
        return np.array(problem.prior.to_unit(points.without(problem.records)))
    except InputError:
        return None


def _models(problem: Problem, unit: FloatArray | None, rows: int) -> IntArray:
    choice = structure(problem.prior).models
    if choice is None or unit is None:
        return np.zeros(rows, dtype=np.int64)
    borders = np.cumsum(choice.probabilities)[:-1]
    return np.searchsorted(borders, unit[:, 0], side="right").astype(np.int64)


def _continuous(problem: Problem, points: Points, unit: FloatArray) -> tuple[int, ...]:
    """The coordinates of the unit cube that a small move changes θ with."""
    known = structure(problem.prior)
    if known.values is not None:
        return ()
    first = 0 if known.models is None else 1
    fixed = set(known.borders())
    unknown = known.models is None and not known.marginals  # of a user's own prior nothing is known: look at its points
    if unknown and any(points[name].dtype.kind != "f" for name in problem.prior.names):
        return ()
    return tuple(
        index for index in range(first, unit.shape[1]) if index not in fixed and float(np.ptp(unit[:, index])) > 0
    )
