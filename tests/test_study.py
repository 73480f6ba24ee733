"""Studies: what is run, what is kept, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import fbar
from fbar import problems
from fbar.errors import FbarError, InputError
from fbar.study import BudgetExceeded, Posed, Study, StudyResult, presets
from fbar.study.curves import Curve, _line, relative
from fbar.study.paired import compare, holm
from fbar.study.trials import Cell, Record


def half_of_it(problem, budget, rng):
    """Rejection with half its budget."""
    theta = problem.prior.sample(budget // 2, rng=rng)
    return theta.take(np.flatnonzero(problem.matches(theta, rng)))


def all_of_it(problem, budget, rng):
    theta = problem.prior.sample(budget, rng=rng)
    return theta.take(np.flatnonzero(problem.matches(theta, rng)))


def too_much(problem, budget, rng):
    problem.matches(problem.prior.sample(budget, rng=rng), rng)
    problem.matches(problem.prior.sample(1, rng=rng), rng)


def swallows(problem, budget, rng):
    """Goes on as if nothing had happened."""
    theta = problem.prior.sample(budget, rng=rng)
    held = problem.matches(theta, rng)
    try:
        problem.matches(problem.prior.sample(5, rng=rng), rng)
    except BudgetExceeded:
        return theta.take(np.flatnonzero(held))


def nothing(problem, budget, rng):
    return None


def broken(problem, budget, rng):
    raise ZeroDivisionError("a bug of mine")


def leaves(problem, budget, rng):
    sys.exit(3)


def estimates_alone(problem, budget, rng):
    theta = problem.prior.sample(budget, rng=rng)
    x = theta["theta"][problem.matches(theta, rng)]
    return {"mean:theta": (x.mean(), x.std() / np.sqrt(len(x)))}


def same(first, second):
    """Whether two results are the same but for the time they took (as text, in which NaN equals itself)."""
    return [
        {key: repr(replace(record, seconds=0.0)) for key, record in result.trials.items()} for result in (first, second)
    ] == [{key: repr(replace(record, seconds=0.0)) for key, record in first.trials.items()}] * 2


def run(*arguments, **options):
    return Study(*arguments, **options).run(workers=1, progress=False)


# ---------------------------------------------------------------- the problem as it is posed


@pytest.mark.parametrize("name", ["ramp", "two-hypotheses", "gaussian-linear"])
def test_the_simulator_counts_and_refuses(name):
    problem = problems.load(name)
    posed = Posed.of(problem, 10, 1.0 if problem.has_summaries else 0.0)
    rng = np.random.default_rng(1)
    posed.matches(posed.prior.sample(7, rng=rng), rng)
    assert (posed.spent, posed.left) == (7, 3)
    with pytest.raises(BudgetExceeded, match=r"asked for 4 more simulations after 7; its budget is 10"):
        posed.matches(posed.prior.sample(4, rng=rng), rng)
    assert posed.spent == 7
    posed.simulate(posed.prior.sample(3, rng=rng), rng)
    with pytest.raises(BudgetExceeded):
        posed.simulate(posed.prior.sample(1, rng=rng), rng)


def test_the_truth_is_hidden():
    posed = Posed.of(problems.load("ramp"), 10)
    with pytest.raises(InputError, match="does not see the truth"):
        posed.truth(fbar.mean("theta"))
    assert problems.load("ramp").truth(fbar.mean("theta"))[0] == pytest.approx(2 / 3)


def test_matches_accepts_as_often_as_it_should():
    """|z| < 5: a false alarm in about two million runs for each."""
    rng = np.random.default_rng(2)
    for name, p in (("ramp", 0.5), ("two-hypotheses", 0.175)):
        posed = Posed.of(problems.load(name), 20_000)
        hits = posed.matches(posed.prior.sample(20_000, rng=rng), rng).sum()
        assert abs(hits - 20_000 * p) < 5 * np.sqrt(20_000 * p * (1 - p))


# ---------------------------------------------------------------- algorithms of any kind


def test_what_goes_wrong_is_recorded_and_the_study_goes_on():
    result = run("ramp", [half_of_it, too_much, nothing, broken, leaves], 100, trials=3)
    assert result.statuses("ramp", "half-of-it", 100) == ["ok"] * 3
    told = {row["method"]: row["message"] for row in result.failures()}
    assert told["too-much"] == "the algorithm asked for 1 more simulations after 100; its budget is 100"
    assert told["nothing"].startswith("the algorithm returned nothing")
    assert told["broken"] == "ZeroDivisionError: a bug of mine"
    assert told["leaves"] == "SystemExit: 3"
    assert [row["trials"] for row in result.failures()] == [3, 3, 3, 3]
    assert {row["method"]: row["failed"] for row in result.summary()}["broken"] == 3
    ranking = result.ranking()
    assert {s.method: s.failed for s in ranking.standings}["broken"] == 3
    assert "trials that failed are left out" in str(ranking)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((5, 3)), "samples must have 1 columns"),
        (np.array([0.1, np.nan]), "not finite"),
        (([0.1, 0.2], [1.0, np.nan]), "weight 1 is NaN"),
        (([0.1, 0.2], [1.0, -1.0]), "at least 0; weight 1 is -1"),
        (([0.1, 0.2], [0.0, 0.0]), "all weights are zero"),
        (([0.1, 0.2], [1.0, 2.0, 3.0]), "weights must be 2 numbers"),
        ({"other": [1.0]}, "lack the parameter 'theta'"),
        ({"mean:theta": np.nan}, "must be a finite number"),
        ("a cloud", "samples must be numbers"),
    ],
)
def test_results_that_cannot_be_used(returned, message):
    result = run("ramp", {"odd": lambda problem, budget, rng: returned}, 10, trials=2)
    assert all(message in row["message"] for row in result.failures())
    assert result.statuses("ramp", "odd", 10) == ["failed"] * 2


def test_estimates_alone_are_scored_by_what_they_have():
    result = run("ramp", [estimates_alone], 2000, trials=40, targets="mean:theta", scores=["mse", "coverage", "ess"])
    assert "gave estimates alone" in result.undefined()[0]["why"]
    [mse, coverage] = result.summary()[:2]
    assert mse["trials"] == 40
    assert 0.5 < mse["draws"] / 1000 < 2  # half of 2000 are accepted; 40 trials know it to 22%, so this is 4 errors off
    assert coverage["mean"] >= 0.8


def test_without_acceptances_the_prior_is_scored():
    problem = fbar.Problem(
        fbar.Prior(theta=fbar.priors.marginals.Uniform(0, 1)),
        lambda t, rng: t["theta"] + 100.0,
        0.0,
        truth={"mean:theta": (0.7, 0.0)},
    )
    result = run({"far": problem}, "rejection", 50, trials=3, tolerance={"far": 1e-9})
    assert result.statuses("far", "rejection", 50) == ["prior"] * 3
    for record in result.trials.values():
        assert record.estimates["mean:theta"][0] == pytest.approx(0.5, abs=0.02)
        assert record.scores["mse"]["mean:theta"] == pytest.approx(0.04, abs=0.01)
        assert record.scores["ess"][""] == record.scores["acceptance-rate"][""] == 0
        assert "rejected" in record.message
    assert result.ranking().standings[0].from_prior == 3


@pytest.mark.parametrize("returned", [np.zeros((0, 1)), (np.zeros((0, 1)), np.zeros(0)), fbar.Points({"theta": []})])
def test_a_function_that_accepts_nothing_is_scored_as_a_method_that_does(returned):
    """Its worst trials would be left out of the comparison otherwise."""
    result = run("ramp", {"unlucky": lambda problem, budget, rng: returned}, 10, trials=2)
    assert result.statuses("ramp", "unlucky", 10) == ["prior"] * 2


def test_a_function_sees_no_truth():
    def peeks(problem, budget, rng):
        for name in ("recipe", "_known", "reference", "true_parameters"):
            try:
                getattr(problem, name)
            except (AttributeError, InputError):
                continue
            raise RuntimeError(f"it has {name}")
        raise RuntimeError("nothing to be seen")

    problem = problems.load("gaussian-linear")
    problem.truth()
    assert not Posed.of(own_problem(0.1, 0.5), 10)._truth
    result = run({"seen": problem}, {"peeks": peeks}, 10, trials=1, tolerance={"seen": 1.0})
    assert [row["message"] for row in result.failures()] == ["RuntimeError: nothing to be seen"]


def test_what_a_function_changes_reaches_no_other_trial():
    def greedy(problem, budget, rng):
        problem.tolerance, problem.meter.budget = 1e9, 10**9
        return all_of_it(problem, budget, rng)

    def vandal(problem, budget, rng):
        problem.observed[...] = 0

    alone = run("gaussian-linear", "rejection", 200, trials=3)
    after = run("gaussian-linear", {"greedy": greedy, "vandal": vandal, "rejection": "rejection"}, 200, trials=3)
    for (cell, trial), record in alone.trials.items():
        assert repr(replace(record, seconds=0)) == repr(replace(after.trials[cell, trial], seconds=0))
    assert "read-only" in after.failures()[0]["message"]


def test_a_function_that_says_it_ran_more_than_its_budget_has_failed():
    def boasts(problem, budget, rng):
        return fbar.scores.Approximation(problem.prior.sample(5, rng=rng), np.ones(5) / 5, budget + 1)

    def helps_itself(problem, budget, rng):
        problem.meter.budget = 10**9
        return all_of_it(problem, budget + 2, rng)

    result = run("ramp", [boasts, helps_itself], 10, trials=1)
    told = {row["method"]: row["message"] for row in result.failures()}
    assert told == {
        "boasts": "the algorithm ran 11 simulations; its budget is 10",
        "helps-itself": "the algorithm ran 12 simulations; its budget is 10",
    }


@pytest.mark.parametrize("name", ["ramp", "two-hypotheses", "gaussian-linear"])
def test_the_simulator_takes_plain_arrays_too(name):
    problem = problems.load(name)
    posed = Posed.of(problem, 12, 1.0 if problem.has_summaries else 0.0)
    theta = posed.prior.sample(6, rng=np.random.default_rng(1))
    array = np.column_stack([theta[n] for n in posed.prior.names])
    found = [posed.matches(given, np.random.default_rng(2)) for given in (theta, array)]
    assert np.array_equal(*found)
    assert posed.spent == 12
    with pytest.raises(InputError, match="columns, one for each parameter"):
        posed.simulate(np.zeros((3, 99)), np.random.default_rng(2))


def test_estimates_that_leave_a_target_out():
    result = run("ramp", {"one": lambda problem, budget, rng: {"mean:theta": 0.5}}, 10, trials=2, scores=["mse"])
    [row] = result.undefined()
    assert row["why"] == "the algorithm gave estimates alone, and none of second_moment:theta; it gave: mean:theta"


# ---------------------------------------------------------------- seeds, processes, and what is kept


def of_global_numbers(problem, budget, rng):
    import random

    u = np.random.uniform(size=budget) ** random.random()  # noqa: NPY002 - as other packages do
    return {"mean:theta": u.mean()}


def test_global_numbers_are_seeded_too():
    """Forked processes share their state: their trials would repeat each other."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    study = Study("ramp", [of_global_numbers], 5, trials=60, targets="mean:theta", scores=["mse"])
    one, two = study.run(workers=1, progress=False), study.run(workers=2, progress=False)
    assert same(one, two)
    assert len({record.estimates["mean:theta"][0] for record in one.trials.values()}) == 60
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_problems_of_a_study_are_independent():
    result = run(["gaussian-linear", "gaussian-linear/2"], {"u": lambda p, b, rng: rng.random((3, 10))}, 10, trials=2)
    found = {record.estimates["mean:theta1"][0] for record in result.trials.values()}
    assert len(found) == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_slow_trials_are_kept_before_their_chunk_is_done(tmp_path, monkeypatch, workers):
    """All ten are one chunk by their budget; each is told of as it ends, and in the file by then."""
    from fbar.study import pool

    monkeypatch.setattr(pool, "SECONDS", 0.0)
    told, file = [], tmp_path / "trials.jsonl"
    study = Study("ramp", [all_of_it], 20, trials=10, scores=["mse"])

    def look(share, trials, whole):
        told.append((trials, len(file.read_bytes().splitlines())))

    found = study.run(tmp_path, workers=workers, progress=look)
    assert told == [(n, n) for n in range(1, 11)]
    monkeypatch.setattr(pool, "SECONDS", 100.0)
    assert same(found, study.run(workers=1, progress=False))
    with ThreadPoolExecutor(2) as executor:
        monkeypatch.setattr(pool, "SECONDS", 0.0)
        assert same(found, study.run(client=executor, progress=False))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_an_algorithm_prints_is_not_what_the_study_found(capfd, workers):
    def talks(problem, budget, rng):
        print("hello", flush=True)
        return all_of_it(problem, budget, rng)

    Study("ramp", {"talks": talks}, 20, trials=2).run(workers=workers, progress=False)
    out, err = capfd.readouterr()
    assert (out, err.count("hello")) == ("", 2)


