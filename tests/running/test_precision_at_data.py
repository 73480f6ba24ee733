"""Runs at the data that end at a wanted precision: of the total error, at the same simulation however they are run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.errors import InputError
from fbar.estimation.at_data import AtData
from fbar.methods.history import Moment
from fbar.methods.stopping import AcceptedCount, Budget, StandardError

THETA = fbar.mean("theta")
SOURCE = """
from scipy import stats
import fbar


def simulate(theta, rng):
    return theta["theta"] + rng.standard_normal(theta.rows)


problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 2)), simulate, observed=1.0)
targets = [fbar.mean("theta")]
"""


def simulate(theta, rng):
    return theta["theta"] + rng.standard_normal(theta.rows)


def noisy() -> fbar.Problem:
    """θ ~ N(0, 2²) seen with noise 1 at 1: the posterior is N(0.8, 0.8)."""
    return fbar.Problem(fbar.Prior(theta=stats.norm(0, 2)), simulate, observed=1.0)


@dataclass(frozen=True)
class GivesUp(StandardError):
    """As if the bias had been found to stay after some simulations."""

    after: int = 2000

    def hopeless(self, run: fbar.Run) -> str:
        return f"{self} will not be reached" if run.simulations >= self.after else ""


def test_without_a_budget_it_ends_when_the_total_error_is_the_wanted_one(monkeypatch) -> None:
    made = []
    whole = AtData.posterior

    def counted(self, simulations):
        made.append(len(simulations))
        return whole(self, simulations)

    monkeypatch.setattr(AtData, "posterior", counted)
    result = fbar.infer(noisy(), THETA, precision={"theta": 0.06}, seed=1, progress=False)
    estimate = result["theta"]
    assert result.stopped_by == "stopping rule met"
    assert estimate.about == "the posterior"
    assert 0 < estimate.bias < estimate.standard_error <= 0.06
    assert abs(estimate.value - 0.8) < 4 * estimate.standard_error
    assert result.simulations < 100_000
    # estimates from all simulations are few: where the provisional ones were nearly good enough, and at the end
    assert len(made) <= 4
    assert made[-1] == result.simulations
    assert estimate.standard_error == result.posterior.expect(THETA).standard_error  # not the provisional one


COUNTS = fbar.Problem(
    fbar.Prior(rate=stats.gamma(2)), lambda t, rng: rng.poisson(t["rate"]).astype(np.int64), observed=2
)


@pytest.mark.parametrize("method", [None, fbar.Rejection(), fbar.Importance()], ids=["default", "rejection", "q"])
def test_a_precision_of_whole_numbers_is_reached_at_the_data(method) -> None:
    result = fbar.infer(COUNTS, fbar.mean("rate"), method=method, precision={"rate": 0.06}, seed=1, progress=False)
    assert result.is_at_data
    assert result["rate"].standard_error <= 0.06
    assert abs(result["rate"].value - 2.0) < 4 * 0.06  # Gamma(4, 2)


def test_at_tolerance_0_whole_numbers_are_matched_exactly() -> None:
    result = fbar.infer(COUNTS, fbar.mean("rate"), tolerance=0, precision={"rate": 0.06}, seed=1, progress=False)
    assert not result.is_at_data
    assert result["rate"].standard_error <= 0.06
    assert abs(result["rate"].value - 2.0) < 4 * 0.06
    chosen = fbar.Targeted(tolerance="chosen")  # without a budget there is nothing to choose it from
    again = fbar.infer(COUNTS, fbar.mean("rate"), method=chosen, precision={"rate": 0.06}, seed=1, progress=False)
    assert again["rate"].value == result["rate"].value


class Stop(Exception):
    """As if the machine had been switched off."""


def test_it_ends_at_the_same_simulation_interrupted_or_not_and_with_any_workers(tmp_path: Path) -> None:
    asked = {"precision": {"theta": 0.075}, "seed": 3, "block_size": 500}
    plain = fbar.infer(noisy(), THETA, progress=False, **asked)
    assert len(plain.history) > 2

    def cut(run: fbar.Run) -> None:
        if run.simulations > plain.simulations // 2:
            raise Stop

    with pytest.raises(Stop):
        fbar.infer(noisy(), THETA, progress=cut, run=tmp_path / "run", **asked)
    resumed = fbar.infer(noisy(), THETA, progress=False, run=tmp_path / "run", **asked)
    loaded = fbar.load(tmp_path / "run", noisy())
    several = fbar.infer(noisy(), THETA, progress=False, workers=2, **asked)
    for other in (resumed, loaded, several):
        assert other.simulations == plain.simulations
        assert other["theta"].value == plain["theta"].value
        assert other["theta"].standard_error == plain["theta"].standard_error
        assert [m.simulations for m in other.history] == [m.simulations for m in plain.history]
    wanted = 0.95 * float(plain["theta"].standard_error)
    more = fbar.extend(tmp_path / "run", noisy(), precision={"theta": wanted})
    assert more["theta"].standard_error <= wanted
    assert more.simulations > plain.simulations
    again = fbar.load(tmp_path / "run", noisy())
    assert (again.simulations, again["theta"].value) == (more.simulations, more["theta"].value)


def test_from_the_command_line(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SOURCE)

    def command(*words: str) -> dict[str, float]:
        app([*words, "--json"], exit_on_error=False, print_error=False, result_action="return_value")
        return json.loads(capsys.readouterr().out)["estimates"]["mean:theta"]

    first = command("infer", "model.py", "--precision", "theta=0.08", "--seed", "1", "--run", "run")
    assert first["standard_error"] <= 0.08
    more = command("extend", "run", "--precision", "theta=0.07")
    assert more["standard_error"] <= 0.07


def test_moments_are_kept_at_round_ends_with_bias_and_cost_no_estimate_from_all(monkeypatch) -> None:
    calls = []
    whole = AtData.posterior

    def counted(self, simulations):
        calls.append(len(simulations))
        return whole(self, simulations)

    monkeypatch.setattr(AtData, "posterior", counted)
    result = fbar.infer(noisy(), THETA, budget=4000, seed=1, progress=False)
    assert calls == [4000]
    sizes = [m.simulations for m in result.history]
    assert sizes == sorted(set(sizes))
    assert sizes[0] < 1000
    assert sizes[-1] == 4000
    errors = [float(m.estimates["theta"].standard_error) for m in result.history]
    assert errors[-1] < errors[0]
    assert all(m.estimates["theta"].bias > 0 for m in result.history)
    assert result.history[-1].estimates["theta"].value == result["theta"].value


def test_a_number_of_acceptances_is_refused_with_what_to_give() -> None:
    with pytest.raises(InputError, match=r"accepts no simulations.*give a precision or a budget, or a tolerance"):
        fbar.infer(noisy(), THETA, stop=AcceptedCount(100), seed=1)
    at = fbar.infer(noisy(), THETA, stop=AcceptedCount(100), tolerance=0.2, seed=1, progress=False)
    assert at.accepted >= 100


def moments(run: fbar.Run, error, bias) -> None:
    """Give a run a history whose errors and biases are functions of the simulations."""
    last = run.history[-1]
    estimate = last.estimates["theta"]
    run.history.clear()
    for n in (2000, 3000, 4500, 6750, 10_000, 15_000, 22_500, last.simulations):
        at = replace(estimate, standard_error=error(n), bias=bias(n))
        estimates = fbar.Estimates((at,), np.array([[error(n) ** 2]]), (slice(0, 1),))
        run.history.append(replace(last, simulations=n, estimates=estimates))


def test_it_gives_up_only_where_bias_stays() -> None:
    run = fbar.Rejection().start(noisy(), THETA, seed=1, limit=30_000)
    fbar.drive(run, history=False)
    estimates = AtData().posterior(run.all_simulations().take(np.arange(0, 30_000, 10))).expect([THETA])
    run.history.append(Moment(30_000, run.round, None, 0.0, None, estimates))
    run.limit = 10_000_000
    wanted = StandardError("mean:theta", 0.01)
    moments(run, lambda n: 0.2, lambda n: 0.19)
    why = wanted.hopeless(run)
    assert "mean:theta ± 0.01 will not be reached: 0.19 of the error 0.2 is bias" in why
    assert "fewer or learned summaries" in why
    assert (wanted & Budget(1000)).hopeless(run) == why
    assert (wanted | Budget(50_000)).hopeless(run) == ""  # the budget ends it
    assert (wanted | StandardError("mean:theta", 0.005)).hopeless(run)
    assert StandardError("mean:theta", 0.19).hopeless(run) == ""  # nearly there
    moments(run, lambda n: 0.2, lambda n: 0.05)
    assert wanted.hopeless(run) == ""  # variance, which will fall
    moments(run, lambda n: 0.2 * (n / 2000) ** -0.25, lambda n: 0.19 * (n / 2000) ** -0.25)
    assert wanted.hopeless(run) == ""  # like the square root of 1/N in the squared error: slow, but it falls
    run.history[:] = run.history[-3:]
    assert wanted.hopeless(run) == ""  # too early to say


def test_a_run_whose_bias_stays_ends_and_its_result_has_the_reason() -> None:
    result = fbar.infer(noisy(), THETA, stop=GivesUp("mean:theta", 1e-6), seed=1, progress=False)
    assert result.stopped_by == "more simulations will not help; stopping rule not met"
    assert 2000 <= result.simulations < 4000
    assert "mean:theta ± 1e-06 will not be reached" in result.warnings
    at = fbar.infer(noisy(), THETA, stop=GivesUp("mean:theta", 0.02), tolerance=0.5, seed=1, progress=False)
    assert at.stopped_by == "stopping rule met"  # at a tolerance the error has no bias in it


def scaled(theta, rng):
    return np.exp(theta["theta"])[:, None] * rng.standard_normal((theta.rows, 12))


def test_a_run_with_too_many_summaries_gives_up_and_what_it_advises_helps() -> None:
    """Twelve numbers that show how large θ is only by their squares: regressions on them do not see it.

    The wanted error is far less than a hundredth of theirs. When such an error is known to stay depends on the seed.
    """
    prior, observed = fbar.Prior(theta=stats.norm(0, 1)), 1.5 * np.sin(1 + 3 * np.arange(12))
    many = fbar.Problem(prior, scaled, observed=observed, summary=lambda data: data)

    def ended(seed: int) -> fbar.Result:
        return fbar.infer(many, THETA, precision={"theta": 0.003}, budget=60_000, seed=seed, progress=False)

    gave_up = "more simulations will not help; stopping rule not met"
    result = next(one for one in map(ended, (3, 1, 2)) if one.stopped_by == gave_up)
    assert 8000 <= result.simulations < 60_000
    assert not result["theta"].trusted
    (why,) = (one for one in result.warnings if "mean:theta ± 0.003 will not be reached" in one)
    assert "learned summaries" in why
    assert result.forecast({"theta": 0.5}) is None  # it is not known when an estimate becomes reliable
    assert result.missing == {}
    unsummarised = fbar.Problem(prior, scaled, observed=observed)
    learned = fbar.infer(unsummarised, THETA, budget=2000, seed=3, progress=False)
    assert learned["theta"].standard_error < 0.2 < 0.5 < result["theta"].standard_error
    assert abs(learned["theta"].value - math.log(np.sqrt(np.mean(observed**2)))) < 0.3


def test_forecasts_while_it_runs_and_of_a_result() -> None:
    seen = []

    def watch(run: fbar.Run) -> None:
        if run.expected is not None and (not seen or seen[-1] != run.expected):
            seen.append(run.expected)

    result = fbar.infer(noisy(), THETA, precision={"theta": 0.045}, seed=2, progress=watch)
    assert seen
    assert all(one.low <= one.more <= one.high for one in seen)
    found = result.forecast({"theta": float(result["theta"].standard_error) / 2})
    assert found is not None
    assert result.simulations / 2 < found.more < 100 * result.simulations
    assert result.forecast({"theta": 1.0}).more == 0
    assert math.isfinite(result.forecast({"theta": "1%"}).more)
