"""What a summary says about one quantity: its posterior mean, spread and credible interval, and the errors of these.

The standard deviation and the credible interval are about the quantity: where it lies, given the data. The errors are
about the estimate: how far the mean that is shown may be from the posterior mean. The Monte Carlo error comes from the
number of simulations; the total error also has the bias that may remain, or that a tolerance causes: √(error² +
difference²), with the difference from the posterior as far as the simulations show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fbar.estimation.digits import between, few_digits
from fbar.estimation.estimate import RELIABLE, UNRELIABLE, Estimate
from fbar.system.json_values import as_json


@dataclass(frozen=True)
class Row:
    """One quantity. ``mean_error`` is the Monte Carlo error of the mean, ``total_error`` includes the bias."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    mean_error: float
    total_error: float
    """NaN where the bias is not known."""
    sd_error: float
    low_error: float
    high_error: float
    mean_reliability: str
    sd_reliability: str
    interval_reliability: str

    @property
    def reliability(self) -> str:
        """One word for all: the worst."""
        words = (self.mean_reliability, self.sd_reliability, self.interval_reliability)
        return UNRELIABLE if UNRELIABLE in words else next((word for word in words if word != RELIABLE), RELIABLE)

    @property
    def in_words(self) -> str:
        """The reliability, and which part it is about if they differ."""
        words = {"mean": self.mean_reliability, "sd": self.sd_reliability, "interval": self.interval_reliability}
        if len(set(words.values())) == 1:
            return self.mean_reliability
        bad = dict.fromkeys(word for word in words.values() if word != RELIABLE)
        return "; ".join(f"{', '.join(part for part in words if words[part] == word)} {word}" for word in bad)

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        return {**{key: as_json(value) for key, value in found.items()}, "reliability": self.reliability}

    @staticmethod
    def recorded(row: Mapping[str, Any]) -> Row:
        """Of what ``as_dict`` has given; None is NaN."""
        return Row(
            name=row["name"],
            mean_reliability=row["mean_reliability"],
            sd_reliability=row["sd_reliability"],
            interval_reliability=row["interval_reliability"],
            **{key: math.nan if row[key] is None else float(row[key]) for key in NUMBERS},
        )


NUMBERS = tuple(name for name, field in Row.__dataclass_fields__.items() if field.type == "float")
"""The columns that are numbers."""


def row_of(name: str, mean: Estimate, sd: Estimate, interval: Estimate, biased: bool) -> Row:
    """A quantity's row; ``biased`` is whether a tolerance makes the mean differ from the posterior's."""
    low, high = (interval.component(k) for k in (0, 1))
    error, total = errors(mean, biased)
    return Row(
        name,
        float(mean.value),
        float(sd.value),
        float(low.value),
        float(high.value),
        error,
        total,
        float(sd.standard_error),
        float(low.standard_error),
        float(high.standard_error),
        mean.reliability,
        sd.reliability,
        interval.reliability,
    )


def errors(estimate: Estimate, biased: bool) -> tuple[float, float]:
    """The Monte Carlo error of a number and its total error."""
    error, bias = float(estimate.standard_error), float(np.asarray(estimate.bias))
    by_chance = math.sqrt(max(error**2 - bias**2, 0.0))
    if not biased:
        return by_chance, error
    away = estimate.difference
    return by_chance, math.nan if away is None else math.hypot(error, float(away.value))


# ---------------------------------------------------------------- as text


def digits(value: float, error: float) -> str:
    """A number in as many digits as its error leaves, with two of the error's; few where that is not known.

    >>> digits(3.80984, 0.0251), digits(1234.567, 42.0), digits(0.5, 0.0), digits(float("nan"), 1.0)
    ('3.810', '1235', '0.5', 'not known')
    """
    if not math.isfinite(value):
        return "not known" if math.isnan(value) else str(value)
    if not math.isfinite(error):
        return few_digits(value)
    if not error > 1e-12 * abs(value):
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(error))
    return f"{value:.{places}f}" if 0 <= places <= 12 else f"{value:.0f}" if places < 0 else f"{value:.6g}"


def size(error: float) -> str:
    """An error in two digits."""
    return f"{error:.2g}" if math.isfinite(error) else "not known"


def cells(row: Row) -> list[str]:
    """Name, mean, sd, interval, Monte Carlo error, total error and reliability as texts."""
    worst = row.total_error if math.isfinite(row.total_error) else row.mean_error
    return [
        row.name,
        digits(row.mean, worst),
        digits(row.sd, row.sd_error),
        _interval(row),
        size(row.mean_error),
        size(row.total_error),
        row.in_words,
    ]


def _interval(row: Row) -> str:
    """Each end in the digits that its error leaves; in those of the width where an error is not known."""
    if not (math.isfinite(row.low_error) and math.isfinite(row.high_error)):
        return between(row.low, row.high)
    return f"{digits(row.low, row.low_error)} to {digits(row.high, row.high_error)}"


def aligned(table: Sequence[Sequence[str]], left: Iterable[int] = (0, 6)) -> list[str]:
    """Lines of a table whose columns are as wide as they need; numbers are set to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    to_left = set(left)
    return [
        "  ".join(
            f"{text:<{width}}" if place in to_left else f"{text:>{width}}"
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
