"""The model against the data: the check of the model, and new simulations as the data are shaped, models apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.checks import counted
from fbar.diagnostics.model_check import ModelCheck
from fbar.diagnostics.predictions import Predictions
from fbar.question.priors import structure
from fbar.question.problem import Problem
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.page import Section, details, figures, split_table, table
from fbar.results.report.shaped import Series, series_of
from fbar.results.report.svg import whole

if TYPE_CHECKING:
    from fbar.plot import Predictive as PredictiveRecord
    from fbar.results.result import Result

LEAST = 10
"""New simulations of a model without which it has no picture."""

WIDTH = 4.5
"""Inches of a picture; a wider one could not be read on a phone."""

RAW = "x"
"""The simulator's data among its predictions."""


@dataclass(frozen=True, eq=False)
class Part:
    """New simulations of one model, or all where there is no choice: rows of the predictions."""

    label: str
    rows: npt.NDArray[Any]
    share: float


@dataclass(frozen=True, eq=False)
class Pictures:
    """New simulations beside the data: ``series`` as series, and the ``numbers`` that simulations are compared by."""

    series: list[Html]
    numbers: list[Html]


def pictures(problem: Problem, found: Predictions) -> Pictures:
    """A series and the numbers of each model."""
    made = Pictures([], [])
    for part in _parts(problem, found):
        of = f" of {part.label}" if part.label else ""
        size = (WIDTH, 2.7)
        for series in _series(problem, found):
            title = " ".join(filter(None, [_title(part), series.title]))
            record = _record(series.observed, series.simulated[part.rows], None)
            made.series.append(_drawn(record, f"new simulations{of} and the data", title, series.axis, size))
        if _summaries_apart(problem, found):
            assert found.numbers is not None
            assert problem.observed is not None
            observed = np.ravel(problem.observed).astype(np.float64)
            record = _record(observed, found.numbers[part.rows], problem.summary_labels)
            label = f"summaries{of} of new simulations and of the data"
            small = (WIDTH, 0.8 + 0.3 * observed.size) if not record.series and observed.size > 1 else size
            made.numbers.append(_drawn(record, label, _title(part), "", small))
    return made


def against(result: Result, found: Predictions, made: list[Html]) -> Section:
    """The check of the model, then the pictures, and how many numbers lie outside."""
    above = ", shown in the first picture of this page" if not made and _series(result.run.problem, found) else ""
    words = [_checked(result.model_check), *_words(result.run.problem, found, above)]
    if len(made) == 1:
        body = element("div", figures(made, "", "pictures"), element("div", *words), class_="beside")
    else:
        body = join([figures(made, "", "pictures"), *words])
    return Section("predictive", "Model against data", body)


def _words(problem: Problem, found: Predictions, above: str) -> Iterator[Html]:
    """What the new simulations are, and how the data lie among them."""
    if len(found):
        caption = (
            f"{counted(len(found), 'new simulation')} at parameters drawn from {found.about}{above}. Data "
            "that lie outside most of them are data that the model does not produce at likely parameters."
        )
        yield paragraph(caption, class_="soft")
    if found.numbers is not None and problem.observed is not None:
        observed = np.ravel(problem.observed).astype(np.float64)
        record = _record(observed, found.numbers, problem.summary_labels)
        yield paragraph(_outside(record))
        yield _numbers(record)
    elif len(found):
        rows = found.summaries.reshape(len(found.summaries), -1)
        same = float(np.mean((rows == np.ravel(np.asarray(problem.observed))).all(axis=1)))
        yield paragraph(f"{100 * same:.3g}% of {counted(len(rows), 'new simulation')} equal the data.")
    if found.failed:
        yield paragraph(f"{counted(found.failed, 'new simulation')} failed.", class_="warning")
    if found.missing:
        yield paragraph(found.missing)


