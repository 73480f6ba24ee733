"""A recorded run looked at in other ways, done again, exported, and gone on with, as the command line says itself."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.cli.output import with_commands
from fbar.engine.base import Engine, Session
from fbar.ledger import Ledger
from fbar.results.again import again

MODEL = """
import numpy as np
from scipy import stats
import fbar

def simulate(theta, rng):
    return theta["a"][:, None] + rng.standard_normal((theta.rows, 2))

problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=[1.0, 1.2])
targets = [fbar.mean("a"), fbar.probability("a > 0.5")]
"""


def noisy(theta, rng):
    return theta["a"][:, None] + rng.standard_normal((theta.rows, 2))


PROBLEM = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), noisy, observed=[1.0, 1.2])
TARGETS = [fbar.mean("a"), fbar.probability("a > 0.5")]
NAMES = {"fbar": fbar, "problem": PROBLEM, "targets": TARGETS}


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "model.py"


def call(*arguments):
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def printed(capsys, *arguments):
    capsys.readouterr()
    call(*arguments)
    return capsys.readouterr().out


def as_json(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A finished run of a model file, which tests only read."""
    where = tmp_path_factory.mktemp("recorded")
    (where / "model.py").write_text(MODEL)
    options = ["--budget", "4000", "--tolerance", "1.5", "--seed", "1", "--quiet"]
    call("infer", str(where / "model.py"), "--run", str(where / "r"), *options)
    return where / "r"


class Stop(Exception):
    """Stands for whatever ends a process in the middle of a run."""


def interrupted(function, *arguments, after=3, **options):
    """Begin a run, and leave it after some blocks."""
    seen = []

    def progress(run):
        seen.append(run)
        if len(seen) > after:
            raise Stop

    with pytest.raises(Stop):
        function(*arguments, **options, progress=progress)


# ---------------------------------------------------------------- going on


def test_an_interrupted_run_from_python_is_gone_on_with_as_show_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = {"budget": 2000, "tolerance": 1.5, "seed": 7, "block_size": 100}
    interrupted(fbar.infer, PROBLEM, TARGETS, run="run 1", **options)
    told = printed(capsys, "show", "run 1")
    assert "fbar resume" not in told
    line = told.partition("made from Python, resume it there with: ")[2].strip()
    with pytest.raises(fbar.InputError) as refused:
        call("resume", "run 1")
    assert line in str(refused.value)  # the same words
    done = eval(line, NAMES)
    assert [e.value for e in done.estimates] == [e.value for e in fbar.infer(PROBLEM, TARGETS, **options).estimates]
    assert "not finished" not in printed(capsys, "show", "run 1")
    with pytest.raises(fbar.InputError, match=r"fbar\.load\('run 1', problem\)"):
        call("resume", "run 1")  # finished: there is a result to be shown, and its problem is in Python
    with pytest.raises(fbar.InputError, match=r"fbar\.extend\('run 1', problem, budget=\.\.\.\)"):
        call("extend", "run 1", "--budget", "3000")


def test_an_interrupted_extension_from_python_is_gone_on_with_as_show_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fbar.infer(PROBLEM, TARGETS, budget=1000, tolerance=1.5, seed=7, block_size=100, run="r")
    more = {"targets": fbar.mean("a"), "budget": 2500, "tolerance": 1.0}
    interrupted(fbar.extend, "r", PROBLEM, **more, after=13)
    line = printed(capsys, "show", "r").partition("resume it there with: ")[2].strip()
    assert line.startswith("fbar.extend('r', problem, targets=['mean:a'], tolerance=1.0, budget=2500")
    done = eval(line, NAMES)
    assert done.simulations == 2500
    assert "not finished" not in printed(capsys, "show", "r")


def test_a_run_of_a_model_file_goes_on_by_resume(model, capsys, monkeypatch):
    from fbar.running import make_task, run_task
    from fbar.running.model_file import read

    source = read("model.py")
    source.remember()
    task = make_task(source.problem, source.targets, budget=2000, tolerance=1.5, block_size=100)
    interrupted(run_task, task, seed=1, run="r", engine=fbar.InProcess(), model=source)
    command = printed(capsys, "show", "r").partition("not finished; resume it with: fbar ")[2].split()
    assert command == ["resume", "r"]
    assert as_json(capsys, *command)["simulations"] == 2000


