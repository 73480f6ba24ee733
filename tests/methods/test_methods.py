"""Every method keeps the rules of fbar.testing, and does what its name says."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import theory
from fbar.testing import MethodConformance, bernoulli, finish

pytestmark = pytest.mark.arithmetic


class TestRejection(MethodConformance):
    method = fbar.Rejection()


class TestImportanceExpected(MethodConformance):
    method = fbar.Importance([0.1, 0.4, 0.4, 0.1])


class TestImportanceActual(MethodConformance):
    method = fbar.Importance([0.1, 0.4, 0.4, 0.1], weighting="actual")


class TestAllocation(MethodConformance):
    method = fbar.Allocation([0.1, 0.4, 0.4, 0.1])


class TestAdaptiveAllocation(MethodConformance):
    method = fbar.AdaptiveAllocation()


class TestAdaptivePlugIn(MethodConformance):
    method = fbar.AdaptiveAllocation("plug-in")


class TestAdaptivePosterior(MethodConformance):
    method = fbar.AdaptivePosterior()


class TestInverseBinomial(MethodConformance):
    method = fbar.InverseBinomial(hits=20)
    budget = None


class TestTargetedOnAFiniteSpace(MethodConformance):
    method = fbar.Targeted()


class TestTargeted(MethodConformance):
    """On θ ~ U(0, 1), accepted with probability θ."""

    method = fbar.Targeted()

    @property
    def problem(self):
        def simulate(theta, rng):
            return (rng.random(theta.rows) < theta["theta"]).astype(float)

        return fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)

    @property
    def known(self):
        return fbar.problems.load("ramp")


class TestTargetedAtTheData(MethodConformance):
    """On θ ~ N(0, 1), y = θ + N(0, 1) = 1: θ|y ~ N(½, ½)."""

    method = fbar.Targeted()
    budget = 600

    @pytest.mark.slow
    def test_estimates_lie_within_their_error_bars_of_the_truth(self):
        self.budget = 200  # the posterior takes longer than the simulations
        super().test_estimates_lie_within_their_error_bars_of_the_truth()

    @property
    def problem(self):
        return fbar.Problem(
            fbar.Prior(theta=stats.norm(0, 1)),
            lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows),
            observed=1.0,
            truth={"mean:theta": 0.5},
        )

    known = problem


class TestTargetedAtATolerance(TestTargeted):
    """On θ ~ U(−5, 5), y = θ + N(0, 1) within 0.5 of 1: the mean is 1 but for the prior's edges, 10⁻⁴."""

    method = fbar.Targeted(tolerance=0.5)

    @property
    def problem(self):
        return fbar.Problem(
            fbar.Prior(theta=stats.uniform(-5, 10)),
            lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows),
            observed=1.0,
            truth={"mean:theta": 1.0},
        )

    known = problem


class TestConformanceItself:
    """The suite must catch a method that breaks the rules."""

    def test_it_catches_dependence_on_order(self):
        class Careless(fbar.Rejection):
            def begin(self, start):
                run = super().begin(start)
                tell, count = run.tell, iter(range(10**9))

                def in_order_of_arrival(*answers):
                    for batch, outcomes in answers:
                        tell((batch, outcomes))
                        run.hits[0] += 0.01 * next(count) * batch.block

                run.tell = in_order_of_arrival
                return run

        class Suite(MethodConformance):
            method = Careless()

        with pytest.raises(AssertionError):
            Suite().test_order_and_grouping_of_blocks_change_nothing()

    def test_it_catches_error_bars_that_are_too_small(self):
        class Bold(fbar.Rejection):
            def begin(self, start):
                run = super().begin(start)
                estimator = run.estimator

                def bold(cells):
                    posterior = estimator(cells)
                    object.__setattr__(posterior.errors, "plain", posterior.errors.plain / 4)
                    return posterior

                run.estimator = bold
                return run

        class Suite(MethodConformance):
            method = Bold()

        with pytest.raises(AssertionError, match="miss the truth"):
            Suite().test_estimates_lie_within_their_error_bars_of_the_truth()

    def test_it_catches_shared_seeds(self):
        class Lazy(fbar.Rejection):
            def begin(self, start):
                run = super().begin(start)
                ask = run.ask

                def same_generator(limit=None):
                    batches = ask(limit)
                    for batch in batches:
                        object.__setattr__(batch, "rng", lambda: np.random.default_rng(1))
                    return batches

                run.ask = same_generator
                return run

        class Suite(MethodConformance):
            method = Lazy()

        with pytest.raises(AssertionError):
            Suite().test_blocks_have_different_random_numbers()


TABLE = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
TARGET = fbar.mean("theta")


def counts(method, budget=None, **options):
    run = method.start(TABLE, TARGET, 1, budget, **options)
    fbar.drive(run)
    return run.counts


