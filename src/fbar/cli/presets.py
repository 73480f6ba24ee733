"""A preset study from the command line: run its studies, show its claims."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from fbar.cli.common import open_console, plain_table
from fbar.errors import FbarError
from fbar.study.presets import Claim, preset
from fbar.study.results import StudyResult
from fbar.system.csv_cells import write_rows


def run_preset(
    name: str,
    *,
    trials: int | None,
    seed: int,
    workers: int | None,
    out: Path | None,
    quick: bool,
    json_: bool,
    quiet: bool = False,
    studies: list[str] | None = None,
    problems: list[str] | None = None,
) -> None:
    """Run a preset's studies, or some, and print its claims; ``--out`` keeps the trials, tables and figures of each."""
    chosen = preset(name)
    results: dict[str, StudyResult] = {}
    for part, study in chosen.make(trials, seed, quick=quick, studies=studies, problems=problems).items():
        directory = None if out is None else out / part
        result = study.run(directory, workers=workers, progress=not (quiet or json_))
        results[part] = result
        if not json_:
            open_console().print(f"[bold]{part}[/bold]: {', '.join(result.arenas)}; {result.number_of_trials} trials")
            open_console().print(str(result.ranking()), markup=False)
            open_console().print()
        if directory is not None:
            from fbar.plot import write_figures  # needs matplotlib, as a study without --out does not

            result.write(directory)
            write_figures(result, directory)
    claims = chosen.claims(results)
    if out is not None:
        _write(claims, out / "claims.csv")
        if chosen.write is not None:
            chosen.write(results, out)
    if json_:
        print(json.dumps({"preset": name, "claims": [asdict(claim) for claim in claims]}))
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


def _write(claims: list[Claim], path: Path) -> None:
    try:
        rows = ([claim.text, claim.problem, claim.found, claim.holds] for claim in claims)
        write_rows(path, ["claim", "problem", "found", "holds"], rows)
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None
