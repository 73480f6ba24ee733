"""Small tables for notebooks: escaped, and without colours of their own, so that they suit light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import singledispatch

import numpy as np

from fbar.estimation.digits import between
from fbar.estimation.estimate import RELIABLE, Estimate, Estimates, shorthand
from fbar.estimation.posterior import Posterior
from fbar.results.markup import Html, element, join, paragraph

MOST_ROWS = 40
"""Rows of a table, at most."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> Html:
    """An HTML table; the columns in ``numbers`` are set to the right.

    >>> table(["a"], [["x < 2"]]).count("x &lt; 2")
    1
    """
    right = set(numbers)

    def row(cells: Sequence[str], tag: str) -> Html:
        sides = ("right" if place in right else "left" for place in range(len(cells)))
        return element(
            "tr", *(element(tag, text, style=f"text-align:{side}") for text, side in zip(cells, sides, strict=True))
        )

    shown = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS - 1]
    body = [row(cells, "td") for cells in shown]
    if len(shown) < len(rows):
        left = f"and {len(rows) - len(shown):,} more"
        body.append(element("tr", element("td", left, colspan=str(len(columns)))))
    return element("table", element("thead", row(columns, "th")), element("tbody", *body), style="color:inherit")


def warnings(texts: Iterable[str]) -> Html:
    """Each in a line of its own, marked; nothing if there are none."""
    return join((paragraph(element("strong", "warning:"), f" {text}") for text in dict.fromkeys(texts)), "")


def joined(*parts: str) -> Html:
    return element("div", *parts)


# ---------------------------------------------------------------- what notebooks show of estimates and posteriors


@singledispatch
def as_html(shown: object) -> Html:
    """An object as a notebook shows it; one of a type without a table as its ``repr``."""
    return joined(paragraph(repr(shown)))


@as_html.register
def _of_estimate(estimate: Estimate) -> Html:
    return joined(_table_of([estimate]), warnings(estimate.warnings))


@as_html.register
def _of_estimates(estimates: Estimates) -> Html:
    return joined(_table_of(estimates), warnings(text for estimate in estimates for text in estimate.warnings))


@as_html.register
def _of_posterior(posterior: Posterior) -> Html:
    """The mean and standard deviation of every parameter that is a number: the spread of θ, not an error."""
    points, weights = posterior.pictured.points, posterior.pictured.weights
    if np.ndim(weights) > 1:
        return joined(paragraph(repr(posterior)))
    rows = []
    for name in (*points, *points.derived):
        column = np.asarray(points[name])
        if column.dtype.kind not in "biuf" or column.shape != weights.shape or np.isnan(column).any():
            continue
        mean = float(weights @ column)
        spread = math.sqrt(max(float(weights @ (column - mean) ** 2), 0.0))
        rows.append([name, f"{mean:.5g}", f"{spread:.3g}"])
    shown = table(["parameter", "mean", "standard deviation"], rows, (1, 2)) if rows else ""
    return joined(shown, paragraph(posterior.in_words()))


def _table_of(estimates: Iterable[Estimate]) -> Html:
    rows = [row for estimate in estimates for row in _rows_of(estimate)]
    columns = ["target", "estimate", "95% confidence interval of the estimate", ""]
    if not any(row[3] for row in rows):
        columns, rows = columns[:3], [row[:3] for row in rows]
    return table(columns, rows, (1, 2))


def _rows_of(estimate: Estimate) -> list[list[str]]:
    """Name, value with error, 95% interval and a word where it is not reliable, a row for each number."""
    value = np.asarray(estimate.value)
    if value.ndim > 1 or value.size == 0:
        return [[estimate.name, str(estimate), "", ""]]
    if value.ndim == 0:
        return [_row(estimate.name, estimate)]
    labels = estimate.labels
    parts = labels if labels and len(labels) == value.size else map(str, range(value.size))
    return [_row(f"{estimate.name} [{part}]", estimate.component(k)) for k, part in enumerate(parts)]


def _row(name: str, estimate: Estimate) -> list[str]:
    low, high = estimate.interval()
    word = estimate.reliability
    return [
        name,
        shorthand(float(estimate.value), float(estimate.standard_error)),
        between(float(low), float(high)),
        "" if word == RELIABLE else word,
    ]
