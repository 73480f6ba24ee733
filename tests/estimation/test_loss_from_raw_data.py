"""What summaries lose, from raw numbers: found where there is a loss, and not where there is none.

Normal numbers with unknown mean and scale: the mean and the standard deviation of the sample lose nothing, the median
loses the scale.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from fbar.estimation.at_data.loss_from_raw_data import Losses, RawSample
from fbar.question.outcomes import Batch
from fbar.question.points import Points
from fbar.question.raw_numbers import MOST_BYTES, RawNumbers, most_of_run, number_kept, places_kept
from fbar.seeds import Seeds

pytestmark = pytest.mark.arithmetic

SUMMARIES = {
    "mean and deviation": lambda x: np.stack([x.mean(axis=1), x.std(axis=1)], axis=1),
    "two moments": lambda x: np.stack([x.mean(axis=1), (x**2).mean(axis=1)], axis=1),
    "all in order": lambda x: np.sort(x, axis=1),
    "median": lambda x: np.median(x, axis=1)[:, None],
}


def losses(summary, seed: int, simulations: int = 800, numbers: int = 20) -> Losses:
    """Of the mean and the scale, in normal scores of their priors."""
    rng = np.random.default_rng(seed)
    v = np.stack([rng.standard_normal(simulations), ndtri(rng.random(simulations))], axis=1)
    scale = 0.5 + np.exp(v[:, 1:] / 2)
    x = 3 * v[:, :1] + scale * rng.standard_normal((simulations, numbers))
    observed = rng.normal(1, 1.5, (1, numbers))
    return RawSample(x, observed[0], summary(x), summary(observed)[0]).losses(v)


@pytest.mark.parametrize("name", ["mean and deviation", "two moments", "all in order"])
def test_summaries_that_lose_nothing_raise_no_alarm(name):
    """No alarm in 200 runs of `fbar.infer` with the mean and deviation of 20 numbers, 1,000 simulations each."""
    repeats = 4 if name == "all in order" else 15
    found = [losses(SUMMARIES[name], seed) for seed in range(repeats)]
    assert sum(each.found.any() for each in found) <= 1
    assert np.mean([each.value for each in found], axis=0).max() < 0.02


def test_a_loss_is_found_with_its_size():
    found = losses(SUMMARIES["median"], 1, 2000)
    assert found.found.all()
    mean, scale = found.value
    assert 0.7 < scale < 0.95  # 20 numbers leave about an eighth of the scale's variance
    assert 0.05 < mean < 0.45  # the median is less efficient than the mean, which leaves 2/π or so
    assert (found.standard_error < 0.06).all()


def test_a_loss_that_chance_or_rigid_regressions_could_give_is_not_reported():
    value, error, doubt = np.array([0.1, 0.1, 0.1, 0.01]), np.array([0.02, 0.06, 0.02, 0.001]), np.zeros(4)
    doubt[2] = 0.08
    assert Losses(value, error, doubt).found.tolist() == [True, False, False, False]


def test_numbers_that_never_vary():
    assert losses(lambda x: np.ones((len(x), 2)), 1).found.all()
    x = np.ones((400, 6))
    found = RawSample(x, x[0], x[:, :2], x[0, :2]).losses(np.random.default_rng(1).normal(size=(400, 2)))
    assert not found.found.any()
    assert np.isfinite(found.value).all()


# ---------------------------------------------------------------- what is kept


def batch(simulations: int, block: int = 0) -> Batch:
    return Batch(3, block, Points({"a": np.zeros(simulations)}), None, Seeds(1))


def test_what_is_kept_is_bounded():
    assert number_kept(batch(64), 20) == 64
    assert number_kept(batch(100_000), 20) == 250
    assert sum(number_kept(batch(64, block), 20) for block in range(1000)) == 1000
    assert number_kept(batch(64), 0) == 0
    assert most_of_run(20) == 4000
    assert most_of_run(10_000) * 8 * 10_000 <= MOST_BYTES
    assert number_kept(batch(64), 10**8) == 0


def test_a_long_run_keeps_simulations_of_all_rounds():
    kept = RawNumbers(2)
    for block in range(100):
        rows = 1000 * block + places_kept(1000, 250)
        kept.add(1000 * block, 1000, np.stack([rows, -rows], axis=1).astype(float))
    assert 1000 <= len(kept) <= 4000
    assert (np.diff(kept.rows) > 0).all()
    assert kept.rows[0] < 10_000
    assert kept.rows[-1] > 99_000
    assert (kept.values[:, 0] == kept.rows).all()
    kept.add(100_000, 10, np.zeros((10, 3)))  # of another number of raw numbers
    assert kept.values.shape[1] == 2
