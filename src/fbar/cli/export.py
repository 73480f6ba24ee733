"""A recorded run as a file for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fbar import model_file
from fbar.checks import BoolArray, FloatArray, counted
from fbar.cli.common import Flag, TrustFlag, keep_trust, lacking, say, warn
from fbar.cli.views import OWN, ViewOf
from fbar.csv_cells import cell
from fbar.errors import FbarError, InputError, LedgerError, MissingExtra, NoPosterior
from fbar.estimators.cells import CellErrors
from fbar.files import written_beside
from fbar.inference import load
from fbar.ledger import Ledger
from fbar.outcomes import Failure, Simulated
from fbar.points import Points
from fbar.problem import Problem
from fbar.result import Result
from fbar.schema import check_legs

if TYPE_CHECKING:
    from pandas import DataFrame


def export(
    run: Path,
    /,
    *,
    format: Literal["parquet", "csv", "netcdf"] = "csv",
    out: Path | None = None,
    all: Flag = False,
    force: Flag = False,
    view: ViewOf = OWN,
    trust: TrustFlag = False,
) -> None:
    """Write a run's posterior, or every one of its simulations, to a file.

    Examples: "fbar export my-run --format parquet", "fbar export my-run --all --out simulations.csv".

    Parameters
    ----------
    run
        The run's directory.
    format
        csv and parquet have a row for each weighted point; netcdf has equally weighted draws, for ArviZ.
    out
        The file to write; RUN.FORMAT in this directory by default.
    all
        Every recorded simulation in place of the weighted posterior: round and block, parameters, summaries, recorded
        outputs, failure and, where known, cost; its distance to the data, whether it was accepted, and its weight in
        the posterior where there is one for each simulation. Of a run that was made from Python these last three are
        not known. Of a damaged record the simulations that are sound are written, what is missing is said on standard
        error, and the exit status is 1.
    force
        Replace a file that is there already.
    trust
        Execute the model file of a run that is not yours, and remember that it may be.
    """
    path = out or Path(f"{run.resolve().name}.{'nc' if format == 'netcdf' else format}")
    if path.exists() and not force:
        raise InputError(f"{path} is there already; give another name (--out FILE), or --force to replace it")
    keep_trust(run, trust)
    if all:
        if format == "netcdf":
            raise InputError("--all writes csv or parquet; netcdf holds a posterior")
        if view:
            raise InputError("--all writes the simulations as they are; --at, --adjusted and --extrapolated do not")
        frame, note, lacks = _simulations(run, trust)
    else:
        result, note, lacks = view.of(load(run, trust=trust)), "", ""
        if result.damage:
            raise LedgerError(f"{result.damage}. Nothing was written; --all writes the simulations that are sound")
        if format == "netcdf":
            with _written(path) as new:
                result.to_arviz().to_netcdf(str(new))
            say(f"wrote {path}")
            return
        frame = result.to_pandas()
    with _written(path) as new:
        if format == "parquet":
            frame.to_parquet(new, index=False)
        else:
            _without_formulas(frame).to_csv(new, index=False)
    say(f"wrote {counted(len(frame), 'row')} to {path}")
    if note:
        say(note)
    if lacks:
        warn(f"{path} is not complete: {lacks}; mend the run with: fbar resume {run}")
        raise SystemExit(1)


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """A file to write to that takes the place of ``path`` when it is whole."""
    try:
        with written_beside(path) as new:
            yield new
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None


def _without_formulas(frame: DataFrame) -> DataFrame:
    """A table whose names and texts no spreadsheet evaluates."""
    texts = {name: frame[name].map(cell) for name in frame if getattr(frame[name].dtype, "kind", "O") not in "biufc"}
    return frame.assign(**texts).rename(columns=cell)


def _simulations(run: Path, trust: bool) -> tuple[DataFrame, str, str]:
    """Every recorded simulation as a table, what is not said of them, and what is damaged or missing."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table") from error
    with Ledger(run, create=False, driver=False) as ledger:
        check_legs(ledger.legs, run)
        blocks = list(ledger.blocks())
        lacks = lacking(ledger)
    if not blocks:
        raise FbarError(f"{run} has no recorded simulations")
    result, problem, note = _loaded(run, trust)
    frames, distances = [], []
    for round, block, points, repeats, outcomes in blocks:
        known = isinstance(outcomes, Simulated)
        theta = points if repeats is None or not known else points.repeat(repeats)
        own: dict[str, Any] = {name: theta[name] for name in theta}
        if not isinstance(outcomes, Simulated):
            about = {"simulations": repeats if repeats is not None else 1, "accepted": outcomes.weight}
            frames.append(pandas.DataFrame(_beside(own, {"round": round, "block": block}, about)))
            continue
        own |= {name: list(values) for name, values in outcomes.recorded.items()}
        summaries = np.asarray(outcomes.summaries).reshape(len(outcomes.summaries), -1)
        about = {f"summary{i + 1}": summaries[:, i] for i in range(summaries.shape[1])}
        kinds = np.array([kind.name.lower() for kind in Failure])
        assert outcomes.failure is not None
        about["failure"] = np.where(outcomes.failure == 0, "", kinds[outcomes.failure])
        about |= {} if outcomes.cost is None else {"cost": outcomes.cost}
        frames.append(pandas.DataFrame(_beside(own, {"round": round, "block": block}, about)))
        if problem is not None:
            measure = None if result is None else result.run.measure_told
            distances.append(problem.distances(outcomes, measure=measure)[0])
    frame = pandas.concat(frames, ignore_index=True)
    if not distances:
        return frame, note, lacks
    judged: dict[str, npt.NDArray[Any]] = {"distance": np.concatenate(distances)}
    if result is None:
        judged["accepted"] = np.zeros(len(frame), dtype=bool)
    else:
        theta = Points({name: frame[name].to_numpy() for name in blocks[0][2]})
        judged |= _judged(result, theta, judged["distance"])
    for name, column in judged.items():
        frame[_free(name, frame)] = column
    return frame, note, lacks


