"""Recorded runs: the same again without a simulation, after any death, on damaged files and full disks.

Every test here is exact: results are compared bit for bit, so there are no false alarms. Moments of death and places
of damage are drawn with fixed seeds; the moments themselves depend on the machine's speed.

Experiments that kill processes run in a process of their own (``python tests/test_ledger.py NAME DIRECTORY``), which
forks drivers: starting Python for each would take too long. The run in ``tests/data/run-format-1`` was made by
``python tests/test_ledger.py make_example tests/data/run-format-1``.
"""

import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
import fbar.ledger
from fbar.errors import InputError, LedgerError, RunInUse
from fbar.ledger import Ledger, LedgerReader, pack
from fbar.question.outcomes import Failure

CALLS: list[float] = []
"""The first θ of every block that was simulated in this process."""

LOG: dict[str, str] = {}
"""Where simulators write that number, for other processes, and how long they sleep."""


def called(theta, name):
    first = float(theta[name][0])
    CALLS.append(first)
    if "file" in LOG:
        file = os.open(LOG["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{first.hex()}\n".encode())
        os.close(file)
        time.sleep(float(LOG.get("sleep", 0)))


def normal(theta, rng):
    called(theta, "mu")
    return rng.normal(theta["mu"], 1.0)


def normal_problem(observed=0.5, prior=None, simulate=normal, **options):
    return fbar.Problem(prior or fbar.Prior(mu=stats.uniform(-5, 10)), simulate, observed, **options)


def counted(theta, rng):
    called(theta, "rate")
    return rng.poisson(theta["rate"])


def recording(theta, rng):
    called(theta, "mu")
    x = rng.normal(theta["mu"][:, None], 1.0, (theta.rows, 3))
    return {"x": x, "peak": x.max(axis=1), "label": np.where(x[:, 0] > 0, "up", "down")}


def failing(theta, rng):
    called(theta, "mu")
    if (theta["mu"] > 3).any():
        raise ZeroDivisionError("above three, with a stray byte \udcff")
    return np.where(theta["mu"] < -3, np.nan, rng.normal(theta["mu"], 1.0))


@fbar.each
def failing_each(theta, rng):
    CALLS.append(theta["mu"])
    if theta["mu"] > 4:
        return None
    if theta["mu"] < -4:
        return rng.random(3)
    return rng.normal(theta["mu"])


def by_columns(theta, rng):
    """Summaries in Fortran order, wide enough that sums depend on the order."""
    called(theta, "mu")
    return np.asfortranarray(rng.normal(theta["mu"][:, None], 1.0, (theta.rows, 40)))


def in_place(summaries, observed):
    """A distance that writes into what it is given."""
    summaries -= observed
    return np.abs(summaries)


def line(theta, rng):
    called(theta, "a")
    return theta["a"] + rng.standard_normal(theta.rows)


def square(theta, rng):
    called(theta, "b")
    return theta["b"] ** 2 + theta["c"] + rng.standard_normal(theta.rows)


def nothing(theta, rng):
    CALLS.append(0.0)
    return rng.standard_normal(theta.rows)


MODELS = {
    "line": fbar.Model(line, fbar.Prior(a=stats.norm(0, 2))),
    "square": fbar.Model(square, fbar.Prior(b=stats.norm(), c=stats.uniform())),
    "nothing": fbar.Model(nothing),
}
MU = fbar.mean("mu")
FINITE = fbar.Finite(rate=[1.0, 2.0, 5.0, 9.0])


def smc(**options):
    return fbar.SMC(**{"schedule": [4, 1, 0.3], "accepted": 100, **options})


CASES = {
    "rejection": lambda: (normal_problem(), MU, {"method": fbar.Rejection(tolerance=0.5), "budget": 3000}),
    "stratified": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.Rejection("stratified", rounds=3, tolerance=0.5), "budget": 3000, "block_size": 300},
    ),
    "importance": lambda: (
        normal_problem(),
        [MU, fbar.variance("mu"), fbar.quantile("mu", 0.9)],
        {"method": fbar.Importance(fbar.Prior(mu=stats.norm(0.5, 3)), tolerance=0.5, kernel="gaussian")},
    ),
    "regression": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.Importance(estimator=fbar.KernelRegression(), tolerance=0.5), "budget": 1000},
    ),
    "smc": lambda: (normal_problem(), MU, {"method": smc(), "block_size": 50}),
    "smc, quantiles": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.SMC(fbar.QuantileSchedule(tolerance=0.3), accepted=80), "budget": 3000, "block_size": 64},
    ),
    "smc, learnt scales": lambda: (
        normal_problem(np.zeros(3), simulate=recording, records=["peak", "label"]),
        [MU, fbar.expectation(lambda t: t["peak"] * (t["label"] == "up"), name="top")],
        {"method": smc(schedule=fbar.QuantileSchedule(tolerance=2.0), distance=fbar.Scaled()), "budget": 2000},
    ),
    "smc of models": lambda: (
        fbar.Problem.models(MODELS, observed=1.0),
        [fbar.model_probability("line"), fbar.mean("b")],
        {"method": smc(), "block_size": 100},
    ),
    "models": lambda: (
        fbar.Problem.models(MODELS, observed=1.0, derived={"s": lambda t: t["b"] + t["c"]}),
        [fbar.model_probability("line"), fbar.mean("s"), fbar.probability("b > 0")],
        {"method": fbar.Rejection(tolerance=0.2), "budget": 3000},
    ),
    "finite models": lambda: (
        fbar.Problem.models(
            {"poisson": lambda t, r: r.poisson(3, t.rows), "two": lambda t, r: r.poisson(2, t.rows)}, 3
        ),
        fbar.model_probability("two"),
        {"budget": 3000},
    ),
    "adaptive": lambda: (fbar.Problem(FINITE, counted, 2), fbar.mean("rate"), {"budget": 3000, "block_size": 70}),
    "adaptive posterior": lambda: (
        fbar.Problem(FINITE, counted, 2),
        fbar.mean("rate"),
        {"method": "adaptive-posterior", "budget": 500},
    ),
    "tabulated": lambda: (
        fbar.Problem.tabulated(FINITE, [0.2, 0.3, 0.05, 0.01]),
        [fbar.mean("rate"), fbar.probabilities(FINITE.points)],
        {"budget": 20_000},
    ),
    "bernoulli": lambda: (
        fbar.Problem.bernoulli(fbar.Prior(mu=stats.uniform()), lambda t: t["mu"] ** 2),
        MU,
        {"method": "rejection", "budget": 2000},
    ),
    "precision": lambda: (fbar.Problem(FINITE, counted, 2), fbar.mean("rate"), {"precision": {"mean:rate": 0.1}}),
    "recorded": lambda: (
        normal_problem(np.zeros(3), simulate=recording, records=["peak", "label"]),
        [MU, fbar.expectation(lambda t: t["peak"] ** 2, name="top")],
        {"method": fbar.Rejection(tolerance=2.0), "budget": 2000},
    ),
    "derived": lambda: (
        normal_problem(derived={"double": lambda t: 2 * t["mu"]}),
        fbar.mean("double"),
        {"method": fbar.Rejection(tolerance=0.5), "budget": 2000},
    ),
    "failing": lambda: (
        normal_problem(simulate=failing),
        MU,
        {"method": fbar.Rejection(tolerance=0.5), "budget": 600, "block_size": 20},
    ),
    "failing rows": lambda: (
        normal_problem(simulate=failing_each),
        MU,
        {"method": smc(), "budget": 1500, "block_size": 40},
    ),
    "fortran order": lambda: (
        normal_problem(np.full(40, 0.5), simulate=by_columns),
        MU,
        {"method": smc(schedule=fbar.QuantileSchedule(tolerance=7)), "block_size": 60},
    ),
    "in place": lambda: (
        normal_problem(distance=in_place),
        MU,
        {"method": fbar.Rejection(tolerance=0.5), "budget": 2000},
    ),
}
CASES["importance"] = (lambda make: lambda: (*make()[:2], {**make()[2], "budget": 2000}))(CASES["importance"])


