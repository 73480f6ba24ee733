"""Recorded runs from the command line, gone on with: resume and extend."""

from __future__ import annotations

from pathlib import Path

from fbar.cli.common import JsonFlag, MaybeNumber, MaybeWhole, QuietFlag, Targets, TrustFlag, keep_trust
from fbar.cli.infer import Precisions, read_precisions
from fbar.cli.output import json_only, print_result
from fbar.running import engine_for, extend_run, resume_run


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
    """Resume a recorded run with its own settings; a finished run shows its result.

    Example: "fbar resume my-run --workers 4".

    Parameters
    ----------
    run
        The run's directory.
    workers
        Local processes; by default as many as the run was started with. 0 to simulate in this process.
    dask
        Address of a Dask scheduler to run on, instead of workers.
    timeout
        Seconds that one simulation may take; by default as in the run. inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    quiet
        Show no progress, only the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    engine = engine_for(run, dask, workers, timeout)
    with json_only(json_):
        result = resume_run(run, engine=engine, progress=not quiet, trust=keep_trust(run, trust))
    print_result(result, json_)


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
    """Extend a finished run: a larger budget, a smaller tolerance, other targets. Nothing is simulated again.

    Example: "fbar extend my-run --budget 100000 --tolerance 1".

    Parameters
    ----------
    run
        The run's directory.
    budget
        The new largest number of simulations, including those that the run already has.
    tolerance
        A smaller tolerance.
    precision
        Standard errors that end the run, or fractions of the value: mean:rate=0.05 or rate=1%.
    workers
        Local processes; by default as many as the run was started with. 0 to simulate in this process.
    dask
        Address of a Dask scheduler to run on, instead of workers.
    timeout
        Seconds that one simulation may take; by default as in the run. inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    quiet
        Show no progress, only the result.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    engine = engine_for(run, dask, workers, timeout)
    with json_only(json_):
        result = extend_run(
            run,
            targets=target,
            budget=budget,
            tolerance=tolerance,
            precision=read_precisions(precision),
            engine=engine,
            progress=not quiet,
            trust=keep_trust(run, trust),
        )
    print_result(result, json_)
