"""Many given summaries: the third order along indices, and squares in the log scales."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.explanation.data import Regression
from fbar.diagnostics.explanation.words import regression_in_words
from fbar.estimation.at_data import AtData
from fbar.estimation.at_data.choice import EVEN, ORDERS, UNEVEN, _Ladder, choose, choose_from, ladder
from fbar.estimation.at_data.local import local
from fbar.estimation.at_data.moments import Companions, Difference
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.prepared import prepare
from fbar.estimation.at_data.regressors import columns_of, indices
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

HALVES = [0.5**k for k in range(4)]
ALONG = np.array([2.0, -1.0, 2.0, 0.0, 0.0, 0.0]) / 3
"""The direction of the summaries that a parameter depends on."""
LINEAR = "abcdef"
PRIOR = fbar.Prior(**{name: stats.norm(0, 1) for name in LINEAR})


def simulated(seed, curve=lambda t: t, n=3000, d=6, spread=lambda t: 0.1 + 0 * t, off=0.7):
    """mu = curve(t) + spread(t) e, with t along one direction of normal summaries, which are 0 at the data; t and e."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d)) + off * ALONG[:d]
    t, e = z @ ALONG[:d], rng.standard_normal(n)
    mu = fbar.Points({"mu": curve(t) + spread(t) * e})
    return portion(fbar.Prior(mu=stats.norm(0, 1)), mu, z, np.zeros(d)), t, e


def cubic(t):
    return 0.25 * t + 0.1 * t**3


def as_they_are(simulations):
    """Prepared without another scale of the summaries, in which a cubic curve would not be cubic."""
    return prepare(simulations, z=simulations.summaries)


def named(theta):
    return fbar.Points(dict(zip(LINEAR, theta.T, strict=False)))


def linear(seed, n=3000, d=6):
    """A linear Gaussian model: each posterior is N(0.24, 0.2)."""
    theta, noise = np.random.default_rng(seed).standard_normal((2, n, d))
    prior = fbar.Prior(**{name: stats.norm(0, 1) for name in LINEAR[:d]})
    return portion(prior, named(theta), theta + noise / 2, np.full(d, 0.3))


def difference(steps, j, weights, moved=None):
    """Of the companions at a step and at other weights; companions are placed by the finest step."""
    companions = Companions.around(steps[-1].moved, steps[-1].weights)
    mine = companions.moments(steps[j].moved, steps[j].weights)
    return Difference.between(mine, companions.moments(moved or steps[j].moved, weights))


def test_an_index_is_the_direction_of_the_slopes_whatever_their_size_and_sign():
    rng = np.random.default_rng(1)
    u, omega = rng.standard_normal((4000, 6)), rng.random(4000)
    v = (u @ ALONG)[:, None] * [1.0, 5.0, -0.01] + 3.0
    found = indices(u, v, omega)
    np.testing.assert_allclose(found, (u @ ALONG)[:, None] * [1, 1, -1], atol=2e-3 * np.abs(u).max())
    noisy = indices(u, v[:, :1] + rng.standard_normal((4000, 1)), 100 * omega)[:, 0]
    assert np.corrcoef(noisy, u @ ALONG)[0, 1] > 0.995  # an angle of 0.1; by chance √(5 · 4/3 / 4000) = 0.04
    left = u[:, 0] < 0
    elsewhere = indices(u, np.where(left, u[:, 1], u[:, 2])[:, None], left.astype(float))[:, 0]
    np.testing.assert_allclose(elsewhere, u[:, 1], atol=0.01)


def test_a_coordinate_without_slopes_has_no_index():
    rng = np.random.default_rng(3)
    u = rng.standard_normal((300, 5))
    v = np.stack([u[:, 0], np.full(300, 1 / 3), -u[:, 1]], axis=1)
    assert indices(u, v, rng.random(300)).shape == (300, 2)
    assert indices(u, v[:, 1:2], np.ones(300)).shape == (300, 0)
    assert indices(u, v[:, :0], np.ones(300)).shape == (300, 0)
    assert indices(u[:, :0], v, np.ones(300)).shape == (300, 0)


@pytest.mark.parametrize("order", [None, 3])
def test_summaries_that_say_the_same_or_nothing(order):
    """Collinear and constant summaries: the same as without them, up to what their weight in distances changes."""
    given = linear(4, 1500)
    s, observed = given.summaries, given.problem.observed
    usual = AtData(order=order).posterior(given).expect(fbar.mean("a"))
    for more, at in ((np.full(1500, 5.0), 5.0), (2 * s[:, 0], 0.6)):
        same = portion(given.problem.prior, given.points, np.column_stack([s, more]), np.r_[observed, at])
        found = AtData(order=order).posterior(same)
        assert found.step.moved.u.shape[1] == 6
        assert abs(found.expect(fbar.mean("a")).value - usual.value) < 2 * usual.standard_error