def do(case, run=None, **changes):
    problem, targets, options = CASES[case]()
    return fbar.infer(problem, targets, **{"seed": 7, "run": run, "progress": False, **options, **changes})


def told(result):
    """Everything a result says but for notes on its files and measured times, to the last bit."""
    found = {key: value for key, value in result.as_dict().items() if key not in ("warnings", "cost")}
    points, seen = result.posterior.points, result.run.seen
    columns = {
        name: [zlib.crc32(points[name].astype("U" if points[name].dtype == "O" else points[name].dtype).tobytes())]
        for name in points
    }
    return repr(
        (
            found,
            columns,
            np.asarray(result.posterior.weights).tolist(),
            result.estimates.covariance.tolist(),
            sorted(seen.counts.items()),
            sorted(seen.examples.items()),
            sorted(seen.details.items()),
            seen.closest,
            result.run.warnings,
        )
    )


def simulated(function, *arguments, **options):
    """What a call gave, and the blocks it simulated."""
    before = len(CALLS)
    result = function(*arguments, **options)
    return result, len(CALLS) - before


# ---------------------------------------------------------------- the same again


@pytest.mark.parametrize("case", CASES)
def test_the_same_command_gives_the_same_result_without_simulating(case, tmp_path):
    plain = do(case)
    first, blocks = simulated(do, case, tmp_path / "run")
    again, more = simulated(do, case, tmp_path / "run")
    assert told(first) == told(plain)
    assert told(again) == told(plain)
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
    assert told(loaded) == told(first)


