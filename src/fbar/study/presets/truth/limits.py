"""The claims of the preset: what must hold of coverage, length, flags and b², for each part of the observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from fbar.checks import counted
from fbar.study.presets.base import Claim
from fbar.study.presets.truth.tables import POOLED, Line, Table

COVERAGE = (0.92, 0.975)
LEAST_COVERAGE = 0.88
"""Of the unflagged intervals of any single problem."""
LENGTH = (0.7, 1.5)
MOST_LENGTH = 2.5
"""Of any single problem."""
STANDARD = (
    "gaussian-linear", "gaussian-linear-uniform", "gaussian-mixture", "two-moons", "slcp", "bernoulli-glm", "sir",
    "lotka-volterra",
)  # fmt: skip
"""The eight standard tasks of sbibm (Lueckmann et al. 2021)."""
MOST_FLAGGED = 0.1
MISSED_RATIO = 2.0
"""Flagged intervals must miss at least this many times as often as unflagged ones."""
B2_RATIO = 0.5
NPE_IS_GOOD = 0.2
"""Where NPE's b² is below this, ours must not be above it."""
LARGE = 10_000
"""From this number of simulations on there are claims on flags and on b²."""


def claims(tables: Mapping[str, Table]) -> list[Claim]:
    found = []
    for part, table in tables.items():
        for budget in table.budgets:
            found += _claims(f"{part}, {budget:,} simulations", table, budget)
    return found


def _claims(head: str, table: Table, budget: int) -> list[Claim]:
    pooled, lines = table.at(POOLED, budget), table.problems(budget)
    if pooled is None:
        return []
    all_ = pooled.found
    low, high = COVERAGE
    found = [
        _of_all(
            f"{head}: unflagged 95% intervals hold the true value in {low:.0%} to {high:.1%}",
            all_.coverage,
            f"{all_.coverage:.3f} ± {all_.coverage_error:.3f} of {all_.unflagged:,} intervals",
            low <= all_.coverage <= high,
        ),
        _each(
            f"{head}: coverage of unflagged intervals at least {LEAST_COVERAGE:.0%}",
            lines,
            lambda line: line.found.coverage,
            lambda value: value >= LEAST_COVERAGE,
            lambda line: f"{line.found.coverage:.3f} ± {line.found.coverage_error:.3f}",
        ),
        _of_all(
            f"{head}: median half-width {LENGTH[0]:g} to {LENGTH[1]:g} times the 95% quantile of |error|",
            all_.length,
            f"{all_.length:.2f}",
            LENGTH[0] <= all_.length <= LENGTH[1],
        ),
        _each(
            f"{head}: median half-width at most {MOST_LENGTH:g} times the 95% quantile of |error|",
            lines,
            lambda line: line.found.length,
            lambda value: value <= MOST_LENGTH,
        ),
        _of_all(
            f"{head}: flagged intervals miss at least {MISSED_RATIO:g} times as often as unflagged ones",
            all_.missed_ratio,
            f"{1 - all_.coverage_flagged:.3f} against {1 - all_.coverage:.3f}",
            not all_.missed_ratio < MISSED_RATIO,
        ),
    ]
    found += _claims_on_large_budgets(head, lines) if budget >= LARGE else []
    return [claim for claim in found if claim is not None]


def _claims_on_large_budgets(head: str, lines: Sequence[Line]) -> list[Claim | None]:
    good = [line for line in lines if line.npe is not None and line.npe.b2 < NPE_IS_GOOD]
    return [
        _each(
            f"{head}: at most {MOST_FLAGGED:.0%} flagged on sbibm's standard tasks",
            [line for line in lines if line.problem in STANDARD],
            lambda line: line.found.flagged,
            lambda value: value <= MOST_FLAGGED,
        ),
        _each(
            f"{head}: b² at most {B2_RATIO:g} times that of the default before",
            lines,
            lambda line: math.nan if line.to_before is None else line.to_before.value,
            lambda value: value <= B2_RATIO,
            lambda line: str(line.to_before),
        ),
        _each(
            f"{head}: b² not above NPE's where that is below {NPE_IS_GOOD:g}",
            good,
            lambda line: math.nan if line.to_npe is None else line.to_npe.value,
            lambda value: value <= 1,
            lambda line: str(line.to_npe),
        ),
    ]


def _of_all(text: str, value: float, found: str, holds: bool) -> Claim | None:
    """A claim on all problems together; none where nothing was measured."""
    return None if math.isnan(value) else Claim(text, POOLED, found, holds)


def _each(
    text: str,
    lines: Sequence[Line],
    value: Callable[[Line], float],
    holds: Callable[[float], bool],
    in_words: Callable[[Line], str] | None = None,
) -> Claim | None:
    """A claim on every single problem that has the value; none where no problem has (all flagged, too few runs)."""
    known = [line for line in lines if not math.isnan(value(line))]
    failing = [line for line in known if not holds(value(line))]
    wrong = [f"{line.problem} {in_words(line) if in_words else format(value(line), '.3g')}" for line in failing]
    found = f"{len(known) - len(wrong)} of {counted(len(known), 'problem')}"
    if not known:
        return None
    return Claim(text, "each problem", found + (f"; not: {', '.join(wrong)}" if wrong else ""), not wrong)
