"""The view of every simulation of a run: weights by brute force, the run's own estimates, failures, records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from fbar.estimation import store
from fbar.methods.draws import DrawRun
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Failure
from fbar.weights import normalised

TARGETS = [fbar.mean("a"), fbar.probability("b > 0.5"), fbar.mean("noise")]


def simulate(theta, rng):
    noise = rng.standard_normal(theta.rows)
    x = np.stack([theta["a"] + 0.5 * noise, theta["b"] + 0.5 * rng.standard_normal(theta.rows)], axis=1)
    x[theta["a"] > 1.5] = np.nan
    return {"x": x, "noise": noise}


def problem(**options):
    prior = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))
    return fbar.Problem(prior, simulate, observed=np.array([0.4, -0.2]), records=["noise"], **options)


PROBLEM = problem()
WIDE = fbar.Prior(a=stats.norm(0.3, 1.2), b=stats.norm(0, 1.5))
METHODS = {
    "rejection": fbar.Rejection(tolerance=0.6),
    "kernel": fbar.Rejection(tolerance=0.8, kernel="epanechnikov"),
    "importance": fbar.Importance(q=WIDE, tolerance=0.6),
    "stratified": fbar.Importance(q=WIDE, scheme=fbar.Stratified(3), tolerance=0.6, rounds=2),
    "strata": fbar.Rejection(scheme=fbar.Stratified(3), tolerance=0.6, rounds=2),
    "sobol": fbar.Rejection(scheme="sobol", tolerance=0.6, rounds=2),
    "robust": fbar.Importance(q=WIDE, estimator=fbar.DoublyRobust(), tolerance=0.6),
    "smc": fbar.SMC([1.5, 0.9, 0.6], accepted=150, coordinates="theta"),
    "smc-normal": fbar.SMC([1.5, 0.9, 0.6], accepted=150, coordinates="normal", centres=60, kernel="epanechnikov"),
    "smc-scaled": fbar.SMC(fbar.QuantileSchedule(tolerance=0.8), accepted=150, distance=fbar.Scaled()),
    "targeted": fbar.Targeted(tolerance=0.5, groups=3),
    "targeted-chosen": fbar.Targeted(tolerance="chosen"),
    "targeted-at-data": fbar.Targeted(),
}


def run_of(name, budget=2500, **options):
    own, targets = None if name.startswith("smc") else budget, TARGETS[:2] if name == "robust" else TARGETS
    return fbar.infer(PROBLEM, targets, method=METHODS[name], budget=own, seed=5, **options)


@pytest.fixture(scope="module")
def results():
    return {name: run_of(name) for name in METHODS}


def naive_log_weights(run, rows):
    """log p − log Σ n q/N, the densities of all proposals one by one."""
    if isinstance(run, DrawRun):
        points = run.all_simulations().take(rows).points
        return run.problem.prior.logpdf(points) - run.design.logpdf(points)
    found = np.empty(rows.size)
    particles = run.store.everything.theta.take(rows)
    log_prior = run.space.log_prior(particles)
    if isinstance(run.method, fbar.SMC):
        sizes = np.array([round.draws - round.stopped for round in run.rounds])
        q = np.stack([round.proposal.log_density(particles) for round in run.rounds])
        return log_prior - np.log((sizes[:, None] * np.exp(q)).sum(axis=0) / sizes.sum())
    group, counts = run.store.everything.group_of(rows), run.store.counts()
    for a in range(run.method.groups):
        mine = np.flatnonzero(group == a)
        own = particles.take(mine)
        q = np.stack([proposals[a].log_density(own) for proposals in run.store.proposals])
        total = (counts[:, a, None] * np.exp(q)).sum(axis=0) / counts[:, a].sum()
        found[mine] = log_prior[mine] - np.log(total)
    return found


@pytest.mark.parametrize("name", METHODS)
def test_weights_are_those_of_all_proposals_by_brute_force(name, results):
    """Of SMC without the correction for a particle's own kernel, which can only raise a weight; others exactly."""
    run = results[name].run
    found = run.all_simulations().take()
    used = found.structure.used
    naive = naive_log_weights(run, found.rows)
    if name in ("stratified", "strata"):  # two rounds of 1250 draws: 416 strata of three, the first two of four
        factor = np.tile(1250 / 416 / np.repeat([4, 3], [8, 1242]), 2)
        assert np.allclose(found.log_w, naive + np.log(factor), rtol=0, atol=1e-9)
    elif name == "sobol":  # 16 scrambles a round, the first two of 79 points and the others of 78
        factor = np.tile(1250 / 16 / np.repeat([79, 78], [158, 1092]), 2)
        assert np.allclose(found.log_w, naive + np.log(factor), rtol=0, atol=1e-9)
    elif name.startswith("smc"):
        assert (found.log_w[used] > naive[used] - 1e-9).all()
        last = found.round == found.round.max()  # of which no proposal was made
        assert np.allclose(found.log_w[used & last], naive[used & last], rtol=0, atol=1e-9)
        assert (found.log_w[used & ~last] > naive[used & ~last] + 1e-6).any()
    else:
        assert np.allclose(found.log_w, naive, rtol=0, atol=1e-9)
    idle = run.surplus + sum(round.stopped for round in run.rounds) if name.startswith("smc") else 0
    assert used.sum() + idle == len(found)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("robust", "targeted-at-data")])
