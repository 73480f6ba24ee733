"""Inference from the command line: init, infer, show, explain, resume, extend."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from fbar.checks import counted, shown
from fbar.cli.common import JsonFlag, MaybeNumber, MaybeWhole, QuietFlag, TrustFlag, keep_trust, lacking, say, warn
from fbar.cli.views import OWN, ViewOf, spoken, spoken_json
from fbar.engine import as_engine
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand
from fbar.ledger import Ledger
from fbar.methods import stopping
from fbar.methods.forecasts import Forecast
from fbar.methods.restored import restored_method
from fbar.results.again import going_on
from fbar.results.result import Result, cost_in_words, json_seed, unused_in_words
from fbar.running import continue_task, engine_of, extend_run, load, make_task, model_file, run_task
from fbar.system.files import write_text
from fbar.system.schema import check_legs
from fbar.system.terminal import clean, waiting

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
    write_text(file, model_file.TEMPLATE.format(name=file))
    say(f"wrote {file}; run it with: fbar infer {file} --budget 20000")


def infer(
    model: str,
    /,
    *,
    target: Targets = None,
    method: str | None = None,
    budget: MaybeWhole = None,
    tolerance: MaybeNumber = None,
    precision: Precisions = None,
    run: Path | None = None,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: MaybeNumber = None,
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
        A name listed by "fbar methods", such as targeted, rejection or smc. By default the model file's own "method",
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
    warn("" if run is None else source.remember())
    with _own_output(json_):
        result = run_task(task, seed=seed, run=run, engine=engine, model=source, progress=not quiet)
    _print(result, json_)


def show(run: Path, /, *, view: ViewOf = OWN, trust: TrustFlag = False, json_: JsonFlag = False) -> None:
    """Show a recorded run: what it was asked, how far it is, what failed, and its estimates.

    It reads only, also while the run is at work. With --at, --adjusted or --extrapolated it shows what the same
    simulations say in another way, when the run is not at work.

    Examples: "fbar show my-run --json", "fbar show my-run --adjusted".

    Parameters
    ----------
    run
        The run's directory.
    trust
        Execute the model file of a run that is not yours, and remember that it may be; only --at, --adjusted and
        --extrapolated need it.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if view:
        with _own_output(json_):
            result = view.of(load(run, trust=keep_trust(run, trust)))
        _print(result, json_)
        return
    with Ledger(run, create=False, driver=False) as ledger:
        check_legs(ledger.legs, run)
        legs: list[dict[str, Any]] = [{"settings": leg.settings, "result": leg.result} for leg in ledger.legs]
        with waiting(f"reading {run}"):
            simulations, blocks = ledger.simulations(), len(ledger)
        failures, lacks = ledger.failures(), lacking(ledger, simulations)
        damaged = ledger.damaged
    if json_:
        listed = [
            {"kind": kind.name.lower(), "count": count, "example": text, "detail": detail}
            for kind, count, text, detail in failures
        ]
        for leg in legs:
            leg["settings"] = {**leg["settings"], "seed": json_seed(int(leg["settings"]["seed"]))}
        tree = {"legs": legs, "simulations": simulations, "used": _used(legs), "blocks": blocks, "failures": listed}
        print(json.dumps(spoken_json({**tree, "damaged": damaged}, run)))
        return
    if not legs:
        say(f"{run}: nothing was started yet")
        return
    for number, leg in enumerate(legs):
        settings = leg["settings"]
        title = f"leg {number + 1}: " if len(legs) > 1 else ""
        say(f"{title}{_method(settings['method'])}, {', '.join(settings['targets'])}; {_until(settings)}")
        if leg["result"] is not None:
            _print_stored(leg["result"], run)
    recorded = f"{counted(simulations, 'simulation')} recorded in {counted(blocks, 'block')}"
    used = _used(legs)
    spare = "" if used is None or used >= simulations else f", {used:,} of them used: the others were ahead of need"
    say(f"{recorded}{spare}")
    others = ", ".join(text for text in damaged if not text.startswith("block "))
    if lacks or others:
        what = "; ".join(text for text in (lacks, others and f"damaged: {others}") if text)
        say(f"warning: {what}; mend it with: fbar resume {run}")
    for kind, count, text, detail in failures:
        say(f"{count:,} {kind.words}: {text}")
        for line in detail.strip().splitlines()[-3:]:
            say(f"    {line}")
    if legs[-1]["result"] is None:
        settings = [leg["settings"] for leg in legs]
        if settings[0].get("model"):
            say(f"not finished; go on with: fbar resume {shlex.quote(str(run))}")
        else:
            say(f"not finished; it was made from Python, go on there with: {going_on(run, settings)}")