def test_load_answers_other_questions_and_speaks_of_them_alone(tmp_path):
    do("rejection", tmp_path)
    loaded = fbar.load(tmp_path, CASES["rejection"]()[0], fbar.second_moment("mu"))
    assert list(loaded.as_dict()["estimates"]) == ["second_moment:mu"]
    assert [estimate.name for estimate in loaded.bias] == ["second_moment:mu"]
    assert loaded.at(0.25).estimates[0].name == "second_moment:mu"
    assert {estimates[0].name for _, estimates in loaded.curve()} == {"second_moment:mu"}
    assert "it may leave a bias: second_moment:mu" in str(loaded)


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
    assert told(again) == told(first)
    assert first.warnings == ()
    assert any("the source of problem.simulator has changed" in text for text in again.warnings)


# ---------------------------------------------------------------- going on with a finished run


def test_a_larger_budget_simulates_what_is_missing_alone(tmp_path):
    do("rejection", tmp_path, block_size=100)
    problem, targets, options = CASES["rejection"]()
    longer, blocks = simulated(fbar.extend, tmp_path, problem, budget=5000)
    assert longer.simulations == 5000
    assert blocks == 16 * 2  # 2000 simulations in 16 rounds of 125, in blocks of at most 100
    loaded, more = simulated(fbar.load, tmp_path, problem)
    assert (told(loaded), more) == (told(longer), 0)
    same = {**options, "budget": 5000, "block_size": 100}
    again, more = simulated(fbar.infer, problem, targets, seed=7, run=tmp_path, **same)
    assert (told(again), more) == (told(longer), 0)
    with pytest.raises(fbar.InputError, match="budget was 5000, is 3000"):
        do("rejection", tmp_path, block_size=100)


def test_extended_twice_in_every_way(tmp_path):
    problem, _, _ = CASES["smc"]()
    do("smc", tmp_path)
    finer = fbar.extend(tmp_path, problem, tolerance=0.15)
    assert finer.run.tolerance == 0.15
    both = [MU, fbar.variance("mu")]
    more = fbar.extend(tmp_path, problem, both, budget=finer.simulations + 700)
    assert [estimate.name for estimate in more.estimates] == ["mean:mu", "variance:mu"]
    last = fbar.extend(tmp_path, problem, precision={"mean:mu": 0.06})
    assert last["mean:mu"].standard_error <= 0.06
    loaded, blocks = simulated(fbar.load, tmp_path, problem)
    assert (told(loaded), blocks) == (told(last), 0)
    again, blocks = simulated(
        fbar.infer,
        problem,
        both,
        method=fbar.SMC([4, 1, 0.3, 0.15], accepted=100),
        precision={"mean:mu": 0.06},
        block_size=50,
        seed=7,
        run=tmp_path,
    )
    assert (told(again), blocks) == (told(last), 0)


def test_a_smaller_tolerance_of_rejection_keeps_what_fits(tmp_path):
    problem, _, _ = CASES["rejection"]()
    do("rejection", tmp_path)
    finer, blocks = simulated(fbar.extend, tmp_path, problem, tolerance=0.25, budget=4000)
    assert blocks == 16
    assert told(fbar.load(tmp_path, problem)) == told(finer)
    plain = do("rejection", budget=3000).at(0.25)
    assert plain.accepted < finer.accepted < 1.6 * plain.accepted


def test_other_targets_of_an_adaptive_run(tmp_path):
    problem, _, _ = CASES["adaptive"]()
    do("adaptive", tmp_path)
    other = fbar.extend(tmp_path, problem, fbar.probability("rate > 4"), budget=4000)
    assert told(fbar.load(tmp_path, problem)) == told(other)


def test_an_unfinished_run_is_loaded_resumed_and_not_extended(tmp_path):
    whole = do("rejection", block_size=100)
    with pytest.raises(Enough):
        do("rejection", tmp_path, block_size=100, progress=stop_at(1000))
    problem, _, _ = CASES["rejection"]()
    part, blocks = simulated(fbar.load, tmp_path, problem)
    assert (part.simulations, part.stopped_by, blocks) == (1037, "not finished", 0)
    assert abs(part["mean:mu"].value - whole["mean:mu"].value) < 5 * part["mean:mu"].standard_error
    with pytest.raises(fbar.InputError, match="is not finished"):
        fbar.extend(tmp_path, problem, budget=5000)
    assert told(do("rejection", tmp_path, block_size=100)) == told(whole)


