"""Problems, methods, scores and studies from the command line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from fbar import problems
from fbar.cli import app
from fbar.errors import InputError
from fbar.methods import registered
from fbar.scores import all_scores


def call(*arguments):
    app(list(map(str, arguments)), exit_on_error=False, print_error=False, result_action="return_value")


def printed(capsys, *arguments):
    capsys.readouterr()
    call(*arguments)
    return capsys.readouterr().out


def as_json(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"), parse_constant=lambda name: pytest.fail(name))


def test_lists(capsys):
    listed = as_json(capsys, "problems")["problems"]
    assert [row["name"] for row in listed] == problems.names()
    assert all(row["title"] and row["parameters"] >= 1 for row in listed)
    assert [row["name"] for row in as_json(capsys, "methods")["methods"]] == list(registered())
    found = as_json(capsys, "scores")["scores"]
    assert [row["name"] for row in found] == list(all_scores())
    assert all(row["blind_spot"] and row["formula"] for row in found)
    for what, name in (("problems", "ramp"), ("methods", "smc-last"), ("scores", "c2st")):
        assert name in printed(capsys, what)


@pytest.mark.parametrize("name", ["gaussian-linear", "two-sided-exponential", "ten-values"])
def test_a_problem_tells_its_truth(capsys, name):
    tree = as_json(capsys, "problems", name)
    targets = {row["name"]: row for row in tree["targets"]}
    for parameter in tree["parameters"]:
        for kind in ("mean", "second_moment"):
            row = targets[f"{kind}:{parameter}"]
            assert row["standard_error"] >= 0
            assert isinstance(row["truth"], float)
    assert tree["how"]
    assert tree["parameters"][0] in printed(capsys, "problems", name)


def test_the_truth_of_other_data(capsys, tmp_path):
    """A header is allowed; posterior means of the Gaussian are half the data."""
    data = [0.1 * i for i in range(10)]
    plain, headed = tmp_path / "plain.csv", tmp_path / "headed.csv"
    plain.write_text(",".join(map(str, data)) + "\n")
    headed.write_text(",".join(f"x{i}" for i in range(10)) + "\n" + ",".join(map(str, data)) + "\n\n")
    for file in (plain, headed):
        tree = as_json(capsys, "problems", "gaussian-linear", "--observed", file)
        assert tree["observation"] is None
        assert [tree["targets"][2 * i]["truth"] for i in range(10)] == pytest.approx([x / 2 for x in data])
    third = as_json(capsys, "problems", "gaussian-linear", "--observation", 3)
    assert third["observation"] == 3
    assert third["targets"][0]["truth"] == pytest.approx(third["observed"][0] / 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3\n", "are 10 numbers; got 3"),
        ("1,2\n3,4\n", "must contain one row of numbers, with or without a header; it has 2 rows"),
        ("a,b\n", "must contain one row of numbers"),
        ("", "it has 0 rows"),
        ("nan" + ",1" * 9, "finite numbers"),
    ],
)
def test_data_that_cannot_be_used(tmp_path, text, message):
    file = tmp_path / "data.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        call("problems", "gaussian-linear", "--observed", file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("problems", "two-mons"), "unknown problem"),
        (("problems", "gaussian-linear", "--observation", "11"), "from 1 to 10; got 11"),
        (("problems", "gaussian-linear", "--observation", "1", "--observed", "x"), "either"),
        (("problems", "--observation", "1"), "name the problem"),
        (("problems", "gaussian-linear", "--observed", "not-there.csv"), "cannot read not-there.csv"),
        (("problems", "ramp", "--observed", "{row}"), "it cannot take other data"),
        (("score",), "name at least one problem"),
        (("score", "--problem", "ramp"), "name at least one method"),
        (("score", "--problem", "ramp", "--method", "rejection"), "--budget 1000 10000"),
        (
            ("score", "--problem", "ramp", "--method", "rejection", "--budget", "2.5"),
            "positive whole number; got '2.5'",
        ),
        (("score", "--preset", "paper-clams"), "did you mean 'paper-claims'"),
        (("score", "--preset", "paper-claims", "--method", "smc"), "leave out --method and --budget"),
        (("score", "--problem", "ramp", "--method", "x.py:f", "--budget", "10"), "no file x.py"),
    ],
)
def test_bad_commands(tmp_path, arguments, message):
    row = tmp_path / "row.csv"
    row.write_text("1\n")
    with pytest.raises(InputError, match=message):
        call(*(argument.format(row=row) for argument in arguments))


@pytest.mark.slow
def test_a_study_from_the_command_line(capsys, tmp_path):
    out = tmp_path / "study"
    own = tmp_path / "own.py"
    own.write_text(
        "import numpy as np\n"
        "def my_way(problem, budget, rng):\n"
        "    theta = problem.prior.sample(budget, rng=rng)\n"
        "    return theta.take(np.flatnonzero(problem.matches(theta, rng)))\n"
    )
    command = ("score", "--problem", "ramp", "--method", "rejection", f"{own}:my_way", "--budget", 100, 400)
    text = printed(capsys, *command, "--trials", 8, "--out", out, "--workers", 2)
    assert "differences are significant" in text
    assert "relative to rejection" in text
    assert {"scores.csv", "summary.csv", "ranking.csv", "pairs.csv", "ranking.png", "curves.svg", "versus.png"} <= {
        path.name for path in out.iterdir()
    }
    with open(out / "scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len([row for row in rows if row["score"] == "mse"]) == 2 * 2 * 8 * 5
    kept = (out / "trials.jsonl").read_bytes()
    tree = as_json(capsys, *command, "--trials", 8, "--out", out)
    assert (out / "trials.jsonl").read_bytes() == kept, "a finished study runs nothing again"
    assert {row["method"] for row in tree["ranking"]} == {"rejection", "my-way"}
    assert tree["efficiency"][0]["relative"] == 1


@pytest.mark.processes
def test_errors_are_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fbar", "score", "--problem", "rampp", "--method", "smc", "--budget", "10"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fbar: unknown problem 'rampp'; did you mean 'ramp'?")
    assert done.stderr.count("\n") == 1
