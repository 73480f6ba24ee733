"""Targets: the functions f of θ whose posterior expectations are wanted, and functionals of the posterior.

A target answers two questions about weighted points: its value, and its influence function ψ at every
point. For an expectation ψ = f − f̄; for a functional T(p) it is the derivative of T in the direction of
a point mass, so that to first order T(p̂) − T(p) = E_p̂[ψ] and *one* variance formula and *one* optimal
design serve every target: wherever the paper has f(θ) − f̄, ψ(θ) stands.

Shapes: weights (..., n), normalised; values (..., m); influence (..., n, m). A scalar target has m = 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar import former
from fbar.arrays import BoolArray, FloatArray, same_alone
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.limits import Limits

if TYPE_CHECKING:
    from fbar.question.targets.conditions import OneModel


PriorProbability = Callable[[str, Any], float]
"""The prior probability that a parameter has a value, such as that of one model."""


class Target(ABC):
    """A quantity of the posterior, with its influence function."""

    name: str
    note: str = ""
    """A warning that every estimate of this target has."""

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

        Where ψ itself vanishes, as for the variance of a fair coin, the product is the whole error.
        """
        return None

    def given(self, points: Points) -> BoolArray | None:
        """The points that the target is conditional on, those whose model has its parameters; None for all."""
        return None

    def limits(self, points: Points) -> tuple[FloatArray | float, FloatArray | float]:
        """What the value lies between, whatever the weights of these points are: numbers, or shape (m,)."""
        return -math.inf, math.inf

    @property
    def bounds(self) -> tuple[float, float]:
        """What its value lies between for any posterior, such as 0 and 1 for a probability."""
        return -math.inf, math.inf

    @property
    def parts(self) -> tuple[Target, ...]:
        """The targets that it consists of, each of which is estimated as one of its kind; itself for most."""
        return (self,)

    def with_prior(self, prior: PriorProbability) -> Target:
        """The target for a problem with these prior probabilities; itself unless it compares with the prior."""
        return self

    def within(self, model: OneModel) -> Target | None:
        """The target within one model, where its kind has one; None for the general way (``Within``)."""
        return None

    def doubts(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        """Why an estimate from these weighted points is unreliable, for reasons that only this target has."""
        return ()

    def remarks(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        """Warnings about an estimate from these weighted points whose error bar is reliable."""
        return ()

    def confidence_limits(self, value: float, standard_error: float, df: float) -> Limits | None:
        """Limits that are not symmetric about the value; None for Student's."""
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
        """Whether f takes only the values 0 and 1 (a probability)."""
        return False

    @property
    def smooth(self) -> bool:
        """Whether the target is differentiable in the probabilities of a finite space."""
        return True

    def check_space(self, points: Points) -> None:
        """Raise an `InputError` when the target is not defined on the space, given every kind of point of it."""
        self.check(points)
        given = self.given(points)
        if given is not None and not given.any():
            raise InputError(f"target {shown(self.name)} needs parameters that no model has all of")

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
                f"target {shown(self.name)} is not defined at {points.label(row)}: it gives {values[row].squeeze()}; "
                "choose a function that is finite on the whole parameter space"
            )
        for row in {0, points.rows - 1} if points.rows > 1 else ():
            try:
                alone = self.components(points.take([row]))
            except InputError:  # it works only on several rows: nothing can be compared
                continue
            if not same_alone(alone, values, row):
                raise InputError(
                    f"target {shown(self.name)} gives {alone[0].squeeze()} at {points.label(row)} and "
                    f"{values[row].squeeze()} for the same row in a batch; it, and derived parameters that it uses, "
                    "must treat every row by itself, without random numbers"
                )

    def __repr__(self) -> str:
        return f"<target {self.name}>"


def whole_name(name: str, names: Sequence[str], what: str = "target") -> str:
    """A target's name from what follows its kind where that is clear: mean:R0 from R0; else the name as it is."""
    if not isinstance(name, str):
        raise InputError(f"a target's name must be text such as 'mean:theta'; got {shown(name)}")
    short = [full for full in names if full.partition(":")[2] == name]
    if name in names:
        return name
    if not short:
        former.refuse_target(name)
        return name
    if len(short) > 1:
        raise InputError(f"{what} {shown(name)} is ambiguous: {' or '.join(short)}; give the whole name")
    return short[0]


# ---------------------------------------------------------------- what the kinds of targets share


def present(points: Points, names: Sequence[str]) -> BoolArray | None:
    """Where all the named parameters exist; None for everywhere."""
    if points.complete or not names:
        return None
    mask = np.logical_and.reduce([points.present(name) for name in names])
    return None if mask.all() else mask


def mean_of(values: FloatArray, weights: FloatArray, given: BoolArray | None) -> tuple[FloatArray, FloatArray]:
    """The mean of values (n, c) over the given points, shape (..., c), and the probability of these points."""
    if given is None:
        mean = average(weights, values)
        # Weights sum to one up to rounding: equal values would seem to differ, by 1e-16, and their error be trusted.
        same = (values == values[:1]).all(axis=0) & np.isfinite(mean)
        return np.where(same, values[:1].sum(axis=0), mean), np.ones(weights.shape[:-1])
    share = average(weights, given[:, None].astype(np.float64))[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return average(weights, np.where(given[:, None], values, 0.0)) / share[..., None], share


def average(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Σ w f over the points. One run's weights are summed by numpy itself: the same bits with any BLAS."""
    if weights.ndim == 1:
        return np.asarray((weights[:, None] * values).sum(axis=0))
    return np.asarray(weights @ values)


def restricted(psi: FloatArray, given: BoolArray | None, share: FloatArray) -> FloatArray:
    """1(given) ψ / P(given): the influence function of a conditional target."""
    if given is None:
        return np.asarray(psi)
    with np.errstate(invalid="ignore"):  # no point is given: ψ is not known
        return np.where(given[:, None], psi, 0.0) / share[..., None, None]


def column_of(points: Points, name: str, target: str) -> FloatArray:
    column = points[name]
    if column.dtype.kind == "c":
        raise InputError(f"target {shown(target)} needs real numbers, but {shown(name)} is complex; take its real part")
    if column.dtype.kind not in "biuf":
        raise InputError(
            f"target {shown(target)} needs numbers, but {shown(name)} holds labels; "
            f"use fbar.probability(\"{name} == '{column[0]}'\") instead"
        )
    return column.astype(np.float64)


def continuous_column(points: Points, name: str, target: str) -> FloatArray:
    """A column of a continuous parameter, for targets that need its density."""
    if points[name].dtype.kind in "biu":
        raise InputError(
            f"target {shown(target)} needs a continuous parameter, but {shown(name)} takes whole numbers; use "
            f"fbar.probability('{name} > 2') or similar, or make it a float if it takes so many values that it is "
            "practically continuous"
        )
    return column_of(points, name, target)
