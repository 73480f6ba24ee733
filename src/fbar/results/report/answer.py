"""The first part of a run's report: the answer, whether to trust it, how its error fell and what more would take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.diagnostics.explanation import VALUES, Explanation
from fbar.estimation.estimate import BIASED, UNRELIABLE, Estimate, between, shorthand, worth
from fbar.methods.forecasts import brief
from fbar.results.account import simulations_in_words
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
    names = estimate.labels or [str(k) for k in range(np.size(estimate.value))]  # as arrays are read
    return [(f"{estimate.name}[{name}]", estimate.component(k)) for k, name in enumerate(names)]


def answer(result: Result, explained: Explained) -> Section:
    """Targets, estimates, intervals, trust; then every warning, and how the run ended."""
    rows = []
    for target, estimate in zip(result.targets, result.estimates, strict=True):
        for name, part in components(estimate):
            low, high = part.interval()
            if target.binary:  # a probability
                low, high = max(low, 0.0), min(high, 1.0)
            rows.append((name, shorthand(part.value, part.standard_error), _trust(part), between(low, high)))
    example = next(iter(result.estimates))
    main = element("div", table(["target", "estimate", "error bar", "95% interval"], rows, left=4), class_="answer")
    warnings = dict.fromkeys(text for estimate in result.estimates for text in estimate.warnings)
    other = [] if result.own else [f"Not the run's own estimates: {result.what}, by {result.how[1:]}."]
    lines = [
        sentence(result.about),
        *other,
        f"{accepted_of(result)}; {result.stopped_by}.",
        *map(sentence, result.all_remarks),
    ]
    why = join(paragraph(f"{name}: {_why(found)}", class_="soft") for name, found in explained.items())
    body = join(
        [
            main,
            notes((sentence(text) for text in dict.fromkeys((*warnings, *result.warnings))), "warning"),
            join(paragraph(text) for text in lines),
            element("h3", "Why the error bars are reliable, or not"),
            paragraph(_read(components(example)[0][1]), _meaning(result)),
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
    return simulations_in_words(int(np.sum(result.simulations)), float(np.sum(result.accepted)), result.is_at_data)


def _trust(estimate: Estimate) -> Html:
    word = estimate.reliability
    if word == UNRELIABLE:
        return element("span", "✗ unreliable", class_="bad")
    if word == BIASED:
        away = estimate.difference
        by = "" if away is None else f" by {shorthand(away.value, away.standard_error)}"
        return element("span", f"! biased{by}", class_="bad")
    return element("span", "✓ reliable", class_="good")


def _read(estimate: Estimate) -> str:
    """How an estimate is read."""
    if not (np.isfinite(estimate.standard_error) and estimate.standard_error > 0):
        return ""
    both = shorthand(estimate.value, estimate.standard_error)
    error = f"{estimate.standard_error:.2g}"
    if estimate.bias > 0:
        chance = math.sqrt(max(estimate.standard_error**2 - estimate.bias**2, 0.0))
        return f"{both} is a value with its total error, {error}: {chance:.2g} by chance, {estimate.bias:.2g} by bias. "
    return f"{both} is a value with its standard error, {error}, which the number of simulations leaves. "


def _meaning(result: Result) -> str:
    """What an interval holds."""
    what = f"{result.posterior.about or 'the posterior'}"
    if result.is_at_data:
        return (
            f"A reliable interval holds the value of {what} in about 95 of 100 runs. It allows for the bias that the "
            "regression at the data may leave, as far as the simulations show it."
        )
    words = f"The interval holds the value of {what} in about 95 of 100 runs, unless it is marked unreliable."
    if result.tolerance is None:
        return words
    return f"{words} It does not allow for how far that is from the posterior itself; where this is more, it is biased."


def _why(found: Explanation) -> str:
    estimate = found.estimate
    if not estimate.trusted:
        return sentence("; ".join(estimate.warnings) or "its error bar is not known")
    parts = [f"{float(estimate.accepted):,.6g} simulations were {'used' if found.at_data else 'accepted'}"]
    if found.ess is not None:
        parts.append(f"worth {worth(found.ess)} of equal weight")
    if found.carriers is not None and found.carriers.what != VALUES:
        parts.append(f"none carries more than {100 * found.carriers.largest:.2g}% of the variance")
    if np.isfinite(estimate.df):
        parts.append(f"{estimate.df:,.0f} degrees of freedom")
    return sentence(", ".join(parts))


def sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def note_of_unknown(explained: Explained) -> Html:
    """What cannot be said of this run, once."""
    texts: dict[str, Any] = dict.fromkeys(text for found in explained.values() for text in found.unknown)
    return notes(f"Not known: {text}." for text in texts)
