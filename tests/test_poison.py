"""A run cannot be poisoned: whatever a simulation gives or raises, it fails alone, and the run goes on.

What cannot be used is compared with the same simulator that gives NaN in its place: every other simulation must be the
same to the last bit, with any engine.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import Futures, InProcess, Workers
from fbar.engine.attempt import Part, attempt_block, attempt_part
from fbar.engine.recovery import PROBES
from fbar.methods.ask_tell import MISTAKEN
from fbar.question.outcomes import Batch, Failure, Simulated
from fbar.question.points import Points
from fbar.question.simulators import RowFailed, TimedOut
from fbar.seeds import Seeds

PRIOR = fbar.Prior(theta=stats.uniform(0, 1))
MEAN = fbar.mean("theta")
REJECTION = fbar.Rejection(tolerance=0.2, rounds=1)


class OfMyOwn(BaseException):
    pass


class Speechless(Exception):
    def __str__(self):
        raise ValueError("no words")


class Deceptive(Exception):
    kind = Failure.NONE


class Secretive(Exception):
    @property
    def detail(self):
        raise RuntimeError("no detail")


class CannotTravel(Exception):
    def __init__(self, one, two):
        super().__init__("x")
        self.function = lambda: one + two


class NoArray:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("not an array")

    def __repr__(self):
        raise RuntimeError("nor text")


def raised(error):
    raise error


USELESS = {
    "text": lambda x: "abc",
    "bytes": lambda x: b"ab",
    "complex": lambda x: 1j,
    "object": lambda x: object(),
    "no array": lambda x: NoArray(),
    "too large": lambda x: 10**400,
    "too large to write": lambda x: 10**5000,
    "date": lambda x: np.datetime64("2020"),
    "structure": lambda x: np.zeros((), dtype=[("a", "f8")]),
    "set": lambda x: {1, 2},
    "generator": lambda x: (i for i in [x]),
    "function": lambda x: len,
    "mapping in a mapping": lambda x: {"x": {"x": x}},
    "negative cost": lambda x: {"x": x, "cost": -1},
    "text for a cost": lambda x: {"x": x, "cost": "much"},
    "two costs": lambda x: {"x": x, "cost": [1, 2]},
    "cost too large": lambda x: {"x": x, "cost": 10**400},
    "named like a parameter": lambda x: {"x": x, "theta": 1.0},
}
MISSHAPEN = {
    "pair": lambda x: [x, x],
    "nothing": lambda x: [],
    "ragged": lambda x: [1.0, [2.0, 3.0]],
    "no data": lambda x: {"y": x},
}
RAISED = {
    "exit": lambda x: raised(SystemExit(3)),
    "generator exit": lambda x: raised(GeneratorExit()),
    "cancelled": lambda x: raised(asyncio.CancelledError()),
    "of my own": lambda x: raised(OfMyOwn("mine")),
    "speechless": lambda x: raised(Speechless()),
    "deceptive": lambda x: raised(Deceptive()),
    "secretive": lambda x: raised(Secretive()),
    "long": lambda x: raised(RuntimeError("x" * 10**6)),
    "surrogate": lambda x: raised(RuntimeError("a\ud800b")),
    "cannot travel": lambda x: raised(CannotTravel(1, 2)),
    "stop": lambda x: raised(StopIteration()),
    "none": lambda x: None,
}
OURS = {
    "refused": lambda x: raised(fbar.InputError("mine")),
    "no posterior": lambda x: raised(fbar.NoPosterior("mine")),
    "missing": lambda x: raised(fbar.MissingExtra("a", "b")),
}
KINDS = {
    Failure.UNUSABLE: USELESS,
    Failure.WRONG_SHAPE: MISSHAPEN,
    Failure.EXCEPTION: RAISED,
    Failure.REFUSED: OURS,
}
POISONS = {name: (kind, make) for kind, makes in KINDS.items() for name, make in makes.items()}
NAN = {"nan": (Failure.NOT_FINITE, lambda x: math.nan)}


def poisoned(poisons, share=0.3, **options):
    """A simulator whose output is spoilt by chance, in all of these ways."""
    ways = list(poisons.values())

    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        spoilt, way = rng.random() < share, rng.integers(len(POISONS))
        return ways[way % len(ways)][1](x) if spoilt else x

    return fbar.Problem(PRIOR, simulate, observed=0.5, **options)


def told(problem, engine, budget=120, block_size=8, seed=5):
    """Every simulation's θ, summary (NaN if it failed) and failure, in order."""
    run = fbar.Rejection(rounds=1).start(problem, MEAN, seed=seed, budget=budget, block_size=block_size)
    batches, found = run.ask(), {}
    with engine.session(problem) as session:
        session.submit(batches)
        while len(found) < len(batches):
            found |= {batch.block: outcomes for batch, outcomes in session.collect()}
    outcomes = [found[i] for i in range(len(batches))]
    theta = np.concatenate([batch.theta["theta"] for batch in batches])
    failure = np.concatenate([o.failure for o in outcomes])
    x = np.where(failure == 0, np.concatenate([o.summaries for o in outcomes]), np.nan)
    return theta, x, failure


