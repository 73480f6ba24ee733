"""A target is one file and one registration: the one of CONTRIBUTING.md, in a package that is not fbar's."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fbar
from extending import example
from fbar.cli import app
from fbar.question.targets import KINDS, parse, register
from fbar.question.targets.registry import unregister
from fbar.testing import TargetConformance

ROOT = Path(__file__).parents[2]

MODEL = """
from scipy import stats

import fbar
from variations import variation

prior = fbar.Prior(rate=stats.gamma(4))
problem = fbar.Problem(prior, lambda theta, rng: rng.poisson(theta["rate"]), observed=3)
targets = [variation("rate"), fbar.mean("rate")]
"""
EXACT = 1 / np.sqrt(7)
"""Given a count of 3 the rate has a gamma distribution with shape 7."""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    directory = tmp_path_factory.mktemp("package")
    (directory / "variations").mkdir()
    (directory / "variations" / "__init__.py").write_text(example("Adding a target"), encoding="utf-8")
    (directory / "model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        yield importlib.import_module("variations")
        sys.modules.pop("variations")
        unregister("variation")


@pytest.fixture
def place(package, monkeypatch):
    monkeypatch.chdir(Path(package.__file__).parent.parent)
    return Path.cwd()


def call(*arguments):
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


class TestVariation(TargetConformance):
    @pytest.fixture(autouse=True)
    def made(self, package):
        self.target = package.variation("a")


def within(estimate):
    """Whether the truth is within five standard errors, once in two million runs it is not."""
    return abs(estimate.value - EXACT) < 5 * estimate.standard_error


def problem():
    return importlib.import_module("model").problem


def test_it_is_estimated_with_an_error_bar(place, package):
    result = fbar.infer(problem(), package.variation("rate"), budget=20_000, tolerance=0, seed=1)
    assert within(result["variation:rate"])
    assert result["variation:rate"].trusted


def test_from_the_command_line_recorded_and_resumed(place, capsys):
    command = ["infer", "model.py", "--target", "variation:rate", "--tolerance", "0", "--budget", "3000", "--seed", "1"]
    call(*command, "--run", "by-command", "--json")
    told = json.loads(capsys.readouterr().out)
    assert list(told["estimates"]) == ["variation:rate"]
    call(*command, "--run", "by-command", "--json")
    assert json.loads(capsys.readouterr().out)["estimates"] == told["estimates"]
    call("extend", "by-command", "--budget", "5000", "--json", "-q")
    assert json.loads(capsys.readouterr().out)["simulations"] == 5000
    call("explain", "by-command", "variation:rate")
    assert "variation:rate" in capsys.readouterr().out


def test_a_run_made_from_python_is_read_by_another_process(place, package):
    made = fbar.infer(
        problem(), package.variation("rate"), budget=3000, tolerance=0, seed=1, run="by-python", progress=False
    )
    code = "import fbar, model; print(repr(fbar.load('by-python', model.problem)['rate'].value))"
    command = [sys.executable, "-W", "error", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(told) == pytest.approx(made["rate"].value, rel=1e-12)


def test_it_is_in_the_reference(place, capsys, monkeypatch):
    call("targets", "model.py")
    assert "variation:NAME" in capsys.readouterr().out
    call("targets", "model.py", "--json")
    row = next(row for row in json.loads(capsys.readouterr().out)["targets"] if row["name"] == "variation")
    assert row["title"] == "Posterior standard deviation of a parameter, as a fraction of its mean."
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    monkeypatch.delitem(sys.modules, "target_kinds", raising=False)
    pytest.importorskip("sphinx")
    import target_kinds

    assert any(line.startswith("| `variation:NAME` |") for line in target_kinds.listed())


def test_an_installed_plugin_is_found_by_name(place, tmp_path):
    """Nothing imports it: its package is declared as an entry point."""
    (place / "variations-1.0.dist-info").mkdir(exist_ok=True)
    (place / "variations-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: variations\nVersion: 1.0\n"
    )
    (place / "variations-1.0.dist-info" / "entry_points.txt").write_text("[fbar.plugins]\nvariations = variations\n")
    code = "from fbar.question.targets import parse, registered; print(parse('variation:a').name, *registered())"
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert told.split()[0] == "variation:a"
    assert told.split()[1:] == sorted([*KINDS])


# ---------------------------------------------------------------- the registry


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_example_of_every_kind_is_the_name_of_its_target(name):
    assert parse(KINDS[name].example).name == KINDS[name].example


def kinds_of_fbar():
    return [kind for kind in KINDS.values() if kind.make.__module__.startswith("fbar.")]


def test_every_kind_of_fbar_is_a_public_function():
    assert len(kinds_of_fbar()) == 15
    for kind in kinds_of_fbar():
        assert getattr(fbar, kind.name) is kind.make
        assert kind.title.endswith(".")


def test_a_kind_of_fbar_is_not_replaced():
    def mean(name: str) -> fbar.Target:
        return fbar.mean(name)

    with pytest.raises(fbar.InputError, match="fbar already has a target 'mean'; choose another name"):
        register("NAME", "mean:a")(mean)


def test_a_form_with_an_unknown_argument_is_refused():
    def strange(name: str) -> fbar.Target:
        return fbar.mean(name)

    with pytest.raises(fbar.InputError, match=r"has level, not an argument of strange"):
        register("NAME,LEVEL", "strange:a,0.5")(strange)
    assert "strange" not in KINDS


def test_a_text_that_does_not_fit_the_form_is_refused_with_the_example():
    for text in ("quantile:a", "quantile:a,b", "quantile:a,0.1,0.2"):
        with pytest.raises(fbar.InputError, match=r"cannot read the target .*write it like quantile:beta,0\.9"):
            parse(text)


def test_the_help_of_infer_lists_every_kind_of_fbar(capsys):
    call("infer", "--help")
    shown = capsys.readouterr().out
    assert [kind.name for kind in kinds_of_fbar() if f"{kind.name}:" not in shown] == []
