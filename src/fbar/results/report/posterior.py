"""The posterior of each parameter over its exact prior, and of pairs of parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fbar.question.priors import structure
from fbar.results.markup import Html, join
from fbar.results.report.page import Section, details, figures, keys
from fbar.results.report.svg import small, whole

if TYPE_CHECKING:
    from fbar.results.result import Result

MOST_PANELS = 24
"""Parameters that have a picture, at most."""

OF_POSTERIOR = {"posterior, with its mean and central 95%": "blue", "prior": "grey"}


def parameters(result: Result) -> tuple[str, ...]:
    """Those that have a picture of their own."""
    from fbar.plot.source import Source

    return Source.of(result).seen[:MOST_PANELS]


def marginals(result: Result, names: tuple[str, ...]) -> list[Html]:
    """A small picture for each."""
    from fbar import plot

    record = plot.Marginals.of(result, names)
    return [small(replace(record, parameters=(one,)), f"posterior of {one.name}") for one in record.parameters]


def posterior(result: Result) -> Section:
    """Marginals, of recorded outputs too; pairs are folded."""
    recorded = tuple(name for name in result.run.problem.records if name in result.posterior.points)
    caption = join([keys(OF_POSTERIOR), _words(result)], " ")
    panels = figures(marginals(result, (*parameters(result), *recorded)), caption)
    return Section("posterior", "Posterior", join([panels, _pairs(result)]))


def _words(result: Result) -> str:
    """What the axes are, and which parameters have no picture."""
    from fbar.plot.source import Source

    source = Source.of(result)
    logarithmic = any(source.log_scaled(name) for name in parameters(result))
    many, models = source.seen[MOST_PANELS:], structure(result.run.problem.prior).models
    said = [
        "On logarithmic axes, densities are those of the logarithm" if logarithmic else "",
        "A parameter that only some models have is shown conditional on those models" if models is not None else "",
        f"Only the first {MOST_PANELS} of {len(source.seen)} parameters are shown" if many else "",
        source.unseen,
    ]
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in said if text)


def _pairs(result: Result) -> Html:
    from fbar import plot
    from fbar.plot.source import Source

    source = Source.of(result)
    numbers = [name for name in source.seen if source.numeric(name)]
    if len(numbers) < 2:
        return Html("")
    record = plot.Pairs.of(result)
    caption = "Regions of highest density that contain 20, 50, 80 and 95% of the posterior."
    if len(numbers) > len(record.parameters):
        caption += f" Only the first {len(record.parameters)} of {len(numbers)} numeric parameters are shown."
    made = whole(replace(record, message=""), "pairs of parameters")
    return details("Pairs of parameters", figures([made], caption, "whole"))
