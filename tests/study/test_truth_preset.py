"""The preset "truth": what it asks, what it measures, what it keeps, and the claims it decides."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import page_tables
import pytest
import truth_study
from scipy import stats

from fbar.cli.presets import run_preset
from fbar.cli.score import Ready, Running
from fbar.errors import FbarError, InputError
from fbar.problems import load
from fbar.problems.catalogue import recipes
from fbar.question.truth import Known
from fbar.study import Study
from fbar.study.presets import Chosen, preset
from fbar.study.presets.truth import judged
from fbar.study.presets.truth.kept import Kept, record_of
from fbar.study.presets.truth.limits import claims
from fbar.study.presets.truth.measures import Columns, b2_ratio, measured, slope
from fbar.study.presets.truth.plan import NAMED, plan, unrun
from fbar.study.presets.truth.questions import LEVELS, further, threshold
from fbar.study.presets.truth.rows import Row, read_rows, write_rows
from fbar.study.presets.truth.studies import BEFORE, DEFAULT, FRESH, NPE, RUNS, contenders, fresh, named
from fbar.study.presets.truth.tables import POOLED, by_part
from fbar.study.presets.truth.truths import Asked, Truths, compute
from fbar.study.trials import TrialRecord

ROW = Row(
    observation="a/1",
    method=DEFAULT,
    budget=10_000,
    trial=0,
    target="mean:x",
    status="ok",
    simulations=10_000,
    seconds=0.5,
    value=0.1,
    standard_error=0.1,
    df=50.0,
    low=-0.1,
    high=0.3,
    trusted=True,
    truth=0.0,
    truth_error=0.0,
    deviation=1.0,
)


def made_up(
    rng, *, scale=0.1, claimed=1.0, method=DEFAULT, budget=10_000, problems=("a", "b"), observations=10, runs=20
):
    """Normal errors of one size, with error bars that are ``claimed`` times as large; one in twenty is flagged."""
    rows = []
    for problem in problems:
        targets = (
            ["mean:x", "quantile:x,0.1"]
            if problem == "a"
            else ["mean:x", "mean:y", "second_moment:x", "second_moment:y"]
        )
        for i in range(1, observations + 1):
            for trial in range(runs):
                for target in targets:
                    deviation = 1 + i
                    value = 3.0 + deviation * scale * rng.standard_normal()
                    half = 1.959964 * claimed * deviation * scale
                    rows.append(
                        replace(
                            ROW,
                            observation=f"{problem}/{i}",
                            method=method,
                            budget=budget,
                            trial=trial,
                            target=target,
                            value=value,
                            low=value - half,
                            high=value + half,
                            truth=3.0,
                            deviation=deviation,
                            trusted=bool(rng.random() < 0.95),
                        )
                    )
    return rows


# ---------------------------------------------------------------- what is measured


def test_measures_are_those_of_plain_loops():
    rng = np.random.default_rng(1)
    rows = made_up(rng, observations=4, runs=12, claimed=0.8)
    rows[5] = replace(rows[5], low=-math.inf)
    rows[7] = replace(rows[7], status="failed", value=math.nan, low=math.nan, high=math.nan, trusted=False)
    rows[9] = replace(rows[9], value=99.0, status="prior", low=math.nan, high=math.nan)
    found = measured(rows)

    weight = {"a": 1 / 2, "b": 1 / 4}
    kept = [r for r in rows if r.status == "ok" and r.trusted and math.isfinite(r.high - r.low)]
    total = sum(weight[r.problem] for r in kept)
    coverage = sum(weight[r.problem] for r in kept if r.low <= r.truth <= r.high) / total
    assert found.coverage == pytest.approx(coverage)
    assert found.unflagged == len(kept) < len(rows) == found.estimates
    by_observation = {}
    for r in kept:
        by_observation.setdefault(r.observation, []).append(
            weight[r.problem] * ((r.low <= r.truth <= r.high) - coverage)
        )
    sums = np.array([sum(own) for own in by_observation.values()])
    assert found.coverage_error == pytest.approx(math.sqrt(8 / 7 * (sums**2).sum()) / total)

    everything = sum(weight[r.problem] for r in rows)
    assert found.flagged == pytest.approx(1 - total / everything)
    assert found.failed == pytest.approx(weight["a"] / everything)
    doubted = [r for r in rows if r not in kept and r.status != "failed"]
    held = [r for r in doubted if math.isfinite(r.high - r.low) and r.low <= r.truth <= r.high]
    share = sum(weight[r.problem] for r in held) / sum(weight[r.problem] for r in doubted)
    assert found.coverage_flagged == pytest.approx(share)
    assert found.missed_ratio == pytest.approx((1 - share) / (1 - coverage))

    squares = [min(((r.value - r.truth) / r.deviation) ** 2, 1.0) if r.status != "failed" else 1.0 for r in rows]
    b2 = sum(weight[r.problem] * b for r, b in zip(rows, squares, strict=True)) / everything
    assert found.b2 == pytest.approx(b2)

    lengths = []
    for problem in ("a", "b"):
        ratios = []
        for target in sorted({r.target for r in kept if r.problem == problem}):
            own = [r for r in kept if (r.problem, r.target) == (problem, target)]
            half = np.median([(r.high - r.low) / 2 / r.deviation for r in own])
            ratios.append(half / np.quantile([abs(r.value - r.truth) / r.deviation for r in own], 0.95))
        lengths.append(np.median(ratios))
    assert found.length == pytest.approx(np.median(lengths))
    assert found.runs == 2 * 4 * 12
    assert measured([replace(ROW, bias=b) for b in (0.02, 0.05, 0.09)]).bias == pytest.approx(0.5)


def test_error_bars_that_are_right_have_length_one_and_the_level_as_coverage():
    found = measured(made_up(np.random.default_rng(2), runs=100))
    assert found.length == pytest.approx(1.0, abs=0.05)
    assert abs(found.coverage - 0.95) < 4.5 * math.sqrt(0.95 * 0.05 / 4000)
    assert found.b2 == pytest.approx(0.01, rel=0.1)
    wide = measured(made_up(np.random.default_rng(2), runs=100, claimed=2.0))
    assert wide.length == pytest.approx(2 * found.length)
    assert wide.coverage > 0.999


def test_the_printed_interval_counts_not_the_standard_error():
    skewed = replace(ROW, value=0.2, standard_error=0.1, low=-0.01, high=0.21)
    assert measured([skewed]).coverage == 1.0
    assert measured([replace(skewed, low=0.01)]).coverage == 0.0


def test_the_error_of_a_truth_widens_the_interval():
    row = replace(ROW, value=0.25, low=0.05, high=0.45)  # misses 0 by a quarter of its half-width
    assert measured([row]).coverage == 0.0
    assert measured([replace(row, truth_error=0.05)]).coverage == 0.0
    assert measured([replace(row, truth_error=0.08)]).coverage == 1.0  # √(0.2² + (1.96 · 0.08)²) = 0.254


def test_rows_without_any_interval_have_an_error_only():
    rows = [replace(ROW, method=NPE, low=math.nan, high=math.nan, trusted=False)]
    found = measured(rows)
    assert found.b2 == pytest.approx(0.01)
    assert math.isnan(found.coverage)
    assert math.isnan(found.length)


def test_ratios_and_slopes():
    rng = np.random.default_rng(3)
    first, second = made_up(rng), made_up(rng, scale=0.2, method=BEFORE)
    ratio = b2_ratio(Columns.of(first), Columns.of(second))
    assert ratio.low < 0.25 < ratio.high
    assert ratio.value == pytest.approx(measured(first).b2 / measured(second).b2)
    assert ratio.high / ratio.low < 1.6
    assert math.isnan(b2_ratio(Columns.of(first), Columns.of(made_up(rng, problems=("c",)))).value)
    assert slope([(1000, 0.1), (10_000, 0.01), (100_000, 0.001)]) == pytest.approx(-1)
    assert math.isnan(slope([(1000, 0.1)]))


def test_tables_have_a_line_for_each_problem_and_one_for_all():
    rng = np.random.default_rng(4)
    rows = [*made_up(rng), *made_up(rng, budget=1000, scale=0.3), *made_up(rng, method=BEFORE, scale=0.2)]
    rows += made_up(rng, method=NPE, problems=("a",))
    tables = by_part([*rows, replace(ROW, observation="a/fresh-3")])
    assert list(tables) == ["odd", "even", "fresh"]
    odd = tables["odd"]
    assert [(line.problem, line.budget) for line in odd.lines] == [
        (name, budget) for budget in (1000, 10_000) for name in ("a", "b", POOLED)
    ]
    small, large = odd.at("a", 1000), odd.at("a", 10_000)
    assert small.to_before is None
    assert large.to_before.value == pytest.approx(0.25, rel=0.4)
    assert large.slope == small.slope == pytest.approx(math.log10(large.found.b2 / small.found.b2))
    assert large.npe is not None
    assert odd.at(POOLED, 10_000).npe is None  # NPE has not all problems
    assert odd.at("b", 10_000).found.runs == 5 * 20


# ---------------------------------------------------------------- claims


def found_claims(rows):
    return {(claim.text.partition(": ")[2], claim.problem): claim for claim in claims(by_part(rows))}


def test_claims_are_decided_by_the_rows():
    rng = np.random.default_rng(5)
    problems = ("sir", "ma2")
    good = made_up(rng, problems=problems, observations=1, runs=300)
    rows = [*good, *made_up(rng, problems=problems, observations=1, runs=300, method=BEFORE, scale=0.3)]
    found = found_claims(rows)
    assert {claim.holds for key, claim in found.items() if "flagged intervals miss" not in key[0]} == {True}
    assert not any("NPE" in text for text, _ in found)
    text = "flagged intervals miss at least 2 times as often as unflagged ones"
    warned = [replace(r, trusted=abs(r.value - r.truth) < 0.15 * r.deviation) for r in good]
    assert found_claims(warned)[text, POOLED].holds
    silent = [replace(r, trusted=abs(r.value - r.truth) > 0.05 * r.deviation) for r in good]
    assert not found_claims(silent)[text, POOLED].holds

    narrow = [replace(r, low=(r.low + r.value) / 2, high=(r.high + r.value) / 2) for r in good if r.problem == "ma2"]
    found = found_claims([*(r for r in good if r.problem == "sir"), *narrow])
    worst = found["coverage of unflagged intervals at least 88%", "each problem"]
    assert not worst.holds
    assert worst.found.startswith("1 of 2 problems; not: ma2 0.6")
    assert not found["unflagged 95% intervals hold the true value in 92% to 97.5%", POOLED].holds

    wide = [replace(r, low=4 * r.low - 3 * r.value, high=4 * r.high - 3 * r.value) for r in good]
    found = found_claims(wide)
    assert not found["median half-width at most 2.5 times the 95% quantile of |error|", "each problem"].holds
    assert not found["median half-width 0.7 to 1.5 times the 95% quantile of |error|", POOLED].holds


def test_claims_on_flags_b2_and_npe():
    rng = np.random.default_rng(6)
    rows = made_up(rng, problems=("sir", "ma2"), observations=1, runs=50)
    rows = [replace(r, trusted=r.problem == "sir" or r.trial % 2 == 0) for r in rows]
    text = "at most 10% flagged on sbibm's standard tasks"
    assert found_claims(rows)[text, "each problem"].holds  # ma2 is not one of them
    assert not found_claims([replace(r, trusted=r.trial % 4 > 0) for r in rows])[text, "each problem"].holds
    text = "b² not above NPE's where that is below 0.2"
    near = made_up(rng, problems=("sir", "ma2"), observations=1, method=NPE, scale=0.05)
    assert not found_claims([*rows, *near])[text, "each problem"].holds
    far = made_up(rng, problems=("sir", "ma2"), observations=1, method=NPE, scale=3.0)
    assert (text, "each problem") not in found_claims([*rows, *far])


# ---------------------------------------------------------------- questions and truths


def test_the_threshold_is_a_number_as_one_would_ask_for():
    assert threshold(Known("mean:x", 0.18734, 0.0, 0.0267)) == 0.19
    assert threshold(Known("mean:x", 1234.5, 0.0, 67.0)) == 1230
    assert math.copysign(1, threshold(Known("mean:x", -0.2, 0.0, 1.0))) == 1  # never "-0"


def test_truths_of_a_normal_posterior():
    problem = load("gaussian-linear", 2)
    mean = problem.truth()["mean:theta1"]
    exact = stats.norm(mean.value, mean.deviation)
    above, *quantiles = further(problem)
    assert above.name == f"probability:theta1 > {threshold(mean):g}"
    assert above.value == pytest.approx(exact.sf(threshold(mean)), abs=1e-3)
    for item, level in zip(quantiles, LEVELS, strict=True):
        assert item.value == pytest.approx(exact.ppf(level), abs=1e-3 * mean.deviation)
        spread = math.sqrt(level * (1 - level)) / exact.pdf(exact.ppf(level))
        assert item.deviation == pytest.approx(spread, rel=0.1)
        assert item.standard_error < 0.005 * item.deviation


def test_rough_truths_are_taken_from_draws():
    """Two cubatures on the same boxes agree on a quantile of ma2 that both have wrong."""
    for item in further(load("ma2", 2)):
        assert item.standard_error == pytest.approx(item.deviation / 256)


def test_no_quantile_is_asked_of_a_model():
    assert further(load("poisson-or-geometric")) == []


def test_every_named_observation_has_its_truth_in_the_package():
    truths = Truths()
    for asked in named(None):
        assert truths.known(asked), asked.name
    again = compute(load("gaussian-mixture", 7), fresh=False).rounded()
    assert {k.name: k.value for k in again.known} == pytest.approx(
        {k.name: k.value for k in truths.kept(Asked("gaussian-mixture", 7)).known}, rel=1e-6
    )


def test_truths_are_computed_once_and_kept(tmp_path, monkeypatch):
    asked = Asked.of("poisson-or-geometric/fresh-3")
    assert asked.name == "poisson-or-geometric/fresh-3"
    assert not Truths(tmp_path).known(asked)
    first = Truths(tmp_path).question(asked)
    kept = (tmp_path / "poisson-or-geometric.jsonl").read_text()
    again = Truths(tmp_path).question(asked)
    assert first.known == again.known
    assert {item.name for item in again.known} == set(load("poisson-or-geometric").truth())
    assert (tmp_path / "poisson-or-geometric.jsonl").read_text() == kept
    other = json.loads(kept) | {"digest": "of other data"}
    (tmp_path / "poisson-or-geometric.jsonl").write_text(json.dumps(other) + "\n{cut")
    assert not Truths(tmp_path).known(asked)
    assert Truths(tmp_path).question(asked).known == first.known


def test_fresh_observations_differ_from_the_named_ones():
    data = {json.dumps(item.load().data.tolist()) for item in [*named(["two-moons"]), *fresh(["two-moons"])]}
    assert len(data) == 10 + FRESH


def test_observations_are_chosen_by_name():
    assert [item.number for item in named(["sir/odd", "sir/2"])] == [1, 3, 5, 7, 9, 2]
    assert [item.name for item in fresh(["sir/fresh-2", "sir/even"])] == ["sir/fresh-2"]
    assert len(named(None)) == 10 * len(recipes())
    assert len(fresh(["sir"], 7)) == 7
    for wrong, message in (("sir/11", "1 to 10"), ("sir/x", "sir/odd"), ("sirr", "did you mean 'sir'")):
        with pytest.raises(InputError, match=message):
            named([wrong])


# ---------------------------------------------------------------- what is kept


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


def test_what_is_printed_has_tables_by_problem_and_by_kind():
    text = judged(made_up(np.random.default_rng(7), observations=1)).text
    assert text.startswith("odd observations\nproblem")
    assert "all problems  10,000  40 " in text
    assert "second_moment" in text
    assert "the method default, which has no runs" in judged([replace(ROW, method=BEFORE)]).text


def test_studies_and_quick_runs():
    made = preset("truth").make(Chosen(quick=True, problems=["poisson-or-geometric/odd", "filippi/1"], budgets=[1000]))
    assert list(made) == ["observations"]
    assert made["observations"].trials == 2
    assert len(made["observations"].arenas) == 6
    made = preset("truth").make(Chosen(quick=True, problems=["poisson-or-geometric"], studies=["fresh"]))
    assert (len(made["fresh"].arenas), made["fresh"].trials, made["fresh"].budgets) == (2, 1, (1000, 10_000))
    with pytest.raises(InputError, match="in the preset truth"):
        preset("truth").make(Chosen(studies=["observation"]))
    with pytest.raises(InputError, match="1,000, 10,000, 100,000"):
        preset("truth").make(Chosen(problems=["filippi/1"], budgets=[999]))
    with pytest.raises(InputError, match="did you mean 'before'"):
        preset("truth").make(Chosen(problems=["filippi/1"], methods=["befor"]))
    with pytest.raises(InputError, match="leave out --method and --budget"):
        preset("infer").make(Chosen(methods=["smc"]))


def test_the_method_before_is_another_one():
    default, before = contenders()
    assert default.described() != before.described()
