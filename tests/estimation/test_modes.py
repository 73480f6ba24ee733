"""Draws with a gap between them are moved by regressions of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.estimation.at_data.choice import ENOUGH, ORDERS, SHARES, _Ladders, _merged, choose
from fbar.estimation.at_data.modes import parts
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.prepared import prepare
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

NOISE, FOLD = 0.02, 0.5
HALVES = [0.5**k for k in range(6)]


def folded(seed, n=3000, further=0):
    """s = (|a + b|, b − a)/√2 + noise: two narrow modes, which move in opposite directions with the first summary.

    They touch where it is 0; the data are at 0.5. Further summaries are noise.
    """
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, n))
    s = np.stack([np.abs(a + b), b - a], axis=1) / np.sqrt(2) + NOISE * rng.uniform(-1, 1, (n, 2))
    s = np.concatenate([s, rng.standard_normal((n, further))], axis=1)
    prior = fbar.Prior(a=stats.uniform(-1, 2), b=stats.uniform(-1, 2))
    return portion(prior, fbar.Points({"a": a, "b": b}), s, [FOLD, *np.zeros(1 + further)])


def true_quantiles():
    """Of a at 0.1 and 0.9: a = (±c − d)/√2, c within the noise of 0.5 and d of 0."""
    rng = np.random.default_rng(0)
    c, d = NOISE * rng.uniform(-1, 1, (2, 200_000))
    high = np.quantile(np.r_[-(FOLD + c) - d, FOLD + c - d] / np.sqrt(2), 0.9)
    return np.array([-high, high])


def test_quantiles_within_modes_that_move_in_opposite_directions():
    """One regression for both modes is wrong by more than the noise, which is how wide they are."""
    targets = [fbar.quantile("a", 0.1), fbar.quantile("a", 0.9)]
    found = [AtData().posterior(folded(seed)).expect(targets) for seed in range(6)]
    errors = np.array([[float(e.value) for e in estimates] for estimates in found]) - true_quantiles()
    assert np.median(np.abs(errors)) < 0.4 * NOISE
    inside = [
        low <= truth <= high
        for estimates in found
        for (low, high), truth in zip((e.interval() for e in estimates), true_quantiles(), strict=True)
    ]
    assert sum(inside) >= 10  # of 12: fewer with probability 2% if each is there with 95%


def test_a_region_whose_parts_have_run_together_is_not_chosen_unless_it_is_asked_for():
    prepared = prepare(folded(1))
    counts = {share: move(prepared, share, 1).parts for share in SHARES}
    assert counts[0.8] == 1
    assert counts[0.2] == counts[0.1] == 2
    assert choose(prepared, SHARES, (1, 2), HALVES).moved.parts == 2
    assert choose(prepared, (0.8,), ORDERS, HALVES).moved.share == 0.8


@pytest.mark.parametrize("order", [1, 2])
def test_draws_stay_in_their_part(order):
    prepared = prepare(folded(2))
    moved = move(prepared, 0.2, order)
    before, after = (np.sign(v.sum(axis=1)) for v in (prepared.v[moved.rows], moved.v))
    np.testing.assert_array_equal(before, after)
    a, b = (np.asarray(prepared.moved_to(moved.rows, moved.v)[name]) for name in "ab")
    assert np.abs(np.abs(a + b) / np.sqrt(2) - FOLD).mean() < 1.5 * NOISE  # they were up to 0.4 away


def test_draws_are_divided_where_summaries_are_few():
    assert [move(prepare(folded(3, n=10_000, further=k)), 0.05, 1).parts for k in range(3)] == [2, 2, 1]


def test_the_variance_of_two_regressions_is_that_of_replications():
    chosen = AtData(order=1, region=0.4, bandwidth=0.5)
    targets = [fbar.mean("a"), fbar.second_moment("a")]
    found = [chosen.posterior(folded(seed, n=1500)).expect(targets) for seed in range(80)]
    values = np.array([[float(e.value) for e in estimates] for estimates in found])
    variances = np.array([[float(e.variance - e.bias**2) for e in estimates] for estimates in found])
    ratio = values.var(axis=0, ddof=1) / variances.mean(axis=0)
    assert ((ratio > 0.6) & (ratio < 1.6)).all()  # 80 replications: a deviation of 0.16


def test_parts_are_found_where_there_are_gaps():
    rng = np.random.default_rng(4)
    middles = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [9, 9, 0]])
    which = np.repeat(np.arange(4), [400, 200, 100, 60])
    four = middles[which] + rng.standard_normal((760, 3))
    found = parts(four, rng.uniform(0.5, 1, 760))
    assert len(set(zip(which.tolist(), found.tolist(), strict=True))) == len(set(found.tolist())) == 4
    slanted = four[which < 2] @ np.array([[0.0, 1.0, 0.0], [1.0, 1.5, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(parts(slanted, np.ones(600)), which[which < 2])
    constant = np.concatenate([four, np.full((760, 1), 0.1)], axis=1)
    np.testing.assert_array_equal(parts(constant, np.ones(760)), parts(four, np.ones(760)))


@pytest.mark.parametrize("number", [60, 300, 3000])
def test_one_mode_is_one_part(number):
    rng = np.random.default_rng(number)
    angle = rng.uniform(0, 2 * np.pi, number)
    samples = [
        rng.standard_normal((number, 3)),
        rng.uniform(size=(number, 2)),
        np.exp(rng.standard_normal((number, 2))),
        np.stack([np.cos(angle), np.sin(angle)], axis=1),
        np.zeros((number, 2)),
        np.r_[rng.standard_normal(number - 15), 50 + rng.standard_normal(15)][:, None],  # a few far away
    ]
    assert all(not parts(v, np.ones(number)).any() for v in samples)


def test_a_step_of_enough_effective_simulations_is_preferred():
    """A cusp at the data: the narrower the better, but a dozen simulations do not know how good they are."""
    rng = np.random.default_rng(0)
    s = rng.standard_normal((600, 1))
    mu = 3 * np.abs(s[:, 0]) - 1 + 0.1 * rng.standard_normal(600)
    posterior = AtData().posterior(portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), s, np.zeros(1)))
    assert posterior.ess >= ENOUGH


def test_draws_without_weight_do_not_hide_a_gap():
    """Sums of the weights beyond them are 0, or rounding."""
    rng = np.random.default_rng(5)
    v = np.r_[rng.standard_normal(300), 12 + rng.standard_normal(300), 100.0, -100.0, 0.1][:, None]
    omega = np.r_[rng.uniform(0.1, 1, 600), 0.0, 1e-200, 1e-17]
    np.testing.assert_array_equal(parts(v, omega)[:600], np.arange(600) // 300)


@pytest.mark.parametrize("second", ["normal", "cauchy", "outlier"])
def test_outliers_do_not_hide_a_gap(second):
    rng = np.random.default_rng(6)
    other = {
        "normal": rng.standard_normal(600),
        "cauchy": rng.standard_cauchy(600),
        "outlier": np.r_[60.0, np.zeros(599)],
    }
    first = np.r_[rng.standard_normal(300), 12 + rng.standard_normal(300)]
    np.testing.assert_array_equal(parts(np.stack([first, other[second]], axis=1), np.ones(600)), np.arange(600) // 300)


def test_an_estimate_without_a_region_that_has_a_gap_and_a_step():
    """Weights so uneven that regions with a gap have too few effective simulations: then others answer."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1, 1, 1500)
    s = np.abs(theta) + 0.02 * rng.standard_normal(1500)
    weighted = portion(
        fbar.Prior(t=stats.uniform(-1, 2)),
        fbar.Points({"t": theta}),
        s[:, None],
        [0.5],
        log_w=2.5 * rng.standard_normal(1500),
    )
    estimate = AtData().posterior(weighted).expect(fbar.mean("t"))
    assert np.isfinite(estimate.value)
    assert not estimate.trusted


def test_a_mode_that_only_a_wide_region_reaches_does_not_forbid_the_smaller_ones():
    """A few simulations of a far part are in the widest region; near the data there is one mode."""
    rng = np.random.default_rng(2)
    far = np.arange(4000) < 400
    s = np.where(far, 3.0, 0.0) + rng.standard_normal(4000)
    mu = np.where(far, 30.0, np.sin(s)) / 10 + 0.05 * rng.standard_normal(4000)
    prepared = prepare(portion(fbar.Prior(mu=stats.norm(0, 1)), fbar.Points({"mu": mu}), s[:, None], np.zeros(1)))
    counts = {share: move(prepared, share, 1).parts for share in SHARES}
    assert counts[0.8] == 2
    assert counts[0.05] == 1
    ladders = _Ladders(prepared, HALVES, HALVES)
    made = [ladders.of(1, share) for share in SHARES]
    assert not any(_merged(one, made) for one in made)
    step = choose(prepared, SHARES, ORDERS, HALVES)
    error = np.sqrt(step.error) * 0.05
    assert abs(step.weights.ell @ step.moved.v[step.weights.at, 0] - 0.0037) < 4 * error  # 0.12% of the far part's 3
