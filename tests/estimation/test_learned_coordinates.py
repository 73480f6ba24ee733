"""Summaries learned from simulations: what they find, what they leave out, and cross-fitting by brute force."""

import json

import numpy as np
import pytest

from fbar.estimation.at_data.basis import OUTERMOST, Basis, Numbers
from fbar.estimation.at_data.crossfit import Regressions
from fbar.estimation.at_data.learned_summaries import MOST_ROWS, learn, worth_learning

pytestmark = pytest.mark.arithmetic


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
    assert "order" in means[1].columns or means[1].columns == "varying coefficients"
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
    sets = dict(basis.sets())
    every = np.unique(np.concatenate([sets["raw + bank + squares + products"], sets["few + products + gaps"]]))
    assert every.tolist() == list(range(basis(star).shape[1]))


def test_no_set_of_columns_is_tried_twice():
    _, x = normals(200, d=8)
    basis = Basis.near(Numbers.of(x), Numbers.of(x[:1]), x[:, :2])
    sets = dict(basis.sets())  # of eight numbers all are paired: the few are the raw numbers and their squares
    assert "raw + squares + products" in sets
    assert "few + products" not in sets
    assert len({tuple(sorted(members.tolist())) for members in sets.values()}) == len(sets)


def test_gaps_are_logarithms_of_differences_in_any_unit():
    _, x = normals(300, d=5)
    targets = x[:, :1]
    basis = Basis.near(Numbers.of(x), Numbers.of(x[:1]), targets)
    gaps = basis.columns()["gaps"]
    found = basis(Numbers.of(x))[:, gaps]
    assert found.shape[1] == 10
    unit = min(basis.raw_spread[:2])
    logs = np.log(np.abs(x[:, 0] - x[:, 1]) / unit + 0.01)
    logs = np.clip(logs, *np.quantile(logs, [OUTERMOST, 1 - OUTERMOST]))
    np.testing.assert_allclose(found[:, 0], logs - logs[0], atol=1e-12)
    scaled = Basis.near(Numbers.of(1e6 * x), Numbers.of(1e6 * x[:1]), targets)
    np.testing.assert_allclose(scaled(Numbers.of(1e6 * x))[:, gaps], found, atol=1e-9)
    still = np.where(np.arange(5) < 2, 1.0, x)  # two numbers that never vary have no gap
    assert not Basis.near(Numbers.of(still), Numbers.of(still[:1]), targets)(Numbers.of(still))[:, gaps[0]].any()


def test_a_scale_is_learned_where_it_is_small():
    """Four numbers of scale θ², θ of either sign: at data of a small scale the sample of all has larger ones."""
    rng = np.random.default_rng(12)
    theta = rng.uniform(-3, 3, 4000)
    x = rng.standard_normal((4000, 1)) + theta[:, None] ** 2 * rng.standard_normal((4000, 4))
    observed = 0.2 + 0.1 * np.array([-1.2, -0.3, 0.4, 1.1])
    found = learn(x, observed, theta[:, None], groups(4000))
    assert found is not None
    spread = next(function for function in found.functions if function.kind == "spread")
    assert "gaps" in spread.columns or spread.columns == "varying coefficients"
    placed = found.place(x, groups(4000))
    logs = np.log(x.std(axis=1))
    near = placed.inside & (np.abs(logs - np.log(observed.std())) < 1)
    assert near.sum() > 100
    shown = np.corrcoef(placed.coordinates[near, -1], logs[near])[0, 1] ** 2
    assert shown > 0.8  # by squared residuals 0.43, without gaps 0.01
