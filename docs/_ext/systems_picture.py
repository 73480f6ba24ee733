"""The picture of the study of systems: error against simulations, a panel for each problem, from its stored rows.

``write`` draws it into the page's folder of pictures (``make tables``). The picture carries a digest of what it was
drawn from, so that a test can see whether it is that of the stored rows.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from systems_table import ROWS

from fbar.plot.look import Picture, decimal_ticks, look, method_look
from fbar.system.files import written_beside

PICTURE = Path(__file__).parents[1] / "_static" / "systems.svg"
STUDIES = ("few", "many", "most")
"""The studies with the same problems; the others have one budget or two, and are in the table."""

COLUMNS = 3
Point = tuple[int, float, float | None]
"""Simulations, b², and its standard error where it is known."""

Curves = Mapping[str, Mapping[str, Sequence[Point]]]


def curves(path: Path = ROWS) -> Curves:
    """By problem and method, in the order of the rows: the points in the order of simulations."""
    found: dict[str, dict[str, list[Point]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["study"] in STUDIES and row["b2"]:
                error = float(row["b2_error"]) if row["b2_error"] else None
                point = (int(row["budget"]), float(row["b2"]), error)
                found.setdefault(row["problem"], {}).setdefault(row["method"], []).append(point)
    return {problem: {name: sorted(points) for name, points in lines.items()} for problem, lines in found.items()}


def digest(drawn: Curves) -> str:
    return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()


def write(path: Path = PICTURE) -> None:
    drawn = curves()
    with look(), written_beside(path) as new:
        figure = draw(drawn)
        metadata = {"Date": None, "Creator": None, "Description": f"rows {digest(drawn)}"}
        figure.savefig(new, format="svg", facecolor="white", metadata=metadata)


def draw(drawn: Curves) -> Picture:
    rows = math.ceil((len(drawn) + 1) / COLUMNS)
    figure = Picture(figsize=(8.6, 3.1 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True, sharey=True).ravel()
    methods = list(dict.fromkeys(name for lines in drawn.values() for name in lines))
    for ax, (problem, lines) in zip(axes, drawn.items(), strict=False):
        for name, points in lines.items():
            _line(ax, points, _style(name, methods), wide=name == "default")
        ax.set(title=problem, xscale="log", yscale="log")
        ax.grid(axis="y", lw=0.5)
        ax.tick_params(labelbottom=True)
    budgets = sorted({n for lines in drawn.values() for points in lines.values() for n, _, _ in points})
    for ax in axes[: len(drawn)]:
        ax.set_xticks(budgets, [_short(n) for n in budgets])
        ax.minorticks_off()
        decimal_ticks(ax.yaxis)
    for ax in axes[len(drawn) :]:
        ax.axis("off")
    for index in range(0, len(drawn), COLUMNS):
        axes[index].set_ylabel("b², capped at 1")
    _legend(axes[-1], methods)
    figure.supxlabel("simulations", fontsize=9)
    return figure


def _style(name: str, methods: Sequence[str]) -> dict[str, str]:
    """The method's look; methods of the same colour have different dashes."""
    look_of = {method: method_look(method, methods) for method in methods}
    alike = [method for method in methods if look_of[method]["color"] == look_of[name]["color"]]
    return {**look_of[name], "linestyle": ("-", "--", ":")[alike.index(name) % 3]}


def _line(ax: Any, points: Sequence[Point], style: Mapping[str, str], *, wide: bool) -> None:
    where, values = [n for n, _, _ in points], [value for _, value, _ in points]
    ax.plot(where, values, **style, lw=2.4 if wide else 1.2, ms=9 if wide else 4.5, zorder=4 if wide else 2)
    for n, value, error in points:
        if error is not None:
            ax.plot([n, n], [max(value - error, value / 4), value + error], color=style["color"], lw=0.7, alpha=0.6)


def _legend(ax: Any, methods: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    styles: dict[str, dict[str, Any]] = {name: dict(_style(name, methods)) for name in methods}
    handles = [Line2D([], [], **style, lw=1.3, ms=5.5, label=name) for name, style in styles.items()]
    ax.legend(handles=handles, loc="center left", fontsize=8.5, labelspacing=0.55, handlelength=3.2)


def _short(n: int) -> str:
    return f"{n:,}" if n < 10_000 else f"10{str(len(str(n)) - 1).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
