"""Wrong arguments and wrong command lines are answered in one line that says what was given and what is allowed.

`attack/` makes them; here a fixed number with a fixed seed, and what the longer campaign found.
"""

from __future__ import annotations

import decimal
import fractions
import inspect
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.checks import choice, one_line, path, positive_integer, require_name, shown

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # where attack/ is

from attack.entrances import entrances  # noqa: E402
from attack.rooms import Rooms  # noqa: E402
from attack.wrong_calls import attempt, unfit, wrong_calls  # noqa: E402
from attack.wrong_commands import LINES, MODEL, WORDS, judged, run, wrong_commands  # noqa: E402
from attack.wrong_commands import attempt as run_a_copy  # noqa: E402
from attack.wrong_values import ManyLines, Spoilt, SpoiltArray, SpoiltRepr  # noqa: E402

CALLS, COMMANDS = 1_500, 150


def kind(value):
    """How a value is called among the tests: not all can be printed."""
    return type(value).__name__


FEW = {"Result.report", "Result.to_arviz", "StudyResult.report", "fbar.plot.write_figures", "Study.run", "fbar.SMC"}
"""Entrances whose right calls take long, and are tested elsewhere."""

NOT_CALLED = {
    # Made by fbar alone, from its own objects.
    *("Estimate", "Estimates", "Explanation", "Forecast", "ModelCheck", "Posterior", "PosteriorAsPrior", "Predictions"),
    *("Result", "Run", "StudyResult"),
    *("plot.Curves", "plot.Error", "plot.Influence", "plot.Marginals", "plot.Pairs", "plot.Places", "plot.PlacesPair"),
    *("plot.Predictive", "plot.Ranking", "plot.Rounds", "plot.Tolerance", "plot.Versus", "problems.Benchmark"),
    *("problems.Recipe", "scores.Approximation", "scores.Given", "scores.Scene", "scores.Summary", "scores.TrialError"),
    # To derive from.
    *("Distribution", "Method", "StoppingRule", "Target", "scores.Score"),
    # Take what was derived; tested where scores and problems are added.
    *("problems.register", "scores.register"),
    # Takes a cluster.
    "Dask",
}


@pytest.mark.slow
def test_wrong_calls_are_refused_in_one_line():
    """1,500 of them, of every entrance, and none is endless."""
    outcomes = list(wrong_calls(seed=1, number=CALLS))
    assert len(outcomes) == CALLS
    assert not [outcome for outcome in outcomes if outcome.verdict in ("raw", "endless")]
    assert sum(outcome.verdict == "refused" for outcome in outcomes) > CALLS / 2


@pytest.mark.slow
def test_wrong_command_lines_are_refused_in_one_line():
    """150 of them; exit status 2 and one line, or they work."""
    outcomes = list(wrong_commands(seed=1, number=COMMANDS))
    assert len(outcomes) == COMMANDS
    assert not [outcome for outcome in outcomes if outcome.verdict in ("raw", "endless")]
    assert sum(outcome.verdict == "refused" for outcome in outcomes) > COMMANDS / 2


@pytest.mark.slow
def test_the_calls_that_are_made_wrong_are_right_before():
    with Rooms() as rooms:
        for door in entrances(rooms):
            if door.words not in FEW:
                assert attempt(door, {}).verdict == "fine", door.words


