"""Inference from the command line, as a newcomer would use it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import fbar
from fbar.cli import app


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A fresh directory with the file that `fbar init` writes."""
    monkeypatch.chdir(tmp_path)
    call("init")
    return tmp_path / "model.py"


def call(*arguments):
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def printed(capsys, *arguments):
    capsys.readouterr()
    call(*arguments)
    return capsys.readouterr().out


def as_json(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"))


def test_the_first_five_minutes(model, capsys):
    out = printed(capsys, "infer", "model.py", "--budget", "20000", "--tolerance", "2", "--seed", "1")
    assert "mean:rate " in out
    assert "20,000 simulations" in out
    assert "seed 1" in out
    with pytest.raises(fbar.InputError, match="already exists"):
        call("init")


@pytest.mark.slow
def test_a_run_is_recorded_shown_resumed_and_extended(model, capsys):
    first = as_json(capsys, "infer", "model.py", "--method", "smc", "--tolerance", "2", "--run", "r", "--seed", "3")
    again = as_json(capsys, "infer", "model.py", "--method", "smc", "--tolerance", "2", "--run", "r", "--seed", "3")
    assert again == first
    assert as_json(capsys, "resume", "r") == first
    shown = as_json(capsys, "show", "r")
    assert shown["legs"][0]["result"]["estimates"] == first["estimates"]
    assert shown["simulations"] == first["simulations"]
    assert "2 reached" in printed(capsys, "show", "r")
    with pytest.raises(fbar.InputError, match="already spent"):
        call("extend", "r", "--budget", "10")
    assert len(as_json(capsys, "show", "r")["legs"]) == 1  # nothing was recorded of what cannot be done
    more = as_json(capsys, "extend", "r", "--tolerance", "1")
    assert more["simulations"] > first["simulations"]
    assert more["stopped_by"] == "tolerance 1 reached"
    other = as_json(capsys, "extend", "r", "--budget", str(more["simulations"] + 3000), "-t", "mean:log_rate")
    assert list(other["estimates"]) == ["mean:log_rate"]
    assert other["simulations"] == more["simulations"] + 3000
    model.rename("elsewhere.py")  # the run has kept a copy
    assert as_json(capsys, "resume", "r") == other
    assert fbar.load("r").estimates[0].value == other["estimates"]["mean:log_rate"]["value"]


def test_other_settings_are_refused_with_the_difference(model, capsys):
    call("infer", "model.py", "--budget", "2000", "--tolerance", "5", "--run", "r", "--seed", "1")
    with pytest.raises(fbar.InputError, match="budget was 2000, is 3000"):
        call("infer", "model.py", "--budget", "3000", "--tolerance", "5", "--run", "r", "--seed", "1")
    with pytest.raises(fbar.InputError, match=r"method.tolerance was 5.0, is 4.0"):
        call("infer", "model.py", "--budget", "2000", "--tolerance", "4", "--run", "r", "--seed", "1")
    text = model.read_text()
    model.write_text(text.replace("observed = np.array([12.0,", "observed = np.array([13.0,"))
    with pytest.raises(fbar.InputError, match=r"problem\.observed was"):
        call("infer", "model.py", "--budget", "2000", "--tolerance", "5", "--run", "r")
    model.write_text(text.replace("    mean = theta", "    # another comment\n    mean = theta"))
    out = printed(capsys, "infer", "model.py", "--budget", "2000", "--tolerance", "5", "--run", "r")
    assert "the source of problem.simulator has changed" in out
    model.write_text(text.replace("x.std(axis=1)", "x.var(axis=1)"))
    with pytest.raises(fbar.InputError, match=r"problem\.summary\.source was"):
        call("infer", "model.py", "--budget", "2000", "--tolerance", "5", "--run", "r")


def test_targets_and_precision_from_the_command_line(model, capsys):
    names = [
        "mean:rate",
        "probability:rate > 10",
        "probability_between:5<rate<12",
        "covariance:rate,spread",
        "quantile:rate,0.9",
    ]
    options = [option for name in names for option in ("-t", name)]
    found = as_json(capsys, "infer", "model.py", "--budget", "30000", "--tolerance", "2", *options)
    assert list(found["estimates"]) == names
    found = as_json(
        capsys, "infer", "model.py", "--tolerance", "2", "--precision", "mean:rate=0.1", "--precision",
        "probability:rate > 10=0.05",
    )  # fmt: skip
    assert found["stopped_by"] == "stopping rule met"
    assert found["estimates"]["mean:rate"]["standard_error"] <= 0.1


def test_a_model_file_may_choose_its_method(model, capsys):
    model.write_text(model.read_text() + "\nmethod = fbar.SMC([8, 4], accepted=100, perturbation='normal')\n")
    shown = as_json(capsys, "infer", "model.py", "--run", "r", "--seed", "1")
    assert shown["stopped_by"] == "tolerance 4 reached"
    settings = as_json(capsys, "show", "r")["legs"][0]["settings"]["method"]
    assert (settings["type"], settings["perturbation"]) == ("SMC", "normal")
    assert as_json(capsys, "resume", "r") == shown
    model.write_text(model.read_text() + "\nmethod = 3\n")
    with pytest.raises(fbar.InputError, match="or another method; it is 3"):
        call("infer", "model.py")


@pytest.mark.slow
def test_exports(model, capsys):
    call("infer", "model.py", "--budget", "5000", "--tolerance", "5", "--run", "r", "--seed", "1")
    call("export", "r")
    with open("r.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"rate", "spread", "log_rate", "weight"}
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1)
    import pandas

    call("export", "r", "--format", "parquet")
    assert len(pandas.read_parquet("r.parquet")) == len(rows)
    call("export", "r", "--all", "--out", "all.csv")
    table = pandas.read_csv("all.csv")
    assert len(table) == 5000
    assert {"round", "block", "rate", "summary1", "summary2", "failure"} <= set(table)
    call("export", "r", "--format", "netcdf")
    import xarray

    ess = 1 / sum(float(row["weight"]) ** 2 for row in rows)
    with xarray.open_dataset("r.nc", group="posterior", engine="h5netcdf") as posterior:
        assert posterior["rate"].shape == (1, round(ess))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["infer", "nowhere.py", "--budget", "10"], "there is no model file nowhere.py; create one with: fbar init"),
        (["infer", "model.py"], "nothing ends this run"),
        (["infer", "model.py:other", "--budget", "10"], "must define other = fbar.Problem"),
        (["infer", "model.py", "--budget", "10", "-t", "men:rate"], "did you mean 'mean'"),
        (["infer", "model.py", "--budget", "10", "-t", "mean:rat"], "there is no parameter 'rat'"),
        (["infer", "model.py", "--budget", "10", "-t", "quantile:rate"], "write it like quantile:beta,0.9"),
        (["infer", "model.py", "--budget", "10", "--method", "smcc"], "did you mean 'smc'"),
        (["infer", "model.py", "--precision", "mean:rate"], "TARGET=ERROR"),
        (["show", "nothing"], "holds no run"),
        (["resume", "nothing"], "holds no run"),
        (["export", "nothing"], "holds no run"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(model, arguments, text):
    with pytest.raises(fbar.FbarError, match=text) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)


