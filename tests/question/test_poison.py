"""A run cannot be poisoned: whatever a simulation gives or raises, it fails alone, and the run goes on.

What cannot be used is compared with the same simulator that gives NaN in its place: every other simulation must be the
same to the last bit, with any engine.
"""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fbar
from fbar.engine import Futures, InProcess, Workers
from fbar.engine.attempt import Part, attempt_part
from fbar.question.outcomes import Batch, Failure
from fbar.question.points import Points
from fbar.question.simulators import RowFailed, TimedOut
from fbar.seeds import Seeds
from poison import (
    KINDS,
    MEAN,
    NAN,
    POISONS,
    PRIOR,
    REJECTION,
    NoArray,
    OfMyOwn,
    answer,
    poisoned,
    raised,
    simulated,
)

# ---------------------------------------------------------------- one row


@pytest.mark.parametrize("block_size", [1, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_used_fails_alone(kind, block_size):
    for name, way in KINDS[kind].items():
        _, x, failure = simulated(poisoned({name: (kind, way)}), InProcess(), 24, block_size)
        _, clean, lost = simulated(poisoned(NAN), InProcess(), 24, block_size)
        assert np.array_equal(x, clean, equal_nan=True), name
        assert set(failure) == {Failure.NONE, kind}, name
        assert np.array_equal(failure != 0, lost != 0), name


def test_what_is_said_of_it_is_one_line_that_can_be_written():
    for name, (kind, way) in POISONS.items():
        batch = Batch(0, 1, Points({"theta": np.full(2, 0.5)}), None, Seeds(1))
        found = fbar.simulate(poisoned({name: (kind, way)}, share=1.0), batch)
        text = found.examples[kind]
        assert text, name
        assert "\n" not in text, name
        assert len(text.encode()) < 500, name
        found.details[kind].encode()
        pickle.loads(pickle.dumps(found))


def test_numbers_of_kinds_are_those_of_recorded_runs():
    """A record says 3 for a wrong shape, and says so for ever."""
    names = ["NONE", "EXCEPTION", "NOT_FINITE", "WRONG_SHAPE", "TIMED_OUT", "KILLED", "UNUSABLE", "REFUSED"]
    assert [kind.name for kind in sorted(Failure)] == names
    assert [int(kind) for kind in sorted(Failure)] == list(range(8))
    assert all(kind.words for kind in Failure)


def test_what_must_pass_passes():
    batch = Batch(0, 0, Points({"theta": np.array([0.5])}), None, Seeds(1))
    for error in (KeyboardInterrupt, TimedOut):

        def simulate(theta, rng, error=error):
            raise error

        for given in (simulate, fbar.each(simulate)):
            with pytest.raises(error):
                given(batch.theta, batch.rng())
    one = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: raised(KeyboardInterrupt())), observed=0.5)
    many = fbar.Problem(PRIOR, lambda theta, rng: raised(KeyboardInterrupt()), observed=0.5)
    for problem in (one, many):
        with pytest.raises(KeyboardInterrupt):
            fbar.simulate(problem, batch)


# ---------------------------------------------------------------- whole runs


@pytest.mark.parametrize("block_size", [1, 8])
def test_a_poisoned_run_is_recorded_resumed_extended_and_reported(block_size, tmp_path):
    problem, directory = poisoned(POISONS, share=0.4), tmp_path / "run"
    asked = {"method": REJECTION, "budget": 160, "block_size": block_size, "seed": 3}

    def interrupt(run):
        if run.simulations >= 64:
            raise KeyboardInterrupt

    whole = fbar.infer(problem, MEAN, **asked)
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem, MEAN, run=directory, progress=interrupt, **asked)
    resumed = fbar.infer(problem, MEAN, run=directory, **asked)
    assert answer(resumed) == answer(whole)
    assert answer(fbar.load(directory, problem)) == answer(whole)
    counts = whole.run.seen.counts
    assert set(counts) == set(KINDS)
    assert str(resumed).count("gave a result that cannot be used") == 1
    clean = fbar.infer(poisoned(NAN, share=0.4), MEAN, **asked)
    assert answer(whole)[:2] == answer(clean)[:2]
    assert sum(counts.values()) == clean.run.seen.failures
    extended = fbar.extend(directory, problem, budget=240)
    assert extended.run.simulations == 240
    assert answer(fbar.load(directory, problem)) == answer(extended)
    if block_size > 1:
        report = fbar.load(directory, problem).report(tmp_path / "report.html", predictive=0)
        assert "cannot be used" in report.read_text()


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 8])
def test_all_engines_give_the_same(block_size):
    problem = poisoned(POISONS, share=0.4)
    here = simulated(problem, InProcess(), block_size=block_size)
    for count in (1, 2, 4):
        assert all(map(np.array_equal, simulated(problem, Workers(count), block_size=block_size), here, [0, True, 0]))
    with ThreadPoolExecutor(2) as threads:
        assert all(map(np.array_equal, simulated(problem, Futures(threads), block_size=block_size), here, [0, True, 0]))


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same():
    distributed = pytest.importorskip("distributed")
    problem = poisoned(POISONS, share=0.4)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = simulated(problem, fbar.Dask(client), 60)
    assert all(map(np.array_equal, there, simulated(problem, InProcess(), 60), [0, True, 0]))


