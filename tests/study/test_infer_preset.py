"""The preset "infer": the truths it compares with, the coverage it counts, and the claims it decides."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fbar import problems
from fbar.cli.presets import run_preset
from fbar.cli.score import Ready, Running
from fbar.errors import InputError
from fbar.methods.sampling import Rejection
from fbar.methods.stopping import StandardError
from fbar.problems import stored
from fbar.problems.catalogue import recipes
from fbar.problems.truths import brute_force
from fbar.problems.truths.brute_force import EFFORTS, Accepted, Effort, Kernels, pooled, simulated, truths_at
from fbar.question.truth import Known
from fbar.study import Study, StudyResult
from fbar.study.contenders import Contender
from fbar.study.coverage import Covered, clopper_pearson, coverage_cells, covered
from fbar.study.presets import Chosen, preset
from fbar.study.presets.infer import error_bars, ratios
from fbar.study.presets.infer.stopped import stopping_claims
from fbar.study.presets.infer.studies import forecast_once
from fbar.study.presets.infer.written import markdown
from fbar.study.trials import Cell, TrialRecord

MOST_Z = 4.5


# ---------------------------------------------------------------- truths by brute force


def test_brute_force_finds_a_known_truth():
    """two-moons has its truth at any tolerance by quadrature: what both stages give together must be near it."""
    problem = problems.load("two-moons")
    tolerances = list(problem.tolerances.values())
    found = truths_at(problem, tolerances, Effort(300_000, (100_000, 100_000)), seed=3)
    for tolerance in tolerances:
        known = problem.truth_at(tolerance)
        for name, item in found[tolerance].items():
            assert abs(item.value - known[name].value) < MOST_Z * item.standard_error
            assert item.deviation == pytest.approx(known[name].deviation, rel=0.1)
    fine = found[tolerances[1]]["mean:theta1"]
    assert fine.standard_error < 0.7 * fine.deviation / math.sqrt(300)  # what the prior's 300 acceptances alone give


def test_bad_kernels_do_no_harm():
    """About half of what is accepted. Weights with another share of the prior (a half, for a fifth) are off by 17
    standard errors, weights without the ratio of densities by 160."""
    problem = problems.load("gaussian-mixture")
    tolerance = problem.tolerances[1e-2]
    plain = simulated(problem, tolerance, 100_000, [1])
    half = plain.z[plain.z[:, 0] > np.median(plain.z[:, 0])]
    for item in simulated(problem, tolerance, 200_000, [2], Kernels(half)).moments():
        assert abs(item.value - problem.truth_at(tolerance)[item.name].value) < MOST_Z * item.standard_error


def test_kernels_are_a_density():
    """E over the standard normal of k/φ is 1, and draws have the centres' covariance widened by the kernels'."""
    rng = np.random.default_rng(1)
    kernels = Kernels(rng.standard_normal((50, 2)) * [0.3, 0.5] + [0.5, -0.2])
    ratio = np.exp(kernels.log_ratio(rng.standard_normal((200_000, 2))))
    assert abs(ratio.mean() - 1) < MOST_Z * ratio.std() / math.sqrt(ratio.size)
    drawn = kernels.sample(200_000, rng)
    expected = np.cov(kernels.centres.T, ddof=0) + kernels.scale @ kernels.scale.T
    assert np.cov(drawn.T) == pytest.approx(expected, rel=0.05, abs=0.005)


def test_moments_of_weighted_draws():
    made = Accepted({"a": np.array([1.0, 3.0])}, np.zeros((2, 1)), np.zeros(2), np.array([3.0, 1.0]), 10)
    first, second = made.moments()
    assert (first.name, first.value, first.deviation) == ("mean:a", 1.5, pytest.approx(math.sqrt(0.75)))
    assert first.standard_error == pytest.approx(math.sqrt(9 * 0.25 + 2.25) / 4)
    assert (second.name, second.value) == ("second_moment:a", 3.0)


def test_an_error_that_few_draws_carry_is_refused():
    """A hundred draws of weight 1 and one of weight 100, as far away: it carries the error alone."""
    column = np.append(np.tile([1.0, 3.0], 50), 7.0)
    even = Accepted({"a": column[:-1]}, np.zeros((100, 1)), np.zeros(100), np.ones(100), 100)
    assert even.carriers() == pytest.approx(100)
    lone = Accepted({"a": column}, np.zeros((101, 1)), np.zeros(101), np.append(np.ones(100), 100.0), 101)
    assert lone.carriers() < 2.5
    with pytest.raises(InputError, match="draws carry the error"):
        truths_at(problems.load("ma2"), [0.2], Effort(20_000, (2_000,)), seed=1)


def test_pooled_values_weigh_by_their_inverse_variances():
    found = pooled(Known("x", 1.0, 0.1, 2.0), Known("x", 2.0, 0.2, 2.0))
    assert found.value == pytest.approx((1 / 0.01 + 2 / 0.04) / (1 / 0.01 + 1 / 0.04))
    assert found.standard_error == pytest.approx(1 / math.sqrt(1 / 0.01 + 1 / 0.04))


def test_stages_that_disagree_are_refused(monkeypatch):
    """As they would with weights that fall with the first parameter."""
    right = Kernels.log_ratio
    monkeypatch.setattr(brute_force.Kernels, "log_ratio", lambda self, z: right(self, z) + z[:, 0])
    with pytest.raises(InputError, match="differ by"):
        truths_at(problems.load("two-moons"), [0.2], Effort(50_000, (50_000,)), seed=1)


FRESH = {"sir": 60_000, "lotka-volterra": 25_000, "slcp-distractors": 100_000}


@pytest.mark.slow
@pytest.mark.parametrize("name", EFFORTS)
def test_stored_truths_at_a_tolerance_against_fresh_simulations_from_the_prior(name):
    """Of 200,000 (fewer, where they are slow), at the larger tolerance: 10 moments at most, |z| < 4.5 each.

    A truth of another tolerance is found out: the smaller one's differs from it by more, in some moment, where the data
    tell much (asserted for bernoulli-glm).
    """
    problem = problems.load(name)
    tolerance, smaller = problem.tolerances[1e-2], problem.tolerances[1e-3]
    fresh = simulated(problem, tolerance, FRESH.get(name, 200_000), [99])
    known = problem.truth_at(tolerance)
    z = [
        (item.value - known[item.name].value) / math.hypot(item.standard_error, known[item.name].standard_error)
        for item in fresh.moments()
    ]
    assert max(map(abs, z)) < MOST_Z
    other = problem.truth_at(smaller)
    for truth, rough in ((known, 0.01), (other, 0.015)):
        assert set(truth) == set(problem.truth())
        assert max(item.standard_error / item.deviation for item in truth.values()) < rough
        assert truth.how.startswith("brute force")
    if name == "bernoulli-glm":
        assert max(abs(i.value - other[i.name].value) / i.standard_error for i in fresh.moments()) > MOST_Z


def test_the_stored_files_keep_what_was_there():
    """Truths at a tolerance stand beside the truth of the posterior, for the first observation."""
    for name in EFFORTS:
        kept = stored.read(name)
        assert len(kept) == 10
        assert kept[1].truth is not None
        assert set(kept[1].truths_at) == set(kept[1].tolerances.values())


# ---------------------------------------------------------------- coverage


def test_clopper_pearson_against_binomial_tails():
    low, high = clopper_pearson(185, 200, 0.999)
    assert stats.binom.sf(184, 200, low) == pytest.approx(0.0005)
    assert stats.binom.cdf(185, 200, high) == pytest.approx(0.0005)
    assert clopper_pearson(0, 5)[0] == 0
    assert clopper_pearson(5, 5)[1] == 1


def held(size, spread=1.0, trusted=True, truth_error=0.0, off=0.0, df=np.inf):
    """A cell of normal errors whose error bars are too small by ``spread``, at exact normal quantiles."""
    errors = spread * stats.norm.ppf((np.arange(size) + 0.5) / size) + off
    return covered(errors, np.ones(size), np.full(size, df), np.full(size, trusted), truth_error)


def cell(counts, size=200, **changed):
    made = Covered("s", "p", "targeted", 100, "mean:a", size, 0, *counts, 0.01, 0.001, 1.0, 0.0, 100.0)
    return replace(made, **changed)


def test_what_is_counted():
    holds, unflagged, good, low, high = held(200)
    assert (holds, unflagged, good) == (190, 200, 190)
    assert low < 0.92 < 0.95 < high
    assert held(200, trusted=False)[1:] == (0, 0, 0.0, 1.0)
    assert held(200, df=3)[0] > 190  # Student's t with the error bar's own degrees of freedom
    bars, df = np.array([1.0, np.nan, 1.0, 1.0]), np.array([np.inf, np.inf, np.inf, np.nan])
    assert covered(np.zeros(4), bars, df, [True, True, False, True])[:3] == (2, 1, 1)  # no error bar holds nothing


def test_a_cell_that_holds_too_seldom_or_too_often_fails():
    assert not error_bars.missed(cell(held(200)))
    assert error_bars.missed(cell(held(200, spread=1.53)))  # 80%
    assert error_bars.missed(cell(held(1000, spread=0.5)))  # 99.99%
    assert not error_bars.missed(cell(held(200, spread=1.1)))  # 92.5%, open
    assert not error_bars.missed(cell(held(200, spread=1.53, trusted=False)))  # nothing unflagged to judge


def test_the_error_of_the_truth_is_not_held_against_a_cell():
    """Off by twice its error, as large as the runs' own: coverage 48% with intervals that do not know."""
    assert error_bars.missed(cell(held(200, off=2.0)))
    found = cell(held(200, off=2.0, truth_error=1.0))
    assert not error_bars.missed(found)
    assert found.coverage == pytest.approx(stats.norm.cdf(1.96 * math.sqrt(2) - 2), abs=0.01)
    assert error_bars.missed(cell(held(200, off=2.0, truth_error=0.05)))


