"""What is known of a true posterior: values of targets with their own errors, its density, draws from it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import finite_number, mapping, non_negative_number, number, require_name, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets import Target, mean, second_moment

LogDensity = Callable[[Points], FloatArray]


@dataclass(frozen=True)
class Known:
    """The true value of a scalar target.

    ``standard_error`` is the value's own error, 0 where it is exact up to rounding; ``deviation`` the standard
    deviation of f(θ) (of ψ(θ), for a functional) under the true posterior: the error of one posterior draw, the unit
    that b² is measured in. NaN where it is not known.
    """

    name: str
    value: float
    standard_error: float = 0.0
    deviation: float = math.nan


class Truth(Mapping[str, Known]):
    """True values by the targets' names, and how they were computed."""

    def __init__(self, known: Sequence[Known], how: str) -> None:
        self._known = {item.name: item for item in known}
        self.how = how

    def __getitem__(self, name: str) -> Known:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"<truth of {len(self)} targets, {self.how}>"

    def as_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": item.name,
                "truth": item.value,
                "standard_error": item.standard_error,
                "deviation": None if math.isnan(item.deviation) else item.deviation,
            }
            for item in self._known.values()
        ]


def _known_values(truth: Mapping[Any, Any]) -> list[Known]:
    """Values of targets by name, or pairs of a value and its error, as they are given with a problem."""
    found = []
    for name, given in truth.items():
        require_name(name, "the name of a target of truth=")
        if isinstance(given, Known):
            found.append(given)
            continue
        pair = given if isinstance(given, tuple) else (given, 0.0)
        what = f"truth[{shown(name)}]"
        if len(pair) != 2:
            raise InputError(f"{what} must be a value or a pair (value, error); got {shown(given)}")
        value, error = finite_number(number(pair[0], what), what), non_negative_number(pair[1], f"the error of {what}")
        found.append(Known(name, value, error))
    return found


def moments(names: Sequence[str]) -> list[Target]:
    """The mean and the second moment of each parameter: what every truth contains at least."""
    return [kind(name) for name in names for kind in (mean, second_moment)]


class Reference(ABC):
    """A true posterior p(θ|x*), for one x*."""

    how: str
    """How it was computed, in words for people."""

    @abstractmethod
    def truth(self) -> Truth:
        """The values of its targets: the mean and the second moment of every parameter at least."""

    def expect(self, target: Target) -> tuple[FloatArray, FloatArray]:
        """The true value of any target, shape (m,), and its own standard error."""
        known = self.truth()
        if target.name not in known:
            raise InputError(
                f"the truth of {shown(target.name)} is not known for this problem; known: {', '.join(known)}"
            )
        item = known[target.name]
        return np.array([item.value]), np.array([item.standard_error])

    def log_density(self, points: Points) -> FloatArray:
        """log p(θ|x*), normalised."""
        raise InputError("the density of this problem's true posterior is not known")

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """Draws from p(θ|x*)."""
        raise InputError("draws from this problem's true posterior are not known")


def as_reference(given: Mapping[str, float | tuple[float, float] | Known] | Reference | None) -> Reference:
    """What is known of a true posterior, as it is given with a problem."""
    if isinstance(given, Reference):
        return given
    if given is not None:
        mapping(given, "truth", "{'mean:beta': 0.3}")
    return Listed(_known_values(given or {}), "given with the problem")


