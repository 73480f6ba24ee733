"""A summary function that loses information is reported with the answer, however the simulations were run."""

from __future__ import annotations

import html
import json

import numpy as np
import pytest
from scipy import stats

import fbar

OBSERVED = np.random.default_rng(3).normal(1, 2, 20)
PRIOR = fbar.Prior(mu=stats.norm(0, 3), sigma=stats.uniform(0.5, 4))
TARGETS = [fbar.mean("mu"), fbar.mean("sigma")]
LOSES = "the summaries lose information: the raw data predict more out of fold (of the remaining variance: sigma "


def simulate(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    return theta["mu"][:, None] + theta["sigma"][:, None] * rng.standard_normal((theta.rows, 20))


def median(x: np.ndarray) -> np.ndarray:
    return np.median(x, axis=1)  # one number, not a row of one


def mean_and_deviation(x: np.ndarray) -> np.ndarray:
    return np.stack([x.mean(axis=1), x.std(axis=1)], axis=1)


def problem(summary, simulate=simulate, observed=OBSERVED) -> fbar.Problem:
    return fbar.Problem(PRIOR, simulate, observed, summary=summary)


def infer(asked: fbar.Problem, **others) -> fbar.Result:
    return fbar.infer(asked, TARGETS, method="rejection", budget=1500, seed=1, progress=False, **others)


@pytest.fixture(scope="module")
def lossy() -> fbar.Result:
    return infer(problem(median))


def test_a_loss_is_reported_everywhere(lossy, tmp_path):
    (remark,) = lossy.all_remarks
    assert remark.startswith(LOSES)
    assert remark.endswith("leave summary= out to have summaries learned, or add to it")
    assert lossy.summary_loss.losses["sigma"] > 0.5
    assert remark in str(lossy).splitlines()
    assert json.loads(json.dumps(lossy.as_dict()))["remarks"] == [remark]
    page = html.unescape(lossy.report(tmp_path / "r.html", predictive=0).read_text())
    assert remark[1:] in page
    assert "! biased" in page


def test_estimates_that_the_loss_may_shift_by_more_than_their_error_bar_are_biased(lossy):
    sigma = lossy["mean:sigma"]
    assert sigma.trusted  # for the posterior given the summaries
    assert sigma.reliability == "biased"
    assert sigma.difference is None  # its size is known and not its sign
    assert "(biased)" in str(sigma)
    assert any("may shift" in text and "mean:sigma" in text for text in lossy.warnings)
    assert lossy.expect(fbar.quantile("sigma", 0.9)).reliability == "biased"
    both = lossy.expect(fbar.expectation(lambda t: np.stack([t["sigma"], 0 * t["mu"]], axis=1), name="b", vector=True))
    assert [both.component(k).reliability for k in (0, 1)] != ["biased", "biased"]


def test_sufficient_summaries_are_not_blamed():
    found = infer(problem(mean_and_deviation))
    assert found.all_remarks == ()
    assert found.summary_loss is not None
    assert found.summary_loss.losses == {}
    assert {estimate.reliability for estimate in found.estimates} == {"reliable"}


def test_without_a_summary_function_nothing_is_kept():
    asked = fbar.Problem(PRIOR, simulate, OBSERVED)
    run = fbar.Rejection().start(asked, TARGETS, seed=1, budget=500)
    while batches := run.ask():
        run.tell(*((batch, fbar.simulate(asked, batch)) for batch in batches))
    assert len(run.raw_numbers) == 0


@pytest.mark.slow
def test_worker_processes_and_records_give_the_same(lossy, tmp_path):
    several = infer(problem(median), workers=2, run=tmp_path / "run")
    assert str(several) == str(lossy)
    again = fbar.load(tmp_path / "run", problem(median))
    assert str(again) == str(lossy)
    assert again.summary_loss.losses == lossy.summary_loss.losses


def test_the_default_method_reports_a_loss_too():
    found = fbar.infer(problem(median), TARGETS, budget=1000, seed=1, progress=False)
    assert any(text.startswith(LOSES) for text in found.all_remarks)


def test_simulations_one_by_one_with_failures():
    def one(theta, rng):
        if rng.random() < 0.1:
            raise ValueError("unlucky")
        return theta["mu"] + theta["sigma"] * rng.standard_normal(20)

    found = infer(problem(median, fbar.each(one)))
    assert any(text.startswith(LOSES) for text in found.all_remarks)


def test_a_simulator_that_fails_for_whole_blocks():
    def fails(theta, rng):
        x = simulate(theta, rng)
        if x[:, 0].max() > 14:
            raise ValueError("too large")
        return x

    assert "mean:mu" in str(infer(problem(median, fails)))


# ---------------------------------------------------------------- where nothing can be detected


def ragged(theta, rng):
    return theta["mu"] + theta["sigma"] * rng.standard_normal(int(rng.integers(15, 25)))


def labels(theta, rng):
    x = theta["mu"][:, None] + theta["sigma"][:, None] * rng.standard_normal((theta.rows, 6))
    return np.where(x > 0, "up", "down")


def share_up(x: np.ndarray) -> np.ndarray:
    return (x == "up").mean(axis=1)


def with_gaps(theta, rng):
    x = simulate(theta, rng)
    x[:, 0] = np.nan
    return x


def median_of_the_rest(x: np.ndarray) -> np.ndarray:
    return np.nanmedian(x, axis=1)


@pytest.mark.parametrize(
    "asked",
    [
        problem(median, fbar.each(ragged)),
        problem(share_up, labels, np.array(["up", "down", "up", "up", "up", "down"])),
        problem(median_of_the_rest, with_gaps),
    ],
    ids=["ragged", "labels", "gaps"],
)
def test_raw_data_that_are_no_table_of_numbers_are_not_reported_on(asked):
    found = infer(asked)
    assert found.summary_loss is None
    assert found.all_remarks == ()
    assert "mean:mu" in str(found)


def test_outcomes_that_a_user_makes_keep_nothing():
    asked = problem(median)
    run = fbar.Rejection().start(asked, TARGETS, seed=1, budget=600)
    while batches := run.ask():
        run.tell(*((batch, asked.outcomes(simulate(batch.theta, batch.rng()), batch.simulations)) for batch in batches))
    assert len(run.raw_numbers) == 0
