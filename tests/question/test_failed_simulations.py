"""Faults do not bias: what fails is rejected and never drawn again, whatever it fails of and in whatever company.

The law of what is kept is tested here in one process, where a simulator raises, with many simulations. That one which
kills its process, hangs or runs out of memory gives the same answer bit for bit is tested with workers.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import InProcess, Workers, attempt, recovery
from fbar.engine.recovery import joined
from fbar.question.outcomes import Batch, Failure, Simulated
from fbar.question.points import Points
from fbar.seeds import Seeds

pytestmark = [pytest.mark.slow, pytest.mark.processes]

PRIOR = fbar.Prior(theta=stats.uniform(0, 1))


def fault(how):
    """What ends a simulation, or all of its process."""
    if how == "exit":
        os._exit(3)
    if how == "segmentation fault":
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(3600)
    if how == "memory":
        np.empty(2**60)
    raise ArithmeticError("no solution")


def chance(theta, x, depends, f):
    """The probability of a fault: f in the lower half of θ; there for outcomes that would be accepted alone."""
    fragile = theta < 0.5
    return f * (fragile if depends == "theta" else fragile & (x > 0))


def one_by_one(how, depends, f=0.5):
    @fbar.each
    def simulate(theta, rng):
        x = float(rng.random() < 0.7)
        if rng.random() < chance(np.array(theta["theta"]), np.array(x), depends, f):
            fault(how)
        return x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


def vectorised(how, depends, f=0.5):
    def simulate(theta, rng):
        x = (rng.random(theta.rows) < 0.7).astype(float)
        if (rng.random(theta.rows) < chance(theta["theta"], x, depends, f)).any():
            fault(how)
        return x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


KINDS = {"one by one": one_by_one, "vectorised": vectorised}


def outcomes(problem, engine, budget, block_size, seed=5):
    """Every simulation's data and failure, in order."""
    run = fbar.Rejection(rounds=1).start(problem, fbar.mean("theta"), seed=seed, budget=budget, block_size=block_size)
    batches, found = run.ask(), {}
    with engine.session(problem) as session:
        session.submit(batches)
        while len(found) < len(batches):
            found |= {batch.block: (batch, told) for batch, told in session.collect()}
    told = [found[i][1] for i in range(len(batches))]
    theta = np.concatenate([found[i][0].theta["theta"] for i in range(len(batches))])
    failure = np.concatenate([np.zeros(t.simulations, np.int8) if t.failure is None else t.failure for t in told])
    x = np.where(failure == 0, np.concatenate([t.summaries for t in told]), np.nan)
    return theta, x, failure


# ---------------------------------------------------------------- the law


