"""Expectations: f̄ = E[f(θ)|x*] (table 1 of the paper) for any f with values in ℝ or ℝᵐ; ψ = f − f̄.

Means, moments and probabilities are expectations; the probabilities of the values of a finite space are the vector
one with f = δ(θ' − θ), whose mean squared error is that of the normalised posterior (section 1.2.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, without_mask
from fbar.checks import flag, in_words, known_names, number, shown
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.question.expressions import Expression
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of, mean_of, present, restricted
from fbar.question.targets.registry import parameter, register, require_own_name

Function = Callable[[Points], npt.ArrayLike]


@dataclass(frozen=True, repr=False)
class Expectation(Target):
    """f̄ = E[f(θ)|x*] for a function f with values in ℝ or ℝᵐ; ψ = f − f̄.

    With ``conditional_on`` parameters that some models lack, it is E[f(θ)|x*, they exist]; ψ = 1(f − f̄)/P.
    """

    function: Function
    name: str
    vector: bool = False
    is_indicator: bool = False
    component_labels: tuple[str, ...] | None = field(default=None)
    conditional_on: tuple[str, ...] = ()
    requires_each: Callable[[int, Points], str] | None = field(default=None, compare=False)
    """The error message for a component that is zero on the whole space, for targets that name values of it."""

    def components(self, points: Points) -> FloatArray:
        try:
            raw = without_mask(self.function(points), f"what target {shown(self.name)} returns")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"target {shown(self.name)} failed: {in_words(error)}") from error
        if raw.dtype.kind not in "biuf":
            raise InputError(f"target {shown(self.name)} must return numbers; it returns {raw.dtype} values")
        values = raw.astype(np.float64)
        if values.ndim == 0:
            values = np.broadcast_to(values, (points.rows,))
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[0] != points.rows or (values.shape[1] != 1 and not self.vector):
            raise InputError(
                f"target {shown(self.name)} must return one value for each of {points.rows} points"
                f"{' (or a row of values)' if self.vector else ''}; it returns shape {raw.shape}"
            )
        return values

    def given(self, points: Points) -> BoolArray | None:
        return present(points, self.conditional_on)

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return mean_of(self.components(points), weights, self.given(points))[0]

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.is_indicator else (-math.inf, math.inf)

    def limits(self, points: Points) -> tuple[FloatArray | float, FloatArray | float]:
        values, given = self.components(points), self.given(points)
        values = values if given is None else values[given]
        return values.min(axis=0, initial=math.inf), values.max(axis=0, initial=-math.inf)

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, share = mean_of(self.components(points), weights, self.given(points))
        return lambda at: restricted(self.components(at) - centre[..., None, :], self.given(at), share)

    def check_space(self, points: Points) -> None:
        self.check(points)
        if self.requires_each:
            values = self.components(points)
            missing = np.flatnonzero(~values.any(axis=0))
            if missing.size:
                raise InputError(f"target {shown(self.name)}: {self.requires_each(int(missing[0]), points)}")

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.component_labels

    @property
    def scalar(self) -> bool:
        return not self.vector

    @property
    def binary(self) -> bool:
        return self.is_indicator


@register("NAME", "mean:beta")
def mean(name: str) -> Target:
    """Posterior mean of a parameter.

    It may be a derived parameter. If only some models have it, the mean is conditional on these models.
    """
    label = f"mean:{parameter(name)}"
    return Expectation(lambda t: column_of(t, name, label), label, conditional_on=(name,))


@register("NAME", "second_moment:beta")
def second_moment(name: str) -> Target:
    """Posterior mean of a parameter's square, E[θ²|x*]."""
    label = f"second_moment:{parameter(name)}"
    return Expectation(lambda t: column_of(t, name, label) ** 2, label, conditional_on=(name,))


