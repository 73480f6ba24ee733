"""What estimates at the data cost beside the simulations: microseconds a simulation, and times what rejection costs.

    python benchmarks/bench_at_data.py

A model of ten parameters and ten summaries, ten targets. *Estimate* is the posterior at the data and its estimates,
once, from the simulations of a finished run; *targeted* a whole run of `Targeted()` less the same number of
simulations by rejection at a tolerance. Both are processor time; the bound is 30 µs a simulation at 100,000. Writes
bench_at_data.csv beside itself.
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
from fbar.estimation.at_data import AtData

DIMENSIONS, BOUND, MOST = 10, 30.0, 100_000
NAMES = [f"theta{i + 1}" for i in range(DIMENSIONS)]
TARGETS = [
    *(fbar.mean(name) for name in NAMES[:4]),
    *(fbar.variance(name) for name in NAMES[:2]),
    fbar.probability("theta1 > 0.5"),
    fbar.probability("theta2 + theta3 > 1"),
    fbar.quantile("theta1", 0.05),
    fbar.quantile("theta1", 0.95),
]


def simulate(theta: fbar.Points, rng: np.random.Generator) -> np.ndarray:
    x = np.stack([theta[name] for name in NAMES], axis=1)
    return x + 0.1 * x**2 + 0.5 * rng.standard_normal(x.shape)


def measured(problem: fbar.Problem, simulations: int) -> dict[str, float]:
    """Microseconds of processor time a simulation."""
    begun = time.process_time()
    result = fbar.infer(problem, TARGETS, method=fbar.Rejection(tolerance=3.0), budget=simulations, seed=1)
    rejection = time.process_time() - begun
    begun = time.process_time()
    AtData().posterior(result.run.all_simulations()).expect(TARGETS)
    estimate = time.process_time() - begun
    begun = time.process_time()
    fbar.infer(problem, TARGETS, budget=simulations, seed=1)
    targeted = time.process_time() - begun
    each = 1e6 / simulations
    return {
        "rejection": rejection * each,
        "estimate": estimate * each,
        "targeted": (targeted - rejection) * each,
        "targeted_over_rejection": targeted / rejection,
    }


def main() -> int:
    prior = fbar.Prior(**{name: stats.uniform(-2, 4) for name in NAMES})
    problem = fbar.Problem(prior, simulate, observed=np.full(DIMENSIONS, 0.4))
    rows = [{"simulations": n, **measured(problem, n)} for n in (10_000, MOST)]
    with (Path(__file__).parent / "bench_at_data.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({key: round(value, 2) for key, value in row.items()} for row in rows)
    for row in rows:
        print("  ".join(f"{key} {value:,.2f}" for key, value in row.items()))
    over = [key for key in ("estimate", "targeted") if rows[-1][key] > BOUND]
    print(f"bound {BOUND:g} µs a simulation: {'exceeded by ' + ', '.join(over) if over else 'kept'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
