"""Predictions from a result, with what was asked checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbar.checks import function, positive_integer, rows
from fbar.diagnostics.predictions import Predictions
from fbar.diagnostics.predictive import predict
from fbar.engine import Engine
from fbar.errors import InputError
from fbar.question.simulators import SimulatorFunction
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from fbar.results.result import Result


def predicted(
    result: Result, n: int | None, simulator: SimulatorFunction | None, seed: int | None, engine: Engine
) -> Predictions:
    """See `Result.predict`; refused where nothing can be simulated."""
    if np.ndim(result.simulations):
        raise InputError("a run of many trials has no single posterior to predict from; run it without trials=")
    if n is not None:
        positive_integer(rows(n, "n"), "n")
    if simulator is not None:
        function(simulator, "simulator")
    seeds = None if seed is None else Seeds.of(seed)
    found = predict(result.run, result.posterior, n, engine=engine, simulator=simulator, seeds=seeds)
    if not len(found):
        raise InputError(found.missing)
    return found
