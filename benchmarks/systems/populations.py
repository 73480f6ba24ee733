"""Population methods as published, and fbar's own: errors at a tolerance, error bars, and a claim of each paper.

    python benchmarks/systems/populations.py                      # about ten minutes; writes populations.csv
    python benchmarks/systems/populations.py --runs 20 --parts errors

- ``errors``: b² = E[(f̂ − f̄)²]/σ_f² against the exact value at the tolerance, over the means and second moments of the
  parameters, how often 95% intervals hold it, and how many estimates were not flagged, at 10⁴ simulations.
- ``error bars``: how often those of ``smc-replicas`` hold, from the variance between lineages.
- ``beaumont-2009``: the weights of partial rejection control (Sisson et al. 2007), which are equal for a flat prior and
  a symmetric kernel, are biased; population Monte Carlo corrects that.
- ``bonassi-west-2015``: adaptive weights raise the acceptance rate, with the kernel of population Monte Carlo and with
  that of a density estimate (Scott's rule); and what that does to the error.
- ``del-moral-2012``: the time for N particles grows as N, not N² as that of population Monte Carlo does; what replicas
  do to simulations, distinct particles and errors.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.problems import filippi
from fbar.problems.models.filippi import RingPosterior
from fbar.question.truth import Known, Listed, Reference
from fbar.running import drive

BUDGET, BLOCK = 10_000, 100
COLUMNS = ("part", "problem", "method", "quantity", "value", "error", "runs")
Row = tuple[str, str, str, str, float, float, int]


def noise(size: int, rng: np.random.Generator) -> np.ndarray:
    """½ N(0, 1) + ½ N(0, 1/100)."""
    return np.where(rng.random(size) < 0.5, 1.0, 0.1) * rng.standard_normal(size)


def mixture() -> fbar.Problem:
    """The toy of all three papers: θ ~ U(−10, 10), x ~ θ + ½ N(0, 1) + ½ N(0, 1/100), x* = 0."""
    return fbar.Problem(
        fbar.Prior(theta=stats.uniform(-10, 20)),
        lambda theta, rng: theta["theta"] + noise(theta.rows, rng),
        observed=0.0,
    )


def exact(tolerance: float) -> Reference:
    """Far from the prior's edges, θ given |x| ≤ ε is a uniform number of (−ε, ε) and the noise."""
    known = [Known("mean:theta", 0.0), Known("second_moment:theta", tolerance**2 / 3 + 0.505)]
    return Listed(known, "closed form")


@dataclass(frozen=True)
class Case:
    """A problem at a tolerance, with the exact values of its targets and their posterior standard deviations."""

    problem: fbar.Problem
    tolerance: float
    targets: tuple[fbar.Target, ...]
    truth: np.ndarray
    deviation: np.ndarray

    @staticmethod
    def of(problem: fbar.Problem, tolerance: float, reference: Reference, sample: fbar.Points) -> Case:
        names = list(problem.prior.names)
        targets = tuple(f(name) for f in (fbar.mean, fbar.second_moment) for name in names)
        truth = np.array([reference.expect(target)[0][0] for target in targets])
        deviation = np.array([sample[n].std() for n in names] + [(sample[n] ** 2).std() for n in names])
        return Case(problem, tolerance, targets, truth, deviation)


def cases() -> dict[str, Case]:
    rng, size = np.random.default_rng(0), 400_000
    e, ring = 0.1, RingPosterior(0.0, 10.0)
    theta = fbar.Points({"theta": rng.uniform(-e, e, size) + noise(size, rng)})
    return {
        "mixture": Case.of(mixture(), e, exact(e), theta),
        "filippi": Case.of(filippi(10.0), 10.0, ring, ring.sample(size, rng)),
    }


