"""The table of the study of systems: b² of every method on every problem, from its stored rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

ROWS = Path(__file__).parents[2] / "benchmarks" / "systems" / "systems.csv"

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def found(table: Table) -> str:
    """One table for each budget, the methods in the order of the study."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    parts = []
    for budget in sorted({int(row["budget"]) for row in rows}, reverse=True):
        for study in dict.fromkeys(row["study"] for row in rows if int(row["budget"]) == budget):
            own = [row for row in rows if int(row["budget"]) == budget and row["study"] == study]
            problems = list(dict.fromkeys(row["problem"] for row in own))
            runs = sorted({int(row["trials"]) for row in own})
            parts.append(f"**{budget:,} simulations** (study `{study}`, {' or '.join(map(str, runs))} runs of each)")
            lines = [_line(method, problems, own) for method in dict.fromkeys(row["method"] for row in own)]
            costs = {row["method"]: row["cost"] for row in own if row.get("cost")}
            if costs:  # in real simulations, where a cheap simulator ran too
                lines = [[*line, f"{float(costs[line[0].strip('`')]):,.0f}"] for line in lines]
            parts.append(table(["method", *problems, "seconds", *(["cost"] if costs else [])], lines))
    return "\n\n".join(parts)


def _line(method: str, problems: Sequence[str], rows: Sequence[dict[str, str]]) -> list[str]:
    mine = {row["problem"]: row for row in rows if row["method"] == method}
    cells = [_cell(mine[problem]) if problem in mine else "–" for problem in problems]
    seconds = [float(row["seconds"]) for row in mine.values() if row["seconds"]]
    spread = dict.fromkeys(_seconds(value) for value in (min(seconds), max(seconds))) if seconds else ["–"]
    return [f"`{method}`", *cells, " to ".join(spread)]


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _cell(row: dict[str, str]) -> str:
    """b² with its error; 1 stands for an answer that is no better than none."""
    if not row["b2"]:
        return "no answer"
    value = float(row["b2"])
    shown = "1" if value >= 0.9995 else f"{value:.2g}" + (f" ± {float(row['b2_error']):.1g}" if row["b2_error"] else "")
    return shown + (f" ({row['failed']} failed)" if int(row["failed"]) else "")
