"""The table of all quantities, samples, and the posterior within a model."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.results.summary_table import SummaryTable
from fbar.system.schema import check_settings


def normal(names="ab", observed=(1.0, 2.0)):
    def simulate(theta, rng):
        return np.stack([theta[name] for name in names], axis=1) + rng.standard_normal((theta.rows, len(names)))

    prior = fbar.Prior(**{name: stats.norm(0, 2) for name in names})
    return fbar.Problem(prior, simulate, observed=list(observed), derived={"twice": lambda t: 2 * t[names[0]]})


@pytest.fixture(scope="module")
def at_data():
    return fbar.infer(normal(), [fbar.mean("a"), fbar.probability("b > 1")], budget=4000, seed=1)


@pytest.fixture(scope="module")
def at_tolerance():
    return fbar.infer(normal(), fbar.mean("a"), budget=4000, tolerance=0.8, method="rejection", seed=1)


def coins(probabilities=(0.2, 0.8)):
    def biased(theta, rng):
        return rng.binomial(10, theta["p"])

    models = {
        "fair": lambda theta, rng: rng.binomial(10, 0.5, theta.rows),
        "low": fbar.Model(biased, fbar.Prior(p=stats.uniform(0, 0.5))),
        "high": fbar.Model(biased, fbar.Prior(p=stats.uniform(0.5, 0.5))),
    }
    problem = fbar.Problem.models(models, observed=3, probabilities=[0.2, 0.5, 0.3])
    return fbar.infer(problem, fbar.mean("p"), tolerance=0, method="rejection", budget=20_000, seed=1)


@pytest.fixture(scope="module")
def choice():
    return coins()


# ---------------------------------------------------------------- the table


def test_rows_are_the_estimates_of_targets(at_data):
    found = at_data.summary(0.9)
    assert [row.name for row in found.rows] == ["a", "b", "twice"]
    row, mean = found["a"], at_data["mean:a"]
    assert row.mean == pytest.approx(mean.value)
    assert row.total_error == pytest.approx(mean.standard_error)
    assert row.mean_error == pytest.approx(math.sqrt(mean.standard_error**2 - mean.bias**2))
    assert row.sd == pytest.approx(at_data.expect(fbar.sd("a")).value)
    assert [row.low, row.high] == pytest.approx(at_data.expect(fbar.credible_interval("a", 0.9)).value.tolist())
    assert row.mean_reliability == mean.reliability
    assert found["twice"].sd == pytest.approx(2 * row.sd)


def test_the_total_error_at_a_tolerance_has_the_difference_from_the_posterior(at_tolerance):
    row, mean = at_tolerance.summary()["a"], at_tolerance["mean:a"]
    assert row.mean_error == pytest.approx(mean.standard_error)
    assert row.total_error == pytest.approx(math.hypot(mean.standard_error, mean.difference.value))


def test_an_exact_match_has_no_bias():
    problem = fbar.Problem(fbar.Prior(p=stats.uniform()), lambda theta, rng: rng.binomial(5, theta["p"]), observed=2)
    row = fbar.infer(problem, fbar.mean("p"), tolerance=0, method="rejection", budget=3000, seed=1).summary()["p"]
    assert row.total_error == row.mean_error > 0
    assert row.mean == pytest.approx(3 / 7, abs=4 * row.total_error)
    assert row.low == pytest.approx(stats.beta(3, 4).ppf(0.025), abs=4 * row.low_error)


def test_the_text_separates_the_interval_from_the_errors(at_data):
    lines = str(at_data.summary()).splitlines()
    assert "95% credible interval" in lines[0]
    assert "MC error  total error" in lines[0]
    assert any(line.startswith("probability:b > 1") for line in lines)  # what was asked and is not a row
    assert not any(line.startswith("mean:a") for line in lines)
    assert "given the data" in at_data.summary().legend[0]
    assert "of the mean" in at_data.summary().legend[1]
    assert "80% HDI" in str(at_data.summary(0.8, kind="hdi"))
    html = at_data.summary()._repr_html_()
    assert "<table" in html
    assert "95% credible interval" in html
    assert "confidence interval of the estimate" in at_data.estimates._repr_html_()


def test_other_programs_get_it(at_data):
    found = at_data.summary()
    frame = found.to_pandas()
    assert list(frame.index) == ["a", "b", "twice"]
    assert frame.loc["b", "mean"] == found["b"].mean
    again = SummaryTable.recorded(json.loads(json.dumps(found.as_dict())))
    assert again.lines(asked=False) == found.lines(asked=False)
    assert at_data.as_dict()["summary"] == found.as_dict()


def test_many_parameters_are_cut_on_a_screen():
    names = "abcdefgh"
    result = fbar.infer(normal(names, range(8)), fbar.mean("a"), budget=2000, seed=1)
    lines = result.summary().lines(5, asked=False)
    assert "and 4 more" in lines
    assert sum(line.startswith(tuple("abcdefgh")) for line in lines) == 5 + 1  # and the line that counts the rest


def test_labels_have_no_row():
    prior = fbar.Prior(colour=fbar.Categorical(["red", "blue"]), a=stats.norm())
    problem = fbar.Problem(prior, lambda theta, rng: theta["a"] + rng.standard_normal(theta.rows), observed=0.5)
    found = fbar.infer(problem, fbar.mean("a"), tolerance=0.5, method="rejection", budget=1000, seed=1).summary()
    assert found.left_out == ("colour",)
    assert [row.name for row in found.rows] == ["a"]
    assert "colour" in str(found)


def test_what_is_wrong_is_refused(at_data):
    with pytest.raises(fbar.InputError, match="level"):
        at_data.summary(95)
    with pytest.raises(fbar.InputError, match="kind of credible interval"):
        at_data.summary(kind="central")
    with pytest.raises(fbar.InputError, match="quantity"):
        at_data.summary()["c"]
    with pytest.raises(fbar.InputError, match="choice of models"):
        at_data.of_model("a")


# ---------------------------------------------------------------- models


def test_a_choice_of_models_is_summarised_by_model(choice):
    found = choice.summary()
    assert [model.label for model in found.models] == ["fair", "low", "high"]
    assert sum(model.probability for model in found.models) == pytest.approx(1)
    assert [model.prior for model in found.models] == [0.2, 0.5, 0.3]
    assert [len(model.rows) for model in found.models] == [0, 1, 1]
    assert "model low: probability" in str(found)
    with pytest.raises(fbar.InputError, match="several models have 'p'"):
        found["p"]
    assert list(found.to_pandas().index) == [("low", "p"), ("high", "p")]
    again = SummaryTable.recorded(json.loads(json.dumps(found.as_dict())))
    assert again.lines(asked=False) == found.lines(asked=False)


def test_the_posterior_within_a_model_is_its_own(choice):
    within = choice.of_model("low")
    beta = stats.beta(4, 8)
    exact = beta.expect(lambda p: p, lb=0, ub=0.5, conditional=True)
    mean = within.expect(fbar.mean("p"))
    assert mean.name == "mean:p"
    assert mean.value == pytest.approx(exact, abs=4 * mean.standard_error)
    median = within.expect(fbar.quantile("p", 0.5))
    assert median.value == pytest.approx(beta.ppf(beta.cdf(0.5) / 2), abs=4 * median.standard_error)
    assert within.probability.value == pytest.approx(choice.expect(fbar.model_probability("low")).value)
    drawn = within.sample(500)
    assert list(drawn) == ["p"]
    assert drawn["p"].max() <= 0.5
    assert within.estimates["mean:p"].value == pytest.approx(mean.value)
    assert within.summary()["p"].mean == pytest.approx(mean.value)
    with pytest.raises(fbar.InputError, match="there is no model 'medium'; known: fair, low, high"):
        choice.of_model("medium")


# ---------------------------------------------------------------- samples


def test_a_sample_has_equal_weights_and_the_same_expectations(at_data):
    size = round(at_data.posterior.ess)
    drawn = at_data.sample(size)
    assert drawn.rows == size
    assert list(drawn) == ["a", "b", "twice"]
    assert np.array_equal(drawn["twice"], 2 * drawn["a"])
    weighted = float(at_data.posterior.weights @ at_data.posterior.points["a"])
    assert drawn["a"].mean() == pytest.approx(weighted, abs=0.02)  # each point is drawn n·w times, up to one
    assert np.array_equal(drawn["a"], at_data.sample(size)["a"])
    assert not np.array_equal(drawn["a"], at_data.sample(size, seed=2)["a"])


def test_the_default_size_is_the_effective_one(at_data):
    assert at_data.sample().rows == round(at_data.posterior.ess)


def test_a_sample_of_few_distinct_points_warns(at_tolerance):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_tolerance.sample()
    with pytest.warns(UserWarning, match="the sample of 50,000 consists of .* distinct points"):
        at_tolerance.sample(50_000)
    with pytest.raises(fbar.InputError, match="size must be a positive integer; got 0"):
        at_tolerance.sample(0)
    with pytest.raises(fbar.InputError, match="negative"):
        at_tolerance.extrapolated().sample()


def test_the_values_of_a_finite_space_may_repeat():
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0]), [0.3, 0.6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = fbar.infer(problem, fbar.mean("theta"), budget=1000, seed=1).sample(100)
    assert set(drawn["theta"]) == {1.0, 2.0}


# ---------------------------------------------------------------- the command line

MODEL = """
import numpy as np
from scipy import stats

