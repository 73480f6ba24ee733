"""A budget is a promise about simulations that are run, with any number of workers; the answer is the same with all."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.question.simulators import Vectorised

pytestmark = pytest.mark.slow

LINE = fbar.Prior(theta=stats.uniform(0, 10))
FEW = fbar.Finite(theta=np.arange(1.0, 7.0))


class Counting:
    """A simulator that counts the simulations that are begun, in whatever thread or process."""

    def __init__(self, path):
        self.path = path

    def __call__(self, theta, rng):
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, b"." * theta.rows)
        os.close(file)
        return theta["theta"] + rng.normal(0, 1, theta.rows)


def counting(path):
    """Metered: the second look at a cheap block, which is no part of a run, is not wanted here."""
    return Vectorised(Counting(str(path)), metered=True)


@pytest.fixture
def answer(tmp_path):
    """Infers with so many threads, None for no engine; gives the result and how many simulations were begun."""
    asked = itertools.count()

    def infer(prior, threads, **options):
        path = tmp_path / str(next(asked))
        problem = fbar.Problem(prior, counting(path), observed=3.0)
        with ThreadPoolExecutor(threads or 1) as pool:
            engine = None if threads is None else pool
            result = fbar.infer(problem, fbar.mean("theta"), seed=5, block_size=40, engine=engine, **options)
        return result, path.stat().st_size

    return infer


TIGHT = {"precision": {"theta": 1e-6}}
CASES = {
    "smc": (LINE, {"method": fbar.SMC([4.0, 2.0, 1.0, 0.5, 0.2], accepted=100)}),
    "smc-by-quantiles": (LINE, {"method": fbar.SMC(accepted=100)}),
    "smc-of-simulations": (LINE, {"method": fbar.SMC([4.0, 2.0, 1.0], simulations=300)}),
    "smc-until-precision": (LINE, {"method": fbar.SMC([4.0, 2.0, 1.0, 0.5], accepted=100), **TIGHT}),
    "rejection": (LINE, {"method": fbar.Rejection(tolerance=0.5)}),
    "rejection-until-precision": (LINE, {"method": fbar.Rejection(tolerance=0.5), **TIGHT}),
    "importance": (LINE, {"method": fbar.Importance(fbar.Prior(theta=stats.uniform(0, 10)), tolerance=0.5)}),
    "stratified": (LINE, {"method": fbar.Rejection(scheme="stratified", tolerance=0.5)}),
    "targeted": (LINE, {"method": fbar.Targeted(tolerance=0.5)}),
    "targeted-chooses-tolerance": (LINE, {"method": fbar.Targeted(tolerance="chosen")}),
    "targeted-at-data": (LINE, {"method": fbar.Targeted()}),
    "targeted-until-precision": (LINE, {"method": fbar.Targeted(tolerance=0.5), **TIGHT}),
    "learned-summaries": (LINE, {"method": fbar.Rejection(tolerance=0.5), "summaries": "linear"}),
    "allocation": (FEW, {"method": fbar.Allocation(tolerance=0.5)}),
    "adaptive": (FEW, {"method": fbar.AdaptiveAllocation(tolerance=0.5)}),
    "adaptive-until-precision": (FEW, {"method": fbar.AdaptiveAllocation(tolerance=0.5), **TIGHT}),
    "inverse-binomial": (FEW, {"method": fbar.InverseBinomial(50, tolerance=0.5)}),
}


@pytest.mark.parametrize("case", CASES)
def test_never_more_than_the_budget_are_begun_and_workers_change_nothing(answer, case):
    prior, asked = CASES[case]
    budget = 2000
    alone, begun_alone = answer(prior, None, budget=budget, **asked)
    assert budget >= begun_alone >= alone.simulations > budget // 2
    for workers in (1, 2, 4):
        result, begun = answer(prior, workers, budget=budget, **asked)
        assert begun == begun_alone
        assert result.unused == 0
        assert result["mean:theta"].value == alone["mean:theta"].value
        assert result["mean:theta"].standard_error == alone["mean:theta"].standard_error
        assert result.simulations == alone.simulations


@pytest.mark.parametrize("stop", [fbar.Budget(1500), fbar.Budget(1500) | fbar.StandardError("mean:theta", 1e-6)])
def test_a_stopping_rule_is_a_promise_too(answer, stop):
    method = fbar.SMC([4.0, 2.0, 1.0, 0.5], accepted=100)
    alone, _ = answer(LINE, None, stop=stop, method=method)
    result, begun = answer(LINE, 4, stop=stop, method=method)
    assert begun <= 1500
    assert result["mean:theta"].value == alone["mean:theta"].value


def test_a_run_that_gives_up_has_not_gone_beyond_its_budget(answer):
    """Its round ends by its acceptance rate while blocks are under way."""
    method = fbar.SMC([4.0, 1e-9], accepted=1000, least_rate=0.02)
    alone, begun = answer(LINE, None, budget=20_000, method=method)
    assert "least rate" in str(alone)
    result, begun = answer(LINE, 4, budget=20_000, method=method)
    assert result.simulations == alone.simulations < 20_000
    assert begun <= result.simulations + result.unused <= 20_000


def test_what_is_run_ahead_without_a_budget_is_counted_and_told(answer):
    method = fbar.SMC([4.0, 2.0, 1.0, 0.5, 0.2], accepted=100)
    alone, begun = answer(LINE, None, method=method)
    assert alone.simulations == begun
    assert alone.unused == 0
    assert "went unused" not in str(alone)
    result, begun = answer(LINE, 4, method=method)
    assert result["mean:theta"].value == alone["mean:theta"].value
    assert result.simulations == alone.simulations
    assert result.unused > 0
    assert result.simulations < begun <= result.simulations + result.unused
    assert f"{result.unused:,} more simulations ran in advance and went unused" in str(result)
    assert result.as_dict()["unused"] == result.unused


@pytest.mark.parametrize("workers", [2, 4])
def test_the_budget_holds_in_processes(tmp_path, workers):
    problem = fbar.Problem(LINE, counting(tmp_path / "begun"), observed=3.0)
    asked = {"method": fbar.SMC([4.0, 2.0, 1.0, 0.5], accepted=200), "budget": 2000, "seed": 5, "block_size": 40}
    result = fbar.infer(problem, fbar.mean("theta"), workers=workers, **asked)
    assert (tmp_path / "begun").stat().st_size == result.simulations == 2000
    assert result["mean:theta"].value == fbar.infer(problem, fbar.mean("theta"), **asked)["mean:theta"].value
