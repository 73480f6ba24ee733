"""How users make targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import choice, finite_number, flag, number, positive_number, require_name, shown, text, without_mask
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of
from fbar.question.targets.expressions import Expression
from fbar.question.targets.kinds import Covariance, DensityAt, Expectation, Function
from fbar.question.targets.quantiles import Quantile

LEAST_LEVEL = 1e-12
"""A quantile nearer to 0 or 1 cannot be told apart from them by any number of simulations."""


def _parameter(name: str) -> str:
    """The name of a parameter; whether there is one is known when the target is used."""
    return text(name, "a parameter's name")


def _own(name: str | None) -> None:
    if name is not None:
        require_name(name, "a target's name")


def mean(name: str) -> Target:
    """Posterior mean of a parameter (or of a derived one); of one that some models lack, given a model that has it."""
    label = f"mean:{_parameter(name)}"
    return Expectation(lambda t: column_of(t, name, label), label, conditional_on=(name,))


def second_moment(name: str) -> Target:
    """E[θ²|x*]."""
    label = f"second_moment:{_parameter(name)}"
    return Expectation(lambda t: column_of(t, name, label) ** 2, label, conditional_on=(name,))


def variance(name: str) -> Target:
    """Posterior variance of a parameter."""
    return Covariance(name, name, f"variance:{_parameter(name)}")


def covariance(first: str, second: str) -> Target:
    """Posterior covariance of two parameters."""
    return Covariance(first, second, f"covariance:{_parameter(first)},{_parameter(second)}")


def probability(predicate: str | Function, *, name: str | None = None) -> Target:
    """Posterior probability that a predicate holds, written as text or given as a function of the batch.

    Text about a parameter that some models lack holds in none of these: P(lam > 3) is that of a model with lam
    *and* lam > 3.

    >>> probability("abs(theta) < 2").name
    'probability:abs(theta) < 2'
    """
    _own(name)
    if not isinstance(predicate, str):
        check_function(predicate, "a predicate, unless it is text such as 'beta > 3',")
    function: Function = Expression(predicate) if isinstance(predicate, str) else predicate
    label = name or f"probability:{predicate if isinstance(predicate, str) else _called(predicate)}"

    def indicator(points: Points) -> npt.NDArray[np.bool_]:
        held = without_mask(function(points), f"what target {shown(label)} gives")
        if held.dtype != np.bool_:
            raise InputError(f"target {shown(label)} must be true or false at each point; it gives {held.dtype} values")
        if isinstance(function, Expression) and not points.complete:
            for parameter in function.names:
                held = held & points.present(parameter)
        return held

    return Expectation(indicator, label, is_indicator=True)


def interval(name: str, low: float, high: float) -> Target:
    """Posterior probability that low < θ < high."""
    _parameter(name)
    low, high = number(low, "low"), number(high, "high")
    if not low < high:
        raise InputError(f"interval of {shown(name)} needs low < high; got {shown(low)} and {shown(high)}")
    label = f"interval:{low:g}<{name}<{high:g}"

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


def model_probability(model: Any, *, name: str = "model") -> Target:
    """Posterior probability of one model among those of a model choice."""
    if not isinstance(model, str | int | float | np.generic):
        raise InputError(f"a model is known by text or a number; got {shown(model)}")
    _parameter(name)
    label = f"model-probability:{model}"

    def chosen(points: Points) -> npt.NDArray[np.bool_]:
        column = points[name]
        if isinstance(model, str) and column.dtype.kind != "U":  # a number, written as text on a command line
            column = column.astype(str)
        return np.asarray(column == model)

    def unknown(_: int, points: Points) -> str:
        return f"there is no {name} {shown(model)}; known: {', '.join(map(str, dict.fromkeys(points[name].tolist())))}"

    return Expectation(chosen, label, is_indicator=True, requires_each=unknown)


def quantile(name: str, level: float) -> Target:
    """Posterior quantile of a parameter. Its interval is read off the distribution function, and is not symmetric."""
    _parameter(name)
    at = number(level, "level")
    if not LEAST_LEVEL <= at <= 1 - LEAST_LEVEL:
        raise InputError(f"the level of a quantile must lie between 0 and 1; got {shown(level)}")
    return Quantile(name, at, f"quantile:{name},{at:g}")


def density_at(name: str, x: float, *, bandwidth: float | None = None) -> Target:
    """Posterior density of a continuous parameter at x, smoothed by a Gaussian kernel; see `DensityAt`."""
    _parameter(name)
    if bandwidth is not None:
        finite_number(positive_number(bandwidth, "bandwidth"), "bandwidth")
    x = finite_number(number(x, "x"), "x")
    return DensityAt(name, x, f"density:{name}={x:g}", bandwidth)


def expectation(function: str | Function, *, name: str | None = None, vector: bool = False) -> Target:
    """Posterior expectation of any function of the batch θ, or of text such as ``"log(beta)"``.

    ``vector=True`` if a function gives rows of values.
    """
    _own(name)
    if isinstance(function, str):
        return Expectation(Expression(function), name or f"expectation:{function}")
    check_function(function, "an expectation's argument, unless it is text such as 'log(beta)',")
    return Expectation(function, name or f"expectation:{_called(function)}", vector=flag(vector, "vector"))


def posterior(values: Mapping[str, npt.ArrayLike]) -> Target:
    """The posterior probability of every given parameter value, a one-hot vector target.

    Its MSE, summed over the components, is the error of the normalised posterior (section 1.2.2 of the
    paper: d_post is d_f with f = δ(θ' − θ)). Give the values as columns, such as ``prior.points``.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"posterior takes the wanted values as columns, such as prior.points; got {shown(values)}")
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
        one_hot, "posterior", vector=True, is_indicator=True, component_labels=labels, requires_each=unknown
    )


def parse(text: str) -> Target:
    """A target from its name, as on a command line.

    >>> [parse(text).name for text in ("mean:beta", "quantile:beta,0.9", "probability:beta > 3")]
    ['mean:beta', 'quantile:beta,0.9', 'probability:beta > 3']
    """
    if not isinstance(text, str) or ":" not in text:
        raise InputError(f"a target is written as kind:what, such as mean:beta; got {shown(text)}")
    kind, what = (part.strip() for part in text.split(":", 1))
    kind = "second_moment" if kind == "second-moment" else kind  # as it was written once
    choice(kind, _PARSERS, "kind of target")
    try:
        return _PARSERS[kind](what)
    except (ValueError, IndexError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read the target {shown(text)}; write it like {_EXAMPLES[kind]}") from None


def _two(what: str) -> list[str]:
    first, second = what.split(",")
    return [first.strip(), second.strip()]


def _between(what: str) -> Target:
    low, name, high = what.split("<")
    return interval(name.strip(), float(low), float(high))


def _density(name: str, x: str) -> Target:
    return density_at(name.strip(), float(x))


_PARSERS: dict[str, Callable[[str], Target]] = {
    "mean": mean,
    "second_moment": second_moment,
    "variance": variance,
    "covariance": lambda what: covariance(*_two(what)),
    "probability": probability,
    "interval": _between,
    "quantile": lambda what: quantile(_two(what)[0], float(_two(what)[1])),
    "density": lambda what: _density(*what.split("=")),
    "model-probability": model_probability,
    "expectation": expectation,
}
_EXAMPLES = {
    "covariance": "covariance:beta,gamma",
    "interval": "interval:0<beta<1",
    "quantile": "quantile:beta,0.9",
    "density": "density:beta=1.5",
}


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "f")).replace("<lambda>", "f")
