"""An explanation in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.checks import counted
from fbar.estimation.digits import worth
from fbar.estimation.estimate import Estimate, shorthand

if TYPE_CHECKING:
    from fbar.diagnostics.explanation.data import Explanation, Regression
    from fbar.methods.run import Stage

MOST_STAGES, MOST_PARAMETERS = 4, 4
"""Rows of each kind that are printed; all are among the numbers."""

MOVED_BY = {1: "a linear", 2: "a quadratic", 3: "a quadratic (and along each parameter cubic)"}
"""Regressions, by their order; of order 0 there is none."""

UNMOVED = "Draws were left where they are;"


def lines_of(found: Explanation) -> list[str]:
    """Where the simulations went and why, what carries the estimate, and what would come next."""
    return [
        *_title(found),
        *_where(found),
        *_why(found),
        *_what_carries(found),
        *_what_next(found),
        *(f"Not known: {text}" for text in found.unknown),
    ]


def _title(found: Explanation) -> list[str]:
    estimate = found.estimate
    ess = "" if found.ess is None else f", effective sample size {worth(found.ess)}"
    number = estimate.accepted
    used = f"the {number:,.6g} nearest used" if found.at_data else found.counted_as.of(float(number))
    return [
        f"{estimate.name} = {estimate}" + (f", {found.what}" if found.what else ""),
        *(() if np.all(estimate.trusted) else (f"warning: {text}" for text in estimate.warnings)),
        *_about(estimate),
        f"{counted(estimate.simulations, 'simulation')}, {used}{ess}",
        *_regression(found.regression),
    ]


def _about(estimate: Estimate) -> list[str]:
    """What was estimated, and how far that is from the posterior."""
    away = estimate.difference
    by = "" if away is None else f"; estimate minus posterior: {away}"
    return [f"about {estimate.about}{by}"] if estimate.about else []


def regression_in_words(found: Regression) -> list[str]:
    """How an estimate at the data was made."""
    on = f"on the nearest {_percent(found.region)} of the simulations;"
    moved = found.order in MOVED_BY
    first = f"Draws were moved to the data by {MOVED_BY[found.order]} regression {on}" if moved else UNMOVED
    near = f"a local linear regression on the nearest {_percent(found.bandwidth)} gave the estimate"
    if found.part == 1:
        return [first, near]
    both = (
        "the answer is a weighted mean of two such estimates, one from all simulations and one from those where the "
        f"posterior may have mass; the one described here has a weight of {_percent(found.part)}"
    )
    return [first, f"{near};", both]


def _regression(found: Regression | None) -> list[str]:
    """How an estimate at the data was made, and what its error is made of."""
    if found is None:
        return []
    first, *others = regression_in_words(found)
    share = found.bias
    parts = "" if share is None else f"{_percent(1 - share)} is variance and {_percent(share)} possible bias"
    return [first, *(f"  {line}" for line in others), *([f"Of the squared error, {parts}"] if parts else [])]


def _where(found: Explanation) -> list[str]:
    lines = ["Where the simulations went"]
    shown: list[Stage | None] = list(found.stages)
    if len(shown) > MOST_STAGES:
        shown = [shown[0], None, *shown[-MOST_STAGES + 2 :]]
    for stage in shown:
        if stage is None:
            lines.append(f"  … {counted(len(found.stages) - MOST_STAGES + 1, 'stage')} in between …")
            continue
        share = None if stage.accepted is None else 100 * stage.accepted / max(stage.simulations, 1)
        rate = "" if share is None else f": {share:.3g}% accepted"
        within = "" if stage.tolerance in (None, 0, math.inf) else f" at tolerance {stage.tolerance:.4g}"
        lines.append(f"  {stage.simulations:,} {stage.words}{rate}{within}")
    if found.ranges:
        rows: list[tuple[str, ...]] = [("central 80%", "prior", "simulations", "posterior")]
        rows += [
            (r.parameter, *(_interval(part) for part in (r.prior, r.simulations, r.posterior)))
            for r in found.ranges[:MOST_PARAMETERS]
        ]
        lines += _table(rows)
    return lines


def _why(found: Explanation) -> list[str]:
    if not found.regions:
        return []
    by = "each value of θ" if found.parameter is None else f"each region of {found.parameter}"
    used = "used" if found.at_data else found.counted_as.share
    rows: list[tuple[str, ...]] = [("", "posterior", "simulations", used, "variance")]
    rows += [
        (r.words, *(_percent(share) for share in (r.posterior, r.simulations, r.accepted, r.variance)))
        for r in found.regions
    ]
    return [f"Why: the share of the error variance from {by}", *_table(rows)]


def _what_carries(found: Explanation) -> list[str]:
    carriers = found.carriers
    if carriers is None:
        return []
    theta = ", ".join(f"{name}={short(value)}" for name, value in carriers.theta.items())
    return [
        f"Most influential: {carriers.half:,} of {carriers.number:,} {carriers.what} account for half of the variance;",
        f"  the largest share is {_percent(carriers.largest)}, at {theta}",
    ]


def _what_next(found: Explanation) -> list[str]:
    lines = [] if found.halving is None else [f"Halving the error takes {found.halving}"]
    if found.alternatives:
        lines.append("What the same number of simulations would have given with alternatives")
    for other in found.alternatives:
        times = shorthand(other.times, other.times_error)
        lines.append(f"  {other.words}: standard error {other.standard_error:.3g} (needs {times} times as many)")
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _interval(part: tuple[float, float] | None) -> str:
    return "?" if part is None else f"{short(part[0])} to {short(part[1])}"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
