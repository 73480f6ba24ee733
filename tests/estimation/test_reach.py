"""Draws far outside of the posterior are left out of a second estimate, but no part of the posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.estimation.at_data.prepared import prepare
from fbar.estimation.at_data.reach import within_reach
from helpers.portions import portion

pytestmark = pytest.mark.arithmetic

PRIOR = fbar.Prior(t=stats.norm(0, 1))


def prepared_for(summary, noise, observed, seed=1, n=20_000):
    """Simulations of a summary of t with normal noise, from the prior."""
    rng = np.random.default_rng(seed)
    t = rng.standard_normal(n)
    s = summary(t) + noise * rng.standard_normal(n)
    return t, prepare(portion(PRIOR, fbar.Points({"t": t}), s[:, None], np.array([observed])))


def test_draws_beyond_the_posterior_are_cut():
    """N(t, 0.05²), data 0.5: the cut is at 4.3 posterior deviations, widened by the estimate's error."""
    t, prepared = prepared_for(lambda t: t, 0.05, 0.5)
    kept = within_reach(AtData(learn=False).of(prepared).step, prepared)
    assert 0 < kept.sum() < len(prepared)
    away = np.abs(t[prepared.rows] - 0.5) / 0.05
    assert kept[away < 4].all()
    assert not kept[away > 6].any()


def test_a_mode_that_the_first_estimate_has_not_seen_is_not_cut():
    """t² with noise: the data are as likely at −1 as at 1, and the first estimate is from positive t only."""
    t, prepared = prepared_for(np.square, 0.1, 1.0)
    positive = t[prepared.rows] > 0
    step = AtData(learn=False).of(prepared.take(np.flatnonzero(positive))).step
    centre = step.weights.omega @ step.moved.v[step.weights.at, 0]
    assert centre == pytest.approx(1, abs=0.1)
    assert within_reach(step, prepared).all()
    # Of simulations without the other mode the same estimate cuts those that are far from the data.
    kept = within_reach(step, prepared.take(np.flatnonzero(positive)))
    assert not kept.all()


def test_a_mode_of_little_weight_in_all_counts_where_the_data_are():
    """A mode of a fifth of the weight, near the data as much as anywhere, is not cut; one that is far from them is."""
    t, prepared = prepared_for(np.square, 0.1, 1.0)
    negative = t[prepared.rows] < 0
    light = replace(prepared, w=np.where(negative, 1 / 4, 1.0))
    step = AtData(learn=False).of(prepared.take(np.flatnonzero(~negative))).step
    assert within_reach(step, light).all()
    elsewhere = replace(light, radius=light.radius + 10 * negative)
    assert not within_reach(step, elsewhere)[negative].any()


def test_a_single_heavy_draw_near_the_data_is_what_is_cut():
    """From far away, with more weight than all others together."""
    t, prepared = prepared_for(lambda t: t, 0.05, 0.5)
    step = AtData(learn=False).of(prepared).step
    far = np.flatnonzero(t[prepared.rows] < -2)[0]
    w, radius = np.full(len(prepared), 1e-5), prepared.radius.copy()
    w[far], radius[far] = 1.0, 0.0
    kept = within_reach(step, replace(prepared, w=w, radius=radius))
    assert not kept[far]


def test_where_draws_near_the_data_have_no_weight_nothing_is_shown():
    t, prepared = prepared_for(lambda t: t, 0.05, 0.5)
    step = AtData(learn=False).of(prepared).step
    w = np.where(np.abs(t[prepared.rows] - 0.5) < 0.3, 0.0, 1.0)
    kept = within_reach(step, replace(prepared, w=w))
    assert 0 < kept.sum() < len(prepared)
