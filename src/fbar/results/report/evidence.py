"""The middle of a run's report: posterior, where simulations went, what carries the estimates, tolerance, rounds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fbar.diagnostics.explanation import Explanation, regression_in_words
from fbar.estimation.estimate import shorthand, worth
from fbar.methods.run import Stage
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.answer import Explained, note_of_unknown, sentence
from fbar.results.report.page import Section, figures, table
from fbar.results.report.svg import inline, panel

if TYPE_CHECKING:
    from fbar.results.result import Result

MOST_PANELS = 12
"""Parameters that have a picture, at most."""


def parameters(result: Result) -> tuple[str, ...]:
    """Those that have a picture of their own."""
    from fbar.plot.source import Source

    return Source.of(result).seen[:MOST_PANELS]


def _others(result: Result) -> str:
    """What is said of those that have none."""
    from fbar.plot.source import Source

    source = Source.of(result)
    many = source.seen[MOST_PANELS:]
    said = [f"not shown: {', '.join(many)}" if many else "", source.unseen]
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in said if text)


def places(result: Result, explained: Explained) -> Section:
    """The design against prior and posterior; the share of each region."""
    from fbar import plot

    pictures = [
        panel(partial(plot.places, result, [name]), f"where {name} was simulated") for name in parameters(result)
    ]
    body: list[object] = [
        figures(pictures, "Where simulations were spent, beside the prior and the posterior."),
        _pairs(result, places=True),
    ]
    body += [_regions(name, found) for name, found in explained.items() if found.regions]
    return Section("places", "Where simulations went", join(body))


def influence(result: Result, explained: Explained) -> Section:
    """Weights and influence: which simulations carry each estimate."""
    from fbar import plot

    carried = [name for name, found in explained.items() if found.carriers is not None]
    pictures = [inline(partial(plot.influence, result, name), f"what carries {name}") for name in carried[:MOST_PANELS]]
    caption = "The share of an error's variance that the simulations with the largest parts carry together."
    if len(carried) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {len(carried)} targets."
    rows = [
        (
            name,
            f"{found.carriers.half:,} of {found.carriers.number:,} {found.carriers.what}",
            f"{100 * found.carriers.largest:.3g}%",
            ", ".join(f"{key} = {_short(value)}" for key, value in found.carriers.theta.items()),
        )
        for name, found in explained.items()
        if found.carriers is not None
    ]
    head = ["target", "half of the variance is in", "largest share", "at"]
    others = [
        (name, other.words, f"{other.standard_error:.3g}", shorthand(other.times, other.times_error))
        for name, found in explained.items()
        for other in found.alternatives
    ]
    words = ["target", "another way", "its standard error", "simulations it needs, relative"]
    body = [
        figures(pictures, caption, "whole"),
        table(head, rows, left=4) if rows else paragraph("Its estimates are no sums over single simulations."),
        table(words, others, left=2, caption="What as many simulations would have given in other ways")
        if others
        else "",
        note_of_unknown(explained),
    ]
    return Section("influence", "What carries the estimates", join(body))


def tolerance(result: Result, explained: Explained) -> Section:
    """Estimate against tolerance, or against the bandwidth of an answer at the data."""
    from fbar import plot

    name, title = ("bandwidth", "Bandwidth") if result.is_at_data else ("tolerance", "Tolerance")
    if not result.is_at_data and result.tolerance is None:
        text = "Simulations were accepted exactly or by a rule: there is no tolerance, and no bias from one."
        return Section(name, title, paragraph(text))
    record = plot.Tolerance.of(result)
    if record.empty:
        return Section(name, title, paragraph(record.message))
    pictures = [panel(replace(record, bands=(band,)).draw, f"{band.name} against the {name}") for band in record.bands]
    if result.is_at_data:
        caption = (
            "Estimates with other bandwidths from the same simulations, with 95% bands where they are reliable. The "
            "bands allow for bias. A line that is level within its band shows none."
        )
    else:
        caption = (
            "Estimates at other tolerances from the same simulations, with 95% bands where they are reliable. A line "
            "that is level within its band shows no harm from the tolerance."
        )
    made = [found.regression for found in explained.values() if found.regression is not None][:1]
    chosen = [paragraph(sentence(" ".join(regression_in_words(regression)))) for regression in made]
    return Section(name, title, join([paragraph(sentence(result.about)), *chosen, figures(pictures, caption)]))


def rounds(result: Result) -> Section:
    """Tolerance, acceptance and proposal of each stage; effective sample size as the run went on."""
    from fbar import plot

    stages = result.run.stages()
    columns: dict[str, list[object]] = {
        "stage": list(range(1, len(stages) + 1)),
        "proposal": [stage.words for stage in stages],
        "simulations": [f"{stage.simulations:,}" for stage in stages],
        "accepted": [_rate(stage) for stage in stages],
        "tolerance": [_within(stage) for stage in stages],
    }
    body: list[object] = [_table_of(columns, 2, "Stages; the acceptance rate is at the tolerance of each")]
    history = result.history
    columns = {
        "after round": [m.round for m in history],
        "simulations": [f"{m.simulations:,}" for m in history],
        "used" if result.run.at_data else "accepted": [f"{m.accepted:,.6g}" for m in history],
        "effective sample size": ["" if m.ess is None else worth(m.ess) for m in history],
        "tolerance": [_tolerance(m.tolerance) for m in history],
    }
    if history:
        body.append(_table_of(columns, 1, "As the run went on, all its simulations taken together"))
    if len(stages) > 1:
        pictures = inline(lambda: plot.rounds(result), "tolerance, acceptance and effective sample size by round")
        body.insert(0, figures([pictures], kind="whole"))
    return Section("rounds", "Rounds", join(body))


def _table_of(columns: dict[str, list[object]], left: int, caption: str) -> Html:
    """A table of the columns that are not empty."""
    known = {name: values for name, values in columns.items() if any(value != "" for value in values)}
    caption = caption if "accepted" in known or "used" in known else caption.partition(";")[0]
    return table(list(known), zip(*known.values(), strict=True), left=left, caption=caption)


def posterior(result: Result) -> Section:
    """Marginals, of recorded outputs too, and pairs."""
    from fbar import plot

    recorded = [name for name in result.run.problem.records if name in result.posterior.points]
    names = (*parameters(result), *recorded)
    pictures = [panel(partial(plot.marginals, result, [name]), f"posterior of {name}") for name in names]
    caption = f"Grey is the prior, blue {result.posterior.about or 'the posterior'}. {_others(result)}"
    return Section("posterior", "Posterior", join([figures(pictures, caption), _pairs(result)]))


def _pairs(result: Result, places: bool = False) -> Html:
    from fbar import plot
    from fbar.plot.source import Source

    source = Source.of(result)
    numbers = [name for name in source.seen if source.numeric(name)]
    if len(numbers) < 2 or (places and result.run.problem.is_finite):
        return Html("")
    if places:
        made = inline(lambda: plot.places(result, pairs=True), "pairs of parameters: where they were simulated")
    else:
        made = inline(lambda: plot.pairs(result), "pairs of parameters")
    return figures([made], kind="whole")


def _regions(name: str, found: Explanation) -> Html:
    by = "value" if found.parameter is None else found.parameter
    rows = [
        (r.words, *(_percent(share) for share in (r.posterior, r.simulations, r.accepted, r.variance)))
        for r in found.regions
    ]
    head = [by, "posterior", "simulations", "used" if found.at_data else "acceptances", "variance"]
    return join([element("h3", name), table(head, rows, caption="Shares of each region; the variance is the error's")])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g}%"


def _rate(stage: Stage) -> str:
    return "" if stage.accepted is None else f"{100 * stage.accepted / max(stage.simulations, 1):.3g}%"


def _within(stage: Stage) -> str:
    return _tolerance(stage.tolerance)


def _tolerance(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