@register("PREDICATE", "probability:beta > 3")
def probability(predicate: str | Function, *, name: str | None = None) -> Target:
    """Posterior probability that a predicate holds.

    The predicate is text, or a function of the batch of parameters. If a model lacks a parameter in the text, the
    predicate is false for that model: P(lam > 3) is the probability of a model with lam *and* of lam > 3.

    >>> probability("abs(theta) < 2").name
    'probability:abs(theta) < 2'
    """
    require_own_name(name)
    if not isinstance(predicate, str):
        check_function(predicate, "a predicate, unless it is text such as 'beta > 3',")
    function: Function = Expression(predicate) if isinstance(predicate, str) else predicate
    label = name or f"probability:{predicate if isinstance(predicate, str) else _called(predicate)}"

    def indicator(points: Points) -> npt.NDArray[np.bool_]:
        held = without_mask(function(points), f"what target {shown(label)} returns")
        if held.dtype != np.bool_:
            raise InputError(
                f"target {shown(label)} must be true or false at each point; it returns {held.dtype} values"
            )
        if isinstance(function, Expression) and not points.complete:
            for parameter in function.names:
                held = held & points.present(parameter)
        return held

    return Expectation(indicator, label, is_indicator=True)


@register("LOW<NAME<HIGH", "probability_between:0<beta<1")
def probability_between(name: str, low: float, high: float) -> Target:
    """Posterior probability that a parameter lies between two numbers, P(low < θ < high | x*)."""
    parameter(name)
    low, high = number(low, "low"), number(high, "high")
    if not low < high:
        raise InputError(f"probability_between of {shown(name)} needs low < high; got {shown(low)} and {shown(high)}")
    label = f"probability_between:{low:g}<{name}<{high:g}"

    def inside(points: Points) -> npt.NDArray[np.bool_]:
        column = column_of(points, name, label)
        unknown = np.isnan(column) & points.present(name)
        if unknown.any():
            raise InputError(
                f"target {shown(label)} is not defined at {points.label(int(np.argmax(unknown)))}: {name} "
                "is not a number"
            )
        return np.asarray((column > low) & (column < high))

    return Expectation(inside, label, is_indicator=True)


def require_model_name(model: Any) -> None:
    if not isinstance(model, str | int | float | np.generic):
        raise InputError(f"a model is named by text or a number; got {shown(model)}")


def is_model(column: npt.NDArray[Any], model: Any) -> npt.NDArray[np.bool_]:
    """Where a column of models has this one; a number may be written as text, as on a command line."""
    return np.asarray((column.astype(str) if isinstance(model, str) and column.dtype.kind != "U" else column) == model)


@register("MODEL", "model_probability:SIR")
def model_probability(model: Any, *, name: str = "model") -> Target:
    """Posterior probability of one model among those of a model choice."""
    require_model_name(model)
    parameter(name)
    label = f"model_probability:{model}"

    def chosen(points: Points) -> npt.NDArray[np.bool_]:
        return is_model(points[name], model)

    def unknown(_: int, points: Points) -> str:
        return f"there is no {name} {shown(model)}; {known_names(model, dict.fromkeys(points[name].tolist()))}"

    return Expectation(chosen, label, is_indicator=True, requires_each=unknown)


@register("FUNCTION", "expectation:log(beta)")
def expectation(function: str | Function, *, name: str | None = None, vector: bool = False) -> Target:
    """Posterior expectation of a function of the parameters.

    The function takes the batch of parameters; or it is text such as ``"log(beta)"``. ``vector=True`` if it returns a
    row of values for each parameter set.
    """
    require_own_name(name)
    if isinstance(function, str):
        return Expectation(Expression(function), name or f"expectation:{function}")
    check_function(function, "an expectation's argument, unless it is text such as 'log(beta)',")
    return Expectation(function, name or f"expectation:{_called(function)}", vector=flag(vector, "vector"))


def probabilities(values: Mapping[str, npt.ArrayLike]) -> Target:
    """Posterior probability of each of the given parameter values, a vector target.

    Its MSE, summed over the components, is the error of the normalised posterior (section 1.2.2 of the
    paper: d_post is d_f with f = δ(θ' − θ)). Give the values as columns, such as ``prior.points``.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"probabilities takes the wanted values as columns, such as prior.points; got {shown(values)}")
    wanted = Points(dict(values.items()))

    def one_hot(points: Points) -> npt.NDArray[np.bool_]:
        same = np.ones((points.rows, wanted.rows), dtype=bool)
        for name in wanted:
            same &= points[name][:, None] == wanted[name][None, :]
        return same

    labels = tuple(wanted.label(row) for row in range(wanted.rows))

    def unknown(row: int, points: Points) -> str:
        return f"{labels[row]} is not a value of the parameter space"

    return Expectation(
        one_hot, "probabilities", vector=True, is_indicator=True, component_labels=labels, requires_each=unknown
    )


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "f")).replace("<lambda>", "f")
