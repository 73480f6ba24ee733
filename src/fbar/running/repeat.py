"""Does the seed decide the result, and is every simulation drawn anew? Some of the first block is simulated again.

A simulator that draws from a generator of its own, as ``numpy.random.default_rng()`` makes one, gives other numbers
each time: no seed brings such a run back, and a damaged block of its record cannot be had again. (Python's and numpy's
global numbers are seeded, see `fbar.engine.global_numbers`.) Nothing but a second look at the same block shows it.

It is done once for each problem, at the start of a new run, after the block was recorded, and only in this process: a
simulator that was given to workers may crash or hang. What is repeated costs little:

- a block that took at most a tenth of a second; or at most two seconds, where it is 1% of the budget at most;
- of a slower block whose simulations run one by one, each with its own random numbers: its first simulation, where that
  is 1% of the budget at most, however long it takes;
- nothing of other slow blocks: single simulations of a vectorised simulator cannot be repeated.

A vectorised simulator may also draw one number for a whole batch, where every simulation should have its own: then the
simulations of a batch are not independent, and error bars are far too small. Where a block of several simulations took
at most a tenth of a second, its first θ is simulated in `BATCHES` batches of `ROWS`. If batches differ by more than
their rows do, by the test of Kruskal & Wallis (1952) at the level `BY_CHANCE` for all summaries together, the noise is
shared. If rows differ and batches do not at all, it is fixed: the simulator makes a generator with a seed of its own
choice, and every batch has the same noise.

Where simulations run one by one, fixed noise is the same in each of them, and looks like a simulator that has none. So
if some θ of the block, simulated with other random numbers, give what they gave before, that is only a remark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from fbar.engine import Engine, InProcess, simulate
from fbar.engine.base import Session
from fbar.errors import FbarError
from fbar.question.outcomes import Batch, Outcomes, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.simulators.fidelities import SEED

CHEAP = 0.1
"""Seconds that a block may have taken to be simulated again, whatever the budget."""

MOST_SECONDS, MOST_OF_BUDGET = 2.0, 0.01
"""Seconds that it may have taken where it is no more than this share of the budget."""

UNUSED = 1 << 30
"""The first of block numbers that no run comes to, whose random numbers are free."""

FEW = 4
"""Blocks of which one must have been cheap: the first may have had to load or compile something."""

ROUNDING = 1e-6
"""What may differ, relative to the largest number: sums in another order, as of several threads."""

BATCHES, ROWS = 6, 32
BY_CHANCE = 1e-6
MOST_SUMMARIES_COMPARED = 100
"""Of the look for shared noise: what is simulated, the rate of false alarms, and how many summaries are compared."""

SHARED = (
    "the simulations of a batch share random numbers: at the same parameters they differ less within a batch than "
    "between batches, so they are not independent and the error bars are too small; draw for every simulation, as in "
    "rng.normal(size=theta.rows), not rng.normal()"
)

FIXED = (
    "the simulator repeats the same random numbers in every batch: called with another rng it gave the same output, "
    "though simulations of one batch differ at the same parameters, so they are not independent and the error bars are "
    "too small; use the rng that it is given, not a generator with a fixed seed"
)

NO_NOISE = (
    "the simulator seems to be deterministic: at the same parameters it gave the same output with other random "
    "numbers; if the model is random, draw from the rng that the simulator is given (a generator made there with a "
    "fixed seed repeats its numbers in every simulation)"
)

WARNING = (
    "the simulator gave different results when it was called again with the same parameters and the same rng: it uses "
    "another source of random numbers or remembers earlier calls, so the seed does not determine the result; use the "
    "rng that it is given"
)

WARNINGS, REMARKS = (WARNING, SHARED, FIXED), (NO_NOISE,)
DOUBTED = frozenset({SHARED, FIXED})
"""All that can be found; and what makes every error bar unreliable."""

LEAST_ROWS = 8
"""Simulations that must have been the same for a simulator to seem deterministic, at least."""

_known: WeakKeyDictionary[Problem, tuple[str, ...]] = WeakKeyDictionary()
"""What is wrong with a problem's random numbers, as was seen in this process."""


class FirstBlockTwice(Engine):
    """An engine that simulates the first cheap block of a new run twice; ``found`` is what that has shown.

    ``budget`` is the number of simulations that the run may have, None where it is not known.
    """

    def __init__(self, engine: Engine, new: bool, budget: int | None = None) -> None:
        self._engine, self._new, self._budget = engine, new, budget
        self.problem: Problem | None = None

    def session(self, problem: Problem) -> Session:
        self.problem = problem
        inner = self._engine.session(problem)
        metered = problem.simulator.metered  # as in a study, where a second look is not free
        if metered or not self._new or type(self._engine) is not InProcess or problem in _known:
            return inner
        return _Twice(inner, problem, self._budget)

    @property
    def found(self) -> tuple[str, ...]:
        return () if self.problem is None else _known.get(self.problem, ())


