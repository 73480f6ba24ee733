"""What is said to somebody who writes a model for the first time, or comes from another package."""

from __future__ import annotations

import copy
import math
import pickle
import time
from functools import partial

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.checks import choice
from fbar.question.targets import parse
from fbar.running import repeat

PRIOR = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))


def infer(simulate, *, of="a", budget=600, **options):
    problem = fbar.Problem(PRIOR, simulate, observed=[1.0, 1.2], **options)
    return fbar.infer(problem, fbar.mean(of), method=fbar.Rejection(rounds=1, tolerance=2), budget=budget, seed=1)


few = partial(infer, budget=60)


def pyabc(theta):
    return {"x": theta["a"]}


def one_row(theta, rng):
    return rng.normal(size=2) if theta["a"] > 1 else rng.normal(theta["a"], size=2)


def batch(theta, rng):
    return theta["a"][:, None] + rng.standard_normal((theta.rows, 2))


SMALL = fbar.Problem(PRIOR, batch, observed=[1.0, 1.2])
MODELS = fbar.Problem.models({"SIR": fbar.Model(batch, PRIOR), "SI": fbar.Model(batch, PRIOR)}, [1.0, 1.2])


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda: fbar.Prior(stats.uniform(0, 1)), r"every parameter needs a name, as in Prior\(beta="),
        (lambda: fbar.Prior(stats.uniform(0, 1), stats.norm()), "every parameter needs a name"),
        (lambda: fbar.Prior([stats.uniform(0, 1)]), "every parameter needs a name"),
        (lambda: few(lambda theta, rng: theta[:, 0]), r"accessed by name, as in theta\['a'\], not by position"),
        (lambda: few(lambda theta, rng: theta[0]), r"accessed by name, as in theta\['a'\], not by position"),
        (lambda: few(lambda theta, rng: theta.a), r"write theta\['a'\], not theta\.a"),
        (lambda: few(fbar.each(lambda theta, rng: theta.a)), r"write theta\['a'\], not theta\.a"),
        (lambda: few(pyabc), r"2 arguments, as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: few(fbar.each(pyabc)), r"as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: fbar.Problem.models({"m": pyabc}, 1.0), r"as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: few(pyabc, summary=lambda x: x.mean()), r"as simulate\(theta, rng\)"),
        (lambda: few(one_row), r"an array with a value for each simulation; wrap .* with fbar\.each"),
        (lambda: few(lambda theta, rng: range(int(theta["a"]))), r"theta\['a'\] is an array .* with fbar\.each"),
        (lambda: few(lambda theta, rng: rng.normal(math.exp(theta["a"]), 1, 2)), r"wrap a .* with fbar\.each"),
        (lambda: few(lambda theta, rng: theta.a + rng.normal(size=2)), r"not theta\.a; it is an array .* fbar\.each"),
        (
            lambda: few(lambda theta, rng: rng.normal(theta["a"], size=2)),
            "works with one row: wrap a simulator",
        ),
        (lambda: few(lambda theta, rng: rng.normal(size=2)), r"returned 'x' of shape \(2,\); .* with fbar\.each"),
        (lambda: few(fbar.each(batch)), "with one parameter set, of numbers; leave fbar.each out"),
        (
            lambda: few(fbar.each(lambda theta, rng: np.zeros((theta.rows, 2)))),
            "no rows here.* leave fbar.each out",
        ),
        (lambda: few(fbar.each(lambda theta, rng: np.zeros(len(theta["a"])))), "numbers; leave fbar.each out"),
        (
            lambda: few(lambda theta, rng: rng.normal(size=(len(theta), 2))),
            r"is theta\.rows; len\(theta\)",
        ),
        (
            lambda: few(lambda theta, rng: theta["a"][:, None] + rng.normal(size=(len(theta), 2))),
            r"could not be broadcast .*the number of simulations is theta\.rows; len\(theta\) is the number of param",
        ),
        (lambda: few(lambda theta, rng: None), "the simulator returned None; .*is a return missing"),
        (lambda: few(fbar.each(lambda theta, rng: None)), "simulations gave no data; .* returned None; is a return"),
        (lambda: few(batch, summary=lambda x: None), "summary returned None; .*is a return missing"),
        (lambda: few(batch, summary=lambda x: x[0]), r"receives a batch.* shape \(1, 2\) and returned \(2,\)"),
        (
            lambda: few(batch, summary=lambda x: [x[0], x[1]]),
            r"IndexError.*a batch of one .*of shape \(1, 2\)",
        ),
        (
            lambda: few(batch, summary=lambda x: {"m": x.mean()}),
            r"a row for each .*as x\.mean\(axis=1\) has",
        ),
        (lambda: few(batch, derived={"q": lambda t: t["c"]}, of="q"), "derived parameter 'q' .*no parameter 'c'"),
        (lambda: few(batch, derived={"q": lambda t: 1 / 0}, of="q"), "derived parameter 'q' .*ZeroDivisionError"),
        (lambda: few(batch, derived={"q": lambda t: None}, of="q"), "derived parameter 'q' .*returned None"),
        (lambda: few(batch, derived={"q": lambda t: 1 if t["a"] > 1 else 2}, of="q"), r"'q' .*use numpy\.where"),
        (
            lambda: few(batch, derived={"q": lambda t: t["c"], "r": lambda t: t["q"]}, of="r"),
            "^derived parameter 'q' cannot be computed: there is no parameter 'c'",
        ),
        (lambda: fbar.Prior(a=stats.uniform(3, -1)), r"uniform\(3, -1\); write uniform\(low, width\)"),
        (lambda: fbar.Prior(a=stats.norm(0, scale=-1)), r"no mass: norm\(0, scale=-1\); check"),
        (lambda: fbar.Prior(p=fbar.dirichlet()), r"name and concentration, as in Prior\(dirichlet\(susceptible=1"),
        (
            lambda: fbar.Prior(p=fbar.dirichlet(s=1, i=1)),
            r"\['s', 'i'\]; give them without .*as in Prior\(",
        ),
        (lambda: fbar.Prior(p=stats.dirichlet([1, 1])), r"of one number; .* write Prior\(dirichlet\("),
        (lambda: few(batch, of="A"), "no parameter 'A'; did you mean 'a'"),
        (lambda: few(lambda theta, rng: theta["A"]), "^there is no parameter 'A'; did you mean 'a'"),
        (lambda: few(fbar.each(lambda theta, rng: theta["A"])), "^there is no parameter 'A'; did you mean 'a'"),
        (lambda: few(batch)["A"], "did you mean 'mean:a'"),
        (lambda: fbar.infer(SMALL, "mean:a", budget=100, method="SMC"), "did you mean 'smc'"),
        (lambda: fbar.infer(SMALL, "Mean:a", budget=100), "did you mean 'mean'"),
        (lambda: fbar.infer(SMALL, "mean:a", budget=100, precision={"A": 1}), "did you mean 'mean:a'"),
        (lambda: fbar.problems.load("Two-Moons"), "did you mean 'two-moons'"),
        (lambda: MODELS.prior.probability("sir"), "there is no model 'sir'; did you mean 'SIR'"),
        (
            lambda: fbar.infer(MODELS, "model_probability:Seir", budget=9),
            "no model 'Seir'; did you mean 'SIR'",
        ),
        (
            lambda: few(lambda theta, rng: theta["a"], summary=lambda x: x.mean()),
            r"summary receives a batch.*as x\.mean\(axis=1\) does; it was given shape \(1, 2\) and returned \(\)",
        ),
    ],
)
def test_what_newcomers_write_is_answered_with_what_to_write(mistake, text):
    with pytest.raises(fbar.FbarError, match=text) as caught:
        mistake()
    assert "\n" not in str(caught.value)


