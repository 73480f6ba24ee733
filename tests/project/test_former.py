"""Former names: refused in new input with the present ones, understood in what was recorded.

The run in ``tests/data/run-with-former-names`` was recorded by the last version that had them, from a model file that
uses them:
``fbar infer model.py --budget 300 --block-size 100 --precision "interval:2<rate<5=0.01" --seed 1 --run run``,
then ``fbar extend run --budget 400``.
"""

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import fbar
from fbar import former
from fbar.cli import app
from fbar.methods.stopping import restored
from fbar.question.targets import parse

RECORDED = Path(__file__).parents[1] / "data" / "run-with-former-names"
NOW = ["mean:rate", "probability_between:2<rate<5", "density_at:rate=4", "log"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("FBAR_STATE_DIR", str(tmp_path / "state"))
    shutil.copytree(RECORDED, tmp_path / "run")
    return tmp_path / "run"


def call(*arguments):
    app([str(part) for part in arguments], exit_on_error=False, print_error=False, result_action="return_value")


CALLED_LATER = """

def simulate(theta, rng):
    from fbar.priors import Prior

    assert Prior is fbar.Prior
    assert fbar.interval is fbar.probability_between
    return rng.poisson(theta["rate"])
"""


@pytest.mark.processes
@pytest.mark.parametrize(("workers", "beside"), [(None, False), (2, False), (None, True)])
def test_a_model_may_use_former_names_when_its_functions_are_called(run, tmp_path, monkeypatch, workers, beside):
    """Also in another process; in a module beside the model only in this one: workers do not know whose it is."""
    model, old = run / "fbar-model.py", '\n\ndef simulate(theta, rng):\n    return rng.poisson(theta["rate"])\n'
    text = model.read_text()
    assert old in text
    if beside:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "helper_of_former.py").write_text(f"import fbar{CALLED_LATER}")
        model.write_text(text.replace(old, "\nfrom helper_of_former import simulate\n"))
    else:
        model.write_text(text.replace(old, CALLED_LATER))
    call("extend", run, "--budget", 600, "--trust", "--quiet", *(["--workers", workers] if workers else []))
    assert fbar.load(run, trust=True).simulations == 600
    assert not fbar.load(run, trust=True).failed
    with pytest.raises(AttributeError, match=r"fbar\.interval is now"):
        fbar.interval  # noqa: B018
    monkeypatch.delitem(sys.modules, "fbar.priors", raising=False)  # where a function's own import has put it
    vars(fbar).pop("priors", None)


def test_a_module_keeps_its_place_whatever_it_was_called():
    """Also where a package is still known by its former name when what is in it is forgotten."""
    real = importlib.import_module("fbar.question.priors.marginals")
    package = importlib.import_module("fbar.question.priors")
    sys.modules["fbar.priors"] = package
    try:
        with former.allowed():
            assert importlib.import_module("fbar.priors.marginals") is real
    finally:
        sys.modules.pop("fbar.priors", None)
        vars(fbar).pop("priors", None)
    assert package.marginals is real


# ---------------------------------------------------------------- what was recorded


def test_a_recorded_run_loads_from_its_own_old_model(run):
    stored = json.loads((run / "run.json").read_text())["legs"][-1]["result"]
    loaded = fbar.load(run, trust=True)
    assert [target.name for target in loaded.targets] == NOW
    for name, estimate in zip(NOW, stored["estimates"].values(), strict=True):
        assert loaded[name].value == pytest.approx(estimate["value"], rel=1e-9)
        assert loaded[name].standard_error == pytest.approx(estimate["standard_error"], rel=1e-9)
    assert loaded.simulations == stored["simulations"]


def test_a_recorded_run_is_extended_reported_and_explained(run, capsys):
    more = fbar.extend(run, budget=600, trust=True, progress=False)
    assert more.simulations == 600
    assert list(more.as_dict()["estimates"]) == NOW
    for command in (("show",), ("explain", NOW[1]), ("resume", "-q"), ("export", "--out", run.parent / "run.csv")):
        call(command[0], run, *command[1:], *(("--trust",) if command[0] != "show" else ()))
    shown = capsys.readouterr().out
    assert NOW[1] in shown
    assert not re.search(r"^interval:", shown, re.M)  # the former name of a target
    legs = [*more.earlier, more.settings]
    assert [leg["targets"] for leg in legs] == [NOW] * 3
    assert legs[0]["stop"]["target"] == NOW[1]
    assert list(legs[0]["method"]["importance"]) == [NOW[1]]


