"""Rankings that state which differences are real, and refuse to call the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.checks import share, shown
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand
from fbar.scores.expectation import ExpectationMSE
from fbar.study.paired import Comparison, compare, holm, mean_and_error

ERROR = ExpectationMSE.name
"""The score that is ranked by unless another is asked for: b², the MSE in units of the posterior variance."""

if TYPE_CHECKING:
    from fbar.study.results import StudyResult


@dataclass(frozen=True)
class Verdict:
    """Two methods on one problem at one budget. ``better`` is the name of the better one, None where it is open.

    Trials that failed are left out; a method with more of them than the other is never called the better one.
    """

    problem: str
    budget: int
    first: str
    second: str
    comparison: Comparison
    better: str | None


@dataclass(frozen=True)
class Standing:
    """One method on one problem at one budget: its mean score, and the places it may truly have."""

    problem: str
    budget: int
    method: str
    mean: float
    error: float
    best_place: int
    worst_place: int
    trials: int
    failed: int
    from_prior: int
    rough_truth: bool = False

    @property
    def place(self) -> str:
        """Such as 1 or 2–3; empty for a method that failed in every trial, which takes no place from others."""
        if not self.trials:
            return "–"
        return str(self.best_place) if self.best_place == self.worst_place else f"{self.best_place}–{self.worst_place}"


@dataclass(frozen=True)
class Ranking:
    """Standings by problem and budget, every pair's verdict, and a count over all.

    The probability that any verdict of the whole ranking is wrong is at most ``level`` (Holm's method over all pairs of
    all problems and budgets), as far as Student's t applies to means of the trials: not for errors so rare and large
    that the trials may not include them. A pair is compared over the trials in which neither failed. There is no
    verdict where the truth's own squared error is over 1% of a score.
    """

    score: str
    level: float
    standings: tuple[Standing, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def contested(self) -> tuple[Verdict, ...]:
        """The verdicts on pairs of methods that did not fail in every trial; others cannot be compared."""
        placed = {(s.problem, s.budget, s.method) for s in self.standings if s.trials}
        return tuple(
            v for v in self.verdicts if {(v.problem, v.budget, v.first), (v.problem, v.budget, v.second)} <= placed
        )

    def better(self, first: str, second: str, problem: str | None = None, budget: int | None = None) -> list[Verdict]:
        """The verdicts that ``first`` is better than ``second``."""
        return [
            verdict
            for verdict in self.verdicts
            if verdict.better == first
            and second in (verdict.first, verdict.second)
            and problem in (None, verdict.problem)
            and budget in (None, verdict.budget)
        ]

    def overall(self) -> list[dict[str, Any]]:
        """By method: in how many comparisons it was better or worse, and how many are undecided; most wins first."""
        rows = []
        for name in dict.fromkeys(standing.method for standing in self.standings):
            mine = [verdict for verdict in self.contested if name in (verdict.first, verdict.second)]
            won = sum(verdict.better == name for verdict in mine)
            open_ = sum(verdict.better is None for verdict in mine)
            rows.append({"method": name, "better": won, "worse": len(mine) - won - open_, "open": open_})
        return sorted(rows, key=lambda row: (-row["better"] + row["worse"], row["method"]))

    def as_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "problem": s.problem,
                "budget": s.budget,
                "place": s.place,
                "method": s.method,
                "score": s.mean,
                "standard_error": s.error,
                "trials": s.trials,
                "failed": s.failed,
                "from_prior": s.from_prior,
                "rough_truth": s.rough_truth,
            }
            for s in self.standings
        ]

    def pair_rows(self) -> list[dict[str, Any]]:
        rows = []
        for v in self.verdicts:
            low, high = v.comparison.interval()
            rows.append(
                {
                    "problem": v.problem,
                    "budget": v.budget,
                    "first": v.first,
                    "second": v.second,
                    "ratio": v.comparison.ratio,
                    "low": low,
                    "high": high,
                    "p": v.comparison.p,
                    "better": v.better,
                }
            )
        return rows

    def __str__(self) -> str:
        lines = []
        width = max(len(s.method) for s in self.standings)
        for key in dict.fromkeys((s.problem, s.budget) for s in self.standings):
            lines.append(f"{key[0]}, {key[1]:,} simulations: {self.score}")
            for s in (s for s in self.standings if (s.problem, s.budget) == key):
                notes = [f"{s.failed} failed"] if s.failed else []
                notes += [f"{s.from_prior} scored with the prior"] if s.from_prior else []
                notes += ["the truth is not known precisely enough"] if s.rough_truth else []
                note = f"  ({', '.join(notes)})" if notes else ""
                score = shorthand(s.mean, s.error) if s.trials else "–"
                lines.append(f"  {s.place:>5}  {s.method:<{width}}  {score}{note}")
        called = sum(verdict.better is not None for verdict in self.contested)
        if self.contested:
            lines.append(
                f"{called} of {len(self.contested)} differences are significant (probability of any error at most "
                f"{self.level:.0%}); methods with overlapping places cannot be distinguished"
            )
        if any(s.failed for s in self.standings):
            lines.append("failed trials are left out; a pair is compared over the trials that both methods finished")
        return "\n".join(lines)


def rank(result: StudyResult, score: str, target: str | None, level: float) -> Ranking:
    """Rank the methods of every problem and budget by the mean of a score over trials."""
    level = share(level, "level")
    better = result.direction(score)
    if better == "nominal":
        raise InputError(f"the score {shown(score)} is best at one value and cannot rank methods")
    if result.number_of_trials < 2:
        raise InputError("a ranking needs at least 2 trials to have an uncertainty; got 1")
    groups: list[tuple[str, int]] = list(dict.fromkeys((cell.problem, cell.budget) for cell in result.cells))
    values, pairs = {}, []
    for problem, budget in groups:
        names = [cell.method for cell in result.cells if (cell.problem, cell.budget) == (problem, budget)]
        for name in names:
            values[problem, budget, name] = result.values(score, problem, name, budget, target)
        pairs += [(problem, budget, a, b) for a, b in combinations(names, 2)]
    rough = {key for key in values if score == ERROR and result.truth_is_too_rough(key[0], key[2], key[1], target)}
    nothing = Comparison(math.nan, math.nan, 1.0, 0)
    compared = [
        nothing if {(p, n, a), (p, n, b)} & rough else compare(values[p, n, a], values[p, n, b]) for p, n, a, b in pairs
    ]
    called = holm([comparison.p for comparison in compared], level)
    verdicts = []
    for (problem, budget, a, b), comparison, real in zip(pairs, compared, called, strict=True):
        lower = a if comparison.ratio < 1 else b
        winner = lower if better == "lower" else (b if lower == a else a)
        # A method that fails where it is hard leaves its worst trials out: it is not called better for that.
        failed = {name: result.statuses(problem, name, budget).count("failed") for name in (a, b)}
        real = real and failed[winner] <= failed[b if winner == a else a]
        verdicts.append(Verdict(problem, budget, a, b, comparison, winner if real else None))
    standings: list[Standing] = []
    for problem, budget in groups:
        rows = []
        names = [key[2] for key in values if key[:2] == (problem, budget)]
        sizes = {name: int(np.isfinite(values[problem, budget, name]).sum()) for name in names}
        placed = sum(size > 0 for size in sizes.values())
        for name in names:
            v = values[problem, budget, name]
            mean, error = mean_and_error(v[np.isfinite(v)])
            mine = [x for x in verdicts if (x.problem, x.budget) == (problem, budget) and name in (x.first, x.second)]
            worse_than = sum(x.better is not None and x.better != name for x in mine)
            better_than = sum(x.better == name for x in mine)
            status = result.statuses(problem, name, budget)
            rows.append(
                Standing(
                    problem,
                    budget,
                    name,
                    mean,
                    error,
                    1 + worse_than,
                    placed - better_than,
                    sizes[name],
                    status.count("failed"),
                    status.count("prior"),
                    (problem, budget, name) in rough,
                )
            )
        sign = 1 if better == "lower" else -1
        standings += sorted(rows, key=lambda s: math.inf if math.isnan(s.mean) else sign * s.mean)
    return Ranking(result.label(score, target), level, tuple(standings), tuple(verdicts))
