"""What notebooks and the interpreter show of results: escaped, well-formed, short."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.estimate import shorthand
from fbar.results.notebook import MOST_ROWS, table


class Reader(HTMLParser):
    """The texts of cells and paragraphs; refuses tags that do not match and any that are not expected."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.paragraphs: list[str] = []
        self.styles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "table", "thead", "tbody", "tr", "th", "td", "p", "strong"), tag
        self.open.append(tag)
        self.styles += [value or "" for name, value in attributes if name == "style"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "p":
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        elif "p" in self.open:
            self.paragraphs[-1] += data


def simulate(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(theta["a"] + 0.5 * rng.standard_normal(theta.rows))


PROBLEM = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=0.5, derived={"double": lambda t: 2 * t["a"]})
EVIL = "<script>alert(1)</script>&\"'"
TARGETS = [fbar.mean("a"), fbar.probability("a < 1"), fbar.expectation(lambda t: t["a"] ** 2, name=EVIL)]


@pytest.fixture(scope="module")
def result() -> fbar.Result:
    return fbar.infer(PROBLEM, TARGETS, method=fbar.Rejection(tolerance=0.3), budget=3000, seed=1)


def test_labels_are_escaped_and_read_back_whole(result: fbar.Result) -> None:
    for shown in (result, result.estimates, result.estimates[2]):
        html = shown._repr_html_()
        assert "<script" not in html
        names = [row[0] for row in Reader(html).rows]
        assert EVIL in names
    assert "probability:a < 1" in [row[0] for row in Reader(result._repr_html_()).rows]
    assert "a &lt; 1" in result._repr_html_()


def test_a_result_shows_estimates_intervals_and_how_it_went(result: fbar.Result) -> None:
    read = Reader(result._repr_html_())
    assert read.rows[0] == ["target", "estimate", "95% confidence interval of the estimate"]
    mean = result["mean:a"]
    low, high = mean.interval()
    assert read.rows[1] == ["mean:a", str(mean), f"{low:.3f} to {high:.3f}"]
    assert len(read.rows) == 4
    assert any(text.startswith("3,000 simulations, ") and "budget spent" in text for text in read.paragraphs)
    assert "seed 1" in read.paragraphs
    assert set(read.styles) == {"color:inherit", "text-align:left", "text-align:right"}


def test_what_is_not_to_be_trusted_is_marked_and_warned_of() -> None:
    few = fbar.infer(PROBLEM, TARGETS[0], method=fbar.Rejection(tolerance=0.02), budget=400, seed=1)
    assert not few["mean:a"].trusted
    read = Reader(few._repr_html_())
    assert read.rows[0][-1] == ""
    assert read.rows[1][-1] == "unreliable"
    assert any(text.startswith(f"warning: {few['mean:a'].warnings[0]}") for text in read.paragraphs)
    assert any(
        text.startswith(f"warning: {few['mean:a'].warnings[0]}")
        for text in Reader(few["mean:a"]._repr_html_()).paragraphs
    )
    assert "(unreliable)" in repr(few)


def test_vectors_have_a_row_for_each_number() -> None:
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    found = fbar.infer(finite, fbar.probabilities({"theta": [1, 2, 3]}), budget=3000, seed=1)
    estimate = found.estimates[0]
    read = Reader(found._repr_html_())
    assert [row[1] for row in read.rows[1:]] == str(estimate).strip("[]").split(", ")
    assert all(label in row[0] for label, row in zip(estimate.labels, read.rows[1:], strict=True))


def test_trials_are_shown_without_an_error() -> None:
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    run = fbar.Rejection().start(
        finite, [fbar.mean("theta"), fbar.probabilities({"theta": [1, 2, 3]})], 1, 500, trials=4
    )
    fbar.drive(run)
    posterior = run.posterior()
    Reader(posterior._repr_html_())
    assert "4 trials" in repr(posterior)
    Reader(posterior.expect([fbar.mean("theta"), fbar.probabilities({"theta": [1, 2, 3]})])._repr_html_())


def test_a_posterior_shows_the_spread_of_its_parameters(result: fbar.Result) -> None:
    read = Reader(result.posterior._repr_html_())
    assert [row[0] for row in read.rows] == ["parameter", "a", "double"]
    points, weights = result.posterior.points["a"], result.posterior.weights
    mean = float(np.average(points, weights=weights))
    spread = float(np.sqrt(np.average((points - mean) ** 2, weights=weights)))
    assert read.rows[1][1:] == [f"{mean:.5g}", f"{spread:.3g}"]
    assert "of 3,000 simulations accepted" in read.paragraphs[0]


def test_reprs_are_short(result: fbar.Result) -> None:
    texts: list[Any] = [result, result.estimates, result.posterior, result.estimates[0]]
    for text in map(repr, texts):
        assert "\n" not in text
        assert len(text) < 300
    assert repr(result).startswith(f"Result(mean:a: {result['mean:a']}, ")
    assert str(result).startswith("mean:a ")
    assert "\n" in str(result)
    many = fbar.Estimates([result.estimates[0]] * 9, np.eye(9), [slice(n, n + 1) for n in range(9)])
    assert repr(many).endswith("and 3 more)")


def test_studies() -> None:
    study = fbar.Study("ramp", ["rejection", "optimal"], budgets=[100, 200], trials=5, scores=["mse", "coverage"])
    assert repr(study).startswith("Study(problems ramp; methods rejection, optimal; budgets 100, 200; trials 5; ")
    assert ["budgets", "100, 200"] in Reader(study._repr_html_()).rows
    found = study.run(workers=1, progress=False)
    read = Reader(found._repr_html_())
    assert read.rows[0][:3] == ["problem", "budget", "method"]
    assert len(read.rows) == 5
    assert read.rows[1][:3] == ["ramp", "100", "rejection"]
    values = found.values("mse", "ramp", "rejection", 100)
    assert read.rows[1][3] == shorthand(float(values.mean()), float(values.std(ddof=1)) / 5**0.5)
    assert read.paragraphs[0].startswith("5 trials of each")


def test_long_tables_are_cut() -> None:
    html = table(["a", "b"], [[str(n), "x"] for n in range(100)])
    assert len(Reader(html).rows) == MOST_ROWS + 1
    assert "and 61 more" in html
