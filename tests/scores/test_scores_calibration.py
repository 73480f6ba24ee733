"""Ranks, true parameters, predictive checks, and what all scores have in common."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from page_tables import scores_table
from scipy import stats

import fbar
from fbar import problems, scores
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.scores import Approximation, Scene, all_scores, as_score, expected_coverage, uniformity
from fbar.scores.arrays import merged
from fbar.scores.calibration import rank
from fbar.scores.predictive import predictive_p_value
from fbar.weights import systematic

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- calibration


def ranks(width, trials=1500, n=9, weighted=False, seed=1):
    """θ ~ N(0,1), x ~ N(θ,1): the posterior is N(x/2, 1/2). Its samples, ``width`` times as wide."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(trials):
        theta = rng.standard_normal()
        x = theta + rng.standard_normal()
        draws = x / 2 + width * math.sqrt(0.5) * rng.standard_normal(n)
        found.append(rank(draws, theta, rng.random(), np.full(n, 0.3) if weighted else None))
    return found


def test_ranks_are_uniform_under_the_truth_even_of_few_points():
    found = uniformity(ranks(1.0), bins=7)  # bins that ten ranks do not fill evenly by themselves
    assert found.p_value > 1e-6
    assert found.df == 6
    assert sum(found.counts) == 1500
    assert all(abs(item.z) < 5 for item in expected_coverage(ranks(1.0, weighted=True)))


@pytest.mark.parametrize(("width", "sign"), [(0.6, -1), (1.7, 1)])
def test_too_sure_and_too_unsure_are_caught(width, sign):
    found = ranks(width, n=50)
    assert uniformity(found).p_value < 1e-6
    half = expected_coverage(found, 0.5)[0]
    assert sign * half.z > 5
    assert half.error == pytest.approx(math.sqrt(half.share * (1 - half.share) / 1500))


def test_a_finite_posterior_breaks_ties_at_random():
    rng, p = np.random.default_rng(3), np.array([0.5, 0.3, 0.2])
    true = rng.choice([1, 2, 3], 1500, p=p)  # no data: the posterior is the prior
    found = [rank([1, 2, 3], one, rng.random(), p, exact=True) for one in true]
    assert uniformity(found).p_value > 1e-6


def test_rank_by_hand():
    assert rank([1.0, 2.0, 3.0], 2.5, 0.5) == pytest.approx((2 + 0.5) / 4)
    assert rank([1, 2], 2, 0.25, [3, 1], exact=True) == pytest.approx(0.75 + 0.25 * 0.25)


def test_bad_ranks():
    with pytest.raises(InputError, match="at least 2 trials"):
        uniformity([0.5])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        expected_coverage([0.5, 1.5])
    with pytest.raises(InputError, match="bins"):
        uniformity([0.1, 0.2, 0.3], bins=4)


def test_sbc_of_the_score_is_uniform_over_observations():
    """Over all ten observations and ten parameters, exact posterior draws."""
    found = []
    for observation in range(1, 11):
        problem = problems.load("gaussian-linear", observation)
        draws = problem.reference.sample(99, np.random.default_rng([4, observation]))
        found += as_score("sbc").compute(Approximation(draws, np.ones(99), 99), Scene(problem, ())).values()
    assert len(found) == 100
    assert uniformity(found, bins=5).p_value > 1e-6
    assert np.unique(found).size == 100  # ties are broken anew in each


def test_true_parameters_by_density():
    problem = problems.load("gaussian-linear", 2)
    scene = Scene(problem, ())
    truth = problem.true_parameters
    expected = sum(
        stats.norm.logpdf(truth[name], m, math.sqrt(0.05))
        for name, m in zip(problem.prior.names, problem.reference.centre, strict=True)
    )
    given = Approximation(None, None, 1, density=problem.reference.log_density)
    assert as_score("true-parameters").compute(given, scene)[""] == pytest.approx(expected)
    with pytest.raises(InputError, match="made with"):
        as_score("true-parameters").compute(given, Scene(problem.with_observed([0.1] * 10), ()))


def test_true_parameters_of_a_finite_prior():
    problem = problems.load("two-hypotheses")
    problem.true_parameters = {"theta": 2}
    given = Approximation(problem.points, np.array([3.0, 1.0]), 1)
    assert as_score("true-parameters").compute(given, Scene(problem, ()))[""] == pytest.approx(math.log(0.25))
    given = Approximation(problem.points, np.array([1.0, 0.0]), 1)
    assert as_score("true-parameters").compute(given, Scene(problem, ()))[""] == -math.inf


# ---------------------------------------------------------------- predictive checks