def _checked(check: ModelCheck) -> Html:
    """What the check found, with the summaries that the model does not reach."""
    said = paragraph(str(check), class_="warning") if check.alarm else paragraph(str(check))
    if not check.unreachable:
        return said
    rows = [
        (one.name, f"{one.observed:.4g}", f"{one.low:.4g} to {one.high:.4g}", f"{one.p_value:.2g}")
        for one in check.unreachable
    ]
    head = ["summary not reached", "data", "central 99% of simulations", "p-value"]
    return join([said, table(head, rows)])


def _record(observed: npt.NDArray[Any], simulated: npt.NDArray[Any], names: Any) -> PredictiveRecord:
    from fbar import plot

    return plot.Predictive.of(observed, simulated, names)


def _drawn(record: PredictiveRecord, label: str, title: str, axis: str, size: tuple[float, float]) -> Html:
    return whole(replace(record, title=title, axis=axis), label, size)


def _title(part: Part) -> str:
    return f"{part.label}, {part.share:.0%} of the posterior, {part.rows.size} simulations" if part.label else ""


def _parts(problem: Problem, found: Predictions) -> Iterator[Part]:
    """Each model that has enough new simulations; all of them where there is no choice."""
    if found.points is None:
        return
    models = structure(problem.prior).models
    if models is None:
        yield Part("", np.arange(len(found)), 1.0)
        return
    column = found.points[models.name]
    for label in models.labels:
        rows = np.flatnonzero(column == label)
        if rows.size >= LEAST:
            yield Part(str(label), rows, rows.size / len(found))


def _series(problem: Problem, found: Predictions) -> list[Series]:
    """The data that are a series, with what was simulated of them."""
    if problem.raw is None or problem.raw.dtype.kind not in "biuf":
        return []
    if problem.named_data is not None:
        parts = problem.named_data.split(problem.raw)
        return [
            replace(series, title=" ".join(filter(None, (name, series.title))))
            for name, part in parts.items()
            if name in found.arrays
            for series in series_of(part, np.asarray(found.arrays[name], dtype=np.float64))
        ]
    if RAW in found.arrays and RAW in found.observed:
        return series_of(problem.raw, np.asarray(found.arrays[RAW], dtype=np.float64))
    if problem.summary is None and found.numbers is not None:
        return series_of(problem.raw, found.numbers.reshape(len(found), *problem.raw.shape))
    return []


def _summaries_apart(problem: Problem, found: Predictions) -> bool:
    """Whether the summaries have a picture of their own: they are not the series that is shown already."""
    if found.numbers is None or problem.observed is None:
        return False
    parts = 1 if problem.named_data is None else len(problem.named_data.names)
    return problem.summary is not None or len(_series(problem, found)) < parts


def _outside(record: PredictiveRecord) -> str:
    """How many of the data lie in the outer 5% of the new simulations, of which 1 in 20 would by chance."""
    if record.tails.size == 1:
        return f"The data have a two-sided tail probability {record.tail_in_words(0)} among the new simulations."
    far = int(np.sum(record.tails < 0.05))
    extreme = int(np.argmin(record.tails))
    name = record.names[extreme]
    return (
        f"{far} of {counted(record.tails.size, 'number')} {'lies' if far == 1 else 'lie'} outside the central 95% of "
        f"the new simulations; 1 in 20 is expected by chance. The most extreme is {name}, with a two-sided tail "
        f"probability {record.tail_in_words(extreme)}."
    )


def _numbers(record: PredictiveRecord) -> Html:
    """Every number as a table, folded."""
    low, _, middle, _, high = record.quantiles
    rows = [
        (name, f"{seen:.5g}", f"{middle[j]:.5g}", f"{low[j]:.5g} to {high[j]:.5g}", f"{record.tails[j]:.2g}")
        for j, (name, seen) in enumerate(zip(record.names, record.observed.tolist(), strict=True))
    ]
    head = ["number", "data", "median of simulations", "central 95%", "tail probability"]
    return details("The numbers", split_table(head, rows[:200]))
