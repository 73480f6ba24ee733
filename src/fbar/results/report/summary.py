"""The first table of a report: the posterior of every parameter and derived quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbar.results.markup import Html

if TYPE_CHECKING:
    from fbar.results.result import Result


def summary(result: Result) -> Html:
    """Mean, standard deviation and credible interval of every quantity."""
    return Html("")