def test_the_predictive_p_value_is_uniform_for_data_of_the_same_distribution():
    rng = np.random.default_rng(5)
    found = []
    for _ in range(1000):
        pool = rng.standard_normal((20, 2))
        found.append(predictive_p_value(pool[:-1], pool[-1], fbar.question.distances.euclidean))
    assert set(np.round(np.array(found) * 20).astype(int)) == set(range(1, 21))
    for level in (0.1, 0.5):
        share = np.mean(np.array(found) <= level + 1e-9)
        assert abs(share - level) < 5 * math.sqrt(level * (1 - level) / 1000)


def predictive(width, shift=0.0):
    problem = problems.load("gaussian-linear")
    draws = problem.reference.sample(500, np.random.default_rng(6))
    centre = problem.reference.centre
    points = {name: m + shift + width * (draws[name] - m) for name, m in zip(problem.prior.names, centre, strict=True)}
    return as_score("predictive").compute(Approximation(Points(points), np.ones(500), 1), Scene(problem, ()))


def test_predictive_checks_see_what_is_far_and_not_what_is_too_sure():
    right, far, sure = predictive(1.0), predictive(1.0, shift=3.0), predictive(0.05)
    assert far["p-value"] == pytest.approx(1 / 201)
    assert far[""] > 5 * right[""]
    assert right["p-value"] > 0.02
    assert sure[""] < right[""]  # the blind spot, as the paper tells it


def test_the_mean_predictive_distance_has_its_closed_form():
    """x_rep − x* of the posterior centred on x* is N(0, (0.05 + 0.1) I₁₀): a χ of ten degrees."""
    problem = problems.load("gaussian-linear").with_observed([0.0] * 10)  # so that the posterior is centred on the data
    draws = problem.reference.sample(2000, np.random.default_rng(6))
    score = scores.predictive.PredictiveCheck(size=400)
    found = score.compute(Approximation(draws, np.ones(2000), 1), Scene(problem, ()))[""]
    chi = stats.chi(10, scale=math.sqrt(0.15))
    assert abs(found - chi.mean()) < 5 * chi.std() / math.sqrt(400)


def test_predictive_checks_need_data():
    given = Approximation(Points({"theta": [0.1]}), np.ones(1), 1)
    with pytest.raises(InputError, match="event"):
        as_score("predictive").compute(given, Scene(problems.load("ramp"), ()))


# ---------------------------------------------------------------- every score

SCORES = all_scores()
ON_POINTS = [name for name in SCORES if name not in ("acceptance-rate", "ess", "unnormalised-mse", "log-likelihood")]


def repeated(seed=8, size=60):
    problem = problems.load("gaussian-linear")
    rng = np.random.default_rng(seed)
    draws = problem.reference.sample(size, rng)
    times = rng.integers(1, 4, size)
    return problem, draws, times


@pytest.mark.parametrize("name", [name for name in ON_POINTS if name != "c2st"])  # c2st-logistic is the same function
def test_integer_weights_are_repetition(name):
    problem, draws, times = repeated()
    scene = Scene(problem, (fbar.mean("theta1"), fbar.second_moment("theta2")), truth_size=300)
    score = as_score(name)
    by_weight = score.compute(Approximation(draws, times.astype(float), 1), scene)
    again = draws.repeat(times)
    by_repetition = score.compute(Approximation(again, np.ones(again.rows), 1), scene)
    ignored = score.compute(Approximation(draws, np.ones(draws.rows), 1), scene)
    assert by_weight == pytest.approx(by_repetition, rel=1e-9, nan_ok=True)
    if name not in ("relative-efficiency", "coverage", "z-score"):  # no error bars here
        assert by_weight != pytest.approx(ignored, rel=1e-9)


@pytest.mark.parametrize(
    "name", ["tv", "kl", "chi2", "hellinger", "jensen-shannon", "posterior-mse", "mmd", "kolmogorov"]
)
def test_integer_weights_are_repetition_on_a_finite_prior(name):
    problem = problems.load("ten-values")
    scene, times = Scene(problem, ()), np.array([1, 1, 1, 3, 9, 9, 2, 1, 1, 1])
    by_weight = as_score(name).compute(Approximation(problem.points, times.astype(float), 1), scene)
    again = problem.points.repeat(times)
    assert as_score(name).compute(Approximation(again, np.ones(again.rows), 1), scene) == pytest.approx(by_weight)


def test_ess_is_about_simulations_and_tells_weight_from_repetition():
    problem, draws, times = repeated()
    scene, again = Scene(problem, ()), draws.repeat(times)
    assert as_score("ess").compute(Approximation(again, np.ones(again.rows), 1), scene)[""] == pytest.approx(again.rows)
    by_weight = as_score("ess").compute(Approximation(draws, times.astype(float), 1), scene)[""]
    assert by_weight == pytest.approx(times.sum() ** 2 / (times**2).sum())


