"""What a run has cost: summed, a rule to stop by, recorded, and allocated by."""

import csv
import json

import numpy as np
import pytest

import fbar
from costly import MU, Clock, bare, block, problem_of, returning, seconds, timed
from fbar import theory
from fbar.cli import app
from fbar.ledger import LedgerReader, decode, encode, pack, unpack
from fbar.ledger.settings import describe
from fbar.methods import stopping
from fbar.question.outcomes import Failure, Simulated
from forged_runs import execute, write_leg


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr("fbar.question.simulators.rows.clock", fake)
    return fake


# ---------------------------------------------------------------- the sum, and the rule on it


def test_the_sum_is_in_index_order_whatever_the_order_of_telling():
    problem = problem_of(returning, cost="returned")
    sums = []
    for backwards in (False, True):
        run = fbar.Rejection(tolerance=1, rounds=2).start(problem, MU, seed=5, budget=2000, block_size=37)
        expected = 0.0
        while batches := run.ask():
            told = [(batch, fbar.simulate(problem, batch)) for batch in batches]
            for _, outcomes in told:
                expected += float(outcomes.cost.sum())
            for answer in told[::-1] if backwards else told:
                run.tell(answer)
        assert run.spent_cost == expected
        sums.append(run.spent_cost)
    assert sums[0] == sums[1]


def test_workers_change_no_bit_of_returned_costs():
    problem = problem_of(returning, cost="returned")
    options = {"stop": fbar.CostBudget(3e4), "tolerance": 1, "seed": 5, "block_size": 300, "progress": False}
    here, there = fbar.infer(problem, MU, **options), fbar.infer(problem, MU, workers=2, **options)
    assert there.run.spent_cost == here.run.spent_cost
    assert there.as_dict() == here.as_dict()


def test_spent_ends_at_the_first_round_whose_sum_reaches_it(clock):
    problem = problem_of(timed(clock))
    rule = fbar.CostBudget(4000)
    run = fbar.Rejection(tolerance=1).start(problem, MU, seed=5, limit=10_000)
    sums = [0.0]

    def progress(run):
        if run.round == len(sums):
            sums.append(run.spent_cost)

    assert fbar.drive(run, rule, progress=progress) == "stopping rule met"
    assert sums[-2] < 4000 <= sums[-1] == run.spent_cost == clock.now
    result = fbar.infer(problem, MU, method="rejection", stop=rule, tolerance=1, seed=5)
    assert result.run.spent_cost == run.spent_cost
    assert result.as_dict()["cost"] == run.spent_cost
    assert result.as_dict()["cost_unit"] == "s"
    assert f"stopping rule met; {run.spent_cost:,.0f} s of simulator time" in str(result)


def test_the_rule_composes_and_is_restored():
    rule = fbar.CostBudget(12.5) | (fbar.Budget(100) & fbar.CostBudget(3))
    assert stopping.restored(json.loads(json.dumps(describe(rule)))) == rule
    assert (fbar.CostBudget(12.5) | fbar.Budget(100)).limit == 100
    with pytest.raises(fbar.InputError, match="cost must be greater than 0"):
        fbar.CostBudget(0)
    run = fbar.Rejection(tolerance=1).start(problem_of(returning, cost="returned"), MU, seed=5, budget=100)
    (batch,) = run.ask(limit=6)[:1]
    run.tell((batch, fbar.simulate(run.problem, batch)))
    assert fbar.CostBudget(1e-3).holds(run)
    assert not fbar.CostBudget(1e9).holds(run)


def test_the_rule_says_when_it_cannot_be_read(clock):
    run = fbar.Rejection(tolerance=1, rounds=1).start(problem_of(timed(clock)), MU, seed=5, budget=60)
    (batch,) = run.ask()
    run.tell((batch, run.problem.outcomes(np.zeros(60), 60)))
    with pytest.raises(fbar.InputError, match="and some have none"):
        fbar.CostBudget(1).holds(run)


# ---------------------------------------------------------------- recorded


