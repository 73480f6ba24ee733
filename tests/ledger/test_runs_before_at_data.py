"""Runs that were recorded when a run without a tolerance had ABC's posterior go on as what they were.

Those in ``tests/data/runs-before-at-data`` were recorded by the last such version:
``fbar infer model.py --budget 800 --block-size 200 --seed 1 --run targeted`` and
``fbar infer model-smc.py --budget 400 --seed 1 --run smc``, a model file that has ``method = fbar.SMC(accepted=60)``.
``extended.json`` has the estimates that the same version gave after ``fbar extend targeted --budget 1200`` and
``fbar extend smc --budget 700``.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import former
from fbar.ledger import LedgerReader, Leg
from fbar.running.recorded import resume_run
from forged_runs import execute, write_leg

RECORDED = Path(__file__).parents[1] / "data" / "runs-before-at-data"
EXTENDED = json.loads((RECORDED / "extended.json").read_text())
ASKED = {
    "targeted": {"budget": 800, "block_size": 200, "seed": 1, "progress": False},
    "smc": {"budget": 400, "seed": 1, "progress": False, "method": fbar.SMC(accepted=60)},
}
LATER = {"targeted": 1200, "smc": 700}


@pytest.fixture(params=["targeted", "smc"])
def kind(request):
    return request.param


@pytest.fixture
def run(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "state"))
    return Path(shutil.copytree(RECORDED / kind, tmp_path / "run"))


def model_of(run):
    """What a script would define again."""
    spec = importlib.util.spec_from_file_location("model_before_at_data", run / "fbar-model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(run):
    return json.loads((run / "run.json").read_text())["legs"][-1]["result"]


def same(result, estimates):
    for name, found in estimates.items():
        assert result[name].value == pytest.approx(found["value"], rel=1e-9)
        assert result[name].standard_error == pytest.approx(found["standard_error"], rel=1e-9)


def unfinished(run):
    """The run without its last two rounds and its result."""
    with LedgerReader(run) as ledger:
        leg = ledger.legs[0]
        last = max(round for round, *_ in ledger.blocks())
    settings = json.loads((run / "run.json").read_text())["legs"][0]["settings"]
    assert "at_data" not in leg.settings
    for table in ("blocks", "rounds"):
        execute(run, f"DELETE FROM {table} WHERE round >= ?", (last - 1,))
    write_leg(run, 0, Leg(settings, None))
    (run / "run.json").unlink()


def test_it_loads_as_what_it_was(kind, run):
    loaded = fbar.load(run, trust=True)
    same(loaded, stored(run)["estimates"])
    assert loaded.about.startswith(f"about ABC's posterior at {stored(run)['about_tolerance'].partition(';')[0]}")
    assert not loaded.run.at_data
    tolerance = loaded.run.reported_tolerance
    assert tolerance == stored(run)["tolerance"]
    assert loaded.at(tolerance)["mean:mu"].value == pytest.approx(loaded["mean:mu"].value)


def test_it_is_extended_as_it_would_have_been(kind, run):
    more = fbar.extend(run, budget=LATER[kind], trust=True, progress=False)
    assert more.simulations == LATER[kind]
    same(more, EXTENDED[kind])
    same(fbar.load(run, trust=True), EXTENDED[kind])
    again = fbar.extend(run, budget=LATER[kind], trust=True, progress=False)
    same(again, EXTENDED[kind])


def test_the_same_command_gives_the_same_answer_with_a_note(kind, run):
    model = model_of(run)
    result = fbar.infer(model.problem, model.targets, run=run, **ASKED[kind])
    same(result, stored(run)["estimates"])
    assert any("started by an earlier version" in warning for warning in result.warnings)


@pytest.mark.parametrize("way", ["again", "resume"])
def test_it_is_resumed_as_what_it_was(kind, way, run):
    unfinished(run)
    model = model_of(run)
    if way == "again":
        result = fbar.infer(model.problem, model.targets, run=run, **ASKED[kind])
    else:
        result = resume_run(run, trust=True, progress=False)
    assert result.simulations == ASKED[kind]["budget"]
    same(result, json.loads((RECORDED / kind / "run.json").read_text())["legs"][0]["result"]["estimates"])


def test_other_settings_are_refused_still(kind, run):
    model = model_of(run)
    with pytest.raises(fbar.InputError, match="budget was"):
        fbar.infer(model.problem, model.targets, run=run, **{**ASKED[kind], "budget": 5000})


def test_the_default_of_now_is_another_run_than_a_chosen_tolerance(tmp_path):
    model = model_of(RECORDED / "targeted")
    chosen = {**ASKED["targeted"], "method": fbar.Targeted(tolerance="chosen")}
    first = fbar.infer(model.problem, model.targets, run=tmp_path / "run", **chosen)
    same(first, stored(RECORDED / "targeted")["estimates"])
    with pytest.raises(fbar.InputError, match=r"method\.tolerance was 'chosen', is None"):
        fbar.infer(model.problem, model.targets, run=tmp_path / "run", **ASKED["targeted"])


def test_a_run_of_now_is_known_by_its_settings(tmp_path):
    model = model_of(RECORDED / "targeted")
    fbar.infer(model.problem, model.targets, run=tmp_path / "run", **ASKED["targeted"])
    with LedgerReader(tmp_path / "run") as ledger:
        settings = ledger.legs[0].settings
    assert settings["at_data"] is True
    assert settings["method"]["tolerance"] is None
    assert fbar.load(tmp_path / "run", model.problem).run.at_data


@pytest.mark.parametrize("method", [None, 3, {}, {"type": ["Targeted"]}, {"type": "SMC"}, {"type": "Mine"}])
def test_settings_of_other_runs_are_left_alone(method):
    assert former.answer({"method": method}) == {"method": method}


@pytest.mark.parametrize(("kind", "then"), [("Targeted", "chosen"), ("Rejection", 0.0), ("Importance", 0.0)])
def test_settings_without_a_tolerance_mean_what_they_meant(kind, then):
    before = {"type": kind, "tolerance": then}
    assert former.answer({"method": {"type": kind}}) == {"method": before}
    assert former.answer({"method": before, "at_data": False}) == {"method": before, "at_data": False}
    now = {"method": {"type": kind, "tolerance": None}, "at_data": True}
    assert former.answer(now) == now


def test_draws_that_answered_at_the_data_at_tolerance_0_go_on_doing_so():
    """The first runs that answered at the data recorded no other tolerance than 0 for plain draws."""
    recorded = {"method": {"type": "Rejection", "tolerance": 0.0}, "at_data": True}
    assert former.answer(recorded)["method"] == {"type": "Rejection", "tolerance": None}


def counts(observed=2):
    return fbar.Problem(
        fbar.Prior(rate=stats.gamma(2)), lambda t, rng: rng.poisson(t["rate"]).astype(np.int64), observed=observed
    )


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (fbar.Rejection(), {"budget": 2000}),
        (fbar.Importance(scheme="stratified"), {"budget": 2000}),
        (fbar.Targeted(), {"precision": {"rate": 0.1}}),
    ],
    ids=["rejection", "importance", "precision"],
)
def test_whole_numbers_that_were_matched_exactly_are_so_again(method, options, tmp_path, monkeypatch):
    """A run as it was recorded then: at the tolerance 0, without a word of answers at the data."""
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "state"))
    asked = {"seed": 1, "progress": False, "run": tmp_path / "run", **options}
    first = fbar.infer(counts(), fbar.mean("rate"), method=method.at_tolerance(0.0), **asked)
    with LedgerReader(asked["run"]) as ledger:
        leg = ledger.legs[0]
    assert leg.settings["method"]["tolerance"] == 0.0
    write_leg(asked["run"], 0, Leg({key: value for key, value in leg.settings.items() if key != "at_data"}, leg.result))
    (asked["run"] / "run.json").unlink()
    again = fbar.infer(counts(), fbar.mean("rate"), method=method, **asked)
    loaded = fbar.load(asked["run"], counts())
    for result in (again, loaded):
        assert not result.run.at_data
        assert result["rate"].value == first["rate"].value
        assert result["rate"].standard_error == first["rate"].standard_error
    assert any("answers as it did then, by exact matching" in warning for warning in again.warnings)