# ---------------------------------------------------------------- other tolerances


@pytest.mark.parametrize(
    ("how", "options", "words"),
    [
        ("at(0.7)", ["--at", "0.7"], "at tolerance 0.7, from the same simulations"),
        ("at_data()", ["--at-data"], "at the data, from the same simulations"),
        ("adjusted()", ["--adjusted"], "adjusted by regression on the summaries, at tolerance 1.5"),
        ("extrapolated()", ["--extrapolated"], "extrapolated to tolerance 0, from tolerances 1.5 and 0.75"),
        ("at(1.0).adjusted()", ["--at", "1", "--adjusted"], "adjusted by regression on the summaries, at tolerance 1"),
        (
            "at(1.0).extrapolated()",
            ["--extrapolated", "--at", "1"],
            "extrapolated to tolerance 0, from tolerances 1 and 0.5",
        ),
    ],
)
def test_other_looks_at_a_run_say_what_they_are_wherever_they_are_shown(how, options, words, recorded, capsys):
    own = fbar.load(recorded)
    result = eval(f"own.{how}")
    assert str(result).splitlines()[0] == f"{words}:"
    assert words in repr(result)
    assert words in result._repr_html_()
    tree = result.as_dict()
    assert tree["what"] == words
    if result.is_at_data:
        assert "tolerance" not in tree
    else:
        assert tree["tolerance"] == pytest.approx(float(re.findall(r"tolerances? ([\d.]+)", words)[-1]))
    seen = json.loads(json.dumps(tree).replace("result.at_data()", f"fbar show {recorded} --at-data"))
    assert as_json(capsys, "show", str(recorded), *options) == seen
    assert printed(capsys, "show", str(recorded), *options).startswith(words)
    told = printed(capsys, "explain", str(recorded), "a", *options).splitlines()[0]
    assert told == f"mean:a = {result['a']}, {words}"
    for text in (str(own), repr(own), own._repr_html_()):
        assert words not in text
    assert "what" not in own.as_dict()


@pytest.mark.parametrize("how", ["at(0.7)", "at_data()", "adjusted()", "extrapolated(tolerance=1.0)"])
def test_another_look_can_be_had_again_by_the_commands_of_its_report(how, recorded, capsys, tmp_path, monkeypatch):
    own = fbar.load(recorded)
    result = eval(f"own.{how}")
    monkeypatch.chdir(tmp_path)
    _, *lines = again(result).splitlines()
    assert [line.split()[1] for line in lines] == ["infer", "show"]
    call(*shlex.split(lines[0])[1:], "--quiet")
    assert as_json(capsys, *shlex.split(lines[1])[1:]) == json.loads(json.dumps(result.as_dict()))
    odd = again(own.extrapolated(ratio=3)).splitlines()[-1]
    assert odd == "# then .extrapolated(ratio=3) of its result"  # no option says it


def test_after_at_the_other_looks_are_at_that_tolerance():
    own = fbar.infer(PROBLEM, TARGETS, budget=4000, tolerance=1.5, seed=1)
    assert own.at(1.0).adjusted()["a"].value == own.adjusted(tolerance=1.0)["a"].value != own.adjusted()["a"].value
    assert own.at(1.0).extrapolated()["a"].value == own.extrapolated(tolerance=1.0)["a"].value
    assert own.at(np.float64(1)).adjusted().how == ".adjusted(tolerance=1.0)"
    with pytest.raises(fbar.InputError, match="tolerance"):
        own.at("small")


def test_the_warning_of_a_bias_names_what_can_be_typed(model, capsys):
    """On the command line a command, which then answers; in Python a method."""
    infer = ("infer", "model.py", "--budget", "8000", "--tolerance", "3", "--seed", "1")
    loose = printed(capsys, *infer)
    assert "result." not in loose
    assert "lower it, or see fbar show RUN --at-data (record the run with --run RUN)" in loose
    told = [printed(capsys, *infer, "--run", "my run"), printed(capsys, "show", "my run")]
    told += [" ".join(as_json(capsys, "resume", "my run")["warnings"])]
    told += [" ".join(as_json(capsys, "show", "my run")["legs"][0]["result"]["warnings"])]
    for text in told:
        assert "result." not in text
        (command,) = re.findall(r"see (fbar show 'my run' --[\w-]+)", text)
    seen = printed(capsys, *shlex.split(command)[1:])
    assert "8,000 simulations" in seen
    assert "about the posterior" in seen
    assert "result.at_data()" in str(fbar.load("my run"))
    with pytest.raises(fbar.InputError, match="--at-data has no tolerance"):
        call("show", "my run", "--at-data", "--at", "1")
    with pytest.raises(fbar.InputError, match="either --adjusted or --extrapolated"):
        call("show", "my run", "--adjusted", "--extrapolated")