def test_a_broken_model_file_is_named_with_its_line(model):
    model.write_text("import fbar\n\nproblem = fbar.Problem(1, 2\n")
    with pytest.raises(fbar.InputError, match=r"model.py, line \d cannot be read: SyntaxError"):
        call("infer", "model.py", "--budget", "10")
    model.write_text("import fbar\n\n1 / 0\n")
    with pytest.raises(fbar.InputError, match=r"model.py, line 3 cannot be read: ZeroDivisionError"):
        call("infer", "model.py", "--budget", "10")
    model.write_text("problem = 3\n")
    with pytest.raises(fbar.InputError, match="is a int, not an"):
        call("infer", "model.py", "--budget", "10")


SLOW = """
import time
import fbar
from scipy import stats

@fbar.each
def simulate(theta, rng):
    time.sleep(0.005)
    return theta["a"] + rng.standard_normal()

problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=1.0)
targets = [fbar.mean("a")]
"""


@pytest.mark.processes
def test_control_c_stops_cleanly_says_how_to_go_on_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    command = [
        sys.executable, "-m", "fbar", "infer", "slow.py", "--budget", "1400", "--tolerance", "0.5", "--run", "r",
        "--seed", "1", "--block-size", "10", "--workers", "2",
    ]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.1)
        if (tmp_path / "r" / "ledger.sqlite").exists() and as_json(capsys, "show", "r")["blocks"] > 3:
            break
    children = _children(driver.pid)
    driver.send_signal(signal.SIGINT)
    out, error = driver.communicate(timeout=30)
    assert driver.returncode == 130, (out, error)
    assert "all recorded in r; rerun the command to resume" in error
    assert "Traceback" not in error
    assert not any(_alive(child) for child in children)
    assert 30 < as_json(capsys, "show", "r")["simulations"] < 1400
    resumed = as_json(capsys, "resume", "r")
    assert resumed["simulations"] == 1400
    alone = as_json(
        capsys, "infer", "slow.py", "--budget", "1400", "--tolerance", "0.5", "--seed", "1", "--block-size", "10"
    )
    assert resumed["estimates"] == alone["estimates"]


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_every_commands_help_teaches(capsys):
    for name in ("init", "infer", "show", "resume", "extend", "export"):
        with pytest.raises(SystemExit):
            app([name, "--help"])
        assert "xample" in capsys.readouterr().out