def test_a_cubic_curve_is_undone_by_the_third_order():
    """Draws are moved to their own noise, σ e, around the mean at the data, which is 0; the second order misses it."""
    simulations, _, e = simulated(5, cubic)
    away = {}
    for order in (2, 3):
        moved = move(as_they_are(simulations), 0.8, order)
        left, share = moved.v[:, 0] - 0.1 * e[moved.rows], moved.w / moved.w.sum()
        away[order] = share @ left, np.sqrt(share @ left**2)
    assert abs(away[3][0]) < 0.015 < 0.03 < abs(away[2][0])  # the deviation at the data is 0.1
    assert away[3][1] < 0.04 < 0.07 < away[2][1]


def test_the_third_order_is_chosen_where_all_parameters_bend():
    """Eight data sets; of intervals at 95% for two means each, fewer than 13 of 16 hold in 1% of all cases."""
    held = []
    for seed in range(8):
        t, e = np.random.default_rng(seed).standard_normal((2, 3000, 6)) + np.array([0.5, 0.0])[:, None, None]
        theta = 0.3 * t + 0.3 * t**2 + 0.1 * t**3 + 0.05 * e
        prepared = as_they_are(portion(PRIOR, named(theta), t, np.zeros(6)))
        posterior = AtData(learn=False).of(prepared)
        assert posterior.step.moved.order == 3
        held += [e.interval()[0] <= 0 <= e.interval()[1] for e in posterior.expect([fbar.mean("a"), fbar.mean("b")])]
    assert sum(held) >= 13


@pytest.mark.slow
def test_influence_values_of_the_third_order_are_derivatives_of_means():
    """As for the lower orders (``test_at_data.py``), with six summaries and a curve that bends, so that cubes matter.

    The influence of σ̂ and of the indices is left out: means hardly depend on it.
    """
    n, step = 1200, 1e-3
    simulations, target = simulated(6, cubic, n)[0], fbar.mean("mu")
    estimator = AtData(order=3, region=0.8, bandwidth=0.7)
    posterior = estimator.posterior(simulations)
    weights, moved = posterior.step.weights, posterior.step.moved
    rows = moved.prepared.rows[moved.rows[weights.at]]
    chosen = np.random.default_rng(7).choice(rows.size, 20, replace=False)
    both = posterior.contributions(target)
    second = weights.residuals(target.influence(posterior.points, posterior.weights))
    z = ((both + second) / 2)[chosen, 0] * (1 - weights.leverage[chosen])
    found = []
    for row in rows[chosen]:
        log_w = np.eye(n)[row] * step
        up, down = (estimator.posterior(replace(simulations, log_w=s * log_w)).value(target)[0] for s in (1, -1))
        found.append((up - down) / (2 * step))
    assert np.corrcoef(z, found)[0, 1] > 0.97
    assert 0.85 < (z @ z) / np.dot(found, found) < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 3])
def test_variances_of_means_are_those_of_replications(order):
    """Σz² of five means in five dimensions against 60 replications.

    The five are nearly independent, so that the mean of their variances has a relative error of √(2/300) = 8%; the
    band is three of these and 10% wide. Intervals hold the truth in at least 90%, four errors below 95%.
    """
    estimator = AtData(order=order, region=0.8, bandwidth=1)
    targets = [fbar.mean(name) for name in LINEAR[:5]]
    values, variances, held = [], [], []
    for seed in range(60):
        estimates = estimator.posterior(linear(seed, 1200, 5)).expect(targets)
        values.append([e.value for e in estimates])
        variances.append([e.standard_error**2 - e.bias**2 for e in estimates])
        held.append([e.interval()[0] <= 0.24 <= e.interval()[1] for e in estimates])
    assert 0.66 < np.mean(variances) / np.var(values, axis=0).mean() < 1.34
    assert np.mean(held) > 0.9


def unevenness(moved, weights):
    """The variance of the log scales at the data."""
    scale = moved.scales[weights.at]
    return (weights.omega @ (scale - weights.omega @ scale) ** 2).mean()


def without_squares(prepared):
    """As if its summaries were learned: regressions do not bend."""
    return replace(prepared, learned=SimpleNamespace(loss=0.0))


def test_squares_that_say_nothing_are_left_out():
    """One σ for all: errors of the coefficients of squares, which stretch all draws alike, would be those of variances.

    The mean squared error of six variances of 0.2 in eight data sets is 0.0001 without squares, 0.0013 with them.
    """
    estimator = AtData(learn=False, order=1, region=0.8, bandwidth=1)
    targets = [fbar.variance(name) for name in LINEAR]
    found = [[e.value for e in estimator.posterior(linear(seed, 4000)).expect(targets)] for seed in range(8)]
    assert np.mean((np.array(found) - 0.2) ** 2) < 0.0004


