"""The first table of a report: the posterior of every parameter and derived quantity, within each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbar.estimation.estimate import RELIABLE
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.page import breakable, details, notes, split_table
from fbar.results.summary_rows import Row, cells
from fbar.results.summary_table import ModelRows, SummaryTable

if TYPE_CHECKING:
    from fbar.results.result import Result

MOST_ROWS = 12
"""Quantities that are shown without unfolding, at most."""


def summary(result: Result, found: SummaryTable | None) -> Html:
    """Mean, reliability, standard deviation, credible interval and errors of the mean of every quantity."""
    if found is None or not found.models:
        return Html("")
    parts: list[object] = []
    for model in found.models:
        parts += [paragraph(element("strong", model.title))] if model.label else []
        parts += [_table(found, model)] if model.rows else []
    if found.left_out:
        parts.append(paragraph(f"Not in the table, because some values are not numbers: {', '.join(found.left_out)}."))
    shown = {text for estimate in result.estimates for text in estimate.warnings} | set(result.warnings)
    reasons = [text for text in found.warnings if text not in shown]
    if reasons:
        parts.append(details("Why some entries are unreliable", notes((f"{text}." for text in reasons), "warning")))
    return join(parts)


def _table(found: SummaryTable, model: ModelRows) -> Html:
    head = ["posterior", "mean", found.columns[-1], *found.columns[2:-1]]
    rows = [_cells(row) for row in model.rows]
    return element("div", split_table(head, rows, most=MOST_ROWS, words=(0, 2)), class_="summary")


def _cells(row: Row) -> list[object]:
    """As in the summary, with a mark in the colour of its reliability next to the mean: on a phone it is in view."""
    texts = cells(row)
    good = row.reliability == RELIABLE
    mark = element("span", f"{'✓' if good else '!'} {texts[-1]}", class_="good" if good else "bad")
    return [breakable(texts[0]), texts[1], mark, *texts[2:-1]]
