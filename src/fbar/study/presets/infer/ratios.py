"""The claims on the error: ratios of b² of two methods, with what the truth's own error adds to their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fbar.scores import Scene
from fbar.study.paired import Comparison, compare, holm, two_sided
from fbar.study.presets.base import Claim
from fbar.study.presets.infer.studies import METHOD
from fbar.study.ranking import ERROR
from fbar.study.results import StudyResult


@dataclass(frozen=True)
class Against:
    """The ratio of b² of two methods on one problem, over the trials that both finished.

    ``truth`` is the largest part of either b² that the truth's own squared error makes up. That error t is one for all
    trials: what is left of it after its expectation was taken off, t² (χ² − 1), shifts both means, and adds
    √2 |t²/b²₁ − t²/b²₂| to the error of the log ratio.
    """

    problem: str
    comparison: Comparison
    truth: float
    more_failures: bool


def against(result: StudyResult, first: str, second: str) -> list[Against]:
    """b² of ``first`` over that of ``second``, on each problem."""
    found = []
    for problem in result.arenas:
        for budget in dict.fromkeys(cell.budget for cell in result.cells if cell.problem == problem):
            a, b = (result.values(ERROR, problem, name, budget) for name in (first, second))
            failed = [result.statuses(problem, name, budget).count("failed") for name in (first, second)]
            plain = compare(a, b)
            own = truth_part(result, problem)
            shares = [own / float(np.nanmean(x)) if np.isfinite(x).any() else math.nan for x in (a, b)]
            error = math.hypot(plain.log_error, math.sqrt(2) * abs(shares[0] - shares[1]))
            p = plain.p
            if own > 0 and plain.ratio > 0:
                p = max(p, two_sided(math.log(plain.ratio), error, plain.trials))
            comparison = replace(plain, log_error=error, p=p)
            found.append(Against(problem, comparison, max(shares), failed[0] > failed[1]))
    return found


def truth_part(result: StudyResult, problem: str) -> float:
    """The truth's squared error in units of b², averaged over the targets as b² is."""
    arena = result.arenas[problem]
    scene = Scene(arena.scored, arena.targets)
    parts = [
        (float(scene.problem.truth_error(target)[0]) / result.deviation(problem, target.name)) ** 2
        for target in arena.targets
    ]
    return float(np.mean(parts))


def _ratio(item: Against) -> str:
    low, high = item.comparison.interval()
    return f"{item.comparison.ratio:.2f} ({low:.2f} to {high:.2f})"


def _rough(item: Against) -> str:
    return f" (the truth's own squared error is {item.truth:.0%} of the smaller)" if item.truth > 0.01 else ""


def at_most(result: StudyResult, other: str, bound: float, text: str) -> list[Claim]:
    claims = []
    for item in against(result, METHOD, other):
        found = f"b² is {_ratio(item)} times that of {other}{_rough(item)}"
        holds = item.comparison.interval()[1] <= bound and not item.more_failures
        claims.append(Claim(text, item.problem, found, holds))
    return claims


def against_others(name: str, result: StudyResult) -> list[Claim]:
    """Never significantly worse than rejection; better than the last round of ABC-SMC on two problems of three."""
    claims = []
    methods = result.contenders()
    if "rejection" in methods:
        items = against(result, METHOD, "rejection")
        real = holm([item.comparison.p for item in items], 0.05)
        for item, called in zip(items, real, strict=True):
            worse = (called and item.comparison.ratio > 1) or math.isnan(item.comparison.ratio)
            found = f"b² is {_ratio(item)} times that of rejection{_rough(item)}"
            text = f"{name}: not significantly worse than rejection"
            claims.append(Claim(text, item.problem, found, not worse and not item.more_failures))
    if "smc-last" in methods:
        items = against(result, METHOD, "smc-last")
        real = holm([item.comparison.p for item in items], 0.05)
        won = [
            i.problem
            for i, sure in zip(items, real, strict=True)
            if sure and i.comparison.ratio < 1 and not i.more_failures
        ]
        lower = sum(item.comparison.ratio < 1 for item in items)
        not_won = "; open or worse: " + ", ".join(
            f"{item.problem} {item.comparison.ratio:.2f}" for item in items if item.problem not in won
        )
        found = (
            f"significantly better on {len(won)} of {len(items)}, smaller b² on {lower}"
            f"{not_won if len(won) < len(items) else ''}"
        )
        text = f"{name}: better than the last round of ABC-SMC on two problems of three"
        claims.append(Claim(text, "all", found, 3 * len(won) >= 2 * len(items)))
    return claims
