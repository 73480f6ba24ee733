"""What two estimates differ by beyond chance, and which bandwidths that rules out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.estimation.at_data.averaging import preferred
from fbar.estimation.at_data.choice import ENOUGH, _Ladders, choose, choose_from, ladder
from fbar.estimation.at_data.moments import Companions, Difference, Moments
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.prepared import prepare
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

MEAN = [fbar.mean("mu")]


def two_estimates(rng, shift, companions, noise=0.1, n=50):
    """Moments of two estimates with independent errors, which differ by ``shift`` posterior deviations."""
    z = rng.normal(0, noise / np.sqrt(n), (2, n, companions))
    kind = np.repeat([0, 1], [companions // 2, companions - companions // 2])
    deviation, rows = np.full(companions, 3.0), np.arange(n)
    values = 3.0 * (z.sum(axis=1) + np.array([[shift], [0.0]]))
    first, other = (Moments(value, deviation, 3.0 * part, kind, rows) for value, part in zip(values, z, strict=True))
    return first, other


def test_a_mean_squared_difference_is_known_where_companions_are_many():
    first, other = two_estimates(np.random.default_rng(1), 0.3, 2000)
    found = Difference.between(first, other)
    # Two errors of variance 0.01 and a shift of 0.3: 0.09, with a standard error of about (0.02 + 0.09) √(2/2000).
    assert 0.08 < found.sure < 0.09 < found.bound < 0.105
    twice = Difference.between(first, other, 4.0)
    assert (twice.bound, twice.sure) == pytest.approx((4 * found.bound, 4 * found.sure))


def test_estimates_from_other_rows_differ_by_what_each_of_the_rows_contributes():
    kind, one = np.zeros(1, dtype=np.int64), np.ones(1)
    first = Moments(one, one, np.array([[1.0], [2.0], [3.0]]), kind, np.array([0, 1, 2]))
    other = Moments(0 * one, one, np.array([[3.0], [5.0]]), kind, np.array([2, 4]))
    np.testing.assert_array_equal(first.less(other)[:, 0], [1.0, 2.0, 0.0, 0.0, -5.0])
    np.testing.assert_array_equal(other.less(first)[:, 0], [-1.0, -2.0, 0.0, 0.0, 5.0])


def test_of_few_companions_chance_is_neither_bias_nor_forgotten():
    rng = np.random.default_rng(2)
    same = [Difference.between(*two_estimates(rng, 0.0, 8)) for _ in range(1000)]
    # Beyond doubt: two standard errors of a χ² mean, in all of them or in one of two kinds.
    assert np.mean([found.sure > 0 for found in same]) < 0.15
    assert all(found.bound > 0 for found in same)
    apart = [Difference.between(*two_estimates(rng, 0.3, 8)) for _ in range(1000)]
    assert np.mean([found.bound > 0.09 for found in apart]) > 0.9
    assert np.mean([found.sure < 0.09 for found in apart]) > 0.9


def bent(seed, curve, n=20_000):
    """Simulations whose E[v | s] is a given curve, with s uniform around the data at 0 and noise of deviation 0.3."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-1, 1, n)
    mu = curve(s) + 0.3 * rng.standard_normal(n)
    return portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), s[:, None], np.zeros(1))


