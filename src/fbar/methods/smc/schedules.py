"""How the tolerance of ABC-SMC falls from round to round (section 1.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import non_negative_number, shown, store_number
from fbar.errors import InputError
from fbar.weights import weighted_quantiles


class Schedule(ABC):
    """Chooses each round's tolerance."""

    needs_rates = False
    """Whether it looks at all simulated distances and how likely the next proposal is to repeat them."""

    @property
    @abstractmethod
    def last(self) -> float | None:
        """The tolerance it ends at; None if it falls without end."""

    @abstractmethod
    def first(self) -> float:
        """The first round's tolerance."""

    @abstractmethod
    def next(self, round: int, tolerance: float, distance: FloatArray, weights: FloatArray) -> float | None:
        """The tolerance after ``round``, which had ``tolerance``; None where no lower one can be found.

        ``distance`` and ``weights`` are those of the accepted particles; of all simulated ones, weighted by their
        density under the next proposal relative to the last, for a schedule that ``needs_rates``.
        """

    @abstractmethod
    def down_to(self, tolerance: float) -> Schedule:
        """The same for a run that has been at its end, going on to a smaller tolerance."""

    def to(self, tolerance: float) -> Schedule:
        """The same with another tolerance to end at."""
        return self.down_to(tolerance)


@dataclass(frozen=True)
class Tolerances(Schedule):
    """A given list of falling tolerances."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise InputError("give at least one tolerance")
        for value in self.values:
            non_negative_number(value, "each tolerance")
        for before, after in zip(self.values, self.values[1:], strict=False):
            if not after < before:
                word = "repeats" if after == before else "rises"
                raise InputError(
                    f"tolerances must fall from round to round; {after:g} follows {before:g}, so the tolerance {word}"
                )

    @property
    def last(self) -> float:
        return self.values[-1]

    def down_to(self, tolerance: float) -> Schedule:
        return Tolerances((*self.values, tolerance))

    def first(self) -> float:
        return self.values[0]

    def next(self, round: int, tolerance: float, distance: FloatArray, weights: FloatArray) -> float | None:
        lower = [value for value in self.values if value < tolerance]
        return lower[0] if lower else None


def _share(value: float, name: str) -> None:
    if not 0 < non_negative_number(value, name) < 1:
        raise InputError(f"{name} must lie between 0 and 1; got {shown(value)}")


@dataclass(frozen=True)
class _Falling(Schedule):
    """Tolerances that are chosen as the run goes, down to ``tolerance`` if there is one."""

    tolerance: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))

    @property
    def last(self) -> float | None:
        return self.tolerance

    def down_to(self, tolerance: float) -> Schedule:
        if self.last is not None and tolerance >= self.last:
            raise InputError(
                f"the run has already reached the tolerance {self.last:g}; give a smaller one, not {tolerance:g}"
            )
        return self.to(tolerance)

    def to(self, tolerance: float) -> Schedule:
        return replace(self, tolerance=tolerance)

    def first(self) -> float:
        return float("inf")

    def _lower(self, found: float, tolerance: float, distance: FloatArray) -> float | None:
        """Never above ``last``'s, and below the present one: distances that are often equal would stop the descent."""
        floor = 0.0 if self.last is None else self.last
        if found >= tolerance:
            below = distance[distance < tolerance]
            if below.size == 0:
                return None
            found = float(below.max())
        return max(found, floor) if max(found, floor) < tolerance else None


@dataclass(frozen=True)
class QuantileSchedule(_Falling):
    """The next tolerance is a weighted quantile of the accepted distances, the median by default.

    The first round accepts every simulation from the prior.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        _share(self.share, "the quantile's share")
        super().__post_init__()

    def next(self, round: int, tolerance: float, distance: FloatArray, weights: FloatArray) -> float | None:
        return self._lower(float(weighted_quantiles(distance, weights, self.share)), tolerance, distance)


@dataclass(frozen=True)
class AcceptanceRateSchedule(_Falling):
    """The next tolerance is the one at which the next proposal would accept a given share of its simulations.

    The rate at a tolerance is predicted from all simulations of the round, accepted or not, weighted by the ratio of
    the two proposals' densities. If that rate cannot be reached, the tolerance is still lowered, such that it rejects a
    tenth of what it accepted before.
    """

    rate: float = 0.3
    needs_rates = True

    def __post_init__(self) -> None:
        _share(self.rate, "the acceptance rate")
        super().__post_init__()

    def next(self, round: int, tolerance: float, distance: FloatArray, weights: FloatArray) -> float | None:
        within = distance <= tolerance
        found = float(weighted_quantiles(distance, weights, self.rate))
        if within.any() and weights[within].sum() > 0:
            found = min(found, float(weighted_quantiles(distance[within], weights[within], 0.9)))
        return self._lower(found, tolerance, distance)


def as_schedule(given: Schedule | Sequence[float]) -> Schedule:
    if isinstance(given, Schedule):
        return given
    try:
        values = None if isinstance(given, str) else numeric_array(given, "schedule")
    except InputError:
        values = None
    if values is None or values.ndim != 1:
        raise InputError(
            "schedule must be falling tolerances in a list, or a rule such as fbar.QuantileSchedule(tolerance=1.0); "
            f"got {shown(given)}"
        )
    return Tolerances(tuple(values.tolist()))