def test_trials_are_independent_and_methods_share_them():
    result = run("ramp", {"a": all_of_it, "b": all_of_it}, [100, 200], trials=30, targets="mean:theta")
    found = {
        n: [result.trials[c, t].estimates["mean:theta"][0] for c in result.cells if c.method == n for t in range(30)]
        for n in "ab"
    }
    assert found["a"] == found["b"]
    assert len(set(found["a"])) == 60


def test_the_same_on_any_number_of_processes_and_executors():
    study = Study(["ramp", "gaussian-linear"], ["rejection", half_of_it], [60, 300], trials=4)
    one = study.run(workers=1, progress=False)
    assert same(one, study.run(workers=2, progress=False))
    with ThreadPoolExecutor(2) as executor:
        assert same(one, study.run(client=executor, progress=False))
    assert not same(
        one, Study(["ramp", "gaussian-linear"], ["rejection", half_of_it], [60, 300], 4, seed=2).run(workers=1)
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_same_on_dask():
    distributed = pytest.importorskip("distributed")
    study = Study("ramp", ["rejection", half_of_it], 100, trials=6)
    one = study.run(workers=1, progress=False)
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert same(one, study.run(client=client, progress=False))


def test_a_study_grows_and_keeps_what_it_has(tmp_path):
    small = Study("ramp", "rejection", 100, trials=5, seed=3).run(tmp_path, workers=1, progress=False)
    lines = (tmp_path / "trials.jsonl").read_bytes().splitlines()
    grown = Study(["ramp", "gaussian-linear"], ["rejection", half_of_it], [100, 50], trials=7, seed=3)
    large = grown.run(tmp_path, workers=1, progress=False)
    assert (tmp_path / "trials.jsonl").read_bytes().splitlines()[: len(lines)] == lines
    assert all(
        repr(replace(large.trials[k], seconds=0)) == repr(replace(r, seconds=0)) for k, r in small.trials.items()
    )
    assert len((tmp_path / "trials.jsonl").read_bytes().splitlines()) == 2 * 2 * 2 * 7
    assert same(large, grown.run(workers=1, progress=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 4}, "seed '3', not '4'"),
        ({"scores": ["mse"]}, "scores"),
        ({"methods": {"rejection": fbar.Rejection(kernel="gaussian")}}, "method 'rejection' with other settings"),
        ({"targets": "mean:theta"}, "problem 'ramp' with other settings"),
    ],
)
def test_other_settings_are_refused(tmp_path, options, message):
    Study("ramp", "rejection", 100, trials=2, seed=3).run(tmp_path, workers=1, progress=False)
    arguments = {"problems": "ramp", "methods": "rejection", "budgets": 100, "trials": 2, "seed": 3, **options}
    with pytest.raises(InputError, match=message):
        Study(**arguments).run(tmp_path, workers=1, progress=False)


