"""Multilevel ABC against ABC's exact posterior at its tolerance: bias, error, and how often error bars hold.

The telescoping sum (Warne, Baker & Simpson 2018), the average over its last level, all of its draws with mixture
weights, rejection, and ABC-SMC with the particles of all rounds, each with the same number of simulations:

    python benchmarks/systems/multilevel.py            # 100 runs, some ten minutes; writes multilevel*.csv
    python benchmarks/systems/multilevel.py --runs 8

In multilevel.csv, ``bias`` is the mean error and ``rmse`` the root mean squared error over the runs, in standard
deviations of the target's ψ under ABC's posterior; ``stated`` and ``published`` are the root mean squares of the
standard errors. In multilevel_levels.csv, ``variance`` is v_l of the mean of theta1 over that of the first level, and
``cost`` the simulations for each accepted one, in the runs with the most usual ladder. multilevel_claims.csv has the
paper's claims and our numbers.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.telescope import TelescopingPosterior
from fbar.methods.levels import MultilevelRun
from fbar.problems.models.filippi import RingPosterior
from fbar.testing import finish

HERE = Path(__file__).parent
COLUMNS = (
    "problem", "tolerance", "simulations", "method", "target", "runs", "bias", "bias_se", "rmse", "stated", "published",
    "coverage", "flagged",
)  # fmt: skip
LEVELS = ("problem", "simulations", "level", "tolerance", "variance", "cost", "accepted")
CLAIMS = ("claim", "ours")


@dataclass(frozen=True, eq=False)
class Question:
    """A problem with ABC's exact posterior at a tolerance: value and standard deviation of ψ of every target."""

    name: str
    problem: fbar.Problem
    tolerance: float
    truths: dict[fbar.Target, tuple[float, float]]

    @property
    def targets(self) -> list[fbar.Target]:
        return list(self.truths)


def ring(tolerance: float = 20.0) -> Question:
    """Filippi et al.'s problem (figure S5 of the paper): two strongly correlated parameters."""
    points, weights = RingPosterior(0.0, tolerance).parts[0]
    p = weights / weights.sum()
    targets = (
        fbar.mean("theta1"),
        fbar.sd("theta2"),
        fbar.probability("theta1 > 2 * theta2"),
        fbar.covariance("theta1", "theta2"),
    )
    truths = {t: (float(t.value(points, p)[0]), math.sqrt(p @ t.influence(points, p)[:, 0] ** 2)) for t in targets}
    return Question("filippi", fbar.problems.filippi(), tolerance, truths)


def mixture() -> Question:
    """The benchmark's gaussian-mixture at the tolerance that accepts a thousandth of the simulations."""
    problem = fbar.problems.load("gaussian-mixture")
    tolerance = problem.tolerances[0.001]
    truth = problem.truth_at(tolerance)
    assert truth is not None
    targets = fbar.mean("theta1"), fbar.second_moment("theta1")
    truths = {t: (truth[t.name].value, truth[t.name].deviation) for t in targets}
    return Question("gaussian-mixture", problem, tolerance, truths)


def normal(tolerance: float = 0.1) -> Question:
    """θ ~ U(−5, 5), y ~ N(θ, 1), y* = 1: θ is 1 plus N(0, 1) plus U(−ε, ε), but for 10⁻⁴ beyond the prior's edges."""
    prior = fbar.Prior(theta1=stats.uniform(-5, 10))
    problem = fbar.Problem(prior, lambda t, rng: t["theta1"] + rng.standard_normal(t.rows), observed=1.0)
    v = 1 + tolerance**2 / 3
    truths = {
        fbar.mean("theta1"): (1.0, math.sqrt(v)),
        fbar.second_moment("theta1"): (1 + v, math.sqrt(4 * v + 2 * v**2)),
    }
    return Question("normal", problem, tolerance, truths)


@dataclass(frozen=True)
class Answer:
    """An estimate with its interval; ``published`` is the published standard error of a multilevel sum."""

    value: float
    error: float
    low: float
    high: float
    flagged: bool
    published: float = math.nan


