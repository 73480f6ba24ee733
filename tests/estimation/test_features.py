"""The bank of features, against numpy, scipy and closed forms."""

import numpy as np
import pytest
from scipy import signal, stats

from fbar.estimation.at_data.features import (
    LEVELS,
    autocorrelations,
    autoregression,
    bank,
    bank_names,
    order_names,
    partial_autocorrelations,
)

pytestmark = pytest.mark.arithmetic


def named(x):
    """The features of the rows of x by name."""
    values = bank(x)
    return dict(zip(bank_names(x.shape[1]), values.T, strict=True))


def series(rows=6, d=60, seed=1):
    return np.cumsum(np.random.default_rng(seed).standard_normal((rows, d)), axis=1)


def test_order_and_moments_are_those_of_numpy_and_scipy():
    x = series()
    found = named(x)
    for level in LEVELS:
        np.testing.assert_allclose(found[f"quantile {level:.3g}"], np.quantile(x, level, axis=1), rtol=1e-10)
    np.testing.assert_allclose(found["mean"], x.mean(axis=1))
    np.testing.assert_allclose(found["deviation"], x.std(axis=1))
    np.testing.assert_allclose(found["log deviation"], np.log(x.std(axis=1)))
    np.testing.assert_allclose(np.sinh(found["skewness"]), stats.skew(x, axis=1), rtol=1e-8)
    np.testing.assert_allclose(np.exp(found["kurtosis"]) - 0.5, stats.kurtosis(x, axis=1, fisher=False), rtol=1e-8)
    steps = np.diff(x, axis=1)
    np.testing.assert_allclose(found["difference quantile 0.25"], np.quantile(steps, 0.25, axis=1), atol=1e-12)
    np.testing.assert_allclose(found["log mean difference"], np.log(np.abs(steps).mean(axis=1)))


def test_dependence_by_hand():
    found = named(np.array([[1.0, 3.0, 2.0, 6.0, 3.0, 3.0]]))  # mean 3, deviations −2, 0, −1, 3, 0, 0; variance 14/6
    assert found["autocovariance 1"][0] == pytest.approx((0 + 0 - 3 + 0 + 0) / 6)
    assert found["autocovariance 2"][0] == pytest.approx((2 + 0 + 0 + 0) / 6)
    assert found["autocorrelation 1"][0] == pytest.approx(-3 / 14)
    # Burg: 2 · (−3) over 10 + 14; then the errors f = −1, 2.75, 0.75, 0 and b = −2, −0.25, −0.25, 3
    first, second = -6 / 24, 2 * (2 - 0.6875 - 0.1875) / (9.125 + 13.125)
    assert np.tanh(found["partial autocorrelation 1"][0]) == pytest.approx(first)
    assert np.tanh(found["partial autocorrelation 2"][0]) == pytest.approx(second)
    assert found["autoregression 1"][0] == pytest.approx(first - second * first)
    assert found["autoregression 2"][0] == pytest.approx(second)


def test_the_coefficients_of_an_autoregression_are_found():
    noise = np.random.default_rng(2).standard_normal((1, 60_000))
    x = signal.lfilter([1], [1, -0.5, 0.3], noise, axis=1)
    partial = partial_autocorrelations(x, 4)
    np.testing.assert_allclose(autoregression(partial), [[0.5, -0.3, 0, 0]], atol=5 / np.sqrt(60_000))
    np.testing.assert_allclose(partial[0, 1:], [-0.3, 0, 0], atol=5 / np.sqrt(60_000))


def test_no_partial_autocorrelation_is_beyond_one():
    alternating = np.tile([1.0, -1.0], (1, 20))
    np.testing.assert_allclose(partial_autocorrelations(alternating, 1), [[-1]])
    assert (np.abs(partial_autocorrelations(series() ** 3, 20)) <= 1 + 1e-12).all()


def test_a_moving_average_is_nearly_linear_in_a_long_autoregression():
    """Durbin 1959. Near the unit circle its autocorrelations say much less."""
    rng = np.random.default_rng(3)
    theta, noise = rng.uniform(0.7, 1, 3000), rng.standard_normal((3000, 101))
    x = noise[:, 1:] + theta[:, None] * noise[:, :-1]
    found = named(x)

    def left(feature):
        columns = np.column_stack(
            [np.ones(3000), *(values for name, values in found.items() if name.startswith(feature))]
        )
        fitted, tested = slice(0, 2000), slice(2000, 3000)
        slopes = np.linalg.lstsq(columns[fitted], theta[fitted], rcond=None)[0]
        return np.mean((theta[tested] - columns[tested] @ slopes) ** 2)

    assert left("autoregression") < 0.75 * left("autocorrelation")


def test_the_features_of_order_come_first_and_do_not_depend_on_it():
    x = series(d=40)
    number = len(order_names(40))
    shuffled = np.random.default_rng(4).permuted(x, axis=1)
    np.testing.assert_allclose(bank(shuffled)[:, :number], bank(x)[:, :number], rtol=1e-9, atol=1e-12)
    assert not np.isclose(bank(shuffled)[:, number:], bank(x)[:, number:]).all(axis=0).any()


def test_autocorrelations_without_lags_are_empty():
    assert autocorrelations(np.ones((3, 2)), 0).shape == (3, 0)


def test_a_change_of_scale_shifts_the_logarithms():
    x = series()
    before, after = named(x), named(5 * x)
    for name, value in before.items():
        if name.startswith("log"):
            np.testing.assert_allclose(after[name], value + np.log(5), rtol=1e-8, err_msg=name)
        elif "correlation" in name or name in ("skewness", "kurtosis"):
            np.testing.assert_allclose(after[name], value, rtol=1e-6, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("d", [2, 3, 5, 12, 22, 23, 24, 100, 3000])
def test_every_feature_has_a_name_and_is_finite(d):
    rng = np.random.default_rng(d)
    x = np.vstack(
        [
            rng.standard_normal((3, d)),
            rng.poisson(0.1, (3, d)),
            np.zeros((1, d)),
            np.full((1, d), 0.1),
            np.full((1, d), 1e300),
            rng.standard_normal((1, d)) * 1e-300,
            rng.standard_cauchy((1, d)) * 1e200,
        ]
    )
    with np.errstate(all="raise", under="ignore"):
        values = bank(x)
    names = bank_names(d)
    assert values.shape == (len(x), len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(values).all()


def test_a_row_does_not_depend_on_the_others():
    x = series(rows=20)
    np.testing.assert_allclose(bank(x)[7:9], bank(x[7:9]), rtol=1e-12)


def test_one_number_is_refused():
    with pytest.raises(ValueError, match="at least 2 numbers"):
        bank(np.ones((4, 1)))