def test_a_problem_that_was_left_out_meanwhile_is_still_known(tmp_path):
    options = {"trials": 2, "scores": ["mse"]}
    for name in ("ramp", "gaussian-linear"):
        Study(name, "rejection", 100, **options).run(tmp_path, workers=1, progress=False)
    with pytest.raises(InputError, match="problem 'ramp' with other settings"):
        Study("ramp", "rejection", 100, targets="mean:theta", **options).run(tmp_path, workers=1, progress=False)


def own_problem(noise, truth):
    return fbar.Problem(
        fbar.Prior(theta=fbar.priors.marginals.Uniform(0, 1)),
        lambda t, rng: t["theta"] + rng.normal(0, noise, t.rows),
        0.5,
        truth={"mean:theta": truth},
    )


def test_another_problem_of_the_same_name_is_refused(tmp_path):
    def study(*arguments):
        return Study({"own": own_problem(*arguments)}, "rejection", 50, 2, tolerance={"own": 0.1})

    for _ in range(2):
        study(0.1, 0.5).run(tmp_path, workers=1, progress=False)
    for other in ((0.2, 0.5), (0.1, 0.6)):
        with pytest.raises(InputError, match="problem 'own' with other settings"):
            study(*other).run(tmp_path, workers=1, progress=False)


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_trials_without_their_settings_are_not_taken_for_ones_own(tmp_path, text):
    Study("ramp", "rejection", 100, trials=2, seed=1).run(tmp_path, workers=1, progress=False)
    file = tmp_path / "study.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=r"study\.json is missing or damaged"):
        Study("ramp", "rejection", 100, trials=2, seed=2).run(tmp_path, workers=1, progress=False)


