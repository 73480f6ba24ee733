"""What a result says it is about: the posterior, or ABC's at a tolerance and how far that is from the posterior.

Two observations, y₁ ~ N(a, 1) and y₂ ~ N(a + b, 1), with standard normal priors of a and b, have a normal posterior.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Comparison
from fbar.results.account import Account
from fbar.results.again import again
from fbar.results.comparison import Reference

OBSERVED = np.array([0.7, 0.9])


def simulate(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    mean = np.stack([theta["a"], theta["a"] + theta["b"]], axis=1)
    return mean + rng.standard_normal(mean.shape)


def problem(**others) -> fbar.Problem:
    return fbar.Problem(fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1)), simulate, observed=OBSERVED, **others)


DESIGN = np.array([[1.0, 0.0], [1.0, 1.0]])
COVARIANCE = np.linalg.inv(np.eye(2) + DESIGN.T @ DESIGN)
MEAN = COVARIANCE @ DESIGN.T @ OBSERVED
TRUTH = {"mean:a": MEAN[0], "variance:a": COVARIANCE[0, 0], "mean:b": MEAN[1]}
TARGETS = [fbar.mean("a"), fbar.variance("a"), fbar.mean("b")]
VECTOR = fbar.expectation(lambda t: np.stack([t["a"], t["b"]], axis=1), name="both", vector=True)


@pytest.fixture(scope="module")
def at_data() -> fbar.Result:
    return fbar.infer(problem(), TARGETS, method="rejection", budget=4000, seed=2)


@pytest.fixture(scope="module")
def wide() -> fbar.Result:
    """ABC at a tolerance that is far too large."""
    return fbar.infer(problem(), TARGETS, method="rejection", tolerance=2.5, budget=4000, seed=2)


# ---------------------------------------------------------------- an answer at a tolerance


@pytest.mark.slow
def test_a_biased_answer_is_called_biased_everywhere(wide, tmp_path):
    estimate = wide["variance:a"]
    assert estimate.about == "ABC's posterior at tolerance 2.5"
    assert estimate.trusted  # of what it is about
    assert estimate.reliability == "biased"
    assert wide["mean:b"].about == estimate.about
    printed = str(wide).splitlines()
    assert printed[1] == f"variance:a  {estimate}"
    assert printed[1].endswith("(biased)")
    assert wide.about in printed
    assert "about ABC's posterior at tolerance 2.5; estimate minus posterior: mean:a -0." in wide.about
    described = json.loads(json.dumps(wide.as_dict()))
    assert described["about"] == wide.about
    assert described["estimates"]["variance:a"]["reliability"] == "biased"
    assert described["estimates"]["variance:a"]["trusted"] is True
    assert described["estimates"]["variance:a"]["difference"]["value"] == estimate.difference.value
    assert Account.recorded(described).lines() == printed
    assert "biased" in wide._repr_html_()
    assert "result.at_data()" in " ".join(wide.warnings)
    page = html.unescape(wide.report(tmp_path / "report.html", predictive=0).read_text())
    row = page.partition("<td>variance:a</td>")[2].partition("</tr>")[0]
    assert "! biased by 0." in row
    assert "✓" not in row
    assert "About ABC's posterior at tolerance 2.5" in page


def test_the_difference_is_that_from_the_true_posterior(wide):
    """The answer less the truth, whose error is the answer's own, is within the difference's interval at |z| < 4."""
    for estimate in wide.estimates:
        away = estimate.difference
        assert abs(estimate.value - TRUTH[estimate.name] - away.value) < 4 * away.standard_error
        assert away.standard_error > estimate.standard_error
        assert away.name == estimate.name


def test_a_small_tolerance_leaves_a_reliable_answer():
    near = fbar.infer(problem(), TARGETS, method="rejection", tolerance=0.5, budget=6000, seed=1)
    assert [estimate.reliability for estimate in near.estimates] == ["reliable"] * 3
    assert "(biased)" not in str(near)
    assert "estimate minus posterior" in near.about


def test_components_of_a_vector_are_judged_one_by_one(wide):
    both = wide.expect(VECTOR)
    assert both.difference.value.shape == (2,)
    assert both.reliability == "biased"
    parts = [both.component(k) for k in (0, 1)]
    assert [part.value for part in parts] == list(both.value)
    assert parts[0].difference.value == both.difference.value[0]
    assert parts[0].reliability == "biased"
    assert [row.reliability for row in parts] == [
        "biased" if abs(d) > 0.1 else "reliable" for d in both.difference.value
    ]


LONG = fbar.expectation(lambda t: np.stack([t["a"] * k for k in range(1, 9)], axis=1), name="multiples", vector=True)


def test_the_line_has_the_differences_of_vectors(wide):
    asked = wide.run.posterior().expect([VECTOR, LONG])
    result = replace(wide, asked=(VECTOR, LONG), estimates=asked)
    both, multiples = result.estimates
    largest = int(np.argmax(np.abs(multiples.difference.value)))
    assert f"; estimate minus posterior: both {both.difference}, multiples " in result.about
    assert result.about.endswith(f"multiples {multiples.component(largest).difference} (the largest of 8)")
    assert largest == 7


def test_the_line_has_the_bias_of_vectors(at_data):
    found = replace(at_data, asked=(VECTOR, LONG), estimates=at_data.posterior.expect([VECTOR, LONG]))
    both, multiples = found.estimates
    assert (both.bias > 0).any()
    assert f"both [±{both.bias[0]:.2g}, ±{both.bias[1]:.2g}]" in found.about
    assert found.about.endswith(f"multiples ±{multiples.bias.max():.2g} (the largest of 8)")


@dataclass(frozen=True, eq=False)
class OneOfMany(Comparison):
    """A difference from the posterior, among those of some numbers."""

    away: fbar.Estimate
    among: int

    @property
    def numbers(self) -> int:
        return self.among

    def difference(self, estimate: fbar.Estimate) -> fbar.Estimate:
        return self.away


@pytest.mark.parametrize("df", [12.0, np.inf])
@pytest.mark.parametrize("numbers", [1, 20])
def test_answers_without_bias_are_rarely_called_biased_however_many_they_are(numbers, df):
    """One of them in 5% of the results: 2000 results, whose differences are Student's t and larger than the bars."""
    drawn = np.random.default_rng(3).standard_t(1e9 if df == np.inf else df, (2000, numbers))
    alarms = 0
    for away in drawn:
        difference = fbar.Estimate("all", away, np.ones(numbers), df, 1, 1)
        comparison = OneOfMany(difference, numbers)
        answer = fbar.Estimate("all", away, np.full(numbers, 0.1), df, 1, 1, comparison=comparison)
        alarms += answer.reliability == "biased"
    assert 0.03 < alarms / 2000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_all_numbers_of_a_result_are_compared_together(wide):
    """Those of vectors count; an answer that is asked for once more is still one of them."""
    assert [item.comparison.numbers for item in wide.estimates] == [3, 3, 3]
    assert wide.expect(fbar.mean("a")).comparison.numbers == 3
    assert {item.comparison.numbers for item in wide.expect([VECTOR, LONG])} == {10}