def printed_texts():
    """Texts outside the command line's own modules that are not docstrings."""
    source = Path(fbar.__file__).parent
    for path in sorted(source.rglob("*.py")):
        if path.parent != source / "cli":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            docs = {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "2" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
                    yield node.value


def test_every_method_that_a_text_names_has_a_command():
    named = [text for text in printed_texts() if re.search(r"\bresult\.\w+\([^)]*\)", text)]
    assert len(named) >= 3
    for text in named:
        assert not re.search(r"\bresult\.", with_commands(text, Path("my run"))), text
    assert with_commands("see result.at(0.3)", Path("my run")) == "see fbar show 'my run' --at 0.3"
    assert with_commands("see result.explain()", Path("r")) == "see fbar explain r"


# ---------------------------------------------------------------- again


def test_an_extended_run_is_had_again_by_the_commands_of_its_report(model, capsys):
    call("infer", "model.py", "--budget", "2000", "--tolerance", "2", "--seed", "5", "--run", "r")
    call("extend", "r", "--budget", "4000", "--tolerance", "1.5")
    final = as_json(
        capsys, "extend", "r", "-t", "mean:a", "-t", "quantile:a,0.9", "--precision", "a=0.02", "--budget", "30000"
    )
    resume, *lines = again(fbar.load("r")).splitlines()
    assert as_json(capsys, *shlex.split(resume.partition("#")[0])[1:]) == final
    assert [line.split()[1] for line in lines] == ["infer", "extend", "extend"]
    for line in lines[:-1]:
        call(*shlex.split(line)[1:])
    found = as_json(capsys, *shlex.split(lines[-1])[1:])
    assert {**found, "warnings": []} == {**final, "warnings": []}  # which name the run's directory
    assert len(as_json(capsys, "show", "r-again")["legs"]) == 3


def test_an_extended_run_of_python_is_had_again_by_its_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = fbar.AcceptedCount(1200) | fbar.Budget(9000)
    fbar.infer(PROBLEM, TARGETS, method=fbar.SMC([3, 2], accepted=200), seed=3, run="r")
    fbar.extend("r", PROBLEM, tolerance=1.5)
    final = fbar.extend("r", PROBLEM, stop=rule)
    lines = again(final).splitlines()
    assert [line.partition("(")[0] for line in lines] == ["fbar.infer", "fbar.extend", "fbar.extend"]
    found = [eval(line, NAMES) for line in lines][-1]
    assert found.as_dict() == final.as_dict()


def test_a_rule_or_a_method_of_your_own_has_its_place_in_the_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Mine(fbar.StoppingRule):
        def holds(self, run):
            return run.simulations >= 500

    result = fbar.infer(PROBLEM, TARGETS, method="rejection", tolerance=1, stop=Mine(), budget=2000, seed=1)
    found = eval(again(result), {**NAMES, "stop": Mine()})
    assert found["a"].value == result["a"].value


# ---------------------------------------------------------------- export


def test_an_export_replaces_no_file_unless_told_to(model, capsys):
    call("infer", "model.py", "--budget", "500", "--tolerance", "2", "--run", "r", "--seed", "1")
    (model.parent / "r.csv").write_text("mine")
    for options in ((), ("--all",)):
        with pytest.raises(fbar.InputError, match=r"r\.csv already exists; .*--out FILE.*--force"):
            call("export", "r", *options)
    assert (model.parent / "r.csv").read_text() == "mine"
    assert "wrote" in printed(capsys, "export", "r", "--force")
    assert "weight" in pandas.read_csv("r.csv")


METHODS = {
    "targeted": fbar.Targeted(tolerance=1.5),
    "rejection": fbar.Rejection(tolerance=1.5),
    "gaussian": fbar.Rejection(tolerance=0.5, kernel="gaussian"),
    "smc": fbar.SMC([3, 2, 1.5], accepted=150),
    "scaled": fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=1.0), accepted=150, distance=fbar.Scaled()),
}


