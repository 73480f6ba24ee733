"""The paper's figures and tables from the command line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from fbar.checks import positive_integer
from fbar.cli.common import Flag, JsonFlag, MaybeWhole, QuietFlag, Whole, fail
from fbar.errors import FbarError
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from fbar.paper import FigureRecord, PaperClaim


def paper(
    *names: str,
    trials: MaybeWhole = None,
    quick: Flag = False,
    seed: Whole = 1,
    workers: MaybeWhole = None,
    out: Path = Path("paper-results"),
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
    text_likelihood: Flag = False,
    as_published: Flag = False,
) -> None:
    """Regenerate figures and tables of the paper: data, pictures, and its claims compared with our numbers.

    Each experiment writes NAME.csv, NAME.png and NAME.svg. Without names, all are run:
    fig1 fig2 table3 fig3 fig4 fig5 figS1 figS2 figS3 figS4 figS5 beyond-continuous
    beyond-figS5 beyond-systems.

    Examples: "fbar paper", "fbar paper fig1 table3 --quick", "fbar paper figS2 --trials 500 --json".

    Parameters
    ----------
    names
        Which figures and tables; by default all.
    trials
        Number of trials; by default the paper's.
    quick
        A twentieth of the paper's trials (at least 100), for a first look; claims tested at 3 standard errors may fail.
    seed
        The same seed gives the same numbers.
    workers
        Number of processes, by default one for each processor; it changes no result.
    out
        Directory for the files.
    quiet
        Show no progress, only the results.
    json_
        Print rows and claims as one JSON object, and nothing else, to standard output.
    text_likelihood
        figS3 and figS4: use the likelihood exp(-(theta-5.5)^2/2) of the paper's text instead of
        exp(-(theta-5.5)^2), which made its figures.
    as_published
        fig4 and fig5: with the choices and errors of the printed figures; see docs/reference/overview.md.
    """
    from fbar.paper import EXPERIMENTS, Options, experiment

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    try:
        chosen = [experiment(name) for name in dict.fromkeys(names or EXPERIMENTS)]
        options = Options(trials, quick, seed, text_likelihood, as_published, workers)
        options.number_of_trials(1)
        Seeds.of(seed)
        if workers is not None:
            positive_integer(workers, "workers")
        results: dict[str, FigureRecord] = {}
        with _progress(len(chosen), quiet) as advance:
            for index, item in enumerate(chosen):
                start = time.perf_counter()
                record = item.compute(replace(options, progress=advance(index, item.name)))
                results[item.name] = record
                _write(record, item.draw, out)
                if not json_:
                    seconds = time.perf_counter() - start
                    console.print(f"[bold]{item.name}[/bold]  {item.title}  ({seconds:.1f} s)")
    except FbarError as error:
        fail(error)
    if json_:
        print(json.dumps({"experiments": {name: record.as_dict() for name, record in results.items()}}))
        return
    claims = [claim for record in results.values() for claim in record.claims]
    if claims:
        console.print(_claims_table(claims))
        for name, record in results.items():
            for note in record.notes:
                console.print(f"{name}: {note}", style="dim")
        differ = sum(not claim.agrees for claim in claims)
        console.print(f"{len(claims) - differ} of {len(claims)} claims agree; data and pictures are in {out}/")


def _write(record: FigureRecord, draw: Callable[[FigureRecord], Figure] | None, out: Path) -> None:
    from fbar.paper.style import render

    try:
        out.mkdir(parents=True, exist_ok=True)
        record.write_csv(out / f"{record.name}.csv")
        if draw is not None:
            render(draw, record, out / record.name)
    except OSError as error:
        raise FbarError(f"cannot write to {out}: {error.strerror or error}") from None


def _claims_table(claims: list[PaperClaim]) -> Table:
    table = Table(title="the paper's claims and our values", title_justify="left", box=None, pad_edge=False)
    for column in ("", "claim", "paper", "ours", "agrees if", "agrees"):
        table.add_column(column, overflow="fold")
    previous = ""
    for claim in claims:
        name = "" if claim.experiment == previous else claim.experiment
        previous = claim.experiment
        agrees = "yes" if claim.agrees else "[bold red]no[/bold red]"
        table.add_row(name, claim.text, claim.paper, claim.ours, claim.rule, agrees)
    return table


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Callable[[int, str], Callable[[float], None]]]:
    """A progress bar on a terminal's standard error; nothing when it is piped, or quiet is asked for."""
    if quiet or not sys.stderr.isatty():
        yield lambda index, name: lambda share: None
        return
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("paper", total=float(total))

        def advance(index: int, name: str) -> Callable[[float], None]:
            return lambda share: bar.update(task, completed=index + share, description=name)

        yield advance