def answers(posterior: fbar.Posterior, targets: list[fbar.Target]) -> list[Answer]:
    found = []
    for estimate in posterior.expect(targets):
        low, high = estimate.interval(0.95)
        published = math.nan
        if isinstance(posterior, TelescopingPosterior):
            target = next(t for t in targets if t.name == estimate.name)
            bars = posterior.errors.error_bars(target.influence(posterior.points, posterior.weights))
            published = float(bars.standard_error[0])
        found.append(Answer(estimate.value, estimate.standard_error, low, high, not estimate.trusted, published))
    return found


def of_last_level(run: MultilevelRun, targets: list[fbar.Target]) -> list[Answer]:
    """The plain average over the draws of the last level."""
    points, weights = TelescopingPosterior(run.problem, [run.main[-1].draws()], run.simulations).last_level
    found = []
    for target in targets:
        value = float(target.value(points, weights)[0])
        error = float(target.influence(points, weights)[:, 0].std(ddof=1) / math.sqrt(points.rows))
        found.append(Answer(value, error, value - 1.96 * error, value + 1.96 * error, False))
    return found


def one_run(
    question: Question, budget: int, seed: int, with_smc: bool
) -> Iterator[tuple[str, list[Answer] | MultilevelRun]]:
    problem, targets, at = question.problem, question.targets, question.tolerance
    run = fbar.Multilevel(tolerance=at).start(problem, targets, seed, budget)
    yield "multilevel", answers(finish(run), targets)
    yield "levels", run
    yield "last level", of_last_level(run, targets)
    yield "mixture", answers(WeightedAverage()(run.drawn.mixture(at, run.seen)), targets)
    yield "rejection", answers(finish(fbar.Rejection(tolerance=at).start(problem, targets, seed, budget)), targets)
    if with_smc:
        smc = fbar.SMC(fbar.QuantileSchedule(tolerance=at), accepted=budget // 50)
        yield "smc", answers(finish(smc.start(problem, targets, seed, budget)), targets)


def study(question: Question, budget: int, runs: int, with_smc: bool) -> tuple[list[dict], list[dict]]:
    found, levels = defaultdict(list), defaultdict(list)
    mean = fbar.mean("theta1")
    for seed in range(runs):
        for method, given in one_run(question, budget, seed, with_smc):
            if isinstance(given, MultilevelRun):
                posterior = given.posterior()
                variances = posterior.errors.variances(mean.influence(posterior.points, posterior.weights))[:, 0]
                each = [
                    (v / variances[0], level.cost, level.accepted)
                    for level, v in zip(given.main, variances, strict=True)
                ]
                levels[given.ladder].append(each)
                continue
            for target, answer in zip(question.targets, given, strict=True):
                found[method, target].append(answer)
    rows = []
    for (method, target), each in found.items():
        value, scale = question.truths[target]
        error = np.array([answer.value - value for answer in each]) / scale
        stated = np.array([answer.error for answer in each]) / scale
        published = np.array([answer.published for answer in each]) / scale
        rows.append(
            {
                "problem": question.name,
                "tolerance": question.tolerance,
                "simulations": budget,
                "method": method,
                "target": target.name,
                "runs": len(each),
                "bias": f"{error.mean():.3g}",
                "bias_se": f"{error.std(ddof=1) / math.sqrt(len(each)):.2g}",
                "rmse": f"{math.sqrt((error**2).mean()):.3g}",
                "stated": f"{math.sqrt((stated**2).mean()):.3g}",
                "published": "" if np.isnan(published).any() else f"{math.sqrt((published**2).mean()):.3g}",
                "coverage": f"{np.mean([a.low <= value <= a.high for a in each]):.3g}",
                "flagged": f"{np.mean([a.flagged for a in each]):.3g}",
            }
        )
    usual = max(levels, key=lambda ladder: len(levels[ladder]))
    ladder = [
        {
            "problem": question.name,
            "simulations": budget,
            "level": number,
            "tolerance": tolerance,
            **dict(zip(LEVELS[4:], (f"{x:.3g}" for x in means), strict=True)),
        }
        for number, (tolerance, means) in enumerate(zip(usual, np.mean(levels[usual], axis=0), strict=True))
    ]
    return rows, ladder


def claims(rows: list[dict], ladder: list[dict]) -> list[dict]:
    """What the paper says of its method, and what came out here."""

    def rmse(method: str, target: str, problem: str, budget: str) -> float:
        keys = {"problem": problem, "simulations": budget, "method": method, "target": target}
        return float(next(row["rmse"] for row in rows if all(row[key] == keys[key] for key in keys)))

    made = []
    first = [row for row in ladder if (row["problem"], row["simulations"]) == ("filippi", "20000")]
    made.append(
        {
            "claim": "the variance of the correction terms falls with the tolerance",
            "ours": f"filippi: {', '.join(row['variance'] for row in first)} of that of the first level",
        }
    )
    for problem in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == problem]
        budget = own[0]["simulations"]
        for target in dict.fromkeys(row["target"] for row in own):
            errors = {
                method: rmse(method, target, problem, budget) for method in ("multilevel", "last level", "mixture")
            }
            gain = rmse("rejection", target, problem, budget)
            ours = "; ".join(f"{method} {(gain / error) ** 2:.2g}" for method, error in errors.items())
            made.append(
                {
                    "claim": "a smaller mean squared error than rejection at the same cost",
                    "ours": f"{problem}, {target}, rejection's over ours: {ours}",
                }
            )
    return made


