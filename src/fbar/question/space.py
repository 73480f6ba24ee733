"""The space that proposals work in: particles as a model index and real coordinates.

Coordinates are the parameters themselves (``"theta"``, the paper's kernels), or ``"normal"``: z = Φ⁻¹(u) with u the
prior's unit coordinates. In the latter the prior is a standard normal distribution, proposals cannot leave its
support, and a prior that can only be sampled will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.checks import choice, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.priors import Categorical, Distribution, Finite, Marginal, structure

COORDINATES = ("theta", "normal")
PROBED = 64
SMALLEST = 2.0**-60
REACH = 5.2
"""Normal coordinates beyond this stand for the parameter's value at it: the prior's outermost 10⁻⁷ on either side. The
tails of proposals would else reach values that no run of the prior would meet, or infinite ones."""


@dataclass(frozen=True, eq=False)
class Particles:
    """``model`` (n,) counts the models of a choice; ``x`` (n, D) is 0 where a model has no coordinate."""

    model: IntArray
    x: FloatArray

    def __len__(self) -> int:
        return len(self.model)

    def take(self, rows: Any) -> Particles:
        return Particles(self.model[rows], self.x[rows])

    @staticmethod
    def concatenate(parts: Sequence[Particles]) -> Particles:
        if len(parts) == 1:
            return parts[0]
        return Particles(np.concatenate([p.model for p in parts]), np.concatenate([p.x for p in parts]))


class Proposal(Protocol):
    """Where particles come from: anything that draws them and knows their density."""

    def draw(self, rng: np.random.Generator, size: int) -> Particles: ...

    def log_density(self, particles: Particles) -> FloatArray: ...


class Part(Protocol):
    """One model's parameters in working coordinates. Discrete ones are carried by a number for each value."""

    discrete: BoolArray

    @property
    def values(self) -> int:
        """How many values a finite prior has, whose numbers are the only coordinate; 0 for other priors."""
        ...

    def points(self, x: FloatArray) -> Points: ...

    def log_prior(self, x: FloatArray, points: Points | None = None) -> FloatArray:
        """The log density; ``points`` are those of x, if they are there already."""
        ...

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray: ...

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Draws from the prior at points of the unit cube, in which they are evenly spread."""
        ...

    def redraw(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        """Values of a discrete coordinate from its prior."""
        ...

    def log_probability(self, column: int, codes: FloatArray) -> FloatArray:
        """The prior probability of values of a discrete coordinate."""
        ...


class _Theta:
    """Named parameters as they are."""

    values = 0

    def __init__(self, prior: Distribution) -> None:
        self.prior = prior
        known = structure(prior)
        self._marginals: list[Marginal | None] = [
            known.marginals[name] if name in known.discrete else None for name in prior.names
        ]
        self._refuse_steps()
        self.discrete = np.array([marginal is not None for marginal in self._marginals], dtype=bool)

    def _refuse_steps(self) -> None:
        """A parameter that takes the same value twice is not continuous, and must not be perturbed as if it were."""
        unit = np.random.default_rng(0).random((PROBED, self.prior.dimension))
        points = self.prior.from_unit(unit)
        for name, marginal in zip(self.prior.names, self._marginals, strict=True):
            values = points[name]
            if marginal is None and (values.dtype.kind != "f" or np.unique(values).size < PROBED // 2):
                raise InputError(
                    f"parameter {shown(name)} takes the same values again and again and cannot be perturbed "
                    "as if it were continuous; give it as fbar.Categorical(...), or use coordinates='normal'"
                )

    def points(self, x: FloatArray) -> Points:
        columns: dict[str, Any] = {}
        for index, (name, marginal) in enumerate(zip(self.prior.names, self._marginals, strict=True)):
            codes = x[:, index]
            if isinstance(marginal, Categorical):
                columns[name] = marginal.values[codes.astype(np.int64)]
            elif marginal is not None and (codes == np.rint(codes)).all():
                columns[name] = codes.astype(np.int64)
            else:
                columns[name] = codes
        return Points(columns)

    def log_prior(self, x: FloatArray, points: Points | None = None) -> FloatArray:
        return self.prior.logpdf(self.points(x) if points is None else points)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.from_unit(rng.random((size, self.prior.dimension)))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        points = self.prior.from_unit(unit)
        columns = [self._codes(index, points[name]) for index, name in enumerate(self.prior.names)]
        return np.stack(columns, axis=1)

    def _codes(self, column: int, values: Any) -> FloatArray:
        marginal = self._marginals[column]
        if isinstance(marginal, Categorical):
            return marginal.index(values).astype(np.float64)
        if values.dtype.kind not in "biuf":
            raise InputError(
                f"parameter {shown(self.prior.names[column])} is not a number; give it as "
                "fbar.Categorical(...), or use coordinates='normal'"
            )
        return np.asarray(values, dtype=np.float64)

    def redraw(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        return self._codes(column, self._discrete(column).ppf(rng.random(size)))

    def _discrete(self, column: int) -> Marginal:
        marginal = self._marginals[column]
        assert marginal is not None
        return marginal

    def log_probability(self, column: int, codes: FloatArray) -> FloatArray:
        marginal = self._discrete(column)
        values = marginal.values[codes.astype(np.int64)] if isinstance(marginal, Categorical) else codes
        return np.asarray(marginal.logpdf(values))


class _Cells:
    """The values of a finite prior: one discrete coordinate, the number of the value."""

    def __init__(self, prior: Finite) -> None:
        self.prior = prior
        self.discrete = np.array([True])
        with np.errstate(divide="ignore"):
            self._log = np.log(prior.probabilities)

    @property
    def values(self) -> int:
        return self.prior.size

    def points(self, x: FloatArray) -> Points:
        return self.prior.points.take(x[:, 0].astype(np.int64))

    def log_prior(self, x: FloatArray, points: Points | None = None) -> FloatArray:
        return self._log[x[:, 0].astype(np.int64)]

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.from_unit(rng.random((size, 1)))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        borders = self.prior.borders()
        return np.searchsorted(borders, unit[:, :1], side="right").astype(np.float64)

    def redraw(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        return self.draw(rng, size)[:, 0]

    def log_probability(self, column: int, codes: FloatArray) -> FloatArray:
        return self._log[codes.astype(np.int64)]


class _Normal:
    """z = Φ⁻¹(u), every coordinate continuous: a discrete parameter is a step function of its coordinate."""

    values = 0

    def __init__(self, prior: Distribution) -> None:
        self.prior = prior
        self.discrete = np.zeros(prior.dimension, dtype=bool)

    def points(self, x: FloatArray) -> Points:
        return self.prior.from_unit(ndtr(np.clip(x, -REACH, REACH)))

    def log_prior(self, x: FloatArray, points: Points | None = None) -> FloatArray:
        return np.asarray(-0.5 * (x**2).sum(axis=1) - x.shape[1] / 2 * math.log(2 * math.pi))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.from_unit(rng.random((size, self.prior.dimension)))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        return np.asarray(ndtri(np.maximum(unit, SMALLEST)))

    def redraw(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        raise NotImplementedError

    def log_probability(self, column: int, codes: FloatArray) -> FloatArray:
        raise NotImplementedError


class _Nothing:
    """A model without parameters."""

    values = 0
    discrete = np.zeros(0, dtype=bool)

    def points(self, x: FloatArray) -> Points:
        raise NotImplementedError

    def log_prior(self, x: FloatArray, points: Points | None = None) -> FloatArray:
        return np.zeros(len(x))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.zeros((size, 0))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        return np.zeros((len(unit), 0))

    def redraw(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        raise NotImplementedError

    def log_probability(self, column: int, codes: FloatArray) -> FloatArray:
        raise NotImplementedError


def _part(prior: Distribution | None, coordinates: str) -> Part:
    if prior is None:
        return _Nothing()
    known = structure(prior)
    if known.values is not None:
        return _Cells(known.values)
    if coordinates == "normal":
        return _Normal(prior)
    if known.models is not None:
        raise InputError("a model whose prior is itself a choice of models needs coordinates='normal'")
    return _Theta(prior)


class Space:
    """The prior in working coordinates."""

    def __init__(self, prior: Distribution, coordinates: str = "theta") -> None:
        choice(coordinates, COORDINATES, "coordinates")
        self.prior, self.coordinates = prior, coordinates
        self._models = structure(prior).models
        models = {None: prior} if self._models is None else self._models.models
        self.parts = tuple(_part(inner, coordinates) for inner in models.values())
        self.shares = np.ones(1) if self._models is None else self._models.probabilities
        self.dimensions = tuple(part.discrete.size for part in self.parts)
        self.dimension = max(self.dimensions)
        self._labels = list(models)
        with np.errstate(divide="ignore"):
            self._log_shares = np.log(self.shares)

    def split(self, particles: Particles) -> list[tuple[int, IntArray]]:
        """Each model that has particles, with its rows."""
        if len(self.parts) == 1:
            return [(0, np.arange(len(particles)))]
        found = [(m, np.flatnonzero(particles.model == m)) for m in range(len(self.parts))]
        return [(m, rows) for m, rows in found if rows.size]

    def assemble(self, model: IntArray, draw: Any) -> Particles:
        """Particles of given models, the coordinates of each from ``draw(m, rows)``."""
        if len(self.parts) == 1:
            return Particles(model, draw(0, model))
        x = np.zeros((len(model), self.dimension))
        for m, rows in self.split(Particles(model, x)):
            x[rows, : self.dimensions[m]] = draw(m, rows)
        return Particles(model, x)

    def draw(self, rng: np.random.Generator, size: int) -> Particles:
        """From the prior."""
        return self.assemble(
            self.draw_models(self.shares, rng, size), lambda m, rows: self.parts[m].draw(rng, rows.size)
        )

    def draw_models(self, shares: FloatArray, rng: np.random.Generator, size: int) -> IntArray:
        if len(self.parts) == 1:
            return np.zeros(size, dtype=np.int64)
        border = np.cumsum(shares)[:-1]
        return np.searchsorted(border, rng.random(size), side="right").astype(np.int64)

    def points(self, particles: Particles) -> Points:
        """The particles' parameters by name."""
        if self._models is None:
            return self.parts[0].points(particles.x)
        parts, order = [], []
        for m, rows in self.split(particles):
            inner = None
            if self.dimensions[m]:
                inner = self.parts[m].points(particles.x[rows, : self.dimensions[m]])
                inner = inner.only(list(inner))
            parts.append(self._models.embed(self._labels[m], inner, rows.size))
            order.append(rows)
        back = np.argsort(np.concatenate(order), kind="stable")
        return Points.concatenate(parts).take(back)

    def log_prior(self, particles: Particles, points: Points | None = None) -> FloatArray:
        """The prior's log density in working coordinates; ``points`` are the particles', if they are there already."""
        if len(self.parts) == 1:
            return self.parts[0].log_prior(particles.x, points)
        result = np.empty(len(particles))
        for m, rows in self.split(particles):
            result[rows] = self._log_shares[m] + self.parts[m].log_prior(particles.x[rows, : self.dimensions[m]])
        return result