def test_a_true_unevenness_is_charged_with_or_without_squares():
    prepared = as_they_are(simulated(7, spread=lambda t: np.exp(t / 2))[0])
    for given in (prepared, without_squares(prepared)):
        step = ladder(move(given, 0.8, 1), HALVES)[0]
        found = unevenness(step.moved, step.weights)
        assert found > 5 * EVEN
        assert 0 < step.bias - UNEVEN * (found - EVEN) < 0.01


def test_unevenness_is_charged_by_squares_also_where_draws_are_scaled_without():
    """In a linear model squares are mostly not used; what they show by chance is charged all the same."""
    prepared = prepare(linear(3, 1500))
    bent, straight = (ladder(move(given, 0.8, 1), HALVES)[0] for given in (prepared, without_squares(prepared)))
    np.testing.assert_allclose(straight.moved.scales, np.log(straight.moved.factor), atol=1e-12)
    assert unevenness(bent.moved, bent.weights) > unevenness(straight.moved, straight.weights)


def test_a_spread_that_is_largest_in_the_middle_needs_squares():
    """log σ = −t²/4, as in the middle of a bounded prior; without squares, as for learned summaries, it is missed."""
    simulations, t, _ = simulated(8, spread=lambda t: 0.3 * np.exp(-(t**2) / 4), off=0.3)
    prepared, missed = as_they_are(simulations), []
    for given in (prepared, without_squares(prepared)):
        moved = move(given, 0.8, 1)
        away = np.log(moved.factor[:, 0]) - np.minimum(t[moved.rows] ** 2 / 4, 1)
        missed.append(np.sqrt(moved.w @ away**2 / moved.w.sum()))
    assert missed[0] < 0.5 * missed[1]


def test_the_third_order_is_there_for_many_given_summaries_only():
    few, many = (as_they_are(simulated(9, cubic, d=d)[0]) for d in (4, 5))
    learned = without_squares(many)
    assert choose(many, [0.8], ORDERS, HALVES).moved.order == 3
    for prepared in (few, learned):
        assert choose(prepared, [0.8], ORDERS, HALVES).moved.order < 3
        assert choose(prepared, [0.8], [3, 3], HALVES) is None
        assert choose_from(prepared, 2, 0.8, HALVES).moved.order < 3
        moved = move(prepared, 0.8, 2)
        np.testing.assert_allclose(moved.scales, np.log(moved.factor), atol=1e-12)
    assert choose_from(many, 2, 0.8, HALVES).moved.order == 3
    assert choose(few, [0.8], [3], HALVES).moved.order == 3  # asked for by itself
    assert move(few, 0.8, 3).folds[0].x.shape[1] == 1 + 4 + 10 + 1
    assert AtData(order=3, region=0.8).posterior(simulated(9, cubic, 500, d=3)[0]).step.moved.order == 3


def test_it_needs_eight_effective_simulations_for_each_coefficient():
    """28 coefficients of six summaries and a cube; with fewer simulations log scales are linear too."""
    prepared, some = (as_they_are(simulated(10, cubic, n)[0]) for n in (600, 200))
    assert (columns_of(6, 1), columns_of(6, 2), columns_of(6, 3, coordinates=1)) == (7, 28, 29)
    assert move(some, 0.8, 3) is None is not move(prepared, 0.8, 3)
    assert choose(some, [0.8], ORDERS, HALVES).moved.order == 1
    linear_scales = move(without_squares(prepared), 0.8, 1).scales
    assert not np.allclose(move(prepared, 0.8, 1).scales, linear_scales)
    np.testing.assert_array_equal(move(some, 0.8, 1).scales, move(without_squares(some), 0.8, 1).scales)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("bent", [False, True])
