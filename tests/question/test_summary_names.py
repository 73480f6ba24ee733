"""Names of summaries: given or returned by the summary function, checked, recorded, and used where numbers stood."""

import numpy as np
import pandas
import pytest
from scipy import stats

import fbar
from fbar import InputError
from fbar.cli import app


def call(*arguments):
    app([str(argument) for argument in arguments], result_action="return_value")


PRIOR = fbar.Prior(rate=stats.uniform(1, 19))
OBSERVED = np.array([7.0, 9.0, 4.0, 6.0, 10.0])


def counts(theta, rng):
    return rng.poisson(theta["rate"][:, None], (theta.rows, 5)).astype(float)


def named(x):
    return {"mean": x.mean(axis=1), "range": np.stack([x.min(axis=1), x.max(axis=1)], axis=1)}


def unnamed(x):
    return np.stack([x.mean(axis=1), x.min(axis=1), x.max(axis=1)], axis=1)


def problem(**given):
    return fbar.Problem(PRIOR, counts, OBSERVED, **given)


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({"summary": named}, ("mean", "range[1]", "range[2]")),
        ({"summary": unnamed, "summary_names": ["mean", "low", "high"]}, ("mean", "low", "high")),
        ({"summary": unnamed, "summary_names": {"mean": 1, "range": 2}}, ("mean", "range[1]", "range[2]")),
        ({"summary_names": "count"}, tuple(f"count[{i}]" for i in range(1, 6))),
        ({}, tuple(f"x[{i}]" for i in range(1, 6))),
        ({"summary": lambda x: x.mean(axis=1)}, ("summary",)),
    ],
)
def test_names_of_summaries(given, labels):
    assert problem(**given).summary_labels == labels


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "names 2 numbers, but simulations are compared by 3"),
        (["a", "b", "a"], "the same name twice: 'a'"),
        (["a", "b", 3], "3 is not a name"),
        (["a", "b", ""], "printable characters"),
        ({"a": 1, "b": 1}, "names 2 numbers"),
        ({"a": 1, "b": 0}, "must be a positive integer"),
        (7, "must be a list of names"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        problem(summary=unnamed, summary_names=names)


def test_names_are_not_given_twice_nor_without_data():
    with pytest.raises(InputError, match="leave summary_names out"):
        problem(summary=named, summary_names=["a", "b", "c"])
    with pytest.raises(InputError, match="leave summary_names out"):
        fbar.Problem.tabulated(fbar.Finite(t=[1, 2]), [0.1, 0.2], summary_names=["a"])


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        (lambda x: {}, "empty mapping"),
        (lambda x: {"a": x.mean(axis=1), "b": 3.0}, "a row for each simulation"),
        (lambda x: {1: x.mean(axis=1)}, "the name of a summary must be text"),
        (lambda x: {"a": np.ma.masked_array([1.0] * len(x), mask=True)}, "masked"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused(summary, message):
    with pytest.raises(InputError, match=message):
        problem(summary=summary)


def test_names_that_change_from_call_to_call_are_refused():
    def changing(x):
        return {"one" if len(x) == 1 else "many": x.mean(axis=1)}

    with pytest.raises(InputError, match="'many' \\(1\\) for the simulations and 'one' \\(1\\) for the data"):
        fbar.infer(problem(summary=changing), fbar.mean("rate"), budget=500, seed=1)


def test_named_values_and_an_array_of_them_give_the_same_answer():
    one, two = (fbar.infer(problem(summary=s), fbar.mean("rate"), budget=1000, seed=3) for s in (named, unnamed))
    assert one["mean:rate"].value == two["mean:rate"].value
    learned = fbar.infer(problem(summary=named), fbar.mean("rate"), budget=2000, summaries="linear", seed=3)
    assert learned.run.problem.summary_labels == ("learned mean:rate",)


def test_other_summaries_lose_the_names_and_other_data_keep_them():
    asked = problem(summary=unnamed, summary_names=["mean", "low", "high"])
    assert asked.replace(observed=OBSERVED + 1).summary_labels == ("mean", "low", "high")
    assert asked.replace(summary=None).summary_names == {}


def test_names_are_recorded_and_restored(tmp_path):
    kept = tmp_path / "run"
    fbar.infer(problem(summary=unnamed, summary_names={"mean": 1, "range": 2}), fbar.mean("rate"), budget=300, run=kept)
    loaded = fbar.load(kept, problem(summary=unnamed))
    assert loaded.run.problem.summary_names == {"mean": 1, "range": 2}
    renamed = fbar.load(kept, problem(summary=unnamed, summary_names=["a", "b", "c"]))
    assert renamed.run.problem.summary_labels == ("a", "b", "c")


MODEL = """
import numpy as np
from scipy import stats
import fbar

def simulate(theta, rng):
    return rng.poisson(theta["rate"][:, None], (theta.rows, 5)).astype(float)

def summary(x):
    return np.stack([x.mean(axis=1), x.max(axis=1)], axis=1)

problem = fbar.Problem(
    fbar.Prior(rate=stats.uniform(1, 19)), simulate, [7.0, 9.0, 4.0, 6.0, 10.0],
    summary=summary, summary_names=["average", "weight"],
)
targets = [fbar.mean("rate")]
"""


def test_names_are_columns_of_exported_simulations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    call("infer", "model.py", "--budget", "300", "--run", "r")
    call("export", "r", "--all", "--out", "all.csv")
    columns = list(pandas.read_csv("all.csv"))
    assert columns[:5] == ["round", "block", "rate", "average", "summary weight"]
    fbar.infer(problem(summary=named), fbar.mean("rate"), budget=300, run=tmp_path / "python")
    call("export", "python", "--all", "--out", "python.csv")
    assert {"mean", "range[1]", "range[2]"} <= set(pandas.read_csv("python.csv"))


def test_a_summary_that_is_not_finite_is_named_among_the_failures():
    def summary(x):
        with np.errstate(divide="ignore"):
            return {"mean": x.mean(axis=1), "log of the least": np.log(x.min(axis=1))}

    found = fbar.infer(problem(summary=summary), fbar.mean("rate"), budget=1000, seed=1)
    assert any("log of the least was -inf" in text for text in found.warnings)