def answer(result):
    return result["mean:theta"].value, result["mean:theta"].standard_error, result.run.seen.counts


# ---------------------------------------------------------------- one row


@pytest.mark.parametrize("block_size", [1, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_used_fails_alone(kind, block_size):
    for name, way in KINDS[kind].items():
        _, x, failure = told(poisoned({name: (kind, way)}), InProcess(), 24, block_size)
        _, clean, lost = told(poisoned(NAN), InProcess(), 24, block_size)
        assert np.array_equal(x, clean, equal_nan=True), name
        assert set(failure) == {Failure.NONE, kind}, name
        assert np.array_equal(failure != 0, lost != 0), name


def test_what_is_said_of_it_is_one_line_that_can_be_written():
    for name, (kind, way) in POISONS.items():
        batch = Batch(0, 1, Points({"theta": np.full(2, 0.5)}), None, Seeds(1))
        found = fbar.simulate(poisoned({name: (kind, way)}, share=1.0), batch)
        text = found.examples[kind]
        assert text, name
        assert "\n" not in text, name
        assert len(text.encode()) < 500, name
        found.details[kind].encode()
        pickle.loads(pickle.dumps(found))


def test_numbers_of_kinds_are_those_of_recorded_runs():
    """A record says 3 for a wrong shape, and says so for ever."""
    names = ["NONE", "EXCEPTION", "NOT_FINITE", "WRONG_SHAPE", "TIMED_OUT", "KILLED", "UNUSABLE", "REFUSED"]
    assert [kind.name for kind in sorted(Failure)] == names
    assert [int(kind) for kind in sorted(Failure)] == list(range(8))
    assert all(kind.words for kind in Failure)


def test_what_must_pass_passes():
    batch = Batch(0, 0, Points({"theta": np.array([0.5])}), None, Seeds(1))
    for error in (KeyboardInterrupt, TimedOut):

        def simulate(theta, rng, error=error):
            raise error

        for given in (simulate, fbar.each(simulate)):
            with pytest.raises(error):
                given(batch.theta, batch.rng())
    one = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: raised(KeyboardInterrupt())), observed=0.5)
    many = fbar.Problem(PRIOR, lambda theta, rng: raised(KeyboardInterrupt()), observed=0.5)
    for problem in (one, many):
        with pytest.raises(KeyboardInterrupt):
            fbar.simulate(problem, batch)


# ---------------------------------------------------------------- whole runs


@pytest.mark.parametrize("block_size", [1, 8])
def test_a_poisoned_run_is_recorded_resumed_extended_and_reported(block_size, tmp_path):
    problem, directory = poisoned(POISONS, share=0.4), tmp_path / "run"
    asked = {"method": REJECTION, "budget": 160, "block_size": block_size, "seed": 3}

    def interrupt(run):
        if run.simulations >= 64:
            raise KeyboardInterrupt

    whole = fbar.infer(problem, MEAN, **asked)
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem, MEAN, run=directory, progress=interrupt, **asked)
    resumed = fbar.infer(problem, MEAN, run=directory, **asked)
    assert answer(resumed) == answer(whole)
    assert answer(fbar.load(directory, problem)) == answer(whole)
    counts = whole.run.seen.counts
    assert set(counts) == set(KINDS)
    assert str(resumed).count("gave a result that cannot be used") == 1
    clean = fbar.infer(poisoned(NAN, share=0.4), MEAN, **asked)
    assert answer(whole)[:2] == answer(clean)[:2]
    assert sum(counts.values()) == clean.run.seen.failures
    extended = fbar.extend(directory, problem, budget=240)
    assert extended.run.simulations == 240
    assert answer(fbar.load(directory, problem)) == answer(extended)
    if block_size > 1:
        report = fbar.load(directory, problem).report(tmp_path / "report.html", predictive=0)
        assert "cannot be used" in report.read_text()


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 8])
def test_all_engines_give_the_same(block_size):
    problem = poisoned(POISONS, share=0.4)
    here = told(problem, InProcess(), block_size=block_size)
    for count in (1, 2, 4):
        assert all(map(np.array_equal, told(problem, Workers(count), block_size=block_size), here, [0, True, 0]))
    with ThreadPoolExecutor(2) as threads:
        assert all(map(np.array_equal, told(problem, Futures(threads), block_size=block_size), here, [0, True, 0]))


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same():
    distributed = pytest.importorskip("distributed")
    problem = poisoned(POISONS, share=0.4)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = told(problem, fbar.Dask(client), 60)
    assert all(map(np.array_equal, there, told(problem, InProcess(), 60), [0, True, 0]))


