"""Faults from outside change nothing: killed workers, clocks that jump, rows that are slow in company."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import fbar
from faulty_simulators import KINDS, PRIOR, fault, outcomes
from fbar.engine import InProcess, Workers, attempt, recovery
from fbar.engine.recovery import joined
from fbar.question.outcomes import Batch, Failure, Simulated
from fbar.question.points import Points
from fbar.seeds import Seeds

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("how", "times"), [("exit", 1), ("exit", 2), ("hang", 1)])
def test_disturbed_from_outside_the_result_is_the_same(kind, how, times, tmp_path):
    """The first attempts end, whatever their random numbers, as by somebody's kill or a machine that stalls."""

    smallest = [-1.0]

    def disturb(theta):
        if np.min(theta) == smallest[0]:
            seen = len(list(tmp_path.iterdir()))
            if seen < times:
                (tmp_path / str(seen)).touch()
                fault(how)

    def batch(theta, rng):
        disturb(theta["theta"])
        return rng.random(theta.rows)

    @fbar.each
    def one(theta, rng):
        disturb(theta["theta"])
        return rng.random()

    problem = fbar.Problem(PRIOR, batch if kind == "vectorised" else one, observed=1.0)
    smallest[0] = outcomes(problem, InProcess(), 12, 6)[0].min()
    engine = Workers(1, timeout=0.5 if how == "hang" else None)
    _, disturbed, failure = outcomes(problem, engine, 12, 6)
    assert len(list(tmp_path.iterdir())) == times
    assert not failure.any()
    _, quiet, _ = outcomes(problem, InProcess(), 12, 6)
    assert np.array_equal(disturbed, quiet)


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    """Pebble reads the wall clock: a jump makes every job under way late, once."""
    import pebble.pool.process

    class Clock:
        jumped = 0.0

        def __getattr__(self, name):
            return getattr(time, name)

        def time(self):
            return time.time() + self.jumped

    clock = Clock()
    monkeypatch.setattr(pebble.pool.process, "time", clock)
    late = []
    overdue = pebble.pool.process.TaskManager.timeout_tasks

    def watched(manager):
        if any(task.started for task in list(manager.tasks.values())):
            clock.jumped = 10_000.0
        late.extend(found := overdue(manager))
        return found

    monkeypatch.setattr(pebble.pool.process.TaskManager, "timeout_tasks", watched)

    @fbar.each
    def simulate(theta, rng):
        time.sleep(0.15)
        return rng.random()

    problem = fbar.Problem(PRIOR, simulate, observed=1.0)
    run = fbar.Rejection(rounds=1).start(problem, fbar.mean("theta"), seed=5, budget=24, block_size=4)
    batches, found = run.ask(), {}
    with Workers(2, timeout=30).session(problem) as session:
        session.submit(batches)
        while len(found) < len(batches):
            found |= {batch.block: told for batch, told in session.collect()}
    assert late  # the jump was noticed
    x = np.concatenate([found[i].summaries for i in range(len(batches))])
    assert not any(told.failure is not None and told.failure.any() for told in found.values())
    assert np.array_equal(x, outcomes(problem, InProcess(), 24, 4)[1])


@pytest.mark.parametrize("f", [0.0, 0.02])
def test_a_simulator_that_bears_few_rows_at_once_is_refused(f):
    """Halves would be thrown away until one fails: rows that fail with 0.02 would do so with up to 0.15."""

    def simulate(theta, rng):
        if theta.rows > 4:
            raise MemoryError("too many rows")
        if (rng.random(theta.rows) < f).any():
            raise ArithmeticError
        return rng.random(theta.rows)

    problem = fbar.Problem(PRIOR, simulate, observed=1.0)
    with pytest.raises(fbar.SimulatorFailed, match=r"given 8 rows at once, and rarely with half.*too many.*block_size"):
        outcomes(problem, InProcess(), 64, 16)
    _, x, failure = outcomes(problem, InProcess(), 400, 4)
    assert abs(failure.astype(bool).sum() - 400 * f) <= 5 * np.sqrt(400 * f * (1 - f))
    assert np.isfinite(x[failure == 0]).all()