def test_damaged_lines_are_run_again(tmp_path):
    study = Study("ramp", "rejection", 100, trials=6)
    whole = study.run(tmp_path, workers=1, progress=False)
    file = tmp_path / "trials.jsonl"
    raw = bytearray(file.read_bytes())
    lines = bytes(raw).splitlines(keepends=True)
    raw[len(lines[0]) + 60] ^= 1  # in the second line
    file.write_bytes(bytes(raw[: len(raw) - 20]))  # and the last one is cut
    again = study.run(tmp_path, workers=1, progress=False)
    assert same(whole, again)
    assert len(file.read_bytes().splitlines()) == 8
    assert same(whole, study.run(tmp_path, workers=1, progress=False))
    assert len(file.read_bytes().splitlines()) == 8


def test_what_went_wrong_is_kept_too(tmp_path):
    study = Study("ramp", [broken], 10, trials=2)
    for _ in range(2):
        [row] = study.run(tmp_path, workers=1, progress=False).failures()
        assert (row["trials"], row["message"]) == (2, "ZeroDivisionError: a bug of mine")


def test_a_changed_digit_is_noticed(tmp_path):
    """The line is JSON as before, of another number: its checksum alone tells."""
    study = Study("ramp", "rejection", 100, trials=3, targets="mean:theta", scores=["mse"])
    whole = study.run(tmp_path, workers=1, progress=False)
    file = tmp_path / "trials.jsonl"
    text = file.read_text()
    assert text.count('"simulations": 100') == 3
    file.write_text(text.replace('"simulations": 100', '"simulations": 900', 1))
    assert same(whole, study.run(tmp_path, workers=1, progress=False))


SLOW = """
import sys, time
import numpy as np
from fbar.study import Study

def slow(problem, budget, rng):
    time.sleep(0.02)
    theta = problem.prior.sample(budget, rng=rng)
    return theta.take(np.flatnonzero(problem.matches(theta, rng)))

if __name__ == "__main__":
    study = Study("ramp", {"slow": slow}, [40_000, 50_000], trials=40, targets="mean:theta", scores=["mse"])
    study.run(sys.argv[1], workers=int(sys.argv[2]), progress=False)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_lost_when_the_study_is_killed(tmp_path, workers):
    """Killed at several moments, it goes on each time, and ends as one that was not."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    out = tmp_path / "out"
    seen = b""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, script, out, str(workers)], stderr=subprocess.DEVNULL)
        file = out / "trials.jsonl"
        before = file.stat().st_size if file.exists() else 0
        deadline = time.monotonic() + 60
        while (not file.exists() or file.stat().st_size < before + 2000) and time.monotonic() < deadline:
            if process.poll() is not None:
                break
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        now = file.read_bytes()
        assert now.startswith(seen)
        seen = now[: now.rfind(b"\n") + 1]
    assert len(seen.splitlines()) >= 3
    subprocess.run([sys.executable, script, out, str(workers)], check=True, timeout=120)
    subprocess.run([sys.executable, script, tmp_path / "whole", "1"], check=True, timeout=120)

    def records(directory):
        rows = {}
        for line in (directory / "trials.jsonl").read_bytes().splitlines():
            row = json.loads(line.split(b" ", 1)[1]) if line.count(b"}") and line.endswith(b"}") else None
            if row is not None:
                row["record"]["seconds"] = 0
                key = row["budget"], row["trial"]
                assert key not in rows, "a trial was run twice"
                rows[key] = row
        return rows

    assert records(out) == records(tmp_path / "whole")
    assert len(records(out)) == 80


def test_a_trial_that_ends_its_process_is_a_failed_one():
    def deadly(problem, budget, rng):
        if rng.random() < 0.3:
            os.kill(os.getpid(), signal.SIGKILL)
        return all_of_it(problem, budget, rng)

    result = Study("ramp", {"deadly": deadly, "all": all_of_it}, 100, trials=12).run(workers=2, progress=False)
    assert set(result.statuses("ramp", "all", 100)) == {"ok"}
    found = result.statuses("ramp", "deadly", 100)
    assert 0 < found.count("failed") < 12
    assert "ended its process" in result.failures()[0]["message"]


