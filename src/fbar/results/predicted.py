"""Predictions from a result, with what was asked checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fbar.checks import function, positive_integer, rows
from fbar.diagnostics.predictions import Predictions
from fbar.diagnostics.predictive import predict
from fbar.engine import Engine
from fbar.errors import InputError
from fbar.estimation.posterior import Posterior
from fbar.question.priors import structure
from fbar.question.simulators import SimulatorFunction
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from fbar.results.result import Result


def predicted(
    result: Result,
    n: int | None,
    simulator: SimulatorFunction | None,
    seed: int | None,
    engine: Engine,
    posterior: Posterior | None = None,
) -> Predictions:
    """See `Result.predict`; from another posterior than the result's where one is given, such as that of one model.

    Refused where nothing can be simulated.
    """
    if np.ndim(result.simulations):
        raise InputError("a run of many trials has no single posterior to predict from; run it without trials=")
    if n is not None:
        positive_integer(rows(n, "n"), "n")
    if simulator is not None:
        function(simulator, "simulator")
    seeds = None if seed is None else Seeds.of(seed)
    drawn_from = result.posterior if posterior is None else posterior
    found = predict(result.run, drawn_from, n, engine=engine, simulator=simulator, seeds=seeds)
    if not len(found):
        raise InputError(found.missing)
    return _with_hint(result, drawn_from, found) if found.failed else found


def _with_hint(result: Result, drawn_from: Posterior, found: Predictions) -> Predictions:
    """With a warning where every simulation of some models failed: the simulator may be one of another model."""
    models = structure(result.run.problem.prior).models
    if models is None or found.points is None or found.calibration is None:
        return found
    drawn = np.unique(drawn_from.points[models.name][drawn_from.weights > 0]).tolist()
    lost = sorted(set(map(str, drawn)) - set(map(str, found.points[models.name])))
    if not lost:
        return found
    text = (
        f"no new simulation of {models.name} {', '.join(lost)} succeeded; for a simulator of one model, predict within "
        "that model (of_model in Python, --of-model on the command line)"
    )
    calibration = replace(found.calibration, warnings=(*found.calibration.warnings, text))
    return replace(found, calibration=calibration)
