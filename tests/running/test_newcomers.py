"""Small things that a newcomer stumbles over: names, places, errors that are none."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fbar
from fbar.estimation.estimate import shorthand
from fbar.study import Study, StudyResult
from fbar.study.paired import mean_and_error
from fbar.study.trials import Cell, TrialRecord


def test_dir_shows_what_is_public_and_nothing_else():
    """In a new process too, where what is loaded on use has not been used."""
    shown = [name for name in dir(fbar) if not name.startswith("__")]
    assert sorted(shown) == sorted(fbar.__all__)
    asked = "import fbar; print(*dir(fbar))"
    fresh = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert fresh == dir(fbar)
    assert {"Study", "plot", "infer", "__version__"} <= set(fresh)
    assert not {"Any", "TYPE_CHECKING", "annotations"} & set(fresh)
    assert all(getattr(fbar, name) is not None for name in fresh)
    assert sorted(dir(fbar.plot)) == sorted(fbar.plot.__all__)


def study(errors):
    """A study in which each method's mean squared errors, about those given, are known to a percent; None failed."""
    arenas = Study("ramp", "rejection", 10, targets="mean:theta").arenas
    noise = 1 + 0.05 * np.random.default_rng(11).standard_normal(30)
    trials = {
        (Cell("ramp", name, 10), trial): TrialRecord("failed", 10, message="no")
        if error is None
        else TrialRecord("ok", 10, scores={"mse": {"mean:theta": error * scatter}, "ess": {"": 750.0}})
        for number, (name, error) in enumerate(errors.items())
        for trial, scatter in enumerate((noise + 0.01 * np.sin(number + np.arange(30))).tolist())
    }
    return StudyResult(trials, arenas, ["mse", "ess"], {})


def test_a_method_that_failed_in_every_trial_takes_no_place():
    ranking = study({"broken": None, "first": 1.0, "second": 3.0, "third": 9.0, "like-third": 9.001}).ranking()
    places = {standing.method: standing.place for standing in ranking.standings}
    assert places == {"first": "1", "second": "2", "third": "3–4", "like-third": "3–4", "broken": "–"}
    assert [standing.method for standing in ranking.standings][-1] == "broken"
    assert "of 6 differences are significant" in str(ranking)  # of the four that have trials
    assert "broken      –  (30 failed)" in str(ranking)
    overall = {row["method"]: row for row in ranking.overall()}
    assert overall["broken"] == {"method": "broken", "better": 0, "worse": 0, "open": 0}
    assert overall["first"] == {"method": "first", "better": 3, "worse": 0, "open": 0}
    alone = study({"broken": None, "only": 1.0, "also-broken": None}).ranking()
    assert {standing.method: standing.place for standing in alone.standings}["only"] == "1"
    assert "differences" not in str(alone)


def test_an_error_that_is_rounding_is_none():
    """Of the same number in every trial nothing is known of the error; the sum may be off in the last digit."""
    assert shorthand(750, 2.6e-14) == "750(0)"
    assert shorthand(1e-3, 0.0) == "0.001(0)"
    assert shorthand(0.0, 1e-20) != "0(0)"
    assert shorthand(750, 2.6e-12) != "750(0)"
    same = np.full(7, 0.1)
    assert np.isnan(mean_and_error(same)[1])
    assert np.isnan(mean_and_error(750 + np.array([0.0, 1e-10, 0.0]))[1])
    assert mean_and_error(np.array([1.0, 2.0, np.nan])) == (1.5, pytest.approx(0.5))
    assert mean_and_error(np.array([1.0, 1.0 + 1e-6]))[1] == pytest.approx(5e-7)
    assert mean_and_error(np.array([-1.0, 1.0])) == (0.0, pytest.approx(1.0))
    result = study({"a": 1.0, "b": 2.0})
    assert all(row["standard_error"] != row["standard_error"] for row in result.summary() if row["score"] == "ess")
    assert "750(?)" in result._repr_html_()
