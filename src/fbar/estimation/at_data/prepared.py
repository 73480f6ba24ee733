"""The simulations that an estimate at the data can use, in working coordinates.

θ is moved in the coordinates v = Φ⁻¹(u) of the prior's unit cube, in which no θ leaves the prior's support. Discrete
parameters, the choice of a model and what a prior cannot place in the cube stay as they are. Numbers that the simulator
recorded are moved like parameters, in their own units and within the range in which they were seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtr, ndtri

from fbar.arrays import FloatArray, IntArray
from fbar.checks import counted
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.basis import Numbers
from fbar.estimation.at_data.learned_summaries import LearnedCoordinates, learn, worth_learning
from fbar.estimation.at_data.nearness import MANY, coordinates, differences, least, main_directions, nearest, varies
from fbar.estimation.simulations import Portion, Structure
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

MOST = 20_000
"""Simulations that are used, at most: the nearest ones."""

LOSS_FACTOR, MOST_LOSS = 2.0, 0.15
"""What the loss λ of learned summaries is multiplied by, and the most that it is taken for: with λ itself, intervals
held the truth too rarely."""

MOST_NAMED = 6
"""Learned functions that a remark names."""

SAY_NOTHING = "all simulations have the same summaries, so the data say nothing about θ: this is the prior"

LEAST = 20
"""Usable simulations, without which there is nothing to regress."""

FEW = 3
"""Summaries that are few. What is done only with these has not been studied with more, nor with a choice of models."""

MOST_DIRECTIONS = 200
"""Summaries that a regression uses, at most; of more, their main directions."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """``rows`` are the simulations' numbers in the run of so many ``simulations``, ``w`` their weights (the largest 1),
    ``fold`` their part in the cross-fitting; ``z`` (n, d) the scaled summaries and ``radius`` their length; ``model``
    counts the models of a choice; ``v`` (n, D) are the coordinates that can be moved, ``moving`` their columns in the
    unit cube, followed by the ``records``; ``fixed`` are the other numbers of θ; ``structure`` is how the simulations
    depend on one another. ``summaries`` is the number of those that vary, and ``outside`` is why the data cannot be
    what the simulator gives, or nothing.
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
    fixed: FloatArray
    unit: FloatArray | None
    points: Points
    structure: Structure
    summaries: int
    outside: str = ""
    directions: FloatArray | None = None
    """The directions of the parameters in the coordinates v, (D, k); None where each has a coordinate of its own."""
    x: FloatArray | None = None
    """The summaries as they are, where others may be learned from them."""
    learned: LearnedCoordinates | None = None
    """What the coordinates z were learned as; None where they are the scaled summaries."""
    constant: bool = False
    """Whether all simulations of the run have the same summaries."""

    def __len__(self) -> int:
        return self.rows.size

    def take(self, kept: IntArray) -> Prepared:
        """Some of the simulations."""
        return replace(
            self,
            rows=self.rows[kept],
            w=self.w[kept] / self.w[kept].max(initial=1e-300),
            fold=self.fold[kept],
            z=self.z[kept],
            radius=self.radius[kept],
            model=self.model[kept],
            v=self.v[kept],
            fixed=self.fixed[kept],
            unit=None if self.unit is None else self.unit[kept],
            points=self.points.take(kept),
            structure=self.structure.take(kept),
            x=None if self.x is None else self.x[kept],
        )

    def nearest(self, most: int) -> Prepared:
        """The nearest simulations, at most so many."""
        return self if len(self) <= most else self.take(least(self.radius, most, self.rows))

    @property
    def simple(self) -> bool:
        """Whether there is one model, and its summaries are a few numbers as they were given."""
        return self.summaries <= FEW and self.learned is None and not self.model.any()

    @property
    def many(self) -> bool:
        """Whether the summaries have many dimensions."""
        return bool(self.z.shape[1] > MANY)

    @property
    def bending(self) -> bool:
        """Whether regressions bend along the indices of parameters: where summaries are many, as they were given."""
        return self.many and self.learned is None

    @property
    def loss(self) -> float:
        """What learned summaries may have lost, in posterior variances, with room for what λ does not see."""
        return 0.0 if self.learned is None else min(LOSS_FACTOR * self.learned.loss, MOST_LOSS)

    @property
    def remark(self) -> str:
        """What was learned, in a line, or that there is nothing to learn from."""
        if self.learned is None:
            return SAY_NOTHING if self.constant and not self.outside else ""
        names = [*self._coordinate_names(), *self.records]
        means = [f for f in self.learned.functions if f.kind == "mean" and f.of < len(names)]
        shown = [(names[f.of], f.explained) for f in means]
        r_squared = ", ".join(f"{name} {max(value, 0.0):.2f}" for name, value in shown[:MOST_NAMED]) or "models only"
        more = ", …" if len(shown) > MOST_NAMED else ""
        number, x = self.learned.dimension, self.x
        summaries = "1 summary was" if number == 1 else f"{number} summaries were"
        numbers = 0 if x is None else x.shape[1]
        return f"{summaries} learned from the data's {numbers:,} numbers (out-of-fold R²: {r_squared}{more})"

    def _coordinate_names(self) -> list[str]:
        """The parameters of the coordinates that move; of models that share one, those of each."""
        known = structure(self.problem.prior)
        if known.models is None:
            each = [list(known.coordinates)]
        else:  # the first coordinate is the model's
            each = [["", *structure(prior).coordinates] for prior in known.models.models.values()]

        def name(k: int) -> str:
            found = dict.fromkeys(names[k] for names in each if k < len(names))
            return " or ".join(found) or "a function of the parameters"

        return [name(k) for k in self.moving]

    def in_learned_coordinates(self) -> Prepared | None:
        """With summaries that are learned from the data; None where they are few, given by the user, or say nothing."""
        several = self.model.max() > 0
        parameters = self.v.shape[1] + self.fixed.shape[1] + several
        if self.x is None or not worth_learning(self.summaries, parameters):
            return None
        indicators = (self.model[:, None] == np.unique(self.model)[1:]).astype(np.float64)
        observed = np.ravel(np.asarray(self.problem.observed, dtype=np.float64))
        numbers = Numbers.of(self.x)
        found = learn(numbers, observed, np.concatenate([self.v, self.fixed, indicators], axis=1), self.fold)
        if found is None or found.dimension > self.summaries:
            return None
        placed = found.place(numbers, self.fold)
        z = placed.coordinates
        made = replace(self, z=z, radius=np.sqrt((z**2).sum(axis=1)), summaries=z.shape[1], learned=found)
        return made.take(np.flatnonzero(placed.inside))

    def moved_to(self, rows: IntArray, v: FloatArray) -> Points:
        """The points of some rows, with other coordinates."""
        if not self.moving and not self.records:
            return self.points.take(rows)
        names = len(self.moving)
        recorded = {name: v[:, names + k] for k, name in enumerate(self.records)}
        left = [name for name in self.problem.records if name in self.points and name not in recorded]
        others = {name: self.points[name][rows] for name in left}
        if self.moving:
            assert self.unit is not None
            unit = self.unit[rows]
            unit[:, list(self.moving)] = np.clip(ndtr(np.clip(v[:, :names], -REACH, REACH)), TINY, 1 - TINY)
            own = self.problem.prior.from_unit(unit).with_derived(self.problem.derived)
        else:
            own = self.points.take(rows).without([*recorded, *others])
        return own.with_columns({**others, **recorded})

    def nudged(self, rows: IntArray, v: FloatArray, steps: FloatArray, which: IntArray) -> Points:
        """The points of some rows with one coordinate raised by its step, then lowered, for one after the other.

        Where parameters are independent, a coordinate moves only its own, and few quantiles are computed.
        """
        prior = self.problem.prior
        if set(structure(prior).marginals) != set(prior.names):
            moves = np.eye(steps.size)[which] * steps
            every = np.concatenate([v + sign * move for move in moves for sign in (1, -1)])
            return self.moved_to(np.tile(rows, 2 * which.size), every)
        usual, up, down = (self.moved_to(rows, v + sign * steps) for sign in (0, 1, -1))
        moving = [*(prior.names[column] for column in self.moving), *self.records]
        columns = {name: np.tile(usual[name], (2 * which.size, 1)) for name in usual if name not in usual.derived}
        for place, k in enumerate(which.tolist()):
            columns[moving[k]][2 * place], columns[moving[k]][2 * place + 1] = up[moving[k]], down[moving[k]]
        flat = {name: column.reshape(-1) for name, column in columns.items()}
        recorded = {name: column for name, column in flat.items() if name in self.problem.records}
        parameters = {name: column for name, column in flat.items() if name not in recorded}
        return Points(parameters).with_derived(self.problem.derived).with_columns(recorded)

    def support(self, parameter: str) -> tuple[float, float]:
        """What the prior says that a parameter cannot go beyond; nothing of what is derived or recorded."""
        marginal = structure(self.problem.prior).marginals.get(parameter)
        return (-math.inf, math.inf) if marginal is None else marginal.support

    def in_main_directions(self, number: int) -> Prepared:
        """With fewer summaries: their main directions."""
        return replace(self, z=main_directions(self.z, number))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why any estimate from them is unreliable."""
        found = [self.outside] if self.outside else []
        if self.learned is not None and self.learned.outside:
            outside = self.learned.outside
            more = f" and {counted(len(outside) - 1, 'other feature')}" if len(outside) > 1 else ""
            lie = "lies" if len(outside) == 1 else "lie"
            found.append(
                f"no simulation is like the data: {outside[0]}{more} {lie} far outside what the simulator gives"
            )
        used = self.z.shape[1]
        if used < self.summaries:
            main = counted(used, "main direction")
            found.append(
                f"{len(self):,} simulations are too few for {self.summaries:,} summaries; only {main} of them "
                + ("was used" if used == 1 else "were used")
            )
        return tuple(found)


def prepare(
    portion: Portion, z: FloatArray | None = None, simulations: int | None = None, most: int = MOST
) -> Prepared:
    """The nearest ``most`` of a portion, which is all of a run or a part of a run of so many ``simulations``.

    ``z`` are learned coordinates of them in place of the scaled summaries.
    """
    problem, summaries = portion.problem, portion.summaries
    if summaries is None or problem.observed is None:
        raise InputError("estimates at the data need summaries that are numbers")
    finite = np.isfinite(summaries).all(axis=1)
    usable = np.isfinite(portion.log_w) & (portion.failure == Failure.NONE) & finite
    kept = np.flatnonzero(usable)
    if kept.size < LEAST:
        raise _too_few(portion, summaries, kept.size)
    observed = np.ravel(np.asarray(problem.observed, dtype=np.float64))
    if kept.size > most:
        places = portion.rows[kept]
        if z is None:
            near = nearest(summaries[kept], observed, most, places)
        else:
            near = least((z[kept] ** 2).sum(axis=1), most, places)
        kept = kept[near]
    away = differences(summaries[kept], observed)
    z = coordinates(away) if z is None else z[kept]
    points, dependence = portion.points.take(kept), portion.structure.take(kept)
    unit = _unit(problem, points)
    moving = () if unit is None else _continuous(problem, points, unit)
    v = np.empty((kept.size, 0)) if unit is None else np.clip(ndtri(np.clip(unit[:, list(moving)], TINY, 1)), -8, 8)
    records = tuple(
        name
        for name in problem.records
        if name in points and points[name].dtype.kind == "f" and np.isfinite(points[name]).all()
    )
    v = np.concatenate([v, *(np.asarray(points[name], dtype=np.float64)[:, None] for name in records)], axis=1)
    found = Prepared(
        problem,
        portion.rows[kept],
        len(portion) if simulations is None else simulations,
        relative(portion.log_w[kept]),
        _folds(portion.group[kept], dependence.cluster),
        z,
        np.sqrt((z**2).sum(axis=1)),
        _models(problem, unit, kept.size),
        v,
        moving,
        records,
        _fixed(problem, points, unit, moving),
        unit,
        points,
        dependence,
        z.shape[1],
        _off_constants(away),
        _directions(problem, points, v, len(moving)),
        summaries[kept] if problem.uses_data_as_they_are else None,
        constant=not z.shape[1] and simulations in (None, len(portion)) and kept.size == usable.sum(),
    )
    return found.in_main_directions(MOST_DIRECTIONS) if z.shape[1] > MOST_DIRECTIONS else found


def _too_few(portion: Portion, summaries: FloatArray, usable: int) -> NoPosterior:
    """Why there is nothing to regress."""
    failed = portion.failure != Failure.NONE
    lost = ~np.isfinite(summaries) & ~failed[:, None]
    reasons = []
    if failed.any():
        reasons.append(f"{counted(int(failed.sum()), 'simulation')} failed")
    if lost.any():
        worst = int(lost.sum(axis=0).argmax())
        reasons.append(f"summary {worst + 1} is not finite in {int(lost[:, worst].sum()):,}")
    weightless = int((~np.isfinite(portion.log_w)).sum())
    if weightless:
        reasons.append(f"{weightless:,} have no weight")
    why = f" ({', '.join(reasons)})" if reasons else ""
    return NoPosterior(
        f"{usable:,} of {counted(len(portion), 'simulation')} can be used{why}, too few for an estimate at the data; "
        + ("raise the budget" if not reasons else "check the simulator and the summaries, or raise the budget")
    )


def _off_constants(away: FloatArray) -> str:
    """Whether a summary is the same number in all simulations, and another one in the data."""
    off = np.flatnonzero(~varies(away) & (away[0] != 0))
    if not off.size:
        return ""
    which = f"summary {off[0] + 1} is" if off.size == 1 else f"{off.size:,} summaries (the first is {off[0] + 1}) are"
    return f"{which} the same in all simulations and different in the data: the simulator does not give such data"


def _folds(group: IntArray, cluster: IntArray | None) -> IntArray:
    """The run's groups, or equal parts of draws that are independent of one another."""
    if group.min() < group.max():
        return group
    if cluster is not None and cluster.min() < cluster.max():
        return np.asarray(np.unique(cluster, return_inverse=True)[1] % FOLDS, dtype=np.int64)
    return np.arange(group.size, dtype=np.int64) % FOLDS