class Nodes(Reference):
    """A posterior as weighted points, in parts whose scatter gives the error.

    Parameters
    ----------
    parts
        Pairs (points, unnormalised weights). With ``error="replicates"`` they are independent estimates of equal size,
        such as randomised quasi-Monte Carlo: the value is the ratio of the pooled sums and its error the jackknife's.
        With ``error="refinement"`` the first is the finest quadrature and the error its difference from the second.
    exact
        Truths that are known in a better way, by name.
    log_density, sample
        Where they are known.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Points, FloatArray]],
        how: str,
        *,
        error: str = "replicates",
        exact: Mapping[str, Known] | None = None,
        targets: Sequence[Target] | None = None,
        log_density: LogDensity | None = None,
        sample: Callable[[int, np.random.Generator], Points] | None = None,
    ) -> None:
        if len(parts) < 2 or error not in ("replicates", "refinement"):
            raise InputError("give at least two parts, and error='replicates' or 'refinement'")
        self.parts, self.how, self.error = list(parts), how, error
        self._exact = dict(exact or {})
        self._targets = targets
        self._log_density, self._sample = log_density, sample

    def truth(self) -> Truth:
        points = self.parts[0][0]
        known = []
        for target in self._targets or moments([name for name in points if points[name].dtype.kind in "biuf"]):
            if target.name in self._exact:
                known.append(self._exact[target.name])
                continue
            value, error = self.expect(target)
            known.append(Known(target.name, float(value[0]), float(error[0]), self._deviation(target)))
        return Truth(known, self.how)

    def expect(self, target: Target) -> tuple[FloatArray, FloatArray]:
        if target.name in self._exact:
            item = self._exact[target.name]
            return np.array([item.value]), np.array([item.standard_error])
        if self.error == "refinement":
            fine, coarse = (target.value(points, w / w.sum()) for points, w in self.parts[:2])
            return fine, np.abs(fine - coarse)
        # A target's value is a function of normalised weights; leaving one replicate out at a time (the jackknife)
        # gives the error of any such function.
        size = len(self.parts)
        whole = self._value(target, range(size))
        without = np.array([self._value(target, [j for j in range(size) if j != i]) for i in range(size)])
        return whole, np.sqrt((size - 1) / size * ((without - without.mean(axis=0)) ** 2).sum(axis=0))

    def _value(self, target: Target, which: Sequence[int] | range) -> FloatArray:
        points = Points.concatenate([self.parts[i][0] for i in which])
        weights = np.concatenate([self.parts[i][1] for i in which])
        return target.value(points, weights / weights.sum())

    def _deviation(self, target: Target) -> float:
        points, weights = self.parts[0]
        p = weights / weights.sum()
        return float(np.sqrt((p * target.influence(points, p)[:, 0] ** 2).sum()))

    def log_density(self, points: Points) -> FloatArray:
        return super().log_density(points) if self._log_density is None else self._log_density(points)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        if self._sample is not None:
            return self._sample(size, rng)
        if self.error == "refinement":
            return super().sample(size, rng)
        points = Points.concatenate([points for points, _ in self.parts])
        weights = np.concatenate([w for _, w in self.parts])
        return points.take(rng.choice(points.rows, size, p=weights / weights.sum()))


class Listed(Reference):
    """Values that are known by name, and the density and draws where these are known too."""

    def __init__(
        self,
        known: Sequence[Known],
        how: str,
        *,
        log_density: LogDensity | None = None,
        sample: Callable[[int, np.random.Generator], Points] | None = None,
    ) -> None:
        self._truth = Truth(known, how)
        self.how = how
        self._log_density, self._sample = log_density, sample

    def truth(self) -> Truth:
        return self._truth

    def log_density(self, points: Points) -> FloatArray:
        return super().log_density(points) if self._log_density is None else self._log_density(points)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        return super().sample(size, rng) if self._sample is None else self._sample(size, rng)


class FiniteReference(Reference):
    """A posterior on finitely many points, exact."""

    how = "exact sums over the parameter's values"

    def __init__(self, points: Points, weights: FloatArray) -> None:
        self.points, self.weights = points, weights

    def truth(self) -> Truth:
        numeric = [name for name in self.points if self.points[name].dtype.kind in "biuf"]
        known = []
        for target in moments(numeric):
            spread = (self.weights * target.influence(self.points, self.weights)[:, 0] ** 2).sum()
            value = float(target.value(self.points, self.weights)[0])
            known.append(Known(target.name, value, 0.0, math.sqrt(spread)))
        return Truth(known, self.how)

    def expect(self, target: Target) -> tuple[FloatArray, FloatArray]:
        value = target.value(self.points, self.weights)
        return value, np.zeros_like(value)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        return self.points.take(rng.choice(self.points.rows, size, p=self.weights))
