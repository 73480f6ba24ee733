"""Failures that depend on θ are noticed, those that do not are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.diagnostics import faults
from fbar.question.outcomes import Batch, Simulated
from fbar.question.points import Points
from fbar.seeds import Seeds


def watched(rng, fails, blocks=10, size=60):
    watch = faults.FailureWatch()
    for block in range(blocks):
        theta = Points({"a": rng.normal(size=size), "b": rng.random(size), "kind": rng.choice(["x", "y", "z"], size)})
        failed = fails(theta, rng).astype(np.int8)
        watch.add(Batch(0, block, theta, None, Seeds(0)), Simulated(np.zeros(size), {}, failed))
    return watch


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    """One in a thousand: of 500 runs more than 5 with a probability of 1.4 in 10⁵."""
    rng = np.random.default_rng(1)
    alarms = sum(bool(watched(rng, lambda t, r: r.random(t.rows) < 0.1).dependence()) for _ in range(500))
    assert alarms <= 5


def test_dependence_is_found_and_named():
    rng = np.random.default_rng(2)
    text = watched(rng, lambda t, r: r.random(t.rows) < 0.2 * (t["a"] > 0)).dependence()
    assert text.startswith("failures depend on a: rejecting them is right if the model itself fails there")
    text = watched(rng, lambda t, r: r.random(t.rows) < 0.3 * (t["kind"] == "z")).dependence()
    assert text.startswith("failures depend on kind:")
    assert watched(rng, lambda t, r: np.zeros(t.rows, bool)).dependence() == ""
    assert watched(rng, lambda t, r: np.ones(t.rows, bool)).dependence() == ""
    assert faults.FailureWatch().dependence() == ""


def test_many_simulations_are_thinned_by_whole_blocks(monkeypatch):
    monkeypatch.setattr(faults, "MOST_ROWS", 500)
    watch = watched(np.random.default_rng(3), lambda t, r: r.random(t.rows) < 0.2 * (t["a"] > 0), blocks=64)
    kept = watch.blocks
    assert 0 < len(kept) * 60 <= 500
    assert len({block % kept[1][1] for _, block in kept}) == 1
    many = watched(np.random.default_rng(4), lambda t, r: r.random(t.rows) < 0.5 * (t["a"] > 0), blocks=200)
    assert "depend on a" in many.dependence()


def test_the_result_says_so():
    @fbar.each
    def simulate(theta, rng):
        if theta["a"] > 1 and rng.random() < 0.5:
            raise FloatingPointError("overflow")
        return theta["a"] + rng.standard_normal()

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=0.0)
    result = fbar.infer(problem, fbar.mean("a"), method=fbar.Rejection(tolerance=0.5), budget=3000, seed=1)
    assert "warning: failures depend on a" in str(result)
    assert any("raised an exception (FloatingPointError: overflow)" in text for text in result.warnings)


def hanging_together(rng, fails, blocks=20, size=100):
    """Simulations as a learned proposal makes them: b hangs on a, and d on c."""
    watch = faults.FailureWatch()
    for block in range(blocks):
        a, c = rng.normal(size=(2, size))
        theta = Points(
            {"a": a, "b": 0.9 * a + 0.4 * rng.normal(size=size), "c": c, "d": c - 0.4 * rng.normal(size=size)}
        )
        failed = (rng.random(size) < fails(theta)).astype(np.int8)
        watch.add(Batch(0, block, theta, None, Seeds(0)), Simulated(np.zeros(size), {}, failed))
    return watch.dependence().partition(":")[0]


def test_parameters_that_hang_on_the_guilty_one_are_not_named():
    """Each of 60 runs names another one with a probability of 1 in 1,000: two with one of 0.2%, three of 3 in 10⁵."""
    rng, told = np.random.default_rng(5), []
    for number in range(60):
        smooth, both = (number % 3 == 0), (number % 3 == 1)
        if both:
            told.append(
                hanging_together(rng, lambda t: 0.5 * ((t["a"] > 0.3) & (t["c"] > 0))) == "failures depend on a, c"
            )
        elif smooth:
            told.append(hanging_together(rng, lambda t: 0.3 / (1 + np.exp(-2 * t["a"]))) == "failures depend on a")
        else:
            told.append(hanging_together(rng, lambda t: 0.4 * (t["a"] > 0.5)) == "failures depend on a")
    assert told.count(False) <= 2


def test_the_strata_are_close_in_numbers_and_equal_in_categories():
    rng = np.random.default_rng(6)
    x, kind = rng.normal(size=2000), rng.choice(["u", "v"], 2000)
    stratum = faults.strata_of([x, kind], 2000)
    sizes = np.bincount(stratum)
    assert sizes.min() >= faults.STRATUM
    assert sizes.max() < 2 * faults.STRATUM
    for number in range(sizes.size):
        mine = stratum == number
        assert np.unique(kind[mine]).size == 1
        within = (x >= x[mine].min()) & (x <= x[mine].max()) & (kind == kind[mine][0])
        assert (stratum[within] == number).all()
    assert np.unique(faults.strata_of([], 10)).size == 1


def test_without_strata_it_is_the_rank_sum_and_the_chi_square_test():
    rng = np.random.default_rng(7)
    x, kind, failed = rng.normal(size=400), rng.choice(["u", "v", "w"], 400), rng.random(400) < 0.2
    one = np.zeros(400, dtype=np.int64)
    exact = stats.mannwhitneyu(x[failed], x[~failed], method="asymptotic", use_continuity=False).pvalue
    assert np.exp(faults.log_p_value(x, failed, one)) == pytest.approx(exact, rel=1e-6)
    table = np.array([[np.sum(failed & (kind == k)), np.sum(~failed & (kind == k))] for k in "uvw"])
    pearson = stats.chi2_contingency(table, correction=False).statistic
    assert np.exp(faults.log_p_value(kind, failed, one)) == pytest.approx(
        stats.chi2.sf(pearson * 399 / 400, 2), rel=1e-6
    )
