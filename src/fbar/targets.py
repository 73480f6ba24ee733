"""Targets: the functions f of θ whose posterior expectations are wanted, and functionals of the posterior.

A target answers two questions about weighted points: its value, and its influence function ψ at every
point. For an expectation ψ = f − f̄; for a functional T(p) it is the derivative of T in the direction of
a point mass, so that to first order T(p̂) − T(p) = E_p̂[ψ] and *one* variance formula and *one* optimal
design serve every target: wherever the paper has f(θ) − f̄, ψ(θ) stands.

Shapes: weights (..., n), normalised; values (..., m); influence (..., n, m). A scalar target has m = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray
from fbar.errors import InputError
from fbar.expressions import Expression
from fbar.points import Points

Function = Callable[[Points], npt.ArrayLike]


class Target(ABC):
    """A quantity of the posterior, with its influence function."""

    name: str

    @abstractmethod
    def components(self, points: Points) -> FloatArray:
        """The functions of θ that the target is made of, at every point: shape (n, c)."""

    @abstractmethod
    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        """The target's value under the weights: shape (..., m)."""

    @abstractmethod
    def influence(self, points: Points, weights: FloatArray) -> FloatArray:
        """ψ at every point: shape (..., n, m)."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the components of a vector target, where it has any."""
        return None

    @property
    def scalar(self) -> bool:
        return True

    @property
    def binary(self) -> bool:
        """Whether f takes the values 0 and 1 alone (a probability)."""
        return False

    def check(self, points: Points) -> None:
        """Raise an `InputError` when the target is not defined on these points."""
        values = self.components(points)
        if not np.isfinite(values).all():
            row = int(np.argmax(~np.isfinite(values).all(axis=1)))
            raise InputError(
                f"target {self.name!r} is not defined at {points.label(row)}: it gives {values[row].squeeze()}; "
                "choose a function that is finite on the whole parameter space"
            )

    def __repr__(self) -> str:
        return f"<target {self.name}>"


@dataclass(frozen=True, repr=False)
class Expectation(Target):
    """f̄ = E[f(θ)|x*] for a function f with values in ℝ or ℝᵐ; ψ = f − f̄."""

    function: Function
    name: str
    vector: bool = False
    is_indicator: bool = False
    component_labels: tuple[str, ...] | None = field(default=None)

    def components(self, points: Points) -> FloatArray:
        raw = np.asarray(self.function(points))
        if raw.dtype.kind not in "biuf":
            raise InputError(f"target {self.name!r} must give numbers; it gives {raw.dtype} values")
        values = raw.astype(np.float64)
        if values.ndim == 0:
            values = np.broadcast_to(values, (points.rows,))
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[0] != points.rows or (values.shape[1] != 1 and not self.vector):
            raise InputError(
                f"target {self.name!r} must give one value for each of {points.rows} points"
                f"{' (or a row of values)' if self.vector else ''}; it gives shape {raw.shape}"
            )
        return values

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(weights @ self.components(points))

    def influence(self, points: Points, weights: FloatArray) -> FloatArray:
        values = self.components(points)
        return np.asarray(values - (weights @ values)[..., None, :])

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.component_labels

    @property
    def scalar(self) -> bool:
        return not self.vector

    @property
    def binary(self) -> bool:
        return self.is_indicator


@dataclass(frozen=True, repr=False)
class Covariance(Target):
    """cov(a, b | x*); ψ = (a − ā)(b − b̄) − C. The variance is the covariance of a with itself."""

    first: str
    second: str
    name: str

    def components(self, points: Points) -> FloatArray:
        return np.stack([_column(points, name, self.name) for name in (self.first, self.second)], axis=1)

    def _product(self, points: Points, weights: FloatArray) -> FloatArray:
        values = self.components(points)
        centred = values - (weights @ values)[..., None, :]
        return np.asarray(centred[..., 0] * centred[..., 1])

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray((weights * self._product(points, weights)).sum(axis=-1, keepdims=True))

    def influence(self, points: Points, weights: FloatArray) -> FloatArray:
        product = self._product(points, weights)
        centre = (weights * product).sum(axis=-1, keepdims=True)
        return np.asarray((product - centre)[..., None])


