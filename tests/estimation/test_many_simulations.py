"""Of many simulations some are used: the nearest, where it is known which these are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData, estimator
from fbar.estimation.at_data.nearness import spread_evenly

pytestmark = pytest.mark.arithmetic

OBSERVED = 1.5 * np.sin(1 + 3 * np.arange(12))
DEVIATION = 0.21
"""Of the posterior of the log scale t of 12 normal numbers, whose mean is −0.265."""


@cache
def scales():
    """20,000 simulations of 12 numbers N(0, e²ᵗ) from t ~ N(0, 1): those of small t are near in the numbers."""

    def simulate(theta, rng):
        return np.exp(theta["t"])[:, None] * rng.standard_normal((theta.rows, 12))

    problem = fbar.Problem(fbar.Prior(t=stats.norm(0, 1)), simulate, observed=OBSERVED)
    run = fbar.Rejection(tolerance=1.0).start(problem, fbar.mean("t"), 1, 20_000)
    while batches := run.ask():
        run.tell(*((batch, fbar.simulate(problem, batch)) for batch in batches))
    return run.all_simulations()


def test_simulations_that_summaries_are_learned_from_are_not_chosen_by_the_raw_data(monkeypatch):
    """The nearest tenth is that in learned coordinates: with the nearest in the numbers the mean was 0.7σ off."""
    monkeypatch.setattr(estimator, "MOST", 2000)
    monkeypatch.setattr(estimator, "SHARE", 0.01)
    prepared = AtData().prepared(scales())
    assert len(prepared) == 20_000
    used = AtData().in_coordinates(prepared)
    assert used.learned is not None
    assert len(used) == 2000
    found = AtData().of(prepared).expect(fbar.mean("t"))
    assert found.value == pytest.approx(-0.265, abs=0.5 * DEVIATION)
    assert found.value == pytest.approx(-0.265, abs=2.5 * found.standard_error)
    assert found.trusted


def test_they_are_spread_evenly_where_there_are_more(monkeypatch):
    monkeypatch.setattr(estimator, "MOST", 1000)
    monkeypatch.setattr(estimator, "SHARE", 0.01)
    monkeypatch.setattr(estimator, "LEARNED_NUMBERS", 12 * 4000)
    prepared = AtData().prepared(scales())
    assert len(prepared) == 4000
    assert np.diff(prepared.rows).max() <= 13  # three gaps of the golden sequence, about 3, 5 and 8
    assert len(AtData(learn=False).prepared(scales())) == 1000  # the nearest


def test_rows_that_are_not_finite_are_not_among_them():
    summaries = np.zeros((100, 2))
    summaries[::3] = np.nan
    chosen = spread_evenly(summaries, 20, np.arange(100))
    assert chosen.size == 20
    assert np.isfinite(summaries[chosen]).all()
    assert spread_evenly(summaries, 200, np.arange(100)).size == 66
