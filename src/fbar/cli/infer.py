"""New runs from the command line: init and infer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fbar.checks import shown
from fbar.cli.common import JsonFlag, MaybeNumber, MaybeWhole, QuietFlag, Targets, say, warn
from fbar.cli.output import json_only, print_result
from fbar.engine import as_engine
from fbar.errors import InputError
from fbar.running import make_task, model_file, run_task
from fbar.system.files import write_text

Precisions = Annotated[list[str] | None, Parameter(name="--precision", consume_multiple=True, negative="")]


def init(file: Path = Path("model.py"), /) -> None:
    """Write a commented model file that runs at once.

    Example: "fbar init flu.py", then "fbar infer flu.py --budget 20000 --tolerance 2".

    Parameters
    ----------
    file
        The file to write; it must not exist yet.
    """
    if file.exists():
        raise InputError(f"{file} already exists; give another name, as in: fbar init other.py")
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
        The model file, or FILE.py:NAME for a problem that is not called "problem".
    method
        A name listed by "fbar methods", such as targeted, rejection or smc. By default the model file's "method", with
        all its settings; without one, adaptive on finite spaces and targeted on others.
    budget
        The largest number of simulations.
    tolerance
        Estimate ABC's posterior at this tolerance, from simulations that come this close to the data; smc stops there.
        Without it the answer is about the posterior itself, estimated at the data.
    precision
        Standard errors that end the run, or fractions of the value: mean:rate=0.05 or rate=1%.
    run
        A directory that keeps every finished simulation: rerun the command to resume.
    workers
        Local processes; without them simulations run in this process, which is best for vectorised simulators.
    dask
        Address of a Dask scheduler to run on, instead of workers.
    timeout
        Seconds that one simulation may take.
    seed
        The same seed gives the same result, on any number of workers.
    block_size
        Simulations in a block, the unit of work: small for slow simulators.
    summaries
        Learn the summaries from a pilot before the run, for these targets: linear, boosting, network or auto. By
        default, an answer at the data learns its own summaries if the data are many numbers and no summary function is
        given; "none" turns this off. A tolerance is then in units of about a posterior standard deviation.
    quiet
        Show no progress, only the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with json_only(json_):
        source = model_file.read(model, target or ())
    task = make_task(
        source.problem,
        source.targets,
        method=method or source.method,
        budget=budget,
        tolerance=tolerance,
        precision=read_precisions(precision),
        block_size=block_size,
        summaries=summaries,
    )
    engine = as_engine(dask, workers, timeout)
    warn("" if run is None else source.remember())
    with json_only(json_):
        result = run_task(task, seed=seed, run=run, engine=engine, model=source, progress=not quiet)
    print_result(result, json_)


def read_precisions(given: Sequence[str] | None) -> Mapping[str, float | str] | None:
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
