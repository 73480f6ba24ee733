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
from fbar.question.summary_names import numbered
from fbar.results.report import answer, check, evidence
from fbar.results.report.page import page, write

if TYPE_CHECKING:
    from fbar.results.result import Result


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
    sections = [
        answer.answer(result, explained),
        answer.precision(result, explained),
        evidence.posterior(result),
        evidence.places(result, explained),
        evidence.influence(result, explained),
        evidence.tolerance(result, explained),
        evidence.rounds(result),
        check.predictive(predictions, result.model_check, numbered(run.problem.summary_names)),
        check.failures(result),
        check.settings(result),
    ]
    name = title or _title(result)
    made = f"Made by fbar on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    return write(path, page(name, answer.accepted_of(result), sections, made))


def _title(result: Result) -> str:
    """What the run is about: its model file, else its directory."""
    model = result.settings.get("model")
    if model:
        return Path(model["file"]).stem
    return "Inference" if result.directory is None else result.directory.resolve().name
