"""Faults do not bias: what fails is rejected and never drawn again, whatever it fails of and in whatever company.

The law of what is kept is tested here in one process, where a simulator raises, with many simulations. That one which
kills its process, hangs or runs out of memory gives the same answer bit for bit is tested with workers.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from faulty_simulators import KINDS, PRIOR, fault, outcomes
from fbar.engine import InProcess, Workers, recovery
from fbar.question.outcomes import Batch, Failure
from fbar.question.points import Points
from fbar.seeds import Seeds

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.mark.parametrize("block", [1, 8, 64])
@pytest.mark.parametrize("depends", ["theta", "theta and outcome"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fragile_region_keeps_its_probability(kind, depends, block):
    """Twelve tests of |z| < 5 of two numbers each: less than one false alarm in 10⁴ runs.

    Drawing what failed again would raise the fragile region's successes by a fifth to a half where a block has few
    other rows that fail: z above 7 here.
    """
    theta, x, failure = outcomes(KINDS[kind]("raise", depends), InProcess(), 2400, block)
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
