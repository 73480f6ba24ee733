"""ABC-MCMC: chains at a learned tolerance, their states within smaller ones, and error bars."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import MCMC, InputError, NoPosterior
from fbar.estimation.chains import ChainErrors, States, autocorrelation_times
from fbar.methods.chains.plan import Plan
from fbar.methods.chains.tolerance import FallingTolerance
from fbar.testing import MethodConformance, bernoulli, finish


def shifted_normal(observed=1.0, **options):
    """θ ~ N(0, 3²), y = θ + N(0, 1)."""
    return fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 3)),
        lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows),
        observed=observed,
        **options,
    )


def mean_at(tolerance, observed=1.0):
    """E[θ] under p(θ) P(|y − y*| ≤ ε|θ), by quadrature."""
    at = np.linspace(-15, 15, 20_001)
    above, below = (stats.norm.cdf(observed + sign * tolerance - at) for sign in (1, -1))
    weight = stats.norm.pdf(at, 0, 3) * (above - below)
    return float(weight @ at / weight.sum())


class TestMCMCOnAFiniteSpace(MethodConformance):
    method = MCMC(chains=32)
    budget = 800


class TestMCMC(MethodConformance):
    method = MCMC(tolerance=0.5, chains=32)
    budget = 800

    @property
    def problem(self):
        return shifted_normal(truth={"mean:theta": mean_at(0.5)})

    known = problem


class TestTheRun:
    def test_the_budget_is_spent_in_a_pilot_a_burn_in_and_steps_of_all_chains(self):
        run = MCMC(tolerance=0.5).start(shifted_normal(), fbar.mean("theta"), seed=1, budget=1003)
        finish(run)
        pilot, burnt, used = run.stages()
        assert run.simulations == 1003
        assert pilot.simulations == run.plan.pilot
        assert burnt.simulations == run.plan.burn_in * run.plan.chains
        assert used.simulations == run.states().size
        assert used.accepted == run.moves
        assert pilot.simulations + burnt.simulations + used.simulations == 1003

    def test_the_tolerance_is_tuned_to_the_acceptance_rate(self):
        for rate in (0.1, 0.3):
            method = MCMC(tolerance=0.02, acceptance_rate=rate, chains=20)
            run = method.start(shifted_normal(), fbar.mean("theta"), seed=2, budget=6000)
            finish(run)
            # The standard deviation of a rate near 0.1 of 3,780 proposals, correlated as they are, is about 0.02.
            assert run.moves / run.states().size == pytest.approx(rate, abs=0.1 * rate + 0.04)
            assert run.chain_tolerance > 0.02

    def test_chains_run_at_the_tolerance_that_is_asked_for_where_they_move_there(self):
        run = MCMC(tolerance=2.0).start(shifted_normal(), fbar.mean("theta"), seed=1, budget=1000)
        posterior = finish(run)
        assert run.chain_tolerance == 2.0
        assert posterior.about == "ABC's posterior at tolerance 2"

    def test_one_run_serves_all_smaller_tolerances(self):
        method = MCMC(tolerance=2.0, chains=16)
        run = method.start(shifted_normal(), fbar.mean("theta"), seed=4, budget=8000)
        finish(run)
        for tolerance in (2.0, 1.0, 0.5):
            estimate = run.posterior_at(tolerance).expect(fbar.mean("theta"))
            assert abs(estimate.value - mean_at(tolerance)) < 5 * estimate.standard_error
        inside = run.posterior_at(0.5)
        assert (np.abs(run.everything.distance.take(inside.draws.row)) <= 0.5).all()
        assert next(at for at, _ in run.curve()) == 2.0
        with pytest.raises(InputError, match="the chains ran at the tolerance 2, so there is no posterior"):
            run.posterior_at(3.0)

    def test_weights_are_stay_counts_times_the_kernel(self):
        run = MCMC(tolerance=1.0, kernel="epanechnikov").start(shifted_normal(), fbar.mean("theta"), 1, 1000)
        posterior = finish(run)
        rows = posterior.draws.row
        stays = np.array([(run.states() == row).sum() for row in rows])
        expected = stays * (1 - np.asarray(run.everything.distance.take(rows)) ** 2)
        assert np.allclose(posterior.weights, expected / expected.sum())

    def test_without_a_tolerance_enough_states_are_left(self):
        result = fbar.infer(shifted_normal(), fbar.mean("theta"), method="mcmc", budget=5000, seed=1)
        assert result.run.chooses_tolerance
        assert 0 < result.tolerance <= result.run.chain_tolerance
        assert result.posterior.accepted >= 100
        assert abs(result.estimates[0].value - mean_at(result.tolerance)) < 5 * result.estimates[0].standard_error
        assert "chosen from the budget" in str(result)

    @pytest.mark.parametrize("jump", [0.0, 0.5])
    def test_chains_that_accept_every_simulation_have_the_prior(self, jump):
        """Walk and jump keep the detailed balance of a prior that is not normal."""
        prior = fbar.Prior(a=stats.expon(), b=stats.uniform(-1, 2))
        problem = fbar.Problem(prior, lambda theta, rng: rng.random(theta.rows), observed=0.0)
        targets = [fbar.mean("a"), fbar.second_moment("a"), fbar.mean("b"), fbar.probability("b > 0.5")]
        run = MCMC(tolerance=2.0, chains=40, jump=jump).start(problem, targets, seed=3, budget=8000)
        posterior = finish(run)
        for estimate, truth in zip(posterior.expect(targets), (1.0, 2.0, 0.0, 0.25), strict=True):
            assert abs(estimate.value - truth) < 5 * estimate.standard_error
        assert posterior.expect(targets[0]).standard_error < 0.15
        assert "accepts 100% of the simulations from the prior" in posterior.expect(targets[0]).warnings[0]

    def test_models_are_chosen_between(self):
        def near(theta, rng):
            return rng.standard_normal(theta.rows)

        def far(theta, rng):
            return theta["shift"] + rng.standard_normal(theta.rows)

        models = {"near": near, "far": fbar.Model(far, fbar.Prior(shift=stats.uniform(0, 4)))}
        problem = fbar.Problem.models(models, observed=0.5)
        target = fbar.model_probability("near")
        estimate = finish(MCMC(tolerance=0.5).start(problem, target, seed=1, budget=4000)).expect(target)
        hit = stats.norm.cdf(1.0) - stats.norm.cdf(0.0)
        at = np.linspace(0, 4, 4001)
        other = np.trapezoid(stats.norm.cdf(1.0 - at) - stats.norm.cdf(-at), at) / 4
        assert abs(estimate.value - hit / (hit + other)) < 5 * estimate.standard_error

    def test_a_simulator_that_runs_one_by_one_has_several_blocks_in_a_round(self):
        problem = fbar.Problem(
            fbar.Prior(theta=stats.norm(0, 3)),
            fbar.each(lambda theta, rng: theta["theta"] + rng.standard_normal()),
            observed=1.0,
        )
        run = MCMC(tolerance=1.0, chains=12).start(problem, fbar.mean("theta"), seed=1, budget=400)
        while run.simulations < run.plan.pilot:
            run.tell(*((batch, fbar.simulate(problem, batch)) for batch in run.ask()))
        assert [batch.simulations for batch in run.ask()] == [2, 2, 2, 2, 2, 2]

    def test_a_run_can_go_on(self):
        run = MCMC(tolerance=0.5).start(shifted_normal(), fbar.mean("theta"), seed=1, budget=1000)
        before, length = finish(run).expect(fbar.mean("theta")), len(run.states())
        run.extend(budget=3000, tolerance=0.4)
        after = finish(run).expect(fbar.mean("theta"))
        assert 3000 - run.plan.chains < run.simulations <= 3000
        assert len(run.states()) == length + 2000 // run.plan.chains
        assert after.standard_error < before.standard_error
        assert after.about == "ABC's posterior at tolerance 0.4"
        with pytest.raises(InputError, match="the chains ran at the tolerance"):
            run.extend(budget=4000, tolerance=100.0)

    def test_a_precision_ends_it(self):
        result = fbar.infer(
            shifted_normal(), fbar.mean("theta"), method=MCMC(tolerance=1.0), precision={"mean:theta": 0.1}, seed=1
        )
        assert result.estimates[0].standard_error <= 0.1
        assert result.simulations < 100_000


class TestRecords:
    def test_a_run_that_was_interrupted_goes_on_to_the_same_result(self, tmp_path):
        problem, target = shifted_normal(), fbar.mean("theta")
        method = MCMC(tolerance=0.3)
        whole = fbar.infer(problem, target, method=method, budget=1000, seed=5)

        class Enough(Exception):
            pass

        def interrupt(run):
            if run.simulations > 600:
                raise Enough

        with pytest.raises(Enough):
            fbar.infer(problem, target, method=method, budget=1000, seed=5, run=tmp_path / "run", progress=interrupt)
        again = fbar.infer(problem, target, method=method, budget=1000, seed=5, run=tmp_path / "run")
        assert again.run.replayed > 600
        assert np.array_equal(again.posterior.weights, whole.posterior.weights)
        assert again.estimates[0].value == whole.estimates[0].value
        assert again.estimates[0].standard_error == whole.estimates[0].standard_error

    def test_rounds_after_the_burn_in_record_no_state(self):
        run = MCMC(tolerance=0.5).start(shifted_normal(), fbar.mean("theta"), seed=1, budget=1000)
        recorded = []
        while batches := run.ask():
            recorded.append(run.round_state() is not None)
            run.tell(*((batch, fbar.simulate(run.problem, batch)) for batch in batches))
        assert recorded == [False] + (run.plan.burn_in + 1) * [True] + (len(recorded) - run.plan.burn_in - 2) * [False]

    def test_the_state_of_a_round_is_restored(self):
        """As if the covariance had come out otherwise on another processor."""
        runs = [MCMC(tolerance=0.5).start(shifted_normal(), fbar.mean("theta"), 1, 1000) for _ in range(2)]
        first, second = runs
        for run in runs:
            for _ in range(10):
                run.tell(*((batch, fbar.simulate(run.problem, batch)) for batch in run.ask()))
        state = {name: np.array(values) for name, values in first.round_state().items()}
        state["walk:0"] = 2 * state["walk:0"]
        state["tolerance"] = np.array(1.25)
        second.restore_round(state)
        assert second.chain_tolerance == 1.25
        before, after = (run.ask()[0].points["theta"] for run in runs)
        assert not np.allclose(before, after)


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"tolerance": -1}, "tolerance"),
            ({"kernel": "gaussian"}, "acceptance kernel of chains"),
            ({"chains": 0}, "chains"),
            ({"acceptance_rate": 1.0}, "acceptance_rate must lie between 0 and 1"),
            ({"jump": 2}, "jump must be a probability"),
            ({"tolerance": 1.0, "chain_tolerance": 0.5}, "is below the tolerance"),
        ],
    )
    def test_settings_are_checked(self, settings, message):
        with pytest.raises(InputError, match=message):
            MCMC(**settings)

    def test_a_budget_below_what_chains_need_is_refused(self):
        with pytest.raises(InputError, match="4 chains of 25 steps need at least 100 simulations, and there are 60"):
            MCMC().start(shifted_normal(), fbar.mean("theta"), seed=1, budget=60)
        with pytest.raises(InputError, match="or use fewer chains"):
            MCMC(chains=50).start(shifted_normal(), fbar.mean("theta"), seed=1, budget=1000)

    def test_chains_that_never_move_are_reported(self):
        """From the pilot on, simulations come further and further from the data."""
        calls = [0]

        def worse(theta, rng):
            calls[0] += 1
            return theta["theta"] * 0 + calls[0]

        problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), worse, observed=0.0)
        run = MCMC(chain_tolerance=1.5).start(problem, fbar.mean("theta"), seed=1, budget=400)
        estimate = finish(run).expect(fbar.mean("theta"))
        assert not estimate.trusted
        assert "the chains never moved; use a larger budget or a larger tolerance" in estimate.warnings

    def test_nothing_matches(self):
        run = MCMC().start(bernoulli((0.0, 0.0)), fbar.mean("theta"), seed=1, budget=200)
        with pytest.raises(NoPosterior, match=r"states of 4 chains is within the tolerance 0 \(they ran at 1\)"):
            finish(run)
        never = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0]), [0.0, 0.0])
        run = MCMC().start(never, fbar.mean("theta"), seed=1, budget=200)
        with pytest.raises(NoPosterior, match="all 200 simulations were rejected"):
            finish(run)

    def test_there_is_no_answer_from_all_simulations(self):
        result = fbar.infer(shifted_normal(), fbar.mean("theta"), method="mcmc", budget=400, seed=1)
        with pytest.raises(InputError, match="the proposals of Markov chains have no weights"):
            result.at_data()

    def test_simulations_that_fail_are_rejected(self):
        def simulate(theta, rng):
            y = theta["theta"] + rng.standard_normal(theta.rows)
            return np.where(theta["theta"] > 2, np.nan, y)

        problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 3)), simulate, observed=1.0)
        posterior = finish(MCMC(tolerance=0.5).start(problem, fbar.mean("theta"), seed=1, budget=1000))
        assert posterior.points["theta"].max() <= 2


class TestPlan:
    @pytest.mark.parametrize("budget", [100, 1000, 10_001, 10**6])
    def test_all_of_a_budget_is_planned(self, budget):
        plan = Plan.of(budget, True, None)
        steps, left = divmod(budget - plan.pilot, plan.chains)
        assert left == 0
        assert steps > 2 * plan.burn_in

    def test_more_simulations_have_more_chains(self):
        assert [Plan.of(n, True, None).chains for n in (100, 10_000, 10**6, 10**9)] == [4, 20, 200, 256]


class TestFallingTolerance:
    def test_it_settles_where_the_wanted_share_is_accepted(self):
        rng = np.random.default_rng(1)
        falling = FallingTolerance(5.0, 0.0, 0.1)
        for _ in range(40):
            falling.add(rng.exponential(size=50), np.log(rng.random(50)))  # α(δ) = ½(1 − e^−δ) on average
            falling.move()
        falling.settle()
        assert falling.tolerance == pytest.approx(-math.log(0.8), rel=0.25)

    def test_it_does_not_fall_below_the_least(self):
        falling = FallingTolerance(5.0, 2.0, 0.1)
        falling.add(np.zeros(100), np.zeros(100))
        falling.move()
        assert falling.tolerance == 2.0

    def test_it_stays_where_all_proposals_fail(self):
        falling = FallingTolerance(5.0, 2.0, 0.1)
        falling.add(np.full(100, np.nan), np.zeros(100))
        falling.move()
        assert falling.tolerance == 5.0


def autoregressive(length, chains, correlation, seed=1):
    rng = np.random.default_rng(seed)
    x = np.empty((length, chains))
    x[0] = rng.standard_normal(chains)
    for t in range(1, length):
        x[t] = correlation * x[t - 1] + math.sqrt(1 - correlation**2) * rng.standard_normal(chains)
    return x


def errors_of(x):
    """The error model of chains whose states all count."""
    states = States(np.arange(x.size).reshape(x.shape), np.ones(x.size))
    return ChainErrors(states, None, x.reshape(-1, 1))


class TestErrorBars:
    def test_autocorrelation_times_of_autoregressive_series(self):
        for correlation in (0.0, 0.5, 0.9):
            x = autoregressive(20_000, 2, correlation)
            found = autocorrelation_times((x - x.mean())[:, :, None])
            assert found[0] == pytest.approx((1 + correlation) / (1 - correlation), rel=0.15)

    @pytest.mark.parametrize(("length", "chains"), [(4000, 1), (1000, 4), (100, 40)])
    def test_error_bars_are_those_of_autoregressive_chains(self, length, chains):
        """The variance of the mean of N states is τ/N, and a little more by the batch that counts twice."""
        found = []
        for seed in range(20):
            x = autoregressive(length, chains, 0.5, seed)
            influence = (x - x.mean()).reshape(-1, 1)
            found.append(errors_of(x).error_bars(influence).covariance[0, 0])
        assert 0.9 < np.mean(found) / (3 / (length * chains)) < 1.5

    def test_chains_that_stay_apart_are_reported(self):
        x = autoregressive(200, 10, 0.5) + 5 * np.arange(10)
        errors = errors_of(x)
        bars = errors.error_bars((x - x.mean()).reshape(-1, 1))
        assert next(text for mask, text in bars.doubts if mask.any()).startswith("the chains disagree")
        assert errors.ess < 12
        # About the variance between ten chains that are five apart.
        assert bars.standard_error[0] == pytest.approx(5 * math.sqrt(99 / 12 / 9), rel=0.2)

    def test_states_outside_the_tolerance_are_left_out(self):
        states = States(np.array([[0, -1], [0, 1], [-1, 1], [1, 1]]), np.array([1.0, 0.5]))
        assert states.visits.tolist() == [2, 4]
        assert states.weights.tolist() == [0.5, 0.5]
        z = states.series(np.array([[2.0], [-2.0]]))
        assert z[:, :, 0].tolist() == [[0.5, 0], [0.5, -0.25], [0, -0.25], [-0.25, -0.25]]
