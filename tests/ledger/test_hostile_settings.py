"""Settings and results of a run that are not what fbar writes, under checksums that are right."""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.errors import FbarError, InputError, LedgerError
from fbar.ledger import LedgerReader, Leg
from fbar.ledger.settings import describe
from fbar.methods.registry import PARTS
from fbar.methods.restored import restored, restored_method
from fbar.methods.stopping import restored as restored_rule
from fbar.system.schema import MOST_LEVELS, check_settings, fits
from forged_runs import write_leg


def simulate(theta: fbar.Points, rng: Any) -> Any:
    return theta["a"] + rng.standard_normal(theta.rows)


PROBLEM = fbar.Problem(fbar.Prior(a=stats.uniform(0, 10)), simulate, 4.0)
TARGETS = [fbar.mean("a"), fbar.probability("a > 4")]
ASKED: dict[str, dict[str, Any]] = {
    "rejection": {"method": fbar.Rejection(tolerance=1), "budget": 300},
    "targeted": {"tolerance": 1, "precision": {"mean:a": "20%"}, "budget": 600},
    "smc": {"method": fbar.SMC([3, 2, 1], accepted=50, perturbation="normal"), "budget": 600},
    "learned": {"method": fbar.Rejection(tolerance=1), "budget": 900, "summaries": "linear"},
}
"""Runs of several kinds."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("runs")
    for name, asked in ASKED.items():
        fbar.infer(PROBLEM, TARGETS, seed=1, run=base / name, **asked)
    fbar.extend(base / "rejection", PROBLEM, budget=400)
    return base


def legs_of(run: Path) -> list[Leg]:
    with LedgerReader(run) as ledger:
        return ledger.legs


def rewrite(run: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Change the last leg of a run, and let its checksums be right."""
    legs = legs_of(run)
    last = legs[-1]
    assert last.result is not None
    changed = change(last.settings, last.result)
    settings, result = changed if isinstance(changed, tuple) else (last.settings, last.result)
    write_leg(run, len(legs) - 1, Leg(settings, result))


def call(*arguments: str) -> None:
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


def readings(run: Path, out: Path) -> Iterator[Callable[[], Any]]:
    """All that reads a run of somebody else's, or goes on with it by a problem of one's own."""
    yield lambda: call("show", str(run))
    yield lambda: call("show", str(run), "--json")
    yield lambda: call("resume", str(run), "-q")
    yield lambda: call("explain", str(run))
    yield lambda: call("report", str(run))
    yield lambda: call("export", str(run), "--all", "--force", "--out", str(out))
    yield lambda: fbar.load(run, PROBLEM)
    yield lambda: fbar.load(run, PROBLEM).explain(fbar.mean("a"))
    yield lambda: fbar.extend(run, PROBLEM, budget=450)
    yield lambda: fbar.infer(PROBLEM, TARGETS, method=fbar.Rejection(tolerance=1), budget=300, seed=1, run=run)


