"""Reports: every run has a whole one, which says what the run found, whatever the labels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import fbar
from report_pages import CASES, Page, read

SECTIONS = [
    "answer",
    "model",
    "posterior",
    "predictive",
    "precision",
    "places",
    "failures",
    "tolerance",
    "influence",
    "rounds",
    "settings",
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_run_has_a_whole_report(case, tmp_path):
    result = CASES[case]()
    found = read(result, tmp_path)
    assert [name for name in found.ids if name in SECTIONS] == SECTIONS
    for estimate in result.estimates:
        assert estimate.name in found.words
        if not np.ndim(estimate.value):
            assert str(estimate).removesuffix(" (unreliable)") in found.words
    assert f"{result.simulations:,} simulations" in found.words
    assert str(result.seed) in found.words
    for text in result.warnings:
        assert text[1:] in found.words


def test_vectors_have_a_row_for_each_component(tmp_path):
    result = CASES["finite"]()
    words = read(result, tmp_path).words
    for label, value, error in zip(
        ("1", "2", "3"), result["probabilities"].value, result["probabilities"].standard_error, strict=True
    ):
        assert fbar.estimation.estimate.shorthand(value, error) in words, label


@pytest.mark.slow
def test_a_run_that_missed_its_precision_says_what_it_takes(tmp_path):
    assert "mean:mu needs about" in read(CASES["missed"](), tmp_path).words


@pytest.mark.slow
def test_labels_are_text(tmp_path):
    """Names of parameters, targets, titles and failures come from users, and must not become markup."""
    evil = "<script>alert(1)</script>"

    def simulate(theta, rng):
        if rng.random() < 0.1:
            raise ValueError(f"{evil} & \x1b[31m co")
        return theta["a<b&$c$"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(**{"a<b&$c$": stats.norm(0, 1), "plain": stats.norm(0, 1)}), simulate, 0.5)
    target = fbar.expectation(lambda t: t["a<b&$c$"] ** 2, name=evil)
    result = fbar.infer(problem, [target, fbar.mean("a<b&$c$")], tolerance=0.5, budget=3000, block_size=20, seed=1)
    found = read(result, tmp_path, title=f"{evil}")
    assert found.words.count(evil) >= 3
    assert "a<b&$c$" in found.words
    assert "\x1b" not in found.words


def test_failures_are_shown_by_kind_and_place(tmp_path):
    result = CASES["flaky"]()
    found = read(result, tmp_path)
    assert f"{result.run.seen.failures:,} of {result.run.simulations:,} simulations failed" in found.words
    places = [place for place in result.failed if place.parameter == "mu"]
    assert sum(place.simulations for place in places) == result.run.simulations
    assert sum(place.failed for place in places) == result.run.seen.failures
    low, high = places[0], places[-1]
    assert low.failed == 0
    # Above 0 every second one fails: |z| < 5
    assert abs(high.failed - high.simulations / 2) < 5 * np.sqrt(high.simulations) / 2


@pytest.mark.slow
def test_a_study_has_a_report(tmp_path):
    study = fbar.Study(["ramp", "two-moons"], ["rejection", "smc"], [300, 1000], 4, ["mse", "ess"], seed=1)
    result = study.run(workers=1, progress=False)
    text = result.report(tmp_path / "study.html", title="a < b").read_text(encoding="utf-8")
    found = Page(text)
    for name in ("ranking", "curves", "versus", "scores", "failures", "settings"):
        assert name in found.ids
    for standing in result.ranking().standings:
        assert fbar.estimation.estimate.shorthand(standing.mean, standing.error) in found.words
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "a < b" in found.words


def test_small_numbers_keep_their_interval(tmp_path):
    problem = fbar.Problem(
        fbar.Prior(rate=stats.norm(0, 1e-15)), lambda t, rng: 1e15 * t["rate"] + rng.standard_normal(t.rows), 1.0
    )
    result = fbar.infer(problem, fbar.mean("rate"), method="rejection", tolerance=0.3, budget=2000, seed=1)
    low, high = result["rate"].interval()
    assert f"{low:.6g} to {high:.6g}" in read(result, tmp_path, predictive=0).words
    (found,) = fbar.plot.Marginals.of(result).parameters
    assert len(found.caption) < 60


@pytest.mark.slow
@pytest.mark.parametrize("how", [".at(0.1)", ".extrapolated(ratio=2)", ".adjusted()"])
def test_a_result_that_is_not_the_runs_own_says_so(how, tmp_path):
    own = CASES["rejection"]()
    result = eval(f"own{how}")
    words = read(result, tmp_path, predictive=0).words
    assert f"Not the run's own estimates: {result.what}, by {how[1:]}." in words
    assert f"# then {how}" in words
    assert "How the errors fell." not in words  # those of the run's history
    assert fbar.plot.Error.of(result).empty
    assert "run's own" not in read(own, tmp_path, predictive=0).words


def test_the_data_outside_are_counted(tmp_path):
    """Of three numbers the second is 20 standard deviations away from anything that the model gives, the first one."""

    def simulate(theta, rng):
        return np.array([1.0, 0.0, 1.0]) * theta["mu"][:, None] + rng.standard_normal((theta.rows, 3))

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, np.array([1.8, 20.0, 0.0]))
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=18.5, budget=2000, seed=1)
    words = read(result, tmp_path).words
    assert "1 of 3 numbers lies outside the central 95% of the new simulations" in words
    assert "The most extreme is x[2], with a two-sided tail probability below 0.01." in words


def test_what_is_missing_without_matplotlib_is_said():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import fbar\n"
        "problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.2])\n"
        "try: fbar.infer(problem, fbar.mean('theta'), budget=100, seed=1).report('never.html')\n"
        "except fbar.MissingExtra as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "matplotlib is not installed; install it with" in told.stdout


@pytest.mark.slow
def test_recorded_outputs_have_a_posterior(tmp_path):
    """An output that is asked for like a parameter is shown like one."""

    def simulate(theta, rng):
        x = theta["mu"] + rng.standard_normal(theta.rows)
        return {"x": x, "next": x + rng.standard_normal(theta.rows)}

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0, records=["next"])
    result = fbar.infer(problem, [fbar.mean("mu"), fbar.mean("next")], tolerance=0.3, budget=4000, seed=1)
    found = read(result, tmp_path, predictive=0)
    assert "posterior of next" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert str(result["mean:next"]) in found.words
