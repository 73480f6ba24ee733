"""How good forecasts of the simulations that a precision takes are.

Runs to a wanted standard error. After every round the forecast of the whole number, N there + n more, is compared with
what the run turned out to need: its simulations at the stop, scaled by (its error/the wanted one)², since it stops at a
round's end. Quantiles of the ratio over runs, by how far the run was, how often the 80% interval held the number, and
the median of the interval's upper end over its lower one.

The last cases are problems of the catalogue that are answered at the data, on even observations: how errors fall was
learned on odd ones. There the error is the total one, and the run needs the simulations at the first reading that is
small enough, which is not scaled. What is wanted is half the error of a run of 2,000 simulations. A run ends at 40,000
at the latest, and the forecast is that of the end. They are run a tenth as often, and have one row: numbers that are
needed differ so much that rows by how far a run was would choose the runs that needed many.

    python benchmarks/forecast.py                     # 100 runs a case, twenty minutes; writes forecast.csv
    python benchmarks/forecast.py --only sir          # these cases; the other rows stay as they are
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.methods.stopping import Budget, StandardError, StoppingRule
from fbar.question.targets import parse
from fbar.results.result import Result

COLUMNS = (
    "problem", "method", "done", "runs", "forecasts", "needed", "ratio_10", "ratio_50", "ratio_90", "interval_holds",
    "high_over_low",
)  # fmt: skip
AT_DATA = "at the data"
DONE = (0.0, 0.1, 0.3, 0.7, 1.0)
ALL = (0.0, 1.0)


def values() -> fbar.Problem:
    """Ten values whose data are the likelier the larger they are."""
    return fbar.Problem.tabulated(fbar.Finite(theta=list(range(10))), np.linspace(0.001, 0.1, 10))


def line() -> fbar.Problem:
    """One parameter seen through noise, under a wide prior."""
    return fbar.Problem(
        fbar.Prior(theta=stats.uniform(-20, 40)),
        lambda theta, rng: theta["theta"] + 0.5 * rng.standard_normal(theta.rows),
        observed=1.0,
    )


def ratio() -> fbar.Problem:
    """Two parameters of which the data know the ratio."""
    return fbar.Problem(
        fbar.Prior(beta=stats.uniform(0.5, 3.5), gamma=stats.uniform(0.2, 1)),
        lambda theta, rng: theta["beta"] / theta["gamma"] + 0.3 * rng.standard_normal(theta.rows),
        observed=3.0,
        derived={"theta": lambda theta: theta["beta"] / theta["gamma"]},
    )


CASES = (
    ("values", values(), "rejection", fbar.Rejection(), "mean:theta", 0.06),
    ("values", values(), "adaptive", fbar.AdaptiveAllocation(), "mean:theta", 0.06),
    ("line", line(), "rejection", fbar.Rejection(tolerance=0.2), "mean:theta", 0.02),
    ("line", line(), "smc", fbar.SMC([5, 1, 0.2], accepted=200), "mean:theta", 0.02),
    ("ratio", ratio(), "rejection", fbar.Rejection(tolerance=0.1), "mean:theta", 0.01),
    ("ratio", ratio(), "smc", fbar.SMC([1, 0.3, 0.1], accepted=200), "mean:theta", 0.01),
)

AT_DATA_CASES = (
    ("gaussian-linear", "mean:theta1"),
    ("gaussian-mixture", "mean:theta1"),
    ("two-moons", "mean:theta1"),
    ("sir", "mean:beta"),
    ("filippi", "mean:theta1"),
    ("lotka-volterra", "mean:alpha"),
)
SHORT, FEWER, LIMIT = 2000, 0.5, 40_000


Made = list[tuple[int, fbar.Forecast]]
"""Simulations at the ends of rounds, and the forecasts there."""


def watched(
    problem: fbar.Problem, method: fbar.Method, target: str, rule: StoppingRule, seed: int
) -> tuple[Result, Made]:
    """A run to its stopping rule, and its forecasts."""
    made = {}

    def watch(run: fbar.Run) -> None:
        if run.expected is not None:
            made[run.expected.at] = run.expected

    result = fbar.infer(problem, parse(target), method=method, stop=rule, seed=seed, progress=watch)
    return result, list(made.items())


def at_tolerance(
    problem: fbar.Problem, method: fbar.Method, target: str, wanted: float, seed: int
) -> tuple[float, Made]:
    """What a run needed, and its forecasts."""
    result, made = watched(problem, method, target, StandardError(target, wanted), seed)
    return result.simulations * (result.estimates[0].standard_error / wanted) ** 2, made


def at_data(name: str, target: str, seed: int) -> tuple[float, Made]:
    """The same for a run at the data, on one of the observations 2, 4, 6, 8 and 10 in turn."""
    problem = fbar.problems.load(name, observation=2 * (seed % 5) + 2)
    short = fbar.infer(problem, parse(target), budget=SHORT, seed=1000 + seed, progress=False)
    rule = StandardError(target, FEWER * float(short.estimates[0].standard_error)) | Budget(LIMIT)
    result, made = watched(problem, fbar.Targeted(), target, rule, seed)
    return result.simulations, made


def rows_of(name: str, title: str, runs: Sequence[tuple[float, Made]]) -> list[list[str]]:
    """The rows of a case, by how much of what it needed a run had done."""
    table = np.array(
        [
            (at / needed, (at + f.more) / needed, at + f.low <= needed <= at + f.high, (at + f.high) / (at + f.low))
            for needed, made in runs
            for at, f in made
        ]
    )
    mean, rows = np.mean([needed for needed, _ in runs]), []
    for low, high in pairwise(ALL if title == AT_DATA else DONE):
        part = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        if len(part):
            ratios = [f"{q:.3f}" for q in np.quantile(part[:, 1], [0.1, 0.5, 0.9])]
            holds, width = f"{part[:, 2].mean():.2f}", f"{np.median(part[:, 3]):.2f}"
            done = f"{low:.0%}-{high:.0%}"
            rows.append([name, title, done, str(len(runs)), str(len(part)), str(round(mean)), *ratios, holds, width])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", nargs="+", help="problems that are run; rows of others are kept")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    asked = parser.parse_args()
    cases = [
        (name, title, asked.runs, partial(at_tolerance, problem, method, target, wanted))
        for name, problem, title, method, target, wanted in CASES
    ]
    cases += [
        (name, AT_DATA, max(asked.runs // 10, 1), partial(at_data, name, target)) for name, target in AT_DATA_CASES
    ]
    kept = []
    if asked.only and asked.out.exists():
        with asked.out.open(newline="") as file:
            kept = [row + [""] * (len(COLUMNS) - len(row)) for row in list(csv.reader(file))[1:]]
    rows = []
    for name, title, runs, one in cases:
        found = [row for row in kept if row[:2] == [name, title]]
        if not asked.only or name in asked.only:
            found = rows_of(name, title, [one(seed) for seed in range(runs)])
            for row in found:
                print(*row, sep="  ", flush=True)
        rows += found
    with asked.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    print(f"wrote {asked.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
