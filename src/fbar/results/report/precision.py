"""How the errors of a run fell with simulations, and what more precision would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbar.diagnostics.explanation import halving
from fbar.methods.forecasts import FORESEEABLE, Forecast, brief
from fbar.question.targets import Target
from fbar.results.markup import element, join, paragraph
from fbar.results.report.page import Section, breakable, figures, split_table
from fbar.results.report.svg import whole

if TYPE_CHECKING:
    from fbar.results.result import Result


def precision(result: Result) -> Section:
    """A picture of all errors, and a table of what halving each would cost."""
    from fbar import plot

    left: list[object] = []
    if not result.own:
        left.append(paragraph("How the errors fell is known only for the run's own estimates."))
    elif len(result.history) > 1:
        record = plot.Error.of(result)
        rows = (len(record.lines) + 4) // 3
        picture = whole(record, "standard errors against simulations", (4.6, 2.4 + 0.17 * rows))
        missing = f" {record.message[:1].upper()}{record.message[1:]}." if record.lines and record.message else ""
        left.append(figures([picture], f"How the errors fell.{missing}", "pictures"))
    else:
        left.append(paragraph("The errors were computed once, at the end, so how they fell is not known."))
    head = ["target", "error now", "half of that", "more simulations", "80% interval"]
    costs = [_cost(result, target) for target in result.targets]
    right: list[object] = [
        paragraph("What halving each error would cost if the run continued as before.", class_="soft"),
        split_table(head, costs),
        *(
            paragraph(f"{name} needs {found} to reach the requested precision.", class_="warning")
            for name, found in result.missing.items()
        ),
    ]
    body = element("div", element("div", *left), element("div", *right), class_="beside")
    return Section("precision", "Precision", join([body]))


def _cost(result: Result, target: Target) -> tuple[object, ...]:
    """A target's largest error, half of it, and the simulations that halve it."""
    estimate = result.estimates[target.name]
    error, more = float(np.max(estimate.standard_error)), halving(result.run, result.posterior, target, estimate)
    name = f"{target.name} (largest)" if np.ndim(estimate.value) else target.name
    if more is None:
        return breakable(name), f"{error:.2g}", f"{error / 2:.2g}", "not known", ""
    return breakable(name), f"{error:.2g}", f"{error / 2:.2g}", _short(more.more), _interval(more)


def _interval(more: Forecast) -> str:
    if more.low >= FORESEEABLE:
        return ""
    return f"at least {_short(more.low)}" if more.high >= FORESEEABLE else f"{_short(more.low)} to {_short(more.high)}"


def _short(number: int) -> str:
    """A number of simulations in two digits.

    >>> _short(12345), _short(1_530_000), _short(10**13)
    ('12,000', '1.5 million', 'more than can be forecast')
    """
    if number < 10**6:
        return brief(number)
    for name, size in (("million", 10**6), ("billion", 10**9)):
        if number < min(999 * size, FORESEEABLE):
            return f"{float(f'{number / size:.2g}'):g} {name}"
    return "more than can be forecast"