def test_two_drivers_cannot_hold_one_study(tmp_path):
    from fbar.locks import Lock, RunInUse

    study = Study("ramp", "rejection", 100, trials=2)
    study.run(tmp_path, workers=1, progress=False)
    held = Lock(tmp_path / "driver.lock")
    try:
        with pytest.raises(RunInUse, match="in use by another driver"):
            study.run(tmp_path, workers=1, progress=False)
    finally:
        held.release()


# ---------------------------------------------------------------- what is compared


def test_all_methods_accept_at_the_studys_tolerance():
    """Estimates are those of ABC at the tolerance, |z| < 5; the true posterior's are over ten errors away."""
    methods = ["rejection", "smc", all_of_it]
    result = run(
        "gaussian-mixture", methods, 1500, 30, ["mse", "acceptance-rate"], targets="mean:theta1", truth="tolerance"
    )
    problem = problems.load("gaussian-mixture")
    away = problem.truth_at(problem.tolerances[1e-2])["mean:theta1"].value - problem.truth()["mean:theta1"].value
    for row in (row for row in result.summary() if row["score"] == "mse"):
        assert abs(row["bias"]) < 5 * row["bias_error"]
        assert abs(away) > 10 * row["bias_error"]
    rate = result.values("acceptance-rate", "gaussian-mixture", "rejection", 1500)
    assert abs(rate.mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / (30 * 1500))


def test_smc_that_does_not_come_down_is_taken_at_the_tolerance():
    """At 600 simulations its last round is far above the tolerance; its points within it are few, and right."""
    result = run("gaussian-mixture", "smc", 600, 30, ["mse"], targets="mean:theta1", tolerance=1e-3, truth="tolerance")
    [row] = result.summary()
    assert abs(row["bias"]) < 5 * row["bias_error"] < 0.4


def test_a_score_against_another_shares_the_level_between_them():
    """A difference at 4% on its own is called by the ranking, and not by half the level."""
    arenas = Study("ramp", "rejection", 10, targets="mean:theta").arenas
    rng = np.random.default_rng(10)
    base, spread = rng.gamma(20, size=40), rng.standard_normal(40)
    spread -= spread.mean()
    off = next(d for d in np.linspace(0, 5, 5001) if compare(base + d + spread, base).p < 0.04)
    trials = {
        (Cell("ramp", method, 10), trial): Record("ok", scores={"mse": {"mean:theta": value}, "ess": {"": 1 + value}})
        for method, values in (("a", base + off + spread), ("b", base))
        for trial, value in enumerate(values.tolist())
    }
    result = StudyResult(trials, arenas, ["mse", "ess"], {})
    assert result.ranking().verdicts[0].better == "b"
    found = result.against("ess")
    assert (len(found.misled), len(found.agreed), found.open) == (0, 0, 1)
    sharp = {
        key: replace(r, scores={**r.scores, "ess": {"": 1.0 + "ab".index(key[0].method)}}) for key, r in trials.items()
    }
    found = StudyResult(sharp, arenas, ["mse", "ess"], {}).against("ess")
    assert (len(found.misled), len(found.agreed), found.open) == (0, 0, 1), "one that is open leaves the pair open"
    loose = result.against("ess", level=0.1)
    assert [(u.better, v.better) for u, v in loose.misled] == [("a", "b")]


# ---------------------------------------------------------------- what is said


def test_no_difference_is_called_where_there_is_none():
    """Four equal methods with the squared errors of a normal estimate: any verdict in at most 5% of 400 studies.

    The bound is that of 400 · 5% and five errors of the count (a false alarm in two million runs). Methods of equal
    mean and other shapes are the harder case.
    """
    rng = np.random.default_rng(5)
    shapes = [
        lambda size: rng.chisquare(1, size),
        lambda size: rng.chisquare(5, size) / 5,
        lambda size: rng.exponential(1, size),
        lambda size: rng.pareto(3, size) * 2,
    ]
    for kinds in ([shapes[0]] * 4, shapes):
        wrong = 0
        for _ in range(400):
            values = [kind(60) for kind in kinds]
            wrong += any(holm([compare(a, b).p for a, b in combinations(values, 2)], 0.05))
        assert wrong <= 20 + 5 * np.sqrt(400 * 0.05 * 0.95)


def test_ratios_have_honest_intervals():
    """A true ratio of 2 between paired, skewed scores is in the 95% interval in 95% of 500 studies, within 5 errors."""
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(500):
        shared = rng.chisquare(3, 100)
        low, high = compare(2 * shared * rng.chisquare(4, 100), shared * rng.chisquare(4, 100)).interval()
        held += low < 2 < high
    assert abs(held / 500 - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 500)


def test_compare_and_holm_by_hand():
    found = compare(np.array([1.0, 2.0, 3.0, np.nan]), np.array([2.0, 4.0, 6.0, 1.0]))
    assert (found.ratio, found.log_error, found.trials) == (0.5, 0.0, 3)
    assert compare(np.array([1.0]), np.array([2.0])).p == 1
    assert holm([0.01, 0.04, 0.03], 0.05) == [True, False, False]
    assert holm([0.01, 0.02, 0.03], 0.05) == [True, True, True]
    assert holm([0.02, np.nan], 0.05) == [True, False] or holm([0.02, np.nan], 0.05) == [True, False]


