"""Summaries learned from simulations: what they find, what they leave out, and cross-fitting by brute force."""

import json

import numpy as np
import pytest

from fbar.estimation.at_data.basis import Basis, Numbers
from fbar.estimation.at_data.crossfit import Regressions
from fbar.estimation.at_data.learned_summaries import MOST_ROWS, learn, worth_learning


def groups(n):
    return np.arange(n) % 4


def normals(n=3000, d=30, seed=1):
    """Location and logarithm of scale of d exchangeable normal numbers: v (n, 2), x (n, d)."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((n, 2))
    return v, v[:, :1] + np.exp(v[:, 1:] / 2) * rng.standard_normal((n, d))


OBSERVED = normals(1, seed=99)[1][0]


@pytest.fixture(scope="module")
def learned():
    v, x = normals()
    found = learn(x, OBSERVED, v, groups(len(x)))
    assert found is not None
    return found


def test_the_data_are_the_origin(learned):
    for group in range(4):
        placed = learned.place(OBSERVED[None], np.array([group]))
        assert placed.inside.all()
        np.testing.assert_allclose(placed.coordinates, 0.0, atol=1e-12)


def test_exchangeable_numbers_are_summarised_by_mean_and_deviation(learned):
    _, x = normals(2000, seed=2)
    placed = learned.place(x, groups(len(x)))
    near = placed.coordinates[placed.inside]
    known = np.column_stack([x.mean(axis=1), np.log(x.std(axis=1))])[placed.inside]
    known = np.column_stack([np.ones(len(known)), known, known**2, known[:, :1] * known[:, 1:]])
    for function in range(2):
        fitted = known @ np.linalg.lstsq(known, near[:, function], rcond=None)[0]
        assert np.var(near[:, function] - fitted) < 0.1 * np.var(near[:, function])
    assert 0.7 < placed.inside.mean() < 0.9
    means = [function for function in learned.functions if function.kind == "mean"]
    assert [function.of for function in means] == [0, 1]
    assert means[0].explained > 0.8
    assert means[1].explained > 0.8  # raw numbers explain nothing of it
    assert "bank" in means[1].columns or means[1].columns == "varying coefficients"
    assert 0 < learned.loss < 0.5


def test_functions_that_a_row_was_not_used_for_predict_as_promised(learned):
    v, x = normals()
    fresh_v, fresh_x = normals(seed=5)
    for data, parameters in ((x, v), (fresh_x, fresh_v)):
        placed = learned.place(data, groups(len(data)))
        inside, s = placed.inside, placed.coordinates
        correlation = np.corrcoef(s[inside, 0], parameters[inside, 0])[0, 1]
        assert correlation**2 > learned.functions[0].explained - 0.1


def test_symmetric_modes_are_found_by_the_spread():
    rng = np.random.default_rng(3)
    v = rng.standard_normal((4000, 1))
    x = v**2 + 0.3 * rng.standard_normal((4000, 6))
    found = learn(x, np.full(6, 1.0), v, groups(len(v)))
    assert found is not None
    mean, spread = found.functions
    assert not mean.kept
    assert spread.kept
    assert spread.explained > 0.5
    assert found.dimension == 1


def test_distractors_do_not_hide_a_product():
    rng = np.random.default_rng(4)
    v = rng.standard_normal((2000, 2))
    x = rng.standard_normal((2000, 40))
    x[:, 7], x[:, 31] = v[:, 0] + 0.2 * x[:, 7], v[:, 0] * v[:, 1] + 0.2 * x[:, 31]
    found = learn(x, np.where(np.isin(np.arange(40), [7, 31]), 0.5, 0.0), v, groups(len(v)))
    assert found is not None
    assert found.functions[1].explained > 0.3  # E[v₂|x] is near x₃₁/x₇


def pairs(n, distractors, seed=1):
    """Four pairs of normal numbers of correlation tanh v, whose scales vary by orders of magnitude, among others."""
    rng = np.random.default_rng(seed)
    v = rng.uniform(-3, 3, n)
    z, scale = rng.standard_normal((2, n, 4)), np.exp(1.5 * rng.standard_normal((2, n, 1)))
    first, second = z[0] * scale[0], (np.tanh(v)[:, None] * z[0] + z[1] / np.cosh(v)[:, None]) * scale[1]
    middle = rng.standard_normal((2, n, 1)) * 3
    others = rng.standard_normal((n, distractors))
    return np.column_stack([middle[0], v]), np.hstack([first + middle[0], second + middle[1], others])


def test_a_correlation_is_learned_whatever_the_scales_are():
    v, x = pairs(4000, 20)
    found = learn(x, pairs(1, 20, seed=7)[1][0], v, groups(len(x)))
    of_correlation = next(function for function in found.functions if (function.of, function.kind) == (1, "mean"))
    assert len(found.near.basis.concordant) >= 6
    kendall = np.mean(
        [np.sign((x[:, i] - x[:, j]) * (x[:, 4 + i] - x[:, 4 + j])) for i in range(4) for j in range(i)], axis=0
    )
    # Kendall's statistic of the four pairs is the mean of six of the concordances, and explains about half.
    assert of_correlation.explained > 0.8 * np.corrcoef(kendall, v[:, 1])[0, 1] ** 2


def test_concordances_are_those_of_the_definition():
    v, x = pairs(1000, 20, seed=3)
    numbers, star = Numbers.of(x), Numbers.of(x[:1])
    basis = Basis.near(numbers, star, v, concordances=True)
    columns = basis(numbers)[:, basis.columns()["concordances"]]
    assert columns.shape[1] == len(basis.concordant) > 0
    for column, (i, j, k, m) in zip(columns.T, basis.concordant, strict=True):
        agree = np.sign(x[:, i] - x[:, j]) * np.sign(x[:, k] - x[:, m])
        np.testing.assert_array_equal(column, agree - agree[0])
        found = np.corrcoef(agree, np.hstack([v, v**2]).T)[0, 1:]
        assert np.abs(found).max() > 5 / np.sqrt(1000)
    bent = Basis.near(Numbers.of(np.exp(x / 50)), Numbers.of(np.exp(x[:1] / 50)), v, concordances=True)
    assert len(bent.concordant) > 0
    assert Basis.near(numbers, star, v).concordant.size == 0


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5])
def test_the_mean_concordance_of_normal_pairs_is_known_for_all_scales(rho):
    rng = np.random.default_rng(6)
    z, scale = rng.standard_normal((2, 40_000, 2)), np.exp(2 * rng.standard_normal((2, 40_000, 1)))
    x = np.hstack([3 + scale[0] * z[0], scale[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])])
    star = Numbers(np.array([[0.0, 1.0, 0.0, 1.0]]), np.zeros((1, 0)))
    basis = Basis(star, np.ones(4), np.zeros(0), np.arange(4), np.array([[0, 1, 2, 3]]))
    columns = basis(Numbers(x, np.zeros((len(x), 0))))[:, basis.columns()["concordances"]]
    assert columns.mean() + 1 == pytest.approx(2 / np.pi * np.arcsin(rho), abs=5 / np.sqrt(40_000))


def test_noise_has_no_concordances():
    rng = np.random.default_rng(4)
    x, v = rng.standard_normal((2000, 20)), rng.standard_normal((2000, 2))
    assert Basis.near(Numbers.of(x), Numbers.of(x[:1]), v, concordances=True).concordant.size == 0


def test_noise_teaches_nothing():
    rng = np.random.default_rng(5)
    assert learn(rng.standard_normal((800, 25)), np.zeros(25), rng.standard_normal((800, 2)), groups(800)) is None


@pytest.mark.parametrize("x", [np.zeros((500, 8)), np.full((500, 8), 3.5)])
def test_constant_data_teach_nothing(x):
    assert learn(x, np.zeros(8), np.random.default_rng(6).standard_normal((500, 2)), groups(500)) is None


def test_few_simulations_or_one_group_teach_nothing():
    v, x = normals(400)
    assert learn(x[:50], OBSERVED, v[:50], groups(50)) is None
    assert learn(x, OBSERVED, v, np.zeros(400, dtype=np.int64)) is None


def test_constant_collinear_and_tied_columns_are_safe():
    rng = np.random.default_rng(7)
    v = rng.standard_normal((1500, 1))
    counts = rng.poisson(np.exp(v), (1500, 6)).astype(float)
    x = np.hstack([counts, counts, np.ones((1500, 2)), np.zeros((1500, 2))])
    with np.errstate(all="raise", under="ignore"):
        found = learn(x, np.r_[np.zeros(12), 1, 1, 0, 0], v, groups(1500))
    assert found is not None
    assert np.isfinite(found.place(x, groups(1500)).coordinates).all()


def test_parameters_that_a_model_lacks_and_indicators():
    v, x = normals(2000)
    model = (np.arange(2000) % 3 == 0).astype(float)
    x = np.where(model[:, None] > 0, np.round(x), x)
    v = np.column_stack([model, np.where(model > 0, np.nan, v[:, 0])])
    found = learn(x, OBSERVED, v, groups(2000))
    assert found is not None
    assert np.isfinite(found.coordinates(x, groups(2000))).all()


@pytest.mark.slow
def test_thousands_of_numbers():
    rng = np.random.default_rng(8)
    v = rng.standard_normal((300, 1))
    x = v + rng.standard_normal((300, 3000))
    found = learn(x, np.zeros(3000), v, groups(300))
    assert found is not None
    assert found.functions[0].explained > 0.9


def test_more_simulations_than_are_learned_from():
    rng = np.random.default_rng(12)
    n = 2 * MOST_ROWS - 1  # every second one has groups 0 and 2 only
    v = rng.standard_normal((n, 1))
    x = v + rng.standard_normal((n, 3))
    found = learn(x, np.zeros(3), v, groups(n))
    assert found is not None
    assert found.rows == MOST_ROWS
    placed = found.place(x, groups(n))
    assert placed.inside.mean() == pytest.approx(0.8, abs=0.001)
    nearest = np.abs(x.mean(axis=1)) < 0.1
    assert np.abs(placed.coordinates[nearest & placed.inside, 0]).max() < 0.5


def test_the_description_is_json(learned):
    described = json.loads(json.dumps(learned.describe()))
    assert described["dimension"] == learned.dimension
    assert sum(function["kept"] for function in described["functions"]) == learned.dimension


def test_unknown_groups_are_refused(learned):
    with pytest.raises(ValueError, match="without some of these groups"):
        learned.coordinates(OBSERVED[None], np.array([7]))
    assert learned.coordinates(np.zeros((0, 30)), np.zeros(0, dtype=np.int64)).shape == (0, learned.dimension)


def test_when_it_is_worth_it():
    assert worth_learning(20, 4)
    assert not worth_learning(10, 10)


def test_held_out_losses_without_a_pass_over_rows_are_those_of_the_predictions():
    rng = np.random.default_rng(9)
    n = 400
    columns = rng.standard_normal((n, 5))
    y = columns[:, :2] + 0.5 * rng.standard_normal((n, 2))
    kernel, position = rng.random(n) + 0.1, groups(n)
    sets = [("one", np.array([3])), ("all", np.arange(5))]
    fit = Regressions(columns, kernel, position).fit(y, sets)
    assert fit.chosen == ("all", "all")
    error = kernel @ (y - fit.predict(columns, position)) ** 2 / kernel.sum()
    np.testing.assert_allclose(fit.loss, error, rtol=1e-8)
    for k in range(4):  # the smallest penalty is least squares on the other groups
        rows = position != k
        design = np.column_stack([np.ones(rows.sum()), columns[rows]]) * np.sqrt(kernel[rows, None])
        slope = np.linalg.lstsq(design, y[rows] * np.sqrt(kernel[rows, None]), rcond=None)[0]
        np.testing.assert_allclose(fit.slopes[k], slope[1:], atol=0.02)
    assert (fit.in_sample < fit.loss).all()


def test_a_fit_before_is_improved_where_it_pays():
    rng = np.random.default_rng(10)
    columns = rng.standard_normal((300, 3))
    y = columns[:, [2, 0]]
    regressions = Regressions(columns, np.ones(300), groups(300))
    before = regressions.fit(y, [("first", np.array([0, 1]))])
    after = regressions.fit(y, [("last", np.array([2]))], before)
    assert after.chosen == ("last", "first")
    assert after.loss[1] == before.loss[1]
    np.testing.assert_array_equal(after.slopes[:, :, 1], before.slopes[:, :, 1])


def test_the_basis_is_zero_at_the_data_and_ignores_units():
    _, x = normals(200)
    targets = np.random.default_rng(11).standard_normal((200, 2))
    star = Numbers.of(OBSERVED[None])
    basis = Basis.near(Numbers.of(x), star, targets)
    assert not basis(star).any()
    raw = basis.columns()["raw"]
    scaled = Basis.near(Numbers.of(1000 * x), Numbers.of(1000 * OBSERVED[None]), targets)
    np.testing.assert_allclose(scaled(Numbers.of(1000 * x))[:, raw], basis(Numbers.of(x))[:, raw], rtol=1e-9)
    widest = dict(basis.sets())["raw + bank + squares + products"]
    assert sorted(widest.tolist()) == list(range(basis(star).shape[1]))