def test_a_block_keeps_its_costs_and_an_old_one_has_none():
    batch = block(problem_of(bare), 3)
    cost = np.array([0.1, np.nan, 1e-9])
    failure = np.array([0, Failure.KILLED, 0], dtype=np.int8)
    payload = encode(batch, Simulated(np.zeros(3), {}, failure, cost=cost))
    assert decode(payload).outcomes.cost.tobytes() == cost.tobytes()
    old = encode(batch, Simulated(np.zeros(3), {}, failure))
    assert decode(old).outcomes.cost is None
    arrays, about = unpack(payload)
    del arrays["cost"]
    assert pack(arrays, **about) == old  # nothing else has changed


def measured_run(clock, run, pace, **options):
    """A run whose simulator takes ``pace`` times as long."""

    @fbar.each
    def simulate(theta, rng):
        clock.takes(pace * seconds(theta["mu"]))
        return theta["mu"] + rng.normal()

    simulate.function.__qualname__ = "simulate"
    options = {"method": fbar.Rejection(tolerance=1), "stop": fbar.CostBudget(4000), **options}
    return fbar.infer(problem_of(simulate), MU, seed=5, run=run, progress=False, **options)


def test_a_recorded_run_on_measured_time_replays_on_a_slower_machine(clock, tmp_path):
    first = measured_run(clock, tmp_path / "r", 1.0)
    slower = measured_run(clock, tmp_path / "r", 16.0)
    assert slower.as_dict()["cost"] == first.as_dict()["cost"] == first.run.spent_cost
    assert slower.as_dict()["rounds"] == first.as_dict()["rounds"]
    assert slower.as_dict()["estimates"] == first.as_dict()["estimates"]
    assert measured_run(clock, tmp_path / "other", 16.0).simulations < first.simulations


def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path):
    calls = []

    def simulate(theta, rng):
        calls.append(theta.rows)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return returning(theta, rng)

    def do(run):
        problem = problem_of(simulate, cost="returned")
        stop = fbar.CostBudget(3e4)
        return fbar.infer(problem, MU, tolerance=1, stop=stop, seed=5, run=run, block_size=300, progress=False)

    stop_at = 0
    whole = do(tmp_path / "whole")
    assert whole.stopped_by == "stopping rule met"
    stop_at = len(calls) + len(calls) // 2
    with pytest.raises(KeyboardInterrupt):
        do(tmp_path / "parts")
    resumed = do(tmp_path / "parts")
    assert resumed.as_dict() == whole.as_dict()
    assert fbar.load(tmp_path / "parts", problem_of(simulate, cost="returned")).as_dict() == whole.as_dict()
    with LedgerReader(tmp_path / "parts") as ledger:
        total = 0.0
        for *_, outcomes in ledger.blocks():
            total += float(outcomes.cost.sum())
    assert total == whole.run.spent_cost


