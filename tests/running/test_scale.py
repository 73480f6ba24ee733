"""Runs of many simulations and of many blocks: operations and bytes are counted, never seconds."""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import time
import tracemalloc

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import export_rows, tables
from fbar.cli.commands import app
from fbar.estimation import coordinates, kept
from fbar.estimation.kept import Kept
from fbar.running import loop
from fbar.system import terminal

MIX = np.array([[1, 0.3, 0], [0, 1, 0.2], [0.1, 0, 1], [0.5, 0.5, 0.5]])
TARGETS = [fbar.mean("a"), fbar.probability("c > 0.5")]


def simulate(theta, rng):
    return np.stack([theta[name] for name in "abc"], axis=1) @ MIX.T + 0.5 * rng.standard_normal((theta.rows, 4))


PROBLEM = fbar.Problem(
    fbar.Prior(**{name: stats.norm(0, 1) for name in "abc"}), simulate, observed=np.array([0.5, -0.3, 0.2, 0.4])
)


def ask(budget, method="targeted", tolerance=0.8, **options):
    return fbar.infer(PROBLEM, TARGETS, method=method, tolerance=tolerance, budget=budget, seed=3, **options)


def numbers(result):
    return [(item.value, item.standard_error, item.df) for item in result.estimates]


# ---------------------------------------------------------------- what is kept


def test_kept_rows_are_those_that_were_added(monkeypatch):
    monkeypatch.setattr(kept, "PART", 50)
    monkeypatch.setattr(kept, "MOST_BLOCKS", 7)
    rng, rows, blocks = np.random.default_rng(1), Kept(), []
    for number in range(200):
        blocks.append(rng.random((rng.integers(0, 4) if number % 40 else 120, 3)))
        rows.add(blocks[-1])
        if number % 23 == 0 and len(rows):
            assert np.array_equal(rows.whole(), np.concatenate(blocks))
    everything = np.concatenate(blocks)
    asked = rng.permutation(len(everything))[:300]
    assert np.array_equal(rows.take(asked), everything[asked])
    assert np.array_equal(rows.take(np.sort(asked)), everything[np.sort(asked)])
    for first, last in ((0, len(everything)), (119, 121), (77, 400), (5, 5)):
        found = list(rows.between(first, last))
        assert np.array_equal(np.concatenate([part for _, part in found] or [np.zeros((0, 3))]), everything[first:last])
        assert all(np.array_equal(part[0], everything[start]) for start, part in found)
    assert len(rows.parts) < 40


@pytest.mark.parametrize("remembered", [0, 300, 10**6])
def test_coordinates_that_are_drawn_again_are_the_same(remembered, monkeypatch):
    """A run that keeps hardly any gives what one gives that keeps all, at any tolerance and when it goes on."""

    def seen(result):
        found = [result, result.at(1.6), result.at(0.5), result.at(3.0), result.adjusted()]
        places = result.run.simulated_points(500)
        result.run.extend(budget=9000)
        fbar.drive(result.run)
        return [numbers(item) for item in found], places["a"], result.run.posterior().expect(TARGETS)[0].value

    whole = seen(ask(6000, block_size=97))
    monkeypatch.setattr(coordinates, "FIRST", 1000)
    monkeypatch.setattr(coordinates, "MOST_REMEMBERED", remembered)
    again = seen(ask(6000, block_size=97))
    assert len(again[0][0]) == 2
    for first, second in zip(whole, again, strict=True):
        assert np.allclose(np.asarray(first), np.asarray(second), rtol=1e-12, atol=0)


def test_evenly_spread_points_and_models_are_drawn_again_too(monkeypatch):
    even = fbar.Problem.bernoulli(fbar.Prior(theta=stats.uniform(0, 1)), lambda t: np.minimum(1.0, 2 * t["theta"]))
    models = fbar.problems.load("nested-models")
    asked = [(even, fbar.mean("theta"), 6000), (models, fbar.model_probability(1), 3000)]
    whole = [fbar.infer(problem, target, budget=budget, seed=1) for problem, target, budget in asked]
    assert whole[0].run.store.everything.blocks[:, 3].any()
    monkeypatch.setattr(coordinates, "FIRST", 300)
    for (problem, target, budget), before in zip(asked, whole, strict=True):
        again = fbar.infer(problem, target, budget=budget, seed=1)
        assert np.allclose(numbers(again), numbers(before), rtol=1e-12, atol=0)


def test_a_targeted_run_holds_its_distances_and_little_more(monkeypatch):
    """Bytes for each simulation more, at the peak: 8 of its distance, and what the accepted few need (700 each)."""
    monkeypatch.setattr(coordinates, "FIRST", 4096)
    monkeypatch.setattr(kept, "PART", 4096)
    monkeypatch.setattr(loop, "AT_A_TIME", 4096)
    monkeypatch.setattr("fbar.estimation.store.MOST_NUMBERS", 10_000)
    peaks, accepted = [], []
    ask(2000, tolerance=0.3)  # imports
    for budget in (20_000, 60_000):
        tracemalloc.start()
        accepted.append(ask(budget, tolerance=0.3, block_size=512).accepted)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    more = accepted[1] - accepted[0]
    assert more < 2000
    assert peaks[1] - peaks[0] < 12 * 40_000 + 700 * more


# ---------------------------------------------------------------- blocks


def calls(**options):
    """Calls of functions that a run makes, resumed generators counted."""
    profile = cProfile.Profile()
    profile.enable()
    ask(**options)
    profile.disable()
    return pstats.Stats(profile, stream=io.StringIO()).total_calls


