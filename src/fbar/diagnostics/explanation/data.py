"""What an explanation holds: numbers and short labels, and its form in JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from fbar.diagnostics.explanation.words import lines_of
from fbar.estimation.counted import ACCEPTED, Counted
from fbar.estimation.estimate import Estimate, whole
from fbar.methods.forecasts import Forecast
from fbar.methods.run import Stage
from fbar.system.json_values import as_json
from fbar.system.terminal import clean

VALUES = "values of θ"
"""What carries an estimate on a finite space; elsewhere it is single simulations."""


@dataclass(frozen=True)
class Range:
    """The central 80% of a parameter in the prior, among the simulations and in the posterior."""

    parameter: str
    prior: tuple[float, float]
    simulations: tuple[float, float] | None
    posterior: tuple[float, float]


@dataclass(frozen=True)
class Region:
    """A part of the space: its probability, and its shares of the simulations, of the accepted ones and of Σz²."""

    words: str
    posterior: float
    simulations: float | None
    accepted: float
    variance: float


@dataclass(frozen=True)
class Regression:
    """The regression of an estimate at the data: its order, and the shares of the simulations that it is fitted to and
    that are weighted at the data. ``bias`` is the share of bias in the squared error, None where that is not known;
    ``part`` is this regression's part of the answer, 1 unless two of them are averaged.
    """

    order: int
    region: float
    bandwidth: float
    bias: float | None
    part: float = 1.0


@dataclass(frozen=True)
class Carriers:
    """How many of ``number`` (single simulations, or values of θ) make up half of the variance; the largest share."""

    what: str
    number: int
    half: int
    largest: float
    theta: dict[str, Any]


@dataclass(frozen=True)
class Alternative:
    """What another method would have given from the same number of simulations.

    ``times`` as many simulations would have given the error that the run has, with ``times_error`` its standard error;
    below 1 the other method is the better one.
    """

    words: str
    standard_error: float
    times: float
    times_error: float


def alternative(words: str, variance: float, achieved: float, relative: float) -> Alternative:
    """From the two variances, and the relative standard error of their ratio."""
    times = variance / achieved if achieved > 0 else math.nan
    return Alternative(words, math.sqrt(variance), times, times * relative)


@dataclass(frozen=True)
class Shares:
    """Who contributes to the error of an estimate: regions of a ``parameter``, single simulations or values of θ."""

    parameter: str | None = None
    regions: tuple[Region, ...] = ()
    carriers: Carriers | None = None
    alternatives: tuple[Alternative, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Explanation:
    """Print it to read it. ``unknown`` lists what cannot be known about this run."""

    estimate: Estimate
    ess: float | None
    stages: tuple[Stage, ...]
    ranges: tuple[Range, ...]
    parameter: str | None
    regions: tuple[Region, ...]
    carriers: Carriers | None
    halving: Forecast | None
    alternatives: tuple[Alternative, ...]
    unknown: tuple[str, ...] = ()
    what: str = ""
    """What the estimate is if it is not the run's own, such as one at another tolerance."""
    regression: Regression | None = None
    """Of an estimate at the data."""
    counted_as: Counted = ACCEPTED
    """What the estimate's ``accepted`` counts, in words."""

    @property
    def at_data(self) -> bool:
        return self.regression is not None

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, as JSON values."""
        estimate = self.estimate
        return {
            "target": estimate.name,
            **({"what": self.what} if self.what else {}),
            **estimate.as_dict(),
            **({} if self.regression is None else {"regression": as_json(asdict(self.regression))}),
            "simulations": as_json(estimate.simulations),
            "accepted": whole(as_json(estimate.accepted)),
            "ess": as_json(self.ess),
            "stages": [as_json(asdict(stage)) for stage in self.stages],
            "ranges": [as_json(asdict(part)) for part in self.ranges],
            "parameter": self.parameter,
            "regions": [as_json(asdict(region)) for region in self.regions],
            "carriers": None if self.carriers is None else as_json(asdict(self.carriers)),
            "halving": None if self.halving is None else self.halving.as_dict(),
            "alternatives": [as_json(asdict(other)) for other in self.alternatives],
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        return "\n".join(map(clean, lines_of(self)))

    __repr__ = __str__