def test_the_posterior_is_estimated_once_and_only_when_it_is_asked_for(monkeypatch):
    calls = []
    found = Reference.posterior.func

    def counted(reference):
        calls.append(reference)
        return found(reference)

    monkeypatch.setattr(Reference.posterior, "func", counted)
    result = fbar.infer(problem(), TARGETS, method="rejection", tolerance=2.5, budget=1000, seed=2)
    assert result["mean:a"].value < 1
    assert result.estimates["mean:a"].trusted
    assert not calls
    assert str(result)
    assert result.as_dict()
    assert result.expect(fbar.mean("b")).reliability
    assert len(calls) == 1


def test_events_and_exact_matching_are_about_the_posterior():
    rule = fbar.Problem.bernoulli(fbar.Prior(a=stats.norm(0, 1)), lambda t: np.exp(-(t["a"] ** 2)))
    event = fbar.infer(rule, fbar.mean("a"), budget=500, seed=1)
    assert event.about == "about the posterior"
    counts = fbar.Problem(fbar.Prior(a=stats.uniform(1, 9)), lambda t, rng: rng.poisson(t["a"]), observed=4)
    exact = fbar.infer(counts, fbar.mean("a"), tolerance=0, budget=500, seed=1)
    assert exact.about == "about the posterior"
    assert exact["mean:a"].difference is exact.bias is None
    free = fbar.infer(counts, fbar.mean("a"), method="rejection", budget=500, seed=1)
    assert free.is_at_data
    assert free.at(0).about == "about the posterior"  # those that match exactly
    assert "tolerance" not in exact.as_dict()


