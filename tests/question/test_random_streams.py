"""Streams of random numbers: one for each row, and global ones that are seeded and put back."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

import fbar
from faulty_simulators import PRIOR, outcomes
from fbar.engine import InProcess, Workers, attempt
from fbar.question.outcomes import Batch, Failure
from fbar.question.points import Points
from fbar.seeds import Seeds

pytestmark = [pytest.mark.slow, pytest.mark.processes]


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