@pytest.mark.processes
@pytest.mark.slow
def test_beside_a_row_that_kills_its_worker():
    """Then rows travel one by one, and what cannot be pickled must not."""
    poisons = {name: POISONS[name] for name in ("generator", "function", "no array", "of my own", "cannot travel")}

    def spoilt(kills):
        inner = poisoned(poisons, share=0.4)

        @fbar.each
        def simulate(theta, rng):
            if theta["theta"] > 0.9:
                os._exit(1) if kills else raised(ArithmeticError())
            return inner.simulate.function(theta, rng)

        return fbar.Problem(PRIOR, simulate, observed=0.5)

    _, x, failure = simulated(spoilt(True), Workers(2), 48)
    _, here, failed = simulated(spoilt(False), InProcess(), 48)
    assert np.array_equal(x, here, equal_nan=True)
    assert np.array_equal(failure != 0, failed != 0)
    assert Failure.KILLED in failure
    assert Failure.UNUSABLE in failure


def test_single_rows_travel_in_a_plain_form():
    batch = Batch(0, 0, Points({"theta": np.full(3, 0.5)}), None, Seeds(1))
    outputs = iter([{"x": np.float32(1), "cost": 2, "extra": (i for i in [1])}, NoArray(), [0.5]])
    problem = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: next(outputs)), observed=[0.5])
    rows = pickle.loads(pickle.dumps(attempt_part(problem, batch, Part(0, 3))))
    assert [isinstance(row, RowFailed) for row in rows] == [True, True, False]
    assert rows[0].kind == Failure.WRONG_SHAPE


# ---------------------------------------------------------------- vectorised simulators

BATCHES = {
    "rows left out": lambda x, bad: x[~bad],
    "one row more": lambda x, bad: np.append(x, 0.0) if bad.any() else x,
    "another shape": lambda x, bad: np.stack([x, x], axis=1) if bad.any() else x,
    "text": lambda x, bad: np.where(bad, "abc", x) if bad.any() else x,
    "complex": lambda x, bad: np.where(bad, 1j, x) if bad.any() else x,
    "nothing": lambda x, bad: None if bad.any() else x,
    "refused": lambda x, bad: raised(fbar.InputError("mine")) if bad.any() else x,
    "of my own": lambda x, bad: raised(OfMyOwn()) if bad.any() else x,
    "generator exit": lambda x, bad: raised(GeneratorExit()) if bad.any() else x,
    "stop": lambda x, bad: raised(StopIteration()) if bad.any() else x,
    "objects": lambda x, bad: np.where(bad, object(), x),
    "negative cost": lambda x, bad: {"x": x, "cost": np.where(bad, -1.0, 1.0)},
}


def vectorised(spoil, f):
    """The outcome is 1 with probability 0.7; rows of the lower half of θ are spoilt with probability f."""

    def simulate(theta, rng):
        x = (rng.random(theta.rows) < 0.7).astype(float)
        return spoil(x, rng.random(theta.rows) < f * (theta["theta"] < 0.5))

    return fbar.Problem(PRIOR, simulate, observed=1.0)


def one_by_one(spoil, f):
    @fbar.each
    def simulate(theta, rng):
        x = float(rng.random() < 0.7)
        return "abc" if rng.random() < f * (theta["theta"] < 0.5) else x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rows left out", "another shape", "objects", "one by one"])
def test_what_cannot_be_used_biases_nothing(how):
    """Four tests of three counts within 5 standard errors: less than one false alarm in 10⁵ runs.

    A second chance for rows of a batch would raise the counts of the lower half by a fifth: z of about 6.
    """
    make = one_by_one if how == "one by one" else vectorised
    theta, x, failure = simulated(make(BATCHES.get(how), 0.4), InProcess(), 2400, 4)
    low = theta < 0.5
    assert not failure[~low].any()
    for rows, value, p in ((low, 1.0, 0.42), (low, 0.0, 0.18), (~low, 1.0, 0.7)):
        n, hits = int(rows.sum()), int((x[rows] == value).sum())
        assert abs(hits - n * p) < 5 * np.sqrt(n * p * (1 - p)), (value, hits / n, p)


@pytest.mark.parametrize("how", BATCHES)
def test_only_the_rows_at_fault_fail(how):
    def simulate(theta, rng):
        return BATCHES[how](rng.random(theta.rows), theta["cell"] % 5 == 3)

    problem = fbar.Problem(fbar.Finite(cell=np.arange(12)), simulate, observed=1.0)
    for block in (0, 1):
        found = fbar.simulate(problem, Batch(0, block, Points({"cell": np.arange(12)}), None, Seeds(1)))
        assert np.flatnonzero(found.failure).tolist() == [3, 8], how


@pytest.mark.processes
@pytest.mark.slow
def test_batches_give_the_same_with_workers():
    for how in ("rows left out", "refused", "of my own"):
        problem = vectorised(BATCHES[how], 0.1)
        here = simulated(problem, InProcess(), 128, 16)
        assert here[2].any()
        assert all(map(np.array_equal, simulated(problem, Workers(2), 128, 16), here, [0, True, 0]))


def test_models_of_a_choice_fail_alone():
    def model(spoil):
        def simulate(theta, rng):
            x = rng.random(theta.rows)
            return spoil(x) if (theta["theta"] > 0.8).any() else x

        return fbar.Model(simulate, PRIOR)

    models = {"a": model(lambda x: x[:-1]), "b": model(lambda x: {"x": x, "y": x[1:]})}
    problem = fbar.Problem.models(models, observed=0.5)
    run = fbar.Rejection(rounds=1).start(problem, fbar.model_probability("a"), seed=1, budget=64, block_size=16)
    for batch in run.ask():
        found = fbar.simulate(problem, batch)
        assert np.array_equal(found.failure == Failure.WRONG_SHAPE, batch.theta["theta"] > 0.8)
        assert set(found.failure) <= {Failure.NONE, Failure.WRONG_SHAPE}