def test_allocation_gives_the_counts_it_was_given():
    assert counts(fbar.Allocation(counts=[7, 0, 3], rounds=1)).tolist() == [7, 0, 3]
    assert counts(fbar.Allocation(counts=[70, 1, 30], rounds=9)).tolist() == [70, 1, 30]
    assert counts(fbar.Allocation([0.5, 0.25, 0.25], floor=10), 130).tolist() == [60, 35, 35]
    assert counts(fbar.Allocation({1: 1.0}, floor=1, rounds=1), 10).tolist() == [8, 1, 1]
    optimum = theory.min_mse(TABLE.finite.probabilities, TABLE.p_star, [1, 2, 3])
    assert np.abs(counts(fbar.Allocation("min-mse", floor=0), 10**6) / 10**6 - optimum).max() < 1e-5


def test_adaptive_allocation_finds_the_optimum():
    optimum = theory.min_mse(TABLE.finite.probabilities, TABLE.p_star, [1, 2, 3])
    for learning in ("beta", "plug-in"):
        shares = counts(fbar.AdaptiveAllocation(learning, rounds=32), 2 * 10**6) / (2 * 10**6)
        assert np.abs(shares - optimum).max() < 0.02


def test_costs_shift_the_allocation_to_the_cheap():
    dear = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2], cost=[1, 16, 1])
    run = fbar.AdaptiveAllocation().start(dear, TARGET, 1, 10**6)
    fbar.drive(run)
    expected = theory.min_mse(dear.finite.probabilities, dear.p_star, [1, 2, 3], cost=[1, 16, 1])
    assert np.abs(run.counts / 10**6 - expected).max() < 0.03


@pytest.mark.slow
def test_inverse_binomial_sampling_stops_at_the_hits_and_says_the_log_likelihood():
    trials = 20_000
    run = fbar.InverseBinomial(hits=3).start(TABLE, TARGET, 1, trials=trials)
    fbar.drive(run)
    assert (run.hits == 3).all()
    p = TABLE.p_star
    z = (run.counts.mean(0) - 3 / p) / np.sqrt(3 * (1 - p) / p**2 / trials)
    assert np.abs(z).max() < 5
    estimate = run.log_likelihood()
    bias = (estimate.value.mean(0) - np.log(p)) / (estimate.value.std(0) / np.sqrt(trials))
    assert np.abs(bias).max() < 5
    ratio = estimate.variance.mean(0) / estimate.value.var(0)
    assert ((ratio > 0.95) & (ratio < 1.15)).all(), "floored, so that it is never zero, and hardly larger for it"
    assert (estimate.standard_error > 0).all()
    assert (run.surplus / run.counts.sum(axis=-1)).mean() < 0.2


def test_inverse_binomial_sampling_with_a_real_simulator_counts_as_with_a_table():
    run = fbar.InverseBinomial(hits=5).start(bernoulli((0.3, 0.05, 0.2)), TARGET, 3, block_size=7)
    finish(run)
    assert (run.hits == 5).all()
    assert run.simulations == run.counts.sum() + run.surplus
    estimate = run.log_likelihood()
    assert (np.abs(estimate.value - np.log([0.3, 0.05, 0.2])) < 5 * estimate.standard_error).all()


def test_inverse_binomial_sampling_ends_with_its_budget():
    run = fbar.InverseBinomial(hits=50).start(TABLE, TARGET, 1, 300)
    fbar.drive(run)
    assert run.simulations <= 300
    assert run.open.any()
    assert "the budget ended before every value had its hits" in run.log_likelihood().warnings[0]
    with pytest.raises(fbar.InputError, match="would never end"):
        fbar.InverseBinomial().start(fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.1, 0]), TARGET)


def test_a_user_can_ask_and_tell_by_hand():
    problem = bernoulli((0.3, 0.05, 0.2))
    run = fbar.AdaptiveAllocation().start(problem, TARGET, 5, 1000, block_size=100)
    while batches := run.ask():
        for batch in batches:
            x = problem.simulate(batch.theta, batch.rng())
            run.tell((batch, problem.outcomes(x, batch.simulations)))
    by_hand = run.posterior().expect(TARGET)
    driven = fbar.infer(problem, TARGET, budget=1000, seed=5, block_size=100)["mean:theta"]
    assert by_hand.value == driven.value


def test_telling_is_checked():
    problem = bernoulli((0.3, 0.05, 0.2))
    run = fbar.Rejection().start(problem, TARGET, 5, 1000, block_size=30)
    first, second = run.ask(limit=60)
    answer = (first, fbar.simulate(problem, first))
    run.tell(answer)
    with pytest.raises(fbar.InputError, match="have already been given"):
        run.tell(answer)
    wrong = problem.outcomes(np.ones(3), 3)
    with pytest.raises(fbar.InputError, match="has 30 simulations and got 3 outcomes"):
        run.tell((second, wrong))
    with pytest.raises(fbar.InputError, match="limit 1 is below the next block's"):
        run.ask(limit=1)


def test_a_former_name_of_a_run_is_refused_with_the_present_one():
    run = fbar.Rejection().start(bernoulli((0.3, 0.6)), fbar.mean("theta"), 1, 100)
    with pytest.raises(AttributeError, match=r"SamplingRun\.settled is now SamplingRun\.at_final_tolerance"):
        run.settled  # noqa: B018
    assert not hasattr(run, "something_else")
