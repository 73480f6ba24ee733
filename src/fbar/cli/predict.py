"""Predictions of a recorded run from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fbar.checks import counted
from fbar.cli.common import Flag, JsonFlag, MaybeWhole, TrustFlag, keep_trust, say, warn
from fbar.cli.output import json_only
from fbar.cli.tables import write_table
from fbar.cli.views import OWN, ViewOf
from fbar.errors import InputError
from fbar.running import load, model_file
from fbar.system.terminal import waiting

DEFAULT = 1000
"""New simulations, unless their number is given."""


def predict(
    run: Path,
    /,
    *,
    number: Annotated[MaybeWhole, Parameter(name=["--number", "-n"])] = None,
    model: str | None = None,
    of_model: str | None = None,
    out: Path | None = None,
    force: Flag = False,
    seed: MaybeWhole = None,
    workers: MaybeWhole = None,
    timeout: float | None = None,
    view: ViewOf = OWN,
    trust: TrustFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Predict new data from a recorded run: simulate at parameters drawn from its posterior.

    The simulator is the run's own, or another one with the same parameters, such as a forecast or another scenario.
    Means and quantiles are printed with their standard errors.

    Examples: "fbar predict my-run", "fbar predict my-run --model forecast.py:next_month --out next-month.csv".

    Parameters
    ----------
    run
        The run's directory.
    number
        New simulations; 1000 by default.
    model
        FILE.py:NAME, a simulator or a problem in a Python file; NAME is simulate by default.
    of_model
        Of a model choice: a model by its name; parameters are drawn from the posterior within it.
    out
        A file for the simulations themselves, one row each: CSV, or Parquet if the name ends in .parquet.
    force
        Replace an existing file.
    seed
        The same seed gives the same numbers; the run's by default.
    workers
        Local processes; by default as many as the run was started with. 0 to simulate in this process.
    timeout
        Seconds that one simulation may take; by default as in the run. inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if out is not None and out.exists() and not force:
        raise InputError(f"{out} already exists; choose another name (--out FILE), or use --force to replace it")
    with json_only(json_):
        result = view.of(load(run, trust=keep_trust(run, trust)))
        simulator = None if model is None else model_file.simulator(model)
        with waiting("simulating"):
            drawn_from = result if of_model is None else result.of_model(of_model)
            found = drawn_from.predict(
                DEFAULT if number is None else number, simulator=simulator, seed=seed, workers=workers, timeout=timeout
            )
    warn(result.damage)
    if json_:
        print(json.dumps(found.as_dict()))
    else:
        for line in str(found).splitlines():
            say(line)
    if out is not None:
        rows = write_table(out, "parquet" if out.suffix == ".parquet" else "csv", [found.to_pandas()])
        if not json_:
            say(f"wrote {counted(rows, 'row')} to {out}")
