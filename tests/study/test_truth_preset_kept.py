"""The preset "truth": the rows that it keeps, runs that are resumed, and the page that is written from the rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import page_tables
import pytest
import truth_study
from scipy import stats

from fbar.cli.presets import run_preset
from fbar.cli.score import Ready, Running
from fbar.errors import FbarError
from fbar.problems.catalogue import recipes
from fbar.question.truth import Known
from fbar.study import Study
from fbar.study.presets import Chosen, preset
from fbar.study.presets.truth.kept import Kept, record_of
from fbar.study.presets.truth.plan import NAMED, plan, unrun
from fbar.study.presets.truth.rows import read_rows, write_rows
from fbar.study.presets.truth.studies import BEFORE, DEFAULT, RUNS, named
from fbar.study.presets.truth.truths import Truths
from fbar.study.trials import TrialRecord
from truth_rows import ROW


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "rows.csv.gz"
    rows = [
        ROW,
        replace(
            ROW, trial=1, status="failed", value=math.nan, low=math.nan, high=math.inf, trusted=False, seed=7, bias=0.05
        ),
    ]
    write_rows(path, rows)
    before = path.read_bytes()
    truth = {"mean:x": Known("mean:x", 0.0, 0.0, 1.0)}
    again = read_rows(path, lambda name: truth)
    assert again[0] == rows[0]
    assert math.isnan(again[1].value)
    assert (again[1].status, again[1].high, again[1].seed, again[1].bias) == ("failed", math.inf, 7, 0.05)
    write_rows(path, again)
    assert path.read_bytes() == before
    assert read_rows(path, lambda name: {}) == []
    assert read_rows(tmp_path / "none.csv.gz", lambda name: truth) == []
    path.write_bytes(before[:-9])
    with pytest.raises(FbarError, match="cannot read"):
        read_rows(path, lambda name: truth)


def test_a_run_is_the_same_record_again():
    record = record_of(
        [replace(ROW, bias=0.06), replace(ROW, target="mean:y", value=math.nan, low=math.nan, high=math.nan)]
    )
    assert record.estimates == {"mean:x": (0.1, 0.1, 50.0, True)}
    assert record.intervals == {"mean:x": (-0.1, 0.3)}
    assert record.biases == {"mean:x": 0.06}
    assert TrialRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_trials_keep_the_intervals_that_are_printed():
    result = Study("gaussian-mixture", "rejection", 2000, 1, "mse", targets=["mean:theta1", "quantile:theta1,0.1"]).run(
        workers=1, progress=False
    )
    (record,) = result.trials.values()
    value, error, df, _ = record.estimates["mean:theta1"]
    low, high = record.intervals["mean:theta1"]
    half = stats.t(df).ppf(0.975) * error
    assert (low, high) == pytest.approx((value - half, value + half))
    value = record.estimates["quantile:theta1,0.1"][0]
    low, high = record.intervals["quantile:theta1,0.1"]
    assert low < value < high
    assert value - low != pytest.approx(high - value, rel=1e-6)  # it is read off the distribution function


def test_trials_of_earlier_versions_have_no_intervals():
    given = TrialRecord("ok", estimates={"mean:x": (1.0, 0.1, 9.0, True)}).as_dict()
    del given["intervals"]
    assert TrialRecord.from_dict(given).intervals == {}


def run(out, capsys, *, problems, trials=1, studies=None, methods=(), budgets=(1000,), quick=False):
    ready, running = Ready("truth", studies, quick), Running(1, 1, None, out, json_=True)
    run_preset("truth", ready, running, trials=trials, problems=problems, methods=methods, budgets=budgets)
    return json.loads(capsys.readouterr().out)["claims"]


def test_a_small_run_is_kept_and_resumed(tmp_path, capsys, monkeypatch):
    problems = ["poisson-or-geometric/1", "poisson-or-geometric/fresh-1", "filippi/2"]
    found = run(tmp_path, capsys, problems=problems, trials=2)
    rows = Kept(tmp_path).rows()
    assert {row.run for row in rows} == {
        *(
            (name, method, 1000, t)
            for name in (problems[0], problems[2])
            for method in (DEFAULT, BEFORE)
            for t in (0, 1)
        ),
        *((problems[1], method, 1000, 0) for method in (DEFAULT, BEFORE)),
    }
    assert all(row.simulations == 1000 and row.status == "ok" for row in rows)
    for row in rows:
        assert row.low <= row.value <= row.high
    assert {row.target.partition(":")[0] for row in rows if row.problem == "filippi"} == {
        "mean",
        "second_moment",
        "probability",
        "quantile",
    }
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv.gz")}
    assert set(kept) == {"default.csv.gz", "before.csv.gz"}
    for journal in tmp_path.glob("*/trials.jsonl"):
        journal.unlink()
        (journal.parent / "study.json").unlink()

    def fail(*_, **__):
        raise AssertionError("it was run again")

    monkeypatch.setattr("fbar.running.api.infer", fail)
    assert run(tmp_path, capsys, problems=problems, trials=2) == found
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    again = run(tmp_path, capsys, problems=problems[:1], methods=[DEFAULT], studies=["observations"])
    assert any("times that of the default before" in claim["text"] for claim in again) is False  # 1,000 simulations
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept  # what was not asked for now stays


def test_two_seeds_do_not_meet(tmp_path):
    chosen = Chosen(trials=1, studies=["observations"], problems=["filippi/1"], budgets=[1000], out=tmp_path)
    study = preset("truth").make(chosen)["observations"]
    row = replace(ROW, observation="filippi/1", budget=1000)
    rows = [replace(row, target=target.name, seed=2) for target in study.arenas["filippi/1"].targets]
    kept = Kept(tmp_path)
    kept.add(rows)
    kept.restore("observations", study)
    assert not (tmp_path / "observations" / "trials.jsonl").exists()
    kept.add([replace(row, seed=1) for row in rows])
    kept.restore("observations", study)
    assert len((tmp_path / "observations" / "trials.jsonl").read_text().splitlines()) == 1


def test_the_plan_lists_what_is_not_run(tmp_path):
    rows = [replace(ROW, observation=f"sir/{i}", trial=t) for i in range(1, 11) for t in range(RUNS)]
    planned = plan(rows)
    cell = next(c for c in planned if (c.problem, c.part, c.method, c.budget) == ("sir", NAMED, DEFAULT, 10_000))
    assert (cell.runs, cell.done, cell.seconds) == (200, 200, 0.5)
    assert cell.hours == pytest.approx(200 * 0.5 / 3600)
    left = unrun(planned)
    assert cell not in left
    assert len(left) == len(planned) - 1
    assert len(planned) == len(recipes()) * 2 * (3 + 3 + 2)


def test_the_page_says_what_the_rows_say(tmp_path):
    asked = named(["filippi/odd"])
    truths = Truths()
    rows = []
    for item in asked:
        for known in truths.question(item).known:
            row = replace(ROW, observation=item.name, target=known.name, value=known.value + 0.1 * known.deviation)
            rows += [replace(row, low=row.value - 1e9, high=row.value + 1e9, trial=t) for t in range(4)]
    Kept(tmp_path).add(rows)
    page = truth_study.found(page_tables.table, tmp_path)
    assert "| filippi | 10,000 | 20 | 1.000 ± 0.000 | 0.000 |" in page
    assert "| 0.01 |" in page
    assert "filippi (20 of 200)" in page
    assert page.count("\n### ") == 4  # odd observations, core hours, not run, truths
    assert "yes" in page.split("### ")[1]


@pytest.mark.slow
def test_the_page_is_written_from_the_kept_rows():
    page = (page_tables.DOCS / "truth-study.md").read_text(encoding="utf-8")
    begin, end = page_tables.marks("truth-study")
    assert page.partition(begin)[2].partition(end)[0].strip() == truth_study.found(page_tables.table).strip()