def exported(method, budget):
    """A recorded run, and the table of all its simulations."""
    from fbar.running import make_task, run_task
    from fbar.running.model_file import read

    source = read("model.py")
    source.remember()
    task = make_task(source.problem, source.targets, method=method, budget=budget)
    result = run_task(task, seed=1, run="r", engine=fbar.InProcess(), model=source)
    call("export", "r", "--all", "--format", "parquet")
    table = pandas.read_parquet("r.parquet")
    assert len(table) == result.simulations == budget
    return result, table


@pytest.mark.parametrize("method", [fbar.Targeted(), fbar.Rejection(), fbar.SMC(accepted=150)], ids=["t", "r", "s"])
def test_the_simulations_that_an_answer_at_the_data_uses_are_marked(method, model, capsys):
    """As they were simulated; the posterior has them where they were moved to, with the same weights."""
    result, table = exported(method, 800)
    assert result.is_at_data
    used = table[table["used"]]
    assert "accepted" not in table
    assert len(used) == result.accepted == result.posterior.points.rows
    assert sorted(used["weight"]) == pytest.approx(sorted(result.posterior.weights))
    assert (table.loc[~table["used"], "weight"] == 0).all()
    call("export", "r", "--format", "csv")
    sample = pandas.read_csv("r.csv")
    np.testing.assert_allclose(sample["a"], result.posterior.points["a"])
    assert sample["weight"] @ sample["a"] == pytest.approx(result["a"].value, abs=result["a"].standard_error)


@pytest.mark.parametrize("name", METHODS)
def test_all_simulations_are_exported_with_distance_acceptance_and_weight(name, model, capsys):
    """The accepted rows, with their weights, are the posterior."""
    result, table = exported(METHODS[name], 2000)
    kept = table[table["accepted"]]
    np.testing.assert_array_equal(kept["a"], result.posterior.points["a"])
    np.testing.assert_allclose(kept["weight"], result.posterior.weights)
    assert (table.loc[~table["accepted"], "weight"] == 0).all()
    assert kept["weight"] @ kept["a"] == pytest.approx(result["a"].value)
    if name != "scaled":
        away = np.hypot(table["summary1"] - 1.0, table["summary2"] - 1.2)
        np.testing.assert_allclose(table["distance"], away)
    near = table["distance"] <= result.run.reported_tolerance
    if name in ("targeted", "rejection"):
        assert near.equals(table["accepted"])
    elif name != "gaussian":  # a round ends within a block, whose other simulations are not used
        assert near[table["accepted"]].all()
    if name != "gaussian":  # in whatever terms distances are measured
        smaller = result.run.reported_tolerance / 2
        assert (kept["distance"] <= smaller).sum() == result.at(smaller).accepted > 0


def test_exports_of_finite_spaces_failures_and_runs_of_python(model, capsys, tmp_path):
    text = MODEL.replace("fbar.Prior(a=stats.norm(0, 1))", "fbar.Finite(a=[0, 1, 2])")
    text = text.replace("rng.standard_normal((theta.rows, 2))", "rng.choice([0.0, 1.0, np.nan], (theta.rows, 2))")
    model.write_text(text)
    call("infer", "model.py", "--budget", "900", "--tolerance", "0.5", "--run", "finite", "--seed", "1")
    call("export", "finite", "--all")
    table = pandas.read_csv("finite.csv")
    assert table["accepted"].sum() == fbar.load("finite").accepted
    failed = table["failure"].notna()
    assert failed.any()
    assert table.loc[failed, "distance"].isna().all()
    assert not table.loc[failed, "accepted"].any()
    assert "weight" not in table  # those of the posterior are the values' own
    fbar.infer(PROBLEM, TARGETS, budget=500, tolerance=2, seed=1, run="python")
    told = printed(capsys, "export", "python", "--all")
    assert "without distance, accepted and weight: python was made from Python" in told
    assert "distance" not in pandas.read_csv("python.csv")


