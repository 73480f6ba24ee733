"""Mistakes in a problem are found at once; functions that fail for some simulations stop nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fbar
from fbar.engine import InProcess, Workers
from fbar.engine.recovery import PROBES
from fbar.methods.ask_tell import MISTAKEN
from fbar.question.outcomes import Failure
from poison import (
    MEAN,
    PRIOR,
    REJECTION,
    asked,
    raised,
    simulated,
    some,
)

# ---------------------------------------------------------------- mistakes are found at once


def counted(simulate):
    calls = []

    def counting(theta, rng):
        calls.append(1)
        return simulate(theta, rng)

    return counting, calls


MISTAKES = {
    "shape": (lambda theta, rng: [1.0, 2.0], r"simulated summaries have shape \(2,\) and the observed ones \(\)"),
    "text": (lambda theta, rng: "abc", "simulated summaries are <U3 values and the observed ones float64"),
    "complex": (lambda theta, rng: 1j, "simulated summaries are complex128 values"),
    "name": (lambda theta, rng: {"y": 1.0}, "must hold its data under 'x'; it holds"),
    "refused": (lambda theta, rng: raised(fbar.InputError("not so")), "^not so$"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_every_simulation_ends_the_run_early(mistake, tmp_path):
    simulate, message = MISTAKES[mistake]
    # the first block may be run twice
    for block_size, most in ((1, MISTAKEN + 1), (16, MISTAKEN + 32), (None, 128)):
        counting, calls = counted(simulate)
        problem = fbar.Problem(PRIOR, fbar.each(counting), observed=0.5)
        with pytest.raises(fbar.InputError, match=message):
            fbar.infer(problem, MEAN, method=REJECTION, budget=5000, block_size=block_size, seed=1)
        assert len(calls) <= most
    with pytest.raises(fbar.InputError, match=message):
        fbar.infer(problem, MEAN, method=REJECTION, budget=5, seed=1)


BATCH_MISTAKES = {
    "one number": (lambda theta, rng: 1.0, "asked for {rows} simulations and returned 'x' of shape ()"),
    "one row": (lambda theta, rng: rng.random(1), "of shape (1,); its first axis must be the simulations"),
    "ten rows": (lambda theta, rng: rng.random(10), "of shape (10,); its first axis must be the simulations"),
    "columns": (lambda theta, rng: np.ones((theta.rows, 2)), "summaries have shape (2,) and the observed ones ()"),
    "complex": (lambda theta, rng: theta["theta"] + 1j, "simulated summaries are complex128"),
    "nothing": (lambda theta, rng: None, "the simulator returned None; return an array"),
    "no such parameter": (
        lambda theta, rng: theta["eta"],
        "there is no parameter 'eta'; did you mean 'theta'? known: theta",
    ),
}


@pytest.mark.parametrize("mistake", BATCH_MISTAKES)
def test_a_mistake_in_every_batch_ends_the_run_early(mistake):
    """Today's blocks have thousands of rows, whose single runs would take long."""
    simulate, message = BATCH_MISTAKES[mistake]
    for block_size in (None, 12, 1):
        counting, calls = counted(simulate)
        problem = fbar.Problem(PRIOR, counting, observed=0.5)
        if mistake == "one row" and block_size == 1:
            continue  # which is right
        with pytest.raises(fbar.InputError) as caught:
            fbar.infer(problem, MEAN, method=REJECTION, budget=5000, block_size=block_size, seed=1)
        assert message.format(rows=block_size or 4096) in str(caught.value)
        assert len(calls) <= 5 * PROBES


def useless_at(theta):
    """Of no use at these θ."""
    return fbar.Problem(PRIOR, fbar.each(lambda t, rng: "abc" if t["theta"] in theta else 0.5), observed=0.5)


def drawn(budget, block_size=1):
    """The θ of a run."""
    run = REJECTION.start(useless_at(()), MEAN, seed=1, budget=budget, block_size=block_size)
    return np.concatenate([batch.theta["theta"] for batch in run.ask()]).tolist()


def test_a_false_alarm_is_rare():
    """Half of all outputs are useless: with ten simulations one run in a thousand would end."""
    assert 0.5**MISTAKEN < 1e-12
    assert PROBES >= MISTAKEN


def test_a_few_useless_simulations_at_the_start_end_nothing():
    theta = drawn(80)
    few = useless_at(set(theta[: MISTAKEN - 1]))
    assert fbar.infer(few, MEAN, **asked(80)).run.seen.counts == {Failure.UNUSABLE: MISTAKEN - 1}
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(useless_at(set(theta[:MISTAKEN])), MEAN, **asked(80))


@pytest.mark.parametrize("block_size", [1, MISTAKEN + 2])
def test_a_run_that_ended_early_can_be_gone_on_with(block_size, tmp_path):
    """Its useless simulations are recorded, and are not held against it twice."""
    problem = useless_at(set(drawn(80, block_size)[: MISTAKEN + 5]))
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(problem, MEAN, run=tmp_path, **asked(80, block_size))
    result = fbar.infer(problem, MEAN, run=tmp_path, **asked(80, block_size))
    assert result.run.seen.counts == {Failure.UNUSABLE: MISTAKEN + 5}


