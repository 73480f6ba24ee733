"""Results for ArviZ, whichever version is installed: below 1 an InferenceData, from 1 on a DataTree."""

import warnings

import numpy as np
import pytest
from scipy import stats

import fbar

with warnings.catch_warnings():  # it announces its own future at import
    warnings.simplefilter("ignore", FutureWarning)
    arviz = pytest.importorskip("arviz")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """θ ~ N(0, 1), x ~ N(θ, ½²), x* = 1: the posterior is N(0.8, 0.2). The design simulates its tails too much."""
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda t, rng: t["theta"] + 0.5 * rng.standard_normal(t.rows),
        observed=1.0,
        derived={"square": lambda t: t["theta"] ** 2},
    )
    targets = [fbar.mean("theta"), fbar.variance("theta")]
    run = tmp_path_factory.mktemp("arviz") / "run"
    return fbar.infer(problem, targets, tolerance=0.05, budget=40_000, seed=1, run=run)


def spread_of(result, values):
    w = result.posterior.weights
    mean = w @ values
    return mean, w @ (values - mean) ** 2


def test_draws_are_of_the_posterior_and_not_of_the_design(result):
    """Of n draws a mean differs from the weighted one by less than independent draws' error: |z| < 5, twice in 10⁶.

    Systematic resampling has less. The points without their weights would be at the variance of the design.
    """
    drawn = np.asarray(result.to_arviz()["posterior"]["theta"])
    assert drawn.shape == (1, round(float(result.posterior.ess)))
    theta = result.posterior.points["theta"]
    for power in (1, 2):
        mean, variance = spread_of(result, theta**power)
        assert abs((drawn**power).mean() - mean) < 5 * np.sqrt(variance / drawn.size)
    mean, variance = spread_of(result, theta)
    fourth = spread_of(result, (theta - mean) ** 2)[1]
    assert abs(drawn.var() - variance) < 5 * np.sqrt(fourth / drawn.size) + 25 * variance / drawn.size
    assert abs(drawn.var() - 0.2) < 5 * np.sqrt(2 * 0.2**2 * 2 / drawn.size)
    assert abs(theta.var() - 0.2) > 0.04  # told apart


def test_they_are_in_no_order_and_the_same_each_time(result):
    draws = [np.asarray(made.to_arviz()["posterior"]["theta"])[0] for made in (result, result)]
    again = fbar.load(result.directory, result.run.problem)
    draws.append(np.asarray(again.to_arviz()["posterior"]["theta"])[0])
    assert (draws[0] == draws[1]).all()
    assert (draws[0] == draws[2]).all()
    assert abs(np.corrcoef(draws[0][1:], draws[0][:-1])[0, 1]) < 5 / np.sqrt(draws[0].size)
    assert set(draws[0]) <= set(result.posterior.points["theta"])


def test_weights_on_request_and_what_else_there_is(result):
    whole = result.to_arviz(weighted=True)
    assert np.array_equal(whole["posterior"]["theta"], result.posterior.points["theta"][None])
    assert np.array_equal(whole["sample_stats"]["weight"], result.posterior.weights[None])
    few = result.to_arviz(draws=50)
    assert "sample_stats" not in list(few.children if hasattr(few, "children") else few.groups())
    assert few["posterior"]["theta"].shape == (1, 50)
    assert np.allclose(few["posterior"]["square"], few["posterior"]["theta"] ** 2)
    assert np.asarray(few["observed_data"]["summaries"]) == [1.0]


def test_arviz_takes_it(result):
    told = arviz.summary(result.to_arviz(), var_names=["theta"], round_to=None)
    assert float(told.loc["theta", "mean"]) == pytest.approx(0.8, abs=0.1)


def test_what_cannot_be_drawn_is_refused(result):
    with pytest.raises(fbar.InputError, match="cannot be combined with weighted=True"):
        result.to_arviz(draws=3, weighted=True)
    with pytest.raises(fbar.InputError, match="draws must be a positive integer; got 0"):
        result.to_arviz(draws=0)
    with pytest.raises(fbar.InputError, match="use weighted=True"):
        result.extrapolated(ratio=2).to_arviz()
