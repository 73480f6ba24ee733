"""Data by name: observed as a mapping, and a simulator that returns one with the same names."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.results.report.question import data

PRIOR = fbar.Prior(rate=stats.uniform(1, 19))
CASES = [7, 9, 4, 6, 10, 8, 9, 7, 6, 5]
OBSERVED = {"cases": CASES, "peak day": 4}
LABELS = (*(f"cases[{day}]" for day in range(1, 11)), "peak day")
METHOD = fbar.Rejection(rounds=1, tolerance=12)


def simulate(theta, rng):
    x = rng.poisson(theta["rate"][:, None], (theta.rows, 10))
    return {"cases": x, "peak day": x.argmax(axis=1), "total": x.sum(axis=1)}


def unnamed(theta, rng):
    found = simulate(theta, rng)
    x = np.concatenate([found["cases"], found["peak day"][:, None]], axis=1)
    return {"x": x, "total": found["total"]}


def one(theta, rng):
    x = rng.poisson(theta["rate"], 10)
    return {"cases": x, "peak day": x.argmax(), "total": x.sum()}


def infer(problem, targets="mean:rate", **options):
    return fbar.infer(problem, targets, **{"method": METHOD, "budget": 400, "seed": 1, **options})


def test_named_data_give_the_answer_of_the_same_numbers_in_a_row():
    problem = fbar.Problem(PRIOR, simulate, OBSERVED, records=["total"])
    assert problem.summary_labels == LABELS
    assert problem.observed.tolist() == [*CASES, 4]
    row = fbar.Problem(PRIOR, unnamed, [*CASES, 4], records=["total"])
    found, expected = (infer(asked, ["mean:rate", "mean:total"]) for asked in (problem, row))
    assert found.accepted == expected.accepted
    assert [e.value for e in found.estimates] == [e.value for e in expected.estimates]
    learned = [infer(asked, method=None, summaries="linear", tolerance=1, budget=600) for asked in (problem, row)]
    assert learned[0]["mean:rate"].value == learned[1]["mean:rate"].value


@pytest.mark.parametrize("options", [{}, pytest.param({"workers": 1}, marks=pytest.mark.processes)])
def test_predictions_have_the_names_one_by_one_too(options):
    problem = fbar.Problem(PRIOR, fbar.each(one), OBSERVED)
    found = infer(problem, budget=100, **options).predict(5)
    assert {name: array.shape for name, array in found.arrays.items()} == {
        "cases": (5, 10),
        "peak day": (5,),
        "total": (5,),
    }
    assert {name: np.asarray(values).tolist() for name, values in found.observed.items()} == OBSERVED
    np.testing.assert_array_equal(found["total"], found["cases"].sum(axis=1))


def test_a_summary_function_receives_the_arrays_by_name():
    def summary(data):
        return {"mean": data["cases"].mean(axis=1), "peak": data["peak day"]}

    problem = fbar.Problem(PRIOR, simulate, OBSERVED, summary=summary)
    assert problem.summary_labels == ("mean", "peak")
    assert problem.observed.tolist() == [np.mean(CASES), 4]
    result = infer(problem, method=None)
    assert result.summary_loss is not None  # the raw numbers are kept
    assert {"mean", "peak", "cases", "peak day", "total"} == set(result.predict(5))


def test_other_data_have_the_same_names_and_a_record_keeps_them(tmp_path, monkeypatch):
    problem = fbar.Problem(PRIOR, simulate, OBSERVED, records=["peak day"])
    other = problem.replace(observed={"cases": [1] * 10, "peak day": 0})
    assert other.summary_labels == LABELS
    assert problem.replace(cost=None).observed.tolist() == problem.observed.tolist()
    made = infer(problem, ["mean:rate", "mean:peak day"], run=tmp_path / "run")
    assert fbar.load(tmp_path / "run", problem).as_dict() == made.as_dict()
    monkeypatch.chdir(tmp_path)
    app(["export", "run", "--all", "--out", "all.csv"], result_action="return_value")
    assert set(LABELS) <= set(pandas.read_csv("all.csv"))


def test_a_report_lists_the_data_by_name():
    text = data(fbar.Problem(PRIOR, simulate, OBSERVED))
    assert text == f"Data: cases {', '.join(map(str, CASES))}; peak day 4."


def test_models_may_return_names():
    models = {"one": fbar.Model(fbar.each(one), PRIOR), "batch": fbar.Model(simulate, PRIOR)}
    result = infer(fbar.Problem.models(models, OBSERVED), "model_probability:one", budget=60)
    assert not result.run.seen.failures


def test_a_simulation_that_lacks_something_fails_by_itself():
    calls = []

    def sometimes(theta, rng):
        calls.append(1)
        found = one(theta, rng)
        if len(calls) % 10 == 0:
            found["cases"] = found["cases"][:5]
        return found

    result = infer(fbar.Problem(PRIOR, fbar.each(sometimes), OBSERVED), budget=100)
    assert any("'cases' of the simulator's output has shape (5,)" in text for text in result.warnings)
    assert 5 < result.run.seen.failures < 20


@pytest.mark.parametrize(
    ("simulator", "observed", "options", "text"),
    [
        (lambda t, g: simulate(t, g)["cases"], OBSERVED, {}, "must return a mapping with them; got ndarray"),
        (lambda t, g: {"cases": simulate(t, g)["cases"]}, OBSERVED, {}, r"lacks 'peak day', .* it holds \['cases'\]"),
        (fbar.each(lambda t, g: {"cases": CASES}), OBSERVED, {}, "lacks 'peak day'"),
        (
            lambda t, g: {**simulate(t, g), "cases": np.ones((t.rows, 5))},
            OBSERVED,
            {},
            r"'cases' .*has shape \(5,\) in each simulation, and \(10,\) in the data",
        ),
        (
            lambda t, g: {**simulate(t, g), "cases": np.ones((5, 10))},
            OBSERVED,
            {},
            r"returned 'cases' of shape \(5, 10\)",
        ),
        (
            lambda t, g: {**simulate(t, g), "peak day": np.full(t.rows, "a")},
            OBSERVED,
            {},
            "'peak day' of the simulator's output must be numbers",
        ),
        (simulate, OBSERVED, {"summary_names": list(LABELS)}, "the data have names; leave summary_names out"),
        (simulate, {"cases": CASES, "x": 3}, {}, "data cannot be called 'x', which stands for all data"),
        (simulate, {"cases": CASES, "cost": 3}, {}, "data cannot be called 'cost'"),
        (simulate, {}, {}, "observed is empty"),
        (simulate, {"cases": "many"}, {}, r"must be numbers; observed\['cases'\] is 'many'"),
        (simulate, {3: CASES}, {}, "the name of data must be text"),
        (simulate, CASES, {}, "under 'x'; .* if observed is a mapping with the same ones"),
    ],
)
def test_what_does_not_fit_is_answered_with_what_to_write(simulator, observed, options, text):
    with pytest.raises(fbar.InputError, match=text) as caught:
        infer(fbar.Problem(PRIOR, simulator, observed, **options), budget=50)
    assert "\n" not in str(caught.value)


def test_data_called_x_are_just_the_data():
    problem = fbar.Problem(PRIOR, unnamed, {"x": [*CASES, 4]})
    assert problem.observed.tolist() == [*CASES, 4]
    assert problem.summary_labels[0] == "x[1]"
