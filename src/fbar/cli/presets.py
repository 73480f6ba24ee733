"""A preset study from the command line: run its studies, show its claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from fbar.checks import counted
from fbar.cli.common import open_console, plain_table
from fbar.errors import FbarError
from fbar.study.presets import Chosen, Claim, preset
from fbar.study.results import StudyResult
from fbar.system.csv_cells import write_rows

if TYPE_CHECKING:
    from fbar.cli.score import Ready, Running


def run_preset(
    name: str,
    ready: Ready,
    running: Running,
    *,
    trials: int | None = None,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    budgets: Sequence[int] = (),
) -> None:
    """Run a preset's studies, or some, and print its claims; ``--out`` keeps the trials, tables and figures of each."""
    chosen, out, json_ = preset(name), running.out, running.json_
    progress = not (running.quiet or json_)
    wanted = Chosen(
        trials=trials,
        seed=running.seed,
        quick=ready.quick,
        studies=ready.study or (),
        problems=problems,
        methods=methods,
        budgets=budgets,
        out=out,
        progress=progress,
    )
    results: dict[str, StudyResult] = {}
    for part, study in chosen.make(wanted).items():
        directory = None if out is None else out / part
        result = study.run(directory, workers=running.workers, engine=running.dask, progress=progress)
        results[part] = result
        console = open_console()
        if not json_:
            names = ", ".join(result.arenas) if chosen.ranks else counted(len(result.arenas), "observation")
            console.print(f"[bold]{part}[/bold]: {names}; {counted(result.number_of_trials, 'trial')}")
        if chosen.ranks and not json_:
            console.print(str(result.ranking()), markup=False)
            console.print()
        if chosen.ranks and directory is not None:
            from fbar.plot import write_figures  # needs matplotlib, which a study without --out does not

            result.write(directory)
            write_figures(result, directory)
    judged = chosen.judged(results, out)
    claims = judged.claims
    if judged.text and not json_:
        print(judged.text)
    if out is not None:
        write_claims(claims, out / "claims.csv")
    if json_:
        print(json.dumps({"preset": name, "claims": [asdict(claim) for claim in claims]}))
        return
    if not claims:
        return
    shown = plain_table("claim", "problem", "found", "holds")
    before = ""
    for claim in claims:
        text = "" if claim.text == before else claim.text
        before = claim.text
        shown.add_row(text, claim.problem, claim.found, "yes" if claim.holds else Text("no", style="bold red"))
    open_console().print(shown)
    held = sum(claim.holds for claim in claims)
    open_console().print(f"{held} of {len(claims)} hold; {chosen.note}")


def write_claims(claims: list[Claim], path: Path) -> None:
    """The claims as a CSV file."""
    try:
        rows = ([claim.text, claim.problem, claim.found, claim.holds] for claim in claims)
        write_rows(path, ["claim", "problem", "found", "holds"], rows)
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None