def test_a_single_wild_trial_decides_nothing():
    """The mean of one method is carried by one trial: log(500/11) is nine linear errors, the difference one."""
    rng = np.random.default_rng(7)
    wild = np.full(20, 2.0) + rng.normal(0, 0.1, 20)
    wild[3] = 10_000
    assert compare(wild, 11 + rng.normal(0, 0.5, 20)).p > 0.1


def test_the_same_up_to_rounding_is_no_difference():
    a = np.random.default_rng(8).chisquare(1, 50)
    assert compare(a * (1 + 2e-16) + 1e-17, a).p == 1


def test_all_pairs_of_a_study_are_one_family():
    """Equal methods at 60 budgets: some pair is below 5% on its own, and none is called."""
    rng = np.random.default_rng(9)
    arenas = Study("ramp", "rejection", 10, scores=["mse"], targets="mean:theta").arenas
    trials = {
        (Cell("ramp", method, budget), trial): Record("ok", scores={"mse": {"mean:theta": rng.gamma(5)}})
        for method in "ab"
        for budget in range(1, 61)
        for trial in range(40)
    }
    verdicts = StudyResult(trials, arenas, ["mse"], {}).ranking().verdicts
    assert len(verdicts) == 60
    assert min(verdict.comparison.p for verdict in verdicts) < 0.05
    assert not any(verdict.better for verdict in verdicts)