@pytest.mark.parametrize("block", [1, 8, 64])
@pytest.mark.parametrize("depends", ["theta", "theta and outcome"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fragile_region_keeps_its_probability(kind, depends, block):
    """Twelve tests of |z| < 5 of two numbers each: less than one false alarm in 10⁴ runs.

    Drawing what failed again would raise the fragile region's successes by a fifth to a half where a block has few
    other rows that fail: z above 10 here.
    """
    theta, x, failure = outcomes(KINDS[kind]("raise", depends), InProcess(), 4800, block)
    fragile = theta < 0.5
    assert not failure[~fragile].any()
    for value, expected in ((1.0, 0.35), (0.0, 0.3 * (1 - 0.5 * (depends == "theta")))):
        hits = int((x[fragile] == value).sum())
        n, p = int(fragile.sum()), expected
        assert abs(hits - n * p) < 5 * np.sqrt(n * p * (1 - p)), (value, hits / n, p)
    accepted = int((x[~fragile] == 1).sum())
    n = int((~fragile).sum())
    assert abs(accepted - 0.7 * n) < 5 * np.sqrt(0.21 * n)


def test_rows_of_a_block_are_as_independent_as_they_were():
    """A block of fixed composition, as allocations have: each row fails with its own probability, by itself.

    Twelve counts and six products within 5 standard errors: less than one false alarm in 10⁴ runs.
    """
    f = np.array([0.0, 0.1, 0.5, 0.0, 0.2, 0.9])

    def simulate(theta, rng):
        if (rng.random(theta.rows) < f[theta["cell"]]).any():
            raise ArithmeticError
        return rng.random(theta.rows)

    problem = fbar.Problem(fbar.Finite(cell=np.arange(6)), simulate, observed=1.0)
    blocks = 1000
    failed = np.zeros((blocks, 6), dtype=bool)
    x = np.zeros((blocks, 6))
    for b in range(blocks):
        told = fbar.simulate(problem, Batch(0, b, Points({"cell": np.arange(6)}), None, Seeds(3)))
        failed[b] = told.failure != 0
        x[b] = told.summaries
    se = np.sqrt(f * (1 - f) / blocks)
    assert (np.abs(failed.mean(axis=0) - f) <= 5 * se).all()
    assert np.abs(np.corrcoef(failed[:, [2, 4, 5]].T)[np.triu_indices(3, 1)]).max() < 5 / np.sqrt(blocks)
    for row in (0, 1, 2, 4):
        assert stats.kstest(x[~failed[:, row], row], "uniform").pvalue > 1e-6


@pytest.mark.parametrize("passes", [2, 5])
def test_the_bias_that_is_left_is_the_one_derived(passes, monkeypatch):
    """One fragile row among eight, and few passes: P(success) = (1 − f)(1 + b) with b of `fbar.engine.recovery`."""
    monkeypatch.setattr(recovery, "MOST_PASSES", passes)
    f, blocks = 0.2, 2000

    def simulate(theta, rng):
        if (rng.random(theta.rows) < f * (theta["cell"] == 3)).any():
            raise ArithmeticError
        return rng.random(theta.rows)

    problem = fbar.Problem(fbar.Finite(cell=np.arange(8)), simulate, observed=1.0)
    batches = (Batch(0, b, Points({"cell": np.arange(8)}), None, Seeds(7)) for b in range(blocks))
    succeeded = sum(int(fbar.simulate(problem, batch).failure[3] == 0) for batch in batches) / blocks
    b = f / (1 - f) * (1 - (1 - (1 - f) ** passes) ** 3)
    expected = (1 - f) * (1 + b)
    assert abs(succeeded - expected) < 5 * np.sqrt(expected * (1 - expected) / blocks)


def test_the_bias_that_is_left_is_below_one_per_cent():
    f = np.linspace(0, 1, 100_000)[1:-1]
    worst = [(f / (1 - f) * (1 - (1 - (1 - f) ** recovery.MOST_PASSES) ** halvings)).max() for halvings in range(17)]
    assert max(worst) < 0.0095


# ---------------------------------------------------------------- the same bits, whatever it fails of


@pytest.mark.parametrize("block", [1, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "failure"),
    [
        ("exit", Failure.KILLED),
        ("segmentation fault", Failure.KILLED),
        ("hang", Failure.TIMED_OUT),
        ("memory", Failure.EXCEPTION),
    ],
)
def test_what_kills_hangs_or_starves_gives_the_answer_of_what_raises(how, failure, kind, block):
    make, budget = KINDS[kind], 24
    timeout = None if how != "hang" else 0.1 if kind == "vectorised" and block > 1 else 0.4
    _, here, raised = outcomes(make("raise", "theta and outcome"), InProcess(), budget, block)
    _, there, failed = outcomes(make(how, "theta and outcome"), Workers(2, timeout=timeout), budget, block)
    assert np.array_equal(here, there, equal_nan=True)
    assert raised.any()
    assert np.array_equal(raised != 0, failed != 0)
    assert set(failed[failed != 0]) == {failure}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("how", "f"), [("raise", 0.5), ("exit", 0.2)])
def test_what_fails_in_blocks_of_64_gives_the_same_bits_too(how, f, kind):
    _, here, failed = outcomes(KINDS[kind]("raise", "theta", f), InProcess(), 64, 64)
    _, there, _ = outcomes(KINDS[kind](how, "theta", f), Workers(2), 64, 64)
    assert failed.any()
    assert np.array_equal(here, there, equal_nan=True)


def test_models_of_a_choice_have_streams_by_row():
    def model(how):
        @fbar.each
        def simulate(theta, rng):
            if rng.random() < 0.2:
                fault(how)
            return rng.random() + theta["theta"]

        return simulate

    def found(how, engine):
        models = {"a": fbar.Model(model(how), PRIOR), "b": fbar.Model(model(how), PRIOR)}
        problem = fbar.Problem.models(models, observed=1.0)
        (batch,) = (
            fbar.Rejection(rounds=1).start(problem, fbar.model_probability("a"), seed=1, budget=24, block_size=24).ask()
        )
        with engine.session(problem) as session:
            session.submit([batch])
            ((_, told),) = session.collect()
        return np.where(told.failure == 0, told.summaries, np.nan)

    assert np.array_equal(found("raise", InProcess()), found("exit", Workers(2)), equal_nan=True)


# ---------------------------------------------------------------- faults from outside change nothing


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


# ---------------------------------------------------------------- streams


def test_rows_have_streams_of_their_own_and_recorded_runs_keep_theirs(tmp_path, monkeypatch):
    """A run whose record does not name its streams was made with one for each block, and goes on so."""
    simulate = fbar.each(lambda theta, rng: theta["theta"] + rng.normal(0, 0.1))
    problem, target = fbar.Problem(PRIOR, simulate, observed=0.5), fbar.mean("theta")
    asked = {"method": fbar.Rejection(tolerance=0.1), "budget": 200, "block_size": 20}

    def interrupt(run):
        if run.simulations >= 100:
            raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr(Seeds, "of", classmethod(lambda cls, seed: Seeds(9, streams=1)))
        old = fbar.infer(problem, target, **asked)
        with pytest.raises(KeyboardInterrupt):
            fbar.infer(problem, target, run=tmp_path / "run", progress=interrupt, **asked)
    new = fbar.infer(problem, target, seed=9, **asked)
    assert old["mean:theta"].value != new["mean:theta"].value
    resumed = fbar.infer(problem, target, run=tmp_path / "run", seed=9, **asked)
    assert resumed["mean:theta"].value == old["mean:theta"].value
    assert resumed.run.replayed >= 100


def test_global_numbers_that_are_drawn_now_and_then_are_seeded_too():
    """A worker's first block says nothing of the next: forked workers would share what they draw."""

    @fbar.each
    def simulate(theta, rng):
        return random.random() + np.random.random() if theta["theta"] > 0.8 else rng.random()  # noqa: NPY002

    problem = fbar.Problem(PRIOR, simulate, observed=1.0)
    state, own = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    _, x, _ = outcomes(problem, InProcess(), 64, 4)
    assert random.getstate() == state
    assert np.array_equal(np.random.get_state()[1], own)  # noqa: NPY002
    assert len(set(x)) == 64
    for count in (1, 3):
        assert np.array_equal(outcomes(problem, Workers(count), 64, 4)[1], x)


def test_global_numbers_are_put_back_whole():
    from concurrent.futures import ThreadPoolExecutor

    from fbar.engine.global_numbers import seeded

    with seeded(Seeds(1)):
        outer = random.random(), np.random.random()  # noqa: NPY002
        with seeded(Seeds(2)):
            random.random()
        after = random.random(), np.random.random()  # noqa: NPY002
    with seeded(Seeds(1)):
        assert (random.random(), np.random.random()) == outer  # noqa: NPY002
        assert (random.random(), np.random.random()) == after  # noqa: NPY002

    np.random.standard_normal()  # noqa: NPY002 - which keeps a second one for the next call
    own, state = np.random.get_state(), random.getstate()  # noqa: NPY002

    def inside(thread):
        for i in range(300):
            with seeded(Seeds(1), 0, i, thread):
                np.random.random()  # noqa: NPY002

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(inside, range(3)))
    assert random.getstate() == state
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), own, strict=True))  # noqa: NPY002


