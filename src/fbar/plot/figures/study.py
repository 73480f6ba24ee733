"""Figures of a study: rankings, scores against budgets, scores against scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import one_line, texts
from fbar.checks import path as as_path
from fbar.errors import FbarError
from fbar.plot.base import Record, legend, one_study
from fbar.plot.look import GREY, decimal_ticks, method_look, plain, render, short
from fbar.scores.expectation import ExpectationMSE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.study import StudyResult

ERROR = ExpectationMSE.name


@dataclass(frozen=True, eq=False)
class Line:
    """A method's mean scores on a problem by budget; exp(``intercept``) N^``rate`` is the fit, NaN for none."""

    problem: str
    method: str
    budgets: FloatArray
    values: FloatArray
    errors: FloatArray
    rate: float
    intercept: float


@dataclass(frozen=True, eq=False)
class Curves(Record):
    """``methods`` are all methods of the study; their order determines the colours of those without their own."""

    score: str
    methods: tuple[str, ...]
    lines: tuple[Line, ...]
    message: str = ""

    @classmethod
    def of(cls, result: StudyResult, score: str = ERROR, target: str | None = None) -> Curves:
        one_study(result)
        found = result.curves(score, target=target)
        lines = [
            Line(c.problem, c.method, c.budgets, c.values, c.errors, c.rate, c.intercept)
            for c in found
            if c.budgets.size
        ]
        message = "" if lines else "no method has two trials of this score"
        return cls(result.label(score, target), tuple(result.contenders()), tuple(lines), message)

    @property
    def empty(self) -> bool:
        return not self.lines

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(line.problem for line in self.lines))

    @property
    def grid(self) -> tuple[int, int]:
        return _rows(len(self.problems))

    @property
    def number(self) -> int:
        return len(self.problems)

    @property
    def size(self) -> tuple[float, float]:
        rows, columns = self.grid
        return max(4.2, 2.4 * columns), 2.4 * rows + 0.7

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        """Thin lines are the fitted rates."""
        for ax, problem in zip(axes, self.problems, strict=True):
            for line in (line for line in self.lines if line.problem == problem):
                look = method_look(line.method, self.methods)
                bars = {"ecolor": look["color"], "elinewidth": 1, "capsize": 2}
                ax.errorbar(line.budgets, line.values, line.errors, fmt="none", **bars)
                ax.plot(line.budgets, line.values, linestyle="none", label=short(line.method), **look)
                if math.isfinite(line.rate):
                    x = np.geomspace(line.budgets.min(), line.budgets.max(), 30)
                    ax.plot(x, np.exp(line.intercept) * x**line.rate, color=look["color"], linewidth=0.9)
            ax.set(xscale="log", yscale="log", xlabel="simulations")
            decimal_ticks(ax.xaxis)
            decimal_ticks(ax.yaxis)
            ax.set_title(short(problem), loc="left")
        axes[0].set_ylabel(plain(self.score))
        legend(axes, figure, ncols=min(len(self.methods), 4))


@dataclass(frozen=True)
class Standing:
    """A method on a problem at a budget: mean score, its error, and the places it may truly have."""

    problem: str
    budget: int
    method: str
    mean: float
    error: float
    place: str


@dataclass(frozen=True, eq=False)
class Ranking(Record):
    """``methods`` are all methods of the study; their order determines the colours of those without their own."""

    score: str
    methods: tuple[str, ...]
    standings: tuple[Standing, ...]
    message: str = ""

    @classmethod
    def of(cls, result: StudyResult, score: str = ERROR, target: str | None = None) -> Ranking:
        one_study(result)
        found = result.ranking(score, target=target)
        standings = tuple(
            Standing(s.problem, s.budget, s.method, s.mean, s.error, s.place)
            for s in found.standings
            if math.isfinite(s.mean)
        )
        message = "" if standings else "no method has this score"
        return cls(found.score, tuple(result.contenders()), standings, message)

    @property
    def empty(self) -> bool:
        return not self.standings

    @property
    def groups(self) -> list[tuple[str, int]]:
        return list(dict.fromkeys((s.problem, s.budget) for s in self.standings))

    @property
    def grid(self) -> tuple[int, int]:
        number, columns = len(self.groups), min(2, len(self.groups))
        return math.ceil(number / columns), columns

    @property
    def number(self) -> int:
        return len(self.groups)

    @property
    def size(self) -> tuple[float, float]:
        rows, columns = self.grid
        most = max(sum((s.problem, s.budget) == group for s in self.standings) for group in self.groups)
        return (4.6, 7.2)[columns - 1], (0.24 * most + 0.75) * rows + 0.2

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        """Every method's mean score with its error; the places it may have stand beside it."""
        for ax, (problem, budget) in zip(axes, self.groups, strict=True):
            here = [s for s in self.standings if (s.problem, s.budget) == (problem, budget)]
            for row, s in enumerate(here):
                look = method_look(s.method, self.methods)
                ax.errorbar(s.mean, row, xerr=s.error, ecolor=look["color"], **look, linestyle="none", capsize=2)
            ax.set_yticks(range(len(here)), [plain(f"{s.method}  ({s.place})") for s in here])
            ax.set_ylim(max(1, len(here)) - 0.5, -0.5)
            if all(s.mean > 0 for s in here):
                ax.set_xscale("log")
                decimal_ticks(ax.xaxis)
            ax.set_title(plain(f"{problem}, N = {budget:,}"), loc="left")
            ax.grid(axis="x")
            ax.set_axisbelow(True)
        if figure is None:
            axes[-1].set_xlabel(plain(self.score))
        else:
            figure.supxlabel(plain(self.score), fontsize=9)