def test_simulators_that_can_be_called_with_both_arguments_are_taken():
    class Callable:
        def __call__(self, theta, rng, scale=1.0):
            return theta["a"][:, None] + scale * rng.standard_normal((theta.rows, 2))

    for simulate in (Callable(), lambda *both: Callable()(*both), lambda theta, rng, **more: Callable()(theta, rng)):
        assert infer(simulate).simulations == 600


def test_attributes_of_a_batch_that_are_no_parameters_are_as_usual():
    points = PRIOR.sample(3, rng=np.random.default_rng(1))
    assert not hasattr(points, "nothing")
    for again in (copy.copy(points), copy.deepcopy(points), pickle.loads(pickle.dumps(points))):
        np.testing.assert_array_equal(again["a"], points["a"])


def test_targets_are_given_by_name_as_on_the_command_line():
    made = fbar.infer(SMALL, fbar.mean("a"), budget=400, tolerance=2, seed=1)
    for targets in ("mean:a", ["mean:a"]):
        assert fbar.infer(SMALL, targets, budget=400, tolerance=2, seed=1)["mean:a"].value == made["mean:a"].value
    assert made.expect("quantile:a,0.9").value == made.expect(fbar.quantile("a", 0.9)).value
    assert [estimate.name for estimate in made.expect(["sd:a", "mean:b"])] == ["sd:a", "mean:b"]
    assert made.at_data().expect("sd:a").value == made.at_data().posterior.expect(["sd:a"])[0].value
    with pytest.raises(fbar.InputError, match="is given twice"):
        made.expect(["mean:a", fbar.mean("a")])
    with pytest.raises(fbar.InputError, match=r"written as kind:what, such as mean:beta; got 'a'"):
        made.expect("a")