@pytest.mark.processes
@pytest.mark.slow
def test_beside_a_row_that_kills_its_worker():
    """Then rows travel one by one, and what cannot be pickled must not."""
    poisons = {name: POISONS[name] for name in ("generator", "function", "no array", "of my own", "cannot travel")}

    def spoilt(kills):
        inner = poisoned(poisons, share=0.4)

        @fbar.each
        def simulate(theta, rng):
            if theta["theta"] > 0.9:
                os._exit(1) if kills else raised(ArithmeticError())
            return inner.simulate.function(theta, rng)

        return fbar.Problem(PRIOR, simulate, observed=0.5)

    _, x, failure = told(spoilt(True), Workers(2), 48)
    _, here, failed = told(spoilt(False), InProcess(), 48)
    assert np.array_equal(x, here, equal_nan=True)
    assert np.array_equal(failure != 0, failed != 0)
    assert Failure.KILLED in failure
    assert Failure.UNUSABLE in failure


def test_single_rows_travel_in_a_plain_form():
    batch = Batch(0, 0, Points({"theta": np.full(3, 0.5)}), None, Seeds(1))
    outputs = iter([{"x": np.float32(1), "cost": 2, "extra": (i for i in [1])}, NoArray(), [0.5]])
    problem = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: next(outputs)), observed=[0.5])
    rows = pickle.loads(pickle.dumps(attempt_part(problem, batch, Part(0, 3))))
    assert [isinstance(row, RowFailed) for row in rows] == [True, True, False]
    assert rows[0].kind == Failure.WRONG_SHAPE


# ---------------------------------------------------------------- vectorised simulators

BATCHES = {
    "rows left out": lambda x, bad: x[~bad],
    "one row more": lambda x, bad: np.append(x, 0.0) if bad.any() else x,
    "another shape": lambda x, bad: np.stack([x, x], axis=1) if bad.any() else x,
    "text": lambda x, bad: np.where(bad, "abc", x) if bad.any() else x,
    "complex": lambda x, bad: np.where(bad, 1j, x) if bad.any() else x,
    "nothing": lambda x, bad: None if bad.any() else x,
    "refused": lambda x, bad: raised(fbar.InputError("mine")) if bad.any() else x,
    "of my own": lambda x, bad: raised(OfMyOwn()) if bad.any() else x,
    "generator exit": lambda x, bad: raised(GeneratorExit()) if bad.any() else x,
    "stop": lambda x, bad: raised(StopIteration()) if bad.any() else x,
    "objects": lambda x, bad: np.where(bad, object(), x),
    "negative cost": lambda x, bad: {"x": x, "cost": np.where(bad, -1.0, 1.0)},
}


def vectorised(spoil, f):
    """The outcome is 1 with probability 0.7; rows of the lower half of θ are spoilt with probability f."""

    def simulate(theta, rng):
        x = (rng.random(theta.rows) < 0.7).astype(float)
        return spoil(x, rng.random(theta.rows) < f * (theta["theta"] < 0.5))

    return fbar.Problem(PRIOR, simulate, observed=1.0)


def one_by_one(spoil, f):
    @fbar.each
    def simulate(theta, rng):
        x = float(rng.random() < 0.7)
        return "abc" if rng.random() < f * (theta["theta"] < 0.5) else x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rows left out", "another shape", "objects", "one by one"])
def test_what_cannot_be_used_biases_nothing(how):
    """Four tests of three counts within 5 standard errors: less than one false alarm in 10⁵ runs.

    A second chance for rows of a batch would raise the counts of the lower half by a fifth: z of about 6.
    """
    make = one_by_one if how == "one by one" else vectorised
    theta, x, failure = told(make(BATCHES.get(how), 0.4), InProcess(), 2400, 4)
    low = theta < 0.5
    assert not failure[~low].any()
    for rows, value, p in ((low, 1.0, 0.42), (low, 0.0, 0.18), (~low, 1.0, 0.7)):
        n, hits = int(rows.sum()), int((x[rows] == value).sum())
        assert abs(hits - n * p) < 5 * np.sqrt(n * p * (1 - p)), (value, hits / n, p)


