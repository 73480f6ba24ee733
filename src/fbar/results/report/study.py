"""The report of a study."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.checks import counted
from fbar.checks import path as as_path
from fbar.checks import text as as_text
from fbar.estimation.estimate import shorthand
from fbar.results.markup import element, join, paragraph
from fbar.results.report.page import Section, details, figures, notes, page, table, write
from fbar.results.report.svg import inline

if TYPE_CHECKING:
    from fbar.study import StudyResult

ERROR = "mse"


def report_study(result: StudyResult, path: str | Path, *, title: str | None = None) -> Path:
    """Write a study's report; see `StudyResult.report`."""
    as_path(path, "path")
    if title is not None:
        as_text(title, "title")
    compared = ERROR in result.scores and result.number_of_trials > 1
    sections = [
        *([_ranking(result), *_curves(result), *_versus(result)] if compared else []),
        _summary(result),
        _failures(result),
        _settings(result),
    ]
    problems, methods = list(result.arenas), result.contenders()
    line = (
        f"{counted(len(methods), 'method')} on {counted(len(problems), 'problem')}, "
        f"{counted(result.number_of_trials, 'trial')} each"
    )
    made = f"Made by fbar on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    return write(path, page(title or "Study", line, sections, made))


def _ranking(result: StudyResult) -> Section:
    from fbar import plot

    ranking = result.ranking()
    rows = [
        (
            s.problem,
            s.method,
            f"{s.budget:,}",
            s.place,
            shorthand(s.mean, s.error) if s.trials else "–",
            s.failed or "",
            _doubt(s),
        )
        for s in ranking.standings
    ]
    called = sum(verdict.better is not None for verdict in ranking.contested)
    overall = [(row["method"], row["better"], row["worse"], row["open"]) for row in ranking.overall()]
    body = [
        paragraph(
            f"Ranked by {ranking.score}. {called} of {len(ranking.contested)} differences are significant; the "
            f"probability of any error is at most {ranking.level:.0%}. Methods with overlapping places cannot be "
            "distinguished."
        ),
        figures([inline(lambda: plot.ranking(result), "ranking of the methods")], kind="whole"),
        table(["method", "better", "worse", "undecided"], overall, caption="Comparisons with the other methods"),
        table(["problem", "method", "budget", "place", "score", "failed", ""], rows, left=2),
    ]
    return Section("ranking", "Which method is better", join(body))


def _doubt(standing: Any) -> str:
    doubts = ["the truth is not known precisely enough"] if standing.rough_truth else []
    doubts += [f"{standing.from_prior} scored with the prior"] if standing.from_prior else []
    return ", ".join(doubts)


def _curves(result: StudyResult) -> list[Section]:
    from fbar import plot

    if len({cell.budget for cell in result.cells}) < 2:
        return []
    rows = [
        (curve.problem, curve.method, shorthand(curve.rate, curve.rate_error) if np.isfinite(curve.rate) else "")
        for curve in result.curves()
    ]
    body = [
        figures([inline(lambda: plot.curves(result), "score against budget")], kind="whole"),
        table(
            ["problem", "method", "rate"], rows, left=2, caption="The error falls as budget to the power of the rate"
        ),
    ]
    return [Section("curves", "Error against simulations", join(body))]


def _versus(result: StudyResult) -> list[Section]:
    from fbar import plot

    others = [score for score in result.scores if score != ERROR and result.direction(score) != "nominal"]
    if not others or len(result.contenders()) < 2:
        return []
    body = [
        paragraph(
            "Each score against the error. Lines join the methods on one problem. Where the error does not fall "
            "towards the better score, the score prefers the worse method."
        ),
        figures([inline(lambda: plot.versus(result), "scores against the error")], kind="whole"),
        notes(str(result.against(score)) for score in others),
    ]
    return [Section("versus", "Score against score", join(body))]


def _summary(result: StudyResult) -> Section:
    rows = [
        (
            row["problem"],
            row["method"],
            f"{row['budget']:,}",
            f"{row['score']} {row['component']}".strip(),
            shorthand(row["mean"], row["standard_error"]),
            row["trials"],
        )
        for row in result.summary()
    ]
    head = ["problem", "method", "budget", "score", "mean", "trials"]
    return Section("scores", "All scores", details(f"{len(rows):,} rows", table(head, rows, left=2)))


def _failures(result: StudyResult) -> Section:
    failed = [(row["problem"], row["method"], row["trials"], row["message"]) for row in result.failures()]
    undefined = [(row["problem"], row["method"], row["score"], row["why"]) for row in result.undefined()]
    body = [
        table(["problem", "method", "trials", "message"], failed, left=2) if failed else paragraph("No trial failed."),
        table(["problem", "method", "score", "why"], undefined, left=4, caption="Scores that are not defined")
        if undefined
        else "",
    ]
    return Section("failures", "Failures", join(body))


def _settings(result: StudyResult) -> Section:
    text = json.dumps(result.settings, indent=2, ensure_ascii=False, default=str)
    return Section("settings", "Settings", details("All settings that determine the result", element("pre", text)))
