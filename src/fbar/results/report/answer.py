"""The first part of a run's report: the answer, whether to trust it, how its error fell and what more would take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.checks import counted
from fbar.diagnostics.explanation import SINGLE, Explanation
from fbar.estimation.estimate import Estimate, between, shorthand, worth
from fbar.methods.forecasts import brief
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.page import Section, figures, notes, table
from fbar.results.report.svg import panel

if TYPE_CHECKING:
    from fbar.results.result import Result

Explained = Mapping[str, Explanation]
"""The explanation of each scalar target, by its name."""


def components(estimate: Estimate) -> list[tuple[str, Estimate]]:
    """A scalar estimate itself; a vector's components, each with a name of its own."""
    if not np.ndim(estimate.value):
        return [(estimate.name, estimate)]
    size = np.size(estimate.value)
    names = estimate.labels or [str(k) for k in range(size)]  # as arrays are read
    df, trusted = np.broadcast_to(estimate.df, size), np.broadcast_to(estimate.trusted, size)
    return [
        (
            f"{estimate.name}[{names[k]}]",
            Estimate(
                estimate.name,
                float(estimate.value[k]),
                float(estimate.standard_error[k]),
                float(df[k]),
                estimate.simulations,
                estimate.accepted,
                bool(trusted[k]),
                estimate.warnings,
            ),
        )
        for k in range(size)
    ]


def answer(result: Result, explained: Explained) -> Section:
    """Targets, estimates, intervals, trust; then every warning, and how the run ended."""
    rows = []
    for target, estimate in zip(result.targets, result.estimates, strict=True):
        for name, part in components(estimate):
            low, high = part.interval()
            if target.binary:  # a probability
                low, high = max(low, 0.0), min(high, 1.0)
            sure = _trust(part, estimate.name in result.biased)
            rows.append((name, shorthand(part.value, part.standard_error), sure, between(low, high)))
    example = next(iter(result.estimates))
    main = element("div", table(["target", "estimate", "error bar", "95% interval"], rows, left=4), class_="answer")
    warnings = dict.fromkeys(text for estimate in result.estimates for text in estimate.warnings)
    other = [] if result.own else [f"Not the run's own estimates: {result.what}, by {result.how[1:]}."]
    told = [*other, f"{accepted_of(result)}; {result.stopped_by}.", *result.remarks]
    if result.about_tolerance:
        told.append(_sentence(result.about_tolerance))
    why = join(paragraph(f"{name}: {_why(found)}", class_="soft") for name, found in explained.items())
    body = join(
        [
            main,
            notes((_sentence(text) for text in dict.fromkeys((*warnings, *result.warnings))), "warning"),
            join(paragraph(text) for text in told),
            element("h3", "Why the error bars can be trusted, or not"),
            paragraph(
                _read(components(example)[0][1]),
                "The interval holds the value that endless simulations would give, at this tolerance and with these "
                "summaries, in about 95 of 100 runs, where it is trusted. What the tolerance itself adds is no part of "
                "it; its estimate is the bias.",
            ),
            why,
        ]
    )
    return Section("answer", "The answer", body)


def precision(result: Result, explained: Explained) -> Section:
    """How the error fell with simulations, and what half of it would cost."""
    from fbar import plot

    body: list[object] = []
    if not result.own:
        body.append(paragraph("How the errors fell is known of the run's own estimates alone."))
    elif len(result.history) > 1:
        picture = panel(partial(plot.error, result), "standard errors against simulations", (6.4, 3.2))
        body.append(figures([picture], "How the errors fell. The thin lines fall as one over the root.", "whole"))
    else:
        body.append(paragraph("The errors were looked at once, at the end, so how they fell is not known."))
    halving = [
        (name, found.estimate.standard_error, found.halving)
        for name, found in explained.items()
        if found.halving is not None
    ]
    if halving:
        rows = [
            (name, f"{error:.2g}", f"{error / 2:.2g}", brief(more.more), f"{brief(more.low)} to {brief(more.high)}")
            for name, error, more in halving
        ]
        head = ["target", "error now", "half of it", "simulations more", "80% interval"]
        body.append(table(head, rows, caption="What halving an error would cost, if the run went on as it did"))
    else:
        body.append(paragraph("What halving an error would cost is not known for this run."))
    body.extend(paragraph(f"{name} needs {found} for the precision that was asked.", class_="warning")
                for name, found in result.missing.items())  # fmt: skip
    return Section("precision", "Precision", join(body))


def accepted_of(result: Result) -> str:
    simulations = int(np.sum(result.simulations))
    accepted = float(np.sum(result.accepted))
    return f"{counted(simulations, 'simulation')}, {accepted:,.6g} accepted"


def _trust(estimate: Estimate, biased: bool) -> Html:
    if not estimate.trusted:
        return element("span", "✗ unreliable", class_="bad")
    if biased:
        return element("span", "! smaller than the bias", class_="bad")
    return element("span", "✓ trusted", class_="good")


def _read(estimate: Estimate) -> str:
    """How an estimate is read."""
    if not (np.isfinite(estimate.standard_error) and estimate.standard_error > 0):
        return ""
    told = shorthand(estimate.value, estimate.standard_error)
    error = f"{estimate.standard_error:.2g}"
    return f"{told} is a value with its standard error, {error}, which the number of simulations leaves. "


def _why(found: Explanation) -> str:
    estimate = found.estimate
    if not estimate.trusted:
        return _sentence("; ".join(estimate.warnings) or "its error bar is not known")
    parts = [f"{float(estimate.accepted):,.6g} simulations were accepted"]
    if found.ess is not None:
        parts.append(f"worth {worth(found.ess)} of equal weight")
    if found.carriers is not None and found.carriers.what == SINGLE:
        parts.append(f"none carries more than {100 * found.carriers.largest:.2g}% of the variance")
    if np.isfinite(estimate.df):
        parts.append(f"{estimate.df:,.0f} degrees of freedom")
    return _sentence(", ".join(parts))


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def note_of_unknown(explained: Explained) -> Html:
    """What cannot be said of this run, once."""
    texts: dict[str, Any] = dict.fromkeys(text for found in explained.values() for text in found.unknown)
    return notes(f"Not known: {text}." for text in texts)
