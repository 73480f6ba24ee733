"""How good forecasts of the simulations that a precision takes are.

Runs to a wanted standard error. After every round the forecast of the whole number, N there + n more, is compared with
what the run turned out to need: its simulations at the stop, scaled by (its error/the wanted one)², since it stops at a
round's end. Quantiles of the ratio over runs, by how far the run was, and how often the 80% interval held the number.
The last cases are problems of the catalogue that are answered at the data, where the error is the total one; they are
run a tenth as often.

    python benchmarks/forecast.py                 # 100 runs a case, ten minutes; writes forecast.csv
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.question.targets import parse

COLUMNS = (
    "problem", "method", "done", "runs", "forecasts", "needed", "ratio_10", "ratio_50", "ratio_90", "interval_holds",
)  # fmt: skip
AT_DATA = "at the data"
DONE = (0.0, 0.1, 0.3, 0.7, 1.0)


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


def catalogue(name: str, observation: int) -> tuple[str, fbar.Problem]:
    return f"{name} {observation}", fbar.problems.load(name, observation=observation)


CASES = (
    ("values", values(), "rejection", fbar.Rejection(), "mean:theta", 0.06),
    ("values", values(), "adaptive", fbar.AdaptiveAllocation(), "mean:theta", 0.06),
    ("line", line(), "rejection", fbar.Rejection(tolerance=0.2), "mean:theta", 0.02),
    ("line", line(), "smc", fbar.SMC([5, 1, 0.2], accepted=200), "mean:theta", 0.02),
    ("ratio", ratio(), "rejection", fbar.Rejection(tolerance=0.1), "mean:theta", 0.01),
    ("ratio", ratio(), "smc", fbar.SMC([1, 0.3, 0.1], accepted=200), "mean:theta", 0.01),
    (*catalogue("two-moons", 1), AT_DATA, fbar.Targeted(), "mean:theta1", 0.01),
    (*catalogue("gaussian-linear", 1), AT_DATA, fbar.Targeted(), "mean:theta1", 0.023),
    (*catalogue("gaussian-linear-uniform", 3), AT_DATA, fbar.Targeted(), "mean:theta1", 0.03),
    (*catalogue("sir", 5), AT_DATA, fbar.Targeted(), "mean:beta", 0.008),
)


def one(
    problem: fbar.Problem, method: fbar.Method, target: str, wanted: float, seed: int
) -> tuple[float, list[tuple[float, ...]]]:
    """What a run needed, and its forecasts: simulations there, and the whole number forecast, its low and its high."""
    made = {}

    def watch(run: fbar.Run) -> None:
        if run.expected is not None:
            made[run.expected.at] = run.expected

    result = fbar.infer(problem, parse(target), method=method, precision={target: wanted}, seed=seed, progress=watch)
    needed = result.simulations * (result.estimates[0].standard_error / wanted) ** 2
    return needed, [(at, at + f.more, at + f.low, at + f.high) for at, f in made.items()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    asked = parser.parse_args()
    rows = []
    for name, problem, title, method, target, wanted in CASES:
        all_needed, found = [], []
        runs = max(asked.runs // 10, 1) if title == AT_DATA else asked.runs
        for seed in range(runs):
            needed, made = one(problem, method, target, wanted, seed)
            all_needed.append(needed)
            found += [(at / needed, whole / needed, low <= needed <= high) for at, whole, low, high in made]
        table = np.array(found, dtype=float)
        for low, high in pairwise(DONE):
            mine = table[(table[:, 0] >= low) & (table[:, 0] < high)]
            if len(mine) == 0:
                continue
            quantiles = np.quantile(mine[:, 1], [0.1, 0.5, 0.9])
            rows.append(
                [name, title, f"{low:.0%}-{high:.0%}", runs, len(mine), round(np.mean(all_needed)),
                 *(f"{q:.3f}" for q in quantiles), f"{mine[:, 2].mean():.2f}"]
            )  # fmt: skip
            print(*rows[-1], sep="  ")
    with asked.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    print(f"wrote {asked.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