def test_a_parameter_that_is_not_there_is_a_key_error_too():
    points = fbar.Points({"a": [1.0]})
    assert points.get("c") is None
    with pytest.raises(KeyError) as caught:
        points["c"]
    assert str(caught.value) == "there is no parameter 'c'; known: a"


def test_an_infinite_tolerance_is_called_what_it_is():
    for method in ("rejection", "smc", "targeted"):
        result = fbar.infer(SMALL, "mean:a", method=method, tolerance=np.inf, budget=100, seed=1)
        assert "inf" not in str(result).replace("infinite", "")
        assert not result["mean:a"].trusted
        assert result.about.startswith("about the prior, as")
    short = fbar.infer(SMALL, "mean:a", method="smc", tolerance=0.1, budget=20, seed=1)
    assert short.stopped_by == "budget spent in round 1"


def test_a_budget_that_is_spent_says_what_is_counted(tmp_path):
    fbar.infer(SMALL, "mean:a", tolerance=2, budget=200, seed=1, run=tmp_path)
    for budget in (100, 200):
        with pytest.raises(fbar.InputError, match=f"budget {budget} is already spent: .*has 200; give more than that"):
            fbar.extend(tmp_path, SMALL, budget=budget)


@pytest.mark.skipif("__import__('os').name == 'nt'")
def test_a_path_of_windows_is_not_made_worse():
    with pytest.raises(fbar.InputError, match="on this system a path is written with /") as caught:
        fbar.program([r"C:\sim\model.exe", "{a}"])
    assert r"./C:" not in str(caught.value)
    with pytest.raises(fbar.InputError, match=r"give its path, such as './no-such-model'"):
        fbar.program(["no-such-model"])


def test_a_suggestion_is_a_slip_of_the_pen_or_a_beginning():
    kinds = ["mean", "variance", "covariance", "probability", "expectation"]
    with pytest.raises(fbar.InputError, match=r"unknown kind 'correlation'; known: mean") as caught:
        choice("correlation", kinds, "kind")
    assert "did you mean" not in str(caught.value)
    for given, meant in (("men", "mean"), ("prob", "probability"), ("varaince", "variance"), ("Mean", "mean")):
        with pytest.raises(fbar.InputError, match=f"did you mean '{meant}'"):
            choice(given, kinds, "kind")
    with pytest.raises(fbar.InputError, match="did you mean 'probability'"):
        parse("prob:a > 1")


def test_noise_that_a_batch_shares_is_called_by_its_name():
    """More simulations do not help against it."""

    def shared(theta, rng):
        return theta["a"][:, None] + rng.standard_normal(2)

    problem = fbar.Problem(PRIOR, shared, observed=[1.0, 1.2])
    estimate = fbar.infer(problem, fbar.mean("a"), budget=8000, tolerance=1, seed=1)["mean:a"]
    assert not estimate.trusted
    assert any("its own random numbers (rng.normal(size=theta.rows), not rng.normal())" in t for t in estimate.warnings)


def test_one_is_not_many():
    def fails_once(theta, rng):
        x = theta["a"][:, None] + rng.standard_normal((theta.rows, 2))
        if not failed:
            failed.append(True)
            x[0] = np.nan
        return x

    failed = []
    result = infer(fails_once)
    assert any(text.startswith("1 simulation failed and was rejected: 1 gave a result") for text in result.warnings)
    failed = []
    assert str(fbar.Budget(1)) == "1 simulation"
    assert str(fbar.Forecast(1, 1, 1, 0)) == "1 more simulation"


# ---------------------------------------------------------------- random numbers of one's own