def switched(seed, curve, n=200_000):
    """Simulations of a parameter that is 0 or 1, the latter with a probability that is a given curve of s."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-1, 1, n)
    on = (rng.random(n) < curve(s)).astype(np.int64)
    return portion(fbar.Prior(on=stats.bernoulli(0.5)), fbar.Points({"on": on}), s[:, None], np.zeros(1))


def test_estimates_that_agree_by_accident_do_not_hide_a_bias():
    """The probability rises near the data and falls farther out, so that the widest and the narrowest step agree."""

    def steps(curve):
        return ladder(move(prepare(switched(1, curve), most=200_000), 0.8, 0), [1.0, 0.5, 0.25, 0.125])

    def near(s):
        return ((np.abs(s) > 0.22) & (np.abs(s) < 0.4)).astype(float)

    def far(s):
        return ((np.abs(s) > 0.45) & (np.abs(s) < 0.8)).astype(float)

    def estimated(step, curve):
        return float(step.weights.ell @ curve(step.moved.prepared.x[step.moved.rows[step.weights.at], 0]))

    widest = steps(lambda s: np.full(s.shape, 0.5))[0]
    ratio = estimated(widest, near) / estimated(widest, far)
    wide, middle, narrow, _ = steps(lambda s: 0.5 + 0.25 * (near(s) - ratio * far(s)))
    wrong = (0.25 * estimated(middle, lambda s: near(s) - ratio * far(s)) / 0.5) ** 2
    assert middle.bias > wrong > 10 * narrow.bias  # seen at one step
    assert wide.bias > 0.8 * wrong  # and not forgotten at the next


def test_a_step_is_compared_with_all_finer_ones_where_summaries_are_few(monkeypatch):
    """Neighbouring steps agree; the widest and the finest of enough simulations do not."""
    steps = [1.0, 0.5, 0.25, 0.012]
    made = _Ladders(prepare(bent(3, np.zeros_like, n=2000)), steps, steps).of(1, 0.8)
    monkeypatch.setattr(type(made), "_narrowed", lambda _, j: Difference(0.1, 0.0))
    assert made.weights[2].ess > ENOUGH > made.weights[3].ess
    sure = {(0, 2): 0.07, (0, 3): 0.9}
    between = staticmethod(lambda first, other: Difference(0.0, sure.get((first, other), 0.0)))
    monkeypatch.setattr(Difference, "between", between)
    monkeypatch.setattr(made, "moments", lambda j: j)
    assert [made._sure_from(j) for j in range(4)] == [0.07, 0.0, 0.0, 0.0]
    made._surely.clear()
    monkeypatch.setattr(made, "moved", replace(made.moved, prepared=replace(made.moved.prepared, summaries=4)))
    assert made._sure_from(0) == 0.0


def test_order_zero_is_a_local_linear_regression_of_draws_as_they_are():
    simulations = bent(2, lambda s: 2 * s, n=2000)
    posterior = AtData(order=0, region=0.8, bandwidth=0.5).posterior(simulations)
    assert posterior.step.moved.order == 0
    v = np.asarray(posterior.points["mu"])
    assert np.isin(np.round(v, 9), np.round(np.asarray(simulations.points["mu"]), 9)).all()
    found = posterior.expect(MEAN)[0]
    assert abs(found.value) < 0.1  # the curve is straight: nothing but chance, of 0.3 among hundreds


def test_narrow_modes_are_not_blurred_in_few_dimensions():
    """x = |θ| + noise has two narrow modes: quantiles are those of the modes, not of a cloud around both."""
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(-1, 2)),
        lambda theta, rng: np.abs(theta["theta"]) + 0.02 * rng.standard_normal(theta.rows),
        observed=0.5,
    )
    outer = [fbar.quantile("theta", 0.1), fbar.quantile("theta", 0.9)]
    end = 0.5 + 0.02 * stats.norm.ppf(0.8)  # of the outer fifth of each mode
    runs = [fbar.infer(problem, outer, budget=4000, seed=seed, progress=False).estimates for seed in range(6)]
    found = [(estimate, truth) for run in runs for estimate, truth in zip(run, (-end, end), strict=True)]
    errors = [abs(float(e.value) - truth) for e, truth in found]
    assert np.sqrt(np.mean(np.square(errors))) < 0.01  # in a cloud around both modes they would be near ±0.4
    # 42 of 48 such intervals held: if independent, fewer than 8 of 12 would in 1% of all cases.
    assert sum(e.interval()[0] <= truth <= e.interval()[1] for e, truth in found) >= 8


def widest(simulations):
    return ladder(move(prepare(simulations), 0.8, 1), [1.0, 0.5, 0.25])[0]


@pytest.mark.parametrize("summaries", [2, 6])
def test_a_spread_that_changes_among_the_simulations_is_an_error_in_many_dimensions(summaries):
    """v = exp(s₁/2) e: the log scale has a quarter of the variance of s₁, which is known of the sample itself."""
    rng = np.random.default_rng(4)
    s, e = rng.standard_normal((6000, summaries)), rng.standard_normal(6000)
    prior, data = fbar.Prior(mu=stats.norm(0, 1)), np.zeros(summaries)
    even, uneven = (
        widest(portion(prior, fbar.Points({"mu": scale * e / 3}), s, data)) for scale in (1.0, np.exp(s[:, 0] / 2))
    )
    rows, omega = uneven.moved.rows[uneven.weights.at], uneven.weights.omega
    first = s[uneven.moved.prepared.rows[rows], 0] / 2
    variance = omega @ (first - omega @ first) ** 2
    assert even.bias < 0.03
    if summaries == 2:  # the local regression sees for itself
        assert uneven.bias < 0.5 * variance
    else:
        # 2.5 times what is estimated of it: a regression of log squares finds two thirds, for its floor and its ridge.
        assert variance < uneven.bias - even.bias < 2.9 * variance


def test_what_learned_summaries_lost_is_in_the_error():
    rng = np.random.default_rng(5)
    mu = rng.standard_normal(3000)
    x = mu[:, None] + rng.standard_normal((3000, 12))
    groups = np.arange(3000) % 4
    simulations = portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), x, np.full(12, 0.3), group=groups)
    learned = prepare(simulations).in_learned_coordinates()
    lossless = replace(
        learned, learned=replace(learned.learned, functions=[replace(f, loss=0.0) for f in learned.learned.functions])
    )
    with_loss, without = (ladder(move(prepared, 0.8, 1), [1.0, 0.5])[0] for prepared in (learned, lossless))
    # One coefficient for each of 12 numbers, and some for their squares and features, from 2,000 effective simulations.
    assert 0.002 < learned.learned.loss < 0.05
    assert with_loss.bias - without.bias == pytest.approx(2 * learned.learned.loss)


def straight(seed, n=3000):
    """Simulations of five parameters and five summaries, slightly bent."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((n, 5))
    s = theta + 0.2 * theta[:, [1, 2, 3, 4, 0]] ** 2 + 0.7 * rng.standard_normal((n, 5))
    names = "abcde"
    prior = fbar.Prior(**{name: stats.norm(0, 1) for name in names})
    return portion(prior, fbar.Points(dict(zip(names, theta.T, strict=True))), s, np.zeros(5))


