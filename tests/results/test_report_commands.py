"""Reports from the command line and of loaded runs, and how they say to run it again."""

from __future__ import annotations

import re
import shlex
from functools import partial

import pytest

import fbar
from fbar.cli import app
from fbar.errors import FbarError, InputError
from fbar.results.again import again
from report_pages import NORMAL, TARGETS, Page, read


def command(capsys, *words):
    """What a command prints."""
    app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_report_says_how_to_run_it_again(tmp_path, monkeypatch, capsys):
    """The command of the report gives the numbers of the report."""
    monkeypatch.chdir(tmp_path)

    def call(line):
        return command(capsys, *shlex.split(line)[1:])

    call("fbar init model.py")
    for options in ("--budget 1500", "--tolerance 1 --method smc", "--tolerance 0.8 --precision rate=2% spread:0.9=1"):
        options = options.replace("spread:0.9=1", "'probability:rate > 10=0.05'")
        first = call(f"fbar infer model.py {options} --seed 7 --run my-run")
        call("fbar report my-run --predictive 0")
        words = (tmp_path / "my-run" / "report.html").read_text(encoding="utf-8")
        (pre,) = re.findall(r'Run it again</h3>\s*<pre class="wrapped">(.*?)</pre>', words, flags=re.DOTALL)
        resume, again = Page(pre).text[0].splitlines()[:2]
        assert call(again.partition("#")[0]) == first
        assert call(resume.partition("#")[0]) == first
        for file in sorted((tmp_path / "my-run").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.slow
def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    call = partial(command, capsys)
    call("init", "model.py")
    call("infer", "model.py", "--budget", "3000", "--seed", "1", "--run", "my-run")
    assert call("report", "my-run").strip() == "wrote my-run/report.html"
    assert call("report", "my-run", "--out", "deep/there.html", "--title", "Rates").strip() == "wrote deep/there.html"
    text = (tmp_path / "deep" / "there.html").read_text(encoding="utf-8")
    assert "<title>Rates</title>" in text
    assert '<p class="subtitle">A model for fbar: fill in the simulator, the prior and the data.</p>' in text
    with pytest.raises(InputError, match="holds no run"):
        call("report", "nothing")
    with pytest.raises(InputError, match="predictive"):
        call("report", "my-run", "--predictive", "-3")
    (tmp_path / "file").write_text("")
    with pytest.raises(FbarError, match="cannot write the report"):
        call("report", "my-run", "--out", "file/report.html")


def test_the_line_of_python_is_python(tmp_path):
    """Evaluated, it gives the numbers of the report; also with explicit tolerances and rules of several parts."""
    problem, targets = NORMAL, TARGETS  # the names in the line
    rule = fbar.StandardError("mean:mu", 0.1) | fbar.AcceptedCount(200)
    for given in (
        {"method": fbar.SMC([4, 2, 1], accepted=100), "budget": 2000},
        {"tolerance": 0.5, "budget": 4000, "stop": rule},
        {"tolerance": 0.5, "budget": 4000, "precision": {"mu": "20%", "probability:double > 1": 0.05}},
        {"tolerance": 0.5, "budget": 1500, "precision": {"mu": 1e-5}},
        {"method": "rejection", "tolerance": 0.5, "budget": 2000, "block_size": 100},
    ):
        result = fbar.infer(problem, targets, **given, seed=3)
        assert f"budget={given['budget']}" in again(result)
        found = eval(again(result), {"fbar": fbar, "problem": problem, "targets": targets})
        assert [e.value for e in found.estimates] == [e.value for e in result.estimates], given
        assert again(found) == again(result)


@pytest.mark.slow
def test_a_loaded_run_is_reported_for_the_targets_that_are_asked(tmp_path):
    fbar.infer(NORMAL, fbar.mean("mu"), tolerance=0.3, budget=4000, seed=1, run=tmp_path / "run")
    asked = [fbar.quantile("mu", 0.9), fbar.mean("mu"), fbar.mean("double")]
    result = fbar.load(tmp_path / "run", NORMAL, asked)
    found = read(result, tmp_path, predictive=0)
    for target in asked:
        assert sum(cell == target.name for cell in found.text) >= 3  # estimate, what half of its error costs, carriers
        assert f"{target.name} against the tolerance" in found.said
    bands = {band.name: band for band in fbar.plot.Tolerance.of(result).bands}
    limits = result.extrapolated().estimates
    for estimate in result.estimates:
        band = bands[estimate.name]
        assert band.values[band.tolerances == 0.3] == estimate.value
        if band.extrapolated is not None:
            assert band.extrapolated == limits[estimate.name].value
    assert [line.target for line in fbar.plot.Error.of(result).lines] == ["mean:mu"]  # the others were asked later
