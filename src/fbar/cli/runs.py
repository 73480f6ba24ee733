"""Inference from the command line: init, infer, show, explain, resume, extend, export."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fbar import model_file, stopping
from fbar.cli.common import Flag, JsonFlag, MaybeWhole, QuietFlag
from fbar.engine import Engine, as_engine
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.estimate import shorthand
from fbar.inference import continue_task, extend_run, load, make_task, run_task
from fbar.ledger import Ledger
from fbar.methods.forecasts import Forecast
from fbar.methods.named import restored
from fbar.result import Result, cost_in_words

Targets = Annotated[list[str] | None, Parameter(name=["--target", "-t"], consume_multiple=True, negative="")]
Precisions = Annotated[list[str] | None, Parameter(name="--precision", consume_multiple=True, negative="")]


def init(file: Path = Path("model.py"), /) -> None:
    """Write a commented model file that runs at once.

    Example: "fbar init flu.py", then "fbar infer flu.py --budget 20000 --tolerance 2".

    Parameters
    ----------
    file
        The file to write; it must not be there yet.
    """
    if file.exists():
        raise InputError(f"{file} is there already; give another name, as in: fbar init other.py")
    file.write_text(model_file.TEMPLATE.format(name=file), encoding="utf-8")
    print(f"wrote {file}; run it with: fbar infer {file} --budget 20000")


def infer(
    model: str,
    /,
    *,
    target: Targets = None,
    method: str | None = None,
    budget: MaybeWhole = None,
    tolerance: float | None = None,
    precision: Precisions = None,
    run: Path | None = None,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: float | None = None,
    seed: MaybeWhole = None,
    block_size: MaybeWhole = None,
    summaries: str | None = None,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Estimate posterior expectations with error bars.

    MODEL is a Python file that defines a problem and its targets; "fbar init" writes one.

    Examples: "fbar infer model.py --budget 20000",
    "fbar infer model.py --tolerance 2 --precision rate=1% --run my-run --workers 4",
    "fbar infer model.py -t mean:rate -t 'probability:rate > 10' --method smc --tolerance 2".

    Parameters
    ----------
    model
        The model file, or FILE.py:NAME for a problem of another name than "problem".
    target
        What is wanted, in place of the file's targets: mean:NAME, variance:NAME, covariance:A,B, quantile:NAME,LEVEL,
        probability:TEXT, interval:LOW<NAME<HIGH, density:NAME=X, model-probability:NAME, expectation:TEXT.
    method
        targeted, rejection, smc, importance, adaptive or adaptive-posterior. By default the model file's own "method",
        with all its settings; without one, adaptive on finite spaces and targeted on others.
    budget
        The largest number of simulations.
    tolerance
        How close simulations must come to the data; smc ends at it. Without one targeted chooses it from the budget.
    precision
        Standard errors that end the run, or parts of the value: mean:rate=0.05 or rate=1%.
    run
        A directory that keeps every finished simulation: the same command again goes on where it was.
    workers
        Local processes; without them simulations run in this process, which is best for vectorised simulators.
    dask
        Address of a Dask scheduler to run on, in place of workers.
    timeout
        Seconds that one simulation may take.
    seed
        The same seed gives the same result, on any number of workers.
    block_size
        Simulations in a block, the unit of work: small for slow simulators.
    summaries
        Learn what simulations are compared by, for these targets: linear, boosting, network or auto. The tolerance is
        then in units of about a posterior standard deviation.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with _own_output(json_):
        source = model_file.read(model, target or ())
    task = make_task(
        source.problem,
        source.targets,
        method=method or source.method,
        budget=budget,
        tolerance=tolerance,
        precision=_precisions(precision),
        block_size=block_size,
        summaries=summaries,
    )
    engine = as_engine(dask, workers, timeout)
    machine = {"workers": workers, "timeout": timeout}
    with _own_output(json_):
        result = run_task(task, seed=seed, run=run, engine=engine, model=source, machine=machine, progress=not quiet)
    _print(result, json_)


def show(run: Path, /, *, json_: JsonFlag = False) -> None:
    """Show a recorded run: what it was asked, how far it is, what failed, and its estimates.

    It reads only, also while the run is at work. Example: "fbar show my-run --json".

    Parameters
    ----------
    run
        The run's directory.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with Ledger(run, create=False, driver=False) as ledger:
        legs = [{"settings": leg.settings, "result": leg.result} for leg in ledger.legs]
        simulations, blocks = ledger.simulations(), len(ledger)
        failures = ledger.failures()
    if json_:
        listed = [
            {"kind": kind.name.lower(), "count": count, "example": text, "detail": detail}
            for kind, count, text, detail in failures
        ]
        print(json.dumps({"legs": legs, "simulations": simulations, "blocks": blocks, "failures": listed}))
        return
    if not legs:
        print(f"{run}: nothing was started yet")
        return
    for number, leg in enumerate(legs):
        settings: Any = leg["settings"]
        title = f"leg {number + 1}: " if len(legs) > 1 else ""
        print(f"{title}{_method(settings['method'])}, {', '.join(settings['targets'])}; {_until(settings)}")
        if leg["result"] is not None:
            _print_stored(leg["result"])
    print(f"{simulations:,} simulations recorded in {blocks:,} blocks")
    for kind, count, text, detail in failures:
        print(f"{count:,} {kind.words}: {text}")
        for line in detail.strip().splitlines()[-3:]:
            print(f"    {line}")
    if legs[-1]["result"] is None:
        print(f"not finished; go on with: fbar resume {run}")