import fbar

problem = fbar.Problem(
    fbar.Prior(rate=stats.uniform(0, 10)), lambda theta, rng: rng.poisson(theta["rate"]), observed=4
)
targets = [fbar.mean("rate")]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    (directory / "model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        call("infer", "model.py", "--budget", "2000", "--tolerance", "0", "--seed", "1", "--run", "r", "-q")
    return directory


def call(*arguments):
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def test_the_command_line_prints_the_summary_first(recorded, monkeypatch, capsys):
    monkeypatch.chdir(recorded)
    capsys.readouterr()
    call("show", "r")
    shown = capsys.readouterr().out.splitlines()
    assert "95% credible interval" in shown[1]
    assert shown[2].startswith("rate ")
    estimate = next(place for place, line in enumerate(shown) if line.startswith("mean:rate"))
    assert estimate > 2
    call("show", "r", "--json")
    result = json.loads(capsys.readouterr().out)["legs"][0]["result"]
    assert result["summary"]["models"][0]["rows"][0]["name"] == "rate"
    spoilt = json.loads(json.dumps(result))
    spoilt["summary"]["models"][0]["rows"][0]["mean"] = "five"
    settings = json.loads(json.dumps(fbar.load(recorded / "r", trust=True).settings))
    check_settings(settings, result)
    with pytest.raises(fbar.FbarError, match="mean must be a number"):
        check_settings(settings, spoilt)


def test_the_command_line_writes_a_sample(recorded, monkeypatch, capsys):
    monkeypatch.chdir(recorded)
    call("export", "r", "--sample", "300", "--out", "s.csv")
    lines = (recorded / "s.csv").read_text().splitlines()
    assert lines[0] == "rate"
    assert len(lines) == 301
    call("export", "r", "--sample", "9000", "--out", "t.csv")
    assert "distinct points" in capsys.readouterr().err
    with pytest.raises(fbar.InputError, match="give one of them"):
        call("export", "r", "--sample", "300", "--all", "--out", "u.csv")
