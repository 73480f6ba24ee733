"""Does the seed decide the result? The first cheap block of a run is simulated twice and compared.

A simulator that draws from a generator of its own, as ``numpy.random.default_rng()`` makes one, gives other numbers
each time: no seed brings such a run back, and a damaged block of its record cannot be had again. (Python's and numpy's
global numbers are seeded, see `fbar.engine.global_numbers`.) Nothing but a second look at the same block shows it.

It is done in this process alone, with blocks that took at most a tenth of a second, once for each problem, at the start
of a run that is new, and after the block was recorded: simulations that cost something are never run twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from fbar.engine import Engine, InProcess, simulate
from fbar.engine.base import Session
from fbar.errors import FbarError
from fbar.question.outcomes import Batch, Outcomes, Simulated
from fbar.question.problem import Problem

CHEAP = 0.1
"""Seconds that a block may have taken to be simulated again."""

FEW = 4
"""Blocks of which one must have been cheap: the first may have had to load or compile something."""

ROUNDING = 1e-6
"""What may differ, relative to the largest number: sums in another order, as of several threads."""

WARNING = (
    "the simulator gave different results when it was called again with the same parameters and the same rng: it draws "
    "random numbers of its own or remembers earlier calls, so the seed does not decide the result; draw from the rng "
    "that it is given"
)

_known: WeakKeyDictionary[Problem, bool] = WeakKeyDictionary()
"""Whether a problem's simulator repeats itself, as was seen in this process."""


class FirstBlockTwice(Engine):
    """An engine that simulates the first cheap block of a new run twice; ``warning`` says whether the two differed."""

    def __init__(self, engine: Engine, new: bool) -> None:
        self._engine, self._new = engine, new
        self.problem: Problem | None = None

    def session(self, problem: Problem) -> Session:
        self.problem = problem
        inner = self._engine.session(problem)
        metered = problem.simulator.metered  # as in a study, where a second look is not free
        if metered or not self._new or type(self._engine) is not InProcess or problem in _known:
            return inner
        return _Twice(inner, problem)

    @property
    def warning(self) -> str:
        differs = self.problem is not None and _known.get(self.problem) is False
        return WARNING if differs else ""


class _Twice(Session):
    def __init__(self, inner: Session, problem: Problem) -> None:
        self._inner, self._problem = inner, problem
        self._tries = FEW
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
            if seconds <= CHEAP and isinstance(outcomes, Simulated):
                self._waiting = batch, outcomes
        return answers

    def _look_again(self) -> None:
        """Simulate the block that waits, which the run has by now."""
        if self._waiting is not None:
            (batch, outcomes), self._waiting = self._waiting, None
            _known[self._problem] = _repeats(self._problem, batch, outcomes)

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


def _repeats(problem: Problem, batch: Batch, before: Simulated) -> bool:
    try:
        again = simulate(problem, batch)
    except FbarError:
        return False
    if not isinstance(again, Simulated) or set(again.recorded) != set(before.recorded):
        return False
    pairs: list[tuple[Any, Any]] = [(before.summaries, again.summaries), (before.failure, again.failure)]
    pairs += [(before.recorded[name], again.recorded[name]) for name in before.recorded]
    return all(_same(np.asarray(first), np.asarray(second)) for first, second in pairs)


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    if first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc" or second.dtype.kind not in "fc":
        return np.array_equal(first, second)
    size = np.nanmax(np.abs(first[np.isfinite(first)]), initial=0.0)
    return np.allclose(first, second, rtol=0, atol=ROUNDING * size, equal_nan=True)