# ---------------------------------------------------------------- an answer at the data


@pytest.mark.slow
def test_an_answer_at_the_data_says_so_and_how_much_of_its_error_is_bias(at_data, tmp_path):
    assert at_data.is_at_data
    assert at_data.tolerance is None
    estimate = at_data["mean:a"]
    assert estimate.about == "the posterior"
    assert estimate.reliability == "reliable"
    assert 0 < estimate.bias < estimate.standard_error
    assert f"the errors allow for bias of either sign: mean:a ±{estimate.bias:.2g}" in at_data.about
    printed = str(at_data)
    assert at_data.about in printed.splitlines()
    assert f"4,000 simulations, the {at_data.posterior.points.rows:,} nearest used; budget spent" in printed
    described = json.loads(json.dumps(at_data.as_dict()))
    assert described["at_data"] is True
    assert described["estimates"]["mean:a"]["bias"] == estimate.bias
    assert described["bias"]["mean:a"] == {"value": 0.0, "standard_error": estimate.bias}
    assert "difference" not in described["estimates"]["mean:a"]
    assert "\n".join(Account.recorded(described).lines()) == printed
    page = html.unescape(at_data.report(tmp_path / "report.html", predictive=0).read_text())
    assert "About the posterior, estimated at the data" in page
    assert "regression on the nearest" in page.partition('<section id="bandwidth">')[2].partition("</section>")[0]
    assert "accepted" not in page.partition('<section id="precision">')[0].partition("<h2>The answer</h2>")[2]


def test_summaries_are_named_where_they_are_what_is_conditioned_on():
    summed = problem(summary=lambda x: x.sum(axis=-1, keepdims=True))
    result = fbar.infer(summed, fbar.mean("a"), method="rejection", budget=1000, seed=1)
    assert result["mean:a"].about == "the posterior given the summaries"
    assert "about the posterior given the summaries, estimated at the data" in str(result)


def test_one_run_is_seen_at_a_tolerance_and_at_the_data(at_data, wide):
    other = at_data.at(2.5)
    assert other["mean:a"].value == wide["mean:a"].value  # the same simulations
    assert other["mean:a"].reliability == wide["mean:a"].reliability
    there = wide.at_data()
    assert isinstance(there.posterior, PosteriorAtData)
    assert [e.value for e in there.estimates] == pytest.approx([e.value for e in at_data.estimates])
    assert there.what == "at the data, from the same simulations"
    assert "--at-data" not in again(there)  # made from Python
    assert at_data.at_data() is at_data
    assert wide["mean:a"].difference.value == pytest.approx(wide["mean:a"].value - there["mean:a"].value)


def test_adjustment_and_extrapolation_need_a_tolerance(at_data):
    for way in (at_data.adjusted, at_data.extrapolated):
        with pytest.raises(fbar.InputError, match="so it has no tolerance; give one"):
            way()
    adjusted = at_data.adjusted(tolerance=1.0)["mean:a"]
    assert adjusted.about == "ABC's posterior at tolerance 1, adjusted by regression"
    assert at_data.at(1.0).adjusted()["mean:a"].value == adjusted.value
    assert "extrapolated to tolerance 0" in at_data.extrapolated(tolerance=1.0)["mean:a"].about