@pytest.mark.slow
def test_the_command_lines_that_are_made_wrong_are_right_before(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    assert (
        run(tmp_path, ["infer", "model.py", "--budget", "60", "--tolerance", "1", "--run", "my-run"]).verdict == "fine"
    )
    for line in LINES:
        if not line.startswith(("report", "paper", "score --problem ramp --method rejection optimal")):
            outcome = run_a_copy(tmp_path, line.split())
            assert outcome.verdict == "fine", (line, outcome)


def test_every_public_function_has_an_entrance():
    with Rooms() as rooms:
        known = {door.words.split(" ")[0] for door in entrances(rooms)}
    for name in fbar.__all__:
        thing = getattr(fbar, name)
        if inspect.ismodule(thing):
            listed = getattr(thing, "__all__", [n for n in vars(thing) if not n.startswith("_")])
            names = [f"{name}.{item}" for item in listed if getattr(getattr(thing, item), "__module__", "") != "typing"]
        else:
            names = [name]
        for full in names:
            called = fbar
            for part in full.split("."):
                called = getattr(called, part)
            if not callable(called) or (isinstance(called, type) and issubclass(called, Exception)):
                continue
            own = getattr(called, "__module__", "").startswith("fbar")
            takes = own and any(p != "self" for p in inspect.signature(called).parameters)
            assert not takes or full in NOT_CALLED or any(words.startswith(f"fbar.{full}") for words in known), full


def test_the_judge_knows_a_bad_answer():
    assert all(map(unfit, ["a\nb", "x" * 2000, "a\x1b[2J", "\ud800", " "]))
    assert not unfit("budget must be a positive integer; got 'x'")
    assert judged("", 2, "fbar: internal error in fbar or in your model: KeyError: 1\n").verdict == "raw"
    assert judged("", 2, "fbar: no\nfbar: never\n").verdict == "raw"
    assert judged("", 1, "Traceback (most recent call last):\n  ...\nKeyError: 1\n").verdict == "raw"
    assert judged("", 2, "fbar: warning: old\nfbar: no\n").verdict == "refused"


# ---------------------------------------------------------------- how values stand in messages


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (list(range(10**6)), "[0, 1, 2, 3, 4, 5, ...]"),
        (SpoiltRepr(), "<SpoiltRepr>"),
        (Spoilt(), "<Spoilt>"),
        ([Spoilt()], "[<Spoilt>]"),
        (ManyLines(), r"first second\x1b[2J \ud800third"),
        ("\ud800\x1b", r"'\ud800\x1b'"),
        (test_the_judge_knows_a_bad_answer, "the function test_the_judge_knows_a_bad_answer"),
        (np, "the module numpy"),
        (dict, "the class dict"),
        (10**5000, "a whole number of 16,610 bits"),
    ],
    ids=kind,
)
def test_values_are_shown_short_and_in_one_line(value, text):
    assert shown(value) == text


def test_any_value_can_be_shown():
    from attack.wrong_values import WRONG

    for words, make in WRONG.items():
        text = shown(make())
        assert len(text) <= 120, words
        assert not unfit(text), words
        assert " at 0x" not in text, words
    assert len(one_line("x" * 10**6)) == 300


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: fbar.infer(None, fbar.mean("a"), budget=[0] * 10**6),
        lambda: fbar.Budget([0] * 10**6),
        lambda: fbar.Prior(a=[0] * 10**6),
        lambda: fbar.mean([0] * 10**6),
        lambda: fbar.mean("x" * 10**6).check(fbar.Points({"a": [1.0]})),
        lambda: choice("x" * 10**6, ["a"], "method"),
        lambda: fbar.Finite(a=[[0] * 10**5, [1]]),
    ],
)
def test_a_message_is_never_a_megabyte(mistake):
    with pytest.raises(fbar.InputError) as caught:
        mistake()
    assert not unfit(str(caught.value))


# ---------------------------------------------------------------- what wrong calls found


@pytest.mark.parametrize(
    "value", [None, True, "5", 2.5, float("nan"), 10**400, np.timedelta64(3, "s"), Spoilt(), 1j], ids=kind
)
def test_counts_are_whole_numbers(value):
    with pytest.raises(fbar.InputError, match="budget must be"):
        positive_integer(value, "budget")
    assert positive_integer(np.int8(3), "budget") == positive_integer(fractions.Fraction(3), "budget") == 3


@pytest.mark.parametrize("name", [3, "", "a\nb", "\ud800", "x" * 2000, None], ids=kind)
def test_names_can_be_printed(name):
    with pytest.raises(fbar.InputError):
        require_name(name)
    with pytest.raises(fbar.InputError):
        fbar.Prior({name: stats.norm(0, 1)})
    with pytest.raises(fbar.InputError):
        fbar.Points({name: [1.0]})
    require_name("θ₁ (人口) <b>")


