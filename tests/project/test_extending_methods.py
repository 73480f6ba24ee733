"""A method of another package, as CONTRIBUTING.md shows it: one file and one registration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from extending import example
from fbar.cli.commands import app
from fbar.errors import InputError
from fbar.methods import register, registered, unregister
from fbar.results.again import again
from fbar.study import Study
from fbar.system.plugins import load_plugins
from fbar.testing import MethodConformance

P_STAR = [0.3, 0.05, 0.2]
PROBLEM = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.0]), P_STAR)
NUMBERS = fbar.Problem(
    fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: t["theta"][:, None] + rng.normal(size=(t.rows, 2)), [0.5, 1.0]
)
PAIR = fbar.Problem(
    fbar.Finite(theta=[1.0, 2.0, 3.0]),
    fbar.Fidelities(*(2 * [lambda t, rng: rng.poisson(t["theta"])])),
    observed=2,
)
FLIPS = fbar.Problem(
    fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: (rng.random((t.rows, 1)) < t["theta"][:, None]) * 1, [1]
)
MODEL = """
import fbar

problem = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.0]), [0.3, 0.05, 0.2])
targets = [fbar.mean("theta")]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A package with the method, as it looks when it is installed."""
    site = tmp_path_factory.mktemp("site")
    (site / "extending_by_a_method.py").write_text(example("Adding a method"), encoding="utf-8")
    about = site / "extending_by_a_method-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extending-by-a-method\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fbar.plugins]\neven = extending_by_a_method\n")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(site)
    load_plugins.cache_clear()
    yield site
    patch.undo()
    unregister("even")
    sys.modules.pop("extending_by_a_method", None)
    load_plugins.cache_clear()


def printed(capsys, *arguments):
    capsys.readouterr()
    app(list(map(str, arguments)), exit_on_error=False, print_error=False, result_action="return_value")
    return capsys.readouterr().out


def even(**settings):
    return type(registered()["even"].make())(**settings)


class TestItKeepsTheRules(MethodConformance):
    @pytest.fixture(autouse=True)
    def _of_the_package(self, installed):
        self.method = even()


def test_the_library_knows_it_by_name(installed):
    result = fbar.infer(PROBLEM, fbar.mean("theta"), method="even", budget=3000, seed=1)
    assert result.run.counts.tolist() == [1000, 1000, 1000]
    truth = np.average([1, 2, 3], weights=P_STAR)
    assert abs(result["mean:theta"].value - truth) < 5 * result["mean:theta"].standard_error
    assert result.run.stages()[0].words == "every value equally often"


def test_the_reference_lists_it(installed, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "_ext")
    from methods_by_name import rows

    assert ("even", "the same number of simulations for every value", "a finite prior") in rows()


def test_a_study_compares_it(installed, tmp_path):
    study = Study("ten-values", ["even", even(rounds=3)], 400, trials=2, scores=["mse"])
    first, again = study.run(tmp_path, workers=1, progress=False), study.run(tmp_path, workers=1, progress=False)
    assert {cell.method for cell in first.cells} == {"even", "Even(rounds=3)"}
    assert all(record.status == "ok" for record in first.trials.values())
    assert first.rows() == again.rows()


def test_the_command_line_runs_records_resumes_and_extends_it(installed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    infer = ("infer", "model.py", "--method", "even", "--seed", "1", "--json")
    whole = json.loads(printed(capsys, *infer, "--budget", "3000"))
    recorded = json.loads(printed(capsys, *infer, "--budget", "3000", "--run", "r"))
    assert recorded["estimates"] == whole["estimates"]
    assert "even" in printed(capsys, "methods")
    assert json.loads(printed(capsys, "resume", "r", "--json"))["estimates"] == whole["estimates"]
    extended = json.loads(printed(capsys, "extend", "r", "--budget", "6000", "--json"))
    assert extended["simulations"] == 6000
    assert "--method even" in again(fbar.load("r"))


def test_an_interrupted_run_goes_on_from_python(installed, tmp_path):
    """The record is replayed and the rest simulated: as many simulations are new as were missing."""
    asked = {"method": even(rounds=4), "seed": 1}
    counted = []

    def problem():
        def simulate(theta, rng):
            counted.append(theta.rows)
            if sum(counted) > 1500 and not (tmp_path / "mended").exists():
                raise KeyboardInterrupt
            return (rng.random(theta.rows) < np.take(P_STAR, theta["theta"].astype(int) - 1)).astype(float)

        return fbar.Problem(fbar.Finite(theta=[1.0, 2.0, 3.0]), simulate, observed=1.0)

    def infer(**more):
        return fbar.infer(problem(), fbar.mean("theta"), budget=3000, block_size=250, progress=False, **asked, **more)

    with pytest.raises(KeyboardInterrupt):
        infer(run=tmp_path / "run")
    (tmp_path / "mended").touch()
    counted.clear()
    resumed = infer(run=tmp_path / "run")
    assert 0 < sum(counted) < 3000
    assert resumed["mean:theta"].value == infer()["mean:theta"].value


@pytest.mark.processes
def test_a_model_file_that_imports_it_is_enough(tmp_path):
    """No package: the module lies beside the model file, and the run is resumed in a process of its own."""
    (tmp_path / "beside.py").write_text(example("Adding a method"), encoding="utf-8")
    (tmp_path / "model.py").write_text(f"import beside\n{MODEL}")

    def fbar_prints(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "fbar", *arguments, "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = fbar_prints("infer", "model.py", "--method", "even", "--seed", "1", "--budget", "3000", "--run", "r")
    assert fbar_prints("resume", "r")["estimates"] == first["estimates"]


# ---------------------------------------------------------------- what is refused


def test_names_that_are_taken_are_refused():
    with pytest.raises(InputError, match=r"a method 'smc' already exists, in fbar\.methods\.smc\.method"):
        register("smc", "mine")(fbar.Rejection)
    with pytest.raises(InputError, match="a method 'smc-last' already exists"):
        register("smc-last", "mine")(partial(fbar.SMC, weights="ess"))

    @dataclass(frozen=True)
    class Rejection(fbar.Importance):
        pass

    with pytest.raises(InputError, match="a class Rejection already exists"):
        register("mine", "mine")(Rejection)
    assert "mine" not in registered()
    with pytest.raises(InputError, match="one of fbar's own methods"):
        unregister("smc")


@pytest.mark.parametrize(
    ("name", "needs", "message"),
    [("a/b", "", "the name of a method must be text without"), ("mine", "much", "unknown need 'much'")],
)
def test_a_method_that_cannot_be_registered(name, needs, message):
    with pytest.raises(InputError, match=message):
        register(name, "mine", needs=needs)


def test_a_part_whose_settings_could_not_be_recorded_is_refused():
    with pytest.raises(InputError, match="dict must be a dataclass"):
        register("mine", "mine", parts=[dict])(partial(fbar.Rejection, rounds=2))


def test_every_name_of_the_list_is_one_that_infer_takes():
    """On a problem that has what the method needs."""
    has = {
        "a known acceptance probability": fbar.problems.load("ramp"),
        "continuous parameters": NUMBERS,
        "data that are numbers": NUMBERS,
        "a cheap simulator": PAIR,
        "independent data": NUMBERS,
        "independent whole numbers": FLIPS,
        "an estimate of the likelihood": fbar.with_likelihood(NUMBERS.prior, lambda t, rng: -(t["theta"] ** 2)),
    }
    budgets = {"independent data": 20_000, "continuous parameters": 40}
    for name, entry in registered().items():
        problem, budget = has.get(entry.needs, PROBLEM), budgets.get(entry.needs, 600)
        result = fbar.infer(problem, fbar.mean("theta"), method=name, budget=budget, seed=1, progress=False)
        assert np.isfinite(result.estimates[0].value), name
