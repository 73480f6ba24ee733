"""A recorded run as a file for other programs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fbar.checks import counted
from fbar.cli.common import Flag, MaybeWhole, TrustFlag, keep_trust, lacking, say, warn
from fbar.cli.export_rows import Columns, Judge, free_name
from fbar.cli.tables import whole, write_table
from fbar.cli.views import OWN, ViewOf
from fbar.errors import FbarError, InputError, LedgerError, MissingExtra, NoPosterior
from fbar.ledger import LedgerReader
from fbar.ledger.settings import NAMES
from fbar.question.problem import Problem
from fbar.question.summary_names import recorded_labels
from fbar.results.result import Result
from fbar.running import load, model_file
from fbar.system.schema import check_legs
from fbar.system.terminal import waiting

if TYPE_CHECKING:
    from pandas import DataFrame


def export(
    run: Path,
    /,
    *,
    format: Literal["parquet", "csv", "netcdf"] = "csv",
    out: Path | None = None,
    all: Flag = False,
    sample: MaybeWhole = None,
    force: Flag = False,
    view: ViewOf = OWN,
    trust: TrustFlag = False,
) -> None:
    """Write a run's posterior, or every one of its simulations, to a file.

    Examples: "fbar export my-run --format parquet", "fbar export my-run --sample 1000",
    "fbar export my-run --all --out simulations.csv".

    Parameters
    ----------
    run
        The run's directory.
    format
        csv and parquet have a row for each weighted point; netcdf has equally weighted draws, for ArviZ.
    out
        The file to write; RUN.FORMAT in this directory by default.
    all
        Every recorded simulation instead of the weighted posterior: round and block, parameters, summaries, recorded
        outputs, failure and, where known, cost; its distance to the data, whether it was accepted (or used, where the
        answer is at the data), and its weight in the posterior where each simulation has one. These last three are not
        known for a run that was made from Python. If the record is damaged, the intact simulations are written,
        standard error lists what is missing, and the exit status is 1.
    sample
        Write this many equally weighted draws from the posterior instead of the weighted points.
    force
        Replace an existing file.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    """
    path = out or Path(f"{run.resolve().name}.{'nc' if format == 'netcdf' else format}")
    if path.exists() and not force:
        raise InputError(f"{path} already exists; choose another name (--out FILE), or use --force to replace it")
    if all:
        if sample is not None:
            raise InputError("--all writes what was recorded, --sample draws from the posterior; give one of them")
        if format == "netcdf":
            raise InputError("--all writes csv or parquet; netcdf is for posteriors")
        if view:
            raise InputError(
                "--all writes what was recorded; it cannot be combined with --at, --at-data, --adjusted or "
                "--extrapolated"
            )
        note, lacks = _write_all(run, path, format, keep_trust(run, trust))
    else:
        result, note, lacks = view.of(load(run, trust=keep_trust(run, trust))), "", ""
        if result.damage:
            raise LedgerError(f"{result.damage}. Nothing was written; --all writes the intact simulations")
        if format == "netcdf":
            with whole(path) as new, _warnings_printed():
                result.to_arviz(draws=sample).to_netcdf(str(new))
            say(f"wrote {path}")
            return
        _say_rows(write_table(path, format, [_posterior_frame(result, sample)]), path)
    if note:
        say(note)
    if lacks:
        warn(f"{path} is incomplete: {lacks}; repair the run with: fbar resume {run}")
        raise SystemExit(1)


def _posterior_frame(result: Result, sample: int | None) -> DataFrame:
    """The weighted points as a table, or equally weighted draws."""
    if sample is None:
        return result.to_pandas()
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table") from error
    with _warnings_printed():
        return pandas.DataFrame(dict(result.sample(sample)))


@contextmanager
def _warnings_printed() -> Iterator[None]:
    """Python's warnings as lines of the command."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in found:
        if one.category is UserWarning:
            warn(str(one.message))


def _say_rows(rows: int, path: Path) -> None:
    say(f"wrote {counted(rows, 'row')} to {path}")


def _write_all(run: Path, path: Path, format: str, trust: bool) -> tuple[str, str]:
    """Write every recorded simulation; returns which columns are missing and why, and what is damaged or missing.

    Blocks are read from the record one by one, twice: to find the columns and the accepted simulations, and to write
    them.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table") from error
    with LedgerReader(run) as ledger:
        check_legs(ledger.legs, run)
        if next(ledger.blocks(), None) is None:
            raise FbarError(f"{run} has no recorded simulations")
        judge, note = _judge(run, trust)
        names = _recorded_names(ledger.legs[-1].settings) if judge is None else judge.summary_names
        with waiting(f"reading {run}") as line:
            columns, sound = Columns(judge, names), 0
            examples: list[tuple[Any, DataFrame]] = []
            for part in columns.parts(ledger, line):
                sound += part.simulations
                if part.kind not in {kind for kind, _ in examples}:
                    examples.append((part.kind, part.frame(pandas).head(1)))
                if judge is not None:
                    judge.look_at(part.theta, part.distance)
            while judge is not None and judge.looks_again():
                for part in columns.parts(ledger, line):
                    judge.look_at(part.theta, part.distance)
        shape = pandas.concat([example for _, example in examples], ignore_index=True)
        taken = list(shape)

        def frames() -> Iterator[DataFrame]:
            start = 0
            with waiting(f"writing {path}") as line:
                for part in columns.parts(ledger, line):
                    frame = part.frame(pandas).reindex(columns=taken)
                    frame = frame.astype({n: shape[n].dtype for n in taken if frame[n].dtype != shape[n].dtype})
                    for name, column in ({} if judge is None else judge.columns(start, part.distance)).items():
                        frame[free_name(name, taken)] = column
                    start += len(frame)
                    yield frame

        _say_rows(write_table(path, format, frames()), path)
        return note, lacking(ledger, sound)


def _recorded_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Names for the summaries of a run whose problem is not known; those that were learned have none."""
    return () if settings.get("summaries") else recorded_labels(settings["problem"].get(NAMES))


def _judge(run: Path, trust: bool) -> tuple[Judge | None, str]:
    """What finds distances and accepted simulations; without it, the reason why there is none."""
    result, problem, note = _loaded(run, trust)
    return (None if problem is None else Judge(problem, result)), note


def _loaded(run: Path, trust: bool) -> tuple[Result | None, Problem | None, str]:
    """A run's result and problem, and the reason where one is missing: a run that accepted nothing has no result."""
    try:
        result = load(run, trust=trust)
        return result, result.run.problem, ""
    except NoPosterior:
        with LedgerReader(run) as ledger:
            first = ledger.legs[0].settings
        if first.get("summaries") or first["method"].get("distance"):  # these were learned
            return None, None, "without distance: nothing was accepted"
        return None, model_file.of_run(run, first["model"], trust=trust).problem, "nothing was accepted"
    except FbarError as error:
        return None, None, f"without distance, accepted and weight: {error}"