def claims_of(*cells):
    return {
        (claim.text.partition(": ")[2][:12], claim.problem): claim for claim in error_bars.coverage_claims("s", cells)
    }


def test_claims_on_error_bars():
    good, low = cell(held(200)), cell(held(200, spread=1.53), problem="low")
    found = claims_of(good, good)
    assert all(claim.holds for claim in found.values())
    assert len(found) == 4

    found = claims_of(good, low)
    assert not found["95% interval", "each cell"].holds
    assert "low mean:a 0.80" in found["95% interval", "each cell"].found
    assert not found["95% interval", "pooled"].holds  # (0.95 + 0.80)/2
    assert not found["where under ", "each cell"].holds  # 80% over all runs, and none warns
    assert found["where at lea", "each cell"].holds

    warned = replace(low, unflagged=16, held_unflagged=15, low=0.5, high=1.0)  # 92% warn
    found = claims_of(good, good, warned)
    assert all(claim.holds for claim in found.values())
    found = claims_of(good, replace(warned, unflagged=24, held_unflagged=23))  # 88% warn
    assert not found["where under ", "each cell"].holds

    noisy = replace(good, unflagged=189, held_unflagged=180)  # 5.5% warn
    assert not claims_of(noisy)["where at lea", "each cell"].holds
    assert claims_of(replace(good, unflagged=190, held_unflagged=181))["where at lea", "each cell"].holds
    assert not claims_of(replace(good, failed=1))["no run fails", "each cell"].holds