def test_the_distances_of_a_run_that_accepted_nothing_are_exported(model, capsys):
    with pytest.raises(fbar.NoPosterior):
        call("infer", "model.py", "--method", "rejection", "--budget", "50", "--tolerance", "1e-9", "--run", "r")
    assert "nothing was accepted" in printed(capsys, "export", "r", "--all")
    table = pandas.read_csv("r.csv")
    assert not table["accepted"].any()
    np.testing.assert_allclose(table["distance"], np.hypot(table["summary1"] - 1.0, table["summary2"] - 1.2))


def test_counts_and_seeds_are_numbers_in_json(model, capsys):
    """A seed that readers of JSON would round is text: 2**53 + 1 is the first."""
    infer = ("infer", "model.py", "--budget", "500", "--tolerance", "2")
    found = as_json(capsys, *infer, "--seed", "1", "--run", "r")
    for key in ("simulations", "accepted", "rounds", "seed"):
        assert type(found[key]) is int, key
    shown = as_json(capsys, "show", "r")["legs"][0]
    assert (shown["settings"]["seed"], shown["result"]["seed"]) == (1, 1)
    assert type(as_json(capsys, "explain", "r", "a")["accepted"]) is int
    large = 2**127 + 12345
    assert as_json(capsys, *infer, "--seed", str(large))["seed"] == str(large)
    assert as_json(capsys, *infer, "--seed", str(2**53))["seed"] == str(2**53)
    assert as_json(capsys, *infer, "--seed", str(2**53 - 1))["seed"] == 2**53 - 1
    smooth = fbar.infer(PROBLEM, TARGETS, method=METHODS["gaussian"], budget=500, seed=1).as_dict()
    assert type(smooth["accepted"]) is float
    assert type(smooth["estimates"]["mean:a"]["value"]) is float


# ---------------------------------------------------------------- one account


class Backwards(Engine):
    """Gives the blocks that it was asked for in the order from last to first, as workers may."""

    def session(self, problem):
        waiting = []

        class Last(Session):
            def submit(self, batches):
                waiting.extend(batches)

            def collect(self):
                batch = waiting.pop()
                return [(batch, fbar.simulate(problem, batch))]

        return Last()


def test_who_stops_a_run_and_who_looks_at_it_are_told_the_same_number(tmp_path, monkeypatch, capsys):
    """Blocks that ended before others that come first are recorded and not used yet; they are counted all the same."""
    monkeypatch.chdir(tmp_path)
    blocks = []

    def progress(run):
        assert run.simulations == 0  # the first block is the last to come
        blocks.append(run)
        if len(blocks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="stopped after 300 simulations, all recorded in r; rerun the command"):
        fbar.infer(
            PROBLEM, TARGETS, method="rejection", tolerance=1, budget=16_000, block_size=100, seed=1, run="r",
            engine=Backwards(), progress=progress,
        )  # fmt: skip
    shown = as_json(capsys, "show", "r")
    assert (shown["simulations"], shown["used"]) == (300, None)
    assert "300 simulations recorded in 3 blocks\n" in printed(capsys, "show", "r")


def test_simulations_that_were_not_used_are_said_to_be_so(model, capsys):
    """Blocks asked for ahead of need, behind the end of a round."""
    call("infer", "model.py", "--method", "smc", "--tolerance", "1.5", "--run", "r", "--seed", "1")
    used = as_json(capsys, "show", "r")["used"]
    assert f"{used:,} simulations recorded in" in printed(capsys, "show", "r")
    assert "of them used" not in printed(capsys, "show", "r")
    run = fbar.load("r").run
    from fbar.question.outcomes import Batch

    points = PROBLEM.prior.sample(40, rng=np.random.default_rng(1))
    spare = Batch(run.round - 1, 10_000, points, None, run.seeds)
    with Ledger(model.parent / "r", create=False) as ledger:
        ledger.record((spare, fbar.simulate(PROBLEM, spare)))
    assert f"{used + 40:,} simulations recorded" in printed(capsys, "show", "r")
    assert f", {used:,} of them used: the others ran in advance" in printed(capsys, "show", "r")
    tree = as_json(capsys, "show", "r")
    assert (tree["simulations"], tree["used"]) == (used + 40, used)
    call("export", "r", "--all")
    table = pandas.read_csv("r.csv")
    assert len(table) == used + 40
    assert table.loc[table["block"] == 10_000, "accepted"].sum() == 0
