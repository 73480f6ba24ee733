"""Simulate at parameters drawn from the posterior: predictions, and the data beside what the model makes of them.

The accepted simulations are near the data because they were chosen so. New ones are not: y ~ ∫ p(y|θ) p(θ|x*) dθ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import rows as count_of
from fbar.diagnostics.prediction_error import Calibration
from fbar.diagnostics.predictions import NUMBERS, SUMMARIES, Predictions
from fbar.engine import Engine, InProcess
from fbar.engine.blocks import SimulatedBlocks
from fbar.errors import FbarError
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.question.points import Points
from fbar.question.predicted import PredictedProblem, X, outputs
from fbar.question.problem import Problem
from fbar.question.simulators import SimulatorFunction
from fbar.seeds import Purpose, Seeds
from fbar.weights import systematic

NUMBER, PART = 200, 20
"""New simulations, and how many are made at a time."""

PATIENCE = 20.0
"""Seconds after which no further part is begun, unless their number was asked for."""

LAST = 3 * PATIENCE
"""Seconds after which those that were begun are given up, where they run in other processes."""


def predict(
    run: Run,
    posterior: Posterior,
    number: int | None = None,
    shown: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    *,
    simulator: SimulatorFunction | None = None,
    seeds: Seeds | None = None,
) -> Predictions:
    """Simulate at θ drawn from the posterior, on ``engine``; the numbers are the same on any.

    ``number`` simulations, or as many of 200 as there is time for; none for simulations that give no data. By the
    problem's own simulator, or another one of the same parameters.
    """
    if number is not None:
        number = count_of(number, "number")
    problem = run.problem
    why = _why_not(run, posterior, number, simulator)
    if why:
        return _nothing(problem, simulator, why)
    wanted = NUMBER if number is None else number
    streams = (run.seeds if seeds is None else seeds).predictive()
    rows = resampled(posterior.pictured.weights, wanted, streams.generator(Purpose.DESIGN, 0, 0))
    theta = posterior.pictured.points.without(problem.records).take(rows)
    batches = [
        Batch(0, place, theta.take(part).with_derived(problem.derived), None, streams)
        for place, part in enumerate(np.split(np.arange(wanted), range(PART, wanted, PART)))
    ]
    found = _Found()
    try:
        with (engine or InProcess()).session(PredictedProblem(problem, simulator)) as session:
            limits = {"begin_within": PATIENCE, "end_within": LAST} if number is None else {}
            blocks = SimulatedBlocks(session, batches, **limits)
            for answers in blocks:
                found.add(answers)
                if shown is not None:
                    shown(found.done, wanted)
            missing = found.missing(blocks, wanted)
    except FbarError as error:  # the run's own simulations are there, and so is the rest of the report
        missing = f"New simulations ended after {found.done} of {wanted}: {error}"
    if not found.succeeded:
        return _nothing(problem, simulator, missing or f"All {found.failed} new simulations failed.", found.failed)
    return found.predictions(problem, simulator, posterior, missing)


def _why_not(run: Run, posterior: Posterior, number: int | None, simulator: SimulatorFunction | None) -> str:
    """Why nothing is simulated, if so."""
    if number == 0:
        return "No new simulations were requested."
    if run.problem.observed is None and simulator is None:
        return "Its simulations give no data, only a match."
    slow = _seconds_each(run)
    if number is None and simulator is None and slow is not None and slow * PART > PATIENCE:
        return f"A simulation takes about {slow:.3g} s, so none were run; request them with --predictive {NUMBER}"
    if (posterior.pictured.weights < 0).any():
        return "Some weights are negative, so nothing can be drawn from them."
    return ""


def _nothing(problem: Problem, simulator: SimulatorFunction | None, why: str, failed: int = 0) -> Predictions:
    observed = problem.observed if simulator is None else None
    return Predictions({}, None, {}, np.zeros(0), observed, failed, why)


@dataclass
class _Found:
    """What the simulations of each block gave that succeeded, and how many are done and failed."""

    blocks: dict[int, tuple[Points, dict[str, npt.NDArray[Any]], npt.NDArray[Any]]] = field(default_factory=dict)
    done: int = 0
    failed: int = 0

    @property
    def succeeded(self) -> int:
        return sum(points.rows for points, _, _ in self.blocks.values())

    def add(self, answers: Sequence[tuple[Batch, Outcomes]]) -> None:
        for batch, outcomes in answers:
            found = require_simulated(outcomes)
            arrays, summaries = outputs(found), np.asarray(found.summaries)
            fine = np.ones(len(summaries), bool) if found.failure is None else np.asarray(found.failure) == 0
            for array in arrays.values():
                if array.dtype.kind == "f":
                    fine &= np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            kept = np.flatnonzero(fine)
            rows = {name: array[kept] for name, array in arrays.items()}
            self.blocks[batch.block] = batch.points.take(kept), rows, summaries[kept]
            self.failed, self.done = self.failed + int((~fine).sum()), self.done + batch.simulations

    def missing(self, blocks: SimulatedBlocks, wanted: int) -> str:
        """Why some of the wanted simulations are missing, if they are; those that were given up have failed."""
        if self.done == wanted:
            return ""
        unfinished = sum(batch.simulations for batch in blocks.begun) - self.done
        self.failed += unfinished
        if not unfinished:
            return f"There was time for {self.done} of {wanted}."
        return (
            f"There was time for {self.done} of {wanted}; {unfinished} more did not end within {LAST:g} s. Give a time "
            "limit for each (timeout=, --timeout)."
        )

    def predictions(
        self, problem: Problem, simulator: SimulatorFunction | None, posterior: Posterior, missing: str
    ) -> Predictions:
        kept = [self.blocks[block] for block in sorted(self.blocks) if self.blocks[block][0].rows]
        points = Points.concatenate([points for points, _, _ in kept])
        summaries = np.concatenate([rows for _, _, rows in kept])
        arrays = _joined([arrays for _, arrays, _ in kept])
        observed: dict[str, npt.NDArray[Any]] = {}
        if simulator is None:
            arrays, observed = _of_own(problem, arrays, summaries)
        return Predictions(
            arrays,
            points,
            observed,
            summaries if simulator is None else np.zeros(0),
            problem.observed if simulator is None else None,
            self.failed,
            missing,
            posterior.about or "the posterior",
            Calibration.of(posterior, points, problem.prior.names).of_survivors(self.failed),
        )


def _joined(parts: Sequence[Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """The outputs that all blocks have in the same shape."""
    found = {}
    for name, first in parts[0].items():
        arrays = [part[name] for part in parts if name in part and part[name].shape[1:] == first.shape[1:]]
        if len(arrays) == len(parts):
            found[name] = np.concatenate(arrays)
    return found


def _of_own(
    problem: Problem, arrays: dict[str, npt.NDArray[Any]], summaries: npt.NDArray[Any]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """The outputs of the problem's own simulator with the summaries, and what of them was observed, by name."""
    assert problem.raw is not None
    assert problem.observed is not None
    named, observed = dict(arrays), {}
    if X in named and named[X].shape[1:] == problem.raw.shape:
        observed[X] = problem.raw
    if problem.named_data is not None:
        by_name = problem.named_data.split(problem.raw)
        observed |= {name: part for name, part in by_name.items() if name in named}
    if problem.summary is None:
        if not problem.summary_names or problem.named_data is not None:
            return named, observed
        named.pop(X, None)
        observed.pop(X, None)
    sizes = problem.summary_names or {SUMMARIES: problem.observed.size}
    ends, flat = np.cumsum(list(sizes.values()))[:-1], summaries.reshape(len(summaries), -1)
    data = np.split(np.ravel(problem.observed), ends)
    made: dict[str, npt.NDArray[Any]] = {}
    for (name, size), rows, seen in zip(sizes.items(), np.split(flat, ends, axis=1), data, strict=True):
        label = f"{name} (summary)" if name in named else name
        made[label] = rows[:, 0] if size == 1 else rows
        if seen.dtype.kind in NUMBERS:
            observed[label] = seen[0] if size == 1 else seen
    return {**made, **named}, observed


def _seconds_each(run: Run) -> float | None:
    """What a simulation takes, where it was measured."""
    if not run.problem.measures_cost or not run.spent_cost or not run.simulations:
        return None
    return run.spent_cost / run.simulations


def resampled(weights: FloatArray, number: int, rng: np.random.Generator) -> IntArray:
    """Rows by systematic resampling, in random order, so that a part is like the whole."""
    return rng.permutation(systematic(weights, number, rng))
