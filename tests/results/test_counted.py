"""What results call the simulations that they count, of methods that accept none."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.counted import ACCEPTED, DRAWS, STATES, WITHIN, Counted
from fbar.results.account import Account
from fbar.running.progress import Observer


def noisy(theta, rng):
    return theta["theta"][:, None] + 0.5 * rng.normal(size=(theta.rows, 1))


def infer(method, budget):
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), noisy, [1.0])
    return fbar.infer(problem, fbar.mean("theta"), method=method, budget=budget, seed=1, progress=False)


CASES = [
    (fbar.SyntheticLikelihood(), 600, DRAWS),
    (fbar.SyntheticLikelihoodMCMC(), 2000, STATES),
    (fbar.MCMC(tolerance=0.5), 1000, STATES),
    (fbar.BOLFI(), 25, WITHIN),
    (fbar.Rejection(tolerance=0.5), 500, ACCEPTED),
]


@pytest.mark.parametrize(("method", "budget", "counted_as"), CASES, ids=lambda part: type(part).__name__)
def test_everything_that_is_printed_has_the_same_words(method, budget, counted_as):
    result = infer(method, budget)
    words = counted_as.of(result.accepted)
    assert f"{result.simulations:,} simulations, {words}; " in str(result)
    assert words in str(result.explain())
    recorded = result.as_dict()
    assert Account.recorded(recorded).lines() == str(result).splitlines()
    assert recorded.get("counted_as", "accepted") == counted_as.words
    if counted_as is not ACCEPTED:
        assert words in repr(result.posterior)
        assert "accepted" not in str(result)


def test_progress_counts_draws():
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), noisy, [1.0])
    run = fbar.SyntheticLikelihood().start(problem, [fbar.mean("theta")], 1, 600)
    observer = Observer(share=1e9)
    fbar.drive(run, progress=observer.note)
    assert any(text.endswith("draws of θ") for text in observer.state(run).where)


def test_words_of_records_that_name_none():
    assert Counted.named("") is ACCEPTED
    assert all(Counted.named(known.words) is known for known in (DRAWS, STATES, WITHIN))


def test_draws_from_the_prior_take_as_many_simulations_each():
    """The estimate from R simulations at each draw is compared with as many draws from the prior, not R times as many.

    The prior of θ is its posterior nearly, so that draws from it are about as good as those of the run.
    """
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: 0.1 * t["theta"] + rng.normal(size=t.rows), 0.0
    )
    method = fbar.SyntheticLikelihood(replicates=10)
    result = fbar.infer(problem, fbar.mean("theta"), method=method, budget=20_000, seed=1, progress=False)
    (other,) = result.explain().alternatives
    assert other.words == "draws from the prior"
    assert 0.7 < other.times < 1.5  # R times as many would be 0.1
    assert np.isfinite(other.times_error)
