"""The rules that every method must keep, as tests to inherit.

Three lines check a method of your own with pytest::

    from fbar.testing import MethodConformance

    class TestMyMethod(MethodConformance):
        method = MyMethod()

Override ``problem``, ``target`` and ``budget`` for a method that needs others. The problem must know its truth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from fbar.engine import simulate
from fbar.estimation.posterior import Posterior
from fbar.methods import Method, Run
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.priors import Finite
from fbar.question.problem import Problem
from fbar.question.targets import Target, mean

RUNS = 200
MISSES = 34
"""Of 200 runs with intervals that cover 92% or more, over 34 miss with a probability of 10⁻⁵."""


def bernoulli(p_star: Sequence[float]) -> Problem:
    """A problem with a real simulator, one number a simulation, whose truth is known for the tests."""
    values = np.arange(1.0, len(p_star) + 1)
    table = np.asarray(p_star, dtype=np.float64)

    def simulate_one(theta: Any, rng: np.random.Generator) -> Any:
        return (rng.random(theta.rows) < table[theta["theta"].astype(int) - 1]).astype(float)

    return Problem(Finite(theta=values), simulate_one, observed=1.0)


def finish(run: Run, order: str = "in order") -> Posterior:
    """Drive a run with its blocks told one by one, backwards, or all of a round at once."""
    while batches := run.ask():
        answers: list[tuple[Batch, Outcomes]] = [(batch, simulate(run.problem, batch)) for batch in batches]
        if order == "together":
            run.tell(*answers)
        else:
            for answer in answers if order == "in order" else reversed(answers):
                run.tell(answer)
    return run.posterior()


def same(first: Posterior, second: Posterior, target: Target) -> bool:
    """Whether two posteriors agree to the last bit, in their points, weights, estimates and error bars."""
    if any(not np.array_equal(first.points[name], second.points[name]) for name in first.points):
        return False
    a, b = first.expect(target), second.expect(target)
    return (
        np.array_equal(first.weights, second.weights)
        and np.array_equal(a.value, b.value)
        and np.array_equal(a.standard_error, b.standard_error, equal_nan=True)
        and a.simulations == b.simulations
    )


class MethodConformance:
    """Inherit, set ``method``, and pytest checks the rules of `fbar.methods.ask_tell`."""

    method: Method
    target: Target = mean("theta")
    budget: int | None = 2000
    block_size = 64

    @property
    def problem(self) -> Problem:
        """What the method is tried on, with many blocks in a round."""
        return bernoulli((0.3, 0.05, 0.2, 0.6))

    @property
    def known(self) -> Problem:
        """A problem that knows its truth, for the test of the error bars."""
        return Problem.tabulated(Finite(theta=[1.0, 2.0, 3.0, 4.0]), [0.3, 0.05, 0.2, 0.6])

    def start(self, seed: int = 1) -> Run:
        return self.method.start(self.problem, self.target, seed, self.budget, block_size=self.block_size)

    def test_settings_cannot_be_changed(self) -> None:
        assert dataclasses.is_dataclass(self.method)
        for field in dataclasses.fields(self.method):
            try:
                setattr(self.method, field.name, None)
            except dataclasses.FrozenInstanceError:
                continue
            raise AssertionError(f"the setting {field.name!r} of a method can be changed after it was made")

    def test_the_same_seed_gives_the_same_result(self) -> None:
        assert same(finish(self.start(1)), finish(self.start(1)), self.target)

    def test_another_seed_gives_another_result(self) -> None:
        assert not same(finish(self.start(1)), finish(self.start(2)), self.target)

    def test_order_and_grouping_of_blocks_change_nothing(self) -> None:
        reference = finish(self.start())
        for order in ("reversed", "together"):
            assert same(reference, finish(self.start(), order), self.target), order

    def test_a_block_depends_on_seed_and_round_start_alone(self) -> None:
        whole, piecemeal = self.start(), self.start()
        while batches := whole.ask():
            pieces: list[Batch] = []
            while part := piecemeal.ask(limit=max(batch.simulations for batch in batches)):
                pieces += part
            assert [piece.key for piece in pieces] == [batch.key for batch in batches]
            for batch, piece in zip(batches, pieces, strict=True):
                assert np.array_equal(np.asarray(batch.repeats), np.asarray(piece.repeats))
                assert all(np.array_equal(batch.points[name], piece.points[name]) for name in batch.points)
                assert batch.rng().random() == piece.rng().random()
            # Blocks that were asked for later must not have seen what earlier ones gave.
            whole.tell(*[(batch, simulate(whole.problem, batch)) for batch in batches])
            piecemeal.tell(*[(piece, simulate(piecemeal.problem, piece)) for piece in reversed(pieces)])
        assert whole.finished
        assert piecemeal.finished

    def test_blocks_have_random_numbers_of_their_own(self) -> None:
        run, first = self.start(), []
        while batches := run.ask():
            first += [batch.rng().random() for batch in batches]
            run.tell(*[(batch, simulate(run.problem, batch)) for batch in batches])
        assert len(first) == len(set(first)) > 1

    def test_the_limit_is_kept(self) -> None:
        run, limit = self.start(), 3 * self.block_size
        asked = 0
        while batches := run.ask(limit=limit):
            asked += sum(batch.simulations for batch in batches)
            assert sum(batch.simulations for batch in batches) <= limit
            run.tell(*[(batch, simulate(run.problem, batch)) for batch in batches])
        assert run.finished
        assert asked == run.simulations
        if self.budget is not None:
            assert asked <= self.budget

    def test_the_posterior_can_be_taken_at_any_time(self) -> None:
        run = self.start()
        while batches := run.ask():
            run.tell(*[(batch, simulate(run.problem, batch)) for batch in batches])
            if run.simulations > 500:
                estimate = run.posterior().expect(self.target)
                assert np.all(np.isfinite(estimate.value))

    def test_estimates_lie_within_their_error_bars_of_the_truth(self) -> None:
        problem = self.known
        truth = problem.truth(self.target)[0]
        misses = 0
        for seed in range(RUNS):
            run = self.method.start(problem, self.target, seed, self.budget)
            low, high = finish(run).expect(self.target).interval(0.95)
            misses += not low <= truth <= high
        assert misses <= MISSES, f"{misses} of {RUNS} intervals at 95% miss the truth"
