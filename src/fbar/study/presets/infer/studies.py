"""The studies of the preset "infer": what is asked, of which methods, with how many simulations.

At share p of the prior and N simulations rejection accepts N p: 10⁴ at 10⁻² and 10⁵ at 10⁻³, a hundred acceptances,
few enough that where to simulate matters and enough that error bars can be right.
"""

from __future__ import annotations

from dataclasses import replace

from fbar.methods import Run
from fbar.methods.smc import SMC
from fbar.methods.stopping import StoppingRule
from fbar.problems import Benchmark, load
from fbar.problems.catalogue import recipes
from fbar.question.problem import Problem
from fbar.study.contenders import Contender, as_contender
from fbar.study.presets.base import loaded
from fbar.study.study import Study

METHOD = "targeted"
SCORES = ("mse", "coverage")

ORACLE = {"two-sided-exponential": "mean:theta", "nested-models": "model_probability:1"}
EVENTS = {
    "two-sided-exponential": ("mean:theta", "second_moment:theta"),
    "ramp": ("mean:theta", "probability:theta < 0.5"),
    "nested-models": ("model_probability:1", "mean:theta1"),
}
PRECISIONS = {
    "two-sided-exponential": ("mean:theta", 0.042),
    "nested-models": ("model_probability:1", 0.0032),
    "gaussian-mixture": ("mean:theta1", 0.019),
    "filippi": ("mean:theta2", 0.034),
}
"""Standard errors that the oracle's design reaches with 8,000 simulations."""
FORECAST_AT = 4000
ASKED = {
    "slcp": ("theta1", "theta3"),
    "slcp-distractors": ("theta1", "theta3"),
    "g-and-k": ("B", "k"),
    "poisson-or-geometric": ("rate",),
}
"""Parameters whose moments are asked for where these are not the first two: theta3 has two signs, B and k are hard."""


def _smc_last() -> Contender:
    """The last round alone, as is usual: of a thousand particles at most, since it is their number that costs time."""
    return Contender(
        "smc-last",
        method_for=lambda budget: SMC(accepted=max(20, min(1000, budget // 20)), weights="last", centres=1000),
    )


def oracle(trials: int, seed: int) -> Study:
    # Three times as many: a ratio of mean squares from n trials is known to about 2/√n.
    return Study(list(ORACLE), [METHOD, "optimal"], 2**15, 3 * trials, SCORES, seed, targets=ORACLE, truth="tolerance")


def ring(trials: int, seed: int) -> Study:
    return Study(
        loaded(["filippi"]),
        [METHOD, _smc_last()],
        34_000,
        trials,
        SCORES,
        seed,
        targets=["mean:theta1", "mean:theta2"],
        tolerance={"filippi": 1.0},
        truth="tolerance",
    )


def events(trials: int, seed: int) -> Study:
    return Study(list(EVENTS), [METHOD, "rejection"], 10_000, trials, SCORES, seed, targets=EVENTS, truth="tolerance")


def _catalogue(budget: int, level: float, trials: int, seed: int) -> Study:
    """Every problem with data and a truth at the tolerance, as it is stored; the events have a study of their own."""
    problems = {name: load(name) for name in recipes()}
    problems = {name: problem for name, problem in problems.items() if _has_truth(problem, level)}
    targets = {}
    for name, problem in problems.items():
        chosen = ASKED.get(name, problem.prior.names[:2])
        targets[name] = [f"{kind}:{parameter}" for parameter in chosen for kind in ("mean", "second_moment")]
        if name == "poisson-or-geometric":
            targets[name].insert(0, "model_probability:poisson")
    methods = [METHOD, "rejection", _smc_last()]
    return Study(problems, methods, budget, trials, SCORES, seed, targets=targets, tolerance=level, truth="tolerance")


def _has_truth(problem: Problem, level: float) -> bool:
    return isinstance(problem, Benchmark) and problem.truth_at(problem.tolerances[level]) is not None


def small(trials: int, seed: int) -> Study:
    return _catalogue(10_000, 1e-2, trials, seed)


def large(trials: int, seed: int) -> Study:
    return _catalogue(100_000, 1e-3, trials, seed)


def stopping(trials: int, seed: int) -> Study:
    """Runs that end when the error bar is small enough; far over twice what they need at the latest."""
    wanted = dict(PRECISIONS.values())
    methods = [replace(as_contender(METHOD), precision=wanted, watch=forecast_once)]
    targets = {name: target for name, (target, _) in PRECISIONS.items()}
    return Study(loaded(PRECISIONS), methods, 100_000, trials, SCORES, seed, targets=targets, truth="tolerance")


def forecast_once(run: Run, rule: StoppingRule, told: dict[str, float]) -> None:
    """The first forecast after half of what the oracle needs: of all simulations, with its 80% interval."""
    if "forecast" in told or run.simulations < FORECAST_AT or run.learning:
        return
    found = rule.forecast(run)
    if found is not None:
        told |= {
            "forecast": float(found.at + found.more),
            "forecast_low": float(found.at + found.low),
            "forecast_high": float(found.at + found.high),
        }
