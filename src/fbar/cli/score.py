"""Scoring algorithms from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fbar.checks import choice, counted, shown
from fbar.cli.catalogue import finite
from fbar.cli.common import Flag, JsonFlag, MaybeWhole, Number, QuietFlag, Whole, open_console, plain_table
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand
from fbar.methods import Method
from fbar.running.model_file import imported
from fbar.study import Study, StudyResult
from fbar.study.paired import mean_and_error
from fbar.study.ranking import ERROR
from fbar.study.tables import RANKS
from fbar.system.terminal import waiting

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
Budgets = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def score(
    *,
    problem: Several = None,
    method: Several = None,
    budget: Budgets = None,
    trials: MaybeWhole = None,
    score: Several = None,
    target: Several = None,
    tolerance: Number = 1e-2,
    truth: str = "posterior",
    reference: str | None = None,
    preset: str | None = None,
    study: Several = None,
    seed: Whole = 1,
    workers: MaybeWhole = None,
    dask: str | None = None,
    out: Path | None = None,
    quick: Flag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Score algorithms by their error on problems with known truth, over replicated trials.

    Prints who is better and how sure that is; with --out also CSV tables, figures, a report to be opened in a browser,
    and every finished trial: the same command again goes on where it was.

    Examples: "fbar score --problem two-moons --method rejection smc --budget 1000 10000 --trials 50 --out study",
    "fbar score --preset paper-claims --out claims".

    Parameters
    ----------
    problem
        Names of "fbar problems"; two-moons/3 is its third observation, two-moons/fresh new data in every trial.
    method
        Names of "fbar methods", or FILE.py:NAME, a function algorithm(problem, budget, rng) of your own.
    budget
        Simulations that each method may use.
    trials
        Independent repetitions; 50 by default.
    score
        Names of "fbar scores"; mse coverage acceptance-rate ess by default.
    target
        What is estimated, such as mean:theta1; by default all whose truth is known.
    tolerance
        The share of simulations from the prior that the methods' common tolerance accepts: 0.01 or 0.001.
    truth
        "posterior", or "tolerance": the exact truth of ABC at the tolerance, where it is known.
    reference
        The method that costs are relative to; the first one by default.
    preset
        Studies that are ready: paper-claims, infer. With --problem on some of their problems alone.
    study
        With a preset: some of its studies.
    seed
        The same seed gives the same numbers.
    workers
        Processes; as many as there are processors by default.
    dask
        Address of a Dask scheduler to run on.
    out
        Directory for trials, tables, figures and the report.
    quick
        With a preset: a tenth of its trials.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if preset is not None:
        from fbar.cli.presets import run_preset

        if method or budget:
            raise InputError("a preset has methods and budgets of its own; leave them out")
        run_preset(
            preset,
            trials=trials,
            seed=seed,
            workers=workers,
            out=out,
            quick=quick,
            json_=json_,
            quiet=quiet,
            studies=study,
            problems=problem,
        )
        return
    if study:
        raise InputError("--study names some studies of a preset; give --preset too")
    if not problem:
        raise InputError("name at least one problem, as in: --problem two-moons; `fbar problems` lists them")
    if not method:
        raise InputError("name at least one method, as in: --method rejection smc; `fbar methods` lists them")
    if not budget:
        raise InputError("give the number of simulations, as in: --budget 1000 10000")
    made = Study(
        problem,
        contenders(method),
        [_whole(text) for text in budget],
        50 if trials is None else trials,
        score or ("mse", "coverage", "acceptance-rate", "ess"),
        seed,
        targets=target,
        tolerance=tolerance,
        truth=truth,
    )
    known = [contender.name for contender in made.contenders]
    first = known[0] if reference is None else choice(reference, known, "reference method of this study")
    result = made.run(out, workers=workers, engine=dask, progress=not (quiet or json_))
    if json_:
        print(json.dumps(as_tree(result, first)))
    else:
        show(result, first)
    if out is not None:
        write(result, out, quiet=json_)


def _whole(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = 0.5
    if not value >= 1 or value != int(value):
        raise InputError(f"budget must be a positive whole number; got {shown(text)}")
    return int(value)


def contenders(names: list[str]) -> dict[str, Any]:
    """Methods by name, and functions of model files."""
    found: dict[str, Any] = {}
    for name in names:
        if ".py" not in name:
            found[name] = name
            continue
        path, _, attribute = name.partition(":")
        if not Path(path).is_file():
            raise InputError(f"there is no file {path}")
        if not attribute:
            raise InputError(f"name the function too, as in: --method {path}:algorithm")
        given = getattr(imported(Path(path).resolve()), attribute, None)
        if not isinstance(given, Method) and not callable(given):
            raise InputError(f"{path} defines no method or function {shown(attribute)}")
        found[attribute.replace("_", "-")] = given
    return found


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
            notes += [f"{status.count('prior')} from the prior"] if "prior" in status else []
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
            "are the true parameters' ranks uniform? p-values, and how often central intervals held the truth"
        )
        table = plain_table("problem", "budget", "method", "parameter", "p", "50% interval", "90% interval")
        for row in rows:
            where = row["problem"], f"{row['budget']:,}", row["method"], row["parameter"]
            table.add_row(*where, f"{row['p_value']:.2g}", f"{row['coverage_0.5']:.0%}", f"{row['coverage_0.9']:.0%}")
        console.print(table)
    elif RANKS in result.scores:
        console.print(
            "ranks are uniform over fresh data alone: --problem NAME/fresh, with two trials or more", style="dim"
        )


def _show_efficiency(result: StudyResult, reference: str) -> None:
    console = open_console()
    console.print(
        f"\nsimulations for the error that {reference} has at its largest budget, from the fitted lines", markup=False
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
    return dict(_clean(tree))


def _clean(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _clean(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_clean(value) for value in tree]
    return finite(tree) if isinstance(tree, float) else tree


def write(result: StudyResult, out: Path, *, quiet: bool = False) -> None:
    """Tables, figures and a report."""
    from fbar.plot import write_figures

    with waiting("writing tables, figures and the report", shown=not quiet):
        paths = [*result.write(out), *write_figures(result, out)]
        report = result.report(out / "report.html")
    if not quiet:
        open_console().print(f"{len(paths)} tables and figures are in {out}/; look at {report}", markup=False)
