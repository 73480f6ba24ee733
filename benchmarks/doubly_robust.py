"""What the doubly robust estimator gains: N·MSE and coverage of the estimators on problems whose truth is known.

The three estimators of independent draws see the same simulations; stratified draws have their own. ``bound`` is what
independent draws would leave with L̂ = L, E_q[w²ψ² L(1−L)]/Z². In two processes:

    python benchmarks/doubly_robust.py               # 500 runs of each case, some minutes; writes doubly_robust.csv
    python benchmarks/doubly_robust.py --runs 50 --cases ramp/prior
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

import fbar
from fbar.designs.optimal import NAMED, log_weights
from fbar.problems import filippi, load, ramp, two_sided_exponential

HALF, MEAN, FIRST = fbar.probability("theta < 0.5"), fbar.mean("theta"), fbar.mean("theta1")
CASES = {
    "ramp/prior": (ramp, "prior", HALF, 0.0),
    "ramp/stratified": (ramp, "stratified", HALF, 0.0),
    "ramp/prior, median": (ramp, "prior", fbar.quantile("theta", 0.5), 0.0),
    "two-sided-exponential/targeted": (two_sided_exponential, "targeted", MEAN, 0.0),
    "two-sided-exponential/max-ess": (two_sided_exponential, "max-ess", MEAN, 0.0),
    "filippi/targeted": (lambda: filippi(4.0), "targeted", FIRST, 4.0),
    "gaussian-mixture/targeted": (lambda: load("gaussian-mixture"), "targeted", FIRST, 2.0),
    "gaussian-mixture/prior": (lambda: load("gaussian-mixture"), "prior", FIRST, 2.0),
}
BUDGET = 1000
ESTIMATORS = {
    "weighted-average": fbar.WeightedAverage(),
    "kernel-regression": fbar.KernelRegression(),
    "doubly-robust": fbar.DoublyRobust(),
}
COLUMNS = (
    "case", "target", "simulations", "estimator", "runs", "n_mse", "n_mse_se", "n_variance", "gain", "bias_sd",
    "coverage", "coverage_se", "trusted", "bound",
)  # fmt: skip


@cache
def posed(name: str) -> tuple[fbar.Problem, fbar.Distribution, fbar.Target, float, float]:
    make, design, target, tolerance = CASES[name]
    problem = make()
    truth = problem.truth_at(tolerance) if name.startswith("gaussian") else problem.truth
    known = truth[target.name] if name.startswith("gaussian") else truth(target)
    value = float(np.ravel(getattr(known, "value", known))[0])
    return problem, NAMED[design](problem, (target,), tolerance), target, tolerance, value


def one(task: tuple[str, int]) -> np.ndarray:
    """Value, standard error, interval and trust for every estimator, and for stratified draws."""
    name, seed = task
    problem, q, target, tolerance, _ = posed(name)
    run = fbar.Importance(q, estimator=fbar.DoublyRobust(), rounds=1, tolerance=tolerance).start(
        problem, target, seed, BUDGET
    )
    fbar.drive(run)
    strata = fbar.Importance(q, "stratified", rounds=1, tolerance=tolerance).start(problem, target, seed, BUDGET)
    fbar.drive(strata)
    posteriors = [estimator(run.draws()) for estimator in ESTIMATORS.values()]
    numbers = []
    for posterior in (*posteriors, strata.posterior()):
        e = posterior.expect(target)
        numbers.append([e.value, e.standard_error, *e.interval(0.95), float(e.trusted)])
    return np.array(numbers)


def bound(name: str) -> float:
    """E_q[w²ψ² L(1−L)]/Z² = E_p[w ψ² L(1−L)]/Z², by draws from q."""
    problem, q, target, tolerance, _ = posed(name)
    points = q.sample(2**18, rng=np.random.default_rng(0))
    w = np.exp(log_weights(problem.prior, q, points))
    acceptance = problem.acceptance_probability(points, tolerance)
    weights = w * acceptance / (w * acceptance).sum()
    psi = target.influence(points, weights)[:, 0]
    return float((w**2 * psi**2 * acceptance * (1 - acceptance)).mean() / (w * acceptance).mean() ** 2)


def table(name: str, rows: np.ndarray) -> list[list[object]]:
    *_, target, _, truth = posed(name)
    result: list[list[object]] = []
    least, runs = bound(name), len(rows)
    plain = BUDGET * ((rows[:, 0, 0] - truth) ** 2).mean()
    for place, estimator in enumerate((*ESTIMATORS, "stratified draws")):
        value, error, low, high, trusted = rows[:, place].T
        square, held = BUDGET * (value - truth) ** 2, (low <= truth) & (truth <= high)
        numbers = (
            square.mean(), square.std() / np.sqrt(runs), BUDGET * (error**2).mean(), plain / square.mean(),
            (value.mean() - truth) / value.std(), held.mean(), np.sqrt(held.mean() * (1 - held.mean()) / runs),
            trusted.mean(), least,
        )  # fmt: skip
        result.append([name, target.name, BUDGET, estimator, runs, *(f"{number:.4g}" for number in numbers)])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    lines: list[list[object]] = []
    print(*COLUMNS)
    for name in given.cases:
        posed(name)  # made before the workers start
        with ProcessPoolExecutor(given.processes) as pool:
            rows = np.array(list(pool.map(one, [(name, seed) for seed in range(given.runs)], chunksize=5)))
        lines += table(name, rows)
        for line in lines[-len(ESTIMATORS) - 1 :]:
            print(*line, flush=True)
        with given.out.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *lines])


if __name__ == "__main__":
    main()