def test_a_run_that_has_succeeded_never_ends_for_it(tmp_path):
    problem = useless_at(set(drawn(80)[1:]))
    result = fbar.infer(problem, MEAN, run=tmp_path, **asked(80))
    assert result.run.seen.counts == {Failure.UNUSABLE: 79}
    assert fbar.load(tmp_path, problem).accepted == result.accepted == 1


@pytest.mark.processes
def test_whether_a_run_ends_early_is_the_same_with_workers():
    """Block by block: the last useless simulation that it takes ends it, though the next is there already."""
    theta = drawn(80)
    engine = Workers(2)
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(useless_at(set(theta[:MISTAKEN])), MEAN, engine=engine, **asked(80))
    few = useless_at(set(theta[: MISTAKEN - 1]))
    assert fbar.infer(few, MEAN, engine=engine, **asked(80)).run.seen.failures == MISTAKEN - 1


# ---------------------------------------------------------------- functions of the user


def strict(function, most=0.9):
    """Raises for a whole batch if one of its rows is beyond."""

    def checked(x, *others):
        if (x > most).any():
            raise ArithmeticError("too large")
        return function(x, *others)

    return checked


@pytest.mark.parametrize("block_size", [1, 32])
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"summary": strict(lambda x: 2 * x)}, 0.2),
        ({"distance": strict(lambda x, observed: np.abs(x - observed))}, 0.2),
        ({"accept": strict(lambda x, observed: np.abs(x - observed) < 0.2)}, None),
        ({"summary": strict(lambda x: raised(SystemExit(1)) if (x > 0.9).any() else x, 2.0)}, 0.2),
    ],
)
def test_a_function_that_raises_for_some_simulations_stops_nothing(options, tolerance, block_size, tmp_path):
    problem = fbar.Problem(PRIOR, some, observed=0.5, **options)
    method = fbar.Rejection(rounds=1, tolerance=tolerance or 0.0)
    asked = {"method": method, "budget": 160, "block_size": block_size, "seed": 1}
    result = fbar.infer(problem, MEAN, run=tmp_path / "run", **asked)
    _, x, _ = simulated(fbar.Problem(PRIOR, some, observed=0.5), InProcess(), 160, block_size, seed=1)
    assert result.run.seen.counts == {Failure.UNUSABLE: int((x > 0.9).sum())}
    assert "failed: " in result.run.seen.examples[Failure.UNUSABLE]
    assert fbar.load(tmp_path / "run", problem).run.seen.counts == result.run.seen.counts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distance": lambda x, observed: x - observed}, "a distance must be at least 0; got -"),
        ({"distance": lambda x, observed: np.abs(x - observed).astype(str)}, "distances must be numbers"),
        ({"accept": lambda x, observed: x - observed}, "must return true or false"),
        ({"summary": lambda x: x[:1]}, "must return a row for each"),
        ({"summary": strict(lambda x: x, -1)}, "the summary failed"),
    ],
)
def test_nonsense_is_refused_in_the_first_block(options, message):
    """Some of these give nonsense for some simulations only, and would bias the answer if those were left out."""
    method = fbar.Rejection() if "accept" in options else REJECTION
    with pytest.raises(fbar.InputError, match=message):
        fbar.infer(fbar.Problem(PRIOR, some, observed=0.5, **options), MEAN, method=method, budget=200, seed=1)


def test_nonsense_that_comes_later_fails_alone(tmp_path):
    def rarely_negative(x, observed):
        return np.where(x > 1.1, -1.0, np.abs(x - observed))

    problem = fbar.Problem(PRIOR, some, observed=0.5, distance=rarely_negative)
    asked = {"method": REJECTION, "budget": 320, "block_size": 1, "seed": 1, "run": tmp_path / "run"}
    _, x, _ = simulated(fbar.Problem(PRIOR, some, observed=0.5), InProcess(), 320, 1, seed=1)
    assert x[0] < 1.1 < x.max()
    assert fbar.infer(problem, MEAN, **asked).run.seen.counts == {Failure.UNUSABLE: int((x > 1.1).sum())}
    assert fbar.load(tmp_path / "run", problem).run.seen.failures == int((x > 1.1).sum())


def test_a_derived_parameter_that_fails_for_some_rows():
    derived = {"root": lambda theta: np.array([math.sqrt(value - 0.1) for value in theta["theta"]])}
    problem = fbar.Problem(
        PRIOR, fbar.each(lambda theta, rng: theta["root"] + 0.1 * rng.normal()), observed=0.5, derived=derived
    )
    theta, _, failure = simulated(problem, InProcess(), 64, 8)
    assert np.array_equal(failure == Failure.REFUSED, theta < 0.1)
    assert set(failure) == {Failure.NONE, Failure.REFUSED}
    result = fbar.infer(problem, MEAN, method=REJECTION, budget=200, seed=1)
    assert result.expect(fbar.mean("root")).value > 0
