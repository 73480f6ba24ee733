"""Recorded runs that go on after their end, or after an interruption: exact, bit for bit."""

import pytest
from scipy import stats

import fbar
import fbar.ledger
from fbar.errors import InputError
from recorded_cases import CALLS, CASES, MU, Enough, do, everything_of, normal_problem, simulated, stop_at

pytestmark = pytest.mark.arithmetic


def test_a_larger_budget_simulates_what_is_missing_alone(tmp_path):
    do("rejection", tmp_path, block_size=100)
    problem, targets, options = CASES["rejection"]()
    longer, blocks = simulated(fbar.extend, tmp_path, problem, budget=5000)
    assert longer.simulations == 5000
    assert blocks == 16 * 2  # 2000 simulations in 16 rounds of 125, in blocks of at most 100
    loaded, more = simulated(fbar.load, tmp_path, problem)
    assert (everything_of(loaded), more) == (everything_of(longer), 0)
    same = {**options, "budget": 5000, "block_size": 100}
    again, more = simulated(fbar.infer, problem, targets, seed=7, run=tmp_path, **same)
    assert (everything_of(again), more) == (everything_of(longer), 0)
    with pytest.raises(fbar.InputError, match="budget was 5000, is 3000"):
        do("rejection", tmp_path, block_size=100)


def test_extended_twice_in_every_way(tmp_path):
    problem, _, _ = CASES["smc"]()
    do("smc", tmp_path)
    finer = fbar.extend(tmp_path, problem, tolerance=0.15)
    assert finer.run.tolerance == 0.15
    both = [MU, fbar.variance("mu")]
    more = fbar.extend(tmp_path, problem, both, budget=finer.simulations + 700)
    assert [estimate.name for estimate in more.estimates] == ["mean:mu", "variance:mu"]
    last = fbar.extend(tmp_path, problem, precision={"mean:mu": 0.06})
    assert last["mean:mu"].standard_error <= 0.06
    loaded, blocks = simulated(fbar.load, tmp_path, problem)
    assert (everything_of(loaded), blocks) == (everything_of(last), 0)
    again, blocks = simulated(
        fbar.infer,
        problem,
        both,
        method=fbar.SMC([4, 1, 0.3, 0.15], accepted=100),
        precision={"mean:mu": 0.06},
        block_size=50,
        seed=7,
        run=tmp_path,
    )
    assert (everything_of(again), blocks) == (everything_of(last), 0)


def test_a_smaller_tolerance_of_rejection_keeps_what_fits(tmp_path):
    problem, _, _ = CASES["rejection"]()
    do("rejection", tmp_path)
    finer, blocks = simulated(fbar.extend, tmp_path, problem, tolerance=0.25, budget=4000)
    assert blocks == 16
    assert everything_of(fbar.load(tmp_path, problem)) == everything_of(finer)
    plain = do("rejection", budget=3000).at(0.25)
    assert plain.accepted < finer.accepted < 1.6 * plain.accepted


def test_other_targets_of_an_adaptive_run(tmp_path):
    problem, _, _ = CASES["adaptive"]()
    do("adaptive", tmp_path)
    other = fbar.extend(tmp_path, problem, fbar.probability("rate > 4"), budget=4000)
    assert everything_of(fbar.load(tmp_path, problem)) == everything_of(other)


def test_an_unfinished_run_is_loaded_resumed_and_not_extended(tmp_path):
    whole = do("rejection", block_size=100)
    with pytest.raises(Enough):
        do("rejection", tmp_path, block_size=100, progress=stop_at(1000))
    problem, _, _ = CASES["rejection"]()
    part, blocks = simulated(fbar.load, tmp_path, problem)
    assert (part.simulations, part.stopped_by, blocks) == (1037, "not finished", 0)
    assert abs(part["mean:mu"].value - whole["mean:mu"].value) < 5 * part["mean:mu"].standard_error
    with pytest.raises(fbar.InputError, match="is not finished"):
        fbar.extend(tmp_path, problem, budget=5000)
    assert everything_of(do("rejection", tmp_path, block_size=100)) == everything_of(whole)


@pytest.mark.parametrize("case", ["smc", "smc of models", "adaptive", "at data"])
def test_an_interrupted_extension_goes_on(case, tmp_path):
    problem, _, _ = CASES[case]()
    for name in ("whole", "cut"):
        do(case, tmp_path / name)
    there = do(case, tmp_path / "cut").simulations
    whole = fbar.extend(tmp_path / "whole", problem, budget=there + 1000)
    with pytest.raises(Enough):
        fbar.extend(tmp_path / "cut", problem, budget=there + 1000, progress=stop_at(there + 500))
    part = fbar.load(tmp_path / "cut", problem)
    assert there + 500 <= part.simulations < there + 1000
    again = do(case, tmp_path / "cut", budget=there + 1000)
    assert everything_of(again) == everything_of(whole)
    assert everything_of(fbar.load(tmp_path / "cut", problem)) == everything_of(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"budget": 100}, "budget 100 is already spent"), ({"tolerance": 0.7, "budget": 9000}, "choose a smaller one")],
)
def test_a_refused_extension_leaves_the_run_as_it_was(changes, message, tmp_path):
    first = do("rejection", tmp_path)
    problem, _, _ = CASES["rejection"]()
    with pytest.raises(fbar.InputError, match=message):
        fbar.extend(tmp_path, problem, **changes)
    again, blocks = simulated(do, "rejection", tmp_path)
    assert (everything_of(again), blocks) == (everything_of(first), 0)
    assert fbar.extend(tmp_path, problem, budget=4000).simulations == 4000


