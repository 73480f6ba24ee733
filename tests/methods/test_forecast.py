"""Forecasts of what a precision will take: closed forms, real runs, rules joined, and where they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import accumulate

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import problems
from fbar.cli import app
from fbar.methods.forecasts import MOST, Forecast, brief, until_count, until_error
from fbar.methods.stopping import AcceptedCount, Budget, RelativeError, StandardError
from fbar.methods.total_error import Decline

COIN = fbar.Problem.tabulated(fbar.Finite(theta=[0, 1]), [0.1, 0.3])
"""P(θ = 1|x*) = 3/4 and p(x*) = 1/5: with draws from the prior N V = P(1 − P)/p(x*) = 15/16."""

NOISY = fbar.Problem(
    fbar.Prior(theta=stats.uniform(-5, 10)),
    lambda theta, rng: theta["theta"] + 0.5 * rng.standard_normal(theta.rows),
    observed=1.0,
)


def ended(problem, method, budget, target=None, seed=1):
    run = method.start(problem, target or fbar.mean("theta"), seed=seed, budget=budget)
    fbar.drive(run)
    return run


def test_rejection_on_a_coin_needs_what_the_binomial_distribution_says():
    """1000 runs: the mean forecast within 4.5 of its errors of 15/16/wanted² − N, the interval right in 80% of them.

    An interval with half or twice the degrees of freedom would hold in 93% or 63%, eight errors from 80%.
    """
    n, wanted, runs = 1000, 0.01, 1000
    needed = 15 / 16 / wanted**2 - n
    run = fbar.Rejection().start(COIN, fbar.mean("theta"), seed=1, budget=n, trials=runs)
    fbar.drive(run)
    posterior = run.posterior()
    bars = posterior.expect(fbar.mean("theta"))
    assert run.forecast(fbar.mean("theta"), wanted) is None  # of many trials at once
    found = [
        until_error(lambda more, v=v: np.array([v * n / (n + more)]), wanted, df, n)
        for v, df in zip(bars.variance, bars.df, strict=True)
    ]
    for one, variance in zip(found, bars.variance, strict=True):
        assert one.more == pytest.approx(n * (variance / wanted**2 - 1), rel=2e-4)
        assert one.at == n
    mean = np.array([one.more for one in found])
    error = mean.std() / math.sqrt(runs)
    assert error < 0.01 * needed
    assert abs(mean.mean() - needed) < 4.5 * error
    held = np.mean([one.low <= needed <= one.high for one in found])
    assert abs(held - 0.8) < 4.5 * math.sqrt(0.8 * 0.2 / runs)


@pytest.mark.slow
def test_the_larger_run_has_the_halved_error():
    """24 pairs of SMC runs: one forecasts what halving takes, another runs that many. V̂ falls to a quarter on average.

    The first has done one round at the last tolerance. Most of its simulations were on the way there, from a prior that
    is 300 times as wide as the posterior, and those to come are worth more: "three times as many more", as V̂ ∝ 1/N has
    it, would be twice what is needed and lower the mean logarithm by over 0.4.
    """
    wide = fbar.Problem(fbar.Prior(theta=stats.uniform(-300, 600)), NOISY.simulate, observed=1.0)
    method, ratio, cost = fbar.SMC([50, 10, 2, 0.5], accepted=100), [], []
    for seed in range(24):
        run = method.start(wide, fbar.mean("theta"), seed=seed, limit=10**6)
        while not run.at_final_tolerance:
            run.tell(*((batch, fbar.simulate(wide, batch)) for batch in run.ask()))
        wanted = run.posterior().expect(fbar.mean("theta")).standard_error / 2
        found = run.forecast(fbar.mean("theta"), wanted)
        assert found.low < found.more < found.high
        whole = ended(wide, method, run.simulations + found.more, seed=seed + 500)
        ratio.append(math.log(whole.posterior().expect(fbar.mean("theta")).variance / wanted**2))
        cost.append(found.more / (3 * run.simulations))
    error = np.std(ratio) / math.sqrt(24)
    assert error < 0.08
    assert abs(np.mean(ratio)) < 4.5 * error
    assert np.mean(cost) < 0.5


def test_adaptive_allocation_forecasts_what_its_plan_gives():
    """After one round by the prior most of the error is at one value: the plan goes there, and needs less.

    What halving takes by that plan, against what the run has after so many. N V̂ would say five times as many.
    """
    values = fbar.Finite(theta=[0, 1, 10], probabilities=[0.45, 0.45, 0.1])
    problem = fbar.Problem.tabulated(values, [0.5, 0.5, 0.5])
    method, ratios, costs = fbar.AdaptiveAllocation(rounds=1), [], []
    for seed in range(60):
        run = ended(problem, method, 2000, seed=seed)
        wanted = run.posterior().expect(fbar.mean("theta")).standard_error / 2
        found = run.forecast(fbar.mean("theta"), wanted)
        costs.append(found.more / (3 * run.simulations))
        run.extend(budget=run.simulations + found.more)
        fbar.drive(run)
        ratios.append(math.log(run.posterior().expect(fbar.mean("theta")).variance / wanted**2))
    error = np.std(ratios) / math.sqrt(60)
    assert error < 0.03
    assert abs(np.mean(ratios)) < 4.5 * error
    assert np.mean(costs) < 0.25


def test_what_is_a_guess_may_turn_out_to_be_nothing():
    """A value that never matched has a careful part in the error bar; the lower end is what the rest alone takes."""
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[0, 1, 20]), [0.3, 0.3, 0.0])
    run = ended(problem, fbar.Rejection(), 1000)
    posterior = run.posterior()
    estimate = posterior.expect(fbar.mean("theta"))
    square = (posterior.weights * (posterior.points["theta"] - estimate.value) ** 2).sum()
    plain = square / posterior.accepted * 1000 / 999  # P(1 − P)/accepted
    assert plain < 0.5 * estimate.variance
    found, wanted = run.forecast(fbar.mean("theta"), 0.005), 0.005**2
    assert found.more == pytest.approx(1000 * (estimate.variance / wanted - 1), rel=2e-4)
    at_best = plain * estimate.df / stats.chi2.ppf(0.9, estimate.df)
    assert found.low == pytest.approx(1000 * (at_best / wanted - 1), rel=2e-4)


def half_more(simulations: int, readings: int) -> list[int]:
    """Simulations at the readings of a run whose rounds add half of what is there."""
    return list(accumulate(range(readings - 1), lambda n, _: n + n // 2, initial=simulations))


def declines(count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """log(e²) at 40 readings: walks of different roughness, whose rates differ, seen with noise."""
    for _ in range(count):
        rate, rough = max(rng.normal(0.9, 0.35), 0.1), math.exp(0.6 * rng.standard_normal())
        step = math.log(1.5)
        moves = 0.75 * rough * math.sqrt(step) * rng.standard_normal(40) - rate * step
        yield np.cumsum(moves) + 0.3 * rough * rng.standard_normal(40)


def test_an_error_that_falls_in_leaps_is_forecast_with_an_interval_that_holds_as_often_as_it_says():
    """400 declines, wanted: 0.6 of the error at the seventh reading. The first that has it is within the 80% interval.

    Four standard errors of 400 are 8%. The middle is too small about as often as too large.
    """
    held, below, width = [], [], []
    sizes = half_more(1000, 40)
    for error in declines(400, np.random.default_rng(1)):
        wanted = error[6] + 2 * math.log(0.6)
        needed = next((n for n, e in zip(sizes[7:], error[7:], strict=True) if e <= wanted), math.inf)
        found = Decline.of(sizes[:7], error[:7] - wanted).forecast()
        assert found.at == sizes[6]
        assert {found.at + n for n in (found.low, found.more, found.high)} <= {*half_more(1000, 80), found.at + MOST}
        held.append(found.at + found.low <= needed <= found.at + found.high)
        below.append((found.at + found.more < needed) + (found.at + found.more == needed) / 2)
        width.append((found.at + found.high) / (found.at + found.low))
    assert abs(np.mean(held) - 0.8) < 4 * math.sqrt(0.8 * 0.2 / 400)
    assert abs(np.mean(below) - 0.5) < 4 * math.sqrt(0.25 / 400)
    assert np.median(width) < 10


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_an_error_that_falls_steadily_is_forecast_too(rate):
    """100 smooth declines at some rate: the 80% interval holds at least about so often, within a factor of 10."""
    rng, held, width = np.random.default_rng(1), [], []
    sizes = half_more(1000, 30)
    for _ in range(100):
        error = -rate * np.log(np.array(sizes) / sizes[6]) + 0.1 * rng.standard_normal(30)
        wanted = error[6] + 2 * math.log(0.6)
        needed = next(n for n, e in zip(sizes[7:], error[7:], strict=True) if e <= wanted)
        found = Decline.of(sizes[:7], error[:7] - wanted).forecast()
        held.append(found.at + found.low <= needed <= found.at + found.high)
        width.append((found.at + found.high) / (found.at + found.low))
    assert np.mean(held) > 0.8 - 4 * math.sqrt(0.8 * 0.2 / 100)
    assert np.median(width) < 10


def test_between_readings_the_next_one_may_be_the_end():
    between = Decline.of([1000, 1500, 2250, 2500], [2.0, 1.5, 1.0, 0.2], read=2250)
    assert between.readings[:3] == (2500, 3375, 5062)
    assert between.forecast().low == 875
    at_once = Decline.of([1000, 1500, 2250], [2.0, 1.5, 0.2])
    assert at_once.readings[:3] == (2250, 3375, 5062)
    assert at_once.reached_within(3374) == 0
    assert 0 < at_once.reached_within(3375) < at_once.reached_within(10_000) < 1


def test_a_decline_that_is_there_needs_nothing_and_one_that_stays_has_no_end():
    sizes = [1000, 2000, 4000, 8000, 16_000]
    assert Decline.of(sizes, [3.0, 2.0, 1.0, 0.5, -0.1]).forecast() == Forecast(0, 0, 0, 16_000)
    falling = Decline.of(sizes, [4.0, 3.3, 2.6, 1.9, 1.2])
    flat = Decline.of(sizes, [1.2] * 5)
    assert falling.stuck < 0.05 < 0.4 < flat.stuck
    assert falling.forecast().high < flat.forecast().high
    assert str(Decline.of(sizes, [60.0] * 5).forecast()) == "more simulations than can be forecast"
    assert str(Forecast(10**15, 9871, 10**15, 1000)) == "at least 9,900 more simulations"
    assert str(Forecast(12_345, 9871, 10**15, 1000)) == "about 12,000 more simulations (at least 9,900)"
    assert Decline.of(sizes, [60.0] * 5).reached_within(10**12) == 0
    only = Decline.of([1000], [math.log(4)]).forecast()  # half the error: three times as many more, if like 1/N
    assert only.low < 3000 < only.high


def test_rules_joined():
    run = ended(COIN, fbar.Rejection(), 1000)
    variance = run.posterior().expect(fbar.mean("theta")).variance
    fine, coarse = StandardError("mean:theta", 0.002), StandardError("mean:theta", 0.005)
    more = {rule: rule.forecast(run) for rule in (fine, coarse)}
    assert more[fine].more == pytest.approx(1000 * (variance / 0.002**2 - 1), rel=2e-4)
    assert (fine & coarse).forecast(run) == more[fine]
    assert (fine | coarse).forecast(run) == more[coarse]
    assert Budget(1500).forecast(run) == Forecast(500, 500, 500, 1000)
    assert (fine | Budget(1500)).forecast(run) == Forecast(500, 500, 500, 1000)
    assert Budget(500).forecast(run).more == 0
    relative = RelativeError("mean:theta", 0.01)
    wanted = 0.01 * run.posterior().expect(fbar.mean("theta")).value
    assert relative.forecast(run) == StandardError("mean:theta", wanted).forecast(run)
    accepted = run.posterior().accepted
    assert AcceptedCount(1000).forecast(run).more == math.ceil((1000 - accepted) * 1000 / accepted)
    assert fine.missing(run) == {"mean:theta": more[fine]}
    assert StandardError("mean:theta", 1.0).missing(run) == {}
    assert (fine | Budget(1000)).missing(run) == {}


def test_nothing_is_said_before_there_is_an_estimate():
    rule = StandardError("mean:theta", 0.01)
    fresh = fbar.Rejection().start(COIN, fbar.mean("theta"), seed=1, limit=1000)
    assert rule.forecast(fresh) is None
    assert (rule & Budget(100)).forecast(fresh) is None
    assert (rule | Budget(100)).forecast(fresh).more == 100
    descending = fbar.SMC([2, 0.5, 0.1], accepted=50).start(NOISY, fbar.mean("theta"), seed=1, limit=10_000)
    while descending.round < 2:
        descending.tell(*((batch, fbar.simulate(NOISY, batch)) for batch in descending.ask()))
    assert rule.forecast(descending) is None  # its tolerance is still falling


def test_a_rare_side_is_waited_for():
    """A probability needs 10 effective acceptances on each side, whatever its error bar says."""
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[0, 1], probabilities=[0.99, 0.01]), [0.5, 0.5])
    target = fbar.probability("theta == 1")
    run = ended(problem, fbar.Rejection(), 1000, target)
    posterior = run.posterior()
    rarer = posterior.expect(target).value * posterior.ess
    assert 0 < rarer < 10
    found = StandardError(target.name, 0.5).forecast(run)
    assert found.more == math.ceil((10 - rarer) * 1000 / rarer)


def test_counts_until():
    assert until_count(60, 50, 100) == Forecast(0, 0, 0, 100)
    assert until_count(0, 50, 100) is None
    found = until_count(25, 50, 1000)
    assert found.more == 1000
    assert found.low < 1000 < found.high
    # Exact Poisson limits: 25 or fewer events have the probability 10% at the highest rate, 25 or more at the lowest
    assert stats.poisson.cdf(24, 1000 * 25 / found.low) == pytest.approx(0.1, abs=0.01)
    assert stats.poisson.sf(24, 1000 * 25 / found.high) == pytest.approx(0.1, abs=0.01)


def test_words():
    assert [brief(n) for n in (0, 7, 99, 104, 12_345, 999_999)] == ["0", "7", "99", "100", "12,000", "1,000,000"]


def test_a_run_says_what_is_left_after_every_round_and_what_it_lacked(tmp_path, capsys):
    """Each round's forecast of the same run, made from more and more of it, comes to the number that was needed."""
    seen = []

    def watch(run):
        seen.append((run.simulations, run.expected))

    asked = {"method": "rejection", "precision": {"theta": 0.004}, "seed": 1}
    problem = problems.load("ramp")
    result = fbar.infer(problem, fbar.mean("theta"), progress=watch, **asked)
    assert result.missing == {}
    assert seen[0][1] is None  # before the end of the first round
    ends = {expected.at: expected for _, expected in seen if expected is not None}
    assert len(ends) > 3
    needed = 1 / 9 / 0.004**2
    for at, expected in ends.items():
        assert at + expected.more == pytest.approx(needed, rel=4.5 * math.sqrt(2 / (at / 2)))
    short = fbar.infer(problem, fbar.mean("theta"), budget=2000, run=tmp_path / "short", progress=False, **asked)
    assert short.stopped_by == "budget spent; stopping rule not met"
    (name, found), *_ = short.missing.items()
    assert 2000 + found.more == pytest.approx(needed, rel=4.5 * math.sqrt(2 / 1000))
    assert found == short.forecast({"theta": 0.004}) == short.run.forecast(fbar.mean("theta"), 0.004)
    assert f"{name} needs {found}" in str(short)
    assert short.as_dict()["missing"] == {"mean:theta": {"more": found.more, "low": found.low, "high": found.high}}
    app(["show", str(tmp_path / "short")], exit_on_error=False, print_error=False, result_action="return_value")
    assert f"mean:theta needs {found}" in capsys.readouterr().out
    app(
        ["show", str(tmp_path / "short"), "--json"],
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    assert json.loads(capsys.readouterr().out)["legs"][0]["result"]["missing"] == short.as_dict()["missing"]
