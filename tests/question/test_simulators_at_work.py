"""What simulators do that their authors did not mean: results must not depend on it, and runs must not die of it."""

from __future__ import annotations

import functools
import random
import sys
import threading

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import Workers
from fbar.ledger.settings import describe
from fbar.question.outcomes import Failure

PRIOR = fbar.Prior(a=stats.uniform(0, 10))
MEAN = fbar.mean("a")
REJECTION = fbar.Rejection(tolerance=1)
SCALE = 1.0


def infer(simulate, budget=2000, **options):
    problem = fbar.Problem(PRIOR, simulate, observed=5.0, records=options.pop("records", ()))
    return fbar.infer(problem, MEAN, method=REJECTION, budget=budget, seed=1, **options)


def test_parameters_cannot_be_changed_in_place():
    def simulate(theta, rng):
        a = theta["a"]
        a += 1
        return a

    with pytest.raises(fbar.SimulatorFailed, match="read-only"):
        infer(simulate)


def test_a_simulator_may_fill_the_same_array_again():
    buffer, record = np.zeros(()), np.zeros(4096)

    @fbar.each
    def one(theta, rng):
        buffer[...] = theta["a"] + 0.1 * rng.standard_normal()
        return buffer

    fresh = fbar.each(lambda theta, rng: theta["a"] + 0.1 * rng.standard_normal())
    assert infer(one)["mean:a"].value == infer(fresh)["mean:a"].value

    def batch(theta, rng):
        record[: theta.rows] = theta["a"] ** 2
        return {"x": theta["a"] + 0.1 * rng.standard_normal(theta.rows), "peak": record[: theta.rows]}

    problem = fbar.Problem(PRIOR, batch, observed=5.0, records=["peak"])
    asked = [fbar.mean("peak"), fbar.second_moment("a")]
    peak, second = fbar.infer(problem, asked, method=fbar.SMC((3, 1), accepted=100), seed=1).estimates
    assert peak.value == pytest.approx(second.value)


def test_global_random_numbers_are_seeded_by_block_and_left_as_they_were():
    def careless(theta, rng):
        noise = np.random.standard_normal(theta.rows) + random.gauss(0, 1)  # noqa: NPY002
        return theta["a"] + 0.1 * noise

    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = infer(careless, block_size=100)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.random()  # noqa: NPY002
    assert infer(careless, block_size=100)["mean:a"].value == first["mean:a"].value
    problem = fbar.Problem(PRIOR, careless, observed=5.0)
    parallel = fbar.infer(problem, MEAN, method=REJECTION, budget=2000, seed=1, block_size=100, workers=2)
    assert parallel["mean:a"].value == first["mean:a"].value


def test_blocks_do_not_share_global_random_numbers():
    drawn = []

    def careless(theta, rng):
        drawn.append((np.random.random(), random.random()))  # noqa: NPY002
        return theta["a"]

    infer(careless, block_size=100)
    assert len(drawn) >= 20
    # The first block may have been simulated twice, with the same numbers.
    assert all(len(set(column)) >= len(drawn) - 1 for column in zip(*drawn, strict=True))


@pytest.mark.parametrize("workers", [None, 2])
def test_a_simulator_that_exits_fails_and_does_not_end_the_run(workers):
    @fbar.each
    def simulate(theta, rng):
        if theta["a"] > 9:
            sys.exit(3)
        return theta["a"] + 0.1 * rng.standard_normal()

    result = infer(simulate, budget=600, workers=workers)
    assert result.simulations == 600
    assert 30 < result.run.seen.counts[Failure.EXCEPTION] < 100
    assert "SystemExit: 3" in str(result)


def test_blocks_that_fail_whole_have_no_recorded_outputs():
    @fbar.each
    def simulate(theta, rng):
        if rng.random() < 0.8:
            raise RuntimeError("diverged\nbadly\n" + 1000 * "x")
        return {"x": theta["a"], "peak": 2 * theta["a"]}

    result = infer(simulate, budget=800, block_size=4, records=["peak"])
    assert result.expect(fbar.mean("peak")).value == pytest.approx(2 * result["mean:a"].value)
    assert all("\n" not in text and len(text) < 600 for text in result.warnings)


