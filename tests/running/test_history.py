"""The history of a run: its estimates as simulations grew."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.history import AT_DATA_GROWTH, GROWTH, Moment


def simulate(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(theta["a"] + 0.5 * rng.standard_normal(theta.rows))


def gaussian() -> fbar.Problem:
    return fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=0.5)


TABLE = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
TARGETS = [fbar.mean("a"), fbar.probability("a > 0")]
METHODS = {
    "targeted": fbar.Targeted(tolerance=0.1),
    "chosen": fbar.Targeted(tolerance="chosen"),
    "at data": fbar.Targeted(),
    "rejection": fbar.Rejection(tolerance=0.2),
    "stratified": fbar.Rejection("stratified", rounds=8, tolerance=0.2),
    "smc": fbar.SMC([2, 0.8, 0.3], accepted=150),
    "scaled": fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0.1), accepted=150, distance=fbar.Scaled(each_round=True)),
}


def told(history: tuple[Moment, ...]) -> list[object]:
    return [
        (
            m.simulations,
            m.round,
            m.tolerance,
            m.accepted,
            m.ess,
            [(e.name, e.value, e.standard_error) for e in m.estimates],
        )
        for m in history
    ]


class Interrupt:
    """Ctrl-C after so many blocks."""

    def __init__(self, blocks: int) -> None:
        self.left = blocks

    def __call__(self, run: fbar.Run) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", METHODS)
def test_the_history_grows_and_ends_with_the_result(name: str) -> None:
    result = fbar.infer(gaussian(), TARGETS, method=METHODS[name], budget=4000, seed=1)
    history = result.history
    assert len(history) >= 2
    n = [moment.simulations for moment in history]
    growth = AT_DATA_GROWTH if result.is_at_data else GROWTH
    assert all(later >= growth * earlier for earlier, later in itertools.pairwise(n[:-1]))
    assert n[-1] > n[-2]
    last = history[-1]
    assert last.simulations == result.simulations
    assert last.accepted == result.accepted
    assert last.ess == result.posterior.ess
    assert last.tolerance == result.run.reported_tolerance
    again = result.posterior.expect(TARGETS)
    assert [(e.value, e.standard_error) for e in last.estimates] == [(e.value, e.standard_error) for e in again]
    assert [(e.value, e.standard_error) for e in result.estimates] == [(e.value, e.standard_error) for e in again]


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_and_a_loaded_run_have_the_same_history(name: str, tmp_path: Path) -> None:
    ask = {"method": METHODS[name], "budget": 4000, "seed": 1, "block_size": 100}
    whole = fbar.infer(gaussian(), TARGETS, **ask)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(gaussian(), TARGETS, run=tmp_path / "run", progress=Interrupt(17), **ask)  # type: ignore[arg-type]
    resumed = fbar.infer(gaussian(), TARGETS, run=tmp_path / "run", **ask)  # type: ignore[arg-type]
    assert told(resumed.history) == told(whole.history)
    assert told(fbar.load(tmp_path / "run", gaussian(), TARGETS).history) == told(whole.history)


def test_an_extended_run_keeps_the_estimates_as_they_were(tmp_path: Path) -> None:
    first = fbar.infer(gaussian(), TARGETS, method=METHODS["rejection"], budget=2000, seed=1, run=tmp_path / "run")
    other = [fbar.variance("a")]
    more = fbar.extend(tmp_path / "run", gaussian(), other, budget=5000, tolerance=0.1)
    assert told(more.history[: len(first.history)]) == told(first.history)
    assert [e.name for e in more.history[-1].estimates] == ["variance:a"]
    assert more.history[-1].tolerance == 0.1
    n = [moment.simulations for moment in more.history]
    assert n == sorted(set(n))
    assert told(fbar.load(tmp_path / "run", gaussian(), other).history) == told(more.history)


def test_an_extension_that_needs_no_simulation_looks_again(tmp_path: Path) -> None:
    fbar.infer(gaussian(), TARGETS, method=METHODS["rejection"], budget=2000, seed=1, run=tmp_path / "run")
    more = fbar.extend(tmp_path / "run", gaussian(), [fbar.mean("a")], precision={"mean:a": 10.0})
    assert more.simulations == 2000
    assert [moment.simulations for moment in more.history].count(2000) == 1
    assert [e.name for e in more.history[-1].estimates] == ["mean:a"]


@pytest.mark.parametrize("method", [fbar.AdaptiveAllocation(), fbar.AdaptivePosterior(), fbar.InverseBinomial(20)])
def test_finite_spaces_have_a_history(method: fbar.Method) -> None:
    result = fbar.infer(TABLE, fbar.mean("theta"), method=method, budget=3000, seed=2)
    assert result.history[-1].estimates["mean:theta"].value == result["mean:theta"].value
    assert result.history[-1].simulations == result.run.simulations
    assert result.history[0].simulations < result.run.simulations


def test_trials_and_runs_without_a_posterior_have_none() -> None:
    run = fbar.Rejection().start(TABLE, fbar.mean("theta"), 1, 1000, trials=5)
    fbar.drive(run)
    assert run.history == []
    never = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: rng.poisson(1.0, t.rows), observed=-1)
    nothing = fbar.Rejection(tolerance=0.0).start(never, fbar.mean("a"), 1, 500)
    fbar.drive(nothing)
    assert nothing.history == []
    spared = fbar.Rejection().start(TABLE, fbar.mean("theta"), 1, 1000)
    fbar.drive(spared, history=False)
    assert spared.history == []


def test_estimators_that_take_long_are_looked_at_once() -> None:
    method = fbar.Importance(estimator=fbar.KernelRegression(), tolerance=0.2)
    result = fbar.infer(gaussian(), TARGETS, method=method, budget=1000, seed=1)
    assert [moment.simulations for moment in result.history] == [1000]


def test_a_target_that_needs_many_points_does_not_end_the_run_early() -> None:
    def needs_many(theta):
        if theta.rows < 50:
            raise ValueError("too few")
        return theta["mu"]

    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), observed=0.5
    )
    target = fbar.expectation(needs_many, name="own")
    result = fbar.infer(problem, target, method=fbar.Rejection(tolerance=0.05), budget=20_000, seed=1)
    assert result.accepted > 50
    assert len(result.history) > 1
    assert all(moment.accepted >= 50 for moment in result.history)
    with pytest.raises(fbar.InputError, match="too few"):
        fbar.infer(problem, target, method=fbar.Rejection(tolerance=0.05), budget=100, seed=1)