class Simulations:
    """A vectorised simulator that counts its calls; ``noise`` is where its random numbers come from."""

    def __init__(self, noise, seconds=0.0):
        self.noise, self.seconds, self.calls = noise, seconds, []

    def __call__(self, theta, rng):
        self.calls.append(theta.rows)
        time.sleep(self.seconds)
        return theta["a"][:, None] + self.noise(rng).standard_normal((theta.rows, 2))


def repeated(simulate, **options):
    result = infer(simulate, **options)
    return [text for text in result.warnings if "another source of random numbers" in text]


@pytest.fixture
def patience(monkeypatch):
    """On a machine that has much to do nothing is quick."""
    monkeypatch.setattr(repeat, "CHEAP", 60.0)


def test_random_numbers_of_ones_own_are_noticed(patience):
    module = np.random.default_rng(3)
    assert repeated(Simulations(lambda rng: np.random.default_rng()))
    assert repeated(Simulations(lambda rng: module))
    assert repeated(fbar.each(lambda theta, rng: theta["a"] + np.random.default_rng().standard_normal(2)))
    assert not repeated(Simulations(lambda rng: rng))
    assert not repeated(Simulations(lambda rng: np.random))  # global numbers are seeded
    assert not repeated(fbar.each(lambda theta, rng: theta["a"] + rng.standard_normal(2)))


def test_a_generator_with_a_fixed_seed_is_noticed(patience):
    """Where it gives every batch the same noise. One by one, it cannot be told from a simulator without noise."""

    def seen(simulate):
        result = infer(simulate, budget=200)
        warned = repeat.FIXED in result.warnings
        assert not (warned and result["mean:a"].trusted)
        return warned, repeat.NO_NOISE in result.remarks

    assert seen(Simulations(lambda rng: np.random.default_rng(0))) == (True, False)
    alone = fbar.each(lambda theta, rng: theta["a"] + np.random.default_rng(0).standard_normal(2))
    for simulate in (alone, lambda theta, rng: np.stack([theta["a"], theta["b"]], axis=1)):
        assert seen(simulate) == (False, True)
    for simulate in (
        Simulations(lambda rng: rng),
        lambda theta, rng: rng.poisson(1e-9, (theta.rows, 2)),
        fbar.each(lambda theta, rng: rng.poisson(abs(theta["a"]), 2)),
    ):
        assert seen(simulate) == (False, False)


def test_that_a_simulator_seems_deterministic_is_recorded(patience, tmp_path):
    problem = fbar.Problem(PRIOR, lambda theta, rng: np.stack([theta["a"], theta["b"]], axis=1), observed=[1.0, 1.2])
    made = fbar.infer(problem, "mean:a", tolerance=1, budget=300, seed=1, run=tmp_path)
    assert fbar.load(tmp_path, problem).remarks == made.remarks == (repeat.NO_NOISE,)


def test_one_block_is_simulated_twice_once_and_only_if_it_is_cheap(patience, monkeypatch):
    """The same problem is looked at once in a process; blocks that cost something are never run twice."""
    cheap = Simulations(lambda rng: rng)
    problem = fbar.Problem(PRIOR, cheap, observed=[1.0, 1.2])
    options = {"method": "rejection", "tolerance": 2, "budget": 600, "block_size": 100, "seed": 1}
    first = fbar.infer(problem, fbar.mean("a"), **options)
    looked = cheap.calls[0] + repeat.BATCHES * repeat.ROWS
    assert cheap.calls[:2] == [cheap.calls[0]] * 2
    assert sum(cheap.calls) == 600 + looked
    again = fbar.infer(problem, fbar.mean("a"), **options)
    assert sum(cheap.calls) == 1200 + looked
    assert again.as_dict() == first.as_dict()
    monkeypatch.setattr(repeat, "CHEAP", 0.01)
    dear = Simulations(lambda rng: np.random.default_rng(), seconds=0.01)
    problem = fbar.Problem(PRIOR, dear, observed=[1.0, 1.2])
    assert not fbar.infer(problem, fbar.mean("a"), **options).notes
    assert sum(dear.calls) == 600


