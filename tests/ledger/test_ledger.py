"""Recorded runs: the same again without a simulation, refused with other settings, and readable by later versions.

Every test here is exact: results are compared bit for bit, so there are no false alarms. The run in
``tests/data/run-format-1`` was made by ``python tests/ledger/test_ledger.py make_example tests/data/run-format-1``.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
import fbar.ledger
from fbar.ledger import Ledger, pack
from fbar.question.outcomes import Failure
from recorded_cases import CASES, FINITE, MODELS, MU, do, everything_of, normal_problem, simulated, smc

pytestmark = pytest.mark.arithmetic

# ---------------------------------------------------------------- the same again


@pytest.mark.parametrize("case", CASES)
def test_the_same_command_gives_the_same_result_without_simulating(case, tmp_path):
    plain = do(case)
    first, blocks = simulated(do, case, tmp_path / "run")
    again, more = simulated(do, case, tmp_path / "run")
    assert everything_of(first) == everything_of(plain)
    assert everything_of(again) == everything_of(plain)
    assert (blocks > 0, more) == (case not in ("tabulated", "bernoulli", "finite models"), 0)
    assert str(again) == str(first)
    first_printed, plain_printed = (re.sub(r"\S+ s of simulator time", "", str(result)) for result in (first, plain))
    assert first_printed == plain_printed


@pytest.mark.parametrize("case", ["rejection", "smc", "adaptive", "precision", "models"])
def test_load_gives_the_result_without_simulating(case, tmp_path):
    first = do(case, tmp_path)
    problem, _, _ = CASES[case]()
    loaded, blocks = simulated(fbar.load, tmp_path, problem)
    assert blocks == 0
    assert everything_of(loaded) == everything_of(first)


def test_load_answers_other_questions_and_speaks_of_them_alone(tmp_path):
    do("rejection", tmp_path)
    loaded = fbar.load(tmp_path, CASES["rejection"]()[0], fbar.second_moment("mu"))
    assert list(loaded.as_dict()["estimates"]) == ["second_moment:mu"]
    assert [estimate.name for estimate in loaded.bias] == ["second_moment:mu"]
    assert loaded.at(0.25).estimates[0].name == "second_moment:mu"
    assert {estimates[0].name for _, estimates in loaded.curve()} == {"second_moment:mu"}
    assert "estimate minus posterior: second_moment:mu" in str(loaded)


def test_failures_keep_their_counts_examples_and_tracebacks(tmp_path):
    do("failing", tmp_path)
    seen = do("failing", tmp_path).run.seen
    assert seen.counts[Failure.EXCEPTION] > 50
    assert seen.counts[Failure.NOT_FINITE] > 50
    assert seen.examples[Failure.EXCEPTION].startswith("ZeroDivisionError: above three")
    assert 'raise ZeroDivisionError("above' in seen.details[Failure.EXCEPTION]
    with Ledger(tmp_path, create=False) as ledger:
        assert {kind: count for kind, count, _, _ in ledger.failures()} == seen.counts


def test_outputs_that_cannot_be_kept_are_failures_and_refused_if_all_are(tmp_path):
    def simulate(values):
        return lambda theta, rng: {
            "x": rng.normal(theta["mu"]),
            "extra": np.array(values * theta.rows, dtype=object)[: theta.rows],
        }

    problem = normal_problem(simulate=simulate([None, 1]), records=["extra"])
    result = fbar.infer(problem, MU, tolerance=1, budget=100, run=tmp_path / "some")
    assert set(result.run.seen.counts) == {Failure.UNUSABLE}
    assert 40 <= result.run.seen.failures <= 60
    problem = normal_problem(simulate=simulate([None]), records=["extra"])
    with pytest.raises(fbar.InputError, match=r"'extra' of the simulator's output must be one number or text .*None"):
        fbar.infer(problem, MU, tolerance=1, budget=100, run=tmp_path / "all")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 0)),
        np.array("text"),
        np.arange(6.0).reshape(2, 3).T,
        np.array(["a", "bcd"]),
        np.array([1, 2], ">i2"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([1 + 2j]),
        np.float32(3.5),
    ],
)
def test_arrays_come_back_as_they_were(array):
    found = fbar.ledger.unpack(pack({"odd": np.ones(3, bool), "it": array}, note="ü"))
    back = found[0]["it"]
    assert found[1] == {"note": "ü"}
    assert (back.dtype, back.shape, back.tolist()) == (array.dtype, array.shape, array.tolist())
    assert back.flags.aligned
    assert back.flags.writeable


# ---------------------------------------------------------------- other settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 4000}, "budget was 3000, is 4000"),
        ({"seed": 8}, "seed was '7', is '8'"),
        ({"tolerance": 0.25}, "method.tolerance was 0.5, is 0.25"),
        ({"block_size": 10}, "block_size was None, is 10"),
        ({"method": "smc"}, "method.type was 'Rejection', is 'SMC'"),
        ({"targets": fbar.variance("mu")}, "targets was ['mean:mu'], is ['variance:mu']"),
        ({"problem": normal_problem(0.6)}, "problem.observed was 0.5, is 0.6"),
        (
            {"problem": normal_problem(prior=fbar.Prior(mu=stats.uniform(-5, 11)))},
            "problem.prior.mu.high was 5.0, is 6.0",
        ),
        ({"problem": normal_problem(summary=np.abs)}, "problem.summary was None, is"),
        ({"budget": None, "precision": {"mean:mu": 0.1}}, "stop was None, is {'type': 'StandardError'"),
    ],
)
def test_other_settings_are_refused_with_the_difference(changes, message, tmp_path):
    do("rejection", tmp_path)
    problem, targets, options = CASES["rejection"]()
    asked = {"problem": problem, "targets": targets, "seed": 7, **options, **changes}
    with pytest.raises(fbar.InputError) as caught:
        fbar.infer(run=tmp_path, progress=False, **asked)
    assert f"{tmp_path} was made with other settings: " in str(caught.value)
    assert message in str(caught.value)
    assert simulated(do, "rejection", tmp_path)[1] == 0


def test_another_table_or_cost_is_refused(tmp_path):
    def ask(name, p=(0.2, 0.3, 0.05, 0.01), **options):
        problem = fbar.Problem.tabulated(FINITE, p, **options)
        return fbar.infer(problem, fbar.mean("rate"), budget=100, seed=1, run=tmp_path / name)

    ask("p")
    with pytest.raises(fbar.InputError, match=r"problem\.simulator\.p_star was"):
        ask("p", p=(0.2, 0.3, 0.05, 0.02))
    with pytest.raises(fbar.InputError, match=r"problem\.cost was None, is \[1, 1, 1, 2\]"):
        ask("p", cost=[1, 1, 1, 2])


def test_a_changed_source_is_a_warning(tmp_path):
    def made(source):
        file = tmp_path / "own_model.py"
        file.write_text(source)
        import linecache

        linecache.checkcache(str(file))
        names = {}
        exec(compile(source, str(file), "exec"), names)
        return normal_problem(simulate=names["simulate"])

    def ask(problem):
        return fbar.infer(problem, MU, tolerance=0.5, budget=500, seed=1, run=tmp_path / "run")

    first = ask(made("def simulate(theta, rng):\n    return rng.normal(theta['mu'])\n"))
    again = ask(made("def simulate(theta, rng):\n    return rng.normal(theta['mu'], 1.0)\n"))
    assert everything_of(again) == everything_of(first)
    assert first.warnings == ()
    assert any("the source of problem.simulator has changed" in text for text in again.warnings)


# ---------------------------------------------------------------- a run of this version, for later ones

EXAMPLE = Path(__file__).parents[1] / "data" / "run-format-1"


def example_problem():
    return fbar.Problem.models(MODELS, observed=1.0, derived={"s": lambda t: t["b"] + t["c"]})


def make_example(directory):
    """A run of two legs by ABC-SMC over models, with what it told in ``told.json``."""
    directory.mkdir(parents=True, exist_ok=True)
    targets = [fbar.model_probability("line"), fbar.mean("s")]
    method = smc(accepted=30, schedule=[4, 1])
    first = fbar.infer(example_problem(), targets, method=method, block_size=40, seed=11, run=directory, progress=False)
    last = fbar.extend(directory, example_problem(), budget=first.simulations + 100, progress=False)
    (directory / "told.json").write_text(json.dumps(last.as_dict(), indent=1))
    (directory / "driver.lock").unlink()
    return {"simulations": last.simulations}


def test_a_run_of_format_1_loads(tmp_path):
    """The blocks are data, whatever numpy and the processor make of sums: estimates to 1e-9, counts exactly."""
    run = tmp_path / "run"
    shutil.copytree(EXAMPLE, run)
    stored = json.loads((run / "told.json").read_text())
    loaded, blocks = simulated(fbar.load, run, example_problem())
    assert blocks == 0
    found = loaded.as_dict()
    for name, estimate in stored["estimates"].items():
        for key in ("value", "standard_error"):
            now = name.replace("model-probability", "model_probability")
            assert found["estimates"][now][key] == pytest.approx(estimate[key], rel=1e-9)
    for key in ("simulations", "accepted", "failures", "stopped_by", "rounds"):
        assert found[key] == stored[key]
    assert found["seed"] == int(stored["seed"])


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
