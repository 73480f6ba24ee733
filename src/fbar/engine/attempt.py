"""One attempt at a block of simulations, or at a part of it.

Simulators that run their rows one by one have a stream of random numbers for each row: what fails is that row alone,
and a row that is run again, in whatever company, repeats itself. The rows of a vectorised simulator share one stream,
and fail together: what failed in it is for `fbar.engine.recovery` to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fbar.engine.global_numbers import begin_row, put_aside, seeded
from fbar.engine.limits import limit
from fbar.errors import FbarError
from fbar.question.outcomes import Batch, Failure, Outcomes, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.raw_numbers import number_kept
from fbar.question.simulators import (
    PASSES,
    RowFailed,
    Rows,
    Single,
    TimedOut,
    Unusable,
    each,
    repeating,
    run_rows,
)
from fbar.question.simulators.hints import COUNT_ROWS, for_batch

ROOM = 10
"""Rows that a part has the time of, at least: what is no failure in company must not be one alone."""

MOST_TIMEOUTS = 2
"""What has run out of time so often with the same random numbers has failed: once may be a busy machine's fault."""


@dataclass(frozen=True)
class Part:
    """Rows ``first`` to ``last`` − 1 of a block, and the number of the stream that they are run again with.

    Without a number it is the block's own stream; rows that have streams of their own need none.
    """

    first: int
    last: int
    stream: int | None = None

    @property
    def rows(self) -> int:
        return self.last - self.first


Attempt: TypeAlias = Outcomes | Rows | RowFailed
"""Outcomes of a block or part; outputs of single rows of a part; or why the whole block or part failed."""

FIRST = (0, 0)
"""The first block of a run: what is wrong with all simulations is found there."""


def has_row_streams(problem: Problem, batch: Batch) -> bool:
    """Whether every row has random numbers of its own; runs that were recorded without them go on as they began."""
    return batch.seeds.streams >= 2 and problem.simulator.rows is not None


def attempt_block(problem: Problem, batch: Batch, timeout: float | None = None) -> Outcomes | RowFailed:
    """Simulate a block once; ``timeout`` is in seconds a simulation."""
    if problem.simulator.known is not None:
        return problem.simulator.known.tally(batch, batch.rng())
    whole = Part(0, batch.simulations)
    if has_row_streams(problem, batch):
        return _outcomes(problem, batch, attempt_rows(problem, batch, whole, timeout), whole.rows)
    if timeout is not None and isinstance(problem.simulate, each):
        return _outcomes(problem, batch, _attempt_in_turn(problem.simulate, batch, timeout), whole.rows)
    return attempt_together(problem, batch, whole, timeout)


def attempt_part(problem: Problem, batch: Batch, part: Part, timeout: float | None = None) -> Attempt:
    """Simulate some rows of a block again: outputs of rows that have streams of their own, outcomes of others."""
    token = repeating.set(True)
    try:
        if has_row_streams(problem, batch):
            return problem.usable(attempt_rows(problem, batch, part, timeout))
        return attempt_together(problem, batch, part, timeout)
    finally:
        repeating.reset(token)


def attempt_together(problem: Problem, batch: Batch, part: Part, timeout: float | None) -> Simulated | RowFailed:
    """Rows that share a stream: all of them succeed or none does."""
    theta = batch.theta
    if part.rows < theta.rows:
        theta = theta.take(np.arange(part.first, part.last))
    stream = 0 if part.stream is None else part.stream + 1
    for _ in range(MOST_TIMEOUTS):
        rng = batch.rng() if part.stream is None else batch.rerun_rng(part.stream)
        try:
            with (
                seeded(batch.seeds, batch.round, batch.block, stream),
                limit(time_for(part.rows, batch, timeout)),
            ):
                output = problem.simulator.output(theta.read_only(), rng)
            break
        except TimedOut:
            continue
        except PASSES:
            raise
        except BaseException as error:
            return RowFailed.of(error, lambda message: for_batch(message, theta))
    else:
        assert timeout is not None
        return overdue(timeout)
    if part.rows == 1 < batch.simulations and _lacks_axis(output, problem):
        output = np.asarray(output)[None]
    found = _outcomes(problem, batch, output, part.rows)
    if isinstance(found, RowFailed) and problem.raw is not None and isinstance(output, np.ndarray):
        return found.advised(COUNT_ROWS if output.shape == (len(theta), *problem.raw.shape) else "")
    return found


