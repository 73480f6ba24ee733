"""A score and a problem of another package, as CONTRIBUTING.md shows them: one file and one registration each."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from page_tables import problems_table, scores_table

import fbar
from extending import example
from fbar import problems, scores
from fbar.cli import app
from fbar.errors import InputError
from fbar.problems.catalogue import unregister
from fbar.scores import Approximation, Given, Scene, Score, as_score, register
from fbar.study import Study
from fbar.system.plugins import load_plugins


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A package with both, as it looks when it is installed."""
    site = tmp_path_factory.mktemp("site")
    package = site / "extending_fbar"
    package.mkdir()
    (package / "__init__.py").write_text("from extending_fbar import bias, five_normals\n")
    (package / "bias.py").write_text(example("Adding a score"), encoding="utf-8")
    (package / "five_normals.py").write_text(example("Adding a problem"), encoding="utf-8")
    about = site / "extending_fbar-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extending-fbar\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fbar.plugins]\nextending = extending_fbar\n")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(site)
    load_plugins.cache_clear()
    yield site
    patch.undo()
    scores.base.SCORES.pop("bias", None)
    unregister("five-normals")
    for module in [name for name in sys.modules if name.startswith("extending_fbar")]:
        del sys.modules[module]
    load_plugins.cache_clear()


def printed(capsys, *arguments):
    capsys.readouterr()
    app(list(map(str, arguments)), exit_on_error=False, print_error=False, result_action="return_value")
    return capsys.readouterr().out


def test_the_score_is_known_by_name(installed, capsys):
    bias = as_score("bias")
    problem = problems.load("ramp")
    target = fbar.mean("theta")
    given = Approximation(None, None, 1, given={"mean:theta": Given(2 / 3 + 0.1)})
    deviation = np.sqrt(1 / 18)  # p(θ|x*) = 2θ
    assert bias.compute(given, Scene(problem, (target,)))["mean:theta"] == pytest.approx(0.1 / deviation)
    assert "bias" in scores.all_scores()
    assert "signed error of each expectation" in scores.listing()
    listed = json.loads(printed(capsys, "scores", "--json"))["scores"]
    assert [row["blind_spot"] for row in listed if row["name"] == "bias"] == [bias.blind_spot]
    assert "| `bias` | signed error of each expectation | (f̂ − f̄) / σ_f | (−∞, ∞) | near 0 |" in scores_table()


def test_the_problem_is_known_by_name(installed, capsys):
    problem = problems.load("five-normals", 2)
    assert problem.truth()["mean:mu"].value == pytest.approx(problem.data.sum() / 6)
    assert problem.with_observed([1, 2, 3, 4, 5]).truth()["mean:mu"].value == pytest.approx(2.5)
    assert "five-normals" in problems.names()
    assert "the mean of five normal observations" in printed(capsys, "problems")
    assert "closed form" in printed(capsys, "problems", "five-normals")
    assert "| `five-normals` | the mean of five normal observations | mu | 5 | 501 | closed form |" in problems_table()


def test_both_in_a_study_that_is_resumed(installed, tmp_path):
    """In closed form the ABC posterior at a small tolerance is near the true one: b² of draws is about 1 over them."""
    study = Study("five-normals", "rejection", 2000, trials=3, scores=["mse", "bias"], targets="mean:mu")
    first = study.run(tmp_path, workers=1, progress=False)
    again = study.run(tmp_path, workers=1, progress=False)
    assert [record.status for record in first.trials.values()] == ["ok"] * 3
    assert first.rows() == again.rows()
    bias = first.values("bias", "five-normals", "rejection", 2000)
    assert np.abs(bias).max() < 2  # 20 accepted draws: a standard error of 0.22
    assert first.values("mse", "five-normals", "rejection", 2000) == pytest.approx(bias**2)


def test_a_recorded_run_of_the_problem_is_resumed(installed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "import fbar\nproblem = fbar.problems.load('five-normals')\ntargets = [fbar.mean('mu')]\n"
    )
    infer = ("infer", "model.py", "--method", "rejection", "--tolerance", "0.2", "--seed", "1")
    printed(capsys, *infer, "--budget", "2000", "--run", "r")
    printed(capsys, "extend", "r", "--budget", "4000")
    assert "mean:mu" in printed(capsys, "resume", "r")
    truth = problems.load("five-normals").truth()["mean:mu"]
    found = fbar.load("r")["mean:mu"]
    assert abs(found.value - truth.value) < 5 * found.standard_error + 0.1 * truth.deviation


@pytest.mark.processes
def test_the_command_line_finds_both_in_a_process_of_its_own(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])}
    arguments = [
        "score",
        "--problem",
        "five-normals",
        "--method",
        "rejection",
        "--score",
        "bias",
        "--target",
        "mean:mu",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "fbar", *arguments, "--budget", "500", "--trials", "2", "--workers", "2", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert [row["score"] for row in json.loads(done.stdout)["summary"]] == ["bias"]


# ---------------------------------------------------------------- what is refused


def test_names_that_are_taken_are_refused():
    with pytest.raises(InputError, match=r"a problem 'ramp' already exists, made by fbar\.problems\S*:ramp"):
        problems.register("ramp", lambda: problems.load("sir"))

    class Mine(Score):
        name = "mse"
        title = "mine"
        better = "lower"

        def compute(self, approximation, scene):
            return {"": 0.0}

    with pytest.raises(InputError, match="a score 'mse' already exists"):
        register(Mine)
    assert as_score("mse").title != "mine"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"title": "t", "better": "lower"}, "must have a class variable 'name'"),
        ({"name": "a", "better": "lower"}, "must have a class variable 'title'"),
        ({"name": "a", "title": "t", "better": "smaller"}, "unknown value of Mine.better 'smaller'"),
        ({"name": "a", "title": "t", "better": "nominal"}, "must have a class variable 'nominal'"),
    ],
)
def test_a_score_that_does_not_say_what_it_is_is_refused(variables, message):
    with pytest.raises(InputError, match=message):
        register(type("Mine", (Score,), variables))


@pytest.mark.parametrize(
    ("name", "maker", "message"),
    [
        ("a/b", lambda: None, "the name of a problem must be text without"),
        ("mine", "nowhere", "must be a function, or a name"),
    ],
)
def test_a_problem_that_cannot_be_registered(name, maker, message):
    with pytest.raises(InputError, match=message):
        problems.register(name, maker)


def test_a_plugin_that_cannot_be_imported_is_skipped_with_a_warning(tmp_path, monkeypatch):
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fbar.plugins]\nbroken = no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    load_plugins.cache_clear()
    try:
        with pytest.warns(UserWarning, match="the plugin broken .* cannot be loaded: No module named"):
            assert "mse" in scores.all_scores()
    finally:
        load_plugins.cache_clear()