@pytest.mark.parametrize("value", [3, b"a", "", "a\0b", "\ud800", "x" * 5000, Spoilt(), None], ids=kind)
def test_paths_are_ones_that_the_system_takes(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fbar.InputError, match="must be a path"):
        path(value, "run")
    if value is not None:
        with pytest.raises(fbar.FbarError):
            fbar.load(value)
    assert path(Path("a"), "run") == Path("a")


PRIOR = fbar.Prior(a=stats.norm(0, 1))


def simulate(theta, rng):
    return theta["a"] + rng.standard_normal(theta.rows)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"p_star": 3}, "p_star must be a function"),
        ({"p_star": lambda: 1}, r"p_star is called with 2 arguments"),
        ({"truth": 3}, "truth must be a mapping"),
        ({"truth": {"mean:a": "x"}}, r"truth\['mean:a'\] must be a number"),
        ({"truth": {"mean:a": (1.0, 2.0, 3.0)}}, r"a pair \(value, error\)"),
        ({"derived": 3}, "derived must be a mapping"),
        ({"derived": {"r": 3}}, "derived parameter 'r' must be a function"),
        ({"records": 3}, "records must be a list of names"),
        ({"records": [3]}, "3 is not a name"),
        ({"cost": 5e-324}, "use another unit"),
        ({"distance": 3}, "distance must be a function"),
    ],
)
def test_problems_refuse_what_is_none_of_theirs(options, text):
    with pytest.raises(fbar.InputError, match=text):
        fbar.Problem(PRIOR, simulate, 0.5, **options)


@pytest.fixture(scope="module")
def result():
    return fbar.infer(fbar.Problem(PRIOR, simulate, 0.5), fbar.mean("a"), tolerance=1, budget=500, seed=1)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda result: fbar.Prior(3), "every parameter needs a name"),
        (lambda result: fbar.density_at("a", "x"), "x must be a number; got 'x'"),
        (lambda result: result.predict("x"), "n must be a whole number"),
        (lambda result: result.predict(2**60), "from 0 to 1,000,000,000"),
        (lambda result: result.predict(5, simulator=3), "simulator must be a function"),
        (lambda result: result.at("x"), "tolerance must be a number"),
        (lambda result: result.posterior.value(3), "a target is made by"),
        (lambda result: result.estimates["nothing"], "unknown target 'nothing'; known: mean:a"),
        (lambda result: result.estimates["x":3], "by position or by name"),
        (lambda result: result.estimates.combine(lambda a: [[1], [2, 3]], "mean:a"), "rows differ in length"),
        (lambda result: result.run.problem.prior.sample("x", rng=None), "rng must be a generator"),
        (lambda result: result.run.problem.prior.logpdf([1]), "points must be fbar.Points"),
        (lambda result: result.run.problem.prior.logpdf(fbar.Points({"c": [1.0]})), "lack the parameter 'a'"),
        (lambda result: fbar.probability("(" * 3000 + "a" + ")" * 3000), "cannot read the expression|nested"),
        (lambda result: fbar.theory.posterior([0.5, 0.5], [1, 2, 3]), r"do not fit together: prior \(2,\), p_star"),
        (lambda result: fbar.theory.posterior("x", [1, 2]), "prior of theory.posterior must be numbers; got str"),
        (lambda result: fbar.plot.marginals(result, ax=3), "ax must be matplotlib axes"),
        (lambda result: fbar.Workers(decimal.Decimal(2)), "workers must be a positive integer"),
        (lambda result: fbar.infer(result.run.problem, fbar.mean("a"), budget=9, workers=10**9), "from 0 to 10,000"),
        (lambda result: fbar.Targeted(groups=2**53), "at most 1,000 groups"),
        (lambda result: fbar.NormalKernel(1e300), "scale of the covariance must be a number from"),
        (lambda result: fbar.quantile("a", 5e-324), "between 0 and 1"),
        (lambda result: fbar.load("no-such-run", problem=3), "problem must be an fbar.Problem"),
        (lambda result: fbar.Categorical([Spoilt()]), "must be an array"),
        (lambda result: fbar.Finite(a=SpoiltArray()), "must be an array"),
        (lambda result: fbar.Density(lambda x: "x", 0, 1), "a density's values must be numbers"),
        (lambda result: fbar.simulate(result.run.problem, 3), "batch must be one that a run asked for"),
    ],
)
def test_wrong_calls_that_were_once_raw(result, ask, text):
    with pytest.raises(fbar.InputError, match=text) as caught:
        ask(result)
    assert not unfit(str(caught.value))


