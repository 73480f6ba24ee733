"""Predictions and checks within one model of a model choice."""

import json

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app

MODELS = {
    "normal": fbar.Model(lambda t, rng: t["m"] + rng.standard_normal(t.rows), fbar.Prior(m=stats.norm(0, 4))),
    "uniform": fbar.Model(lambda t, rng: t["width"] * rng.random(t.rows), fbar.Prior(width=stats.uniform(0, 4))),
}


def forecast(theta, rng):
    """A simulator of one of the models only."""
    return theta["m"] + 10


@pytest.fixture(scope="module", params=[None, 1.0], ids=["at the data", "at a tolerance"])
def result(request):
    problem = fbar.Problem.models(MODELS, observed=2.0)
    return fbar.infer(problem, fbar.model_probability("normal"), tolerance=request.param, budget=4000, seed=1)


def test_predictions_within_a_model_use_its_draws_only(result):
    within = result.of_model("normal")
    found = within.predict(200, simulator=forecast)
    assert found.failed == 0
    assert len(found) == 200
    assert not found.warnings
    assert set(found.points["model"]) == {"normal"}
    assert found.about.endswith("within model normal")
    exact, mean = within.expect(fbar.mean("m")), found.mean["x"]
    assert mean.value == pytest.approx(exact.value + 10, rel=1e-9)
    assert mean.standard_error == pytest.approx(exact.standard_error, rel=1e-3)


def test_a_simulator_of_one_model_only_is_noticed(result):
    found = result.predict(100, simulator=forecast)
    assert found.failed > 0
    assert any("no new simulation of model uniform succeeded" in text for text in found.warnings)


def test_a_model_is_checked_by_its_own_simulations():
    models = {
        "free": fbar.Model(lambda t, rng: t["m"] + rng.standard_normal(t.rows), fbar.Prior(m=stats.norm(0, 4))),
        "fixed": fbar.Model(lambda t, rng: t["s"] * rng.standard_normal(t.rows), fbar.Prior(s=stats.uniform(0.9, 0.2))),
    }
    problem = fbar.Problem.models(models, observed=3.0)
    result = fbar.infer(problem, fbar.model_probability("free"), budget=8000, seed=1)
    free, fixed = (result.of_model(label).model_check for label in models)
    assert free.p_value > 0.05
    assert fixed.p_value < 0.02


def test_the_command_line_predicts_within_a_model(tmp_path, capsys):
    (tmp_path / "model.py").write_text(
        "from scipy import stats\nimport fbar\n"
        "models = {\n"
        "  'normal': fbar.Model(lambda t, rng: t['m'] + rng.standard_normal(t.rows), fbar.Prior(m=stats.norm(0, 4))),\n"
        "  'uniform': fbar.Model(lambda t, rng: t['w'] * rng.random(t.rows), fbar.Prior(w=stats.uniform(0, 2))),\n"
        "}\n"
        "problem = fbar.Problem.models(models, observed=1.0)\ntargets = [fbar.model_probability('normal')]\n"
        "def forecast(theta, rng):\n    return theta['m'] + 10\n"
    )
    model, run = str(tmp_path / "model.py"), str(tmp_path / "run")

    def fbar_(*words):
        app(list(words), exit_on_error=False, result_action="return_value")
        return capsys.readouterr().out

    fbar_("infer", model, "--budget", "2000", "--seed", "1", "--run", run)
    asked = ["--model", f"{model}:forecast", "--of-model", "normal"]
    found = json.loads(fbar_("predict", run, *asked, "-n", "100", "--json"))
    assert (found["simulations"], found["failed"], found["warnings"]) == (100, 0, [])
    assert np.isfinite(found["predictions"][0]["mean"]["standard_error"])
