"""The preset "truth": the observations, targets and methods that it asks about, and their true values."""

from __future__ import annotations

import json
import math

import pytest
from scipy import stats

from fbar.errors import InputError
from fbar.problems import load
from fbar.problems.catalogue import recipes
from fbar.question.truth import Known
from fbar.study.presets import Chosen, preset
from fbar.study.presets.truth.questions import LEVELS, further, threshold
from fbar.study.presets.truth.studies import FRESH, contenders, fresh, named
from fbar.study.presets.truth.truths import Asked, Truths, compute

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


# ---------------------------------------------------------------- observations, methods and budgets


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
