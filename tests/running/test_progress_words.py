"""The words for a run at work: marks of estimates, widths of lines, what is left, the errors that are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

import fbar
from fbar.methods.forecasts import Forecast
from fbar.running.progress import State, block, plain_line, short_line, to_come, wanted_errors
from fbar.system import terminal


def state(**changes: Any) -> State:
    estimate = fbar.Estimate("mean:R0", 3.8, 0.042, 100, 1000, 50.0)
    doubted = fbar.Estimate("probability:a\x1b[2J < 2", 0.5, 0.1, 3, 1000, 50.0, trusted=False)
    found = fbar.Estimates([estimate, doubted], np.eye(2), [slice(0, 1), slice(1, 2)])
    given: dict[str, Any] = {
        "simulations": 1000,
        "budget": None,
        "limit": 10_000,
        "round": 3,
        "rate": 50.0,
        "more": 4000,
        "accepted": 50.0,
        "tolerance": 5.0,
        "falling": False,
        "final_tolerance": None,
        "estimates": found,
    }
    return State(**{**given, **changes})


def test_untrusted_estimates_are_marked_and_labels_cleaned() -> None:
    for text in ("\n".join(block(state(), {"mean:R0": "1%"}, 100, 24)), plain_line(state())):
        assert "0.50(10) (unreliable)" in text
        assert "\x1b" not in text
    assert block(state(), {"mean:R0": "1%"}, 100, 24)[0].endswith("3.800(42)  wanted ±1%")
    line = short_line(state(), 100)
    assert line.startswith("R0 3.800(42), probability:a\\x1b[2J < 2 0.50(10) unreliable, 20%, 80 s left")
    assert "\x1b" not in line


def test_nothing_is_wider_or_taller_than_the_terminal() -> None:
    many = [fbar.Estimate(f"mean:{'人口' * n}", 1.0, 0.1, 9, 9, 9.0) for n in range(1, 40)]
    found = fbar.Estimates(many, np.eye(39), [slice(n, n + 1) for n in range(39)])
    for columns in (60, 61, 75, 120):
        for rows in (10, 24):
            lines = block(state(estimates=found), {}, columns, rows)
            assert len(lines) < rows
            assert max(terminal.cells(line) for line in lines) <= columns
            assert any(line.endswith(" more") for line in lines)
    for columns in range(1, 60):
        assert terminal.cells(short_line(state(estimates=found), columns)) <= columns
        assert terminal.cells(short_line(state(falling=True), columns)) <= columns


def test_what_is_left_follows_the_forecast_within_the_limit() -> None:
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    run = fbar.Rejection().start(problem, fbar.mean("theta"), 1, limit=10_000)
    assert to_come(run) is None
    run.expected = Forecast(500, 400, 600, 0)
    assert to_come(run) == 500
    run.expected = Forecast(50_000, 400, 600, 0)
    assert to_come(run) == 10_000
    assert "nearly there" in plain_line(state(more=0))


def test_the_errors_that_a_rule_waits_for() -> None:
    rule = (fbar.StandardError("mean:a", 0.01) & fbar.RelativeError("mean:b", 0.025)) | fbar.Budget(100)
    assert wanted_errors(rule) == {"mean:a": "0.01", "mean:b": "2.5%"}
    assert wanted_errors(None) == {}