def test_a_truth_that_is_too_rough_decides_nothing():
    """The truth's squared error is a quarter of the posterior variance, and the scores far below."""
    problem = own_problem(0.1, fbar.truth.Known("mean:theta", 0.6, 0.1, 0.2))
    result = run(
        {"own": problem},
        {"half": half_of_it, "tenth": lambda p, b, r: all_of_it(p, b // 10, r)},
        2000,
        trials=40,
        tolerance={"own": 0.1},
        scores=["mse"],
    )
    assert "over 1%" in result.summary()[0]["note"]
    ranking = result.ranking()
    assert not any(verdict.better for verdict in ranking.verdicts)
    assert all(standing.rough_truth for standing in ranking.standings)
    assert "not known well enough" in str(ranking)


def test_without_a_posterior_variance_there_is_no_b2():
    result = run({"own": own_problem(0.1, 0.5)}, "rejection", 500, trials=5, tolerance={"own": 0.1}, scores=["mse"])
    [row] = result.summary()
    assert np.isnan(row["b2"])
    assert np.isnan(row["draws"])
    assert row["bias2"] + row["variance"] == pytest.approx(row["mean"])
    assert str(result.ranking()).splitlines()[0] == "own, 500 simulations: MSE"


def test_the_ranking_finds_a_factor_of_two():
    """Half the budget has twice the error; 300 trials tell beyond doubt, and the ratio is 2 within 5 errors."""
    result = run("ramp", [half_of_it, all_of_it], 400, trials=300, targets="mean:theta", scores=["mse"])
    [verdict] = result.ranking().verdicts
    assert verdict.better == "all-of-it"
    assert abs(np.log(verdict.comparison.ratio / 2)) < 5 * verdict.comparison.log_error
    text = str(result.ranking())
    assert text.splitlines()[1].split()[:2] == ["1", "all-of-it"]
    assert "1 of 1 differences are real" in text
    assert result.ranking().overall()[0] == {"method": "all-of-it", "better": 1, "worse": 0, "open": 0}


def test_the_summary_agrees_with_the_trials():
    result = run("ramp", "rejection", 500, trials=50, scores=["mse", "coverage"])
    row = next(row for row in result.summary() if row["component"] == "mean:theta" and row["score"] == "mse")
    errors = np.array([r.estimates["mean:theta"][0] for r in result.trials.values()]) - 2 / 3
    assert row["mean"] == pytest.approx((errors**2).mean())
    assert row["bias2"] + row["variance"] == pytest.approx(row["mean"])
    assert row["b2"] == pytest.approx((errors**2).mean() * 18)
    assert row["draws"] == pytest.approx(1 / row["b2"])
    value = result.values("mse", "ramp", "rejection", 500, "mean:theta")
    assert value == pytest.approx(errors**2 * 18)
    frame = result.to_pandas("estimates")
    assert len(frame) == 50 * 5
    assert frame.groupby("target").truth.nunique().max() == 1


def test_curves_have_the_rate_of_monte_carlo():
    """b² of rejection on the ramp is 2/N: rate −1, 2/b² simulations; all within 5 errors."""
    result = run("ramp", [all_of_it], [100, 400, 1600], trials=150, targets="mean:theta", scores=["mse"])
    curve = result.curve("ramp", "all-of-it")
    assert abs(curve.rate + 1) < 5 * curve.rate_error < 0.5
    needed, error = curve.needed(2 / 800)
    assert abs(needed - 800) < 5 * error < 800
    assert np.isnan(curve.needed(1e-9)[0])
    with pytest.raises(InputError, match="greater than 0"):
        curve.needed(0)
    rows = result.efficiency("all-of-it")
    assert rows[0]["relative"] == 1
    with pytest.raises(InputError, match="not in the study; known: all-of-it"):
        result.efficiency("other")


def test_relative_cost_of_known_lines():
    line = {"score": "b²", "rate_error": 0.0, "covariance": np.zeros((2, 2)), "errors": np.ones(2)}
    one = Curve(
        "p", "one", budgets=np.array([10.0, 1000.0]), values=np.array([0.1, 0.001]), rate=-1.0, intercept=0.0, **line
    )
    two = Curve(
        "p",
        "two",
        budgets=np.array([10.0, 1000.0]),
        values=np.array([0.2, 0.002]),
        rate=-1.0,
        intercept=np.log(2),
        **line,
    )
    rows = {row["method"]: row for row in relative([one, two], "one")}
    assert rows["one"]["simulations"] == pytest.approx(1000)
    assert rows["two"]["relative"] == pytest.approx(2)


def test_the_cost_relative_to_a_reference_has_the_errors_of_both():
    """log N has an error of 0.1 for one and 0.2 for the other at the intercept, so that of their ratio is √0.05."""
    made = [
        Curve("p", name, "b²", np.array([10.0, 1000.0]), np.array([0.1, 0.001]), np.ones(2), -1.0, 0.0, 0.0, spread)
        for name, spread in (("one", np.diag([0.01, 0.0])), ("two", np.diag([0.04, 0.0])))
    ]
    rows = {row["method"]: row for row in relative(made, "one")}
    assert rows["two"]["standard_error"] == pytest.approx(1000 * 0.2)
    assert rows["two"]["relative_error"] == pytest.approx(np.sqrt(0.05))


def test_a_line_through_points_that_lie_on_it_still_has_an_error():
    """Three points of errors 0.1 on a line: the slope's error is 0.1/√Σ(x − x̄)², however well they lie on it."""
    x = np.array([0.0, 1.0, 2.0])
    intercept, rate, covariance = _line(x, 3 - x, np.full(3, 0.1))
    assert (intercept, rate) == (pytest.approx(3), pytest.approx(-1))
    assert covariance[1, 1] == pytest.approx(0.01 / 2)
    scattered = _line(x, 3 - x + np.array([1.0, -2.0, 1.0]), np.full(3, 0.1))[2]
    assert scattered[1, 1] == pytest.approx(0.01 / 2 * 600)


def told_apart(first, second, *, ess=(1.0, 2.0), simulations=(10, 10)):
    """A result in which the mean squared errors of two methods are as given, known to a percent."""
    arenas = Study("ramp", "rejection", 10, targets="mean:theta").arenas
    noise = 1 + 0.05 * np.random.default_rng(11).standard_normal(30)
    trials = {
        (Cell("ramp", name, 10), trial): Record(
            "ok", spent, scores={"mse": {"mean:theta": error * scatter}, "ess": {"": size * scatter}}
        )
        for name, error, size, spent in zip(("smc", "smc-last"), (first, second), ess, simulations, strict=True)
        for trial, scatter in enumerate((noise + (name == "smc") * 0.01 * np.sin(range(30))).tolist())
    }
    return StudyResult(trials, arenas, ["mse", "ess"], {})


@pytest.mark.parametrize(("first", "second"), [("smc", "smc-last"), ("smc-last", "smc")])
def test_a_claim_says_by_how_much(first, second):
    """The second has three times the error of the first, whichever stands first in the table."""
    errors = (1.0, 3.0) if first == "smc" else (3.0, 1.0)
    [claim] = presets._better(told_apart(*errors), first, second, "so it is", same_simulations=True)
    assert claim.holds
    assert claim.found.startswith(f"b² of {second} is 3.0")
    assert claim.found.endswith("simulations equal in every trial")
    [claim] = presets._better(told_apart(*errors), second, first, "so it is")
    assert not claim.holds
    [claim] = presets._better(told_apart(*errors, simulations=(10, 9)), first, second, "x", same_simulations=True)
    assert not claim.holds


def test_a_claim_that_a_score_misleads():
    [claim] = presets._misleads(told_apart(1.0, 3.0), "ess")
    assert claim.holds
    assert claim.found.startswith("it prefers smc-last, whose b² is 3.0")
    [claim] = presets._misleads(told_apart(1.0, 3.0, ess=(2.0, 1.0)), "ess")
    assert not claim.holds


def test_where_more_is_better_the_largest_comes_first():
    result = run("ramp", [half_of_it, all_of_it], 400, trials=20, targets="mean:theta")
    ranking = result.ranking("ess")
    assert [standing.method for standing in ranking.standings] == ["all-of-it", "half-of-it"]
    assert [standing.place for standing in ranking.standings] == ["1", "2"]


def test_where_ess_misleads():
    """Figure 3 of the paper: the design of largest ESS has a larger error than the targeted one, beyond doubt."""
    result = run("two-sided-exponential", ["max-ess", "optimal"], 2000, trials=150, targets="mean:theta")
    found = result.against("ess")
    assert [(u.better, v.better) for u, v in found.misled] == [("max-ess", "optimal")]
    assert "in opposite ways" in str(found)
    assert result.against("acceptance-rate").misled


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "rejection", 10), "unknown problem 'nowhere'"),
        (("ramp", "rejektion", 10), "did you mean 'rejection'"),
        (("ramp", "rejection", 0), "budget must be a positive integer; got 0"),
        (("ramp", "rejection", 10, 0), "trials must be a positive integer"),
        (("ramp", "rejection", []), "at least one budget"),
        (("ramp", [], 10), "at least one method"),
        (([], "rejection", 10), "at least one problem"),
        (("ramp", ["rejection", "rejection"], 10), "two methods are called 'rejection'"),
        (("ramp", lambda p, b, r: None, 10), "needs one: give methods as"),
        (("ramp", 3, 10), "a method is its name"),
        (("ramp", "rejection", 10, 2, ["mse", "mse"]), "given twice"),
        (("ramp", "rejection", 10, 2, ["msee"]), "unknown score 'msee'"),
        (("ramp", "rejection", 10, 2, []), "at least one score"),
        ((None, "rejection", 10), "a problem is a name of the catalogue"),
        (("ramp", "rejection", np.array([10, 0])), "budget must be a positive integer; got"),
        (("ramp/2", "rejection", 10), "observation 1 alone"),
        (("gaussian-linear/11", "rejection", 10), "from 1 to 10; got 11"),
        (("gaussian-linear/x", "rejection", 10), "write gaussian-linear/3"),
        (("gaussian-linear/fresh", "rejection", 10), "with fresh data use"),
        (("ramp/fresh", "rejection", 10, 2, ["sbc"]), "no fresh data"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, message):
    with pytest.raises(FbarError, match=message) as caught:
        Study(*arguments)
    assert "\n" not in str(caught.value)