def test_json_is_pure_whatever_the_model_prints(model, capfd):
    text = model.read_text().replace('    mean = theta["rate"]', '    print("simulating")\n    mean = theta["rate"]')
    model.write_text("print('imported')\n" + text)
    for options in ((), ("--workers", "1")):
        capfd.readouterr()
        call("infer", "model.py", "--budget", "200", "--tolerance", "9", "--seed", "1", "--json", *options)
        out, error = capfd.readouterr()
        assert json.loads(out)["simulations"] == 200
        assert "simulating" in error


def test_a_run_leaves_other_files_alone_and_keeps_its_time_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW.replace("time.sleep(0.005)", "time.sleep(9 if theta['a'] > 2 else 0)"))
    (tmp_path / "model.py").write_text("mine")
    options = ["--budget", "100", "--tolerance", "2", "--run", ".", "--seed", "1", "--timeout", "0.2"]
    first = as_json(capsys, "infer", "slow.py", *options)
    assert (tmp_path / "model.py").read_text() == "mine"
    assert as_json(capsys, "show", ".")["legs"][0]["settings"]["machine"]["timeout"] == 0.2
    assert as_json(capsys, "resume", ".") == first
    call("export", ".", "--out", "mine.csv")
    assert (tmp_path / "mine.csv").exists()


@pytest.mark.processes
def test_a_colon_in_a_path_and_a_budget_without_end(tmp_path, monkeypatch, capsys):
    odd = tmp_path / "a:b"
    odd.mkdir()
    monkeypatch.chdir(odd)
    call("init")
    call("infer", str(odd / "model.py"), "--budget", "500", "--tolerance", "9", "--run", "r", "--seed", "1")
    assert "500 simulations" in printed(capsys, "resume", "r")
    done = subprocess.run(
        [sys.executable, "-m", "fbar", "infer", "model.py", "--budget", "inf"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "it must be a whole number; got 'inf'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_acceptances_is_shown(model, capsys):
    with pytest.raises(fbar.NoPosterior):
        call("infer", "model.py", "--budget", "300", "--tolerance", "1e-6", "--run", "r", "--seed", "1")
    assert "300 simulations recorded" in printed(capsys, "show", "r")