class Enough(Exception):
    """Raised in the middle of a run, by its progress."""


def stop_at(simulations):
    def stop(run):
        if run.simulations >= simulations:
            raise Enough

    return stop


@pytest.mark.parametrize("case", ["smc", "smc of models", "adaptive"])
def test_an_interrupted_extension_goes_on(case, tmp_path):
    problem, _, _ = CASES[case]()
    for name in ("whole", "cut"):
        do(case, tmp_path / name)
    there = do(case, tmp_path / "cut").simulations
    whole = fbar.extend(tmp_path / "whole", problem, budget=there + 1000)
    with pytest.raises(Enough):
        fbar.extend(tmp_path / "cut", problem, budget=there + 1000, progress=stop_at(there + 500))
    part = fbar.load(tmp_path / "cut", problem)
    assert there + 500 <= part.simulations < there + 1000
    again = do(case, tmp_path / "cut", budget=there + 1000)
    assert told(again) == told(whole)
    assert told(fbar.load(tmp_path / "cut", problem)) == told(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"budget": 100}, "budget 100 is spent already"), ({"tolerance": 0.7, "budget": 9000}, "look at a smaller one")],
)
def test_a_refused_extension_leaves_the_run_as_it_was(changes, message, tmp_path):
    first = do("rejection", tmp_path)
    problem, _, _ = CASES["rejection"]()
    with pytest.raises(fbar.InputError, match=message):
        fbar.extend(tmp_path, problem, **changes)
    again, blocks = simulated(do, "rejection", tmp_path)
    assert (told(again), blocks) == (told(first), 0)
    assert fbar.extend(tmp_path, problem, budget=4000).simulations == 4000


def test_a_run_that_accepted_nothing_is_kept_and_can_be_extended(tmp_path):
    problem = normal_problem(observed=8.0)
    options = {"method": fbar.Rejection(tolerance=0.5), "budget": 200, "seed": 1, "run": tmp_path}
    for blocks in (16, 0):
        before = len(CALLS)
        with pytest.raises(fbar.NoPosterior):
            fbar.infer(problem, MU, **options)
        assert len(CALLS) - before in (blocks, blocks and blocks + 1)  # the first one may be looked at twice
    assert fbar.extend(tmp_path, problem, budget=60_000).simulations == 60_000


# ---------------------------------------------------------------- damaged files

SMALL = {"accepted": 50, "schedule": [4, 1]}


def small(run=None, **options):
    """ABC-SMC in some forty blocks, each of which fits into a page of the file."""
    return fbar.infer(normal_problem(), MU, method=smc(**SMALL), block_size=10, seed=3, run=run, **options)


@pytest.fixture(scope="module")
def memory():
    """A directory in memory where there is one: what a death or damage leaves does not depend on waiting for a disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def sound(memory):
    """A finished run, closed cleanly, and what it told."""
    directory = memory / "sound"
    return directory, told(small(directory))


def damaged_copy(sound, name, damage):
    """A copy of a run after ``damage(bytes)`` to one of its files."""
    copy = sound.parent / f"copy-of-{sound.name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sound, copy)
    (copy / name).write_bytes(damage((copy / name).read_bytes()))
    return copy


def flip(place, bits=0xFF):
    def damage(data):
        changed = bytearray(data)
        changed[place] ^= bits
        return bytes(changed)

    return damage


def payloads(directory):
    """Where the blocks' bytes are in the file: (round, block) → (first, last + 1)."""
    data = (directory / "ledger.sqlite").read_bytes()
    connection = sqlite3.connect(directory / "ledger.sqlite")
    rows = connection.execute("SELECT round, block, payload FROM blocks").fetchall()
    connection.close()
    places = {
        (round, block): (data.index(payload), data.index(payload) + len(payload)) for round, block, payload in rows
    }
    assert len(places) > 10
    return places


@pytest.mark.slow
def test_a_flipped_byte_is_named_and_only_its_block_simulated_again(sound):
    directory, result = sound
    rng = np.random.default_rng(1)
    for (round, block), (start, end) in payloads(directory).items():
        copy = damaged_copy(directory, "ledger.sqlite", flip(int(rng.integers(start, end)), 1 << int(rng.integers(8))))
        repaired, blocks = simulated(small, copy)
        assert (told(repaired), blocks) == (result, 1)
        assert any(
            f"damaged in {copy} (recomputed" in w and f"block {block} of round {round}" in w for w in repaired.warnings
        )
        again, blocks = simulated(small, copy)
        assert (told(again), again.warnings, blocks) == (result, (), 0)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_bytes_flipped_anywhere_never_change_the_result(bits, sound):
    directory, result = sound
    size = (directory / "ledger.sqlite").stat().st_size
    rng = np.random.default_rng(bits)
    places = [*range(0, 100, 3), *rng.integers(100, size, 30).tolist()]
    for place in places:
        copy = damaged_copy(directory, "ledger.sqlite", flip(place, bits))
        assert told(small(copy)) == result, place