def _loaded(run: Path, trust: bool) -> tuple[Result | None, Problem | None, str]:
    """A run's result and problem, and what is said where they cannot be had: who accepted nothing has no result."""
    try:
        result = load(run, trust=trust)
        return result, result.run.problem, ""
    except NoPosterior:
        with Ledger(run, create=False, driver=False) as ledger:
            first = ledger.legs[0].settings
        if first.get("summaries") or first["method"].get("distance"):  # these were learnt
            return None, None, "without distance: nothing was accepted"
        return None, model_file.of_run(run, first["model"], trust=trust).problem, "nothing was accepted"
    except FbarError as error:
        return None, None, f"without distance, accepted and weight: {error}"


def _free(name: str, taken: Any) -> str:
    """A column's name, or another one where a parameter or a recorded output is called so."""
    return f"{name}_of_simulation" if name in taken else name


def _beside(own: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Our columns before and after the user's, which keep their names."""
    return {
        **{_free(name, own): values for name, values in before.items()},
        **own,
        **{_free(name, own): values for name, values in after.items()},
    }


def _judged(result: Result, theta: Points, distance: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Which simulations were accepted, and their weights in the posterior.

    A posterior of draws holds the accepted ones in the order in which they were recorded. Blocks that were asked for
    ahead of need are recorded and not used, so that coming near is not enough.
    """
    within = result.run.tolerance_told or result.run.stages()[-1].tolerance or 0.0
    known, near = ~np.isnan(distance), distance <= within
    if isinstance(result.posterior.errors, CellErrors):  # its weights are those of the values of θ
        return {"accepted": near}
    for candidates in (near, known):  # beyond the tolerance some kernels accept too
        rows = _places(result.posterior.points, theta, candidates)
        if rows is not None:
            accepted, weight = np.zeros(theta.rows, dtype=bool), np.zeros(theta.rows)
            accepted[rows], weight[rows] = True, result.posterior.weights
            return {"accepted": accepted, "weight": weight}
    return {"accepted": near}


def _places(points: Points, theta: Points, candidates: BoolArray) -> npt.NDArray[np.int64] | None:
    """Where points stand among the candidates, in the same order; None if some do not."""
    rows = np.flatnonzero(candidates)
    wanted = list(zip(*(points[name].tolist() for name in theta), strict=True))
    found: list[int] = []
    given = zip(*(theta[name][rows].tolist() for name in theta), strict=True)
    for row, values in zip(rows.tolist(), given, strict=True):
        if len(found) < len(wanted) and _same(values, wanted[len(found)]):
            found.append(row)
    return np.array(found, dtype=np.int64) if len(found) == len(wanted) else None


def _same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether two θ are equal; a parameter that a model does not have is not a number in both."""
    return all(a == b or (a != a and b != b) for a, b in zip(first, second, strict=True))
