"""A predictive check for users: new simulations from the posterior, compared with the data (not the score of it).

The accepted simulations are near the data because they were chosen so. New ones are not: y ~ ∫ p(y|θ) p(θ|x*) dθ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import rows as count_of
from fbar.engine import Engine, InProcess
from fbar.engine.blocks import SimulatedBlocks
from fbar.errors import FbarError
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.seeds import Purpose
from fbar.weights import systematic

NUMBER, PART = 200, 20
"""New simulations, and how many are made at a time."""

PATIENCE = 20.0
"""Seconds after which no further part is begun, unless their number was asked for."""

LAST = 3 * PATIENCE
"""Seconds after which those that were begun are given up, where they run in other processes."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Summaries of new simulations, (n, …), and the observed ones; ``failed`` counts those that gave none.

    ``missing`` is the reason if there are fewer than were wanted, or none.
    """

    observed: npt.NDArray[Any] | None
    simulated: npt.NDArray[Any]
    failed: int
    missing: str = ""

    @property
    def numbers(self) -> FloatArray | None:
        """The simulated summaries as (n, d), where they are numbers."""
        if self.simulated.dtype.kind not in "biuf" or not len(self.simulated):
            return None
        return self.simulated.reshape(len(self.simulated), -1).astype(np.float64)


def predict(
    run: Run,
    posterior: Posterior,
    number: int | None = None,
    shown: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> Predictions:
    """Simulate at θ drawn from the posterior, on ``engine``; the numbers are the same on any.

    ``number`` simulations, or as many of 200 as there is time for; none for simulations that give no data.
    """
    if number is not None:
        number = count_of(number, "number")
    problem = run.problem
    nothing = np.zeros(0)
    if problem.observed is None or number == 0:
        why = "No new simulations were requested." if number == 0 else "Its simulations give no data, only a match."
        return Predictions(problem.observed, nothing, 0, why)
    wanted = NUMBER if number is None else number
    slow = _seconds_each(run)
    if number is None and slow is not None and slow * PART > PATIENCE:
        why = f"A simulation takes about {slow:.3g} s, so none were run; request them with --predictive {NUMBER}"
        return Predictions(problem.observed, nothing, 0, why)
    if (posterior.weights < 0).any():
        return Predictions(
            problem.observed, nothing, 0, "Some weights are negative, so nothing can be drawn from them."
        )
    seeds = run.seeds.predictive()
    rows = resampled(posterior.weights, wanted, seeds.generator(Purpose.DESIGN, 0, 0))
    theta = posterior.points.without(problem.records).take(rows)
    batches = [
        Batch(0, place, theta.take(part).with_derived(problem.derived), None, seeds)
        for place, part in enumerate(np.split(np.arange(wanted), range(PART, wanted, PART)))
    ]
    found = _Found()
    try:
        with (engine or InProcess()).session(problem) as session:
            limits = {"begin_within": PATIENCE, "end_within": LAST} if number is None else {}
            blocks = SimulatedBlocks(session, batches, **limits)
            for answers in blocks:
                found.add(answers)
                if shown is not None:
                    shown(found.done, wanted)
            missing = found.missing(blocks, wanted)
    except FbarError as error:  # the run's own simulations are there, and so is the rest of the report
        missing = f"New simulations ended after {found.done} of {wanted}: {error}"
    kept = [found.summaries[block] for block in sorted(found.summaries)]
    return Predictions(problem.observed, np.concatenate(kept) if kept else nothing, found.failed, missing)


@dataclass
class _Found:
    """Summaries by the number of their block, and how many simulations are done and failed."""

    summaries: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    done: int = 0
    failed: int = 0

    def add(self, answers: Sequence[tuple[Batch, Outcomes]]) -> None:
        for batch, outcomes in answers:
            self.summaries[batch.block], lost = _summaries(outcomes)
            self.failed, self.done = self.failed + lost, self.done + batch.simulations

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


def _seconds_each(run: Run) -> float | None:
    """What a simulation takes, where it was measured."""
    if not run.problem.measures_cost or not run.spent_cost or not run.simulations:
        return None
    return run.spent_cost / run.simulations


def resampled(weights: FloatArray, number: int, rng: np.random.Generator) -> IntArray:
    """Rows by systematic resampling, in random order, so that a part is like the whole."""
    return rng.permutation(systematic(weights, number, rng))


def _summaries(outcomes: Outcomes) -> tuple[npt.NDArray[Any], int]:
    """The summaries of those that did not fail, and how many did."""
    found = require_simulated(outcomes)
    fine = np.ones(len(found.summaries), bool) if found.failure is None else np.asarray(found.failure) == 0
    return np.asarray(found.summaries)[fine], int((~fine).sum())