def _outcomes(problem: Problem, batch: Batch, output: object, rows: int) -> Simulated | RowFailed:
    """What an output tells; or why it cannot be used, where its rows do not tell which of them are at fault."""
    keep = number_kept(batch, problem.raw_numbers) if rows == batch.simulations else 0
    try:
        return problem.outcomes(output, rows, check_rows=batch.key == FIRST, keep_raw=keep)
    except Unusable as error:
        return RowFailed.of(error)
    except FbarError:
        raise
    except Exception as error:  # of an output that is not what it seems to be
        return RowFailed.of(error)


def _lacks_axis(output: object, problem: Problem) -> bool:
    """Whether a simulator that squeezes its output has dropped the axis of a single row."""
    if problem.raw is None or isinstance(output, list | Mapping):
        return False
    try:
        found = np.asarray(output)
    except Exception:  # not an array at all
        return False
    return found.shape == problem.raw.shape and found.dtype != object  # None is no row: the whole call is at fault


def time_for(rows: int, batch: Batch, timeout: float | None) -> float | None:
    """The time limit of rows that are run together."""
    return None if timeout is None else timeout * min(max(rows, ROOM), batch.simulations)


def attempt_rows(problem: Problem, batch: Batch, part: Part, timeout: float | None) -> Rows:
    """Rows that have streams of their own: each succeeds or fails by itself."""
    one = _single(problem, batch.theta.read_only())
    if timeout is not None:
        one = _limited(one, batch, timeout)
    with put_aside():
        return run_rows(one, range(part.first, part.last), lambda row: begin_row(batch, row))


def _single(problem: Problem, theta: Points) -> Single:
    """The simulation of one row. A function of θ that fails for some rows, such as a derived parameter, fails for these
    alone.
    """
    make = problem.simulator.rows
    assert make is not None
    try:
        return make(theta)
    except PASSES:
        raise
    except BaseException:
        return lambda row, rng: _alone(make, theta, row)(0, rng)


def _alone(make: Callable[[Points], Single], theta: Points, row: int) -> Single:
    token = repeating.set(True)  # it was counted with the others
    try:
        return make(theta.take(np.array([row])))
    finally:
        repeating.reset(token)


def _attempt_in_turn(simulate: each, batch: Batch, timeout: float) -> Rows:
    """Rows that share a stream and are watched one by one, as runs were that began without streams for rows."""
    one, rng = simulate.single(batch.theta.read_only()), batch.rng()

    def run(row: int, rng: np.random.Generator) -> object:
        try:
            with limit(timeout):
                return one(row, rng)
        except TimedOut:
            return overdue(timeout)

    with seeded(batch.seeds, batch.round, batch.block):
        return run_rows(run, batch.simulations, lambda row: rng)


def overdue(timeout: float) -> RowFailed:
    """Stands for a simulation that passed its time limit."""
    return RowFailed(f"it took longer than {timeout:g} s", kind=Failure.TIMED_OUT)


def _limited(one: Single, batch: Batch, timeout: float) -> Single:
    """With a time limit for each row."""

    def run(row: int, rng: np.random.Generator) -> object:
        for number in range(MOST_TIMEOUTS):
            try:
                with limit(timeout):
                    return one(row, rng if number == 0 else begin_row(batch, row))
            except TimedOut:
                continue
        return overdue(timeout)

    return run
