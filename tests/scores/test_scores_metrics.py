"""Integral probability metrics and two-sample tests, against closed forms and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from fbar import problems
from fbar.errors import InputError, MissingExtra
from fbar.question.points import Points
from fbar.scores import Approximation, Scene, as_score, hypothesis, metrics
from fbar.weights import systematic

pytestmark = pytest.mark.arithmetic

RNG = np.random.default_rng(20)
FLAT = np.random.default_rng(1).standard_normal(40)


def test_total_variation_is_half_the_sum_not_the_whole():
    assert metrics.total_variation([0.25, 0.75], [0.5, 0.5]) == pytest.approx(0.25)
    assert metrics.total_variation([[1, 0], [0.5, 0.5]], [0, 1]) == pytest.approx([1.0, 0.5])


def test_wasserstein_of_a_shift_is_the_shift():
    assert metrics.wasserstein(FLAT + 0.3, FLAT) == pytest.approx(0.3)
    cloud = np.random.default_rng(2).standard_normal((60, 3))
    shift = np.array([0.3, -0.2, 0.6])
    assert metrics.wasserstein(cloud + shift, cloud) == pytest.approx(np.linalg.norm(shift))  # by assignment
    w = np.random.default_rng(3).random(60) + 0.1
    assert metrics.wasserstein(cloud + shift, cloud, w, w) == pytest.approx(np.linalg.norm(shift))  # by flows


def test_wasserstein_with_weights_is_scipys():
    x, y = RNG.standard_normal(30), RNG.standard_normal(50) + 1
    v, w = RNG.random(30), RNG.random(50)
    assert metrics.wasserstein(x, y, v, w) == pytest.approx(stats.wasserstein_distance(x, y, v, w))
    assert metrics.wasserstein(x, y, v, w) != pytest.approx(metrics.wasserstein(x, y), rel=1e-3)


def test_exact_transport_is_refused_where_it_is_too_large():
    many = np.zeros((3000, 2))
    with pytest.raises(InputError, match="use sliced-wasserstein"):
        metrics.wasserstein(many, many)


def test_sliced_wasserstein_of_a_shift_is_the_mean_projection():
    cloud = RNG.standard_normal((50, 4))
    shift, u = np.array([0.5, 0, 0, 0]), RNG.standard_normal((30, 4))
    found = metrics.sliced_wasserstein(cloud + shift, cloud, u)
    assert found == pytest.approx(np.abs(u @ shift).mean())


def test_kolmogorov_is_scipys_and_respects_weights():
    x, y = RNG.standard_normal(40).round(1), (RNG.standard_normal(60) + 0.4).round(1)  # with ties
    assert metrics.kolmogorov(x, y) == pytest.approx(stats.ks_2samp(x, y).statistic)
    assert metrics.kolmogorov([1, 2], [1, 2], [3, 1], [1, 1]) == pytest.approx(0.25)


def closed_mmd2(shift, dimension, length):
    s = length**2 + 2
    return 2 * (length**2 / s) ** (dimension / 2) * -math.expm1(-(shift**2) / (2 * s))


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_mmd_is_unbiased_for_weighted_samples(shift):
    rng, length, found, plain = np.random.default_rng(5), 1.5, [], []
    w = rng.random(30) + 0.1  # fixed: not a function of where the points lie
    for _ in range(600):
        x, y = rng.standard_normal((30, 2)), rng.standard_normal((25, 2))
        x[:, 0] += shift
        found.append(metrics.mmd2(x, y, length, w))
        plain.append(metrics.mmd2(x, y, length, w, exact=True))
    truth = closed_mmd2(shift, 2, length)

    def z(values):
        return (np.mean(values) - truth) / (np.std(values, ddof=1) / math.sqrt(len(values)))

    assert abs(z(found)) < 5
    assert abs(z(plain)) > 10  # the diagonal left in would be caught


def test_mmd_is_the_double_sum_in_blocks_of_any_size(monkeypatch):
    x, y = RNG.standard_normal((23, 3)) + 100, RNG.standard_normal((17, 3)) + 100  # far from the origin
    v, w = RNG.random(23), RNG.random(17)
    v, w = v / v.sum(), w / w.sum()
    square = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    whole = v @ np.exp(-square / (2 * 1.3**2)) @ w
    for pairs in (1, 50, 10**6):
        monkeypatch.setattr(metrics, "PAIRS", pairs)
        assert metrics.kernel_mean(x, v, y, w, 1.3) == pytest.approx(whole, rel=1e-12)


def test_the_kernels_length_is_the_median_distance():
    assert metrics.median_distance(np.array([[0.0], [1.0], [3.0]])) == 2.0


def test_ks_test_is_scipys_and_counts_effective_points():
    x, y = RNG.standard_normal(200), RNG.standard_normal(300) + 0.2
    assert hypothesis.ks_p_value(x, y) == pytest.approx(stats.ks_2samp(x, y, method="asymp").pvalue)
    w = np.where(np.arange(200) < 20, 1.0, 1e-9)  # twenty points in truth
    expected = stats.ks_2samp(x[:20], y, method="asymp").pvalue
    assert hypothesis.ks_p_value(x, y, w) == pytest.approx(expected, rel=1e-4)


def test_the_ks_p_value_is_uniform_under_the_truth():
    rng = np.random.default_rng(8)
    p = [hypothesis.ks_p_value(rng.standard_normal(300), rng.standard_normal(300)) for _ in range(300)]
    share = np.mean(np.array(p) < 0.2)
    assert abs(share - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 300)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_logistic_c2st_reaches_the_best_accuracy(shift):
    rng, found = np.random.default_rng(9), []
    for seed in range(12):
        x, y = rng.standard_normal((800, 2)), rng.standard_normal((800, 2))
        x[:, 0] += shift
        found.append(hypothesis.c2st(x, y, kind="logistic", seed=seed))
    z = (np.mean(found) - stats.norm.cdf(shift / 2)) / (np.std(found, ddof=1) / math.sqrt(12))
    assert abs(z) < 5


def test_c2st_respects_weights():
    rng = np.random.default_rng(10)
    x, y = rng.uniform(-3, 3, 3000), rng.standard_normal(3000)
    w = stats.norm.pdf(x)
    assert hypothesis.c2st(x, y, w, kind="logistic") < 0.54 < 0.6 < hypothesis.c2st(x, y, kind="logistic")


@pytest.mark.slow
def test_the_network_sees_what_is_plain_and_copies_do_not_fool_it():
    rng = np.random.default_rng(11)
    y = rng.standard_normal((150, 2))
    assert hypothesis.c2st(y + 6, y) > 0.99
    w = np.where(np.arange(150) < 15, 9.0, 1.0)  # fifteen points are half of the weight
    # Copies on both sides of a fold would be learned by heart: every one of them would be told apart.
    rows = systematic(w / w.sum(), 150, rng)
    fold = hypothesis.folds_without_copies(rows, 5, rng)
    assert np.unique(rows).size < 120
    assert all(np.unique(fold[rows == row]).size == 1 for row in np.unique(rows))
    assert np.bincount(fold, minlength=5).min() > 10


def test_c2st_without_scikit_learn_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtra, match=r"fbar\[scores\]"):
        hypothesis.c2st(FLAT, FLAT + 1)


# ---------------------------------------------------------------- as scores


def gaussian(size=400, shift=0.0, seed=0):
    problem = problems.load("gaussian-linear")
    scene = Scene(problem, (), truth_size=2000)
    points = problem.reference.sample(size, np.random.default_rng([seed, 55]))
    moved = {name: points[name] for name in points}
    moved["theta1"] = moved["theta1"] + shift * math.sqrt(0.05)
    return Approximation(Points(moved), np.full(size, 1 / size), size), scene


def test_marginal_scores_name_the_parameter_that_is_wrong():
    approximation, scene = gaussian(shift=1.0)
    for name in ("wasserstein", "kolmogorov"):
        found = as_score(name).compute(approximation, scene)
        assert list(found) == [f"theta{i}" for i in range(1, 11)]
        assert max(found, key=found.get) == "theta1"
        assert found["theta1"] > 3 * sorted(found.values())[-2]
    p = as_score("ks-test").compute(approximation, scene)
    assert p["theta1"] < 1e-10 < 1e-4 < min(value for name, value in p.items() if name != "theta1")


def test_scores_of_all_parameters_are_in_true_standard_deviations():
    approximation, scene = gaussian(shift=2.0, size=300)
    joint = as_score("wasserstein-joint").compute(approximation, scene)[""]
    assert 2 < joint < 6  # the shift, and what 300 points in ten dimensions are away anyhow
    # The true draws themselves, moved by twice their own deviation: 2 E|u_1| over directions u of the sphere.
    truth = scene.true_sample
    moved = {name: truth[name] + 2 * truth[name].std() * (name == "theta1") for name in truth}
    copied = Approximation(Points(moved), np.full(truth.rows, 1 / truth.rows), 1)
    sliced = as_score(metrics.SlicedWasserstein(400)).compute(copied, scene)[""]
    projection = math.gamma(5) / (math.sqrt(math.pi) * math.gamma(5.5))
    assert abs(sliced / 2 - projection) < 5 * math.sqrt((1 / 10 - projection**2) / 400)


def test_mmd_of_the_score_is_unbiased():
    found = []
    for seed in range(40):
        approximation, scene = gaussian(size=200, shift=0.8, seed=seed)
        scene = Scene(scene.problem, (), seed=seed, truth_size=200)
        found.append(as_score(metrics.MaximumMeanDiscrepancy(length=3.0)).compute(approximation, scene)[""])
    # The sample's own standard deviations scale it: their relative error of 0.05 is nothing beside the scatter.
    z = (np.mean(found) - closed_mmd2(0.8, 10, 3.0)) / (np.std(found, ddof=1) / math.sqrt(40))
    assert abs(z) < 5


def test_a_finite_posterior_is_scored_exactly():
    problem = problems.load("ten-values")
    scene = Scene(problem, ())
    p = problem.reference.weights
    right = Approximation(problem.points, p, 1)
    assert as_score("tv").compute(right, scene)[""] == pytest.approx(0, abs=1e-15)
    assert as_score("mmd").compute(right, scene)[""] == pytest.approx(0, abs=1e-14)
    moved = np.roll(p, 1)
    wrong = Approximation(problem.points, moved, 1)
    assert as_score("tv").compute(wrong, scene)[""] == pytest.approx(np.abs(moved - p).sum() / 2)
    expected = abs(np.cumsum(moved - p))
    assert as_score("kolmogorov").compute(wrong, scene)["theta"] == pytest.approx(expected.max())
    assert as_score("wasserstein").compute(wrong, scene)["theta"] == pytest.approx(expected.sum())
    for name in ("ks-test", "c2st"):
        with pytest.raises(InputError, match="continuous"):
            as_score(name).compute(wrong, scene)


def test_tv_sees_all_mass_that_is_missing():
    problem = problems.load("gaussian-linear")
    scene = Scene(problem, (), truth_size=4000)
    centre = problem.reference.centre[0]

    def right_half(points):  # the truth, cut at its centre and doubled: exactly half of it is missing
        with np.errstate(divide="ignore"):
            return problem.reference.log_density(points) + np.log(2.0 * (points["theta1"] > centre))

    approximation = Approximation(None, None, 1, density=right_half)
    found = as_score("tv").compute(approximation, scene)[""]
    assert abs(found - 0.5) < 5 * math.sqrt(0.25 / 4000)
