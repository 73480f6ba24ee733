"""What a study found, as tables on the terminal and as data."""

from __future__ import annotations

from typing import Any

from fbar.checks import counted
from fbar.cli.common import open_console, plain_table
from fbar.estimation.estimate import shorthand
from fbar.study import StudyResult
from fbar.study.paired import mean_and_error
from fbar.study.ranking import ERROR
from fbar.study.tables import RANKS
from fbar.system.json_values import as_json


def show(result: StudyResult, reference: str) -> None:
    """Tables for people."""
    console = open_console()
    for score_name in result.scores:
        table = plain_table("problem", "budget", "method", result.label(score_name), "trials", "")
        for cell in result.cells:
            values = result.values(score_name, cell.problem, cell.method, cell.budget)
            good = values[values == values]
            status = result.statuses(*cell.key)
            notes = [f"{status.count('failed')} failed"] if "failed" in status else []
            notes += [f"{status.count('prior')} scored with the prior"] if "prior" in status else []
            shown = shorthand(*mean_and_error(values)) if good.size else "–"
            table.add_row(cell.problem, f"{cell.budget:,}", cell.method, shown, str(good.size), ", ".join(notes))
        console.print(table)
        console.print()
    _show_calibration(result)
    if ERROR in result.scores and result.number_of_trials > 1:
        console.print(str(result.ranking()), markup=False)
        if len({cell.budget for cell in result.cells}) > 1:
            _show_efficiency(result, reference)
        for other in result.scores:
            if other != ERROR and result.direction(other) != "nominal" and len(result.contenders()) > 1:
                console.print(str(result.against(other)), markup=False)
    for row in result.failures():
        console.print(
            f"{row['method']} failed on {row['problem']} in {counted(row['trials'], 'trial')}: {row['message']}",
            markup=False,
        )
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in result.undefined():
        reasons.setdefault((row["score"], row["why"]), []).append(f"{row['method']} on {row['problem']}")
    for (name, why), where in reasons.items():
        console.print(f"no {name} for {', '.join(where)}: {why}", style="dim", markup=False)
    for arena in result.arenas.values():
        if arena.tolerance > 0:
            known = "the truth of ABC at it" if result.settings["truth"] == "tolerance" else "the true posterior"
            how = arena.scored.truth().how
            line = f"{arena.name}: all methods at tolerance {arena.tolerance:g}, compared with {known} ({how})"
            console.print(line, style="dim", markup=False)


def _show_calibration(result: StudyResult) -> None:
    rows, console = result.calibration(), open_console()
    if rows:
        console.print(
            "uniformity of the true parameters' ranks: p-values, and how often central intervals contained the truth"
        )
        table = plain_table("problem", "budget", "method", "parameter", "p", "50% interval", "90% interval")
        for row in rows:
            where = row["problem"], f"{row['budget']:,}", row["method"], row["parameter"]
            table.add_row(*where, f"{row['p_value']:.2g}", f"{row['coverage_0.5']:.0%}", f"{row['coverage_0.9']:.0%}")
        console.print(table)
    elif RANKS in result.scores:
        console.print(
            "ranks are uniform only over fresh data: use --problem NAME/fresh with at least two trials", style="dim"
        )


def _show_efficiency(result: StudyResult, reference: str) -> None:
    console = open_console()
    console.print(
        f"\nsimulations needed for the error of {reference} at its largest budget, from the fitted lines", markup=False
    )
    table = plain_table("problem", "method", "rate", "simulations", f"relative to {reference}")
    rates = {(c.problem, c.method): c for c in result.curves()}
    for row in result.efficiency(reference):
        c = rates[row["problem"], row["method"]]
        needed = (
            shorthand(row["simulations"], row["standard_error"]) if row["simulations"] == row["simulations"] else "–"
        )
        ratio = shorthand(row["relative"], row["relative_error"]) if row["relative"] == row["relative"] else "–"
        table.add_row(row["problem"], row["method"], shorthand(c.rate, c.rate_error), needed, ratio)
    console.print(table)


def as_tree(result: StudyResult, reference: str) -> dict[str, Any]:
    """All that the tables show, as data without NaN."""
    tree: dict[str, Any] = {
        "settings": result.settings,
        "summary": result.summary(),
        "failures": result.failures(),
        "undefined": result.undefined(),
        "calibration": result.calibration(),
    }
    if ERROR in result.scores and result.number_of_trials > 1:
        ranking = result.ranking()
        tree |= {"ranking": ranking.as_rows(), "pairs": ranking.pair_rows(), "overall": ranking.overall()}
        if len({cell.budget for cell in result.cells}) > 1:
            tree["efficiency"] = result.efficiency(reference)
    return dict(as_json(tree))
