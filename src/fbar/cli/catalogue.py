"""What there is: problems, methods and scores from the command line."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

from fbar.cli.common import JsonFlag, Whole, open_console, plain_table
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand
from fbar.problems import Benchmark, entries, load
from fbar.question.problem import Problem


def problems(
    name: str | None = None,
    /,
    *,
    observation: Whole | None = None,
    observed: Path | None = None,
    json_: JsonFlag = False,
) -> None:
    """List the problems with known truth, or show the truth of one.

    Examples: "fbar problems", "fbar problems two-moons", "fbar problems two-moons --observation 3 --json",
    "fbar problems sir --observed data.csv".

    Parameters
    ----------
    name
        A problem; by default all are listed.
    observation
        Which of its ten stored observations, 1 to 10; the first by default.
    observed
        A CSV file with one row of your own data, with or without a header. Its truth is computed, which takes up to a
        minute.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if name is None:
        if observation is not None or observed is not None:
            raise InputError("name the problem too, as in: fbar problems NAME --observation 3")
        _list_problems(json_)
        return
    if observation is not None and observed is not None:
        raise InputError("give either --observation or --observed, not both")
    problem = load(name, 1 if observation is None else observation)
    if observed is not None:
        problem = problem.with_observed(read_row(observed))
        if sys.stderr.isatty():
            print("computing the truth for these data; this can take a minute", file=sys.stderr)
    tree = told(name, problem)
    if json_:
        print(json.dumps(tree))
        return
    console = open_console()
    console.print(f"[bold]{name}[/bold]  {tree['title']}")
    if tree["source"]:
        console.print(f"from {tree['source']}", style="dim")
    data = f"{tree['data_dimension']} data" if tree["data_dimension"] else "data that are an event"
    which = "" if tree["observation"] is None else f", observation {tree['observation']}"
    console.print(f"{len(tree['parameters'])} parameters ({', '.join(tree['parameters'])}), {data}{which}")
    for level, tolerance in tree["tolerances"].items():
        console.print(f"tolerance {tolerance:g} accepts {float(level):g} of the simulations from the prior")
    table = plain_table("target", "truth", "spread of f")
    for row in tree["targets"]:
        spread = "" if row["deviation"] is None else f"{row['deviation']:.4g}"
        exact = row["standard_error"] <= 1e-10 * abs(row["truth"])
        truth = f"{row['truth']:.10g}" if exact else shorthand(row["truth"], row["standard_error"])
        table.add_row(row["name"], truth, spread)
    console.print(table)
    console.print(f"truth: {tree['how']}")


def told(name: str, problem: Problem) -> dict[str, Any]:
    """A problem and its truth as data."""
    truth = problem.truth()
    title = next(entry.title for entry in entries() if entry.name == name)
    stored = isinstance(problem, Benchmark) and problem.observation is not None
    tolerances = problem.tolerances if isinstance(problem, Benchmark) and stored else {}
    tree: dict[str, Any] = {
        "name": name,
        "title": title,
        "source": problem.recipe.source if isinstance(problem, Benchmark) else "Forrow & Baker",
        "parameters": list(problem.prior.names),
        "parameter_dimension": problem.prior.dimension,
        "data_dimension": int(problem.data.size) if isinstance(problem, Benchmark) else None,
        "observation": problem.observation if isinstance(problem, Benchmark) else None,
        "observed": problem.data.ravel().tolist() if isinstance(problem, Benchmark) else None,
        "true_parameters": problem.true_parameters if isinstance(problem, Benchmark) else None,
        "targets": truth.as_rows(),
        "how": truth.how,
        "tolerances": {str(level): tolerance for level, tolerance in tolerances.items()},
        "targets_at_tolerance": {},
    }
    for tolerance in tolerances.values():
        at = problem.truth_at(tolerance) if isinstance(problem, Benchmark) else None
        if at is not None:
            tree["targets_at_tolerance"][str(tolerance)] = {"targets": at.as_rows(), "how": at.how}
    return tree


def read_row(path: Path) -> list[float]:
    """One row of numbers from a CSV file, with or without a header."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} is not a CSV file of numbers") from None
    numbers = [_numbers(row) for row in rows]
    if len(numbers) == 2 and numbers[0] is None:
        numbers = numbers[1:]  # the first is a header
    if len(numbers) != 1 or numbers[0] is None:
        raise InputError(f"{path} must contain one row of numbers, with or without a header; it has {len(rows)} rows")
    return numbers[0]


def _numbers(row: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in row]
    except ValueError:
        return None


def _list_problems(json_: bool) -> None:
    listed = entries()
    if json_:
        rows = [{"name": e.name, "title": e.title, "parameters": e.parameters, "data": e.data} for e in listed]
        print(json.dumps({"problems": rows}))
        return
    table = plain_table("problem", "parameters", "data", "")
    for e in listed:
        table.add_row(e.name, str(e.parameters), "event" if e.data is None else str(e.data), e.title)
    console = open_console()
    console.print(table)
    console.print("fbar problems NAME shows a problem's truth; fbar score compares methods on it.")


def methods(*, json_: JsonFlag = False) -> None:
    """List the methods that "fbar infer", "fbar score" and studies know by name, with one line each.

    Parameters
    ----------
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    from fbar.methods import registered

    listed = registered().values()
    if json_:
        rows = [{"name": entry.name, "title": entry.title, "needs": entry.needs} for entry in listed]
        print(json.dumps({"methods": rows}))
        return
    table = plain_table("method", "needs", "")
    for entry in listed:
        table.add_row(entry.name, entry.needs, entry.title)
    console = open_console()
    console.print(table)
    console.print("Studies also take any function algorithm(problem, budget, rng): see help(fbar.Study).")


def scores(*, json_: JsonFlag = False) -> None:
    """List the scores: what each measures, what it needs, and its blind spot.

    Parameters
    ----------
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    from fbar.scores import all_scores

    listed = list(all_scores().values())
    if json_:
        keys = ("name", "title", "formula", "range", "better", "needs", "blind_spot")
        print(json.dumps({"scores": [{key: getattr(score, key) for key in keys} for score in listed]}))
        return
    table = plain_table("score", "", "better", "needs", "blind to")
    for score in listed:
        table.add_row(score.name, score.title, score.better, score.needs, score.blind_spot)
    open_console().print(table)
