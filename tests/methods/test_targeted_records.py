"""Targeted runs with workers, interrupted, extended and replayed: the same seed gives the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fbar
from fbar.question.simulators import Vectorised
from fbar.testing import same
from targeted_runs import EXPONENTIAL, THETA, A, ask, gauss, normal, until

pytestmark = pytest.mark.arithmetic


def test_workers_change_nothing_and_the_block_size_is_part_of_the_seed():
    here = ask(normal(), A, 1500, tolerance=0.3, block_size=100)
    there = ask(normal(), A, 1500, tolerance=0.3, block_size=100, workers=2)
    other = ask(normal(), A, 1500, tolerance=0.3, block_size=64)
    assert same(here.posterior, there.posterior, A)
    assert here.as_dict() == there.as_dict()
    assert not same(here.posterior, other.posterior, A)


class Dropped(Exception):
    pass


@pytest.mark.parametrize("at", [40, 700, 1900], ids=["prior", "learning", "kept"])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, at):
    options = {"tolerance": 0.3, "block_size": 60}
    whole = ask(normal(), A, 2000, **options)

    def drop(run):
        if run.simulations >= at:
            raise Dropped

    with pytest.raises(Dropped):
        ask(normal(), A, 2000, run=tmp_path / "r", progress=drop, **options)
    again = ask(normal(), A, 2000, run=tmp_path / "r", **options)
    assert same(again.posterior, whole.posterior, A)
    assert again.as_dict() == whole.as_dict()
    assert fbar.load(tmp_path / "r", normal()).as_dict() == whole.as_dict()


@pytest.mark.slow
def test_extensions_simulate_what_is_missing_alone_and_are_recorded(tmp_path):
    """More budget, then other targets, then a smaller tolerance: as the run itself is extended, bit for bit."""
    counted = [0]

    def simulate(theta, rng):
        counted[0] += theta.rows
        return gauss(theta, rng)

    metered = Vectorised(simulate, metered=True)  # the second look at a cheap block is not wanted here
    problem, square, directory = normal(metered), fbar.second_moment("a"), tmp_path / "r"
    ask(problem, A, 1000, tolerance=0.5, run=directory)
    fbar.extend(directory, problem, budget=2000)
    fbar.extend(directory, problem, [square], budget=3000)
    last = fbar.extend(directory, problem, budget=6000, tolerance=0.1)
    assert counted[0] == last.simulations == 6000
    assert last.run.wanted.tolerance == 0.1
    assert last.run.at_final_tolerance
    run = fbar.Targeted(tolerance=0.5).start(normal(), A, 1, 1000)
    fbar.drive(run)
    for options in ({"budget": 2000}, {"budget": 3000, "targets": square}, {"budget": 6000, "tolerance": 0.1}):
        run.extend(**options)
        fbar.drive(run)
    assert same(last.posterior, run.posterior(), square)
    estimate = last.estimates[0]
    # ABC's posterior at ε: N(0.4, 0.2) spread by U(−ε, ε)/1.25, to first order 0.36 + ε²·…
    assert abs(estimate.value - 0.36) < 4.5 * estimate.standard_error + 0.01
    with pytest.raises(fbar.InputError, match=r"for a larger one use result.at\(0.4\)"):
        run.extend(budget=7000, tolerance=0.4)


def test_a_run_that_has_not_begun_can_be_extended():
    run = fbar.Targeted(tolerance=0.5).start(normal(), A, 1, 500)
    run.extend(budget=800)
    fbar.drive(run)
    assert run.simulations == 800
    assert run.posterior().accepted > 50


def test_a_tolerance_that_is_given_later_is_not_chosen_from_the_budget():
    run = fbar.Targeted(tolerance="chosen").start(normal(), A, 1, 1500)
    fbar.drive(run)
    chosen = run.wanted.tolerance
    run.extend(budget=6000, tolerance=chosen / 8)
    fbar.drive(run)
    assert run.wanted.tolerance == chosen / 8


def test_the_warning_of_a_budget_that_ended_early_goes_with_its_end():
    run = fbar.Targeted(tolerance=0.002).start(normal(), A, 1, 600)
    fbar.drive(run)
    assert "still coming closer to the data" in run.warnings[0]
    assert not run.at_final_tolerance
    run.extend(budget=1200, tolerance=0.5)
    fbar.drive(run)
    assert run.warnings == []
    assert run.at_final_tolerance


def test_recorded_proposals_are_used_on_replay():
    """Another machine's numbers: draws and weights follow the record."""
    run = until(fbar.Targeted().start(EXPONENTIAL, THETA, 3, 6000), 1)
    state = run.round_state()
    own = run.ask()
    again = until(fbar.Targeted().start(EXPONENTIAL, THETA, 3, 6000), 1)
    state["0/0:means"] = state["0/0:means"] + 0.5
    again.restore_round(state)
    assert np.array_equal(again.store.proposals[1][0].parts[0].means, state["0/0:means"])
    batches = again.ask()
    moved = batches[0].points["theta"]
    assert np.median(moved) > np.median(own[0].points["theta"]) + 5
    assert all(
        np.array_equal(batches[b].points["theta"], own[b].points["theta"]) == (b % 4 > 0) for b in range(len(own))
    )
    again.tell(*[(batch, fbar.simulate(EXPONENTIAL, batch)) for batch in batches])
    first = np.flatnonzero(again.store.everything.group_of(np.arange(again.simulations)) == 0)
    w = np.exp(again.store.log_weights(first))
    assert abs(w.mean() - 1) < 4.5 * w.std() / math.sqrt(w.size)
    fewer = {name: array for name, array in state.items() if not name.startswith("1/0:")}
    last = until(fbar.Targeted().start(EXPONENTIAL, THETA, 3, 6000), 1)
    last.restore_round(fewer)  # a record where group 1 had nothing to fit
    assert last.store.proposals[1][1].parts == (None,)