def test_the_step_that_is_chosen_has_the_least_error_of_all():
    prepared = prepare(straight(5))
    halves = [0.5**k for k in range(4)]
    regions, orders = [0.8, 0.4], [1, 2]
    every = [step for order in orders for share in regions for step in ladder(move(prepared, share, order), halves)]
    best = min(every, key=lambda step: step.error)
    found = choose(prepared, regions, orders, halves)
    assert (found.moved.order, found.moved.share, found.share) == (best.moved.order, best.moved.share, best.share)
    assert found.error == pytest.approx(best.error, rel=1e-9)
    assert choose(prepared, regions, orders, halves, below=0.99 * best.error) is None


@pytest.mark.parametrize("begin", [(1, 0.8), (2, 0.8), (1, 0.1)])
def test_a_search_ends_where_neither_the_other_order_nor_half_of_the_region_is_better(begin):
    prepared = prepare(straight(5))
    halves = [0.5**k for k in range(4)]
    found = choose_from(prepared, *begin, halves)
    order, share = found.moved.order, found.moved.share
    assert share <= begin[1]
    assert found.error <= choose(prepared, [begin[1]], [begin[0]], halves).error
    for cell in ((3 - order, share), (order, share / 2)):
        if cell[1] >= 0.05:
            assert choose(prepared, [cell[1]], [cell[0]], halves, below=found.error) is None


def test_all_simulations_improve_on_what_some_of_them_chose():
    simulations = straight(6, n=4000)
    some, searched, by_all = (
        AtData(choosing=choosing, search=search).posterior(simulations).step
        for choosing, search in ((1000, False), (1000, True), (10_000, True))
    )
    assert by_all.error < some.error
    assert searched.error < (some.error + by_all.error) / 2