@pytest.mark.slow
def test_many_flips_at_once(sound):
    directory, result = sound
    size = (directory / "ledger.sqlite").stat().st_size
    rng = np.random.default_rng(2)

    def scatter(data):
        changed = np.frombuffer(data, np.uint8).copy()
        changed[rng.integers(0, size, 30)] ^= rng.integers(1, 256, 30).astype(np.uint8)
        return changed.tobytes()

    for _ in range(40):
        assert told(small(damaged_copy(directory, "ledger.sqlite", scatter))) == result


def test_a_broken_first_page_costs_no_block(sound):
    directory, result = sound
    copy = damaged_copy(directory, "ledger.sqlite", lambda data: bytes(4096) + data[4096:])
    repaired, blocks = simulated(small, copy)
    assert (told(repaired), blocks) == (result, 0)
    assert any("the file ledger.sqlite (its" in text for text in repaired.warnings)


@pytest.mark.slow
def test_a_file_cut_anywhere(sound):
    directory, result = sound
    data = (directory / "ledger.sqlite").read_bytes()
    size = len(data)
    for length in [
        0,
        1,
        15,
        16,
        99,
        100,
        512,
        4095,
        4096,
        4097,
        *range(8192, size, 8192),
        *range(5000, size, 9001),
        size - 1,
    ]:
        copy = damaged_copy(directory, "ledger.sqlite", lambda data, length=length: data[:length])
        repaired = small(copy)
        assert told(repaired) == result, length
        assert any("damaged in" in text for text in repaired.warnings) or not any(data[length:]), length
        again, blocks = simulated(small, copy)
        assert (told(again), again.warnings, blocks) == (result, (), 0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", '{"legs": 3}', '{"legs": [1, null, {}]}', '{"legs": "abc"}', "\xff\xfe", "[" * 9999],
)
def test_a_damaged_run_json(text, sound):
    directory, result = sound
    copy = damaged_copy(directory, "run.json", lambda data: text.encode("latin-1"))
    repaired, blocks = simulated(small, copy)
    assert (told(repaired), blocks, repaired.warnings) == (result, 0, ())
    (copy / "ledger.sqlite").write_bytes(b"")  # and the file too: all is simulated again
    assert told(small(copy)) == result


def test_settings_come_from_run_json_where_the_file_lost_them(tmp_path):
    first = small(tmp_path)
    problem = normal_problem()
    longer = fbar.extend(tmp_path, problem, budget=first.simulations + 100)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("UPDATE legs SET settings = replace(settings, '4', '5') WHERE leg = 0")
    connection.commit()
    connection.close()
    for _ in range(2):  # whoever reads repairs nothing
        loaded, blocks = simulated(fbar.load, tmp_path, problem)
        assert (told(loaded), blocks) == (told(longer), 0)
        assert any("the settings" in text for text in loaded.warnings)
    assert any("the settings" in text for text in small(tmp_path, budget=first.simulations + 100).warnings)
    assert fbar.load(tmp_path, problem).warnings == ()


def test_load_leaves_damaged_blocks_out_and_says_so_every_time(tmp_path):
    first = small(tmp_path)
    problem = normal_problem()
    longer = fbar.extend(tmp_path, problem, budget=first.simulations + 100)
    start, _ = payloads(tmp_path)[1, 1]
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(flip(start + 5)(file.read_bytes()))
    for _ in range(2):
        part, blocks = simulated(fbar.load, tmp_path, problem)
        assert (part.simulations < first.simulations, part.stopped_by, blocks) == (True, "its record is damaged", 0)
    again, blocks = simulated(small, tmp_path, budget=first.simulations + 100)
    assert (told(again), blocks) == (told(longer), 1)


def test_bytes_that_say_nothing_under_a_valid_checksum(sound):
    directory, result = sound
    rng = np.random.default_rng(3)
    garbage = [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b'{"arrays": 5}\n',
        b'{"arrays": [["theta:mu", "<f8", [10]]]}\n',
        b'{"arrays": [["theta:mu", "O", [10]]], "kind": "simulated"}\n' + bytes(80),
        b'{"arrays": [["theta:mu", "<f8", [-10]]], "kind": "simulated"}\n' + bytes(80),
        b'{"arrays": [["theta:mu", "<f8", [99999999999999]]], "kind": "tally"}\n',
        pack({"theta:mu": np.zeros(10)}, kind="simulated"),
        rng.bytes(300),
        b"[" * 100_000 + b"\n",
    ]
    for number, payload in enumerate(garbage):
        copy = damaged_copy(directory, "ledger.sqlite", bytes)
        connection = sqlite3.connect(copy / "ledger.sqlite")
        key, round = (0, number % 3), 1
        crc = fbar.ledger.codec.checksum(*key, 0.0, payload)
        changed = connection.execute(
            "UPDATE blocks SET payload = ?, crc = ? WHERE round = ? AND block = ?", (payload, crc, *key)
        )
        assert changed.rowcount == 1
        crc = fbar.ledger.codec.checksum(round, payload)
        assert (
            connection.execute("UPDATE rounds SET payload = ?, crc = ? WHERE round = ?", (payload, crc, round)).rowcount
            == 1
        )
        connection.commit()
        connection.close()
        repaired, blocks = simulated(small, copy)
        assert (told(repaired), blocks) == (result, 1)
        assert any(f"block {key[1]} of round 0, the proposal of round 1" in text for text in repaired.warnings)


def test_blocks_of_another_seed_are_not_taken_for_ones_own(tmp_path):
    """Settings lost in both places: the tabulated rounds of all seeds ask for the same θ."""
    problem = fbar.Problem.tabulated(FINITE, [0.2, 0.3, 0.05, 0.01])
    fbar.infer(problem, fbar.mean("rate"), budget=1000, seed=1, run=tmp_path)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("DELETE FROM legs")
    connection.commit()
    connection.close()
    (tmp_path / "run.json").unlink()
    with pytest.raises(LedgerError, match="recorded for other parameter values or another seed"):
        fbar.infer(problem, fbar.mean("rate"), budget=1000, seed=2, run=tmp_path)


def test_a_run_that_is_just_starting_can_be_looked_at(tmp_path):
    fbar.ledger.database.connect(tmp_path / "ledger.sqlite").close()
    with LedgerReader(tmp_path) as ledger:
        assert (ledger.legs, len(ledger), ledger.simulations(), ledger.failures()) == ([], 0, 0, [])


def test_a_later_format_is_refused(tmp_path):
    small(tmp_path)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("INSERT INTO formats VALUES (?, ?)", (9, fbar.ledger.codec.checksum(9)))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="made by a later version of fbar"):
        small(tmp_path)