def test_rows_of_another_form_are_failures():
    @fbar.each
    def simulate(theta, rng):
        what = rng.integers(10)
        x = theta["a"]
        return {"y": x} if what == 0 else x if what == 1 else {"x": x, "peak": x}

    result = infer(simulate, records=["peak"])
    assert 300 < result.run.seen.counts[Failure.WRONG_SHAPE] < 500
    assert abs(result["mean:a"].value - 5) < 5 * result["mean:a"].standard_error


def test_a_vectorised_simulator_may_squeeze_one_row():
    def simulate(theta, rng):
        if (theta["a"] > 9.5).any():
            raise ValueError("too large")
        return np.squeeze(theta["a"] + 0.0)

    result = infer(simulate, budget=400, block_size=20)
    assert set(result.run.seen.counts) == {Failure.EXCEPTION}


def test_masked_values_are_missing():
    def simulate(theta, rng):
        return np.ma.masked_array(np.full(theta.rows, 5.0), mask=rng.random(theta.rows) < 0.5)

    result = infer(simulate)
    assert 800 < result.run.seen.counts[Failure.NOT_FINITE] < 1200


def test_what_cannot_travel_is_said_in_one_line():
    lock = threading.Lock()

    def simulate(theta, rng):
        with lock:
            return theta["a"]

    with pytest.raises(fbar.InputError, match="cannot be sent to other processes"):
        infer(simulate, workers=1)
    with pytest.raises(fbar.InputError, match="run must be a path"):
        infer(lambda t, rng: t["a"], run=3)
    with pytest.raises(fbar.InputError, match="run must be a path"):
        infer(lambda t, rng: t["a"], run="")
    with pytest.raises(fbar.InputError, match="progress must be a function"):
        infer(lambda t, rng: t["a"], progress="yes")


def test_slow_simulators_have_small_blocks():
    """What is under way when a run is interrupted is lost: little of it where a simulation takes long."""
    one = fbar.each(lambda theta, rng: theta["a"])
    models = fbar.Problem.models({"m": fbar.Model(one, PRIOR)}, observed=5.0)
    for problem in (fbar.Problem(PRIOR, one, observed=5.0), models):
        batches = REJECTION.start(problem, fbar.mean("a"), 1, 10_000).ask()
        assert max(batch.simulations for batch in batches) == 64
    vectorised = fbar.Problem(PRIOR, lambda t, rng: t["a"], observed=5.0)
    assert REJECTION.start(vectorised, MEAN, 1, 10_000).ask()[0].simulations > 64


def digest(simulate):
    return describe(fbar.Problem(PRIOR, simulate, observed=5.0))["simulator"]


def shifted(theta, rng, by=0.0):
    return theta["a"] + by


class Shift:
    def __init__(self, by):
        self.by = by

    def __call__(self, theta, rng):
        return theta["a"] + self.by


def closure(by):
    return lambda theta, rng: theta["a"] + by


def constant(theta, rng):
    return theta["a"] * SCALE


def test_a_changed_simulator_is_known_by_all_it_depends_on(monkeypatch, tmp_path):
    assert digest(functools.partial(shifted, by=1.0)) != digest(functools.partial(shifted, by=2.0))
    assert digest(Shift(1)) != digest(Shift(2))
    assert digest(Shift(1)) == digest(Shift(1))
    assert digest(closure(1)) != digest(closure(2))
    assert digest(closure(1)) == digest(closure(1))
    before = digest(constant)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    assert digest(constant) != before

    def choice(by):
        problem = fbar.Problem.models({"m": fbar.Model(closure(by), PRIOR)}, observed=5.0)
        return describe(problem)["simulator"]

    assert choice(1) != choice(2)
    assert digest(fbar.program(["echo", "{a}"])) != digest(fbar.program(["echo", "{a}", "-n"]))


def test_a_closed_executor_is_said_to_be():
    from concurrent.futures import ThreadPoolExecutor

    from fbar.errors import EngineFailed

    with ThreadPoolExecutor(1) as pool:
        assert infer(lambda t, rng: t["a"], engine=pool).simulations == 2000
    with pytest.raises(EngineFailed, match="was closed"):
        infer(lambda t, rng: t["a"], engine=pool)


def test_workers_are_an_engine():
    assert infer(lambda t, rng: t["a"], engine=Workers(1)).simulations == 2000