def test_verdicts_name_what_is_wrong():
    assert error_bars.verdict(cell(held(200))) == "ok"
    assert error_bars.verdict(cell(held(200, spread=1.53))) == "coverage silent"
    assert "coverage silent" in markdown([cell(held(200, spread=1.53))])


def result_of(errors, *, flagged=(), prior=(), name="targeted", truth=None):
    """A study of the ramp's mean, 2/3, by methods whose estimates are off as given, each with a claimed error of 1."""
    arena = Study("ramp", "rejection", 10, targets="mean:theta").arenas["ramp"]
    listed = {name: errors} if not isinstance(errors, dict) else errors
    trials = {}
    for method, given in listed.items():
        for trial, error in enumerate(given):
            value = 2 / 3 + float(error)
            estimate = (value, math.nan if trial in prior else 1.0, math.inf, trial not in flagged)
            trials[Cell("ramp", method, 10), trial] = TrialRecord(
                "prior" if trial in prior else "ok",
                10,
                estimates={"mean:theta": estimate},
                scores={"mse": {"mean:theta": float(error) ** 2}},
            )
    return StudyResult(trials, {"ramp": arena}, ["mse"], {})


def test_cells_of_a_study():
    """Five runs: three hold, one of them flagged; one misses; one accepted nothing, so that it has no answer."""
    [found] = coverage_cells("s", result_of([0.1, 0.2, 0.3, 5.0, 0.0], flagged=[2], prior=[4]))
    assert (found.runs, found.held, found.unflagged, found.held_unflagged) == (5, 3, 3, 2)
    assert found.flagged == pytest.approx(0.4)
    assert found.b2 == pytest.approx((0.01 + 0.04 + 0.09 + 25) / 5 / (1 / 18))  # Var of the ramp's posterior is 1/18


