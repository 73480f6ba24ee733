"""What is said to somebody who writes a model for the first time, or comes from another package."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.checks import choice
from fbar.question.targets import parse
from fbar.running import repeat

PRIOR = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))


def infer(simulate, **options):
    problem = fbar.Problem(PRIOR, simulate, observed=[1.0, 1.2], **options)
    return fbar.infer(problem, fbar.mean("a"), budget=600, tolerance=2, seed=1)


def pyabc(theta):
    return {"x": theta["a"]}


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda: fbar.Prior(stats.uniform(0, 1)), r"every parameter needs a name, as in Prior\(beta="),
        (lambda: fbar.Prior(stats.uniform(0, 1), stats.norm()), "every parameter needs a name"),
        (lambda: fbar.Prior([stats.uniform(0, 1)]), "every parameter needs a name"),
        (lambda: infer(lambda theta, rng: theta[:, 0]), r"accessed by name, as in theta\['a'\], not by position"),
        (lambda: infer(lambda theta, rng: theta[0]), r"accessed by name, as in theta\['a'\], not by position"),
        (lambda: infer(lambda theta, rng: theta.a), r"write theta\['a'\], not theta\.a"),
        (lambda: infer(fbar.each(lambda theta, rng: theta.a)), r"write theta\['a'\], not theta\.a"),
        (lambda: infer(pyabc), r"2 arguments, as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: infer(fbar.each(pyabc)), r"as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: fbar.Problem.models({"m": pyabc}, 1.0), r"as simulate\(theta, rng\); pyabc\(theta\) cannot be"),
        (lambda: infer(pyabc, summary=lambda x: x.mean()), r"as simulate\(theta, rng\)"),
        (
            lambda: infer(lambda theta, rng: theta["a"], summary=lambda x: x.mean()),
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
