"""What is printed of a result, whether it was just computed or is read from a record: written once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import BoolArray
from fbar.checks import counted
from fbar.estimation.counted import ACCEPTED, Counted
from fbar.estimation.estimate import BIASED, RELIABLE, Comparison, Estimate, Estimates
from fbar.methods.forecasts import Forecast
from fbar.system.terminal import clean

if TYPE_CHECKING:
    from fbar.results.result import Result


@dataclass(frozen=True, eq=False)
class Account:
    """The estimates of a run and how it went."""

    estimates: Estimates
    warnings: Sequence[str]
    """Of the run; those of single estimates among them are not repeated."""
    simulations: int
    accepted: float
    stopped_by: str
    cost: float | None = None
    in_seconds: bool = False
    unused: int = 0
    remarks: Sequence[str] = ()
    about: str = ""
    missing: Mapping[str, Forecast] = field(default_factory=dict)
    title: str = ""
    at_data: bool = False
    """Whether the answer is at the data, where simulations are used by nearness and none is accepted."""
    counted_as: Counted = ACCEPTED
    """What ``accepted`` counts, in words."""

    @classmethod
    def of(cls, result: Result) -> Account:
        """Of a result that is at hand."""
        return cls(
            result.estimates,
            result.warnings,
            int(np.sum(result.simulations)),
            float(np.sum(result.accepted)),
            result.stopped_by,
            result.run.spent_cost,
            result.run.problem.measures_cost,
            result.unused,
            result.all_remarks,
            result.about,
            result.missing,
            result.what,
            result.is_at_data,
            result.posterior.counted_as,
        )

    @classmethod
    def recorded(cls, result: Mapping[str, Any]) -> Account:
        """Of a result as `Result.as_dict` has written it; what is not known in it is None."""
        return cls(
            recorded_estimates(result),
            result["warnings"],
            int(np.sum(result["simulations"])),
            float(np.sum(result["accepted"])),
            result["stopped_by"],
            result.get("cost"),
            result.get("cost_unit") == "s",
            result.get("unused", 0),
            result.get("remarks", ()),
            result.get("about") or result.get("about_tolerance", ""),
            {
                name: Forecast(found["more"], found["low"], found["high"], 0)
                for name, found in result.get("missing", {}).items()
            },
            at_data=result.get("at_data", False),
            counted_as=Counted.named(result.get("counted_as", "")),
        )

    @property
    def further_warnings(self) -> list[str]:
        """Warnings that no estimate has."""
        of_estimates = {text for estimate in self.estimates for text in estimate.warnings}
        return [text for text in self.warnings if text not in of_estimates]

    @property
    def heading(self) -> list[str]:
        """What the result is, where it is not the run's own answer."""
        return [clean(f"{self.title}:")] if self.title else []

    def body(self) -> list[str]:
        """The estimates, warnings and how the run went."""
        warnings = (f"warning: {text}" for text in self.further_warnings)
        return [*str(self.estimates).splitlines(), *map(clean, (*warnings, *self.how_it_went()))]

    def lines(self) -> list[str]:
        return [*self.heading, *self.body()]

    def how_it_went(self) -> list[str]:
        """Lines below the estimates and warnings."""
        cost = cost_in_words(self.cost, self.in_seconds)
        ran = simulations_in_words(self.simulations, self.accepted, self.at_data, self.counted_as)
        summary = f"{ran}; {self.stopped_by}"
        unused = f"{counted(self.unused, 'more simulation')} ran in advance and went unused"
        return [
            *([self.about] if self.about else []),
            f"{summary}; {cost}" if cost else summary,
            *([unused] if self.unused else []),
            *self.remarks,
            *(f"{name} needs {forecast}" for name, forecast in self.missing.items()),
        ]


def simulations_in_words(simulations: int, accepted: float, at_data: bool, counted_as: Counted = ACCEPTED) -> str:
    """How many simulations were run, and how many of them the answer uses.

    >>> simulations_in_words(20_000, 512.0, False), simulations_in_words(20_000, 4000.0, True)
    ('20,000 simulations, 512 accepted', '20,000 simulations, the 4,000 nearest used')
    """
    used = f"the {accepted:,.6g} nearest used" if at_data else counted_as.of(accepted)
    return f"{counted(simulations, 'simulation')}, {used}"


def cost_in_words(cost: float | None, in_seconds: bool) -> str:
    """What simulations cost together; nothing if it is not known."""
    if cost is None:
        return ""
    number = f"{cost:,.3g}" if cost < 1000 else f"{cost:,.0f}"
    return f"{number} s of simulator time" if in_seconds else f"cost {number}"


def recorded_estimates(result: Mapping[str, Any]) -> Estimates:
    """The estimates of a recorded result or moment; their joint covariance is not recorded."""
    found = [
        Estimate(
            name,
            _number(estimate["value"]),
            _number(estimate["standard_error"]),
            _number(estimate.get("df")),
            result["simulations"],
            result["accepted"],
            estimate["trusted"],
            tuple(estimate["warnings"]),
            tuple(estimate["labels"]) if "labels" in estimate else None,
            about=estimate.get("about", ""),
            bias=_number(estimate.get("bias", 0.0)),
            comparison=_Recorded(_difference(name, estimate), estimate.get("reliability", RELIABLE)),
        )
        for name, estimate in result["estimates"].items()
    ]
    ends = np.cumsum([np.size(estimate.value) for estimate in found])
    slices = [slice(int(end) - np.size(estimate.value), int(end)) for estimate, end in zip(found, ends, strict=True)]
    size = int(ends[-1]) if found else 0
    return Estimates(found, np.full((size, size), np.nan), slices)


@dataclass(frozen=True, eq=False)
class _Recorded(Comparison):
    """A comparison that was made when the run ended."""

    known: Estimate | None
    reliability: str

    def difference(self, estimate: Estimate) -> Estimate | None:
        return self.known

    def biased(self, estimate: Estimate) -> BoolArray:
        return np.full(np.shape(estimate.value), self.reliability == BIASED)


def _difference(name: str, estimate: Mapping[str, Any]) -> Estimate | None:
    found = estimate.get("difference")
    if found is None:
        return None
    return Estimate(name, _number(found["value"]), _number(found["standard_error"]), math.nan, 0, 0, found["trusted"])


def _number(recorded: Any) -> Any:
    array = np.array(recorded, dtype=np.float64)  # None is NaN
    return float(array) if array.ndim == 0 else array