def test_old_models_leave_no_old_names_behind(run):
    before = set(sys.modules)
    fbar.load(run, trust=True)
    assert not any(name in former.MODULES for name in set(sys.modules) - before)
    for module in ("fbar.targets.make", "fbar.targets.kinds", "fbar.targets"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(module)
    assert not hasattr(fbar.question.targets, "make")
    with pytest.raises(AttributeError, match=r"fbar\.interval is now fbar\.probability_between"):
        fbar.interval("rate", 2, 5)


def test_a_module_has_its_own_name_and_place_after_old_models():
    priors = importlib.import_module("fbar.question.priors")
    spec = priors.__spec__
    with former.allowed():
        assert importlib.import_module("fbar.priors") is priors
        assert importlib.import_module("fbar.priors.base").Distribution is fbar.Distribution
        split = importlib.import_module("fbar.targets.kinds")
        assert {split.Expectation, split.Covariance, split.DensityAt}
        assert importlib.import_module("fbar.targets").interval is fbar.probability_between
        assert importlib.import_module("fbar.stopping").Spent is fbar.CostBudget
    assert priors.__spec__ is spec
    assert priors.__name__ == "fbar.question.priors"


def test_public_names_are_not_hidden_by_modules_that_moved():
    """Modules that once had the name of a public function: both are found while an old model is executed."""
    program = fbar.program
    with former.allowed():
        from fbar.posterior import Posterior
        from fbar.program import program as found

        assert Posterior is fbar.Posterior
        assert found is fbar.program is program
        assert fbar.posterior({"a": [1, 2]}).name == "probabilities"
    assert fbar.program is program
    assert not {"fbar.posterior", "fbar.program"} & set(sys.modules)
    with pytest.raises(AttributeError, match=r"fbar\.posterior is now fbar\.probabilities"):
        fbar.posterior({"a": [1, 2]})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("fbar.priors", "Prior"), ("fbar.priors.finite", "Finite"), ("fbar.priors.marginals", "Categorical")),
        *(
            ("fbar.points", "Points"),
            ("fbar.problem", "Problem"),
            ("fbar.simulators", "each"),
            ("fbar.program", "program"),
        ),
        *(("fbar.distances", "Scaled"), ("fbar.acceptance", "Acceptance"), ("fbar.targets", "mean")),
        *(("fbar.targets.make", "quantile"), ("fbar.stopping", "Budget"), ("fbar.summaries", "LearnedSummaries")),
        *(("fbar.methods", "Targeted"), ("fbar.methods.smc", "SMC"), ("fbar.methods.schedules", "QuantileSchedule")),
        *(("fbar.methods.method", "Method"), ("fbar.methods.method", "Run"), ("fbar.methods.sampling", "Rejection")),
        *(("fbar.methods.targeted", "Targeted"), ("fbar.methods.adaptive", "AdaptiveAllocation")),
        *(("fbar.estimators", "DoublyRobust"), ("fbar.proposals", "NormalKernel"), ("fbar.proposals.space", "Space")),
        *(("fbar.inference", "infer"), ("fbar.result", "Result"), ("fbar.posterior", "Posterior")),
    ],
)
def test_what_an_old_model_imported_is_found(module, name):
    with former.allowed():
        found = getattr(importlib.import_module(module), name)
    assert getattr(fbar, name, found) is found


def test_every_place_of_a_former_module_exists():
    places = [place for found in former.MODULES.values() for place in ((found,) if isinstance(found, str) else found)]
    for place in places:
        importlib.import_module(place)


def test_recorded_stopping_rules_have_their_types_of_now():
    described = {
        "type": "Either",
        "first": {"type": "Acceptances", "accepted": 50},
        "second": {
            "type": "Both",
            "first": {"type": "Spent", "cost": 3.0},
            "second": {"type": "StandardError", "target": "model-probability:a", "wanted": 0.1},
        },
    }
    rule = restored(former.settings({"stop": described})["stop"])
    assert rule == fbar.AcceptedCount(50) | (fbar.CostBudget(3) & fbar.StandardError("model_probability:a", 0.1))


@pytest.mark.parametrize("value", [None, 3, "x", [], {"targets": 3}, {"targets": [3, None]}, {"stop": {"type": []}}])
def test_what_is_not_settings_is_left_alone(value):
    assert former.settings(value) == value
    assert former.result(value) == value
    assert former.study(value) == value


def test_settings_as_deep_as_json_allows_are_read():
    deep = {"type": "Spent"}
    for _ in range(900):
        deep = {"type": "Either", "first": deep}
    assert former.settings({"stop": deep})["stop"]["type"] == "Either"


def as_once(text):
    return text.replace("model_probability:", "model-probability:")


