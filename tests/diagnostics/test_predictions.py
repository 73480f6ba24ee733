"""Predictions: of the data, of another simulator; by name, with both parts of their error, through the engine."""

import json

import numpy as np
import pandas
import pytest
from scipy import stats

import fbar
from fbar import InputError
from fbar.cli import app
from fbar.diagnostics.prediction_error import Calibration

PRIOR = fbar.Prior(rate=stats.uniform(1, 19))
OBSERVED = np.array([7.0, 9.0, 4.0, 6.0, 10.0])


def counts(theta, rng):
    return {"x": rng.poisson(theta["rate"][:, None], (theta.rows, 5)).astype(float), "next": rng.poisson(theta["rate"])}


def summary(x):
    return {"average": x.mean(axis=1), "largest": x.max(axis=1)}


@pytest.fixture(scope="module")
def result():
    problem = fbar.Problem(PRIOR, counts, OBSERVED, summary=summary, derived={"twice": lambda t: 2 * t["rate"]})
    return fbar.infer(problem, fbar.mean("rate"), budget=2000, seed=1)


def test_predictions_of_the_data_by_name(result):
    found = result.predict(100)
    assert set(found) == {"average", "largest", "x", "next"}
    assert found["x"].shape == (100, 5)
    np.testing.assert_allclose(found["average"], found["x"].mean(axis=1))
    np.testing.assert_array_equal(found.observed["x"], OBSERVED)
    assert found.observed["average"] == OBSERVED.mean()
    assert found.points["rate"].shape == found["next"].shape == (100,)
    assert list(found.to_pandas())[:3] == ["rate", "average", "largest"]
    assert list(found.to_pandas())[-6:] == [*(f"x[{i}]" for i in range(1, 6)), "next"]


def test_a_seed_gives_the_same_numbers_again(result):
    first, again, other = result.predict(50), result.predict(50), result.predict(50, seed=9)
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    np.testing.assert_array_equal(result.predict(50, seed=9)["next"], other["next"])


def test_a_parameter_is_predicted_as_it_is_estimated(result):
    """y = θ: the mean is the posterior's own estimate, with its own total error and none of the simulations'."""
    found = result.predict(200, simulator=lambda theta, rng: {"rate itself": theta["rate"], "both": theta["twice"]})
    estimate, mean = result.expect(fbar.mean("rate")), found.mean["rate itself"]
    assert mean.value == pytest.approx(estimate.value, rel=1e-9)
    assert mean.standard_error == pytest.approx(estimate.standard_error, rel=1e-6)
    assert mean.simulation_error == pytest.approx(0, abs=1e-9)
    assert found.mean["both"].value == pytest.approx(2 * estimate.value, rel=1e-9)


def test_noise_is_an_error_of_the_simulations_only(result):
    """y = noise, whatever θ is: the error is σ/√n, and falls with n."""
    found = {
        n: result.predict(n, simulator=lambda theta, rng: rng.normal(3, 2, theta.rows)).mean["x"] for n in (100, 1600)
    }
    for n, mean in found.items():
        assert mean.simulation_error == pytest.approx(2 / np.sqrt(n), rel=0.25)
        assert mean.posterior_error < mean.simulation_error
        assert abs(mean.value - 3) < 5 * mean.standard_error


@pytest.mark.slow
def test_error_bars_of_predictions_hold():
    """60 runs of rejection at a known posterior: x | m ~ N(m, 1), m ~ N(0, 1), data 0.8 matched within 0.1.

    A new y has mean 0.4 and variance 1.5. Intervals of ±1.96 standard errors for its mean, its 0.9 quantile, and the
    mean of m² + noise hold the truth in at least 48 of 60 (a false alarm below 1e-4 if they hold it in 95%)."""
    prior = fbar.Prior(m=stats.norm(0, 1))
    problem = fbar.Problem(prior, lambda t, rng: t["m"] + rng.standard_normal(t.rows), 0.8)

    def scenario(theta, rng):
        noise = rng.standard_normal(theta.rows)
        return {"y": theta["m"] + noise, "square": theta["m"] ** 2 + noise}

    held = np.zeros(3)
    for trial in range(60):
        run = fbar.infer(problem, fbar.mean("m"), method="rejection", tolerance=0.1, budget=3000, seed=trial)
        found = run.predict(300, simulator=scenario)
        mean, quantile = found.mean, found.quantile(0.9)
        truths = (0.4, 0.4 + np.sqrt(1.5) * stats.norm.ppf(0.9), 0.4**2 + 0.5)
        numbers = (mean["y"], quantile["y"], mean["square"])
        held += [abs(a.value - truth) < 1.96 * a.standard_error for a, truth in zip(numbers, truths, strict=True)]
    assert (held >= 48).all(), held


def test_weights_are_those_of_the_regression():
    """For any y, Σ w y is ȳ + β (t − φ̄): the estimate that the regression on φ gives at Ê[φ]."""
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((50, 2))
    phi = (phi - phi.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(phi.T, bias=True))).T
    away = np.array([0.2, -0.1])
    calibration = Calibration(1 / 50 + phi @ away / 50, phi, np.diag([0.04, 0.09]))
    y = rng.standard_normal((50, 1)) + phi[:, :1]
    design = np.column_stack([np.ones(50), phi])
    slopes = np.linalg.lstsq(design, y, rcond=None)[0]
    found = calibration.mean(y)
    assert found.value[0] == pytest.approx(float((slopes.T @ [1, *away])[0]))
    expected = np.sqrt(0.04 * slopes[1, 0] ** 2 + 0.09 * slopes[2, 0] ** 2)
    assert found.posterior_error[0] == pytest.approx(expected)


