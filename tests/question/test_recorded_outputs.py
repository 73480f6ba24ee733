"""Recorded outputs and returned costs that cannot be used fail alone, and what nobody asked for disturbs nothing."""

from __future__ import annotations

import numpy as np
import pytest

import fbar
from fbar.engine.attempt import attempt_block
from fbar.question.outcomes import Batch, Failure, Simulated
from fbar.question.points import Points
from fbar.question.simulators import RowFailed, TimedOut
from fbar.seeds import Seeds
from poison import (
    MEAN,
    PRIOR,
    REJECTION,
    NoArray,
    answer,
    raised,
    some,
)

# ---------------------------------------------------------------- recorded outputs

SPOILT_RECORDS = {
    "text": (lambda x: {"x": x, "peak": "abc"}, Failure.UNUSABLE),
    "none": (lambda x: {"x": x, "peak": None}, Failure.UNUSABLE),
    "pair": (lambda x: {"x": x, "peak": [x, x]}, Failure.UNUSABLE),
    "object": (lambda x: {"x": x, "peak": NoArray()}, Failure.UNUSABLE),
    "missing": (lambda x: {"x": x}, Failure.WRONG_SHAPE),
    "alone": (lambda x: x, Failure.WRONG_SHAPE),
}
METHODS = [REJECTION, fbar.Targeted(tolerance=0.2), fbar.SMC([0.4, 0.2])]


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("how", SPOILT_RECORDS)
def test_a_record_of_another_kind_fails_alone(how, block_size, tmp_path):
    spoil, kind = SPOILT_RECORDS[how]

    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return spoil(x) if 0.4 < theta["theta"] < 0.6 else {"x": x, "peak": 2 * theta["theta"]}

    problem = fbar.Problem(PRIOR, simulate, observed=0.5, records=["peak"])
    for number, method in enumerate(METHODS[:1] if block_size == 1 else METHODS):
        run = tmp_path / str(number)
        asked = {"method": method, "budget": 200, "block_size": block_size, "seed": 1, "run": run}
        result = fbar.infer(problem, [MEAN, fbar.mean("peak")], **asked)
        assert set(result.run.seen.counts) == {kind}
        assert result["mean:peak"].value == pytest.approx(2 * result["mean:theta"].value)
        again = fbar.load(run, problem, targets=[fbar.mean("peak")])
        assert again["mean:peak"].value == result["mean:peak"].value


def labelled_at(labels):
    """The record is a label at these θ, and θ itself elsewhere."""

    @fbar.each
    def simulate(theta, rng):
        x, peak = float(theta["theta"] + 0.1 * rng.normal()), theta["theta"]
        return {"x": x, "peak": "none" if labels is None or peak in labels else peak}

    return fbar.Problem(PRIOR, simulate, observed=0.5, records=["peak"])


@pytest.mark.parametrize("block_size", [1, 7])
@pytest.mark.parametrize("method", METHODS)
def test_text_before_the_first_number_of_a_record_fails_too(method, block_size, tmp_path):
    """They are failures whenever they came, and the run is loaded, resumed and extended."""
    asked = {"budget": 200, "block_size": block_size, "seed": 1}
    first = np.concatenate([batch.theta["theta"] for batch in method.start(labelled_at(()), MEAN, **asked).ask()])[:7]
    problem = labelled_at(set(first.tolist()))
    result = fbar.infer(problem, [MEAN, fbar.mean("peak")], method=method, run=tmp_path, **asked)
    assert result.run.seen.counts == {Failure.UNUSABLE: 7}
    assert "is a number in other simulations; got 'none'" in result.run.seen.examples[Failure.UNUSABLE]
    assert result["mean:peak"].value == pytest.approx(result["mean:theta"].value)
    assert answer(fbar.load(tmp_path, problem)) == answer(result)
    extended = fbar.extend(tmp_path, problem, budget=300)
    assert extended.run.seen.counts == {Failure.UNUSABLE: 7}


@pytest.mark.parametrize("method", METHODS)
def test_text_in_a_numeric_record_counts_the_same_in_any_order(method):
    """As simulations that fail at once do, whichever come first."""
    run, other = (method.start(labelled_at(()), MEAN, seed=1, budget=64, block_size=1) for _ in range(2))
    told = 0
    while batches := run.ask():
        again = other.ask()
        for batch, same in zip(batches, again, strict=True):
            x, spoilt = batch.theta["theta"], np.array([told < 5 or told == 9])
            peak = np.array(["none"]) if spoilt[0] else x
            failure = np.where(spoilt, Failure.UNUSABLE, 0).astype(np.int8)
            run.tell((batch, Simulated(x, {"peak": peak}, np.zeros(1, np.int8))))
            other.tell((same, Simulated(x, {"peak": np.where(spoilt, np.nan, x)}, failure)))
            told += 1
    found, wanted = run.posterior(), other.posterior()
    assert run.seen.counts == other.seen.counts == {Failure.UNUSABLE: 6}
    assert run.seen.closest == other.seen.closest
    assert found.accepted == wanted.accepted
    for target in (MEAN, fbar.mean("peak")):
        assert found.expect(target).value == pytest.approx(wanted.expect(target).value)
        assert found.expect(target).variance == pytest.approx(wanted.expect(target).variance)


CELL_METHODS = [fbar.AdaptiveAllocation(), fbar.InverseBinomial(hits=5)]


@pytest.mark.parametrize("method", CELL_METHODS)
def test_text_before_the_first_number_fails_in_cells_too(method):
    @fbar.each
    def simulate(theta, rng):
        return {"x": 1.0, "peak": "none" if theta["cell"] == 0 else 1.0}

    problem = fbar.Problem(fbar.Finite(cell=[0, 1]), simulate, observed=1.0, records=["peak"])
    result = fbar.infer(problem, fbar.mean("cell"), method=method, budget=60, block_size=1, seed=1)
    assert result["mean:cell"].value == 1.0
    assert set(result.run.seen.counts) == {Failure.UNUSABLE}


