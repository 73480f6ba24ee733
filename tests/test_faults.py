"""Failures that depend on θ are noticed, those that do not are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import faults
from fbar.outcomes import Batch, Simulated
from fbar.points import Points
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
    kept = sorted(watch._blocks)
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
