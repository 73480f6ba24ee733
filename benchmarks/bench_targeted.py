"""What the targeted method costs beside the simulator: microseconds a simulation, and times what rejection costs.

    python benchmarks/bench_targeted.py

One million simulations of a Gaussian model in five dimensions, with a budget and towards a precision (whose rounds
look at the posterior again and again). The bound is 10 µs a simulation; the simulator's own time is measured alone
and taken off. Writes bench_targeted.csv beside itself.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import csv
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

import fbar

SIMULATIONS, DIMENSIONS, BOUND = 1_000_000, 5, 10.0
NAMES = [f"theta{i + 1}" for i in range(DIMENSIONS)]


class Timed:
    """A simulator that knows how long it took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
        begun = time.perf_counter()
        x = np.stack([theta[name] for name in NAMES], axis=1) + 0.5 * rng.standard_normal((theta.rows, DIMENSIONS))
        self.seconds += time.perf_counter() - begun
        return x


def measured(method: fbar.Method, **options: object) -> tuple[float, fbar.Result]:
    """Microseconds a simulation, those of the simulator taken off."""
    simulate = Timed()
    prior = fbar.Prior(**{name: stats.uniform(-2, 4) for name in NAMES})
    problem = fbar.Problem(prior, simulate, observed=np.zeros(DIMENSIONS))
    targets = [fbar.mean("theta1"), fbar.variance("theta2")]
    begun = time.perf_counter()
    result = fbar.infer(problem, targets, method=method, budget=SIMULATIONS, seed=1, **options)  # type: ignore[arg-type]
    seconds = time.perf_counter() - begun - simulate.seconds
    return seconds / result.simulations * 1e6, result


def main() -> int:
    rows = []
    for tolerance in (0.8, 2.0):  # one draw of a hundred is accepted, and one of four
        rejection, _ = measured(fbar.Rejection(tolerance=tolerance))
        for towards, options in (("a budget", {}), ("a precision", {"precision": {"mean:theta1": 1e-6}})):
            micro, result = measured(fbar.Targeted(tolerance=tolerance), **options)
            accepted = round(result.accepted)
            rows.append([tolerance, towards, result.simulations, accepted, f"{micro:.2f}", f"{micro / rejection:.2f}"])
            print(f"tolerance {tolerance}, towards {towards}: {accepted:,} of {result.simulations:,} accepted")
            parts = f"{micro / BOUND:.2f} of the bound, {micro / rejection:.2f} times rejection's"
            print(f"    {micro:.2f} µs a simulation: {parts}")
    with open(Path(__file__).with_suffix(".csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["tolerance", "towards", "simulations", "accepted", "microseconds", "over_rejection"])
        writer.writerows(rows)
    return int(any(float(row[4]) > BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
