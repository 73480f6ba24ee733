"""How often the 95% intervals of quantiles hold the quantile of ABC's posterior, by level and number of acceptances.

Eight problems whose ABC posterior is known at its tolerance: by its distribution function on a fine grid, or by
importance sampling with the known acceptance probability. Rejection, importance sampling from a q that is off to one
side, SMC and targeted runs, in two processes. Runs are sorted by how many simulations they accepted.

    python benchmarks/coverage_quantiles.py            # about 15 minutes; writes coverage_quantiles.csv
    python benchmarks/coverage_quantiles.py --quick    # a minute, on the terminal alone

The rule for unequal weights (room for an unseen draw, and when one carries a side) was chosen on exponential draws from
exponential proposals, which are none of these problems. That targeted runs keep their own rule was decided after a look
at an earlier table of this script, so for those it is not a test on problems that had not been seen.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

import fbar

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
ACCEPTED = (30, 100, 300, 1000, 3000)
COLUMNS = ("problem", "method", "accepted", "level", "runs", "flagged", "held", "coverage", "coverage_se", "se_sd")


@dataclass(frozen=True)
class Case:
    """A problem with one parameter that is asked for, and the acceptance probability of its simulations."""

    prior: fbar.Prior
    simulate: Callable | None
    observed: object
    tolerance: float
    probability: Callable | None  # of θ, for problems of one parameter
    q: fbar.Prior | None = None
    methods: tuple[str, ...] = ("rejection", "importance", "smc", "targeted")
    budgets: tuple[int, ...] = (150, 400, 1200, 4000, 12_000)  # of targeted runs
    name: str = "theta"
    exact: Callable | None = None
    evidence: float = field(default=math.nan)

    def problem(self) -> fbar.Problem:
        if self.simulate is None:
            return fbar.Problem.bernoulli(self.prior, lambda t: self.probability(t["theta"]))
        return fbar.Problem(self.prior, self.simulate, observed=self.observed)


def within(mean, sd, observed, tolerance):
    return stats.norm.cdf((observed + tolerance - mean) / sd) - stats.norm.cdf((observed - tolerance - mean) / sd)


def one(**prior) -> fbar.Prior:
    return fbar.Prior(**prior)


LOGS = ("a", "b", "c", "d")
LOG_DATA = np.array([math.log(3), 0.0, math.log(3), 0.0])


def logs(theta, rng):
    """log a, log a − log b, log c, log c − log d, with noise."""
    a, b, c, d = (np.log(theta[name]) for name in LOGS)
    return np.stack([a, a - b, c, c - d], axis=1) + 0.5 * rng.standard_normal((theta.rows, 4))


def logs_exact(number: int = 2_000_000) -> list[float]:
    """By importance sampling in the means of the data, where the prior is flat: |s − s*|²/σ² is noncentral χ²."""
    rng = np.random.default_rng(1)
    away = 0.75 * rng.standard_t(6, (number, 4))
    mean = LOG_DATA + away
    each = np.stack([mean[:, 0], mean[:, 0] - mean[:, 1], mean[:, 2], mean[:, 2] - mean[:, 3]])
    inside = ((each >= math.log(0.1)) & (each <= math.log(100))).all(axis=0)
    w = stats.ncx2.cdf(0.6**2 / 0.25, 4, (away**2).sum(axis=1) / 0.25) / np.prod(stats.t.pdf(away / 0.75, 6), axis=1)
    return weighted(np.exp(mean[:, 0]), w * inside)


def ball(theta, rng):
    return np.stack([theta[f"t{i}"] for i in range(3)], axis=1) + 0.5 * rng.standard_normal((theta.rows, 3))


def ball_exact() -> list[float]:
    """y ~ N(0, v I) within a ball of radius 0.8, θ given y is N(y/v, 0.25/v)."""
    v = 1.25
    y = np.linspace(-0.8, 0.8, 801)
    mass = stats.norm.pdf(y / math.sqrt(v)) * stats.chi2.cdf((0.64 - y**2) / v, 2)
    theta = np.linspace(-2.5, 2.5, 10_001)
    density = (mass * stats.norm.pdf((theta[:, None] - y / v) / math.sqrt(0.25 / v))).sum(axis=1)
    return weighted(theta, density)


def weighted(x, w) -> list[float]:
    order = np.argsort(x)
    w = w[order]
    return np.interp(LEVELS, (np.cumsum(w) - w / 2) / w.sum(), x[order]).tolist()


CASES = {
    "ramp": Case(one(theta=stats.uniform()), None, None, 0, lambda t: t, one(theta=stats.beta(1, 2)),
                 ("rejection", "importance", "targeted")),
    "normal": Case(one(theta=stats.norm()), lambda t, rng: rng.normal(t["theta"], 0.3), 1.0, 0.5,
                   lambda t: within(t, 0.3, 1.0, 0.5), one(theta=stats.norm(0.4, 0.6))),
    "heavy tails": Case(one(theta=stats.t(2)), lambda t, rng: rng.normal(t["theta"], 2), 0.0, 1.0,
                        lambda t: within(t, 2, 0.0, 1.0), one(theta=stats.t(3, 0.5, 0.8))),
    "counts": Case(one(theta=stats.loguniform(0.1, 100)), lambda t, rng: rng.poisson(t["theta"]), 3, 0.0,
                   lambda t: stats.poisson.pmf(3, t), one(theta=stats.loguniform(0.05, 200))),
    "edges": Case(one(theta=stats.beta(0.5, 0.5)), lambda t, rng: rng.binomial(10, t["theta"]), 8, 1.0,
                  lambda t: stats.binom.cdf(9, 10, t) - stats.binom.cdf(6, 10, t), one(theta=stats.beta(1, 1)),
                  ("rejection", "importance", "targeted")),
    "two modes": Case(one(theta=stats.uniform(-3, 6)), lambda t, rng: rng.normal(t["theta"] ** 2, 0.5), 2.0, 0.5,
                      lambda t: within(t**2, 0.5, 2.0, 0.5), one(theta=stats.uniform(-3.5, 7))),
    "logarithms": Case(one(**{n: stats.loguniform(0.1, 100) for n in LOGS}), logs, LOG_DATA, 0.6, None, None,
                       ("smc", "targeted"), (6000, 16_000, 60_000), "a", logs_exact),
    "three": Case(one(**{f"t{i}": stats.norm() for i in range(3)}), ball, np.zeros(3), 0.8, None, None,
                  ("rejection", "smc", "targeted"), (400, 1200, 4000, 12_000), "t0", ball_exact, 0.111),
}  # fmt: skip
"""Each with a prior of another shape."""

SLOW = ("logarithms", "smc")
"""A run takes a second or two: a third of the runs, and none of the largest."""


@cache
def truth(name: str) -> tuple[list[float], float]:
    """The quantiles, and the share of the prior's simulations that is accepted."""
    case = CASES[name]
    if case.exact is not None:
        return case.exact(), case.evidence
    u = (np.arange(400_000) + 0.5) / 400_000
    theta = case.prior.marginals["theta"].ppf(u)
    probability = case.probability(theta)
    return weighted(theta, probability), float(probability.mean())