@pytest.mark.parametrize("how", BATCHES)
def test_only_the_rows_at_fault_fail(how):
    def simulate(theta, rng):
        return BATCHES[how](rng.random(theta.rows), theta["cell"] % 5 == 3)

    problem = fbar.Problem(fbar.Finite(cell=np.arange(12)), simulate, observed=1.0)
    for block in (0, 1):
        found = fbar.simulate(problem, Batch(0, block, Points({"cell": np.arange(12)}), None, Seeds(1)))
        assert np.flatnonzero(found.failure).tolist() == [3, 8], how


@pytest.mark.processes
@pytest.mark.slow
def test_batches_give_the_same_with_workers():
    for how in ("rows left out", "refused", "of my own"):
        problem = vectorised(BATCHES[how], 0.1)
        here = told(problem, InProcess(), 128, 16)
        assert here[2].any()
        assert all(map(np.array_equal, told(problem, Workers(2), 128, 16), here, [0, True, 0]))


def test_models_of_a_choice_fail_alone():
    def model(spoil):
        def simulate(theta, rng):
            x = rng.random(theta.rows)
            return spoil(x) if (theta["theta"] > 0.8).any() else x

        return fbar.Model(simulate, PRIOR)

    models = {"a": model(lambda x: x[:-1]), "b": model(lambda x: {"x": x, "y": x[1:]})}
    problem = fbar.Problem.models(models, observed=0.5)
    run = fbar.Rejection(rounds=1).start(problem, fbar.model_probability("a"), seed=1, budget=64, block_size=16)
    for batch in run.ask():
        found = fbar.simulate(problem, batch)
        assert np.array_equal(found.failure == Failure.WRONG_SHAPE, batch.theta["theta"] > 0.8)
        assert set(found.failure) <= {Failure.NONE, Failure.WRONG_SHAPE}


# ---------------------------------------------------------------- mistakes are found at once


def counted(simulate):
    calls = []

    def counting(theta, rng):
        calls.append(1)
        return simulate(theta, rng)

    return counting, calls