def refused(run: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """How many of all readings refuse a run; each in one short line."""
    told = []
    for reading in readings(run, out):
        try:
            reading()
        except FbarError as error:
            told.append(str(error))
    capsys.readouterr()
    assert all("\n" not in text and len(text) < 2000 for text in told), told
    return len(told)


def test_what_fbar_writes_is_accepted(runs: Path) -> None:
    for name in ASKED:
        for leg in legs_of(runs / name):
            check_settings(leg.settings, leg.result)
            check_settings(leg.settings, None)


WRONG: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "no problem": lambda s, r: s.pop("problem"),
    "no targets": lambda s, r: s.pop("targets"),
    "targets are a text": lambda s, r: s.update(targets="mean:a"),
    "no target": lambda s, r: s.update(targets=[]),
    "a target is a number": lambda s, r: s.update(targets=[1]),
    "many targets": lambda s, r: s.update(targets=[f"mean:a{i}" for i in range(100_000)]),
    "long targets": lambda s, r: s.update(targets=["probability:" + "a>0 and " * 1000 + "a>0"] * 900),
    "method is a text": lambda s, r: s.update(method="rejection"),
    "method without type": lambda s, r: s.update(method={}),
    "budget is a text": lambda s, r: s.update(budget="many"),
    "budget is negative": lambda s, r: s.update(budget=-1),
    "budget is true": lambda s, r: s.update(budget=True),
    "budget is NaN": lambda s, r: s.update(budget=math.nan),
    "budget is huge": lambda s, r: s.update(budget=2**60),
    "block size is huge": lambda s, r: s.update(block_size=2**40),
    "block size is a fraction": lambda s, r: s.update(block_size=0.5),
    "stop is a list": lambda s, r: s.update(stop=[1]),
    "seed is a text": lambda s, r: s.update(seed="one"),
    "seed is long": lambda s, r: s.update(seed="9" * 4000),
    "seed is negative": lambda s, r: s.update(seed=-4),
    "streams": lambda s, r: s.update(streams="x"),
    "summaries": lambda s, r: s.update(summaries=7),
    "model": lambda s, r: s.update(model="model.py"),
    "model without file": lambda s, r: s.update(model={"name": "problem"}),
    "machine": lambda s, r: s.update(machine={"workers": 10**9}),
    "timeout": lambda s, r: s.update(machine={"timeout": math.nan}),
    "deep": lambda s, r: s["problem"].update(deep=json.loads("[" * 200 + "]" * 200)),
    "a long text": lambda s, r: s["problem"].update(text="x" * 2_000_000),
    "no estimates": lambda s, r: r.pop("estimates"),
    "estimates are a list": lambda s, r: r.update(estimates=[1]),
    "an estimate is a number": lambda s, r: r["estimates"].update({"mean:a": 1}),
    "an estimate without value": lambda s, r: r["estimates"]["mean:a"].pop("value"),
    "a value is a text": lambda s, r: r["estimates"]["mean:a"].update(value="8"),
    "a value of another shape": lambda s, r: r["estimates"]["mean:a"].update(value=[1.0, 2.0]),
    "ragged values": lambda s, r: r["estimates"]["mean:a"].update(value=[[1.0], 2.0], standard_error=[[1.0], 2.0]),
    "trusted is a text": lambda s, r: r["estimates"]["mean:a"].update(trusted="yes"),
    "warnings of an estimate": lambda s, r: r["estimates"]["mean:a"].update(warnings=[3]),
    "simulations": lambda s, r: r.update(simulations="all"),
    "accepted": lambda s, r: r.update(accepted=None),
    "rounds": lambda s, r: r.update(rounds=1.5),
    "no rounds": lambda s, r: r.pop("rounds"),
    "stopped by": lambda s, r: r.update(stopped_by=7),
    "warnings": lambda s, r: r.update(warnings="none"),
    "unused": lambda s, r: r.update(unused="3"),
    "missing": lambda s, r: r.update(missing={"mean:a": {"simulations": 3}}),
    "remarks": lambda s, r: r.update(remarks=[{}]),
    "cost": lambda s, r: r.update(cost="free"),
}


@pytest.mark.parametrize("what", WRONG)
def test_settings_and_results_that_are_none_are_refused_everywhere_in_one_line(
    runs: Path, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(runs / "rejection", tmp_path / "r"))
    rewrite(run, WRONG[what])
    index, every = list(WRONG).index(what), list(readings(run, tmp_path / "out.csv"))
    for reading in every if index % 10 == 0 else {every[0], every[6], every[index % 10]}:  # all ten in turn
        with pytest.raises(LedgerError, match=r"settings of .*r cannot be used: ") as told:
            reading()
        assert len(str(told.value)) < 400
        assert "\n" not in str(told.value)


METHODS: dict[str, dict[str, Any]] = {
    "a part that is no method": {"type": "Scaled"},
    "an unknown type": {"type": "os.system"},
    "a type that is no text": {"type": ["Rejection"]},
    "a field that is not known": {"type": "Rejection", "command": "x"},
    "a field of another type": {"type": "Rejection", "rounds": "x"},
    "a tolerance that is none": {"type": "Rejection", "tolerance": math.nan},
    "a negative tolerance": {"type": "Rejection", "tolerance": -1},
    "a kernel that is none": {"type": "Rejection", "kernel": "evil"},
    "huge": {"type": "Targeted", "groups": 2**53},
    "a part within that is none": {"type": "SMC", "schedule": {"type": "Rejection"}},
    "a part without what it takes": {"type": "Tolerances"},
    "a list in place of a number": {"type": "Importance", "pseudo_count": [1, 2]},
    "a text in place of a number": {"type": "AdaptiveAllocation", "rounds": "x"},
    "a number in place of a text": {"type": "AdaptivePosterior", "kernel": 3},
    "infinite": {"type": "Importance", "pseudo_count": math.inf},
}