def methods(tolerance: float) -> dict[str, fbar.Method]:
    schedule, accepted = fbar.QuantileSchedule(tolerance=tolerance), BUDGET // 50
    return {
        "rejection": fbar.Rejection(tolerance=tolerance),
        "pmc": fbar.PMC(schedule, accepted),
        "adaptive-weights": fbar.AdaptiveWeights(schedule, accepted),
        "smc-replicas": fbar.ReplicaSMC(tolerance=tolerance),
        "smc-replicas, M = 5": fbar.ReplicaSMC(tolerance=tolerance, replicas=5),
        "smc-last": fbar.SMC(schedule, accepted, weights="last"),
        "smc": fbar.SMC(schedule, accepted),
        "targeted": fbar.Targeted(tolerance=tolerance),
    }


@dataclass(frozen=True)
class Scored:
    """What runs of a method gave, shape (runs, targets): ``square`` has squared errors over σ²."""

    value: np.ndarray
    error: np.ndarray
    square: np.ndarray
    held: np.ndarray
    trusted: np.ndarray
    runs: list[fbar.Run]


def scored(method: fbar.Method, case: Case, runs: int, budget: int | None = BUDGET) -> Scored:
    value, error, held, trusted, kept = [], [], [], [], []
    for seed in range(runs):
        run = method.start(case.problem, case.targets, seed, budget, block_size=BLOCK if budget else None)
        drive(run, history=False)
        at = run.posterior() if run.at_final_tolerance else run.posterior_at(case.tolerance)
        found = [at.expect(target) for target in case.targets]
        value.append([e.value for e in found])
        error.append([e.standard_error for e in found])
        low, high = np.array([e.interval(0.95) for e in found]).T
        held.append((low <= case.truth) & (case.truth <= high))
        trusted.append([e.trusted for e in found])
        kept.append(run)
    square = ((np.array(value) - case.truth) / case.deviation) ** 2
    return Scored(np.array(value), np.array(error), square, np.array(held), np.array(trusted), kept)


def averaged(name: tuple[str, str, str], quantity: str, values: np.ndarray) -> Row:
    """A mean over runs, with its standard error."""
    each = values.reshape(len(values), -1).mean(axis=1)
    return (*name, quantity, float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))), len(each))


def errors(runs: int) -> Iterator[Row]:
    for problem, case in cases().items():
        for name, method in methods(case.tolerance).items():
            found = scored(method, case, runs)
            key = ("errors", problem, name)
            yield averaged(key, "b2", found.square)
            yield (*key, "median b2", float(np.median(found.square.mean(axis=1))), float("nan"), runs)
            yield averaged(key, "coverage", found.held)
            yield averaged(key, "trusted", found.trusted)
            yield averaged(key, "reached", np.array([run.at_final_tolerance for run in found.runs]))


def error_bars(runs: int) -> Iterator[Row]:
    """smc-replicas as published, which ends after one population at the tolerance; five times as many runs."""
    for problem, case in cases().items():
        for size, replicas in ((200, 1), (200, 5), (1000, 1)):
            found = scored(fbar.ReplicaSMC(size, replicas, case.tolerance), case, 5 * runs, None)
            key = ("error bars", problem, f"smc-replicas, N = {size}, M = {replicas}")
            yield averaged(key, "coverage", found.held)
            yield averaged(key, "trusted", found.trusted)
            sure = found.held[found.trusted]
            if sure.size:
                yield (*key, "coverage where trusted", float(sure.mean()), float("nan"), sure.size)
            ratio = np.sqrt((found.error**2).mean(axis=0)) / found.value.std(axis=0, ddof=1)
            yield (*key, "standard error over standard deviation", float(ratio.mean()), float("nan"), 5 * runs)


