"""fbar paper beyond-systems: places, their agreement, and pairs that two scores order in opposite ways."""

import csv
from pathlib import Path

import numpy as np
import pytest

from fbar.estimation.estimate import shorthand
from fbar.paper import FigureRecord, beyond_systems
from fbar.paper.beyond_systems import BUDGET, FUNCTIONS, METHODS, add_rankings, agreement, draw, places
from fbar.plot.look import look
from fbar.study.presets.base import loaded
from fbar.study.results import StudyResult
from fbar.study.trials import Cell, TrialRecord

ROOT = Path(__file__).parents[2]
TRIALS = 40
PROBLEM = "gaussian-mixture"


def test_places_begin_with_the_best():
    values = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 2.2]])
    assert places(values, lowest_first=True).tolist() == [3, 1, 2]
    assert places(values, lowest_first=False).tolist() == [1, 3, 2]


def test_methods_without_a_score_take_no_place():
    values = np.array([[3.0, np.nan, 2.0], [np.nan, np.nan, 2.2]])
    found = places(values, lowest_first=True)
    assert found[[0, 2]].tolist() == [2, 1]
    assert np.isnan(found[1])


@pytest.mark.parametrize(("second", "tau"), [([1, 2, 3], 1), ([3, 2, 1], -1), ([2, 1, 3], 1 / 3), ([1, np.nan, 2], 1)])
def test_agreement_is_kendalls(second, tau):
    assert agreement(np.array([1.0, 2.0, 3.0]), np.array(second, dtype=float)) == pytest.approx(tau)


def invented(problem, errors_of_tail):
    """A study whose errors and scores are known: its first method has the largest ESS and acceptance rate."""
    rng = np.random.default_rng(1)
    first, second = FUNCTIONS[problem]
    made = beyond_systems.study(problem, TRIALS, 1)
    trials = {}
    for k, method in enumerate(METHODS):
        for trial in range(TRIALS):
            error = {first: (1 + k) * rng.chisquare(8), second: errors_of_tail[k] * rng.chisquare(8)}
            scores = {"mse": error, "acceptance-rate": {"": 1 / (2 + k) + 1e-4 * rng.random()}}
            if method != "multilevel":
                scores["ess"] = {"": 1000 / (1 + k) + rng.random()}
            trials[Cell(problem, method, BUDGET), trial] = TrialRecord("ok", BUDGET, scores=scores)
    return StudyResult(trials, made.arenas, ["mse", "acceptance-rate", "ess"], {})


@pytest.fixture(scope="module")
def record():
    """For the mean the scores are right; for the tail the order by error is the opposite."""
    found = FigureRecord("beyond-systems")
    for problem in FUNCTIONS:
        add_rankings(found, problem, invented(problem, [100.0 / (1 + k) ** 2 for k in range(len(METHODS))]))
    return found


def test_scores_that_are_right_are_in_no_opposite_pair(record):
    first = FUNCTIONS[PROBLEM][0]
    for score in ("acceptance_rate", "ess"):
        where = {"setting": f"{PROBLEM}/{score}", "target": first}
        assert record.one(quantity="pairs_opposite", **where).value == 0
        assert record.one(quantity="pairs_same", **where).value > 20
        assert record.one(quantity="kendall_tau", **where).value > 0.8


def test_a_function_that_is_ordered_the_other_way_round_is_found(record):
    first, second = FUNCTIONS[PROBLEM]
    for name in ("acceptance_rate", "ess", first):
        where = {"setting": f"{PROBLEM}/{name}", "target": second}
        assert record.one(quantity="pairs_same", **where).value == 0
        assert record.one(quantity="pairs_opposite", **where).value > 20
    pairs = (len(METHODS) - 1) * (len(METHODS) - 2) // 2  # without multilevel
    kinds = [record.one(quantity=f"pairs_{k}", setting=f"{PROBLEM}/ess", target=second) for k in ("same", "opposite")]
    undecided = record.one(quantity="pairs_undecided", setting=f"{PROBLEM}/ess", target=second)
    assert sum(row.value for row in (*kinds, undecided)) == pairs
    ratios = [row for row in record.select(quantity="opposite_ratio") if row.setting.startswith(PROBLEM)]
    assert all(row.value > 1 for row in ratios)
    worst = max((row for row in ratios if "/ess/" in row.setting), key=lambda row: row.value)
    assert worst.setting == f"{PROBLEM}/ess/{METHODS[0]} before {METHODS[-1]}"
    assert worst.value == pytest.approx(len(METHODS) ** 2, rel=0.5)


