"""Pictures of a study: a data record each, and a thin renderer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.study.curves import Curve
from fbar.study.ranking import ERROR, Ranking
from fbar.study.results import StudyResult
from fbar.study.versus import Versus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; black last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
MARKS = "osD^vP*X"


@dataclass(frozen=True)
class Look:
    """The colour and marker of each method, the same in every figure of a study."""

    methods: tuple[str, ...]

    def of(self, method: str) -> dict[str, Any]:
        index = self.methods.index(method)
        return {"color": PALETTE[index % len(PALETTE)], "marker": MARKS[index % len(MARKS)]}


@dataclass(frozen=True)
class CurvesPicture:
    look: Look
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class RankingPicture:
    look: Look
    ranking: Ranking


@dataclass(frozen=True)
class VersusPicture:
    look: Look
    versus: tuple[Versus, ...]


def draw_curves(picture: CurvesPicture) -> Figure:
    """Score against budget, a panel for each problem; thin lines are the fitted rates."""
    from fbar.pictures import panels

    problems = list(dict.fromkeys(curve.problem for curve in picture.curves))
    columns = min(3, len(problems))
    rows = math.ceil(len(problems) / columns)
    figure, axes = panels(rows, columns, width=2.6 * columns + 1.8, height=2.5 * rows + 0.3)
    flat = np.ravel(axes)
    for ax in flat[len(problems) :]:
        ax.set_visible(False)
    for ax, problem in zip(flat, problems, strict=False):
        for curve in (curve for curve in picture.curves if curve.problem == problem and curve.budgets.size):
            look = picture.look.of(curve.method)
            ax.errorbar(
                curve.budgets, curve.values, curve.errors, fmt="none", ecolor=look["color"], elinewidth=1, capsize=2
            )
            ax.plot(curve.budgets, curve.values, linestyle="none", label=curve.method, **look)
            if math.isfinite(curve.rate):
                x = np.geomspace(curve.budgets.min(), curve.budgets.max(), 30)
                ax.plot(x, np.exp(curve.intercept) * x**curve.rate, color=look["color"], linewidth=0.9)
        ax.set_xscale("log")
        ax.set_yscale("log")
        _decimal_ticks(ax.xaxis)
        _decimal_ticks(ax.yaxis)
        ax.set_title(problem, loc="left")
        ax.set_xlabel("simulations")
    flat[0].set_ylabel(picture.curves[0].score)
    handles, labels = _legend(flat[: len(problems)])
    figure.legend(handles, labels, loc="outside right upper")
    return figure


def draw_ranking(picture: RankingPicture) -> Figure:
    """Every method's mean score with its error; the places it may have stand beside it."""
    from fbar.pictures import panels

    standings = picture.ranking.standings
    groups = list(dict.fromkeys((s.problem, s.budget) for s in standings))
    most = max(sum((s.problem, s.budget) == group for s in standings) for group in groups)
    columns = min(3, len(groups))
    rows = math.ceil(len(groups) / columns)
    figure, axes = panels(rows, columns, width=3.4 * columns, height=(0.26 * most + 0.75) * rows)
    flat = np.ravel(axes)
    for ax in flat[len(groups) :]:
        ax.set_visible(False)
    for ax, (problem, budget) in zip(flat, groups, strict=False):
        here = [s for s in standings if (s.problem, s.budget) == (problem, budget) and math.isfinite(s.mean)]
        for row, s in enumerate(here):
            look = picture.look.of(s.method)
            ax.errorbar(s.mean, row, xerr=s.error, ecolor=look["color"], **look, linestyle="none", capsize=2)
        ax.set_yticks(range(len(here)), [f"{s.method}  ({s.place})" for s in here])
        ax.set_ylim(max(1, len(here)) - 0.5, -0.5)
        if all(s.mean > 0 for s in here):
            ax.set_xscale("log")
            _decimal_ticks(ax.xaxis)
        ax.set_title(f"{problem}, N = {budget:,}", loc="left")
        ax.grid(axis="x", alpha=0.25)
    figure.supxlabel(picture.ranking.score, fontsize=9)
    return figure


def draw_versus(picture: VersusPicture) -> Figure:
    """Each score against the error: methods on one problem and budget are joined; a good score falls to the right."""
    from fbar.pictures import panels

    columns = len(picture.versus)
    figure, axes = panels(1, columns, width=2.9 * columns + 1.6, height=3.0)
    for ax, versus in zip(np.ravel(axes), picture.versus, strict=True):
        groups = list(dict.fromkeys((point["problem"], point["budget"]) for point in versus.points))
        for group in groups:
            here = [point for point in versus.points if (point["problem"], point["budget"]) == group]
            here.sort(key=lambda point: point["x"])
            ax.plot([p["x"] for p in here], [p["y"] for p in here], color="#bbbbbb", linewidth=0.8, zorder=0)
        for point in versus.points:
            look = picture.look.of(point["method"])
            ax.errorbar(
                point["x"], point["y"], point["y_error"], point["x_error"], ecolor=look["color"], elinewidth=0.8, **look
            )
            ax.plot([], [], linestyle="none", label=point["method"], **look)
        ax.set_xlabel(versus.x)
        for axis, key in (("x", "x"), ("y", "y")):
            if all(point[key] > 0 for point in versus.points):
                getattr(ax, f"set_{axis}scale")("log")
                _decimal_ticks(getattr(ax, f"{axis}axis"))
    np.ravel(axes)[0].set_ylabel(picture.versus[0].y)
    handles, labels = _legend(np.ravel(axes))
    figure.legend(handles, labels, loc="outside right upper")
    return figure


def _decimal_ticks(axis: Any) -> None:
    """Ticks at 1, 2 and 5 of every decade, as plain numbers; on a long axis decades alone."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    short = high / low < 50
    if high / low < 4:
        axis.set_major_locator(MaxNLocator(4))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=9))
    axis.set_minor_formatter(NullFormatter())
    if short:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _legend(axes: Iterable[Any]) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def write_figures(result: StudyResult, directory: str | Path) -> list[Path]:
    """``curves``, ``ranking`` and ``versus`` as PNG and SVG, those for which there are enough trials and budgets."""
    if ERROR not in result.scores or result.number_of_trials < 2:
        return []
    from fbar.pictures import render

    directory = Path(directory)
    look = Look(tuple(result.contenders()))
    paths = render(draw_ranking, RankingPicture(look, result.ranking()), directory / "ranking")
    if len({cell.budget for cell in result.cells}) > 1:
        paths += render(draw_curves, CurvesPicture(look, tuple(result.curves())), directory / "curves")
    others = [score for score in result.scores if score != ERROR and result.direction(score) != "nominal"]
    if others and len(look.methods) > 1:
        versus = tuple(result.against(score) for score in others)
        paths += render(draw_versus, VersusPicture(look, versus), directory / "versus")
    return paths
