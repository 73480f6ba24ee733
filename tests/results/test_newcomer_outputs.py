"""What a newcomer reads: digits, remarks and lines that must not mislead."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.model_check import ModelCheck
from fbar.estimation.estimate import shorthand
from fbar.results.markup import Html
from fbar.results.report.answer import answer
from fbar.results.report.page import breakable
from fbar.results.report.question import model

KNOT = stats.uniform(0, 10)


def normal(names, **settings):
    def simulate(theta, rng):
        return np.stack([theta[name] + rng.standard_normal(theta.rows) for name in names], axis=1)

    prior = fbar.Prior(**{name: stats.norm(0, 2) for name in names})
    return fbar.Problem(prior, simulate, [0.5] * len(names), **settings)


def test_bias_of_many_targets_is_cut_with_a_count():
    targets = [fbar.mean("a"), fbar.sd("a"), *(fbar.probability(f"a > {x}") for x in (0, 0.1, 0.2, 0.3, 0.4, 0.5))]
    assert "and 2 more" in fbar.infer(normal("a"), targets, budget=1000, seed=1).about
    assert "and 2 more" in fbar.infer(normal("a"), targets, tolerance=0.5, budget=1000, seed=1).about


@pytest.mark.parametrize(("value", "text"), [(0.605202, "0.605(?)"), (123456.7, "123457(?)"), (-2.0, "-2(?)")])
def test_few_digits_without_an_error(value, text):
    assert shorthand(value, math.nan) == shorthand(value, math.inf) == text


def test_priors_show_what_ties_their_parameters():
    assert repr(fbar.Prior(fbar.dirichlet(s=1, i=1, r=2))) == "Prior(s, i, r; s + i + r = 1)"
    assert repr(fbar.Prior(fbar.ordered(a=KNOT, b=KNOT), c=KNOT)) == "Prior(a, b, c; a < b)"


def test_learned_summaries_are_named_by_the_parameters_of_all_models():
    def simulate(theta, rng, name):
        return theta[name][:, None] + rng.standard_normal((theta.rows, 30))

    models = {
        "one": fbar.Model(lambda t, rng: simulate(t, rng, "a"), fbar.Prior(a=stats.norm(0, 2))),
        "two": fbar.Model(lambda t, rng: simulate(t, rng, "b") ** 3, fbar.Prior(b=stats.norm(0, 2))),
    }
    problem = fbar.Problem.models(models, observed=np.full(30, 0.5))
    result = fbar.infer(problem, fbar.model_probability("one"), budget=1500, seed=1)
    assert "a or b" in result.posterior.remark
    assert "coordinate" not in result.posterior.remark
    section = model(result).body
    assert "learned from the simulated data" in section
    assert "the data as they are" not in section


def test_a_check_under_the_prior_is_not_a_pass():
    found = str(ModelCheck(p_value=0.4, compared_with="prior"))
    assert "anywhere under its prior" in found
    assert "weak" in found


def test_a_sample_as_a_table():
    frame = fbar.infer(normal("ab", derived={"twice": lambda t: 2 * t["a"]}), fbar.mean("a"), budget=1000, seed=1)
    table = frame.sample(50).to_pandas()
    assert list(table) == ["a", "b", "twice"]
    assert len(table) == 50
    models = fbar.Points({"model": ["x", "y"], "a": [1.0, 2.0]}, present={"a": np.array([True, False])})
    assert models.to_pandas()["a"].isna().tolist() == [False, True]


def test_rows_of_predictions_are_explained():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm()),
        lambda t, rng: t["a"][:, None] + rng.standard_normal((t.rows, 40)),
        np.zeros(40),
        summary=lambda x: x.mean(axis=1),
    )
    printed = str(fbar.infer(problem, fbar.mean("a"), budget=500, seed=1).predict(20))
    assert "numbers are shown, evenly spaced along each series" in printed


def test_names_are_broken_after_punctuation_only():
    assert breakable("mean:a") == "mean:a"
    assert breakable("credible_interval:K,0.95") == "credible_<wbr>interval:<wbr>K,<wbr>0.95"


def test_reliable_estimates_do_not_hide_an_unreliable_summary():
    result = fbar.infer(normal("a"), fbar.mean("a"), tolerance=0.05, method="rejection", budget=1500, seed=3)
    row = result.summary()["a"]
    assert (row.mean_reliability, row.interval_reliability) == ("reliable", "unreliable")
    said = answer(result, Html("")).body
    assert "The estimate that was asked for is reliable. Not everything else in the summary is: a (" in said
