"""Simulations that failed: how many, of what kind, and where in the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbar.results.markup import element, join, paragraph
from fbar.results.report.page import Section, table

if TYPE_CHECKING:
    from fbar.results.result import Result


def failures(result: Result) -> Section:
    """By kind, and where in the parameters."""
    seen = result.run.seen
    if not seen.failures:
        return Section("failures", "Failures", paragraph(f"None of {result.run.simulations:,} simulations failed."))
    kinds = [(kind.words, f"{count:,}", seen.examples.get(kind, "")) for kind, count in seen.counts.items()]
    rows = [
        (
            place.parameter,
            place.words,
            f"{place.failed:,} of {place.simulations:,}",
            f"{100 * place.failed / max(place.simulations, 1):.3g}%",
        )
        for place in result.failed
    ]
    head = ["parameter", "where", "failed", "share"]
    body = [
        paragraph(f"{seen.failures:,} of {result.run.simulations:,} simulations failed and were rejected."),
        table(["kind", "number", "example"], [(k, n, element("code", text)) for k, n, text in kinds], left=3),
        table(head, rows, left=2, caption="Where they failed, of those that were watched") if rows else "",
    ]
    return Section("failures", "Failures", join(body))