def test_a_recorded_study_goes_on(tmp_path):
    def study(trials):
        methods = {"rejection": fbar.Rejection()}
        return fbar.Study("nested-models", methods, budgets=[200], trials=trials, targets="model_probability:1")

    first = study(2).run(tmp_path / "study", workers=1, progress=False)
    settings = tmp_path / "study" / "study.json"
    settings.write_text(as_once(settings.read_text()))
    trials = tmp_path / "study" / "trials.jsonl"
    lines = [as_once(line.split(" ", 1)[1]).encode() for line in trials.read_text().splitlines()]
    assert b"model-probability:1" in lines[0]
    trials.write_bytes(b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in lines))
    again = study(3).run(tmp_path / "study", workers=1, progress=False)
    assert len(trials.read_text().splitlines()) == 3

    def values(result):
        return list(result.values("mse", "nested-models", "rejection", 200, "model_probability:1"))

    assert values(again)[:2] == values(first)


def test_studies_are_known_by_the_digests_of_before():
    """The digest of a problem's truth has its targets' names as they were first."""
    study = fbar.Study("poisson-or-geometric", ["rejection"], budgets=[100], trials=1)
    assert study.settings()["problems"]["poisson-or-geometric"]["digest"] == DIGEST


DIGEST = "f2476beffbd2f769"


# ---------------------------------------------------------------- new input


@pytest.mark.parametrize("name", sorted(former.NAMES))
def test_a_former_name_is_refused_with_the_present_one(name):
    with pytest.raises(AttributeError, match=rf"^fbar\.{name} is now fbar\.{former.NAMES[name]}$"):
        getattr(fbar, name)
    assert not hasattr(fbar, name)
    assert hasattr(fbar, former.NAMES[name])


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match="module 'fbar' has no attribute 'nothing'"):
        fbar.nothing  # noqa: B018


@pytest.mark.parametrize("kind", sorted(former.TARGETS))
def test_a_former_text_form_is_refused_with_the_present_one(kind):
    what = {"density": "a=1", "interval": "0<a<1"}.get(kind, "a")
    with pytest.raises(fbar.InputError, match=f"'{kind}:{what}' is now written '{former.TARGETS[kind]}:{what}'"):
        parse(f"{kind}:{what}")


def test_a_former_text_form_that_cannot_be_read_either_is_refused_with_one_that_can():
    with pytest.raises(fbar.InputError, match="cannot read the target 'density_at:a,1'; write it like density_at:b"):
        parse("density:a,1")


def test_estimates_by_a_former_name_are_refused_with_the_present_one(run):
    loaded = fbar.load(run, trust=True)
    with pytest.raises(fbar.InputError, match="is now written 'probability_between:2<rate<5'"):
        loaded["interval:2<rate<5"]
    with pytest.raises(fbar.InputError, match="is now written 'density_at:rate=4'"):
        loaded.forecast({"density:rate=4": 0.1})


def test_a_target_of_your_own_cannot_have_a_former_name():
    with pytest.raises(fbar.InputError, match="cannot be called 'density:low'"):
        fbar.expectation(lambda t: t["a"], name="density:low")
    with pytest.raises(fbar.InputError, match="cannot be called 'posterior'"):
        fbar.probability(lambda t: t["a"] > 1, name="posterior")


def test_a_model_file_with_a_former_name_is_refused_with_the_present_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(RECORDED / "fbar-model.py", "model.py")
    text = Path("model.py").read_text().replace("import fbar.targets.make as makers\n", "").replace("makers.", "fbar.")
    Path("model.py").write_text(text.replace("from fbar.targets.kinds import DensityAt, Expectation\n", ""))
    with pytest.raises(fbar.InputError, match=r"line \d+ .*fbar\.interval is now fbar\.probability_between"):
        call("infer", "model.py", "--budget", "100")


def test_former_arguments_are_refused_with_the_present_ones():
    with pytest.raises(TypeError, match=r"^Workers\(count=\.\.\.\) is now Workers\(workers=\.\.\.\)$"):
        fbar.Workers(count=3)
    study = fbar.Study("ramp", "rejection", budgets=10, trials=1)
    with pytest.raises(TypeError, match=r"^Study\.run\(client=\.\.\.\) is now Study\.run\(engine=\.\.\.\)$"):
        study.run(client=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        fbar.Workers(nothing=3)
    assert list(inspect.signature(fbar.Workers).parameters) == ["workers", "timeout", "bundle_seconds"]


# ---------------------------------------------------------------- what is public


def test_dir_shows_what_is_public_and_nothing_else():
    code = "import fbar; print(*(name for name in dir(fbar) if not name.startswith('__')))"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert fresh == sorted(fbar.__all__)


@pytest.mark.parametrize("name", fbar.__all__)
def test_no_module_is_hidden_by_a_public_name(name):
    """``import fbar.name as m`` gives the module, where there is one."""
    if importlib.util.find_spec(f"fbar.{name}") is None:
        return
    assert getattr(fbar, name) is importlib.import_module(f"fbar.{name}")