def test_labels_remain_labels():
    problem = labelled_at(None)
    result = fbar.infer(problem, fbar.probability("peak == 'none'"), method=REJECTION, budget=50, block_size=1, seed=1)
    assert not result.run.seen.counts
    assert result.expect(fbar.probability("peak == 'none'")).value == 1


@pytest.mark.parametrize("block_size", [1, 16])
def test_a_number_in_a_failed_simulation_makes_no_label_fail(block_size):
    def simulate(theta, rng):
        bad = theta["theta"] < 0.1
        return {"x": np.nan if bad else theta["theta"], "peak": 0.0 if bad else "none"}

    problem = fbar.Problem(PRIOR, fbar.each(simulate), observed=0.5, records=["peak"])
    target = fbar.probability("peak == 'none'")
    result = fbar.infer(problem, target, method=REJECTION, budget=160, block_size=block_size, seed=1)
    assert set(result.run.seen.counts) == {Failure.NOT_FINITE}
    assert result.expect(target).value == 1


@pytest.mark.parametrize("summary", [lambda x: x.mean(axis=1), None])
def test_the_shape_of_a_row_is_judged_by_that_row(summary):
    """A summary takes populations of any size, whatever the sizes in their block; without one they fail."""
    rows = [np.full(size, 0.5) for size in (1, 3, 2, 3, 4)]
    problem = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: 0.0), np.full(3, 0.5), summary=summary)
    failed = [0, 0, 0, 0, 0] if summary else [Failure.WRONG_SHAPE, 0, Failure.WRONG_SHAPE, 0, Failure.WRONG_SHAPE]
    assert problem.outcomes(rows, 5).failure.tolist() == failed
    if summary:
        assert [problem.outcomes([row], 1).failure.item() for row in rows] == failed
        assert problem.outcomes(np.stack([rows[4]] * 2), 2).failure.tolist() == [0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_outputs_that_nobody_asked_for_disturb_nothing(method, tmp_path):
    extras = [lambda x: 1.0, lambda x: "abc", lambda x: [1, 2], lambda x: object(), lambda x: np.datetime64("2020")]

    def simulate(extra):
        @fbar.each
        def simulate(theta, rng):
            x = float(theta["theta"] + 0.1 * rng.normal())
            way = rng.integers(len(extras) + 1)
            return {"x": x, "extra": extras[way](x)} if extra and way < len(extras) else x

        return simulate

    for block_size in (1, 8):
        asked = {"method": method, "budget": 200, "block_size": block_size, "seed": 1}
        plain = fbar.infer(fbar.Problem(PRIOR, simulate(False), observed=0.5), MEAN, **asked)
        problem = fbar.Problem(PRIOR, simulate(True), observed=0.5)
        result = fbar.infer(problem, MEAN, run=tmp_path / str(block_size), **asked)
        assert answer(result) == answer(plain)
        assert answer(fbar.load(tmp_path / str(block_size), problem)) == answer(plain)


@pytest.mark.parametrize("method", METHODS)
def test_records_of_before_such_simulations_failed_are_read(method):
    """They were written down before the run ended for them, and then met again by every resume."""
    problem = fbar.Problem(PRIOR, some, observed=0.5, cost="returned")
    run = method.start(problem, MEAN, seed=1, budget=64, block_size=16)
    for batch in run.ask():
        x = some(batch.theta, batch.rng())
        recorded = {"theta": np.zeros(batch.simulations), "pair": np.zeros((batch.simulations, 2))}
        run.tell((batch, Simulated(x, recorded, np.zeros(batch.simulations, np.int8))))
    assert run.simulations > 0
    assert run.posterior().expect(MEAN).value > 0.1


def test_a_promised_cost_that_is_missing_once(tmp_path):
    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return x if rng.random() < 0.1 else {"x": x, "cost": 1 + theta["theta"]}

    problem = fbar.Problem(PRIOR, simulate, observed=0.5, cost="returned")
    for block_size in (1, 16):
        method = fbar.Targeted(tolerance=0.2, per="second")
        result = fbar.infer(problem, MEAN, method=method, budget=200, block_size=block_size, seed=1)
        assert set(result.run.seen.counts) == {Failure.UNUSABLE}
        assert "came without 'cost'" in result.run.seen.examples[Failure.UNUSABLE]
        assert result.run.spent_cost > 0


def test_a_cost_that_is_returned_now_and_then_stops_nothing():
    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return {"x": x, "cost": 1.0} if rng.random() < 0.1 else x

    method = fbar.Targeted(tolerance=0.2, per="second")
    problem = fbar.Problem(PRIOR, simulate, observed=0.5)
    assert fbar.infer(problem, MEAN, method=method, budget=200, block_size=16, seed=1).run.seen.failures == 0


def test_a_time_limit_strikes_through_simulators_within_simulators():
    """It is no failure of the row that happens to run, but of the batch, whose rows share a stream."""
    models = {
        "a": fbar.Model(fbar.each(lambda theta, rng: raised(TimedOut())), PRIOR),
        "b": fbar.Model(lambda theta, rng: rng.random(theta.rows), PRIOR),
    }
    problem = fbar.Problem.models(models, observed=0.5)
    points = Points({"model": np.array(["a", "b"]), "theta": np.full(2, 0.5)})
    found = attempt_block(problem, Batch(0, 0, points, None, Seeds(1)), timeout=100.0)
    assert isinstance(found, RowFailed)
    assert found.kind is Failure.TIMED_OUT
