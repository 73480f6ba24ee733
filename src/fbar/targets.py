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

from fbar.checks import BoolArray, FloatArray, number, positive_number
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.expressions import Expression
from fbar.points import Points

Function = Callable[[Points], npt.ArrayLike]


class Target(ABC):
    """A quantity of the posterior, with its influence function."""

    name: str
    note: str = ""
    """What every estimate of this target must say about itself."""

    @abstractmethod
    def components(self, points: Points) -> FloatArray:
        """The functions of θ that the target is made of, at every point: shape (n, c)."""

    @abstractmethod
    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        """The target's value under the weights: shape (..., m)."""

    @abstractmethod
    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        """ψ of the weighted points' distribution, as a function of any points: shape (..., n, m)."""

    def influence(self, points: Points, weights: FloatArray) -> FloatArray:
        """ψ at the weighted points themselves."""
        return self.psi(points, weights)(points)

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        """For a target that is a product of two errors to second order: the ψ of the two, shape (..., n, 2).

        Where ψ itself vanishes, as for the variance of a fair coin, the product is all there is of the error.
        """
        return None

    def given(self, points: Points) -> BoolArray | None:
        """The points that the target is conditional on, those whose model has its parameters; None for all."""
        return None

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

    @property
    def smooth(self) -> bool:
        """Whether the target is differentiable in the probabilities of a finite space."""
        return True

    def check_space(self, points: Points) -> None:
        """Raise an `InputError` when the target is not defined on the space, given every kind of point of it."""
        self.check(points)

    def check(self, points: Points) -> None:
        """Raise an `InputError` when the target is not defined on these points."""
        values = self.components(points)
        bad = ~np.isfinite(values).all(axis=1)
        given = self.given(points)
        if given is not None:
            bad &= given
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"target {self.name!r} is not defined at {points.label(row)}: it gives {values[row].squeeze()}; "
                "choose a function that is finite on the whole parameter space"
            )

    def __repr__(self) -> str:
        return f"<target {self.name}>"


def _present(points: Points, names: Sequence[str]) -> BoolArray | None:
    """Where all the named parameters exist; None for everywhere."""
    if points.complete or not names:
        return None
    mask = np.logical_and.reduce([points.present(name) for name in names])
    return None if mask.all() else mask


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
    """What to say when a component is zero on the whole space, for targets that name values of it."""

    def components(self, points: Points) -> FloatArray:
        try:
            raw = np.asarray(self.function(points))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"target {self.name!r} failed on the parameters: {type(error).__name__}: {error}"
            ) from error
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

    def given(self, points: Points) -> BoolArray | None:
        return _present(points, self.conditional_on)

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return _mean(self.components(points), weights, self.given(points))[0]

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, share = _mean(self.components(points), weights, self.given(points))
        return lambda at: _restricted(self.components(at) - centre[..., None, :], self.given(at), share)

    def check_space(self, points: Points) -> None:
        self.check(points)
        if self.requires_each:
            values = self.components(points)
            missing = np.flatnonzero(~values.any(axis=0))
            if missing.size:
                raise InputError(f"target {self.name!r}: {self.requires_each(int(missing[0]), points)}")

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.component_labels

    @property
    def scalar(self) -> bool:
        return not self.vector

    @property
    def binary(self) -> bool:
        return self.is_indicator