def explain(run: Path, target: str | None = None, /, *, json_: JsonFlag = False) -> None:
    """Explain an estimate of a recorded run: where its simulations went and why, and what halving its error costs.

    It reads only. Example: "fbar explain my-run mean:rate".

    Parameters
    ----------
    run
        The run's directory.
    target
        The target's name, or what follows its kind where that is clear: rate for mean:rate. The only one by default.
        Any other can be asked, from the same simulations: variance:rate, 'probability:rate > 12'.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with _own_output(json_):
        explanation = load(run).explain(target)
    print(json.dumps(explanation.as_dict()) if json_ else explanation)


def resume(
    run: Path,
    /,
    *,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: float | None = None,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Go on with a recorded run, with its own settings; a finished one shows its result.

    Example: "fbar resume my-run --workers 4".

    Parameters
    ----------
    run
        The run's directory.
    workers
        Local processes; as the run was started by default.
    dask
        Address of a Dask scheduler to run on, in place of workers.
    timeout
        Seconds that one simulation may take; as the run was started by default.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with Ledger(run, create=False, driver=False) as ledger:
        before: Any = ledger.legs[0].settings.get("machine") or {} if ledger.legs else {}
    timeout = before.get("timeout") if timeout is None and dask is None else timeout
    workers = before.get("workers") if workers is None and dask is None else workers
    with _own_output(json_):
        result = continue_task(run, engine=as_engine(dask, workers, timeout), progress=not quiet)
    _print(result, json_)


def extend(
    run: Path,
    /,
    *,
    budget: MaybeWhole = None,
    tolerance: float | None = None,
    target: Targets = None,
    precision: Precisions = None,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: float | None = None,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Go on with a finished run: a larger budget, a smaller tolerance, other targets. Nothing is simulated again.

    Example: "fbar extend my-run --budget 100000 --tolerance 1".

    Parameters
    ----------
    run
        The run's directory.
    budget
        The new largest number of simulations, those that are there counted.
    tolerance
        A smaller tolerance.
    target
        Other targets, see "fbar infer".
    precision
        Standard errors that end the run, or parts of the value: mean:rate=0.05 or rate=1%.
    workers
        Local processes; without them simulations run in this process.
    dask
        Address of a Dask scheduler to run on, in place of workers.
    timeout
        Seconds that one simulation may take.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    engine: Engine = as_engine(dask, workers, timeout)
    with _own_output(json_):
        result = extend_run(
            run,
            targets=target,
            budget=budget,
            tolerance=tolerance,
            precision=_precisions(precision),
            engine=engine,
            progress=not quiet,
        )
    _print(result, json_)


def export(
    run: Path,
    /,
    *,
    format: Literal["parquet", "csv", "netcdf"] = "csv",
    out: Path | None = None,
    all: Flag = False,
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
        Every recorded simulation with its summaries, failures and, where known, costs, in place of the weighted
        posterior.
    """
    path = out or Path(f"{run.resolve().name}.{'nc' if format == 'netcdf' else format}")
    if all:
        if format == "netcdf":
            raise InputError("--all writes csv or parquet; netcdf holds a posterior")
        with Ledger(run, create=False, driver=False) as ledger:
            frame = _simulations(ledger)
    else:
        result = load(run)
        if format == "netcdf":
            result.to_arviz().to_netcdf(str(path))
            print(f"wrote {path}")
            return
        frame = result.to_pandas()
    if format == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    print(f"wrote {len(frame):,} rows to {path}")


