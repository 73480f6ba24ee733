"""What a report promises: names of columns, what is folded, nothing left out, exact priors, few bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.plot.scales import is_log_scaled
from fbar.question.priors.marginals import as_marginal
from fbar.results.report.prior import in_words, prior_rows
from fbar.results.report.shaped import exchangeable, series_of
from fbar.results.summary_rows import cells as summary_cells

NAMES = ("kon", "koff", "kr", "d")


def bursts(theta, rng):
    """Messengers of a gene that switches on and off.

    Counts in twelve cells at steady state.

    This line is folded.
    Another one.
    And another.
    The last.
    """
    switching = rng.beta(theta["kon"][:, None] + 0.1, theta["koff"][:, None] + 0.1, (theta.rows, 12))
    return np.log1p(theta["kr"][:, None] / theta["d"][:, None] * switching + 0.1 * rng.random((theta.rows, 12)))


TELEGRAPH = fbar.Problem(
    fbar.Prior({name: stats.loguniform(0.1, 100) for name in NAMES}),
    bursts,
    np.linspace(0.1, 3, 12),
    summary=lambda x: {"mean": x.mean(axis=1), "spread": x.std(axis=1)},
    derived={"burst": lambda t: t["kr"] / t["koff"]},
)
TARGETS = [
    *(fbar.mean(name) for name in (*NAMES, "burst")),
    fbar.quantile("kr", 0.025),
    fbar.quantile("kr", 0.975),
    fbar.probability("burst > 10"),
    fbar.probability("kon > koff"),
]


def named(given: object) -> str:
    """What a case of a test is called; no address of an object, which every worker has another one of."""
    return str(given) if isinstance(given, str | bool) else type(given).__name__


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    """A report of nine targets and four log-uniform parameters, and its result."""
    result = fbar.infer(TELEGRAPH, TARGETS, tolerance=0.3, budget=8000, seed=1)
    path = result.report(tmp_path_factory.mktemp("nine") / "report.html", predictive=100)
    return result, path.read_text(encoding="utf-8")


def section(text, name):
    (found,) = re.findall(rf'<section id="{name}">.*?</section>', text, flags=re.DOTALL)
    return found


def cells(text, tag="td"):
    return [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(rf"<{tag}[ >].*?</{tag}>", text)]


def unfolded(text):
    """What is seen before anything is unfolded."""
    while "<details" in text:
        text = re.sub(r"<details[^>]*>(?:(?!<details).)*?</details>", "", text, flags=re.DOTALL)
    return text


def test_every_target_is_in_every_table(nine):
    result, text = nine
    for name in ("answer", "precision", "influence"):
        found = cells(section(text, name))
        for target in result.targets:
            assert any(target.name.replace(">", "&gt;") in cell for cell in found), (name, target.name)
    labels = re.findall(r'aria-label="([^"]*) against the tolerance"', text)
    assert len(labels) == 9
    assert len(fbar.plot.Error.of(result).lines) == 9
    assert "not shown" not in text
    assert "name them" not in text


def test_the_interval_of_an_estimate_cannot_be_taken_for_the_credible_interval(nine):
    """The summary comes first: its column is the credible interval, that of the targets says what it is of."""
    result, text = nine
    first, second = re.findall(r"<table>.*?</table>", unfolded(section(text, "answer")), flags=re.DOTALL)
    columns = result.summary().columns
    assert cells(first, "th") == ["posterior", "mean", "reliability", *columns[2:-1]]
    assert "95% credible interval" in cells(first, "th")
    assert cells(second, "th") == ["target", "estimate", "reliability", "95% confidence interval of this estimate"]
    assert "95% interval" not in cells(text, "th")
    row = result.summary()["kr"]
    (shown,) = (cells(line) for line in first.split("<tr>") if ">kr<" in line)
    assert [shown[1], *shown[3:]] == summary_cells(row)[1:6]


def test_details_are_folded_without_script(nine):
    _, text = nine
    assert "<script" not in text
    assert "<details open" not in text
    for name in ("tolerance", "influence", "rounds", "settings"):
        assert "<svg" not in unfolded(section(text, name))
        assert "<table" not in unfolded(section(text, name))
    for name in ("answer", "model", "posterior", "predictive", "precision", "places", "failures"):
        assert re.search("<(p|td|figure)[ >]", unfolded(section(text, name))), name
    assert "This line is folded." in section(text, "model")
    assert "This line is folded." not in unfolded(section(text, "model"))


def test_the_first_screen_has_question_data_answer_reliability_and_a_picture(nine):
    result, text = nine
    assert "<h1>Messengers of a gene that switches on and off.</h1>" in text
    first = section(text, "answer")
    assert "Compared through mean 1.55, spread" in first
    assert ("estimates that were asked for are reliable" in first) or (" of 9 estimates " in first)
    assert str(result.model_check) in first.replace("&#x27;", "'")
    assert first.count("<svg") == 1


def test_it_is_short(nine):
    _, text = nine
    assert len(text.encode()) < 600_000
    assert not re.search(r' d="[^"]*\.\d{3}', text)  # coordinates to a hundredth of a point
    assert "DejaVu" not in text  # text in the page's own font


def test_log_uniform_parameters_have_logarithmic_axes_and_exact_priors(nine):
    result, _ = nine
    for one in fbar.plot.Marginals.of(result).parameters:
        assert one.log, one.name
        if one.name in NAMES:  # uniform in the logarithm
            np.testing.assert_allclose(one.prior, 1 / np.log(1000))
        ratio = np.diff(np.log(one.x))
        np.testing.assert_allclose(ratio, ratio[0])
        assert (one.posterior * ratio[0]).sum() == pytest.approx(1, abs=0.05)
    for pair in fbar.plot.Pairs.of(result).pairs:
        assert pair.x_log
        assert pair.y_log
    assert all(place.log for place in fbar.plot.Places.of(result).parameters)


@pytest.mark.parametrize(
    ("given", "log"),
    [
        (stats.loguniform(0.1, 100), True),
        (stats.lognorm(1.0), True),
        (fbar.truncate(stats.loguniform(0.1, 100), 0.5, 50), True),
        (stats.loguniform(1, 2), False),
        (stats.uniform(0, 100), False),
        (stats.gamma(2), False),
        (stats.expon(), False),
        (stats.norm(0, 1), False),
        (stats.randint(1, 100), False),
    ],
    ids=named,
)
def test_what_is_log_scaled(given, log):
    assert is_log_scaled(as_marginal(given, "a")) == log


def test_a_prior_that_models_share_is_exact():
    """A half of uniform on [0, 1] and a half of uniform on [0, 2]."""
    models = {
        name: fbar.Model(lambda t, rng: t["a"] + rng.standard_normal(t.rows), fbar.Prior(a=stats.uniform(0, width)))
        for name, width in (("one", 1), ("two", 2))
    }
    problem = fbar.Problem.models(models, observed=0.5)
    result = fbar.infer(problem, fbar.mean("a"), method="rejection", tolerance=0.5, budget=2000, seed=1)
    (found,) = fbar.plot.Marginals.of(result, "a").parameters
    np.testing.assert_allclose(found.prior, np.where(found.x <= 1, 0.75, 0.25))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (stats.uniform(0.5, 3.5), "uniform from 0.5 to 4"),
        (stats.loguniform(0.1, 100), "log-uniform from 0.1 to 100"),
        (stats.norm(1, 2), "normal, mean 1, sd 2"),
        (stats.lognorm(s=0.5, scale=3), "log-normal, median 3, sd of the logarithm 0.5"),
        (stats.randint(1, 11), "uniform over the whole numbers 1 to 10"),
        (stats.expon(scale=2), "exponential, mean 2"),
        (stats.gamma(2, loc=1, scale=3), "gamma(a=2, loc=1, scale=3)"),
        (stats.beta(2, 3), "beta(a=2, b=3)"),
        (fbar.truncate(stats.norm(0, 1), 0, 2), "normal, mean 0, sd 1, truncated to the range 0 to 2"),
        (fbar.Categorical(["x", "y"]), "uniform over x, y"),
        (fbar.Categorical(["x", "y"], [0.25, 0.75]), "x (0.25), y (0.75)"),
    ],
    ids=named,
)
def test_priors_in_words_are_exact(given, words):
    assert in_words(as_marginal(given, "a")) == words


def test_the_prior_table_has_every_parameter():
    rows = {name: (words, middle) for name, words, middle, _ in prior_rows(TELEGRAPH)}
    assert list(rows) == [*NAMES, "burst"]
    assert rows["kr"] == ("log-uniform from 0.1 to 100", "3.162")
    assert rows["burst"][0] == "derived"
    dependent = fbar.Prior(a=stats.norm(0, 1), b=lambda t: stats.norm(t["a"], 1))
    problem = fbar.Problem(dependent, lambda t, rng: t["b"], 0.0, records=())
    assert [row[1] for row in prior_rows(problem)] == ["normal, mean 0, sd 1", "depends on other parameters"]


def words_of(prior):
    problem = fbar.Problem(prior, lambda t, rng: rng.standard_normal(t.rows), 0.0)
    return {name: words for name, words, _, _ in prior_rows(problem)}


def test_priors_with_constraints_in_words():
    assert words_of(fbar.Prior(fbar.dirichlet(a=1, b=1, c=2))) == {
        "a": "beta(a=1, b=3), a share of a Dirichlet distribution",
        "b": "a share of a Dirichlet distribution, given a",
        "c": "1 minus the other shares",
    }
    assert words_of(fbar.Prior(fbar.ordered(x=stats.uniform(0, 2), y=stats.uniform(0, 2)))) == {
        "x": "uniform from 0 to 2, ordered below y",
        "y": "uniform from 0 to 2, ordered above x",
    }
    inside = fbar.truncate(fbar.Prior(x=stats.norm(0, 1), y=stats.uniform(0, 1)), where="x + y < 1")
    assert words_of(inside) == {
        "x": "normal, mean 0, sd 1, where x + y < 1",
        "y": "uniform from 0 to 1, where x + y < 1",
    }


def test_a_series_is_shown_as_a_series_and_numbers_without_order_by_size():
    rng = np.random.default_rng(1)
    trend = np.linspace(0, 3, 30) + rng.standard_normal((200, 30))
    walk = np.cumsum(rng.standard_normal((200, 30)), axis=1)
    independent = rng.standard_normal((200, 1)) + rng.standard_normal((200, 30))
    assert [exchangeable(simulated) for simulated in (trend, walk, independent)] == [False, False, True]
    data = np.arange(30.0)[::-1]
    (series,) = series_of(data, trend)
    assert series.observed.tolist() == data.tolist()
    (by_size,) = series_of(data, independent)
    assert (np.diff(by_size.observed) >= 0).all()
    assert (np.diff(by_size.simulated, axis=1) >= 0).all()
    assert series_of(data[:5], trend[:, :5]) == []
    columns = series_of(np.ones((30, 2)), np.stack([trend, walk], axis=2))
    assert [one.title for one in columns] == ["column 1", "column 2"]
    np.testing.assert_array_equal(columns[1].simulated, walk)


def test_models_are_shown_apart(tmp_path):
    def rising(theta, rng):
        """Growth at a constant rate."""
        return theta["a"][:, None] * np.arange(10) + rng.standard_normal((theta.rows, 10))

    def level(theta, rng):
        """No growth."""
        return np.zeros((theta.rows, 10)) + rng.standard_normal((theta.rows, 10))

    models = {"rising": fbar.Model(rising, fbar.Prior(a=stats.uniform(-0.2, 0.4))), "level": fbar.Model(level)}
    problem = fbar.Problem.models(models, observed=0.03 * np.arange(10))
    result = fbar.infer(
        problem, fbar.model_probability("rising"), method="rejection", tolerance=4.5, budget=3000, seed=1
    )
    text = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    labels = re.findall(r'aria-label="(new simulations[^"]*)"', section(text, "predictive"))
    assert labels == ["new simulations of rising and the data", "new simulations of level and the data"]
    model = section(text, "model")
    assert "Growth at a constant rate." in model
    assert "No growth." in model
    assert "rising: a" in cells(model)


def test_a_target_whose_errors_cannot_be_drawn_is_named(tmp_path):
    """A probability of exactly 0 has no spread to compare its error with."""
    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), 1.0)
    targets = [fbar.mean("mu"), fbar.probability("mu > 100")]
    result = fbar.infer(problem, targets, tolerance=0.3, budget=4000, seed=1)
    record = fbar.plot.Error.of(result)
    assert [line.target for line in record.lines] == ["mean:mu"]
    assert "probability:mu > 100" in record.message
    text = result.report(tmp_path / "report.html", predictive=0).read_text(encoding="utf-8")
    assert "Not drawn: probability:mu &gt; 100" in section(text, "precision")
