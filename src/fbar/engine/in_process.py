"""Simulations in this process, for vectorised simulators."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from fbar.engine.base import Engine, Session
from fbar.engine.global_numbers import global_numbers
from fbar.errors import FbarError
from fbar.outcomes import Batch, Failure, Outcomes
from fbar.problem import Problem
from fbar.simulators import FAILED, Bernoulli, Row, RowFailed, Rows, Tabulated


def simulate(problem: Problem, batch: Batch) -> Outcomes:
    """Run one block.

    `each` catches what single rows raise. When a vectorised simulator raises, which row it was cannot be known:
    the block is rerun row by row, each with a generator of its own, and only the rows that fail again are
    rejected. (Keeping blocks that did not raise as they are favours success by less than 0.4/size relative,
    where failures are random; a block of one is never rerun.)
    """
    if isinstance(problem.simulate, Tabulated):
        assert batch.cells is not None
        assert batch.repeats is not None
        return problem.simulate.tally(batch.cells, batch.repeats, batch.rng())
    if isinstance(problem.simulate, Bernoulli):
        return problem.simulate.tally(batch.points, batch.rng())
    theta = batch.theta.read_only()
    try:
        with global_numbers(problem, batch):
            output = problem.simulate(theta, batch.rng())
    except FbarError:
        raise
    except FAILED as error:
        failed = RowFailed.of(error)
        rows = theta.rows
        output = [failed] if rows == 1 else Rows.of([simulate_row(problem, batch, i) for i in range(rows)])
    return problem.outcomes(output, theta.rows)


def simulate_row(problem: Problem, batch: Batch, row: int) -> Row:
    """One simulation of a block that is rerun row by row: its output or a `RowFailed`, and its time if measured."""
    assert not isinstance(problem.simulate, Tabulated | Bernoulli)
    try:
        with global_numbers(problem, batch, row):
            output = problem.simulate(batch.theta.take([row]).read_only(), batch.row_rng(row))
    except FbarError:
        raise
    except FAILED as error:
        return Row(RowFailed.of(error))
    try:
        if isinstance(output, Mapping):
            return Row({name: values[0] for name, values in output.items()})
        if isinstance(output, Rows):
            return Row(output[0], float(output.cost[0]))
        return Row(output[0] if isinstance(output, list) else np.asarray(output)[0])
    except (IndexError, TypeError, KeyError):
        what = f"for one row it gave {type(output).__name__} of shape {np.shape(output)}"
        return Row(RowFailed(f"{what}; its first axis must be the rows", kind=Failure.WRONG_SHAPE))


class InProcess(Engine):
    """Runs blocks one after the other, in this process."""

    def session(self, problem: Problem) -> Session:
        return _InProcessSession(problem)


class _InProcessSession(Session):
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._waiting: deque[Batch] = deque()

    def submit(self, batches: Sequence[Batch]) -> None:
        self._waiting.extend(batches)

    def collect(self) -> list[tuple[Batch, Outcomes]]:
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        return [(batch, simulate(self._problem, batch))]