def test_a_run_that_accepted_nothing_is_kept_and_can_be_extended(tmp_path):
    problem = normal_problem(observed=8.0)
    options = {"method": fbar.Rejection(tolerance=0.5), "budget": 200, "seed": 1, "run": tmp_path}
    for blocks in (16, 0):
        before = len(CALLS)
        with pytest.raises(fbar.NoPosterior):
            fbar.infer(problem, MU, **options)
        looks = 7 if blocks else 0  # the first block once more, and six for noise that a batch shares
        assert blocks <= len(CALLS) - before <= blocks + looks
    assert fbar.extend(tmp_path, problem, budget=60_000).simulations == 60_000


def test_extended_to_a_smaller_tolerance_alone(tmp_path):
    """What is left out stays as it was: a precision; a budget that is spent must be given anew."""
    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), 0.5)
    first = fbar.infer(problem, fbar.mean("mu"), tolerance=1, precision={"mu": 0.05}, seed=1, run=tmp_path / "a")
    more = fbar.extend(tmp_path / "a", problem, tolerance=0.3)
    assert more.simulations > first.simulations
    assert more["mean:mu"].standard_error <= 0.05
    assert more.run.reported_tolerance == 0.3
    fbar.infer(problem, fbar.mean("mu"), tolerance=1, budget=2000, seed=1, run=tmp_path / "b")
    with pytest.raises(InputError, match="spent its budget of 2000 simulations; to go on"):
        fbar.extend(tmp_path / "b", problem, tolerance=0.3)


def test_an_answer_at_the_data_is_extended_by_budget_and_targets(tmp_path):
    problem, _, _ = CASES["at data"]()
    first = do("at data", tmp_path)
    longer, blocks = simulated(fbar.extend, tmp_path, problem, budget=1200, progress=False)
    assert (longer.simulations, blocks) == (1200, 12)  # 600 in blocks of 50
    assert longer.run.at_data
    assert longer["mean:mu"].standard_error < first["mean:mu"].standard_error
    other = fbar.extend(tmp_path, problem, [fbar.probability("mu > 1")], budget=1500, progress=False)
    assert abs(other.estimates[0].value - stats.norm.sf(0.5)) < 4.5 * other.estimates[0].standard_error
    assert other.estimates[0].about == "the posterior"
    loaded, blocks = simulated(fbar.load, tmp_path, problem)
    assert (everything_of(loaded), blocks) == (everything_of(other), 0)


def test_a_precision_ends_an_extension_of_an_answer_at_the_data(tmp_path):
    problem, _, _ = CASES["at data"]()
    there = do("at data", tmp_path)
    result = fbar.extend(tmp_path, problem, precision={"mean:mu": 0.09}, budget=20_000, progress=False)
    assert result["mean:mu"].standard_error <= 0.09
    assert there.simulations < result.simulations < 20_000
    assert everything_of(fbar.load(tmp_path, problem)) == everything_of(result)


@pytest.mark.parametrize("case", ["at data", "at data, recorded"])
def test_an_answer_at_the_data_does_not_go_on_at_a_tolerance(case, tmp_path):
    problem, _, _ = CASES[case]()
    first = do(case, tmp_path)
    with pytest.raises(InputError, match=r"cannot go on at the tolerance 0\.5; .* start another run"):
        fbar.extend(tmp_path, problem, tolerance=0.5, budget=3000)
    assert everything_of(do(case, tmp_path)) == everything_of(first)


def test_smc_goes_on_to_a_tolerance_and_reports_what_its_answer_is_about_now(tmp_path):
    problem, _, _ = CASES["at data, smc"]()
    first = do("at data, smc", tmp_path)
    assert first.run.at_data
    changed = "the answer was about the posterior until the run was extended to a tolerance; now it is about ABC's"
    assert changed not in str(first)
    finer = fbar.extend(tmp_path, problem, tolerance=0.3, budget=4000, progress=False)
    assert not finer.run.at_data
    assert finer.run.reported_tolerance == 0.3
    assert finer["mean:mu"].about == "ABC's posterior at tolerance 0.3"
    assert str(finer).count(changed) == 1
    assert any(changed in remark for remark in finer.as_dict()["remarks"])
    assert finer.at_data()["mean:mu"].about == "the posterior"
    loaded = fbar.load(tmp_path, problem)
    assert everything_of(loaded) == everything_of(finer)
    assert changed in str(loaded)
    more = fbar.extend(tmp_path, problem, budget=4500, progress=False)
    assert more.tolerance == 0.3
    assert changed in str(more)


def test_smc_at_a_tolerance_goes_on_to_a_smaller_one_without_a_remark(tmp_path):
    problem, _, _ = CASES["at data, smc"]()
    fbar.infer(problem, MU, method=fbar.SMC(accepted=100), tolerance=1, budget=1000, seed=1, run=tmp_path)
    assert not fbar.extend(tmp_path, problem, tolerance=0.5, budget=3000, progress=False).remarks