MISTAKES = {
    "shape": (lambda theta, rng: [1.0, 2.0], r"simulated summaries have shape \(2,\) and the observed ones \(\)"),
    "text": (lambda theta, rng: "abc", "simulated summaries are <U3 values and the observed ones float64"),
    "complex": (lambda theta, rng: 1j, "simulated summaries are complex128 values"),
    "name": (lambda theta, rng: {"y": 1.0}, "must hold its data under 'x'; it holds"),
    "refused": (lambda theta, rng: raised(fbar.InputError("not so")), "InputError: not so"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_every_simulation_ends_the_run_early(mistake, tmp_path):
    simulate, message = MISTAKES[mistake]
    # the first block may be run twice
    for block_size, most in ((1, MISTAKEN + 1), (16, MISTAKEN + 32), (None, 128)):
        counting, calls = counted(simulate)
        problem = fbar.Problem(PRIOR, fbar.each(counting), observed=0.5)
        with pytest.raises(fbar.InputError, match=message):
            fbar.infer(problem, MEAN, method=REJECTION, budget=5000, block_size=block_size, seed=1)
        assert len(calls) <= most
    with pytest.raises(fbar.InputError, match=message):
        fbar.infer(problem, MEAN, method=REJECTION, budget=5, seed=1)


BATCH_MISTAKES = {
    "one number": (lambda theta, rng: 1.0, "asked for {rows} simulations and gave 'x' of shape ()"),
    "one row": (lambda theta, rng: rng.random(1), "of shape (1,); its first axis must be the simulations"),
    "ten rows": (lambda theta, rng: rng.random(10), "of shape (10,); its first axis must be the simulations"),
    "columns": (lambda theta, rng: np.ones((theta.rows, 2)), "summaries have shape (2,) and the observed ones ()"),
    "complex": (lambda theta, rng: theta["theta"] + 1j, "simulated summaries are complex128"),
    "nothing": (lambda theta, rng: None, "gave 'x' of shape ()"),
    "no such parameter": (lambda theta, rng: theta["eta"], "there is no parameter 'eta'; known: theta"),
}


@pytest.mark.parametrize("mistake", BATCH_MISTAKES)
def test_a_mistake_in_every_batch_ends_the_run_early(mistake):
    """Today's blocks have thousands of rows, whose single runs would take long."""
    simulate, message = BATCH_MISTAKES[mistake]
    for block_size in (None, 12, 1):
        counting, calls = counted(simulate)
        problem = fbar.Problem(PRIOR, counting, observed=0.5)
        if mistake == "one row" and block_size == 1:
            continue  # which is right
        with pytest.raises(fbar.InputError) as caught:
            fbar.infer(problem, MEAN, method=REJECTION, budget=5000, block_size=block_size, seed=1)
        assert message.format(rows=block_size or 4096) in str(caught.value)
        assert len(calls) <= 5 * PROBES


def useless_at(theta):
    """Of no use at these θ."""
    return fbar.Problem(PRIOR, fbar.each(lambda t, rng: "abc" if t["theta"] in theta else 0.5), observed=0.5)


def drawn(budget, block_size=1):
    """The θ of a run."""
    run = REJECTION.start(useless_at(()), MEAN, seed=1, budget=budget, block_size=block_size)
    return np.concatenate([batch.theta["theta"] for batch in run.ask()]).tolist()


def asked(budget, block_size=1, **options):
    return {"method": REJECTION, "budget": budget, "block_size": block_size, "seed": 1, **options}


def test_a_false_alarm_is_rare():
    """Half of all outputs are useless: with ten simulations one run in a thousand would end."""
    assert 0.5**MISTAKEN < 1e-12
    assert PROBES >= MISTAKEN


def test_a_few_useless_simulations_at_the_start_end_nothing():
    theta = drawn(80)
    few = useless_at(set(theta[: MISTAKEN - 1]))
    assert fbar.infer(few, MEAN, **asked(80)).run.seen.counts == {Failure.UNUSABLE: MISTAKEN - 1}
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(useless_at(set(theta[:MISTAKEN])), MEAN, **asked(80))


@pytest.mark.parametrize("block_size", [1, MISTAKEN + 2])
def test_a_run_that_ended_early_can_be_gone_on_with(block_size, tmp_path):
    """Its useless simulations are recorded, and are not held against it twice."""
    problem = useless_at(set(drawn(80, block_size)[: MISTAKEN + 5]))
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(problem, MEAN, run=tmp_path, **asked(80, block_size))
    result = fbar.infer(problem, MEAN, run=tmp_path, **asked(80, block_size))
    assert result.run.seen.counts == {Failure.UNUSABLE: MISTAKEN + 5}


def test_a_run_that_has_succeeded_never_ends_for_it(tmp_path):
    problem = useless_at(set(drawn(80)[1:]))
    result = fbar.infer(problem, MEAN, run=tmp_path, **asked(80))
    assert result.run.seen.counts == {Failure.UNUSABLE: 79}
    assert fbar.load(tmp_path, problem).accepted == result.accepted == 1


@pytest.mark.processes
def test_whether_a_run_ends_early_is_the_same_with_workers():
    """Block by block: the last useless simulation that it takes ends it, though the next is there already."""
    theta = drawn(80)
    engine = Workers(2)
    with pytest.raises(fbar.InputError, match="simulated summaries are <U3"):
        fbar.infer(useless_at(set(theta[:MISTAKEN])), MEAN, engine=engine, **asked(80))
    few = useless_at(set(theta[: MISTAKEN - 1]))
    assert fbar.infer(few, MEAN, engine=engine, **asked(80)).run.seen.failures == MISTAKEN - 1


# ---------------------------------------------------------------- functions of the user


def some(theta, rng):
    return theta["theta"] + 0.1 * rng.normal(size=theta.rows)


def strict(function, most=0.9):
    """Raises for a whole batch if one of its rows is beyond."""

    def checked(x, *others):
        if (x > most).any():
            raise ArithmeticError("too large")
        return function(x, *others)

    return checked


@pytest.mark.parametrize("block_size", [1, 32])
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"summary": strict(lambda x: 2 * x)}, 0.2),
        ({"distance": strict(lambda x, observed: np.abs(x - observed))}, 0.2),
        ({"accept": strict(lambda x, observed: np.abs(x - observed) < 0.2)}, None),
        ({"summary": strict(lambda x: raised(SystemExit(1)) if (x > 0.9).any() else x, 2.0)}, 0.2),
    ],
)
def test_a_function_that_raises_for_some_simulations_stops_nothing(options, tolerance, block_size, tmp_path):
    problem = fbar.Problem(PRIOR, some, observed=0.5, **options)
    method = fbar.Rejection(rounds=1, tolerance=tolerance or 0.0)
    asked = {"method": method, "budget": 160, "block_size": block_size, "seed": 1}
    result = fbar.infer(problem, MEAN, run=tmp_path / "run", **asked)
    _, x, _ = told(fbar.Problem(PRIOR, some, observed=0.5), InProcess(), 160, block_size, seed=1)
    assert result.run.seen.counts == {Failure.UNUSABLE: int((x > 0.9).sum())}
    assert "failed: " in result.run.seen.examples[Failure.UNUSABLE]
    assert fbar.load(tmp_path / "run", problem).run.seen.counts == result.run.seen.counts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distance": lambda x, observed: x - observed}, "a distance must be at least 0; got -"),
        ({"distance": lambda x, observed: np.abs(x - observed).astype(str)}, "distances must be numbers"),
        ({"accept": lambda x, observed: x - observed}, "must give true or false"),
        ({"summary": lambda x: x[:1]}, "must give a row for each"),
        ({"summary": strict(lambda x: x, -1)}, "the summary failed"),
    ],
)
def test_nonsense_is_refused_in_the_first_block(options, message):
    """Some of these give nonsense for some simulations only, and would bias the answer if those were left out."""
    method = fbar.Rejection() if "accept" in options else REJECTION
    with pytest.raises(fbar.InputError, match=message):
        fbar.infer(fbar.Problem(PRIOR, some, observed=0.5, **options), MEAN, method=method, budget=200, seed=1)


