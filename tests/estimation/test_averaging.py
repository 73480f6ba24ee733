"""Two estimates at the data that are averaged: the mean of both, with the covariance of both in its error bar."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.explanation.data import Regression
from fbar.diagnostics.explanation.words import regression_in_words
from fbar.estimation.at_data import AtData, PosteriorAtData, averaging, estimator
from fbar.estimation.at_data.choice import choose, choose_from
from fbar.estimation.at_data.moments import Companions
from fbar.estimation.at_data.parts import Part
from fbar.estimation.at_data.prepared import prepare
from fbar.estimation.simulations import Structure
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

D = 6
NAMES = [f"t{k}" for k in range(D)]
PRIOR = fbar.Prior(**{name: stats.norm(0, 1) for name in NAMES})
TARGETS = [
    *(fbar.mean(name) for name in NAMES),
    fbar.variance("t0"),
    fbar.probability("t1 > 0.3"),
    fbar.quantile("t0", 0.9),
]


def prepared_for(seed, n=3000, noise=0.8, wide=1.2):
    """t from N(0, 1.44) with weights to N(0, 1), s from N(t, 0.64), data 0.3: each posterior is N(0.18, 0.39)."""
    rng = np.random.default_rng(seed)
    t = wide * rng.standard_normal((n, D))
    s = t + noise * rng.standard_normal((n, D))
    log_w = 0.5 * (t**2).sum(axis=1) * (1 / wide**2 - 1)
    points = fbar.Points(dict(zip(NAMES, t.T, strict=True)))
    return prepare(replace(portion(PRIOR, points, s, np.full(D, 0.3)), log_w=log_w))


def two_steps(prepared):
    """Of those within reach of the posterior, and of all simulations."""
    near = np.flatnonzero((np.square(prepared.v - 0.18)).sum(axis=1) < 10)
    assert 0 < near.size < len(prepared)
    whole, within = (choose(one, (0.8,), (1,), (1.0,), first=True) for one in (prepared, prepared.take(near)))
    return within, whole


@pytest.fixture(scope="module")
def steps():
    return two_steps(prepared_for(1))


def test_with_many_summaries_the_estimates_with_and_without_the_cut_are_averaged():
    prepared = prepared_for(2, n=6000, noise=0.5, wide=1.0)
    found = AtData().of(prepared)
    within, whole = found.parts.each
    assert within.share + whole.share == pytest.approx(1)
    assert 0.2 < within.share < 0.8
    assert within.step.bias == whole.step.bias
    assert len(within.step.moved.prepared) < len(whole.step.moved.prepared)
    assert len(AtData(search=False).of(prepared).parts.each) == 1


def test_what_is_linear_in_the_distribution_is_the_mean_of_both(steps):
    both = PosteriorAtData([Part(0.3, steps[0]), Part(0.7, steps[1])])
    single = [PosteriorAtData([Part(1.0, step)]) for step in steps]
    for target in (*TARGETS[:D], TARGETS[-2]):
        first, other = (one.value(target) for one in single)
        np.testing.assert_allclose(both.value(target), 0.3 * first + 0.7 * other, rtol=1e-9)
    assert both.weights.sum() == pytest.approx(1)
    assert both.points.rows == sum(one.points.rows for one in single)


def test_the_same_estimate_twice_is_that_estimate(steps):
    """Simulations that are in both contribute to both: nothing is gained, and the error bars say so."""
    once = PosteriorAtData([Part(1.0, steps[1])])
    twice = PosteriorAtData([Part(0.4, steps[1]), Part(0.6, steps[1])])
    first, other = once.expect(TARGETS), twice.expect(TARGETS)
    for one, same in zip(first, other, strict=True):
        exact = not one.name.startswith("quantile")  # its slope is smoothed less where draws are twice as many
        for name in ("value", "standard_error", "bias", "df"):
            assert getattr(same, name) == pytest.approx(getattr(one, name), rel=1e-6 if exact else 0.25), one.name
    assert twice.ess == pytest.approx(once.ess)
    assert twice.accepted == once.accepted
    for found in (once, twice):
        points, weights = found.as_simulated()
        assert points.rows == once.points.rows
        np.testing.assert_allclose(weights, once.as_simulated()[1], rtol=1e-9)
        np.testing.assert_array_equal(points["t0"], once.as_simulated()[0]["t0"])


def test_squares_of_contributions_are_the_variance(steps):
    found = PosteriorAtData([Part(0.5, steps[0]), Part(0.5, steps[1])])
    for target in TARGETS[:2]:
        estimate = found.expect(target)
        z = found.contributions(target)
        assert z.shape == (found.points.rows, 1)
        variance = estimate.standard_error**2 - estimate.bias**2
        assert (z**2).sum() == pytest.approx(variance, rel=0.01)


def test_clusters_are_those_of_both(steps):
    """Simulations in pairs: the variance is that between pairs, whichever part a simulation is in."""
    prepared = prepared_for(1)
    n = len(prepared)
    zeros = np.zeros(n, dtype=np.int64)
    pairs = Structure("independent", zeros, np.arange(n) // 2, np.array([n // 2]), np.ones(n, dtype=bool))
    within, whole = two_steps(replace(prepared, structure=pairs))
    once = PosteriorAtData([Part(1.0, whole)]).expect(TARGETS[:2])
    same = PosteriorAtData([Part(0.5, whole), Part(0.5, whole)]).expect(TARGETS[:2])
    np.testing.assert_allclose(same.covariance, once.covariance, rtol=1e-9)
    both = PosteriorAtData([Part(0.5, within), Part(0.5, whole)])
    z = both.parts.joined([np.ones((len(step.moved), 1)) for step in (within, whole)])
    clustered = both.parts.clustered(z)
    rows = np.union1d(within.moved.prepared.rows[within.moved.rows], whole.moved.prepared.rows[whole.moved.rows])
    assert clustered.zeta.shape[0] == np.unique(rows // 2).size
    assert clustered.zeta.sum() == pytest.approx((len(within.moved) + len(whole.moved)) / 2)


def test_biases_of_the_parts_are_averaged_as_squares(steps):
    biased = [replace(step, bias=bias) for step, bias in zip(steps, (0.04, 0.01), strict=True)]
    each = [PosteriorAtData([Part(1.0, step)]).expect(TARGETS[0]).bias for step in biased]
    mean = PosteriorAtData([Part(0.25, biased[0]), Part(0.75, biased[1])]).expect(TARGETS[0]).bias
    assert mean**2 == pytest.approx(0.25 * each[0] ** 2 + 0.75 * each[1] ** 2, rel=0.05)


def test_two_estimates_are_compared_in_posterior_variances(steps):
    """Draws that are all moved by half a deviation change every mean by that: means are a fifth of the companions."""
    within, whole = steps
    apart, correlation = averaging.compared(whole, whole)
    assert apart == pytest.approx(0, abs=1e-12)
    assert correlation == pytest.approx(1)
    assert [part.share for part in averaging.of(whole, whole)] == [1.0]
    apart, correlation = averaging.compared(within, whole)
    assert 0 < apart < 0.05
    assert 0 < correlation < averaging.SAME
    spread = np.sqrt(np.average(np.square(whole.moved.v - 0.18), axis=0, weights=whole.moved.w))
    shifted = replace(whole, moved=replace(whole.moved, v=whole.moved.v + 0.5 * spread))
    assert averaging.compared(within, shifted)[0] > 0.1


def test_what_is_not_moved_is_compared_in_one_unit(steps):
    """A discrete parameter whose middle and spread are others among all simulations than among those within reach."""
    prepared = steps[1].moved.prepared
    k = np.random.default_rng(5).integers(0, 9, len(prepared)).astype(float)[:, None]
    k[np.square(prepared.v).sum(axis=1) > 12] += 30
    within, whole = two_steps(replace(prepared, fixed=k))
    companions = Companions.around(within.moved, within.weights)
    first, other = (companions.moments(step.moved, step.weights) for step in (within, whole))
    of_k = first.kind == 3
    assert of_k.sum() == 1
    for step, found in ((within, first), (whole, other)):
        own = step.weights.ell @ step.moved.prepared.fixed[step.moved.rows[step.weights.at]]
        middle, deviation = within.moved.prepared.fixed.mean(), within.moved.prepared.fixed.std()
        assert found.value[of_k] == pytest.approx((own - middle) / deviation, rel=1e-9)


def test_freedom_is_that_of_simulations_not_of_draws(steps):
    once, twice = (PosteriorAtData([Part(1 / n, steps[1])] * n).parts.most_freedom for n in (1, 2))
    assert twice == pytest.approx(once)


def test_the_variance_is_that_of_many_runs():
    """The means of 6 parameters in 80 runs: the ratio of variances has an error of about 0.07, so 0.35 is 5 of them."""
    values, variances = [], []
    for seed in range(80):
        within, whole = two_steps(prepared_for(100 + seed, n=1200))
        found = PosteriorAtData([Part(0.5, within), Part(0.5, whole)]).expect(TARGETS[:D])
        values.append([estimate.value for estimate in found])
        variances.append([estimate.standard_error**2 - estimate.bias**2 for estimate in found])
    ratio = np.var(values, axis=0, ddof=1).mean() / np.mean(variances)
    assert 0.65 < ratio < 1.35


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({}, 2),
        ({"error": 0.85}, 1),
        ({"error": 0.04}, 1),
        ({"bending": False}, 1),
        ({"model": 1}, 1),
        ({"farther": 0.0}, 1),
        ({"both": False}, 1),
        ({"correlation": 0.96}, 1),
    ],
)
def test_when_two_estimates_are_averaged(change, number, steps, monkeypatch):
    """With many given summaries, of one model, where neither is doubtful or much the worse."""
    monkeypatch.setattr(averaging, "compared", lambda first, other: (0.01, change.get("correlation", 0.5)))
    prepared = SimpleNamespace(
        bending=change.get("bending", True), model=np.array([0, change.get("model", 0)]), doubts=()
    )
    moved = SimpleNamespace(prepared=prepared, radius=np.linspace(0, 1, 50), u=np.zeros((50, 6)))
    weights = SimpleNamespace(ess=100.0, farther=change.get("farther", 0.5))
    within = replace(steps[0], moved=moved, weights=weights, variance=0.16, bias=0.04)
    whole = replace(steps[1], moved=moved, weights=weights, variance=change.get("error", 0.1) - 0.01, bias=0.01)
    parts = averaging.of(within, whole, change.get("both", True))
    assert len(parts) == number
    if number == 2:  # errors 0.2 and 0.1: a third and two thirds, and 1 − 2/9 of the larger bias
        assert [part.share for part in parts] == pytest.approx([1 / 3, 2 / 3])
        assert [part.step.bias for part in parts] == pytest.approx([0.04 * 7 / 9] * 2)
        monkeypatch.setattr(averaging, "compared", lambda first, other: (0.09, 0.0))
        assert averaging.of(within, whole)[0].step.bias == pytest.approx(0.09 * 5 / 9)
    elif "error" in change:
        assert parts[0].step is (within if change["error"] > 0.5 else whole)
    assert [part.share for part in averaging.of(None, whole)] == [1.0]


def test_explanations_say_that_the_answer_is_a_mean_of_two():
    alone, both = (regression_in_words(Regression(2, 0.8, 0.4, 0.5, part)) for part in (1.0, 0.64))
    assert len(alone) == 2
    assert both[0] == alone[0]
    assert both[2].endswith("the one described here has a weight of 64%")


def test_pictures_and_explanations_count_simulations_not_draws():
    """Of a run whose two regressions use the same simulations."""
    names = [f"t{k}" for k in range(5)]
    prior = fbar.Prior(**{name: stats.uniform(-1, 2) for name in names})

    def simulate(theta, rng):
        return np.stack([theta[name] for name in names], axis=1) + 0.2 * rng.standard_normal((theta.rows, 5))

    problem = fbar.Problem(prior, simulate, observed=np.array([0.1, 0.2, -0.1, 0.0, 0.3]))
    result = fbar.infer(problem, "mean:t0", method=fbar.Rejection(), budget=3000, seed=1, progress=False)
    posterior = result.posterior
    assert len(posterior.parts.each) == 2
    picture = fbar.plot.Influence.of(result)
    carriers = result.explain("mean:t0").carriers
    assert picture.number_of_parts == carriers.number == posterior.as_simulated()[1].size < posterior.points.rows
    assert picture.variance[-1] == pytest.approx(1)
    assert picture.weight[-1] == pytest.approx(1)
    (at_chosen,) = (found["mean:t0"] for share, found in posterior.curve("mean:t0") if share == posterior.bandwidth)
    assert at_chosen.value == result["mean:t0"].value


def test_of_many_simulations_each_part_is_searched_by_itself(monkeypatch):
    """Where all simulations make one of the two much worse than some of them did, the other remains."""
    prepared = prepared_for(3, n=6000, noise=0.5, wide=1.0)
    both = AtData(choosing=1000).of(prepared).parts.each
    assert len(both) == 2
    assert len(both[0].step.moved.prepared) < len(both[1].step.moved.prepared) == len(prepared)

    def worse_of_all(given, *arguments, **named):
        step = choose_from(given, *arguments, **named)
        return replace(step, bias=10.0) if len(given) == len(prepared) else step

    monkeypatch.setattr(estimator, "choose_from", worse_of_all)
    (left,) = AtData(choosing=1000).of(prepared).parts.each
    assert left.step.error < 0.1
    assert len(left.step.moved.prepared) < len(prepared)
