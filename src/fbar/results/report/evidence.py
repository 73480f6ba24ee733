"""Why the estimates are what they are: where simulations went, what carries the estimates, tolerance, rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fbar.diagnostics.explanation import VALUES, Explanation, regression_in_words
from fbar.estimation.digits import worth
from fbar.estimation.estimate import shorthand
from fbar.methods.run import Stage
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.answer import sentence
from fbar.results.report.page import Section, breakable, details, figures, keys, notes, split_table, table
from fbar.results.report.posterior import parameters
from fbar.results.report.svg import inline, small, whole

if TYPE_CHECKING:
    from fbar.results.result import Result

Explained = Mapping[str, Explanation]
"""The explanation of each scalar target, by its name."""

OF_PLACES = {"posterior": "blue", "simulations": "orange", "prior": "grey"}


def places(result: Result, explained: Explained) -> Section:
    """The design against prior and posterior; the shares of each region are folded."""
    from fbar import plot

    record = plot.Places.of(result, parameters(result))
    pictures = [
        small(replace(record, parameters=(one,), message=""), f"where {one.name} was simulated")
        for one in record.parameters
    ]
    smooth = not all(one.discrete for one in record.parameters)
    scaled = "Each density is scaled to a maximum of 1." if smooth else ""
    caption = join([keys(OF_PLACES), scaled, sentence(record.message) if record.message else ""], " ")
    regions = [_regions(name, found) for name, found in explained.items() if found.regions]
    folded = details("Shares by region, for each target", element("div", *regions, class_="tables")) if regions else ""
    body = join([figures(pictures, caption), folded, _pairs(result)])
    return Section("places", "Where simulations went", body)


def influence(explained: Explained) -> Section:
    """Weights and influence: which simulations carry each estimate."""
    rows = [_carried(name, found) for name, found in explained.items()]
    head = ["target", "simulations", "effective sample size", "half of the variance is in", "largest share", "at"]
    others = [
        (breakable(name), other.words, f"{other.standard_error:.3g}", shorthand(other.times, other.times_error))
        for name, found in explained.items()
        for other in found.alternatives
    ]
    words = ["target", "alternative", "its standard error", "relative number of simulations needed"]
    unknown = dict.fromkeys(text for found in explained.values() for text in found.unknown)
    body = [
        split_table(head, rows, left=6) if rows else "",
        table(words, others, left=2, caption="What the same number of simulations would have given with alternatives")
        if others
        else "",
        notes(f"Not known: {text}." for text in unknown),
    ]
    largest = [found.carriers.largest for found in explained.values() if found.carriers is not None]
    of_values = any(found.carriers is not None and found.carriers.what == VALUES for found in explained.values())
    part = "value of θ" if of_values else "simulation"
    line = f"the largest share of one {part} in a variance is {100 * max(largest):.2g}%" if largest else ""
    return Section("influence", "Most influential simulations", join(body), folded=True, line=line)


def _carried(name: str, found: Explanation) -> tuple[object, ...]:
    used = f"{float(np.sum(found.estimate.accepted)):,.6g}"
    ess = "" if found.ess is None else worth(found.ess)
    if found.carriers is None:
        return breakable(name), used, ess, "", "", ""
    at = ", ".join(f"{key} = {_short(value)}" for key, value in found.carriers.theta.items())
    half = f"{found.carriers.half:,} of {found.carriers.number:,} {found.carriers.what}"
    return breakable(name), used, ess, half, f"{100 * found.carriers.largest:.3g}%", at


def tolerance(result: Result, explained: Explained) -> Section:
    """Estimate against tolerance, or against the bandwidth of an answer at the data."""
    from fbar import plot

    name, title = ("bandwidth", "Bandwidth") if result.is_at_data else ("tolerance", "Tolerance")
    if not result.is_at_data and result.tolerance is None:
        text = "Simulations were accepted by exact match or by a rule, so there is no tolerance that could cause bias."
        return Section(name, title, paragraph(text), folded=True, line="there is no tolerance")
    record = plot.Tolerance.of(result)
    line = "estimates with other bandwidths" if result.is_at_data else "estimates at other tolerances"
    if record.empty:
        return Section(name, title, paragraph(record.message), folded=True, line=line)
    pictures = [
        small(replace(record, bands=(band,), message=""), f"{band.name} against the {name}") for band in record.bands
    ]
    if result.is_at_data:
        caption = (
            "Estimates with other bandwidths from the same simulations, against the share of the simulations within "
            "the bandwidth, with 95% confidence bands where they are reliable. The bands allow for bias. A line that "
            "stays level within its band shows no sign of bias."
        )
    else:
        caption = (
            "Estimates at other tolerances from the same simulations, against the tolerance, with 95% confidence bands "
            "where they are reliable. A line that stays level within its band shows no sign of bias from the tolerance."
        )
    legend = {
        "estimate (hollow: unreliable)": "blue",
        "chosen bandwidth" if result.is_at_data else "the run's tolerance": "grey",
    }
    legend |= {} if result.is_at_data else {"extrapolated to 0": "green"}
    caption = f"{caption} {sentence(record.message)}" if record.message else caption
    made = [found.regression for found in explained.values() if found.regression is not None][:1]
    words = [paragraph(sentence(" ".join(regression_in_words(regression)))) for regression in made]
    body = join([paragraph(sentence(result.about)), *words, figures(pictures, join([keys(legend), caption], " "))])
    return Section(name, title, body, folded=True, line=line)


def rounds(result: Result) -> Section:
    """Tolerance, acceptance and proposal of each stage; effective sample size as the run went on."""
    from fbar import plot

    stages = result.run.stages()
    columns: dict[str, list[object]] = {
        "stage": list(range(1, len(stages) + 1)),
        "proposal": [stage.words for stage in stages],
        "simulations": [f"{stage.simulations:,}" for stage in stages],
        "accepted": [_rate(stage) for stage in stages],
        "tolerance": [_tolerance(stage.tolerance) for stage in stages],
    }
    body: list[object] = [_table_of(columns, 2, "Stages; each acceptance rate is at the tolerance of its stage")]
    history = result.history
    columns = {
        "after round": [m.round for m in history],
        "simulations": [f"{m.simulations:,}" for m in history],
        "used" if result.run.at_data else result.run.counted_as.words: [f"{m.accepted:,.6g}" for m in history],
        "effective sample size": ["" if m.ess is None else worth(m.ess) for m in history],
        "tolerance": [_tolerance(m.tolerance) for m in history],
    }
    if history:
        body.append(_table_of(columns, 1, "After each round, from all simulations so far"))
    if len(stages) > 1:
        pictures = inline(lambda: plot.rounds(result), "tolerance, acceptance and effective sample size by round")
        body.insert(0, figures([pictures], kind="whole"))
    line = f"{len(stages)} stage{'' if len(stages) == 1 else 's'}"
    return Section("rounds", "Rounds", join(body), folded=True, line=line)


def _table_of(columns: dict[str, list[object]], left: int, caption: str) -> Html:
    """A table of the columns that are not empty."""
    known = {name: values for name, values in columns.items() if any(value != "" for value in values)}
    caption = caption if "accepted" in known or "used" in known else caption.partition(";")[0]
    return table(list(known), zip(*known.values(), strict=True), left=left, caption=caption)


def _pairs(result: Result) -> Html:
    from fbar import plot
    from fbar.plot.source import Source

    source = Source.of(result)
    numbers = [name for name in source.seen if source.numeric(name)]
    if len(numbers) < 2 or result.run.problem.is_finite:
        return Html("")
    record = plot.PlacesPair.of(result)
    made = whole(record, "pairs of parameters: where they were simulated")
    return details("The first two parameters together", figures([made], kind="whole"))


def _regions(name: str, found: Explanation) -> Html:
    by = "value" if found.parameter is None else found.parameter
    rows = [
        (r.words, *(_percent(share) for share in (r.posterior, r.simulations, r.accepted, r.variance)))
        for r in found.regions
    ]
    head = [
        by,
        "posterior",
        "simulations",
        "used" if found.at_data else found.counted_as.share,
        "variance of the error",
    ]
    return element("div", element("h3", name), table(head, rows))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g}%"


def _rate(stage: Stage) -> str:
    return "" if stage.accepted is None else f"{100 * stage.accepted / max(stage.simulations, 1):.3g}%"


def _tolerance(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