def test_a_row_that_is_slow_in_company_is_no_failure_alone():
    """A limit is that of a whole batch: its parts have room, or rows that are merely slow would be found guilty."""

    def simulate(theta, rng):
        time.sleep(0.06 * (theta["cell"] == 0).sum())
        if (theta["cell"] == 3).any():
            raise ArithmeticError
        return rng.random(theta.rows)

    problem = fbar.Problem(fbar.Finite(cell=np.arange(8)), simulate, observed=1.0)
    batch = Batch(0, 0, Points({"cell": np.arange(8)}), None, Seeds(1))
    failed = attempt.attempt_block(problem, batch, 0.04)
    told = recovery.recover_here(problem, batch, failed, 0.04)
    assert told.failure.tolist() == [0, 0, 0, Failure.EXCEPTION, 0, 0, 0, 0]


def test_a_time_limit_that_is_passed_once_is_no_failure(monkeypatch):
    tries = []

    @fbar.each
    def simulate(theta, rng):
        tries.append(rng.random())
        if len(tries) == 1:
            time.sleep(30)
        return tries[-1]

    problem = fbar.Problem(PRIOR, simulate, observed=1.0)
    batch = Batch(0, 0, Points({"theta": np.array([0.5])}), None, Seeds(1))
    told = attempt.attempt_block(problem, batch, timeout=0.2)
    assert len(tries) == 2
    assert tries[0] == tries[1]
    assert told.failure.tolist() == [0]


def test_what_is_run_again_is_not_charged_to_a_study():
    """Finding out which rows failed is not among the simulations that an algorithm asked for."""

    def simulate(theta, rng):
        if (rng.random(theta.rows) < 0.02).any():
            raise ArithmeticError
        return theta["theta"] + rng.normal(0, 0.1, theta.rows)

    problem = fbar.Problem(PRIOR, simulate, observed=0.5, truth={"mean:theta": 0.5})
    methods, targets = {"rejection": fbar.Rejection(tolerance=0.1)}, [fbar.mean("theta")]
    study = fbar.Study({"toy": problem}, methods, [400], trials=3, targets=targets, tolerance={"toy": 0.1})
    result = study.run(workers=1)
    assert [result.statuses(*cell.key) for cell in result.cells] == [["ok"] * 3]


def test_a_program_that_is_late_once_is_called_again(tmp_path):
    script = f"import os, sys, time; late = not os.path.exists({str(tmp_path / 'late')!r}); "
    script += f"open({str(tmp_path / 'late')!r}, 'w').close(); time.sleep(60 * late); print(sys.argv[1])"
    simulate = fbar.program([sys.executable, "-S", "-c", script, "{seed}"], timeout=5)
    (row,) = simulate(Points({"theta": [1.0]}), np.random.default_rng(1))
    assert row == float(np.random.default_rng(1).integers(2**64, dtype=np.uint64))


def test_a_simulator_that_drops_the_axis_of_one_row_harms_no_other():
    def simulate(theta, rng):
        if (theta["cell"] == 2).any():
            raise ArithmeticError
        return np.squeeze(rng.random((theta.rows, 3)))

    problem = fbar.Problem(fbar.Finite(cell=np.arange(6)), simulate, observed=[1.0, 2.0, 3.0])
    told = fbar.simulate(problem, Batch(0, 0, Points({"cell": np.arange(6)}), None, Seeds(1)))
    assert told.failure.tolist() == [0, 0, Failure.EXCEPTION, 0, 0, 0]


def test_parts_are_joined_with_what_they_recorded():
    good = Simulated(
        np.array([["a"], ["b"]]), {"peak": np.array([1, 2])}, np.zeros(2, np.int8), cost=np.array([1.0, 2])
    )
    bad = Simulated(np.zeros((1, 1)), {}, np.array([1], np.int8), {Failure.EXCEPTION: "no"}, {Failure.EXCEPTION: "..."})
    both = joined([good, bad, good])
    assert both.summaries[:, 0].tolist() == ["a", "b", "", "a", "b"]
    assert both.recorded["peak"].tolist() == [1, 2, 0, 1, 2]
    assert both.failure.tolist() == [0, 0, 1, 0, 0]
    assert np.array_equal(both.cost, [1, 2, np.nan, 1, 2], equal_nan=True)
    assert both.examples == {Failure.EXCEPTION: "no"}
    assert joined([bad, bad]).failure.tolist() == [1, 1]
    lost = Simulated(np.full((1, 1), np.nan), {"peak": np.array([7.0])}, np.array([Failure.NOT_FINITE], np.int8))
    assert joined([lost, bad]).recorded["peak"].tolist() == [7, 0]
