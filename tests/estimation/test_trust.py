"""What is not an answer to what was asked is not called trusted."""

from __future__ import annotations

import html
import json

import numpy as np
import pytest
from scipy import stats

import fbar


def line():
    """θ ~ U(0, 10), seen through noise of 1."""
    return fbar.Problem(
        fbar.Prior(theta=stats.uniform(0, 10)),
        lambda t, rng: t["theta"] + rng.standard_normal(t.rows),
        observed=2.0,
    )


MEAN = fbar.mean("theta")


def told_everywhere(result, words, tmp_path=None):
    """The flag and its reason in the estimate, the text, JSON, later questions and the report."""
    assert not result["mean:theta"].trusted
    assert str(result).count(words) == 1
    assert "(unreliable)" in str(result)
    described = json.loads(json.dumps(result.as_dict()))
    assert described["estimates"]["mean:theta"]["trusted"] is False
    assert any(words in text for text in described["warnings"])
    assert not result.expect(fbar.probability("theta > 3")).trusted
    if tmp_path is None:
        return
    page = html.unescape(result.report(tmp_path / "report.html", predictive=0).read_text())
    assert "✓ trusted" not in page
    assert "unreliable" in page
    assert words[1:] in page


# ---------------------------------------------------------------- a tolerance that was not reached


FIRST = "reached: the run did not get beyond its first round, which accepts everything, so this is the prior"


@pytest.mark.parametrize(
    ("schedule", "budget", "words", "page"),
    [
        (fbar.QuantileSchedule(0.5, tolerance=0.1), 200, f"the requested tolerance 0.1 was not {FIRST}", True),
        (fbar.QuantileSchedule(0.5, tolerance=0.1), 250, f"the requested tolerance 0.1 was not {FIRST}", False),
        (
            (4, 2, 0.1),
            800,
            "the requested tolerance 0.1 was not reached: the estimates are those at the tolerance",
            False,
        ),
    ],
)
def test_smc_short_of_its_tolerance_is_not_trusted(schedule, budget, words, page, tmp_path):
    result = fbar.infer(line(), MEAN, method=fbar.SMC(schedule, accepted=200), budget=budget, seed=1)
    told_everywhere(result, words, tmp_path if page else None)


def test_smc_that_is_short_of_any_tolerance_has_a_doubt():
    """Where it has none to end at: of a run that is not about the posterior at the data."""
    run = fbar.SMC(accepted=200).start(line(), MEAN, 1, 350, at_data=False)
    fbar.drive(run)
    assert run.posterior().doubts == (f"no tolerance was {FIRST}",)
    assert not run.posterior().expect(MEAN).trusted


def test_smc_at_its_tolerance_is_trusted_and_one_without_a_last_tolerance_too():
    method = fbar.SMC((4, 2, 0.5), accepted=200)
    result = fbar.infer(line(), MEAN, method=method, budget=3000, seed=1)
    assert result["mean:theta"].trusted
    assert not result.warnings
    free = fbar.infer(line(), MEAN, method=fbar.SMC(accepted=200), budget=3000, seed=1)
    assert free["mean:theta"].trusted
    assert free["mean:theta"].about == "the posterior"
    assert free.about.startswith("about the posterior, estimated at the data")


def test_an_extension_that_reaches_the_tolerance_takes_the_doubt_back(tmp_path):
    method = fbar.SMC((4, 2, 0.5), accepted=200)
    short = fbar.infer(line(), MEAN, method=method, budget=500, seed=1, run=tmp_path / "run")
    assert not short["mean:theta"].trusted
    more = fbar.extend(tmp_path / "run", line(), budget=4000)
    assert more["mean:theta"].trusted
    assert not more.warnings


def test_a_larger_tolerance_that_is_asked_for_is_another_answer():
    result = fbar.infer(line(), MEAN, method=fbar.SMC((4, 2, 0.1), accepted=200), budget=800, seed=1)
    assert not result["mean:theta"].trusted
    assert result.at(2.0)["mean:theta"].trusted


# ---------------------------------------------------------------- a tolerance that accepts everything

EVERYTHING = (
    fbar.Rejection(tolerance=1e6),
    fbar.Importance(fbar.Prior(theta=stats.uniform(-1, 12)), tolerance=1e6),
    fbar.Importance("prior", scheme="sobol", tolerance=1e6),
    fbar.Importance("prior", estimator=fbar.DoublyRobust(), tolerance=1e6),
    fbar.SMC((1e6,), accepted=300),
    fbar.SMC((1e6, 1e5), accepted=300, weights="ess"),
    fbar.Targeted(tolerance=1e6),
    fbar.Rejection(tolerance=9, kernel="epanechnikov"),
)


@pytest.mark.parametrize("method", EVERYTHING, ids=lambda method: type(method).__name__)
def test_a_tolerance_that_accepts_all_is_not_trusted(method, tmp_path):
    problem = line()
    if method.final_tolerance == 9:  # a kernel whose weight is 1 − (Δ/9)²
        problem = fbar.Problem(problem.prior, lambda t, rng: rng.random(t.rows), observed=0.5)
    result = fbar.infer(problem, MEAN, method=method, budget=1024, seed=1)
    told_everywhere(
        result,
        "of the simulations from the prior, so the answer is almost the prior",
        tmp_path if method is EVERYTHING[0] else None,
    )


def test_on_a_finite_space_too():
    problem = fbar.Problem(
        fbar.Finite(theta=[1.0, 2.0, 3.0]), lambda t, rng: t["theta"] + rng.standard_normal(t.rows), observed=2.0
    )
    result = fbar.infer(problem, MEAN, method=fbar.Targeted(tolerance=50), budget=600, seed=1)
    assert not result["mean:theta"].trusted
    assert fbar.infer(problem, MEAN, method=fbar.Targeted(tolerance=1), budget=600, seed=1)["mean:theta"].trusted


def test_likely_data_without_a_tolerance_are_trusted():
    """An event of probability 0.95, and exact matches: there is no tolerance to be lowered."""
    event = fbar.Problem.bernoulli(fbar.Prior(theta=stats.uniform()), lambda t: 0.9 + 0.1 * t["theta"])
    assert fbar.infer(event, MEAN, method="rejection", budget=2000, seed=1)["mean:theta"].trusted
    match = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0.9, 0.1)), lambda t, rng: (rng.random(t.rows) < t["theta"]) * 1, observed=1
    )
    assert fbar.infer(match, MEAN, method="rejection", budget=2000, seed=1)["mean:theta"].trusted


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_no_probability_moves_by_more_than_the_share_that_is_rejected(share):
    """|P(A|x*) − P(A)| ≤ 1 − Z for any A and L ≤ 1; reached where L is 0 or 1."""
    rng = np.random.default_rng(1)
    prior = np.full(2000, 1 / 2000)
    for _ in range(50):
        acceptance = np.minimum(1.0, rng.random(2000) ** rng.uniform(0, 3) / rng.uniform(0.05, 1))
        z = prior @ acceptance
        apart = np.maximum(prior * acceptance / z - prior, 0).sum()
        assert apart <= 1 - z + 1e-12
    indicator = (np.arange(2000) < share * 2000).astype(float)
    assert np.maximum(prior * indicator / share - prior, 0).sum() == pytest.approx(1 - share)