def table(rows: list[dict[str, str]]) -> str:
    """The table of docs/methods/multilevel.md, from the rows of multilevel.csv."""
    heads = ("problem", "simulations", "target", "bias", "published", "stated", "held", "flagged")
    methods = ("multilevel", "last level", "mixture", "rejection", "smc")
    lines = [heads + methods, ("---",) * (len(heads) + len(methods))]
    for key in dict.fromkeys((row["problem"], row["simulations"], row["target"]) for row in rows):
        own = {row["method"]: row for row in rows if (row["problem"], row["simulations"], row["target"]) == key}
        sums = own["multilevel"]
        errors = (own[method]["rmse"] if method in own else "" for method in methods)
        bias = f"{sums['bias']} ± {sums['bias_se']}"
        held, flagged = (f"{float(sums[column]):.0%}" for column in ("coverage", "flagged"))
        problem, simulations, target = key
        first = (problem, f"{int(simulations):,}", f"`{target}`", bias)
        lines.append((*first, sums["published"], sums["stated"], held, flagged, *errors))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


STUDIES = ((ring, 20_000, True), (ring, 80_000, False), (mixture, 20_000, True), (normal, 100_000, False))
"""Problems, numbers of simulations, and whether ABC-SMC takes part."""


def read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: tuple[str, ...], rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", choices=[make.__name__ for make, _, _ in STUDIES], help="keep the rows of the others")
    parser.add_argument("--to", type=Path, default=HERE)
    given = parser.parse_args()
    table_of, levels_of = given.to / "multilevel.csv", given.to / "multilevel_levels.csv"
    rows, ladder = (read(table_of), read(levels_of)) if given.only else ([], [])
    for make, budget, with_smc in STUDIES:
        if given.only not in (None, make.__name__):
            continue
        question = make()
        more, levels = study(question, budget, given.runs, with_smc)
        for row in more:
            print(*row.values(), sep="\t", flush=True)
        key = question.name, str(budget)
        rows = [row for row in rows if (row["problem"], str(row["simulations"])) != key] + more
        ladder = [row for row in ladder if (row["problem"], str(row["simulations"])) != key] + levels
    write(table_of, COLUMNS, rows)
    write(levels_of, LEVELS, ladder)
    write(given.to / "multilevel_claims.csv", CLAIMS, claims(read(table_of), read(levels_of)))


if __name__ == "__main__":
    main()
