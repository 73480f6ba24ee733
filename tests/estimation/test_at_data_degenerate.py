"""Degenerate simulations at the data: a clear message or a flagged answer, never a crash or a silent number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation import store
from fbar.estimation.at_data import AtData, estimator
from fbar.estimation.at_data import local as local_regression
from fbar.estimation.at_data.local import local
from fbar.estimation.at_data.moments import Companions
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.nearness import nearest
from fbar.estimation.at_data.prepared import prepare
from fbar.question.outcomes import Failure
from helpers.portions import portion

PRIOR = fbar.Prior(a=stats.norm(0, 1), b=stats.uniform(0, 1))
TARGETS = [
    fbar.mean("a"),
    fbar.variance("a"),
    fbar.probability("b > 0.5"),
    fbar.quantile("b", 0.9),
    fbar.covariance("a", "b"),
    fbar.density_at("a", 0.0),
]
AT = (0.3, 0.4)


def simulated(n=500, seed=3):
    theta = PRIOR.sample(n, rng=np.random.default_rng(seed))
    noise = np.random.default_rng(seed + 1).standard_normal((n, 2))
    return theta, np.stack([theta["a"], theta["b"]], axis=1) + noise * [0.3, 0.1]


def expected(change=lambda s: s, observed=AT, n=500, targets=TARGETS, **options):
    theta, s = simulated(n)
    return AtData().posterior(portion(PRIOR, theta, change(s), observed, **options)).expect(targets)


def near(estimates, others):
    """The same up to rounding, which may change the order of equally distant simulations."""
    for one, other in zip(estimates, others, strict=True):
        assert abs(one.value - other.value) < 0.5 * other.standard_error


def warned(estimates, text):
    assert not any(np.any(estimate.trusted) for estimate in estimates)
    assert all(any(text in warning for warning in estimate.warnings) for estimate in estimates)
    assert all(np.isfinite(estimate.value) for estimate in estimates)


@pytest.fixture(scope="module")
def usual():
    return expected()


def with_column(values):
    return lambda s: np.column_stack([s, np.broadcast_to(values, len(s))])


def test_a_summary_that_is_constant_says_nothing(usual):
    assert [e.value for e in expected(with_column(5.0), (*AT, 5.0))] == [e.value for e in usual]
    warned(expected(with_column(5.0), (*AT, 4.0)), "summary 3 is the same in all simulations and different in the data")
    rounding = 1 / 3 + 1e-18 * np.arange(500)
    near(expected(with_column(rounding), (*AT, 1 / 3)), usual)


def test_summaries_that_are_all_constant_leave_the_prior():
    estimates = expected(lambda s: np.full((len(s), 2), 1.0), (1.0, 1.0), targets=[fbar.mean("a"), fbar.variance("a")])
    assert estimates[0].value == pytest.approx(0, abs=4 * estimates[0].standard_error)
    assert estimates[1].value == pytest.approx(1, abs=4 * estimates[1].standard_error)
    warned(
        expected(lambda s: np.full((len(s), 2), 1.0)), "2 summaries (the first is 1) are the same in all simulations"
    )


def test_constant_summaries_are_said():
    theta, s = simulated()
    prepared = prepare(portion(PRIOR, theta, np.full(s.shape, 1.0), (1.0, 1.0)))
    assert AtData().of(prepared).remark == (
        "all simulations have the same summaries, so the data say nothing about θ: this is the prior"
    )
    assert not prepare(portion(PRIOR, theta, s, AT)).remark
    counts = prepare(portion(PRIOR, theta, np.round(s), (0.0, 0.0)), most=20)  # the nearest equal the data, others not
    assert not counts.summaries
    assert not counts.remark


def test_beside_one_or_two_given_summaries_the_far_side_is_left_out_whatever_it_costs(monkeypatch):
    """At the edge of the simulations; where that is not allowed to cost so much, the sample keeps its weights."""
    theta, s = simulated(2000)
    moved = move(prepare(portion(PRIOR, theta, s, (2.0, 0.9))), 0.8, 1)
    beside = local(moved, 1.0)
    assert beside.ell.min() > 0
    np.testing.assert_array_equal(beside.ell, beside.omega)
    monkeypatch.setattr(local_regression, "FEW_DIMENSIONS", 0)
    everything = local(moved, 1.0)
    assert everything.ell.min() < 0 < everything.omega.min()
    assert beside.ess < 0.5 * everything.ess


def test_collinear_summaries(usual):
    for estimate, other in zip(expected(lambda s: np.column_stack([s, 2 * s[:, 0]]), (*AT, 0.6)), usual, strict=True):
        assert abs(estimate.value - other.value) < 2 * np.hypot(estimate.standard_error, other.standard_error)
    warned(expected(lambda s: np.column_stack([s, 2 * s[:, 0] + 5]), (*AT, 0.6)), "edge of the simulations or outside")


def test_numbers_that_are_not_finite():
    def lost(s):
        s[::7, 0], s[::11, 1] = np.nan, np.inf
        return s

    theta, s = simulated()
    kept = np.isfinite(lost(s.copy())).all(axis=1)
    rows = np.flatnonzero(kept)
    without = AtData().posterior(portion(PRIOR, theta.take(rows), s[rows], AT)).expect(TARGETS)
    near(expected(lost), without)
    with pytest.raises(fbar.NoPosterior, match=r"^0 of 500 simulations can be used \(summary 3 is not finite in 500\)"):
        expected(with_column(np.nan), (*AT, 1.0))
    failure = np.full(500, Failure.UNUSABLE, dtype=np.int8)
    failure[0] = Failure.NONE
    with pytest.raises(fbar.NoPosterior, match=r"^1 of 500 simulations can be used \(499 simulations failed\)"):
        expected(failure=failure)


def test_few_simulations():
    with pytest.raises(
        fbar.NoPosterior, match=r"^12 of 12 simulations can be used, too few for an estimate at the data"
    ):
        expected(n=12)
    with pytest.raises(fbar.NoPosterior, match=r"^1 of 1 simulation can be used"):
        expected(n=1)
    warned(expected(n=30, targets=[fbar.mean("a"), fbar.probability("b > 0.5")]), "simulations")


def test_weights():
    log_w = np.r_[0.0, np.full(499, -800.0)]
    with pytest.raises(fbar.NoPosterior, match=r"500 usable simulations \(effectively 1\) are too few"):
        expected(log_w=log_w)
    half = np.where(np.arange(500) % 2, 0.0, -np.inf)
    theta, s = simulated()
    rows = np.arange(1, 500, 2)
    near(
        expected(log_w=half),
        AtData().posterior(portion(PRIOR, theta.take(rows), s[rows], AT)).expect(TARGETS),
    )
    near(expected(log_w=np.full(500, -5000.0)), expected())


def test_thousands_of_summaries_and_few_simulations():
    """In seconds: learned ones are right here, where every number says the same; without them there is a doubt."""
    theta, s = simulated(300)
    many = s[:, :1] + 0.3 * np.random.default_rng(5).standard_normal((300, 2000))
    data = portion(PRIOR, theta, many, np.full(2000, 0.3))
    learned = AtData().posterior(data).expect(fbar.mean("a"))
    assert learned.value == pytest.approx(0.3 / 1.09, abs=4 * learned.standard_error)
    found = AtData(learn=False).posterior(data).expect([fbar.mean("a"), fbar.mean("b")])
    warned(found, "simulations are too few for 2,000 summaries; only ")
    assert found[0].value == pytest.approx(0.3, abs=0.3)


@pytest.mark.parametrize("observed", [(30.0, 0.5), (6.0, 3.0), (0.3, -8.0)])
def test_data_that_the_simulator_does_not_give(observed):
    warned(expected(observed=observed, targets=TARGETS[:5]), "the data lie at the edge of the simulations or outside")


def test_ordinary_data_are_not_at_an_edge():
    """Data of the model itself: by exchangeability one in a hundred is. 60 of them have 4 with probability 0.3%."""
    doubted = 0
    for seed in range(60):
        theta, s = simulated(301, seed)
        posterior = AtData().posterior(portion(PRIOR, theta.take(np.arange(300)), s[:300], s[300]))
        doubted += any("edge" in doubt for doubt in posterior.doubts)
    assert doubted < 4


def test_whole_numbers_and_atoms():
    rounded = expected(np.round, (0.0, 0.0), targets=[fbar.mean("a"), fbar.mean("b")])
    theta, s = simulated(20_000)
    exact = (np.round(s) == 0).all(axis=1)
    for estimate, name in zip(rounded, "ab", strict=True):
        assert estimate.value == pytest.approx(theta[name][exact].mean(), abs=3 * estimate.standard_error)
    counts = expected(lambda s: np.random.default_rng(6).poisson(np.exp(s[:, :1])), (1.0,), targets=[fbar.mean("a")])
    assert np.isfinite(counts[0].standard_error)


@pytest.mark.parametrize("unit", [1e300, 1e-300, 1e-320, 2.0**1020])
def test_units(unit, usual):
    """Summaries as large or small as numbers can be."""
    if unit > 1e-310:
        near(expected(lambda s: s * unit, np.array(AT) * unit), usual)
    else:
        assert all(np.isfinite(e.value) for e in expected(lambda s: s * unit, np.array(AT) * unit))


def test_an_outlier_of_an_extreme_size_changes_little(usual):
    def outlier(s):
        s[3, 0] = 1e307
        return s

    near(expected(outlier), usual)


@pytest.mark.parametrize(
    "options",
    [
        {"group": (np.arange(500) < 3).astype(np.int64)},
        {"group": (np.arange(500) == 0).astype(np.int64)},
        {"cluster": np.arange(500) // 100},
    ],
    ids=["three", "one", "clusters"],
)
def test_uneven_groups_and_few_clusters(options, usual):
    for estimate, other in zip(expected(**options), usual, strict=True):
        assert abs(estimate.value - other.value) < 2 * np.hypot(estimate.standard_error, other.standard_error)


def test_one_cluster_has_no_known_error():
    warned(expected(cluster=np.zeros(500, dtype=np.int64), targets=[fbar.mean("a")]), "its error is unknown")


def test_targets_that_are_constant_near_the_data():
    targets = [fbar.probability("b > -1"), fbar.expectation("3 + 0 * a"), fbar.probability("a > 6")]
    found = expected(targets=targets)
    assert [estimate.value for estimate in found] == [1, 3, 0]
    warned(found[1:2], "the simulations near the data all give the same value of this target")
    warned([found[0], found[2]], "hardly any simulation near the data says otherwise")


def test_vector_targets():
    target = fbar.expectation(lambda p: np.stack([p["a"], p["b"], 0 * p["a"]], axis=1), name="v", vector=True)
    found = expected(targets=[target])[0]
    assert found.value[0] == pytest.approx(0.3, abs=0.2)
    assert found.standard_error.shape == (3,)
    assert not found.trusted[2]


def test_a_discrete_parameter_has_a_bandwidth_and_a_bias():
    prior = fbar.Prior(k=stats.randint(0, 5))
    theta = prior.sample(2000, rng=np.random.default_rng(1))
    s = theta["k"] + np.random.default_rng(2).standard_normal(2000)
    targets = [fbar.mean("k"), fbar.variance("k"), fbar.probability("k == 2")]
    posterior = AtData().posterior(portion(prior, theta, s[:, None], [2.2]))
    found = posterior.expect(targets)
    k = np.arange(5)
    p = stats.norm.pdf(2.2, k)
    p /= p.sum()
    truth = [p @ k, p @ (k - p @ k) ** 2, p[2]]
    assert np.array_equal(np.unique(posterior.points["k"]), k)
    middle = posterior.expect(fbar.quantile("k", 0.5))
    assert {middle.value, *middle.interval()} <= set(k)
    for estimate, value in zip(found, truth, strict=True):
        assert estimate.bias > 0
        assert abs(estimate.value - value) < 3 * estimate.standard_error


def models(rare):
    prior = fbar.ModelChoice(
        {"x": fbar.Prior(a=stats.norm(0, 1)), "y": fbar.Prior(a=stats.norm(0, 1), c=stats.gamma(2))}, [1 - rare, rare]
    )
    theta = prior.sample(600, rng=np.random.default_rng(3))
    s = theta["a"] + 0.3 * np.random.default_rng(4).standard_normal(600) + 6 * (theta["model"] == "y")
    targets = [fbar.model_probability("y"), fbar.mean("a"), fbar.mean("c"), fbar.quantile("c", 0.5), fbar.variance("c")]
    return AtData().posterior(portion(prior, theta, s[:, None], [0.2])).expect(targets)


def test_a_model_that_never_comes_near():
    probability, mean, *within = models(0.03)
    assert probability.value == 0
    assert mean.value == pytest.approx(0.2 / 1.09, abs=4 * mean.standard_error)
    for estimate in within:
        assert np.isnan(estimate.value)
        assert not estimate.trusted
        assert "no simulation near the data has the parameters of this target" in estimate.warnings


def test_recorded_runs_too_large_for_memory_use_the_nearest(tmp_path, monkeypatch):
    """The simulations are selected among all of them, from memory and from the record alike."""
    problem = fbar.Problem(
        fbar.Prior(t=stats.norm(0, 1)), lambda t, rng: t["t"] + rng.standard_normal(t.rows), observed=0.4
    )
    run = fbar.infer(
        problem, fbar.mean("t"), method=fbar.Rejection(tolerance=0.5), budget=3000, seed=1, run=tmp_path / "r"
    )
    everything = run.all_simulations()

    def select(summaries, rows):
        return np.argsort(np.abs(summaries[:, 0] - 0.4), kind="stable")[:400]

    whole = everything.take()
    best = np.sort(select(whole.summaries, whole.rows))
    chosen = everything.selected(400, select)
    assert np.array_equal(chosen.rows, best)
    assert everything.selected(3000, select).rows.size == 3000
    monkeypatch.setattr(store, "MOST_SIMULATIONS", 400)
    monkeypatch.setattr(store, "MOST_NUMBERS", 500)
    read = fbar.load(tmp_path / "r", problem).all_simulations()
    assert not read.in_memory
    again = read.selected(400, select)
    assert np.array_equal(again.rows, best)
    assert np.array_equal(again.summaries, chosen.summaries)
    assert np.allclose(again.log_w, chosen.log_w)
    assert np.array_equal(again.points["t"], chosen.points["t"])
    posterior, from_record = AtData().posterior(everything), AtData().posterior(read)
    assert posterior.simulations == from_record.simulations == 3000
    assert from_record.value(fbar.mean("t")) == pytest.approx(posterior.value(fbar.mean("t")))


def test_equally_near_simulations_are_used_evenly(tmp_path, monkeypatch):
    """The weights p/q̄ are those of all rounds: a part of a tie must not depend on the round, nor on how it is read."""
    share = np.diff(nearest(np.zeros((10_000, 1)), np.zeros(1), 1000, np.arange(10_000)))
    assert share.min() >= 5
    assert share.max() <= 18
    later = nearest(np.zeros((5000, 1)), np.zeros(1), 500, np.arange(5000, 10_000))
    whole = nearest(np.zeros((10_000, 1)), np.zeros(1), 1000, np.arange(10_000))
    assert abs(np.intersect1d(later + 5000, whole).size - 500) <= 3

    problem = fbar.Problem(
        fbar.Prior(t=stats.uniform(0, 1)), lambda t, rng: (rng.random(t.rows) < t["t"]).astype(float), observed=1.0
    )
    monkeypatch.setattr(estimator, "MOST", 1000)
    posterior = AtData().posterior(fbar.infer(problem, fbar.mean("t"), budget=4000, seed=2).all_simulations())
    assert len(posterior.step.moved.prepared) <= 1000
    estimate = posterior.expect(fbar.mean("t"))
    assert estimate.value == pytest.approx(2 / 3, abs=4 * estimate.standard_error)  # Beta(2, 1)

    method = fbar.Rejection(tolerance=0.5)
    run = fbar.infer(problem, fbar.mean("t"), method=method, budget=4000, seed=2, run=tmp_path / "r")
    monkeypatch.setattr(store, "MOST_SIMULATIONS", 400)
    monkeypatch.setattr(store, "MOST_NUMBERS", 500)
    read = fbar.load(tmp_path / "r", problem).all_simulations()
    assert not read.in_memory
    assert np.array_equal(AtData().prepared(read).rows, AtData().prepared(run.all_simulations()).rows)


def test_of_many_simulations_the_nearest_are_used():
    problem = fbar.Problem(
        fbar.Prior(t=stats.norm(0, 1)), lambda t, rng: t["t"] + rng.standard_normal(t.rows), observed=0.4
    )
    run = fbar.Rejection(tolerance=0.5).start(problem, fbar.mean("t"), 1, 25_000)
    while batches := run.ask():
        run.tell(*((batch, fbar.simulate(problem, batch)) for batch in batches))
    posterior = run.posterior_at_data()
    assert posterior.simulations == 25_000
    assert 19_900 < len(posterior.step.moved.prepared) <= 20_000  # those within reach of the posterior
    estimate = posterior.expect(fbar.mean("t"))
    assert estimate.value == pytest.approx(0.2, abs=4 * estimate.standard_error)
    assert estimate.trusted


@pytest.mark.parametrize("observed", [2, 5])
@pytest.mark.parametrize("method", ["targeted", "rejection", "smc"])
@pytest.mark.parametrize("seed", [1, 2])
def test_data_beyond_the_only_values_that_the_simulator_gives(observed, method, seed):
    """0 or 1, whatever t is: all of the nearest simulations are at one place, which is not that of the data."""
    problem = fbar.Problem(
        fbar.Prior(t=stats.norm(0, 1)), lambda t, rng: (rng.random(t.rows) < 0.5).astype(np.int64), observed
    )
    estimate = fbar.infer(problem, fbar.mean("t"), method=method, budget=300, seed=seed)["t"]
    assert not estimate.trusted
    assert any("extrapolation" in text or "in a gap" in text for text in estimate.warnings)


@pytest.mark.parametrize("numbers", [1, 6])
def test_summaries_are_not_learned_without_discrete_parameters(numbers):
    """A normal a and a Poisson k, each measured so many times: of few data none are learned, of many those of k too.

    A false alarm is an error of more than five standard errors."""
    spread = 1.5

    def simulate(theta, rng):
        a = theta["a"][:, None] + 0.5 * rng.standard_normal((theta.rows, numbers))
        return np.hstack([a, theta["k"][:, None] + spread * rng.standard_normal((theta.rows, numbers))])

    observed = np.repeat([0.5, 14.0], numbers)
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1), k=stats.poisson(10)), simulate, observed=observed)
    found = fbar.infer(problem, fbar.mean("k"), method=fbar.Rejection(), budget=2000, seed=1, progress=False)
    k = np.arange(60)
    density = stats.poisson(10).pmf(k) * stats.norm(k, spread / np.sqrt(numbers)).pdf(14)
    estimate = found.estimates[0]
    assert abs(estimate.value - density @ k / density.sum()) < 5 * estimate.standard_error < 5.0
    assert ("learned" in str(found)) == (numbers > 1)


def test_discrete_parameters_of_two_regions_are_compared_in_one_unit():
    """The same simulations at the data in two regions of order 0 give the same numbers."""
    rng = np.random.default_rng(3)
    k = rng.poisson(10, 4000)
    s = (k + rng.standard_normal(4000))[:, None]
    prepared = prepare(portion(fbar.Prior(k=stats.poisson(10)), fbar.Points({"k": k}), s, [14.0]))
    moments = []
    for share, part in ((0.8, 0.25), (0.4, 0.5)):
        moved = move(prepared, share, 0)
        weights = local(moved, part)
        moments.append(Companions.around(moved, weights).moments(moved, weights))
    np.testing.assert_allclose(moments[0].value, moments[1].value, rtol=1e-3)
