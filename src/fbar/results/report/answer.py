"""The first screen of a run's report: question, data, answer, reliability in words, a picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fbar.checks import counted
from fbar.diagnostics.model_check import ModelCheck
from fbar.estimation.digits import between
from fbar.estimation.estimate import BIASED, RELIABLE, UNRELIABLE, Estimate, shorthand
from fbar.methods.stopping import NOT_FINISHED
from fbar.results.account import simulations_in_words
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report import question
from fbar.results.report.page import Section, breakable, details, notes, split_table
from fbar.results.report.summary import summary
from fbar.results.summary_table import SummaryTable, summary_or_none

if TYPE_CHECKING:
    from fbar.results.result import Result

INTERVAL = "95% confidence interval of this estimate"
"""The title of a column that must not be read as the credible interval."""

READING = {
    INTERVAL: "where the exact value of the target lies; it shrinks with more simulations",
    "credible interval": "where the quantity lies, given the data; it does not shrink with more simulations",
    "MC error, total error": "standard errors of the mean: from the finite number of simulations, and including the "
    "bias that may remain",
}


def components(estimate: Estimate) -> list[tuple[str, Estimate]]:
    """A scalar estimate itself; a vector's components, each with a name of its own."""
    if not np.ndim(estimate.value):
        return [(estimate.name, estimate)]
    names = estimate.labels or [str(k) for k in range(np.size(estimate.value))]  # as arrays are read
    return [(f"{estimate.name} [{name}]", estimate.component(k)) for k, name in enumerate(names)]


def answer(result: Result, picture: Html) -> Section:
    """The data, the summary, every target that was asked, whether to trust them, and what the run warns of."""
    found = summary_or_none(result)
    unfinished = "the run was interrupted: these are its estimates so far"
    warnings = [unfinished] if result.stopped_by == NOT_FINISHED else []
    warnings += [*_warnings_of(result.estimates), *result.warnings]
    other = [] if result.own else [f"Not the run's own estimates: {result.what}, by {result.how[1:]}."]
    words = [
        *(paragraph(text) for text in other),
        paragraph(_reliability(result, found)),
        notes((sentence(text) for text in dict.fromkeys(warnings)), "warning"),
        paragraph(f"{accepted_of(result)}; {result.stopped_by}. {' '.join(map(sentence, result.all_remarks))}"),
    ]
    tables = [summary(result, found), asked(result)]
    side = element("div", picture, class_="picture") if picture else Html("")
    body = element("div", element("div", *tables), element("div", side, *words), class_="first")
    return Section("answer", "The answer", join([paragraph(question.data(result.run.problem), class_="data"), body]))


def asked(result: Result) -> Html:
    """Every target with its estimate, and the confidence interval of that estimate."""
    rows = [
        (breakable(name), shorthand(part.value, part.standard_error), _trust(part), _between(part))
        for estimate in result.estimates
        for name, part in components(estimate)
    ]
    table = element("div", split_table(["target", "estimate", "reliability", INTERVAL], rows, left=4), class_="answer")
    reading = [element("li", element("strong", name), f": {words}.") for name, words in READING.items()]
    example = components(next(iter(result.estimates)))[0][1]
    return join(
        [
            table,
            details("How to read this", element("ul", *reading), paragraph(_read(example), _meaning(result))),
        ]
    )


def _between(part: Estimate) -> str:
    return between(*part.interval())


def accepted_of(result: Result) -> str:
    ran, used = int(np.sum(result.simulations)), float(np.sum(result.accepted))
    return simulations_in_words(ran, used, result.is_at_data, result.posterior.counted_as)


def _reliability(result: Result, found: SummaryTable | None) -> str:
    """How many estimates are reliable, what they are about, and whether the model was found to fit."""
    parts = [pair for estimate in result.estimates for pair in components(estimate)]
    by_word = {word: [name for name, part in parts if part.reliability == word] for word in (BIASED, UNRELIABLE)}
    bad = [f"{word}: {_listed(names)}" for word, names in by_word.items() if names]
    about = result.about.partition(";")[0]
    if not bad:
        all_of_them = {1: "The estimate", 2: "Both estimates"}.get(len(parts), f"All {len(parts)} estimates")
        said = f"{all_of_them} that {'was' if len(parts) == 1 else 'were'} asked for {_are(len(parts))} reliable"
    else:
        reliable = len(parts) - sum(map(len, by_word.values()))
        said = f"{reliable} of {counted(len(parts), 'estimate')} {_are(reliable)} {RELIABLE}; "
        said = (said if reliable else "") + "; ".join(bad)
    others = [row for row in found.rows if row.reliability != RELIABLE] if found is not None else []
    if others and not bad:
        further = _listed(list(dict.fromkeys(f"{row.name} ({row.in_words})" for row in others)))
        said = f"{said}. Not everything else in the summary is: {further}"
    return f"{sentence(said)} {sentence(about)} {_fit(result.model_check)}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _fit(check: ModelCheck) -> str:
    """Whether the model was found to fit; an alarm is among the warnings already."""
    if check.p_value is None:
        return "The model was not checked against the data."
    return "" if check.alarm else str(check)


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _warnings_of(estimates: Iterable[Estimate]) -> list[str]:
    """Each text once, with the targets that it is about."""
    listed = list(estimates)
    about: dict[str, list[str]] = {}
    for estimate in listed:
        for text in estimate.warnings:
            about.setdefault(text, []).append(estimate.name)
    return [text if len(names) == len(listed) else f"{text} ({_listed(names)})" for text, names in about.items()]


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
        chance = np.sqrt(max(estimate.standard_error**2 - estimate.bias**2, 0.0))
        return (
            f"{both} is an estimate with its total standard error, {error}: {chance:.2g} from the finite number of "
            f"simulations and {estimate.bias:.2g} from bias that may remain. "
        )
    return f"{both} is an estimate with its standard error, {error}, from the finite number of simulations. "


def _meaning(result: Result) -> str:
    """What a confidence interval contains."""
    what = f"{result.posterior.about or 'the posterior'}"
    if result.is_at_data:
        return (
            f"A reliable interval contains the value of {what} in about 95 of 100 runs. It allows for the bias that "
            "the regression at the data may leave, as far as the simulations show it."
        )
    words = f"The interval contains the value of {what} in about 95 of 100 runs, unless it is marked unreliable."
    if result.tolerance is None:
        return words
    return (
        f"{words} It does not allow for how far that is from the posterior itself; an estimate that differs from it by "
        "more than its error bar is marked biased."
    )


def sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