# ---------------------------------------------------------------- claims on the error


def test_claims_on_ratios():
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(600)
    better = {"targeted": noise, "smc-last": 2.5 * rng.standard_normal(600), "rejection": 1.02 * noise[::-1]}
    [third] = ratios.at_most(result_of(better), "smc-last", 1 / 3, "a third")
    assert third.holds
    *_, ratio = ratios.against(result_of(better), "targeted", "smc-last")
    assert ratio.comparison.ratio == pytest.approx(1 / 6.25, rel=0.2)
    beside = ratios.against_others("s", result_of(better))
    assert [claim.holds for claim in beside] == [True, True]
    worse = {"targeted": 1.5 * noise, "smc-last": noise[::-1], "rejection": rng.standard_normal(600)}
    assert [claim.holds for claim in ratios.against_others("s", result_of(worse))] == [False, False]
    [open_] = ratios.at_most(result_of({"targeted": 1.25 * noise, "optimal": noise[::-1]}), "optimal", 1.6, "near")
    assert not open_.holds  # 1.5625, and its interval reaches over 1.6


def test_a_rough_truth_calls_nothing(monkeypatch):
    """With a truth whose squared error is half of the better method's b², twice the error is not beyond doubt."""
    rng = np.random.default_rng(6)
    given = result_of({"targeted": rng.standard_normal(200), "rejection": 0.7 * rng.standard_normal(200)})
    [plain] = ratios.against_others("s", given)
    assert not plain.holds
    monkeypatch.setattr(ratios, "truth_part", lambda result, problem: 0.5 * 18 * 0.49)
    [rough] = ratios.against_others("s", given)
    assert rough.holds
    assert "the truth's own squared error is 47%" in rough.found


# ---------------------------------------------------------------- running it


def test_runs_that_stop_at_a_precision():
    """They end when the error bar is small enough, tell that they did, and are what they were when read again."""
    seen = []
    stopping = Contender(
        "stopping",
        Rejection(),
        precision={"mean:theta": 0.01},
        watch=lambda run, rule, told: (seen.append(rule), told.update(blocks=told.get("blocks", 0.0) + 1)),
    )
    short = replace(stopping, name="short", precision={"mean:theta": 1e-4}, watch=None)
    result = Study("ramp", [stopping, short], 20_000, 3, ["mse", "coverage"], targets="mean:theta").run(
        workers=1, progress=False
    )
    assert seen[0] == StandardError("mean:theta", 0.01)
    for _, record in result.records("ramp", "stopping", 20_000):
        assert record.told["stopped"] == 1.0
        assert record.told["blocks"] >= 1
        assert 50 < record.simulations < 10_000  # about (√(1/18)/0.01)² = 556 acceptances of half the simulations
        assert record.estimates["mean:theta"][1] <= 0.01
        assert TrialRecord.from_dict(record.as_dict()) == record
    for _, record in result.records("ramp", "short", 20_000):
        assert (record.told["stopped"], record.simulations) == (0.0, 20_000)
    assert stopping.described() != short.described()
    claims = stopping_claims(result)
    assert [claim.holds for claim in claims] == [True, False]