def test_nonsense_that_comes_later_fails_alone(tmp_path):
    def rarely_negative(x, observed):
        return np.where(x > 1.1, -1.0, np.abs(x - observed))

    problem = fbar.Problem(PRIOR, some, observed=0.5, distance=rarely_negative)
    asked = {"method": REJECTION, "budget": 320, "block_size": 1, "seed": 1, "run": tmp_path / "run"}
    _, x, _ = told(fbar.Problem(PRIOR, some, observed=0.5), InProcess(), 320, 1, seed=1)
    assert x[0] < 1.1 < x.max()
    assert fbar.infer(problem, MEAN, **asked).run.seen.counts == {Failure.UNUSABLE: int((x > 1.1).sum())}
    assert fbar.load(tmp_path / "run", problem).run.seen.failures == int((x > 1.1).sum())


def test_a_derived_parameter_that_fails_for_some_rows():
    derived = {"root": lambda theta: np.array([math.sqrt(value - 0.1) for value in theta["theta"]])}
    problem = fbar.Problem(
        PRIOR, fbar.each(lambda theta, rng: theta["root"] + 0.1 * rng.normal()), observed=0.5, derived=derived
    )
    theta, _, failure = told(problem, InProcess(), 64, 8)
    assert np.array_equal(failure == Failure.REFUSED, theta < 0.1)
    assert set(failure) == {Failure.NONE, Failure.REFUSED}
    result = fbar.infer(problem, MEAN, method=REJECTION, budget=200, seed=1)
    assert result.expect(fbar.mean("root")).value > 0


# ---------------------------------------------------------------- recorded outputs

SPOILT_RECORDS = {
    "text": (lambda x: {"x": x, "peak": "abc"}, Failure.UNUSABLE),
    "none": (lambda x: {"x": x, "peak": None}, Failure.UNUSABLE),
    "pair": (lambda x: {"x": x, "peak": [x, x]}, Failure.UNUSABLE),
    "object": (lambda x: {"x": x, "peak": NoArray()}, Failure.UNUSABLE),
    "missing": (lambda x: {"x": x}, Failure.WRONG_SHAPE),
    "alone": (lambda x: x, Failure.WRONG_SHAPE),
}
METHODS = [REJECTION, fbar.Targeted(tolerance=0.2), fbar.SMC([0.4, 0.2])]


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("how", SPOILT_RECORDS)
def test_a_record_of_another_kind_fails_alone(how, block_size, tmp_path):
    spoil, kind = SPOILT_RECORDS[how]

    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return spoil(x) if 0.4 < theta["theta"] < 0.6 else {"x": x, "peak": 2 * theta["theta"]}

    problem = fbar.Problem(PRIOR, simulate, observed=0.5, records=["peak"])
    for number, method in enumerate(METHODS[:1] if block_size == 1 else METHODS):
        run = tmp_path / str(number)
        asked = {"method": method, "budget": 200, "block_size": block_size, "seed": 1, "run": run}
        result = fbar.infer(problem, [MEAN, fbar.mean("peak")], **asked)
        assert set(result.run.seen.counts) == {kind}
        assert result["mean:peak"].value == pytest.approx(2 * result["mean:theta"].value)
        again = fbar.load(run, problem, targets=[fbar.mean("peak")])
        assert again["mean:peak"].value == result["mean:peak"].value