def test_no_score_is_no_place(record):
    assert not record.select(quantity="ess", setting=f"{PROBLEM}/multilevel")
    assert not record.select(quantity="acceptance_rate", setting=f"{PROBLEM}/synthetic-likelihood")
    assert record.one(quantity="place_by_ess", setting=f"{PROBLEM}/{METHODS[-1]}").value == len(METHODS) - 1
    assert record.one(quantity="place_by_acceptance_rate", setting=f"{PROBLEM}/{METHODS[-1]}").value == len(METHODS) - 2


def test_places_have_intervals(record):
    for method in METHODS:
        where = {"setting": f"{PROBLEM}/{method}", "target": FUNCTIONS[PROBLEM][0]}
        ends = ("place_low", "place", "place_high")
        low, place, high = (record.one(quantity=f"{name}_by_b2", **where).value for name in ends)
        assert 1 <= low <= place <= high <= len(METHODS)


def test_problems_are_the_papers_and_sbibms():
    assert float(loaded(["filippi"])["filippi"].observed) == 0.0
    for problem, targets in FUNCTIONS.items():
        made = beyond_systems.study(problem, 2, 1)
        assert [target.name for target in made.arenas[problem].targets] == list(targets)
        assert tuple(contender.name for contender in made.contenders) == METHODS


def test_the_picture_has_every_method_and_count(record):
    with look():
        figure = draw(record)
    assert len(figure.axes) == 2 * len(FUNCTIONS)
    for ax, problem in zip(figure.axes, FUNCTIONS, strict=False):
        labels = [text.get_text() for text in ax.texts]
        assert all(labels.count(method) == 2 - (method in beyond_systems.WITHOUT_TOLERANCE) for method in METHODS)
        assert problem in beyond_systems.TITLES
    counts = {text.get_text() for text in figure.axes[-1].texts}
    second = FUNCTIONS[PROBLEM][1]
    opposite = record.one(quantity="pairs_opposite", setting=f"{PROBLEM}/ess", target=second).value
    assert f"{opposite:.0f} opposite" in counts


def test_the_page_has_the_stored_numbers():
    with (ROOT / "benchmarks" / "systems" / "beyond-systems.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["quantity"], row["setting"], row["target"]): row for row in csv.DictReader(file)}
    text = " ".join((ROOT / "docs" / "explanation" / "the-measure.md").read_text(encoding="utf-8").split())
    for problem, title in (("filippi", "figure S5"), ("gaussian-mixture", "Gaussian mixture")):
        for target in FUNCTIONS[problem]:
            cells = []
            for score in ("acceptance_rate", "ess"):
                kinds = ("opposite", "same", "undecided")
                counts = [int(float(rows[f"pairs_{kind}", f"{problem}/{score}", target]["value"])) for kind in kinds]
                pairs = "pairs " if (problem, target, score) == ("filippi", "mean:theta1", "acceptance_rate") else ""
                cells.append(f"{counts[0]} of {sum(counts)} {pairs}opposite, {counts[1]} the same")
            assert f"| {title}, {beyond_systems.FORMULAS[target]} | {cells[0]} | {cells[1]} |" in text
    tail, mean = "probability:theta1 > 10", "mean:theta1"
    for setting, target, digits in (
        ("filippi/ess/targeted, f₂ before default", tail, "squared error is {} times smaller"),
        ("filippi/acceptance_rate/multilevel before smc", mean, "mean is {} times smaller"),
        ("gaussian-mixture/acceptance_rate/mcmc before smc", "probability:theta1 > -9", "with {} times the error"),
        (
            "gaussian-mixture/ess/synthetic-likelihood-mcmc before rejection",
            "probability:theta1 > -9",
            "with {} times the error",
        ),
    ):
        row = rows["opposite_ratio", setting, target]
        assert digits.format(shorthand(float(row["value"]), float(row["standard_error"]))) in text, setting
    abc = [float(rows["b2", f"filippi/{name}", tail]["value"]) for name in ("mcmc", "smc", "smc-replicas")]
    abc += [float(rows["b2", f"filippi/{name}", tail]["value"]) for name in beyond_systems.TARGETED]
    assert f"lies between {min(abc):.2f} and {max(abc):.2f}" in text
    sizes = [float(rows["ess", f"filippi/{name}", ""]["value"]) for name in ("smc-replicas", "targeted, f₁", "default")]
    assert f"whose ESS is {sizes[0]:.0f} to {sizes[1]:,.0f}" in text
    assert f"to the default with {sizes[2]:,.0f}" in text