def sampled(task: tuple[str, str, int, int]):
    """The posterior of a run."""
    name, method, size, seed = task
    case = CASES[name]
    problem, targets = case.problem(), [fbar.quantile(case.name, level) for level in LEVELS]
    budget = None
    if method == "rejection":
        chosen, budget = fbar.Rejection(tolerance=case.tolerance, rounds=1), max(20, round(size / truth(name)[1]))
    elif method == "importance":
        chosen = fbar.Importance(case.q, tolerance=case.tolerance, rounds=1)
        budget = max(20, round(size / truth(name)[1]))
    elif method == "smc":
        chosen = fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=case.tolerance), accepted=max(20, size // 2))
    else:  # aimed at the two ends of a credible interval
        chosen, budget, targets = fbar.Targeted(tolerance=case.tolerance), size, [targets[0], targets[-1]]
    started = chosen.start(problem, targets, seed, budget)
    fbar.drive(started, history=False)
    return started.posterior()


def run(task: tuple[str, str, int, int]):
    """How many were accepted, and for every level value, standard error, limits and trust."""
    posterior = sampled(task)
    found = posterior.expect([fbar.quantile(CASES[task[0]].name, level) for level in LEVELS])
    return float(posterior.accepted), [(e.value, e.standard_error, *e.interval(), float(e.trusted)) for e in found]


def tasks(runs: int, names: list[str], sizes: tuple[int, ...]) -> list[tuple[str, str, int, int]]:
    made = []
    for name in names:
        for method in CASES[name].methods:
            for size in CASES[name].budgets if method == "targeted" else sizes:
                if (name, method) != SLOW:
                    made += [(name, method, size, seed) for seed in range(runs)]
                elif size <= 1000:
                    made += [(name, method, size, seed) for seed in range(0, runs, 3)]
    return made


def table(done: list[tuple[tuple[str, str, int, int], tuple[float, list[tuple[float, ...]]]]]) -> list[list[object]]:
    """A line for each problem, method, number accepted and level; then all problems together."""
    near = np.log(np.array(ACCEPTED))
    cells: dict[tuple[str, str, int, float], list[tuple[float, ...]]] = {}
    for (name, method, _, _), (accepted, found) in done:
        if not 20 <= accepted <= 5000:
            continue
        size = ACCEPTED[int(np.argmin(np.abs(near - math.log(accepted))))]
        for level, numbers, exact in zip(LEVELS, found, truth(name)[0], strict=True):
            row = (*numbers, exact)
            for group in ((name, method), (name, "all"), ("all", method), ("all", "all")):
                cells.setdefault((*group, size, level), []).append(row)
    lines = []
    for key in sorted(cells, key=lambda key: ("all" in key, key[0] == "all", key)):
        value, error, low, high, trusted, exact = np.array(cells[key]).T
        sure = trusted > 0
        held = ((low <= exact) & (exact <= high))[sure]
        share = held.mean() if held.size else math.nan
        ratio = math.nan if "all" in key or not held.size else np.median(error[sure]) / value.std(ddof=1)
        lines.append(
            [*key, sure.size, f"{1 - sure.mean():.3f}", int(held.sum()), f"{share:.3f}",
             f"{math.sqrt(share * (1 - share) / held.size) if held.size else math.nan:.3f}", f"{ratio:.2f}"]
        )  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--problems", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    todo = tasks(8 if given.quick else given.runs, given.problems, ACCEPTED[:4] if given.quick else ACCEPTED)
    done = []
    with ProcessPoolExecutor(given.processes) as pool:
        for task, found in zip(todo, pool.map(run, todo, chunksize=10), strict=True):
            done.append((task, found))
            if len(done) % 100 == 0:
                print(f"{len(done)} of {len(todo)}", end="\r", file=sys.stderr, flush=True)
    lines = table(done)
    if not given.quick:
        with given.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])
    print(*COLUMNS)
    for line in lines:
        if line[0] == "all":
            print(*line)


if __name__ == "__main__":
    main()