def labelled_at(labels):
    """The record is a label at these θ, and θ itself elsewhere."""

    @fbar.each
    def simulate(theta, rng):
        x, peak = float(theta["theta"] + 0.1 * rng.normal()), theta["theta"]
        return {"x": x, "peak": "none" if labels is None or peak in labels else peak}

    return fbar.Problem(PRIOR, simulate, observed=0.5, records=["peak"])


@pytest.mark.parametrize("block_size", [1, 7])
@pytest.mark.parametrize("method", METHODS)
def test_text_before_the_first_number_of_a_record_fails_too(method, block_size, tmp_path):
    """They are failures whenever they came, and the run is loaded, resumed and extended."""
    asked = {"budget": 200, "block_size": block_size, "seed": 1}
    first = np.concatenate([batch.theta["theta"] for batch in method.start(labelled_at(()), MEAN, **asked).ask()])[:7]
    problem = labelled_at(set(first.tolist()))
    result = fbar.infer(problem, [MEAN, fbar.mean("peak")], method=method, run=tmp_path, **asked)
    assert result.run.seen.counts == {Failure.UNUSABLE: 7}
    assert "is a number in other simulations; got 'none'" in result.run.seen.examples[Failure.UNUSABLE]
    assert result["mean:peak"].value == pytest.approx(result["mean:theta"].value)
    assert answer(fbar.load(tmp_path, problem)) == answer(result)
    extended = fbar.extend(tmp_path, problem, budget=300)
    assert extended.run.seen.counts == {Failure.UNUSABLE: 7}


@pytest.mark.parametrize("method", METHODS)
def test_text_in_a_numeric_record_counts_the_same_in_any_order(method):
    """As simulations that fail at once do, whichever come first."""
    run, other = (method.start(labelled_at(()), MEAN, seed=1, budget=64, block_size=1) for _ in range(2))
    told = 0
    while batches := run.ask():
        again = other.ask()
        for batch, same in zip(batches, again, strict=True):
            x, spoilt = batch.theta["theta"], np.array([told < 5 or told == 9])
            peak = np.array(["none"]) if spoilt[0] else x
            failure = np.where(spoilt, Failure.UNUSABLE, 0).astype(np.int8)
            run.tell((batch, Simulated(x, {"peak": peak}, np.zeros(1, np.int8))))
            other.tell((same, Simulated(x, {"peak": np.where(spoilt, np.nan, x)}, failure)))
            told += 1
    found, wanted = run.posterior(), other.posterior()
    assert run.seen.counts == other.seen.counts == {Failure.UNUSABLE: 6}
    assert run.seen.closest == other.seen.closest
    assert found.accepted == wanted.accepted
    for target in (MEAN, fbar.mean("peak")):
        assert found.expect(target).value == pytest.approx(wanted.expect(target).value)
        assert found.expect(target).variance == pytest.approx(wanted.expect(target).variance)


CELL_METHODS = [fbar.AdaptiveAllocation(), fbar.InverseBinomial(hits=5)]


@pytest.mark.parametrize("method", CELL_METHODS)
def test_text_before_the_first_number_fails_in_cells_too(method):
    @fbar.each
    def simulate(theta, rng):
        return {"x": 1.0, "peak": "none" if theta["cell"] == 0 else 1.0}

    problem = fbar.Problem(fbar.Finite(cell=[0, 1]), simulate, observed=1.0, records=["peak"])
    result = fbar.infer(problem, fbar.mean("cell"), method=method, budget=60, block_size=1, seed=1)
    assert result["mean:cell"].value == 1.0
    assert set(result.run.seen.counts) == {Failure.UNUSABLE}


def test_labels_remain_labels():
    problem = labelled_at(None)
    result = fbar.infer(problem, fbar.probability("peak == 'none'"), method=REJECTION, budget=50, block_size=1, seed=1)
    assert not result.run.seen.counts
    assert result.expect(fbar.probability("peak == 'none'")).value == 1


@pytest.mark.parametrize("block_size", [1, 16])
def test_a_number_in_a_failed_simulation_makes_no_label_fail(block_size):
    def simulate(theta, rng):
        bad = theta["theta"] < 0.1
        return {"x": np.nan if bad else theta["theta"], "peak": 0.0 if bad else "none"}

    problem = fbar.Problem(PRIOR, fbar.each(simulate), observed=0.5, records=["peak"])
    target = fbar.probability("peak == 'none'")
    result = fbar.infer(problem, target, method=REJECTION, budget=160, block_size=block_size, seed=1)
    assert set(result.run.seen.counts) == {Failure.NOT_FINITE}
    assert result.expect(target).value == 1