def test_another_simulator_gives_arrays_of_any_shape_and_labels(result):
    def scenario(theta, rng):
        return {
            "path": np.cumsum(rng.poisson(theta["rate"][:, None, None], (theta.rows, 3, 30)), axis=2),
            "kind": np.full(theta.rows, "a"),
        }

    found = result.predict(60, simulator=scenario)
    assert found["path"].shape == (60, 3, 30)
    assert found.mean["path"].value.shape == found.quantile(0.9)["path"].standard_error.shape == (3, 30)
    assert "kind" not in found.mean
    assert len(str(found).splitlines()) < 20
    assert "12 of 90 numbers are shown" in str(found)
    assert len(found.as_dict()["predictions"]) == 90
    json.dumps(found.as_dict())


def test_one_by_one_and_in_workers(result):
    @fbar.each
    def scenario(theta, rng):
        if rng.random() < 0.2:
            raise ValueError("no such scenario")
        return {"sick": rng.poisson(theta["rate"]), "days": [1.0, 2.0]}

    here = result.predict(40, simulator=scenario)
    assert 0 < here.failed < 40
    assert here["days"].shape == (40 - here.failed, 2)
    assert f"{here.failed} failed" in str(here)
    np.testing.assert_array_equal(result.predict(40, simulator=scenario, workers=1)["sick"], here["sick"])


def test_results_that_are_not_finite_have_failed(result):
    found = result.predict(50, simulator=lambda theta, rng: np.where(theta["rate"] > theta["rate"].mean(), np.nan, 1.0))
    assert 0 < found.failed < 50
    assert np.isfinite(found["x"]).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda result: result.predict(0), "n must be a positive integer"),
        (lambda result: result.predict(5, simulator="scenario"), "simulator must be a function"),
        (lambda result: result.predict(5, simulator=lambda theta, rng: 1 / 0), "failed"),
        (lambda result: result.predict(5, simulator=lambda theta, rng: np.zeros((7, 2))), "failed"),
        (lambda result: result.predict(5)["y"], "unknown prediction 'y'"),
        (lambda result: result.predict(5).quantile(2), "level"),
    ],
)
def test_wrong_predictions_are_refused(result, ask, message):
    with pytest.raises(InputError, match=message):
        ask(result)


def test_models_are_predicted_together():
    def model(spread):
        return fbar.Model(
            lambda theta, rng: theta["m"] + spread * rng.standard_normal(theta.rows), fbar.Prior(m=stats.norm(0, 1))
        )

    problem = fbar.Problem.models({"narrow": model(0.1), "wide": model(3.0)}, 0.5)
    result = fbar.infer(problem, fbar.probability("model == 'wide'"), budget=2000, seed=1)
    found = result.predict(300)
    assert set(found.points["model"]) == {"narrow", "wide"}
    share = result.predict(300, simulator=lambda theta, rng: theta["model"] == "wide").mean["x"]
    assert share.value == pytest.approx(result["probability:model == 'wide'"].value, abs=1e-6)


FORECAST = """
def simulate(theta, rng):
    return rng.poisson(3 * theta["rate"])

def halved(theta, rng):
    return {"half": theta["rate"] / 2}
"""


def test_predictions_from_the_command_line(tmp_path, monkeypatch, capsys):
    def call(*words):
        capsys.readouterr()
        app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    call("init")
    (tmp_path / "forecast.py").write_text(FORECAST)
    asked = ("--method", "rejection", "--tolerance", "3", "--budget", "500", "--seed", "1", "--quiet")
    call("infer", "model.py", *asked, "--run", "r")
    printed = call("predict", "r", "--number", "60")
    assert "observed" in printed
    assert "60 new simulations at parameters drawn from ABC's posterior at tolerance 3" in printed
    assert "wrote 40 rows to out.csv" in call(
        "predict", "r", "-n", "40", "--model", "forecast.py:halved", "--out", "out.csv"
    )
    table = pandas.read_csv("out.csv")
    np.testing.assert_allclose(table["half"], table["rate"] / 2)
    found = json.loads(call("predict", "r", "-n", "30", "--model", "forecast.py", "--json"))
    assert (found["simulations"], found["predictions"][0]["name"]) == (30, "x")
    with pytest.raises(InputError, match="already exists"):
        call("predict", "r", "--out", "out.csv")
    for given, message in (("forecast.py:no", "must define the simulator no"), ("none.py", "there is no file none.py")):
        with pytest.raises(InputError, match=message):
            call("predict", "r", "--model", given)


def test_where_new_simulations_fail_the_others_are_described_as_they_are():
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), lambda theta, rng: rng.normal(theta["mu"], 0.5), observed=0.5
    )
    result = fbar.infer(problem, [fbar.mean("mu")], budget=1000, seed=1, progress=False)
    found = result.predict(300, simulator=lambda theta, rng: np.where(theta["mu"] > 0.5, np.nan, theta["mu"]), seed=2)
    y = np.ravel(found["x"])
    assert 0 < found.failed < 300
    assert y.max() <= 0.5
    assert found.mean["x"].value == pytest.approx(y.mean())  # not the mean of the whole posterior
    assert found.quantile(0.5)["x"].value == pytest.approx(np.quantile(y, 0.5, method="inverted_cdf"))
    assert any("failed" in text for text in found.warnings)
