"""What is said of a run at work where there is no terminal, and that looking costs little and changes nothing."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import AtData
from fbar.methods import run as run_module
from fbar.running import progress
from fbar.running.progress import LiveProgress


class Clock:
    """Time that passes by so much with every simulation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)

    def slow(self, seconds: float) -> Callable[[fbar.Points, np.random.Generator], Any]:
        def simulate(theta: fbar.Points, rng: np.random.Generator) -> Any:
            self.now += seconds * theta.rows
            return theta["a"] + 0.5 * rng.standard_normal(theta.rows)

        return simulate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def asked(clock: Clock, **options: Any) -> fbar.Result:
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), clock.slow(0.01), observed=0.5)
    given: dict[str, Any] = {"method": fbar.Rejection(tolerance=0.3), "budget": 10_000, "seed": 1, "block_size": 50}
    return fbar.infer(problem, [fbar.mean("a")], **{**given, **options})


def test_plain_lines_come_rarely_and_without_control_characters(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(clock, progress=True)  # a hundred seconds
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert told.out == ""
    assert len(lines) in (3, 4)  # after 10, 40, 70 and, if it takes as long, 100 seconds
    done, estimates = lines[1].split(": ")
    assert re.fullmatch(
        r"(3,[89]|4,)\d+ of 10,000 simulations, 100/s, about (59|6\d) s left, round \d, tolerance 0.3, \d+ accepted",
        done,
    )
    assert re.fullmatch(r"a 0\.\d+\(\d+\)", estimates)
    assert told.err.replace("\n", "").isprintable()


def test_the_library_is_silent_without_a_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    asked(clock)
    asked(clock, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_pilot_says_what_it_is_for(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    asked(clock, method=None, tolerance=0.5, budget=6000, summaries="linear", progress=True)
    first = capsys.readouterr().err.splitlines()[0]
    assert "learning the summaries" in first
    assert "a 0." not in first


def test_a_falling_tolerance_is_no_estimate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    method = fbar.SMC([4, 2, 1, 0.05], accepted=900)
    asked(clock, method=method, budget=12_000, progress=True)
    lines = capsys.readouterr().err.splitlines()
    falling = [line for line in lines if "falling" in line]
    assert falling
    assert re.search(r"tolerance \d\S*, falling to 0.05", falling[-1])
    assert all("a 0." not in line for line in falling)


def test_replayed_simulations_do_not_count_as_fast_ones(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(run: fbar.Run) -> None:
        if run.simulations >= 8000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(clock, run=tmp_path / "run", progress=stop)
    asked(clock, run=tmp_path / "run", progress=True)
    assert re.search(r"9,\d+ of 10,000 simulations, (99|100)/s", capsys.readouterr().err)


LOOKED_AT = {
    "targeted": fbar.Targeted(tolerance=0.1),
    "chosen": fbar.Targeted(),
    "rejection": fbar.Rejection(tolerance=0.2),
    "stratified": fbar.Rejection("stratified", rounds=3, tolerance=0.2),
    "smc": fbar.SMC([2, 0.8, 0.3], accepted=150),
    "scaled": fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0.1), accepted=150, distance=fbar.Scaled(each_round=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKED_AT)
def test_looking_after_every_block_changes_no_bit(name: str, clock: Clock) -> None:
    def look(run: fbar.Run) -> None:
        with contextlib.suppress(fbar.NoPosterior):
            run.peek().expect(list(run.targets))

    def estimates(result: fbar.Result) -> list[Any]:
        return [(e.value, e.standard_error, e.df) for e in result.estimates] + [result.simulations, result.run.round]

    method = LOOKED_AT[name]
    looked = estimates(asked(clock, method=method, budget=3000, progress=look))
    assert looked == estimates(asked(clock, method=method, budget=3000, progress=False))


def test_looks_take_little_of_the_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0.0

    def slow(run: fbar.Run, of: Callable[[Any], Any] = fbar.methods.draws.DrawRun.posterior) -> Any:
        nonlocal looks
        clock.now += 0.5
        looks += 0.5
        return of(run)

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), clock.slow(0.01), observed=0.5)
    run = fbar.Rejection(tolerance=0.3).start(problem, fbar.mean("a"), 1, 20_000, block_size=50)
    monkeypatch.setattr(type(run), "posterior", slow)
    fbar.drive(run, progress=LiveProgress(plain=True), history=False)
    assert 0.5 <= looks <= 0.05 * clock.now + 0.5


class Gone:
    """A standard error whose reader has gone away."""

    encoding = "utf-8"

    def __init__(self, tty: bool) -> None:
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    def fileno(self) -> int:
        raise OSError

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("where", [Gone(True), Gone(False), None])
def test_nobody_who_listens_is_no_reason_to_end(
    where: Gone | None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = asked(clock, progress=False)
    monkeypatch.setattr("sys.stderr", where)
    assert asked(clock, progress=True).estimates[0].value == whole.estimates[0].value


class Written:
    """Standard error that remembers."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False


def test_a_run_at_the_data_shows_what_it_has_estimated_and_that_it_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are those of the last round's end, and none is made for the display."""
    written, made = Written(), []
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(progress, "PLAIN_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PLAIN_PAUSE", 0.0)
    monkeypatch.setattr(run_module, "NOTICED", 0.0)  # every estimate takes a while
    whole = AtData.posterior

    def counted(self: AtData, simulations: Any) -> Any:
        made.append(len(simulations))
        return whole(self, simulations)

    monkeypatch.setattr(AtData, "posterior", counted)
    problem = fbar.Problem(
        fbar.Prior(rate=stats.norm(0, 1)), lambda t, rng: t["rate"] + rng.standard_normal(t.rows), observed=0.5
    )
    run = fbar.Targeted().start(problem, fbar.mean("rate"), seed=1, budget=4000, block_size=100)
    fbar.drive(run, progress=LiveProgress(plain=True))
    lines = written.text.splitlines()
    assert made == [4000]
    shown = {line.partition(": ")[2] for line in lines if "rate 0." in line}
    known = {f"rate {moment.estimates['rate']}" for moment in run.history}
    assert shown
    assert shown <= known
    assert any("estimating…" in line for line in lines)
    assert not any("accepted" in line for line in lines)
    assert any("/s, " in line and "left" in line for line in lines)