def explain(
    run: Path, target: str | None = None, /, *, view: ViewOf = OWN, trust: TrustFlag = False, json_: JsonFlag = False
) -> None:
    """Explain an estimate of a recorded run: where its simulations went and why, and what halving its error costs.

    It reads only. Example: "fbar explain my-run mean:rate".

    Parameters
    ----------
    run
        The run's directory.
    target
        The target's name, or what follows its kind where that is clear: rate for mean:rate. The only one by default.
        Any other can be asked, from the same simulations: variance:rate, 'probability:rate > 12'.
    trust
        Execute the model file of a run that is not yours, and remember that it may be.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with _own_output(json_):
        result = view.of(load(run, trust=keep_trust(run, trust)))
        with waiting("explaining the estimate"):
            explanation = result.explain(target)
    warn(result.damage)
    print(json.dumps(explanation.as_dict()) if json_ else explanation)


def resume(
    run: Path,
    /,
    *,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: MaybeNumber = None,
    trust: TrustFlag = False,
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
        Local processes; as the run was started by default, 0 to simulate in this process.
    dask
        Address of a Dask scheduler to run on, in place of workers.
    timeout
        Seconds that one simulation may take; as the run was started by default, inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it may be.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    engine = engine_of(run, dask, workers, timeout)
    with _own_output(json_):
        result = continue_task(run, engine=engine, progress=not quiet, trust=keep_trust(run, trust))
    _print(result, json_)


def extend(
    run: Path,
    /,
    *,
    budget: MaybeWhole = None,
    tolerance: MaybeNumber = None,
    target: Targets = None,
    precision: Precisions = None,
    workers: MaybeWhole = None,
    dask: str | None = None,
    timeout: MaybeNumber = None,
    trust: TrustFlag = False,
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
        Local processes; as the run was started by default, 0 to simulate in this process.
    dask
        Address of a Dask scheduler to run on, in place of workers.
    timeout
        Seconds that one simulation may take; as the run was started by default, inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it may be.
    quiet
        Show no progress: nothing but the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    engine = engine_of(run, dask, workers, timeout)
    with _own_output(json_):
        result = extend_run(
            run,
            targets=target,
            budget=budget,
            tolerance=tolerance,
            precision=_precisions(precision),
            engine=engine,
            progress=not quiet,
            trust=keep_trust(run, trust),
        )
    _print(result, json_)


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
            raise InputError(
                f"a precision is written as TARGET=ERROR, such as mean:rate=0.05 or rate=1%; got {shown(text)}"
            )
    return found


def _print(result: Result, as_json: bool) -> None:
    if as_json:
        print(json.dumps(spoken_json(result.as_dict(), result.directory)))
        return
    for line in str(result).splitlines():
        say(spoken(line, result.directory))
    say(f"seed {result.seed}")


def _method(described: Mapping[str, Any]) -> str:
    """A recorded method and its tolerance, in words."""
    name = str(described.get("type", "?"))
    with suppress(InputError):  # one of the user's own
        tolerance = restored_method(described).final_tolerance
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


def _used(legs: Sequence[Mapping[str, Any]]) -> int | None:
    """The simulations that a finished run's result is made of; None for one that is not finished."""
    last = legs[-1]["result"] if legs else None
    return None if last is None else int(last["simulations"])


def _print_stored(result: Mapping[str, Any], run: Path) -> None:
    estimates = result["estimates"]
    width = max((len(clean(name)) for name in estimates), default=0)
    for name, estimate in estimates.items():
        value, error = estimate["value"], estimate["standard_error"]
        values, errors = (np.array(part, dtype=np.float64) for part in (value, error))  # what is not known is NaN
        if values.ndim == 0:
            text = shorthand(float(values), float(errors))
        else:
            text = f"[{', '.join(shorthand(v, e) for v, e in zip(values.flat, errors.flat, strict=True))}]"
        sure = np.all(estimate["trusted"])
        say(f"{clean(name):<{width}}  {text}{'' if sure else ' (not to be trusted)'}")
    for text in dict.fromkeys([t for e in estimates.values() for t in e["warnings"]] + result["warnings"]):
        say(f"warning: {spoken(text, run)}")
    cost = cost_in_words(result.get("cost"), result.get("cost_unit") == "s")
    done = counted(result["simulations"], "simulation")
    told = f"{done}, {result['accepted']:,.6g} accepted; {result['stopped_by']}"
    say(f"{told}; {cost}" if cost else told)
    if result.get("unused"):
        say(unused_in_words(result["unused"]))
    for text in result.get("remarks", ()):
        say(text)
    if "about_tolerance" in result:
        say(result["about_tolerance"])
    for name, found in result.get("missing", {}).items():
        say(f"{name} would need {Forecast(found['more'], found['low'], found['high'], 0)}")