def _column(points: Points, name: str, target: str) -> FloatArray:
    column = points[name]
    if column.dtype.kind not in "biuf":
        raise InputError(
            f"target {target!r} needs numbers, and {name!r} holds labels; "
            f"ask for fbar.probability(\"{name} == '{column[0]}'\") instead"
        )
    return column.astype(np.float64)


def mean(name: str) -> Target:
    """Posterior mean of a parameter (or of a derived one)."""
    return Expectation(lambda t: _column(t, name, f"mean:{name}"), f"mean:{name}")


def second_moment(name: str) -> Target:
    """E[θ²|x*]."""
    label = f"second-moment:{name}"
    return Expectation(lambda t: _column(t, name, label) ** 2, label)


def variance(name: str) -> Target:
    """Posterior variance of a parameter."""
    return Covariance(name, name, f"variance:{name}")


def covariance(first: str, second: str) -> Target:
    """Posterior covariance of two parameters."""
    return Covariance(first, second, f"covariance:{first},{second}")


def probability(predicate: str | Function, *, name: str | None = None) -> Target:
    """Posterior probability that a predicate holds, written as text or given as a function of the batch.

    >>> probability("abs(theta) < 2").name
    'probability:abs(theta) < 2'
    """
    function: Function = Expression(predicate) if isinstance(predicate, str) else predicate
    label = name or f"probability:{predicate if isinstance(predicate, str) else _called(predicate)}"

    def indicator(points: Points) -> npt.NDArray[np.bool_]:
        held = np.asarray(function(points))
        if held.dtype != np.bool_:
            raise InputError(f"target {label!r} must be true or false at each point; it gives {held.dtype} values")
        return held

    return Expectation(indicator, label, is_indicator=True)


def interval(name: str, low: float, high: float) -> Target:
    """Posterior probability that low < θ < high."""
    if not low < high:
        raise InputError(f"interval of {name!r} needs low < high; got {low!r} and {high!r}")
    label = f"interval:{low:g}<{name}<{high:g}"

    def inside(points: Points) -> npt.NDArray[np.bool_]:
        column = _column(points, name, label)
        return np.asarray((column > low) & (column < high))

    return Expectation(inside, label, is_indicator=True)


def model_probability(model: Any, *, name: str = "model") -> Target:
    """Posterior probability of one model among those of a model choice."""
    label = f"model-probability:{model}"

    def chosen(points: Points) -> npt.NDArray[np.bool_]:
        return np.asarray(points[name] == model)

    return Expectation(chosen, label, is_indicator=True)


def expectation(function: Function, *, name: str | None = None, vector: bool = False) -> Target:
    """Posterior expectation of any function of the batch θ; ``vector=True`` if it gives rows of values."""
    return Expectation(function, name or f"expectation:{_called(function)}", vector=vector)


def posterior(values: Mapping[str, npt.ArrayLike]) -> Target:
    """The posterior probability of every given parameter value, a one-hot vector target.

    Its MSE, summed over the components, is the error of the normalised posterior (section 1.2.2 of the
    paper: d_post is d_f with f = δ(θ' − θ)). Give the values as columns, such as ``prior.points``.
    """
    wanted = Points(dict(values.items()))

    def one_hot(points: Points) -> npt.NDArray[np.bool_]:
        same = np.ones((points.rows, wanted.rows), dtype=bool)
        for name in wanted:
            same &= points[name][:, None] == wanted[name][None, :]
        return same

    labels = tuple(wanted.label(row) for row in range(wanted.rows))
    return Expectation(one_hot, "posterior", vector=True, is_indicator=True, component_labels=labels)


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "f")).replace("<lambda>", "f")


def as_targets(targets: Target | Sequence[Target]) -> tuple[Target, ...]:
    """One target or several, as a tuple with distinct names."""
    listed = (targets,) if isinstance(targets, Target) else tuple(targets)
    if not listed:
        raise InputError("give at least one target, such as fbar.mean('theta')")
    for target in listed:
        if not isinstance(target, Target):
            raise InputError(f"a target is made by fbar.mean, fbar.probability, …; got {target!r}")
    names = [target.name for target in listed]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InputError(f"target {sorted(twice)[0]!r} is given twice; name one of them otherwise with name=")
    return listed