# ---------------------------------------------------------------- printing


@contextmanager
def _own_output(as_json: bool) -> Iterator[None]:
    """Keep standard output for the JSON alone: what a model, its simulator or its workers print goes to the error."""
    if not as_json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _precisions(given: Sequence[str] | None) -> Mapping[str, float | str] | None:
    if not given:
        return None
    found: dict[str, float | str] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        try:
            found[name] = value if value.endswith("%") else float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"a precision is written as TARGET=ERROR, such as mean:rate=0.05 or rate=1%; got {text!r}")
    return found


def _print(result: Result, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.as_dict()))
        return
    print(result)
    print(f"seed {result.seed}")


def _method(described: Mapping[str, Any]) -> str:
    """A recorded method and its tolerance, in words."""
    name = str(described.get("type", "?"))
    with suppress(InputError, TypeError):  # one of the user's own
        tolerance = restored(described).final_tolerance
        return name if not tolerance else f"{name} at tolerance {tolerance:g}"
    return name


def _until(settings: Mapping[str, Any]) -> str:
    """When a recorded run ends, in words."""
    ends = [f"budget {settings['budget']:,}"] if settings.get("budget") else []
    if settings.get("stop"):
        try:
            ends.append(f"until {stopping.restored(settings['stop'])}")
        except InputError:
            ends.append("until a rule of your own holds")
        ends += [f"at most {settings['limit']:,} simulations"] if settings.get("limit") else []
    return ", ".join(ends) or "until it ends by itself"


def _print_stored(result: Mapping[str, Any]) -> None:
    estimates = result["estimates"]
    width = max((len(name) for name in estimates), default=0)
    for name, estimate in estimates.items():
        value, error = estimate["value"], estimate["standard_error"]
        if isinstance(value, list):
            text = f"[{', '.join(shorthand(v, e) for v, e in zip(value, error, strict=True))}]"
        else:
            text = shorthand(value, float("nan") if error is None else error)
        trusted = estimate["trusted"]
        sure = all(trusted) if isinstance(trusted, list) else trusted
        print(f"{name:<{width}}  {text}{'' if sure else ' (not to be trusted)'}")
    for text in dict.fromkeys([t for e in estimates.values() for t in e["warnings"]] + result["warnings"]):
        print(f"warning: {text}")
    cost = cost_in_words(result.get("cost"), result.get("cost_unit") == "s")
    told = f"{result['simulations']:,} simulations, {result['accepted']:,.6g} accepted; {result['stopped_by']}"
    print(f"{told}; {cost}" if cost else told)
    for text in result.get("remarks", ()):
        print(text)
    if "about_tolerance" in result:
        print(result["about_tolerance"])
    for name, found in result.get("missing", {}).items():
        print(f"{name} would need {Forecast(**found, at=0)}")


def _simulations(ledger: Ledger) -> Any:
    """Every recorded simulation as a table: round, block, parameters, summaries, recorded outputs, failure, cost."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table") from error
    import numpy as np

    from fbar.outcomes import Failure, Simulated

    frames = []
    for round, block, points, repeats, outcomes in ledger.blocks():
        theta = points if repeats is None else points.repeat(repeats)
        columns: dict[str, Any] = {"round": round, "block": block, **{name: theta[name] for name in theta}}
        if not isinstance(outcomes, Simulated):
            columns = {"round": round, "block": block, **{name: points[name] for name in points}}
            columns |= {"simulations": repeats if repeats is not None else 1, "accepted": outcomes.weight}
            frames.append(pandas.DataFrame(columns))
            continue
        summaries = np.asarray(outcomes.summaries).reshape(len(outcomes.summaries), -1)
        columns |= {f"summary{i + 1}": summaries[:, i] for i in range(summaries.shape[1])}
        columns |= {name: list(values) for name, values in outcomes.recorded.items()}
        kinds = np.array([kind.name.lower() for kind in Failure])
        assert outcomes.failure is not None
        columns["failure"] = np.where(outcomes.failure == 0, "", kinds[outcomes.failure])
        if outcomes.cost is not None:
            columns["cost_of_simulation" if "cost" in columns else "cost"] = outcomes.cost
        frames.append(pandas.DataFrame(columns))
    if not frames:
        raise FbarError(f"{ledger.directory} has no recorded simulations")
    return pandas.concat(frames, ignore_index=True)
