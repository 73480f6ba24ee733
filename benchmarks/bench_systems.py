"""What the methods of docs/methods cost beyond the simulator: microseconds a simulation, as times those of rejection.

    python benchmarks/bench_systems.py [METHOD …]

Each method and rejection run on the same problem with the same number of simulations, in the same process: a normal
model in two dimensions, or one of the kind that a method needs. The simulator's time is measured and taken off. All are
CPU seconds of one thread, which other programs on the machine disturb less. The bound is 10 µs a simulation, and for
surrogates 10 seconds at 500 simulations. In the stored run, on a busy machine, density estimation, which sorts the 50
numbers of each data set, mcmc and multifidelity were above it; the ratios depend less on the machine. Writes
bench_systems.csv beside itself; with methods given, it only prints.
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
from fbar.methods.registry import find

OUT = Path(__file__).with_suffix(".csv")
BOUND, SURROGATE_BOUND = 10.0, 20_000.0
"""Microseconds a simulation."""

MANY, SOME = 100_000, 500
LEAST = 0.01
"""Microseconds that rejection costs at least: less cannot be measured."""


class Timed:
    """A simulator whose CPU time is known."""

    def __init__(self, function) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments):
        begun = time.process_time()
        x = self.function(*arguments)
        self.seconds += time.process_time() - begun
        return x


def normal():
    simulate = Timed(
        lambda t, rng: np.stack([t["theta1"], t["theta2"]], axis=1) + 0.5 * rng.standard_normal((t.rows, 2))
    )
    prior = fbar.Prior(theta1=stats.uniform(-2, 4), theta2=stats.uniform(-2, 4))
    return fbar.Problem(prior, simulate, np.zeros(2)), [simulate]


def independent():
    simulate = Timed(lambda t, rng: t["theta1"][:, None] + rng.standard_normal((t.rows, 50)))
    data = stats.norm.ppf((np.arange(50) + 0.5) / 50)
    return fbar.Problem(fbar.Prior(theta1=stats.norm(0, 1)), simulate, data), [simulate]


def choices():
    simulate = Timed(lambda t, rng: (rng.random((t.rows, 8)) < t["theta1"][:, None]).astype(int))
    return fbar.Problem(fbar.Prior(theta1=stats.uniform(0, 1)), simulate, np.array([1, 0, 1, 1, 0, 1, 1, 1])), [
        simulate
    ]


def estimate():
    def log_likelihood(t, rng):
        log_p = -0.5 * (1 - t["theta1"]) ** 2 + rng.standard_normal(t.rows) - 0.5
        return {"x": t["theta1"][:, None], "log_likelihood": log_p}

    simulate = Timed(log_likelihood)
    problem = fbar.Problem(fbar.Prior(theta1=stats.norm(0, 1)), simulate, [1.0], records=["log_likelihood"])
    return problem, [simulate]


def pair():
    real = Timed(lambda t, rng, noise: t["theta1"] + noise.normal(1)[:, 0])
    cheap = Timed(lambda t, rng, noise: 0.95 * t["theta1"] + 0.05 + noise.normal(1)[:, 0])
    both = fbar.Fidelities(real, cheap, shares_noise=True, cheap_cost=1.0)
    return fbar.Problem(fbar.Prior(theta1=stats.norm(0, 1)), both, 1.0, cost=50.0), [real, cheap]


CASES = {
    "synthetic-likelihood": (normal, MANY, None, 1.0),
    "density": (independent, MANY, None, 9.0),
    "until-match": (choices, MANY, None, 1.0),
    "pseudo-marginal": (estimate, MANY, None, 1.0),
    "multifidelity": (pair, MANY, 0.5, 0.5),
    "multilevel": (normal, MANY, 0.3, 0.3),
    "mcmc": (normal, MANY, 0.3, 0.3),
    "synthetic-likelihood-mcmc": (normal, MANY, None, 1.0),
    "pmc": (normal, MANY, 0.3, 0.3),
    "adaptive-weights": (normal, MANY, 0.3, 0.3),
    "smc-replicas": (normal, MANY, 0.3, 0.3),
    "bolfi": (normal, SOME, None, 1.0),
    "bolfi-eiv": (normal, SOME, None, 1.0),
}
"""The problem, simulations, the tolerance of the method if it has one, and that of rejection."""


def measured(method, make, simulations):
    """Microseconds a simulation, those of the simulator taken off."""
    problem, simulators = make()
    targets = [fbar.mean("theta1"), fbar.variance("theta1")]
    run = method.start(problem, targets, 1, simulations)
    begun = time.process_time()
    fbar.drive(run)
    run.posterior().expect(targets)
    seconds = time.process_time() - begun - sum(simulate.seconds for simulate in simulators)
    return seconds / run.simulations * 1e6


def main(names: list[str]) -> None:
    rows = []
    measured(fbar.Rejection(tolerance=0.3), normal, 20_000)
    for name in names or CASES:
        make, simulations, tolerance, of_rejection = CASES[name]
        method = find(name).make()
        method = method if tolerance is None else method.at_tolerance(tolerance)
        rejection = max(measured(fbar.Rejection(tolerance=of_rejection), make, simulations), LEAST)
        measured(method, make, max(simulations // 20, 100))  # imports, and functions that are compiled once
        micro = measured(method, make, simulations)
        bound = BOUND if simulations == MANY else SURROGATE_BOUND
        rows.append([name, simulations, f"{micro:.3g}", f"{micro / rejection:.3g}", f"{micro / bound:.2f}"])
        parts = f"{micro / rejection:.3g} times rejection's, {micro / bound:.2f} of the bound"
        print(f"{name}: {micro:.3g} µs a simulation, {parts}", flush=True)
    if names:
        return
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "simulations", "microseconds", "over_rejection", "of_bound"])
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