class Doubled(fbar.each):
    def __call__(self, theta, rng):
        return [2 * x for x in super().__call__(theta, rng)]


class Named:
    single = True

    def __call__(self, theta, rng):
        return 2 * theta["theta"]


def test_simulators_that_wrap_others_are_called():
    """Rows are run alone only where that is known to be the same."""
    each = fbar.each(lambda theta, rng: theta["theta"])
    for simulate in (Doubled(each.function), Named()):
        theta, x, _ = outcomes(fbar.Problem(PRIOR, simulate, observed=1.0), InProcess(), 8, 4)
        assert np.array_equal(x, 2 * theta)


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


def test_a_run_without_streams_for_rows_is_watched_row_by_row_all_the_same():
    def simulate(theta, rng):
        x = rng.random()
        time.sleep(0.3 * (theta["cell"] == 3))
        return x

    problem = fbar.Problem(fbar.Finite(cell=np.arange(8)), fbar.each(simulate), observed=1.0)
    batch = Batch(0, 0, Points({"cell": np.arange(8)}), None, Seeds(1, streams=1))
    told = attempt.attempt_block(problem, batch, 0.1)
    assert told.failure.tolist() == [0, 0, 0, Failure.TIMED_OUT, 0, 0, 0, 0]
    assert np.delete(told.summaries, 3).tolist() == np.delete(fbar.simulate(problem, batch).summaries, 3).tolist()


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


def careless_now_and_then(theta, rng):
    return theta["theta"] + (random.random() if theta["theta"] < 0.3 else rng.random())


@pytest.mark.parametrize("careless", [True, False])
def test_a_worker_with_other_threads_warns_of_global_numbers(careless):
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    simulate = fbar.each(careless_now_and_then if careless else lambda theta, rng: theta["theta"] + rng.random())

    problem = fbar.Problem(PRIOR, simulate, observed=0.5)
    with ThreadPoolExecutor(1) as threads:
        asked = {"method": fbar.Rejection(tolerance=1), "budget": 400, "seed": 1, "block_size": 20}
        result = fbar.infer(problem, fbar.mean("theta"), engine=threads, **asked)
        stopped = fbar.infer(
            problem, fbar.mean("theta"), engine=threads, method=asked["method"], precision={"mean:theta": "20%"}, seed=1
        )
    assert any("global random numbers" in text for text in result.warnings) == careless
    assert any("global random numbers" in text for text in stopped.warnings) == careless
    with ProcessPoolExecutor(1) as processes:  # each has a thread of its own, and the same result
        there = fbar.infer(problem, fbar.mean("theta"), engine=processes, **asked)
    assert not any("global random numbers" in text for text in there.warnings)
