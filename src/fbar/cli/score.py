"""Scoring algorithms from the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from fbar.checks import choice, shown
from fbar.cli.common import Flag, JsonFlag, MaybeWhole, Number, QuietFlag, Whole, open_console
from fbar.cli.score_tables import as_tree, show
from fbar.errors import InputError
from fbar.methods import Method
from fbar.running.model_file import imported
from fbar.study import Study, StudyResult
from fbar.study.study import DEFAULT_SCORES
from fbar.system.terminal import waiting

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]

COMPARED = Group.create_ordered("What is compared")
PRESETS = Group.create_ordered("Ready-made studies")
RUNNING = Group.create_ordered("Running")


@Parameter(name="*", group=COMPARED)
@dataclass(frozen=True)
class Compared:
    """What is compared, and by what.

    Parameters
    ----------
    problem
        Names listed by "fbar problems"; two-moons/3 is its third observation, two-moons/fresh has new data in every
        trial.
    method
        Names listed by "fbar methods", or FILE.py:NAME for your own function algorithm(problem, budget, rng).
    budget
        Numbers of simulations that each method may use.
    trials
        Independent repetitions; 50 by default.
    score
        Names listed by "fbar scores"; by default mse, coverage, acceptance-rate and ess.
    target
        What is estimated, such as mean:theta1; by default all targets with a known truth.
    tolerance
        The tolerance of all methods, as the share of simulations from the prior that it accepts: 0.01 or 0.001.
    truth
        "posterior", or "tolerance" for the exact truth of ABC at the tolerance, where it is known.
    reference
        The method that costs are relative to; by default the first.
    """

    problem: Several = None
    method: Several = None
    budget: Several = None
    trials: MaybeWhole = None
    score: Several = None
    target: Several = None
    tolerance: Number = 1e-2
    truth: str = "posterior"
    reference: str | None = None


@Parameter(name="*", group=PRESETS)
@dataclass(frozen=True)
class Ready:
    """A preset in place of one's own study.

    Parameters
    ----------
    preset
        Run ready-made studies: paper-claims, infer, truth or systems. --problem restricts them to some of their
        problems, of truth also to some observations (sir/3, sir/odd, sir/fresh); --method and --budget restrict truth too.
    study
        Only these studies of the preset.
    quick
        A tenth of the preset's trials.
    """

    preset: str | None = None
    study: Several = None
    quick: Flag = False


@Parameter(name="*", group=RUNNING)
@dataclass(frozen=True)
class Running:
    """How it is run, and what is kept.

    Parameters
    ----------
    seed
        The same seed gives the same numbers.
    workers
        Number of processes; by default one for each processor.
    dask
        Address of a Dask scheduler to run on.
    out
        Directory for trials, tables, figures and the report.
    quiet
        Show no progress, only the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """

    seed: Whole = 1
    workers: MaybeWhole = None
    dask: str | None = None
    out: Path | None = None
    quiet: QuietFlag = False
    json_: JsonFlag = False


def score(*, compared: Compared | None = None, ready: Ready | None = None, running: Running | None = None) -> None:
    """Score algorithms by their error on problems with known truth, over replicated trials.

    Prints which method is better and how certain that is. --out also writes CSV tables, figures, a report to open in a
    browser, and every finished trial: rerun the command to resume it.

    Examples: "fbar score --problem two-moons --method rejection smc --budget 1000 10000 --trials 50 --out study",
    "fbar score --preset paper-claims --out claims".
    """
    compared, ready, running = compared or Compared(), ready or Ready(), running or Running()
    if ready.preset is not None:
        from fbar.cli.presets import run_preset

        run_preset(
            ready.preset,
            ready,
            running,
            trials=compared.trials,
            problems=compared.problem or (),
            methods=compared.method or (),
            budgets=[_whole(text) for text in compared.budget or ()],
        )
        return
    if ready.study:
        raise InputError("--study chooses studies of a preset; give --preset too")
    made = _study(compared, running.seed)
    known = [contender.name for contender in made.contenders]
    first = known[0] if compared.reference is None else choice(compared.reference, known, "reference method")
    silent = running.quiet or running.json_
    result = made.run(running.out, workers=running.workers, engine=running.dask, progress=not silent)
    if running.json_:
        print(json.dumps(as_tree(result, first)))
    else:
        show(result, first)
    if running.out is not None:
        write(result, running.out, quiet=running.json_)


def _study(compared: Compared, seed: int) -> Study:
    if not compared.problem:
        raise InputError("name at least one problem, as in: --problem two-moons; fbar problems lists them")
    if not compared.method:
        raise InputError("name at least one method, as in: --method rejection smc; fbar methods lists them")
    if not compared.budget:
        raise InputError("give the number of simulations, as in: --budget 1000 10000")
    return Study(
        compared.problem,
        contenders(compared.method),
        [_whole(text) for text in compared.budget],
        50 if compared.trials is None else compared.trials,
        compared.score or DEFAULT_SCORES,
        seed,
        targets=compared.target,
        tolerance=compared.tolerance,
        truth=compared.truth,
    )


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


def write(result: StudyResult, out: Path, *, quiet: bool = False) -> None:
    """Tables, figures and a report."""
    from fbar.plot import write_figures

    with waiting("writing tables, figures and the report", shown=not quiet):
        paths = [*result.write(out), *write_figures(result, out)]
        report = result.report(out / "report.html")
    if not quiet:
        open_console().print(f"{len(paths)} tables and figures are in {out}/; the report is {report}", markup=False)