def test_the_accepted_ones_give_the_run_s_own_estimates(name, results):
    result = results[name]
    found = result.run.all_simulations().take()
    tolerance = result.run.reported_tolerance
    kernel = getattr(METHODS[name], "kernel", "uniform")
    a = accepted(Acceptance(tolerance, kernel), found.distance)
    rows = np.flatnonzero(a * found.weights)
    weights = normalised(found.log_w[rows], a[rows])
    assert rows.size == result.posterior.points.rows
    points = found.points.take(rows)
    for target in TARGETS:
        assert np.allclose(target.value(points, weights), result.posterior.value(target), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_every_simulation_is_there_with_what_came_out_of_it(name, results):
    run = results[name].run
    found = run.all_simulations().take()
    assert len(found) == run.simulations == len(run.all_simulations())
    failed = found.failure != Failure.NONE
    assert failed.sum() == run.seen.failures > 0
    assert (failed == (found.points["a"] > 1.5)).all()
    assert (found.failure[failed] == Failure.NOT_FINITE).all()
    assert np.isnan(found.distance[failed]).all()
    assert np.isfinite(found.distance[~failed]).all()
    ok = ~failed
    assert np.allclose(found.summaries[ok, 0], found.points["a"][ok] + 0.5 * found.points["noise"][ok], atol=1e-12)
    if name != "smc-scaled":
        away = np.linalg.norm(found.summaries[ok] - PROBLEM.observed, axis=1)
        assert np.allclose(found.distance[ok], away)
    assert found.unit.shape == (len(found), 2)
    assert np.allclose(stats.norm.cdf(found.points["a"]), found.unit[:, 0], atol=1e-6)
    assert (np.diff(found.round) >= 0).all()


@pytest.mark.parametrize("name", METHODS)
def test_all_weights_have_the_mean_one(name, results):
    """E[w] = 1 over the draws; where those outside the support count too. Within 4.5 standard errors."""
    found = results[name].run.all_simulations().take()
    total = found.structure.stratum_sizes.sum() if found.structure.cluster is None else len(found)
    w = found.weights
    assert abs(w.sum() / total - 1) < 4.5 * w.std() / math.sqrt(len(found)) + 0.02


@pytest.mark.parametrize("name", ["rejection", "stratified", "sobol", "smc", "smc-normal", "targeted"])
def test_strata_and_clusters_give_the_run_s_variance(name, results):
    """Σ c/(c−1) Σ (ζ − ζ̄)² over all simulations, rejected ones with z = 0, is the variance that the run states."""
    result = results[name]
    found, target = result.run.all_simulations().take(), TARGETS[0]
    draws = result.posterior.draws
    z = np.zeros(len(found))
    z[draws.row] = result.posterior.contributions(target)[:, 0]
    own = found.structure
    cluster = np.arange(len(found)) if own.cluster is None else own.cluster
    labels, first, of = np.unique(cluster, return_index=True, return_inverse=True)
    zeta = np.bincount(of, weights=z)
    variance = 0.0
    for number, c in enumerate(own.stratum_sizes):
        mine = zeta[own.stratum[first] == number]
        mean = mine.sum() / c
        variance += c / (c - 1) * (((mine - mean) ** 2).sum() + (c - mine.size) * mean**2) if c > 1 else 0.0
    stated = result.posterior.expect(target).variance
    if name == "targeted":  # which adds the largest z² once more
        single = z if own.cluster is None else z[cluster < len(found)]
        variance += (single**2).max()
    assert labels.size <= len(found)
    assert variance == pytest.approx(stated, rel=1e-9)


def test_costs_come_from_the_simulator_or_from_a_function():
    def paid(theta, rng):
        return {"x": theta["a"] + rng.standard_normal(theta.rows), "cost": 1 + theta["a"] ** 2}

    prior = fbar.Prior(a=stats.norm(0, 1))
    told = fbar.Problem(prior, paid, observed=0.3, cost="returned")

    def free(theta, rng):
        return theta["a"] + rng.standard_normal(theta.rows)

    given = fbar.Problem(prior, free, observed=0.3, cost=lambda theta: 1 + theta["a"] ** 2)
    for asked in (told, given):
        for method in (fbar.Rejection(tolerance=0.3), fbar.Targeted(tolerance=0.3), fbar.SMC([0.5, 0.3], accepted=50)):
            budget = None if isinstance(method, fbar.SMC) else 600
            run = fbar.infer(asked, fbar.mean("a"), method=method, budget=budget, seed=1).run
            found = run.all_simulations().take()
            assert np.allclose(found.cost, 1 + found.points["a"] ** 2)
    assert run_of("rejection", 300).run.all_simulations().take().cost is None


def test_data_that_are_an_event_have_no_summaries():
    event = fbar.Problem.bernoulli(fbar.Prior(a=stats.uniform(0, 1)), lambda t: t["a"] ** 2)
    for method in (fbar.Rejection(), fbar.Targeted()):
        result = fbar.infer(event, fbar.mean("a"), method=method, budget=800, seed=1)
        found = result.run.all_simulations().take()
        assert found.summaries is None
        assert set(np.unique(found.distance)) == {0.0, math.inf}
        hit = found.distance == 0
        weights = normalised(found.log_w[hit])
        assert weights @ found.points["a"][hit] == pytest.approx(result["mean:a"].value, rel=1e-9)


def test_models_have_weights_and_summaries_too():
    result = fbar.infer(fbar.problems.load("nested-models"), fbar.model_probability(1), budget=2000, seed=1)
    found = result.run.all_simulations().take()
    a = accepted(Acceptance(result.run.reported_tolerance or 0.0), found.distance)
    rows = np.flatnonzero(a)
    weights = normalised(found.log_w[rows], a[rows])
    assert weights @ (found.points["model"][rows] == 1) == pytest.approx(result.estimates[0].value, rel=1e-9)


def test_counts_of_values_are_no_single_simulations():
    table = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    run = fbar.infer(table, fbar.mean("theta"), method=fbar.Rejection(), budget=500, seed=1).run
    with pytest.raises(InputError, match="keeps no individual ones"):
        run.all_simulations()


def test_rows_are_taken_in_rising_order(results):
    view = results["targeted"].run.all_simulations()
    some, whole = view.take(np.array([3, 700, 1900])), view.take()
    assert np.allclose(some.log_w, whole.log_w[[3, 700, 1900]], rtol=0, atol=1e-9)
    assert np.array_equal(some.summaries, whole.summaries[[3, 700, 1900]], equal_nan=True)
    for wrong in ([5, 3], [3, 3], [-1], [2500], []):
        with pytest.raises(InputError, match="ascending order"):
            view.take(np.array(wrong, dtype=np.int64))
    with pytest.raises(InputError, match="no simulations yet"):
        METHODS["targeted"].start(PROBLEM, TARGETS, 1, 500).all_simulations().take()


# ---------------------------------------------------------------- records


def same(first, second):
    assert np.array_equal(first.rows, second.rows)
    assert np.allclose(first.log_w, second.log_w, rtol=0, atol=1e-9)
    ok = first.failure == Failure.NONE
    assert np.array_equal(first.failure, second.failure)
    assert np.array_equal(first.distance, second.distance, equal_nan=True)
    assert np.array_equal(first.summaries[ok], second.summaries[ok])
    for name in ("a", "b", "noise"):
        assert np.array_equal(first.points[name][ok], second.points[name][ok])
    for name in ("round", "group"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    one, two = first.structure, second.structure
    assert np.array_equal(one.stratum, two.stratum)
    assert np.array_equal(one.stratum_sizes, two.stratum_sizes)
    assert np.array_equal(one.used, two.used)


@pytest.mark.parametrize("name", ["rejection", "strata", "smc", "targeted"])
def test_a_loaded_run_and_a_record_give_the_same_view(name, tmp_path, monkeypatch):
    """Loaded, extended, and with so little memory that all but the accepted ones must be read from the record."""
    live = run_of(name, run=tmp_path / "r", block_size=100)
    view = live.all_simulations().take()
    same(view, fbar.load(tmp_path / "r", PROBLEM).run.all_simulations().take())
    monkeypatch.setattr(store, "MOST_SIMULATIONS", 400)
    monkeypatch.setattr(store, "MOST_NUMBERS", 500)
    short = fbar.load(tmp_path / "r", PROBLEM)
    assert [e.value for e in short.estimates] == [e.value for e in live.estimates]
    with pytest.raises(InputError, match="record the run"):
        short.run.all_simulations().take()
    with pytest.raises(InputError, match="record the run"):
        next(short.run.all_simulations().portions())
    read = short.all_simulations()
    assert not read.in_memory
    portions = list(read.portions())
    assert len(portions) > 10
    assert np.array_equal(np.concatenate([part.rows for part in portions]), view.rows)
    for part in portions:
        same(part, live.run.all_simulations().take(part.rows))


def test_portions_of_memory_are_the_whole(results):
    view = results["smc"].run.all_simulations()
    whole, parts = view.take(), list(view.portions(300))
    assert len(parts) == math.ceil(len(view) / 300)
    assert np.allclose(np.concatenate([part.log_w for part in parts]), whole.log_w, rtol=0, atol=1e-9)
    assert np.array_equal(np.concatenate([part.summaries for part in parts]), whole.summaries, equal_nan=True)


def test_looking_leaves_no_trace(tmp_path):
    """A run that was looked at halfway goes on to the same numbers, bit by bit."""
    for name in ("rejection", "smc", "targeted"):
        plain, looked = (METHODS[name].start(PROBLEM, TARGETS, 3, 1500) for _ in range(2))
        for run in (plain, looked):
            while batches := run.ask():
                run.tell(*((batch, fbar.simulate(PROBLEM, batch)) for batch in batches))
                if run is looked and run.simulations:
                    run.all_simulations().take()
        first, second = (run.posterior().expect(TARGETS) for run in (plain, looked))
        assert [e.value for e in first] == [e.value for e in second]


def test_text_where_numbers_were_asked_for_fails_in_the_view_too(tmp_path):
    """The first blocks give text for an output that turns out to be a number: all of them have failed after all."""

    def output(theta, rng):
        x = theta["a"] + rng.standard_normal(theta.rows)
        early = rng.random() < 0.5
        return {"x": x, "noise": np.array(["?"] * theta.rows) if early else x}

    asked = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), output, observed=0.3, records=["noise"])
    method = fbar.Rejection(tolerance=0.5)
    result = fbar.infer(asked, fbar.mean("noise"), method=method, budget=600, seed=2, block_size=50)
    found = result.run.all_simulations().take()
    assert 0 < (found.failure == Failure.UNUSABLE).sum() == result.run.seen.failures < 600
    assert np.isnan(found.distance[found.failure != Failure.NONE]).all()
