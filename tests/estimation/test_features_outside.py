"""Data with a feature that no simulation has: it counts as the outermost there was, and no error bar is trusted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data.basis import FAR, OUTERMOST, Basis, Numbers, far_outside
from fbar.estimation.at_data.features import bank_names

pytestmark = pytest.mark.arithmetic

NUMBERS = 20
SHAPE = np.random.default_rng(8).standard_normal(NUMBERS)
SHAPE = (SHAPE - SHAPE.mean()) / SHAPE.std()


def simulate(theta, rng):
    return theta["mu"][:, None] + rng.standard_normal((theta.rows, NUMBERS))


def answered(deviation, seed, budget=4000):
    """The mean of μ, of which only the numbers' mean says something: the posterior is N(0.5 · 20/21, 1/21)."""
    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, observed=0.5 + deviation * SHAPE)
    return fbar.infer(problem, [fbar.mean("mu")], budget=budget, seed=seed, progress=False)


@pytest.mark.slow
def test_numbers_that_vary_less_than_in_any_simulation_do_not_carry_the_answer_away():
    """A slope of the mean on the logarithm of the deviation is noise, and was extrapolated: errors of 0.5 to 3."""
    for seed in range(4):
        result = answered(0.05, seed)
        estimate = result["mean:mu"]
        assert abs(estimate.value - 0.5 * 20 / 21) < 5 * estimate.standard_error
        assert abs(estimate.value - 0.5 * 20 / 21) < 0.25  # about a posterior deviation
        assert not estimate.trusted
        assert any("no simulation is like the data" in line for line in str(result).splitlines())


def test_usual_data_are_not_far_outside():
    rng = np.random.default_rng(1)
    x = Numbers.of(rng.standard_normal((1000, 1)) + rng.standard_normal((1000, NUMBERS)))
    new = Numbers.of(rng.standard_normal((300, 1)) + rng.standard_normal((300, NUMBERS)))
    found = [far_outside(x, new[k : k + 1], bank_names(NUMBERS)) for k in range(300)]
    assert sum(map(bool, found)) <= 3  # beyond all of 1,000 simulations by half of their range

    constant = Numbers.of(np.full((1, NUMBERS), 0.5))
    outside = far_outside(x, constant, bank_names(NUMBERS))
    assert "log deviation" in outside
    assert "mean" not in outside
    assert far_outside(Numbers.of(np.ones((5, 3))), Numbers.of(np.zeros((1, 3))), ()) == ()  # too few for features


def test_a_feature_that_is_outside_counts_as_the_outermost():
    rng = np.random.default_rng(2)
    x = Numbers.of(rng.standard_normal((2000, NUMBERS)))
    place = bank_names(NUMBERS).index("log deviation")
    edge = float(np.quantile(x.bank[:, place], OUTERMOST))

    def column(deviation):
        """Of the logarithm of the deviation, for data that vary so much."""
        basis = Basis.near(x, Numbers.of((deviation * SHAPE)[None]), rng.standard_normal((2000, 1)))
        return basis(x)[:, basis.columns()["bank"][place]]

    np.testing.assert_allclose(column(0.1), column(1e-3), atol=1e-12)
    assert (column(0.1) >= 0).all()
    assert (column(0.1)[x.bank[:, place] <= edge] == 0).all()
    inside = column(float(np.exp(np.median(x.bank[:, place]))))
    assert 0.4 < (inside < 0).mean() < 0.6


def test_how_far_is_far():
    x = Numbers.of(np.random.default_rng(3).standard_normal((500, NUMBERS)))
    place = bank_names(NUMBERS).index("mean")
    low, high = x.bank[:, place].min(), x.bank[:, place].max()
    for share, expected in ((0.9 * FAR, False), (1.1 * FAR, True)):
        data = Numbers(x.raw[:1], x.bank[:1].copy(), x.of_order)
        data.bank[0, place] = high + share * (high - low)
        assert ("mean" in far_outside(x, data, bank_names(NUMBERS))) == expected
        data.bank[0, place] = low - share * (high - low)
        assert ("mean" in far_outside(x, data, bank_names(NUMBERS))) == expected