def cloud(seed, curve, n=6000):
    """Simulations whose E[v | s] is a given curve of four normal summaries."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((n, 4))
    mu = curve(s) + 0.3 * rng.standard_normal(n)
    return portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), s, np.zeros(4))


def beyond_doubt(steps, j, other):
    """What of the mean squared difference of two estimates is not chance; companions are placed by the finest step."""
    companions = Companions.around(steps[-1].moved, steps[-1].weights)
    moments = [companions.moments(of.moved, of.weights) for of in (steps[j], other)]
    return Difference.between(*moments).sure


@pytest.mark.parametrize("order", [1, 2])
def test_what_half_of_the_region_shows_beyond_doubt_counts(order):
    """A cubic curve: regressions on all of a region and on half of it differ."""
    prepared = prepare(cloud(1, lambda s: 0.2 * (s**3).sum(axis=1)))
    halves = [0.5**k for k in range(4)]
    wide, half = (ladder(move(prepared, share, order), halves) for share in (0.8, 0.4))
    apart = beyond_doubt(wide, 1, half[0])  # the same simulations at the data
    assert wide[1].bias >= apart > 0.003
    assert half[1].bias < wide[1].bias


def test_what_the_other_order_shows_beyond_doubt_counts():
    prepared = prepare(cloud(1, lambda s: 0.3 * (s**2).sum(axis=1)))
    halves = [0.5**k for k in range(4)]
    straight, curved = (ladder(move(prepared, 0.8, order), halves) for order in (1, 2))
    for steps, others in ((straight, curved), (curved, straight)):
        apart = beyond_doubt(steps, 0, others[0])
        assert apart > 1.0
        if steps is straight:
            assert steps[0].bias >= apart
        else:  # a third order may change half as much, and nothing else shows as much
            assert steps[0].bias == pytest.approx(apart / 4, rel=1e-9)


def test_companions_of_two_regions_are_in_one_unit():
    """Normal θ whose spread given s is twice as large far from the data: its variance at the data is the same number,
    whichever region it is computed in, up to the error that chance gives it."""
    rng = np.random.default_rng(2)
    s = rng.standard_normal((20_000, 1))
    mu = (0.3 + 0.3 * np.minimum(np.abs(s[:, 0]), 1)) * rng.standard_normal(20_000)
    prepared = prepare(portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), s, np.zeros(1)))
    wide, half = (ladder(move(prepared, share, 1), [1.0, 0.5, 0.25, 0.125]) for share in (0.8, 0.4))
    companions = Companions.around(wide[-1].moved, wide[-1].weights)
    values = [companions.moments(of.moved, of.weights).value[1] for of in (wide[2], half[1])]  # the same simulations
    assert values[0] == pytest.approx(values[1], rel=0.02)


def test_an_error_that_many_coordinates_share_is_seen_in_the_directions_of_the_parameters():
    """A random walk of steps v: the last parameter is their sum, so that small errors of all steps add up in it."""
    rng, d, n = np.random.default_rng(8), 8, 4000
    names = [f"x{k}" for k in range(d)]
    walk = {names[0]: stats.norm(0, 1)}
    for before, name in pairwise(names):
        walk[name] = lambda theta, before=before: stats.norm(theta[before], 1)
    prior = fbar.Prior(**walk)
    v = rng.standard_normal((n, d))
    theta = np.cumsum(v, axis=1)
    simulations = portion(prior, fbar.Points(dict(zip(names, theta.T, strict=True))), theta + v[:, ::-1], np.zeros(d))
    prepared = prepare(simulations)
    sums = np.triu(np.ones((d, d))) / np.sqrt(np.arange(1, d + 1))
    np.testing.assert_allclose(prepared.directions, sums, atol=1e-6)
    moved = move(prepared, 0.8, 1)
    seen = moved.along(prepared.directions)
    np.testing.assert_allclose(seen.v, moved.v @ sums, atol=1e-5)
    np.testing.assert_allclose(seen.pull, moved.pull @ sums, atol=1e-5)
    same = moved.along(np.eye(d))
    np.testing.assert_array_equal(same.v, moved.v)
    np.testing.assert_allclose(same.factor, moved.factor)
    np.testing.assert_array_equal(same.pull, moved.pull)
    independent = fbar.Prior(**{name: stats.norm(0, 1) for name in names})
    assert prepare(portion(independent, simulations.points, theta, np.zeros(d))).directions is None


@pytest.mark.parametrize(
    ("error", "ess", "taken"), [(0.3, 50, True), (0.5, 50, False), (0.09, 5, True), (0.3, 5, False)]
)
def test_an_estimate_within_reach_is_preferred_unless_its_error_bar_is_twice_as_wide(error, ess, taken):
    within = SimpleNamespace(error=error, weights=SimpleNamespace(ess=ess))
    assert preferred(within, SimpleNamespace(error=0.1)) == taken
