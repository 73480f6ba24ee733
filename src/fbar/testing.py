"""The rules that every method and every target must follow, as tests to inherit.

Three lines check a method of yours with pytest, or a target::

    from fbar.testing import MethodConformance, TargetConformance

    class TestMyMethod(MethodConformance):
        method = MyMethod()

    class TestMyTarget(TargetConformance):
        target = my_target("a")

Override ``problem``, ``target`` and ``budget`` for a method that needs others, where ``known`` must know its truth; and
``points`` for a target that is not defined for positive parameters a and b.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from fbar.arrays import FloatArray
from fbar.engine import simulate
from fbar.estimation.posterior import Posterior
from fbar.methods import Method, Run
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.points import Points
from fbar.question.priors import Finite
from fbar.question.problem import Problem
from fbar.question.targets import KINDS, Target, mean, parse

COVERED, FALSE_ALARM = 0.92, 1e-5
"""Error bars are refused if so few intervals at 95% hold as intervals that hold in 92% of cases would have with this
probability: over 14 misses in 50 runs."""


def bernoulli(p_star: Sequence[float]) -> Problem:
    """A problem with a real simulator, one number a simulation, whose truth is known for the tests."""
    values = np.arange(1.0, len(p_star) + 1)
    table = np.asarray(p_star, dtype=np.float64)

    def simulate_one(theta: Any, rng: np.random.Generator) -> Any:
        return (rng.random(theta.rows) < table[theta["theta"].astype(int) - 1]).astype(float)

    return Problem(Finite(theta=values), simulate_one, observed=1.0)


def finish(run: Run, order: str = "in order") -> Posterior:
    """Drive a run; the blocks of a round are told one by one, backwards, or all at once."""
    while batches := run.ask():
        answers: list[tuple[Batch, Outcomes]] = [(batch, simulate(run.problem, batch)) for batch in batches]
        if order == "together":
            run.tell(*answers)
        else:
            for answer in answers if order == "in order" else reversed(answers):
                run.tell(answer)
    return run.posterior()


def same(first: Posterior, second: Posterior, target: Target) -> bool:
    """Whether two posteriors agree to the last bit in points, weights, estimates and error bars."""
    if any(not np.array_equal(first.points[name], second.points[name]) for name in first.points):
        return False
    a, b = first.expect(target), second.expect(target)
    return (
        np.array_equal(first.weights, second.weights)
        and np.array_equal(a.value, b.value)
        and np.array_equal(a.standard_error, b.standard_error, equal_nan=True)
        and a.simulations == b.simulations
    )


STEP = 1e-6
"""How far weights are moved for a finite difference."""


def influence_by_differences(target: Target, points: Points, weights: FloatArray) -> FloatArray:
    """ψ(θᵢ) = d/dt T((1−t)p + t δᵢ) at t = 0 by central differences, shape (n, m)."""
    masses = np.eye(points.rows)
    up = [target.value(points, (1 - STEP) * weights + STEP * mass) for mass in masses]
    down = [target.value(points, (1 + STEP) * weights - STEP * mass) for mass in masses]
    return (np.array(up) - np.array(down)) / (2 * STEP)


class TargetConformance:
    """Inherit, set ``target``, and pytest checks the rules of `fbar.question.targets.base`."""

    target: Target
    points: Points = Points({"a": [0.5, 1.0, 3.0, 2.0, 0.7], "b": [1.0, 0.1, 2.0, 2.0, 5.0]})
    weights: FloatArray = np.array([0.1, 0.2, 0.3, 0.25, 0.15])

    def test_the_influence_function_is_the_derivative_towards_a_point_mass(self) -> None:
        if not self.target.smooth:
            raise AssertionError(f"{self.target.name} is not smooth: its error has to be tested by how often it holds")
        psi = self.target.influence(self.points, self.weights)
        expected = influence_by_differences(self.target, self.points, self.weights)
        assert psi.shape == expected.shape
        assert np.allclose(psi, expected, rtol=1e-5, atol=1e-6)

    def test_the_influence_function_has_mean_zero(self) -> None:
        assert np.allclose(self.weights @ self.target.influence(self.points, self.weights), 0)

    def test_trials_are_the_first_axes(self) -> None:
        several = np.stack([self.weights, self.weights[::-1]])
        for of in (self.target.value, self.target.influence):
            assert np.allclose(of(self.points, several), [of(self.points, one) for one in several])

    def test_points_are_treated_one_by_one(self) -> None:
        self.target.check(self.points)

    def test_the_target_is_read_from_its_name(self) -> None:
        again = parse(self.target.name)
        assert again.name == self.target.name
        assert np.array_equal(again.value(self.points, self.weights), self.target.value(self.points, self.weights))

    def test_the_example_of_its_kind_is_a_name(self) -> None:
        kind = KINDS[self.target.name.partition(":")[0]]
        assert parse(kind.example).name == kind.example


class MethodConformance:
    """Inherit, set ``method``, and pytest checks the rules of `fbar.methods.ask_tell`."""

    method: Method
    target: Target = mean("theta")
    budget: int | None = 2000
    block_size = 64
    runs = 50
    """Runs that the error bars are tested with."""
    answers_after = 500
    """Simulations after which it has a posterior."""

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
            raise AssertionError(f"the setting {field.name!r} of a method can be changed after it was created")

    def test_the_same_seed_gives_the_same_result(self) -> None:
        assert same(finish(self.start(1)), finish(self.start(1)), self.target)

    def test_another_seed_gives_another_result(self) -> None:
        assert not same(finish(self.start(1)), finish(self.start(2)), self.target)

    def test_order_and_grouping_of_blocks_change_nothing(self) -> None:
        reference = finish(self.start())
        for order in ("reversed", "together"):
            assert same(reference, finish(self.start(), order), self.target), order

    def test_a_block_depends_only_on_the_seed_and_the_start_of_its_round(self) -> None:
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

    def test_blocks_have_different_random_numbers(self) -> None:
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
            if run.simulations > self.answers_after:
                estimate = run.posterior().expect(self.target)
                assert np.all(np.isfinite(estimate.value))

    def test_estimates_lie_within_their_error_bars_of_the_truth(self) -> None:
        problem = self.known
        truth = problem.truth(self.target)[0]
        misses = 0
        for seed in range(self.runs):
            run = self.method.start(problem, self.target, seed, self.budget)
            low, high = finish(run).expect(self.target).interval(0.95)
            misses += not low <= truth <= high
        most = stats.binom.isf(FALSE_ALARM, self.runs, 1 - COVERED)
        assert misses <= most, f"{misses} of {self.runs} intervals at 95% miss the truth"