@pytest.mark.parametrize(
    ("method", "recorded"), [("targeted", False), ("rejection", False), ("smc", False), ("targeted", True)]
)
def test_twice_the_blocks_take_twice_the_calls(method, recorded, tmp_path):
    few, many = (
        calls(budget=n, method=method, block_size=1, run=tmp_path / str(n) if recorded else None) for n in (300, 600)
    )
    assert many < 2.3 * few


def test_a_round_is_asked_for_in_portions(monkeypatch, tmp_path):
    """Never more than a portion is under way, and the result is the one of a round asked for at once."""
    monkeypatch.setattr(loop, "AT_A_TIME", 10**9)
    whole = ask(6000, block_size=50)
    most = []
    real = fbar.Run.ask

    def asked(run, *how, **more):
        batches = real(run, *how, **more)
        most.append(run.under_way)
        return batches

    monkeypatch.setattr(fbar.Run, "ask", asked)
    monkeypatch.setattr(loop, "AT_A_TIME", 120)
    found = ask(6000, block_size=50, run=tmp_path / "r")
    assert max(simulations for simulations, _ in most) == 150
    assert numbers(found) == numbers(whole)
    again = fbar.load(tmp_path / "r", PROBLEM)
    assert numbers(again) == numbers(whole)


@pytest.mark.processes
def test_workers_have_enough_to_do(monkeypatch):
    monkeypatch.setattr(loop, "AT_A_TIME", 1)
    most = []
    found = ask(1500, block_size=50, workers=2, progress=lambda run: most.append(run.under_way[1]))
    assert max(most) >= 2
    assert numbers(found) == numbers(ask(1500, block_size=50))


# ---------------------------------------------------------------- exports

MODEL = """
import numpy as np
import fbar
from scipy import stats

def simulate(theta, rng):
    x = theta["a"] + rng.standard_normal(theta.rows)
    return {"x": np.where(theta["a"] > 1.5, np.nan, x), "word": np.where(x > 0, "up", "down")}

problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=0.5)
targets = [fbar.mean("a")]
"""


def call(*words):
    app([str(word) for word in words], exit_on_error=False, result_action="return_value")


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    options = ("--method", "rejection", "--tolerance", 0.5, "--budget", 600, "--block-size", 7, "--seed", 1, "-q")
    call("infer", "model.py", *options, "--run", "r")
    return tmp_path


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_an_export_in_parts_is_the_one_at_once(format, recorded, monkeypatch):
    import pandas

    def read(path):
        return pandas.read_csv(path) if format == "csv" else pandas.read_parquet(path)

    call("export", "r", "--all", "--format", format, "--out", f"whole.{format}")
    monkeypatch.setattr(export_rows, "ROWS", 50)
    largest = []
    real = pandas.DataFrame.head
    monkeypatch.setattr(pandas.DataFrame, "head", lambda self, n=5: largest.append(len(self)) or real(self, n))
    call("export", "r", "--all", "--format", format, "--out", f"parts.{format}")
    whole, parts = read(f"whole.{format}"), read(f"parts.{format}")
    assert max(largest) <= 56
    assert parts.equals(whole)
    assert len(parts) == 600
    assert list(parts)[-3:] == ["distance", "accepted", "weight"]
    assert abs(parts["weight"].sum() - 1) < 1e-9
    assert (parts["weight"] > 0).sum() == parts["accepted"].sum() == (parts["distance"] <= 0.5).sum() > 50
    if format == "csv":
        assert (recorded / "parts.csv").read_bytes() == (recorded / "whole.csv").read_bytes()


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_a_full_disk_leaves_the_old_export(options, recorded, monkeypatch):
    (recorded / "r.csv").write_text("old")
    monkeypatch.setattr(export_rows, "ROWS", 50)

    def full(self, frame):
        self._file.write("half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.CsvWriter, "write", full)
    with pytest.raises(fbar.FbarError, match="No space left"):
        call("export", "r", *options, "--force")
    assert (recorded / "r.csv").read_text() == "old"
    assert not [path for path in recorded.iterdir() if path.name.startswith(".")]


# ---------------------------------------------------------------- what takes a while


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        raise OSError


def until(said):
    end = time.monotonic() + 30
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_takes_long_is_said_on_a_terminal_and_wiped(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.waiting("reading"):  # two seconds are not over
        pass
    assert screen.getvalue() == ""
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    monkeypatch.setattr(terminal, "PAUSE", 0.01)
    with terminal.waiting("reading my\x1b[2Jrun") as line:
        line.count(1200, "simulation")
        until(lambda: "1,200 simulations" in screen.getvalue())
        with terminal.waiting("another"):  # the line is taken
            time.sleep(0.05)
    assert "another" not in screen.getvalue()
    assert "reading my\\x1b[2Jrun, 1,200 simulations, 0 s" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[J")
    with terminal.waiting("again"):  # and free again
        until(lambda: "again" in screen.getvalue())


def test_nothing_is_said_elsewhere(monkeypatch):
    elsewhere = io.StringIO()
    monkeypatch.setattr(sys, "stderr", elsewhere)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with terminal.waiting("reading"):
        time.sleep(0.05)
    assert elsewhere.getvalue() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("show", "r"), "reading r"),
        (("explain", "r"), "reading r"),
        (("export", "r", "--all"), "writing r.csv"),
        (("report", "r", "--predictive", 0), "writing the report"),
    ],
)
def test_commands_say_what_they_wait_for(command, said, recorded, monkeypatch):
    lines = []
    real = terminal.Line
    monkeypatch.setattr(terminal, "Line", lambda what: lines.append(what) or real(what))
    call(*command)
    assert said in lines
