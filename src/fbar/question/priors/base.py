"""The interface of every distribution of θ, and mixtures of such distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, distribution, floats
from fbar.checks import generator, rows, shown
from fbar.errors import InputError
from fbar.question.points import Points, require_points


@runtime_checkable
class Distribution(Protocol):
    """What a prior or a design can do.

    ``from_unit`` is the inverse of the distribution function, from the unit cube of ``dimension`` coordinates
    to θ, one parameter after the other (a Rosenblatt transform), so that equal volumes of the cube have equal
    probability; stratified and quasi-random draws go through it. ``to_unit`` is its inverse. ``logpdf`` is a
    *normalised* density (times probabilities, for categorical parameters).
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def dimension(self) -> int: ...

    def sample(self, size: int, *, rng: np.random.Generator) -> Points: ...

    def logpdf(self, points: Points) -> FloatArray: ...

    def from_unit(self, unit: npt.ArrayLike) -> Points: ...

    def to_unit(self, points: Points) -> FloatArray: ...


def as_unit(unit: npt.ArrayLike, dimension: int) -> FloatArray:
    """Coordinates as an array (n, dimension); a plain list of numbers will do in one dimension."""
    u = floats(unit, "unit coordinates")
    if u.ndim == 1 and dimension == 1:
        u = u[:, None]
    if u.ndim != 2 or u.shape[1] != dimension:
        raise InputError(f"unit coordinates must have shape (n, {dimension}); got {u.shape}")
    if u.size and not (u.min() >= 0 and u.max() <= 1):
        raise InputError("unit coordinates must lie in [0, 1]")
    return u


def evenly_spread(size: int, dimension: int) -> FloatArray:
    """Points of the unit cube, always the same: a Kronecker sequence with powers of the root of x^(d+1) = x + 1."""
    root = 1.5
    for _ in range(60):
        root = (1 + root) ** (1 / (dimension + 1))
    step = root ** -np.arange(1.0, dimension + 1)
    return np.asarray((0.5 + np.arange(1, size + 1)[:, None] * step) % 1.0)


def draws(size: int, dimension: int, rng: np.random.Generator) -> FloatArray:
    """So many points of the unit cube."""
    return generator(rng).random((rows(size, "size"), dimension))


class Mixture:
    """A mixture of distributions of the same parameters, such as a design mixed with the prior for safety.

    ``from_unit`` divides the first coordinate among the components, so that no further one is needed.
    """

    def __init__(self, components: Sequence[Distribution], weights: npt.ArrayLike) -> None:
        if not isinstance(components, Sequence) or isinstance(components, str) or not len(components):
            raise InputError(f"give a mixture's components as a list of priors; got {shown(components)}")
        for component in components:
            if not isinstance(component, Distribution):
                raise InputError(f"a mixture's components must be priors or designs; got {shown(component)}")
        self.components = tuple(components)
        self.weights = distribution(weights, len(self.components), "mixture weights", "component")
        names = {component.names for component in self.components}
        if len(names) != 1:
            raise InputError(f"a mixture's components must have the same parameters; got {sorted(names)}")
        self._cumulative = np.concatenate([[0.0], np.cumsum(self.weights)])

    @property
    def names(self) -> tuple[str, ...]:
        return self.components[0].names

    @property
    def dimension(self) -> int:
        return max(component.dimension for component in self.components)

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self.dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self.dimension)
        which = np.minimum(np.searchsorted(self._cumulative[1:], u[:, 0], side="right"), len(self.components) - 1)
        order, parts = [], []
        for index, component in enumerate(self.components):
            rows = np.flatnonzero(which == index)
            if rows.size == 0:
                continue
            inner = u[rows, : component.dimension].copy()
            inner[:, 0] = np.clip((inner[:, 0] - self._cumulative[index]) / self.weights[index], 0.0, 1.0)
            order.append(rows)
            parts.append(component.from_unit(inner))
        if not parts:
            return self.components[0].from_unit(u[:, : self.components[0].dimension])
        back = np.argsort(np.concatenate(order), kind="stable")
        return Points.concatenate(parts).take(back)

    def logpdf(self, points: Points) -> FloatArray:
        require_points(points, needed=self.names)
        with np.errstate(divide="ignore"):
            parts = [
                component.logpdf(points) + np.log(w) for component, w in zip(self.components, self.weights, strict=True)
            ]
        return np.asarray(np.logaddexp.reduce(parts, axis=0))

    def to_unit(self, points: Points) -> FloatArray:
        raise InputError("a mixture has no unique coordinates in the unit cube")