@pytest.mark.parametrize("what", METHODS)
def test_methods_that_are_none_are_refused(
    runs: Path, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError):
        restored_method(METHODS[what])
    run = Path(shutil.copytree(runs / "rejection", tmp_path / "r"))
    rewrite(run, lambda s, r: s.update(method=METHODS[what]))
    if isinstance(METHODS[what]["type"], str):
        call("show", str(run))  # tells the name of a method that it does not know
    assert refused(run, tmp_path / "out.csv", capsys) >= 6


@pytest.mark.parametrize(
    "stop",
    [
        {"type": "Either", "first": 3, "second": 4},
        {"type": "Both", "first": {"type": "Budget", "simulations": 4}},
        {"type": "Budget", "simulations": "x"},
        {"type": "Budget", "simulations": 3, "more": 1},
        {"type": "StandardError", "target": 3, "wanted": 0.1},
        {"type": "StandardError", "target": "mean:a", "wanted": math.nan},
        {"type": ["Budget"]},
        {"type": "Own"},
    ],
    ids=str,
)
def test_stopping_rules_that_are_none_are_refused(
    runs: Path, stop: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError):
        restored_rule(stop)
    run = Path(shutil.copytree(runs / "targeted", tmp_path / "r"))
    rewrite(run, lambda s, r: s.update(stop=stop))
    assert refused(run, tmp_path / "out.csv", capsys) >= 5


def test_every_method_comes_back_from_its_settings() -> None:
    for name, part in PARTS.items():
        made = part((3.0, 1.0)) if name == "Tolerances" else part()
        assert restored(json.loads(json.dumps(describe(made)))) == made


def test_deep_nesting_is_found_without_recursion() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(LedgerError, match=f"nested more than {MOST_LEVELS} deep"):
        check_settings({"problem": deep})


@pytest.mark.parametrize(
    ("value", "hint", "held"),
    [
        (1, int, True),
        (1.0, int, False),
        (True, int, False),
        (True, bool, True),
        (math.nan, float, False),
        (math.inf, float, True),
        (None, int | None, True),
        ({"a": 1}, dict[str, float], True),
        ("abc", tuple[float, ...], False),
        ([1, "x"], tuple[float, ...], False),
    ],
)
def test_values_and_what_annotations_say(value: Any, hint: Any, held: bool) -> None:
    assert fits(value, hint) is held


# ---------------------------------------------------------------- at random

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**40, 2**127, 10**200, math.nan, math.inf, -math.inf, "", "x", "mean:a", "%s"),
    *([], [1], ["x"], [[1], [2, 3]], {}, {"type": "SMC"}, {"type": "Budget", "simulations": 3}, {"x": {"y": None}}),
    *("probability:" + "(" * 500, "probability:'%2000000000d' % 1 == 'x'", "\x1b]52;c;eA==\x07", "\ud800", "a\nb"),
]


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a tree."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def disturbed(tree: Any, rng: random.Random) -> Any:
    """A tree in which one or two things are others, or gone."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2))):
        *way, last = rng.choice(list(places(tree)))
        inner = tree
        for key in way:
            inner = inner[key]
        if rng.random() < 0.2:
            del inner[last]
        else:
            inner[last] = rng.choice(VALUES)
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_settings_disturbed_at_random_give_answers_or_one_line(
    runs: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six runs of each kind, ten readings of each run: 240 in all."""
    rng = random.Random(f"fbar {name}")
    count = 0
    for number in range(6):
        run = Path(shutil.copytree(runs / name, tmp_path / f"r{number}"))

        def change(settings: dict[str, Any], result: dict[str, Any]) -> Any:
            about = [settings, result]
            which = rng.randrange(2)
            about[which] = disturbed(about[which], rng)
            return tuple(about)

        rewrite(run, change)
        count += refused(run, tmp_path / "out.csv", capsys)
    assert count > 0
