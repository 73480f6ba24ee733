"""Studies: seeds, processes, and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import fbar
from fbar.errors import InputError
from fbar.study import Study
from study_algorithms import all_of_it, broken, half_of_it, own_problem, run, same

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
    from fbar.running import replication

    monkeypatch.setattr(replication, "SECONDS_IN_CHUNK", 0.0)
    told, file = [], tmp_path / "trials.jsonl"
    study = Study("ramp", [all_of_it], 20, trials=10, scores=["mse"])

    def look(share, trials, whole):
        told.append((trials, len(file.read_bytes().splitlines())))

    found = study.run(tmp_path, workers=workers, progress=look)
    assert told == [(n, n) for n in range(1, 11)]
    monkeypatch.setattr(replication, "SECONDS_IN_CHUNK", 100.0)
    assert same(found, study.run(workers=1, progress=False))
    with ThreadPoolExecutor(2) as executor:
        monkeypatch.setattr(replication, "SECONDS_IN_CHUNK", 0.0)
        assert same(found, study.run(engine=executor, progress=False))


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


@pytest.mark.slow
def test_the_same_on_any_number_of_processes_and_executors():
    study = Study(["ramp", "gaussian-linear"], ["rejection", half_of_it], [60, 300], trials=4)
    one = study.run(workers=1, progress=False)
    assert same(one, study.run(workers=2, progress=False))
    with ThreadPoolExecutor(2) as executor:
        assert same(one, study.run(engine=executor, progress=False))
    assert not same(
        one, Study(["ramp", "gaussian-linear"], ["rejection", half_of_it], [60, 300], 4, seed=2).run(workers=1)
    )


@pytest.mark.processes
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
            dashboard_address="127.0.0.1:0",  # any port that is free
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert same(one, study.run(engine=client, progress=False))


@pytest.mark.slow
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


def test_draws_without_a_tolerance_go_on_where_a_tolerance_of_0_was_recorded(tmp_path):
    """A study has the tolerance: draws that name 0 and those that name none are the same contender."""
    options = {"budgets": 100, "trials": 2, "seed": 3}
    before = Study("ramp", {"rejection": fbar.Rejection(tolerance=0)}, **options).run(tmp_path, progress=False)
    assert same(before, Study("ramp", {"rejection": fbar.Rejection()}, **options).run(tmp_path, progress=False))


def test_a_problem_that_was_left_out_meanwhile_is_still_known(tmp_path):
    options = {"trials": 2, "scores": ["mse"]}
    for name in ("ramp", "gaussian-linear"):
        Study(name, "rejection", 100, **options).run(tmp_path, workers=1, progress=False)
    with pytest.raises(InputError, match="problem 'ramp' with other settings"):
        Study("ramp", "rejection", 100, targets="mean:theta", **options).run(tmp_path, workers=1, progress=False)


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


@pytest.mark.processes
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


@pytest.mark.processes
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
    from fbar.errors import RunInUse
    from fbar.system.locks import Lock

    study = Study("ramp", "rejection", 100, trials=2)
    study.run(tmp_path, workers=1, progress=False)
    held = Lock(tmp_path / "driver.lock")
    try:
        with pytest.raises(RunInUse, match="in use by another driver"):
            study.run(tmp_path, workers=1, progress=False)
    finally:
        held.release()