class _Twice(Session):
    def __init__(self, inner: Session, problem: Problem, budget: int | None) -> None:
        self._inner, self._problem = inner, problem
        self._few = 0.0 if budget is None else MOST_OF_BUDGET * budget
        self._tries = FEW
        self._quick = False
        self._waiting: tuple[Batch, Simulated] | None = None

    def submit(self, batches: Sequence[Batch]) -> None:
        self._inner.submit(batches)

    def collect(self) -> list[tuple[Batch, Outcomes]]:
        self._look_again()
        begun = time.perf_counter()
        answers = self._inner.collect()
        seconds = time.perf_counter() - begun
        if answers and self._tries and self._problem not in _known:
            self._tries -= 1
            batch, outcomes = answers[0]
            if isinstance(outcomes, Simulated):
                self._waiting = self._repeatable(batch, outcomes, seconds)
                self._quick = seconds <= CHEAP and batch.simulations > 1
        return answers

    def _repeatable(self, batch: Batch, outcomes: Simulated, seconds: float) -> tuple[Batch, Simulated] | None:
        """What of a block may be simulated again; None for nothing."""
        cheap = seconds <= CHEAP or (seconds <= MOST_SECONDS and batch.simulations <= self._few)
        if cheap:
            return batch, outcomes
        by_rows = self._problem.simulator.rows is not None and batch.repeats is None
        if not by_rows or self._few < 1 or (self._tries and seconds <= MOST_SECONDS):  # the next block may be quicker
            return None
        return replace(batch, points=batch.points.take([0])), _first(outcomes, 1)

    def _look_again(self) -> None:
        """Simulate the block that waits, which the run has by now."""
        if self._waiting is not None:
            (batch, outcomes), self._waiting = self._waiting, None
            found = [] if _repeats(self._problem, batch, outcomes) else [WARNING]
            if not found and batch.repeats is None and self._quick:
                found = _wrong_noise(self._problem, batch, outcomes)
            _known[self._problem] = tuple(found)

    def close(self) -> None:
        self._inner.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._look_again()
        finally:
            super().__exit__(kind, error, trace)


def _wrong_noise(problem: Problem, batch: Batch, before: Simulated) -> list[str]:
    """What is wrong with the noise of a block that was quick to simulate."""
    if problem.simulator.rows is None:
        theta, found = batch.points.take(np.zeros(ROWS, dtype=np.int64)), []
        for number in range(BATCHES):
            outcomes = _with_other_numbers(problem, batch, theta, number)
            if outcomes is None:
                return []
            found.append(
                np.asarray(outcomes.summaries, dtype=np.float64).reshape(ROWS, -1)[:, :MOST_SUMMARIES_COMPARED]
            )
        batches = np.stack(found)
        if _between(batches) < BY_CHANCE:
            return [SHARED]
        if (batches != batches[:1]).any():
            return []
        if (batches != batches[:, :1]).any():
            return [FIXED]
    return [NO_NOISE] if _deterministic(problem, batch, before) else []


def _with_other_numbers(problem: Problem, batch: Batch, theta: Points, number: int) -> Simulated | None:
    """Simulations with random numbers that no run comes to; None if some failed, or are not numbers."""
    try:  # without the seeds of draws that two fidelities share, which would repeat their numbers
        outcomes = simulate(problem, Batch(batch.round, UNUSED + number, theta.without((SEED,)), None, batch.seeds))
    except FbarError:
        return None
    if not isinstance(outcomes, Simulated) or outcomes.summaries.dtype.kind not in "biuf" or _failed(outcomes).any():
        return None
    return outcomes


def _deterministic(problem: Problem, batch: Batch, before: Simulated) -> bool:
    """Whether simulations are as before with other random numbers; and most of them not the same for every θ.

    Where θ makes no difference, as in a model whose events are rare, random outputs may be the same too.
    """
    rows = min(ROWS, batch.points.rows)
    if rows < LEAST_ROWS or _failed(before)[:rows].any():
        return False
    again = _with_other_numbers(problem, batch, batch.points.take(np.arange(rows)), BATCHES)
    if again is None or not _alike(_first(before, rows), again):
        return False
    return 2 * len(np.unique(again.summaries.reshape(rows, -1), axis=0)) > rows


def _between(values: npt.NDArray[np.float64]) -> float:
    """The p-value of differences between batches, of values (batches, rows, summaries), the least one times its number.

    H = (N − 1) Σ_b n (R̄_b − R̄)²/Σ (R − R̄)² with the ranks R of all N values, ties shared, is χ² with B − 1 degrees.
    """
    from scipy.special import chdtrc
    from scipy.stats import rankdata

    batches, rows, summaries = values.shape
    ranks = rankdata(values.reshape(batches * rows, summaries), axis=0).reshape(values.shape)
    away = ranks - ranks.mean(axis=(0, 1))
    total = (away**2).sum(axis=(0, 1))
    varies = total > 0
    if not varies.any():
        return 1.0
    between = rows * (away.mean(axis=1) ** 2).sum(axis=0)
    h = (batches * rows - 1) * between[varies] / total[varies]
    return float(chdtrc(batches - 1, h).min() * varies.sum())


def _first(outcomes: Simulated, rows: int) -> Simulated:
    """The outcomes of the first simulations."""
    recorded = {name: values[:rows] for name, values in outcomes.recorded.items()}
    failure = None if outcomes.failure is None else outcomes.failure[:rows]
    return Simulated(outcomes.summaries[:rows], recorded, failure)


def _repeats(problem: Problem, batch: Batch, before: Simulated) -> bool:
    try:
        again = simulate(problem, batch)
    except FbarError:
        return False
    return isinstance(again, Simulated) and _alike(before, again)


def _alike(before: Simulated, again: Simulated) -> bool:
    if set(again.recorded) != set(before.recorded):
        return False
    pairs: list[tuple[Any, Any]] = [(before.summaries, again.summaries), (_failed(before), _failed(again))]
    pairs += [(before.recorded[name], again.recorded[name]) for name in before.recorded]
    return all(_same(np.asarray(first), np.asarray(second)) for first, second in pairs)


def _failed(outcomes: Simulated) -> npt.NDArray[np.int8]:
    return np.zeros(outcomes.simulations, dtype=np.int8) if outcomes.failure is None else outcomes.failure


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    if first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc" or second.dtype.kind not in "fc":
        return np.array_equal(first, second)
    size = np.nanmax(np.abs(first[np.isfinite(first)]), initial=0.0)
    return np.allclose(first, second, rtol=0, atol=ROUNDING * size, equal_nan=True)