def _unit(problem: Problem, points: Points) -> FloatArray | None:
    """The points in the prior's unit cube; None where it cannot place them."""
    try:
        return np.array(problem.prior.to_unit(points.without(problem.records)))
    except InputError:
        return None


def _fixed(problem: Problem, points: Points, unit: FloatArray | None, moving: tuple[int, ...]) -> FloatArray:
    """The coordinates of θ that are not moved, shape (n, k): in the unit cube, or its numbers outside of it."""
    if unit is not None:
        first = 0 if structure(problem.prior).models is None else 1
        others = unit[:, [k for k in range(first, unit.shape[1]) if k not in moving]]
    else:
        numbers = [points[name] for name in problem.prior.names if points[name].dtype.kind in "biuf"]
        others = np.stack(numbers, axis=1).astype(np.float64) if numbers else np.empty((points.rows, 0))
    return others[:, varies(others)]


def _models(problem: Problem, unit: FloatArray | None, rows: int) -> IntArray:
    choice = structure(problem.prior).models
    if choice is None or unit is None:
        return np.zeros(rows, dtype=np.int64)
    borders = np.cumsum(choice.probabilities)[:-1]
    return np.searchsorted(borders, unit[:, 0], side="right").astype(np.int64)


def _directions(problem: Problem, points: Points, v: FloatArray, moving: int) -> FloatArray | None:
    """The slopes of the parameters on v, for parameters that depend on one another under the prior; then the records.

    What such a parameter is, is shared by many coordinates: an error that is small in each may be large in all.
    """
    known = structure(problem.prior)
    if known.models is not None or not moving or set(known.marginals) == set(problem.prior.names):
        return None
    numbers = [points[name] for name in problem.prior.names if points[name].dtype.kind in "biuf"]
    theta = np.stack(numbers, axis=1).astype(np.float64)
    slopes = np.linalg.lstsq(v[:, :moving] - v[:, :moving].mean(axis=0), theta - theta.mean(axis=0), rcond=None)[0]
    size = np.linalg.norm(slopes, axis=0)
    slopes = slopes[:, size > 0] / size[size > 0]
    return np.asarray(block_diag(slopes, np.eye(v.shape[1] - moving)))


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
