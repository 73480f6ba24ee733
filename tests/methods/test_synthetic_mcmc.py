"""Synthetic likelihood in Markov chains."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import InputError, NoPosterior, SyntheticLikelihoodMCMC
from fbar.methods.worth.normality import doubt_of, skewness_and_kurtosis
from fbar.testing import MethodConformance, finish


def mean_of_twenty(**options):
    """θ ~ N(0, 1), the mean of twenty N(θ, 1): the posterior is N(20/21 ȳ, 1/21)."""
    return fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows) / np.sqrt(20),
        observed=0.63,
        **options,
    )


class TestSyntheticLikelihoodMCMC(MethodConformance):
    method = SyntheticLikelihoodMCMC(chains=12, replicates=5)
    budget = 1500

    @property
    def problem(self):
        return mean_of_twenty(truth={"mean:theta": 0.6})

    known = problem


class TestTheRun:
    def test_the_posterior_does_not_depend_on_the_number_of_simulations_at_a_step(self):
        target = [fbar.mean("theta"), fbar.sd("theta")]
        for replicates in (6, 40):
            method = SyntheticLikelihoodMCMC(replicates=replicates, chains=10)
            run = method.start(mean_of_twenty(), target, seed=1, budget=500 * replicates)
            mean, deviation = finish(run).expect(target)
            assert abs(mean.value - 0.6) < 5 * mean.standard_error
            assert abs(deviation.value - 1 / np.sqrt(21)) < 5 * deviation.standard_error
            assert run.simulations == 500 * replicates

    def test_it_says_what_it_is(self):
        result = fbar.infer(
            mean_of_twenty(), fbar.mean("theta"), method="synthetic-likelihood-mcmc", budget=1000, seed=1
        )
        assert result.tolerance is None
        assert "if summaries are normal at each θ (synthetic likelihood)" in str(result)
        assert "10 simulations at each step" in str(result)
        explained = str(result.explain())
        assert "for steps of the chains, 10 for each, in their burn-in" in explained
        assert "states of the chains account for half of the variance" in explained
        assert "what rejection would have given: proposals of chains have no weights" in explained

    def test_more_summaries_have_more_simulations(self):
        assert [SyntheticLikelihoodMCMC().replicates_for(d) for d in (1, 5, 10)] == [10, 20, 65]
        assert SyntheticLikelihoodMCMC(kind="gaussian").replicates_for(5) == 70
        assert SyntheticLikelihoodMCMC().replicates_for(10, most=3000) == 30

    def test_a_run_goes_on_from_its_record(self, tmp_path):
        problem, target = mean_of_twenty(), fbar.mean("theta")
        options = {"method": SyntheticLikelihoodMCMC(), "budget": 1000, "seed": 5}
        whole = fbar.infer(problem, target, **options)

        class Enough(Exception):
            pass

        def interrupt(run):
            if run.simulations > 600:
                raise Enough

        with pytest.raises(Enough):
            fbar.infer(problem, target, **options, run=tmp_path / "run", progress=interrupt)
        again = fbar.infer(problem, target, **options, run=tmp_path / "run")
        assert again.run.replayed > 600
        assert again.estimates[0].value == whole.estimates[0].value


class TestNormality:
    def test_skewness_and_kurtosis_are_those_of_scipy(self):
        x = np.random.default_rng(1).gamma(2.0, size=(3, 25, 2))
        skewness, kurtosis = stats.skew(x, axis=1), stats.kurtosis(x, axis=1)
        expected = np.stack([np.abs(skewness).mean(axis=1), kurtosis.mean(axis=1)], axis=1)
        assert skewness_and_kurtosis(x, np.zeros((3, 25), dtype=bool)) == pytest.approx(expected)

    def test_failed_simulations_and_constant_summaries_are_left_out(self):
        x = np.random.default_rng(2).gamma(2.0, size=(2, 25, 2))
        failed = np.zeros((2, 25), dtype=bool)
        failed[0, 20:] = failed[1] = True
        x[failed] = np.nan
        x[0, :20, 1] = 7.0
        found = skewness_and_kurtosis(x, failed)
        assert found[0] == pytest.approx([abs(stats.skew(x[0, :20, 0])), stats.kurtosis(x[0, :20, 0])])
        assert found[1].tolist() == [0, 0]

    def test_normal_summaries_raise_no_doubt(self):
        x = np.random.default_rng(3).normal(size=(400, 10, 3))
        shape = skewness_and_kurtosis(x, np.zeros((400, 10), dtype=bool)).mean(axis=0)
        assert doubt_of(shape) == ""
        assert "skewness 2.0, excess kurtosis 0.0" in doubt_of(np.array([2.0, 0.0]))
        assert "excess kurtosis 6.0" in doubt_of(np.array([0.0, 6.0]))

    @pytest.mark.parametrize("skewed", [True, False])
    def test_skewed_summaries_are_flagged(self, skewed):
        def simulate(theta, rng):
            return np.exp(theta["theta"] + 2 * rng.standard_normal(theta.rows))

        skew = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), simulate, observed=2.0)
        method = SyntheticLikelihoodMCMC(replicates=20, chains=4)
        run = method.start(skew if skewed else mean_of_twenty(), fbar.mean("theta"), seed=1, budget=4000)
        warnings = finish(run).expect(fbar.mean("theta")).warnings
        assert any("not normal near the posterior" in warning for warning in warnings) is skewed


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [({"kind": "other"}, "kind"), ({"replicates": 0}, "replicates"), ({"jump": -1}, "jump must be a probability")],
    )
    def test_settings_are_checked(self, settings, message):
        with pytest.raises(InputError, match=message):
            SyntheticLikelihoodMCMC(**settings)

    def test_fewer_simulations_than_summaries(self):
        method = SyntheticLikelihoodMCMC(replicates=3)
        with pytest.raises(InputError, match="with 1 number in the summaries, every step needs at least 5 simulations"):
            method.start(mean_of_twenty(), fbar.mean("theta"), seed=1, budget=1000)

    def test_a_budget_of_too_few_steps(self):
        with pytest.raises(InputError, match="each with 5 simulations at every θ need at least 500 simulations"):
            SyntheticLikelihoodMCMC().start(mean_of_twenty(), fbar.mean("theta"), seed=1, budget=400)

    def test_summaries_that_are_constant_have_no_likelihood(self):
        problem = fbar.Problem(
            fbar.Prior(theta=stats.norm(0, 1)), lambda theta, rng: np.ones(theta.rows), observed=0.63
        )
        run = SyntheticLikelihoodMCMC().start(problem, fbar.mean("theta"), seed=1, budget=1000)
        with pytest.raises(NoPosterior, match="all 1000 simulations were rejected"):
            finish(run)

    def test_data_that_are_no_numbers(self):
        problem = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0]), [0.3, 0.4])
        with pytest.raises(InputError, match="needs summaries that are numbers"):
            SyntheticLikelihoodMCMC().start(problem, fbar.mean("theta"), seed=1, budget=1000)