@pytest.mark.parametrize("summary", [lambda x: x.mean(axis=1), None])
def test_the_shape_of_a_row_is_judged_by_that_row(summary):
    """A summary takes populations of any size, whatever the sizes in their block; without one they fail."""
    rows = [np.full(size, 0.5) for size in (1, 3, 2, 3, 4)]
    problem = fbar.Problem(PRIOR, fbar.each(lambda theta, rng: 0.0), np.full(3, 0.5), summary=summary)
    failed = [0, 0, 0, 0, 0] if summary else [Failure.WRONG_SHAPE, 0, Failure.WRONG_SHAPE, 0, Failure.WRONG_SHAPE]
    assert problem.outcomes(rows, 5).failure.tolist() == failed
    if summary:
        assert [problem.outcomes([row], 1).failure.item() for row in rows] == failed
        assert problem.outcomes(np.stack([rows[4]] * 2), 2).failure.tolist() == [0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_outputs_that_nobody_asked_for_disturb_nothing(method, tmp_path):
    extras = [lambda x: 1.0, lambda x: "abc", lambda x: [1, 2], lambda x: object(), lambda x: np.datetime64("2020")]

    def simulate(extra):
        @fbar.each
        def simulate(theta, rng):
            x = float(theta["theta"] + 0.1 * rng.normal())
            way = rng.integers(len(extras) + 1)
            return {"x": x, "extra": extras[way](x)} if extra and way < len(extras) else x

        return simulate

    for block_size in (1, 8):
        asked = {"method": method, "budget": 200, "block_size": block_size, "seed": 1}
        plain = fbar.infer(fbar.Problem(PRIOR, simulate(False), observed=0.5), MEAN, **asked)
        problem = fbar.Problem(PRIOR, simulate(True), observed=0.5)
        result = fbar.infer(problem, MEAN, run=tmp_path / str(block_size), **asked)
        assert answer(result) == answer(plain)
        assert answer(fbar.load(tmp_path / str(block_size), problem)) == answer(plain)


@pytest.mark.parametrize("method", METHODS)
def test_records_of_before_such_simulations_failed_are_read(method):
    """They were written down before the run ended for them, and then met again by every resume."""
    problem = fbar.Problem(PRIOR, some, observed=0.5, cost="returned")
    run = method.start(problem, MEAN, seed=1, budget=64, block_size=16)
    for batch in run.ask():
        x = some(batch.theta, batch.rng())
        recorded = {"theta": np.zeros(batch.simulations), "pair": np.zeros((batch.simulations, 2))}
        run.tell((batch, Simulated(x, recorded, np.zeros(batch.simulations, np.int8))))
    assert run.simulations > 0
    assert run.posterior().expect(MEAN).value > 0.1


def test_a_promised_cost_that_is_missing_once(tmp_path):
    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return x if rng.random() < 0.1 else {"x": x, "cost": 1 + theta["theta"]}

    problem = fbar.Problem(PRIOR, simulate, observed=0.5, cost="returned")
    for block_size in (1, 16):
        method = fbar.Targeted(tolerance=0.2, per="second")
        result = fbar.infer(problem, MEAN, method=method, budget=200, block_size=block_size, seed=1)
        assert set(result.run.seen.counts) == {Failure.UNUSABLE}
        assert "came without 'cost'" in result.run.seen.examples[Failure.UNUSABLE]
        assert result.run.spent_cost > 0


def test_a_cost_that_is_returned_now_and_then_stops_nothing():
    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        return {"x": x, "cost": 1.0} if rng.random() < 0.1 else x

    method = fbar.Targeted(tolerance=0.2, per="second")
    problem = fbar.Problem(PRIOR, simulate, observed=0.5)
    assert fbar.infer(problem, MEAN, method=method, budget=200, block_size=16, seed=1).run.seen.failures == 0


def test_a_time_limit_strikes_through_simulators_within_simulators():
    """It is no failure of the row that happens to run, but of the batch, whose rows share a stream."""
    models = {
        "a": fbar.Model(fbar.each(lambda theta, rng: raised(TimedOut())), PRIOR),
        "b": fbar.Model(lambda theta, rng: rng.random(theta.rows), PRIOR),
    }
    problem = fbar.Problem.models(models, observed=0.5)
    points = Points({"model": np.array(["a", "b"]), "theta": np.full(2, 0.5)})
    found = attempt_block(problem, Batch(0, 0, points, None, Seeds(1)), timeout=100.0)
    assert isinstance(found, RowFailed)
    assert found.kind is Failure.TIMED_OUT
