"""What the paper claims in general: scores that mislead, where to simulate, all rounds of ABC-SMC."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fbar.study.presets.base import SCORES, Claim, Comparisons, loaded
from fbar.study.results import StudyResult
from fbar.study.study import Study

DESIGNS = {
    "two-sided-exponential": "mean:theta",
    "ramp": "probability:theta < 0.5",
    "nested-models": "model_probability:1",
    "filippi": "mean:theta1",
    "gaussian-mixture": "mean:theta1",
}
ALLOCATIONS = {
    "two-hypotheses": "probability:theta == 1",
    "ten-values": "mean:theta",
    "discretised-gaussian": "second_moment:theta",
}


def _designs(trials: int, seed: int) -> Study:
    methods = ["rejection", "posterior", "max-ess", "optimal"]
    return Study(loaded(DESIGNS), methods, 4096, 5 * trials, SCORES, seed, targets=DESIGNS, truth="tolerance")


def _allocations(trials: int, seed: int) -> Study:
    names = ("prior", "posterior", "max-ess", "optimal")
    methods = {name: f"allocation-{name}" for name in names}
    return Study(list(ALLOCATIONS), methods, 4096, 10 * trials, SCORES, seed, targets=ALLOCATIONS)


def _rounds(trials: int, seed: int) -> Study:
    methods = ["rejection", "smc", "smc-last", "smc-ess"]
    problems = loaded(["filippi", "two-moons", "gaussian-mixture"])
    return Study(problems, methods, 10_000, trials, SCORES, seed, tolerance=1e-3, truth="tolerance")


def _rounds_of_models(trials: int, seed: int) -> Study:
    methods = ["rejection", "smc", "smc-last", "smc-ess"]
    return Study(["sir", "ma2", "g-and-k"], methods, 10_000, max(2, trials // 2), SCORES, seed, tolerance=1e-3)


def _paper_claims(results: Mapping[str, StudyResult]) -> list[Claim]:
    found: list[Claim] = []
    for result in results.values():
        for score in ("acceptance-rate", "ess"):
            found += misleads(result, score)
    for name, base in (("designs", "rejection"), ("allocations", "prior")):
        if name not in results:
            continue
        found += better(results[name], "optimal", "posterior", "the posterior is not the best place to simulate")
        found += better(results[name], "optimal", "max-ess", "simulating for the error beats simulating for the ESS")
        found += better(results[name], "optimal", base, "simulating for the error beats the prior")
    for name in ("rounds", "rounds-of-models"):
        text = "all rounds of ABC-SMC beat the last round, from the same simulations"
        if name in results:
            found += better(results[name], "smc", "smc-last", text, same_simulations=True)
    return found


def misleads(result: StudyResult, score: str) -> list[Claim]:
    """Whether a score and the error rank some pair of methods in opposite ways, both significantly."""
    versus = result.against(score)
    claims = []
    for problem in result.arenas:
        pairs = [(u, v) for u, v in versus.misled if v.problem == problem]
        worst = max(pairs, key=lambda pair: abs(math.log(pair[1].comparison.ratio)), default=None)
        text = f"ranking by {'ESS' if score == 'ess' else 'acceptance rate'} disagrees with ranking by error"
        if worst is None:
            claims.append(Claim(text, problem, "no pair is ranked in opposite ways", holds=False))
            continue
        u, v = worst
        ratio, (low, high) = v.comparison.ratio, v.comparison.interval()
        if v.better == v.first:  # the error of the one that the score prefers over that of the better one
            ratio, low, high = 1 / ratio, 1 / high, 1 / low
        what = f"it prefers {u.better}, whose b² is {ratio:.2f} ({low:.2f} to {high:.2f}) times that of {v.better}"
        claims.append(Claim(text, problem, what, holds=True))
    return claims


def better(result: StudyResult, first: str, second: str, text: str, *, same_simulations: bool = False) -> list[Claim]:
    claims = []
    for verdict in result.ranking().verdicts:
        if {verdict.first, verdict.second} != {first, second}:
            continue
        ratio, (low, high) = verdict.comparison.ratio, verdict.comparison.interval()
        if verdict.first == first:
            ratio, low, high = 1 / ratio, 1 / high, 1 / low
        what = f"b² of {second} is {ratio:.2f} ({low:.2f} to {high:.2f}) times that of {first}"
        holds = verdict.better == first
        if same_simulations:
            spent = [
                [record.simulations for (cell, _), record in result.trials.items() if cell.key == key]
                for key in ((verdict.problem, first, verdict.budget), (verdict.problem, second, verdict.budget))
            ]
            same = spent[0] == spent[1]
            what += ", simulations equal in every trial" if same else ", but not from the same simulations"
            holds = holds and same
        claims.append(Claim(text, verdict.problem, what, holds))
    return claims


PAPER_CLAIMS = Comparisons(
    name="paper-claims",
    title="what the paper claims in general, on eleven problems: scores that mislead, where to simulate, all rounds",
    trials=100,
    note="within each study the chance of any wrong verdict is at most 10%: 5% for the error, 2.5% for each of the two "
    "other scores",
    ranks=True,
    studies={
        "designs": _designs,
        "allocations": _allocations,
        "rounds": _rounds,
        "rounds-of-models": _rounds_of_models,
    },
    claims=_paper_claims,
)