def test_a_large_p_norm_is_the_largest_and_no_infinity():
    away = np.array([[2.0, 3.0], [1e-5, 2e-5], [0.0, 0.0]])
    for p in (500.0, 2.0**60):
        found = fbar.PNorm(p)(away, np.zeros(2))
        np.testing.assert_allclose(found, [3.0, 2e-5, 0.0], rtol=2e-3)
    np.testing.assert_allclose(fbar.PNorm(3.0)(away, np.zeros(2))[0], 35 ** (1 / 3))


def test_settings_are_plain_numbers():
    for tolerance in (fractions.Fraction(1, 2), np.float32(0.5)):
        method = fbar.Rejection(tolerance=tolerance)
        assert type(method.tolerance) is float
        assert method.tolerance == 0.5
    assert type(fbar.Rejection(tolerance=1).tolerance) is int  # as runs were recorded


def test_a_huge_budget_is_begun_at_once_and_can_be_interrupted():
    """2**53 is allowed: its blocks are not written out beforehand, and Ctrl-C ends it."""
    problem = fbar.Problem(PRIOR, simulate, 0.5)
    assert fbar.Rejection(tolerance=1).start(problem, fbar.mean("a"), 1, 2**53).budget == 2**53
    sizes = fbar.Independent().sizes(2**53 + 1, 8192)
    assert (len(sizes), sizes[0], sizes[-1], sizes[1:3]) == (2**40 + 1, 8192, 1, [8192, 8192])
    assert list(fbar.Independent().sizes(10, 4)) == [4, 4, 2]
    seen = []

    def progress(run):
        seen.append(run.simulations)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=2**53, progress=progress)
    assert seen


# ---------------------------------------------------------------- command lines


@pytest.fixture
def place(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["infre", "model.py"], "unknown command 'infre'; did you mean 'infer'? known: init, infer"),
        (["infer", "model.py", "extra"], "fbar infer does not take the argument 'extra'; see fbar infer --help"),
        (["infer", "model.py", "--tolerance", "x"], "it must be a number; got 'x'"),
        (["infer", "model.py", "--budget", "\udcff"], r"it must be a whole number; got '\udcff'"),
        (["infer", "model.py", "-t", "mean:\udcff", "--budget", "9"], r"there is no parameter '\udcff'"),
        (["infer", "\udcff.py", "--budget", "9"], r"there is no model file \udcff.py"),
        (["infer", "model.py", "--budget", "9", "--workers", "99999999"], "workers must be a whole number from 0"),
        (["show", "\x1b[2J"], r"\x1b[2J holds no run"),
        (["x" * 5000], "unknown command 'xxx"),
    ],
    ids=kind,
)
def test_wrong_command_lines_say_what_to_write(place, line, text):
    outcome = run(place, line)
    assert outcome.verdict == "refused", outcome
    assert text in outcome.text


def test_a_name_that_is_no_unicode_is_printed_with_escapes(place):
    """A file's name on Linux is bytes: standard output takes those that it cannot write as escapes."""
    assert run(place, ["init", "\udcff.py"]).verdict == "fine"
    assert os.path.exists(os.fsencode(place) + b"/\xff.py")


def test_command_lines_write_nowhere_dangerous():
    assert "/proc/self/mem" not in WORDS