def beaumont(runs: int) -> Iterator[Row]:
    """E[θ²] at ε = 0.1 after four populations of 1,000, over its true value."""
    tolerances, size, case = (2.0, 0.5, 0.25, 0.1), 1000, cases()["mixture"]

    def partial_rejection_control(seed: int) -> float:
        rng, population = np.random.default_rng(seed), np.zeros(0)
        for number, tolerance in enumerate(tolerances):
            kept = np.zeros(0)
            while kept.size < size:
                theta = rng.uniform(-10, 10, 20 * size)
                if number:
                    spread = np.sqrt(2 * population.var())
                    theta = rng.choice(population, 20 * size) + spread * rng.standard_normal(20 * size)
                near = (np.abs(theta + noise(theta.size, rng)) <= tolerance) & (np.abs(theta) < 10)
                kept = np.concatenate([kept, theta[near]])
            population = kept[:size]
        return float((population**2).mean())

    def population_monte_carlo(seed: int) -> float:
        run = fbar.PMC(tolerances, size).start(case.problem, case.targets, seed)
        drive(run, history=False)
        return float(run.posterior().value(case.targets[1])[0])

    both: dict[str, Callable[[int], float]] = {"prc": partial_rejection_control, "pmc": population_monte_carlo}
    for name, found in both.items():
        values = np.array([found(seed) for seed in range(runs)]) / case.truth[1]
        yield averaged(("beaumont-2009", "mixture", name), "second moment over its true value", values)


def bonassi_west(runs: int) -> Iterator[Row]:
    """Four populations of 1,000 down to ε = 0.1."""
    tolerances, size, case = (2.0, 0.5, 0.25, 0.1), 1000, cases()["mixture"]
    scott = size ** (-2 / (2 + 4))
    for words, scale in (("twice the variance", 2.0), ("Scott's rule", scott)):
        kernel = fbar.NormalKernel(scale, componentwise=True)
        for name, make in (("pmc", fbar.PMC), ("adaptive-weights", fbar.AdaptiveWeights)):
            found = scored(make(tolerances, size, kernel), case, runs, None)
            key = ("bonassi-west-2015", "mixture", f"{name}, {words}")
            stages = [run.stages()[1:] for run in found.runs]  # the first draws from the prior
            rates = np.array([sum(s.accepted for s in each) / sum(s.simulations for s in each) for each in stages])
            yield averaged(key, "acceptance rate", rates)
            yield averaged(key, "simulations", np.array([run.simulations for run in found.runs]))
            yield averaged(key, "b2", found.square)


def del_moral(runs: int) -> Iterator[Row]:
    case = cases()["mixture"]
    for name, make in (
        ("smc-replicas", lambda n: fbar.ReplicaSMC(n, tolerance=case.tolerance)),
        ("pmc", lambda n: fbar.PMC((2.0, 0.5, 0.25, case.tolerance), n)),
    ):
        for size in (2000, 8000, 32000):
            run = make(size).start(case.problem, case.targets, 1)
            begun = time.process_time()
            drive(run, history=False)
            run.posterior()
            seconds = time.process_time() - begun
            key = ("del-moral-2012", "mixture", f"{name}, N = {size}")
            yield (*key, "microseconds for a particle", 1e6 * seconds / size, float("nan"), 1)
    for replicas in (1, 5, 20):
        found = scored(fbar.ReplicaSMC(1000, replicas, case.tolerance), case, runs, None)
        key = ("del-moral-2012", "mixture", f"smc-replicas, M = {replicas}")
        distinct = [len(np.unique(run.population.at[run.population.alive])) for run in found.runs]
        yield averaged(key, "simulations", np.array([run.simulations for run in found.runs]))
        yield averaged(key, "distinct particles", np.array(distinct))
        yield averaged(key, "acceptance rate of the last moves", np.array([run.rates[-1] for run in found.runs]))
        yield averaged(key, "b2", found.square)
        yield averaged(key, "coverage", found.held)


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "errors": errors,
    "error bars": error_bars,
    "beaumont-2009": beaumont,
    "bonassi-west-2015": bonassi_west,
    "del-moral-2012": del_moral,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    with given.out.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for part in given.parts:
            for *key, value, error, runs in PARTS[part](given.runs):
                row = [*key, f"{value:.4g}", f"{error:.2g}", runs]
                print(*row, sep=", ", flush=True)
                table.writerow(row)


if __name__ == "__main__":
    main()