NEVER_UNPICKLE = ("files", "settings", "methods/named", "outcomes", "points", "stopping")


def test_nothing_is_unpickled():
    import re

    folder = Path(fbar.__file__).parent
    modules = [*(folder / "ledger").glob("*.py"), *(folder / f"{name}.py" for name in NEVER_UNPICKLE)]
    assert len(modules) >= 10
    for module in modules:
        text = module.read_text(encoding="utf-8")
        assert not re.search(r"\b(cloudpickle|c?[pP]ickle|dill|marshal|shelve|joblib|eval|exec)\b[.(]", text), module
        assert "allow_pickle" not in text


def test_a_directory_that_cannot_be_used_is_explained(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(LedgerError, match="cannot make the directory"):
        small(file)
    with pytest.raises(LedgerError, match="cannot make the directory"):
        small(file / "below")
    with pytest.raises(fbar.InputError, match="holds no run"):
        fbar.load(tmp_path, normal_problem())


# ---------------------------------------------------------------- deaths


def driver(run, sleep=0.0, accepted=6, **options):
    """The run of the experiments: every block a transaction of its own."""
    LOG.update(file=str(run.parent / f"{run.name}.log"), sleep=str(sleep))
    method = smc(accepted=accepted, schedule=[4, 1])
    return fbar.infer(normal_problem(), MU, method=method, block_size=10, seed=3, run=run, progress=False, **options)


def fork(function):
    """Run a function in a child; its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        function()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def died(child):
    """Wait for a child; whether it was killed. Anything else but success is an error."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def committed(run, scratch):
    """The first θ of every block in the file, read from a copy: the write-ahead log stays as it is."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for file in run.glob("ledger.sqlite*"):
        shutil.copy(file, scratch)
    if not (scratch / "ledger.sqlite").exists():
        return set()
    connection = sqlite3.connect(scratch / "ledger.sqlite")
    try:
        rows = connection.execute("SELECT payload FROM blocks").fetchall()
    except sqlite3.OperationalError:  # no tables yet
        rows = []
    connection.close()
    return {fbar.ledger.decode(payload).points["mu"][0].hex() for (payload,) in rows}


def lines(run):
    log = run.parent / f"{run.name}.log"
    return log.read_text().split() if log.exists() else []


def kill_at_random(directory):
    """Kill drivers at random moments until 60 have died; check every finished run."""
    rng = np.random.default_rng(5)
    result = told(driver(directory / "whole", accepted=50))
    blocks = set(lines(directory / "whole"))
    kills, runs, kept = 0, 0, 0
    while kills < 60:
        run = directory / f"run{runs}"
        there, before, dead = set(), 0, True
        while dead:
            child = fork(lambda run=run: driver(run, sleep=0.003, accepted=50))
            time.sleep(float(rng.uniform(0.01, 0.12)))
            os.kill(child, signal.SIGKILL)
            dead = died(child)
            assert not there & set(lines(run)[before:]), "a committed block was simulated again"
            there, before = committed(run, directory / "scratch"), len(lines(run))
            kills, kept = kills + dead, kept + len(there)
            assert kills < 600, "no run comes to its end"
        assert told(driver(run, accepted=50)) == result
        assert set(lines(run)) == blocks
        assert not list(run.glob("ledger.damaged*"))
        runs += 1
    return {"kills": kills, "runs": runs, "kept": kept}


FILE_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", "shutil.copyfile"}


def die_at(number, run):
    """Kill this process at its n-th SQL statement or touch of a file of the run."""
    count = 0

    def point(*_):
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event, arguments):
        if event in FILE_EVENTS and any(str(a).startswith(f"{run}/") for a in arguments if isinstance(a, str | Path)):
            point()

    plain = sqlite3.connect

    def connect(*arguments, **options):
        connection = plain(*arguments, **options)
        if "repair-" not in str(arguments[0]):  # a copy that is only read
            connection.set_trace_callback(point)
        return connection

    sqlite3.connect = connect
    sys.addaudithook(heard)


def fresh(run, scratch):
    """From nothing."""


def extension(run, scratch):
    """A finished run, to be extended."""
    driver(run)


def broken(run, scratch):
    """A finished run whose file is broken in the middle of its blocks and has lost its first page."""
    driver(run)
    data = bytearray((run / "ledger.sqlite").read_bytes())
    data[0:4096] = bytes(4096)
    data[-4096:-4086] = b"\xff" * 10
    (run / "ledger.sqlite").write_bytes(bytes(data))


def kill_at_every_write(directory):
    """For every n: kill at the n-th point, go on, compare; in a new run, in an extension, in the repair of a file."""
    counts = {}
    for prepare in (fresh, extension, broken):
        extended = prepare is extension

        def go(run, extended=extended):
            LOG["file"] = f"{run}.log"
            return fbar.extend(run, normal_problem(), budget=100, progress=False) if extended else driver(run)

        base = directory / prepare.__name__
        prepare(base, directory)
        if base.exists():
            shutil.copytree(base, directory / "whole")
        result = told(go(directory / "whole"))
        shutil.rmtree(directory / "whole")
        number, dead = 0, True
        while dead:
            number += 1
            run = directory / f"{prepare.__name__}-{number}"
            if base.exists():
                shutil.copytree(base, run)
            child = fork(lambda run=run, number=number, go=go: (die_at(number, run), go(run)))
            dead = died(child)
            there, before = committed(run, directory / "scratch") if prepare is not broken else set(), len(lines(run))
            if there:  # others may look meanwhile, and change nothing
                with LedgerReader(run) as ledger:
                    assert len(ledger) == len(there)
            again = go(run)
            assert told(again) == result, (prepare.__name__, number)
            assert not there & set(lines(run)[before:]), (prepare.__name__, number)
            if number % 10 == 0:
                assert told(fbar.load(run, normal_problem())) == result
            shutil.rmtree(run)
        counts[prepare.__name__] = number - 1
    return counts


def damage_logs(directory):
    """Flip and cut the write-ahead log that a death left."""
    result = told(driver(directory / "whole", accepted=50))
    run, rng, wals = directory / "run", np.random.default_rng(6), 0
    for number in (40, 70, 100):
        shutil.rmtree(run, ignore_errors=True)
        assert died(fork(lambda number=number: (die_at(number, run), driver(run, accepted=50))))
        size = (run / "ledger.sqlite-wal").stat().st_size
        for trial in range(20):
            copy = directory / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run, copy)
            place = int(rng.integers(0, size))
            data = (copy / "ledger.sqlite-wal").read_bytes()
            (copy / "ledger.sqlite-wal").write_bytes(data[:place] if trial % 2 else flip(place)(data))
            if trial % 5 == 0:
                (copy / "ledger.sqlite-shm").write_bytes(rng.bytes(32768))
            assert told(driver(copy, accepted=50)) == result
            wals += 1
    return {"wals": wals}


def two_drivers(directory):
    run = directory / "run"
    child = holder = fork(lambda: driver(run, sleep=0.2))
    while len(lines(run)) < 2:
        time.sleep(0.01)
    try:
        driver(run)
        message = "no error"
    except RunInUse as error:
        message = str(error)
    os.kill(child, signal.SIGKILL)
    assert died(child)
    first = told(driver(run))

    def with_a_worker():
        """A driver that dies and leaves behind a child of its own."""

        def leave(_):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

        os.setpgid(0, 0)
        fbar.infer(normal_problem(), MU, tolerance=1, budget=500, seed=1, run=directory / "orphan", progress=leave)

    child = fork(with_a_worker)
    assert died(child)
    fbar.infer(normal_problem(), MU, tolerance=1, budget=500, seed=1, run=directory / "orphan", progress=False)
    os.killpg(child, signal.SIGKILL)  # the group of the dead driver: its worker
    return {"message": message, "holder": holder, "same": first == told(driver(directory / "whole"))}


def fill_the_disk(directory):
    """Drivers whose files may not grow beyond a limit."""
    result = told(driver(directory / "whole", accepted=50))
    size = max(f.stat().st_size for f in (directory / "whole").iterdir())
    messages = []

    def limited(run, limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            driver(run, accepted=50)
        except LedgerError as error:
            (directory / "message").write_text(str(error))

    for number, limit in enumerate([2000, 4096, 10_000, 30_000, 50_000, 80_000, 100_000, 150_000, 200_000]):
        run = directory / f"run{number}"
        for limit_now in (limit, limit, limit + 3000):  # full, still full, and full again a little later
            (directory / "message").unlink(missing_ok=True)
            there, before = committed(run, directory / "scratch"), len(lines(run))
            assert not died(fork(lambda run=run, limit=limit_now: limited(run, limit)))
            assert not there & set(lines(run)[before:])
            if (directory / "message").exists():
                messages.append((directory / "message").read_text())
        there, before = committed(run, directory / "scratch"), len(lines(run))
        assert told(driver(run, accepted=50)) == result
        assert not there & set(lines(run)[before:])
        assert not list(run.glob("ledger.damaged*"))
    return {"messages": messages, "size": size}


def experiment(name, directory, limit=120):
    """An experiment in a process of its own; what it gave."""
    directory = directory / name
    directory.mkdir()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, __file__, name, str(directory)], capture_output=True, text=True, timeout=limit, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.processes
def test_killed_at_random_moments(memory):
    found = experiment("kill_at_random", memory)
    assert found["kills"] >= 60
    assert found["kept"] > 200  # blocks that were there when a driver started again


@pytest.mark.processes
def test_killed_once_at_every_write(memory):
    found = experiment("kill_at_every_write", memory)
    assert min(found["fresh"], found["extension"], found["broken"]) > 30


@pytest.mark.processes
def test_a_damaged_write_ahead_log(memory):
    assert experiment("damage_logs", memory)["wals"] == 60


@pytest.mark.processes
def test_one_driver_at_a_time(memory):
    found = experiment("two_drivers", memory)
    assert f"is in use by another driver (process {found['holder']} on " in found["message"]
    assert found["same"]


@pytest.mark.processes
def test_a_full_disk(memory):
    found = experiment("fill_the_disk", memory)
    assert len(found["messages"]) > 10
    for message in found["messages"]:
        assert "what was recorded before is safe" in message or "cannot write" in message
        assert "Make room" in message
        assert "rerun the command" in message


# ---------------------------------------------------------------- a run of this version, for later ones

EXAMPLE = Path(__file__).parent / "data" / "run-format-1"


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


def test_extended_to_a_smaller_tolerance_alone(tmp_path):
    """What is left out stays as it was: a precision; a budget that is spent must be given anew."""
    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), 0.5)
    first = fbar.infer(problem, fbar.mean("mu"), tolerance=1, precision={"mu": 0.05}, seed=1, run=tmp_path / "a")
    more = fbar.extend(tmp_path / "a", problem, tolerance=0.3)
    assert more.simulations > first.simulations
    assert more["mean:mu"].standard_error <= 0.05
    assert more.run.tolerance_told == 0.3
    fbar.infer(problem, fbar.mean("mu"), tolerance=1, budget=2000, seed=1, run=tmp_path / "b")
    with pytest.raises(InputError, match="spent its budget of 2000 simulations; to go on"):
        fbar.extend(tmp_path / "b", problem, tolerance=0.3)