def test_the_curve_is_against_the_bandwidth(at_data):
    curve = at_data.curve()
    shares = [share for share, _ in curve]
    assert shares == sorted(shares, reverse=True)
    assert at_data.posterior.bandwidth in shares
    own = dict(curve)[at_data.posterior.bandwidth]
    assert own["mean:a"].value == at_data["mean:a"].value
    assert own["mean:a"].standard_error == at_data["mean:a"].standard_error
    errors = [estimates["mean:a"].standard_error for _, estimates in curve]
    assert max(errors) > 1.5 * errors[0]  # fewer simulations
    record = fbar.plot.Tolerance.of(at_data)
    assert record.against == "share of the simulations within the bandwidth"
    assert record.own == at_data.posterior.bandwidth
    assert [band.name for band in record.bands] == [target.name for target in TARGETS]
    assert at_data.curve(tolerances=[2.5])[0][1]["mean:a"].value == at_data.at(2.5)["mean:a"].value


def test_an_explanation_at_the_data(at_data):
    found = at_data.explain("mean:a")
    assert found.regression is not None
    share = (at_data["mean:a"].bias / at_data["mean:a"].standard_error) ** 2
    assert found.regression.bias == pytest.approx(share)
    assert found.regression.bandwidth == at_data.posterior.bandwidth <= found.regression.region
    assert found.carriers.what == "simulations near the data"
    assert sum(region.variance for region in found.regions) == pytest.approx(1)
    words = str(found)
    assert "regression on the nearest" in words
    assert "possible bias" in words
    assert "accept" not in words
    assert "tolerance" not in words
    assert found.as_dict()["regression"]["order"] in (1, 2)


def test_an_explanation_at_a_tolerance_has_the_difference(wide):
    assert f"estimate minus posterior: {wide['mean:a'].difference}" in str(wide.explain("mean:a"))


# ---------------------------------------------------------------- the sample at the data


def bounded(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    mean = np.stack([theta["u"], theta["v"]], axis=1)
    return mean + np.array([0.3, 0.5]) * rng.standard_normal(mean.shape)


BOUNDED = fbar.Problem(fbar.Prior(u=stats.uniform(0, 1), v=stats.expon()), bounded, observed=np.array([0.95, 0.2]))


@pytest.mark.parametrize("asked", [problem(), BOUNDED], ids=["gaussian", "bounded"])
def test_the_sample_has_the_moments_that_are_printed(asked):
    """Its means and variances are within the printed standard errors; no point is outside the prior's support."""
    names = asked.prior.names
    targets = [make(name) for name in names for make in (fbar.mean, fbar.variance)]
    result = fbar.infer(asked, targets, method="rejection", budget=4000, seed=3)
    frame = result.to_pandas()
    weight = frame["weight"].to_numpy()
    assert weight.sum() == pytest.approx(1)
    assert (weight > 0).all()
    for name in names:
        x = frame[name].to_numpy()
        mean = weight @ x
        for kind, value in (("mean", mean), ("variance", weight @ (x - mean) ** 2)):
            estimate = result[f"{kind}:{name}"]
            assert abs(value - estimate.value) < estimate.standard_error
        low, high = {"u": (0, 1), "v": (0, np.inf)}.get(name, (-np.inf, np.inf))
        assert ((x >= low) & (x <= high)).all()
    assert result.predict(50).summaries.shape == (50, 2)


@pytest.mark.slow
def test_equally_weighted_draws_are_those_of_the_sample(at_data):
    pytest.importorskip("arviz")
    drawn = at_data.to_arviz().posterior["a"].to_numpy().ravel()
    points = at_data.posterior.points["a"]
    assert np.isin(drawn, points).all()
    assert abs(drawn.mean() - at_data["mean:a"].value) < 0.1
