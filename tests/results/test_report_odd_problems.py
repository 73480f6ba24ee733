"""Reports of odd problems: models, labels, any names, parameters that are not finite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics.faults import parts_of
from fbar.diagnostics.predictive import predict
from fbar.results.markup import element
from report_pages import normal, read


def models(observed, **priors):
    def simulate(theta, rng):
        return np.nan_to_num(theta["mu"]) + rng.standard_normal(theta.rows)

    return fbar.Problem(fbar.ModelChoice(priors), simulate, observed)


def test_a_model_choice_with_a_single_number_has_no_pairs(tmp_path):
    problem = models(2.0, null=None, other=fbar.Prior(mu=stats.norm(0, 3)))
    result = fbar.infer(problem, fbar.model_probability("other"), tolerance=0.5, budget=2000, seed=1)
    read(result, tmp_path, predictive=0)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'aria-label="posterior of mu"' in text
    assert "pairs of parameters" not in text


def test_a_model_that_was_never_accepted_is_said_to_be(tmp_path):
    problem = models(0.0, null=None, other=fbar.Prior(mu=stats.norm(1000, 1)))
    target = fbar.model_probability("other")
    result = fbar.infer(problem, target, method="rejection", tolerance=0.1, budget=1000, seed=1)
    assert "None of the accepted simulations has mu." in read(result, tmp_path).words


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [np.inf, np.nan])
def test_a_derived_parameter_need_not_be_finite(nothing, tmp_path):
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), normal, 1.0, derived={"odd": lambda t: np.where(t["mu"] > 0, t["mu"], nothing)}
    )
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.3, budget=2000, seed=1)
    read(result, tmp_path)
    (odd,) = fbar.plot.Marginals.of(result, "odd").parameters
    mu, weights = result.posterior.points["mu"], result.posterior.weights
    assert odd.finite == pytest.approx(weights[mu > 0].sum() / weights.sum())
    assert odd.mean == pytest.approx(np.average(mu[mu > 0], weights=weights[mu > 0]))
    assert "given that it is finite" in odd.caption
    assert np.trapezoid(odd.posterior, odd.x) == pytest.approx(1, abs=0.02)


def test_labels_may_be_several(tmp_path):
    def simulate(theta, rng):
        return np.where(rng.random((theta.rows, 2)) < theta["p"][:, None], "yes", "no")

    problem = fbar.Problem(fbar.Prior(p=stats.uniform(0, 1)), simulate, np.array(["yes", "no"]))
    result = fbar.infer(problem, fbar.mean("p"), method="rejection", budget=800, seed=1)
    found = predict(result.run, result.posterior, 200)
    same = np.mean([list(row) == ["yes", "no"] for row in found.summaries])
    assert f"{100 * same:.3g}% of 200 new simulations equal the data" in read(result, tmp_path).words


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n" * 300, "人口", "-->", '"quoted"', "😀$", "a\\nb", "<b>"])
def test_any_name_can_be_shown(name, tmp_path):
    """Also in the title, where there is no warning of it: warnings are errors here."""
    problem = fbar.Problem(
        fbar.Prior({name: stats.norm(0, 1), "b": stats.norm(0, 1)}),
        lambda t, rng: t[name] + rng.standard_normal(t.rows),
        0.5,
    )
    result = fbar.infer(problem, fbar.mean(name), method="rejection", tolerance=0.3, budget=1000, seed=1)
    read(result, tmp_path, title=name, predictive=0)


@pytest.mark.parametrize("name", ["x\ny", "\x1b[2J", "a\ud800b", "\u202eabc", "", "n" * 2000])
def test_a_name_that_cannot_be_printed_is_refused(name):
    with pytest.raises(fbar.InputError, match="must have 1 to 1000 printable characters"):
        fbar.Prior({name: stats.norm(0, 1)})


def test_names_do_not_become_attributes(tmp_path):
    evil = '" onload="alert(1)'
    problem = fbar.Problem(
        fbar.Prior({evil: stats.norm(0, 1)}), lambda t, rng: t[evil] + rng.standard_normal(t.rows), 0.5
    )
    result = fbar.infer(problem, fbar.mean(evil), method="rejection", tolerance=0.3, budget=1000, seed=1)
    found = read(result, tmp_path, title=evil, predictive=0)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert f"posterior of {evil}" in found.said
    assert element("a", href=evil) == '<a href="&quot; onload=&quot;alert(1)"></a>'


@pytest.mark.parametrize(
    "column",
    [
        np.array([None, "a", "b", 1] * 10, dtype=object),
        np.where(np.arange(100) < 70, 0.0, np.arange(100)),
        np.concatenate([np.arange(50.0), [np.inf, np.inf, -np.inf]]),
        np.array([f"c{i}" for i in range(30)] * 2),
        np.arange(1000) % 40,
    ],
    ids=["none", "ties", "infinite", "many labels", "integers"],
)
def test_places_of_failures_are_parts_of_all_that_was_simulated(column):
    parts = parts_of(column)
    assert (np.sum([rows for _, rows in parts], axis=0) == 1).all()
    assert all(rows.any() for _, rows in parts)
    assert len({words for words, _ in parts}) == len(parts)


@pytest.mark.slow
def test_a_label_of_one_model_among_several(tmp_path):
    def simulate(theta, rng):
        return np.where(rng.random(theta.rows) < 0.1, np.nan, rng.standard_normal(theta.rows))

    models = {
        "one": fbar.Model(simulate, fbar.Prior(kind=fbar.Categorical(["x", None]), mu=stats.norm(0, 1))),
        "two": fbar.Model(simulate, fbar.Prior(z=stats.norm(0, 1))),
    }
    problem = fbar.Problem.models(models, observed=0.0)
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.5, budget=2000, seed=1)
    words = read(result, tmp_path, predictive=0).words
    assert "kind = " in words
    assert {place.words for place in result.failed if place.parameter == "kind"} >= {"x", "None"}
