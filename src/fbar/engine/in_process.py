"""Simulations in this process, for vectorised simulators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fbar.errors import FbarError
from fbar.outcomes import Batch, Failure, Outcomes, Simulated
from fbar.problem import Problem, Tabulated


class SimulatorFailed(FbarError, RuntimeError):
    """The simulator raised an exception at every parameter value of a block."""


def simulate(problem: Problem, batch: Batch) -> Outcomes:
    """Run one block. A block that raises is rerun row by row, and only the rows that fail are rejected.

    A failed simulation is never drawn again with another seed: that would bias the answer.
    """
    if isinstance(problem.simulate, Tabulated):
        assert batch.cells is not None
        return problem.simulate.tally(batch.cells, batch.repeats, batch.rng())
    theta = batch.theta
    try:
        output = problem.simulate(theta, batch.rng())
    except FbarError:
        raise
    except Exception as error:
        return _row_by_row(problem, batch, error)
    return problem.outcomes(output, theta.rows)


def _row_by_row(problem: Problem, batch: Batch, first: Exception) -> Simulated:
    assert not isinstance(problem.simulate, Tabulated)
    theta = batch.theta
    rows: list[Simulated | None] = []
    for i in range(theta.rows):
        try:
            rows.append(problem.outcomes(problem.simulate(theta.take([i]), batch.row_rng(i)), 1))
        except FbarError:
            raise
        except Exception:
            rows.append(None)
    good = [row for row in rows if row is not None]
    message = f"{type(first).__name__}: {first}"
    if not good:
        raise SimulatorFailed(
            f"the simulator failed at every one of {theta.rows} parameter values; the first error was {message}"
        ) from first
    blank = np.zeros_like(good[0].summaries)
    summaries = np.concatenate([blank if row is None else row.summaries for row in rows])
    failure = np.array(
        [Failure.EXCEPTION if row is None or row.failure is None else row.failure[0] for row in rows], np.int8
    )
    recorded: dict[str, Any] = {
        name: np.concatenate([np.zeros_like(values) if row is None else row.recorded[name] for row in rows])
        for name, values in good[0].recorded.items()
    }
    return Simulated(summaries, recorded, failure, message)


class InProcess:
    """Runs blocks one after the other, in this process."""

    def run(self, problem: Problem, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Outcomes]]:
        for batch in batches:
            yield batch, simulate(problem, batch)