def test_more_bad_input():
    own = fbar.Problem(fbar.Finite(theta=[1, 2]), lambda t, rng: t["theta"], 1.0, truth={"mean:theta": 1.0})
    with pytest.raises(InputError, match="give its tolerance as tolerance="):
        Study({"own": own}, "rejection", 10)
    with pytest.raises(InputError, match="needs a name"):
        Study(own, "rejection", 10)
    with pytest.raises(InputError, match=r"one of 0.01, 0.001"):
        Study("gaussian-linear", "rejection", 10, tolerance=0.5)
    with pytest.raises(InputError, match=r"unknown problem of targets= 'rampp'; did you mean 'ramp'"):
        Study("ramp", "rejection", 10, targets={"rampp": "mean:theta"})
    with pytest.raises(InputError, match="unknown truth"):
        Study("ramp", "rejection", 10, truth="exact")
    with pytest.raises(InputError, match="Dask client or a"):
        Study("ramp", "rejection", 10, trials=2).run(client=3, progress=False)
    one = run("ramp", "rejection", 10, trials=1)
    with pytest.raises(InputError, match="at least 2 trials"):
        one.ranking()
    two = run("ramp", ["rejection", half_of_it], 50, trials=3)
    with pytest.raises(InputError, match="cannot rank"):
        two.ranking("coverage")
    with pytest.raises(InputError, match="unknown component"):
        two.ranking(target="mean:other")


def test_fresh_data_calibrate_a_right_posterior():
    """Ranks of the true parameters over 100 fresh data sets: mean 1/2 and variance 1/12 within 5 errors."""
    result = run("gaussian-linear/fresh", {"exact": exact_gaussian}, 10, trials=100, scores=["sbc"])
    ranks = np.array([[v for k, v in r.scores["sbc"].items()] for r in result.trials.values()])
    assert abs(ranks.mean() - 0.5) < 5 * np.sqrt(1 / 12 / ranks.size)
    assert abs(ranks.var() - 1 / 12) < 5 * np.sqrt((1 / 80 - 1 / 144) / ranks.size)
    rows = result.calibration()
    assert [row["parameter"] for row in rows] == [f"theta{i}" for i in range(1, 11)]
    assert min(row["p_value"] for row in rows) > 1e-7  # ten tests: a false alarm in a million runs


def test_fresh_data_find_a_posterior_that_is_too_narrow():
    """Half the deviation: a central 90% interval holds the truth in 59%, and the mean rank is ½ all the same."""

    def narrow(problem, budget, rng):
        return problem.observed / 2 + np.sqrt(0.05) / 2 * rng.standard_normal((400, 10))

    result = run("gaussian-linear/fresh", {"narrow": narrow}, 10, trials=100, scores=["sbc"])
    rows = result.calibration()
    assert abs(np.mean([row["coverage_0.9"] for row in rows]) - 0.589) < 5 * np.sqrt(0.589 * 0.411 / 1000)
    assert np.median([row["p_value"] for row in rows]) < 1e-4
    assert not run("gaussian-linear", {"narrow": narrow}, 10, trials=3, scores=["sbc"]).calibration()


def exact_gaussian(problem, budget, rng):
    return problem.observed / 2 + np.sqrt(0.05) * rng.standard_normal((400, 10))


def test_an_algorithm_that_swallows_the_refusal_is_found_out():
    [row] = run("ramp", [swallows], 100, trials=2).failures()
    assert row["message"] == "the algorithm asked for 5 simulations beyond its budget of 100, and went on"


def test_more_failures_are_never_called_better():
    """The same method, better only by failing where it is bad: without the rule it would be called so."""

    def picky(problem, budget, rng):
        found = all_of_it(problem, budget, rng)
        if abs(found["theta"].mean() - 2 / 3) > 0.01:
            raise ValueError(f"a hard one, <object at {hex(id(found))}>")
        return found

    result = run("ramp", {"picky": picky, "half": half_of_it}, 200, trials=120, targets="mean:theta", scores=["mse"])
    [verdict] = result.ranking().verdicts
    assert verdict.comparison.p < 1e-3
    assert verdict.comparison.ratio < 0.5
    assert verdict.better is None
    assert len(result.failures()) == 1, "addresses do not split one failure into many"


def test_a_finite_prior_stands_in_exactly():
    result = run(
        "ten-values",
        {"none": lambda problem, budget, rng: problem.prior.points.take(np.zeros(0, dtype=int))},
        5,
        trials=2,
    )
    assert result.statuses("ten-values", "none", 5) == ["prior"] * 2
    assert next(iter(result.trials.values())).estimates["mean:theta"][0] == pytest.approx(5.5)