def test_export_has_a_column_of_costs(clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = measured_run(clock, "r", 1.0)
    app(
        ["export", "r", "--all", "--out", "all.csv"],
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    with open("all.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == result.simulations
    assert [float(row["cost"]) for row in rows] == [seconds(float(row["mu"])) for row in rows]


# ---------------------------------------------------------------- allocation by cost

P = np.array([0.3, 0.2, 0.4, 0.1])
C = np.array([1.0, 25.0, 4.0, 1.0])
THETA = np.array([0.0, 1.0, 2.0, 3.0])


def cells(theta, rng):
    cell = theta["theta"].astype(int)
    # Costs that vary about their mean, by a factor of four
    return {
        "x": (rng.random(theta.rows) < P[cell]).astype(float),
        "cost": C[cell] * (0.4 + 1.2 * rng.random(theta.rows)),
    }


@pytest.mark.parametrize("learning", ["beta", "plug-in"])
def test_an_allocation_per_second_learns_the_costs(learning):
    """n_i ∝ π_i √(p_i(1 − p_i)/c_i) |ψ_i|, for either rule; |z| < 4.5 on four shares.

    The shares' relative errors are those of 25 runs. Without the costs the cell of cost 25 gets four times too many.
    """
    error = np.array([0.0045, 0.020, 0.0095, 0.0055])
    problem = fbar.Problem(fbar.Finite(theta=THETA), cells, observed=1.0, cost="returned")
    prior = np.full(4, 0.25)
    wanted = theory.min_mse(prior, P, THETA, C)
    shares = {}
    for per in ("simulation", "second"):
        method = fbar.AdaptiveAllocation(learning, rounds=30, per=per)
        run = method.start(problem, fbar.mean("theta"), seed=2, budget=60_000)
        fbar.drive(run)
        shares[per] = run.counts / run.counts.sum()
    np.testing.assert_allclose(run.cost, C, rtol=4.5 * 0.35 / np.sqrt(run.counts.min()))
    if learning == "plug-in":  # it adds to every share, as the last round's start has it
        wanted = theory.normalise(wanted + 1 / np.sqrt(58_001))
    assert np.abs((shares["second"] / wanted - 1) / error).max() < 4.5
    assert shares["simulation"][1] > 2 * shares["second"][1]


def test_an_allocation_per_second_needs_costs_and_prefers_those_given():
    finite = fbar.Finite(theta=THETA)
    plain = fbar.Problem(finite, lambda t, rng: cells(t, rng)["x"], observed=1.0)
    with pytest.raises(fbar.InputError, match="are not known"):
        fbar.infer(plain, fbar.mean("theta"), method=fbar.AdaptiveAllocation(per="second"), budget=1000)
    with pytest.raises(fbar.InputError, match="unknown per 'minute'"):
        fbar.infer(plain, fbar.mean("theta"), method=fbar.AdaptiveAllocation(per="minute"), budget=1000)
    given = fbar.Problem(finite, cells, observed=1.0, cost=C)
    counts = [
        fbar.infer(given, fbar.mean("theta"), method=fbar.AdaptiveAllocation(per=per), budget=5000, seed=1).run.counts
        for per in ("simulation", "second")
    ]
    np.testing.assert_array_equal(*counts)


def test_an_allocation_per_second_resumes_with_a_damaged_block(clock, tmp_path):
    """Measured again its costs are others; what later rounds asked for is in the record."""
    pace = 1.0

    @fbar.each
    def simulate(theta, rng):
        clock.takes(pace * C[int(theta["theta"])])
        return float(rng.random() < P[int(theta["theta"])])

    def do():
        problem = fbar.Problem(fbar.Finite(theta=THETA), simulate, observed=1.0)
        method = fbar.AdaptiveAllocation(per="second")
        return fbar.infer(problem, fbar.mean("theta"), method=method, budget=1500, seed=1, run=tmp_path / "r")

    first = do()
    execute(tmp_path / "r", "UPDATE blocks SET payload = x'00' WHERE round = 2 AND block = 0")
    pace = 1000.0
    again = do()
    assert any("block 0 of round 2" in note for note in again.notes)
    assert again.as_dict()["estimates"] == first.as_dict()["estimates"]
    np.testing.assert_array_equal(again.run.counts, first.run.counts)
    assert again.run.spent_cost > first.run.spent_cost


def test_a_run_older_than_a_setting_goes_on(tmp_path):
    """Settings that a method had not yet when it was recorded are at their defaults."""
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])

    def do(**options):
        method = fbar.AdaptiveAllocation(**options)
        return fbar.infer(problem, fbar.mean("theta"), method=method, budget=1000, seed=1, run=tmp_path / "r")

    first = do()
    with LedgerReader(tmp_path / "r") as ledger:
        leg = ledger.legs[0]
    del leg.settings["method"]["per"]
    write_leg(tmp_path / "r", 0, leg)
    assert do().as_dict() == first.as_dict()
    with pytest.raises(fbar.InputError, match=r"other settings: method\.rounds"):
        do(rounds=3)
