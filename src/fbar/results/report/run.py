"""The report of one run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fbar.checks import path as as_path
from fbar.checks import rows
from fbar.checks import text as as_text
from fbar.diagnostics.predictive import predict
from fbar.engine import Engine
from fbar.errors import InputError
from fbar.question.priors import structure
from fbar.results.markup import Html
from fbar.results.report import against, answer, evidence, question
from fbar.results.report.failures import failures
from fbar.results.report.page import figures, keys, page, write
from fbar.results.report.posterior import OF_POSTERIOR, marginals, parameters, posterior
from fbar.results.report.precision import precision
from fbar.results.report.settings import settings

if TYPE_CHECKING:
    from fbar.results.result import Result

MOST_FIRST = 4
"""Parameters on the first screen, at most, where the data are not a series."""


def report_run(
    result: Result,
    path: str | Path,
    *,
    title: str | None = None,
    predictive: int | None = None,
    shown: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> Path:
    """Write a result's report; see `Result.report`."""
    as_path(path, "path")
    if title is not None:
        as_text(title, "title")
    if predictive is not None:
        rows(predictive, "predictive")
    if np.ndim(result.simulations):
        raise InputError("a run of many trials has no single report; run it without trials=")
    run = result.run
    explained = {
        target.name: result.explain(target)
        for target in result.targets
        if not np.ndim(result.estimates[target.name].value)
    }
    predictions = predict(run, result.posterior, predictive, shown, engine)
    first, others = _pictures(result, against.pictures(run.problem, predictions))
    sections = [
        answer.answer(result, first),
        question.model(result),
        posterior(result),
        against.against(result, predictions, others),
        precision(result),
        evidence.places(result, explained),
        failures(result),
        evidence.tolerance(result, explained),
        evidence.influence(explained),
        evidence.rounds(result),
        settings(result),
    ]
    made = f"Made by fbar on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    name, line = title or question.title(result), question.first_line(result)
    return write(path, page(name, "" if line == name else line, sections, made))


def _pictures(result: Result, beside_data: against.Pictures) -> tuple[Html, list[Html]]:
    """The first screen's picture and the others: a series with what the model predicts, or a few parameters.

    The series of several models are seen side by side, further down.
    """
    series, numbers = beside_data.series, beside_data.numbers
    if series and structure(result.run.problem.prior).models is None:
        caption = "The data, and new simulations from the posterior."
        return figures(series[:1], caption, "pictures"), [*series[1:], *numbers]
    few = parameters(result)[:MOST_FIRST]
    return figures(marginals(result, few), keys(OF_POSTERIOR)), [*series, *numbers]