def test_a_wide_step_is_charged_for_what_the_third_order_changes(order, bent):
    """Where that is nothing, much less than the noise of a quadratic fit or of finer steps; not so for itself.

    What the next order shows beyond doubt is charged at every step, a quarter of it after the last order.
    """
    prepared = as_they_are(simulated(12, cubic)[0] if bent else linear(14, 8000))
    steps, other, third = (ladder(move(prepared, 0.8, k), HALVES) for k in (order, 2 if order == 3 else order + 1, 3))
    half = ladder(move(prepared, 0.4, order), HALVES)
    finer, c = [], [step.weights.curvature for step in steps]
    for j, wide, near in ((0, 0, 2), (1, 1, 3), (2, 2, 3), (3, 2, 3)):
        found = difference(steps, wide, steps[near].weights)
        finer.append((c[j] / (c[wide] - c[near])) ** 2 * np.array([found.bound, found.sure]))
    for j in range(3):
        curved = local(steps[j].moved, HALVES[j], 2) if order == 1 else None
        usual = difference(steps, j, curved) if curved else None
        ways = [(usual.bound, usual.sure) if usual else tuple(finer[j])]
        if j < 2 and order < 3:
            third_way = difference(steps, j, third[j].weights, third[j].moved)
            ways.append((third_way.bound, third_way.sure))
        sure = [difference(steps, j, of.weights, of.moved).sure for of in (other[j], half[max(j - 1, 0)])]
        of_scales = UNEVEN * max(unevenness(steps[j].moved, steps[j].weights) - EVEN, 0)
        shown = [way[1] for way in ways] + [sure[0] / (1, 1, 4)[order - 1], sure[1], *np.array(finer)[j:, 1]]
        expected = max(min(way[0] for way in ways), *shown)
        assert steps[j].bias - of_scales == pytest.approx(expected, rel=1e-6)
        assert bent or len(ways) == 1 or expected < 0.5 * ways[0][0]
        assert sure[0] > 0.01 or not bent
    assert bent or AtData().of(prepared).step.moved.order == 1


def test_what_any_comparison_shows_beyond_doubt_counts(monkeypatch):
    prepared = as_they_are(simulated(12)[0])
    for sure in (0.0, 0.7):
        monkeypatch.setattr(_Ladder, "_raised", lambda self, j, sure=sure: Difference(0.0, sure))
        assert (ladder(move(prepared, 0.8, 1), HALVES)[0].bias >= 0.7) == (sure == 0.7)


@pytest.mark.parametrize("kind", ["discrete", "mixed", "models"])
def test_of_what_is_not_moved_another_order_says_nothing(kind):
    """Every order gives the same, with the same bias, which a local quadratic fit shows; P(k | s) is not linear."""
    rng, one = np.random.default_rng(1), fbar.Prior(a=stats.norm(0, 1))
    k, a = rng.integers(0, 2, 2000), rng.standard_normal(2000)
    s = np.column_stack([k[:, None] + 1.2 * rng.standard_normal((2000, 5)), a + 0.5 * rng.standard_normal(2000)])
    prior, points = {
        "discrete": (fbar.Prior(k=stats.randint(0, 2)), {"k": k}),
        "mixed": (fbar.Prior(k=stats.randint(0, 2), a=stats.norm(0, 1)), {"k": k, "a": a}),
        "models": (fbar.ModelChoice({"one": one, "two": one}), {"model": np.array(["one", "two"])[k], "a": a}),
    }[kind]
    prepared = prepare(portion(prior, fbar.Points(points), s, np.full(6, 0.3)))
    moved = move(prepared, 0.8, 1)
    steps = ladder(moved, HALVES)
    for j in (0, 1):
        curved = difference(steps, j, local(steps[j].moved, HALVES[j], 2)).bound
        assert steps[j].bias >= (1 - 1e-9) * curved > 0
    assert AtData(learn=False).of(prepared).step.moved.u.shape[1] == 6
    assert move(prepared.take(np.arange(200)), 0.8, 3) is None


@pytest.mark.parametrize("seed", [3, 4, 7])
def test_orders_that_agree_settle_nothing_where_all_may_be_wrong(seed):
    """θ is the scale of twelve numbers, of which polynomials say little: the posterior is about N(0.05, 0.2²).

    Orders two and three agreed on −2.8 ± 0.8 once, while nearer simulations did not exclude any bias.
    """

    def scaled(theta, rng):
        return np.exp(theta["theta"])[:, None] * rng.standard_normal((theta.rows, 12))

    observed = 1.5 * np.sin(1 + 3 * np.arange(12))
    prior = fbar.Prior(theta=stats.norm(0, 1))
    problem = fbar.Problem(prior, scaled, observed=observed, summary=lambda data: data)
    estimate = fbar.infer(problem, "mean:theta", budget=10_000, seed=seed, progress=False)["theta"]
    assert not estimate.trusted
    assert abs(estimate.value - 0.05) < 2 * estimate.standard_error


def test_orders_in_words():
    kinds = {1: "a linear", 2: "a quadratic", 3: "a quadratic (and along each parameter cubic)"}
    moved = "Draws were moved to the data by {} regression on the nearest 40% of the simulations;"
    for order in (0, 1, 2, 3):
        words = moved.format(kinds[order]) if order else "Draws were left where they are;"
        assert regression_in_words(Regression(order, 0.4, 0.1, None))[0] == words
    with pytest.raises(fbar.InputError, match=r"^order must be 0, 1, 2 or 3; got 4"):
        AtData(order=4)