def _mean(values: FloatArray, weights: FloatArray, given: BoolArray | None) -> tuple[FloatArray, FloatArray]:
    """The mean of values (n, c) over the given points, shape (..., c), and the probability of these points."""
    if given is None:
        return _average(weights, values), np.ones(weights.shape[:-1])
    share = _average(weights, given[:, None].astype(np.float64))[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return _average(weights, np.where(given[:, None], values, 0.0)) / share[..., None], share


def _average(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Σ w f over the points. One run's weights are summed by numpy itself: the same bits with any BLAS."""
    if weights.ndim == 1:
        return np.asarray((weights[:, None] * values).sum(axis=0))
    return np.asarray(weights @ values)


def _restricted(psi: FloatArray, given: BoolArray | None, share: FloatArray) -> FloatArray:
    """1(given) ψ / P(given): the influence function of a conditional target."""
    if given is None:
        return np.asarray(psi)
    return np.where(given[:, None], psi, 0.0) / share[..., None, None]


@dataclass(frozen=True, repr=False)
class Covariance(Target):
    """cov(a, b | x*); ψ = (a − ā)(b − b̄) − C. The variance is the covariance of a with itself."""

    first: str
    second: str
    name: str

    def components(self, points: Points) -> FloatArray:
        return np.stack([_column(points, name, self.name) for name in (self.first, self.second)], axis=1)

    def given(self, points: Points) -> BoolArray | None:
        return _present(points, (self.first, self.second))

    def _product(self, points: Points, centre: FloatArray) -> FloatArray:
        centred = self.components(points) - centre[..., None, :]
        return np.asarray(centred[..., 0] * centred[..., 1])

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The means, the covariance and the probability of the points it is conditional on."""
        given = self.given(points)
        centre, share = _mean(self.components(points), weights, given)
        product = self._product(points, centre)
        if given is not None:
            product = np.where(given, product, 0.0)
        return centre, (weights * product).sum(axis=-1) / share, share

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(self._fit(points, weights)[1][..., None])

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, covariance, share = self._fit(points, weights)

        def at(where: Points) -> FloatArray:
            psi = self._product(where, centre) - covariance[..., None]
            return _restricted(psi[..., None], self.given(where), share)

        return at

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        """ĉov − cov = Σψ − δā δb̄ exactly, so that the errors of the two means make up the rest."""
        values, given = self.components(points), self.given(points)
        centre, share = _mean(values, weights, given)
        return _restricted(values - centre[..., None, :], given, share)


@dataclass(frozen=True, repr=False)
class Quantile(Target):
    """The α-quantile Q of a parameter; ψ = (α − 1{θ ≤ Q})/π(Q).

    The density at the quantile is π(Q) = 2h/(Q_{α+h} − Q_{α−h}) with h = min(α, 1−α, n_eff^(−1/3))/2, which
    for n_eff equally weighted points has an error of order n_eff^(−1/3).
    """

    parameter: str
    level: float
    name: str

    def components(self, points: Points) -> FloatArray:
        return _column(points, self.parameter, self.name)[:, None]

    def given(self, points: Points) -> BoolArray | None:
        return _present(points, (self.parameter,))

    @property
    def smooth(self) -> bool:
        return False

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        given = self.given(points)
        x = self.components(points)[:, 0]
        w = weights if given is None else np.where(given, weights, 0.0)
        share = w.sum(axis=-1)
        w = w / share[..., None]
        order = np.argsort(x, kind="stable")
        x, w = x[order], w[..., order]
        cumulated = np.cumsum(w, axis=-1) - w / 2  # a point's mass is centred on it
        n_eff = 1 / (w**2).sum(axis=-1)
        h = np.minimum(min(self.level, 1 - self.level), n_eff ** (-1 / 3)) / 2

        def at(levels: FloatArray) -> FloatArray:
            flat = [np.interp(p, c, x) for p, c in zip(np.ravel(levels), cumulated.reshape(-1, x.size), strict=True)]
            return np.reshape(flat, np.shape(levels))

        level = np.broadcast_to(np.asarray(self.level), h.shape)
        low, middle, high = at(level - h), at(level), at(level + h)
        with np.errstate(divide="ignore", invalid="ignore"):
            return middle, 2 * h / (high - low), share

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(self._fit(points, weights)[0][..., None])

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        quantile, density, share = self._fit(points, weights)

        def at(where: Points) -> FloatArray:
            below = self.components(where)[:, 0] <= quantile[..., None]
            psi = (self.level - below) / density[..., None]
            return _restricted(psi[..., None], self.given(where), share)

        return at


@dataclass(frozen=True, repr=False)
class DensityAt(Target):
    """The posterior density of a continuous parameter at a point, smoothed by a Gaussian kernel.

    Without a bandwidth, Silverman's 1.06 σ n_eff^(−1/5) is taken. The error bar is that of the smoothed density.
    """

    parameter: str
    x: float
    name: str
    bandwidth: float | None = None
    note: str = "the bias of smoothing the density is not part of the error bar"

    def components(self, points: Points) -> FloatArray:
        return _column(points, self.parameter, self.name)[:, None]

    @property
    def smooth(self) -> bool:
        return False

    def _kernel(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        x = self.components(points)[:, 0]
        if self.bandwidth is None:
            mean = weights @ x
            sd = np.sqrt((weights * (x - mean[..., None]) ** 2).sum(axis=-1))
            h = (1.06 * sd * ((weights**2).sum(axis=-1)) ** 0.2)[..., None]
        else:
            h = np.broadcast_to(self.bandwidth, (*weights.shape[:-1], 1))

        def at(where: Points) -> FloatArray:
            u = (self.components(where)[:, 0] - self.x) / h
            return np.asarray(np.exp(-0.5 * u**2) / (h * np.sqrt(2 * np.pi)))

        return at

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray((weights * self._kernel(points, weights)(points)).sum(axis=-1, keepdims=True))

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        kernel, value = self._kernel(points, weights), self.value(points, weights)
        return lambda where: np.asarray((kernel(where) - value)[..., None])


def _column(points: Points, name: str, target: str) -> FloatArray:
    column = points[name]
    if column.dtype.kind not in "biuf":
        raise InputError(
            f"target {target!r} needs numbers, and {name!r} holds labels; "
            f"ask for fbar.probability(\"{name} == '{column[0]}'\") instead"
        )
    return column.astype(np.float64)


def mean(name: str) -> Target:
    """Posterior mean of a parameter (or of a derived one); of one that some models lack, given a model that has it."""
    label = f"mean:{name}"
    return Expectation(lambda t: _column(t, name, label), label, conditional_on=(name,))


def second_moment(name: str) -> Target:
    """E[θ²|x*]."""
    label = f"second-moment:{name}"
    return Expectation(lambda t: _column(t, name, label) ** 2, label, conditional_on=(name,))


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
    if not isinstance(predicate, str):
        check_function(predicate, "a predicate")
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
    low, high = number(low, "low"), number(high, "high")
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

    def unknown(_: int, points: Points) -> str:
        return f"there is no {name} {model!r}; known: {', '.join(map(str, dict.fromkeys(points[name].tolist())))}"

    return Expectation(chosen, label, is_indicator=True, requires_each=unknown)


def quantile(name: str, level: float) -> Target:
    """Posterior quantile of a continuous parameter."""
    if not 0 < number(level, "level") < 1:
        raise InputError(f"the level of a quantile must lie between 0 and 1; got {level!r}")
    return Quantile(name, float(level), f"quantile:{name},{level:g}")


def density_at(name: str, x: float, *, bandwidth: float | None = None) -> Target:
    """Posterior density of a continuous parameter at x, smoothed by a Gaussian kernel; see `DensityAt`."""
    if bandwidth is not None:
        positive_number(bandwidth, "bandwidth")
    return DensityAt(name, float(x), f"density:{name}={x:g}", bandwidth)


def expectation(function: Function, *, name: str | None = None, vector: bool = False) -> Target:
    """Posterior expectation of any function of the batch θ; ``vector=True`` if it gives rows of values."""
    check_function(function, "an expectation's argument")
    return Expectation(function, name or f"expectation:{_called(function)}", vector=vector)


def posterior(values: Mapping[str, npt.ArrayLike]) -> Target:
    """The posterior probability of every given parameter value, a one-hot vector target.

    Its MSE, summed over the components, is the error of the normalised posterior (section 1.2.2 of the
    paper: d_post is d_f with f = δ(θ' − θ)). Give the values as columns, such as ``prior.points``.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"posterior takes the wanted values as columns, such as prior.points; got {values!r}")
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


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "f")).replace("<lambda>", "f")


def as_targets(targets: Target | Sequence[Target]) -> tuple[Target, ...]:
    """One target or several, as a tuple with distinct names."""
    if not isinstance(targets, Target | Sequence) or isinstance(targets, str):
        raise InputError(f"a target is made by fbar.mean('theta'), fbar.probability('theta > 2'), …; got {targets!r}")
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