def test_forecasts_are_told_once():
    """The first one after 4,000 simulations stays, though the run goes on and would forecast better."""
    seen = []

    def watch(run, rule, told):
        forecast_once(run, rule, told)
        seen.append(told.get("forecast"))

    watched = Contender("w", Rejection(), precision={"mean:theta": 0.002}, watch=watch)
    result = Study("ramp", watched, 100_000, 1, ["mse"], targets="mean:theta").run(workers=1, progress=False)
    [(_, record)] = result.records("ramp", "w", 100_000)
    assert 4000 < record.told["forecast_low"] < record.told["forecast"] < record.told["forecast_high"]
    assert record.told["forecast"] == pytest.approx(record.simulations, rel=0.5)
    assert {item for item in seen if item is not None} == {record.told["forecast"]}
    assert seen.count(None) < len(seen) - 1
    [claim] = stopping_claims(result)
    assert "times the forecast after 4,000" in claim.found


def test_the_studies_ask_what_they_should():
    made = preset("infer").make(Chosen())
    assert set(made) == {"oracle", "ring", "events", "catalogue-small", "catalogue-large", "stopping"}
    for name, level, budget in (("catalogue-small", 1e-2, 10_000), ("catalogue-large", 1e-3, 100_000)):
        study = made[name]
        assert set(study.arenas) == set(recipes())  # every one has a truth at the tolerance
        assert (study.trials, study.budgets) == (200, (budget,))
        for problem, arena in study.arenas.items():
            assert arena.tolerance == problems.load(problem).tolerances[level]
            assert len(arena.targets) in (3, 4)
    assert made["ring"].arenas["filippi"].tolerance == 1.0
    assert made["oracle"].budgets == (2**15,)


def test_a_part_of_a_study_has_the_trials_of_the_whole():
    study = Study(["ramp", "two-sided-exponential"], "rejection", 200, 2, ["mse"])
    whole = study.run(workers=1, progress=False)
    part = study.only(["ramp"]).run(workers=1, progress=False)
    assert set(part.arenas) == {"ramp"}
    for key, record in part.trials.items():
        assert record.estimates == whole.trials[key].estimates
    with pytest.raises(InputError, match="has none of these problems"):
        study.only(["sir"])


@pytest.mark.slow
def test_a_small_run_writes_its_cells_and_goes_on(tmp_path, capsys):
    def run(studies=None, problems=None):
        ready, running = Ready("infer", studies), Running(1, 1, None, tmp_path, json_=True)
        run_preset("infer", ready, running, trials=3, problems=problems)

    run(studies=["events"], problems=["ramp"])
    run(studies=["events", "catalogue-small"], problems=["ramp", "gaussian-mixture"])
    assert "events: not significantly worse than rejection" in capsys.readouterr().out
    with open(tmp_path / "cells.csv", newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 2 * 2 + 3 * 4  # methods × targets
    assert {row["problem"] for row in cells} == {"ramp", "gaussian-mixture"}
    with gzip.open(tmp_path / "trials.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(cells)
    assert {row["trusted"] for row in rows} <= {"0", "1"}
    before = (tmp_path / "trials.csv.gz").read_bytes()
    lines = (tmp_path / "events" / "trials.jsonl").read_bytes()
    run(studies=["events", "catalogue-small"], problems=["ramp", "gaussian-mixture"])
    assert (tmp_path / "trials.csv.gz").read_bytes() == before
    assert (tmp_path / "events" / "trials.jsonl").read_bytes() == lines  # nothing was run twice
    with pytest.raises(InputError, match="did you mean 'events'"):
        run(studies=["event"])
    with pytest.raises(InputError, match="in the preset infer"):
        run(problems=["rampe"])
