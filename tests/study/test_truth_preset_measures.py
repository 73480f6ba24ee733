"""The preset "truth": what it measures, the claims that it decides, and what it prints of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fbar.study.presets.truth import judged
from fbar.study.presets.truth.limits import claims
from fbar.study.presets.truth.measures import Columns, b2_ratio, measured, slope
from fbar.study.presets.truth.studies import BEFORE, NPE
from fbar.study.presets.truth.tables import POOLED, by_part
from truth_rows import ROW, made_up

# ---------------------------------------------------------------- what is measured


def test_measures_are_those_of_plain_loops():
    rng = np.random.default_rng(1)
    rows = made_up(rng, observations=4, runs=12, claimed=0.8)
    rows[5] = replace(rows[5], low=-math.inf)
    rows[7] = replace(rows[7], status="failed", value=math.nan, low=math.nan, high=math.nan, trusted=False)
    rows[9] = replace(rows[9], value=99.0, status="prior", low=math.nan, high=math.nan)
    found = measured(rows)

    weight = {"a": 1 / 2, "b": 1 / 4}
    kept = [r for r in rows if r.status == "ok" and r.trusted and math.isfinite(r.high - r.low)]
    total = sum(weight[r.problem] for r in kept)
    coverage = sum(weight[r.problem] for r in kept if r.low <= r.truth <= r.high) / total
    assert found.coverage == pytest.approx(coverage)
    assert found.unflagged == len(kept) < len(rows) == found.estimates
    by_observation = {}
    for r in kept:
        by_observation.setdefault(r.observation, []).append(
            weight[r.problem] * ((r.low <= r.truth <= r.high) - coverage)
        )
    sums = np.array([sum(own) for own in by_observation.values()])
    assert found.coverage_error == pytest.approx(math.sqrt(8 / 7 * (sums**2).sum()) / total)

    everything = sum(weight[r.problem] for r in rows)
    assert found.flagged == pytest.approx(1 - total / everything)
    assert found.failed == pytest.approx(weight["a"] / everything)
    doubted = [r for r in rows if r not in kept and r.status != "failed"]
    held = [r for r in doubted if math.isfinite(r.high - r.low) and r.low <= r.truth <= r.high]
    share = sum(weight[r.problem] for r in held) / sum(weight[r.problem] for r in doubted)
    assert found.coverage_flagged == pytest.approx(share)
    assert found.missed_ratio == pytest.approx((1 - share) / (1 - coverage))

    squares = [min(((r.value - r.truth) / r.deviation) ** 2, 1.0) if r.status != "failed" else 1.0 for r in rows]
    b2 = sum(weight[r.problem] * b for r, b in zip(rows, squares, strict=True)) / everything
    assert found.b2 == pytest.approx(b2)

    lengths = []
    for problem in ("a", "b"):
        ratios = []
        for target in sorted({r.target for r in kept if r.problem == problem}):
            own = [r for r in kept if (r.problem, r.target) == (problem, target)]
            half = np.median([(r.high - r.low) / 2 / r.deviation for r in own])
            ratios.append(half / np.quantile([abs(r.value - r.truth) / r.deviation for r in own], 0.95))
        lengths.append(np.median(ratios))
    assert found.length == pytest.approx(np.median(lengths))
    assert found.runs == 2 * 4 * 12
    assert measured([replace(ROW, bias=b) for b in (0.02, 0.05, 0.09)]).bias == pytest.approx(0.5)


def test_error_bars_that_are_right_have_length_one_and_the_level_as_coverage():
    found = measured(made_up(np.random.default_rng(2), runs=100))
    assert found.length == pytest.approx(1.0, abs=0.05)
    assert abs(found.coverage - 0.95) < 4.5 * math.sqrt(0.95 * 0.05 / 4000)
    assert found.b2 == pytest.approx(0.01, rel=0.1)
    wide = measured(made_up(np.random.default_rng(2), runs=100, claimed=2.0))
    assert wide.length == pytest.approx(2 * found.length)
    assert wide.coverage > 0.999


def test_the_printed_interval_counts_not_the_standard_error():
    skewed = replace(ROW, value=0.2, standard_error=0.1, low=-0.01, high=0.21)
    assert measured([skewed]).coverage == 1.0
    assert measured([replace(skewed, low=0.01)]).coverage == 0.0


def test_the_error_of_a_truth_widens_the_interval():
    row = replace(ROW, value=0.25, low=0.05, high=0.45)  # misses 0 by a quarter of its half-width
    assert measured([row]).coverage == 0.0
    assert measured([replace(row, truth_error=0.05)]).coverage == 0.0
    assert measured([replace(row, truth_error=0.08)]).coverage == 1.0  # √(0.2² + (1.96 · 0.08)²) = 0.254


def test_rows_without_any_interval_have_an_error_only():
    rows = [replace(ROW, method=NPE, low=math.nan, high=math.nan, trusted=False)]
    found = measured(rows)
    assert found.b2 == pytest.approx(0.01)
    assert math.isnan(found.coverage)
    assert math.isnan(found.length)


def test_ratios_and_slopes():
    rng = np.random.default_rng(3)
    first, second = made_up(rng), made_up(rng, scale=0.2, method=BEFORE)
    ratio = b2_ratio(Columns.of(first), Columns.of(second))
    assert ratio.low < 0.25 < ratio.high
    assert ratio.value == pytest.approx(measured(first).b2 / measured(second).b2)
    assert ratio.high / ratio.low < 1.6
    assert math.isnan(b2_ratio(Columns.of(first), Columns.of(made_up(rng, problems=("c",)))).value)
    assert slope([(1000, 0.1), (10_000, 0.01), (100_000, 0.001)]) == pytest.approx(-1)
    assert math.isnan(slope([(1000, 0.1)]))


def test_tables_have_a_line_for_each_problem_and_one_for_all():
    rng = np.random.default_rng(4)
    rows = [*made_up(rng), *made_up(rng, budget=1000, scale=0.3), *made_up(rng, method=BEFORE, scale=0.2)]
    rows += made_up(rng, method=NPE, problems=("a",))
    tables = by_part([*rows, replace(ROW, observation="a/fresh-3")])
    assert list(tables) == ["odd", "even", "fresh"]
    odd = tables["odd"]
    assert [(line.problem, line.budget) for line in odd.lines] == [
        (name, budget) for budget in (1000, 10_000) for name in ("a", "b", POOLED)
    ]
    small, large = odd.at("a", 1000), odd.at("a", 10_000)
    assert small.to_before is None
    assert large.to_before.value == pytest.approx(0.25, rel=0.4)
    assert large.slope == small.slope == pytest.approx(math.log10(large.found.b2 / small.found.b2))
    assert large.npe is not None
    assert odd.at(POOLED, 10_000).npe is None  # NPE has not all problems
    assert odd.at("b", 10_000).found.runs == 5 * 20


# ---------------------------------------------------------------- claims


def found_claims(rows):
    return {(claim.text.partition(": ")[2], claim.problem): claim for claim in claims(by_part(rows))}


def test_claims_are_decided_by_the_rows():
    rng = np.random.default_rng(5)
    problems = ("sir", "ma2")
    good = made_up(rng, problems=problems, observations=1, runs=300)
    rows = [*good, *made_up(rng, problems=problems, observations=1, runs=300, method=BEFORE, scale=0.3)]
    found = found_claims(rows)
    assert {claim.holds for key, claim in found.items() if "flagged intervals miss" not in key[0]} == {True}
    assert not any("NPE" in text for text, _ in found)
    text = "flagged intervals miss at least 2 times as often as unflagged ones"
    warned = [replace(r, trusted=abs(r.value - r.truth) < 0.15 * r.deviation) for r in good]
    assert found_claims(warned)[text, POOLED].holds
    silent = [replace(r, trusted=abs(r.value - r.truth) > 0.05 * r.deviation) for r in good]
    assert not found_claims(silent)[text, POOLED].holds

    narrow = [replace(r, low=(r.low + r.value) / 2, high=(r.high + r.value) / 2) for r in good if r.problem == "ma2"]
    found = found_claims([*(r for r in good if r.problem == "sir"), *narrow])
    worst = found["coverage of unflagged intervals at least 88%", "each problem"]
    assert not worst.holds
    assert worst.found.startswith("1 of 2 problems; not: ma2 0.6")
    assert not found["unflagged 95% intervals hold the true value in 92% to 97.5%", POOLED].holds

    wide = [replace(r, low=4 * r.low - 3 * r.value, high=4 * r.high - 3 * r.value) for r in good]
    found = found_claims(wide)
    assert not found["median half-width at most 2.5 times the 95% quantile of |error|", "each problem"].holds
    assert not found["median half-width 0.7 to 1.5 times the 95% quantile of |error|", POOLED].holds


def test_claims_on_flags_b2_and_npe():
    rng = np.random.default_rng(6)
    rows = made_up(rng, problems=("sir", "ma2"), observations=1, runs=50)
    rows = [replace(r, trusted=r.problem == "sir" or r.trial % 2 == 0) for r in rows]
    text = "at most 10% flagged on sbibm's standard tasks"
    assert found_claims(rows)[text, "each problem"].holds  # ma2 is not one of them
    assert not found_claims([replace(r, trusted=r.trial % 4 > 0) for r in rows])[text, "each problem"].holds
    text = "b² not above NPE's where that is below 0.2"
    near = made_up(rng, problems=("sir", "ma2"), observations=1, method=NPE, scale=0.05)
    assert not found_claims([*rows, *near])[text, "each problem"].holds
    far = made_up(rng, problems=("sir", "ma2"), observations=1, method=NPE, scale=3.0)
    assert (text, "each problem") not in found_claims([*rows, *far])


# ---------------------------------------------------------------- what is printed


def test_what_is_printed_has_tables_by_problem_and_by_kind():
    text = judged(made_up(np.random.default_rng(7), observations=1)).text
    assert text.startswith("odd observations\nproblem")
    assert "all problems  10,000  40 " in text
    assert "second_moment" in text
    assert "the method default, which has no runs" in judged([replace(ROW, method=BEFORE)]).text
