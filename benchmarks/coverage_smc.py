"""How often the 95% intervals of ABC-SMC hold the truth.

Two problems with exact ABC truth: Filippi et al.'s at ε = 1 (figure S5, by quadrature), and a Gaussian one in five
dimensions. Every perturbation kernel and every weighting, over replicated runs in two processes:

    python benchmarks/coverage_smc.py                # 2000 runs, about half an hour; writes coverage_smc.csv
    python benchmarks/coverage_smc.py --runs 200 --problems gaussian --kernels olcm
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.estimation.rounds import WEIGHTINGS
from fbar.problems import filippi

TOLERANCES = (160, 120, 80, 60, 40, 30, 20, 15, 10, 8, 6, 4, 3, 2, 1)
KERNELS = ("local-normal", "normal", "olcm", "uniform")
COLUMNS = (
    "problem", "kernel", "weights", "target", "runs", "simulations", "bias_sd", "mse", "se_sd",
    "coverage", "coverage_se", "trusted", "coverage_trusted",
)  # fmt: skip


def gaussian(dimension: int = 5, noise: float = 0.5, tolerance: float = 0.8) -> fbar.Problem:
    """θ ~ N(0, I), y ~ N(θ, noise² I), y* = 0, accepted where |y| ≤ ε.

    y is N(0, v I) with v = 1 + noise², cut to a ball: E[y₁²| |y| ≤ ε] = v F_{d+2}(ε²/v)/F_d(ε²/v) with F_k the
    distribution function of χ²_k; θ given y is N(y/v, noise²/v I).
    """
    names = [f"theta{i + 1}" for i in range(dimension)]
    v = 1 + noise**2
    square = v * stats.chi2.cdf(tolerance**2 / v, dimension + 2) / stats.chi2.cdf(tolerance**2 / v, dimension)
    variance = noise**2 / v + square / v**2

    def simulate(theta, rng):
        return np.stack([theta[n] for n in names], axis=1) + noise * rng.standard_normal((theta.rows, dimension))

    return fbar.Problem(
        fbar.Prior({n: stats.norm() for n in names}),
        simulate,
        observed=np.zeros(dimension),
        truth={"mean:theta1": 0.0, "second_moment:theta1": variance, "covariance:theta1,theta2": 0.0},
    )


@dataclass(frozen=True)
class Case:
    problem: fbar.Problem
    targets: tuple[fbar.Target, ...]
    schedule: object
    accepted: int


def case(name: str) -> Case:
    if name == "filippi":
        targets = (
            fbar.mean("theta1"),
            fbar.mean("theta2"),
            fbar.variance("theta1"),
            fbar.variance("theta2"),
            fbar.covariance("theta1", "theta2"),
        )
        return Case(filippi(1.0), targets, TOLERANCES, 800)
    targets = (fbar.mean("theta1"), fbar.second_moment("theta1"), fbar.covariance("theta1", "theta2"))
    return Case(gaussian(), targets, fbar.QuantileSchedule(0.5, tolerance=0.8), 1000)


def one(task: tuple[str, str, int]) -> np.ndarray:
    """A run: simulations, then value, standard error, interval and trust for every weighting and target."""
    name, kernel, seed = task
    given = case(name)
    method = fbar.SMC(given.schedule, accepted=given.accepted, perturbation=kernel)
    run = method.start(given.problem, given.targets, seed)
    fbar.drive(run)
    numbers = [float(run.simulations)]
    for weights in WEIGHTINGS:
        for estimate in run.reweighted(weights).expect(given.targets):
            numbers += [estimate.value, estimate.standard_error, *estimate.interval(0.95), float(estimate.trusted)]
    return np.array(numbers)


def table(name: str, kernel: str, rows: np.ndarray) -> list[list[object]]:
    given = case(name)
    runs = len(rows)
    values = rows[:, 1:].reshape(runs, len(WEIGHTINGS), len(given.targets), 5)
    result: list[list[object]] = []
    for w, weights in enumerate(WEIGHTINGS):
        for t, target in enumerate(given.targets):
            value, error, low, high, trusted = values[:, w, t].T
            truth = float(given.problem.truth(target)[0])
            held = (low <= truth) & (truth <= high)
            sd = value.std(ddof=1)
            sure = trusted > 0
            result.append(
                [
                    name, kernel, weights, target.name, runs, round(rows[:, 0].mean()),
                    *(
                        f"{number:.3g}"
                        for number in (
                            (value.mean() - truth) / sd,
                            ((value - truth) ** 2).mean(),
                            np.sqrt((error**2).mean()) / sd,
                            held.mean(),
                            np.sqrt(held.mean() * (1 - held.mean()) / runs),
                            sure.mean(),
                            held[sure].mean() if sure.any() else np.nan,
                        )
                    ),
                ]
            )  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--problems", nargs="+", choices=("filippi", "gaussian"), default=["filippi", "gaussian"])
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    lines: list[list[object]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for name in given.problems:
            for kernel in given.kernels:
                rows = []
                for row in pool.map(one, [(name, kernel, seed) for seed in range(given.runs)], chunksize=4):
                    rows.append(row)
                    if len(rows) % 50 == 0:
                        print(f"{name} {kernel}: {len(rows)} of {given.runs}", end="\r", file=sys.stderr, flush=True)
                lines += table(name, kernel, np.array(rows))
                with given.out.open("w", newline="") as file:
                    csv.writer(file).writerows([COLUMNS, *lines])
                print(" ".join(COLUMNS))
                for line in lines[-len(WEIGHTINGS) * len(case(name).targets) :]:
                    print(*line, flush=True)


if __name__ == "__main__":
    main()