@pytest.mark.parametrize("name", ON_POINTS)
@pytest.mark.parametrize(
    ("weights", "message"),
    [([math.nan], "NaN"), ([-1.0], "at least 0"), (None, "all weights are zero"), ([np.inf], "finite")],
)
def test_bad_weights_are_refused_by_every_score(name, weights, message):
    problem, draws, times = repeated()
    w = np.zeros(draws.rows) if weights is None else np.concatenate([weights, times[1:].astype(float)])
    scene = Scene(problem, (fbar.mean("theta1"),), truth_size=50)
    with pytest.raises(InputError, match=message):
        as_score(name).compute(Approximation(draws, w, 1), scene)


@pytest.mark.parametrize("name", [name for name in ON_POINTS if SCORES[name].needs in ("samples", "density")])
def test_samples_of_another_dimension_are_refused(name):
    problem, draws, _ = repeated()
    fewer = draws.only([f"theta{i}" for i in range(1, 10)])
    with pytest.raises(InputError, match="theta10"):
        as_score(name).compute(Approximation(fewer, np.ones(draws.rows), 1), Scene(problem, (), truth_size=50))


@pytest.mark.parametrize("name", [name for name in SCORES if SCORES[name].needs in ("samples", "density")])
def test_scores_of_the_truth_say_what_is_not_known(name):
    points = Points({"theta": np.linspace(0.1, 0.9, 30)})
    untold = fbar.Problem.bernoulli(fbar.Prior(theta=stats.uniform(0, 1)), lambda t: t["theta"])
    with pytest.raises(InputError, match="not known"):
        as_score(name).compute(Approximation(points, np.ones(30), 1), Scene(untold, ()))


def test_every_score_tells_what_it_is():
    for name, score in SCORES.items():
        assert score.name == name
        assert as_score(name).name == name
        assert min(map(len, (score.title, score.formula, score.range, score.blind_spot))) > 3
        assert (score.nominal is not None) == (score.better == "nominal")
        assert name in scores.listing()
    with pytest.raises(InputError, match="did you mean 'hellinger'"):
        as_score("helinger")
    with pytest.raises(InputError, match="a score is a name"):
        as_score(3)


def test_pure_functions_refuse_what_cannot_be_compared():
    with pytest.raises(InputError, match="3 columns and the true ones 2"):
        scores.metrics.wasserstein(np.ones((4, 3)), np.ones((4, 2)))
    with pytest.raises(InputError, match="row 1 is not"):
        scores.metrics.kolmogorov([0.0, np.nan], [0.0])
    with pytest.raises(InputError, match="sum to 1"):
        scores.divergences.kl([0.5, 0.4], [0.5, 0.5])
    with pytest.raises(InputError, match="at least 10 distinct"):
        scores.hypothesis.c2st(np.arange(5.0), np.arange(50.0))


def test_merging_keeps_order_and_weight():
    x, w = merged(np.array([[3.0], [1.0], [3.0], [2.0]]), np.array([0.1, 0.5, 0.4, 0.0]))
    assert x[:, 0].tolist() == [3.0, 1.0]
    assert w == pytest.approx([0.5, 0.5])


def test_systematic_resampling_gives_each_its_share():
    w = np.array([0.31, 0.05, 0.64])
    for seed in range(50):
        counts = np.bincount(systematic(w, 10, np.random.default_rng(seed)), minlength=3)
        assert (np.abs(counts - 10 * w) < 1).all()


def test_parameters_that_some_models_lack():
    prior = fbar.ModelChoice({"a": None, "b": fbar.Prior(lam=stats.uniform(0, 1))})
    problem = fbar.Problem(prior, lambda t, rng: t["lam"], observed=0.0)
    problem.true_parameters = {"model": "b", "lam": 0.4}
    draws = prior.sample(400, rng=np.random.default_rng(1))
    scene = Scene(problem, ())
    scene.__dict__["true_sample"] = prior.sample(500, rng=np.random.default_rng(2))
    given = Approximation(draws, np.ones(400), 1)
    inside, true = draws["lam"][draws.present("lam")], scene.true_sample
    expected = stats.ks_2samp(inside, true["lam"][true.present("lam")]).statistic
    assert as_score("kolmogorov").compute(given, scene) == {"lam": pytest.approx(expected)}
    assert as_score("sbc").compute(given, scene)["lam"] == pytest.approx((inside < 0.4).mean(), abs=0.01)
    with pytest.raises(InputError, match="labels"):
        as_score("mmd").compute(given, scene)


# ---------------------------------------------------------------- the page about scores


def between(text, name):
    return text.partition(f"<!-- begin: {name} -->\n")[2].partition(f"\n<!-- end: {name} -->")[0]


def test_the_page_holds_the_table_of_scores():
    page = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    assert between(page, "scores") == scores_table(), "run: make tables"


def test_the_page_holds_the_stored_demonstration():
    spec = importlib.util.spec_from_file_location("blind_c2st", ROOT / "benchmarks" / "blind_c2st.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    assert between(page, "blind_c2st") == module.markdown(module.read())
