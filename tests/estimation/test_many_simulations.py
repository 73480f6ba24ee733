"""Of many simulations some are used: the nearest, where it is known which these are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData, averaging, estimator
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


def test_the_nearest_are_found_in_learned_summaries_where_the_data_mislead(monkeypatch):
    """With the fortieth that is nearest in the numbers the error bar is more than twice as wide."""
    monkeypatch.setattr(estimator, "MOST", 500)
    monkeypatch.setattr(estimator, "SHARE", 0.01)
    monkeypatch.setattr(averaging, "MUCH", 2.0)
    misled = AtData().of(AtData().prepared(scales()))
    found = AtData().posterior(scales())
    assert 2 * found.step.error < misled.step.error
    estimate = found.expect(fbar.mean("t"))
    assert estimate.value == pytest.approx(-0.265, abs=0.5 * DEVIATION)
    assert estimate.value == pytest.approx(-0.265, abs=2.5 * estimate.standard_error)
    assert estimate.trusted
    used = found.step.moved.prepared
    assert len(used) <= 500
    assert used.learned is not None


@pytest.mark.parametrize(("few", "factor"), [(10, 4.0), (4000, 1e9)])
def test_the_first_estimate_remains_unless_its_error_is_much_larger(few, factor, monkeypatch):
    """Among ten simulations there is no other estimate."""
    monkeypatch.setattr(estimator, "MOST", 500)
    monkeypatch.setattr(estimator, "SHARE", 0.01)
    monkeypatch.setattr(estimator, "LEARNED_NUMBERS", 12 * 4000)
    monkeypatch.setattr(averaging, "MUCH", factor)
    first = AtData().of(AtData().prepared(scales()))
    monkeypatch.setattr(estimator, "spread_evenly", lambda summaries, most, rows: rows[:few])
    assert AtData().posterior(scales()).expect(fbar.mean("t")).value == first.expect(fbar.mean("t")).value


def test_they_are_spread_evenly_and_not_too_many(monkeypatch):
    monkeypatch.setattr(estimator, "MOST", 1000)
    monkeypatch.setattr(estimator, "SHARE", 0.01)
    monkeypatch.setattr(estimator, "LEARNED_NUMBERS", 12 * 4000)
    sizes = []

    def noted(summaries, most, rows):
        chosen = spread_evenly(summaries, most, rows)
        sizes.append(chosen.size)
        assert np.diff(np.sort(chosen)).max() <= 13  # three gaps of the golden sequence, about 3, 5 and 8
        return chosen

    monkeypatch.setattr(estimator, "spread_evenly", noted)
    AtData().posterior(scales())
    assert sizes == [4000]


def test_rows_that_are_not_finite_are_not_among_them():
    summaries = np.zeros((100, 2))
    summaries[::3] = np.nan
    chosen = spread_evenly(summaries, 20, np.arange(100))
    assert chosen.size == 20
    assert np.isfinite(summaries[chosen]).all()
    assert spread_evenly(summaries, 200, np.arange(100)).size == 66