def test_of_slow_blocks_one_simulation_is_repeated_where_that_is_little(monkeypatch):
    monkeypatch.setattr(repeat, "CHEAP", 0.0)
    monkeypatch.setattr(repeat, "MOST_SECONDS", 0.0)
    calls = []

    def slow(noise):
        def simulate(theta, rng):
            calls.append(theta["a"])
            return theta["a"] + noise(rng).standard_normal(2)

        return fbar.each(simulate)

    assert repeated(slow(lambda rng: np.random.default_rng()))
    assert len(calls) == 601
    assert calls.count(calls[0]) == 2
    assert not repeated(slow(lambda rng: rng))
    assert len(calls) == 1202
    monkeypatch.setattr(repeat, "MOST_OF_BUDGET", 1 / 601)
    assert not repeated(slow(lambda rng: np.random.default_rng()))
    assert len(calls) == 1802
    monkeypatch.setattr(repeat, "MOST_OF_BUDGET", 1.0)
    vectorised = Simulations(lambda rng: np.random.default_rng())
    assert not repeated(vectorised)
    assert sum(vectorised.calls) == 600
    monkeypatch.setattr(repeat, "MOST_SECONDS", 60.0)
    assert repeated(Simulations(lambda rng: np.random.default_rng()))


def test_noise_that_a_batch_shares_is_noticed_by_every_method(patience):
    """Of all noise or of half of its variance; other noise is a false alarm once in a million."""

    def warned(noise, **options):
        problem = fbar.Problem(PRIOR, lambda t, rng: t["a"][:, None] + noise(t.rows, rng), observed=[1.0, 1.2])
        result = fbar.infer(problem, fbar.mean("a"), budget=600, seed=1, **options)
        found = any("share random numbers" in text for text in result.warnings)
        assert not (found and result["mean:a"].trusted)
        return found

    for options in ({"method": "rejection", "tolerance": 2}, {"method": "smc", "tolerance": 2}, {"tolerance": 2}):
        assert warned(lambda rows, rng: rng.standard_normal(2), **options)
    plain = {"method": "rejection", "tolerance": 2}
    assert warned(lambda rows, rng: rng.standard_normal(2) + rng.standard_normal((rows, 2)), **plain)
    assert not warned(lambda rows, rng: rng.standard_cauchy((rows, 2)), **plain)
    assert not warned(lambda rows, rng: rng.poisson(0.1, (rows, 2)), **plain)
    assert not warned(lambda rows, rng: np.zeros((rows, 2)), **plain)


def test_what_was_seen_is_recorded_and_the_second_look_comes_after_the_block_is_safe(patience, tmp_path):
    """Who interrupts the second look loses nothing; who opens the finished run is warned as he was then."""

    class Once(Simulations):
        def __call__(self, theta, rng):
            if len(self.calls) == 1:
                self.calls.append(0)
                raise KeyboardInterrupt
            return super().__call__(theta, rng)

    problem = fbar.Problem(PRIOR, Once(lambda rng: rng), observed=[1.0, 1.2])
    options = {"method": "rejection", "tolerance": 2, "budget": 600, "block_size": 100, "seed": 1}
    with pytest.raises(KeyboardInterrupt, match=r"stopped after \d+ simulations, all recorded"):
        fbar.infer(problem, fbar.mean("a"), run=tmp_path / "stopped", **options)
    recorded = fbar.load(tmp_path / "stopped", problem).simulations
    assert recorded == problem.simulate.calls[0] > 0
    resumed = Once(lambda rng: rng)  # as in a new process, where nothing is known of the problem
    resumed.calls = [0, 0]
    fbar.infer(fbar.Problem(PRIOR, resumed, observed=[1.0, 1.2]), fbar.mean("a"), run=tmp_path / "stopped", **options)
    assert sum(resumed.calls) == 600 - recorded
    own = Simulations(lambda rng: np.random.default_rng())
    problem = fbar.Problem(PRIOR, own, observed=[1.0, 1.2])
    done = fbar.infer(problem, fbar.mean("a"), run=tmp_path / "done", **options)
    assert done.notes
    spent = sum(own.calls)
    assert fbar.load(tmp_path / "done", problem).warnings == done.warnings
    assert sum(own.calls) == spent


def test_a_study_charges_no_second_look(patience):
    """An algorithm that infers with the whole of its budget stays within it."""

    def whole(problem, budget, rng):
        seed = int(rng.integers(2**32))
        asked = {"method": "rejection", "tolerance": 9, "budget": budget, "seed": seed}
        return fbar.infer(problem, fbar.mean("theta1"), **asked).posterior

    study = fbar.Study("gaussian-linear", {"whole": whole}, 200, 2, ["mse"], 1, targets="mean:theta1")
    result = study.run(workers=1, progress=False)
    assert [row["status"] for row in result.trial_rows()] == ["ok", "ok"], result.failures()
    assert [row["simulations"] for row in result.trial_rows()] == [200, 200]