@dataclass(frozen=True)
class Point:
    problem: str
    budget: int
    method: str
    x: float
    x_error: float
    y: float
    y_error: float


@dataclass(frozen=True)
class Panel:
    """One score (x) against the other."""

    x: str
    points: tuple[Point, ...]


@dataclass(frozen=True, eq=False)
class Versus(Record):
    """``methods`` are all methods of the study; their order determines the colours of those without their own."""

    y: str
    methods: tuple[str, ...]
    panels: tuple[Panel, ...]
    message: str = ""

    @classmethod
    def of(cls, result: StudyResult, scores: str | Sequence[str] | None = None, error: str = ERROR) -> Versus:
        """``scores`` are by default all others for which lower or higher is better."""
        one_study(result)
        listed = (
            [scores] if isinstance(scores, str) else scores if scores is None else texts(scores, "scores", "['ess']")
        )
        if listed is None:
            listed = [s for s in result.scores if s != error and result.direction(s) != "nominal"]
        found = [result.against(score, error) for score in listed]
        panels = tuple(Panel(v.x, tuple(Point(**point) for point in v.points)) for v in found)
        message = "" if panels else "the study has no other score"
        return cls(result.label(error), tuple(result.contenders()), panels, message)

    @property
    def empty(self) -> bool:
        return not self.panels

    @property
    def grid(self) -> tuple[int, int]:
        return _rows(len(self.panels))

    @property
    def number(self) -> int:
        return len(self.panels)

    @property
    def size(self) -> tuple[float, float]:
        rows, columns = self.grid
        return max(4.2, 2.4 * columns), 2.4 * rows + 0.7

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        """Methods on one problem and budget are joined; a good score falls to the right."""
        for ax, panel in zip(axes, self.panels, strict=True):
            for group in dict.fromkeys((point.problem, point.budget) for point in panel.points):
                here = [point for point in panel.points if (point.problem, point.budget) == group]
                here.sort(key=lambda point: point.x)
                ax.plot([p.x for p in here], [p.y for p in here], color=GREY, linewidth=0.6, zorder=0)
            for point in panel.points:
                look = method_look(point.method, self.methods)
                bars = {"ecolor": look["color"], "elinewidth": 0.8, "linestyle": "none"}
                ax.errorbar(point.x, point.y, point.y_error, point.x_error, **bars, **look)
                ax.plot([], [], linestyle="none", label=short(point.method), **look)
            ax.set_xlabel(plain(panel.x))
            for name in ("x", "y"):
                if all(getattr(point, name) > 0 for point in panel.points):
                    getattr(ax, f"set_{name}scale")("log")
                    decimal_ticks(getattr(ax, f"{name}axis"))
        axes[0].set_ylabel(plain(self.y))
        legend(axes, figure, ncols=min(len(self.methods), 4))


def _rows(number: int) -> tuple[int, int]:
    columns = min(3, max(1, number))
    return math.ceil(max(1, number) / columns), columns


def write_figures(result: StudyResult, directory: str | Path) -> list[Path]:
    """Write ``curves``, ``ranking`` and ``versus`` as PNG and SVG, if there are enough trials and budgets."""
    one_study(result)
    directory = as_path(directory, "directory")
    if ERROR not in result.scores or result.number_of_trials < 2:
        return []
    records: dict[str, Record] = {"ranking": Ranking.of(result)}
    if len({cell.budget for cell in result.cells}) > 1:
        records["curves"] = Curves.of(result)
    if len(result.contenders()) > 1:
        records["versus"] = Versus.of(result)
    shown = {name: record for name, record in records.items() if not record.empty}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [path for name, record in shown.items() for path in render(type(record).draw, record, directory / name)]
    except OSError as error:
        raise FbarError(f"cannot write figures to {one_line(directory)}: {error.strerror or error}") from None
